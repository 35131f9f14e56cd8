"""A node's attributes: as Python values, and with a function's own attributes put in their places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..message_helpers import get_attribute_value, to_array
from ..messages import AttributeProto, GraphProto, NodeProto
from .values import dense


def attribute_value(attribute: AttributeProto) -> Any:
    """Strings as `str`, tensors (sparse ones too) as arrays, graphs and types as their messages, numbers as
    numbers.
    """
    kind = AttributeProto
    value = get_attribute_value(attribute)
    if attribute.type == kind.STRING:
        return value.decode("utf-8")
    if attribute.type == kind.STRINGS:
        return [item.decode("utf-8") for item in value]
    if attribute.type == kind.TENSOR:
        return to_array(value)
    if attribute.type == kind.TENSORS:
        return [to_array(item) for item in value]
    if attribute.type == kind.SPARSE_TENSOR:
        return dense(value)
    return list(value) if attribute.type in (kind.INTS, kind.FLOATS) else value


def bind_attributes(node: NodeProto, bindings: Mapping[str, AttributeProto]) -> NodeProto:
    """The node of a function body as one call of the function sees it.

    An attribute that refers to one of the function's is replaced by the caller's (`bindings`), or left out
    where the caller gave none. Subgraphs are bound too. The node itself is never changed; it is returned
    where nothing refers.
    """
    if not _refers(node):
        return node
    bound: list[AttributeProto] = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            bound.append(_with_bound_bodies(attribute, bindings))
        elif (given := bindings.get(attribute.ref_attr_name)) is not None:
            bound.append(given.with_fields(name=attribute.name))
    return node.with_fields(attribute=bound)


def _with_bound_bodies(attribute: AttributeProto, bindings: Mapping[str, AttributeProto]) -> AttributeProto:
    def bind(graph: GraphProto) -> GraphProto:
        return graph.with_fields(node=[bind_attributes(inner, bindings) for inner in graph.node])

    if attribute.HasField("g"):
        return attribute.with_fields(g=bind(attribute.g))
    graphs = attribute.bodies()
    return attribute.with_fields(graphs=[bind(graph) for graph in graphs]) if graphs else attribute


def _refers(node: NodeProto) -> bool:
    return any(
        attribute.ref_attr_name or any(_refers(inner) for graph in attribute.bodies() for inner in graph.node)
        for attribute in node.attribute
    )
