"""The in-memory model that the stages of the pipeline pass on.

Deliberately thin: a node keeps its ``NodeProto`` for attributes, and links to its values. Building it costs
about a microsecond a node, against 0.5 ms for the smallest model and 0.6 s of import time with onnx-ir, which
would be most of the time in which a small session has to open.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ephost._bindings import NULL, abi_element_type, address, c_strings, call, dtype_of, ffi
from ephost.errors import InvalidGraph
from ephost.message_helpers import make_attribute, tensor_type_proto
from ephost.messages import AttributeProto, FunctionProto, NodeProto, TensorProto, TypeProto
from ephost.onnx_schema import onnx_schema
from ephost.records import Record, made_by

if TYPE_CHECKING:
    from ephost.model.custom_op import CustomOp

NHWC_DOMAIN = "com.ms.internal.nhwc"  # of operators that were made channels last

Dim = int | str | None  # known, named, unknown
# How the names begin that inference makes up for dimensions that nobody knows: those of one name are alike.
# Neither plugins nor users see them.
MADE_UP = "#"

_WIDE = 64  # inputs from which on it is worth to remember where a node reads which value


class TensorType(call.GraphTensorType):  # type: ignore[misc]
    """Element type (``TensorProto.DataType``) and shape of a tensor. Thousands of values share a few types:
    :func:`tensor_type` gives the one object of each.

    Its fields lie in a struct of C's (``host/native/graph_objects.h``).
    """

    if not TYPE_CHECKING:
        __slots__ = ()  # mypy would look for the fields in it

    element_type: int
    dims: tuple[Dim, ...] | None  # None: unknown rank
    static_dims: tuple[int, ...] | None  # the dimensions when all are known
    _native: tuple[Any, ...] | None  # see native()

    def __init__(self, element_type: int, dims: tuple[Dim, ...] | None) -> None:
        self.element_type = element_type
        self.dims = dims
        known = None if dims is None else tuple(d for d in dims if isinstance(d, int))
        same = known is not None and dims is not None and len(known) == len(dims)
        self.static_dims = known if same else None
        self._native = None

    def native(self) -> tuple[Any, ...]:
        """The address of an ``EphostTensorType``, and what it points to; C keeps to the field."""
        if self._native is None:
            dims, symbols = NULL, NULL
            parts: list[Any] = []
            if self.dims is not None:
                dims = ffi.new("int64_t[]", [dim if isinstance(dim, int) else -1 for dim in self.dims])
                names = [dim if isinstance(dim, str) else "" for dim in told(self.dims)]
                parts = [dims]
                if any(names):
                    symbols, texts = c_strings([name.encode("utf-8", "surrogateescape") for name in names])
                    parts += [symbols, texts]
            rank = -1 if self.dims is None else len(self.dims)
            kind = ffi.new("EphostTensorType*", (abi_element_type(self.element_type), rank, dims, symbols))
            self._native = address(kind), kind, *parts
        return self._native

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorType):
            return NotImplemented
        return self is other or (self.element_type == other.element_type and self.dims == other.dims)

    def __hash__(self) -> int:
        return hash((self.element_type, self.dims))

    def __repr__(self) -> str:
        return f"TensorType({self.element_type}, {self.dims})"

    def __str__(self) -> str:
        name = TensorProto.DataType.Name(self.element_type).lower()
        if self.dims is None:
            return f"{name}[...]"
        return f"{name}[{','.join('?' if d is None else str(d) for d in self.dims)}]"


def told(dims: Iterable[Dim]) -> list[Dim]:
    """Dimensions as others are told of them: without names that inference made up."""
    return [None if isinstance(dim, str) and dim.startswith(MADE_UP) else dim for dim in dims]


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


def is_of_numbers(value: Value | None) -> bool:
    """Whether it is a tensor of numbers. Nothing else can be in a device's memory."""
    kind = None if value is None else value.type
    return isinstance(kind, TensorType) and kind.element_type != TensorProto.STRING


