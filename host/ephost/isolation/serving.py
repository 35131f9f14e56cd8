"""What a worker does for its host: one library, at most one EP of it, and the groups that this compiled."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ephost import environment
from ephost._bindings import NULL, address, api, check, ffi, guarded, lib, member, new_key_values, text
from ephost.device_memory import memory_of
from ephost.devices import OrtSyncStream
from ephost.ep_memory import DeviceMemory, own_memory
from ephost.errors import Fail, NotImplemented, naming
from ephost.execution_provider import ExecutionProvider, native_session_options
from ephost.isolation.control_flow import is_control_flow
from ephost.isolation.memory import described
from ephost.isolation.snapshot import graph_at, unpack
from ephost.messages import NodeProto
from ephost.model.custom_op import CustomOp, description
from ephost.model.custom_ops import domains_of, infer_outputs, operators_of
from ephost.model.graph import Graph, Model, Node, Value, all_graphs, tensor_type
from ephost.model.groups import group_interface
from ephost.model.kernels import HostKernels, registry_rows
from ephost.model.limits import SETTINGS, Budget, budget_of
from ephost.model.native_graph import Constants, NativeGraph
from ephost.model.partition import (
    READS_FILES,
    Assignment,
    Group,
    Partitioner,
    compile_groups,
)
from ephost.model.plan import make_plan
from ephost.model.planning.runners import Runners
from ephost.model.planning.steps import Plan
from ephost.model.prepack import DISABLE_PREPACKING, free_originals, prepack
from ephost.records import Record

if TYPE_CHECKING:
    from ephost.profiling import EpProfilers

_STREAM = "CreateSyncStreamForDevice"
_VALIDATE = "ValidateCompiledModelCompatibilityInfo"
_HAS_BODIES = "it has bodies, and is none of those operators that hosts make kernels for: If, Loop, Scan"
# What the host's stand-in for an EP has where the EP has it.
PASSED_ON = (
    "GetPreferredDataLayout",
    "ShouldConvertDataLayoutForOp",
    "SetDynamicOptions",
    "IsConcurrentRunSupported",
    "GetCompiledModelCompatibilityInfo",
    "GetKernelRegistry",
    "Sync",
)


class _Shown:
    """A model that the EP has been asked about."""

    def __init__(self, model: Model, native: NativeGraph) -> None:
        self.model = model
        self.native = native
        self.singles: set[int] = set()  # indices of nodes that it claimed for kernels, and of those hosted
        self.dropping: set[int] = set()  # of nodes of groups that keep no constants as inputs
        self.hosted: set[int] = set()  # of nodes of operators that it brings for the host to run
        self.is_kept = False  # kernels hold on to its nodes

    def release(self) -> None:
        self.native.release()


class _Compiled(Record, frozen=True):
    """A group that was compiled, of which a plan is made when the session is open."""

    model: Model
    group: Group
    nodes: list[Node]  # in the order in which they run
    fed: list[Value]
    is_body: bool


class _Ep:
    """The one EP, and all that it made."""

    def __init__(
        self, devices: Sequence[environment.OrtEpDevice], entries: dict[str, str], severity: int, threads: int
    ) -> None:
        self.operators: list[CustomOp] = []  # custom ones of the EP's factory
        self.host_kernels = HostKernels()  # of those of them that are the host's
        self.options = native_session_options(entries)
        self.config = new_key_values(entries)
        self.entries = entries
        self.logger = lib.ephost_logger_new(b"session", severity)
        self.threads = lib.ephost_thread_pool_new(threads) if threads > 1 else NULL
        self.constants = Constants(all_in_memory=True)  # what was sent is a copy
        self.arrays: dict[int, np.ndarray] = {}
        self.shown: dict[int, _Shown] = {}
        self.groups: dict[int, _Compiled] = {}  # by the number of their plan, until that is made
        self.plans: dict[int, Plan] = {}
        self.kernel_plans: set[int] = set()  # the numbers of those of several steps
        self._counted: list[Any] | None = None  # the graph whose claims were counted last
        self._budget_before: Budget | None = None
        self.profilers: EpProfilers | None = None
        self.profile_start = 0
        self.assignment: Assignment | None = None
        try:
            self.ep = ExecutionProvider(devices, self.options, {}, severity)
            self.assignment = Assignment(self.ep)
            self.assignment.budget = budget_of(self.ep, entries.get(SETTINGS))
            if info := own_memory(self.ep):
                self.assignment.memory = DeviceMemory(self.ep, info)
        except BaseException:
            self.release()
            raise

    def partitioner(self, model: Model) -> Partitioner:
        assert self.assignment is not None
        return Partitioner(model, self.constants, [self.assignment], logger=self.logger, config=self.config)

    def count_again(self, path: list[Any]) -> None:
        """Begin to count what the claims of a graph cost; asked about again, it is not counted twice."""
        assert self.assignment is not None
        if path == self._counted:
            self.assignment.budget = self._budget_before
        self._counted, self._budget_before = path, deepcopy(self.assignment.budget)

    def keep(self, shown: _Shown) -> None:
        """Have a graph live as long as the kernels that know its nodes."""
        if not shown.is_kept:
            assert self.assignment is not None
            shown.is_kept = True
            self.assignment.graphs.append(shown.native)

    def forget_unused(self, number: int) -> None:
        """Free what the EP was shown before, and has no kernels of."""
        for other in [key for key, shown in self.shown.items() if key != number and not shown.is_kept]:
            self.shown.pop(other).release()

    def forget_models(self) -> None:
        """Free what the EP was shown, with the weights that compiled groups have copied, but for models of
        which there are kernels.
        """
        assert self.assignment is not None
        read = {id(value) for group in self.assignment.groups for value in group.inputs}
        for number in [key for key, shown in self.shown.items() if not shown.is_kept]:
            shown = self.shown.pop(number)
            shown.release()
            for graph in all_graphs(shown.model.graph):
                for value in graph.values.values():
                    if value.initializer is not None and id(value) not in read:
                        self.constants.forget(value)
                        value.initializer = None
        self.arrays.clear()

    def release_profiler(self) -> None:
        """Release the EP's profiler, when it has one."""
        if self.profilers is not None:
            self.profilers.release()
            self.profilers = None

    def release(self) -> None:
        self.release_profiler()
        for number, plan in self.plans.items():
            lib.ephost_serve_plan(number, NULL)
            plan.release()
        self.plans.clear()
        self.host_kernels.release()
        if self.assignment is not None:
            self.assignment.release()
        for shown in self.shown.values():
            shown.release()
        self.shown.clear()
        if self.assignment is not None:
            self.assignment = None
            self.ep.release()
        self.constants.release()
        api.ReleaseSessionOptions(self.options)
        api.ReleaseKeyValuePairs(self.config)
        lib.ephost_logger_free(self.logger)
        if self.threads:
            lib.ephost_thread_pool_free(self.threads)


