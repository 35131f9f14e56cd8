"""A model back into a file: what ``SessionOptions.optimized_model_filepath`` asks for."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import onnx

from ephost.errors import Fail, InvalidArgument
from ephost.model.graph import Graph, Model, Node, TensorType, Value
from ephost.model.load import type_proto

_LARGEST = (1 << 31) - 1  # bytes that protobuf can hold


def model_proto(model: Model, *, graph: bool = True) -> onnx.ModelProto:
    """The model, as it is now, as ONNX writes it, weights inside; with ``graph=False`` all but the graph."""
    about = model.metadata
    proto = onnx.ModelProto(
        ir_version=model.ir_version,
        producer_name=about.producer_name,
        producer_version=about.producer_version,
        domain=about.domain,
        model_version=about.version,
        doc_string=about.description,
        opset_import=[onnx.OperatorSetIdProto(domain=d, version=v) for d, v in model.opsets.items()],
        functions=list(model.functions.values()),
    )
    onnx.helper.set_model_props(proto, about.custom)
    if graph:
        proto.graph.CopyFrom(graph_proto(model.graph))
        proto.graph.doc_string = about.graph_description
    return proto


def graph_proto(graph: Graph) -> onnx.GraphProto:
    """A graph with its nodes, initializers and the types that are known."""
    held = {id(value) for value in (*graph.inputs, *graph.outputs)}
    return onnx.GraphProto(
        name=graph.name,
        node=[node_proto(node, graph_proto) for node in graph.nodes],
        initializer=[initializer_proto(value) for value in graph.initializers],
        input=[value_info(value) for value in graph.inputs],
        output=[value_info(value) for value in graph.outputs],
        value_info=[
            value_info(value)
            for value in graph.values.values()
            if value.type is not None and value.initializer is None and id(value) not in held
        ],
    )


def node_proto(node: Node, body: Callable[[Graph], onnx.GraphProto]) -> onnx.NodeProto:
    """A node as it is linked now; ``body`` makes the protos of its subgraphs."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    del proto.input[:], proto.output[:]
    proto.input.extend(value.name if value else "" for value in node.inputs)
    proto.output.extend(value.name if value else "" for value in node.outputs)
    for attribute in proto.attribute:
        if attribute.name in node.subgraphs:
            attribute.g.CopyFrom(body(node.subgraphs[attribute.name]))
    return proto


def value_info(value: Value) -> onnx.ValueInfoProto:
    """A value's name and type."""
    info = onnx.ValueInfoProto(name=value.name)
    if isinstance(value.type, TensorType):
        info.type.CopyFrom(type_proto(value.type.element_type, value.type.dims))
    elif value.type is not None:
        info.type.CopyFrom(value.type)
    return info


def initializer_proto(value: Value) -> onnx.TensorProto:
    """An initializer with its data."""
    array = value.initializer
    assert array is not None
    return onnx.numpy_helper.from_array(np.asarray(array), value.name)


def save(model: Model, path: str) -> None:
    """Write the model.

    Raises:
        InvalidArgument: ONNX Runtime's own format (``.ort``) is asked for, or the folder does not exist.
        Fail: the model is too large for one file.
    """
    if path.lower().endswith(".ort"):
        raise InvalidArgument(f"{path}: ONNX Runtime's own format is not written, only .onnx")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise InvalidArgument(f"the optimized model cannot be written to {path}: there is no folder {folder}")
    weights = sum(int(v.initializer.nbytes) for v in model.graph.initializers if v.initializer is not None)
    if weights > _LARGEST:
        raise Fail(f"the optimized model has {weights} bytes of weights: too large for {path}")
    onnx.save(model_proto(model), path)
