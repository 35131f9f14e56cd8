"""The events of EPs' profilers, on their way into the host's trace."""

from __future__ import annotations

import pytest
from ephost._bindings import NULL, check, ep_api, ffi, lib, text
from ephost.errors import EPFail, InvalidArgument
from ephost.profiling import EpProfilers


def _event(name: str, start: int, duration: int, **arguments: str):
    keys = [ffi.new("char[]", key.encode()) for key in arguments]
    values = [ffi.new("char[]", value.encode()) for value in arguments.values()]
    out = ffi.new("OrtProfilingEvent**")
    check(
        ep_api.CreateProfilingEvent(
            2, -1, 7, name.encode(), start, duration, keys or NULL, values or NULL, len(keys), out
        )
    )
    return out[0]


class FakeEp:
    """As much of an execution provider as profiling asks for: a profiler made of Python functions."""

    name = "fake_ep"

    def __init__(self, end) -> None:
        self.calls: list[tuple] = []
        profiler = self.profiler = ffi.new("OrtEpProfilerImpl*")
        profiler.ort_version_supported = 25

        def release(_):
            self.calls.append(("Release",))

        def start(_, offset):
            self.calls.append(("StartProfiling", offset))
            return NULL

        self._keep = [
            ffi.callback("void(OrtEpProfilerImpl*)", release),
            ffi.callback("OrtStatus*(OrtEpProfilerImpl*, int64_t)", start),
            ffi.callback("OrtStatus*(OrtEpProfilerImpl*, OrtProfilingEventsContainer*)", end),
        ]
        profiler.Release, profiler.StartProfiling, profiler.EndProfiling = self._keep

    def member(self, name: str):
        return name == "CreateProfiler" or None

    def call(self, name: str, out) -> None:
        assert name == "CreateProfiler"
        out[0] = self.profiler


def test_an_event_gives_back_what_it_was_made_of():
    event = _event("matmul", 10, 5, kernel="sgemm")
    number, name, category = ffi.new("int64_t*"), ffi.new("char**"), ffi.new("OrtProfilingEventCategory*")
    check(ep_api.ProfilingEvent_GetTimestampUs(event, number))
    assert number[0] == 10
    check(ep_api.ProfilingEvent_GetDurationUs(event, number))
    assert number[0] == 5
    check(ep_api.ProfilingEvent_GetName(event, name))
    assert text(name[0]) == "matmul"
    check(ep_api.ProfilingEvent_GetCategory(event, category))
    assert category[0] == 2
    check(ep_api.ProfilingEvent_GetArgValue(event, b"kernel", name))
    assert text(name[0]) == "sgemm"
    check(ep_api.ProfilingEvent_GetArgValue(event, b"grid", name))
    assert name[0] == NULL
    ep_api.ReleaseProfilingEvent(event)


def test_a_null_event_is_refused_by_its_place():
    container = lib.ephost_events_new()
    events = ffi.new("OrtProfilingEvent*[]", [_event("a", 0, 1), NULL])
    try:
        with pytest.raises(InvalidArgument, match="event 1 of 2"):
            check(ep_api.ProfilingEventsContainer_AddEvents(container, events, 2))
        assert lib.ephost_events_count(container) == 1
    finally:
        ep_api.ReleaseProfilingEvent(events[0])
        lib.ephost_events_free(container)


def test_a_profilers_events_come_as_those_of_a_trace():
    def end(_, container):
        event = _event("matmul", 10, 5, kernel="sgemm")
        status = ep_api.ProfilingEventsContainer_AddEvents(container, [event], 1)
        ep_api.ReleaseProfilingEvent(event)
        return status

    ep = FakeEp(end)
    began = lib.ephost_clock_ns()
    profilers = EpProfilers([ep], began - 1000)
    passed = lib.ephost_clock_ns() - began
    (event,) = profilers.end()
    assert (event["name"], event["ts"], event["dur"], event["tid"]) == ("matmul", 10, 5, 7)
    assert event["args"] == {"provider": "fake_ep", "kernel": "sgemm"}
    ((call, told),) = ep.calls  # a run that is under way may still tell it of an event
    assert call == "StartProfiling"
    assert 1000 <= told <= 1000 + passed
    profilers.release()
    assert ep.calls[1:] == [("Release",)]


def test_a_profiler_that_fails_is_released_and_costs_only_its_events(caplog):
    from ephost._bindings import api

    ep = FakeEp(lambda _, __: api.CreateStatus(EPFail.code, b"no more"))
    profilers = EpProfilers([ep], 0)
    assert list(profilers.end()) == []
    profilers.release()
    assert "fake_ep" in caplog.text and "no more" in caplog.text
    assert ep.calls[-1] == ("Release",)
