"""Manifests drawn at random are read in both hosts alike, or in neither."""

from __future__ import annotations

import json
import os
import random
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import ephost
import pytest
from ephost.packages.variants import FORBIDDEN_OPTIONS, PATH_OPTIONS
from package_folders import load_host, outcome, write_json

PATHS = [
    *("", "v", "w", "c", "d.json", "c/component.json", "link", "away", "away/x", "w/up", "w/up/v", ".", ".."),
    *(
        "../x",
        "/tmp",
        "v/.",
        "./v",
        "missing",
        "missing/x",
        "URI",
        "URI/f",
        "URI/missing",
        "URI/../x",
        "v/o.json",
    ),
    *(
        "sha256:" + "0" * 64,
        "manifest.json",
        "o.json",
        "asset",
        "asset/sub",
        "é",
        "a\nb",
        "x" * 300,
        "\\",
        "c\\v",
    ),
    *("~", "//v"),
]
VALUES = [None, True, 1, 0, -1, 1.5, 1e30, 2**70, "1.0", "E", "cpu", "portable", "installed"]
ENTRIES = ["a", "", *PATH_OPTIONS, FORBIDDEN_OPTIONS[0]]


class Drawn:
    """Values from a seed."""

    def __init__(self, seed: int, uri: str) -> None:
        self.random = random.Random(seed)
        self.paths = [path.replace("URI", uri) for path in PATHS]
        self.uri = uri

    def path(self) -> str:
        return self.random.choice(self.paths)

    def often(self, chance: float) -> bool:
        return self.random.random() < chance

    def value(self, depth: int = 0) -> Any:
        kind = self.random.random()
        if kind < 0.5:
            return self.path()
        if kind < 0.6 or depth > 2:
            return self.random.choice(VALUES)
        count = self.random.randrange(3)
        if kind < 0.7:
            return [self.value(depth + 1) for _ in range(count)]
        return {self.random.choice([*self.paths, "ort", "ep"]): self.value(depth + 1) for _ in range(count)}

    def mostly(self, value: Any, wrong: float = 0.12) -> Any:
        return self.value() if self.often(wrong) else value

    def fields(self, **chances: Any) -> dict[str, Any]:
        """Some of these fields, each a (chance, value)."""
        return {key: self.mostly(value) for key, (chance, value) in chances.items() if self.often(chance)}

    def info(self) -> dict[str, Any]:
        return self.fields(
            model_file=(0.8, self.path()),
            session_options=(0.3, {self.random.choice(ENTRIES): self.mostly(self.path())}),
            provider_options=(0.3, {"a": self.mostly(self.path())}),
        )

    def variant(self) -> dict[str, Any]:
        executor = {self.random.choice(["ort", "o", ""]): self.info() if self.often(0.7) else self.path()}
        return self.fields(
            ep=(0.3, "E"),
            device=(0.3, "cpu"),
            compatibility_string=(0.2, "x"),
            additional_metadata=(0.3, self.value()),
            variant_directory=(0.3, self.path()),
            executor_info=(0.6, executor),
            unknown=(0.03, 1),
        )

    def component(self) -> dict[str, Any]:
        names = [self.random.choice("vwab") if self.often(0.8) else self.path() for _ in range(2)]
        return {
            "variants": self.mostly({name: self.mostly(self.variant(), 0.05) for name in names}, 0.05),
            **self.fields(component_name=(0.1, "c"), unknown=(0.03, 1)),
        }

    def manifest(self) -> dict[str, Any]:
        names = self.random.sample("cde", self.random.randrange(3))
        components = {name: self.component() if self.often(0.6) else self.path() for name in names}
        return {
            "schema_version": self.mostly("1.0", 0.05),
            "components": self.mostly(components, 0.03),
            **self.fields(
                layout=(0.5, self.random.choice(["portable", "installed"])),
                package_name=(0.1, "n"),
                shared_assets=(0.2, {self.random.choice([self.uri, "sha256:" + "1" * 64]): self.path()}),
                additional_metadata=(0.2, self.value()),
                unknown=(0.02, 1),
            ),
        }


@pytest.fixture
def uri() -> str:
    """A package's folder with something of every kind; the URI of the asset in it."""
    root = Path("package")
    for folder in ("c/v", "v", "w/x", "asset/sub"):
        (root / folder).mkdir(parents=True)
    (root / "asset/f").write_text("1")
    write_json(root / "c/component.json", {"variants": {"v": {"ep": "E"}}})
    write_json(root / "d.json", {"variants": {"w": {}}})
    write_json(root / "v/o.json", {"model_file": "m"})
    for link, target in (("link", "v"), ("away", "/tmp"), ("w/up", "../c")):
        (root / link).symlink_to(target)
    made = ephost.ModelPackage.compute_directory_hash("package/asset")
    shutil.copytree("package/asset", root / "shared_assets" / made.replace(":", "-"))
    return made


def _info(host: Any, given: dict[str, bool]) -> dict[str, Any]:
    found: dict[str, Any] = host.ModelPackage.open("package", **given).get_info()
    return found


def _context(host: Any) -> list[Any]:
    context = host.ModelPackageContext("package")
    return [
        [
            name,
            [(found, context.get_variant_ep_name(name, found)) for found in context.get_variant_names(name)],
        ]
        for name in context.get_component_names()
    ]


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
@pytest.mark.parametrize("seed", range(8))
def test_random_manifests_are_read_alike(seed: int, uri: str) -> None:
    hosts = [load_host(name) for name in ("onnxruntime", "ephost")]
    drawn = Drawn(seed, uri)
    opened = 0
    for _ in range(100):
        text = json.dumps(drawn.manifest(), ensure_ascii=drawn.often(0.5))
        if drawn.often(0.03):
            at = drawn.random.randrange(len(text))
            text = text[:at] + drawn.random.choice(["", "x", ",", "}", "\0"]) + text[at + 1 :]
        write_json(Path("package/manifest.json"), text)
        given = {"allow_external_paths": drawn.often(0.2), "strict_unknown_fields": drawn.often(0.8)}
        infos = [outcome(partial(_info, host, given)) for host in hosts]
        assert infos[0] == infos[1], text
        contexts = [outcome(partial(_context, host)) for host in hosts]
        assert contexts[0] == contexts[1], text
        opened += isinstance(infos[1], dict)
    assert opened > 20
