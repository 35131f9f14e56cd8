"""What stands in the host in the place of an isolated plugin: its factories and its EPs, as the ABI has them,
which ask a worker process. The rest of the host does not know the difference.
"""

from __future__ import annotations

import base64
import logging
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ephost._bindings import NULL, address, api, check, ep_api, ffi, key_values, lib, new_key_values, text
from ephost.errors import EPFail, Fail, NotImplemented, PluginFault, worded
from ephost.hardware import TYPES, HardwareDescription
from ephost.isolation.control_flow import ControlKernels
from ephost.isolation.memory import RemoteMemory, Source, memory_in, new_info, sweep
from ephost.isolation.process import Worker, check_supported
from ephost.isolation.profiler import Profiler
from ephost.isolation.settings import Isolation, with_entries
from ephost.isolation.snapshot import Sender, path_to
from ephost.isolation.streams import Stream
from ephost.isolation.tables import functions_of, giving_status, status_of
from ephost.library_files import check_path
from ephost.logs import is_heard
from ephost.messages import NodeProto
from ephost.model.custom_op import CustomOp, described
from ephost.model.graph import Graph, Model, Node, TensorType, tensor_type
from ephost.model.kernels import KernelRow
from ephost.model.native_graph import NativeGraph, new_node, shown_graph
from ephost.records import Record

if TYPE_CHECKING:
    from ephost.layers import Layer

_LOG = logging.getLogger("ephost.isolation")
_TYPE_NAMES = {number: name for name, number in TYPES.items()}
_LONGEST_PAUSE = 30.0  # seconds between two attempts to start a worker at once


