"""Models written as text, and what must hold of a model between the stages of the pipeline."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from ephost.model.graph import Graph, Model, Node
from ephost.model.groups import Fusing, group_interface, group_order
from ephost.model.infer import infer
from ephost.model.inline import all_graphs
from ephost.model.load import load
from ephost.reference import create_kernel


def model_of(text: str, *, opset: int = 21, inferred: bool = True) -> Model:
    """A model from onnx's text: ``g (float[2] x) => (float[2] y) { y = Relu(x) }``, functions after it."""
    imports = f'"" : {opset}, "f" : 1'
    model = load(onnx.parser.parse_model(f"<ir_version: 10, opset_import: [{imports}]> {text}"))
    if inferred:
        infer(model)
    return model


def claim(model: Model, *names: str) -> Node:
    """Let an EP called "somebody" have the nodes that make the values of these names, as one."""
    nodes = group_order(maker(model, *names))
    inputs, outputs = group_interface(nodes, False)
    proto = onnx.NodeProto(op_type="Fused", domain="somebody")
    fused = Node(
        model.new_index(), proto, "Fused", "somebody", "fused", 1, inputs, outputs, ep_name="somebody"
    )
    replace_by(model.graph, nodes, fused)
    return fused


def replace_by(graph: Graph, nodes: Sequence[Node], fused: Node) -> None:
    """Put a node in the place of others."""
    fusing = Fusing(graph)
    fusing.replace(nodes, fused)
    fusing.settle()


def maker(graph: Graph | Model, *names: str) -> list[Node]:
    """The nodes that make the values of these names."""
    graph = graph.graph if isinstance(graph, Model) else graph
    made = {v.name: node for node in graph.nodes for v in node.outputs if v is not None}
    return [made[name] for name in names]


def firsts(nodes: list[Node]) -> list[str]:
    """The name of the first output of each."""
    return [node.outputs[0].name for node in nodes if node.outputs[0] is not None]


def assert_linked(model: Model) -> None:
    """Hold that each graph is in topological order and that its links agree with each other."""
    for graph in all_graphs(model.graph):
        places = {node.index: at for at, node in enumerate(graph.nodes)}
        assert len(places) == len(graph.nodes)
        for at, node in enumerate(graph.nodes):
            for value in node.reads():
                if graph.values.get(value.name) is not value:
                    assert graph is not model.graph, (node, value)
                    continue  # an outer value: the node that has this graph reads it
                assert value.consumers[node] == sum(each is value for each in node.reads()), (node, value)
                if value.producer is not None:
                    assert places[value.producer.index] < at, (node, value)
            for number, value in enumerate(node.outputs):
                if value is not None:
                    assert (value.producer, value.producer_output) == (node, number), (node, value)
                    assert graph.values[value.name] is value
        for value in graph.values.values():
            assert value.producer is None or value.producer.index in places, value
            if value.producer is None and not value.is_input:
                assert value.initializer is not None, value
            for consumer in value.consumers:
                assert value in consumer.reads(), (value, consumer)
                inside = {n.index for part in all_graphs(graph) for n in part.nodes}
                assert consumer.index in inside, (value, consumer)
        for value in graph.outputs:
            assert value.is_output


def evaluate(model: Model, **feeds: np.ndarray) -> list[np.ndarray]:
    """The outputs of a model whose nodes are all ONNX's, node by node."""
    held = dict(feeds)
    graph = model.graph
    held.update({v.name: v.initializer for v in graph.values.values() if v.initializer is not None})
    for node in graph.nodes:
        kernel = create_kernel(node.proto, model.opsets, model.functions)
        inputs = [None if v is None else held[v.name] for v in node.inputs]
        captured = {v.name: held[v.name] for v in node.implicit_inputs}
        for value, result in zip(node.outputs, kernel(inputs, captured), strict=False):
            if value is not None:
                held[value.name] = result
    return [held[v.name] for v in graph.outputs]