class External(Record):
    """The file in which an initializer's data lies; ``nbytes`` is that of the elements."""

    path: str
    offset: int
    nbytes: int
    in_model: bool = False  # the model's own file: not external data in ONNX's sense
    file_id: tuple[int, int] | None = None  # device and number of the file that was mapped; None: not told


class Value(call.GraphValue):  # type: ignore[misc]
    """A named value of a graph: an input, an initializer, or a node's output.

    Its fields lie in a struct, too, which gives them the defaults below.
    """

    if not TYPE_CHECKING:
        __slots__ = ()  # mypy would look for the fields in it

    name: str
    type: TensorType | TypeProto | None  # a TypeProto for what is no tensor
    producer: Node | None  # None
    producer_output: int  # -1
    consumers: dict[Node, int]  # and how many times each of them reads it; none
    initializer: np.ndarray | None
    external: External | None
    is_input: bool  # False
    is_output: bool  # False
    is_constant: bool  # an initializer that no caller can replace
    # The model declares another shape than inference finds: some of it stays unknown. False
    is_disputed: bool
    is_listed: bool  # the model says its type (value_info), and so does what is written of it; False
    awaits_producer: bool  # while a call of a function is replaced by the function's body; False

    def __init__(
        self,
        name: str,
        type: TensorType | TypeProto | None = None,
        *,
        initializer: np.ndarray | None = None,
        external: External | None = None,
        is_constant: bool = False,
    ) -> None:
        self.name = name
        self.type = type
        self.initializer = initializer
        self.external = external
        self.is_constant = is_constant

    def __repr__(self) -> str:
        return f"Value({self.name!r}, {self.type})"

    @property
    def only_reader(self) -> Node | None:
        """The node that reads it, if it is one alone, and once."""
        if len(self.consumers) != 1:
            return None
        ((node, times),) = self.consumers.items()
        return node if times == 1 else None

    def note_reader(self, node: Node, times: int = 1) -> None:
        """Note that a node reads it, once more or that many times; only a graph and its loader do so."""
        self.consumers[node] = self.consumers.get(node, 0) + times

    def forget_reader(self, node: Node, times: int = 1) -> None:
        """Note that a node reads it once less, or that many times."""
        left = self.consumers.get(node, 0) - times
        if left > 0:
            self.consumers[node] = left
        else:
            self.consumers.pop(node, None)

    @property
    def is_replaceable(self) -> bool:
        """Whether its readers may read another value instead. Callers know an output by its name, subgraphs
        what they capture, and EPs what the nodes read that they have claimed.
        """
        if self.is_output:
            return False
        for node in self.consumers:  # asked of thousands of values: a generator takes twice as long
            if node.ep_name or (node.implicit_inputs and node.captures(self)):
                return False
        return True


class CustomOperators(Protocol):
    """What the plugins and libraries of a session bring of operators."""

    def attach(self, model: Model, nodes: Iterable[Node]) -> None:
        """Give nodes their operators, where they are of these; InvalidGraph where nobody has it."""

    def infer(self, model: Model) -> bool:
        """Find types of what these make; whether there were any."""


