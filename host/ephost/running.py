"""Session: the ways to run an open model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ephost._bindings import ffi
from ephost.arguments import characters, of_type, several
from ephost.device_memory import is_cpus
from ephost.devices import OrtDevice, cpu_device
from ephost.enums import OrtDeviceVendorId
from ephost.errors import EPFail, InvalidArgument, NotImplemented
from ephost.host_log import HostLog
from ephost.io_binding import IOBinding, Target, into_bound, targets_of
from ephost.lifecycle import Lifecycle
from ephost.options import RunOptions, as_run_options
from ephost.values import OrtValue, writable

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_LOG = HostLog("ephost.session")


@cache
def _executor() -> ThreadPoolExecutor:
    """The threads of asynchronous runs, shared by all sessions of the process."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(min(32, (os.cpu_count() or 1) + 4), thread_name_prefix="ephost-run")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_executor.cache_clear)  # its threads are the parent's


class Session(Lifecycle):
    """What an open session does. Any number of threads may use it at once."""

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Run the model once.

        Args:
            output_names: which outputs to compute, in which order, a list or any other iterable; None or an
                empty list for all.
            input_feed: a value for each input: an array of the input's dtype (used in place when it is
                contiguous), a list, an OrtValue; a list for a sequence, a dict for a map, None for an empty
                optional.
            run_options: options of this run.

        Returns:
            For each output an array of its own (owned by the caller), a list, a dict, or None.

        Raises:
            ValueError: inputs are missing.
            TypeError: the output names are no names, the options no RunOptions.
            InvalidArgument: an unknown name, or a value of the wrong type, rank or dimension.
            EPFail and the other errors of a plugin, naming the node. As long as :meth:`enable_fallback`
                holds, the first EPFail is a :class:`ephost.FallbackWarning` instead.
        """
        run = self._run
        try:
            if run_options is None:
                return run(output_names, input_feed, None)
            options = as_run_options(run_options)
            return run(output_names, options._fed(input_feed), options._address)
        except EPFail as error:
            if not self._fall_back(run, error):
                raise
            return self.run(output_names, input_feed, run_options)

    def _names(self, output_names: Sequence[str] | None) -> Sequence[str]:
        names = [] if output_names is None else several("output names", output_names)
        for name in names:
            self._opened.interface.check_output_name(name)
        return names or self._opened.interface.output_names

    def _values(
        self, feed: Mapping[str, Any], targets: list[tuple[str, Any]], options: RunOptions | None
    ) -> list[int]:
        runner = self._opened.runner
        feed = feed if options is None else as_run_options(options)._fed(feed)
        bound = runner.bind(feed if type(feed) is dict else dict(feed), targets)
        made = runner.run_bound(bound, None if options is None else options._address)
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
        values = [OrtValue._from_address(value) for value in made]
        if sparse := self._opened.interface.sparse_outputs:
            return [
                OrtValue._sparse_again(name, value) if name in sparse else value
                for (name, _), value in zip(targets, values, strict=True)
            ]
        return values

    def _made(self, name: str, value: int) -> OrtValue:
        """The value of an output at an address, which is taken over; on a device it keeps what the session
        holds there.
        """
        pointer = ffi.cast("OrtValue*", value)
        opened = self._opened
        memory = opened.plan.output_memories[opened.interface.output_index[name]]
        if memory is None or is_cpus(pointer):
            return OrtValue(pointer)
        return OrtValue._on_device(pointer, memory, opened.resources)

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
            TypeError: something in place of names, values or devices.
            InvalidArgument: lengths that do not fit each other, a value to be written that is over a
                read-only array, and as ``run``.
            NotImplemented: a device that no registered execution provider has memory on.
        """
        feed_names, feeds = several("feed_names", feed_names), several("feeds", feeds)
        fetch_names = several("fetch_names", fetch_names)
        fetch_devices = several("fetch_devices", fetch_devices)
        several("fetches", fetches)
        if len(feed_names) != len(feeds) or (fetches and len(fetches) != len(fetch_names)):
            raise InvalidArgument(
                f"there are {len(feed_names)} names for {len(feeds)} feeds, and {len(fetch_names)} names for "
                f"{len(fetches)} fetches"
            )
        devices = [*fetch_devices, *[cpu_device()] * (len(fetch_names) - len(fetch_devices))]
        given: Sequence[Target] = [writable(value) for value in fetches] or devices
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
        if of_type("iobinding", iobinding, IOBinding)._session is not self:
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
                Whatever it raises is logged. It should not wait for other runs.
            user_data: anything.
            run_options: as for ``run``.

        Raises:
            ValueError: inputs are missing.
            TypeError: the callback is no function: nobody would hear of the results.
        """
        self._check_feed(input_feed)
        if not callable(callback):
            raise TypeError(f"callback has to be a function, not {type(callback).__name__}")

        def work() -> None:
            results: list[Any] = []
            message = ""
            try:
                results = self.run(output_names, input_feed, run_options)
            except BaseException as error:
                message = str(error) or type(error).__name__
            try:
                callback(results, user_data, message)
            except BaseException:  # nobody else would hear of a SystemExit either
                _LOG.exception("the callback of an asynchronous run of %s failed", self.description)

        _executor().submit(work)

    async def run_asyncio(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """``run`` for asyncio: awaited, it leaves the event loop free. A name of ephost's own.

        When the awaiting task is cancelled, the run stops: before its next node, or within one where the EP
        that computes it asks, as the bundled CPU plugin does. Others with the same options go on.

        Raises:
            As ``run``.
        """
        import asyncio  # here, as it takes 2 MB, and who awaits this has it already

        self._check_feed(input_feed)
        shared = None if run_options is None else as_run_options(run_options)
        options = RunOptions() if shared is None else shared._follower()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(_executor(), self.run, output_names, input_feed, options)
        except asyncio.CancelledError:
            options.terminate = True
            raise
        finally:
            if shared is not None:
                shared._release(options)

    def _check_feed(self, feed: Mapping[str, Any]) -> None:
        interface = self._opened.interface
        if any(name not in feed for name in interface.must_be_fed):
            raise interface.feed_error(feed)

    # ---- execution providers ----

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Hand options to the execution providers of the open session, as ``OrtEp::SetDynamicOptions``.

        Raises:
            TypeError: a key or value that is no str.
            The error of an execution provider.
        """
        given = of_type("options", options, Mapping)  # type: ignore[type-abstract]
        keys = [ffi.new("char[]", characters("a key of the options", key)) for key in given]
        values = [ffi.new("char[]", characters(f"the option {key!r}", text)) for key, text in given.items()]
        for assignment in self._opened.resources.assignments:
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
        for assignment in self._opened.resources.assignments:
            if assignment.ep.member("ReleaseCapturedGraph") is not None:
                assignment.ep.call("ReleaseCapturedGraph", graph_annotation_id)

    def get_tuning_results(self) -> list[Any]:
        """Nothing: results of tuning belong to kernels inside ONNX Runtime."""
        return []

    def set_tuning_results(self, results: Sequence[Any], *, error_on_invalid: bool = False) -> None:
        """Refused, unless there are none.

        Raises:
            TypeError: they are no list.
            NotImplemented: results are given.
        """
        if several("the tuning results", results):
            raise NotImplemented("tuning results belong to kernels inside ONNX Runtime")

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
        """When profiling began, which is when the session began to open, on the clock of
        ``time.monotonic_ns``; 0 without profiling.
        """
        return self._profile.start if self._profile is not None else 0

    def end_profiling(self) -> str:
        """Stop profiling and write what was recorded as a Chrome trace. Without this it is written when the
        session is closed or gone, or the process ends.

        Returns:
            The file's name: ``SessionOptions.profile_file_prefix``, the time, ``.json``. "" when profiling
            was not enabled, or has ended.

        Raises:
            OSError: the file cannot be written. The next call tries again.
        """
        return self._profile.end() if self._profile is not None else ""
