"""The walk over a graph, and over the branches of its Ifs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from ephost._bindings import call
from ephost.errors import InvalidGraph
from ephost.messages import TensorProto, TypeProto
from ephost.model.graph import MADE_UP, Dim, Graph, Node, TensorType, Value, names_of_dimensions, tensor_type
from ephost.model.type_rules.registry import (
    ELEMENTWISE,
    LONGEST,
    ML_DOMAIN,
    OF_FIRST,
    RULES,
    Knowledge,
    List,
    Made,
    Rule,
    Types,
    UnknownRank,
    Unsure,
)

_ELEMENT_TYPES = frozenset(TensorProto.DataType.values()) - {0}
_INTEGERS = (TensorProto.INT32, TensorProto.INT64)
_KNOWN = ELEMENTWISE, _ELEMENT_TYPES, tensor_type


def find_types(graph: Graph, whole: Graph) -> Mapping[Value, TensorType | TypeProto] | None:
    """The types of all that the nodes of a graph make, and of what the branches of its Ifs make.

    Args:
        graph: of which the inputs and constants have types. Nothing of it is changed.
        whole: the graph that it is a part of, or the same: names of dimensions in there are taken.

    Returns:
        None where a node's operator has no rule, or the rule is not sure.

    Raises:
        InvalidGraph: a node makes what no number counts.
    """
    finder = _Finder(whole)
    try:
        finder.find(graph)
    except Unsure:
        return None
    return finder.found


@cache
def _propagation() -> Callable[[Node, Types, TensorType, Knowledge], List | None]:
    """What propagates lists, once all rules are there. A graph of elementwise nodes does without both."""
    # Each of these has put its rules into RULES by then.
    from ephost.model.type_rules import elementwise, learned, movement, products, reductions, windows  # noqa: F401
    from ephost.model.type_rules.lists import propagated

    return propagated


def _rule_of(node: Node) -> Rule | None:
    """The rule of a node's operator; None if there is none."""
    if node.domain not in ("", ML_DOMAIN) or node.custom is not None or node.subgraphs:
        return None
    _propagation()
    since, found = RULES.get(f"{node.domain}.{node.op_type}" if node.domain else node.op_type, (0, None))
    return found if node.since_version >= since else None


class _Finder:
    """What is found on the way."""

    def __init__(self, whole: Graph) -> None:
        self.found: dict[Value, TensorType | TypeProto] = {}
        self.lists: dict[Value, List | None] = {}
        self._whole = whole
        self._names: set[str] | None = None  # of dimensions; collected when there is one to make up
        self._made_up = 0

    def find(self, graph: Graph) -> None:
        """Go through a graph's nodes.

        Raises:
            Unsure: a rule is not.
            InvalidGraph: a node makes what no number counts.
        """
        if not call.find_types(graph.nodes, self.found, self, _KNOWN):
            raise Unsure

    # ---- what the walk, which is C, asks: host/native/type_rules.c ----

    def made(self, node: Node, types: Types) -> Made:
        """The types of what a node makes that is not elementwise."""
        return self._of_branches(node) if node.op_type == "If" else self._by_rule(node, types)

    def settled(self, value: Value, kind: TensorType) -> TensorType:
        """With what is known of the value before, and names for the dimensions that nobody knows."""
        before = value.type
        if before is not None:
            if not isinstance(before, TensorType):
                raise Unsure
            if value.is_disputed:
                return before
            if before.element_type not in (0, kind.element_type):
                raise Unsure
            if kind.dims is None:
                return tensor_type(kind.element_type, before.dims)
            if before.dims is not None:
                if len(before.dims) != len(kind.dims):
                    raise Unsure
                dims = tuple(
                    old if isinstance(old, int) or (old is not None and not isinstance(new, int)) else new
                    for old, new in zip(before.dims, kind.dims, strict=True)
                )
                kind = tensor_type(kind.element_type, dims)
        if kind.dims is None or None not in kind.dims:
            return kind
        named = tuple([self._new_name() if dim is None else dim for dim in kind.dims])
        return tensor_type(kind.element_type, named)

    def list_of(self, node: Node, types: Types, value: Value, kind: TensorType) -> None:
        """Note the numbers of an output that may be a list of such."""
        self.lists[value] = _propagation()(node, types, kind, self)

    def refuse_size(self, node: Node, value: Value, kind: TensorType) -> None:
        """Say that an output is too large."""
        raise InvalidGraph(
            f"the output '{value.name}' of node {node.label} would be {kind}: 64 bits do not hold a dimension"
        )

    def _by_rule(self, node: Node, types: Types) -> Made:
        rule = _rule_of(node)
        if rule is None:
            raise Unsure
        try:
            return rule(node, types, self)
        except UnknownRank:
            first = types[0] if types else None
            if first is None or node.op_type not in OF_FIRST:
                raise
            return [tensor_type(first.element_type, None)] * len(node.outputs)

    def type_of(self, value: Value) -> TensorType:
        """The type of a value, which may have been found or be known.

        Raises:
            Unsure: it is not known, or no tensor's.
        """
        kind = self.found.get(value, value.type)
        if not isinstance(kind, TensorType) or kind.element_type not in _ELEMENT_TYPES:
            raise Unsure
        return kind

    def numbers(self, value: Value | None) -> List | None:
        """See Knowledge."""
        if value is None:
            raise Unsure
        if value not in self.lists:
            self.lists[value] = _constant_list(value)
        return self.lists[value]

    def _new_name(self) -> str:
        if self._names is None:
            self._names = names_of_dimensions(self._whole)
        while (name := f"{MADE_UP}{self._made_up}") in self._names:
            self._made_up += 1
        self._made_up += 1
        return name

    def _of_branches(self, node: Node) -> Types:
        """What an If makes: what its branches have in common."""
        bodies = [node.subgraphs.get(name) for name in ("then_branch", "else_branch")]
        made = []
        for body in bodies:
            if body is None or body.inputs or len(body.outputs) != len(node.outputs):
                raise Unsure
            self.find(body)
            made.append([self.type_of(value) for value in body.outputs])
        return [self._common(one, other) for one, other in zip(*made, strict=True)]

    @staticmethod
    def _common(one: TensorType, other: TensorType) -> TensorType:
        if one is other:
            return one
        if one.element_type != other.element_type:
            raise Unsure
        if one.dims is None or other.dims is None or len(one.dims) != len(other.dims):
            return tensor_type(one.element_type, None)
        dims: list[Dim] = [a if a == b else None for a, b in zip(one.dims, other.dims, strict=True)]
        return tensor_type(one.element_type, tuple(dims))


def _constant_list(value: Value) -> List | None:
    array = value.initializer
    if array is None or not value.is_constant or array.ndim > 1 or array.size > LONGEST:
        return None
    kind = value.type
    if not isinstance(kind, TensorType) or kind.element_type not in _INTEGERS:
        return None
    return tuple(array.reshape(-1).tolist())
