"""The same packages in both hosts: what one writes the other reads, and writes the same, byte for byte."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from package_folders import load_host, outcome, tree, variant, write_json, write_manifest, write_source

Script = Callable[[Any], None]
COMPONENT = json.dumps({"variants": {"v": variant(), "w": {"ep": "E", "device": "gpu"}}})


def _new(host: Any) -> None:
    package = host.ModelPackage()
    package.set_metadata("n", "1.0", 'a "description" — with é\n')
    package.set_component_inline("c", COMPONENT)
    package.set_additional_metadata_json("manifest", json='{"a":[1,2.5e3,{"b":null}],"c":{}}')
    package.commit("package")


def _new_dense(host: Any) -> None:
    package = host.ModelPackage()
    package.set_layout("installed")
    package.set_component_inline("c", COMPONENT)
    package.commit("package", host.ModelPackageWriteMode.DENSE)


def _with_assets(host: Any) -> None:
    write_source(Path("source"))
    write_source(Path("more"), "x")
    package = host.ModelPackage()
    uri = package.add_shared_asset("source")
    package.set_component_inline("c", COMPONENT)
    package.set_variant_executor_info_inline(
        "c", "v", "ort", json.dumps({"model_file": f"{uri}/weights.bin"})
    )
    package.commit("package")
    package.add_shared_asset("more")
    package.commit()
    package.remove_shared_asset(uri)
    package.commit()


def _assets_added_and_removed(host: Any) -> None:
    write_source(Path("source"))
    write_manifest(Path("package"), shared_assets={})
    package = host.ModelPackage.open("package")
    package.remove_shared_asset(package.add_shared_asset("source"))
    package.commit()


def _asset_of_the_manifest(host: Any) -> None:
    write_source(Path("package/elsewhere"))
    uri = host.ModelPackage.compute_directory_hash("package/elsewhere")
    write_manifest(Path("package"), shared_assets={uri: "elsewhere"})
    host.ModelPackage.open("package").commit()
    host.ModelPackage.open("package").commit("dest")


def _changed(host: Any) -> None:
    write_json(Path("package/manifest.json"), '{"schema_version":1,"components":{"c":"c","d":"sub/d.json"}}')
    write_json(Path("package/c/component.json"), '{"variants":  {"v": {}}}')
    write_json(Path("package/sub/d.json"), '{"variants": {}, "component_name": "d"}')
    package = host.ModelPackage.open("package")
    package.set_component_external("e", "new/e.json")
    package.set_variant("e", "v", '{"executor_info": {"ort": {}}}')
    package.set_variant("c", "w", '{"ep": "E"}')
    package.remove_variant_executor_info("e", "v", "ort")
    package.set_component_inline("f", COMPONENT)
    package.set_metadata(description="d", name="n")
    package.set_layout("portable")
    package.commit()
    package.remove_component("d")
    package.set_component_inline("c", '{"variants": {}}')
    package.commit()


def _dense_without_folders(host: Any) -> None:
    write_manifest(Path("package"), {"c": "c.json"}, layout="portable")
    write_json(Path("package/c.json"), COMPONENT)
    host.ModelPackage.open("package").commit("dest", host.ModelPackageWriteMode.DENSE)
    host.ModelPackage.open("package").commit("other")
    host.ModelPackage.open("package").commit(mode=host.ModelPackageWriteMode.DENSE)


def _pruned(host: Any) -> None:
    write_manifest(
        Path("package"), {"c": "c", "d": {"variants": {"v": {}, "w": {"variant_directory": "x/y"}}}}
    )
    write_json(Path("package/c/component.json"), {"variants": {"v": {}}})
    for folder in ("c/v", "v", "x/y", "unknown"):
        write_json(Path("package", folder, "file"), "")
    package = host.ModelPackage.open("package")
    package.remove_variant("d", "w")
    package.prune()
    package.remove_variant("c", "v")
    package.prune()
    package.remove_component("c")
    package.prune()
    package.commit()


SCRIPTS: list[Script] = [
    _new,
    _new_dense,
    _with_assets,
    _assets_added_and_removed,
    _asset_of_the_manifest,
    _changed,
    _dense_without_folders,
    _pruned,
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_both_write_the_same_bytes(script: Script, own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees = []
    for name in ("onnxruntime", "ephost"):
        (own_folder / name).mkdir()
        monkeypatch.chdir(own_folder / name)
        script(load_host(name))
        trees.append(tree(own_folder / name))
    assert trees[0] == trees[1]


@pytest.mark.parametrize("writer", ["onnxruntime", "ephost"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_each_reads_what_the_other_writes(script: Script, writer: str) -> None:
    script(load_host(writer))
    for folder in ("package", "dest"):
        if not os.path.isdir(folder):
            continue
        theirs, mine = (load_host(name).ModelPackage.open(folder) for name in ("onnxruntime", "ephost"))
        assert theirs.get_info() == mine.get_info()
        for component in theirs.get_info()["components"]:
            name = component["name"]
            assert theirs.get_component_json(name) == mine.get_component_json(name)
            for found in component["variants"]:
                texts = [package.get_variant_json(name, found["name"]) for package in (theirs, mine)]
                assert texts[0] == texts[1]
        before = tree(Path(folder))
        mine.commit()
        shutil.copytree(folder, "copy")
        load_host("onnxruntime").ModelPackage.open("copy").commit()
        assert tree(Path(folder)) == before == tree(Path("copy"))
        shutil.rmtree("copy")


CHANGES = [
    ("set_metadata", ("n",)),
    ("set_metadata", ("",)),
    ("set_layout", ("installed",)),
    ("set_component_inline", ("c", '{"variants":{}}')),
    ("set_component_inline", ("c", COMPONENT)),
    ("set_component_external", ("c", "c.json")),
    ("set_component_external", ("d", "d")),
    ("set_variant", ("c", "v", '{"ep":"E"}')),
    ("set_variant", ("c", "new", "{}")),
    ("set_variant", ("c", "new", '{"variant_directory":"v"}')),
    ("set_variant_executor_info_inline", ("c", "v", "ort", '{"model_file":"x"}')),
    ("set_variant_executor_info_external", ("c", "v", "z", "z.json")),
    ("remove_variant_executor_info", ("c", "v", "ort")),
    ("remove_variant", ("c", "v")),
    ("remove_component", ("c",)),
    ("add_shared_asset", ("../source",)),
    ("remove_shared_asset", ("URI",)),
    ("set_additional_metadata_json", ("component", "c", None, "[1]")),
    ("set_additional_metadata_json", ("manifest",)),
    ("commit", ()),
    ("prune", ()),
]


@pytest.mark.parametrize("first", range(len(CHANGES)))
def test_two_changes_do_the_same_in_both(
    first: int, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change, and each after another one; then a commit, and what reads it."""
    hosts = [load_host(name) for name in ("onnxruntime", "ephost")]
    write_source(own_folder / "source")
    uri = hosts[1].ModelPackage.compute_directory_hash("source")
    for second in range(len(CHANGES)):
        seen = []
        for host in hosts:
            work = own_folder / f"{host.__name__}-{second}"
            write_source(work / "source")
            write_package(work / "package")
            monkeypatch.chdir(work / "package")
            seen.append((_changed_twice(host, (CHANGES[first], CHANGES[second]), uri), tree(work)))
        assert seen[0] == seen[1], (CHANGES[first], CHANGES[second])


def write_package(root: Path) -> None:
    info = {"executor_info": {"ort": {"model_file": "m"}}}
    write_manifest(root, {"c": {"variants": {"v": info, "old": {}}}})
    write_json(root / "c.json", {"variants": {"v": {}}})
    for folder in ("v", "old", "d"):
        write_json(root / folder / "file", "")


def _changed_twice(host: Any, changes: Sequence[tuple[str, tuple[Any, ...]]], uri: str) -> str:
    """What two changes and a commit answer, and what is then there."""
    root = str(Path.cwd())
    package = host.ModelPackage.open(root)
    answers = []
    for name, arguments in (*changes, ("commit", ()), ("get_info", ())):
        given = [uri if argument == "URI" else argument for argument in arguments]
        answers.append(outcome(partial(getattr(package, name), *given)))
    answers.append(outcome(lambda: host.ModelPackage.open(root).get_info()))
    return json.dumps(answers).replace(root, "ROOT")
