"""Stage 2: types and shapes of every value, by onnx's shape inference with data propagation.

Large weights stay out of it: they go in as inputs of known shape, since inference copies the whole model
several times.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx

from ephost._bindings import dtype_of
from ephost.errors import InvalidGraph
from ephost.model.contrib import DOMAIN, StandIns, is_contrib
from ephost.model.graph import Graph, Model, TensorType, Value, tensor_type
from ephost.model.load import type_proto, value_type

# Elements up to which a constant's value may matter to inference: shapes, axes, pads, ...; scales of Resize.
_SMALL_INTEGERS = 1024
_SMALL_OTHERS = 16


def infer(model: Model) -> None:
    """Fill in the types that are not known yet, subgraphs included."""
    _infer(model)
    # What custom operators make is for their own functions to say, and what follows from it for onnx again.
    while model.custom_ops and model.custom_ops.infer(model):
        _infer(model)


def _infer(model: Model) -> None:
    graph = model.graph
    if all(_is_known(value) for value in graph.values.values()) and not any(n.subgraphs for n in graph.nodes):
        return
    proto = onnx.ModelProto(ir_version=max(model.ir_version, 4))
    for domain, version in model.opsets.items():
        proto.opset_import.add(domain=domain, version=version)
    for domain in {node.domain for node in graph.nodes} - set(model.opsets):
        proto.opset_import.add(domain=domain, version=1)  # of nodes that EPs have fused
    proto.functions.extend(model.functions.values())
    target = proto.graph
    target.name = graph.name or "graph"
    nodes = [node.proto for node in graph.nodes]
    opset = model.opsets.get("", 1)
    if DOMAIN in model.opsets or any(is_contrib(node, opset) for node in nodes):
        stand_ins = StandIns(functools.partial(_rank_of, graph), opset)
        nodes = stand_ins.replace(nodes)
        proto.functions.extend(stand_ins.functions)
        for domain in sorted({function.domain for function in stand_ins.functions}):
            proto.opset_import.add(domain=domain, version=1)
    target.node.extend(nodes)
    for value in graph.values.values():
        if value.initializer is not None and value.is_constant and _may_matter(value.initializer):
            target.initializer.append(_small_tensor(value))
        elif value.initializer is not None or value.is_input:
            target.input.append(_value_info(value))
        elif value.type is not None and not value.is_output:
            target.value_info.append(_value_info(value))
    target.output.extend(_value_info(value) for value in graph.outputs)
    try:
        inferred = onnx.shape_inference.infer_shapes(
            proto, check_type=False, strict_mode=False, data_prop=True
        )
    except onnx.shape_inference.InferenceError as error:
        raise InvalidGraph(f"shape inference of '{graph.name}' failed: {error}") from error
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        raise InvalidGraph(f"the graph '{graph.name}' is not valid: {error}") from error
    _take(graph, inferred.graph)


def _rank_of(graph: Graph, name: str) -> int | None:
    value = graph.values.get(name)
    if value is None or not isinstance(value.type, TensorType) or value.type.dims is None:
        return None
    return len(value.type.dims)


def _is_known(value: Value) -> bool:
    if value.type is None:
        return False
    return not isinstance(value.type, TensorType) or (
        value.type.element_type != 0 and value.type.static_dims is not None
    )


def _may_matter(array: np.ndarray) -> bool:
    return array.size <= (_SMALL_INTEGERS if array.dtype.kind == "i" else _SMALL_OTHERS)


def _small_tensor(value: Value) -> onnx.TensorProto:
    array = value.initializer
    assert array is not None and isinstance(value.type, TensorType)
    if array.dtype.kind in "if" and array.dtype == dtype_of(value.type.element_type):
        return onnx.TensorProto(
            name=value.name, data_type=value.type.element_type, dims=array.shape, raw_data=array.tobytes()
        )
    if value.type.element_type == onnx.TensorProto.STRING:
        texts: list[Any] = [str(text).encode("utf-8", "surrogateescape") for text in array.ravel()]
        return onnx.helper.make_tensor(
            value.name,
            onnx.TensorProto.STRING,
            array.shape,
            texts,
        )
    return onnx.numpy_helper.from_array(array, value.name)


def _value_info(value: Value) -> onnx.ValueInfoProto:
    info = onnx.ValueInfoProto(name=value.name)
    if isinstance(value.type, TensorType):
        info.type.CopyFrom(type_proto(value.type.element_type, value.type.dims))
    elif value.type is not None:
        info.type.CopyFrom(value.type)
    return info


def _take(graph: Graph, proto: onnx.GraphProto) -> None:
    """Take over what inference found, of the bodies inside bodies too."""
    for infos in (proto.value_info, proto.output):
        for info in infos:
            value = graph.values.get(info.name)
            if value is None or value.initializer is not None:
                continue
            found = value_type(info.type)
            if found is not None:
                value.type = merge(value.type, found)
    with_bodies = [node for node in graph.nodes if node.subgraphs]
    by_outputs = {tuple(node.output): node for node in proto.node} if with_bodies else {}
    for node in with_bodies:
        if (found_node := by_outputs.get(tuple(node.proto.output))) is not None:
            for attribute in found_node.attribute:
                if attribute.name in node.subgraphs:
                    _take(node.subgraphs[attribute.name], attribute.g)


def merge(
    known: TensorType | onnx.TypeProto | None, found: TensorType | onnx.TypeProto
) -> TensorType | onnx.TypeProto:
    """The more precise of what was known and what was found; on contradiction what was known."""
    if known is found:
        return found
    if known is None or not isinstance(known, TensorType) or not isinstance(found, TensorType):
        return known or found
    element_type = known.element_type or found.element_type
    if known.dims is None or found.dims is None:
        return tensor_type(element_type, known.dims if known.dims is not None else found.dims)
    if len(known.dims) != len(found.dims):
        return tensor_type(element_type, known.dims)
    dims = tuple(
        f if isinstance(f, int) and not isinstance(k, int) else (k if k is not None else f)
        for k, f in zip(known.dims, found.dims, strict=True)
    )
    return tensor_type(element_type, dims)
