"""Elementwise operators that say the same in fewer nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ephost._bindings import dtype_of
from ephost.model.graph import Node
from ephost.model.rules.matching import Rewriting, Rule, element_type_of, input_at, scalar_of


def bounds_of_clip(node: Node) -> tuple[Any, Any] | None:
    """The limits of a Clip, None for one that it has not; None when they are not known."""
    if node.since_version < 11:
        return node.attribute("min"), node.attribute("max")
    found = []
    for at in (1, 2):
        value = input_at(node, at)
        number = scalar_of(value)
        if value is not None and number is None:
            return None
        found.append(number)
    return found[0], found[1]


def _fuse_relu_clip(r: Rewriting, node: Node) -> bool:
    """A Relu in front of a Clip: the Clip's lower limit is 0 or more."""
    relu = r.maker(node.inputs[0], "Relu")
    if relu is None or r.only_reader(node.inputs[0]) is not node:
        return False
    bounds = bounds_of_clip(node)
    if bounds is None:
        return False
    source, lower = relu.inputs[0], bounds[0]
    if node.since_version < 11:
        r.graph.set_attribute(node, "min", max(0.0, -math.inf if lower is None else float(lower)))
        r.set_inputs(node, [source])
        return True
    least = input_at(node, 1)
    if lower is None or lower < 0:
        like = least.name if least is not None else f"{relu.name or 'clip'}_min"
        made = np.zeros((), np.float32 if lower is None else lower.dtype)
        kind = element_type_of(source)
        if lower is None:
            dtype = dtype_of(kind)
            if dtype is None:
                return False
            made = made.astype(dtype)
        least = r.constant(like, made, kind)
    r.set_inputs(node, [source, least, *node.inputs[2:]])
    return True


def _drop_not(r: Rewriting, node: Node) -> bool:
    """``Where(Not(c), a, b)`` is ``Where(c, b, a)``."""
    inverted = r.maker(node.inputs[0], "Not")
    if inverted is None or inverted.inputs[0] is None or not r.graph.owns(inverted.inputs[0]):
        return False
    r.set_inputs(node, [inverted.inputs[0], node.inputs[2], node.inputs[1]])
    return True


RULES = {
    "Clip": (Rule("FuseReluClip", _fuse_relu_clip, ("Relu",)),),
    "Where": (Rule("NotWhereFusion", _drop_not, ("Not",)),),
}
