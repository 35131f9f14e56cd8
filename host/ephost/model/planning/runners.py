"""Who runs a node, and the memory that it works in."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from ephost._bindings import NULL, lib
from ephost.device_memory import Transport
from ephost.ep_memory import DeviceMemory
from ephost.model.graph import Node
from ephost.model.kernels import Kernel
from ephost.model.partition import Assignment

COMPILED, KERNEL, PYTHON, COPY, HOST = range(5)  # what C calls the kinds of steps


class Runner:
    """What runs a claimed node. Memory 0 is the CPU's, memory k that of EP k - 1 of the plan."""

    __slots__ = ("definition", "ep", "kind", "memory", "missing", "state", "target")

    def __init__(
        self,
        kind: int,
        ep: int,
        target: Any,
        state: Any,
        memory: int,
        definition: Any = NULL,
        missing: Container[int] = (),
    ) -> None:
        self.kind = kind
        self.ep = ep
        self.target = target
        self.state = state
        self.memory = memory
        # A kernel's, which says what of a node stays on the CPU, and what may share memory.
        self.definition = definition
        self.missing = missing  # inputs that a kernel has packed, and whose original is gone

    def input_memory(self, index: int) -> int:
        """The memory in which it reads an input of numbers."""
        if self.memory and self.definition and lib.ephost_def_input_mem_type(self.definition, index) < 0:
            return 0
        return self.memory

    def output_memory(self, index: int) -> int:
        """The memory in which it makes an output of numbers."""
        if self.memory and self.definition and lib.ephost_def_output_mem_type(self.definition, index) < 0:
            return 0
        return self.memory


class Runners:
    """For each node that an EP claimed, what runs it; for each EP, the memory that it works in."""

    def __init__(self, assignments: Sequence[Assignment], host_kernels: Sequence[Kernel] = ()) -> None:
        self._assignments = assignments
        self._by_node: dict[int, Runner] = {
            kernel.node.index: Runner(KERNEL, -1, kernel.implementation, NULL, 0) for kernel in host_kernels
        }
        self._members: dict[int, list[Node]] = {}
        self.has_memories = any(assignment.memory is not None for assignment in assignments)
        self.has_remotes = any(assignment.remote is not None for assignment in assignments)
        for number, assignment in enumerate(assignments):
            memory = 0 if assignment.memory is None else number + 1
            for group in assignment.groups:
                self._by_node[group.fused.index] = Runner(
                    COMPILED, number, group.compute_info, group.state, memory
                )
                self._members[group.fused.index] = group.nodes
            for kernel in assignment.kernels:
                if lib.ephost_is_control_kernel(kernel.implementation):
                    continue  # the host's own: it runs the node, and the EP what it claimed of the bodies
                self._by_node[kernel.node.index] = Runner(
                    KERNEL, number, kernel.implementation, NULL, memory, kernel.definition, kernel.missing
                )

    def of(self, node: Node) -> Runner | None:
        """What runs a node; None: the fallback."""
        return self._by_node.get(node.index)

    @property
    def members(self) -> Mapping[int, list[Node]]:
        """The model's nodes that were fused to one, by its index; other nodes stand for themselves."""
        return self._members

    def memory(self, number: int) -> DeviceMemory | None:
        """The memory with that number; None for the CPU's, and for one in a worker."""
        return self._assignments[number - 1].memory if number > 0 else None

    def transport(self, number: int) -> Transport | None:
        """The same, of memories in workers as well."""
        return self._assignments[-number - 1].remote if number < 0 else self.memory(number)

    def remote(self, runner: Runner | None) -> int:
        """The number of the memory that an isolated EP has in its worker: -k for EP k - 1 of the plan; 0 for
        none.
        """
        if runner is None or runner.ep < 0 or self._assignments[runner.ep].remote is None:
            return 0
        return -runner.ep - 1

    def name(self, number: int) -> str:
        """The name of the EP whose memory has that number."""
        return self._assignments[number - 1].ep.name

    def copier(self, number: int) -> Runner:
        """What copies between the CPU and the memory with that number."""
        memory = self.memory(number)
        assert memory is not None
        return Runner(COPY, number - 1, memory.transfer, NULL, 0)
