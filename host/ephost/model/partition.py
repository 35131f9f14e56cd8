"""Stage 4: each EP, in order of priority, claims nodes of what is left; groups are fused and compiled.

What comes back is the same graph with claimed groups as single nodes, and for each claimed node what runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain, groupby, islice
from typing import Any

from ephost._bindings import NULL, api, check, ffi, guarded, lib
from ephost.context_data import READS, WRITES
from ephost.device_memory import Transport
from ephost.ep_memory import DeviceMemory
from ephost.errors import (
    EPFail,
    Fail,
    ModelRequiresCompilation,
    NotImplemented,
    OnnxRuntimeException,
    naming,
)
from ephost.execution_provider import ExecutionProvider
from ephost.host_log import DEBUG, WARNING, HostLog
from ephost.messages import NodeProto
from ephost.model.fold import drop_unused_initializers, simplify
from ephost.model.graph import Graph, Model, Node, Value, all_graphs, is_of_numbers
from ephost.model.groups import Fusing, group_interface, group_order
from ephost.model.infer import infer_again
from ephost.model.inline import Call, inline_calls, restore
from ephost.model.kernels import Kernel, KernelMaker, Registered
from ephost.model.layout import LayoutConverter, prefers_nhwc, wants_converted
from ephost.model.limits import Budget
from ephost.model.native_graph import (
    CONTEXT_DEFAULTS,
    CONTEXT_DOMAIN,
    CONTEXT_OP_TYPE,
    Constants,
    NativeGraph,
    read_node,
)
from ephost.providers import DEFAULT_PROVIDER
from ephost.records import Record, made_by

try:
    from _blake2 import blake2b  # hashlib would load OpenSSL
except ImportError:
    from hashlib import blake2b

_LOG = HostLog("ephost.partition")
# In an EP device's metadata, "1": the EP reads large constants from the model's own file when it is shown
# where they lie. Any plugin may say so; see docs/write-your-own-ep.md.
READS_FILES = "reads_model_files"
WEIGHTLESS = "ep.enable_weightless"  # a session's entry, "1": weights stay out of what is compiled
_ASKED_FOR_WEIGHTLESS = 30  # the API version from which on EPs are asked whether they can
COMPATIBILITY_PREFIX = "ep_compatibility_info."  # of the keys of a compiled model's metadata


class Group(Record):
    """Nodes that an EP compiles into one."""

    nodes: list[Node]
    inputs: list[Value]
    outputs: list[Value]
    fused: Node
    compute_info: Any = NULL
    state: Any = NULL
    has_state: bool = False  # CreateState succeeded; the state itself may be NULL
    context: NodeProto | None = None  # what a compiled model has in its place


class Assignment(Record):
    """What one EP got of a graph, and what it was refused."""

    ep: ExecutionProvider
    budget: Budget | None = None  # of its device's memory; None: no limit
    memory: DeviceMemory | None = None  # of the EP's own device; None: the CPU's
    # Of an isolated EP's own device, in its worker: groups take and give tensors of the CPU's as well.
    remote: Transport | None = None
    groups: list[Group] = made_by(default_factory=list)
    kernels: list[Kernel] = made_by(default_factory=list)
    refused: list[tuple[list[Node], str]] = made_by(default_factory=list)
    messages: list[str] = made_by(default_factory=list)  # that it logged while it chose nodes
    graphs: list[NativeGraph] = made_by(default_factory=list)  # kernels hold on to their nodes

    @property
    def nodes(self) -> list[Node]:
        """The nodes of the model that it runs."""
        return [n for group in self.groups for n in group.nodes] + [k.node for k in self.kernels]

    def release(self) -> None:
        """Release states, kernels and compute infos, in the order that the ABI asks for."""
        for group in self.groups:
            if group.has_state:
                guarded("OrtNodeComputeInfo_ReleaseState")(group.compute_info, group.state)
                group.has_state = False
        for kernel in reversed(self.kernels):
            kernel.release()
        self.kernels.clear()
        infos = [group.compute_info for group in self.groups if group.compute_info]
        release = self.ep.member("ReleaseNodeComputeInfos")
        if infos and release is not None:
            release(self.ep.pointer, ffi.new("OrtNodeComputeInfo*[]", infos), len(infos))
        self.groups.clear()
        for graph in self.graphs:
            graph.release()
        self.graphs.clear()
        if self.memory is not None:
            self.memory.release()
            self.memory = None


class _Shown(Record):
    """The model as the last EP that was asked saw it, which is among its assignment's graphs."""

    native: NativeGraph
    registry: Any  # the EP's kernels
    is_kept: bool = False  # kernels were made of it, so that it has to stay
    is_stale: bool = False  # something was claimed since: whose nodes those are it does not say