class Node(call.GraphNode):  # type: ignore[misc]
    """One operator of a graph. ``index`` is its id for plugins, unique within the session.

    Its fields lie in a struct, as those of values do. ``attribute(name, default=None)``, which is C, too,
    gives an attribute's value: a number, bytes or a message, or a list of these.
    """

    if not TYPE_CHECKING:
        __slots__ = ()

    index: int
    message: NodeProto  # as it was read; names are those of its values when `proto` gives it
    op_type: str
    domain: str  # "" for ai.onnx
    name: str
    since_version: int
    inputs: list[Value | None]
    outputs: list[Value | None]
    implicit_inputs: list[Value]  # outer values that its subgraphs read; none
    _captured: tuple[list[Value], frozenset[Value]] | None  # these, and what they are as a set; None
    subgraphs: dict[str, Graph]  # none
    ep_name: str  # who claimed it
    from_layout: bool  # it was put there to make an operator channels last; False
    is_hosts: bool  # no plugin is offered it: the ABI cannot tell its attributes; False
    left_to_host: bool  # nobody claimed it while it was on offer; False
    custom: CustomOp | None  # the operator, when a plugin or a library brought it; None
    is_edited: bool  # its message says something else than it does; False

    def __init__(
        self,
        index: int,
        message: NodeProto,
        op_type: str,
        domain: str,
        name: str,
        since_version: int,
        inputs: list[Value | None],
        outputs: list[Value | None],
        ep_name: str = "",
    ) -> None:
        self.index = index
        self.message = message
        self.op_type = op_type
        self.domain = domain
        self.name = name
        self.since_version = since_version
        self.inputs = inputs
        self.outputs = outputs
        self.ep_name = ep_name

    def __repr__(self) -> str:
        return f"Node({self.index}, {self.label})"

    @property
    def proto(self) -> NodeProto:
        """The node as ONNX's message. Attributes are kept there; all else is the node's own."""
        message = self.message
        if self.is_edited:
            message.input = ["" if value is None else value.name for value in self.inputs]
            message.output = ["" if value is None else value.name for value in self.outputs]
            message.name, message.op_type, message.domain = self.name, self.op_type, self.domain
            self.is_edited = False
        return message

    def attributes_key(self) -> tuple[bytes, ...]:
        """What is equal where the attributes are."""
        attributes = self.message.attribute
        if len(attributes) > 1:
            attributes = sorted(attributes, key=lambda attribute: attribute.name)
        return tuple([attribute.SerializeToString() for attribute in attributes])

    @property
    def label(self) -> str:
        """What an error calls the node: its name and operator."""
        kind = f"{self.domain}.{self.op_type}" if self.domain else self.op_type
        return f"'{self.name}' ({kind})" if self.name else f"#{self.index} ({kind})"

    def reads_all(self) -> Sequence[Value | None]:
        """Its inputs, None for those left out, then what its subgraphs read."""
        return [*self.inputs, *self.implicit_inputs] if self.implicit_inputs else self.inputs

    def reads(self) -> Sequence[Value]:
        """Every value that it needs, those of its subgraphs included; not to be changed."""
        if None in self.inputs or self.implicit_inputs:
            return [value for value in self.inputs if value is not None] + self.implicit_inputs
        return self.inputs  # type: ignore[return-value]

    def captures(self, value: Value) -> bool:
        """Whether a subgraph of it reads a value of around."""
        if not self.implicit_inputs:
            return False
        if self._captured is None or self._captured[0] is not self.implicit_inputs:
            self._captured = self.implicit_inputs, frozenset(self.implicit_inputs)
        return value in self._captured[1]

    def let_go(self) -> None:
        """Let go of its values and subgraphs: see :meth:`Graph.let_go`."""
        self.inputs, self.outputs, self.implicit_inputs, self._captured = [], [], [], None
        for body in self.subgraphs.values():
            body.let_go()

    @property
    def has_claims(self) -> bool:
        """Whether an EP has claimed it, or a node of its subgraphs."""
        return bool(self.ep_name) or any(
            node.has_claims for graph in self.subgraphs.values() for node in graph.nodes
        )


call.set_graph_classes(Node, Value)


