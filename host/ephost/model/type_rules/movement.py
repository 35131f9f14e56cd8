"""Operators that move elements, or make them by the numbers of a shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ephost.messages import TensorProto
from ephost.model.graph import Dim, Node, tensor_type
from ephost.model.type_rules.registry import (
    LONGEST,
    Knowledge,
    List,
    Made,
    Types,
    UnknownRank,
    Unsure,
    attribute_text,
    axes_of,
    axis_of,
    broadcast,
    constant,
    dims_of,
    given,
    input_at,
    integers,
    joined,
    product,
    rank_of_list,
    rule,
    same,
    times,
)

_END = (1 << 31) - 1  # a slice's end from which on it means the end of the axis
_INT64 = TensorProto.INT64
_LARGE = 1 << 62  # sizes that no tensor has


def _shape_of(node: Node, types: Types, known: Knowledge, at: int) -> List:
    """The numbers of an input that is a shape; of those that are not known None."""
    numbers = known.numbers(input_at(node, at))
    count = rank_of_list(given(types, at))
    if count > LONGEST:  # a model may declare any
        raise Unsure
    return (None,) * count if numbers is None else numbers


@rule("Transpose", of_first=True)
def _transpose(node: Node, types: Types, known: Knowledge) -> Made:
    dims = dims_of(types, 0)
    order = node.attribute("perm")
    order = list(range(len(dims)))[::-1] if order is None else order
    if sorted(order) != list(range(len(dims))):
        raise Unsure
    return [same(given(types, 0), [dims[at] for at in order])]


@rule("Reshape", of_first=True)
def _reshape(node: Node, types: Types, known: Knowledge) -> Made:
    kind = given(types, 0)
    shape = _shape_of(node, types, known, 1) if node.since_version >= 5 else node.attribute("shape", [])
    if kind.dims is None:
        return [same(kind, [size if isinstance(size, int) and size > 0 else None for size in shape])]
    dims, made = kind.dims, list(shape)
    kept: set[int] = set()  # axes that stay, by a 0
    if not node.attribute("allowzero", 0):
        for at, size in enumerate(shape):
            if size == 0:
                if at >= len(dims):
                    raise Unsure
                made[at] = dims[at]
                kept.add(at)
    left = [at for at, size in enumerate(shape) if isinstance(size, int) and size < 0]
    if left:
        if len(left) > 1 or shape[left[0]] != -1:
            raise Unsure
        made[left[0]] = None
        whole = product([dim for at, dim in enumerate(dims) if at not in kept])
        rest = product([size for at, size in enumerate(made) if at not in kept and at != left[0]])
        if isinstance(whole, int) and isinstance(rest, int):
            if rest == 0 or whole % rest:
                raise Unsure
            made[left[0]] = whole // rest
    before, after = product(dims), product(made)
    if isinstance(before, int) and isinstance(after, int) and before != after:
        raise Unsure
    return [same(kind, made)]


@rule("Flatten", of_first=True)
def _flatten(node: Node, types: Types, known: Knowledge) -> Made:
    dims, axis = dims_of(types, 0), node.attribute("axis", 1)
    if not -len(dims) <= axis <= len(dims):
        raise Unsure
    axis += len(dims) if axis < 0 else 0
    return [same(given(types, 0), (product(dims[:axis]), product(dims[axis:])))]


@rule("Squeeze", of_first=True)
def _squeeze(node: Node, types: Types, known: Knowledge) -> Made:
    dims = dims_of(types, 0)
    axes = axes_of(node, known, 1, input_since=13)
    if axes is None:
        if not all(isinstance(dim, int) for dim in dims):
            raise UnknownRank  # of what is left
        axes = [at for at, dim in enumerate(dims) if dim == 1]
    chosen = {axis_of(axis, len(dims)) for axis in axes}
    if any(isinstance(dims[at], int) and dims[at] != 1 for at in chosen):
        raise Unsure
    return [same(given(types, 0), [dim for at, dim in enumerate(dims) if at not in chosen])]


@rule("Unsqueeze", of_first=True)
def _unsqueeze(node: Node, types: Types, known: Knowledge) -> Made:
    dims = list(dims_of(types, 0))
    axes = axes_of(node, known, 1, input_since=13)
    if axes is None:
        raise Unsure
    rank = len(dims) + len(axes)
    chosen = sorted({axis_of(axis, rank) for axis in axes})
    if len(chosen) != len(axes):
        raise Unsure
    for at in chosen:
        dims.insert(at, 1)
    return [same(given(types, 0), dims)]


@rule("Concat", since=4, of_first=True)
def _concat(node: Node, types: Types, known: Knowledge) -> Made:
    kind, first = given(types, 0), list(dims_of(types, 0))
    if node.attribute("axis") is None:
        raise Unsure
    axis = axis_of(node.attribute("axis"), len(first))
    length: Dim = first[axis]
    for at in range(1, len(types)):
        dims = dims_of(types, at)
        if len(dims) != len(first) or given(types, at).element_type != kind.element_type:
            raise Unsure
        more = dims[axis]
        length = length + more if isinstance(length, int) and isinstance(more, int) else None
        first = [dim if place == axis else joined(dim, dims[place]) for place, dim in enumerate(first)]
    first[axis] = length
    return [same(kind, first)]


@rule("Split", since=2, of_first=True)
def _split(node: Node, types: Types, known: Knowledge) -> Made:
    kind, dims = given(types, 0), dims_of(types, 0)
    axis, count = axis_of(node.attribute("axis", 0), len(dims)), len(node.outputs)
    value = input_at(node, 1)
    sizes: Sequence[Dim] | None
    if node.since_version < 13:
        sizes = node.attribute("split")
    else:
        sizes = None if value is None else known.numbers(value) or [None] * count
    length = dims[axis]
    if sizes is None:
        if not isinstance(length, int):
            sizes = [None] * count
        elif node.since_version >= 18:
            if node.attribute("num_outputs", 0) != count:
                raise Unsure
            part = -(-length // count)
            sizes = [part] * (count - 1) + [length - part * (count - 1)]
        elif length % count:
            raise Unsure
        else:
            sizes = [length // count] * count
    known_sizes = [size for size in sizes if isinstance(size, int)]
    if len(sizes) != count or min(known_sizes, default=0) < 0:
        raise Unsure
    if isinstance(length, int) and len(known_sizes) == count and sum(known_sizes) != length:
        raise Unsure
    return [same(kind, (*dims[:axis], size, *dims[axis + 1 :])) for size in sizes]


@rule("Slice", of_first=True)
def _slice(node: Node, types: Types, known: Knowledge) -> Made:
    kind, dims = given(types, 0), list(dims_of(types, 0))
    starts: Sequence[Dim] | None
    ends: Sequence[Dim] | None
    axes: Sequence[Dim] | None
    if node.since_version < 10:
        starts, ends, axes, steps = (
            node.attribute("starts"),
            node.attribute("ends"),
            node.attribute("axes"),
            None,
        )
        if starts is None or ends is None:
            raise Unsure
    else:
        starts, ends = known.numbers(input_at(node, 1)), known.numbers(input_at(node, 2))
        try:
            count = rank_of_list(given(types, 1))
        except UnknownRank:
            return [same(kind, [None] * len(dims))]
        starts, ends = starts or [None] * count, ends or [None] * count
        axes, steps = (
            None if input_at(node, at) is None else integers(known, input_at(node, at)) for at in (3, 4)
        )
        if (axes is None and input_at(node, 3) is not None) or (
            steps is None and input_at(node, 4) is not None
        ):
            return [same(kind, [None] * len(dims))]
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise Unsure
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if not isinstance(axis, int) or step == 0:
            raise Unsure
        at = axis_of(axis, len(dims))
        dims[at] = _left(dims[at], start, end, step)
    return [same(kind, dims)]


def _left(dim: Dim, start: Dim, end: Dim, step: int) -> Dim:
    if start == 0 and step == 1 and (end == dim or (isinstance(end, int) and end >= _END)):
        return dim
    if not isinstance(dim, int) or not isinstance(start, int) or not isinstance(end, int):
        return None
    return len(range(dim)[slice(start, end, step)])


@rule("Gather", of_first=True)
def _gather(node: Node, types: Types, known: Knowledge) -> Made:
    dims, indices = dims_of(types, 0), dims_of(types, 1)
    axis = axis_of(node.attribute("axis", 0), len(dims))
    return [same(given(types, 0), dims[:axis] + indices + dims[axis + 1 :])]


@rule("GatherElements", of_first=True)
def _gather_elements(node: Node, types: Types, known: Knowledge) -> Made:
    return [same(given(types, 0), dims_of(types, 1))]


@rule("GatherND", of_first=True)
def _gather_nd(node: Node, types: Types, known: Knowledge) -> Made:
    dims, indices = dims_of(types, 0), dims_of(types, 1)
    batch = node.attribute("batch_dims", 0)
    if not indices or not isinstance(indices[-1], int) or not 0 <= batch + indices[-1] <= len(dims):
        raise Unsure
    return [same(given(types, 0), indices[:-1] + dims[batch + indices[-1] :])]


@rule("Expand", of_first=True)
def _expand(node: Node, types: Types, known: Knowledge) -> Made:
    shape = _shape_of(node, types, known, 1)
    if any(isinstance(size, int) and size < 0 for size in shape):
        raise Unsure
    return [same(given(types, 0), broadcast([dims_of(types, 0), shape]))]


@rule("Tile", since=6, of_first=True)
def _tile(node: Node, types: Types, known: Knowledge) -> Made:
    dims = dims_of(types, 0)
    repeats = known.numbers(input_at(node, 1)) or (None,) * len(dims)
    if len(dims) != len(repeats) or any(isinstance(number, int) and number < 0 for number in repeats):
        raise Unsure
    return [same(given(types, 0), [times(dim, number) for dim, number in zip(dims, repeats, strict=True)])]


@rule("Pad", since=2, of_first=True)
def _pad(node: Node, types: Types, known: Knowledge) -> Made:
    kind, dims = given(types, 0), list(dims_of(types, 0))
    if node.since_version < 11:
        pads: Sequence[Dim] | None = node.attribute("pads")
        axes = list(range(len(dims)))
    else:
        pads = known.numbers(input_at(node, 1))
        value = input_at(node, 3)
        found = list(range(len(dims))) if value is None else integers(known, value)
        if found is None:
            raise Unsure
        axes = [axis_of(axis, len(dims)) for axis in found]
        pads = pads or [None] * (2 * len(axes))
    if pads is None or len(pads) != 2 * len(axes):
        raise Unsure
    for at, before, after in zip(axes, pads, pads[len(axes) :], strict=False):
        dims[at] = _padded(dims[at], before, after)
    return [same(kind, dims)]


def _padded(dim: Dim, before: Dim, after: Dim) -> Dim:
    if not isinstance(before, int) or not isinstance(after, int):
        return None
    if not isinstance(dim, int):
        return dim if before == after == 0 else None
    if dim + before + after < 0:
        raise Unsure
    return dim + before + after


@rule("Shape")
def _shape(node: Node, types: Types, known: Knowledge) -> Made:
    dims = given(types, 0).dims
    count = None if dims is None else len(dims[node.attribute("start", 0) : node.attribute("end")])
    return [tensor_type(_INT64, (count,))]


@rule("Size")
def _size(node: Node, types: Types, known: Knowledge) -> Made:
    return [tensor_type(_INT64, ())]


@rule("ConstantOfShape")
def _constant_of_shape(node: Node, types: Types, known: Knowledge) -> Made:
    filler = node.attribute("value")
    element = TensorProto.FLOAT if filler is None else filler.data_type
    try:
        shape = _shape_of(node, types, known, 0)
    except UnknownRank:
        return [tensor_type(element, None)]
    if any(isinstance(size, int) and size < 0 for size in shape):
        raise Unsure
    return [tensor_type(element, tuple(shape))]


@rule("Range", of_first=True)
def _range(node: Node, types: Types, known: Knowledge) -> Made:
    kind = given(types, 0)
    bounds = [known.numbers(value) for value in node.inputs]
    length: Dim = None
    if len(bounds) == 3 and all(numbers is not None and len(numbers) == 1 for numbers in bounds):
        start, limit, step = (numbers[0] for numbers in bounds if numbers is not None)
        if isinstance(step, int) and step != 0 and isinstance(start, int) and isinstance(limit, int):
            length = max(-((start - limit) // step), 0)
            if length >= 1 << 63:
                raise Unsure
        elif start == 0 and step == 1:
            length = limit
    return [same(kind, (length,))]


@rule("OneHot")
def _one_hot(node: Node, types: Types, known: Knowledge) -> Made:
    dims = list(dims_of(types, 0))
    numbers = known.numbers(input_at(node, 1))
    if numbers is not None and len(numbers) != 1:
        raise Unsure
    depth: Dim = None if numbers is None else numbers[0]
    if isinstance(depth, int) and depth < 0:
        raise Unsure
    dims.insert(axis_of(node.attribute("axis", -1), len(dims) + 1), depth)
    return [same(given(types, 2), dims)]


@rule("Resize", since=10, of_first=True)
def _resize(node: Node, types: Types, known: Knowledge) -> Made:
    kind, dims = given(types, 0), dims_of(types, 0)
    if node.attribute("axes") is not None:
        raise Unsure
    if attribute_text(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Unsure
    newer = node.since_version >= 11
    sizes = input_at(node, 3) if newer else None
    if sizes is not None:
        if input_at(node, 2) is not None:
            raise Unsure
        made = _shape_of(node, types, known, 3)
        if len(made) != len(dims) or any(isinstance(size, int) and size < 0 for size in made):
            raise Unsure
        return [same(kind, made)]
    scales = constant(input_at(node, 2 if newer else 1))
    if scales is None:
        return [same(kind, [None] * len(dims))]
    if scales.dtype != np.float32 or scales.shape != (len(dims),):
        raise Unsure
    return [same(kind, [_scaled(dim, scale) for dim, scale in zip(dims, scales, strict=True)])]


def _scaled(dim: Dim, scale: np.float32) -> Dim:
    if scale == 1:
        return dim
    if not isinstance(dim, int):
        return None
    with np.errstate(all="ignore"):
        size = np.floor(np.float32(dim) * scale)
    return int(size) if abs(size) < _LARGE else None  # the run says what is wrong with others
