"""What the layer ``trace`` wrote: read, summed up, compared, and told to other programs.

The file's layout is that of host/layer/trace.c. It can be read while it is written, and after the process was
killed: a call that did not return says where.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from ephost._bindings import ffi
from ephost.errors import InvalidArgument, NoSuchFile
from ephost.reading import refuse_special
from ephost.tables import Table

_HEADER = struct.Struct("<8sIIQQQqqII")
_RECORD = struct.Struct("<IHBxIiqqQ")
_INT, _REAL = struct.Struct("<q"), struct.Struct("<d")
_MAGIC, _FORMAT = b"EPHTRACE", 2
_CALL, _RESULT, _NOTE = 1, 2, 3
_OPEN, _THREW = -1, -2  # in place of an error's code
_KINDS = "ifdps"  # integers, what only is NULL or not, reals, pointers, strings
_TABLES = ("OrtApi.", "OrtEpApi.", "OrtModelEditorApi.", "OrtCompileApi.", "OrtInteropApi.", "OrtApiBase.")
_OBJECT = re.compile(r"object: (\w+) (0x[0-9a-f]+|\(nil\)) of (0x[0-9a-f]+|\(nil\))$")


class Address(int):
    """A pointer's value."""

    def __repr__(self) -> str:
        return hex(self) if self else "NULL"

    __str__ = __repr__


class Enumerator(int):
    """A value of an enumeration of the ABI, shown by its name; it is a number to all else."""

    name: str

    def __new__(cls, value: int, name: str) -> Enumerator:
        """The value, called so."""
        made = super().__new__(cls, value)
        made.name = name
        return made

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Function:
    """A function of either side, with the letters and names of what it takes and gives; ``enums`` has the
    enumerations of those that are of one.
    """

    name: str
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    enums: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_hosts(self) -> bool:
        """Whether the plugin calls it in the host; the others the host calls in the plugin."""
        return self.name.startswith(_TABLES)


@dataclass(slots=True)
class Call:
    """One call.

    ``start`` is in nanoseconds since the trace's start, ``duration`` likewise, None when it did not return.
    ``code`` is the error's, 0 for none, -1 where it did not return, -2 for a C++ exception. ``session``
    counts execution providers from 1, 0 where none is known.
    """

    function: Function
    thread: int
    start: int
    duration: int | None
    code: int
    parent: Call | None
    arguments: dict[str, Any]
    results: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    session: int = 0
    inner: int = 0  # ns that calls inside of it took

    @property
    def depth(self) -> int:
        """In how many other calls it was made."""
        depth, above = 0, self.parent
        while above is not None:
            depth, above = depth + 1, above.parent
        return depth

    @property
    def failed(self) -> bool:
        """Whether it gave an error or threw; one that did not return has not failed."""
        return self.code not in (0, _OPEN)

    @property
    def own(self) -> int:
        """Nanoseconds of its own: without the calls inside of it."""
        return max((self.duration or 0) - self.inner, 0)


@dataclass(frozen=True, slots=True)
class Totals:
    """What the calls of one function come to; times in nanoseconds."""

    function: Function
    calls: int
    errors: int
    time: int
    own: int
    longest: int

    @property
    def side(self) -> str:
        """In whom it is called."""
        return "host" if self.function.is_hosts else "plugin"


@dataclass(slots=True)
class Note:
    """A text that the layer left: a graph, options, what a struct is."""

    at: int  # ns since the trace's start
    parent: Call | None
    text: str


