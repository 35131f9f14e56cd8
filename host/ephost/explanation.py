"""What became of a model in a session: who runs which nodes, why the rest fell back, and what it costs.

:func:`explain` reads a session that is open. Nothing is recorded for it beforehand, so a session that nobody
asks about pays nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ephost._bindings import ffi, lib
from ephost.errors import Fail
from ephost.execution_provider import ExecutionProvider
from ephost.explained_graph import (
    ExplainedGraph,
    ExplainedNode,
    constant_bytes,
    explained_graphs,
    explained_node,
    value_type,
)
from ephost.messages import TensorProto
from ephost.model.graph import Model, Node, TensorType, Value, schema_of, tensor_bytes
from ephost.model.kernels import registry_rows
from ephost.model.partition import Assignment
from ephost.model.planning.steps import Copy, Plan, Step
from ephost.providers import DEFAULT_PROVIDER
from ephost.session import InferenceSession
from ephost.tables import Table, bytes_text, shorten, time_text

if TYPE_CHECKING:
    from ephost.opening import Opened

_NO_END = 2**31 - 1  # the last version of a kernel that names none


@dataclass(frozen=True)
class Flow:
    """A value that goes into a partition or comes out of it; ``bytes`` is None where its shape is unknown."""

    name: str
    type: str
    bytes: int | None


@dataclass(frozen=True)
class Partition:
    """Nodes that run one after the other on the same execution provider."""

    ep_name: str
    kind: str  # "compiled": fused into one, "kernels", or "fallback"
    nodes: tuple[ExplainedNode, ...]
    inputs: tuple[Flow, ...]  # what other partitions or the caller give; constants are not among them
    outputs: tuple[Flow, ...]  # what other partitions read or the caller gets
    constant_bytes: int  # of the initializers that its nodes read
    in_body: bool  # of an If, Loop or Scan on the fallback: runs as often as that says
    seconds: float | None = None  # that a run spends in it, mean of the profiled runs; None: there are none

    @property
    def op_counts(self) -> dict[str, int]:
        """Operator -> how many nodes, the most frequent first."""
        return dict(Counter(node.operator for node in self.nodes).most_common())

    @property
    def bytes_in(self) -> int | None:
        """Bytes that come in, or None when a size is not known before a run."""
        return _total(self.inputs)

    @property
    def bytes_out(self) -> int | None:
        """Bytes that go out, or None when a size is not known before a run."""
        return _total(self.outputs)


@dataclass(frozen=True)
class Refusal:
    """Why one execution provider does not run a node."""

    ep_name: str
    reason: str


@dataclass(frozen=True)
class FallbackNode:
    """A node that runs on the reference fallback, with the reason of each of the session's EPs."""

    node: ExplainedNode
    since_version: int
    input_types: tuple[str, ...]
    reasons: tuple[Refusal, ...]

    @property
    def element_types(self) -> tuple[str, ...]:
        """The input types without shapes, each once."""
        return tuple(dict.fromkeys(kind.partition("[")[0] for kind in self.input_types))


@dataclass(frozen=True)
class PassedOn:
    """Nodes of one operator that execution providers asked earlier left to the one that runs them."""

    operator: str
    ep_name: str  # of the one that runs them
    nodes: tuple[ExplainedNode, ...]
    why: str  # each EP with its reason; where that names the node, in the words for the first


@dataclass(frozen=True)
class RefusedClaim:
    """Nodes that an execution provider claimed together and did not get."""

    ep_name: str
    nodes: tuple[ExplainedNode, ...]
    reason: str


@dataclass(frozen=True)
class Provider:
    """One execution provider of the session."""

    ep_name: str
    library: str  # the name under which it is registered
    path: str
    devices: tuple[str, ...]
    options: dict[str, str]
    nodes: int
    groups: int
    kernels: int
    registered_kernels: int | None  # None: it has no kernel registry


@dataclass(frozen=True)
class StepTime:
    """Time that one step of the plan took, over all profiled runs; of a group, it names the first nodes."""

    ep_name: str
    name: str
    op_type: str
    nodes: int
    calls: int
    seconds: float


