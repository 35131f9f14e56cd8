"""Finds an own operator by domain, type and opset version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

MODULES = (
    "convolution",
    "elementwise",
    "machine_learning",
    "normalization",
    "pooling",
    "quantization",
    "random",
    "recurrent",
    "reductions",
    "sampling",
    "scatter",
    "sequences",
    "shapes",
)
"""The modules that declare operators; imported when the first kernel is created."""


@dataclass(frozen=True)
class OperatorNode:
    """What an operator needs to know of its node."""

    version: int
    """The opset version of its domain."""
    attributes: Mapping[str, Any]
    """By name, with the defaults of that version for those that the node leaves out."""
    wanted: tuple[bool, ...]
    """Which outputs somebody reads, one entry per output that the node names."""

    def wants(self, output: int) -> bool:
        """Whether somebody reads that output."""
        return output < len(self.wanted) and self.wanted[output]


Operator = Callable[..., tuple[Any, ...]]
_OPERATORS: dict[tuple[str, str], list[tuple[int, int, Operator]]] = {}


def operator(
    op_type: str, *, domain: str = "", since: int = 1, until: int = 2**31
) -> Callable[[Operator], Operator]:
    """Declares the decorated function as the implementation of `op_type` for opsets `since` <= version <
    `until`.
    """

    def declare(function: Operator) -> Operator:
        _OPERATORS.setdefault((domain, op_type), []).append((since, until, function))
        return function

    return declare


def find_operator(domain: str, op_type: str, version: int) -> Operator | None:
    """The own implementation for that opset version, or None."""
    for since, until, function in _operators().get((domain, op_type), ()):
        if since <= version < until:
            return function
    return None


@cache
def _operators() -> Mapping[tuple[str, str], list[tuple[int, int, Operator]]]:
    for name in MODULES:
        import_module(f".{name}", __package__)
    return _OPERATORS
