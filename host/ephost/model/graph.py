"""The in-memory model that the stages of the pipeline pass on.

Deliberately thin: a node keeps its ``NodeProto`` for attributes, and links to its values. Building it costs
about 10 us a node, against 0.5 ms for the smallest model and 0.6 s of import time with onnx-ir, which would
be most of the time in which a small session has to open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from ephost._bindings import dtype_of
from ephost.errors import InvalidGraph

if TYPE_CHECKING:
    from ephost.model.custom_ops import CustomOp, CustomOps

NHWC_DOMAIN = "com.ms.internal.nhwc"  # of operators that were made channels last

Dim = int | str | None  # known, named, unknown


@dataclass(slots=True, frozen=True)
class TensorType:
    """Element type (``onnx.TensorProto.DataType``) and shape of a tensor; ``dims`` None: unknown rank.

    ``static_dims`` are the dimensions when all are known, else None. Thousands of values share a few types:
    :func:`tensor_type` gives the one object of each.
    """

    element_type: int
    dims: tuple[Dim, ...] | None
    static_dims: tuple[int, ...] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = None if self.dims is None else tuple(d for d in self.dims if isinstance(d, int))
        same = known is not None and self.dims is not None and len(known) == len(self.dims)
        object.__setattr__(self, "static_dims", known if same else None)

    def __str__(self) -> str:
        name = onnx.TensorProto.DataType.Name(self.element_type).lower()
        if self.dims is None:
            return f"{name}[...]"
        return f"{name}[{','.join('?' if d is None else str(d) for d in self.dims)}]"


@lru_cache(maxsize=8192)
def tensor_type(element_type: int, dims: tuple[Dim, ...] | None) -> TensorType:
    """The type, as one object for all who ask."""
    return TensorType(element_type, dims)


def tensor_bytes(kind: Any) -> int | None:
    """Bytes of a tensor of known shape; None when the shape is not known, or there are no plain elements."""
    if not isinstance(kind, TensorType):
        return None
    dims = kind.static_dims
    dtype = dtype_of(kind.element_type)
    if dims is None or dtype is None:
        return None
    return math.prod(dims) * dtype.itemsize


@dataclass(slots=True, eq=False)
class External:
    """The file in which an initializer's data lies; ``nbytes`` is that of the elements."""

    path: str
    offset: int
    nbytes: int
    in_model: bool = False  # the model's own file: not external data in ONNX's sense


@dataclass(slots=True, eq=False)
class Value:
    """A named value of a graph: an input, an initializer, or a node's output."""

    name: str
    type: TensorType | onnx.TypeProto | None = None  # a TypeProto for what is no tensor
    producer: Node | None = None
    producer_output: int = -1
    consumers: list[Node] = field(default_factory=list)
    initializer: np.ndarray | None = None
    external: External | None = None
    is_input: bool = False
    is_output: bool = False
    is_constant: bool = False  # an initializer that no caller can replace
    awaits_producer: bool = False  # while a call of a function is replaced by the function's body

    def __repr__(self) -> str:
        return f"Value({self.name!r}, {self.type})"


@dataclass(slots=True, eq=False)
class Node:
    """One operator of a graph. ``index`` is its id for plugins, unique within the session."""

    index: int
    proto: onnx.NodeProto
    op_type: str
    domain: str  # "" for ai.onnx
    name: str
    since_version: int
    inputs: list[Value | None]
    outputs: list[Value | None]
    implicit_inputs: list[Value] = field(default_factory=list)  # outer values that its subgraphs read
    subgraphs: dict[str, Graph] = field(default_factory=dict)
    ep_name: str = ""  # who claimed it
    from_layout: bool = False  # it was put there to make an operator channels last
    left_to_host: bool = False  # nobody claimed it while it was on offer
    custom: CustomOp | None = None  # the operator, when a plugin or a library brought it

    def __repr__(self) -> str:
        return f"Node({self.index}, {self.label})"

    @property
    def label(self) -> str:
        """What an error calls the node: its name and operator."""
        kind = f"{self.domain}.{self.op_type}" if self.domain else self.op_type
        return f"'{self.name}' ({kind})" if self.name else f"#{self.index} ({kind})"

    def reads_all(self) -> Sequence[Value | None]:
        """Its inputs, None for those left out, then what its subgraphs read."""
        return [*self.inputs, *self.implicit_inputs] if self.implicit_inputs else self.inputs

    def reads(self) -> Sequence[Value]:
        """Every value that it needs, those of its subgraphs included."""
        return [value for value in self.inputs if value is not None] + self.implicit_inputs