class IsolatedLibrary:
    """A plugin library in worker processes: one for each session that has an EP of it, and one that waits."""

    def __init__(
        self,
        name: str,
        path: str,
        severity: int,
        hardware: Sequence[Any],
        settings: Isolation,
        layers: Sequence[Layer] = (),
        *,
        virtual: bool = False,
    ) -> None:
        """Start a worker and load the library there, behind its layers.

        Args:
            name: the registration name.
            path: absolute path of the library.
            severity: of the plugin's logger.
            hardware: ``OrtHardwareDevice*`` of each that the plugin is offered.
            settings: how it is isolated.
            layers: what stands between host and plugin.
            virtual: the plugin may offer devices of its own making.

        Raises:
            NotImplemented: this system cannot isolate plugins yet.
            PluginFault: the library ended the worker, or took too long.
            What loading it in this process raises.
        """
        check_supported(settings)
        check_path(path)
        self.name = name
        self.path = path
        self.is_file = self.is_elsewhere = True
        self.settings = settings
        self.factories: list[Any] = []
        self.fault: PluginFault | None = None  # of the last worker that had one
        self._severity = severity
        self._virtual = virtual
        self._layers = [layer.in_folder(os.getcwd()) for layer in layers]
        self._hardware = [address(pointer) for pointer in hardware]
        self._descriptions = [_description(pointer) for pointer in hardware]
        self._lock = threading.RLock()
        self._closed = False
        self._failures = 0
        self._spare: Worker | None = None
        self._home: Worker | None = None  # in which the values lie that are no session's; the first one's
        worker, self._offer = self._start()
        self._spare = self._home = worker
        self._made = [_new_hardware(row) for row in self._offer["devices"]]
        self._hardware += map(address, self._made)
        self._kept = [_Factory(self, at, row) for at, row in enumerate(self._offer["factories"])]
        self.factories = [factory.pointer for factory in self._kept]

    def _start(self, settings: Isolation | None = None) -> tuple[Worker, dict[str, Any]]:
        worker = Worker(self.name, self.path, settings or self.settings)
        try:
            answer = worker.ask(
                "register",
                {
                    "name": self.name,
                    "path": self.path,
                    "hardware": self._descriptions,
                    "severity": self._severity,
                    "virtual": self._virtual,
                    # The worker in which it was registered writes the file that was named, each later one one
                    # of its own beside it.
                    "layers": [
                        layer.of_process(worker.process.pid) if self.factories else layer
                        for layer in self._layers
                    ],
                },
                timeout=self.settings.register_timeout_seconds,
            )
        except BaseException:
            with suppress(PluginFault):
                worker.stop()
            raise
        worker.on_fault = self._on_fault
        return worker, answer

    def take(self, settings: Isolation | None = None) -> Worker:
        """A worker with the library in it, for one EP.

        Args:
            settings: a session's, where they may differ from the library's.

        Raises:
            NotImplemented, InvalidArgument: the settings cannot be.
            PluginFault: the library ended a fresh one; or an earlier one, where there is to be no other.
            Fail: the library offers something else than when it was registered.
        """
        if differs := settings is not None and settings.of_process != self.settings.of_process:
            check_supported(settings)
        else:
            with self._lock:
                spare, self._spare = self._spare, None
            if spare is not None and spare.is_alive:
                return spare
        if self.fault is not None and self.settings.restart == "never":
            raise worded(self.fault, f"{self.fault}; it is not to be started again (restart='never')")
        worker, offer = self._start(settings if differs else None)
        if offer != self._offer:
            with suppress(PluginFault):
                worker.stop()
            raise Fail(f"the isolated plugin '{self.name}' ({self.path}) offers other devices than at first")
        return worker

    def home(self) -> Worker:
        """The worker for values that belong to no session: the one that the first session has, or will get.

        Raises:
            As :meth:`take`.
        """
        with self._lock:
            if self._home is None or not self._home.is_alive:
                self._home = self.take()
                if self._spare is None:
                    self._spare = self._home
            return self._home

    def give(self, worker: Worker) -> None:
        """Take a worker back whose EP was released."""
        with self._lock:
            self._failures = 0
            is_usual = worker.settings.of_process == self.settings.of_process
            if worker.is_alive and is_usual and not self._closed:
                before, self._spare = self._spare, worker
                if before is None:
                    return
                if before is self._home:  # which may have values in it
                    self._spare = before
                else:
                    worker = before
        try:
            worker.stop()
        except PluginFault as fault:
            self.fault = worker.fault
            _LOG.error("%s", fault)

    @staticmethod
    def operators_of(factory: Any) -> list[CustomOp]:
        """The custom operators that an ``OrtEpFactory*`` of here brings.

        Raises:
            The plugin's error, or its fault.
        """
        return _factory(factory).operators()

    @staticmethod
    def ep_of(ep: Any) -> _Elsewhere:
        """What an ``OrtEp*`` of here is in its worker."""
        return _eps[address(ep)].elsewhere()

    @staticmethod
    def pool_of(ep: Any) -> Any:
        """The memory that an ``OrtEp*`` of here shares with its worker."""
        return _eps[address(ep)].worker.pool

    @staticmethod
    def memory_of(ep: Any) -> RemoteMemory | None:
        """The memory of the device of an ``OrtEp*`` of here, in its worker."""
        return _eps[address(ep)].memory

    @staticmethod
    def refusals_of(ep: Any) -> Sequence[tuple[list[int], str]]:
        """What the worker of an ``OrtEp*`` refused it of the graph that it was shown last."""
        return _eps[address(ep)].refused

    def _on_fault(self, fault: PluginFault) -> None:
        self.fault = fault
        if self.settings.restart != "always" or self._closed:
            return
        with self._lock:
            pause = min(_LONGEST_PAUSE, 0.1 * 2**self._failures)
            self._failures += 1
        timer = threading.Timer(pause, self._start_again)
        timer.daemon = True
        timer.start()

    def _start_again(self) -> None:
        with self._lock:
            if self._closed or (self._spare is not None and self._spare.is_alive):
                return
            try:
                worker, offer = self._start()
            except Exception as error:
                _LOG.warning("the isolated plugin '%s' cannot be started again: %s", self.name, error)
                return
            self._spare = worker if offer == self._offer else None

    def close(self) -> None:
        """Unload the library; what ends a worker meanwhile is kept as :attr:`fault`."""
        with self._lock:
            self._closed = True
            spare, self._spare = self._spare, None
            home, self._home = self._home, None
        self.fault = None
        for worker in dict.fromkeys((spare, home)):
            if worker is not None and worker.fault is None:  # of an earlier one somebody was told
                with suppress(PluginFault):
                    worker.stop()
                self.fault = self.fault or worker.fault
        sweep()  # whatever has a value of the library's memory keeps it registered
        for factory in self._kept:
            _factories.pop(address(factory.pointer), None)
        for pointer in self._made:
            ep_api.ReleaseHardwareDevice(pointer)
        self._made.clear()


