"""Stage 5: an ordered list of steps, with buffers, lifetimes and reuse decided, handed to C.

Values whose size is known when the session opens, and which a plugin's step writes and nobody outside the run
sees, get a place in the frame's arena: a block that is reused as soon as nobody reads the value in it any
more.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx

from ephost import errors
from ephost._bindings import NULL, abi_element_type, address, call, check, dtype_of, ffi, lib, packed
from ephost.errors import InvalidGraph
from ephost.model.graph import Graph, Model, Node, TensorType, Value, schema_of
from ephost.model.load import captured_values
from ephost.model.native_graph import Constants
from ephost.model.partition import Assignment

_ALIGNMENT = 64
COMPILED, KERNEL, PYTHON, COPY = range(4)


@dataclass(slots=True)
class Step:
    """One step as Python sees it: which nodes of the model it runs, and on whom."""

    node: Node
    members: list[Node]
    ep_name: str  # "" for the reference fallback


@dataclass(slots=True)
class Plan:
    """What was handed to C, and what explains it."""

    pointer: Any
    steps: list[Step]
    inputs: list[Value]
    outputs: list[Value]
    arena_bytes: int
    planned_bytes: int  # the sum of what shares the arena
    fallback: list[Node] = field(default_factory=list)
    bodies: list[Plan] = field(default_factory=list)  # of subgraphs of nodes on the fallback

    def all_steps(self) -> Iterator[Step]:
        """Its steps, then those of its bodies."""
        yield from self.steps
        for body in self.bodies:
            yield from body.all_steps()

    def release(self) -> None:
        """Free what C has of it."""
        if self.pointer:
            lib.ephost_plan_free(self.pointer)
            self.pointer = NULL
        for body in self.bodies:
            body.release()
        self.bodies.clear()


class Arena:
    """Offsets for blocks by first use and last use, best fit first."""

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []  # (offset, bytes), by offset

    def take(self, nbytes: int) -> int:
        """The offset of a block; ``nbytes`` is rounded up by the caller's :func:`round_up`."""
        best = -1
        for at, (_, size) in enumerate(self._free):
            if size >= nbytes and (best < 0 or size < self._free[best][1]):
                best = at
                if size == nbytes:
                    break
        if best >= 0:
            offset, size = self._free.pop(best)
            if size > nbytes:
                insort(self._free, (offset + nbytes, size - nbytes))
            return offset
        if self._free and sum(self._free[-1]) == self.size:  # grow the block at the end
            offset, _ = self._free.pop()
        else:
            offset = self.size
        self.size = offset + nbytes
        return offset

    def give(self, offset: int, nbytes: int) -> None:
        """Take a block back and join it with its neighbours."""
        at = 0
        while at < len(self._free) and self._free[at][0] < offset:
            at += 1
        if at < len(self._free) and offset + nbytes == self._free[at][0]:
            nbytes += self._free.pop(at)[1]
        if at > 0 and sum(self._free[at - 1]) == offset:
            start, size = self._free.pop(at - 1)
            offset, nbytes, at = start, size + nbytes, at - 1
        self._free.insert(at, (offset, nbytes))


