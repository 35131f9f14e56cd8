"""Pipes and devices in the place of files: those with a name are not waited for, nor read without end."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import ephost
import pytest
from ephost.bisection.slicing import Sliced
from ephost.errors import Fail, NoSuchFile
from ephost.layers.findings import read_findings
from ephost.layers.trace import TraceFile
from onnx import parser

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes with names are POSIX's")
READERS = (
    ephost.InferenceSession,
    ephost.AdapterFormat.read_adapter,
    ephost.LoraAdapter().Load,
    Sliced.load,
    TraceFile,
    read_findings,
)
MODEL = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'


@pytest.mark.timeout(30)
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for read in READERS:
        with pytest.raises(Fail, match=rf"^the [\w ]+ {pipe} is a pipe$"):
            read(str(pipe))


@pytest.mark.timeout(30)
def test_a_device_is_not_read_without_end() -> None:
    for read in READERS:
        with pytest.raises(Fail, match=r"^the [\w ]+ /dev/zero is a device$"):
            read("/dev/zero")


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="the system has no names for open files")
def test_a_model_comes_through_a_pipe_of_the_shells() -> None:
    source, target = os.pipe()
    try:
        with open(target, "wb") as file:
            file.write(parser.parse_model(MODEL).SerializeToString())
        assert ephost.InferenceSession(f"/dev/fd/{source}").get_inputs()[0].name == "x"
    finally:
        os.close(source)


def test_no_file_has_a_name_with_a_nul(tmp_path: Path) -> None:
    for read in READERS:
        with pytest.raises(NoSuchFile, match=r"^the [\w ]+ '.*a\\x00b' has a NUL in its name"):
            read(f"{tmp_path}/a\0b")
    with pytest.raises(OSError, match=r"a NUL in its name: '.*a\\x00b'"):
        ephost.AdapterFormat().export_adapter(tmp_path / "a\0b")
