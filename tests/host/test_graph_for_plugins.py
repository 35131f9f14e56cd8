"""Nodes on their way to the graph that plugins read: their order, their texts, and what is left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ephost._bindings import address, call, ffi, lib, path_text, text
from ephost.message_helpers import from_array, get_attribute_value, make_attribute
from ephost.messages import AttributeProto, NodeProto
from ephost.model.graph import Graph, Model, Node, Value
from ephost.model.groups import group_interface, group_order
from ephost.model.native_graph import Constants, NativeGraph, depth_first_order, read_node
from graphs import model_of
from host_state import live_handles, with_failing_allocations
from hypothesis import given
from hypothesis import strategies as st


def in_order(nodes: list[Node]) -> list[int]:
    """The same by a walk that calls itself: from the last leaf up, the newest producer first."""
    own = {node.index: node for node in nodes}
    needs = {
        node.index: {value.producer.index for value in node.reads() if value.producer is not None}
        & own.keys()
        for node in nodes
    }
    ordered: list[int] = []

    def visit(index: int) -> None:
        if index not in ordered:
            for maker in sorted(needs[index], reverse=True):
                visit(maker)
            ordered.append(index)

    for leaf in sorted(own.keys() - set().union(*needs.values()), reverse=True):
        visit(leaf)
    return ordered


GRAPHS = given(
    st.lists(st.tuples(st.lists(st.integers(0, 30), max_size=4), st.booleans()), max_size=30),
    st.randoms(use_true_random=False),
)


def graph_of(reads: list[tuple[list[int], bool]], random: Any) -> list[Node]:
    """Nodes that read what those before them make, some in bodies, with indices that have gaps."""
    nodes: list[Node] = []
    for at, (wanted, in_body) in enumerate(reads):
        values = [nodes[source].outputs[0] for source in wanted if source < at]
        node = Node(at, NodeProto(), "Op", "", "", 1, [None] if in_body else list(values), [Value(f"v{at}")])
        if in_body:
            node.implicit_inputs = [value for value in values if value is not None]
        for value in node.reads():
            value.note_reader(node)
        (made,) = node.outputs
        assert made is not None
        made.producer = node
        nodes.append(node)
    numbers = random.sample(range(100), len(nodes))
    for node, number in zip(nodes, sorted(numbers), strict=True):
        node.index = number
    return nodes


@GRAPHS
def test_the_order_is_that_of_a_walk_from_the_last_leaf(
    reads: list[tuple[list[int], bool]], random: Any
) -> None:
    nodes = graph_of(reads, random)
    assert [node.index for node in depth_first_order(nodes)] == in_order(nodes)


def queued(nodes: list[Node]) -> list[int]:
    """The order of a group, node by node: of those that wait for none in the group, the lowest index first;
    then what they set free.
    """
    own = {node.index: node for node in nodes}
    makers = {
        node.index: {value.producer.index for value in node.reads() if value.producer is not None}
        & own.keys()
        for node in nodes
    }
    queue = sorted(index for index in own if not makers[index])
    for index in queue:
        for reader in sorted(index_ for index_ in own if index in makers[index_]):
            makers[reader].discard(index)
            if not makers[reader]:
                queue.append(reader)
    return queue


@GRAPHS
def test_a_group_has_the_order_of_a_queue_and_its_values_in_the_order_of_use(
    reads: list[tuple[list[int], bool]], random: Any
) -> None:
    nodes = graph_of(reads, random)
    for node in nodes:
        for value in node.outputs:
            assert value is not None
            value.is_output, value.is_constant = random.random() < 0.2, random.random() < 0.2
    group = random.sample(nodes, random.randint(0, len(nodes)))
    ordered = group_order(group)
    assert [node.index for node in ordered] == queued(group)
    made = [value for node in ordered for value in node.outputs]
    for drops in (False, True):
        inputs, outputs = group_interface(ordered, drops)
        read = [v for node in ordered for v in node.inputs if v] + [
            v for node in ordered for v in node.implicit_inputs
        ]
        from_outside = [v for v in read if v not in made and not (drops and v.is_constant)]
        assert inputs == list(dict.fromkeys(from_outside))
        assert outputs == [v for v in made if v and (v.is_output or set(v.consumers) - set(ordered))]


def test_groups_are_lists_of_nodes() -> None:
    assert group_order([]) == [] and group_interface([], False) == ([], [])
    for nodes in ((), [object()]):
        with pytest.raises(TypeError):
            call.group_order(nodes)
        with pytest.raises(TypeError):
            call.group_interface(nodes, False)
    node = Node(0, NodeProto(), "Op", "", "", 1, [], [Value("v")])
    (value,) = node.outputs
    assert value is not None
    value.consumers = None  # type: ignore[assignment]
    with pytest.raises(TypeError, match="consumers"):
        group_interface([node], False)


def test_the_order_is_that_of_lists_of_nodes_alone() -> None:
    assert depth_first_order([]) == []
    with pytest.raises(TypeError, match="no list"):
        call.depth_first_order(())
    with pytest.raises(TypeError, match="no node of a graph"):
        call.depth_first_order([object()])
    node = Node(0, NodeProto(), "Op", "", "", 1, [], [])
    node.inputs = ()  # type: ignore[assignment]
    with pytest.raises(TypeError, match="inputs is no list"):
        depth_first_order([node])


def shown(model: Model, graph: Graph) -> tuple[NativeGraph, Any]:
    native = NativeGraph(model, graph, Constants())
    return native, native.pointer_of(graph.nodes[0])


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("plain", "plain"),
        ("grün", "grün"),
        ("a\0b", "a\ufffdb"),
        ("\udcff", "\\xff"),
        ("\udcff\0", "\\xff\ufffd"),
    ],
)
def test_a_name_comes_as_utf_8_without_a_nul_and_with_the_bytes_that_it_had(name: str, seen: str) -> None:
    model = model_of("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    model.graph.rename_node(model.graph.nodes[0], name)
    native, pointer = shown(model, model.graph)
    assert text(lib.ephost_node_name(pointer)) == seen
    native.release()


def test_what_is_left_out_at_the_end_is_not_shown() -> None:
    model = model_of(
        "g (float[1, 1, 2, 2] x, float[4] s) => (float[1, 1, 4, 4] y) { y = Resize(x, , s) }", inferred=False
    )
    (node,) = model.graph.nodes
    node.inputs.append(None)
    native, pointer = shown(model, model.graph)
    names = [text(lib.ephost_node_input_name(pointer, at)) for at in range(3)]
    assert (lib.ephost_node_input_count(pointer), names) == (3, ["x", "", "s"])
    native.release()


def test_a_value_that_the_graph_does_not_have_is_an_error() -> None:
    model = model_of("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    model.graph.nodes[0].inputs[0] = Value("elsewhere")
    with pytest.raises(KeyError, match="elsewhere"):
        shown(model, model.graph)


def test_each_allocation_for_the_order_may_fail() -> None:
    nodes = model_of("g (float[2] x) => (float[2] y) { a = Relu(x)  y = Neg(a) }").graph.nodes
    failed = 0
    for count in range(20):
        lib.ephost_fail_allocation_after(count)
        try:
            assert depth_first_order(nodes) == nodes
            break
        except MemoryError:
            failed += 1
        finally:
            lib.ephost_fail_allocation_after(-1)
    assert (
        failed == 6
    )  # what is known of nodes, their makers and where those begin, flags, leaves and the way


def test_each_allocation_for_the_order_of_a_group_may_fail() -> None:
    nodes = model_of("g (float[2] x) => (float[2] y) { a = Relu(x)  y = Neg(a) }").graph.nodes
    failed = 0
    for count in range(20):
        lib.ephost_fail_allocation_after(count)
        try:
            assert group_order(nodes) == nodes
            break
        except MemoryError:
            failed += 1
        finally:
            lib.ephost_fail_allocation_after(-1)
    assert failed == 9  # nodes, makers and where those begin, flags; then those of the queue


def test_each_allocation_for_a_graph_may_fail() -> None:
    model = model_of(
        "g (float[N, 2] x) => (float[N, 2] y) <float[2] w = {1, 2}> { a = Add(x, w)  y = Neg(a) }"
    )
    before = live_handles()
    failed = 0

    def build() -> bool:
        constants = Constants()
        try:
            native = NativeGraph(model, model.graph, constants)
            try:
                nodes = model.graph.nodes
                native.view(model.graph, "view", nodes, model.graph.inputs, model.graph.outputs)
            finally:
                native.release()
        finally:
            constants.release()
        return True

    for _, done in with_failing_allocations(build, range(200)):
        assert live_handles() == before
        if done:
            break
        failed += 1
    assert 20 < failed < 199


def reader_of(*names: str) -> Node:
    return Node(0, NodeProto(input=list(names)), "Op", "", "", 1, [], [])


def test_inputs_are_linked_by_name_and_their_readers_counted() -> None:
    x, outside = Value("x"), Value("outside")
    node = reader_of("x", "", "outside", "x")
    assert call.link_inputs([node], ({"x": x}, {"outside": outside, "x": outside})) is None
    assert node.inputs == [x, None, outside, x]
    assert (x.consumers, outside.consumers) == ({node: 2}, {})
    values = {"x": x, "": Value("")}  # which a model may have
    other = reader_of("", "x")
    assert call.link_inputs([other], (values,)) is None
    assert other.inputs == [values[""], x] and x.consumers == {node: 2, other: 1}


def test_a_name_that_nobody_has_is_said() -> None:
    x = Value("x")
    fine, lacking = reader_of("x"), reader_of("x", "nobody")
    assert call.link_inputs([fine, lacking], ({"x": x}, {})) == (lacking, "nobody")
    with pytest.raises(TypeError):
        call.link_inputs([reader_of("x")], [])
    with pytest.raises(TypeError, match="no value of a graph"):
        call.link_inputs([reader_of("x")], ({"x": object()},))


def test_nodes_are_in_order_where_each_comes_behind_those_that_it_needs() -> None:
    nodes = model_of("g (float[2] x) => (float[2] y) { a = Relu(x)  b = Neg(a)  y = Add(a, b) }").graph.nodes
    assert call.is_ordered(nodes) and call.is_ordered([]) and call.is_ordered(nodes[1:])
    assert not call.is_ordered(nodes[::-1])
    assert not call.is_ordered([nodes[0], nodes[2], nodes[1]])
    nodes[0].implicit_inputs = [value for value in nodes[2].outputs if value is not None]
    assert not call.is_ordered(nodes)


def with_attributes(*attributes: AttributeProto) -> Model:
    model = model_of("g (float[2] x) => (float[2] y) { y = LeakyRelu(x) }")
    (node,) = model.graph.nodes
    model.graph.set_attributes(node, attributes)
    return model


PLAIN = [
    make_attribute("whole", -(2**63)),
    make_attribute("part", 0.1),
    make_attribute("text", b"a\0b"),
    make_attribute("wholes", [2**63 - 1, 0, -1]),
    make_attribute("parts", [1e300, -0.5]),
    make_attribute("texts", [b"a", b"", b"longer"]),
]


def test_attributes_come_in_their_order_with_what_they_hold_and_then_the_defaults() -> None:
    lists = (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS)
    empty = [AttributeProto(name=f"none{kind}", type=kind) for kind in lists]
    tensor = make_attribute("tensor", from_array(np.arange(3.0)))
    unshown = AttributeProto(name="type", type=AttributeProto.TYPE_PROTO)
    model = with_attributes(*PLAIN[:3], tensor, unshown, *PLAIN[3:], *empty)
    native, pointer = shown(model, model.graph)
    seen = read_node(pointer).attribute
    assert [a.name for a in seen] == [
        *("whole", "part", "text", "tensor", "wholes", "parts", "texts"),
        *(a.name for a in empty),
        "alpha",
    ]
    values = {a.name: get_attribute_value(a) for a in seen if a.type != AttributeProto.TENSOR}
    assert (values["whole"], values["text"]) == (-(2**63), b"a\0b")
    assert values["part"] == np.float32(0.1) and values["alpha"] == np.float32(0.01)
    assert values["wholes"] == [2**63 - 1, 0, -1] and values["texts"] == [b"a", b"", b"longer"]
    assert values["parts"] == [np.inf, -0.5]
    assert all(values[a.name] == [] for a in empty)
    assert [a.type for a in seen if a.name.startswith("none")] == list(lists)
    native.release()


def test_a_default_gives_way_to_what_the_node_gives() -> None:
    model = with_attributes(make_attribute("alpha", 0.5))
    native, pointer = shown(model, model.graph)
    assert [(a.name, a.f) for a in read_node(pointer).attribute] == [("alpha", 0.5)]
    native.release()


@pytest.mark.parametrize(
    ("attribute", "error"),
    [
        (AttributeProto(name="a", type=AttributeProto.INT, i=2**63), OverflowError),
        (AttributeProto(name="a", type=AttributeProto.INTS, ints=[1, "2"]), TypeError),
        (AttributeProto(name="a", type=AttributeProto.INTS, ints=(1, 2)), TypeError),
        (AttributeProto(name="a", type=AttributeProto.FLOATS, floats=[1.0, None]), TypeError),
        (AttributeProto(name="a", type=AttributeProto.STRINGS, strings=["text"]), TypeError),
        (AttributeProto(name="a", type=AttributeProto.STRING, s="text"), TypeError),
    ],
)
def test_an_attribute_that_does_not_hold_its_type_is_an_error(attribute: Any, error: type) -> None:
    model = with_attributes(make_attribute("b", 1), attribute)
    with pytest.raises(error):
        shown(model, model.graph)


def test_each_allocation_for_attributes_may_fail() -> None:
    (node,) = with_attributes(*PLAIN).graph.nodes
    schema = SimpleNamespace(defaults=())
    out = ffi.new("OrtNode*[1]")
    failed = 0
    for count in range(40):
        graph = lib.ephost_graph_new(b"g", 10, path_text(""))
        out[0] = lib.ephost_graph_add_node(graph, 0, b"n", b"Op", b"", 1, b"", [], 0, [], 0)
        lib.ephost_fail_allocation_after(count)
        try:
            call.graph_add_attributes([node], [schema], {node.index: address(out[0])}, None)
            break
        except MemoryError:
            failed += 1
        finally:
            lib.ephost_fail_allocation_after(-1)
            lib.ephost_graph_free(graph)
    assert failed >= 2 * len(PLAIN)  # each attribute, its place with the node, and what lists are gathered in