class Partitioner:
    """Asks EPs one after the other and rewrites the graph by what they claim.

    The assignments are the owners of what is made, also when something raises.
    """

    def __init__(
        self,
        model: Model,
        constants: Constants,
        assignments: Sequence[Assignment],
        *,
        logger: Any,
        config: Any,
        compiling: bool = True,
        storing: bool = False,
        embedding: bool = False,
        context_callbacks: int = 0,
        offer_subgraphs: bool = True,
        record_messages: bool = False,
        unwanted: Collection[str] | None = (),
        leave_transposed: bool = False,
        weightless: bool = False,
        incapable: Callable[[str, OnnxRuntimeException], bool] | None = None,
        telling: Callable[[str], None] | None = None,
    ) -> None:
        self.model = model
        self.constants = constants
        self.assignments = assignments
        self.logger = logger
        self.config = config
        self.compiling = compiling  # False: only what is compiled already may go to an EP's Compile
        self.storing = storing  # what is compiled goes into a model: each group needs its EPContext node
        self.embedding = embedding  # it goes into the model itself
        self.context_callbacks = context_callbacks  # READS and WRITES: the application's, for EPContext data
        self.offer_subgraphs = offer_subgraphs  # bodies of control flow; False: those run on the host
        self.record_messages = record_messages  # of EPs, while they choose nodes
        self.unwanted = unwanted  # optimizers, for the bodies of functions; None: all of them
        self.leave_transposed = leave_transposed  # there too, see fold.TAKES_TRANSPOSED
        self.weightless = weightless  # EPs are to leave weights out of what they compile
        # Gets an EP that fails to choose nodes, with its error: whether to go on without it. None: no.
        self.incapable = incapable
        self.telling = telling  # gets the name of each EP before that is offered the model
        self._incapable: set[str] = set()
        self._shown: _Shown | None = None
        self._counter = 0
        self._hash = _model_hash(model)

    def run(self) -> None:
        """Let every EP claim what it wants, then what the bodies of unclaimed functions hold.

        Raises:
            EPFail: an EP claims a node twice, gives too little, or fails.
        """
        if not self.assignments:
            return
        *others, last = self.assignments
        if last.ep.name == DEFAULT_PROVIDER:
            # It takes most operators, calls of functions too: others see first what these hold.
            if others:
                self._share_out(others, _is_hosts)
            self._share_out([last], _is_hosts_or_a_librarys)
        else:
            self._share_out(self.assignments, _is_hosts)

    def _share_out(self, assignments: Sequence[Assignment], is_hosts: Callable[[Node], bool]) -> None:
        """Let these claim what they want of what nobody has, and not the host, in order, then in bodies of
        functions.
        """
        graph = self.model.graph
        for part in all_graphs(graph):
            for node in part.nodes:
                node.left_to_host = is_hosts(node)
        for assignment in assignments:
            self._offer(assignment, graph)
        calls: list[Call] = []
        depths: dict[int, int] = {}
        while replaced := inline_calls(self.model, graph, depths):
            calls.extend(replaced)
            # As in onnxruntime, what nobody wanted in the first round is the host's: only the bodies are on
            # offer, and what nobody could judge, since a type was not known that follows from them.
            offered = {node.index for call in replaced for node in call.body}
            for part in all_graphs(graph):
                for node in part.nodes:
                    is_offered = (node.index in offered or not _is_typed(node)) and not is_hosts(node)
                    node.left_to_host = not node.ep_name and not is_offered
            infer_again(self.model)
            if self.unwanted is not None:
                simplify(self.model, self.unwanted, leave_transposed=self.leave_transposed)
            for assignment in assignments:
                self._offer(assignment, graph)
        restore(reversed(calls))

    def _offer(self, assignment: Assignment, graph: Graph) -> None:
        if self.telling is not None:
            self.telling(assignment.ep.name)
        self._ask_all(assignment, graph)
        self._forget_shown(assignment)

    def _ask_all(self, assignment: Assignment, graph: Graph) -> None:
        """Subgraphs first, innermost first: their nodes are claimed before the node that they belong to."""
        for node in list(graph.nodes) if self.offer_subgraphs else ():
            if node.subgraphs and not node.ep_name:
                for name in sorted(node.subgraphs):
                    self._ask_all(assignment, node.subgraphs[name])
        if assignment.ep.name in self._incapable:
            return
        if any(not node.ep_name and not node.left_to_host for node in graph.nodes):
            self._assign(assignment, graph)

    def _leave_out(self, ep: ExecutionProvider, error: OnnxRuntimeException) -> bool:
        """Ask an EP nothing more that failed to choose nodes; False when that is to be raised instead."""
        if self.incapable is None or not self.incapable(ep.name, error):
            return False
        self._incapable.add(ep.name)
        return True

    def _assign(self, assignment: Assignment, graph: Graph) -> None:
        ep = assignment.ep
        # A hundred bodies are seen in one graph, and the EP is asked once for its registry: a graph for each
        # would be as many times the model. What was claimed in one body is nothing to the next, but an EP may
        # look for it in the bodies of this graph.
        if self._shown is not None and self._shown.is_stale and any(node.subgraphs for node in graph.nodes):
            self._forget_shown(assignment)
        shown = self._shown
        if shown is None:
            try:
                registry = ep.kernel_registry()
            except OnnxRuntimeException as error:
                if not self._leave_out(ep, error):
                    raise
                return
            shown = self._show(assignment, registry)
        claims = self.ask(assignment, shown.native, graph, shown.registry)
        if not claims:
            assignment.refused.extend(ep.refused_elsewhere(graph.nodes))
            return
        converted: list[Node] = []
        if prefers_nhwc(ep):
            claimed = [n for nodes, _, _ in claims for n in nodes if not n.ep_name and not n.left_to_host]
            converted = self._convert(ep, graph, claimed)
        if converted:
            self._forget_shown(assignment)
            shown = self._show(assignment, shown.registry)
            claims = self.ask(assignment, shown.native, graph, shown.registry)
        kernels = len(assignment.kernels)
        singles, candidates = self.sort_claims(assignment, claims)
        assignment.refused.extend(ep.refused_elsewhere(graph.nodes))
        fusing = Fusing(graph)
        groups = [g for nodes, drops in candidates if (g := self._fuse(assignment, fusing, nodes, drops))]
        fusing.settle()
        if groups:
            self._compile(assignment, shown.native, graph, groups)
        self.create_kernels(assignment, shown.native, shown.registry, singles)
        has_kernels = len(assignment.kernels) > kernels
        shown.is_kept = shown.is_kept or has_kernels
        shown.is_stale = shown.is_stale or has_kernels or bool(groups)
        if converted:
            self._forget_shown(assignment)
            LayoutConverter(self.model, graph).convert_back([n for n in graph.nodes if not n.ep_name])

    def _show(self, assignment: Assignment, registry: Any) -> _Shown:
        self._shown = _Shown(self._shown_to(assignment), registry)
        return self._shown

    def _shown_to(self, assignment: Assignment) -> NativeGraph:
        """The model's graph as an EP sees it, which is among its assignment's."""
        ep = assignment.ep
        reads_files = any(device.ep_metadata.get(READS_FILES) == "1" for device in ep.devices)
        # What goes to another process is read at once.
        reads_files = reads_files or ep.shared_pool is not None
        native = NativeGraph(self.model, self.model.graph, self.constants, reads_files=reads_files)
        assignment.graphs.append(native)
        return native

    def _forget_shown(self, assignment: Assignment) -> None:
        if self._shown is not None:
            if not self._shown.is_kept:
                _release(assignment, self._shown.native)
            self._shown = None

    def _convert(self, ep: ExecutionProvider, graph: Graph, claimed: Sequence[Node]) -> list[Node]:
        """Make what the EP has claimed channels last where it wants that; returns the nodes that are."""
        converter = LayoutConverter(self.model, graph)
        converted = converter.convert(claimed, lambda node: wants_converted(ep, node))
        if converted:
            drop_unused_initializers(graph)
        return converted

    def ask(
        self, assignment: Assignment, native: NativeGraph, graph: Graph, registry: Any
    ) -> list[tuple[list[Node], bool, bool]]:
        """(nodes, is single, drops constants) of each claim."""
        ep = assignment.ep
        pointer, _ = native.graphs[id(graph)]
        info = lib.ephost_support_info_new(pointer, ep.pointer, registry)
        if not info:
            raise MemoryError("no memory for the claims of an EP")
        try:
            with ep.recorded_messages(assignment.messages) if self.record_messages else nullcontext():
                try:
                    ep.call("GetCapability", pointer, info)
                except OnnxRuntimeException as error:
                    if not self._leave_out(ep, error):
                        raise
                    return []
            count = lib.ephost_support_info_claim_count(info)
            if not count:
                return []
            claims = ffi.new("EphostClaim[]", count)
            ids = ffi.new("size_t[]", lib.ephost_support_info_node_count(info))
            lib.ephost_support_info_read(info, claims, ids)
            nodes = iter([native.nodes[i] for i in ids])
            return [(list(islice(nodes, c.node_count)), c.single, c.drops_constants) for c in claims]
        finally:
            lib.ephost_support_info_free(info)

    def sort_claims(
        self, assignment: Assignment, claims: list[tuple[list[Node], bool, bool]]
    ) -> tuple[list[Node], list[tuple[list[Node], bool]]]:
        """The single nodes that the EP gets of its claims, and the groups, each with whether it drops its
        constants; what it is refused goes to the assignment.

        Raises:
            EPFail: claims that no EP may make.
        """
        taken: set[int] = set()
        singles: list[Node] = []
        groups: list[tuple[list[Node], bool]] = []
        ep_name = assignment.ep.name
        for nodes, single, drops in claims:
            if single and len(nodes) == 1 and assignment.budget is None:
                (node,) = nodes  # mostly there is nothing to say against it
                if not (node.index in taken or node.ep_name or node.left_to_host or _untyped(node.outputs)):
                    taken.add(node.index)
                    singles.append(node)
                    continue
            owned: list[Node] = []
            for node in nodes:
                if node.index in taken:
                    raise EPFail(f"{assignment.ep.label} claims the node {node.label} twice")
                taken.add(node.index)
                if node.ep_name or node.left_to_host:
                    owned.append(node)
            if len(owned) == len(nodes) and all(node.ep_name == ep_name for node in nodes):
                continue  # it has them since it was asked before
            if owned:
                owner = owned[0].ep_name or "the host, since nobody claimed it when it was first on offer"
                reason = f"{owned[0].label} belongs to {owner}"
                assignment.refused.append((nodes, reason))
                level = WARNING if owned[0].ep_name else DEBUG
                _LOG.log(
                    level,
                    "a claim of %s on %d node(s) is ignored: %s",
                    assignment.ep.name,
                    len(nodes),
                    reason,
                )
            elif single and (reason := _untyped(chain.from_iterable(node.outputs for node in nodes))):
                assignment.refused.append((nodes, reason))
            elif assignment.budget is not None and not assignment.budget.take(nodes):
                assignment.refused.append((nodes, "it is beyond the memory that the EP may plan for"))
                _LOG.info(
                    "a claim of %s on %d node(s) is ignored: its %d bytes are spent",
                    assignment.ep.name,
                    len(nodes),
                    assignment.budget.limit,
                )
            elif single:
                singles.extend(nodes)
            else:
                groups.append((nodes, drops))
        foreign = [n for n in singles if n.custom is None or n.custom.ep_name != assignment.ep.name]
        if foreign and assignment.ep.member("GetKernelRegistry") is None:
            raise EPFail(
                f"{assignment.ep.label} claims the single node {foreign[0].label}, but has no kernel registry"
            )
        if groups and assignment.ep.member("Compile") is None:
            raise EPFail(
                f"{assignment.ep.label} claims the group of {groups[0][0][0].label} to fuse, but has no "
                "Compile"
            )
        return singles, groups

    def _fuse(self, assignment: Assignment, fusing: Fusing, nodes: list[Node], drops: bool) -> Group | None:
        if (path := fusing.cycle_through(nodes)) is not None:
            way = " -> ".join(node.label for node in path)
            reason = f"fused, its nodes would depend on themselves: {way}"
            assignment.refused.append((nodes, reason))
            _LOG.warning("a claim of %s on %d node(s) is ignored: %s", assignment.ep.name, len(nodes), reason)
            return None
        ordered = group_order(nodes)
        inputs, outputs = group_interface(ordered, drops)
        if reason := _untyped(outputs):
            assignment.refused.append((nodes, reason))
            return None
        ep_name = assignment.ep.name
        name = f"{ep_name}_{self._hash}_{self._counter}"
        fused = Node(
            index=self.model.new_index(),
            message=NodeProto(op_type=name, domain=ep_name),
            op_type=name,
            domain=ep_name,
            name=f"{ep_name}_{name}_{len(assignment.groups)}",
            since_version=1,
            inputs=list(inputs),
            outputs=list(outputs),
            ep_name=ep_name,
        )
        self._counter += 1
        fusing.replace(nodes, fused)
        group = Group(ordered, inputs, outputs, fused)
        assignment.groups.append(group)
        return group

    def _check_context_data(self, ep: ExecutionProvider, groups: Sequence[Group]) -> None:
        """Hold that an EP calls what the application wants to be called with the data of EPContext nodes.

        Raises:
            Fail: it would read or write a file in spite of that.
        """
        nodes = [node for group in groups for node in group.nodes]
        wanted = {
            "read": READS * any(is_context(node) and not embeds_data(node) for node in nodes),
            "write": WRITES * (self.storing and not self.embedding),
        }
        for kind, bit in wanted.items():
            if bit & self.context_callbacks and not bit & ep.calls_for_context_data():
                raise Fail(f"{ep.label} does not call the {kind} callback for EPContext data that was set")

    def _compile(
        self, assignment: Assignment, native: NativeGraph, graph: Graph, groups: list[Group]
    ) -> None:
        ep = assignment.ep
        # The rest, which the CPU plugin runs, is compiled by nobody in onnxruntime.
        if not self.compiling and ep.name != DEFAULT_PROVIDER:
            for group in groups:
                if wanting := [node for node in group.nodes if not is_context(node)]:
                    raise ModelRequiresCompilation(
                        f"{ep.label} would have to compile the node {wanting[0].label}"
                        + (f" and {len(group.nodes) - 1} more" if len(group.nodes) > 1 else "")
                        + ", which session.disable_model_compile forbids"
                    )
        if self.weightless:
            check_weightless(ep)
        if self.context_callbacks:
            self._check_context_data(ep, groups)
        compile_groups(ep, self.model, native, graph, groups, self.constants, storing=self.storing)

    def create_kernels(
        self, assignment: Assignment, native: NativeGraph, registry: Any, nodes: Sequence[Node]
    ) -> None:
        """Make what runs single nodes that an EP claimed.

        Raises:
            EPFail: its registry has no kernel for one. Or its own error.
        """
        ep, memory = assignment.ep, assignment.memory
        allocator = NULL if memory is None else memory.allocator
        maker = KernelMaker(ep.label, ep.pointer, self.logger, self.config, allocator)

        def constants(node: Node, definition: Any) -> Sequence[Any]:
            for value in node.inputs:
                if value is not None and value.is_constant:
                    break
            else:
                return ()
            return [self._constant(assignment, definition, i, v) for i, v in enumerate(node.inputs)]

        # As in onnxruntime, an operator that the plugin brings for its EP comes before the EP's registry.
        for is_own, each in groupby(nodes, lambda n: n.custom is not None and n.custom.ep_name == ep.name):
            some = list(each)
            pointers = [native.pointer_of(node) for node in some]
            if is_own:
                for node, pointer in zip(some, pointers, strict=True):
                    maker.make_custom(node, pointer, partial(constants, node), assignment.kernels)
                    node.ep_name = ep.name
                continue
            found = Registered(registry, pointers, ep.encoded_name)
            maker.make_all(some[: found.count], pointers, found, constants, assignment.kernels)
            for node in some[: found.count]:
                node.ep_name = ep.name
            if found.count < len(some):
                node = some[found.count]
                kinds = [str(v.type) if v else None for v in node.inputs]
                raise EPFail(
                    f"{ep.label} claims the node {node.label}, but its kernel registry has no kernel for it "
                    f"(version {node.since_version}, inputs {kinds})"
                )

    def _constant(self, assignment: Assignment, definition: Any, index: int, value: Value | None) -> Any:
        """What a kernel gets as a constant input: on the EP's device, unless it wants it on the CPU."""
        if value is None or not _is_constant(value):
            return NULL
        on_cpu = lib.ephost_def_input_mem_type(definition, index) < 0 or not is_of_numbers(value)
        if assignment.memory is None or on_cpu:
            return self.constants.get(value)
        return assignment.memory.upload(value, self.constants.get(value, in_file=True))


