"""The end of what other processes print: however much that is, it takes little memory and no disk."""

from __future__ import annotations

import os
import threading
from multiprocessing.connection import wait

_AT_ONCE = 1 << 16
_MOST_LEFT = 1 << 20  # bytes that are read after the end was asked for: who prints may go on for ever


class Printed:
    """A pipe to print to, of which a thread keeps the last bytes."""

    def __init__(self, kept: int) -> None:
        """Begin to read.

        Args:
            kept: how many bytes are kept.
        """
        self._kept = kept
        self._last = bytearray()
        self._reader, self.file = os.pipe()  # the file is for others to print to
        self._stopping, self._stop = os.pipe()
        os.set_blocking(self._reader, False)
        self._thread = threading.Thread(target=self._read, name="ephost-printed", daemon=True)
        self._thread.start()

    def handed_out(self) -> None:
        """The processes that print have the file: it is closed here."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def end(self) -> str:
        """What was printed last, as text. Who still prints finds a broken pipe from then on."""
        self.handed_out()
        os.close(self._stop)
        self._thread.join()
        for file in (self._reader, self._stopping):
            os.close(file)
        return self._last[-self._kept :].decode("utf-8", "replace").strip()

    def _read(self) -> None:
        while self._stopping not in wait([self._reader, self._stopping]):
            if not self._take():
                return
        left = _MOST_LEFT
        while left > 0 and (taken := self._take()):
            left -= taken

    def _take(self) -> int:
        """The number of bytes that were there: 0 at the end, or with nothing there."""
        try:
            data = os.read(self._reader, _AT_ONCE)
        except BlockingIOError:
            return 0
        self._last += data
        if len(self._last) > self._kept + _AT_ONCE:
            del self._last[: -self._kept]
        return len(data)
