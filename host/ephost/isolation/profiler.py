"""The profiler of an isolated plugin's EP, as the host has it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ephost._bindings import address, check, ep_api, ffi, lib
from ephost.isolation.tables import functions_of

if TYPE_CHECKING:
    from ephost.isolation.process import Worker

_LOG = logging.getLogger("ephost.isolation")
_versions = int(lib.ephost_api_version())


class Profiler:
    """An ``OrtEpProfilerImpl``. The worker tells the plugin's own of what happens there, and records the
    steps of groups that kernels run; this one fetches both.
    """

    def __init__(self, worker: Worker, seconds: float) -> None:
        """Ask nothing yet.

        Args:
            worker: the EP's.
            seconds: how long a question may take; 0: any time.
        """
        self._worker = worker
        self._seconds = seconds
        self.pointer = ffi.new("OrtEpProfilerImpl*")
        self.pointer.ort_version_supported = _versions
        for name, function in _FUNCTIONS.items():
            setattr(self.pointer, name, function)
        _profilers[address(self.pointer)] = self

    def _ask(self, operation: str, request: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._worker.ask(operation, request, timeout=self._seconds)

    def start(self) -> None:
        """``StartProfiling``; the worker has the same clock."""
        self._ask("start_profiler", {"start": int(lib.ephost_profiler_began())})

    def end(self, container: Any) -> None:
        """``EndProfiling``."""
        for row in self._ask("end_profiler")["events"]:
            arguments = {
                str(key): " ".join(map(str, value)) if isinstance(value, list) else str(value)
                for key, value in row["args"].items()
            }
            keys = [ffi.new("char[]", key.encode()) for key in arguments]
            values = [ffi.new("char[]", value.encode()) for value in arguments.values()]
            event = ffi.new("OrtProfilingEvent**")
            check(
                ep_api.CreateProfilingEvent(
                    int(row["category"]),
                    int(row["pid"]),
                    int(row["tid"]) & 0x7FFFFFFF,
                    str(row["name"]).encode(),
                    int(row["ts"]),
                    int(row["dur"]),
                    ffi.new("char*[]", keys),
                    ffi.new("char*[]", values),
                    len(keys),
                    event,
                )
            )
            try:
                check(ep_api.ProfilingEventsContainer_AddEvents(container, event, 1))
            finally:
                ep_api.ReleaseProfilingEvent(event[0])

    def release(self) -> None:
        """``Release``."""
        _profilers.pop(address(self.pointer), None)
        if self._worker.is_alive:
            try:
                self._ask("release_profiler")
            except Exception as error:
                _LOG.error("%s cannot release its profiler: %s", self._worker.label, error)


_profilers: dict[int, Profiler] = {}
_FUNCTIONS = functions_of(
    "OrtEpProfilerImpl",
    {
        "StartProfiling": lambda this, passed: _profilers[address(this)].start(),
        "EndProfiling": lambda this, container: _profilers[address(this)].end(container),
        "Release": lambda this: _profilers[address(this)].release(),
    },
)