class Graph(Record):
    """A graph, in topological order."""

    name: str
    nodes: list[Node]
    inputs: list[Value]
    outputs: list[Value]
    values: dict[str, Value]
    parent: Node | None = None
    dropped: set[int] = made_by(
        default_factory=set
    )  # indices of nodes that have gone, but are still in the list
    names_made: int = 0
    # Where nodes of many inputs read each of their values, once that was asked.
    wide: dict[Node, dict[Value, list[int]]] = made_by(default_factory=dict)

    @property
    def initializers(self) -> list[Value]:
        """Its values with data, constant or not."""
        return [value for value in self.values.values() if value.initializer is not None]

    def owns(self, value: Value | None) -> bool:
        """Whether the value is this graph's, and not one of a graph around it or one that has gone."""
        return value is not None and self.values.get(value.name) is value

    def let_go(self) -> None:
        """Cut the circles of nodes, values and subgraphs, which is the end of the graph: each goes with its
        last reference from then on, weights among them, and not when Python comes to look for circles.
        """
        for node in self.nodes:
            node.let_go()
        self.parent = None

    # ---- editing: nothing else changes nodes and the links between nodes and values ----

    def new_value(self, like: str, kind: TensorType | TypeProto | None = None) -> Value:
        """A value of its own, named after another one."""
        name = like
        while name in self.values:
            self.names_made += 1
            name = f"{like}_{self.names_made}"
        value = self.values[name] = Value(name, kind)
        return value

    def new_constant(self, like: str, array: np.ndarray, element_type: int) -> Value:
        """A constant of its own, named after another value."""
        value = self.new_value(like, tensor_type(element_type, array.shape))
        value.initializer = np.ascontiguousarray(array).reshape(array.shape)
        value.is_constant = True
        return value

    def make_constant(self, value: Value, array: np.ndarray, element_type: int) -> None:
        """Let a value be a constant instead of what a node makes."""
        value.producer, value.producer_output = None, -1
        value.initializer = array
        value.is_constant = True
        value.type = tensor_type(element_type, array.shape)

    def attach(self, node: Node) -> None:
        """Link a node to the values of this graph that it reads, and to those that it makes."""
        for value in node.reads():
            if self.owns(value):
                value.note_reader(node)
        for at, out in enumerate(node.outputs):
            if out is not None:
                out.producer, out.producer_output = node, at

    def detach(self, node: Node, *, awaiting: bool = False) -> None:
        """Unlink a node from its values; ``awaiting``: another one is going to make its outputs."""
        for value in node.reads():
            value.consumers.pop(node, None)
        self.wide.pop(node, None)
        for out in node.outputs:
            if out is not None and out.producer is node:
                out.producer, out.producer_output, out.awaits_producer = None, -1, awaiting

    def append(self, node: Node) -> None:
        """Add a node at the end: :meth:`sort` finds its place."""
        self.attach(node)
        self.nodes.append(node)

    def set_inputs(self, node: Node, values: Sequence[Value | None]) -> None:
        """Let a node read these instead of what it reads."""
        for value in node.inputs:
            if value is not None:
                value.forget_reader(node)
        node.inputs = list(values)
        node.is_edited = True
        self.wide.pop(node, None)
        for value in values:
            if value is not None and self.owns(value):
                value.note_reader(node)

    def set_input(self, node: Node, at: int, value: Value) -> None:
        """Let a node read a value in one place instead of what it reads there."""
        before = node.inputs[at]
        if before is not None:
            before.forget_reader(node)
        node.inputs[at] = value
        node.is_edited = True
        self.wide.pop(node, None)
        if self.owns(value):
            value.note_reader(node)

    def set_output(self, node: Node, at: int, value: Value) -> None:
        """Let a node make a value in the place of the one that it makes, which nobody makes from then on."""
        before = node.outputs[at]
        if before is not None and before.producer is node:
            before.producer, before.producer_output = None, -1
        node.outputs[at] = value
        node.is_edited = True
        value.producer, value.producer_output = node, at

    def read_instead(self, old: Value, new: Value) -> None:
        """Let the readers of one value read another one; see :attr:`Value.is_replaceable`."""
        if new is old:
            return
        for reader in list(old.consumers):
            places = self._take_places(reader, old)
            if not places:
                continue  # a body of it reads the value
            for at in places:
                reader.inputs[at] = new
            reader.is_edited = True
            if reader in self.wide:
                self.wide[reader].setdefault(new, []).extend(places)
            old.forget_reader(reader, len(places))
            if self.owns(new):
                new.note_reader(reader, len(places))

    def _take_places(self, node: Node, value: Value) -> list[int]:
        """Where a node reads a value, which is going to be another one there. A node of many inputs is asked
        for one of them after the other, so that is not to cost as much as it has inputs.
        """
        if len(node.inputs) < _WIDE:
            return [at for at, each in enumerate(node.inputs) if each is value]
        places = self.wide.get(node)
        if places is None:
            places = self.wide[node] = {}
            for at, each in enumerate(node.inputs):
                if each is not None:
                    places.setdefault(each, []).append(at)
        return places.pop(value, [])

    def set_operator(self, node: Node, op_type: str, domain: str, version: int) -> None:
        """Make a node one of another operator; inputs, outputs and attributes stay."""
        node.op_type, node.domain, node.since_version = op_type, domain, version
        node.is_edited = True

    def rename_node(self, node: Node, name: str) -> None:
        """Give a node another name."""
        node.name = name
        node.is_edited = True

    def set_attributes(self, node: Node, attributes: Iterable[AttributeProto]) -> None:
        """Give a node these attributes and no others."""
        node.message.attribute = list(attributes)

    def set_attribute(self, node: Node, name: str, value: Any) -> None:
        """Give a node an attribute another value; None: take it away."""
        kept = [a for a in node.message.attribute if a.name != name]
        if value is not None:
            kept.append(make_attribute(name, value))
        self.set_attributes(node, kept)

    def drop(self, node: Node) -> None:
        """Take a node out, with the values that only it made; :meth:`sweep` takes it off the list."""
        self.dropped.add(node.index)
        self.detach(node)
        for out in node.outputs:
            if out is not None and out.producer is None and not (out.consumers or out.is_output):
                self.remove_value(out)

    def sweep(self) -> None:
        """Take dropped nodes off the list, all at once."""
        if self.dropped:
            self.nodes = [node for node in self.nodes if node.index not in self.dropped]
            self.dropped = set()

    def remove_value(self, value: Value) -> None:
        """Forget a value that nobody reads or makes."""
        if self.owns(value):
            del self.values[value.name]

    def remove_inputs(self, values: Collection[Value]) -> None:
        """Forget inputs of the graph that nobody reads."""
        for value in values:
            self.remove_value(value)
        self.inputs = [value for value in self.inputs if self.owns(value)]

    def remove_if_unread(self, value: Value) -> bool:
        """Forget a constant when nobody reads it any more."""
        if value.initializer is None or value.consumers or value.is_input or value.is_output:
            return False
        self.remove_value(value)
        return True

    def restore_value(self, value: Value) -> None:
        """Take back a value that was forgotten."""
        self.values[value.name] = value

    def forget_captured(self, node: Node) -> None:
        """Let a node read no more of the values around it than its subgraphs do by now, of which branches
        may have gone.
        """
        read = {id(value) for body in node.subgraphs.values() for value in captured_values(body)}
        gone = [value for value in node.implicit_inputs if id(value) not in read]
        if gone:
            node.implicit_inputs = [value for value in node.implicit_inputs if id(value) in read]
            for value in filter(self.owns, gone):
                value.forget_reader(node)

    def sort(self) -> None:
        """Bring the nodes into topological order."""
        self.nodes = topological_order(self.nodes)