@dataclass(slots=True, eq=False)
class Graph:
    """A graph, in topological order."""

    name: str
    nodes: list[Node]
    inputs: list[Value]
    outputs: list[Value]
    values: dict[str, Value]
    parent: Node | None = None

    @property
    def initializers(self) -> list[Value]:
        """Its values with data, constant or not."""
        return [value for value in self.values.values() if value.initializer is not None]


@dataclass(slots=True, eq=False)
class Model:
    """A model being prepared for a session."""

    graph: Graph
    opsets: dict[str, int]
    ir_version: int
    functions: dict[tuple[str, str, str], onnx.FunctionProto]  # by domain, name, overload
    path: str | None  # absolute; None for a model from memory
    metadata: Metadata
    next_index: int = 0
    custom_ops: CustomOps | None = None  # once it is known who the session's plugins are

    def new_index(self) -> int:
        """An id for a new node."""
        self.next_index += 1
        return self.next_index - 1


@dataclass(slots=True, frozen=True)
class Metadata:
    """What a model says of itself."""

    producer_name: str
    producer_version: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom: dict[str, str]


@cache
def schema_of(op_type: str, domain: str, opset: int) -> onnx.defs.OpSchema | None:
    """The operator's schema at an opset version, or None when onnx knows no such operator.

    What is channels last has the schema of ONNX's operator, but for the shapes.
    """
    try:
        return onnx.defs.get_schema(op_type, opset, "" if domain == NHWC_DOMAIN else domain)
    except onnx.defs.SchemaError:
        return None


@cache
def since_version(op_type: str, domain: str, opset: int) -> int:
    """The opset version in which the operator got its present meaning; ``opset`` where that is not known."""
    schema = schema_of(op_type, domain, opset)
    return schema.since_version if schema else opset


def topological_order(nodes: list[Node]) -> list[Node]:
    """The nodes with producers before consumers, otherwise in the order given.

    Raises:
        InvalidGraph: the nodes form a cycle, which the message names.
    """
    pending = {id(node) for node in nodes}
    for node in nodes:
        for value in node.reads():
            if id(value.producer) in pending:
                break
        else:
            pending.discard(id(node))
            continue
        break
    if not pending:
        return nodes
    position = {id(node): at for at, node in enumerate(nodes)}
    producers = {
        id(node): {
            id(v.producer) for v in node.reads() if v.producer is not None and id(v.producer) in position
        }
        for node in nodes
    }
    consumers: dict[int, list[int]] = {}
    waiting = {}
    for key, needs in producers.items():
        waiting[key] = len(needs)
        for need in needs:
            consumers.setdefault(need, []).append(key)
    ready = [position[key] for key, count in waiting.items() if count == 0]
    heapify(ready)
    ordered = []
    while ready:
        node = nodes[heappop(ready)]
        ordered.append(node)
        for key in consumers.get(id(node), ()):
            waiting[key] -= 1
            if waiting[key] == 0:
                heappush(ready, position[key])
    if len(ordered) < len(nodes):
        stuck = [node for node in nodes if waiting[id(node)] > 0]
        names = ", ".join(node.label for node in _cycle(stuck)[:8])
        raise InvalidGraph(f"the graph has a cycle through the nodes {names}")
    return ordered


def _cycle(stuck: list[Node]) -> list[Node]:
    """One cycle among nodes that all wait for each other."""
    inside = {id(node) for node in stuck}
    path: list[Node] = [stuck[0]]
    seen = {id(stuck[0]): 0}
    while True:
        producer = next(
            v.producer for v in path[-1].reads() if v.producer is not None and id(v.producer) in inside
        )
        if id(producer) in seen:
            return path[seen[id(producer)] :][::-1]
        seen[id(producer)] = len(path)
        path.append(producer)


def all_graphs(graph: Graph) -> Iterator[Graph]:
    """The graph's subgraphs, innermost first, then the graph."""
    for node in graph.nodes:
        for name in sorted(node.subgraphs):
            yield from all_graphs(node.subgraphs[name])
    yield graph
