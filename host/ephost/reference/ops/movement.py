"""Operators on shapes, and those that only move elements.

The package has these too; see `numeric` for why they are here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .registry import OperatorNode, operator


@operator("Shape")
def shape_of(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """The dimensions from `start` up to `end`, which count from the end where they are negative."""
    limits = slice(node.attributes.get("start", 0), node.attributes.get("end"))
    return (np.array(x.shape[limits], dtype=np.int64),)


@operator("Size")
def size_of(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """The number of elements."""
    return (np.array(x.size, dtype=np.int64),)


@operator("ConstantOfShape")
def constant_of_shape(node: OperatorNode, shape: np.ndarray) -> tuple[np.ndarray]:
    """`value`, of one element, as often as that; by default zeros of single precision."""
    value = node.attributes.get("value")
    dims = _listed(shape)
    if value is None:
        return (np.zeros(dims, dtype=np.float32),)
    return (np.full(dims, value.reshape(-1)[0], dtype=value.dtype),)


@operator("Range", since=11)
def range_of(node: OperatorNode, start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> tuple[Any, ...]:
    """start, start + delta, ... before the limit."""
    if start.dtype.kind not in "iu" and start.dtype.itemsize < 4:
        return node.package(start, limit, delta)  # computes in the type that an attribute names
    return (np.arange(start.item(), limit.item(), delta.item()).astype(start.dtype),)


@operator("Gather")
def gather(node: OperatorNode, x: np.ndarray, indices: np.ndarray) -> tuple[Any]:
    """Slices along `axis`, by indices that count from the end where they are negative."""
    return (np.take(x, indices.astype(np.int64), axis=node.attributes.get("axis", 0)),)


@operator("Concat", since=4)
def concat(node: OperatorNode, *values: np.ndarray) -> tuple[np.ndarray]:
    """All of them along `axis`.

    What has no elements may have any shape: as in onnxruntime its length counts all the same, and zeros
    at the end stand for it.
    """
    like = next((value for value in values if value.size > 0), values[0])
    axis = node.attributes["axis"]
    at = axis % max(like.ndim, 1)

    def fits(value: np.ndarray) -> bool:
        same = value.shape[:at] + value.shape[at + 1 :] == like.shape[:at] + like.shape[at + 1 :]
        return value.size > 0 or (same and value.ndim == like.ndim)

    strays = [value for value in values if not fits(value)]
    parts = [value for value in values if fits(value)]
    missing = sum(value.shape[at] for value in strays if at < value.ndim)
    if missing > 0:
        shape = (*like.shape[:at], missing, *like.shape[at + 1 :])
        parts.append(np.full(shape, "" if like.dtype == object else 0, like.dtype))
    return (np.concatenate(parts, axis=axis),)


@operator("Slice", until=10)
def slice_by_attributes(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """Parts of axes, one element after the other."""
    starts, ends = node.attributes["starts"], node.attributes["ends"]
    return (_slice(x, starts, ends, node.attributes.get("axes"), None),)


@operator("Slice", since=10)
def slice_by_inputs(
    node: OperatorNode,
    x: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    axes: np.ndarray | None = None,
    steps: np.ndarray | None = None,
) -> tuple[np.ndarray]:
    """Parts of axes, in steps, which may be negative."""
    for name, given in (("starts", starts), ("ends", ends), ("axes", axes), ("steps", steps)):
        if given is not None and given.ndim != 1:
            raise ValueError(f"{name} has shape {list(given.shape)}: it is a list")
    return (_slice(x, _listed(starts), _listed(ends), _listed(axes) or None, _listed(steps) or None),)


def _slice(
    x: np.ndarray,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> np.ndarray:
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    parts = [slice(None)] * x.ndim
    # What lies outside, and counting from the end, means the same in Python.
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        parts[axis] = slice(start, end, step)
    return x[tuple(parts)]


def _listed(values: np.ndarray | None) -> list[int]:
    return [] if values is None else values.reshape(-1).tolist()


@operator("Split", since=2)
def split(node: OperatorNode, x: np.ndarray, sizes: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
    """Parts of these sizes along `axis`; without sizes equal ones, but for the last."""
    axis, count = node.attributes.get("axis", 0), len(node.wanted)
    given = _listed(sizes) if sizes is not None else node.attributes.get("split")
    if given is None:
        count = node.attributes.get("num_outputs") or count
        each = -(-x.shape[axis] // count)
        given = [each] * (count - 1) + [x.shape[axis] - each * (count - 1)]
    if len(given) != count or min(given, default=0) < 0 or sum(given) != x.shape[axis]:
        raise ValueError(f"{x.shape[axis]} elements in {count} parts cannot have the sizes {given}")
    return tuple(np.split(x, np.cumsum(given)[:-1], axis=axis))


@operator("Unsqueeze", until=13)
def unsqueeze_by_attribute(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """Axes of one element at these places of the result."""
    return (np.expand_dims(x, tuple(node.attributes["axes"])),)


@operator("Unsqueeze", since=13)
def unsqueeze(node: OperatorNode, x: np.ndarray, axes: np.ndarray) -> tuple[np.ndarray]:
    """Axes of one element at these places of the result."""
    if axes.ndim > 1:
        raise ValueError(f"the axes are not a list but of shape {list(axes.shape)}")
    return (np.expand_dims(x, tuple(_listed(axes))),)


@operator("Squeeze", since=13)
def squeeze(node: OperatorNode, x: np.ndarray, axes: np.ndarray | None = None) -> tuple[np.ndarray]:
    """Without these axes of one element, or all such axes."""
    return (np.squeeze(x, axis=None if axes is None else tuple(_listed(axes))),)


@operator("Reshape", since=5)
def reshape(node: OperatorNode, x: np.ndarray, shape: np.ndarray) -> tuple[np.ndarray]:
    """0 stands for the input's dimension there, unless `allowzero` is set; -1 for what is left."""
    dims = shape.tolist()
    if node.attributes.get("allowzero") != 1:
        dims = [x.shape[at] if dim == 0 else dim for at, dim in enumerate(dims)]
    elif not x.size and 0 in dims and -1 in dims:
        # Against the standard, but exporters write it for batches of any size, and onnxruntime takes it.
        whole, known = (math.prod(dim for dim in part if dim > 0) for part in (x.shape, dims))
        if whole % known == 0:
            dims[dims.index(-1)] = whole // known
    return (x.reshape(dims),)


