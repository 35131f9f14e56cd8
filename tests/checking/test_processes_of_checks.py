"""The processes that checks and searches are done in: whatever plugins say, wherever they are started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import ephost
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


@pytest.mark.skipif(sys.platform == "win32", reason="a path is text there")
def test_reports_of_a_plugin_with_any_name_can_be_read(tmp_path: Path) -> None:
    odd = os.fsdecode("lib\ufffe".encode() + b"\xff.so")
    shutil.copyfile(sample_kernels.get_library_path(), tmp_path / odd)
    for plugin, name in ((odd, "\\ufffe?"), (f"a\x01b={odd}", "a\\x01b")):
        words = [plugin, "--only", "sessions.run", "--json", "c.json", "--junit", "c.xml", "--html", "c.html"]
        done = subprocess.run(
            [sys.executable, "-m", "ephost", "check", *words],
            capture_output=True,
            timeout=100,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(ephost.__file__).parents[1])},
        )
        assert done.returncode == 0, done.stderr
        root = ElementTree.parse(tmp_path / "c.xml").getroot()
        assert root.get("name") == f"ephost check {name}"
        (check,) = json.loads((tmp_path / "c.json").read_text())["checks"]
        assert check["status"] == "pass"
        assert "</html>" in (tmp_path / "c.html").read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="a path is text there")
def test_a_page_of_a_model_with_any_name_is_written(tmp_path: Path) -> None:
    odd = os.fsdecode(b"odd\xff.onnx")
    (tmp_path / odd).write_bytes(parser.parse_model(MODEL).SerializeToString())
    for words in (["explain", odd], ["compare", odd, "cpu", "reference", "--count", "1"]):
        done = subprocess.run(
            [sys.executable, "-m", "ephost", *words, "--html", "page.html"],
            capture_output=True,
            timeout=100,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(ephost.__file__).parents[1])},
        )
        assert done.returncode == 0, done.stderr
        assert "</html>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_host_that_is_not_there_is_named() -> None:
    with (
        pytest.raises(Fail, match="there is no onnxruntime_of_nobody to check the plugin in"),
        Server("onnxruntime_of_nobody") as server,
    ):
        server.probe(given(), 10)
