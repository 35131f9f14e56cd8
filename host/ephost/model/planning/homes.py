"""Which value is where: the memory in which each is made, its slots, and the copies between devices."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any

from ephost.device_memory import Transport
from ephost.model.graph import Graph, Node, Value, is_of_numbers
from ephost.model.planning.runners import Runner, Runners
from ephost.records import Record


class SlotStep:
    """A step with the slots that it reads and writes; -1 for what is left out."""

    __slots__ = ("copy", "inputs", "node", "outputs", "runner")

    def __init__(
        self,
        node: Node | None,
        runner: Runner | None,
        inputs: list[int],
        outputs: list[int],
        copy: str = "",
    ) -> None:
        self.node = node  # None: a copy
        self.runner = runner  # None: the fallback
        self.inputs = inputs
        self.outputs = outputs
        self.copy = copy  # a copy's direction, for people


class Interface(Record, frozen=True):
    """The slots of what a caller feeds and gets, in order: on the CPU, and where there is one on a device."""

    inputs: list[int]
    outputs: list[int]
    device_inputs: list[int]  # where the first EP with memory of its own reads an input; -1: none does
    device_outputs: list[int]  # in the EP's memory in which an output is made; -1: that is the CPU's
    remote: Mapping[int, int] = {}  # of outputs' slots that of the same value on a device in a worker
    # Of a body's inputs the only memory in which each is read, None where nobody does; and where outputs are
    # made. Empty where all is the CPU's.
    input_homes: Sequence[int | None] = ()
    output_homes: Sequence[int] = ()
    read_on_cpu: Collection[Value] = ()  # by its nodes, of those that are on a device as well


class BodyHomes(Record, frozen=True):
    """The memories in which a node with bodies takes its inputs, those that it captures too, and makes its
    outputs.
    """

    inputs: Sequence[int]
    outputs: Sequence[int]


class Homes:
    """Which value is where, and the steps of a run with the copies between devices.

    A slot is a value in one memory; :attr:`values` has both for each.
    """

    def __init__(
        self,
        runners: Runners,
        graph: Graph,
        inputs: Sequence[Value],
        bodies: Mapping[int, BodyHomes] | None = None,
        *,
        is_body: bool = False,
    ) -> None:
        """Lay out a graph.

        Args:
            runners: what runs its nodes.
            graph: to lay out.
            inputs: what a caller may feed.
            bodies: by index of nodes with bodies that have plans, where these want what goes in and out.
            is_body: it is a subgraph: what goes in and out of it may stay on a device.
        """
        self._runners = runners
        self._bodies = bodies or {}
        self._by_bodies: set[Value] = set()  # what nodes with bodies make on devices
        # By memory the slot of each value in it; what is left out has none.
        self._slots: dict[int, dict[Value | None, int]] = {0: {None: -1}}
        self._home: dict[Value, int] = {}  # the memory in which a value is made
        self.values: list[tuple[Value, int]] = []
        self.steps: list[SlotStep] = []
        fed = [self._start(value) for value in inputs]
        if runners.has_memories:
            for node in graph.nodes:
                self._add(node)
        else:
            self._add_on_cpu(graph.nodes)
        made = self._finish(graph.outputs)
        device_inputs = [self._on_device(value) for value in inputs]
        device_outputs = [self._made_on_device(value, is_body) for value in graph.outputs]
        remote: dict[int, int] = {}
        if runners.has_remotes:
            readers = self._readers()
            for at, slot in enumerate(fed):
                if device_inputs[at] < 0 and slot not in made and inputs[at].initializer is None:
                    device_inputs[at] = self._read_elsewhere(slot, readers.get(slot, set()))
            for at, slot in enumerate(made):
                if device_outputs[at] < 0 and slot not in readers:
                    device_outputs[at] = self._made_elsewhere(slot)
                    remote[slot] = device_outputs[at]
            remote = {slot: there for slot, there in remote.items() if there >= 0}
        homes: tuple[Any, ...] = ()
        if is_body and runners.has_memories:
            homes = self._body_homes(inputs, graph.outputs)
        self.interface = Interface(fed, made, device_inputs, device_outputs, remote, *homes)

    def memories(self, slots: Sequence[int]) -> list[Transport | None]:
        """The memory of each slot; None for the CPU's, and for -1."""
        return [self._runners.transport(self.values[slot][1]) if slot >= 0 else None for slot in slots]

    def _slot(self, value: Value, memory: int) -> int:
        slots = self._slots.setdefault(memory, {})
        at = slots.get(value)
        if at is None:
            at = slots[value] = len(self.values)
            self.values.append((value, memory))
        return at

    def _start(self, value: Value) -> int:
        """The slot of a value that is there when a run begins, on the CPU."""
        self._home[value] = 0
        return self._slot(value, 0)

    def _add_on_cpu(self, nodes: Sequence[Node]) -> None:
        """The steps of nodes where there is no other memory."""
        slots, steps, runner_of = self._slots[0], self.steps, self._runners.of
        slot_of = slots.setdefault
        first = len(slots)
        for node in nodes:
            runner = runner_of(node)
            wanted: Sequence[Value | None] = node.reads_all()
            if runner is not None and runner.missing:
                wanted = [None if at in runner.missing else value for at, value in enumerate(wanted)]
            inputs, outputs = [], []
            for value in wanted:
                inputs.append(slot_of(value, len(slots) - 1))
            for value in node.outputs:
                outputs.append(slot_of(value, len(slots) - 1))
            steps.append(SlotStep(node, runner, inputs, outputs))
        self.values += [(value, 0) for value in islice(slots, first, None) if value is not None]

    def _add(self, node: Node) -> None:
        """The step of a node, behind the copies that it needs."""
        runner = self._runners.of(node)
        bodies = self._bodies.get(node.index)
        if bodies is not None:
            wanted = list(zip(node.reads_all(), bodies.inputs, strict=True))
            made = list(zip(node.outputs, bodies.outputs, strict=True))
            self._by_bodies.update(value for value, memory in made if value is not None and memory)
        elif runner is None or not runner.memory:
            wanted = [(value, 0) for value in node.reads_all()]
            made = [(value, 0) for value in node.outputs]
        else:
            wanted = [
                (v, runner.input_memory(i) if is_of_numbers(v) else 0) for i, v in enumerate(node.reads_all())
            ]
            made = [
                (v, runner.output_memory(i) if is_of_numbers(v) else 0) for i, v in enumerate(node.outputs)
            ]
        if runner is not None and runner.missing:
            wanted = [(None, 0) if at in runner.missing else want for at, want in enumerate(wanted)]
        self._bring([(v, m) for v, m in wanted if v is not None])
        inputs = [-1 if v is None else self._slot(v, m) for v, m in wanted]
        outputs = []
        for value, memory in made:
            if value is None:
                outputs.append(-1)
                continue
            self._home[value] = memory
            outputs.append(self._slot(value, memory))
        self.steps.append(SlotStep(node, runner, inputs, outputs))

    def _finish(self, outputs: Sequence[Value]) -> list[int]:
        """The slots of the results, which are on the CPU when a run ends."""
        self._bring([(value, 0) for value in outputs])
        return [self._slot(value, 0) for value in outputs]

    def _on_device(self, value: Value) -> int:
        """The slot of an input where the first EP with memory of its own reads it; -1 when none does."""
        if value.initializer is not None:
            return -1
        found = [slots[value] for memory, slots in self._slots.items() if memory and value in slots]
        return min(found, default=-1)

    def _made_on_device(self, value: Value, is_body: bool) -> int:
        """The slot of a result in the EP's memory in which it is made; -1 when that is the CPU's, or a caller
        might bind memory to what a body makes as it comes.
        """
        memory = self._home.get(value, 0)
        return self._slots[memory][value] if memory and (is_body or value not in self._by_bodies) else -1

    def _body_homes(
        self, inputs: Sequence[Value], outputs: Sequence[Value]
    ) -> tuple[list[int | None], list[int], set[Value]]:
        """Of a body where its inputs are read, its outputs made, and what its nodes read on the CPU."""
        found: dict[Value, set[int]] = {}
        for step in self.steps:
            if step.node is None:
                continue  # a copy
            for slot in step.inputs:
                if slot >= 0:
                    value, memory = self.values[slot]
                    found.setdefault(value, set()).add(max(memory, 0))  # a worker's takes the CPU's, too
        homes: list[int | None] = []
        for value in inputs:
            memories = found.get(value, set())
            # What goes out as it came in is the CPU's, and so is an initializer, which has a slot of its own.
            fixed = value.initializer is not None or value in outputs
            homes.append(0 if fixed or len(memories) > 1 else next(iter(memories), None))
        on_cpu = {value for value, memories in found.items() if 0 in memories}
        return homes, [self._home.get(value, 0) for value in outputs], on_cpu

    # Groups of isolated plugins take their inputs from the CPU or from their worker's device, as it comes,
    # and leave outputs where they are wanted: no step copies.

    def _readers(self) -> dict[int, set[int]]:
        """Of each slot the memories in workers that its readers have; 0: a reader has none."""
        found: dict[int, set[int]] = {}
        for step in self.steps:
            memory = self._runners.remote(step.runner)
            for slot in step.inputs:
                found.setdefault(slot, set()).add(memory)
        return found

    def _read_elsewhere(self, slot: int, readers: set[int]) -> int:
        """The slot of an input again, when one worker alone reads it; else -1."""
        if len(readers) != 1 or not (memory := next(iter(readers))):
            return -1
        value, _ = self.values[slot]
        if not is_of_numbers(value):
            return -1
        self.values[slot] = value, memory
        return slot

    def _made_elsewhere(self, slot: int) -> int:
        """A slot for an output as it is on the device of the worker that makes it; -1: none does."""
        value, _ = self.values[slot]
        makers = [step.runner for step in self.steps if slot in step.outputs]
        memory = self._runners.remote(makers[0]) if makers and is_of_numbers(value) else 0
        if not memory:
            return -1
        self.values.append((value, memory))
        return len(self.values) - 1

    def _bring(self, wanted: Sequence[tuple[Value, int]]) -> None:
        """Copy what is not where it is wanted; from one device to another by way of the CPU."""
        down: dict[int, list[Value]] = {}
        up: dict[int, list[Value]] = {}
        for value, memory in wanted:
            home = self._home.get(value, memory)
            # A default that a run may replace is copied as what the run was given.
            fixed = value.initializer is not None and value not in self._home
            if fixed or home == memory or value in self._slots.get(memory, ()):
                continue
            if home and value not in self._slots[0] and value not in down.get(home, ()):
                down.setdefault(home, []).append(value)
            if memory and value not in up.get(memory, ()):
                up.setdefault(memory, []).append(value)
        for memory, values in down.items():
            self._copy(values, memory, 0, memory)
        for memory, values in up.items():
            self._copy(values, 0, memory, memory)

    def _copy(self, values: Sequence[Value], source: int, target: int, device: int) -> None:
        inputs = [self._slot(value, source) for value in values]
        outputs = [self._slot(value, target) for value in values]
        runner = self._runners.copier(device)
        name = self._runners.name(device)
        way = f"{name} to CPU" if source else f"CPU to {name}"
        self.steps.append(SlotStep(None, runner, inputs, outputs, copy=way))
