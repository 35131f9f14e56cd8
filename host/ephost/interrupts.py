"""Ctrl-C where KeyboardInterrupt alone does not do: it waits for what is half made, and is not lost."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

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


class _Kept:
    """Python's handler, and whether it was called."""

    def __init__(self) -> None:
        self.came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        default_int_handler(number, frame)


def _take_over(handler: Callable[[int, FrameType | None], None]) -> Any:
    """Put a handler of SIGINT in the place of Python's.

    Returns:
        What was there; None where that is not Python's, or this is not the thread that it is called on.
    """
    if threading.current_thread() is not threading.main_thread():
        return None
    before = getsignal(SIGINT)
    if before is not default_int_handler and not isinstance(before, _Kept):
        return None
    try:
        signal(SIGINT, handler)
    except ValueError:  # the main thread of another interpreter
        return None
    return before


@contextlib.contextmanager
def interrupts_kept() -> Iterator[None]:
    """Ctrl-C ends the block as KeyboardInterrupt, also where a library puts an error of its own in its place.

    numpy's reading of files does: it asks in C whether a file is a path, and takes an exception for a no.
    """
    kept = _Kept()
    before = _take_over(kept)
    try:
        yield
    except Exception as error:
        if kept.came:
            raise KeyboardInterrupt from error
        raise
    finally:
        if before is not None and getsignal(SIGINT) is kept:
            signal(SIGINT, before)


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
        self._before: Any = default_int_handler

    def hold(self) -> None:
        """From here on one waits."""
        if (before := _take_over(self._note)) is not None:
            self._before = before
            self._is_held = True

    def check(self) -> None:
        """A place to end at.

        Raises:
            KeyboardInterrupt: one has come.
        """
        if self._came:
            self._came = False
            self._before(SIGINT, None)

    def let_go(self) -> None:
        """From here on they are raised where they come.

        Raises:
            KeyboardInterrupt: one has come.
        """
        if self._is_held:
            self._is_held = False
            signal(SIGINT, self._before)
        self.check()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._came:
            self.let_go()
        self._came = True
