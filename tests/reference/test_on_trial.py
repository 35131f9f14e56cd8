"""Operators that ONNX had on trial, on the fallback."""

from __future__ import annotations

from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from ephost.errors import NodeFailed
from onnx import helper

X = np.random.default_rng(0).standard_normal((2, 3, 5, 6)).astype(np.float32)


def model_of(op_type: str, attributes: dict[str, Any]) -> bytes:
    """A model of unknown rank, with the node in branches that say nothing of types."""

    def branch(name: str) -> onnx.GraphProto:
        node = helper.make_node(op_type, ["x"], [name], **attributes)
        return helper.make_graph([node], name, [], [onnx.ValueInfoProto(name=name)])

    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("yes"), else_branch=branch("no"))
    inputs = [helper.make_tensor_value_info("c", 9, []), helper.make_tensor_value_info("x", 1, None)]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, None)])
    opsets = [helper.make_opsetid("", 9)]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=5).SerializeToString()
    return model


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Affine", {"alpha": 2.0, "beta": 3.0}),
        ("Affine", {}),
        ("Crop", {"border": [1, 2, 2, 1]}),
        ("Crop", {"border": [1, 2, 0, 0], "scale": [2, 3]}),
        ("ImageScaler", {"scale": 2.0, "bias": [1.0, 2.0, 3.0]}),
        ("ParametricSoftplus", {"alpha": 2.0, "beta": 0.5}),
        ("Scale", {"scale": 3.0}),
        ("ScaledTanh", {"alpha": 2.0, "beta": 0.5}),
    ],
)
def test_they_give_what_onnxruntime_gives(op_type: str, attributes: dict[str, Any]) -> None:
    ort = pytest.importorskip("onnxruntime")
    model, feeds = model_of(op_type, attributes), {"c": np.array(True), "x": X}
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    (expected,), (found,) = session.run(None, feeds), ephost.InferenceSession(model).run(None, feeds)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("ImageScaler", {"bias": [1.0, 2.0]}),
        ("Crop", {}),
        ("Crop", {"border": [-1, 0, 0, 0]}),
        ("Crop", {"border": [0, 4, 0, 2]}),
        ("Crop", {"border": [0, 0, 0, 0], "scale": [6, 1]}),
    ],
)
def test_attributes_that_do_not_fit_are_refused(op_type: str, attributes: dict[str, Any]) -> None:
    with pytest.raises(NodeFailed, match=op_type):
        ephost.InferenceSession(model_of(op_type, attributes)).run(None, {"c": np.array(True), "x": X})


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Affine", {}),
        ("Crop", {"border": [0, 0, 0, 0]}),
        ("ImageScaler", {"bias": [1.0, 2.0, 3.0]}),
        ("ParametricSoftplus", {}),
        ("Scale", {}),
        ("ScaledTanh", {}),
    ],
)
def test_they_are_of_floating_point_numbers(op_type: str, attributes: dict[str, Any]) -> None:
    x = helper.make_tensor_value_info("x", onnx.TensorProto.INT32, X.shape)
    node = helper.make_node(op_type, ["x"], ["y"], "the node", **attributes)
    graph = helper.make_graph([node], "g", [x], [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 7)], ir_version=5)
    with pytest.raises(NodeFailed, match=r"the node.*int32 elements"):
        ephost.InferenceSession(model.SerializeToString()).run(None, {"x": X.astype(np.int32)})