Request = dict[str, Any]
Answer = dict[str, Any]


class Serving:
    """The operations that the host may ask for; each gets a request, bytes and descriptors."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._name = ""
        self._hardware: list[int] = []  # addresses of the devices that both sides count in the same way
        self._ep_devices: list[environment.OrtEpDevice] = []  # likewise
        self._ep: _Ep | None = None
        self._numbers = 0
        self._streams: dict[int, OrtSyncStream] = {}
        self._operators: dict[int, list[CustomOp]] = {}  # custom ones, by the number of their factory
        self.operations: dict[str, Callable[[Request, bytes, Sequence[int]], Answer | None]] = {
            "register": self._register,
            "misfit": self._misfit,
            "validate": self._validate,
            "operators": self._give_operators,
            "infer": self._infer,
            "close": self._close,
            "create_ep": self._create_ep,
            "release_ep": self._release_ep,
            "layout": self._layout,
            "converts": self._converts,
            "kernels": self._kernels,
            "concurrent": self._concurrent,
            "dynamic_options": self._dynamic_options,
            "initialized": self._initialized,
            "sync": self._sync,
            "compatibility": self._compatibility,
            "capability": self._capability,
            "compile": self._compile,
            "control": self._control,
            "start_profiler": self._start_profiler,
            "end_profiler": self._end_profiler,
            "release_profiler": self._release_profiler,
            "open_lane": self._open_lane,
            "memory": self._memory,
            "create_stream": self._create_stream,
            "wait_for_stream": self._wait_for_stream,
            "release_stream": self._release_stream,
        }

    # ---- the library ----

    def _register(self, request: Request, _: bytes, __: Sequence[int]) -> Answer:
        """Load the library; what its factories and their devices are."""
        environment.set_default_logger_severity(request["severity"])
        environment.set_hardware_devices(request["hardware"])
        environment.allow_virtual_devices(request["virtual"])
        self._name = request["name"]
        environment.register_execution_provider_library(
            self._name, request["path"], isolated=False, layers=request["layers"]
        )
        registration = environment.registrations()[self._name]
        self._hardware = [address(d._pointer) for d in environment.get_hardware_devices()]
        own_devices: list[Answer] = []
        factories: list[Answer] = []
        for factory, name in zip(registration.library.factories, registration.ep_names, strict=True):
            devices = []
            for device in registration.ep_devices:
                if device._factory != factory:
                    continue
                pointer = address(device.device._pointer)
                if pointer not in self._hardware:
                    self._hardware.append(pointer)
                    own_devices.append(_description(device.device))
                self._ep_devices.append(device)
                devices.append(
                    {
                        "number": len(self._ep_devices) - 1,
                        "memory": described(memory_of(device._pointer)),
                        "hardware": self._hardware.index(pointer),
                        "metadata": device.ep_metadata,
                        "options": device.ep_options,
                    }
                )
            with naming(lambda: f"a factory of '{self._name}' failed"):
                vendor_id = member("OrtEpFactory", factory, "GetVendorId")
                version = member("OrtEpFactory", factory, "GetVersion")
                factories.append(
                    {
                        "ep_name": name,
                        "vendor": text(guarded("OrtEpFactory_GetVendor")(factory)),
                        "vendor_id": 0 if vendor_id is None else int(vendor_id(factory)),
                        "version": "" if version is None else text(version(factory)),
                        "validates": member("OrtEpFactory", factory, _VALIDATE) is not None,
                        "brings": member("OrtEpFactory", factory, "GetNumCustomOpDomains") is not None,
                        "devices": devices,
                        "has_memory": any(row["memory"] for row in devices),
                        "makes_streams": member("OrtEpFactory", factory, _STREAM) is not None,
                    }
                )
        return {"factories": factories, "devices": own_devices}

    def _operators_of(self, number: int) -> list[CustomOp]:
        """The custom operators that a factory brings; it is asked once."""
        if number not in self._operators:
            factory = environment.registrations()[self._name].library.factories[number]
            label = f"a factory of '{self._name}'"
            domains = domains_of(factory, partial(member, "OrtEpFactory", factory), label)
            self._operators[number] = list(operators_of(domains))
        return self._operators[number]

    def _give_operators(self, request: Request, _: bytes, __: Sequence[int]) -> Answer:
        """What the custom operators of a factory are."""
        return {"operators": [description(op) for op in self._operators_of(request["factory"])]}

    def _infer(self, request: Request, _: bytes, __: Sequence[int]) -> Answer:
        """The types of the outputs of a node of such an operator."""
        kinds = [None if row is None else tensor_type(*row) for row in request["kinds"]]
        index, proto, op_type, domain, label, since, made = request["node"]
        nothing: list[Value | None] = [None]
        node = Node(index, proto, op_type, domain, label, since, nothing * len(kinds), nothing * made)
        node.custom = self._operators_of(request["factory"])[request["operator"]]
        opsets, ir_version, metadata = request["about"]
        model = Model(Graph("", [], [], [], {}), opsets, ir_version, {}, None, metadata)
        found = infer_outputs(model, node, kinds)
        return {"kinds": [None if kind is None else (kind.element_type, kind.dims) for kind in found]}

    def _misfit(self, request: Request, _: bytes, __: Sequence[int]) -> Answer:
        """What a factory says against a device."""
        from ephost.compatibility import incompatibility

        factory = environment.registrations()[self._name].library.factories[request["factory"]]
        return incompatibility(factory, environment.get_hardware_devices()[request["hardware"]])

    def _validate(self, request: Request, _: bytes, __: Sequence[int]) -> Answer:
        """Whether a factory's devices run what was compiled."""
        registration = environment.registrations()[self._name]
        factory = registration.library.factories[request["factory"]]
        known = {address(d.device._pointer): d.device._pointer for d in registration.ep_devices}
        devices = ffi.new("OrtHardwareDevice*[]", [known[self._hardware[at]] for at in request["hardware"]])
        out = ffi.new("OrtCompiledModelCompatibility*")
        with naming(lambda: f"a factory of '{self._name}' failed in {_VALIDATE}"):
            validate = member("OrtEpFactory", factory, _VALIDATE)
            check(validate(factory, devices, len(devices), request["info"].encode(), out))
        return {"compatibility": int(out[0])}

    def _close(self, _: Request, __: bytes, ___: Sequence[int]) -> None:
        """Unload the library."""
        if self._ep is not None:
            self._ep.release()
            self._ep = None
        if self._name in environment.registrations():
            environment.unregister_execution_provider_library(self._name)

    # ---- an EP ----

    def _create_ep(self, request: Request, _: bytes, __: Sequence[int]) -> Answer:
        """Make an EP; what it is, and which functions it has."""
        registration = environment.registrations()[self._name]
        factory = registration.library.factories[request["factory"]]
        devices = []
        for at, metadata in request["devices"]:
            found = [
                d
                for d in registration.ep_devices
                if d._factory == factory and address(d.device._pointer) == self._hardware[at]
            ]
            devices.append(next((d for d in found if d.ep_metadata == metadata), found[0]))
        threads = request["threads"] or environment.processor_count()
        made = self._ep = _Ep(devices, request["entries"], request["severity"], threads)
        if member("OrtEpFactory", factory, "GetNumCustomOpDomains") is not None:
            made.operators = self._operators_of(request["factory"])
        own = made.assignment is not None and made.assignment.memory is not None
        return {
            "members": [name for name in PASSED_ON if made.ep.member(name) is not None],
            "memory": self._ep_devices.index(devices[0]) if own else None,
        }

    def _memory(self, request: Request, _: bytes, __: Sequence[int]) -> None:
        """Offer the memory of a device to the host, until the library is unloaded."""
        memory = self._ep_devices[request["device"]]._shared_memory()
        assert memory is not None  # the host was told of it
        if not lib.ephost_serve_memory(request["device"], memory.allocator, memory.transfer, memory.info):
            raise Fail(f"'{self._name}' has more devices than the host can ask for their memory")

    def _create_stream(self, request: Request, _: bytes, __: Sequence[int]) -> Answer:
        """Make a stream of a device; its number."""
        number, self._numbers = self._numbers, self._numbers + 1
        device = self._ep_devices[request["device"]]
        self._streams[number] = device._stream(request["options"])
        return {"stream": number}

    def _wait_for_stream(self, request: Request, _: bytes, __: Sequence[int]) -> None:
        """Wait until what was queued on a stream is done."""
        self._streams[request["stream"]].synchronize()

    def _release_stream(self, request: Request, _: bytes, __: Sequence[int]) -> None:
        """Release a stream."""
        del self._streams[request["stream"]]

    def _release_ep(self, _: Request, __: bytes, ___: Sequence[int]) -> None:
        """Release it, after all that it made."""
        if self._ep is not None:
            ep, self._ep = self._ep, None
            ep.release()

    def _layout(self, _: Request, __: bytes, ___: Sequence[int]) -> Answer:
        """What ``GetPreferredDataLayout`` says."""
        out = ffi.new("OrtEpDataLayout*")
        self._own().ep.call("GetPreferredDataLayout", out)
        return {"layout": int(out[0])}

    def _kernels(self, _: Request, __: bytes, ___: Sequence[int]) -> Answer:
        """What the EP's registry has, for who explains why a node was left."""
        ep = self._own().ep
        registry = ep.kernel_registry()
        return {
            "compiles": ep.member("Compile") is not None,
            "kernels": registry_rows(registry) if registry else None,
        }

    def _converts(self, request: Request, _: bytes, __: Sequence[int]) -> Answer:
        """What ``ShouldConvertDataLayoutForOp`` says."""
        out = ffi.new("int*")
        names = request["domain"].encode(), request["op_type"].encode()
        self._own().ep.call("ShouldConvertDataLayoutForOp", *names, request["layout"], out)
        return {"converts": int(out[0])}

    def _concurrent(self, _: Request, __: bytes, ___: Sequence[int]) -> Answer:
        """What ``IsConcurrentRunSupported`` says."""
        return {"concurrent": self._own().ep.runs_may_overlap()}

    def _dynamic_options(self, request: Request, _: bytes, __: Sequence[int]) -> None:
        """``SetDynamicOptions``."""
        keys = [ffi.new("char[]", key.encode()) for key in request["options"]]
        values = [ffi.new("char[]", value.encode()) for value in request["options"].values()]
        arrays = ffi.new("char*[]", keys), ffi.new("char*[]", values)
        self._own().ep.call("SetDynamicOptions", *arrays, len(keys))

    def _initialized(self, _: Request, __: bytes, ___: Sequence[int]) -> None:
        """The session is open but for this: kernels pack their weights, groups become plans, and the EP hears
        of it. As in one process, all kernels have been made before the first is offered a weight.
        """
        own = self._own()
        assert own.assignment is not None
        _refuse_recording(own.ep, [kept.nodes for kept in own.groups.values()])
        if own.entries.get(DISABLE_PREPACKING) != "1":
            prepack([own.assignment], None)
        for shown in own.shown.values():
            for graph in all_graphs(shown.model.graph):
                free_originals(graph, [own.assignment], own.constants)
        runners = Runners([own.assignment], own.host_kernels.kernels)
        for number in list(own.groups):
            self._plan(own, number, own.groups.pop(number), runners)
        if own.ep.member("OnSessionInitializationEnd") is not None:
            own.ep.call("OnSessionInitializationEnd")
        own.forget_models()

    def _sync(self, _: Request, __: bytes, ___: Sequence[int]) -> None:
        """``Sync``."""
        self._own().ep.call("Sync")

    def _compatibility(self, request: Request, data: bytes, files: Sequence[int]) -> Answer:
        """What ``GetCompiledModelCompatibilityInfo`` says of a graph."""
        own = self._own()
        shown = self._show(request, data, files)
        pointer, _ = shown.native.graphs[id(shown.model.graph)]
        return {"info": text(own.ep.ask("GetCompiledModelCompatibilityInfo", pointer))}

    def _own(self) -> _Ep:
        if self._ep is None:
            raise RuntimeError("there is no execution provider")
        return self._ep

    # ---- claims ----

    def _show(self, request: Request, data: bytes, files: Sequence[int]) -> _Shown:
        own, number = self._own(), request["number"]
        shown = own.shown.get(number)
        if shown is None:
            own.forget_unused(number)
            model = unpack(data, files[0] if files else None, own.arrays, own.operators)
            reads = any(device.ep_metadata.get(READS_FILES) == "1" for device in own.ep.devices)
            native = NativeGraph(model, model.graph, own.constants, reads_files=reads)
            shown = own.shown[number] = _Shown(model, native)
        return shown

    def _capability(self, request: Request, data: bytes, files: Sequence[int]) -> Answer:
        """Which groups the EP claims of a graph."""
        own = self._own()
        shown = self._show(request, data, files)
        graph = graph_at(shown.model.graph, request["path"])
        partitioner = own.partitioner(shown.model)
        partitioner.record_messages = request["record"]
        assert own.assignment is not None
        registry = own.ep.kernel_registry()
        claims = partitioner.ask(own.assignment, shown.native, graph, registry)
        own.count_again(request["path"])
        before = len(own.assignment.refused)
        singles, fused = partitioner.sort_claims(own.assignment, claims)
        refused = own.assignment.refused[before:]
        groups: list[list[int]] = []
        shown.dropping.difference_update(node.index for node in graph.nodes)
        for nodes, drops in fused:
            groups.append([node.index for node in nodes])
            shown.dropping.update(node.index for node in nodes if drops)
        kernels: list[Node] = []
        controls: list[int] = []
        # What kernels run stays as it is in a model that is to be stored.
        for node in () if request["storing"] else singles:
            if node.subgraphs and is_control_flow(node):
                controls.append(node.index)  # the host runs it, as it does in one process
            elif node.subgraphs:
                refused.append(([node], _HAS_BODIES))
            else:
                kernels.append(node)
        # An operator that the plugin brings for the host is in nobody else's process.
        taken = {node.index for nodes, *_ in claims for node in nodes}
        hosted = [
            node
            for node in (() if request["storing"] else graph.nodes)
            if node.custom is not None
            and node.custom.is_hosts
            and not node.ep_name
            and node.index not in taken
        ]
        shown.hosted.difference_update(node.index for node in graph.nodes)
        shown.hosted.update(node.index for node in hosted)
        kernels += hosted
        shown.singles.update(node.index for node in kernels)
        groups += [[node.index for node in nodes] for nodes in convex_groups(graph, kernels)]
        return {
            "groups": groups,
            "controls": controls,
            "refused": [([node.index for node in nodes], reason) for nodes, reason in refused],
        }

    # ---- compiling ----

    def _compile(self, request: Request, _: bytes, __: Sequence[int]) -> Answer:
        """Compile groups that were claimed; for each the number of what runs it, and its EPContext node."""
        own = self._own()
        shown = own.shown[request["number"]]
        graph = graph_at(shown.model.graph, request["path"])
        assert own.assignment is not None
        by_index = {node.index: node for node in graph.nodes}
        visible = _visible(graph)
        groups = [_group(row, visible, by_index, own.ep.name, shown.dropping) for row in request["groups"]]
        of_kernels = [all(node.index in shown.singles for node in group.nodes) for group in groups]
        kernels = [group for group, are in zip(groups, of_kernels, strict=True) if are]
        fused = [group for group, are in zip(groups, of_kernels, strict=True) if not are]
        if fused:
            own.assignment.groups.extend(fused)
            compile_groups(
                own.ep,
                shown.model,
                shown.native,
                graph,
                fused,
                own.constants,
                storing=request["storing"],
            )
        registry = own.ep.kernel_registry() if kernels else NULL
        partitioner = own.partitioner(shown.model)
        for group in kernels:
            own.keep(shown)
            claimed = [node for node in group.nodes if node.index not in shown.hosted]
            hosted = [node for node in group.nodes if node.index in shown.hosted]
            partitioner.create_kernels(own.assignment, shown.native, registry, claimed)
            own.host_kernels.add(hosted, shown.native, own.constants, own.logger, own.config)
        is_body = bool(request["path"])
        return {
            "groups": [
                self._keep(own, shown.model, group, are, is_body)
                for group, are in zip(groups, of_kernels, strict=True)
            ]
        }

    def _control(self, request: Request, _: bytes, __: Sequence[int]) -> Answer:
        """Make the kernel of an If, a Loop or a Scan that was claimed; whether it is one that hosts make, so
        that its node is the host's to run.
        """
        own = self._own()
        shown = own.shown[request["number"]]
        graph = graph_at(shown.model.graph, request["path"])
        node = next(node for node in graph.nodes if node.index == request["node"])
        assert own.assignment is not None
        own.keep(shown)
        partitioner = own.partitioner(shown.model)
        partitioner.create_kernels(own.assignment, shown.native, own.ep.kernel_registry(), [node])
        made = own.assignment.kernels[-1].implementation
        return {"is_hosts": bool(lib.ephost_is_control_kernel(made))}

    def _keep(self, own: _Ep, model: Model, group: Group, is_of_kernels: bool, is_body: bool) -> Answer:
        """What the host has to know of a group that was compiled; its plan has its number from here on."""
        nodes = _in_order(group.nodes) if is_of_kernels else [group.fused]
        fed = [value for value in group.inputs if not value.is_constant]
        number, self._numbers = self._numbers, self._numbers + 1
        own.groups[number] = _Compiled(model, group, nodes, fed, is_body)
        if is_of_kernels:
            own.kernel_plans.add(number)
        context = (
            None if group.context is None else base64.b64encode(group.context.SerializeToString()).decode()
        )
        return {"plan": number, "context": context}

    @staticmethod
    def _plan(own: _Ep, number: int, kept: _Compiled, runners: Runners) -> None:
        model, group, nodes = kept.model, kept.group, kept.nodes
        values = {v.name: v for node in nodes for v in (*node.reads(), *node.outputs) if v is not None}
        values.update({v.name: v for v in (*kept.fed, *group.outputs)})
        part = Graph(group.fused.name, nodes, kept.fed, list(group.outputs), values)
        assert own.assignment is not None
        plan = own.plans[number] = make_plan(
            Model(part, model.opsets, model.ir_version, {}, model.path, model.metadata),
            [own.assignment],
            own.constants,
            threads=own.threads,
            logger=own.logger,
            exclusive=not own.ep.runs_may_overlap(),
            inputs=kept.fed,
            runners=runners,
        )
        if kept.is_body:
            lib.ephost_plan_set_body(plan.pointer)
        if not lib.ephost_serve_plan(number, plan.pointer):
            raise MemoryError("no memory for a plan")

    # ---- profiles ----

    def _start_profiler(self, request: Request, _: bytes, __: Sequence[int]) -> None:
        """Record what runs do from now on, and have the EP's profiler hear of it."""
        from ephost.profiling import EpProfilers, with_bodies

        own = self._own()
        own.profile_start = int(request["start"])
        own.profilers = EpProfilers([own.ep], own.profile_start)
        pointers = own.profilers.pointers
        for plan in own.plans.values():
            for part in with_bodies(plan):
                if pointers:
                    check(
                        lib.ephost_plan_set_profilers(
                            part.pointer, pointers, len(pointers), own.profile_start
                        )
                    )
                lib.ephost_plan_profile(part.pointer, True)

    def _end_profiler(self, _: Request, __: bytes, ___: Sequence[int]) -> Answer:
        """What was recorded; of groups that are one step the host itself knows the times."""
        from ephost.profiling import CATEGORIES, step_events, with_bodies

        own = self._own()
        events: list[dict[str, Any]] = []
        for number, plan in own.plans.items():
            for part in with_bodies(plan):
                lib.ephost_plan_profile(part.pointer, False)
                if number in own.kernel_plans:
                    events.extend(step_events(part, own.profile_start))
        if own.profilers is not None:
            events.extend(own.profilers.end())
        numbers = {name: number for number, name in CATEGORIES.items()}
        for event in events:
            event["category"] = numbers.get(event.pop("cat"), numbers["Kernel"])
        return {"events": events}

    def _release_profiler(self, _: Request, __: bytes, ___: Sequence[int]) -> None:
        self._own().release_profiler()

    # ---- runs ----

    def _open_lane(self, request: Request, _: bytes, files: Sequence[int]) -> None:
        """Serve runs on a lane, on a thread of its own."""
        socket = os.dup(files[0])
        os.close(files[0])
        threading.Thread(
            target=lib.ephost_serve_lane,
            args=(self._pool, request["offset"], socket),
            name="ephost-lane",
            daemon=True,
        ).start()


