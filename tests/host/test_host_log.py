"""The host's messages: logging is imported when there is one to show, and not before."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from ephost.host_log import HostLog
from onnx import TensorProto, helper

OPEN = """
import sys
import ephost
session = ephost.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
ephost.get_ep_devices()
assert "logging" not in sys.modules
options = ephost.SessionOptions()
options.add_session_config_entry("session.disable_cpu_ep_falback", "1")
ephost.InferenceSession(sys.argv[1], options)
assert "logging" in sys.modules
"""


def test_a_session_opens_without_logging_and_a_warning_still_reaches_the_terminal(tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "one", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "one.onnx")
    command = [sys.executable, "-c", OPEN, str(tmp_path / "one.onnx")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "session.disable_cpu_ep_falback" in done.stderr


def test_a_record_names_the_line_that_logs(caplog: pytest.LogCaptureFixture) -> None:
    log = HostLog("ephost.somewhere")
    with caplog.at_level(logging.DEBUG, "ephost.somewhere"):
        log.debug("%d", 1)
        log.log(logging.ERROR, "two")
        try:
            raise ValueError("three")
        except ValueError:
            log.exception("failed")
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("DEBUG", "1"),
        ("ERROR", "two"),
        ("ERROR", "failed"),
    ]
    assert {r.filename for r in caplog.records} == {"test_host_log.py"}
    assert {r.funcName for r in caplog.records} == {"test_a_record_names_the_line_that_logs"}
    assert caplog.records[-1].exc_info is not None


def test_what_nobody_asked_for_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    log = HostLog("ephost.somewhere")
    with caplog.at_level(logging.WARNING, "ephost.somewhere"):
        assert not log.is_enabled_for(logging.INFO)
        log.info("nothing")
        log.warning("something")
    assert [r.getMessage() for r in caplog.records] == ["something"]
