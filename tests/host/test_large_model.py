"""A model of 3 GB opens with little memory beyond the pages of its data that are touched."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

pytestmark = pytest.mark.resources
ROWS, COLUMNS, LAYERS = 16384, 8192, 6  # 512 MiB each
PROGRAM = """
import json, sys
import numpy as np
import onnx, onnx.reference, ephost, ephost.session, ephost.reference
from ephost.plugins import sample_kernels
from host_state import resident_bytes
options = ephost.SessionOptions()
if sys.argv[2] == "kernels":
    ephost.register_execution_provider_library("kernels", sample_kernels.get_library_path())
    options.add_provider_for_devices(ephost.get_ep_devices(), {})
before = resident_bytes()
session = ephost.InferenceSession(sys.argv[1], options)
# Not getrusage's: that of the process that started this one counts as well there.
peak = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmHWM"))
inputs = len(session.get_inputs())
print(json.dumps({"grown": resident_bytes() - before, "peak": peak - before, "inputs": inputs}))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MatMul after MatMul on weights in one sparse file: holes, so that it takes no room on the disk."""
    folder = tmp_path_factory.mktemp("large")
    size = ROWS * COLUMNS * 4
    (folder / "weights.bin").touch()
    os.truncate(folder / "weights.bin", size * LAYERS)
    nodes, weights, last = [], [], "x"
    for layer in range(LAYERS):
        dims = [ROWS, COLUMNS] if layer % 2 == 0 else [COLUMNS, ROWS]
        weight = TensorProto(
            name=f"w{layer}", data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL
        )
        place = {"location": "weights.bin", "offset": str(layer * size), "length": str(size)}
        for key, value in place.items():
            weight.external_data.add(key=key, value=value)
        weights.append(weight)
        nodes.append(helper.make_node("MatMul", [last, f"w{layer}"], [f"y{layer}"], name=f"layer{layer}"))
        last = f"y{layer}"
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", ROWS])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["n", ROWS])],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    onnx.load(folder / "model.onnx", load_external_data=False)
    return folder / "model.onnx"


@pytest.mark.parametrize("where", ["fallback", "kernels"])
def test_opening_maps_the_data_and_does_not_copy_it(python: Callable, model: Path, where: str) -> None:
    assert (model.parent / "weights.bin").stat().st_size == 3 << 30
    done = python("-c", PROGRAM, str(model), where)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["inputs"] == 1
    assert found["grown"] < 200 << 20
    assert found["peak"] < 200 << 20  # nor was it copied in between
