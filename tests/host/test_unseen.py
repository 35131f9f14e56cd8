"""What inference is given when a graph has changed: no more than what it has not seen."""

from __future__ import annotations

from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from ephost.messages import TensorProto
from ephost.model import infer as infer_module
from ephost.model.graph import Graph, Model, tensor_type
from ephost.model.infer import infer, infer_again
from graphs import maker, model_of


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The operators of each graph that is given to onnx."""
    seen: list[list[str]] = []
    real = infer_module._infer_part

    def infer_part(model: Model, graph: Graph, loaded: bool = False) -> None:
        seen.append([node.op_type for node in graph.nodes])
        real(model, graph, loaded)

    monkeypatch.setattr(infer_module, "_infer_part", infer_part)
    return seen


def dims(model: Model, name: str) -> Any:
    kind: Any = model.graph.values[name].type
    return kind.dims


FED_SHAPE = """g (float[a, 6] x, int64[3] shape) => (y) {
    h = Relu(x)
    i = Softmax(h)
    r = Reshape(i, shape)
    s = Sigmoid(r)
    y = Softmax(s)
}"""


def test_a_graph_that_has_not_changed_is_not_inferred_again(parts: list[list[str]]) -> None:
    model = model_of(FED_SHAPE)
    assert len(parts) == 1
    infer_again(model)
    assert len(parts) == 1


def test_what_follows_from_a_new_constant_is_inferred_alone(parts: list[list[str]]) -> None:
    model = model_of(FED_SHAPE)
    assert isinstance(dims(model, "y")[0], str)  # a name that onnx made up
    model.graph.make_constant(model.graph.values["shape"], np.array([2, -1, 3]), TensorProto.INT64)
    infer_again(model)
    # The node that reads it; then all that follows, since that has told more.
    assert parts[1:] == [["Reshape"], ["Sigmoid", "Softmax"]]
    assert dims(model, "y")[0::2] == (2, 3)
    assert dims(model, "y") == dims(model, "r")


def test_a_constant_that_tells_nothing_is_the_end_of_it(parts: list[list[str]]) -> None:
    model = model_of(
        "g (float[a, 6] x, float[6] bias) => (y) { h = Softmax(x)  z = Add(h, bias)  y = Softmax(z) }"
    )
    model.graph.make_constant(model.graph.values["bias"], np.zeros(6, np.float32), TensorProto.FLOAT)
    infer_again(model)
    assert parts[1:] == [["Add"]]


def test_lists_are_computed_from_their_beginning(parts: list[list[str]]) -> None:
    """A reader of a list is given what computes it: onnx propagates numbers within one inference alone."""
    model = model_of(
        """g (float[a, 6] x, float[a, b] z) => (y)
           <int64[1] zero = {0}, int64[1] three = {3}, int64[1] rest = {-1}> {
             all = Shape(x)
             rows = Gather(all, zero)
             shape = Concat<axis = 0>(rows, three, rest)
             c = Softmax(z)
             y = Reshape(c, shape)
        }"""
    )
    z = model.graph.values["z"]
    z.type = tensor_type(TensorProto.FLOAT, ("a", 6))
    infer_again(model)
    assert parts[1] == ["Softmax"]
    assert parts[2] == ["Shape", "Gather", "Concat", "Reshape"]
    assert dims(model, "y")[:2] == ("a", 3)


def test_dimensions_that_onnx_names_in_different_parts_have_different_names() -> None:
    model = model_of(
        """g (float[a] x, float[b] z, int64[1] first, int64[1] second) => (y, w) {
             m = NonZero(x)
             y = Reshape(m, first)
             n = NonZero(z)
             w = Reshape(n, second)
        }"""
    )
    names = {dims(model, name)[-1] for name in ("m", "n", "y", "w")}
    assert len(names) == 4
    node = maker(model, "n")[0]
    model.graph.values["n"].type = None
    model.seen.pop(node)
    infer_again(model)
    assert dims(model, "n")[-1] not in {dims(model, name)[-1] for name in ("m", "y", "w")}


def test_what_the_branches_of_an_if_declare_is_its_own() -> None:
    """onnx's inference goes by what operators make; of custom ones that is what the model declares."""
    model = model_of(
        """g (bool c, float[2, 3] x) => (z) {
             y = If(c) <
                 then_branch = t () => (float[2, n] a) { a = f.Unknown(x) },
                 else_branch = e () => (float[2, n] b) { b = f.Unknown(x) }>
             z = Relu(y)
        }""",
        inferred=False,
    )
    infer(model)
    assert dims(model, "y") == dims(model, "z") == (2, "n")


def test_names_that_are_made_up_stay_inside(sample_compiler) -> None:
    """onnxruntime has None for them, and plugins see an empty name."""
    onnxruntime = pytest.importorskip("onnxruntime")
    text = """<ir_version: 10, opset_import: ["" : 21]>
      g (float[n, 4] x) => (float[n, 4] y, z) { y = Relu(x)  z = NonZero(y) }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.input[0].type.tensor_type.shape.dim[0].ClearField("dim_param")
    proto.graph.output[0].type.tensor_type.shape.dim[0].ClearField("dim_param")
    options = ephost.SessionOptions()
    options.add_provider_for_devices(sample_compiler, {})
    session = ephost.InferenceSession(proto.SerializeToString(), options)
    other = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    shapes = [output.shape for output in session.get_outputs()]
    assert shapes == [output.shape for output in other.get_outputs()] == [[None, 4], [2, None]]


def test_readers_of_a_shape_that_becomes_known_are_inferred_again() -> None:
    """onnx's inference propagates it to no older Reshape; a graph with an operator of no rule goes there."""
    model = model_of(
        """g (float[2, 3] x, float[6] w) => (y, u) <float[1] one = {1}, int64[1] flat = {-1}> {
             f = Reshape(x, flat)
             r = Add(f, w)
             shape = Shape(r)
             y = Expand(one, shape)
             u = Unique(x)
        }""",
        opset=11,
    )
    assert dims(model, "y") == (6,)