def _description(pointer: Any) -> HardwareDescription:
    return HardwareDescription(
        _TYPE_NAMES[int(api.HardwareDevice_Type(pointer))],
        text(api.HardwareDevice_Vendor(pointer)),
        int(api.HardwareDevice_VendorId(pointer)),
        int(api.HardwareDevice_DeviceId(pointer)),
        key_values(api.HardwareDevice_Metadata(pointer)),
    )


def _new_hardware(row: dict[str, Any]) -> Any:
    """A device that the plugin has made, once more for this process."""
    out = ffi.new("OrtHardwareDevice**")
    metadata = new_key_values(row["metadata"])
    try:
        numbers = TYPES[row["type"]], row["vendor_id"], row["device_id"]
        check(ep_api.CreateHardwareDevice(*numbers, row["vendor"].encode(), metadata, out))
    finally:
        api.ReleaseKeyValuePairs(metadata)
    return out[0]


_versions = int(lib.ephost_api_version())


class _Factory:
    """An ``OrtEpFactory``."""

    def __init__(self, library: IsolatedLibrary, index: int, row: dict[str, Any]) -> None:
        self.library = library
        self.index = index
        self.row = row
        self.texts = {key: ffi.new("char[]", row[key].encode()) for key in ("ep_name", "vendor", "version")}
        self.pointer = ffi.new("OrtEpFactory*")
        self.pointer.ort_version_supported = _versions
        # Of each device of it: its number in workers, and its memory; by the address of the latter's info.
        self._infos: dict[int, tuple[int, Any]] = {}
        for name, function in _FACTORY_FUNCTIONS.items():
            if name not in _ONLY_WITH or row[_ONLY_WITH[name]]:
                setattr(self.pointer, name, function)
        _factories[address(self.pointer)] = self
        self._operators: list[CustomOp] | None = None if row["brings"] else []

    def operators(self) -> list[CustomOp]:
        """What it brings of operators; the plugin is asked once."""
        if self._operators is None:
            label = f"the isolated plugin '{self.library.name}' ({self.library.path})"
            rows = self._ask("operators")["operators"]
            self._operators = [described(row, _Operator(self, at, label)) for at, row in enumerate(rows)]
        return self._operators

    def number_of(self, op: CustomOp) -> int:
        """The number by which the worker knows an operator; -1: it is not this factory's."""
        where = op.elsewhere
        return where.number if isinstance(where, _Operator) and where.factory is self else -1

    def devices(self, devices: Any, count: int, room: Any, most: int, made: Any) -> None:
        """``GetSupportedDevices``."""
        made[0] = 0
        known = {address(devices[at]): devices[at] for at in range(count)}
        known.update((address(pointer), pointer) for pointer in self.library._made)
        for row in self.row["devices"]:
            if made[0] == most:
                raise EPFail(f"the isolated plugin '{self.library.name}' offers more than {most} devices")
            device = known[self.library._hardware[row["hardware"]]]
            about = dict(row["metadata"])
            if self.row["version"]:
                about.pop("version", None)  # which the host takes from GetVersion, here as there
            metadata, options = new_key_values(about), new_key_values(row["options"])
            try:
                out = ffi.new("OrtEpDevice**")
                check(ep_api.CreateEpDevice(self.pointer, device, metadata, options, out))
                room[made[0]] = out[0]
                made[0] += 1
                if row["memory"]:
                    info = ffi.gc(new_info(row["memory"]), api.ReleaseMemoryInfo)
                    self._infos[address(info)] = int(row["number"]), info
                    check(ep_api.EpDevice_AddAllocatorInfo(out[0], info))
            finally:
                api.ReleaseKeyValuePairs(metadata)
                api.ReleaseKeyValuePairs(options)

    def memory_in(self, worker: Worker, info: Any, settings: Isolation) -> RemoteMemory:
        """The memory of one of its devices in a worker, by the device's ``OrtMemoryInfo*`` here."""
        number, kept = self._infos[address(info)]
        label = f"the execution provider {self.row['ep_name']} ({self.library.name})"
        return memory_in(worker, number, kept, label, settings.run_timeout_seconds)

    def create_allocator(self, info: Any, options: Any, out: Any) -> None:
        """``CreateAllocator``: for values that are no session's."""
        if options and key_values(options):
            raise NotImplemented(
                f"CreateAllocator: the isolated plugin '{self.library.name}' cannot be given options for the "
                "memory of its device"
            )
        library = self.library
        _, kept = self._infos[address(info)]
        out[0] = Source(kept, lambda: self.memory_in(library.home(), kept, library.settings)).pointer

    def create_transfer(self, out: Any) -> None:
        """``CreateDataTransfer``."""
        _, info = next(iter(self._infos.values()))
        out[0] = lib.ephost_remote_transfer_new(info)

    def create_stream(self, device: Any, options: Any, out: Any) -> None:
        """``CreateSyncStreamForDevice``: in the worker that has the values that are no session's."""
        out[0] = NULL
        library = self.library
        number = next(
            number
            for number, info in self._infos.values()
            if ep_api.MemoryDevice_AreEqual(ep_api.MemoryInfo_GetMemoryDevice(info), device)
        )
        told = key_values(options) if options else {}
        seconds = library.settings.run_timeout_seconds
        out[0] = Stream(library.home(), number, told, seconds).pointer

    def _number_of(self, device: Any) -> int:
        """The number that a device has on both sides."""
        if (pointer := address(device)) not in self.library._hardware:
            raise EPFail(
                f"the isolated plugin '{self.library.name}' was registered before it could be told of this "
                "device"
            )
        return self.library._hardware.index(pointer)

    def infer(
        self, operator: int, model: Model, node: Node, kinds: Sequence[TensorType | None]
    ) -> list[TensorType | None]:
        """What an operator's ``InferOutputShapeFn`` says of each output of a node."""
        made = len(node.outputs)
        rows = self._ask(
            "infer",
            operator=operator,
            node=(node.index, node.proto, node.op_type, node.domain, node.name, node.since_version, made),
            kinds=[None if kind is None else (kind.element_type, kind.dims) for kind in kinds],
            about=(model.opsets, model.ir_version, model.metadata),
        )["kinds"]
        found = [None if row is None else _type_of(*row) for row in rows]
        if len(found) != made:
            raise EPFail(f"the worker of '{self.library.name}' infers {len(found)} of {made} outputs")
        return found

    def _ask(self, operation: str, **request: Any) -> dict[str, Any]:
        """Ask what concerns no EP."""
        library = self.library
        worker = library.take()
        limit = library.settings.register_timeout_seconds
        try:
            return worker.ask(operation, {"factory": self.index, **request}, timeout=limit)
        finally:
            library.give(worker)

    def validate(self, devices: Any, count: int, info: Any, out: Any) -> None:
        """``ValidateCompiledModelCompatibilityInfo``."""
        numbers = [self._number_of(devices[at]) for at in range(count)]
        out[0] = self._ask("validate", hardware=numbers, info=text(info))["compatibility"]

    def misfit(self, device: Any, details: Any) -> None:
        """``GetHardwareDeviceIncompatibilityDetails``."""
        told = self._ask("misfit", hardware=self._number_of(device))
        notes = told["notes"]
        check(
            ep_api.DeviceEpIncompatibilityDetails_SetDetails(
                details,
                int(told["reasons_bitmask"]),
                int(told["error_code"]),
                NULL if notes is None else str(notes).encode(),
            )
        )

    def create(self, devices: Any, metadata: Any, count: int, options: Any, logger: Any, out: Any) -> None:
        """``CreateEp``."""
        out[0] = NULL
        found = ffi.new("OrtKeyValuePairs**")
        check(api.GetSessionOptionsConfigEntries(options, found))
        try:
            entries = key_values(found[0])
        finally:
            api.ReleaseKeyValuePairs(found[0])
        settings = with_entries(self.library.settings, entries)
        severity = ffi.new("OrtLoggingLevel*")
        check(api.Logger_GetLoggingSeverityLevel(logger, severity))
        request = {
            "factory": self.index,
            "devices": [
                (self.library._hardware.index(address(devices[at])), key_values(metadata[at]))
                for at in range(count)
            ],
            "entries": entries,
            "severity": int(severity[0]),
            "threads": 0,
        }
        worker = self.library.take(settings)
        try:
            answer = worker.ask("create_ep", request, timeout=settings.compile_timeout_seconds)
            memory = None
            if (number := answer["memory"]) is not None:
                info = next(info for known, info in self._infos.values() if known == number)
                memory = self.memory_in(worker, info, settings)
            ep = _Ep(self, worker, answer, settings, entries)
            ep.memory = memory
        except BaseException:
            self.library.give(worker)
            raise
        out[0] = ep.pointer