def round_up(nbytes: int) -> int:
    """The size of the arena's block for so many bytes."""
    return max(_ALIGNMENT, (nbytes + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT)


def tensor_bytes(kind: Any) -> int | None:
    """Bytes of a tensor of known shape; None when the shape is not known, or there are no plain elements."""
    if not isinstance(kind, TensorType):
        return None
    dims = kind.static_dims
    dtype = dtype_of(kind.element_type)
    if dims is None or dtype is None:
        return None
    return math.prod(dims) * dtype.itemsize


def fallback_kernel(
    model: Model, node: Node, run_subgraph: Callable[..., list[Any]] | None = None
) -> Callable[[list[Any]], list[Any]]:
    """What runs a node on the reference operators: a function of its inputs, then of its captured values.

    ``run_subgraph`` runs its bodies when it has any; without it the reference operators do.

    Raises:
        InvalidGraph: ONNX has no such operator at the model's opset.
        NotImplemented: nobody implements the operator: no plugin claimed it, the fallback lacks it.
    """
    from ephost.reference import create_kernel
    from ephost.reference.errors import NodeError

    try:
        kernel = create_kernel(node.proto, model.opsets, model.functions, run_subgraph=run_subgraph)
    except NotImplementedError as error:
        if node.domain == "" and schema_of(node.op_type, "", model.opsets.get("", 1)) is None:
            raise InvalidGraph(
                f"node {node.label}: ONNX has no operator {node.op_type} at opset {model.opsets.get('', 1)}"
            ) from None
        raise errors.NotImplemented(
            f"no execution provider claims the node {node.label}, and the fallback cannot: {error}"
        ) from None
    except NodeError as error:
        raise InvalidGraph(str(error)) from error
    explicit = len(node.inputs)
    names = [value.name for value in node.implicit_inputs]
    if not names:
        return kernel

    def with_captured(inputs: list[Any]) -> list[Any]:
        return kernel(inputs[:explicit], dict(zip(names, inputs[explicit:], strict=True)))

    return with_captured


def make_plan(
    model: Model,
    assignments: Sequence[Assignment],
    constants: Constants,
    *,
    threads: Any,
    logger: Any,
    exclusive: bool,
    inputs: Sequence[Value],
    graph: Graph | None = None,
) -> Plan:
    """Decide the steps of a run and hand them to C.

    Args:
        model: after partitioning.
        assignments: what each EP runs, in order of priority.
        constants: the values of initializers.
        threads: ``ThreadPool*``, or NULL for none.
        logger: ``OrtLogger*`` that kernels get.
        exclusive: whether runs must not overlap.
        inputs: what a caller may feed, in order.
        graph: a subgraph, to be run as a part of the whole model's run; by default the model's graph.

    Raises:
        InvalidGraph, NotImplemented: a node that nobody can run.
    """
    is_body = graph is not None
    graph = graph or model.graph
    slots: dict[int, int] = {}
    values: list[Value] = []

    def slots_of(some: Iterable[Value | None]) -> list[int]:
        found = []
        for value in some:
            if value is None:
                found.append(-1)
                continue
            at = slots.get(id(value))
            if at is None:
                at = slots[id(value)] = len(values)
                values.append(value)
            found.append(at)
        return found

    input_slots = slots_of(inputs)
    steps = [_Step(node, slots_of(node.reads_all()), slots_of(node.outputs)) for node in graph.nodes]
    output_slots = slots_of(graph.outputs)
    last_use = _last_uses(steps, set(output_slots))
    pointer = lib.ephost_plan_new(len(values), threads, logger, exclusive)
    if not pointer:
        raise MemoryError("no memory for the plan")
    plan = Plan(pointer, [], list(inputs), list(graph.outputs), 0, 0)
    if is_body:
        lib.ephost_plan_set_body(pointer)

    def body_runner(node: Node) -> Callable[..., list[Any]] | None:
        if not any(_has_claims(body) for body in node.subgraphs.values()):
            return None
        runners = {}
        for name, body in node.subgraphs.items():
            fed = [*body.inputs, *(v for v in captured_values(body) if v.initializer is None)]
            made = make_plan(
                model,
                assignments,
                constants,
                threads=threads,
                logger=logger,
                exclusive=False,
                inputs=fed,
                graph=body,
            )
            plan.bodies.append(made)
            runners[name] = _BodyRunner(made)
        return lambda name, values, implicit: runners[name](values, implicit)

    try:
        _set_slots(plan, values, constants)
        runners = _Runners(plan, assignments)
        arena = Arena()
        kept = {*input_slots, *output_slots} | {i for i, v in enumerate(values) if v.initializer is not None}
        blocks: dict[int, tuple[int, int, int]] = {}
        sizes: dict[int, int | None] = {}  # of a type, by its id
        kernels: list[Any] = []  # each step's, for those on the fallback
        for at, step in enumerate(steps):
            runner = runners.of(step.node)
            if runner is None:
                plan.fallback.append(step.node)
                kernels.append(fallback_kernel(model, step.node, body_runner(step.node)))
            else:
                kernels.append(None)
                for index in step.outputs:
                    if index < 0 or index in kept or index in blocks:
                        continue
                    kind = values[index].type
                    if id(kind) not in sizes:
                        sizes[id(kind)] = tensor_bytes(kind)
                    nbytes = sizes[id(kind)]
                    if nbytes is not None:
                        size = round_up(nbytes)
                        blocks[index] = (index, arena.take(size), size)
                        plan.planned_bytes += size
            step.releases = [i for i in last_use.get(at, ()) if i not in kept]
            for index in step.releases:
                if index in blocks:
                    arena.give(*blocks[index][1:])
            members = runners.members.get(step.node.index) or [step.node]
            plan.steps.append(Step(step.node, members, step.node.ep_name))
        check(lib.ephost_plan_set_arena(pointer, list(blocks.values()), len(blocks)))
        _add_steps(plan, steps, runners, kernels)
        plan.arena_bytes = arena.size
        check(
            lib.ephost_plan_set_interface(
                pointer, input_slots, len(input_slots), output_slots, len(output_slots)
            )
        )
    except BaseException:
        plan.release()
        raise
    return plan


def _has_claims(graph: Graph) -> bool:
    return any(n.ep_name or any(_has_claims(body) for body in n.subgraphs.values()) for n in graph.nodes)


class _BodyRunner:
    """Runs a subgraph on a plan of its own, where an EP has claimed a part of it."""

    def __init__(self, plan: Plan) -> None:
        self._names = [value.name for value in plan.inputs]
        self._outputs = len(plan.outputs)
        # Values come from operators, not from users: what they are is what they are.
        inputs = tuple((name, 0, None, True) for name in self._names)
        outputs = tuple(f"{at}:{value.name}" for at, value in enumerate(plan.outputs))
        self._run = call.Runner(address(plan.pointer), None, _as_is, KeyError, inputs, outputs).run

    def __call__(self, values: Sequence[Any], implicit: Mapping[str, Any]) -> list[Any]:
        feed = dict(zip(self._names, values, strict=False))
        for name in self._names[len(values) :]:
            feed[name] = implicit[name]
        return list(self._run(None, feed, None))


def _as_is(_: int, value: Any) -> Any:
    return value


@dataclass(slots=True)
class _Step:
    node: Node
    inputs: list[int]
    outputs: list[int]
    releases: list[int] = field(default_factory=list)


def _add_steps(plan: Plan, steps: Sequence[_Step], runners: _Runners, kernels: Sequence[Any]) -> None:
    rows: list[tuple[Any, ...]] = []
    slots: list[int] = []
    names: list[str] = []
    for step, kernel in zip(steps, kernels, strict=True):
        kind, ep, target, state = runners.of(step.node) or (
            PYTHON,
            -1,
            ffi.cast("void*", call.object_address(kernel)),
            NULL,
        )
        rows.append((kind, ep, target, state, len(step.inputs), len(step.outputs), len(step.releases)))
        slots += step.inputs
        slots += step.outputs
        slots += step.releases
        members = runners.members.get(step.node.index) or (step.node,)
        names += (_listed([m.name or f"#{m.index}" for m in members]), _listed([m.op_type for m in members]))
    check(lib.ephost_plan_add_steps(plan.pointer, rows, len(rows), slots, packed(names)))


def _listed(names: Sequence[str]) -> str:
    """What errors call a step: the names of the model's nodes in it, as far as they are few."""
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def _last_uses(steps: Sequence[_Step], outputs: set[int]) -> Mapping[int, list[int]]:
    """Step -> slots that nobody needs after it."""
    last: dict[int, int] = {}
    for at, step in enumerate(steps):
        for index in (*step.inputs, *step.outputs):
            if index >= 0:
                last[index] = at
    uses: dict[int, list[int]] = {}
    for index, at in last.items():
        if index not in outputs:
            uses.setdefault(at, []).append(index)
    return uses


def _set_slots(plan: Plan, values: Sequence[Value], constants: Constants) -> None:
    rows: list[tuple[Any, ...]] = []
    by_type: dict[int, tuple[Any, ...]] = {}
    for value in values:
        row = by_type.get(id(value.type))
        if row is None:
            row = by_type[id(value.type)] = _slot_type(value.type)
        rows.append(row)
    check(lib.ephost_plan_set_slots(plan.pointer, rows))
    for index, value in enumerate(values):
        if value.initializer is not None:
            check(lib.ephost_plan_set_constant(plan.pointer, index, constants.share(value)))


def _slot_type(kind: TensorType | onnx.TypeProto | None) -> tuple[Any, ...]:
    if not isinstance(kind, TensorType):
        return (0, -1, NULL, NULL, NULL)
    dims = kind.static_dims
    element_type = abi_element_type(kind.element_type)
    if dims is None:
        return (element_type, -1, NULL, NULL, NULL)
    return (element_type, len(dims), ffi.new("int64_t[]", dims), NULL, NULL)


class _Runners:
    """For each node that an EP claimed: the kind of step, the EP's number in the plan, what runs it."""

    def __init__(self, plan: Plan, assignments: Sequence[Assignment]) -> None:
        self._by_node: dict[int, tuple[int, int, Any, Any]] = {}
        self.members: dict[int, list[Node]] = {}
        for number, assignment in enumerate(assignments):
            ep = assignment.ep
            check(lib.ephost_plan_add_ep(plan.pointer, ep.pointer, ep.name.encode(), NULL, NULL))
            for group in assignment.groups:
                self._by_node[group.fused.index] = (COMPILED, number, group.compute_info, group.state)
                self.members[group.fused.index] = group.nodes
            for kernel in assignment.kernels:
                self._by_node[kernel.node.index] = (KERNEL, number, kernel.implementation, NULL)

    def of(self, node: Node) -> tuple[int, int, Any, Any] | None:
        return self._by_node.get(node.index)