@dataclass(frozen=True)
class DeviceCopy:
    """Values that every run takes from one device's memory to another's in one step."""

    way: str  # such as "CPU to WebGpuExecutionProvider"
    values: tuple[str, ...]
    bytes: int | None  # None while a shape is not known


@dataclass(frozen=True)
class Explanation:
    """What became of a model. ``str()`` gives tables, :meth:`to_dict` what JSON can hold."""

    model: str
    providers: tuple[Provider, ...]
    partitions: tuple[Partition, ...]
    fallback: tuple[FallbackNode, ...]
    refused: tuple[RefusedClaim, ...]
    stages: dict[str, float]  # seconds of each stage of opening, and of all of them as "total"
    arena_bytes: int  # of the block that one run takes for values of known size
    planned_bytes: int  # what these values would take without sharing it
    copies: tuple[DeviceCopy, ...] = ()
    layout_transposes: int = 0  # left over from giving EPs channels last
    graphs: tuple[ExplainedGraph, ...] = ()  # the model's own first
    # Index of a node -> why the EPs that were asked before the one that took it did not.
    refusals: dict[int, tuple[Refusal, ...]] = field(default_factory=dict)
    profiled_runs: int = 0
    # Index -> a run's: of nodes that are steps, as the host measured them; of nodes in groups, as the
    # profiler of their EP told it.
    node_seconds: dict[int, float] = field(default_factory=dict)

    @property
    def node_count(self) -> int:
        """Nodes that a run executes, those in fused groups one by one."""
        return sum(len(partition.nodes) for partition in self.partitions)

    def to_dict(self) -> dict[str, Any]:
        """The same as dicts, lists, numbers and texts."""
        data = asdict(self)
        data["node_count"] = self.node_count
        for entry, partition in zip(data["partitions"], self.partitions, strict=True):
            entry["op_counts"] = partition.op_counts
            entry["bytes_in"], entry["bytes_out"] = partition.bytes_in, partition.bytes_out
        return data

    def to_html(self) -> str:
        """A page for a browser, in one file that fetches nothing: the graph by partition, and the tables."""
        from ephost.explanation_page import page_of

        return page_of(self).html()

    def _repr_html_(self) -> str:
        from ephost.notebooks import explanation_html

        return explanation_html(self)

    def passed_on(self) -> list[PassedOn]:
        """Nodes that an execution provider runs which was not the first to be asked: those of one operator,
        one taker and one reason together.
        """
        alike: dict[tuple[str, ...], list[tuple[ExplainedNode, str]]] = {}
        for partition in self.partitions:
            for node in partition.nodes if partition.kind != "fallback" else ():
                if reasons := self.refusals.get(node.index):
                    key = (node.operator, partition.ep_name, _without_name(node, _why(reasons)))
                    alike.setdefault(key, []).append((node, _why(reasons)))
        return [
            PassedOn(operator, taker, tuple(node for node, _ in found), found[0][1])
            for (operator, taker, _), found in alike.items()
        ]

    def tables(self, limit: int | None = None) -> list[Table]:
        """What ``str()`` prints and the command line shows.

        Args:
            limit: the most partitions, and rows of nodes that went to a later execution provider.
        """
        found = [self._summary(), self._partitions(limit)]
        if self.fallback:
            found.append(self._fallback())
        if passed_on := self.passed_on():
            found.append(self._passed_on(passed_on, limit))
        if self.refused:
            found.append(self._refused())
        if self.copies:
            found.append(self._copies())
        stages = Table("Opening", ("stage", "time"), right=frozenset({"time"}))
        stages.rows.extend((stage, time_text(seconds)) for stage, seconds in self.stages.items())
        return [*found, stages]

    def _copies(self) -> Table:
        table = Table("Copies between devices", ("way", "values", "bytes"), right=frozenset({"bytes"}))
        for copy in self.copies:
            size = "?" if copy.bytes is None else bytes_text(copy.bytes)
            table.rows.append((copy.way, shorten(list(copy.values), 3), size))
        return table

    def __str__(self) -> str:
        return "\n\n".join([self.headline(), *(table.plain() for table in self.tables())])

    def headline(self) -> str:
        """One sentence: how many nodes, on whom, and the memory of a run."""
        count = self.node_count
        per_ep = Counter({p.ep_name: 0 for p in self.providers})
        for partition in self.partitions:
            per_ep[partition.ep_name if partition.kind != "fallback" else "the fallback"] += len(
                partition.nodes
            )
        shares = ", ".join(f"{number} on {name}" for name, number in per_ep.items())
        text = (
            f"{self.model}: {count} node{'s'[: count != 1]} in {len(self.partitions)} "
            f"partition{'s'[: len(self.partitions) != 1]} ({shares})"
        )
        if self.layout_transposes:
            text += f"; {self.layout_transposes} transposes are left of the change of layout"
        if not self.planned_bytes:
            return text
        arena, values = bytes_text(self.arena_bytes), bytes_text(self.planned_bytes)
        return f"{text}; a run plans {arena} for values of {values}"

    def _summary(self) -> Table:
        table = Table(
            "Execution providers",
            ("EP", "library", "devices", "options", "nodes", "groups", "kernels", "registered"),
            right=frozenset({"nodes", "groups", "kernels", "registered"}),
        )
        for p in self.providers:
            options = ", ".join(f"{key}={value}" for key, value in p.options.items())
            registered = "-" if p.registered_kernels is None else str(p.registered_kernels)
            counts = (str(p.nodes), str(p.groups), str(p.kernels), registered)
            table.rows.append((p.ep_name, p.library, ", ".join(p.devices), options or "-", *counts))
        left = str(len(self.fallback))
        table.rows.append((DEFAULT_PROVIDER, "(the reference fallback)", "CPU", "-", left, "-", "-", "-"))
        return table

    def _partitions(self, limit: int | None) -> Table:
        timed = ("a run",) if self.profiled_runs else ()
        numbers = ("#", "nodes", "in", "bytes in", "out", "bytes out", "weights", *timed)
        title = "Partitions, in the order of execution"
        if limit is not None and limit < len(self.partitions):
            title += f" (the first {limit} of {len(self.partitions)})"
        table = Table(
            title, ("#", "EP", "kind", "nodes", "operators", *numbers[2:]), right=frozenset(numbers)
        )
        for at, p in enumerate(self.partitions[:limit]):
            if p.kind == "fallback":
                table.marked.add(at)
            operators = [f"{name} {count}" if count > 1 else name for name, count in p.op_counts.items()]
            table.rows.append(
                (
                    str(at),
                    p.ep_name if p.kind != "fallback" else "(fallback)",
                    f"{p.kind}, in a body" if p.in_body else p.kind,
                    str(len(p.nodes)),
                    shorten(operators, 4),
                    str(len(p.inputs)),
                    _flow_text(p.inputs),
                    str(len(p.outputs)),
                    _flow_text(p.outputs),
                    bytes_text(p.constant_bytes),
                    *(["-" if p.seconds is None else time_text(p.seconds)] if self.profiled_runs else []),
                )
            )
        return table

    def _fallback(self) -> Table:
        table = Table(
            f"Left to the fallback: {len(self.fallback)} of {self.node_count} nodes",
            ("operator", "count", "nodes", "input types", "why"),
            right=frozenset({"count"}),
        )
        alike: dict[tuple[Any, ...], list[FallbackNode]] = {}
        for entry in self.fallback:
            why = _without_name(entry.node, _why(entry.reasons))
            key = (entry.node.operator, entry.since_version, entry.element_types, why)
            alike.setdefault(key, []).append(entry)
        for (operator, version, types, _), entries in alike.items():
            labels = shorten([_end(entry.node.label) for entry in entries], 2)
            why = _why(entries[0].reasons) or "the session was given no execution provider"
            table.rows.append((f"{operator}-{version}", str(len(entries)), labels, shorten(types, 4), why))
        return table

    def _passed_on(self, passed_on: Sequence[PassedOn], limit: int | None) -> Table:
        count = sum(len(each.nodes) for each in passed_on)
        title = f"Left to later execution providers: {count} of {self.node_count} nodes"
        if limit is not None and limit < len(passed_on):
            title += f" (the first {limit} of {len(passed_on)} rows)"
        table = Table(title, ("operator", "count", "nodes", "taken by", "why"), right=frozenset({"count"}))
        for each in passed_on[:limit]:
            labels = shorten([_end(node.label) for node in each.nodes], 2)
            table.rows.append((each.operator, str(len(each.nodes)), labels, each.ep_name, each.why))
        return table

    def _refused(self) -> Table:
        table = Table("Claims that were refused", ("EP", "nodes", "why"))
        for claim in self.refused:
            nodes = shorten([_end(node.label) for node in claim.nodes], 4)
            table.rows.append((claim.ep_name, nodes, claim.reason))
        return table


