"""Stage 5: an ordered list of steps, with buffers, lifetimes and reuse decided, handed to C.

Values whose size is known when the session opens, and which a plugin's step writes and nobody outside the run
sees, get a place in the frame's arena: a block that is reused as soon as nobody reads the value in it any
more.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx

from ephost import errors
from ephost._bindings import NULL, abi_element_type, address, call, check, ffi, lib, packed
from ephost.device_memory import DeviceMemory
from ephost.errors import InvalidGraph
from ephost.model.graph import Graph, Model, Node, TensorType, Value, schema_of, tensor_bytes
from ephost.model.kernels import Kernel
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
    ep_name: str  # "" for the host


@dataclass(slots=True)
class Copy:
    """A step that takes values from one device to another."""

    way: str  # such as "CPU to WebGpuExecutionProvider"
    values: list[Value]


@dataclass(slots=True)
class Plan:
    """What was handed to C, and what explains it."""

    pointer: Any
    order: list[Step | Copy]  # as C runs them
    inputs: list[Value]
    outputs: list[Value]
    arena_bytes: int
    planned_bytes: int  # the sum of what shares the arena
    fallback: list[Node] = field(default_factory=list)
    bodies: list[Plan] = field(default_factory=list)  # of subgraphs of nodes on the fallback
    # Of each input and output where an EP has it in memory of its own; None: nowhere.
    input_memories: list[DeviceMemory | None] = field(default_factory=list)
    output_memories: list[DeviceMemory | None] = field(default_factory=list)

    @property
    def steps(self) -> list[Step]:
        """The steps that run nodes."""
        return [step for step in self.order if isinstance(step, Step)]

    @property
    def copies(self) -> list[Copy]:
        """The steps that take values from one device to another."""
        return [step for step in self.order if isinstance(step, Copy)]

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
    host_kernels: Sequence[Kernel] = (),
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
        host_kernels: what runs the custom operators that are the host's.
        graph: a subgraph, to be run as a part of the whole model's run; by default the model's graph.

    Raises:
        InvalidGraph, NotImplemented: a node that nobody can run.
    """
    is_body = graph is not None
    graph = graph or model.graph
    runners = _Runners(assignments, host_kernels)
    layout = _Layout(runners)
    input_slots = [layout.start(value) for value in inputs]
    for node in graph.nodes:
        layout.add(node)
    output_slots = layout.finish(graph.outputs)
    device_inputs = [layout.on_device(value) for value in inputs]
    device_outputs = [layout.made_on_device(value) for value in graph.outputs]
    steps, values = layout.steps, layout.values
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
        bodies = {}
        for name, body in node.subgraphs.items():
            captured = captured_values(body)
            fed = [*body.inputs, *(v for v in captured if v.initializer is None or not v.is_constant)]
            made = make_plan(
                model,
                assignments,
                constants,
                threads=threads,
                logger=logger,
                exclusive=False,
                inputs=fed,
                host_kernels=host_kernels,
                graph=body,
            )
            plan.bodies.append(made)
            bodies[name] = _BodyRunner(made)
        return lambda name, values, implicit: bodies[name](values, implicit)

    try:
        runners.add_eps(plan)
        _set_slots(plan, values, constants, runners)
        arena = Arena()
        kept = {*input_slots, *output_slots} | {
            i for i, (value, _) in enumerate(values) if value.initializer is not None
        }
        # What a caller may see or have given is not written over.
        lent = {*kept, *device_inputs, *device_outputs}
        blocks: dict[int, tuple[int, int, int]] = {}
        handed_on: set[int] = set()  # slots whose block is another one's from some step on
        sizes: dict[int, int | None] = {}  # of a type, by its id
        kernels: list[Any] = []  # each step's, for those on the fallback
        for at, step in enumerate(steps):
            if step.runner is None:
                assert step.node is not None
                plan.fallback.append(step.node)
                kernels.append(fallback_kernel(model, step.node, body_runner(step.node)))
            else:
                kernels.append(None)
                if pairs := step.runner.reuses:
                    step.reuses = _reused(step, pairs, last_use.get(at, ()), lent, values)
                for position, index in enumerate(step.outputs):
                    if index < 0 or index in kept or index in blocks or values[index][1]:
                        continue
                    kind = values[index][0].type
                    if id(kind) not in sizes:
                        sizes[id(kind)] = tensor_bytes(kind)
                    nbytes = sizes[id(kind)]
                    source = step.reuses[position] if step.reuses else -1
                    if source in blocks and nbytes == tensor_bytes(values[source][0].type):
                        blocks[index] = (index, *blocks[source][1:])
                        handed_on.add(source)
                    elif nbytes is not None:
                        size = round_up(nbytes)
                        blocks[index] = (index, arena.take(size), size)
                        plan.planned_bytes += size
            step.releases = [i for i in last_use.get(at, ()) if i not in kept]
            for index in step.releases:
                if index in blocks and index not in handed_on:
                    arena.give(*blocks[index][1:])
            if step.node is not None:
                members = runners.members.get(step.node.index) or [step.node]
                plan.order.append(Step(step.node, members, step.node.ep_name))
            else:
                plan.order.append(Copy(step.copy, [values[i][0] for i in step.inputs]))
        check(lib.ephost_plan_set_arena(pointer, list(blocks.values()), len(blocks)))
        _add_steps(plan, steps, runners, kernels)
        plan.arena_bytes = arena.size
        plan.input_memories = [_memory_of(values, runners, slot) for slot in device_inputs]
        plan.output_memories = [_memory_of(values, runners, slot) for slot in device_outputs]
        check(
            lib.ephost_plan_set_interface(
                pointer,
                input_slots,
                device_inputs,
                len(input_slots),
                output_slots,
                device_outputs,
                len(output_slots),
            )
        )
    except BaseException:
        plan.release()
        raise
    return plan


