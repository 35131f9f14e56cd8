"""Tables in terminals of any width: nothing is lost, and no name is broken."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ephost.table_layout import aligned, stacked, wrapped
from ephost.tables import Table
from onnx import parser, save
from rich.console import Console

NAMES = ("CPUExecutionProvider", "sample_kernels", "SimplifiedLayerNormalization", "com.example::Op")


def shown(table: Table, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    console.print(table, overflow="ignore", crop=False)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def table() -> Table:
    made = Table("Names", ("EP", "operators", "nodes", "why"), right=frozenset(["nodes"]))
    for at, name in enumerate(NAMES):
        why = f"its registry has no kernel for {name} of tensor(float), and {'much more ' * at}is to be said"
        made.rows.append((name, ", ".join(NAMES[: at + 1]), "1,234", why))
    return made


@pytest.mark.parametrize("width", [200, 120, 100, 80, 60, 40, 30])
def test_words_are_whole_at_any_width(width: int) -> None:
    text = shown(table(), width)
    words = text.replace(";", " ").split()
    for row in table().rows:
        for cell in row:
            assert set(cell.split()) <= set(words)
    assert max(map(len, text.splitlines())) <= max(width, len("     SimplifiedLayerNormalization,"))


def test_columns_are_as_wide_as_they_fit() -> None:
    lines = aligned(("name", "n"), [("a", "5"), ("bb", "123")], {1}, 80)
    assert lines == [[" name    n"], [" a       5"], [" bb    123"]]
    narrow = aligned(("name", "text"), [("a", "one two three four five six seven eight nine ten")], (), 36)
    assert narrow is not None and len(narrow[1]) > 1 and all(len(line) <= 36 for line in narrow[1])
    assert aligned(("name", "other"), [("x" * 20, "y" * 20)], (), 40) is None


def test_a_head_of_several_words_stands_at_the_foot_of_its_lines() -> None:
    assert aligned(("a", "bytes out"), [("x" * 10, "5 B")], {1}, 18) == [
        ["             bytes", " a             out"],
        [" xxxxxxxxxx    5 B"],
    ]


def test_what_does_not_fit_in_columns_is_told_cell_by_cell() -> None:
    assert stacked(("EP", "kind", "nodes", "note"), ("cpu", "compiled", "4", ""), {2}, 40) == [
        " cpu",
        "   kind: compiled; nodes: 4",
    ]
    assert stacked(("#", "EP"), ("0", "cpu"), {0}, 40) == [" #: 0", "   EP: cpu"]
    assert stacked(("EP",), ("",), (), 40) == []


def test_a_path_is_broken_behind_a_slash_and_nothing_of_it_is_lost() -> None:
    path = "/usr/lib/python3/site-packages/vendor_of_plugins/libonnxruntime_providers_vendor.so"
    lines = wrapped(path, 40)
    assert "".join(lines) == path and all(line.endswith("/") for line in lines[:-1])
    assert wrapped("", 10) == [""] and wrapped("x" * 30, 10) == ["x" * 30]


def test_wide_letters_count_as_what_they_take() -> None:
    made = Table("", ("name", "n"), [("\u4e2d\u6587", "1"), ("abcd", "2")], frozenset(["n"]))
    first, second = shown(made, 40).splitlines()[2:4]
    assert first.index("1") == second.index("2") - 2


RUN = """
import os, pty, sys, struct, fcntl, termios
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, int(sys.argv[1]), 0, 0))
    os.execv(sys.executable, [sys.executable, "-m", "ephost", *sys.argv[2:]])
out = b""
while True:
    try:
        read = os.read(fd, 65536)
    except OSError:
        break
    if not read:
        break
    out += read
os.waitpid(pid, 0)
sys.stdout.buffer.write(out)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a terminal is made by the pty of Linux")
@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize(
    "command",
    [
        ["devices", "--ep", "sample_kernels"],
        ["explain", "m.onnx", "--ep", "sample_kernels"],
        ["run", "m.onnx", "--profile", "--ep", "sample_kernels"],
        ["abi"],
        ["check", "--list"],
    ],
    ids=lambda command: command[0] if isinstance(command, list) else None,
)
def test_commands_break_no_name_in_a_narrow_terminal(command: list[str], width: int, tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2, 2] x) => (float[2, 2] y) '
    model = parser.parse_model(text + "{ s = LogSoftmax(x) e = Erf(s) y = ThresholdedRelu(e) }")
    save(model, tmp_path / "m.onnx")
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    environment |= {"TERM": "xterm", "EPHOST_CPU_PLUGIN": "1"}

    def said(*program: str) -> set[str]:
        done = subprocess.run(
            [sys.executable, *program, *command],
            env=environment,
            capture_output=True,
            check=True,
            cwd=tmp_path,
        )
        return set(
            re.findall(r"\w*(?:[a-z][A-Z]|_)\w*", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.stdout.decode()))
        )

    # Whatever is a name in a file is one in a narrow terminal.
    assert said("-m", "ephost") - said("-c", RUN, str(width)) == set()
