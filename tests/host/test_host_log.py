"""The host's messages: logging is imported when there is one to show, and not before."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from ephost._bindings import lib
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


@pytest.mark.parametrize("character", ["a", "\u00e9", "\u2013", "\U0001f600"])
@pytest.mark.parametrize("before", range(4))
def test_a_long_message_is_cut_between_characters(
    character: str, before: int, caplog: pytest.LogCaptureFixture
) -> None:
    text = "." * before + character * 1100
    lib.ephost_log(3, text.encode())
    (record,) = caplog.records
    said = record.getMessage()
    assert text.startswith(said) and 1020 <= len(said.encode()) <= 1023


FORK = """
import logging, os, signal, sys, threading
import ephost
from ephost._bindings import lib

inside, seen = threading.Event(), threading.Event()

class Slow(logging.Handler):
    def emit(self, record):
        inside.set()
        seen.wait()

logging.getLogger("ephost").addHandler(Slow())
threading.Thread(target=lib.ephost_log, args=(3, b"from another thread")).start()
inside.wait()
if (child := os.fork()) == 0:
    signal.alarm(20)
    sys.exit(7)
_, status = os.waitpid(child, 0)
seen.set()
print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_ends_that_was_forked_while_another_thread_logged() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("7\n", 0), done.stderr
