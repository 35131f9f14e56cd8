"""What the layer ``validate`` wrote: one finding a line, as JSON.

The file can be read while it is written. Several processes, and several plugins of one, may add to the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ephost.errors import InvalidArgument, NoSuchFile, naming
from ephost.layers.rules import RULES, Rule
from ephost.reading import refuse_special
from ephost.tables import Table

VERSION = 1  # of the format; members may be added to it, and readers leave out what they do not know


@dataclass(frozen=True)
class Event:
    """Something that became of a handle.

    Attributes:
        event: "made" (it is the plugin's), "lent", "released", "handed over", or "lent until the end" of the
            function.
        function: in which function of the ABI, such as ``OrtApi.CreateStatus``; "" where none was called.
        during: in which function of the plugin's that was; "" for a thread of the plugin's own.
        thread: the system's number of it.
        session: see :class:`Finding`.
        at_ns: when, on the monotonic clock.
    """

    event: str
    function: str
    during: str
    thread: int
    session: int
    at_ns: int


@dataclass(frozen=True)
class Handle:
    """An object of the host's that a finding is about: its type, its address, and what became of it."""

    type: str
    address: str
    history: tuple[Event, ...]


@dataclass(frozen=True)
class Finding:
    """A rule that was broken.

    Attributes:
        rule: the rule's name, such as ``EPV-OWN-001``.
        severity: "error", "warning" or "info", the rule's.
        message: what happened, in a sentence.
        function: the function of the ABI that was being called; "" where none was.
        during: the plugin's function in which that was; the same where it is one itself.
        handle: what the finding is about; None where that is no handle.
        thread: the system's number of it.
        session: which of the plugin's EPs, counted from 1 as they were made; 0 where that is not known.
        ep: the name of that EP; "" where it is not known.
        process: its number.
        at_ns: when, on the monotonic clock.
    """

    rule: str
    severity: str
    message: str
    function: str
    during: str
    handle: Handle | None
    thread: int
    session: int
    ep: str
    process: int
    at_ns: int

    @property
    def about(self) -> Rule | None:
        """The rule; None for one that is newer than this package."""
        return RULES.get(self.rule)

    @classmethod
    def from_json(cls, line: str) -> Finding:
        """The finding that a line of the file is.

        Raises:
            InvalidArgument: it is none.
        """
        try:
            made: Mapping[str, Any] = json.loads(line)
            if made["version"] != VERSION:
                raise InvalidArgument(f"the finding has the format {made['version']}; this reads {VERSION}")
            handle = made["handle"]
            if handle is not None:
                events = [Event(**_members(each, _EVENT)) for each in handle["history"]]
                handle = Handle(**_members(handle, _HANDLE), history=tuple(events))
            return cls(**_members(made, _FINDING), handle=handle)
        except KeyError as error:
            raise InvalidArgument(f"{line[:200]!r} is no finding of the layer: it has no {error}") from None
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidArgument(f"{line[:200]!r} is no finding of the layer: {error}") from None


def _plain(record: type) -> dict[str, type]:
    """The members of a record that are texts and numbers, with which of both they are."""
    types: dict[str, type] = {"str": str, "int": int}
    declared = {name: field.type for name, field in record.__dataclass_fields__.items()}  # type: ignore[attr-defined]
    return {name: types[kind] for name, kind in declared.items() if kind in types}


def _members(made: Mapping[str, Any], wanted: Mapping[str, type]) -> dict[str, Any]:
    """What is wanted of a JSON object, each of its type; raises TypeError and KeyError."""
    for name, kind in wanted.items():
        if type(made[name]) is not kind:
            raise TypeError(f"its {name!r} is {made[name]!r:.80}")
    return {name: made[name] for name in wanted}


_EVENT, _HANDLE, _FINDING = _plain(Event), _plain(Handle), _plain(Finding)


def read_findings(path: str | os.PathLike[str]) -> list[Finding]:
    """The findings of a file, in their order; a last line that is not whole yet is left out.

    Raises:
        NoSuchFile: there is none.
        Fail: it is a pipe or a device.
        InvalidArgument: the file is none of the layer's; the text says which line.
    """
    refuse_special(path, "the file of findings")
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
    except FileNotFoundError:
        raise NoSuchFile(f"the file of findings {os.fspath(path)} does not exist") from None
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"the findings {os.fspath(path)} cannot be read: {error}") from None
    found, number = [], 0
    with naming(lambda: f"line {number} of the findings {os.fspath(path)}"):
        for line in lines[:-1]:
            number += 1
            if line:
                found.append(Finding.from_json(line))
    return found


def summary(findings: list[Finding]) -> list[Table | str]:
    """What a person reads: a line for each, with what became of the handle."""
    if not findings:
        return ["no rule was broken"]
    table = Table("Findings", ("rule", "severity", "EP", "in", "message"))
    for each in findings:
        told = [each.message]
        for event in each.handle.history if each.handle is not None else ():
            where = f" in {event.during}" if event.during and event.during != event.function else ""
            told.append(f"  {event.event}: {event.function}{where}, thread {event.thread}")
        table.rows.append((each.rule, each.severity, each.ep, each.during or each.function, "\n".join(told)))
    return [table]
