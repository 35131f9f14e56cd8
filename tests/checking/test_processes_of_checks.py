"""The processes that checks and searches are done in: whatever plugins say, wherever they are started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ephost.checking.processes import Server
from ephost.checking.registry import all_checks
from ephost.checking.subject import Given
from ephost.errors import Fail
from ephost.plugins import sample_kernels
from onnx import parser

MODEL = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Add(x, x) }'


def given(**more: Any) -> Given:
    return Given(sample_kernels.get_library_path(), "sample_kernels", **more)


def test_what_a_plugin_says_may_be_longer_than_a_packet() -> None:
    long = "no such operator in this dialect; " * 10_000
    with Server("ephost") as server:
        facts = server.probe(given(), 30)
        facts["refused"] = {"Sum": long}
        assert server.perform(all_checks()["sessions.run"], given(), facts, 30, 0, "").status == "pass"


def test_and_than_an_argument_of_a_program() -> None:
    pytest.importorskip("onnxruntime")
    with Server("onnxruntime") as server:
        facts = {**server.probe(given(), 60), "refused": {"Sum": "y" * 200_000}}
        checked = given(host="onnxruntime")
        outcome = server.perform(all_checks()["exit.registered"], checked, facts, 100, 0, "")
        assert outcome.status == "pass", (outcome.message, outcome.log)


@pytest.mark.parametrize(
    "command",
    [
        ["check", "sample_kernels", "--only", "sessions.run", "--only", "numbers.Add", "--timeout", "120"],
        ["compare", "model.onnx", "sample_kernels", "reference"],
    ],
)
def test_modules_of_the_working_directory_are_not_pythons(command: list[str], tmp_path: Path) -> None:
    for name in ("numpy", "onnx", "queue", "socket", "pickle", "ctypes"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('a module of a vendor')\n")
    (tmp_path / "model.onnx").write_bytes(parser.parse_model(MODEL).SerializeToString())
    done = subprocess.run(
        [sys.executable, "-P", "-m", "ephost", *command],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "skipped" not in done.stdout.splitlines()[-1]


def test_a_host_that_is_not_there_is_named() -> None:
    with (
        pytest.raises(Fail, match="there is no onnxruntime_of_nobody to check the plugin in"),
        Server("onnxruntime_of_nobody") as server,
    ):
        server.probe(given(), 10)
