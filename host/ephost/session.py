"""InferenceSession: a model, partitioned over execution providers, ready to run."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import onnx

from ephost import environment
from ephost._bindings import (
    NULL,
    abi_element_type,
    address,
    all_dtypes,
    api,
    call,
    dtype_of,
    lib,
    member,
    new_key_values,
)
from ephost.device_memory import DeviceMemory, own_memory
from ephost.enums import GraphOptimizationLevel
from ephost.environment import DEFAULT_PROVIDER
from ephost.errors import (
    EPFail,
    Fail,
    InvalidArgument,
    ModelLoadCanceled,
    OnnxRuntimeException,
    warn_of_fallback,
)
from ephost.execution_provider import ExecutionProvider, native_session_options, option_prefix
from ephost.feeds import fit, type_text
from ephost.model.capture import check_copies, recorder
from ephost.model.check import check_types
from ephost.model.custom_ops import CustomOps, domains_of
from ephost.model.fold import TAKES_TRANSPOSED, drop_unused_initializers, simplify, unwanted
from ephost.model.graph import Metadata, Node, TensorType, Value, all_graphs
from ephost.model.infer import infer
from ephost.model.kernels import HostKernels
from ephost.model.limits import SETTINGS, budget_of
from ephost.model.load import load
from ephost.model.native_graph import Constants
from ephost.model.partition import (
    COMPATIBILITY_PREFIX,
    WEIGHTLESS,
    Assignment,
    Partitioner,
    forget_dropped,
    is_context,
)
from ephost.model.plan import Plan, make_plan
from ephost.model.prepack import PrepackedWeightsContainer, free_originals, prepack
from ephost.model.save import save
from ephost.options import Chosen, RunOptions, SessionOptions, thread_count
from ephost.profiling import EpProfilers
from ephost.running import DISABLE_FALLBACK, Session
from ephost.selection import choose

if TYPE_CHECKING:
    from ephost.model.context import ContextTarget

_LOG = logging.getLogger("ephost.session")
CONTEXT_ENABLE = "ep.context_enable"
DISABLE_COMPILING = "session.disable_model_compile"
LISTEN = "ephost.record_refusals"  # "1": for explain, keep what EPs say of nodes that they do not claim
RESERVE_WEIGHTS = "session.use_device_allocator_for_initializers"
DISABLE_PREPACKING = "session.disable_prepacking"
OFFER_SUBGRAPHS = "ephost.offer_subgraphs"  # "0": bodies of If, Loop and Scan are not offered to EPs
ENABLE_FALLBACK = "ephost.enable_fallback"  # "0": a plugin's failure is raised; as the argument of the name
RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"


@dataclass(frozen=True)
class NodeArg:
    """An input or output of a model: name, type as onnxruntime writes it, and shape (str: named)."""

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True)
class ModelMetadata:
    """What a model says of itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


@dataclass(frozen=True)
class OrtEpAssignedNode:
    """A node of the model, as it was claimed."""

    name: str
    domain: str
    op_type: str


@dataclass(frozen=True)
class OrtEpAssignedSubgraph:
    """Nodes that one execution provider runs together."""

    ep_name: str
    nodes: tuple[OrtEpAssignedNode, ...]

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        """The nodes, in topological order."""
        return list(self.nodes)


def _metadata_texts(about: Metadata) -> dict[str, str]:
    return {
        "producer_name": about.producer_name,
        "producer_version": about.producer_version,
        "graph_name": about.graph_name,
        "domain": about.domain,
        "doc_string": about.description,
        "graph_description": about.graph_description,
        "model_version": str(about.version),
        **about.custom,
    }


def _node_arg(value: Value) -> NodeArg:
    dims = value.type.dims if isinstance(value.type, TensorType) and value.type.dims is not None else ()
    return NodeArg(value.name, type_text(value.type), list(dims))


