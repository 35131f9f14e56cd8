"""Kernels of single nodes: those of an EP's registry, and those of custom operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

from ephost._bindings import NULL, check, ep_api, ffi, guarded, lib, onnx_element_type, text
from ephost.errors import EPFail, NotImplemented, naming
from ephost.model.graph import Model, Node, all_graphs
from ephost.model.native_graph import Constants, NativeGraph
from ephost.records import Record, made_by

NOTHING: frozenset[int] = frozenset()  # what most kernels pack: one for all of them


class Kernel:
    """A node that a kernel of an EP's registry, or of a custom operator, runs."""

    __slots__ = (
        "constants",
        "definition",
        "implementation",
        "info",
        "missing",
        "node",
        "packed",
        "shared",
    )

    def __init__(
        self, node: Node, info: Any, implementation: Any, definition: Any, constants: Sequence[Any]
    ) -> None:
        self.node = node
        self.info = info
        self.implementation = implementation
        self.definition = definition  # OrtKernelDef*, lent by the registry
        self.constants = constants  # OrtValue* of each constant input, else NULL; none: nothing
        self.packed: Set[int] = NOTHING  # inputs that the kernel keeps in a form of its own
        self.missing: Set[int] = NOTHING  # those of them whose original is gone
        self.shared: tuple[Any, ...] = ()  # the PackedWeights that it borrows

    def release(self) -> None:
        """Release the kernel, then what it knew and borrowed."""
        if self.implementation:
            guarded("OrtKernelImpl_Release")(self.implementation)
        if self.info:
            lib.ephost_kernel_info_free(self.info)
        self.shared = ()  # before the allocator that the weights may be from


class Registered:
    """What an EP's registry has for nodes, up to the first for which it has nothing."""

    __slots__ = ("count", "definitions", "entries")

    def __init__(self, registry: Any, pointers: Sequence[Any], ep_name: bytes) -> None:
        self.entries = ffi.new("KernelEntry*[]", len(pointers))
        self.definitions = ffi.new("OrtKernelDef*[]", len(pointers))
        self.count = 0
        if registry:
            self.count = lib.ephost_registry_find_all(
                registry, pointers, len(pointers), ep_name, self.entries, self.definitions
            )


KernelRow = tuple[str, str, int, int, dict[str, list[int]]]


def registry_rows(registry: Any) -> list[KernelRow]:
    """What the kernels of an ``OrtKernelRegistry*`` are for: operator, domain, first and last version, and by
    name of a type parameter or of an input the element types (of ONNX) that it may be.
    """
    found: list[KernelRow] = []
    first, last = ffi.new("int*"), ffi.new("int*")
    types, count = ffi.new("ONNXTensorElementDataType**"), ffi.new("size_t*")
    for index in range(lib.ephost_registry_size(registry)):
        definition = lib.ephost_entry_def(lib.ephost_registry_entry(registry, index))
        check(ep_api.KernelDef_GetSinceVersion(definition, first, last))
        constraints = {}
        for at in range(lib.ephost_def_constraint_count(definition)):
            name = text(lib.ephost_def_constraint(definition, at, types, count))
            constraints[name] = [onnx_element_type(int(types[0][i])) for i in range(count[0])]
        domain = text(ep_api.KernelDef_GetDomain(definition))
        op_type = text(ep_api.KernelDef_GetOperatorType(definition))
        domain = "" if domain == "ai.onnx" else domain
        found.append((op_type, domain, int(first[0]), int(last[0]), constraints))
    return found