def _has_claims(graph: Graph) -> bool:
    """Whether there is a node in it that the reference operators cannot run, or should not."""
    return any(
        n.ep_name or n.custom is not None or any(_has_claims(body) for body in n.subgraphs.values())
        for n in graph.nodes
    )


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
class _Runner:
    """What runs a claimed node. Memory 0 is the CPU's, memory k that of EP k - 1 of the plan."""

    kind: int
    ep: int
    target: Any
    state: Any
    memory: int
    definition: Any = NULL  # a kernel's, which says what of a node stays on the CPU
    missing: Container[int] = ()  # inputs that a kernel has packed, and whose original is gone
    reuses: Sequence[tuple[int, int]] = ()  # inputs and outputs that a kernel allows to share memory

    def input_memory(self, index: int) -> int:
        if self.memory and self.definition and lib.ephost_def_input_mem_type(self.definition, index) < 0:
            return 0
        return self.memory

    def output_memory(self, index: int) -> int:
        if self.memory and self.definition and lib.ephost_def_output_mem_type(self.definition, index) < 0:
            return 0
        return self.memory


@dataclass(slots=True)
class _Step:
    node: Node | None  # None: a copy
    runner: _Runner | None  # None: the fallback
    inputs: list[int]
    outputs: list[int]
    releases: list[int] = field(default_factory=list)
    reuses: list[int] = field(default_factory=list)  # for each output a slot, or -1; empty: none
    copy: str = ""  # a copy's direction, for people


