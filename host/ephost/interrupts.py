"""Ctrl-C while native things are made: it waits for a place where nothing is half made."""

from __future__ import annotations

import threading
from types import FrameType

try:
    # The functions of the module signal make enums of what these take and give.
    from _signal import (  # type: ignore[import-not-found]
        SIGINT,
        default_int_handler,
        getsignal,
        signal,
    )
except ImportError:
    from signal import SIGINT, default_int_handler, getsignal, signal


class Interrupts:
    """Holds back SIGINT from :meth:`hold` to :meth:`let_go`, on the main thread and from Python's handler.

    Python raises KeyboardInterrupt between any two calls, also between the one that makes a handle and the
    statement that remembers it: a handle would never be released, and a library stay in use. The first one
    that is held back is raised by :meth:`check`, where the caller can end, or by :meth:`let_go`; the second
    one at once.
    """

    def __init__(self) -> None:
        self._is_held = False
        self._came = False

    def hold(self) -> None:
        """From here on one waits."""
        if threading.current_thread() is threading.main_thread() and getsignal(SIGINT) is default_int_handler:
            try:
                signal(SIGINT, self._note)
            except ValueError:  # the main thread of another interpreter
                return
            self._is_held = True

    def check(self) -> None:
        """A place to end at.

        Raises:
            KeyboardInterrupt: one has come.
        """
        if self._came:
            self._came = False
            raise KeyboardInterrupt

    def let_go(self) -> None:
        """From here on they are raised where they come.

        Raises:
            KeyboardInterrupt: one has come.
        """
        if self._is_held:
            self._is_held = False
            signal(SIGINT, default_int_handler)
        self.check()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._came:
            self.let_go()
        self._came = True
