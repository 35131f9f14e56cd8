"""Casts, transposes, reshapes and slices in a row, and shapes that are put together in the run."""

from __future__ import annotations

import numpy as np

from ephost.messages import TensorProto
from ephost.model.graph import Node, TensorType, Value, permutation_of
from ephost.model.rules.matching import (
    Rewriting,
    Rule,
    data_of,
    dims_of,
    element_type_of,
    input_at,
    scalar_of,
)

_INDICES = {TensorProto.INT32, TensorProto.INT64}
_END = (1 << 31) - 1  # a slice's end from which on it means the end of the axis
# Merges casts in a row; off as in onnxruntime, since a narrow type on the way may be meant.
CAST_CHAINS = "CastChainElimination"


def _join_transposes(r: Rewriting, node: Node) -> bool:
    """Transposes in a row are one, or none."""
    first = r.maker(node.inputs[0], "Transpose")
    inner, outer = (permutation_of(first) if first is not None else None), permutation_of(node)
    if first is None or inner is None or outer is None or len(inner) != len(outer):
        return False
    source = first.inputs[0]
    if source is None or not r.graph.owns(source):
        return False
    r.graph.set_attribute(node, "perm", [inner[p] for p in outer])
    r.set_inputs(node, [source])
    return True


def _read_before_cast(r: Rewriting, node: Node) -> bool:
    """Read what the Cast in front reads: the shape of that is the same, and a second Cast may round less."""
    cast = r.maker(node.inputs[0], "Cast")
    if cast is None or cast.inputs[0] is None or not r.graph.owns(cast.inputs[0]):
        return False
    r.set_inputs(node, [cast.inputs[0]])
    return True


def _drop_slice(r: Rewriting, node: Node) -> bool:
    """A Slice from the first to the last of each axis is none."""
    if node.since_version < 10:
        starts, ends = node.attribute("starts", []), node.attribute("ends", [])
        axes, steps = node.attribute("axes"), None
    else:
        held = [data_of(input_at(node, at)) for at in range(1, 5)]
        if any(input_at(node, at) is not None and held[at - 1] is None for at in range(1, 5)):
            return False
        starts, ends, axes, steps = (None if d is None else d.reshape(-1).tolist() for d in held)
    dims, source = dims_of(node.inputs[0]), node.inputs[0]
    if dims is None or source is None or starts is None or ends is None:
        return False
    if any(start != 0 for start in starts) or any(step != 1 for step in steps or ()):
        return False
    for at, end in zip(range(len(ends)) if axes is None else axes, ends, strict=False):
        size = dims[at] if -len(dims) <= at < len(dims) else None
        if end < (size if isinstance(size, int) else _END):
            return False
    return r.pass_on(node, source)


def _constant_shape(r: Rewriting, node: Node) -> bool:
    """A Reshape to what is put together of its input's own dimensions and numbers: a constant says so."""
    shape, source, out = input_at(node, 1), node.inputs[0], node.outputs[0]
    if node.since_version < 5 or shape is None or shape.initializer is not None or source is None:
        return False
    if node.attribute("allowzero", 0) == 1 or out is None or not r.graph.owns(shape):
        return False
    parts = _parts_of_shape(r, shape, source)
    if parts is None or any(isinstance(p, int) and (p < -1 or p == 0) for p in parts):
        return False
    made = [p if isinstance(p, int) else 0 if p == ("dim", at) else -1 for at, p in enumerate(parts)]
    if made.count(-1) > 1 or (-1 not in parts and -1 in made and 0 in made):
        return False  # beside a dimension of size 0, -1 is no number
    constant = r.constant(shape.name, np.asarray(made, np.int64), TensorProto.INT64)
    r.set_inputs(node, [source, constant])
    r.informs = r.informs or not isinstance(out.type, TensorType) or out.type.static_dims is None
    return True


_Part = int | tuple[str, int] | None  # a number, a dimension of the source, or what is not known


def _parts_of_shape(r: Rewriting, value: Value, source: Value) -> list[_Part] | None:
    """What a list of dimensions is put together of, or None when its length is not known."""
    if (data := data_of(value)) is not None:
        return [int(n) for n in data.reshape(-1)] if data.dtype.kind == "i" else None
    node = value.producer
    length = dims_of(value)
    unknown: list[_Part] | None = None
    if length is not None and len(length) <= 1 and all(isinstance(d, int) for d in length):
        unknown = [None] * (int(length[0]) if length else 1)
    if node is None or node.domain or not r.graph.owns(value):
        return unknown
    if node.op_type == "Concat":
        joined: list[_Part] = []
        for part in node.inputs:
            found = _parts_of_shape(r, part, source) if part is not None else None
            if found is None:
                return None
            joined.extend(found)
        return joined
    of = node.inputs[0]
    if of is None:
        return unknown
    one = unknown is not None and len(unknown) == 1
    if (node.op_type in ("Unsqueeze", "Squeeze", "Reshape") and one) or (
        node.op_type == "Cast" and element_type_of(of) in _INDICES and element_type_of(value) in _INDICES
    ):
        return _parts_of_shape(r, of, source)
    if node.op_type == "Shape":
        dims = dims_of(of)
        if dims is None:
            return unknown
        whole: list[_Part] = [
            d if isinstance(d, int) else ("dim", at) if of is source else None for at, d in enumerate(dims)
        ]
        return whole[slice(node.attribute("start"), node.attribute("end"))]
    if node.op_type == "Gather":
        given, picked = _parts_of_shape(r, of, source), data_of(input_at(node, 1))
        if given is None or picked is None or ((picked < -len(given)) | (picked >= len(given))).any():
            return unknown
        return [given[int(i)] for i in picked.reshape(-1)]
    if node.op_type == "Slice" and node.since_version >= 10:
        given = _parts_of_shape(r, of, source)
        start, end = scalar_of(input_at(node, 1)), scalar_of(input_at(node, 2))
        stepped = input_at(node, 4) is not None and scalar_of(input_at(node, 4)) != 1
        if given is None or start is None or end is None or stepped:
            return unknown
        return given[int(start) : int(end)]
    return unknown


def _join_reshapes(r: Rewriting, node: Node) -> bool:
    """Of Reshapes in a row the last one counts, unless it speaks of the dimensions before it."""
    first = r.maker(node.inputs[0], "Reshape")
    target = data_of(input_at(node, 1))
    if first is None or target is None or first.inputs[0] is None or not r.graph.owns(first.inputs[0]):
        return False
    if node.since_version < 5 or r.only_reader(node.inputs[0]) is not node or (target == 0).any():
        return False
    r.set_inputs(node, [first.inputs[0], node.inputs[1]])
    return True


RULES = {
    "Cast": (Rule(CAST_CHAINS, _read_before_cast, ("Cast",)),),
    "Reshape": (
        Rule("ReshapeFusion", _join_reshapes, ("Reshape",)),
        Rule("ReshapeFusion", _constant_shape, ("Concat",)),
    ),
    "Shape": (Rule("PreShapeNodeElimination", _read_before_cast, ("Cast",)),),
    "Slice": (Rule("EliminateSlice", _drop_slice, ("Slice",)),),
    "Transpose": (Rule("TransposeOptimizer", _join_transposes, ("Transpose",)),),
}
