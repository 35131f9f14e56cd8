"""The profilers of a session's EPs: started with the host's profile, and their events added to its trace."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ephost._bindings import check, ep_api, ffi, key_values, lib, text
from ephost.errors import OnnxRuntimeException

if TYPE_CHECKING:
    from ephost.execution_provider import ExecutionProvider

_LOG = logging.getLogger("ephost.profiling")
_CATEGORIES = {0: "Session", 1: "Node", 2: "Kernel", 3: "Api"}


class EpProfilers:
    """One ``OrtEpProfilerImpl`` for each EP that has one.

    What a profiler fails in is logged: it costs its events, never the run.
    """

    def __init__(self, eps: Sequence[ExecutionProvider], elapsed_ns: int = 0) -> None:
        """Make and start them.

        Args:
            eps: the session's execution providers.
            elapsed_ns: nanoseconds since the host's profile began.
        """
        self._made: list[tuple[str, Any]] = []
        self._running: list[tuple[str, Any]] = []
        for ep in eps:
            if ep.member("CreateProfiler") is None:
                continue
            out = ffi.new("OrtEpProfilerImpl**")
            try:
                ep.call("CreateProfiler", out)
                if out[0]:
                    self._made.append((ep.name, out[0]))
                    check(out[0].StartProfiling(out[0], elapsed_ns))
                    self._running.append((ep.name, out[0]))
            except OnnxRuntimeException as error:
                _LOG.warning("the profiler of %s does not start: %s", ep.name, error)

    @property
    def pointers(self) -> list[Any]:
        """``OrtEpProfilerImpl*`` of each, valid until :meth:`release`."""
        return [profiler for _, profiler in self._made]

    def end(self) -> Iterator[dict[str, Any]]:
        """Stop them; their events as those of a Chrome trace, times in microseconds."""
        for name, profiler in self._running:
            container = lib.ephost_events_new()
            try:
                check(profiler.EndProfiling(profiler, container))
                yield from _events(name, container)
            except OnnxRuntimeException as error:
                _LOG.warning("the profiler of %s does not end: %s", name, error)
            finally:
                lib.ephost_events_free(container)
        self._running.clear()

    def release(self) -> None:
        """Release them, when no run can tell them of an event any more."""
        for _, profiler in self._made:
            profiler.Release(profiler)
        self._made.clear()
        self._running.clear()


def _events(ep_name: str, container: Any) -> Iterator[dict[str, Any]]:
    process, thread = ffi.new("int*"), ffi.new("int*")
    arguments, category = ffi.new("OrtKeyValuePairs**"), ffi.new("OrtProfilingEventCategory*")
    name, number = ffi.new("char**"), ffi.new("int64_t*")
    for at in range(lib.ephost_events_count(container)):
        event = lib.ephost_events_at(container, at, process, thread, arguments)
        check(ep_api.ProfilingEvent_GetCategory(event, category))
        check(ep_api.ProfilingEvent_GetName(event, name))
        check(ep_api.ProfilingEvent_GetTimestampUs(event, number))
        start = int(number[0])
        check(ep_api.ProfilingEvent_GetDurationUs(event, number))
        yield {
            "ph": "X",
            "cat": _CATEGORIES.get(int(category[0]), "Kernel"),
            "pid": process[0] if process[0] >= 0 else os.getpid(),
            "tid": thread[0] if thread[0] >= 0 else 0,
            "ts": start,
            "dur": int(number[0]),
            "name": text(name[0]),
            "args": {"provider": ep_name, **key_values(arguments[0])},
        }
