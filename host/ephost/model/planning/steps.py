"""A plan and its steps, as Python sees them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ephost._bindings import NULL, lib
from ephost.device_memory import Transport
from ephost.model.graph import Node, Value
from ephost.records import Record, made_by


class Step:
    """One step as Python sees it: which nodes of the model it runs, and on whom."""

    __slots__ = ("ep_name", "members", "node")

    def __init__(self, node: Node, members: list[Node], ep_name: str) -> None:
        self.node = node
        self.members = members
        self.ep_name = ep_name  # "" for the host


class Copy(Record):
    """A step that takes values from one device to another."""

    way: str  # such as "CPU to WebGpuExecutionProvider"
    values: list[Value]


class Plan(Record):
    """What was handed to C, and what explains it."""

    pointer: Any
    ran: list[Node | Copy]  # as C runs them
    members: Mapping[int, list[Node]]  # the model's nodes in those that were fused, by index
    inputs: list[Value]
    outputs: list[Value]
    arena_bytes: int
    planned_bytes: int  # the sum of what shares the arena
    fallback: list[Node] = made_by(default_factory=list)
    bodies: list[Plan] = made_by(default_factory=list)  # of subgraphs of nodes on the fallback
    # Of each input and output where an EP has it in memory of its own; None: nowhere.
    input_memories: list[Transport | None] = made_by(default_factory=list)
    output_memories: list[Transport | None] = made_by(default_factory=list)
    # Of a body's inputs the only memory in which each is read, None where nobody does; and where outputs are
    # made. Empty where all is the CPU's.
    input_homes: Sequence[int | None] = ()
    output_homes: Sequence[int] = ()
    read_on_cpu: Collection[Value] = ()  # by its nodes, of those that are on a device as well
    resident: Collection[Value] = ()  # which the node around a body hands over on the device: uncopied
    explained: list[Step | Copy] | None = None

    @property
    def order(self) -> list[Step | Copy]:
        """The steps as people ask for them, as C runs them."""
        if self.explained is None:
            self.explained = [
                Step(ran, self.members.get(ran.index) or [ran], ran.ep_name) if isinstance(ran, Node) else ran
                for ran in self.ran
            ]
        return self.explained

    @property
    def steps(self) -> list[Step]:
        """The steps that run nodes."""
        return [step for step in self.order if isinstance(step, Step)]

    @property
    def copies(self) -> list[Copy]:
        """The steps that take values from one device to another, with those that they take in a run."""
        copies = [step for step in self.order if isinstance(step, Copy)]
        if not self.resident:
            return copies
        taken = [Copy(copy.way, [v for v in copy.values if v not in self.resident]) for copy in copies]
        return [copy for copy in taken if copy.values]

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