def _release(assignment: Assignment, native: NativeGraph) -> None:
    assignment.graphs.remove(native)
    native.release()


def _is_hosts(node: Node) -> bool:
    return node.is_hosts


def _is_hosts_or_a_librarys(node: Node) -> bool:
    """Where the host's own plugin is asked, which has what it knows by ONNX's names."""
    return node.is_hosts or (node.custom is not None and node.custom.is_hosts)


def _is_typed(node: Node) -> bool:
    """Whether something is known of the types of all that it reads and makes."""
    return all(value is None or value.type is not None for value in (*node.inputs, *node.outputs))


def _is_constant(value: Value | None) -> bool:
    return value is not None and value.is_constant and value.initializer is not None


def compile_groups(
    ep: ExecutionProvider,
    model: Model,
    native: NativeGraph,
    graph: Graph,
    groups: Sequence[Group],
    constants: Constants,
    *,
    storing: bool = False,
) -> None:
    """Have an EP compile groups of a graph that it has been shown, and make their states.

    What it makes is in the groups, also when something raises.

    Args:
        ep: who claimed them.
        model: what the graph belongs to.
        native: the graph as the EP was shown it.
        graph: the same, of which the groups are.
        groups: with their fused nodes.
        constants: the values of initializers.
        storing: each group needs an EPContext node.

    Raises:
        EPFail: it gives too little. Or its own error.
    """
    # The fused nodes are shown in a graph of their own, with the values that go in and out.
    interface = {v.name: v for g in groups for v in (*g.inputs, *g.outputs)}
    fused_graph = NativeGraph(
        model, Graph(graph.name, [g.fused for g in groups], [], [], interface), constants
    )
    count = len(groups)
    infos = ffi.new("OrtNodeComputeInfo*[]", count)
    context_nodes = ffi.new("OrtNode*[]", count)
    try:
        views = [native.view(graph, g.fused.op_type, g.nodes, g.inputs, g.outputs) for g in groups]
        fused = [fused_graph.pointer_of(group.fused) for group in groups]
        try:
            ep.call("Compile", views, fused, count, infos, context_nodes)
        finally:
            for at, group in enumerate(groups):
                group.compute_info = infos[at]
        for at, group in enumerate(groups):
            if context_nodes[at]:
                group.context = read_context(ep.label, group, context_nodes[at])
        for group in groups:
            if storing and group.context is None and not all(map(is_context, group.nodes)):
                raise Fail(
                    f"{ep.label} gave no EPContext node from Compile for the group of "
                    f"{group.nodes[0].label} ({len(group.nodes)} nodes): what it compiles cannot be "
                    "stored"
                )
            if not group.compute_info:
                raise EPFail(
                    f"{ep.label} gave no compute info for the group of {group.nodes[0].label} "
                    f"({len(group.nodes)} nodes) from Compile"
                )
            for name in ("CreateState", "Compute", "ReleaseState"):
                if not getattr(group.compute_info, name):
                    raise EPFail(
                        f"{ep.label} gave a compute info without {name} for the group of "
                        f"{group.nodes[0].label}"
                    )
    finally:
        for node in context_nodes:
            if node:
                api.ReleaseNode(node)
        native.release_views()
        fused_graph.release()
    for group in groups:
        create_state(ep, group)