class _Interface:
    """What a model takes and gives, and what is wrong with a feed. Knows nothing of the session, so that a
    session is gone as soon as its last user lets go of it.
    """

    def __init__(self, inputs: Sequence[Value], required: int, outputs: Sequence[Value]) -> None:
        self.inputs = list(inputs)  # those that an initializer gives a default come last
        self.required = required
        self.outputs = list(outputs)
        self.output_names = [value.name for value in outputs]
        self._index = {value.name: at for at, value in enumerate(self.inputs)}

    def specifications(self) -> tuple[tuple[str, int, tuple[int, ...] | None, bool], ...]:
        """What the call module checks a feed by."""
        specs = []
        for at, value in enumerate(self.inputs):
            element_type, dims = 0, None
            if isinstance(value.type, TensorType):
                element_type = abi_element_type(value.type.element_type)
                dtype_of(value.type.element_type)
                if value.type.dims is not None:
                    dims = tuple(d if isinstance(d, int) else -1 for d in value.type.dims)
            specs.append((value.name, element_type, dims, at < self.required))
        return tuple(specs)

    def convert(self, index: int, value: Any) -> Any:
        """The feed as an array or OrtValue of the right type; where all but plain fitting arrays go.

        Raises:
            InvalidArgument: the wrong type, rank or dimension, naming the input.
        """
        return fit(self.inputs[index].name, self.inputs[index].type, value)

    def check_input_name(self, name: str) -> None:
        """Raise InvalidArgument for a name that is no input."""
        if name not in self._index:
            raise self.feed_error(dict.fromkeys([*self._index, name]))

    def check_output_name(self, name: str) -> None:
        """Raise InvalidArgument for a name that is no output."""
        if name not in self.output_names:
            raise self.feed_error(name)

    def feed_error(self, feed: Any) -> Exception:
        """The exception for a feed with missing or unknown names, or for the name of an unknown output."""
        if not isinstance(feed, Mapping):
            return InvalidArgument(
                f"Invalid output name: {feed}. The model's outputs are {self.output_names}"
            )
        names = list(feed)
        known = [value.name for value in self.inputs]
        missing = [name for name in known[: self.required] if name not in feed]
        if missing:
            return ValueError(f"Required inputs ({missing}) are missing from input feed ({names}).")
        unknown = [name for name in names if name not in self._index]
        return InvalidArgument(
            f"Invalid input name: {unknown[0] if unknown else '?'}. The model's inputs are {known}"
        )


class _Resources:
    """Everything native that a session owns, released in order, once."""

    def __init__(self) -> None:
        self.assignments: list[Assignment] = []
        self.constants = Constants()
        self.host_kernels = HostKernels()
        self.profilers: list[EpProfilers] = []
        self.custom_ops: CustomOps | None = None  # it keeps libraries open
        self.plan: Plan | None = None
        self.options: Any = NULL
        self.config: Any = NULL
        self.logger: Any = NULL
        self.threads: Any = NULL
        self.closed = False
        self._lent = 0
        self._lock = threading.RLock()

    def acquire(self) -> None:
        """For a value in the memory of an EP's device, which keeps all of this until :meth:`release`."""
        with self._lock:
            self._lent += 1

    def release(self) -> None:
        """The end of an :meth:`acquire`."""
        with self._lock:
            self._lent -= 1
            last = self.closed and not self._lent
        if last:
            self._free()

    def close(self) -> None:
        """Free everything, now or with the last value that needs it."""
        with self._lock:
            was_closed, self.closed = self.closed, True
            last = not was_closed and not self._lent
        if last:
            self._free()

    def _free(self) -> None:
        if self.plan is not None:
            self.plan.release()
        for profilers in self.profilers:
            profilers.release()
        self.host_kernels.release()
        for assignment in reversed(self.assignments):
            assignment.release()
            assignment.ep.release()
        self.assignments.clear()
        self.constants.release()
        for pointer, release in (
            (self.options, api.ReleaseSessionOptions),
            (self.config, api.ReleaseKeyValuePairs),
            (self.logger, lib.ephost_logger_free),
            (self.threads, lib.ephost_thread_pool_free),
        ):
            if pointer:
                release(pointer)

    def __del__(self) -> None:
        self.close()


