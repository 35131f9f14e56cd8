"""Small models for the plugins' tests."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dims = Sequence[int | str] | None


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Dims],
    outputs: Sequence[str],
    constants: dict[str, np.ndarray] | None = None,
    *,
    opset: int = 17,
    element: int = TensorProto.FLOAT,
    infer: bool = True,
) -> onnx.ModelProto:
    """A model of one graph; outputs get the type ``element`` and whatever shape inference finds."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(name, element, dims) for name, dims in inputs.items()],
        [helper.make_tensor_value_info(name, element, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made, data_prop=True) if infer else made


def node(op_type: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
    """``node("Add", "x y", "z")``: names split at blanks; the node is named after its first output, unless it
    gets a ``name``.
    """
    names = outputs.split()
    name = attributes.pop("name", names[0] + "_node")
    return helper.make_node(op_type, inputs.split(), names, name=name, **attributes)


def chain(op_type: str, length: int, dims: Dims, constant: np.ndarray) -> onnx.ModelProto:
    """x -> op(x, c) -> op(.., c) -> … -> y"""
    names = ["x", *(f"v{i}" for i in range(length - 1)), "y"]
    nodes = [node(op_type, f"{a} c", b) for a, b in pairwise(names)]
    return model(nodes, {"x": dims}, ["y"], {"c": constant})