class TraceFile:
    """A trace that was read.

    Attributes:
        path: the file.
        process: its process.
        calls: in the order in which they began.
        notes: in order.
        eps: for each session, from 1 on, the name of its execution provider, "" where it was not asked.
        dropped: how many records had no room.
        missing: how many bytes are in use behind the file's end, where it was cut.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read a trace.

        Raises:
            NoSuchFile: there is none.
            Fail: it is a pipe or a device.
            InvalidArgument: the file is no trace, or of another version, or damaged.
        """
        self.path = os.fspath(path)
        refuse_special(path, "the trace")
        try:
            data = Path(path).read_bytes() if os.path.getsize(path) < 1 << 20 else _used(path)
        except FileNotFoundError:
            raise NoSuchFile(f"the trace {self.path} does not exist") from None
        except OSError as error:
            raise InvalidArgument(f"the trace {self.path} cannot be read: {error.strerror}") from None
        if len(data) < _HEADER.size or data[:8] != _MAGIC:
            raise InvalidArgument(f"{self.path} is no trace of ephost's layer")
        _, version, at, used, capacity, self.dropped, start, _, self.process, size = _HEADER.unpack_from(data)
        if version != _FORMAT:
            raise InvalidArgument(f"the trace {self.path} has the format {version}; this reads {_FORMAT}")
        self.functions = self._listed(data[_HEADER.size : _HEADER.size + size])
        self.calls: list[Call] = []
        self.notes: list[Note] = []
        self.eps: list[str] = []
        self.missing = max(min(used, capacity) - len(data), 0)
        self._owners: dict[int, int] = {}  # the address of a live struct of functions -> session
        self._read(data, at, min(used, capacity, len(data)), start)

    def _listed(self, data: bytes) -> list[Function]:
        """The functions that the trace lists."""
        found = []
        for number, line in enumerate(data.splitlines(), 1):
            try:
                found.append(_function(line.decode()))
            except ValueError:
                raise InvalidArgument(
                    f"the trace {self.path} is damaged: line {number} of its list of functions is none: "
                    f"{line[:80]!r}"
                ) from None
        return found

    def _read(self, data: bytes, at: int, end: int, start: int) -> None:
        calls: dict[int, Call] = {}
        while at + _RECORD.size <= end:
            size, number, kind, thread, code, began, duration, parent = _RECORD.unpack_from(data, at)
            if size < _RECORD.size or size % 8 or at + size > end or kind > _NOTE:
                at += 8  # somebody was about to fill it
                continue
            body = data[at + _RECORD.size : at + size]
            above = calls.get(parent)
            try:
                if kind == _CALL and number < len(self.functions):
                    function = self.functions[number]
                    given = _fields(function, function.inputs, body)
                    returned = None if code == _OPEN else duration
                    calls[at] = call = Call(function, thread, began - start, returned, code, above, given)
                    self._take(call)
                elif kind == _RESULT and above is not None:
                    self._finish(above, body)
                elif kind == _NOTE:
                    note = Note(began - start, above, _text(body, 0)[0] or "")
                    self._own(note.text)
                    self.notes.append(note)
            except struct.error:
                raise InvalidArgument(
                    f"the trace {self.path} is damaged: the record at byte {at} is too short for what it has"
                ) from None
            at += size

    def _take(self, call: Call) -> None:
        if call.parent is not None and call.duration is not None:
            call.parent.inner += call.duration
        call.session = self._session(call)
        self.calls.append(call)

    def _finish(self, call: Call, body: bytes) -> None:
        if call.code > 0:
            call.error = _text(body, 0)[0] or ""
        else:
            call.results = _fields(call.function, call.function.outputs, body)
            self._learn(call)

    def _session(self, call: Call) -> int:
        name = call.function.name
        for kind, argument in call.function.inputs:
            if kind == "p" and (found := self._owners.get(call.arguments[argument])):
                if name == "OrtEpFactory.ReleaseEp":
                    del self._owners[call.arguments[argument]]
                return found
        return call.parent.session if call.parent is not None else 0

    def _learn(self, call: Call) -> None:
        if call.function.name == "OrtEpFactory.CreateEp" and (ep := call.results.get("*ep")):
            self.eps.append("")
            self._owners[ep] = call.session = len(self.eps)
        elif call.function.name == "OrtEp.GetName" and call.session:
            self.eps[call.session - 1] = call.results.get("result") or ""

    def _own(self, text: str) -> None:
        if found := _OBJECT.match(text):
            owner = 0 if found[3] == "(nil)" else int(found[3], 16)
            if (session := self._owners.get(owner)) and found[2] != "(nil)":
                self._owners[int(found[2], 16)] = session

    @property
    def unfinished(self) -> list[Call]:
        """Calls that did not return: where the process ended, or what it is doing."""
        return [call for call in self.calls if call.duration is None]

    @property
    def end(self) -> int:
        """When the last call ended that did, in nanoseconds since the start."""
        return max((call.start + (call.duration or 0) for call in self.calls), default=0)

    @property
    def totals(self) -> list[Totals]:
        """Of each function that was called; what took longest first."""
        calls: dict[str, list[Call]] = defaultdict(list)
        for call in self.calls:
            calls[call.function.name].append(call)
        found = [
            Totals(
                each[0].function,
                len(each),
                sum(call.failed for call in each),
                sum(call.duration or 0 for call in each),
                sum(call.own for call in each),
                max(call.duration or 0 for call in each),
            )
            for each in calls.values()
        ]
        return sorted(found, key=lambda totals: -totals.time)

    @property
    def about(self) -> list[str]:
        """Sentences on the whole of it."""
        threads = len({call.thread for call in self.calls})
        said = [
            f"process {self.process}: {len(self.calls)} calls on {threads} thread(s) in {_time(self.end)}"
        ]
        if self.eps:
            named = (f"{at} ({name or 'not asked for its name'})" for at, name in enumerate(self.eps, 1))
            said.append(f"sessions by execution provider: {', '.join(named)}")
        return said

    @property
    def loss(self) -> str:
        """What is to be said of records that had no room or were cut off; "" where all are there."""
        said = [f"{self.dropped} records had no room"] if self.dropped else []
        if self.missing:
            said.append(f"the file lacks its last {self.missing} bytes")
        return f"{' and '.join(said)}: the trace is not whole" if said else ""


