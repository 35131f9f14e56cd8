"""Fixtures for the tests of the search for faults."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from ephost.bisection.slicing import Sliced
from searched_models import picture

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "plugins"))


@pytest.fixture(scope="session")
def faulty_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that tests/plugins/faulty_plugin makes."""
    from plugin_harness import build_plugin

    return build_plugin(
        ROOT / "tests" / "plugins" / "faulty_plugin", tmp_path_factory.mktemp("faulty_plugin")
    )


@pytest.fixture(scope="session")
def real_model() -> Callable[[str], Path]:
    """The path of one of the text recognition models of rapidocr-onnxruntime."""

    def find(name: str) -> Path:
        spec = importlib.util.find_spec("rapidocr_onnxruntime")
        if spec is None or not spec.submodule_search_locations:
            pytest.skip("rapidocr-onnxruntime is not installed")
        return next(
            p for p in Path(spec.submodule_search_locations[0]).rglob("*.onnx") if f"_{name}_" in p.name
        )

    return find


@pytest.fixture(scope="session")
def real_part(
    real_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """The first nodes of one of these models, as a model of their own."""
    made: dict[tuple[str, int], Path] = {}

    def part(name: str, nodes: int) -> Path:
        if (name, nodes) not in made:
            sliced = Sliced.load(real_model(name))
            feed = {"x": picture(name)}
            model, _, _ = sliced.cut([range(nodes)], feed)
            made[name, nodes] = tmp_path_factory.mktemp("part") / f"{name}.onnx"
            onnx.save(model, made[name, nodes])
        return made[name, nodes]

    return part