def explain(session: InferenceSession) -> Explanation:
    """Say what became of the model of a session.

    Args:
        session: an open session.

    Returns:
        Its partitions, what fell back and why, the time of each stage of opening, and the memory of a run.

    Raises:
        Fail: the session is closed.
        TypeError: it is no session.
    """
    if not isinstance(session, InferenceSession):
        raise TypeError(f"explain takes a session, as InferenceSession(model) opens one, not {type(session)}")
    opened = session._opened
    if opened.resources.closed:
        raise Fail(f"the session of {session.description} is closed: there is nothing left to explain")
    plan, assignments = opened.plan, opened.resources.assignments
    runs, times = _measured(plan)
    partitions, places = _all_partitions(plan, times, runs)
    kernels = {a.ep: _registered_kernels(a.ep) for a in assignments}
    left = [step.node for step in plan.all_steps() if not step.ep_name]
    asked = [_Asked(assignment) for assignment in assignments]
    return Explanation(
        model=session.description,
        providers=tuple(_provider(a, kernels[a.ep]) for a in assignments),
        partitions=partitions,
        fallback=tuple(_fallback_node(opened.model, node, asked, kernels) for node in left),
        refused=tuple(
            RefusedClaim(a.ep.name, tuple(map(explained_node, nodes)), reason)
            for a in assignments
            for nodes, reason in a.refused
        ),
        stages=dict(opened.timings),
        arena_bytes=sum(each.arena_bytes for each in _plans(plan)),
        planned_bytes=sum(each.planned_bytes for each in _plans(plan)),
        copies=tuple(_copy(copy) for each in _plans(plan) for copy in each.copies),
        layout_transposes=sum(
            node.from_layout and node.op_type == "Transpose"
            for step in plan.all_steps()
            for node in step.members
        ),
        graphs=tuple(explained_graphs(plan, places)),
        refusals={
            node.index: _refusals(opened.model, node, asked[:at], kernels)
            for at, assignment in enumerate(assignments)
            if at
            for node in assignment.nodes
        },
        profiled_runs=runs,
        node_seconds=_node_seconds(opened, runs, times),
    )