def _used(path: str | os.PathLike[str]) -> bytes:
    """What of the file is in use: the rest may be a hole."""
    with open(path, "rb") as file:
        head = file.read(_HEADER.size)
        used = _HEADER.unpack(head)[3] if len(head) == _HEADER.size and head[:8] == _MAGIC else 0
        return head + file.read(max(min(used, os.path.getsize(path)) - len(head), 0))


def _function(line: str) -> Function:
    name, inputs, outputs = line.split("|")
    enums: dict[str, str] = {}

    def parts(text: str) -> tuple[tuple[str, str], ...]:
        found = []
        for part in filter(None, text.split(",")):
            argument, _, enum = part[2:].partition("=")
            if part[0] not in _KINDS:
                raise ValueError(part)
            if enum:
                enums[argument] = enum
            found.append((part[0], argument))
        return tuple(found)

    return Function(name, parts(inputs), parts(outputs), enums)


@cache
def _names(enum: str) -> Mapping[int, str]:
    """The names of an enumeration's values; none of one that this version does not know."""
    try:
        return dict(ffi.typeof(enum).elements)
    except (ffi.error, AttributeError):  # AttributeError: it is another type
        return {}


def _named(value: int, enum: str) -> int:
    name = _names(enum).get(value)
    return value if name is None else Enumerator(value, name)


def _text(body: bytes, at: int) -> tuple[str | None, int]:
    (length,) = _INT.unpack_from(body, at)
    if length < 0:
        return None, at + 8
    return body[at + 8 : at + 8 + length].decode(errors="replace"), at + 8 + (length + 7) // 8 * 8


