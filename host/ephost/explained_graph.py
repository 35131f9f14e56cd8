"""The graphs of an opened model as an explanation tells them: nodes, and the values between them.

There is one for the model's graph and one for each body of an If, Loop or Scan. Nodes in fused groups are
told one by one, and in the place of a call of a function, of which a plugin took a part, stands its body.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ephost.feeds import type_text
from ephost.model.graph import Node, TensorType, Value, tensor_bytes
from ephost.model.planning.steps import Plan


@dataclass(frozen=True)
class ExplainedNode:
    """A node of the model, with the index that plugins know it by."""

    index: int
    name: str
    domain: str  # "" for ai.onnx
    op_type: str

    @property
    def operator(self) -> str:
        """The operator with its domain, if that is not ONNX's own."""
        return f"{self.domain}.{self.op_type}" if self.domain else self.op_type

    @property
    def label(self) -> str:
        """Its name, or its index when it has none."""
        return self.name or f"#{self.index}"


@dataclass(frozen=True)
class ExplainedValue:
    """A value of a graph; ``bytes`` is None where its shape is unknown."""

    name: str
    type: str
    bytes: int | None
    producer: int | None  # the index of the node that makes it; None: it comes from outside, or is a constant
    consumers: tuple[int, ...]  # indices of the nodes that read it, bodies of theirs included
    is_constant: bool
    is_output: bool


@dataclass(frozen=True)
class ExplainedGraph:
    """A graph: the model's own, or a body of one of its nodes."""

    name: str  # the attribute that holds it; "" for the model's own
    owner: int | None  # the index of the node that runs it
    partitions: tuple[int, ...]  # places of those that are its own; none where its owner's EP runs all of it
    nodes: tuple[ExplainedNode, ...]  # in the order of execution
    values: tuple[ExplainedValue, ...]


def explained_node(node: Node) -> ExplainedNode:
    """What is told of a node."""
    return ExplainedNode(node.index, node.name, node.domain, node.op_type)


def value_type(value: Value) -> str:
    """A value's type as people read it."""
    return str(value.type) if isinstance(value.type, TensorType) else type_text(value.type)


def constant_bytes(value: Value) -> int | None:
    """Bytes of a constant's data."""
    if value.initializer is None:  # freed, since kernels have it in a form of their own
        return tensor_bytes(value.type)
    return int(value.initializer.nbytes)


def explained_graphs(plan: Plan, places: Mapping[int, Sequence[int]]) -> Iterator[ExplainedGraph]:
    """The graph of a plan, then the bodies of its nodes, each before those inside it.

    Args:
        plan: of the session.
        places: of each plan, by ``id``, the places of its partitions.
    """
    yield from _of_plan(plan, places, "", None)


def _of_plan(
    plan: Plan, places: Mapping[int, Sequence[int]], name: str, owner: Node | None
) -> Iterator[ExplainedGraph]:
    nodes = [node for step in plan.steps for node in step.members]
    yield _graph(nodes, plan.inputs, plan.outputs, name, owner, tuple(places[id(plan)]))
    planned = {step.node.index: body for body in plan.bodies for step in body.steps}
    yield from _bodies(nodes, places, planned)


def _bodies(
    nodes: Iterable[Node], places: Mapping[int, Sequence[int]], planned: Mapping[int, Plan]
) -> Iterator[ExplainedGraph]:
    for node in nodes:
        for name, body in node.subgraphs.items():
            plan = next((planned[each.index] for each in body.nodes if each.index in planned), None)
            if plan is not None:
                yield from _of_plan(plan, places, name, node)
            else:
                yield _graph(body.nodes, body.inputs, body.outputs, name, node, ())
                yield from _bodies(body.nodes, places, {})


@dataclass
class _Links:
    """Who makes a value, and who reads it."""

    value: Value
    producer: int | None = None
    consumers: dict[int, None] = field(default_factory=dict)


def _graph(
    nodes: Sequence[Node],
    inputs: Iterable[Value],
    outputs: Iterable[Value],
    name: str,
    owner: Node | None,
    partitions: tuple[int, ...],
) -> ExplainedGraph:
    # By name, which is unique in a graph: a fused node and its members need not share the objects.
    links: dict[str, _Links] = {}
    for value in inputs:
        links.setdefault(value.name, _Links(value))
    for node in nodes:
        for value in node.reads():
            links.setdefault(value.name, _Links(value)).consumers[node.index] = None
        for made in node.outputs:
            if made is not None:
                links.setdefault(made.name, _Links(made)).producer = node.index
    given = {value.name for value in outputs}
    for value in outputs:
        links.setdefault(value.name, _Links(value))
    return ExplainedGraph(
        name=name,
        owner=None if owner is None else owner.index,
        partitions=partitions,
        nodes=tuple(map(explained_node, nodes)),
        values=tuple(_value(each, each.value.name in given) for each in links.values()),
    )


def _value(links: _Links, is_output: bool) -> ExplainedValue:
    value = links.value
    is_constant = value.is_constant and links.producer is None
    return ExplainedValue(
        name=value.name,
        type=value_type(value),
        bytes=constant_bytes(value) if is_constant else tensor_bytes(value.type),
        producer=links.producer,
        consumers=tuple(links.consumers),
        is_constant=is_constant,
        is_output=is_output,
    )
