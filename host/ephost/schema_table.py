"""The schemas of ONNX's operators, written down when ephost is built (tools/generate_schemas.py).

They are those of the opsets that every onnx knows with which ephost runs: they hold whichever is installed.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable
from functools import cache
from typing import Any

# By domain the newest opset of the oldest onnx that ephost runs with (pyproject.toml).
NEWEST = {"": 24, "ai.onnx.ml": 5}
NEWEST_IR = 12
RECORD, UNIT = "\x1e", "\x1f"
_FILE = os.path.join(os.path.dirname(__file__), "onnx_schemas.txt")  # pathlib takes 2 ms to import


class _Number:
    """A member of one of onnx's enumerations."""

    __slots__ = ("value",)

    def __init__(self, text: str) -> None:
        self.value = int(text)


class Formal:
    """An input or output of an operator."""

    __slots__ = ("is_homogeneous", "name", "option", "type_str")

    def __init__(self, name: str, type_str: str, option: str, is_homogeneous: str) -> None:
        self.name, self.type_str, self.option = name, type_str, _Number(option)
        self.is_homogeneous = is_homogeneous == "1"


class Constraint:
    """The types that a type parameter may be."""

    __slots__ = ("allowed_type_strs", "type_param_str")

    def __init__(self, type_param_str: str, *allowed: str) -> None:
        self.type_param_str, self.allowed_type_strs = type_param_str, list(allowed)


class Attribute:
    """An attribute of an operator."""

    __slots__ = ("_default_value", "name", "required", "type")

    def __init__(self, name: str, kind: str, required: str, default: str) -> None:
        self.name, self.type, self.required = name, _Number(kind), required == "1"
        self._default_value = bytes.fromhex(default)


class TableSchema:
    """An operator's schema, with the members of onnx's ``OpSchema``; what is not in the table is onnx's."""

    def __init__(self, line: str, ask: Callable[[str, str, int], Any]) -> None:
        self.domain, self.name, since, deprecated, function, context, counts, *lists = line.split("\t")
        self.since_version = int(since)
        self.deprecated, self.has_function = deprecated == "1", function == "1"
        self.has_context_dependent_function = context == "1"
        self.min_input, self.max_input, self.min_output, self.max_output = map(int, counts.split(UNIT))
        parts = [[item.split(UNIT) for item in field.split(RECORD)] if field else [] for field in lists]
        self.inputs = [Formal(*item) for item in parts[0]]
        self.outputs = [Formal(*item) for item in parts[1]]
        self.type_constraints = [Constraint(*item) for item in parts[2]]
        self.attributes = {item[0]: Attribute(*item) for item in parts[3]}
        self._ask = ask

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ask(self.name, self.domain, self.since_version), name)


@cache
def _text() -> str | None:
    try:
        with open(_FILE, encoding="utf-8") as file:
            return file.read()
    except OSError:  # it was not built
        return None


@cache
def _versions(op_type: str, domain: str) -> tuple[tuple[int, str], ...]:
    """The lines of an operator's versions, newest first."""
    text, start = _text() or "", f"\n{domain}\t{op_type}\t"
    found = []
    at = text.find(start)
    while at >= 0:
        end = text.index("\n", at + 1)
        since = at + len(start)
        found.append((int(text[since : text.index("\t", since)]), text[at + 1 : end]))
        at = end if text.startswith(start, end) else -1
    return tuple(reversed(found))


def has(domain: str, opset: int) -> bool:
    """Whether the table has all operators of a domain as they are at an opset version."""
    return opset <= NEWEST.get(domain, 0) and _text() is not None


def find(op_type: str, domain: str, opset: int, ask: Callable[[str, str, int], Any]) -> TableSchema | None:
    """The schema of an operator at an opset version that the table has; None where there is no such operator.

    Args:
        op_type: the operator.
        domain: "" for ONNX's own.
        opset: an opset version for which :func:`has` is true.
        ask: gives onnx's own schema, for what is not in the table.
    """
    for since, line in _versions(op_type, domain):
        if since <= opset:
            return TableSchema(line, ask)
    return None