def _node_seconds(opened: Opened, runs: int, times: dict[int, float]) -> dict[int, float]:
    """What a run spends in single nodes, by their index, as far as anybody has measured it."""
    from ephost.profiling import KernelTimes

    told: Counter[tuple[str, str]] = Counter()
    for profilers in opened.resources.profilers:
        if runs and isinstance(profilers, KernelTimes):
            told += profilers.collected()
    made = {}
    for step in opened.plan.all_steps():
        names = Counter(node.name for node in step.members)
        for node in step.members:
            if len(step.members) == 1 and step.node.index in times:
                made[node.index] = times[step.node.index] / runs
            elif node.name and names[node.name] == 1 and (step.ep_name, node.name) in told:
                made[node.index] = told[step.ep_name, node.name] / runs
    return made


def _copy(copy: Copy) -> DeviceCopy:
    sizes = [tensor_bytes(value.type) for value in copy.values]
    known = [size for size in sizes if size is not None]
    names = tuple(value.name for value in copy.values)
    return DeviceCopy(copy.way, names, sum(known) if len(known) == len(sizes) else None)


def start_profile(session: InferenceSession, groups: bool = True) -> None:
    """From now on, measure every step of every run of the session.

    :func:`step_times` tells the times of the model's own steps, :func:`explain` those of partitions and
    nodes, the bodies of control flow included. What is inside of a group is for its EP's profiler to tell, if
    it has one.

    Args:
        session: an open session.
        groups: start those profilers, too; they end with the first :func:`explain`.
    """
    from ephost.profiling import KernelTimes

    opened = session._opened
    if (
        groups and not opened.resources.profilers
    ):  # of an earlier call, or of a profile that is written to a file
        eps = [assignment.ep for assignment in opened.resources.assignments]
        opened.resources.profilers.append(KernelTimes(eps, opened.plan))
    for plan in _plans(opened.plan):
        lib.ephost_plan_profile(plan.pointer, True)


