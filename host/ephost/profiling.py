"""A session's profile: what the host measures of its steps and runs, and what its EPs' profilers add."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ephost._bindings import check, ffi, guarded, lib
from ephost.errors import OnnxRuntimeException
from ephost.host_log import HostLog
from ephost.model.planning.steps import Copy, Plan
from ephost.providers import DEFAULT_PROVIDER
from ephost.saving import write_text

if TYPE_CHECKING:
    from ephost.execution_provider import ExecutionProvider
    from ephost.options import SessionOptions

_LOG = HostLog("ephost.profiling")
CATEGORIES = {0: "Session", 1: "Node", 2: "Kernel", 3: "Api"}


class Profile:
    """What is recorded from the moment a session began to open to its ``end_profiling``, or to its end."""

    def __init__(
        self,
        plan: Plan,
        eps: Sequence[ExecutionProvider],
        timings: Mapping[str, float],
        options: SessionOptions,
    ) -> None:
        """Start.

        Args:
            plan: of the session.
            eps: its execution providers.
            timings: seconds that each stage of the opening took, and all of it ("total").
            options: of the session.
        """
        # ns, on the clock of time.monotonic_ns
        self.start = int(lib.ephost_clock_ns()) - int(timings["total"] * 1e9)
        self._plan = plan
        self._stages = [(f"session_{stage}", s) for stage, s in timings.items() if stage != "total"]
        self._opening = timings["total"]
        self._opener = threading.get_native_id()
        self._runs: list[tuple[int, int, int]] = []  # start and duration in ns, thread
        self.ep_profilers = EpProfilers(eps, self.start)
        self.ep_profilers.attach(plan, self.start)
        for part in with_bodies(plan):
            lib.ephost_plan_profile(part.pointer, True)
        now = time.time()
        stamp = time.strftime("_%Y-%m-%d_%H-%M-%S", time.localtime(now))
        self._path = f"{options.profile_file_prefix}{stamp}_{int(now * 1000) % 1000:03}.json"
        self._is_recording = True
        self._trace = ""  # what is to be written, once nothing is recorded any more
        self._leaving = os.getpid()  # the process that writes it at the latest; 0: it has tried to
        self._lock = threading.RLock()
        _unwritten.add(self)

    def timed(self, run: Callable[..., Any], *arguments: Any) -> Any:
        """Call what runs the model, and record that."""
        began = time.monotonic_ns()
        try:
            return run(*arguments)
        finally:
            if self._is_recording:
                self._runs.append((began, time.monotonic_ns() - began, threading.get_native_id()))

    def end(self) -> str:
        """Stop, and write the trace; its path, "" when that was done before.

        Raises:
            OSError: it cannot be written. The next call tries again.
        """
        with self._lock:
            if self._is_recording:
                self._is_recording = False
                for part in with_bodies(self._plan):
                    lib.ephost_plan_profile(part.pointer, False)
                import json

                # One call for all events is quicker than one for each. Strings have no quotation mark
                # without a backslash before it, so what is replaced stands between events alone.
                events = json.dumps(list(self._events()))[1:-1].replace('}, {"', '},\n{"')
                self._trace = f"[\n{events}\n]\n"
            if not self._trace:
                return ""
            write_text(self._path, self._trace)
            self._trace = ""
            return self._path

    def leave(self) -> None:
        """End before the plan goes, unless that was done; where that fails it is a warning in the log. A
        process that was forked leaves it to its parent.
        """
        if os.getpid() != self._leaving:
            self._is_recording = False  # nor does it look at the plan any more
            return
        self._leaving = 0
        try:
            self.end()
        except Exception as error:
            _LOG.warning("the profile %s cannot be written: %s", self._path, error)

    def _events(self) -> Iterator[dict[str, Any]]:
        start = 0.0
        yield _event("Session", "session_initialization", self._opener, 0, self._opening * 1e6)
        for name, seconds in self._stages:
            yield _event("Session", name, self._opener, start, seconds * 1e6)
            start += seconds * 1e6
        for began, lasted, thread in self._runs:
            yield _event("Session", "model_run", thread, (began - self.start) / 1e3, lasted / 1e3)
        inside = DEFAULT_PROVIDER in self.ep_profilers.running
        told = [_node_event(event) for event in self.ep_profilers.end()]
        for part in with_bodies(self._plan):
            yield from step_events(part, self.start, inside)
        yield from told


_unwritten: weakref.WeakSet[Profile] = weakref.WeakSet()


@atexit.register
def _leave_all() -> None:
    """At exit, before sessions are closed, or are gone with their modules when nothing can be imported."""
    for profile in list(_unwritten):
        profile.leave()


def step_events(plan: Plan, start: int, inside: bool = False) -> Iterator[dict[str, Any]]:
    """What a plan has recorded of its steps, as events of a Chrome trace.

    Args:
        plan: whose.
        start: when the profile began, on the clock of ``ephost_clock_ns``.
        inside: nodes of the default provider's groups are what its profiler tells.
    """
    count = int(lib.ephost_plan_times(plan.pointer, ffi.NULL, 0))
    times = ffi.new("EphostStepTime[]", max(count, 1))
    count = min(count, int(lib.ephost_plan_times(plan.pointer, times, count)))
    for at in range(count):
        entry = times[at]
        step = plan.order[entry.step]
        when = (int(entry.start_ns) - start) / 1e3, int(entry.duration_ns) / 1e3
        if isinstance(step, Copy):
            values = [value.name for value in step.values]
            yield _event("Copy", step.way, int(entry.thread), *when, values=values)
            continue
        yield _event(
            "Group" if inside and step.ep_name == DEFAULT_PROVIDER else "Node",
            f"{step.node.name or step.node.op_type}_kernel_time",
            int(entry.thread),
            *when,
            op_name=step.node.op_type,
            provider=step.ep_name or DEFAULT_PROVIDER,
            node_index=str(step.node.index),
            nodes=[node.name or node.op_type for node in step.members],
        )


def _node_event(event: dict[str, Any]) -> dict[str, Any]:
    """An event that a profiler told; where it is of a node of the default provider, as onnxruntime has it.

    There each node of that provider is a step of the host, so readers of profiles look for them among "Node".
    """
    told = event["args"]
    name = told.get("node_name")
    if event["cat"] != "Kernel" or told["provider"] != DEFAULT_PROVIDER or name is None:
        return event
    return {**event, "cat": "Node", "name": f"{name or told['op_name']}_kernel_time"}


def _event(
    category: str, name: str, thread: int, start: float, duration: float, **arguments: Any
) -> dict[str, Any]:
    """An event of a Chrome trace, times in microseconds."""
    return {
        "cat": category,
        "pid": os.getpid(),
        "tid": thread,
        "dur": round(duration, 3),
        "ts": round(start, 3),
        "ph": "X",
        "name": name,
        "args": arguments,
    }


def with_bodies(plan: Plan) -> Iterator[Plan]:
    """A plan, and those of the bodies in it."""
    yield plan
    for body in plan.bodies:
        yield from with_bodies(body)


class ProfiledRunner:
    """A session's way into C that records each run."""

    def __init__(self, runner: Any, profile: Profile) -> None:
        self._runner, self._profile = runner, profile

    def run(self, *arguments: Any) -> Any:
        """Run the model."""
        return self._profile.timed(self._runner.run, *arguments)

    def run_bound(self, *arguments: Any) -> Any:
        """Run the model on a binding."""
        return self._profile.timed(self._runner.run_bound, *arguments)

    def close(self) -> bool:
        """End the runs; False while one is under way."""
        closed: bool = self._runner.close()
        return closed

    def bind(self, *arguments: Any) -> Any:
        """What runs read and write, checked once."""
        return self._runner.bind(*arguments)

    def made(self, binding: Any, /) -> bool:
        """Whether this runner can run a binding."""
        made: bool = self._runner.made(binding)
        return made