def _description(device: environment.OrtHardwareDevice) -> Answer:
    return {
        "type": device.type.name,
        "vendor": device.vendor,
        "vendor_id": device.vendor_id,
        "device_id": device.device_id,
        "metadata": device.metadata,
    }


def _refuse_recording(ep: ExecutionProvider, steps: Sequence[list[Node]]) -> None:
    """Raise where an EP records runs: it would repeat one on the memory that this had, and each run of an
    isolated plugin has other memory.
    """
    wanted = ("IsGraphCaptureEnabled", "IsGraphCaptured", "ReplayGraph")
    if not steps or any(ep.member(name) is None for name in wanted) or not ep.ask(wanted[0]):
        return
    raise NotImplemented(
        f"{ep.label} records runs (graph capture), which an isolated plugin cannot: "
        f"{steps[0][0].label} and all that it claims would be repeated on memory of an earlier run. Turn it "
        "off in its options, or register the library without isolation"
    )


def convex_groups(graph: Graph, nodes: Iterable[Node]) -> list[list[Node]]:
    """Nodes that kernels run, in as few groups as can run whole: group k is what needs somebody else's node
    between it and group k - 1.
    """
    chosen = {node.index for node in nodes}
    ranks: dict[int, int] = {}
    groups: dict[int, list[Node]] = {}
    for node in graph.nodes:
        rank = 0
        for value in node.reads():
            producer = value.producer
            if producer is not None and producer.index in ranks:
                before = ranks[producer.index]
                crosses = producer.index in chosen and node.index not in chosen
                rank = max(rank, before + crosses)
        ranks[node.index] = rank
        if node.index in chosen:
            groups.setdefault(rank, []).append(node)
    return [groups[rank] for rank in sorted(groups)]


