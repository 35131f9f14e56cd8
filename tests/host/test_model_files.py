"""What becomes of an open session when its model's file is changed: nothing."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

PROGRAM = """
import sys
import numpy as np
import ephost as ort
path, how, plugin = sys.argv[1:]
options = ort.SessionOptions()
if plugin:
    import importlib
    module = importlib.import_module("ephost.plugins." + plugin)
    ort.register_execution_provider_library(plugin, module.get_library_path())
    own = [d for d in ort.get_ep_devices() if d.ep_name == module.get_ep_name()]
    options.add_provider_for_devices(own, {})
session = ort.InferenceSession(path, options)
x = np.arange(2000, dtype=np.float32).reshape(2, 1000) / 1000
before = session.run(None, {"x": x})
with open(path, "r+b") as file:
    if how == "cut":
        file.truncate(4096)
    else:
        file.write(bytes(8_000_000))
after = session.run(None, {"x": x})
for first, second in zip(before, after, strict=True):
    np.testing.assert_array_equal(first, second)
print("the same")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model of some 8 MB with weights inside of its file, one of which is an output as it is."""
    random = np.random.default_rng(3)
    weights = {"w": (1000, 1000), "b": (2, 1000), "t": (1000, 500), "c": (1000, 250)}
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["m"]),
            helper.make_node("Add", ["m", "b"], ["a"]),
            helper.make_node("Concat", ["a", "b"], ["y"], axis=0),
            helper.make_node("Identity", ["t"], ["z"]),
            helper.make_node("Relu", ["c"], ["r"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 1000])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yzr"],
        [
            numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    made = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), made)
    return made


@pytest.mark.parametrize("how", ["cut", "overwritten"])
@pytest.mark.parametrize(
    ("plugin", "default"), [("", "1"), ("", "0"), ("sample_compiler", "0"), ("sample_kernels", "0")]
)
def test_a_session_does_not_depend_on_its_models_file(
    python: Callable, path: Path, how: str, plugin: str, default: str
) -> None:
    done = python("-c", PROGRAM, str(path), how, plugin, EPHOST_CPU_PLUGIN=default)
    assert (done.returncode, done.stdout.strip()) == (0, "the same"), done.stderr
