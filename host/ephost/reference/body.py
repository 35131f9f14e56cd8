"""Bodies of nodes: the subgraph of an attribute, or the nodes of a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from ..message_helpers import to_array
from ..messages import GraphProto, NodeProto
from .values import Value, dense


class Kernel(Protocol):
    """A node of a body, ready to run."""

    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    implicit_inputs: tuple[str, ...]

    def __call__(self, inputs: Sequence[Value], implicit: Mapping[str, Value] | None = None) -> list[Value]:
        """Run the node once."""


MakeKernel = Callable[[NodeProto], Kernel]
"""Makes the kernel of a node of a body, under that body's opset imports and functions."""
RunBody = Callable[[Sequence[Value], Mapping[str, Value]], list[Value]]
"""Runs a body once: its inputs in order, the outer-scope values by name; returns its outputs in order."""


class Body:
    """Nodes in topological order that make some outputs from some inputs. Calls are independent of each
    other.
    """

    def __init__(
        self,
        kernels: Iterable[Kernel],
        inputs: Sequence[str],
        outputs: Sequence[str],
        constants: Mapping[str, Value] | None = None,
    ) -> None:
        self._kernels = tuple(kernels)
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._constants = dict(constants or {})

    def __call__(self, inputs: Sequence[Value], implicit: Mapping[str, Value]) -> list[Value]:
        """Missing inputs are None. Raises ValueError for too many, and for a name that nothing makes."""
        if len(inputs) > len(self._inputs):
            raise ValueError(f"the body takes {len(self._inputs)} inputs, got {len(inputs)}")
        scope: dict[str, Value] = {**implicit, **dict.fromkeys(self._inputs), **self._constants}
        scope.update(zip(self._inputs, inputs, strict=False))
        scope[""] = None
        try:
            for kernel in self._kernels:
                arguments = [scope[name] for name in kernel.input_names]
                captured = {name: scope[name] for name in kernel.implicit_inputs}
                scope.update(zip(kernel.output_names, kernel(arguments, captured), strict=True))
                scope[""] = None
            return [scope[name] for name in self._outputs]
        except KeyError as error:
            raise ValueError(f"the body reads {error.args[0]!r}, which nothing before it makes") from error


def subgraph_body(graph: GraphProto, make_kernel: MakeKernel) -> Body:
    """The body that an attribute holds. Its initializers are read here, once."""
    constants: dict[str, Value] = {tensor.name: to_array(tensor) for tensor in graph.initializer}
    constants.update((tensor.values.name, dense(tensor)) for tensor in graph.sparse_initializer)
    return Body(
        map(make_kernel, graph.node),
        [value.name for value in graph.input],
        [value.name for value in graph.output],
        constants,
    )


def captured_names(graph: GraphProto) -> set[str]:
    """The names that a graph, or a graph inside it, reads from the scopes around it."""
    known = {value.name for value in graph.input}
    known.update(tensor.name for tensor in graph.initializer)
    known.update(tensor.values.name for tensor in graph.sparse_initializer)
    captured: set[str] = set()
    for node in graph.node:
        captured.update(name for name in node.input if name and name not in known)
        captured.update(implicit_names(node) - known)
        known.update(node.output)
    captured.update(value.name for value in graph.output if value.name and value.name not in known)
    return captured


def implicit_names(node: NodeProto) -> set[str]:
    """The outer-scope names that a node's subgraphs read."""
    names: set[str] = set()
    for attribute in node.attribute:
        for graph in attribute.bodies():
            names |= captured_names(graph)
    return names