def _in_order(nodes: Sequence[Node]) -> list[Node]:
    inside = {node.index: node for node in nodes}
    ordered: list[Node] = []
    done: set[int] = set()
    stack = [(node, False) for node in reversed(nodes)]
    while stack:
        node, leave = stack.pop()
        if leave:
            ordered.append(node)
        elif node.index not in done:
            done.add(node.index)
            stack.append((node, True))
            for value in node.reads():
                producer = value.producer
                if producer is not None and producer.index in inside and producer.index not in done:
                    stack.append((producer, False))
    return ordered


def _group(
    row: dict[str, Any],
    visible: dict[str, Value],
    by_index: dict[int, Node],
    ep_name: str,
    dropping: set[int],
) -> Group:
    """A group as the host made it, but for its constants: the host, which feeds none, knows of none."""
    nodes = [by_index[index] for index in row["nodes"]]
    inputs, _ = group_interface(nodes, drop_constants=nodes[0].index in dropping)
    outputs = [visible[name] for name in row["outputs"]]
    fused = Node(
        row["index"],
        NodeProto(op_type=row["op_type"], domain=ep_name),
        row["op_type"],
        ep_name,
        row["name"],
        1,
        list(inputs),
        list(outputs),
        ep_name,
    )
    return Group(nodes, inputs, outputs, fused)


def _visible(graph: Graph) -> dict[str, Value]:
    """The values that nodes of a graph may read, by name: its own, and what it captures."""
    found = {value.name: value for node in graph.nodes for value in node.reads()}
    found.update(graph.values)
    return found