def create_state(ep: ExecutionProvider, group: Group) -> None:
    """Have a compiled group make what its runs need."""
    context = lib.ephost_compute_context_new(group.fused.name.encode("utf-8", "surrogateescape"))
    if not context:
        raise MemoryError("no memory for a compute context")
    state = ffi.new("void**")
    where = f"the group of {group.nodes[0].label} ({len(group.nodes)} nodes)"
    try:
        with naming(lambda: f"{ep.label} failed in CreateState for {where}"):
            check(guarded("OrtNodeComputeInfo_CreateState")(group.compute_info, context, state))
    finally:
        lib.ephost_compute_context_free(context)
    group.state, group.has_state = state[0], True


def forget_dropped(assignments: Sequence[Assignment], constants: Constants) -> None:
    """Free the data of constants that compiled groups have copied and nobody else reads.

    Args:
        assignments: the groups of a model that is partitioned, and written where a compiled one was wanted.
        constants: where the data's native values are.
    """
    if any(assignment.graphs for assignment in assignments):
        return  # kernels may look constants up in their graphs
    for assignment in assignments:
        for group in assignment.groups:
            constants.drop_unread(group.nodes)


def check_weightless(ep: ExecutionProvider) -> None:
    """Hold that an EP can leave weights out of what it compiles, which only those of version 30 can be asked.

    Raises:
        NotImplemented: it has no function that says so.
        EPFail: it says that it cannot.
    """
    version = int(ep.pointer.ort_version_supported)
    if version < _ASKED_FOR_WEIGHTLESS:
        _LOG.info("%s (version %d) cannot be asked whether it compiles without weights", ep.label, version)
        return
    wanted = f"{WEIGHTLESS} is set, but {ep.label}"
    if ep.member("GetWeightlessSupport") is None:
        raise NotImplemented(f"{wanted} does not implement GetWeightlessSupport, and so cannot say if it can")
    out = ffi.new("OrtWeightlessSupport*")
    ep.call("GetWeightlessSupport", out)
    if out[0] == lib.OrtWeightlessSupport_NONE:
        raise EPFail(f"{wanted} does not compile without weights on this device")


