"""Messages of the host and of plugins go to Python's ``logging``.

The host's are under ``ephost``, a plugin's under ``ephost.plugin.<registration name>``. What is below the
level that :func:`set_default_logger_severity` sets is dropped in C, before any Python runs.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ephost._bindings import ffi, lib, text
from ephost.arguments import integer
from ephost.errors import InvalidArgument
from ephost.host_log import CRITICAL, DEBUG, ERROR, INFO, WARNING, HostLog

# ABI severity -> logging level
LEVELS = {0: DEBUG, 1: INFO, 2: WARNING, 3: ERROR, 4: CRITICAL}
_HOST = "ephost"  # what the C half calls itself
PLUGIN_PREFIX = "ephost.plugin."


_listeners: dict[str, list[str]] = {}  # by the plugin's registration name


def as_severity(severity: int) -> int:
    """A severity of the ABI, of an integer of Python or numpy.

    Raises:
        TypeError: it is none.
        InvalidArgument: the ABI has no such severity.
    """
    number = integer("a severity", severity)
    if number not in LEVELS:
        raise InvalidArgument(f"severity {number} is none of 0 (verbose) to 4 (fatal)")
    return number


@contextmanager
def listening(registration_name: str, messages: list[str]) -> Iterator[None]:
    """Adds what a plugin tells its logger, on any thread, at the level that its logger has."""
    _listeners[registration_name] = messages
    try:
        yield
    finally:
        _listeners.pop(registration_name, None)


def is_heard(registration_name: str) -> bool:
    """Whether somebody listens to a plugin."""
    return registration_name in _listeners


def _on_log(level: int, logger: Any, message: Any, file: Any, line: int, function: Any) -> None:
    deliver(level, text(logger), text(message), text(file), line, text(function))


def deliver(level: int, name: str, message: str, file: str, line: int, function: str) -> None:
    """Log a message of the plugin that is registered under a name, or of the host's C half, "ephost".

    ``level`` is the ABI's; the rest is where the message comes from.
    """
    if name in _listeners:
        _listeners[name].append(message)
    HostLog(PLUGIN_PREFIX + name if name and name != _HOST else _HOST).log(
        LEVELS.get(level, INFO),
        "%s",
        message,
        extra={"plugin_file": file, "plugin_line": line, "plugin_function": function},
    )


_on_log_callback = ffi.callback("void(int, const char*, const char*, const char*, int, const char*)", _on_log)
lib.ephost_set_log_callback(_on_log_callback)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lib.ephost_log_after_fork)


@atexit.register
def _stop() -> None:
    lib.ephost_set_log_callback(ffi.NULL)
