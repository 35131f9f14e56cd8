"""Sequences, optionals and what passes them on: None, an empty optional, is no result to the package."""

from __future__ import annotations

import numpy as np

from ..values import Value
from .registry import OperatorNode, operator


@operator("Optional")
def optional(node: OperatorNode, value: Value = None) -> tuple[Value]:
    """The value itself, or None for an empty optional. The package wraps a value into a list of one."""
    return (value,)


@operator("Identity")
def identity(node: OperatorNode, value: Value) -> tuple[Value]:
    """The input itself; a sequence as a list of its own."""
    return (list(value) if isinstance(value, list) else value,)


@operator("SequenceInsert")
def sequence_insert(
    node: OperatorNode, values: list[Value], value: Value, position: np.ndarray | None = None
) -> tuple[list[Value]]:
    """A list with one more; the position `len(values)` is behind the last. The package takes it, and every
    number beyond, modulo the length.
    """
    at = len(values) if position is None else _position(position, len(values), len(values))
    return ([*values[:at], value, *values[at:]],)


@operator("SplitToSequence")
def split_to_sequence(
    node: OperatorNode, x: np.ndarray, split: np.ndarray | None = None
) -> tuple[list[np.ndarray]]:
    """Parts of these sizes along `axis`, of one size for all if there is one, else of 1, which `keepdims=0`
    takes away. The package makes parts of what is not there when sizes do not sum up.
    """
    axis = node.attributes.get("axis", 0)
    length = x.shape[axis]
    if split is not None and split.ndim > 0:
        sizes = split.reshape(-1).tolist()
        if min(sizes, default=0) < 0 or sum(sizes) != length:
            raise ValueError(f"parts of {sizes} of an axis of {length}")
    else:
        size = 1 if split is None else int(split)
        if size <= 0:
            raise ValueError(f"parts of {size} elements")
        sizes = [min(size, length - start) for start in range(0, length, size)]
    parts = np.split(x, np.cumsum(sizes)[:-1], axis=axis) if sizes else []
    if split is None and node.attributes.get("keepdims", 1) == 0:
        parts = [part.squeeze(axis) for part in parts]
    return (parts,)


def _position(position: np.ndarray, length: int, most: int) -> int:
    """From the list's end if negative. onnxruntime takes the first number of a tensor, too."""
    at = int(position.reshape(-1)[0])
    if not -length <= at <= most:
        raise IndexError(f"position {at} of a sequence of {length}")
    return at + length if at < 0 else at
