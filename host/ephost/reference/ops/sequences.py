"""Optionals and sequences."""

from __future__ import annotations

from ..values import Value
from .registry import OperatorNode, operator


@operator("Optional")
def optional(node: OperatorNode, value: Value = None) -> tuple[Value]:
    """The value itself, or None for an empty optional. The package wraps a value into a list of one."""
    return (value,)
