"""Small models that the tests of the Python API run."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper


def model_bytes(
    nodes: list, inputs: list, outputs: list, initializers: list | None = None, **about: str
) -> bytes:
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers or [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    helper.set_model_props(model, about)
    return bytes(model.SerializeToString())


def tensor(name: str, *dims: int | str, element_type: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element_type, list(dims))


def add_and_relu(**about: str) -> bytes:
    """s = x + y, z = relu(s); x and y are float[N, 3]."""
    nodes = [
        helper.make_node("Add", ["x", "y"], ["s"], name="add"),
        helper.make_node("Relu", ["s"], ["z"], name="relu"),
    ]
    inputs = [tensor("x", "N", 3), tensor("y", "N", 3)]
    return model_bytes(nodes, inputs, [tensor("z", "N", 3), tensor("s", "N", 3)], **about)
