"""Vendors' plugins come and go without leaving more behind than in onnxruntime, and open side by side.

``EPHOST_SOAK_ROUNDS`` is how often each comes and goes; by default a few times, since some take seconds.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from vendors import VENDORS, Vendor, variables_of

HOST = Path(__file__).parents[2] / "host"
ROUNDS = {"nxrt": 60, "ggml": 20, "openvino": 15, "qnn": 8, "webgpu": 4}
NOISE = 12 << 20  # bytes by which a process may grow once: arenas of threads, caches


def vendor_or_skip(name: str) -> Vendor:
    if missing := VENDORS[name].missing():
        pytest.skip(missing)
    return VENDORS[name]


def small_network(folder: Path) -> Path:
    """What every plugin takes."""
    weights = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["x", "x"], ["a"]),
            helper.make_node("MatMul", ["a", "w"], ["c"]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("Mul", ["r", "r"], ["y"]),
        ],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 8, 8])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "small.onnx")
    return folder / "small.onnx"


def told_by(script: str, *arguments: object, vendors: list[Vendor], timeout: float) -> Any:
    """What a script of this folder prints in a process of its own."""
    paths = [str(HOST), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(script)), *(str(a) for a in arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, **variables_of(vendors), "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )
    assert done.returncode == 0, f"{script} ended with {done.returncode}:\n{done.stderr[-3000:]}"
    return json.loads(next(line for line in reversed(done.stdout.splitlines()) if line.startswith("{")))


@pytest.mark.parametrize("name", VENDORS)
def test_a_plugin_that_comes_and_goes_leaves_only_its_own_losses(name: str, tmp_path: Path) -> None:
    vendor = vendor_or_skip(name)
    rounds = int(os.environ.get("EPHOST_SOAK_ROUNDS", ROUNDS[name]))
    told = told_by(
        "soak_vendor.py",
        *("ephost", name, small_network(tmp_path), rounds),
        vendors=[vendor],
        timeout=max(250, 12 * rounds),
    )
    assert told["claimed"] > 0
    # What the plugin loses is lost in its own process, where it has one.
    is_isolated = os.environ.get("EPHOST_ISOLATED", "0") not in ("", "0")
    lost = {} if is_isolated else vendor.lost_handles
    assert told["handles"] == {kind: count * rounds for kind, count in lost.items()}
    grown = told["resident"][-1] - told["resident"][0]
    assert grown <= NOISE + rounds * vendor.lost_bytes, told["resident"]
    assert max(told["threads"]) <= told["threads"][0] + 1, told["threads"]
    assert told["files"][-1] - told["files"][0] <= rounds * vendor.lost_files, told["files"]


def test_a_plugin_loads_after_one_that_brought_a_runtime_of_its_own(tmp_path: Path) -> None:
    """QNN's opens libraries with a C++ runtime for everybody; OpenVINO's must not be bound to that."""
    vendors = [vendor_or_skip(name) for name in ("qnn", "openvino")]
    told = told_by(
        *("side_by_side.py", small_network(tmp_path), 1, "--in-turn", "qnn", "openvino"),
        vendors=vendors,
        timeout=250,
    )
    assert told["sessions"] == {"qnn": 1, "openvino": 1}


@pytest.mark.parametrize("pair", list(itertools.combinations(VENDORS, 2)), ids="+".join)
def test_two_threads_open_sessions_on_different_plugins_at_once(
    pair: tuple[str, str], tmp_path: Path
) -> None:
    vendors = [vendor_or_skip(name) for name in pair]
    told = told_by("side_by_side.py", small_network(tmp_path), 5, *pair, vendors=vendors, timeout=250)
    for name in pair:
        assert told["claimed"][name] > 0
        assert told["sessions"][name] >= 5
        assert told["distance"][name] <= VENDORS[name].tolerance
    assert told["overlaps"] > 0, "the threads took turns"
