"""How a session opens: its options, its execution providers, and the stages that a model goes through.

Nothing in here knows a session: what has been opened is an :class:`Opened`, which sessions hold.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ephost import environment
from ephost._bindings import (
    NULL,
    address,
    call,
    lib,
    member,
    new_key_values,
)
from ephost.arguments import integer
from ephost.collector import RestingCollector
from ephost.config_keys import warn_of_session_keys
from ephost.config_values import check_affinities, check_values
from ephost.context_data import EMBED_MODE, READS, WRITES, hand_over
from ephost.enums import GraphOptimizationLevel
from ephost.ep_memory import DeviceMemory, own_memory
from ephost.errors import (
    Fail,
    InvalidArgument,
    ModelLoadCanceled,
    OnnxRuntimeException,
    PluginFault,
    warn_of_fallback,
)
from ephost.execution_provider import ExecutionProvider, native_session_options, option_prefix
from ephost.host_log import HostLog
from ephost.interface import Interface
from ephost.interrupts import Interrupts
from ephost.isolation.settings import ON_CRASH
from ephost.model.capture import check_copies, recorder
from ephost.model.check import check_types
from ephost.model.custom_ops import CustomOps, domains_of, operators_of
from ephost.model.fold import TAKES_TRANSPOSED, drop_unused_initializers, fill, simplify, unwanted
from ephost.model.graph import Metadata, Model, Node, Value, all_graphs
from ephost.model.infer import infer
from ephost.model.limits import SETTINGS, budget_of
from ephost.model.load import load, parse
from ephost.model.partition import (
    COMPATIBILITY_PREFIX,
    WEIGHTLESS,
    Assignment,
    Partitioner,
    forget_dropped,
    is_context,
)
from ephost.model.plan import make_plan
from ephost.model.planning.steps import Plan
from ephost.model.prepack import DISABLE_PREPACKING, PrepackedWeightsContainer, free_originals, prepack
from ephost.options import (
    CONFIG_FROM_MODEL,
    Chosen,
    SessionOptions,
    options_of_model,
    thread_count,
)
from ephost.progress import Progress
from ephost.providers import DEFAULT_PROVIDER
from ephost.records import Record, replaced
from ephost.resources import Resources
from ephost.selection import choose
from ephost.sparse import SparseTensor
from ephost.suggestions import did_you_mean

if TYPE_CHECKING:
    from ephost.model.context import ContextTarget
    from ephost.profiling import Profile

_LOG = HostLog("ephost.session")
_STAGES = 5  # load, infer, fold, partition; then plan, or write
DISABLE_FALLBACK = "session.disable_cpu_ep_fallback"
CONTEXT_ENABLE = "ep.context_enable"
DISABLE_COMPILING = "session.disable_model_compile"
EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"
RECORD_MESSAGES = (
    "ephost.record_refusals"  # "1": for explain, keep what EPs say of nodes that they do not claim
)
RESERVE_WEIGHTS = "session.use_device_allocator_for_initializers"
OFFER_SUBGRAPHS = "ephost.offer_subgraphs"  # "0": bodies of If, Loop and Scan are not offered to EPs


class Runner(Protocol):
    """A session's way into C; ``_call.pyi`` says more."""

    def close(self) -> bool:
        """End the runs; False while one is under way."""

    def run(self, output_names: Sequence[str] | None, feed: Any, options: Any, /) -> list[Any]:
        """Run once: arrays in, arrays out."""

    def bind(self, feed: dict[str, Any], outputs: list[tuple[str, Any]], /) -> Any:
        """What runs read and write, checked once."""

    def made(self, binding: Any, /) -> bool:
        """Whether this runner can run a binding."""

    def run_bound(self, binding: Any, options: int | None, /) -> list[int] | None:
        """Run a binding once: addresses of native values; None where all were written in place."""


class Opened(Record, frozen=True):
    """What is open of a session. A session that opens its model anew gets another one of these, and what the
    old one owned is freed with the last run that uses it.
    """

    description: str
    model: Model
    resources: Resources
    plan: Plan
    interface: Interface
    overridable: list[Value]  # the inputs that have a default
    runner: Runner
    run: Callable[..., list[Any]]  # arrays in, arrays out: the runner's, or what stands before it
    timings: dict[str, float]  # seconds of each stage, and of all of them ("total")
    profile: Profile | None


