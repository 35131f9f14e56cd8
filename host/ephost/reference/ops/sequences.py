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


def _position(position: np.ndarray, length: int, most: int) -> int:
    """From the list's end if negative. onnxruntime takes the first number of a tensor, too."""
    at = int(position.reshape(-1)[0])
    if not -length <= at <= most:
        raise IndexError(f"position {at} of a sequence of {length}")
    return at + length if at < 0 else at
