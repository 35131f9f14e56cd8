"""What commands print, and where, whatever plugins print and whoever reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
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
