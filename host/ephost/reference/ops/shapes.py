"""Constants, and operators that only rearrange."""

from __future__ import annotations

import numpy as np

from .registry import OperatorNode, operator


@operator("Constant")
def constant(node: OperatorNode) -> tuple[np.ndarray]:
    """A copy of the constant. The package fails on `sparse_value`, whose dense form this gives."""
    for name, value in node.attributes.items():
        dtype = _CONSTANT_TYPES[name]
        return (np.array(value, dtype=dtype) if dtype else value.copy(),)
    raise ValueError("the node has no value")


_CONSTANT_TYPES: dict[str, type | None] = {
    "value": None,
    "sparse_value": None,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": object,
    "value_strings": object,
}


@operator("Squeeze", until=13)
def squeeze(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """The package takes `axes` away one by one from the last: wrong when they are not in ascending order."""
    axes = node.attributes.get("axes")
    return (np.squeeze(x, axis=tuple(axes) if axes else None),)


@operator("OneHot")
def one_hot(
    node: OperatorNode, indices: np.ndarray, depth: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray]:
    """values[1] at each index along a new axis, values[0] elsewhere; an index out of range has no hot place.

    The package takes no depth of shape [1], which the standard allows.
    """
    size = int(depth.item())
    if size < 0:
        raise ValueError(f"a depth of {size}")
    rank = indices.ndim + 1
    axis = node.attributes.get("axis", -1) % rank
    places = indices.astype(np.int64)
    places = np.where(places < 0, places + size, places)
    classes = np.arange(size).reshape([-1 if position == axis else 1 for position in range(rank)])
    hot = np.expand_dims(places, axis) == classes
    return (np.where(hot, values[1], values[0]).astype(values.dtype),)


@operator("Pad", since=2)
def pad(
    node: OperatorNode,
    x: np.ndarray,
    pads: np.ndarray | None = None,
    value: np.ndarray | None = None,
    axes: np.ndarray | None = None,
) -> tuple[np.ndarray]:
    """Adds to both ends of each axis, or takes away where `pads` is negative: the package cannot."""
    amounts = list(node.attributes["pads"]) if pads is None else pads.reshape(-1).tolist()
    padded_axes = range(x.ndim) if axes is None else [axis % x.ndim for axis in axes.tolist()]
    if len(amounts) != 2 * len(padded_axes):
        raise ValueError(f"{len(amounts)} pads for {len(padded_axes)} axes")
    widths = [(0, 0)] * x.ndim
    for position, axis in enumerate(padded_axes):
        widths[axis] = (amounts[position], amounts[position + len(padded_axes)])
    kept = tuple(
        slice(max(0, -before), max(0, size - max(0, -after)))
        for size, (before, after) in zip(x.shape, widths, strict=True)
    )
    added = [(max(0, before), max(0, after)) for before, after in widths]
    mode = node.attributes.get("mode", "constant")
    if mode != "constant":
        return (np.pad(x[kept], added, mode=mode),)
    empty = "" if x.dtype == object else node.attributes.get("value", 0)
    fill = empty if value is None else value.item()
    return (np.pad(x[kept], added, constant_values=fill),)


@operator("Upsample", since=7)
@operator("Resize", until=11)
def upsample(node: OperatorNode, x: np.ndarray, scales: np.ndarray | None = None) -> tuple[np.ndarray]:
    """Nearest or linear, at position / scale. The package has only the former, for whole scales, and only the
    Resize of later opsets.
    """
    factors = node.attributes["scales"] if scales is None else scales.tolist()
    if len(factors) != x.ndim:
        raise ValueError(f"{len(factors)} scales for an input of {x.ndim} dimensions")
    y = x
    for axis, (size, factor) in enumerate(zip(x.shape, factors, strict=True)):
        if factor == 1:
            continue
        is_nearest = node.attributes.get("mode", "nearest") == "nearest"
        # In floats, as exporters do: 10 by 1.3 are 13, and a little less in a wider type.
        count = np.arange(int(np.float32(size) * np.float32(factor)))
        places = count.astype(np.float32) / np.float32(factor) if is_nearest else count / factor
        if is_nearest and factor < 1:
            places = np.ceil(places)  # as in the standard's example
        low = np.minimum(places.astype(np.int64), size - 1)
        if is_nearest:
            y = y.take(low, axis=axis)
        else:
            share = (places - low).reshape(-1, *[1] * (x.ndim - axis - 1))
            y = (
                y.take(low, axis=axis) * (1 - share)
                + y.take(np.minimum(low + 1, size - 1), axis=axis) * share
            )
    return (y.astype(x.dtype),)