class EpProfilers:
    """One ``OrtEpProfilerImpl`` for each EP that has one.

    What a profiler fails in is logged: it costs its events, never the run.
    """

    def __init__(self, eps: Sequence[ExecutionProvider], began: int) -> None:
        """Make and start them.

        Args:
            eps: the session's execution providers.
            began: when the host's profile did, on the clock of ``ephost_clock_ns``.
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
                    check(lib.ephost_profiler_start(out[0], began))
                    self._running.append((ep.name, out[0]))
            except OnnxRuntimeException as error:
                _LOG.warning("the profiler of %s does not start: %s", ep.name, error)

    @property
    def running(self) -> list[str]:
        """The execution providers whose profilers have started and not ended."""
        return [name for name, _ in self._running]

    @property
    def pointers(self) -> list[Any]:
        """``OrtEpProfilerImpl*`` of each, valid until :meth:`release`."""
        return [profiler for _, profiler in self._made]

    def attach(self, plan: Plan, began: int) -> None:
        """Let them hear of the runs of a plan and of the bodies in it, once."""
        pointers = self.pointers
        for part in with_bodies(plan) if pointers else ():
            check(lib.ephost_plan_set_profilers(part.pointer, pointers, len(pointers), began))

    def end(self) -> Iterator[dict[str, Any]]:
        """Stop them; their events as those of a Chrome trace, times in microseconds."""
        for name, profiler in self._running:
            container = lib.ephost_events_new()
            try:
                check(guarded("OrtEpProfilerImpl_EndProfiling")(profiler, container))
                yield from _events(name, container)
            except OnnxRuntimeException as error:
                _LOG.warning("the profiler of %s does not end: %s", name, error)
            finally:
                lib.ephost_events_free(container)
        self._running.clear()

    def release(self) -> None:
        """Release them, when no run can tell them of an event any more."""
        for _, profiler in self._made:
            guarded("OrtEpProfilerImpl_Release")(profiler)
        self._made.clear()
        self._running.clear()


class KernelTimes(EpProfilers):
    """Profilers that are asked for one thing: how long each node of a group took."""

    def __init__(self, eps: Sequence[ExecutionProvider], plan: Plan) -> None:
        """Start those of some EPs, for the runs of a plan."""
        began = int(lib.ephost_clock_ns())
        super().__init__(eps, began)
        self._told: Counter[tuple[str, str]] = Counter()
        self.attach(plan, began)

    def collected(self) -> Counter[tuple[str, str]]:
        """Seconds of all runs by EP and name of a node. The profilers end with the first call.

        A node is known by the argument "node_name" of an event, or by being what the event is called.
        """
        for event in self.end():
            told = event["args"]
            self._told[told["provider"], told.get("node_name", event["name"])] += event["dur"] / 1e6
        return self._told


_TAKEN = 4096  # events that are taken from C at once


def _events(ep_name: str, container: Any) -> Iterator[dict[str, Any]]:
    total = int(lib.ephost_events_count(container))
    taken = ffi.new("EphostEvent[]", min(total, _TAKEN))
    process = os.getpid()
    known: dict[bytes, str] = {}  # keys, and names of operators and nodes, come again in each run

    def said(pointer: Any) -> str:
        data: bytes = ffi.string(pointer)
        found = known.get(data)
        if found is None:
            found = known[data] = data.decode("utf-8", "backslashreplace")
        return found

    for first in range(0, total, _TAKEN):
        count = min(total - first, _TAKEN)
        lib.ephost_events_get(container, first, count, taken)
        for at in range(count):
            event = taken[at]
            arguments = {"provider": ep_name}
            keys, values = event.keys, event.values
            for i in range(event.argument_count):
                arguments[said(keys[i])] = said(values[i])
            yield {
                "ph": "X",
                "cat": CATEGORIES.get(event.category, "Kernel"),
                "pid": event.process_id if event.process_id >= 0 else process,
                "tid": event.thread_id if event.thread_id >= 0 else 0,
                "ts": event.start_us,
                "dur": event.duration_us,
                "name": said(event.name),
                "args": arguments,
            }
