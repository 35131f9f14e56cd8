"""What becomes of claims: a group's order and interface, groups that make a cycle, the node for a group."""

from __future__ import annotations

from itertools import pairwise

import ephost
import onnx
import pytest
from ephost.errors import InvalidGraph
from ephost.model.graph import Model, Node, topological_order
from ephost.model.groups import Fusing, group_interface, group_order
from ephost.model.native_graph import depth_first_order
from graphs import assert_linked, firsts, maker, model_of, replace_by

# Two branches that meet: a feeds b and c, which feed d.
DIAMOND = """g (float[2] x) => (float[2] d, float[2] c)
  { a = Relu(x)  b = Neg(a)  c = Abs(a)  d = Add(b, c) }"""


def fuse(model: Model, nodes: list[Node], *, drop: bool = False) -> Node:
    inputs, outputs = group_interface(group_order(nodes), drop)
    proto = onnx.NodeProto(op_type="Fused", domain="ep")
    fused = Node(model.new_index(), proto, "Fused", "ep", "fused", 1, inputs, outputs, ep_name="ep")
    replace_by(model.graph, nodes, fused)
    return fused


# ---- order ----


def test_plugins_see_what_a_node_depends_on_right_before_it() -> None:
    """Facts of onnxruntime: the newest producer first, and the last leaf's tree first."""
    diamond = model_of(DIAMOND)
    assert firsts(depth_first_order(diamond.graph.nodes)) == ["a", "c", "b", "d"]
    leaves = model_of(
        """g (float[2] x) => (float[2] p, float[2] q)
        { a = Relu(x)  b = Neg(x)  p = Abs(a)  q = Exp(b) }"""
    )
    assert firsts(depth_first_order(leaves.graph.nodes)) == ["b", "q", "a", "p"]


def test_the_order_for_plugins_knows_nothing_of_nodes_outside() -> None:
    model = model_of(DIAMOND)
    assert firsts(depth_first_order(maker(model, "b", "c"))) == ["c", "b"]


def test_a_group_is_ordered_breadth_first_by_index() -> None:
    model = model_of(
        """g (float[2] x) => (float[2] y)
        { a = Relu(x)  b = Neg(a)  c = Abs(x)  d = Add(b, c)  y = Mul(d, a) }"""
    )
    nodes = maker(model, "y", "d", "c", "b", "a")
    assert firsts(group_order(nodes)) == ["a", "c", "b", "d", "y"]
    assert firsts(group_order(maker(model, "y", "c"))) == ["c", "y"]


def test_a_node_that_reads_one_value_twice_waits_for_it_once() -> None:
    model = model_of("g (float[2] x) => (float[2] y) { a = Relu(x) y = Add(a, a) }")
    assert firsts(group_order(maker(model, "y", "a"))) == ["a", "y"]


# ---- interface ----


def test_inputs_come_in_order_of_first_use_and_outputs_node_by_node() -> None:
    model = model_of(
        """g (float[2] x, float[2] z) => (float[2] y, float[2] b) <float[2] w = {1, 2}>
        { b = Mul(w, z)  c = Add(x, b)  d = Sub(c, w)  y = Neg(c)  e = Abs(d)  f = Relu(e) }""",
    )
    group = group_order(maker(model, "b", "c", "d"))
    inputs, outputs = group_interface(group, False)
    assert [v.name for v in inputs] == ["w", "z", "x"]
    assert [v.name for v in outputs] == ["b", "c", "d"]
    dropped, same = group_interface(group, True)
    assert [v.name for v in dropped] == ["z", "x"]
    assert same == outputs


