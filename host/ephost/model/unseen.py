"""What of a graph inference has not seen yet.

Folding and the rules change a few nodes of a graph that inference went through before, and what models
declare adds to what it has found. Inference then goes on from there: it is given the nodes that read
something else than when it saw them last (``host/native/unseen.c`` finds them), and what their lists of
numbers are computed by.
"""

from __future__ import annotations

from ephost._bindings import call
from ephost.messages import TypeProto
from ephost.model.graph import (
    MADE_UP,
    Dim,
    Graph,
    Model,
    Node,
    TensorType,
    Value,
    names_of_dimensions,
    tensor_type,
)

_UNKNOWN = "unk__"  # how onnx's begin


def note(model: Model, nodes: list[Node]) -> None:
    """Remember what is known now of what these nodes read: inference has gone through them."""
    call.note_reads(model.seen, nodes)


def forget_readers(model: Model, value: Value) -> None:
    """Let inference go through the readers of a value again: more is known of it than its type says."""
    for node in value.consumers:
        model.seen.pop(node, None)


def unseen(model: Model, *, onward: bool) -> Graph | None:
    """The part of the model's graph that inference has to see; None where that would tell nothing new.

    Args:
        model: the model.
        onward: with all that follows in the graph, since more has been found already. Without, what follows
            is left for when more is found.
    """
    graph = model.graph
    chosen, told = call.unseen_nodes(graph.nodes, model.seen, onward)
    if not told:
        note(model, list(chosen))
        return None
    if 2 * len(chosen) > len(graph.nodes):
        return graph  # to cut a part out would take longer
    _add_lists(chosen)
    return _part(graph, [node for node in graph.nodes if node in chosen])


class NamesOfDimensions:
    """The names that onnx gives to dimensions that it does not know, unk__0 and so on, in one inference.

    It begins anew each time, and of a part of a graph does not know which ones there are: here they are
    turned into names of the whole model.
    """

    def __init__(self, model: Model, part: Graph) -> None:
        model.parts_seen += 1
        self._number = model.parts_seen
        self._part = part
        self._given: set[str] | None = None  # names that inference was given

    def of_model(self, kind: TensorType | TypeProto) -> TensorType | TypeProto:
        """A type that inference has found, with names that are the model's."""
        if not isinstance(kind, TensorType) or kind.static_dims is not None:
            return kind
        if not any(isinstance(dim, str) and dim.startswith(_UNKNOWN) for dim in kind.dims or ()):
            return kind
        return tensor_type(kind.element_type, tuple([self._name(dim) for dim in kind.dims or ()]))

    def _name(self, dim: Dim) -> Dim:
        if not isinstance(dim, str) or not dim.startswith(_UNKNOWN):
            return dim
        if self._given is None:
            self._given = names_of_dimensions(self._part)
        return dim if dim in self._given else f"{MADE_UP}{self._number}_{dim.removeprefix(_UNKNOWN)}"


def is_known(value: Value) -> bool:
    """Whether inference can find no more: element type and all dimensions are known."""
    if value.type is None:
        return False
    return not isinstance(value.type, TensorType) or (
        value.type.element_type != 0 and value.type.static_dims is not None
    )


def _may_be_list(value: Value) -> bool:
    """Whether it may be a list of numbers, or one number, which onnx propagates from node to node."""
    return not isinstance(value.type, TensorType) or value.type.dims is None or len(value.type.dims) < 2


def _add_lists(chosen: dict[Node, None]) -> None:
    """Add the nodes that compute the lists of numbers that the chosen ones read."""
    left = list(chosen)
    while left:
        for value in left.pop().reads():
            producer = value.producer
            if producer is not None and producer not in chosen and _may_be_list(value):
                chosen[producer] = None
                left.append(producer)


def _part(graph: Graph, nodes: list[Node]) -> Graph:
    """A graph of some of the nodes; what others make is an input of it."""
    values: dict[str, Value] = {}
    for node in nodes:
        values.update((value.name, value) for value in node.reads())
    inside = set(nodes)
    inputs = [
        value
        for value in values.values()
        if value.producer not in inside and not value.is_constant and value.type is not None
    ]
    for node in nodes:
        values.update((value.name, value) for value in node.outputs if value is not None)
    return Graph(graph.name, nodes, inputs, [], values)
