"""Ctrl-C while the command's modules are imported: it ends the process, without Python's traceback.

This is imported before all else, and imports next to nothing itself.
"""

from __future__ import annotations

import sys

_quiet = False


def end_quietly() -> None:
    """Leave Ctrl-C to the system if this process is the command, until :func:`begin`."""
    global _quiet
    if not is_command():
        return
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _quiet = True


def begin() -> None:
    """Everything is imported: from here on Ctrl-C is Python's KeyboardInterrupt again."""
    global _quiet
    if _quiet:
        import signal

        signal.signal(signal.SIGINT, signal.default_int_handler)
        _quiet = False


def is_command() -> bool:
    """Whether the process was started as ``ephost``, or ``python -m ephost``."""
    start: str = (getattr(sys, "argv", None) or [""])[0]
    name = start.replace("\\", "/").rpartition("/")[2]
    if name not in ("-m", "__main__.py"):  # as Python has it while it looks for the module, and then
        return name.removesuffix(".exe") == "ephost"
    given = sys.orig_argv
    return "-m" in given and given[given.index("-m") + 1 :][:1] == ["ephost"]
