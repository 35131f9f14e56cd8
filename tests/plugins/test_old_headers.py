"""Plugins built against older headers, whose structs are shorter than the host's."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from old_headers import cut
from plugin_harness import ROOT, Case, Runner, build_plugin
from plugin_models import model, node

X = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="session")
def old(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path, int], Path]:
    """Builds the plugin in a folder against headers of an older API version."""

    def build(source: Path, version: int) -> Path:
        folder = tmp_path_factory.mktemp(f"api{version}")
        include = cut(ROOT / "include", folder / "include", version)
        return build_plugin(source, folder, f"-DAPI_VERSION={version}", include=include)

    return build


@pytest.mark.parametrize("version", [23, 24, 26])
def test_a_plugin_of_an_older_version_runs(
    version: int, old: Callable[[Path, int], Path], tmp_path: Path
) -> None:
    """onnxruntime 1.31 calls members without a look whether they are there, and ends."""
    library = old(ROOT / "tests" / "plugins" / "old_plugin", version)
    made = model([node("Neg", "x", "a"), node("Abs", "a", "y")], {"x": [2, 3]}, ["y", "a"])
    (outcome,), devices = Runner("ephost", library, "old_plugin", tmp_path).run([Case(made, [{"x": X}] * 3)])
    assert outcome.error is None, outcome.message
    assert [outputs["a"].tolist() for outputs in outcome.outputs] == [(-X).tolist()] * 3
    assert outcome.operators("old_plugin") == [["Neg"]]
    assert [device["vendor"] for device in devices] == ["ephost"]


def test_a_plugin_of_the_first_version_is_listed_and_its_ep_refused(
    old: Callable[[Path, int], Path], tmp_path: Path
) -> None:
    """Its struct of an EP has a name and nothing else."""
    library = old(ROOT / "tests" / "plugins" / "old_plugin", 22)
    made = model([node("Neg", "x", "y")], {"x": [2, 3]}, ["y"])
    (refused, fallen), devices = Runner("ephost", library, "old_plugin", tmp_path).run(
        [Case(made, [{"x": X}]), Case(made, [{"x": X}], fallback=True)]
    )
    assert [device["vendor"] for device in devices] == ["ephost"]
    assert refused.error == "EPFail" and "API version 22" in refused.message
    assert fallen.error is None and fallen.outputs[0]["y"].tolist() == (-X).tolist()


@pytest.mark.parametrize("name", ["sample_compiler", "sample_kernels"])
def test_the_samples_run_when_built_against_the_headers_that_they_ask_for(
    host: str, name: str, old: Callable[[Path, int], Path], tmp_path: Path
) -> None:
    library = old(ROOT / "plugins" / name, 24)
    made = model([node("Add", "x x", "a"), node("Mul", "a x", "y")], {"x": [2, 3]}, ["y"])
    outcome = Runner(host, library, name, tmp_path).run_one(Case(made, [{"x": X}]))
    assert [op for group in outcome.operators(name) for op in group] == ["Add", "Mul"]
    assert outcome.outputs[0]["y"].tolist() == (2 * X * X).tolist()