def is_context(node: Node) -> bool:
    """Whether the node holds what a plugin has compiled before."""
    return node.op_type == CONTEXT_OP_TYPE and node.domain == CONTEXT_DOMAIN


def embeds_data(node: Node) -> bool:
    """Whether an EPContext node has what was compiled in itself, and not beside the model."""
    return next((a.i for a in node.proto.attribute if a.name == "embed_mode"), 1) == 1


def group_values(group: Group) -> list[Value]:
    """The values from outside of a group that its nodes read, with the constants that the EP dropped."""
    own = {id(v) for node in group.nodes for v in node.outputs if v is not None}
    return list({v.name: v for node in group.nodes for v in node.reads() if id(v) not in own}.values())


def read_context(label: str, group: Group, pointer: Any) -> NodeProto:
    """The EPContext node that an EP gave for a group, complete, once it is known to fit in the group's place.

    Raises:
        EPFail: it is another operator, reads what the group does not, or makes other outputs.
    """
    proto = read_node(pointer)
    where = f"{label} gave for the group of {group.nodes[0].label} from Compile"
    if (proto.op_type, proto.domain) != (CONTEXT_OP_TYPE, CONTEXT_DOMAIN):
        raise EPFail(f"{where} a node of {proto.domain or 'ai.onnx'}.{proto.op_type}, not an EPContext node")
    known = {"", *(v.name for v in group_values(group))}
    if foreign := [name for name in proto.input if name not in known]:
        raise EPFail(f"{where} an EPContext node that reads '{foreign[0]}', which the group does not")
    wanted = [v.name for v in group.outputs]
    if sorted(proto.output) != sorted(wanted):
        raise EPFail(f"{where} an EPContext node with the outputs {list(proto.output)}, not {wanted}")
    given = {attribute.name for attribute in proto.attribute}
    proto.attribute.extend(default for default in CONTEXT_DEFAULTS if default.name not in given)
    return proto


def _model_hash(model: Model) -> int:
    """A number that tells models apart: of the path, or of the graph's inputs, outputs and first and last
    nodes.
    """
    digest = blake2b(digest_size=8)
    graph = model.graph
    texts = [model.path or "", graph.name]
    texts += [value.name for value in (*graph.inputs, *graph.outputs)]
    texts += [node.op_type for node in graph.nodes]
    digest.update("".join(texts).encode("utf-8", "surrogateescape"))
    return int.from_bytes(digest.digest(), "little")


def _untyped(made: Iterable[Value | None]) -> str:
    """Why nobody may claim what makes these values: a kernel that asks for an output could get no memory."""
    for value in made:
        if value is not None and value.type is None:
            return f"the type of its output '{value.name}' is not known"
    return ""
