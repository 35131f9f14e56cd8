"""What onnx's inference is not asked about: nodes over which it would crash, or never end.

Its functions for a few operators read the type of an input without looking whether there is one. Such a node
is left out as long as the type is not known. Of the values in functions nothing is known, and some of their
nodes' attributes are for calls to give, which elsewhere are looked at before inference is asked: these are
left out there, and what they make is found when the function's body takes the place of its call.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from ephost.messages import FunctionProto, GraphProto, NodeProto
from ephost.model.graph import Graph, Node, all_graphs

_READ_BLINDLY = frozenset(
    (
        ("", "EyeLike"),
        ("", "RegexFullMatch"),
        ("ai.onnx.ml", "DictVectorizer"),
        ("ai.onnx.ml", "LabelEncoder"),
        ("ai.onnx.ml", "TreeEnsemble"),
    )
)
# Attributes by whose values inference goes, whatever they are: `check` refuses them in graphs.
_TRUSTED_IN_CALLS = frozenset(("equation", "num_outputs"))  # and in functions, but for those that calls give
_O = TypeVar("_O", FunctionProto, GraphProto)


def is_blind(node: Node) -> bool:
    """Whether inference would read the type of an input of which nothing is known."""
    return (
        (node.domain, node.op_type) in _READ_BLINDLY
        and bool(node.inputs)
        and node.inputs[0] is not None
        and node.inputs[0].type is None
    )


def blind_nodes(graph: Graph) -> list[Node]:
    """Those of a graph and of the bodies of its nodes."""
    return [node for part in all_graphs(graph) for node in part.nodes if is_blind(node)]


def carriers(graph: Graph, nodes: Iterable[Node]) -> list[Node]:
    """The nodes of a graph that are one of `nodes`, or have one in their bodies."""
    sought = set(nodes)
    if not sought:
        return []
    return [
        node
        for node in graph.nodes
        if node in sought
        or any(
            inner in sought
            for body in node.subgraphs.values()
            for part in all_graphs(body)
            for inner in part.nodes
        )
    ]


def asked_of_function(owner: _O) -> _O:
    """A function, or a body in one, without what inference is not asked about."""
    nodes = []
    # Of an input that the call leaves out, onnx before 1.21 has no place for a node to write its type to.
    inputs = set(owner.input) if isinstance(owner, FunctionProto) else set[str]()
    for node in owner.node:
        if not _is_asked(node) or not inputs.isdisjoint(node.output):
            continue
        if node.op_type == "LayerNormalization" and any(
            a.name == "axis" and a.i != -1 for a in node.attribute
        ):
            node = node.with_fields(output=node.output[:1])  # as for an input of unknown rank
        bodies = [
            attribute.with_fields(g=asked_of_function(attribute.g)) if attribute.HasField("g") else attribute
            for attribute in node.attribute
        ]
        nodes.append(node.with_fields(attribute=bodies) if bodies else node)
    return owner.with_fields(node=nodes)


def _is_asked(node: NodeProto) -> bool:
    domain = "" if node.domain == "ai.onnx" else node.domain
    return (domain, node.op_type) not in _READ_BLINDLY and not any(
        attribute.name == "batch_dims" or (attribute.ref_attr_name and attribute.name in _TRUSTED_IN_CALLS)
        for attribute in node.attribute
    )
