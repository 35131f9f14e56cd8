"""``ephost``: plugins, models and sessions from the command line.

Exit codes: 0 all went well; 1 a model, a plugin or a run failed, with one message on stderr that names it;
2 the command line itself is wrong.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import click

from ephost import __version__
from ephost.cli.abi import abi
from ephost.cli.bisect import bisect
from ephost.cli.check import check
from ephost.cli.compare import compare
from ephost.cli.compile import compile_model
from ephost.cli.devices import devices
from ephost.cli.explain import explain
from ephost.cli.layers import layer, trace
from ephost.cli.new import new
from ephost.cli.run import run
from ephost.cli.serve import serve
from ephost.environment import set_default_logger_severity
from ephost.interrupted_start import begin

_SEVERITIES = ("verbose", "info", "warning", "error", "fatal")


_ENDING = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


@contextmanager
def _cleaning_up_at_the_end() -> Iterator[None]:
    """SIGTERM, and the end of the terminal, end a command as Ctrl-C does, so that its processes and temporary
    files go, and then the process, by that signal.
    """
    ours = threading.current_thread() is threading.main_thread()
    taken = [each for each in _ENDING if ours and signal.getsignal(each) is signal.SIG_DFL]
    came: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, signal.SIG_DFL, None):
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)

    for each in taken:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)
        if came:
            with suppress(OSError):  # the terminal may be gone
                sys.stderr.flush()
            signal.raise_signal(came[0])


def _open_streams() -> None:
    """Put the null device in the place of standard streams that were closed: no file that a command opens may
    become one of them, which libraries print to.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            if os.open(os.devnull, os.O_RDWR) != number:
                continue  # another thread was quicker
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            stream = open(number, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


class _Commands(click.Group):
    def main(self, *args: Any, **extra: Any) -> Any:
        begin()
        _open_streams()
        with _cleaning_up_at_the_end():
            return super().main(*args, **extra)


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, "--version", message="ephost %(version)s")
@click.option(
    "--log",
    type=click.Choice(_SEVERITIES),
    default="warning",
    show_default=True,
    help="Messages of the host and of plugins to show on stderr, from this severity on.",
)
def main(log: str) -> None:
    """Load ONNX Runtime plugin execution providers, inspect them and run models on them."""
    severity = _SEVERITIES.index(log)
    logging.basicConfig(
        stream=sys.stderr,
        level=(logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)[severity],
        format="%(levelname)s %(name)s: %(message)s",
        force=True,
    )
    set_default_logger_severity(severity)


for command in (devices, run, explain, compile_model, bisect, compare, check, new, serve, abi, layer, trace):
    main.add_command(command)