class Substituting:
    """Puts nodes in the place of others of a graph, one time after the other.

    Each costs what these nodes do: the graph's list of nodes is brought up to date by :meth:`settle`, once
    for all, and until then nobody is to read it.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._put: dict[int, Node] = {}

    @cached_property
    def _places(self) -> dict[int, tuple[int, ...]]:
        """Where nodes stand, by index, in the order of these: new ones at the old one's and a number."""
        return {node.index: (at,) for at, node in enumerate(self._graph.nodes)}

    def has(self, index: int) -> bool:
        """Whether the graph has a node of that index by now."""
        return index in self._places

    def put(self, new: Sequence[Node], old: Collection[int]) -> None:
        """Put nodes, in order, in the place of others, by index, of which the first says where."""
        place = min(self._places.pop(index) for index in old)
        for at, node in enumerate(new):
            self._places[node.index] = (*place, at)
            self._put[node.index] = node

    def settle(self) -> None:
        """Bring the graph's list of nodes up to date, in topological order.

        Raises:
            InvalidGraph: the nodes form a cycle.
        """
        if "_places" in self.__dict__:
            nodes = {node.index: node for node in self._graph.nodes} | self._put
            order = sorted(self._places, key=self._places.__getitem__)
            self._graph.nodes = topological_order([nodes[index] for index in order])
            self._put = {}
            del self._places