class InferenceSession(Session):
    """A model opened on execution providers; any number of threads may run it at once."""

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str] | onnx.ModelProto,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        prepacked_weights_container: PrepackedWeightsContainer | None = None,
        **kwargs: Any,
    ) -> None:
        """Load a model, let execution providers claim what they can, and prepare to run it.

        Args:
            path_or_bytes: the model's path, its bytes, or a ``ModelProto``.
            sess_options: options; its ``add_provider_for_devices`` chooses the execution providers.
            providers: instead of that, names of execution providers of registered libraries, in order of
                priority, or (name, options) pairs. What none of them claims runs on the reference fallback.
            provider_options: options for ``providers``, one dict for each.
            prepacked_weights_container: where kernels' packed weights are shared with other sessions. In
                onnxruntime, only its C API has this.
            **kwargs: ``enable_fallback=0`` raises what a plugin reports when it is created, when it chooses
                nodes and in a run, all of which otherwise are a :class:`ephost.FallbackWarning` each, and the
                session goes on without the plugin. A session that is to have no fallback (by
                ``session.disable_cpu_ep_fallback``) or that writes a compiled model always raises.
                ``disabled_optimizers`` are optimizers, by onnxruntime's names, that are not wanted;
                ``read_config_from_model`` is accepted for onnxruntime's sake.

        Raises:
            NoSuchFile, InvalidProtobuf, InvalidGraph: the model is missing or not valid.
            EPFail: a plugin failed otherwise, or broke a rule of the ABI.
            Fail: nodes are left to the fallback although ``session.disable_cpu_ep_fallback`` is "1".
            NotImplemented: a node that neither a plugin nor the fallback can run, one among them that holds
                what a plugin compiled that the session does not have.
            ModelRequiresCompilation: the model was compiled for a device that this is not, or
                ``session.disable_model_compile`` is "1" and an EP wants to compile.
        """
        if unknown := set(kwargs) - {"disabled_optimizers", "enable_fallback", "read_config_from_model"}:
            raise TypeError(f"InferenceSession has no argument {sorted(unknown)[0]!r}")
        self._closed = True  # until there is something to close
        self._source = path_or_bytes
        self._container = prepacked_weights_container
        self._options: SessionOptions = sess_options or SessionOptions()
        self._options._explain()
        self._disabled = frozenset(kwargs.get("disabled_optimizers") or ())
        self._unwanted: Collection[str] | None = None  # optimizers; None: all of them
        config = self._options._config
        self._fallback = int(kwargs.get("enable_fallback", config.get(ENABLE_FALLBACK, 1))) == 1
        self._fallback_lock = threading.Lock()
        strict = config.get(DISABLE_FALLBACK) == "1" or config.get(CONTEXT_ENABLE) == "1"
        self._tolerant = self._fallback and not strict
        self._open_on(providers, provider_options)
        self._tolerant = False  # set_providers opens on all that it names, or not at all

    # ---- opening ----

    def _open_on(self, providers: Any, provider_options: Any) -> None:
        started = time.perf_counter()
        self._timings = {}
        resources = _Resources()
        try:
            self._open(self._source, providers, provider_options, resources)
        except BaseException:
            resources.close()
            environment.forget_session(self)
            raise
        self._resources = resources
        self._closed = False
        self._timings["total"] = time.perf_counter() - started
        if self._options.enable_profiling:
            self._start_profiling()

    def _reopen(self, providers: Any, provider_options: Any) -> None:
        if self._closed:
            raise Fail("the session is closed")
        before = dict(self.__dict__)
        try:
            self._open_on(providers, provider_options)
        except BaseException:
            self.__dict__.update(before)
            raise
        finally:
            # What was open before is freed with the last run that uses it.
            environment.forget_session(self)
            for assignment in self._resources.assignments:
                environment.remember_session(self, assignment.ep.registration)

    def _open(self, source: Any, providers: Any, provider_options: Any, resources: _Resources) -> None:
        fed, defaulted, threads = self._claim(source, providers, provider_options, resources)
        self._prepare(fed, defaulted, threads, resources)

    def _claim(
        self, source: Any, providers: Any, provider_options: Any, resources: _Resources
    ) -> tuple[list[Value], list[Value], Any]:
        """All up to the point where each node has its EP; then a compiled model is written, where one is
        wanted. Returns the inputs that must be fed, those that have a default, and the threads.
        """
        options = self._options
        config = dict(options._config)
        with self._timed("load"):
            model = self._model = load(
                source,
                external_data_folder=config.get("session.model_external_initializers_file_folder_path"),
                free_dimensions=options._free_dimensions,
                free_denotations=options._free_denotations,
                initializers=options._initializers,
                files_in_memory=options._external_files,
            )
        chosen: Sequence[Chosen] = ()
        if not self._hosts_alone:
            chosen = choose(options, providers, provider_options, lambda: _metadata_texts(model.metadata))
        if default := self._default(chosen, config):
            chosen = [*chosen, default]
        for entry in chosen:
            prefix = option_prefix(entry.ep_name)
            config.update({prefix + key: value for key, value in entry.options.items()})
            if entry.ep_name == DEFAULT_PROVIDER:  # Named by the user it is told the same.
                config.setdefault(prefix + "intra_op_num_threads", str(thread_count(options)))
        graph = model.graph
        if custom := self._custom_ops(chosen):
            resources.custom_ops = custom
            custom.attach(model)
        self.description = model.path or f"the model '{graph.name}' from memory"
        target = self._compiled_model_target(config) if config.get(CONTEXT_ENABLE) == "1" else None
        if target is not None:
            target.check()
        fed = [v for v in graph.inputs if v.initializer is None]
        defaulted = [v for v in graph.inputs if v.initializer is not None and not v.is_constant]
        with self._timed("infer"):
            infer(model)
            check_types(model.graph)
        with self._timed("fold"):
            if options.graph_optimization_level >= GraphOptimizationLevel.ORT_ENABLE_BASIC:
                self._unwanted = unwanted(config, self._disabled)
                # Each EP may get each node: it is enough that one does not know how.
                flags = [device.ep_metadata.get(TAKES_TRANSPOSED) for c in chosen for device in c.devices]
                simplify(model, self._unwanted, leave_transposed=bool(flags) and set(flags) == {"1"})
            drop_unused_initializers(graph)
        if options.optimized_model_filepath:
            save(model, options.optimized_model_filepath)
        severity = options.log_severity_level
        severity = environment.default_logger_severity() if severity < 0 else severity
        resources.options = native_session_options(config)
        resources.config = new_key_values(config)
        resources.logger = lib.ephost_logger_new((options.logid or "session").encode(), severity)
        threads = self._threads(options)
        if options.use_per_session_threads:
            resources.threads = threads
        total_nodes = list(graph.nodes)
        with self._timed("partition"):
            self._partition(chosen, resources, severity)
        if target is not None:
            from ephost.model.context import write_compiled_model

            with self._timed("write"):
                write_compiled_model(model, resources.assignments, resources.constants, target)
        forget_dropped(model, resources.assignments, resources.constants)
        left = [node for node in graph.nodes if not node.ep_name]
        if left and config.get(DISABLE_FALLBACK) == "1":
            raise Fail(_fallback_refused(left, total_nodes, resources.assignments))
        return fed, defaulted, threads

    def _default(self, chosen: Sequence[Chosen], config: Mapping[str, str]) -> Chosen | None:
        """The bundled CPU plugin, for what nobody else claims; None where it is not wanted."""
        named = any(entry.ep_name == DEFAULT_PROVIDER for entry in chosen)
        # A compiled model holds what others compiled; the rest of it stays as it is.
        if named or config.get(DISABLE_FALLBACK) == "1" or config.get(CONTEXT_ENABLE) == "1":
            return None
        devices = environment.default_devices()
        if not devices:
            return None
        return Chosen(devices, {"intra_op_num_threads": str(thread_count(self._options))})

    def _custom_ops(self, chosen: Sequence[Chosen]) -> CustomOps:
        """The operators of the options' libraries, then those that the EPs' factories bring."""
        libraries = self._options._custom_op_libraries
        domains = [domain for library in libraries for domain in library.domains]
        first = {entry.devices[0]._factory: entry.devices[0] for entry in chosen}
        for factory, device in first.items():
            label = f"the execution provider {device.ep_name} ({device.registration_name})"
            domains += domains_of(factory, partial(member, "OrtEpFactory", factory), label)
        return CustomOps(domains, libraries)

    def _compiled_model_target(self, config: Mapping[str, str]) -> ContextTarget:
        """Where the compiled model goes that the session's options ask for."""
        from ephost.model.context import target_of_options

        return target_of_options(config, self._model.path)

    def _prepare(self, fed: list[Value], defaulted: list[Value], threads: Any, resources: _Resources) -> None:
        """All from there to the first run."""
        model = self._model
        graph = model.graph
        if any(not node.ep_name for node in graph.nodes):
            foreign = (n for g in all_graphs(graph) for n in g.nodes if is_context(n) and not n.ep_name)
            if (node := next(foreign, None)) is not None:
                from ephost.model.context import unclaimed_error

                raise unclaimed_error(node, [a.ep.name for a in resources.assignments])
        capture = recorder(model, resources.assignments)
        resources.host_kernels.make(model, resources.constants, resources.logger, resources.config)
        free_originals(graph, resources.assignments, resources.constants)
        exclusive = not all(a.ep.runs_may_overlap() for a in resources.assignments)
        inputs = [*fed, *defaulted]
        with self._timed("plan"):
            plan = resources.plan = make_plan(
                model,
                resources.assignments,
                resources.constants,
                threads=threads,
                logger=resources.logger,
                exclusive=exclusive,
                inputs=inputs,
                host_kernels=resources.host_kernels.kernels,
            )
            if capture is not None:
                check_copies(plan, model, resources.assignments[capture])
                lib.ephost_plan_set_capture(plan.pointer, capture)
            for assignment in resources.assignments:
                if assignment.ep.member("OnSessionInitializationEnd") is not None:
                    assignment.ep.call("OnSessionInitializationEnd")
        self._interface = _Interface(inputs, len(fed), graph.outputs)
        self._overridable = defaulted
        if any(isinstance(v.type, TensorType) and v.type.element_type > 15 for v in graph.values.values()):
            all_dtypes()
        self._runner = call.Runner(
            address(plan.pointer),
            resources,
            self._interface.convert,
            self._interface.feed_error,
            self._interface.specifications(),
            tuple(self._interface.output_names),
        )
        self._run: Callable[..., list[Any]] = self._runner.run

    @staticmethod
    def _threads(options: SessionOptions) -> Any:
        if not options.use_per_session_threads:
            return environment.global_threads()
        count = thread_count(options)
        return lib.ephost_thread_pool_new(count) if count > 1 else NULL

    def _partition(self, chosen: Sequence[Chosen], resources: _Resources, severity: int) -> None:
        for entry in chosen:
            try:
                ep = ExecutionProvider(entry.devices, resources.options, entry.options, severity)
            except OnnxRuntimeException as error:
                if not entry.devices[0].is_registered:
                    raise  # that is no plugin's failure
                if entry.error_on_failure is False:
                    _LOG.warning("%s runs without %s: %s", self.description, entry.ep_name, str(error))
                elif entry.error_on_failure or not self._goes_on_without(entry.ep_name, error):
                    raise
                continue
            environment.remember_session(self, ep.registration)
            assignment = Assignment(ep)
            resources.assignments.append(assignment)
            if any(key.startswith(COMPATIBILITY_PREFIX) for key in self._model.metadata.custom):
                self._check_compatibility(ep)
            assignment.budget = budget_of(ep, self._options._config.get(SETTINGS))
            if info := own_memory(ep):
                reserve = self._options._config.get(RESERVE_WEIGHTS) == "1"
                assignment.memory = DeviceMemory(ep, info, reserve=reserve)
        Partitioner(
            self._model,
            resources.constants,
            resources.assignments,
            logger=resources.logger,
            config=resources.config,
            offer_subgraphs=self._options._config.get(OFFER_SUBGRAPHS, "1") != "0",
            compiling=self._options._config.get(DISABLE_COMPILING) != "1",
            listen=self._options._config.get(LISTEN) == "1",
            unwanted=self._unwanted,
            weightless=self._options._config.get(WEIGHTLESS) == "1",
            incapable=self._goes_on_without,
        ).run()
        if self._options._config.get(DISABLE_PREPACKING) != "1":
            prepack(resources.assignments, self._container)
        for assignment in resources.assignments:
            _LOG.info(
                "%s claims %d of the nodes of %s in %d group(s) and %d kernel(s)",
                assignment.ep.name,
                len(assignment.nodes),
                self.description,
                len(assignment.groups),
                len(assignment.kernels),
            )

    def _goes_on_without(self, ep_name: str, error: OnnxRuntimeException) -> bool:
        """Warn that an EP failed before it had anything to run; False when that is to be raised instead."""
        if not self._tolerant:
            return False
        warn_of_fallback(
            f"{self.description} runs without {ep_name} (enable_fallback=0 would raise this): {error}"
        )
        return True

    def _check_compatibility(self, ep: ExecutionProvider) -> None:
        from ephost.model.context import FAIL_ON_SUBOPTIMAL, check_compatibility

        check_compatibility(
            ep,
            self._model.metadata.custom,
            strict=self._options._config.get(FAIL_ON_SUBOPTIMAL) == "1",
            description=self.description,
        )

    def _timed(self, stage: str) -> _Timer:
        if self._options._cancelled:
            raise ModelLoadCanceled(f"opening was cancelled before the stage '{stage}'")
        return _Timer(self._timings, stage)

    # ---- running ----

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Run the model once.

        Args:
            output_names: which outputs to compute, in which order; None or empty for all.
            input_feed: a value for each input: an array of the input's dtype (used in place when it is
                contiguous), a list, an OrtValue; a list for a sequence, a dict for a map, None for an empty
                optional.
            run_options: options of this run.

        Returns:
            For each output an array of its own (owned by the caller), a list, a dict, or None.

        Raises:
            ValueError: inputs are missing.
            InvalidArgument: an unknown name, or a value of the wrong type, rank or dimension.
            EPFail and the other errors of a plugin, naming the node. As long as :meth:`enable_fallback`
                holds, the first EPFail is a :class:`ephost.FallbackWarning` instead.
        """
        run = self._run
        try:
            if run_options is None:
                return run(output_names, input_feed, None)
            return run(output_names, run_options._fed(input_feed), run_options._address)
        except EPFail as error:
            if not self._fall_back(run, error):
                raise
            return self.run(output_names, input_feed, run_options)

    # ---- what it is ----

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that every run must feed."""
        return [_node_arg(v) for v in self._interface.inputs[: self._interface.required]]

    def get_outputs(self) -> list[NodeArg]:
        """The model's outputs."""
        return [_node_arg(v) for v in self._interface.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs that have a default."""
        return [_node_arg(v) for v in self._overridable]

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says of itself."""
        about: Metadata = self._model.metadata
        return ModelMetadata(
            about.producer_name,
            about.graph_name,
            about.domain,
            about.description,
            about.graph_description,
            about.version,
            dict(about.custom),
        )

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._options

    def get_providers(self) -> list[str]:
        """Its execution providers in order of priority; the host's fallback is the last."""
        return list(dict.fromkeys([*(a.ep.name for a in self._resources.assignments), DEFAULT_PROVIDER]))

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each of its execution providers."""
        found = {a.ep.name: dict(a.ep.options) for a in self._resources.assignments}
        return {**found, DEFAULT_PROVIDER: found.get(DEFAULT_PROVIDER, {})}

    def get_provider_graph_assignment_info(self) -> list[OrtEpAssignedSubgraph]:
        """Which execution provider runs which nodes of the model.

        Raises:
            Fail: ``session.record_ep_graph_assignment_info`` is not "1".
        """
        if self._options._config.get(RECORD_ASSIGNMENT) != "1":
            raise Fail(
                f"'{RECORD_ASSIGNMENT}' must be set to \"1\" to retrieve EP graph assignment information."
            )
        assert self._resources.plan is not None
        return [
            OrtEpAssignedSubgraph(
                step.ep_name or DEFAULT_PROVIDER,
                tuple(OrtEpAssignedNode(n.name, n.domain, n.op_type) for n in step.members),
            )
            for step in self._resources.plan.all_steps()
        ]

    # ---- ending ----

    def close(self) -> None:
        """Release what the session holds, now rather than with its last reference. No run may be under way.

        Raises:
            Fail: a run is under way.
        """
        if self._closed:
            return
        if not self._runner.close():
            raise Fail(f"the session of {self.description} is running: it cannot be closed")
        self._closed = True
        self._resources.close()
        environment.forget_session(self)

    def __repr__(self) -> str:
        return f"InferenceSession({self.description!r}, providers={self.get_providers()})"


class _Timer:
    def __init__(self, into: dict[str, float], stage: str) -> None:
        self._into, self._stage = into, stage

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._into[self._stage] = self._into.get(self._stage, 0.0) + time.perf_counter() - self._start


def _fallback_refused(left: Sequence[Node], nodes: Sequence[Node], assignments: Sequence[Assignment]) -> str:
    names = ", ".join(node.label for node in left[:20]) + (
        f" and {len(left) - 20} more" if len(left) > 20 else ""
    )
    eps = ", ".join(a.ep.name for a in assignments) or "no execution provider was given"
    return (
        f"{len(left)} of {len(nodes)} nodes are claimed by no execution provider ({eps}), and "
        f"{DISABLE_FALLBACK} forbids the fallback: {names}"
    )