class Opening:
    """One opening of a model, by a session or by the compiler. It is used once."""

    def __init__(
        self,
        source: Any,
        options: SessionOptions,
        *,
        disabled_optimizers: Collection[str] = (),
        container: PrepackedWeightsContainer | None = None,
        tolerant: bool = False,
        default_only: bool = False,
    ) -> None:
        """Say what is to be opened.

        Args:
            source: the model's path, its bytes, or a ``ModelProto``.
            options: of the session.
            disabled_optimizers: optimizers, by onnxruntime's names, that are not wanted.
            container: where kernels' packed weights are shared with other sessions.
            tolerant: warn of a plugin that fails, and go on without it.
            default_only: open on the host's own provider, whatever the options choose.
        """
        self._source = source
        self._options = options
        self._disabled = disabled_optimizers
        self._container = container
        self._tolerant = tolerant
        self._default_only = default_only
        self._unwanted: Collection[str] | None = None  # optimizers; None: all of them
        self._leave_transposed = False  # see fold.TAKES_TRANSPOSED
        self._timings: dict[str, float] = {}
        named = isinstance(source, (str, os.PathLike))
        self.description = os.fspath(source) if named else "a model"  # until it is loaded
        self._progress: Progress | None = None
        self._interrupts = Interrupts()

    def open(self, providers: Any, provider_options: Any) -> Opened:
        """Go through all stages.

        Raises:
            What InferenceSession says; nothing is left of it then.
        """
        started = time.perf_counter()
        resources = Resources()
        try:
            with RestingCollector():
                fed, defaulted, threads = self._claim(providers, provider_options, resources, None)
                return self._prepare(fed, defaulted, threads, resources, started)
        except BaseException:
            resources.close()
            raise
        finally:
            environment.forget_session(self)
            self._interrupts.let_go()

    def compile(self, target: ContextTarget) -> None:
        """End when the nodes are claimed and compiled, and the outcome is written to the target.

        Raises:
            What InferenceSession says.
        """
        resources = Resources()
        try:
            with RestingCollector():
                self._claim(None, None, resources, target)
        finally:
            resources.close()
            environment.forget_session(self)
            self._interrupts.let_go()

    def close(self) -> None:
        """Nothing yet: what is being opened is closed by who opens it."""

    def _claim(
        self, providers: Any, provider_options: Any, resources: Resources, target: ContextTarget | None
    ) -> tuple[list[Value], list[Value], Any]:
        """All up to the point where each node has its EP; then a compiled model is written, where one is
        wanted. Returns the inputs that must be fed, those that have a default, and the threads.
        """
        options = self._options
        config = dict(options._config)
        with self._timed("load"):
            model = self._model = load(
                self._source,
                external_data_folder=config.get(EXTERNAL_FOLDER),
                free_dimensions=options._free_dimensions,
                free_denotations=options._free_denotations,
                initializers=options._initializers,
                files_in_memory=options._external_files,
                wanted_format=config.get("session.load_model_format", ""),
            )
            if options._must_replace:
                _check_replaced(options._must_replace, model)
        chosen: Sequence[Chosen] = ()
        if not self._default_only:
            chosen = choose(options, providers, provider_options, lambda: _metadata_texts(model.metadata))
        if default := self._default(chosen, config):
            chosen = [*chosen, default]
        chosen = [replaced(entry, options=_ep_options(entry, config)) for entry in chosen]
        warn_of_session_keys(config, map(option_prefix, environment.known_ep_names()))
        for entry in chosen:
            prefix = option_prefix(entry.ep_name)
            config.update({prefix + key: value for key, value in entry.options.items()})
            if entry.ep_name == DEFAULT_PROVIDER:  # Named by the user it is told the same.
                config.setdefault(prefix + "intra_op_num_threads", str(thread_count(options)))
        graph = resources.graph = model.graph
        resources.custom_ops = self._custom_ops(chosen)
        resources.custom_ops.attach_all(model)
        self.description = model.path or f"the model '{graph.name}' from memory"
        target = self._target(config, target)
        if target is not None:
            target.check()
        fed = [v for v in graph.inputs if v.initializer is None]
        defaulted = [v for v in graph.inputs if v.initializer is not None and not v.is_constant]
        if options.graph_optimization_level >= GraphOptimizationLevel.ORT_ENABLE_BASIC:
            self._unwanted = unwanted(config, self._disabled)
        with self._timed("infer"):
            if self._unwanted is not None and "ConstantFolding" not in self._unwanted:
                fill(model)
            infer(model)
            check_types(model.graph)
        with self._timed("fold"):
            if self._unwanted is not None:
                # Each EP may get each node: it is enough that one does not know how.
                flags = [device.ep_metadata.get(TAKES_TRANSPOSED) for c in chosen for device in c.devices]
                self._leave_transposed = bool(flags) and set(flags) == {"1"}
                simplify(model, self._unwanted, leave_transposed=self._leave_transposed)
            drop_unused_initializers(graph)
        if options.optimized_model_filepath:
            from ephost.model.save import save

            save(model, options.optimized_model_filepath, config)
        severity = options.log_severity_level
        severity = environment.default_logger_severity() if severity < 0 else severity
        self._interrupts.hold()
        resources.options = native_session_options(config)
        if options._context_reader is not None or options._context_writer is not None:
            resources.callbacks = (options._context_reader, options._context_writer)
            hand_over(resources.options, *resources.callbacks)
        resources.config = new_key_values(config)
        resources.logger = lib.ephost_logger_new(
            (options.logid or "session").encode("utf-8", "backslashreplace"), severity
        )
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
        forget_dropped(resources.assignments, resources.constants)
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
        found = [op for library in libraries for op in operators_of(library.domains)]
        first = {entry.devices[0]._factory: entry.devices[0] for entry in chosen}
        for factory, device in first.items():
            label = f"the execution provider {device.ep_name} ({device.registration_name})"
            registration = environment.registrations().get(device.registration_name)
            apart = None if registration is None else registration.library.operators_of(factory)
            if apart is None:
                found += operators_of(domains_of(factory, partial(member, "OrtEpFactory", factory), label))
            else:
                found += apart
        return CustomOps(found, libraries)

    def _target(self, config: Mapping[str, str], given: ContextTarget | None) -> ContextTarget | None:
        """Where the compiled model goes, if the session's options ask for one."""
        if config.get(CONTEXT_ENABLE) != "1":
            return None
        from ephost.model.context import target_of_options

        return given or target_of_options(config, self._model.path)

    def _prepare(
        self, fed: list[Value], defaulted: list[Value], threads: Any, resources: Resources, started: float
    ) -> Opened:
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
        model.seen.clear()
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
        interface = Interface(inputs, len(fed), graph.outputs, model.sparse_outputs)
        runner: Runner = call.Runner(
            address(plan.pointer),
            resources,
            interface.convert,
            interface.feed_error,
            interface.specifications(),
            tuple(interface.output_names),
        )
        self._timings["total"] = time.perf_counter() - started
        profile = None
        if self._options.enable_profiling:
            from ephost.profiling import Profile, ProfiledRunner

            profile = Profile(plan, [a.ep for a in resources.assignments], self._timings, self._options)
            resources.profilers.append(profile.ep_profilers)
            resources.profile = profile
            runner = ProfiledRunner(runner, profile)
        run: Callable[..., list[Any]] = runner.run
        if interface.sparse_outputs:
            run = partial(_run_sparsely, run, interface)
        return Opened(
            self.description,
            model,
            resources,
            plan,
            interface,
            defaulted,
            runner,
            run,
            self._timings,
            profile,
        )

    @staticmethod
    def _threads(options: SessionOptions) -> Any:
        if not options.use_per_session_threads:
            return environment.global_threads()
        count = thread_count(options)
        return lib.ephost_thread_pool_new(count) if count > 1 else NULL

    def _partition(self, chosen: Sequence[Chosen], resources: Resources, severity: int) -> None:
        for entry in chosen:
            try:
                ep = ExecutionProvider(entry.devices, resources.options, entry.options, severity)
            except OnnxRuntimeException as error:
                if not entry.devices[0].is_registered:
                    raise  # that is no plugin's failure
                if entry.error_on_failure is False:
                    _LOG.warning("%s runs without %s: %s", self.description, entry.ep_name, str(error))
                    continue
                # Another device would not make a wrong option right.
                is_raised = entry.error_on_failure or isinstance(error, InvalidArgument)
                if is_raised or not self._goes_on_without(entry.ep_name, error):
                    raise
                continue
            environment.remember_session(self, ep.registration)
            assignment = Assignment(ep)
            resources.assignments.append(assignment)
            if any(key.startswith(COMPATIBILITY_PREFIX) for key in self._model.metadata.custom):
                self._check_compatibility(ep)
            assignment.budget = budget_of(ep, self._options._config.get(SETTINGS))
            assignment.remote = ep.remote_memory
            if assignment.remote is None and (info := own_memory(ep)):
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
            record_messages=self._options._config.get(RECORD_MESSAGES) == "1",
            storing=self._options._config.get(CONTEXT_ENABLE) == "1",
            embedding=self._options._config.get(EMBED_MODE) == "1",
            context_callbacks=(
                (READS if self._options._context_reader is not None else 0)
                | (WRITES if self._options._context_writer is not None else 0)
            ),
            unwanted=self._unwanted,
            leave_transposed=self._leave_transposed,
            weightless=self._options._config.get(WEIGHTLESS) == "1",
            incapable=self._goes_on_without,
            telling=self._tell_ep,
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

    def _tell_ep(self, ep_name: str) -> None:
        self._interrupts.check()
        assert self._progress is not None
        self._progress.enter(self.description, "partition", ep_name)

    def _goes_on_without(self, ep_name: str, error: OnnxRuntimeException) -> bool:
        """Warn that an EP failed before it had anything to run; False when that is to be raised instead."""
        if not self._tolerant:
            return False
        if isinstance(error, PluginFault) and self._options._config.get(ON_CRASH) != "fallback":
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
        self._interrupts.check()
        if self._progress is None:
            self._progress = Progress(_STAGES, self._options._progress)
        self._progress.enter(self.description, stage)
        return _Timer(self._timings, stage)


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


