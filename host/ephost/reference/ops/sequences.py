"""Optionals and what passes them on: None, an empty optional, is no result to the package."""

from __future__ import annotations

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
