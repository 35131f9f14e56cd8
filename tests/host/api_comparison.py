"""The public names of onnxruntime's inference API and ephost's, side by side.

    python tests/host/api_comparison.py > docs/api-compatibility.md

Methods of onnxruntime's native classes have their signatures in their docstrings, mostly with parameters that
have no name (``arg0``): of these only the number is compared.
"""

from __future__ import annotations

import enum
import inspect
import re
from dataclasses import dataclass
from types import ModuleType
from typing import Any

# Names that are missing here, or whose parameters differ, and why. A name of a class stands for all its
# members.
REASONS = {
    "OrtSyncStream": "as OrtEpDevice.create_sync_stream",
    "DeviceReset": "never raised: plugins have no code for it up to API version 30",
    "onnxruntime_validation": "checks the installation of onnxruntime itself",
    "contextlib": "a module that onnxruntime imports, not a name of its API",
}
# Not part of running models: for these the reason stands for the whole module.
EXCLUDED = {
    "datasets": "example models",
    "quantization": "makes models",
    "tools": "converts models",
    "transformers": "makes models",
}


@dataclass(frozen=True)
class Row:
    """One public name of onnxruntime."""

    name: str
    status: str  # same, differs, missing
    note: str = ""


@dataclass(frozen=True)
class Signature:
    """Parameters without ``self``: their names ("" for none), and whether each has a default."""

    parameters: tuple[tuple[str, bool], ...]

    def __str__(self) -> str:
        return (
            "("
            + ", ".join((name or "·") + ("=" if default else "") for name, default in self.parameters)
            + ")"
        )


def _split(text: str) -> list[str]:
    """The parts between commas that are in no bracket."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += letter in "([{"
        depth -= letter in ")]}"
        if letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def documented_signatures(name: str, doc: str) -> list[Signature]:
    """The signatures in a native function's docstring: several when it is overloaded."""
    found = []
    for match in re.finditer(rf"^(?:\d+\. )?{re.escape(name)}\((.*)\) -> ", doc, re.MULTILINE):
        parameters = []
        for part in _split(match[1]):
            label = part.split(":")[0].split("=")[0].strip()
            if label in ("self", "*", "/", "*args", "**kwargs"):
                continue
            parameters.append(("" if re.fullmatch(r"arg\d+", label) else label, "=" in part))
        if "*args, **kwargs" not in match[1]:
            found.append(Signature(tuple(parameters)))
    return found


def signatures(value: Any, name: str) -> list[Signature]:
    """How a function may be called; empty when nothing says so."""
    if isinstance(value, type):
        value, name = value.__init__, "__init__"
    function = getattr(value, "__func__", value)
    found = documented_signatures(name, function.__doc__ or "")
    if found:
        return found
    if inspect.isroutine(function) and not inspect.isfunction(function) and name == "__init__":
        return []  # a native class that only the module itself can make
    try:
        given = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = [p for p in given.parameters.values() if p.kind not in variadic]
    if parameters and parameters[0].name in ("self", "cls"):
        del parameters[0]
    return [Signature(tuple((p.name, p.default is not p.empty) for p in parameters))]