def test_an_initializer_that_callers_may_replace_is_never_dropped() -> None:
    model = model_of("g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
    inputs, _ = group_interface(maker(model, "y"), True)
    assert [v.name for v in inputs] == ["x", "w"]


def test_what_only_bodies_read_comes_last() -> None:
    model = model_of(
        """g (float[2] x, bool c) => (float[2] y)
        { a = Neg(x)
          y = If (c) <then_branch = t () => (float[2] o) { o = Relu(x) },
                      else_branch = e () => (float[2] p) { p = Abs(a) }> }"""
    )
    inputs, outputs = group_interface(maker(model, "y"), False)
    assert inputs[0].name == "c"
    assert sorted(v.name for v in inputs) == ["a", "c", "x"]
    inputs, outputs = group_interface(group_order(maker(model, "a", "y")), False)
    assert [v.name for v in inputs] == ["x", "c"]
    assert [v.name for v in outputs] == ["y"]


# ---- cycles ----


def test_a_way_out_and_back_in_is_found_and_told() -> None:
    model = model_of(
        """g (float[2] x) => (float[2] y)
        { a = Relu(x)  b = Neg(a)  c = Abs(b)  y = Add(a, c) }"""
    )
    way = Fusing(model.graph).cycle_through(maker(model, "a", "y"))
    assert way is not None
    assert firsts(way) == ["a", "b", "c", "y"]
    assert Fusing(model.graph).cycle_through(maker(model, "a", "b", "c", "y")) is None
    assert Fusing(model.graph).cycle_through(maker(model, "a", "b")) is None
    assert Fusing(model.graph).cycle_through(maker(model, "y")) is None


def test_groups_are_fused_one_after_the_other_as_each_alone() -> None:
    text = """g (float[2] x) => (float[2] c, float[2] f, float[2] h)
      { a = Relu(x)  b = Neg(a)  c = Abs(a)  d = Neg(x)
        e = Add(b, d)  f = Abs(e)  g = Neg(d)  h = Add(g, f) }"""
    names = [("a", "d"), ("b", "e"), ("f", "h")]  # c and b read a, and are in front of d

    def in_turn(model: Model, fusing: Fusing | None) -> list[str]:
        claims = [group_order(maker(model, *group)) for group in names]
        for nodes in claims:
            each = fusing or Fusing(model.graph)
            assert each.cycle_through(nodes) is None
            inputs, outputs = group_interface(nodes, False)
            proto = onnx.NodeProto(op_type="Fused", domain="ep")
            fused = Node(model.new_index(), proto, "Fused", "ep", "fused", 1, inputs, outputs, ep_name="ep")
            each.replace(nodes, fused)
            if fusing is None:
                each.settle()
        if fusing is not None:
            fusing.settle()
        assert_linked(model)
        return firsts(model.graph.nodes)

    together = model_of(text)
    assert in_turn(together, Fusing(together.graph)) == in_turn(model_of(text), None)


def test_a_way_through_what_a_body_captures_counts() -> None:
    model = model_of(
        """g (float[2] x, bool c) => (float[2] y)
        { a = Neg(x)
          i = If (c) <then_branch = t () => (float[2] o) { o = Relu(a) },
                      else_branch = e () => (float[2] p) { p = Abs(x) }>
          y = Add(a, i) }"""
    )
    way = Fusing(model.graph).cycle_through(maker(model, "a", "y"))
    assert way is not None
    assert firsts(way) == ["a", "i", "y"]


def test_ways_past_the_group_and_away_from_it_are_no_cycles() -> None:
    model = model_of(DIAMOND)
    assert Fusing(model.graph).cycle_through(maker(model, "b", "c")) is None
    assert Fusing(model.graph).cycle_through(maker(model, "a", "b", "c")) is None
    assert Fusing(model.graph).cycle_through(maker(model, "a", "d")) is not None
    assert Fusing(model.graph).cycle_through(maker(model, "a", "b", "d")) is not None


def test_a_cycle_over_many_nodes_is_found_without_recursion() -> None:
    names = ["a", *(f"v{i}" for i in range(3000))]
    chain = "  ".join(f"{new} = Neg({old})" for old, new in pairwise(names))
    model = model_of(
        f"g (float[2] x) => (float[2] y) {{ a = Relu(x) {chain} y = Add(a, v2999) }}", inferred=False
    )
    way = Fusing(model.graph).cycle_through(maker(model, "a", "y"))
    assert way is not None
    assert len(way) == 3002
    assert len(depth_first_order(model.graph.nodes)) == 3002


# ---- replacing ----


def test_a_group_becomes_one_node_and_its_inner_values_go() -> None:
    model = model_of(DIAMOND)
    graph = model.graph
    fused = fuse(model, maker(model, "a", "b", "c"))
    assert [v.name for v in fused.inputs if v] == ["x"]
    assert [v.name for v in fused.outputs if v] == ["b", "c"]
    assert [node.op_type for node in graph.nodes] == ["Fused", "Add"]
    assert "a" not in graph.values
    assert graph.values["x"].consumers == {fused: 1}
    assert_linked(model)


def test_two_groups_in_turn_keep_the_order() -> None:
    """The second group's node has to come after a node that stood behind the group's first."""
    model = model_of(
        """g (float[2] x) => (float[2] y, float[2] z)
        { a = Relu(x)  p = Exp(x)  b = Neg(p)  z = Add(a, b)  y = Abs(z) }"""
    )
    fuse(model, maker(model, "a", "z"))
    assert [node.op_type for node in model.graph.nodes] == ["Exp", "Neg", "Fused", "Abs"]
    fuse(model, maker(model, "p", "b"))
    assert [node.op_type for node in model.graph.nodes] == ["Fused", "Fused", "Abs"]
    assert_linked(model)


def test_a_reader_before_the_last_node_of_a_group_moves_behind_its_node() -> None:
    model = model_of(
        "g (float[2] x) => (float[2] y, float[2] c) { a = Relu(x)  y = Exp(a)  b = Neg(a)  c = Abs(b) }"
    )
    fused = fuse(model, maker(model, "a", "b", "c"))
    assert [node.op_type for node in model.graph.nodes] == ["Fused", "Exp"]
    assert [v.name for v in fused.outputs if v] == ["a", "c"]
    assert_linked(model)


def test_an_outer_value_keeps_the_node_with_the_body_as_its_reader() -> None:
    model = model_of(
        """g (float[2] x, bool c) => (float[2] y)
        { y = If (c) <then_branch = t () => (float[2] o) { q = Relu(x) o = Neg(q) },
                      else_branch = e () => (float[2] p) { p = Abs(x) }> }"""
    )
    (conditional,) = model.graph.nodes
    body = conditional.subgraphs["then_branch"]
    nodes = list(body.nodes)
    inputs, outputs = group_interface(group_order(nodes), False)
    fused = Node(model.new_index(), onnx.NodeProto(), "Fused", "ep", "", 1, inputs, outputs, ep_name="ep")
    before = list(model.graph.values["x"].consumers)
    replace_by(body, nodes, fused)
    assert body.nodes == [fused]
    after = model.graph.values["x"].consumers
    assert conditional in after
    assert {n.index for n in after} <= {n.index for n in before}
    assert not any(n in after for n in nodes)


def test_a_cycle_in_a_graph_is_named() -> None:
    with pytest.raises(InvalidGraph, match=r"cycle through the nodes .*#[012].*#[012].*#[012]"):
        model_of("g (float[2] x) => (float[2] y) { a = Add(x, b) b = Neg(c) c = Abs(a) y = Neg(c) }")


def test_what_is_in_order_stays_as_it_is() -> None:
    model = model_of(DIAMOND)
    assert topological_order(model.graph.nodes) == model.graph.nodes
    assert firsts(topological_order(model.graph.nodes[::-1])) == ["a", "c", "b", "d"]


# ---- claims ----


def test_an_ep_may_claim_again_what_it_has(sample_kernels, caplog: pytest.LogCaptureFixture) -> None:
    """It does when it is asked about the bodies of functions."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
        g (float[2] x) => (float[2] y) { a = Abs(x)  y = f.Inner(a) }
        <domain: "f", opset_import: ["" : 21]> Inner (x) => (y) { y = Neg(x) }"""
    )
    options = ephost.SessionOptions()
    options.add_provider_for_devices(sample_kernels, {})
    session = ephost.InferenceSession(model, options)
    (assignment,) = session._resources.assignments
    assert sorted(node.op_type for node in assignment.nodes) == ["Abs", "Neg"]
    assert assignment.refused == []
    assert not caplog.records