def _measured(plan: Plan) -> tuple[int, dict[int, float]]:
    """How many runs were profiled, and the seconds of all of them in each step, by its node's index."""
    runs, times = 0, Counter[int]()
    for each in _plans(plan):
        calls = Counter[int]()
        for number, nanoseconds in _records(each):
            calls[number] += 1
            step = each.order[number]
            if isinstance(step, Step):
                times[step.node.index] += nanoseconds
        if each is plan:
            runs = max(calls.values(), default=0)
    return runs, {index: nanoseconds / 1e9 for index, nanoseconds in times.items()} if runs else {}


def _records(plan: Plan) -> list[tuple[int, int]]:
    """What a plan has recorded of its steps: number, and nanoseconds."""
    count = lib.ephost_plan_times(plan.pointer, ffi.NULL, 0)
    records = ffi.new("EphostStepTime[]", max(count, 1))
    count = min(count, lib.ephost_plan_times(plan.pointer, records, count))
    return [(int(records[at].step), int(records[at].duration_ns)) for at in range(count)]


def step_times(session: InferenceSession) -> list[StepTime]:
    """The time of each step of the session's profiled runs, the longest first."""
    plan = session._opened.plan
    if session._resources.closed:
        raise Fail(f"the session of {session.description} is closed: its profile is gone")
    calls, total = Counter[int](), Counter[int]()
    for number, nanoseconds in _records(plan):
        calls[number] += 1
        total[number] += nanoseconds
    found = []
    for number, nanoseconds in total.most_common():
        step = plan.order[number]
        if isinstance(step, Copy):
            found.append(StepTime("", step.way, "copy", 0, calls[number], nanoseconds / 1e9))
            continue
        found.append(
            StepTime(
                ep_name=step.ep_name or DEFAULT_PROVIDER,
                name=shorten([explained_node(node).label for node in step.members], 1),
                op_type=shorten(list(dict.fromkeys(node.op_type for node in step.members)), 4),
                nodes=len(step.members),
                calls=calls[number],
                seconds=nanoseconds / 1e9,
            )
        )
    return found


# ---- partitions ----


def _total(flows: Iterable[Flow]) -> int | None:
    sizes = [flow.bytes for flow in flows]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _why(reasons: Iterable[Refusal]) -> str:
    return "; ".join(f"{refusal.ep_name}: {refusal.reason}" for refusal in reasons)


def _without_name(node: ExplainedNode, why: str) -> str:
    """What is the same for all nodes that are left for one reason, where a plugin's words name each."""
    return why.replace(f"'{node.name}'", "''") if node.name else why


def _end(label: str) -> str:
    """The end of a long label, which tells more than its beginning."""
    return label if len(label) <= 36 else "..." + label[-33:]


def _flow_text(flows: Sequence[Flow]) -> str:
    """The bytes of values: at least so many when some shapes are not known, "?" when none is."""
    known = [flow.bytes for flow in flows if flow.bytes is not None]
    if len(known) == len(flows):
        return bytes_text(sum(known))
    return f">= {bytes_text(sum(known))}" if known else "?"


def _kind(step: Step) -> str:
    if not step.ep_name:
        return "fallback"
    return "kernels" if step.members == [step.node] else "compiled"


def _runs(steps: Sequence[Step]) -> Iterator[tuple[str, list[Step]]]:
    """Steps that belong together: a fused group, or the kernels of one EP or fallback nodes in a row."""
    current: list[Step] = []
    for step in steps:
        kind = _kind(step)
        if current and (
            kind == "compiled" or (kind, step.ep_name) != (_kind(current[0]), current[0].ep_name)
        ):
            yield _kind(current[0]), current
            current = []
        current.append(step)
    if current:
        yield _kind(current[0]), current


