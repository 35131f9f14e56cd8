"""Padding goes into the operators behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ephost.model.graph import Node, Value
from ephost.model.rules.matching import (
    Rewriting,
    Rule,
    data_of,
    dims_of,
    has_one_output,
    input_at,
    is_free,
    scalar_of,
)


def _spatial(node: Node, which: str, count: int) -> list[int]:
    return list(node.attribute(which, [0] * count))


def _fuse_pad(r: Rewriting, node: Node) -> bool:
    """Padding in front of convolutions and pools goes into their own."""
    out, source = node.outputs[0], node.inputs[0]
    mode = node.attribute("mode", b"constant")
    if out is None or source is None or out.is_output or not out.consumers or mode != b"constant":
        return False
    if node.since_version < 11:
        pads, number = list(node.attribute("pads", [])), node.attribute("value", 0.0)
    else:
        held = data_of(input_at(node, 1))
        if held is None or input_at(node, 3) is not None:
            return False
        pads = held.reshape(-1).tolist()
        number = 0.0 if input_at(node, 2) is None else scalar_of(input_at(node, 2))
    dims = dims_of(source)
    rank = len(pads) // 2
    if number is None or dims is None or len(dims) != rank or rank < 3 or min(pads) < 0:
        return False
    if any(pads[at] for at in (0, 1, rank, rank + 1)) or not r.graph.owns(source):
        return False
    spatial = pads[2:rank] + pads[rank + 2 :]
    readers = list(out.consumers)
    if not all(_takes_padding(reader, out, float(number), rank, spatial) for reader in readers):
        return False
    for reader in readers:
        before = _spatial(reader, "pads", len(spatial))
        r.graph.set_attribute(reader, "pads", [a + b for a, b in zip(before, spatial, strict=True)])
        if reader.attribute("auto_pad") is not None:
            r.graph.set_attribute(reader, "auto_pad", None)
        r.set_inputs(reader, [source if v is out else v for v in reader.inputs])
    return True


def _takes_padding(reader: Node, value: Value, number: float, rank: int, spatial: Sequence[int]) -> bool:
    """Whether the operator can pad what it reads itself, by as much more and with that number."""
    pads = [a + b for a, b in zip(_spatial(reader, "pads", len(spatial)), spatial, strict=True)]
    if reader.domain or not is_free(reader) or reader.inputs[0] is not value:
        return False
    if sum(v is value for v in reader.inputs) != 1 or reader.implicit_inputs:
        return False
    if reader.attribute("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        return False
    if reader.op_type == "Conv":
        return number == 0
    kernel = reader.attribute("kernel_shape", [])
    if len(kernel) != rank - 2 or any(p >= kernel[at % len(kernel)] for at, p in enumerate(pads)):
        return False
    if reader.op_type == "AveragePool":
        counts = bool(reader.attribute("count_include_pad", 0))
        return number == 0 and counts and not reader.attribute("ceil_mode", 0)
    if reader.op_type == "MaxPool":
        return number == -math.inf and not reader.attribute("ceil_mode", 0) and has_one_output(reader)
    return False


RULES = {"Pad": (Rule("PadFusion", _fuse_pad, ("Conv", "AveragePool", "MaxPool")),)}