def accepts(mine: inspect.Signature, theirs: Signature) -> bool:
    """Whether every call that ``theirs`` allows by position, and by name where it has names, fits here."""
    given = [p for p in mine.parameters.values() if p.name not in ("self", "cls")]
    positional = [
        p for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
    ]
    rest = any(p.kind == p.VAR_POSITIONAL for p in given)
    keywords = {p.name: p for p in given if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if len(theirs.parameters) > len(positional) + len(keywords) and not rest:
        return False
    for at, (name, default) in enumerate(theirs.parameters):
        here = positional[at] if at < len(positional) else keywords.get(name)
        if here is None:
            if rest:
                continue
            return False
        if here.kind != here.VAR_POSITIONAL and name and here.name != name:
            return False
        if default and here.default is here.empty and here.kind != here.VAR_POSITIONAL:
            return False
    required = sum(p.default is p.empty and p.kind != p.VAR_POSITIONAL for p in positional)
    return required <= len(theirs.parameters)


def _my_signature(value: Any) -> inspect.Signature | None:
    try:
        if isinstance(value, type):
            return inspect.signature(value.__init__)
        return inspect.signature(getattr(value, "__func__", value))
    except (TypeError, ValueError):
        return None


def _reason(name: str) -> str:
    return REASONS.get(name) or REASONS.get(name.split(".")[0], "")


def _compare_callable(name: str, theirs: Any, mine: Any) -> Row:
    wanted = signatures(theirs, name.rsplit(".", 1)[-1])
    given = _my_signature(mine)
    if not callable(mine) or given is None:
        return Row(name, "differs", _reason(name) or "cannot be called here")
    wrong = [str(signature) for signature in wanted if not accepts(given, signature)]
    if wrong:
        return Row(name, "differs", _reason(name) or f"{' or '.join(wrong)} there, {given} here")
    return Row(name, "same", _reason(name))


def _members(kind: type) -> list[str]:
    return [m for m in dir(kind) if not m.startswith("_") and m not in dir(object)]


def _is_method(kind: type, name: str) -> bool:
    found = inspect.getattr_static(kind, name)
    return not isinstance(found, property) and callable(getattr(kind, name))


def compare(theirs: ModuleType, mine: ModuleType) -> list[Row]:
    """A row for each public name of a module, and for each public member of its classes."""
    rows = []
    for name in dir(theirs):
        if name.startswith("_") or isinstance(getattr(theirs, name), ModuleType):
            continue
        value = getattr(theirs, name)
        if not hasattr(mine, name):
            rows.append(Row(name, "missing", _reason(name)))
            continue
        here = getattr(mine, name)
        if isinstance(value, type) and issubclass(value, Exception):
            kind = isinstance(here, type) and issubclass(here, Exception)
            rows.append(Row(name, "same" if kind else "differs", _reason(name)))
            continue
        if not isinstance(value, type):
            rows.append(_compare_callable(name, value, here) if callable(value) else Row(name, "same"))
            continue
        if isinstance(here, type) and issubclass(here, enum.IntEnum | enum.IntFlag):
            rows.extend(_compare_enum(name, value, here))
            continue
        rows.append(
            _compare_callable(name, value, here)
            if value.__init__ is not object.__init__
            else Row(name, "same")
        )
        for member in _members(value):
            full = f"{name}.{member}"
            if not hasattr(here, member) and member not in getattr(here, "__annotations__", {}):
                rows.append(Row(full, "missing", _reason(full)))
            elif _is_method(value, member):
                rows.append(_compare_callable(full, getattr(value, member), getattr(here, member)))
            else:
                rows.append(Row(full, "same", _reason(full)))
    return rows


def _compare_enum(name: str, theirs: Any, mine: Any) -> list[Row]:
    rows = [Row(name, "same")]
    members = getattr(theirs, "__members__", {})
    for member, value in members.items():
        number = mine.__members__.get(member)
        same = number is not None and int(number) == int(value)
        rows.append(
            Row(f"{name}.{member}", "same" if same else "differs" if number is not None else "missing")
        )
    return rows


def pairs() -> list[tuple[str, ModuleType, ModuleType]]:
    """The modules to compare, with onnxruntime's name of each."""
    import ephost
    import ephost.backend
    import onnxruntime
    import onnxruntime.backend
    from ephost.capi import onnxruntime_pybind11_state as here
    from onnxruntime.capi import onnxruntime_pybind11_state as native

    errors = ModuleType("errors")
    for name in dir(native):
        if isinstance(getattr(native, name), type) and issubclass(getattr(native, name), Exception):
            setattr(errors, name, getattr(native, name))
    return [
        ("onnxruntime", onnxruntime, ephost),
        ("onnxruntime.backend", onnxruntime.backend, ephost.backend),
        ("onnxruntime.capi.onnxruntime_pybind11_state (errors)", errors, here),
    ]


def table() -> str:
    """The page."""
    import onnxruntime

    lines = [
        "# onnxruntime's Python API, name by name",
        "",
        "Generated by `tests/host/api_comparison.py`, and held by a test. What it was compared with is",
        f"onnxruntime {onnxruntime.__version__};",
        "*same* says that the name is here, and that every call which onnxruntime's signature allows fits. A",
        "note says what is behind a name that is here but refuses.",
        "",
    ]
    for title, theirs, mine in pairs():
        rows = compare(theirs, mine)
        same = sum(row.status == "same" for row in rows)
        lines += [f"## {title}", "", f"{same} of {len(rows)} names are the same.", ""]
        lines += ["| name | | |", "|---|---|---|"]
        lines += [f"| `{row.name}` | {row.status} | {row.note} |" for row in rows]
        lines.append("")
    lines += ["## Not compared", ""]
    lines += [f"- `onnxruntime.{name}`: {reason}" for name, reason in EXCLUDED.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
