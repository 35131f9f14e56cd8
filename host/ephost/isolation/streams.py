"""The streams of an isolated plugin's devices, as the host has them: names of streams in a worker."""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Any

from ephost._bindings import address, ffi, lib
from ephost.isolation.tables import functions_of

if TYPE_CHECKING:
    from ephost.isolation.process import Worker

_LOG = logging.getLogger("ephost.isolation")
_versions = int(lib.ephost_api_version())
_names = itertools.count(1)  # handles of streams here: addresses at which nothing lies


class Stream:
    """An ``OrtSyncStreamImpl`` over a stream that the plugin made in a worker.

    The host's copies and runs on it are done when they return, so that the order of a stream holds: there is
    nothing to hand over or to wait for but what the plugin itself may have queued there.
    """

    def __init__(self, worker: Worker, device: int, options: dict[str, str], seconds: float) -> None:
        """Have the plugin make it.

        Args:
            worker: where it is.
            device: by number, whose queue it is.
            options: what the plugin is told with it.
            seconds: how long that, or a wait, may take; 0: any time.

        Raises:
            The plugin's error, or its fault.
        """
        self._worker = worker
        self._seconds = seconds
        made = worker.ask("create_stream", {"device": device, "options": options}, timeout=seconds)
        self._number = int(made["stream"])
        self.handle = ffi.cast("void*", next(_names))
        self.pointer = ffi.new("OrtSyncStreamImpl*")
        self.pointer.ort_version_supported = _versions
        for name, function in _STREAM_FUNCTIONS.items():
            setattr(self.pointer, name, function)
        _streams[address(self.pointer)] = self

    def notify(self, out: Any) -> None:
        """``CreateNotification``."""
        out[0] = _Notification(self).pointer

    def wait(self) -> None:
        """Wait until the plugin's stream is empty."""
        self._worker.ask("wait_for_stream", {"stream": self._number}, timeout=self._seconds)

    def release(self) -> None:
        """``Release``: the worker's goes, too."""
        _streams.pop(address(self.pointer), None)
        if not self._worker.is_alive:
            return
        try:
            self._worker.ask("release_stream", {"stream": self._number}, timeout=self._seconds)
        except Exception as error:
            _LOG.error("%s cannot release a stream: %s", self._worker.label, error)


class _Notification:
    """An ``OrtSyncNotificationImpl``: of all that was asked of a stream before."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.pointer = ffi.new("OrtSyncNotificationImpl*")
        self.pointer.ort_version_supported = _versions
        for name, function in _NOTIFICATION_FUNCTIONS.items():
            setattr(self.pointer, name, function)
        _notifications[address(self.pointer)] = self


_streams: dict[int, Stream] = {}
_notifications: dict[int, _Notification] = {}


def _stream(pointer: Any) -> Stream:
    return _streams[address(pointer)]


def _nothing(*_: Any) -> None:
    """What is done by then."""


_STREAM_FUNCTIONS = functions_of(
    "OrtSyncStreamImpl",
    {
        "GetHandle": lambda this: _stream(this).handle,
        "CreateNotification": lambda this, out: _stream(this).notify(out),
        "Flush": _nothing,
        "OnSessionRunEnd": _nothing,
        "Release": lambda this: _stream(this).release(),
    },
)
_NOTIFICATION_FUNCTIONS = functions_of(
    "OrtSyncNotificationImpl",
    {
        "Activate": _nothing,
        "WaitOnDevice": _nothing,
        "WaitOnHost": lambda this: _notifications[address(this)].stream.wait(),
        "Release": lambda this: _notifications.pop(address(this), None) and None,
    },
)