class _Operator(Record, frozen=True):
    """Where the functions of a custom operator are: in the factory's workers, under a number."""

    factory: _Factory
    number: int
    label: str

    def infer(self, model: Model, node: Node, kinds: Sequence[TensorType | None]) -> list[TensorType | None]:
        """What its ``InferOutputShapeFn`` says of each output."""
        return self.factory.infer(self.number, model, node, kinds)


def _type_of(element_type: Any, dims: Any) -> TensorType:
    if dims is not None:
        dims = tuple(dim if dim is None or isinstance(dim, str) else int(dim) for dim in dims)
    return tensor_type(int(element_type), dims)


class _Elsewhere(Record, frozen=True):
    """What the plugin's own EP is."""

    compiles: bool
    kernels: list[KernelRow] | None


def _kernel_row(op_type: Any, domain: Any, first: Any, last: Any, types: Any) -> KernelRow:
    named = {str(name): [int(each) for each in some] for name, some in types.items()}
    return str(op_type), str(domain), int(first), int(last), named


class _Ep:
    """An ``OrtEp``: one EP in one worker."""

    def __init__(
        self,
        factory: _Factory,
        worker: Worker,
        answer: dict[str, Any],
        settings: Isolation,
        entries: dict[str, str],
    ) -> None:
        self.factory = factory
        self.worker = worker
        self.settings = settings
        self.storing = entries.get("ep.context_enable") == "1"
        self.sender = Sender(factory.number_of)
        self.numbers: dict[int, tuple[Any, int]] = {}  # of the graphs that the worker was shown
        self._shown_count = 0
        self.compatibility: Any = NULL
        self.memory: RemoteMemory | None = None  # of its device, when it is no CPU's
        self.refused: list[tuple[list[int], str]] = []
        self._controls: ControlKernels | None = None
        self._elsewhere: _Elsewhere | None = None
        self.handle = ffi.new_handle(self)
        self.remote = lib.ephost_remote_new(worker.map_pool(), worker.pidfd, self.handle, _open_lane, _fault)
        if not self.remote:
            raise MemoryError("no memory for an isolated plugin")
        lib.ephost_remote_set_timeout(self.remote, settings.run_timeout_seconds)
        self.pointer = ffi.new("OrtEp*")
        self.pointer.ort_version_supported = _versions  # whatever the plugin's: what that lacks is NULL here
        for name in (*_ALWAYS, *answer["members"]):
            setattr(self.pointer, name, _EP_FUNCTIONS[name])
        _eps[address(self.pointer)] = self

    def ask(self, operation: str, request: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """Ask its worker, in the time that a session's opening may take."""
        return self.worker.ask(operation, request, timeout=self.settings.compile_timeout_seconds, **more)

    def _shown(self, native: NativeGraph, graph: Any, operation: str, **request: Any) -> dict[str, Any]:
        """Ask about a graph, which goes along where the worker does not have it."""
        held = self.numbers.get(id(native))
        request["path"] = path_to(native.graph, graph)
        if held is not None and held[0] is native:
            return self.ask(operation, {"number": held[1], **request})
        number, self._shown_count = self._shown_count, self._shown_count + 1
        data, file = self.sender.pack(native.model)
        try:
            answer = self.ask(
                operation,
                {"number": number, **request},
                data=data,
                descriptors=() if file is None else (file,),
            )
        finally:
            if file is not None:
                os.close(file)
        self.numbers[id(native)] = (native, number)
        return answer

    def capability(self, graph: Any, info: Any) -> None:
        """``GetCapability``."""
        native, own, _ = shown_graph(graph)
        record = is_heard(self.factory.library.name)
        options = ffi.new("OrtNodeFusionOptions*")
        options.ort_version_supported = _versions
        told = self._shown(native, own, "capability", record=record, storing=self.storing)
        self.refused = [([int(at) for at in nodes], str(reason)) for nodes, reason in told["refused"]]
        options.drop_constant_initializers = True  # the worker has them, whatever the plugin wants
        for indices in told["groups"]:
            nodes = [native.pointer_of(native.nodes[index]) for index in indices]
            check(ep_api.EpGraphSupportInfo_AddNodesToFuse(info, nodes, len(nodes), options))
        for index in told["controls"]:
            node = native.pointer_of(native.nodes[index])
            check(ep_api.EpGraphSupportInfo_AddSingleNode(info, node))

    def registry(self, out: Any) -> None:
        """``GetKernelRegistry``: of what the host runs itself; all other kernels are groups here."""
        if self._controls is None:
            label = f"the execution provider {self.factory.row['ep_name']} ({self.factory.library.name})"
            self._controls = ControlKernels(self._make_control, label)
        out[0] = self._controls.pointer

    def _make_control(self, native: NativeGraph, graph: Graph, node: Node) -> bool:
        return bool(self._shown(native, graph, "control", node=node.index)["is_hosts"])

    def compile(self, graphs: Any, fused: Any, count: int, infos: Any, contexts: Any) -> None:
        """``Compile``."""
        views = [shown_graph(graphs[at]) for at in range(count)]
        native, graph, _ = views[0]
        rows = []
        for at, (_, _, view) in enumerate(views):
            assert view is not None
            rows.append(
                {
                    "op_type": view.name,
                    "name": text(lib.ephost_node_name(fused[at])),
                    "index": _fused_index(fused[at]),
                    "nodes": [node.index for node in view.nodes],
                    "outputs": [value.name for value in view.outputs],
                }
            )
        request = {
            "number": self.numbers[id(native)][1],
            "path": path_to(native.graph, graph),
            "groups": rows,
            "storing": self.storing,
        }
        made = self.ask("compile", request)["groups"]
        if len(made) != count:
            raise EPFail(f"{self.worker.label} compiled {len(made)} of {count} groups")
        for at, row in enumerate(made):
            infos[at] = lib.ephost_remote_info_new(self.remote, row["plan"])
            if not infos[at]:
                raise MemoryError("no memory for a compiled group")
            if row["context"] is not None and contexts:
                contexts[at] = new_node(NodeProto.FromString(base64.b64decode(row["context"])))

    def elsewhere(self) -> _Elsewhere:
        """What it is in its worker, which is asked once; nothing is known of one that has ended."""
        if self._elsewhere is None:
            if not self.worker.is_alive:
                return _Elsewhere(compiles=True, kernels=None)
            told = self.ask("kernels")
            rows = told["kernels"]
            kernels = None if rows is None else [_kernel_row(*row) for row in rows]
            self._elsewhere = _Elsewhere(bool(told["compiles"]), kernels)
        return self._elsewhere

    def initialized(self) -> None:
        """``OnSessionInitializationEnd``: weights that nobody needs any more go, on both sides."""
        self.ask("initialized")
        self.numbers.clear()
        self.sender.forget()

    def sync(self) -> None:
        """``Sync``."""
        self.worker.ask("sync", timeout=self.settings.run_timeout_seconds)

    def create_profiler(self, out: Any) -> None:
        """``CreateProfiler``."""
        out[0] = Profiler(self.worker, self.settings.compile_timeout_seconds).pointer

    def release(self) -> None:
        """``ReleaseEp``: the worker is free for another one, or goes."""
        _eps.pop(address(self.pointer), None)
        lib.ephost_remote_end(self.remote)
        self.remote = NULL
        self.numbers.clear()
        if self._controls is not None:
            self._controls.release()
        if self.worker.is_alive:
            try:
                self.worker.ask("release_ep", timeout=self.settings.release_timeout_seconds)
            except PluginFault as fault:
                _LOG.error("%s", fault)
                return
            except Exception as error:
                _LOG.error("%s cannot release its EP: %s", self.worker.label, error)
        self.factory.library.give(self.worker)


_factories: dict[int, _Factory] = {}
_eps: dict[int, _Ep] = {}


def _factory(pointer: Any) -> _Factory:
    return _factories[address(pointer)]


def _ep(pointer: Any) -> _Ep:
    return _eps[address(pointer)]


def _fused_index(node: Any) -> int:
    out = ffi.new("size_t*")
    check(api.Node_GetId(node, out))
    return int(out[0])


def _release_infos(_: Any, infos: Any, count: int) -> None:
    for at in range(count):
        lib.ephost_remote_info_free(infos[at])


def _get_layout(ep: Any, out: Any) -> None:
    out[0] = _ep(ep).ask("layout")["layout"]


def _converts(ep: Any, domain: Any, op_type: Any, layout: int, out: Any) -> None:
    request = {"domain": text(domain), "op_type": text(op_type), "layout": int(layout)}
    out[0] = _ep(ep).ask("converts", request)["converts"]


def _concurrent(ep: Any, out: Any) -> None:
    out[0] = _ep(ep).ask("concurrent")["concurrent"]


def _dynamic_options(ep: Any, keys: Any, values: Any, count: int) -> None:
    options = {text(keys[at]): text(values[at]) for at in range(count)}
    _ep(ep).ask("dynamic_options", {"options": options})


def _compatibility(pointer: Any, graph: Any) -> Any:
    ep = _ep(pointer)
    try:
        native, own, _ = shown_graph(graph)
        said = ep._shown(native, own, "compatibility")["info"]
    except Exception as error:
        _LOG.error("%s cannot say what a compiled model needs: %s", ep.worker.label, error)
        return NULL
    ep.compatibility = ffi.new("char[]", said.encode()) if said else NULL
    return ep.compatibility


def _lane(handle: Any, offset: int, socket: Any) -> None:
    socket[0] = ffi.from_handle(handle).worker.open_lane(offset)


def _on_fault(handle: Any, timed_out: bool, node: Any) -> Any:
    ep = ffi.from_handle(handle)
    limit = ep.settings.run_timeout_seconds if timed_out else 0.0
    return status_of(ep.worker.fail("run", timed_out=limit))


_ONLY_WITH = {  # by row
    "GetVersion": "version",
    "ValidateCompiledModelCompatibilityInfo": "validates",
    "CreateAllocator": "has_memory",
    "ReleaseAllocator": "has_memory",
    "CreateDataTransfer": "has_memory",
    "CreateSyncStreamForDevice": "makes_streams",
}
_FACTORY_FUNCTIONS = functions_of(
    "OrtEpFactory",
    {
        "GetName": lambda this: _factory(this).texts["ep_name"],
        "GetVendor": lambda this: _factory(this).texts["vendor"],
        "GetVersion": lambda this: _factory(this).texts["version"],
        "GetVendorId": lambda this: _factory(this).row["vendor_id"],
        "GetSupportedDevices": lambda this, *rest: _factory(this).devices(*rest),
        "CreateEp": lambda this, *rest: _factory(this).create(*rest),
        "ValidateCompiledModelCompatibilityInfo": lambda this, *rest: _factory(this).validate(*rest),
        "GetHardwareDeviceIncompatibilityDetails": lambda this, *rest: _factory(this).misfit(*rest),
        "ReleaseEp": lambda _, ep: _ep(ep).release(),
        "CreateAllocator": lambda this, *rest: _factory(this).create_allocator(*rest),
        "ReleaseAllocator": lambda _, allocator: Source.free(allocator),
        "CreateDataTransfer": lambda this, *rest: _factory(this).create_transfer(*rest),
        "CreateSyncStreamForDevice": lambda this, *rest: _factory(this).create_stream(*rest),
    },
)
_ALWAYS = (
    "GetName",
    "GetCapability",
    "Compile",
    "ReleaseNodeComputeInfos",
    "CreateProfiler",
    "OnSessionInitializationEnd",
)
_EP_FUNCTIONS = functions_of(
    "OrtEp",
    {
        "GetName": lambda this: _ep(this).factory.texts["ep_name"],
        "GetCapability": lambda this, *rest: _ep(this).capability(*rest),
        "Compile": lambda this, *rest: _ep(this).compile(*rest),
        "ReleaseNodeComputeInfos": _release_infos,
        "GetPreferredDataLayout": _get_layout,
        "ShouldConvertDataLayoutForOp": _converts,
        "SetDynamicOptions": _dynamic_options,
        "IsConcurrentRunSupported": _concurrent,
        "OnSessionInitializationEnd": lambda this: _ep(this).initialized(),
        "GetCompiledModelCompatibilityInfo": _compatibility,
        "GetKernelRegistry": lambda this, out: _ep(this).registry(out),
        "Sync": lambda this: _ep(this).sync(),
        "CreateProfiler": lambda this, *rest: _ep(this).create_profiler(*rest),
    },
)
_open_lane = ffi.callback("EphostLaneOpener", giving_status(_lane))
_fault = ffi.callback("EphostFaultCallback", _on_fault)
