"""A function that gets the messages in place of logging's handlers, as onnxruntime has since 1.32."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import ephost
import pytest
from ephost.errors import InvalidArgument
from ephost.host_log import HostLog
from ephost.logs import deliver

LOG = HostLog("ephost.somewhere")
Messages = list[tuple[int, str, str, str, str]]


@pytest.fixture
def messages() -> Iterator[Messages]:
    """What a function got; afterwards there is none, and the severity is what it was."""
    before = logging.getLogger("ephost").level, logging.getLogger("ephost").propagate
    yield []
    ephost.set_default_logger_callback(None)
    ephost.set_default_logger_severity(2)
    assert (logging.getLogger("ephost").level, logging.getLogger("ephost").propagate) == before


def test_messages_go_to_the_function_and_to_no_handler(
    messages: Messages, caplog: pytest.LogCaptureFixture
) -> None:
    ephost.set_default_logger_callback(lambda *message: messages.append(message), 1)
    LOG.debug("too little")
    LOG.info("%d bottles", 3)
    LOG.error("failed")
    deliver(2, "acme", "from a plugin", "acme.cc", 12, "Compile")
    assert [(m[0], m[1], m[2], m[4]) for m in messages] == [
        (1, "ephost.somewhere", "", "3 bottles"),
        (3, "ephost.somewhere", "", "failed"),
        (2, "ephost.plugin.acme", "acme", "from a plugin"),
    ]
    assert messages[0][3].startswith("test_log_callback.py:") and messages[0][3].endswith(
        " test_messages_go_to_the_function_and_to_no_handler"
    )
    assert messages[2][3] == "acme.cc:12 Compile"
    assert caplog.records == []
    ephost.set_default_logger_callback(None)
    LOG.error("as before")
    assert len(messages) == 3 and [record.getMessage() for record in caplog.records] == ["as before"]


def test_the_severity_is_that_of_plugins_too(messages: Messages) -> None:
    ephost.set_default_logger_callback(lambda *message: messages.append(message), 3)
    from ephost.environment import default_logger_severity

    assert default_logger_severity() == 3
    ephost.set_default_logger_callback(None, 0)
    assert default_logger_severity() == 3


def test_another_function_takes_the_place_of_the_first(messages: Messages) -> None:
    ephost.set_default_logger_callback(lambda *message: pytest.fail("the first one"))
    ephost.set_default_logger_callback(lambda *message: messages.append(message))
    LOG.warning("once")
    assert [m[4] for m in messages] == ["once"]


def test_what_the_function_raises_is_reported_and_the_message_is_not_lost(
    messages: Messages, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)

    def fails(*message: Any) -> None:
        LOG.error("while another is told")
        raise ValueError("boom")

    ephost.set_default_logger_callback(fails)
    LOG.warning("lost?")
    assert [str(each.exc_value) for each in raised] == ["boom"] and raised[0].object is fails
    assert [r.getMessage() for r in caplog.records] == ["while another is told", "lost?"]


def test_threads_call_the_function_at_once(messages: Messages) -> None:
    both = threading.Barrier(2, timeout=20)
    ephost.set_default_logger_callback(lambda *message: (both.wait(), messages.append(message)))
    threads = [threading.Thread(target=LOG.warning, args=(str(at),)) for at in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(m[4] for m in messages) == ["0", "1"]


@pytest.mark.parametrize("severity", [-1, 5])
def test_a_severity_is_one_of_five(severity: int, messages: Messages) -> None:
    with pytest.raises(InvalidArgument, match="is none of 0"):
        ephost.set_default_logger_callback(print, severity)
    with pytest.raises(InvalidArgument, match="is none of 0"):
        ephost.set_default_logger_callback(None, severity)
    with pytest.raises(TypeError, match="is a function or None"):
        ephost.set_default_logger_callback(3)  # type: ignore[arg-type]
