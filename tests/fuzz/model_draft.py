"""A model on its way to a case of the models' fuzzer: where its parts are, and what is drawn for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import onnx
from onnx import AttributeProto

from tests.fuzz.hostile import Hostile

NAMES = ["", "x", "y", "w", "a\0b", "\U0001f600", "n" * 200, "nowhere", "../x", "0", "%s%n", "<&\"'>"]


@dataclasses.dataclass
class Place:
    """A graph, a body or a function's body, with what is around it."""

    nodes: Any
    inputs: Any  # of ValueInfoProto, or of names for a function
    outputs: Any
    graph: onnx.GraphProto | None  # None for a function
    outer: list[Place]
    function: onnx.FunctionProto | None = None

    def given(self) -> list[str]:
        """The names of its inputs and weights."""
        names = [each if isinstance(each, str) else each.name for each in self.inputs]
        if self.graph is not None:
            names += [tensor.name for tensor in self.graph.initializer]
            names += [tensor.values.name for tensor in self.graph.sparse_initializer]
        return names

    def made(self) -> list[str]:
        """What its nodes make."""
        return [name for node in self.nodes for name in node.output if name]

    def names(self) -> list[str]:
        """All that a node in it may read."""
        return [*self.given(), *self.made(), *(name for place in self.outer for name in place.names())]


class Draft(Hostile):
    """A model that changes are made to."""

    def __init__(
        self, random: Random, model: onnx.ModelProto, feeds: dict[str, Any], files: dict[str, bytes]
    ):
        super().__init__(random)
        self.model = model
        self.feeds = feeds
        self.files = files
        self.changes: list[str] = []

    def apply(self, changes: list[tuple[int, Callable[[Draft], str]]]) -> None:
        """One change of a table with weights, if it finds something to do."""
        (change,) = self.random.choices([c for _, c in changes], [weight for weight, _ in changes])
        if said := change(self):
            self.changes.append(said)

    def places(self) -> list[Place]:
        """The graph, all bodies and all functions."""
        graph = self.model.graph
        found = list(_inside(Place(graph.node, graph.input, graph.output, graph, [])))
        for function in self.model.functions:
            place = Place(function.node, function.input, function.output, None, [], function)
            found += _inside(place)
        return found

    def place(self, inner: float = 0.4) -> Place:
        """One of them; not the outermost graph with this probability, if there are others."""
        found = self.places()
        return self.random.choice(found[1:]) if len(found) > 1 and self.random.random() < inner else found[0]

    def graph(self) -> onnx.GraphProto:
        """The graph or one of the bodies."""
        graphs = [place.graph for place in self.places() if place.graph is not None]
        if len(graphs) > 1 and self.random.random() < 0.4:
            return self.random.choice(graphs[1:])
        return graphs[0]

    def node(self) -> tuple[Place, onnx.NodeProto | None]:
        """A node and where it is; None in a place without nodes."""
        place = self.place()
        return place, self.random.choice(place.nodes) if place.nodes else None

    def name(self, place: Place) -> str:
        """Of a value that there is, or of none."""
        names = place.names()
        if names and self.random.random() < 0.75:
            return str(self.random.choice(names))
        return self.random.choice(NAMES)

    def tensors(self) -> list[onnx.TensorProto]:
        """All constants: weights, and tensors of attributes."""
        found: list[onnx.TensorProto] = []
        for place in self.places():
            if place.graph is not None:
                found += place.graph.initializer
                for sparse in place.graph.sparse_initializer:
                    found += [sparse.values, sparse.indices]
            for node in place.nodes:
                for attribute in node.attribute:
                    if attribute.type == AttributeProto.TENSOR:
                        found.append(attribute.t)
        return found


def _inside(place: Place) -> Iterator[Place]:
    yield place
    for node in place.nodes:
        for graph in bodies(node):
            yield from _inside(Place(graph.node, graph.input, graph.output, graph, [place, *place.outer]))


def bodies(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs of a node's attributes."""
    found = []
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            found.append(attribute.g)
        found += attribute.graphs
    return found


def renamed(nodes: Any, names: dict[str, str]) -> None:
    """Rename values in nodes and in the bodies below them, but where a body makes one of its own."""
    for node in nodes:
        for held in (node.input, node.output):
            for at, name in enumerate(held):
                held[at] = names.get(name, name)
        for graph in bodies(node):
            own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
            own |= {name for inner in graph.node for name in inner.output}
            left = {before: after for before, after in names.items() if before not in own}
            renamed(graph.node, left)
            for info in graph.output:
                info.name = left.get(info.name, info.name)
