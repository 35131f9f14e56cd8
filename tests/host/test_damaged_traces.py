"""Traces and findings that are damaged: one error, which names the file and the place."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from ephost.cli import main
from ephost.errors import InvalidArgument
from ephost.layers.findings import read_findings
from ephost.layers.trace import TraceFile

FUNCTIONS = b"OrtEpFactory.CreateEp|p:this_ptr,s:name|p:*ep\nOrtEp.GetName|p:this_ptr|s:result\n"
HEADER = 64


def record(kind: int, number: int, body: bytes, parent: int = 0, code: int = 0) -> bytes:
    return struct.pack("<IHBxIiqqQ", 40 + len(body), number, kind, 7, code, 1000, 50, parent) + body


def text(content: bytes) -> bytes:
    return struct.pack("<q", len(content)) + content + bytes(-len(content) % 8)


def trace(functions: bytes = FUNCTIONS) -> bytes:
    """Two calls with what they gave, and a note."""
    at = (HEADER + len(functions) + 7) // 8 * 8
    records = record(1, 0, struct.pack("<q", 0x10) + text(b"one"))
    records += record(2, 0, struct.pack("<q", 0x20), at)
    second = at + len(records)
    records += record(1, 1, struct.pack("<q", 0x20))
    records += record(2, 1, text(b"EP"), second) + record(3, 0, text(b"a note"), second)
    end = at + len(records)
    head = struct.pack("<8sIIQQQqqII", b"EPHTRACE", 2, at, end, end, 0, 1000, 0, 42, len(functions))
    return (head + functions).ljust(at, b"\0") + records


def finding(**changed: Any) -> dict[str, Any]:
    event = {"event": "made", "function": "f", "during": "", "thread": 1, "session": 0, "at_ns": 5}
    return {
        **{"version": 1, "rule": "EPV-OWN-001", "severity": "error", "message": "m", "function": "f"},
        **{"during": "", "thread": 1, "session": 0, "ep": "e", "process": 1, "at_ns": 5},
        "handle": {"type": "OrtStatus", "address": "0x1", "history": [event]},
        **changed,
    }


def test_the_trace_is_read_as_long_as_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "t.trace"
    file.write_bytes(trace())
    read = TraceFile(file)
    assert [call.function.name for call in read.calls] == ["OrtEpFactory.CreateEp", "OrtEp.GetName"]
    assert (read.eps, read.notes[0].text, read.loss) == (["EP"], "a note", "")


@pytest.mark.parametrize(
    "damaged", [b"OrtEp.GetName|p:this_ptr\n", b"OrtEp.GetName|x:this_ptr|\n", b"\xff|p:this_ptr|s:result\n"]
)
def test_a_list_of_functions_that_is_none_is_named_by_its_line(damaged: bytes, tmp_path: Path) -> None:
    file = tmp_path / "t.trace"
    file.write_bytes(trace(FUNCTIONS + damaged))
    with pytest.raises(InvalidArgument, match=r"t\.trace is damaged: line 3 of its list of functions"):
        TraceFile(file)


def test_a_record_that_is_too_short_is_named_by_its_place(tmp_path: Path) -> None:
    data = trace()
    at = struct.unpack_from("<I", data, 12)[0]
    file = tmp_path / "t.trace"
    file.write_bytes(data[:at] + struct.pack("<I", 48) + data[at + 4 :])
    with pytest.raises(InvalidArgument, match=rf"t\.trace is damaged: the record at byte {at} is too short"):
        TraceFile(file)


def test_a_trace_that_was_cut_says_so(tmp_path: Path) -> None:
    file = tmp_path / "t.trace"
    file.write_bytes(trace()[:-100])
    done = CliRunner().invoke(main, ["trace", str(file)])
    assert done.exit_code == 0
    assert "the file lacks its last 100 bytes: the trace is not whole" in done.stdout


@pytest.mark.parametrize(
    "line",
    [
        *("[]", "1", '"x"', "{}", "[" * 20000, '{"version": 1'),
        *(json.dumps(finding(**{name: value})) for name in ("message", "thread") for value in (None, [], {})),
        *(json.dumps(finding(handle=handle)) for handle in ("x", [], {"type": 1}, {"history": None})),
        json.dumps(finding(handle={"type": "T", "address": "0x1", "history": [{"event": 1}]})),
        json.dumps(finding(version="x")),
    ],
)
def test_a_line_that_is_no_finding_is_named(line: str, tmp_path: Path) -> None:
    file = tmp_path / "found.jsonl"
    file.write_text(f"{json.dumps(finding())}\n{line}\n")
    with pytest.raises(InvalidArgument, match=r"^line 2 of the findings .*found\.jsonl: "):
        read_findings(file)


def test_changed_bytes_are_read_or_refused(tmp_path: Path) -> None:
    data, file, numbers = trace(), tmp_path / "t.trace", random.Random(5)
    values = [b"\xff" * 8, bytes(8), struct.pack("<Q", 1 << 62), struct.pack("<II", 40, 8), b"||::,,=x"]
    for _ in range(400):
        changed = bytearray(data[: numbers.randrange(1, len(data) + 1)])
        for _ in range(numbers.choice([1, 2, 5])):
            at = numbers.randrange(len(changed))
            changed[at : at + 8] = numbers.choice([*values, numbers.randbytes(1)])
        file.write_bytes(changed)
        done = CliRunner().invoke(main, ["trace", str(file), *numbers.choice([[], ["--json"], ["--calls"]])])
        assert isinstance(done.exception, SystemExit | None), changed
        assert done.exit_code == 0 or str(file) in done.output
