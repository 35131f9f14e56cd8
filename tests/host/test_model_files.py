"""What becomes of an open session when its model's file is changed: nothing."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from ephost.model.load import load
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
        file.write(bytes(12_000_000))
after = session.run(None, {"x": x})
for first, second in zip(before, after, strict=True):
    np.testing.assert_array_equal(first, second)
print("the same")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model of some 12 MB with weights inside of its file: in the graph, in a node, in a body and in a node
    of that, and in a function. One is an output as it is."""
    random = np.random.default_rng(3)
    weights = {"w": (1000, 1000), "b": (2, 1000), "t": (1000, 500), "c": (1000, 250)}
    apart = {
        name: numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in {"n": (1000, 500), "v": (500, 500), "u": (500, 400), "f": (400, 300)}.items()
    }
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["n", "v"], ["i"]),
            helper.make_node("Constant", [], ["k"], value=apart["u"]),
            helper.make_node("MatMul", ["i", "k"], ["o"]),
        ],
        "body",
        [],
        [onnx.ValueInfoProto(name="o")],
        [apart["v"]],
    )
    graph = helper.make_graph(
        [
            helper.make_node("Constant", [], ["n"], value=apart["n"]),
            helper.make_node("ReduceMax", ["x"], ["p"], keepdims=0),
            helper.make_node("Cast", ["p"], ["q"], to=TensorProto.BOOL),
            helper.make_node("If", ["q"], ["s"], then_branch=body, else_branch=body),
            helper.make_node("F", ["s"], ["g"], domain="d"),
            helper.make_node("MatMul", ["x", "w"], ["m"]),
            helper.make_node("Add", ["m", "b"], ["a"]),
            helper.make_node("Concat", ["a", "b"], ["y"], axis=0),
            helper.make_node("Identity", ["t"], ["z"]),
            helper.make_node("Relu", ["c"], ["r"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 1000])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yzrsg"],
        [
            numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    nodes = [
        helper.make_node("Constant", [], ["w"], value=apart["f"]),
        helper.make_node("MatMul", ["a", "w"], ["b"]),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    function = helper.make_function("d", "F", ["a"], ["b"], nodes, opsets[:1])
    made = tmp_path / "model.onnx"
    model = helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=8)
    onnx.save(model, made)
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


def test_a_large_tensor_of_a_node_is_copied(tmp_path: Path) -> None:
    """Its operator may read it whenever it runs."""
    large = numpy_helper.from_array(np.ones((600, 600), np.float32))
    graph = helper.make_graph(
        [helper.make_node("F", [], ["y"], domain="d", table=large)], "g", [], [onnx.ValueInfoProto(name="y")]
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "model.onnx")
    (node,) = load(str(tmp_path / "model.onnx")).graph.nodes
    assert node.attribute("table").raw_data == large.raw_data
    assert isinstance(node.attribute("table").raw_data, bytes)