def _fields(function: Function, kinds: Sequence[tuple[str, str]], body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    at = 0
    for kind, name in kinds:
        if kind == "s":
            found[name], at = _text(body, at)
            continue
        value = (_REAL if kind == "d" else _INT).unpack_from(body, at)[0]
        at += 8
        if kind == "p":
            value = Address(value & 0xFFFFFFFFFFFFFFFF)
        elif kind == "f":
            value = bool(value)
        elif name in function.enums:
            value = _named(value, function.enums[name])
        found[name] = value
    return found


def _shown(values: dict[str, Any]) -> str:
    return " ".join(f"{name}={json.dumps(v) if isinstance(v, str) else v}" for name, v in values.items())


def call_line(call: Call) -> str:
    """The call in one line."""
    line = f"{call.function.name}({_shown(call.arguments)})"
    if call.duration is None:
        return f"{line} did not return"
    if call.code == _THREW:
        return f"{line} threw a C++ exception"
    if call.code:
        return f"{line} -> error {_named(call.code, 'OrtErrorCode')} {json.dumps(call.error)}"
    return f"{line} -> {_shown(call.results)}" if call.results else line


def _time(nanoseconds: float) -> str:
    for limit, unit in ((1e3, "ns"), (1e6, "us"), (1e9, "ms")):
        if nanoseconds < limit:
            return f"{nanoseconds / limit * 1e3:.3g} {unit}"
    return f"{nanoseconds / 1e9:.3g} s"


def summary(trace: TraceFile, slowest: int = 10) -> list[Table | str]:
    """What a person wants to know first: tables of the calls by function, the slowest, and errors."""
    totals = trace.totals
    own = {side: sum(each.own for each in totals if each.side == side) for side in ("plugin", "host")}
    head, *more = trace.about
    parts: list[Table | str] = [
        f"{trace.path}: {head}; in the plugin {_time(own['plugin'])}, in the host's functions "
        f"{_time(own['host'])}",
        *more,
    ]
    if trace.loss:
        parts.append(trace.loss)
    if trace.unfinished:
        table = Table("Calls that did not return", ("thread", "session", "call"))
        table.rows += [(str(c.thread), str(c.session or ""), call_line(c)) for c in trace.unfinished]
        parts.append(table)
    numbers = ("calls", "errors", "time", "own time", "longest")
    table = Table("Calls by function", ("side", "function", *numbers), right=frozenset(numbers))
    table.rows += [
        (
            each.side,
            each.function.name,
            str(each.calls),
            str(each.errors),
            *(_time(time) for time in (each.time, each.own, each.longest)),
        )
        for each in totals
    ]
    parts.append(table)
    failed = [call for call in trace.calls if call.failed]
    if failed:
        table = Table("Errors", ("session", "call"))
        table.rows += [(str(call.session or ""), call_line(call)) for call in failed[:slowest]]
        if len(failed) > slowest:
            table.rows.append(("", f"and {len(failed) - slowest} more"))
        parts.append(table)
    longest = sorted(trace.calls, key=lambda call: -call.own)[:slowest]
    table = Table("Slowest by their own time", ("own time", "session", "call"), right=frozenset({"own time"}))
    table.rows += [(_time(c.own), str(c.session or ""), call_line(c)) for c in longest if c.duration]
    parts.append(table)
    return parts


def lines(trace: TraceFile) -> Iterator[str]:
    """Every call and note in order, indented by what it was made in."""
    notes = list(trace.notes)
    for call in trace.calls:
        while notes and notes[0].at < call.start:
            yield from _note_lines(notes.pop(0))
        yield f"{call.start / 1e6:12.4f} {call.thread} {'  ' * call.depth}{call_line(call)}"
    for note in notes:
        yield from _note_lines(note)


def _note_lines(note: Note) -> Iterator[str]:
    depth = note.parent.depth + 1 if note.parent is not None else 0
    for line in note.text.splitlines():
        yield f"{'':12} {'':{len(str(note.at))}} {'  ' * depth}| {line}"


def chrome(trace: TraceFile) -> dict[str, Any]:
    """The trace as Chrome's and Perfetto's viewers take it: times in microseconds."""
    events: list[dict[str, Any]] = []
    last = trace.end
    for call in trace.calls:
        duration = call.duration if call.duration is not None else last - call.start
        told = {name: str(value) for name, value in (call.arguments | call.results).items()}
        if call.session:
            told["session"] = str(call.session)
        if call.failed:
            told |= {"error": call.error, "code": str(_named(call.code, "OrtErrorCode"))}
        if call.duration is None:
            told["returned"] = "no"
        events.append(
            {
                "ph": "X",
                "name": call.function.name,
                "cat": "host" if call.function.is_hosts else "plugin",
                "pid": trace.process,
                "tid": call.thread,
                "ts": call.start / 1e3,
                "dur": duration / 1e3,
                "args": told,
            }
        )
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def as_json(trace: TraceFile) -> dict[str, Any]:
    """Every call and note as plain data; ``version`` is that of this layout."""
    numbers = {id(call): number for number, call in enumerate(trace.calls)}

    def above(item: Call | Note) -> int | None:
        return numbers[id(item.parent)] if item.parent is not None else None

    return {
        "version": 1,
        "process": trace.process,
        "dropped": trace.dropped,
        "eps": trace.eps,
        "calls": [
            {
                "function": call.function.name,
                "side": "host" if call.function.is_hosts else "plugin",
                "thread": call.thread,
                "session": call.session,
                "start_ns": call.start,
                "duration_ns": call.duration,
                "parent": above(call),
                "arguments": call.arguments,
                "results": call.results,
                "code": call.code,
                "error": call.error,
            }
            for call in trace.calls
        ],
        "notes": [{"at_ns": note.at, "parent": above(note), "text": note.text} for note in trace.notes],
    }


def _conversation(trace: TraceFile) -> list[str]:
    """The calls as texts that two runs have in common: pointers are numbered as they appear, the calls of
    each thread follow each other, and the room that a host has for answers is left out.
    """
    names: dict[int, str] = {0: "NULL"}
    seen: Counter[str] = Counter()

    def named(function: str, found: re.Match[str]) -> str:
        argument, address = found[1], int(found[2], 16)
        if address not in names:
            # Each argument has numbers of its own: what one host asks more than the other shifts no others.
            kind = function.rpartition(".")[2] if argument in ("out", "result") else argument
            seen[kind] += 1
            names[address] = f"#{kind}{seen[kind]}"
        return f"{argument}={names[address]}"

    by_thread: dict[int, list[str]] = {}
    for call in trace.calls:
        text = re.sub(r"(\w+)=(0x[0-9a-f]+)\b", partial(named, call.function.name), call_line(call))
        line = "  " * call.depth + text
        line = re.sub(r"\b(max_factories|max_ep_devices)=\d+", r"\1=...", line)
        by_thread.setdefault(call.thread, []).append(line)
    return [line for calls in by_thread.values() for line in calls]


def difference(one: TraceFile, other: TraceFile, context: int = 3, most: int = 200) -> list[Table | str]:
    """Where two conversations part: the first different call with what came before it, and the functions that
    are called another number of times. Empty where they do not.
    """
    first, second = _conversation(one), _conversation(other)
    if first == second:
        return []
    same = 0
    while same < min(len(first), len(second)) and first[same] == second[same]:
        same += 1
    start = max(same - context, 0)
    parts: list[Table | str] = [f"the first {same} calls are the same"]
    windows = first[start : same + most], second[start : same + most]
    shown = list(difflib.unified_diff(*windows, one.path, other.path, n=context, lineterm=""))
    if same + most < max(len(first), len(second)):
        # The last lines may only seem to be one side's, since the other's window ends before them.
        while shown[-1][0] in "+-" and not all(line[0] in "+-" for line in shown[3:]):
            shown.pop()
        last = max(at for at, line in enumerate(shown) if line.startswith("@@"))
        if last > 2 and all(line.startswith(" ") for line in shown[last + 1 :]):
            del shown[last:]
    parts.append("\n".join(shown[:most]))
    counts = [Counter(call.function.name for call in trace.calls) for trace in (one, other)]
    table = Table("Functions called another number of times", ("function", "first", "second"))
    for name in sorted(counts[0].keys() | counts[1].keys()):
        if counts[0][name] != counts[1][name]:
            table.rows.append((name, str(counts[0][name]), str(counts[1][name])))
    if table.rows:
        parts.append(table)
    return parts
