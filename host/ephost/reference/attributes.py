"""A node's attributes: as Python values, and with a function's own attributes put in their places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import helper, numpy_helper

from .values import dense


def attribute_value(attribute: onnx.AttributeProto) -> Any:
    """Strings as `str`, tensors (sparse ones too) as arrays, graphs and types as their messages, numbers as
    numbers.
    """
    kind = onnx.AttributeProto
    value = helper.get_attribute_value(attribute)
    if attribute.type == kind.STRING:
        return value.decode("utf-8")
    if attribute.type == kind.STRINGS:
        return [item.decode("utf-8") for item in value]
    if attribute.type == kind.TENSOR:
        return numpy_helper.to_array(value)
    if attribute.type == kind.TENSORS:
        return [numpy_helper.to_array(item) for item in value]
    if attribute.type == kind.SPARSE_TENSOR:
        return dense(value)
    return list(value) if attribute.type in (kind.INTS, kind.FLOATS) else value


def bind_attributes(node: onnx.NodeProto, bindings: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """The node of a function body as one call of the function sees it.

    An attribute that refers to one of the function's is replaced by the caller's (`bindings`), or left out
    where the caller gave none. Subgraphs are bound too. The node itself is never changed; it is returned
    where nothing refers.
    """
    if not _refers(node):
        return node
    bound = onnx.NodeProto()
    bound.CopyFrom(node)
    del bound.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            given = bindings.get(attribute.ref_attr_name)
            if given is not None:
                added = bound.attribute.add()
                added.CopyFrom(given)
                added.name = attribute.name
            continue
        added = bound.attribute.add()
        added.CopyFrom(attribute)
        for graph in [added.g] if added.HasField("g") else list(added.graphs):
            nodes = [bind_attributes(inner, bindings) for inner in graph.node]
            copies = [onnx.NodeProto.FromString(inner.SerializeToString()) for inner in nodes]
            del graph.node[:]
            graph.node.extend(copies)
    return bound


def _refers(node: onnx.NodeProto) -> bool:
    return any(
        attribute.ref_attr_name
        or (attribute.HasField("g") and any(map(_refers, attribute.g.node)))
        or any(_refers(inner) for graph in attribute.graphs for inner in graph.node)
        for attribute in node.attribute
    )