def _plans(plan: Plan) -> Iterator[Plan]:
    yield plan
    for body in plan.bodies:
        yield from _plans(body)


def _all_partitions(
    plan: Plan, times: Mapping[int, float], runs: int
) -> tuple[tuple[Partition, ...], dict[int, range]]:
    """The partitions of a plan and of its bodies, and which of them are whose, by the plan's ``id``."""
    found: list[Partition] = []
    places = {}
    for each in _plans(plan):
        first = len(found)
        for kind, members in _runs(each.steps):
            found.append(_partition(kind, members, each is not plan, times, runs))
        places[id(each)] = range(first, len(found))
    return tuple(found), places


def _partition(
    kind: str, members: Sequence[Step], in_body: bool, times: Mapping[int, float], runs: int
) -> Partition:
    inside = {step.node.index for step in members}
    inputs: dict[int, Value] = {}
    outputs: dict[int, Value] = {}
    constants: dict[int, Value] = {}
    for step in members:
        for value in step.node.reads():
            if value.producer is None or value.producer.index not in inside:
                (constants if value.is_constant else inputs).setdefault(id(value), value)
        # A fused node that drops its constants does not read them: its members do.
        for member in step.members:
            constants.update((id(value), value) for value in member.reads() if value.is_constant)
        for made in step.node.outputs:
            if made is not None and (made.is_output or any(c.index not in inside for c in made.consumers)):
                outputs.setdefault(id(made), made)
    measured = [times[step.node.index] for step in members if step.node.index in times]
    return Partition(
        ep_name=members[0].ep_name or DEFAULT_PROVIDER,
        kind=kind,
        nodes=tuple(explained_node(node) for step in members for node in step.members),
        inputs=tuple(map(_flow, inputs.values())),
        outputs=tuple(map(_flow, outputs.values())),
        constant_bytes=sum(constant_bytes(value) or 0 for value in constants.values()),
        in_body=in_body,
        seconds=sum(measured) / runs if measured else None,
    )


def _flow(value: Value) -> Flow:
    return Flow(value.name, value_type(value), tensor_bytes(value.type))


def _provider(assignment: Assignment, kernels: Sequence[_Kernel] | None) -> Provider:
    ep = assignment.ep
    return Provider(
        ep_name=ep.name,
        library=ep.registration.name,
        path=ep.registration.path,
        devices=tuple(f"{d.device.type.name} {d.device.vendor}".rstrip() for d in ep.devices),
        options=dict(ep.options),
        nodes=len(assignment.nodes),
        groups=len(assignment.groups),
        kernels=len(assignment.kernels),
        registered_kernels=None if kernels is None else len(kernels),
    )


# ---- why a node fell back ----


@dataclass(frozen=True, slots=True)
class _Kernel:
    """What a kernel of a registry is for."""

    op_type: str
    domain: str
    first: int
    last: int
    types: dict[str, frozenset[int]]  # type parameter or formal name -> TensorProto.DataType

    def covers(self, version: int) -> bool:
        """Whether it is for a node of this version; one without an end is for its first version alone."""
        return self.first == version or (self.last != _NO_END and self.first < version <= self.last)

    @property
    def versions(self) -> str:
        if self.last in (_NO_END, self.first):
            return str(self.first)
        return f"{self.first} to {self.last}"


def _registered_kernels(ep: ExecutionProvider) -> list[_Kernel] | None:
    """The kernels of an EP's registry, or None when it has no registry."""
    if ep.elsewhere is not None:
        rows = ep.elsewhere.kernels
    else:
        registry = ep.kernel_registry()
        rows = registry_rows(registry) if registry else None
    if rows is None:
        return None
    return [
        _Kernel(op_type, domain, first, last, {name: frozenset(some) for name, some in types.items()})
        for op_type, domain, first, last, types in rows
    ]


def _compiles(ep: ExecutionProvider) -> bool:
    """Whether it may take nodes that its registry has nothing for."""
    return ep.member("Compile") is not None if ep.elsewhere is None else ep.elsewhere.compiles


