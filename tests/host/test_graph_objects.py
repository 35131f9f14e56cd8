"""Nodes and values as C has them, and how C makes them of messages."""

from __future__ import annotations

import gc
import weakref
from array import array
from types import MemberDescriptorType
from typing import Any

import pytest
from ephost._bindings import call
from ephost.message_helpers import make_attribute
from ephost.messages import AttributeProto, GraphProto, NodeProto, TensorProto
from ephost.model.graph import Node, TensorType, Value
from ephost.model.native_graph import Constants, NativeGraph
from graphs import model_of

RELU = {"": {"Relu": ("", 14, 1, 1, 1, 1)}}


class Shown(Value):
    """One that can be referred to weakly."""


def fields(kind: type) -> set[str]:
    return {name for name, what in vars(kind).items() if isinstance(what, MemberDescriptorType)}


def test_the_classes_say_what_the_structs_have() -> None:
    assert fields(call.GraphNode) == set(Node.__annotations__)
    assert fields(call.GraphValue) == set(Value.__annotations__)
    assert fields(call.GraphTensorType) == set(TensorType.__annotations__)


def test_attributes_are_found_by_their_names() -> None:
    many = array("q", range(5000))
    attributes = [
        make_attribute("number", 3),
        make_attribute("text", "a"),
        AttributeProto(name="many", type=AttributeProto.INTS, ints=many),
        make_attribute("floats", [0.5, 2.0]),
        make_attribute("tensor", TensorProto(name="t")),
        AttributeProto(name="none"),
        AttributeProto(name="of_call", type=AttributeProto.INT, ref_attr_name="outer"),
        make_attribute("number", 4),
    ]
    node = Node(0, NodeProto(attribute=attributes), "Op", "", "", 1, [], [])
    assert [node.attribute(name) for name in ("number", "text", "floats")] == [3, b"a", [0.5, 2.0]]
    assert node.attribute("many") == list(range(5000))
    assert node.attribute("tensor") is attributes[4].t
    assert (node.attribute("other"), node.attribute("other", 7), node.attribute("num" + "ber", 7)) == (
        None,
        7,
        3,
    )
    for name, why in (
        ("none", "'none' has no type"),
        ("of_call", "'of_call' stands for one of a function's"),
    ):
        with pytest.raises(ValueError, match=why):
            node.attribute(name)
    with pytest.raises(TypeError):
        node.attribute(1)


def test_fields_have_defaults_of_their_own() -> None:
    nodes = [Node(at, NodeProto(), "Op", "", "", 1, [], []) for at in range(2)]
    nodes[0].implicit_inputs.append(Value("a"))
    nodes[0].subgraphs["body"] = None  # type: ignore[assignment]
    other = nodes[1]
    assert (other.implicit_inputs, other.subgraphs, other.ep_name, other.custom) == ([], {}, "", None)
    assert not (other.from_layout or other.is_hosts or other.left_to_host or other.is_edited)
    value = Value("a")
    Value("b").consumers[other] = 1
    assert (value.consumers, value.producer, value.producer_output, value.type) == ({}, None, -1, None)
    assert not (value.is_input or value.is_output or value.is_disputed or value.awaits_producer)


def test_nodes_and_values_that_hold_each_other_go_together() -> None:
    value = Shown("a")
    value.producer = Node(0, NodeProto(), "Op", "", "", 1, [], [value])
    held = weakref.ref(value)
    del value
    gc.collect()
    assert held() is None


def test_other_classes_are_refused() -> None:
    for classes in ((Value, Value), (Node, object), (Node, 1), (None, Value)):
        with pytest.raises(TypeError):
            call.set_graph_classes(*classes)


@pytest.mark.parametrize("name", ["index", "inputs", "message", "name"])
def test_a_field_that_was_deleted_is_missed(name: str) -> None:
    model = model_of("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    (node,) = model.graph.nodes
    delattr(node, name)
    with pytest.raises((AttributeError, TypeError), match=name):
        getattr(node, name)
    with pytest.raises((AttributeError, TypeError)):
        NativeGraph(model, model.graph, Constants())


def made_of(*messages: NodeProto, values: dict[str, Any] | None = None) -> tuple[list[Node], list, list]:
    """The nodes of messages, those with graphs or tensors, and those that were to be checked."""
    checked: list[Node] = []
    values = {} if values is None else values
    nodes, carriers = call.make_nodes(
        list(messages), values, 7, RELU, dict.__getitem__, None, values.__getitem__, checked.append
    )
    return nodes, carriers, checked


def test_nodes_are_made_with_what_they_make() -> None:
    values: dict[str, Any] = {"there": Value("there")}
    there = values["there"]
    first = NodeProto(op_type="Relu", name="n", input=["x"], output=["a"])
    second = NodeProto(op_type="Relu", input=["a"], output=["there"])
    nodes, _, checked = made_of(first, second, values=values)
    assert [type(node) for node in nodes] == [Node, Node] and not checked
    assert [(n.index, n.name, n.op_type, n.domain, n.since_version) for n in nodes] == [
        (7, "n", "Relu", "", 14),
        (8, "", "Relu", "", 14),
    ]
    assert [node.message for node in nodes] == [first, second] and nodes[0].message is first
    assert [node.inputs for node in nodes] == [[], []]
    assert nodes[0].outputs == [values["a"]] and nodes[1].outputs == [there]
    assert type(values["a"]) is Value and values["a"].name == "a"
    assert (there.producer, there.producer_output, values["a"].producer) == (nodes[1], 0, nodes[0])


def test_what_is_not_plain_is_checked() -> None:
    body = make_attribute("body", GraphProto(name="b"))
    assert body.type == AttributeProto.GRAPH
    odd = [
        NodeProto(op_type="Relu", input=["x"], output=["a", "b"]),
        NodeProto(op_type="Relu", input=["x", "x"], output=["c"]),
        NodeProto(op_type="Relu", input=[""], output=["d"]),
        NodeProto(op_type="Relu", input=["x"], output=["e"], attribute=[make_attribute("alpha", 1.0)]),
        NodeProto(
            op_type="Relu", input=["x"], output=["g"], attribute=[make_attribute("value", TensorProto())]
        ),
        NodeProto(op_type="Relu", input=["x"], output=["f"], attribute=[body]),
    ]
    nodes, carriers, checked = made_of(*odd)
    assert checked == nodes and carriers == nodes[-2:]
    left_out = NodeProto(op_type="Relu", input=["x"], output=[""])
    nodes, _, checked = made_of(left_out)
    assert nodes[0].outputs == [None] and not checked


def test_what_python_says_against_a_node_ends_it() -> None:
    def refuse(*_: object) -> None:
        raise LookupError("no")

    message = NodeProto(op_type="Relu", input=["x"], output=["a", "b"])
    with pytest.raises(LookupError):
        call.make_nodes([message], {}, 0, RELU, refuse, refuse, refuse, refuse)
    with pytest.raises(LookupError):
        call.make_nodes([message], {}, 0, {}, refuse, refuse, refuse, refuse)
    with pytest.raises(LookupError):
        call.make_nodes([message], {}, 0, {"": {"Relu": None}}, refuse, refuse, refuse, refuse)
    with pytest.raises(TypeError, match="no value"):
        call.make_nodes([message], {"a": 1}, 0, RELU, refuse, refuse, lambda name: name, refuse)
    with pytest.raises(TypeError):
        call.make_nodes([message], {}, 0, {"": {"Relu": ("", 14)}}, refuse, refuse, refuse, refuse)
