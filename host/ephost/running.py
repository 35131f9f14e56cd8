"""Session: the ways to run an open model, and what can be asked of it. Opening is InferenceSession's."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ephost._bindings import check, ffi, lib
from ephost.device_memory import is_cpus
from ephost.devices import OrtDevice, OrtMemoryInfo, cpu_device
from ephost.enums import OrtAllocatorType, OrtDeviceVendorId, OrtMemType
from ephost.environment import DEFAULT_PROVIDER, OrtEpDevice
from ephost.errors import (
    EPFail,
    Fail,
    InvalidArgument,
    NotImplemented,
    OnnxRuntimeException,
    warn_of_fallback,
)
from ephost.io_binding import IOBinding, Target, into_bound, targets_of
from ephost.model.plan import Copy
from ephost.options import RunOptions, SessionOptions
from ephost.profiling import EpProfilers
from ephost.values import OrtValue

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_LOG = logging.getLogger("ephost.session")
DISABLE_FALLBACK = "session.disable_cpu_ep_fallback"


@cache
def _executor() -> ThreadPoolExecutor:
    """The threads of asynchronous runs, shared by all sessions of the process."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(min(32, (os.cpu_count() or 1) + 4), thread_name_prefix="ephost-run")


class Session:
    """What an open session does. Any number of threads may use it at once."""

    _options: SessionOptions
    _resources: Any
    _interface: Any
    _runner: Any
    _run: Callable[..., list[Any]]
    _fallback: bool = False  # whether a run on which a plugin fails is repeated without plugins
    _fallback_lock: threading.Lock
    _hosts_alone: bool = False  # opening: on the host's own provider, whatever the options choose
    _fell_back: bool = False
    _timings: dict[str, float]
    _profile_start: int = 0
    _profile_file: str = ""
    _ep_profilers: EpProfilers
    description: str

    # Defined by InferenceSession.
    def _reopen(self, providers: Any, provider_options: Any) -> None:
        raise NotImplementedError

    # ---- running ----

    def _names(self, output_names: Sequence[str] | None) -> Sequence[str]:
        return output_names or self._interface.output_names

    def _open_runner(self) -> Any:
        runner = self._runner
        if runner is None:
            raise Fail("the session is closed")
        return runner

    def _values(
        self, feed: Mapping[str, Any], targets: list[tuple[str, Any]], options: RunOptions | None
    ) -> list[int]:
        runner = self._open_runner()
        feed = feed if options is None else options._fed(feed)
        bound = runner.bind(feed if type(feed) is dict else dict(feed), targets)
        made: list[int] | None = runner.run_bound(bound, None if options is None else options._address)
        return [0] * len(targets) if made is None else made

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Run the model once on OrtValues, giving OrtValues. Otherwise as ``run``."""
        targets = [(name, None) for name in self._names(output_names)]
        run = self._run
        try:
            made = self._values(input_dict_ort_values, targets, run_options)
        except EPFail as error:
            if not self._fall_back(run, error):
                raise
            made = self._values(input_dict_ort_values, targets, run_options)
        return [OrtValue._from_address(value) for value in made]

    def _made(self, name: str, value: int) -> OrtValue:
        """The value of an output at an address, which is taken over; on a device it keeps what the session
        holds there.
        """
        pointer = ffi.cast("OrtValue*", value)
        resources = self._resources
        memory = resources.plan.output_memories[self._interface.output_names.index(name)]
        if memory is None or is_cpus(pointer):
            return OrtValue(pointer)
        return OrtValue._on_device(pointer, memory, resources)

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: list[OrtValue],
        fetch_devices: Sequence[OrtDevice],
    ) -> None:
        """Run the model once on OrtValues by position.

        Args:
            run_options: options of this run, or None.
            feed_names: names of inputs.
            feeds: a value for each of these.
            fetch_names: names of outputs.
            fetches: filled with a value for each of these; values that are in it already are written in
                place.
            fetch_devices: where each output is wanted.

        Raises:
            InvalidArgument: lengths that do not fit each other, and as ``run``.
            NotImplemented: a device that no registered execution provider has memory on.
        """
        if len(feed_names) != len(feeds) or (fetches and len(fetches) != len(fetch_names)):
            raise InvalidArgument(
                f"there are {len(feed_names)} names for {len(feeds)} feeds, and {len(fetch_names)} names for "
                f"{len(fetches)} fetches"
            )
        devices = [*fetch_devices, *[cpu_device()] * (len(fetch_names) - len(fetch_devices))]
        given: Sequence[Target] = fetches or devices
        feed = dict(zip(feed_names, feeds, strict=True))
        outputs = dict(zip(fetch_names, given, strict=True))
        made = self._values(feed, targets_of(outputs), run_options)
        fetches[:] = into_bound(self, outputs, made)

    def io_binding(self) -> IOBinding:
        """A new binding of this session's inputs and outputs to memory."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run the model once on what is bound; ``iobinding.get_outputs()`` has the results.

        Raises:
            ValueError: the binding belongs to another session.
            InvalidArgument: nothing is bound to the outputs; and as ``run``.
        """
        if iobinding._session is not self:
            raise ValueError("IOBinding must be used with the session that created it.")
        iobinding._iobinding._run(run_options)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], None],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Start a run on another thread and return.

        Args:
            output_names: as for ``run``.
            input_feed: as for ``run``; its arrays must not change until the run is over.
            callback: called on that thread with the results, ``user_data`` and an error's text, "" for none.
                What it raises is logged. It should not wait for other runs.
            user_data: anything.
            run_options: as for ``run``.

        Raises:
            ValueError: inputs are missing.
        """
        self._check_feed(input_feed)

        def work() -> None:
            results: list[Any] = []
            message = ""
            try:
                results = self.run(output_names, input_feed, run_options)
            except Exception as error:
                message = str(error) or type(error).__name__
            try:
                callback(results, user_data, message)
            except Exception:
                _LOG.exception("the callback of an asynchronous run of %s failed", self.description)

        _executor().submit(work)

    async def run_asyncio(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """``run`` for asyncio: awaited, it leaves the event loop free. A name of ephost's own.

        When the awaiting task is cancelled, the run stops before its next node.
        """
        import asyncio  # here, as it takes 2 MB, and who awaits this has it already

        self._check_feed(input_feed)
        options = run_options or RunOptions()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(_executor(), self.run, output_names, input_feed, options)
        except asyncio.CancelledError:
            options.terminate = True
            raise

    def _check_feed(self, feed: Mapping[str, Any]) -> None:
        if any(value.name not in feed for value in self._interface.inputs[: self._interface.required]):
            raise self._interface.feed_error(feed)

    def run(self, output_names: Any, input_feed: Any, run_options: Any = None) -> list[Any]:
        """Run the model once; InferenceSession says how."""
        raise NotImplementedError

    # ---- execution providers ----

    def set_providers(
        self,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Open the model again on other execution providers; runs under way end on the old ones.

        Raises:
            What opening raises; the session is as before then.
        """
        self._reopen(providers, provider_options)

    def enable_fallback(self) -> None:
        """When an execution provider fails in a run with :class:`EPFail`, issue a
        :class:`ephost.FallbackWarning`, open the model without plugins, and run again. So it is from the
        start, once; a run on an IOBinding is never repeated.
        """
        self._fallback = True

    def disable_fallback(self) -> None:
        """When an execution provider fails in a run, raise that."""
        self._fallback = False

    def _fall_back(self, failed: Callable[..., list[Any]], error: EPFail) -> bool:
        """Replace the plugins of the run that failed by the host's own, unless another thread has done it.

        Returns:
            Whether to run again: not when the error is to be raised, or the model does not open without them.
            Raised in here, it would be held by its own traceback, and the session's memory with it.
        """
        with self._fallback_lock:
            if self._fell_back and self._run is not failed:
                return True
            names = [a.ep.name for a in self._resources.assignments if a.ep.name != DEFAULT_PROVIDER]
            strict = self._options._config.get(DISABLE_FALLBACK) == "1"
            if not self._fallback or strict or not names or self._run is not failed:
                return False
            warn_of_fallback(
                f"{self.description} runs without {', '.join(names)} from here on (enable_fallback=0 would "
                f"raise this): {error}"
            )
            self._hosts_alone = True
            try:
                self._reopen(None, None)
            except OnnxRuntimeException as reason:
                error.add_note(f"It cannot be run without {', '.join(names)} either: {reason}")
                return False
            finally:
                self._hosts_alone = False
            self._fell_back, self._fallback = True, False
            return True

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Hand options to the execution providers of the open session, as ``OrtEp::SetDynamicOptions``.

        Raises:
            TypeError: a key or value that is no str.
            The error of an execution provider.
        """
        if not all(isinstance(text, str) for entry in options.items() for text in entry):
            raise TypeError("set_ep_dynamic_options takes a dict of str to str")
        keys = [ffi.new("char[]", key.encode()) for key in options]
        values = [ffi.new("char[]", value.encode()) for value in options.values()]
        for assignment in self._resources.assignments:
            if assignment.ep.member("SetDynamicOptions") is None:
                _LOG.info("%s takes no dynamic options", assignment.ep.name)
                continue
            arrays = ffi.new("char*[]", keys), ffi.new("char*[]", values)
            assignment.ep.call("SetDynamicOptions", *arrays, len(keys))

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Have the execution providers drop the run that they recorded under a number, while nothing runs.

        Args:
            graph_annotation_id: the run option ``gpu_graph_id`` of the run that was recorded, 0 without it.

        Raises:
            The error of an execution provider.
        """
        for assignment in self._resources.assignments:
            if assignment.ep.member("ReleaseCapturedGraph") is not None:
                assignment.ep.call("ReleaseCapturedGraph", graph_annotation_id)

    def get_tuning_results(self) -> list[Any]:
        """Nothing: results of tuning belong to kernels inside ONNX Runtime."""
        return []

    def set_tuning_results(self, results: Sequence[Any], *, error_on_invalid: bool = False) -> None:
        """Refused, unless there are none.

        Raises:
            NotImplemented: results are given.
        """
        if results:
            raise NotImplemented("tuning results belong to kernels inside ONNX Runtime")

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where a feed for each input should lie: in the memory of the execution provider that reads it."""
        return self._memory_infos(self._resources.plan.input_memories[: self._interface.required])

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where each output is made."""
        return self._memory_infos(self._resources.plan.output_memories)

    def _memory_infos(self, memories: Sequence[Any]) -> list[OrtMemoryInfo]:
        return [_cpu_memory() if m is None else OrtMemoryInfo._borrow(m.info, self) for m in memories]

    def get_input_epdevices(self) -> list[OrtEpDevice | None]:
        """For each input the device of the execution provider that reads it first; None: the reference
        fallback.
        """
        devices = {a.ep.name: a.ep.devices[0] for a in self._resources.assignments}
        readers = ((v.consumers[0].ep_name if v.consumers else "") for v in self._required_inputs())
        return [devices.get(name) for name in readers]

    def _required_inputs(self) -> Iterator[Any]:
        yield from self._interface.inputs[: self._interface.required]

    def create_ortvalue_from_shape_and_type(
        self,
        shape: Sequence[int],
        element_type: Any,
        device_type: str,
        device_id: int = 0,
        vendor_id: int | OrtDeviceVendorId = -1,
    ) -> OrtValue:
        """An uninitialised tensor that keeps the session alive.

        Raises:
            InvalidArgument: an impossible shape or type.
            NotImplemented: a device that no registered execution provider has memory on.
        """
        value = OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)
        return OrtValue(value, session=self)

    # ---- profiling ----

    def get_profiling_start_time_ns(self) -> int:
        """When profiling began, on the clock of ``time.monotonic_ns``; 0 without profiling."""
        return self._profile_start

    def end_profiling(self) -> str:
        """Stop profiling and write what was recorded as a Chrome trace.

        Returns:
            The file's name: ``SessionOptions.profile_file_prefix``, the time, ``.json``. "" when profiling
            was not enabled, or has ended.
        """
        if not self._profile_start or not self._profile_file:
            return ""
        path, self._profile_file = self._profile_file, ""
        plan = self._resources.plan
        lib.ephost_plan_profile(plan.pointer, False)
        with open(path, "w", encoding="utf-8") as file:
            json.dump([*self._trace(plan), *self._ep_profilers.end()], file, indent=0)
        return path

    def _start_profiling(self) -> None:
        plan = self._resources.plan.pointer
        self._profile_start = int(lib.ephost_clock_ns())
        self._ep_profilers = EpProfilers([a.ep for a in self._resources.assignments])
        self._resources.profilers.append(self._ep_profilers)
        if pointers := self._ep_profilers.pointers:
            check(lib.ephost_plan_set_profilers(plan, pointers, len(pointers), self._profile_start))
        lib.ephost_plan_profile(plan, True)
        now = time.time()
        stamp = time.strftime("_%Y-%m-%d_%H-%M-%S", time.localtime(now))
        self._profile_file = f"{self._options.profile_file_prefix}{stamp}_{int(now * 1000) % 1000:03}.json"

    def _trace(self, plan: Any) -> Iterator[dict[str, Any]]:
        common = {"pid": os.getpid(), "ph": "X"}
        end = 0.0
        stages = [(stage, seconds) for stage, seconds in self._timings.items() if stage != "total"]
        end = -sum(seconds for _, seconds in stages) * 1e6
        for stage, seconds in stages:
            yield {
                **common,
                "cat": "Session",
                "name": f"session_{stage}",
                "tid": threading.get_native_id(),
                "ts": round(end, 1),
                "dur": round(seconds * 1e6, 1),
                "args": {},
            }
            end += seconds * 1e6
        count = int(lib.ephost_plan_times(plan.pointer, ffi.NULL, 0))
        times = ffi.new("EphostStepTime[]", max(count, 1))
        count = min(count, int(lib.ephost_plan_times(plan.pointer, times, count)))
        for at in range(count):
            entry = times[at]
            step = plan.order[entry.step]
            if isinstance(step, Copy):
                yield {
                    **common,
                    "cat": "Copy",
                    "name": step.way,
                    "tid": int(entry.thread),
                    "ts": (int(entry.start_ns) - self._profile_start) / 1e3,
                    "dur": int(entry.duration_ns) / 1e3,
                    "args": {"values": [value.name for value in step.values]},
                }
                continue
            yield {
                **common,
                "cat": "Node",
                "name": f"{step.node.name or step.node.op_type}_kernel_time",
                "tid": int(entry.thread),
                "ts": (int(entry.start_ns) - self._profile_start) / 1e3,
                "dur": int(entry.duration_ns) / 1e3,
                "args": {
                    "op_name": step.node.op_type,
                    "provider": step.ep_name or DEFAULT_PROVIDER,
                    "node_index": str(step.node.index),
                    "nodes": [node.name or node.op_type for node in step.members],
                },
            }


@cache
def _cpu_memory() -> OrtMemoryInfo:
    return OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0, OrtMemType.DEFAULT)
