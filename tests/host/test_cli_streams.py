"""What commands print, and where, whatever plugins print and whoever reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from ephost.cli import main
from onnx import parser

MODEL = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Add(x, x) }'
SPEAKS = """
#include <stdio.h>
__attribute__((constructor)) static void begin(void) { puts("plugin: hello"); }
__attribute__((destructor)) static void end(void) { puts("plugin: bye"); fflush(stdout); }
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(parser.parse_model(MODEL).SerializeToString())
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="the plugin is POSIX's")
@pytest.mark.parametrize("command", [["run"], ["explain"], ["run", "--isolated"], ["devices"]])
def test_json_is_all_that_stdout_gets(
    command: list[str], model: Path, bad_plugin: Callable[..., Path], tmp_path: Path
) -> None:
    source = tmp_path / "speaks.c"
    source.write_text(SPEAKS)
    plugin = bad_plugin(str(source))
    words = [*command, *([] if command == ["devices"] else [str(model)]), "--ep", str(plugin), "--json"]
    if "--isolated" in words and sys.platform != "linux":
        pytest.skip("plugins can be isolated on Linux alone")
    done = subprocess.run(
        [sys.executable, "-m", "ephost", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), dict)
    assert "plugin: hello" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the checks are Linux's")
def test_reports_are_written_though_nobody_reads_what_is_printed(tmp_path: Path) -> None:
    words = ["check", "sample_kernels", "--only", "sessions.run", "--junit", "c.xml", "--html", "c.html"]
    command = ["sh", "-c", '"$@" | true', "sh", sys.executable, "-m", "ephost", *words, "--json", "c.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path)
    assert "Traceback" not in done.stderr
    for name in ("c.xml", "c.html", "c.json"):
        assert "sessions.run" in (tmp_path / name).read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="the checks are Linux's")
def test_a_report_that_cannot_be_written_is_told_before_and_keeps_no_other_from_it(tmp_path: Path) -> None:
    words = ["check", "sample_kernels", "--only", "sessions.run", "--html", "c.html"]

    def end(*more: str) -> str:
        command = [sys.executable, "-m", "ephost", *words, *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path)
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    text = end("--junit", "nowhere/c.xml")
    assert f"nowhere/c.xml cannot be written: there is no folder {tmp_path / 'nowhere'}" in text
    assert "1 pass" not in text and list(tmp_path.iterdir()) == []
    text = end("--junit", "/dev/full")
    assert "No space left on device" in text and "1 pass" in text
    assert "sessions.run" in (tmp_path / "c.html").read_text()


@pytest.mark.parametrize("command", [["explain"], ["compare", "cpu", "reference"]])
def test_a_page_for_a_folder_that_is_not_there_is_refused(
    command: list[str], model: Path, tmp_path: Path
) -> None:
    page = tmp_path / "nowhere" / "page.html"
    done = CliRunner().invoke(main, [command[0], str(model), *command[1:], "--html", str(page)])
    assert done.exit_code == 1 and "there is no folder" in done.output