class _Asked:
    """What an EP did when it was shown the model, by node: each node is looked up, not searched for."""

    def __init__(self, assignment: Assignment) -> None:
        self.ep = assignment.ep
        self.compiles = _compiles(assignment.ep)
        self._messages = assignment.messages
        self._refused: dict[int, str] = {}
        for nodes, reason in assignment.refused:
            for claimed in nodes:
                self._refused.setdefault(claimed.index, reason)
        # Names stand between quotes; every second quote may be an apostrophe, so all pieces count.
        self._said: dict[str, str] = {}
        for message in assignment.messages:
            self._said.update((piece, message) for piece in message.split("'")[1:-1])

    def refused(self, node: Node) -> str | None:
        """Why it did not get the node, which it claimed; None: it did not claim it."""
        return self._refused.get(node.index)

    def said(self, node: Node) -> str:
        """What it told its logger last that names the node."""
        for name in (node.name, *(v.name for v in node.outputs if v is not None)):
            if "'" in name:
                quoted = f"'{name}'"
                found = next((m for m in reversed(self._messages) if quoted in m), None)
            else:
                found = self._said.get(name) if name else None
            if found is not None:
                return f"; it says: {found}"
        return ""


def _fallback_node(
    model: Model,
    node: Node,
    asked: Sequence[_Asked],
    kernels: dict[ExecutionProvider, list[_Kernel] | None],
) -> FallbackNode:
    return FallbackNode(
        explained_node(node),
        node.since_version,
        tuple("-" if v is None else value_type(v) for v in node.inputs),
        _refusals(model, node, asked, kernels),
    )


def _refusals(
    model: Model,
    node: Node,
    asked: Sequence[_Asked],
    kernels: dict[ExecutionProvider, list[_Kernel] | None],
) -> tuple[Refusal, ...]:
    return tuple(Refusal(a.ep.name, _reason(model, node, a, kernels[a.ep])) for a in asked)


def _reason(model: Model, node: Node, asked: _Asked, kernels: list[_Kernel] | None) -> str:
    if (refused := asked.refused(node)) is not None:
        return f"it claimed the node, which was refused: {refused}"
    # What an EP compiles it may claim whatever its registry says; the registry decides where that is all
    # there is.
    if not kernels or asked.compiles:
        return "it did not claim the node" + asked.said(node)
    mine = [k for k in kernels if k.op_type == node.op_type and k.domain == node.domain]
    if not mine:
        return f"its registry has no kernel for {node.op_type}"
    fitting = [k for k in mine if k.covers(node.since_version)]
    if not fitting:
        versions = ", ".join(dict.fromkeys(k.versions for k in sorted(mine, key=lambda k: k.first)))
        return f"its kernels for {node.op_type} are for version {versions}, not {node.since_version}"
    actual = _type_parameters(model, node)
    misfits = [
        (name, types)
        for kernel in fitting
        for name, types in kernel.types.items()
        if name in actual and actual[name] not in types
    ]
    if misfits and not any(_fits(kernel, actual) for kernel in fitting):
        name = misfits[0][0]
        taken = sorted({_element(t) for other, types in misfits if other == name for t in types})
        return (
            f"its kernels for {node.op_type} version {node.since_version} take {name} = {', '.join(taken)}, "
            f"not {_element(actual[name])}"
        )
    return f"it has a kernel for {node.op_type}, but did not claim the node"


def _fits(kernel: _Kernel, actual: dict[str, int]) -> bool:
    return all(name not in actual or actual[name] in types for name, types in kernel.types.items())


def _element(element_type: int) -> str:
    return str(TensorProto.DataType.Name(element_type)).lower()


def _type_parameters(model: Model, node: Node) -> dict[str, int]:
    """Type parameter and formal name -> element type that the node has there; what is first decides."""
    schema = schema_of(node.op_type, node.domain, model.opsets.get(node.domain, 1))
    if schema is None:
        return {}
    found: dict[str, int] = {}
    for formals, values in ((schema.inputs, node.inputs), (schema.outputs, node.outputs)):
        for at, value in enumerate(values):
            if not formals or value is None or not isinstance(value.type, TensorType):
                continue
            formal = formals[min(at, len(formals) - 1)]
            found.setdefault(formal.type_str, value.type.element_type)
            found.setdefault(formal.name, value.type.element_type)
    return found
