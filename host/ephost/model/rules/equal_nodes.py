"""Nodes that compute the same from the same become one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ephost.model.graph import Node, TensorType, Value
from ephost.model.rules.matching import Rewriting, is_free

NAME = "CommonSubexpressionElimination"
_SMALL = 64  # bytes up to which constants are compared by what they hold
_RANDOM = {
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}


def merge_equal_nodes(r: Rewriting) -> bool:
    """Let equal nodes be one; True when there were some, whose readers may be equal now."""
    seen: dict[Any, Node] = {}
    # By what is told soon; None: there were several, which are in `seen`. Most nodes are alone here.
    alone: dict[Any, Node | None] = {}
    found = False
    for node in r.graph.nodes:
        # Whatever another node could read as well has a second reader.
        first = node.inputs[0] if node.inputs else None
        if first is None or (len(first.consumers) < 2 and first.initializer is None):
            continue
        if node.subgraphs or node.op_type in _RANDOM or not is_free(node):
            continue
        if r.model.functions and (
            (node.domain, node.op_type, getattr(node.message, "overload", "")) in r.model.functions
        ):
            continue  # its body may draw random numbers
        if node.domain and node.domain != "ai.onnx.ml":
            continue
        soon = (node.op_type, None if _small(first) is not None else first)
        like = alone.setdefault(soon, node)
        if like is node:
            continue
        if like is not None:
            seen.setdefault(_key(like), like)
            alone[soon] = None
        other = seen.setdefault(_key(node), node)
        if other is not node and _merge(r, node, other):
            found = True
    r.graph.sweep()
    return found


def _key(node: Node) -> Any:
    inputs = tuple(None if v is None else _identity(v) for v in node.inputs)
    outputs = tuple(v is not None for v in node.outputs)
    return node.op_type, node.domain, node.since_version, inputs, outputs, node.attributes_key()


def _identity(value: Value) -> Any:
    data = _small(value)
    if data is None:
        return id(value)
    assert isinstance(value.type, TensorType)
    return value.type.element_type, data.shape, data.tobytes()


def _small(value: Value) -> np.ndarray | None:
    """The data of a constant that is compared by what it holds."""
    data = value.initializer
    if data is None or not value.is_constant or data.dtype == object or data.nbytes > _SMALL:
        return None
    return data


def _merge(r: Rewriting, node: Node, other: Node) -> bool:
    pairs = [(a, b) for a, b in zip(node.outputs, other.outputs, strict=True) if a and b]
    for mine, theirs in pairs:
        if not mine.is_replaceable or not r.graph.owns(mine) or not r.graph.owns(theirs):
            return False
    for mine, theirs in pairs:
        r.graph.read_instead(mine, theirs)
    r.drop(node)
    return True