class _Layout:
    """Which value is where, and the steps of a run with the copies between devices."""

    def __init__(self, runners: _Runners) -> None:
        self._runners = runners
        self._slots: dict[tuple[int, int], int] = {}
        self._home: dict[int, int] = {}  # id of a value -> the memory in which it is made
        self.values: list[tuple[Value, int]] = []
        self.steps: list[_Step] = []

    def slot(self, value: Value, memory: int) -> int:
        key = (id(value), memory)
        at = self._slots.get(key)
        if at is None:
            at = self._slots[key] = len(self.values)
            self.values.append((value, memory))
        return at

    def start(self, value: Value) -> int:
        """The slot of a value that is there when a run begins, on the CPU."""
        self._home[id(value)] = 0
        return self.slot(value, 0)

    def add(self, node: Node) -> None:
        """The step of a node, behind the copies that it needs."""
        runner = self._runners.of(node)
        if runner is None or not runner.memory:
            wanted = [(value, 0) for value in node.reads_all()]
            made = [(value, 0) for value in node.outputs]
        else:
            wanted = [
                (v, runner.input_memory(i) if v is not None and isinstance(v.type, TensorType) else 0)
                for i, v in enumerate(node.reads_all())
            ]
            made = [
                (v, runner.output_memory(i) if v is not None and isinstance(v.type, TensorType) else 0)
                for i, v in enumerate(node.outputs)
            ]
        if runner is not None and runner.missing:
            wanted = [(None, 0) if at in runner.missing else want for at, want in enumerate(wanted)]
        self._bring([(v, m) for v, m in wanted if v is not None])
        inputs = [-1 if v is None else self.slot(v, m) for v, m in wanted]
        outputs = []
        for value, memory in made:
            if value is None:
                outputs.append(-1)
                continue
            self._home[id(value)] = memory
            outputs.append(self.slot(value, memory))
        self.steps.append(_Step(node, runner, inputs, outputs))

    def finish(self, outputs: Sequence[Value]) -> list[int]:
        """The slots of the results, which are on the CPU when a run ends."""
        self._bring([(value, 0) for value in outputs])
        return [self.slot(value, 0) for value in outputs]

    def on_device(self, value: Value) -> int:
        """The slot of an input where the first EP with memory of its own reads it; -1 when none does."""
        if value.initializer is not None:
            return -1
        found = (slot for (key, memory), slot in self._slots.items() if memory and key == id(value))
        return next(found, -1)

    def made_on_device(self, value: Value) -> int:
        """The slot of a result in the EP's memory in which it is made; -1 when that is the CPU's."""
        memory = self._home.get(id(value), 0)
        return self._slots[id(value), memory] if memory else -1

    def _bring(self, wanted: Sequence[tuple[Value, int]]) -> None:
        """Copy what is not where it is wanted; from one device to another by way of the CPU."""
        down: dict[int, list[Value]] = {}
        up: dict[int, list[Value]] = {}
        for value, memory in wanted:
            home = self._home.get(id(value), memory)
            # A default that a run may replace is copied as what the run was given.
            fixed = value.initializer is not None and id(value) not in self._home
            if fixed or (id(value), memory) in self._slots or home == memory:
                continue
            if home and (id(value), 0) not in self._slots and value not in down.get(home, ()):
                down.setdefault(home, []).append(value)
            if memory and value not in up.get(memory, ()):
                up.setdefault(memory, []).append(value)
        for memory, values in down.items():
            self._copy(values, memory, 0, memory)
        for memory, values in up.items():
            self._copy(values, 0, memory, memory)

    def _copy(self, values: Sequence[Value], source: int, target: int, device: int) -> None:
        inputs = [self.slot(value, source) for value in values]
        outputs = [self.slot(value, target) for value in values]
        runner = self._runners.copier(device)
        name = self._runners.name(device)
        way = f"{name} to CPU" if source else f"CPU to {name}"
        self.steps.append(_Step(None, runner, inputs, outputs, copy=way))


def _add_steps(plan: Plan, steps: Sequence[_Step], runners: _Runners, kernels: Sequence[Any]) -> None:
    rows: list[tuple[Any, ...]] = []
    slots: list[int] = []
    names: list[str] = []
    for step, kernel in zip(steps, kernels, strict=True):
        runner = step.runner
        if runner is None:
            what: tuple[Any, ...] = (PYTHON, -1, ffi.cast("void*", call.object_address(kernel)), NULL)
        else:
            what = (runner.kind, runner.ep, runner.target, runner.state)
        rows.append((*what, len(step.inputs), len(step.outputs), len(step.releases)))
        slots += step.inputs
        slots += step.outputs
        slots += step.releases
        slots += step.reuses or [-1] * len(step.outputs)
        if step.node is None:
            names += (step.copy, "copy")
            continue
        members = runners.members.get(step.node.index) or (step.node,)
        names += (_listed([m.name or f"#{m.index}" for m in members]), _listed([m.op_type for m in members]))
    check(lib.ephost_plan_add_steps(plan.pointer, rows, len(rows), slots, packed(names)))


def _memory_of(values: Sequence[tuple[Value, int]], runners: _Runners, slot: int) -> DeviceMemory | None:
    return runners.memory(values[slot][1]) if slot >= 0 else None


def _listed(names: Sequence[str]) -> str:
    """What errors call a step: the names of the model's nodes in it, as far as they are few."""
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def _reused(
    step: _Step,
    pairs: Sequence[tuple[int, int]],
    last_used: Collection[int],
    lent: Container[int],
    values: Sequence[tuple[Value, int]],
) -> list[int]:
    """For each output of a kernel's step the slot of the input whose memory it may take over, or -1.

    Args:
        step: the step.
        pairs: of an input and an output, which the kernel's definition allows to share memory.
        last_used: slots that nobody needs after it.
        lent: slots whose memory is not the run's alone.
        values: of each slot the value, and where it is.
    """
    found = [-1] * len(step.outputs)
    for source, target in pairs:
        if source >= len(step.inputs) or target >= len(step.outputs):
            continue  # left out, as the last ones may be
        slot, output = step.inputs[source], step.outputs[target]
        if slot < 0 or output < 0 or found[target] >= 0 or slot in found or slot in lent:
            continue
        # It would be overwritten while the kernel still reads it as another input.
        if slot in last_used and step.inputs.count(slot) == 1 and values[slot][1] == values[output][1]:
            found[target] = slot
    return found


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


