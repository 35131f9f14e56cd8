"""Each vendor's plugin that is installed, from end to end, on models of the onnx package and of an OCR one.

What is expected comes from onnxruntime in another process of the same test: with the same plugin where it can
be had there, else on its own CPU kernels.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from vendors import VENDORS, Vendor

HOST = Path(__file__).parents[2] / "host"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@dataclass
class Told:
    outputs: dict[str, list[np.ndarray]]
    devices: list[dict[str, str]]
    claimed: dict[str, int]
    nodes: dict[str, int]


def run(
    host: str, vendor: Vendor | None, models: dict[str, Path], feeds: dict[str, Any], folder: Path
) -> Told:
    folder = folder / f"{host}_{vendor.name if vendor else 'cpu'}"
    folder.mkdir()
    case = {
        "registration": vendor.registration if vendor else None,
        "library": str(vendor.library) if vendor else None,
        "options": vendor.options if vendor else {},
        "models": {name: str(path) for name, path in models.items()},
    }
    (folder / "case.json").write_text(json.dumps(case))
    for name, arrays in feeds.items():
        np.savez(folder / f"{name}.npz", **arrays)
    paths = [str(HOST), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("run_vendor.py")), host, str(folder)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={
            **os.environ,
            **(vendor.variables() if vendor else {}),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        },
    )
    assert done.returncode == 0, f"{host} ended with {done.returncode}:\n{done.stderr[-3000:]}"
    result = json.loads((folder / "result.json").read_text())
    outputs = {}
    for name in models:
        with np.load(folder / f"{name}.out.npz") as held:
            outputs[name] = [held[key] for key in held.files]
    return Told(outputs, result.get("devices", []), result["claimed"], result["nodes"])


def one_node(folder: Path) -> Path:
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "v", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "v"], ["y"])], "one", kinds[:2], kinds[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "one.onnx")
    return folder / "one.onnx"


@functools.cache
def ocr_models() -> dict[str, Path]:
    """The text-line models of rapidocr-onnxruntime: direction and recognition."""
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    if spec is None or not spec.submodule_search_locations:
        return {}
    found = sorted(Path(spec.submodule_search_locations[0], "models").glob("*.onnx"))
    return {kind: path for path in found for kind in ("cls", "rec") if f"_{kind}_" in path.name}


def picture(*shape: int) -> np.ndarray:
    """Smooth shapes between -1 and 1, the same each time."""
    noise = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for axis in (2, 3):
        for _ in range(3):
            noise = (noise + np.roll(noise, 1, axis)) / 2
    return noise / np.abs(noise).max()


def feeds_of(models: dict[str, Path]) -> dict[str, Any]:
    x = np.array([1, -2, 3, 0.5], np.float32)
    made: dict[str, Any] = {"one": {"x": x, "v": x[::-1].copy()}}
    if "light" in models:
        graph = onnx.load(models["light"], load_external_data=False).graph
        stored = {tensor.name for tensor in graph.initializer}
        (name,) = [value.name for value in graph.input if value.name not in stored]
        made["light"] = {name: picture(1, 3, 224, 224)}
    if "cls" in models:
        made["cls"] = {"x": picture(2, 3, 48, 192)}
    if "rec" in models:
        made["rec"] = {"x": picture(1, 3, 48, 320)}
    return {name: made[name] for name in models}


def distance(mine: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, relative to the largest number."""
    assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
    assert np.isfinite(mine).all()
    return float(np.abs(mine - theirs).max() / max(float(np.abs(theirs).max()), 1e-6))


@pytest.mark.parametrize("name", VENDORS)
def test_a_vendors_plugin_runs_models_as_onnxruntime_does(name: str, tmp_path: Path) -> None:
    vendor = VENDORS[name]
    if reason := vendor.missing():
        pytest.skip(reason)
    there = {"one": one_node(tmp_path), "light": LIGHT / "light_shufflenet.onnx", **ocr_models()}
    models = {model: path for model, path in there.items() if model in vendor.models}
    feeds = feeds_of(models)
    mine = run("ephost", vendor, models, feeds, tmp_path)
    assert mine.devices
    assert mine.claimed["one"] == 1
    if importlib.util.find_spec("onnxruntime") is None:
        pytest.skip("onnxruntime is not installed: there is nothing to compare with")
    with_plugin = not vendor.missing("onnxruntime")
    theirs = run("onnxruntime", vendor if with_plugin else None, models, feeds, tmp_path)
    if with_plugin:
        assert mine.devices == theirs.devices
    for model in models:
        # The weights of the light model are inputs that a caller may replace: some plugins leave it alone.
        expects_claims = theirs.claimed[model] > 0 if with_plugin else model != "light"
        assert mine.claimed[model] > 0 or not expects_claims, f"none of {mine.nodes[model]} nodes of {model}"
        limit = 1e-4 if with_plugin else vendor.tolerance
        for at, (a, b) in enumerate(zip(mine.outputs[model], theirs.outputs[model], strict=True)):
            assert distance(a, b) <= limit, f"output {at} of {model}"


def test_the_distance_of_different_numbers_is_not_small() -> None:
    ones = np.ones(3, np.float32)
    assert distance(ones, ones) == 0
    assert distance(ones, ones * 2) == 0.5
    with pytest.raises(AssertionError):
        distance(ones * np.nan, ones)
    with pytest.raises(AssertionError):
        distance(ones, ones[:2])
