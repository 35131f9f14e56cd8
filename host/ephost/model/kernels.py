"""Kernels of single nodes: those of an EP's registry, and those of custom operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ephost._bindings import NULL, check, ep_api, ffi, guarded, lib
from ephost.errors import EPFail, naming
from ephost.model.graph import Model, Node, all_graphs
from ephost.model.native_graph import Constants, NativeGraph
from ephost.records import Record, made_by


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
        self, node: Node, info: Any, implementation: Any, definition: Any, constants: list[Any]
    ) -> None:
        self.node = node
        self.info = info
        self.implementation = implementation
        self.definition = definition  # OrtKernelDef*, lent by the registry
        self.constants = constants  # OrtValue* of each constant input, else NULL
        self.packed: set[int] = set()  # inputs that the kernel keeps in a form of its own
        self.missing: set[int] = set()  # those of them whose original is gone
        self.shared: list[Any] = []  # the PackedWeights that it borrows

    def release(self) -> None:
        """Release the kernel, then what it knew and borrowed."""
        if self.implementation:
            guarded("OrtKernelImpl_Release")(self.implementation)
        if self.info:
            lib.ephost_kernel_info_free(self.info)
        self.shared.clear()  # before the allocator that the weights may be from


class KernelMaker(Record, frozen=True):
    """Who makes kernels, and what they get to know."""

    label: str  # what errors call it
    ep: Any  # OrtEp*, or NULL
    logger: Any
    config: Any
    allocator: Any  # OrtAllocator* of the EP's device, or NULL

    def make(
        self,
        node: Node,
        pointer: Any,
        definition: Any,
        constants: list[Any],
        create: Callable[[Any, Any], Any],
        kernels: list[Kernel],
    ) -> None:
        """Make the kernel of one node.

        Args:
            node: which one.
            pointer: its ``OrtNode*``, in a graph that outlives the kernel.
            definition: ``OrtKernelDef*``; the kernel's info keeps it.
            constants: ``OrtValue*`` of each constant input, NULL for the others.
            create: makes the ``OrtKernelImpl*`` from an info and an address for it; gives a status.
            kernels: gets the kernel, also when making it fails.

        Raises:
            The maker's error, with the node named.
        """
        values = constants or NULL
        info = lib.ephost_kernel_info_new(
            pointer, self.ep, definition, self.logger, self.config, NULL, self.allocator, NULL, values
        )
        if not info:
            raise MemoryError("no memory for a kernel info")
        kernel = Kernel(node, info, NULL, definition, constants)
        kernels.append(kernel)
        out = ffi.new("OrtKernelImpl**")
        with naming(lambda: f"the kernel of {self.label} for {node.label} cannot be created"):
            check(create(info, out))
        kernel.implementation = out[0]
        if not kernel.implementation or not kernel.implementation.Compute:
            raise EPFail(f"the kernel of {self.label} for {node.label} has no Compute")

    def make_custom(
        self,
        node: Node,
        pointer: Any,
        constants: Callable[[Any], list[Any]],
        kernels: list[Kernel],
    ) -> None:
        """The same from the node's custom operator; ``constants`` gets the definition that this makes."""
        op = node.custom
        assert op is not None
        definition = op.kernel_definition(len(node.inputs))
        try:
            values = constants(definition)
            self.make(
                node,
                pointer,
                definition,
                values,
                lambda info, out: lib.ephost_custom_kernel_new(op.pointer, info, out),
                kernels,
            )
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
        """
        nodes = [
            node
            for graph in all_graphs(model.graph)
            for node in graph.nodes
            if not node.ep_name and node.custom is not None and node.custom.is_hosts
        ]
        if not nodes:
            return
        native = self.graph = NativeGraph(model, model.graph, constants)

        def held(node: Node) -> list[Any]:
            return [
                constants.get(v) if v is not None and v.is_constant and v.initializer is not None else NULL
                for v in node.inputs
            ]

        for node in nodes:
            assert node.custom is not None
            maker = KernelMaker(node.custom.label, NULL, logger, config, NULL)
            pointer = native.node_pointers[node.index]
            maker.make_custom(node, pointer, lambda _, node=node: held(node), self.kernels)  # type: ignore[misc]

    def release(self) -> None:
        """Release the kernels, then what they know of their nodes."""
        for kernel in reversed(self.kernels):
            kernel.release()
        self.kernels.clear()
        if self.graph is not None:
            self.graph.release()
            self.graph = None