def _set_slots(
    plan: Plan, values: Sequence[tuple[Value, int]], constants: Constants, runners: _Runners
) -> None:
    rows: list[tuple[Any, ...]] = []
    by_type: dict[tuple[int, int], tuple[Any, ...]] = {}
    for value, memory in values:
        row = by_type.get((id(value.type), memory))
        if row is None:
            row = _slot_type(value.type, runners.memory(memory))
            by_type[id(value.type), memory] = row
        rows.append(row)
    check(lib.ephost_plan_set_slots(plan.pointer, rows))
    replaceable = {id(value) for value in plan.inputs}
    for index, (value, memory) in enumerate(values):
        if value.initializer is not None and not (memory and id(value) in replaceable):
            held = constants.get(value)
            device = runners.memory(memory)
            if device is not None:
                held = device.upload(value, held)
            out = ffi.new("OrtValue**")
            check(lib.ephost_value_share(held, out))
            check(lib.ephost_plan_set_constant(plan.pointer, index, out[0]))


def _slot_type(kind: TensorType | onnx.TypeProto | None, memory: DeviceMemory | None) -> tuple[Any, ...]:
    where = (NULL, NULL) if memory is None else (memory.info, memory.allocator)
    if not isinstance(kind, TensorType):
        return (0, -1, NULL, *where)
    dims = kind.static_dims
    element_type = abi_element_type(kind.element_type)
    if dims is None:
        return (element_type, -1, NULL, *where)
    return (element_type, len(dims), ffi.new("int64_t[]", dims), *where)


def _shareable(definition: Any) -> Sequence[tuple[int, int]]:
    """Inputs and outputs of a kernel that share memory, and those that may."""
    if not definition:
        return ()
    pairs: list[tuple[int, int]] = []
    source, target = ffi.new("int*"), ffi.new("int*")
    for optional in (False, True):
        for at in range(lib.ephost_def_alias_count(definition, optional)):
            lib.ephost_def_alias(definition, optional, at, source, target)
            pairs.append((int(source[0]), int(target[0])))
    return pairs


class _Runners:
    """For each node that an EP claimed, what runs it; for each EP, the memory that it works in."""

    def __init__(self, assignments: Sequence[Assignment], host_kernels: Sequence[Kernel] = ()) -> None:
        self._assignments = assignments
        self._by_node: dict[int, _Runner] = {
            kernel.node.index: _Runner(KERNEL, -1, kernel.implementation, NULL, 0) for kernel in host_kernels
        }
        self.members: dict[int, list[Node]] = {}
        for number, assignment in enumerate(assignments):
            memory = 0 if assignment.memory is None else number + 1
            for group in assignment.groups:
                self._by_node[group.fused.index] = _Runner(
                    COMPILED, number, group.compute_info, group.state, memory
                )
                self.members[group.fused.index] = group.nodes
            for kernel in assignment.kernels:
                if lib.ephost_is_control_kernel(kernel.implementation):
                    continue  # the host's own: it runs the node, and the EP what it claimed of the bodies
                self._by_node[kernel.node.index] = _Runner(
                    KERNEL,
                    number,
                    kernel.implementation,
                    NULL,
                    memory,
                    kernel.definition,
                    kernel.missing,
                    _shareable(kernel.definition),
                )

    def of(self, node: Node) -> _Runner | None:
        return self._by_node.get(node.index)

    def memory(self, number: int) -> DeviceMemory | None:
        """The memory with that number; None for the CPU's."""
        return self._assignments[number - 1].memory if number else None

    def name(self, number: int) -> str:
        """The name of the EP whose memory has that number."""
        return self._assignments[number - 1].ep.name

    def copier(self, number: int) -> _Runner:
        """What copies between the CPU and the memory with that number."""
        memory = self.memory(number)
        assert memory is not None
        return _Runner(COPY, number - 1, memory.transfer, NULL, 0)

    def add_eps(self, plan: Plan) -> None:
        """Tell the plan of its EPs, in order."""
        for assignment in self._assignments:
            ep, memory = assignment.ep, assignment.memory
            where = (NULL, NULL, NULL)
            if memory is not None:
                where = (memory.info, memory.allocator, memory.stream_factory)
            check(lib.ephost_plan_add_ep(plan.pointer, ep.pointer, ep.name.encode(), *where))