def effective_options(source: Any, given: SessionOptions | None, from_model: Any = None) -> SessionOptions:
    """The options that a session opens with; the user is told which have no effect.

    Args:
        source: the model's path, its bytes, or a ``ModelProto``.
        given: what the user gave.
        from_model: 1: the model's own options are taken (:func:`ephost.options.options_of_model`). None: the
            environment says whether they are.

    Raises:
        TypeError: they are no options.
        InvalidArgument: an entry has a value that its key cannot have, or there is no such severity.
    """
    if given is not None and not isinstance(given, SessionOptions):
        raise TypeError(f"the options of a session are a SessionOptions, not {given!r}")
    options = given or SessionOptions()
    if int(os.environ.get(CONFIG_FROM_MODEL) == "1" if from_model is None else from_model) == 1:
        options = options_of_model(parse(source)[0], options)
    integer("SessionOptions.log_severity_level", options.log_severity_level, -1, 4)
    check_values(options._config)
    if options.use_per_session_threads:
        check_affinities(options._config, options.intra_op_num_threads, thread_count(options))
    options._explain()
    return options


def _check_replaced(names: Collection[str], model: Model) -> None:
    """Raise Fail for a name that is no initializer's."""
    known = [value.name for value in model.graph.values.values() if value.initializer is not None]
    for name in sorted(set(names).difference(known)):
        raise Fail(
            f"{model.path or 'the model from memory'} has no initializer '{name}', for which "
            f"add_external_initializers was given a value{did_you_mean(name, known)}"
        )


def _ep_options(entry: Chosen, config: Mapping[str, str]) -> dict[str, str]:
    """An EP's options: those of its devices, over them the session's entries for it, then what it was given
    by itself.
    """
    prefix = option_prefix(entry.ep_name)
    found = {key: value for device in entry.devices for key, value in device.ep_options.items()}
    found.update({k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)})
    found.update(entry.options)
    return found


def _run_sparsely(
    run: Callable[..., list[Any]], interface: Interface, names: Sequence[str] | None, *arguments: Any
) -> list[Any]:
    """Run, and take the outputs apart that the model declares sparse."""
    results = run(names, *arguments)
    return [
        SparseTensor._from_dense(name, result) if name in interface.sparse_outputs else result
        for name, result in zip(names or interface.output_names, results, strict=True)
    ]


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
