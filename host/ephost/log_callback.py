"""A function of the application that gets the host's and the plugins' messages in place of ``logging``."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ephost.environment import set_default_logger_severity
from ephost.logs import LEVELS, PLUGIN_PREFIX, as_severity

# severity, category, logid, code location, message
LogCallback = Callable[[int, str, str, str, str], Any]
_ROOT = logging.getLogger("ephost")
_SEVERITIES = {level: severity for severity, level in LEVELS.items()}


class _Handler(logging.Handler):
    """Hands records to a function; what it cannot take goes where it would go without it."""

    def __init__(self, function: LogCallback, severity: int) -> None:
        super().__init__()
        self.function = function
        self._level_of_host = LEVELS[severity]  # C drops what is below a plugin's or a session's own
        self._here = threading.local()

    def handle(self, record: logging.LogRecord) -> bool:
        """Without the handler's lock: the function may log, and be called on several threads at once."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        file = getattr(record, "plugin_file", None)
        if file is None and record.levelno < self._level_of_host:
            return
        if getattr(self._here, "busy", False):
            _pass_on(record)
            return
        if file is None:
            where = f"{record.filename}:{record.lineno} {record.funcName}"
        else:
            where = f"{file}:{record.__dict__['plugin_line']} {record.__dict__['plugin_function']}"
        logid = record.name.removeprefix(PLUGIN_PREFIX) if record.name.startswith(PLUGIN_PREFIX) else ""
        self._here.busy = True
        try:
            self.function(_SEVERITIES.get(record.levelno, 1), record.name, logid, where, record.getMessage())
        except BaseException as error:
            sys.unraisablehook(
                SimpleNamespace(
                    exc_type=type(error),
                    exc_value=error,
                    exc_traceback=error.__traceback__,
                    err_msg="Exception ignored in the callback for log messages",
                    object=self.function,
                )
            )
            _pass_on(record)
        finally:
            self._here.busy = False


def _pass_on(record: logging.LogRecord) -> None:
    parent = _ROOT.parent
    if parent is not None and parent.isEnabledFor(record.levelno):
        parent.callHandlers(record)


_installed: _Handler | None = None
_before: tuple[int, bool] | None = None  # the logger's level and propagation without a function
_changing = threading.Lock()


def set_default_logger_callback(callback: LogCallback | None, severity: int = 2) -> None:
    """Give the messages of the host and of plugins to a function, in place of the handlers of ``logging``'s
    root; those that the application has added to the logger ``ephost`` itself get them too.

    The function runs on the thread that the message comes from, on several at once if need be. What it raises
    is reported to ``sys.unraisablehook``; that message, and those that come of the function itself, go to the
    root's handlers.

    Args:
        callback: called with the severity (0 verbose to 4 fatal), the logger's name (``ephost.session``,
            ``ephost.plugin.<registration name>``), a plugin's registration name or "", the code location as
            ``file:line function``, and the message. None: as without one; the severity stays.
        severity: the default severity from now on (:func:`ephost.set_default_logger_severity`). Sessions' and
            runs' own hold besides it.

    Raises:
        TypeError: the callback is no function, or the severity no int.
        InvalidArgument: the severity is none of 0 to 4.
    """
    global _installed, _before
    severity = as_severity(severity)
    if callback is not None and not callable(callback):
        raise TypeError(f"the callback for log messages is a function or None, not {callback!r}")
    with _changing:
        if _installed is not None:
            _ROOT.removeHandler(_installed)
            _installed = None
        if callback is None:
            if _before is not None:
                level, _ROOT.propagate = _before
                _ROOT.setLevel(level)
                _before = None
            return
        if _before is None:
            _before = (_ROOT.level, _ROOT.propagate)
        _installed = _Handler(callback, severity)
        _ROOT.addHandler(_installed)
        _ROOT.setLevel(logging.DEBUG)
        _ROOT.propagate = False
        set_default_logger_severity(severity)