@operator("Flatten")
def flatten(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """A matrix: the axes before `axis`, and those from it on."""
    axis = node.attributes.get("axis", 1)
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    return (x.reshape(rows, x.size // rows if rows else int(np.prod(x.shape[axis:], dtype=np.int64))),)


@operator("Transpose")
def transpose(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """The axes in the order of `perm`, or the other way round."""
    return (np.transpose(x, node.attributes.get("perm") or None),)


@operator("Expand")
def expand(node: OperatorNode, x: np.ndarray, shape: np.ndarray) -> tuple[np.ndarray]:
    """Broadcast both ways: a dimension of 1 in `shape` keeps the input's."""
    return (np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist()))),)


@operator("Tile", since=6)
def tile(node: OperatorNode, x: np.ndarray, repeats: np.ndarray) -> tuple[np.ndarray]:
    """Each axis as often as that, one after the other."""
    if repeats.size != x.ndim:
        raise ValueError(f"{repeats.size} repeats for an input of {x.ndim} dimensions")
    return (np.tile(x, repeats.tolist()),)


@operator("NonZero")
def non_zero(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """The places of what is not zero, a row for each axis."""
    if x.ndim == 0:
        return (np.zeros((0, np.count_nonzero(x)), dtype=np.int64),)
    return (np.stack(np.nonzero(x)).astype(np.int64),)


@operator("Trilu")
def trilu(node: OperatorNode, x: np.ndarray, k: np.ndarray | None = None) -> tuple[np.ndarray]:
    """The triangle above, or below, diagonal k of the last two axes, and zeros."""
    triangle = np.triu if node.attributes.get("upper", 1) else np.tril
    return (triangle(x, 0 if k is None else int(k.item())).astype(x.dtype),)


@operator("Compress", since=9)
def compress(node: OperatorNode, x: np.ndarray, condition: np.ndarray) -> tuple[np.ndarray]:
    """The slices along `axis`, or elements, for which the condition is true: it may be shorter than these are
    many, or longer.
    """
    axis = node.attributes.get("axis")
    if axis is not None and not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis is {axis} for an input of {x.ndim} dimensions")
    if condition.ndim != 1:
        raise ValueError(f"the condition has {condition.ndim} dimensions, not one")
    count = x.size if axis is None else x.shape[axis]
    return (np.take(x, np.flatnonzero(condition[:count]), axis=axis),)


@operator("Unique", since=11)
def unique(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """The different elements, or slices along `axis`, where each is first, which of them each one is, and how
    many are the same. NaNs are different, and the greatest.
    """
    axis = node.attributes.get("axis")
    if axis is not None and not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis is {axis} for an input of {x.ndim} dimensions")
    # Places in the order of all elements: numpy does not compare slices of texts.
    comparable = x.reshape(-1) if x.dtype.kind in "biufO" else x.reshape(-1).astype(np.float32)
    codes = np.unique(comparable, return_inverse=True, equal_nan=False)[1].reshape(x.shape)
    rows = codes.reshape(-1, 1)
    if axis is not None:
        rows = np.moveaxis(codes, axis, 0).reshape(x.shape[axis], x.size // max(x.shape[axis], 1))
    if not rows.shape[1]:
        rows = np.zeros((len(rows), 1), np.int64)  # all slices of no elements are the same
    _, first, which, counts = np.unique(
        rows, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    which = which.reshape(-1)
    if not node.attributes.get("sorted", 1):
        order = np.argsort(first)
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        first, which, counts = first[order], places[which], counts[order]
    return np.take(x, first, axis=axis), first, which, counts
