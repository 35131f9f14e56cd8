"""Between partitioning and planning: kernels lay out their constant inputs as they like them best.

Each kernel is offered its constants (``PrePackWeight``). What it leaves in the cache is lent back to it, and
may serve other sessions; of what it takes, the original is freed where nobody else reads it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

from ephost._bindings import NULL, check, ffi, lib, member
from ephost.errors import Fail, naming
from ephost.model.graph import Graph, Node, Value
from ephost.model.kernels import Kernel
from ephost.model.native_graph import Constants
from ephost.model.partition import Assignment

DISABLE_PREPACKING = "session.disable_prepacking"  # "1": nothing is offered


class PackedWeight:
    """The buffers of one packed weight. They are freed with the last reference to this object."""

    def __init__(self, allocator: Any) -> None:
        """Make a cache for PrePackWeight to store in.

        Args:
            allocator: ``OrtAllocator*`` that the buffers will be from; it must outlive this object.
        """
        self.pointer = lib.ephost_weight_cache_new(allocator)
        if not self.pointer:
            raise MemoryError("no memory for packed weights")

    @property
    def is_stored(self) -> bool:
        """Whether the kernel has left its buffers here."""
        return bool(lib.ephost_weight_cache_is_stored(self.pointer))

    def buffers(self) -> tuple[Any, Any, int]:
        """``void**``, ``size_t*`` and how many there are."""
        pointers, sizes = ffi.new("void* const**"), ffi.new("size_t**")
        count = int(lib.ephost_weight_cache_buffers(self.pointer, pointers, sizes))
        return pointers[0], sizes[0], count

    def _memory(self) -> Iterator[Any]:
        pointers, sizes, count = self.buffers()
        for at in range(count):
            yield ffi.buffer(pointers[at], sizes[at]) if pointers[at] and sizes[at] else b""

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return sum(len(part) for part in self._memory())

    def digest(self) -> bytes:
        """Equal for equal contents; only of memory that the CPU reads."""
        from hashlib import blake2b  # which loads OpenSSL

        found = blake2b()
        for part in self._memory():
            found.update(len(part).to_bytes(8, "little"))
            found.update(part)
        return found.digest()

    def __del__(self) -> None:
        if pointer := getattr(self, "pointer", NULL):
            lib.ephost_weight_cache_free(pointer)


class PrepackedWeightsContainer:
    """Packed weights that sessions share: give the same container to each of them.

    Kernels of the same operator and execution provider that pack a weight into the same bytes, in the CPU's
    memory, then use one copy of these. The weights live as long as the container and its sessions. Any number
    of threads may open sessions with it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._weights: dict[tuple[Any, ...], PackedWeight] = {}

    def keep(self, key: tuple[Any, ...], weight: PackedWeight) -> PackedWeight:
        """The container's weight of that key and content: ``weight`` itself where it had none."""
        with self._lock:
            return self._weights.setdefault((*key, weight.digest()), weight)

    def __len__(self) -> int:
        """How many packed weights there are."""
        return len(self._weights)

    @property
    def nbytes(self) -> int:
        """Their bytes."""
        with self._lock:
            return sum(weight.nbytes for weight in self._weights.values())


def prepack(assignments: Sequence[Assignment], container: PrepackedWeightsContainer | None) -> None:
    """Offer every kernel its constant inputs.

    Args:
        assignments: after partitioning.
        container: where packed weights are shared between sessions; None: they are the session's own.

    Raises:
        The kernel's error, with the kernel, the function and the input named.
        Fail: a kernel leaves buffers in the cache without a function to lend them to.
    """
    for assignment in assignments:
        for kernel in assignment.kernels:
            if not kernel.constants:
                continue
            pack = member("OrtKernelImpl", kernel.implementation, "PrePackWeight")
            if pack is None:
                continue
            for index, constant in enumerate(kernel.constants):
                if constant:
                    _pack(assignment, kernel, pack, index, constant, container)


def _pack(
    assignment: Assignment,
    kernel: Kernel,
    pack: Any,
    index: int,
    constant: Any,
    container: PrepackedWeightsContainer | None,
) -> None:
    memory, implementation = assignment.memory, kernel.implementation
    allocator = lib.ephost_cpu_allocator() if memory is None else memory.allocator
    weight, packed = PackedWeight(allocator), ffi.new("bool*")
    where = f"the kernel of {assignment.ep.label} for {kernel.node.label}"

    def checked(function: str, status: Any) -> None:
        with naming(lambda: f"{where} failed in {function} of input {index}"):
            check(status)

    checked("PrePackWeight", pack(implementation, constant, index, allocator, weight.pointer, packed))
    if weight.is_stored:
        lend = member("OrtKernelImpl", implementation, "SetSharedPrePackedWeight")
        if lend is None:
            raise Fail(
                f"{where} stored the packed input {index}, but has no SetSharedPrePackedWeight to use it"
            )
        if container is not None and memory is None:
            ep, node = assignment.ep, kernel.node
            key = (ep.registration.path, ep.name, node.domain, node.op_type, node.since_version)
            weight = container.keep(key, weight)
        kernel.shared = (*kernel.shared, weight)
        checked("SetSharedPrePackedWeight", lend(implementation, *weight.buffers(), index))
    if packed[0]:
        kernel.packed |= {index}


def free_originals(graph: Graph, assignments: Sequence[Assignment], constants: Constants) -> int:
    """Free the initializers that only kernels read which have packed them; from then on they miss them.

    Returns:
        How many bytes of weights are gone.
    """
    kernels = {id(k.node): (a, k) for a in assignments for k in a.kernels if k.packed}
    freed = 0
    for value in list(graph.values.values()) if kernels else ():
        readers = [kernels.get(id(node)) for node in value.consumers]
        if (
            value.initializer is None
            or not value.is_constant
            or value.is_output
            or not readers
            or not all(found is not None and _has_packed(found[1], value) for found in readers)
        ):
            continue
        freed += int(value.initializer.nbytes)
        for found in readers:
            assert found is not None
            assignment, kernel = found
            for at in _places(kernel.node, value):
                kernel.missing |= {at}
                lib.ephost_kernel_info_drop_constant(kernel.info, at)
                kernel.constants = [NULL if i == at else c for i, c in enumerate(kernel.constants)]
            if assignment.memory is not None:
                assignment.memory.forget(value)
        for assignment in assignments:
            for native in assignment.graphs:
                native.forget(value)
        constants.forget(value)
        value.initializer = value.external = None
    return freed


def _places(node: Node, value: Value) -> list[int]:
    return [at for at, read in enumerate(node.inputs) if read is value]


def _has_packed(kernel: Kernel, value: Value) -> bool:
    return value not in kernel.node.implicit_inputs and kernel.packed >= set(_places(kernel.node, value))