class KernelMaker(Record, frozen=True):
    """Who makes kernels, and what they get to know."""

    label: str  # what errors call it
    ep: Any  # OrtEp*, or NULL
    logger: Any
    config: Any
    allocator: Any  # OrtAllocator* of the EP's device, or NULL

    def make_all(
        self,
        nodes: Sequence[Node],
        pointers: Sequence[Any],
        found: Registered,
        constants: Callable[[Node, Any], Sequence[Any]],
        kernels: list[Kernel],
    ) -> None:
        """Make the kernels of nodes, in order.

        Args:
            nodes: which ones.
            pointers: their ``OrtNode*``, in a graph that outlives the kernels.
            found: what the registry has for them; the kernels' infos keep the definitions.
            constants: gives ``OrtValue*`` of each constant input of a node, NULL for the others; nothing if
                there is none.
            kernels: gets the kernels, also that on which making them fails.

        Raises:
            The maker's error, with the node named.
        """
        count = len(nodes)
        held = [constants(node, found.definitions[at]) for at, node in enumerate(nodes)]
        values = [ffi.new("OrtValue*[]", each) if each else NULL for each in held]
        infos, made = ffi.new("OrtKernelInfo*[]", count), ffi.new("size_t*")
        implementations = ffi.new("OrtKernelImpl*[]", count)
        status = lib.ephost_kernels_new(
            pointers,
            found.entries,
            count,
            self.ep,
            self.logger,
            self.config,
            self.allocator,
            values,
            infos,
            implementations,
            made,
        )
        for row in zip(nodes, infos, implementations, found.definitions, held, strict=False):
            if not row[1]:
                break
            kernels.append(Kernel(*row))
        if status:
            failed = nodes[made[0]]
            with naming(lambda: f"the kernel of {self.label} for {failed.label} cannot be created"):
                check(status)

    def make_custom(
        self,
        node: Node,
        pointer: Any,
        constants: Callable[[Any], Sequence[Any]],
        kernels: list[Kernel],
    ) -> None:
        """The kernel of one node from its custom operator; ``constants`` gets the definition that this makes.
        Errors as :meth:`make_all`.
        """
        op = node.custom
        assert op is not None
        definition = op.kernel_definition(len(node.inputs))
        try:
            values = constants(definition)
            info = lib.ephost_kernel_info_new(
                pointer,
                self.ep,
                definition,
                self.logger,
                self.config,
                NULL,
                self.allocator,
                NULL,
                values or NULL,
            )
            if not info:
                raise MemoryError("no memory for a kernel info")
            kernel = Kernel(node, info, NULL, definition, values)
            kernels.append(kernel)
            out = ffi.new("OrtKernelImpl**")
            with naming(lambda: f"the kernel of {self.label} for {node.label} cannot be created"):
                check(lib.ephost_custom_kernel_new(op.pointer, info, out))
            kernel.implementation = out[0]
            if not kernel.implementation or not kernel.implementation.Compute:
                raise EPFail(f"the kernel of {self.label} for {node.label} has no Compute")
        finally:
            ep_api.ReleaseKernelDef(definition)  # the info has a reference


class HostKernels(Record):
    """The kernels of the custom operators that the host runs itself, in the CPU's memory."""

    kernels: list[Kernel] = made_by(default_factory=list)
    graph: NativeGraph | None = None

    def make(self, model: Model, constants: Constants, logger: Any, config: Any) -> None:
        """Make a kernel for each node of such an operator that no EP has claimed.

        Raises:
            The operator's error, with the node named.
            NotImplemented: the operator is an isolated plugin's.
        """
        nodes = [
            node
            for graph in all_graphs(model.graph)
            for node in graph.nodes
            if not node.ep_name and node.custom is not None and node.custom.is_hosts
        ]
        if not nodes:
            return
        for node in nodes:
            if node.custom is not None and node.custom.elsewhere is not None:
                raise NotImplemented(
                    f"the node {node.label} is of an operator that {node.custom.elsewhere.label} brings, and "
                    "whose functions are in the plugin's process, where this node cannot run: "
                    "register the library without isolation"
                )
        self.graph = NativeGraph(model, model.graph, constants)
        self.add(nodes, self.graph, constants, logger, config)

    def add(
        self, nodes: Sequence[Node], native: NativeGraph, constants: Constants, logger: Any, config: Any
    ) -> None:
        """Make the kernels of some nodes of a graph that outlives them.

        Raises:
            The operator's error, with the node named.
        """

        def held(node: Node) -> list[Any]:
            return [
                constants.get(v) if v is not None and v.is_constant and v.initializer is not None else NULL
                for v in node.inputs
            ]

        for node in nodes:
            assert node.custom is not None
            maker = KernelMaker(node.custom.label, NULL, logger, config, NULL)
            pointer = native.pointer_of(node)
            maker.make_custom(node, pointer, lambda _, node=node: held(node), self.kernels)  # type: ignore[misc]

    def release(self) -> None:
        """Release the kernels, then what they know of their nodes."""
        for kernel in reversed(self.kernels):
            kernel.release()
        self.kernels.clear()
        if self.graph is not None:
            self.graph.release()
            self.graph = None