class Model(Record):
    """A model being prepared for a session."""

    graph: Graph
    opsets: dict[str, int]
    ir_version: int
    functions: dict[tuple[str, str, str], FunctionProto]  # by domain, name, overload
    path: str | None  # absolute; None for a model from memory
    metadata: Metadata
    is_mapped: bool = False  # raw data that is a view lies in its file
    next_index: int = 0
    custom_ops: CustomOperators | None = None  # once it is known who the session's plugins are
    unknown: list[Node] = made_by(default_factory=list)  # nodes that are to be theirs, or are wrong
    sparse_outputs: frozenset[str] = frozenset()  # that callers get as sparse tensors; here they are dense
    # For ephost.model.unseen alone: how many times inference has gone through the graph or a part of it, and
    # what it knew of what each node reads when it went through that last.
    parts_seen: int = 0
    seen: dict[Node, tuple[Any, ...]] = made_by(default_factory=dict)

    def new_index(self) -> int:
        """An id for a new node."""
        self.next_index += 1
        return self.next_index - 1


NO_VERSION = 2**63 - 1  # of a model that names none, in onnxruntime's words


class Metadata(Record, frozen=True):
    """What a model says of itself."""

    producer_name: str
    producer_version: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom: dict[str, str]


def permutation_of(node: Node) -> list[int] | None:
    """The permutation of a Transpose; None where it is not known."""
    given = node.attribute("perm")
    if given is not None:
        return list(given)
    kind = node.inputs[0].type if node.inputs[0] is not None else None
    return (
        list(range(len(kind.dims)))[::-1] if isinstance(kind, TensorType) and kind.dims is not None else None
    )


def schema_of(op_type: str, domain: str, opset: int) -> Any:
    """What onnx knows of the operator of a node. What is channels last has that of ONNX's operator, but for
    the shapes.
    """
    return onnx_schema(op_type, "" if domain == NHWC_DOMAIN else domain, opset)


@cache
def since_version(op_type: str, domain: str, opset: int) -> int:
    """The opset version in which the operator got its present meaning; ``opset`` where that is not known."""
    schema = schema_of(op_type, domain, opset)
    return int(schema.since_version) if schema else opset


def topological_order(nodes: list[Node]) -> list[Node]:
    """The nodes with producers before consumers, otherwise in the order given.

    Raises:
        InvalidGraph: the nodes form a cycle, which the message names.
    """
    if call.is_ordered(nodes):
        return nodes
    from heapq import heapify, heappop, heappush

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


@cache
def type_proto(element_type: int, dims: tuple[Dim, ...] | None) -> TypeProto:
    """A tensor's TypeProto: one for all who ask, and not to be changed."""
    return tensor_type_proto(element_type, dims)


def captured_values(graph: Graph) -> list[Value]:
    """The values of outer graphs that a subgraph, or one nested in it, reads."""
    found: dict[int, Value] = {}
    for node in graph.nodes:
        for value in node.reads():
            if graph.values.get(value.name) is not value:
                found.setdefault(id(value), value)
    for value in graph.outputs:
        if graph.values.get(value.name) is not value:
            found.setdefault(id(value), value)
    return list(found.values())


def all_graphs(graph: Graph) -> Iterator[Graph]:
    """The graph's subgraphs, innermost first, then the graph."""
    for node in graph.nodes:
        if node.subgraphs:
            for name in sorted(node.subgraphs):
                yield from all_graphs(node.subgraphs[name])
    yield graph


def names_of_dimensions(graph: Graph) -> set[str]:
    """The names that dimensions of the graph's values have, and of those in its subgraphs."""
    values = (value for part in all_graphs(graph) for value in part.values.values())
    kinds = (value.type for value in values if isinstance(value.type, TensorType))
    return {name for kind in kinds for name in kind.dims or () if isinstance(name, str)}
