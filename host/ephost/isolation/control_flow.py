"""If, Loop and Scan of an isolated plugin: the host runs them, as in one process, and the plugin what it
claims of their bodies. The kernels of them that it makes stay in the worker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ephost._bindings import NULL, check, ep_api, ffi, lib
from ephost.errors import NotImplemented
from ephost.isolation.tables import giving_status
from ephost.model.graph import Node
from ephost.model.native_graph import NativeGraph, shown_node

_OPERATORS = ("If", "Loop", "Scan")  # of the operators with bodies, those that hosts make kernels for
_LAST_VERSION = 1 << 30


def is_control_flow(node: Node) -> bool:
    """Whether hosts make the kernels of such nodes."""
    return node.domain == "" and node.op_type in _OPERATORS


class ControlKernels:
    """The kernel registry that an isolated EP has in the host."""

    def __init__(self, make: Callable[[NativeGraph, Any, Node], bool], label: str) -> None:
        """Make an empty registry.

        Args:
            make: has the plugin make its kernel of a node, of a graph and in it the graph whose node it is;
                whether it is one that hosts make. May raise the plugin's error, or its fault.
            label: what errors call the EP.
        """
        self._make = make
        self._label = label
        self._handle = ffi.new_handle(self)
        out = ffi.new("OrtKernelRegistry**")
        check(ep_api.CreateKernelRegistry(out))
        self.pointer = out[0]
        try:
            for op_type in _OPERATORS:
                self._add(op_type.encode())
        except BaseException:
            self.release()
            raise

    def _add(self, op_type: bytes) -> None:
        builder, out = ffi.new("OrtKernelDefBuilder**"), ffi.new("OrtKernelDef**")
        check(ep_api.CreateKernelDefBuilder(builder))
        try:
            # Which types and versions there are kernels for the plugin's own registry has said by then.
            check(ep_api.KernelDefBuilder_SetOperatorType(builder[0], op_type))
            check(ep_api.KernelDefBuilder_SetDomain(builder[0], b""))
            check(ep_api.KernelDefBuilder_SetSinceVersion(builder[0], 1, _LAST_VERSION))
            check(ep_api.KernelDefBuilder_Build(builder[0], out))
        finally:
            ep_api.ReleaseKernelDefBuilder(builder[0])
        try:
            check(ep_api.KernelRegistry_AddKernel(self.pointer, out[0], _create, self._handle))
        finally:
            ep_api.ReleaseKernelDef(out[0])

    def create(self, info: Any, out: Any) -> None:
        """The host's kernel of a node, once the plugin has made its own."""
        native, graph, node = shown_node(lib.ephost_kernel_info_node(info))
        if not self._make(native, graph, node):
            raise NotImplemented(
                f"{self._label} runs the node {node.label} and its bodies by a kernel of its own, which an "
                "isolated plugin cannot: register the library without isolation"
            )
        check(ep_api.CreateIfKernel(info, out))  # a Loop's and a Scan's have helpers, which are the worker's

    def release(self) -> None:
        """Release the registry, after the kernels."""
        ep_api.ReleaseKernelRegistry(self.pointer)
        self.pointer = NULL


def _call(state: Any, info: Any, out: Any) -> None:
    out[0] = NULL
    ffi.from_handle(state).create(info, out)


_create = ffi.callback("OrtKernelCreateFunc", giving_status(_call))
