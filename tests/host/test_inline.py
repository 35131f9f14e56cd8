"""Functions and decided branches in the place of their calls, and the way back."""

from __future__ import annotations

import numpy as np
import pytest
from ephost.errors import InvalidGraph
from ephost.model.eliminate import eliminate
from ephost.model.fold import drop_unused_initializers, simplify
from ephost.model.graph import Model
from ephost.model.infer import infer
from ephost.model.inline import all_graphs, function_of, inline_calls, inline_decided_ifs, restore
from graphs import assert_linked, evaluate, model_of

X = np.array([-1.0, 2.0], np.float32)
# y = relu(-x) * 3 by a function that calls another, whose inner names are the caller's too.
NESTED = """g (float[2] x) => (float[2] y)
  { t = f.Outer <factor = 3.0> (x)  y = Identity(t) }
<domain: "f", opset_import: ["" : 21, "f" : 1]>
Outer <factor: float = 2.0> (x) => (r)
  { t = f.Inner(x)  k = Constant <value_float: float = @factor> ()  r = Mul(t, k) }
<domain: "f", opset_import: ["" : 21]>
Inner (x) => (y) { t = Neg(x)  y = Relu(t) }
"""


def operators(model: Model) -> list[str]:
    return [node.op_type for graph in all_graphs(model.graph) for node in graph.nodes]


def inline_all(model: Model) -> list:
    calls, depths = [], {}
    while made := inline_calls(model, model.graph, depths):
        calls += made
    return calls


def test_a_body_takes_the_place_of_its_call_with_its_attributes() -> None:
    model = model_of(NESTED)
    assert operators(model) == ["Outer", "Identity"]
    calls = inline_calls(model, model.graph, {})
    assert [call.node.op_type for call in calls] == ["Outer"]
    assert operators(model) == ["Inner", "Mul", "Identity"]  # the constant is an initializer at once
    assert_linked(model)
    inline_all(model)
    assert sorted(operators(model)) == ["Identity", "Mul", "Neg", "Relu"]
    assert_linked(model)
    assert evaluate(model, x=X)[0].tolist() == [3.0, 0.0]


def test_a_default_counts_where_the_call_has_no_attribute() -> None:
    model = model_of(NESTED.replace("<factor = 3.0>", ""))
    inline_all(model)
    assert evaluate(model, x=X)[0].tolist() == [2.0, 0.0]


def test_two_calls_of_one_function_do_not_share_names() -> None:
    model = model_of(
        """g (float[2] x) => (float[2] y) { a = f.Inner(x)  b = f.Inner(a)  y = Sub(a, b) }
        <domain: "f", opset_import: ["" : 21]> Inner (x) => (y) { t = Neg(x)  y = Relu(t) }"""
    )
    inline_all(model)
    assert operators(model) == ["Neg", "Relu", "Neg", "Relu", "Sub"]
    assert len(model.graph.values) == 6
    assert_linked(model)
    assert evaluate(model, x=X)[0].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("call", "expected"), [("f.Sum(x, x)", [-2.0, 4.0]), ("f.Sum(x)", [4.0, 8.0])])
def test_an_input_stands_in_the_place_of_a_constant_of_its_name(call: str, expected: list[float]) -> None:
    model = model_of(
        f"""g (float[2] x) => (float[2] y) {{ y = {call} }}
        <domain: "f", opset_import: ["" : 21]>
        Sum (a, b) => (r) {{ b = Constant <value_floats = [5.0, 6.0]> ()  r = Add(a, b) }}"""
    )
    assert evaluate(model, x=X)[0].tolist() == expected
    inline_all(model)
    assert operators(model) == ["Add"]
    assert_linked(model)
    assert evaluate(model, x=X)[0].tolist() == expected


# The caller's x has the name of what the branches make of their own, nodes, constants and inner bodies alike.
HIDING = """g (float[2] x, bool c, bool d) => (float[2] y) { y = f.Pick(c, x, d) }
<domain: "f", opset_import: ["" : 21]>
Pick (first, given, second) => (r) { r = If(first) <
  then_branch = t () => (float[2] x) { x = Neg(given) },
  else_branch = e () => (float[2] z) <float[2] x = {10, 20}, float[2] y = {1, 2}> {
    w = Mul(given, x)
    v = If(second) <
      then_branch = i () => (float[2] x) { u = Add(w, given)  x = Add(u, y) },
      else_branch = j () => (float[2] q) { q = Sub(x, given) }
    >
    z = Identity(v)
  }
> }
"""


@pytest.mark.parametrize("first, second, wanted", [(1, 0, [1, -2]), (0, 1, [-10, 44]), (0, 0, [11, 18])])
def test_values_of_bodies_hide_none_of_the_callers(first: int, second: int, wanted: list[float]) -> None:
    flags = {"c": np.array(bool(first)), "d": np.array(bool(second))}
    model = model_of(HIDING)
    inline_all(model)
    assert_linked(model)
    assert evaluate(model, x=X, **flags)[0].tolist() == wanted


def test_what_a_body_hands_on_is_handed_on() -> None:
    """An output that is an input; an output that nobody wants; an input that nobody gave."""
    model = model_of(
        """g (float[2] x) => (float[2] y, float[2] z) { y, z = f.Both(x) }
        <domain: "f", opset_import: ["" : 21]> Both (p, lo) => (p, q, r)
        { q = Clip(p, lo)  r = Abs(p) }"""
    )
    inline_all(model)
    assert_linked(model)
    assert [v.tolist() for v in evaluate(model, x=X)] == [X.tolist(), X.tolist()]


def test_claimed_calls_stay() -> None:
    model = model_of(NESTED)
    model.graph.nodes[0].ep_name = "somebody"
    assert inline_calls(model, model.graph, {}) == []
    assert operators(model) == ["Outer", "Identity"]


def test_calls_in_bodies_of_control_flow_are_replaced_too() -> None:
    model = model_of(
        """g (float[2] x, bool c) => (float[2] y)
        { y = If (c) <then_branch = t () => (float[2] o) { o = f.Inner(x) },
                      else_branch = e () => (float[2] p) { p = Abs(x) }> }
        <domain: "f", opset_import: ["" : 21]> Inner (x) => (y) { t = Neg(x)  y = Relu(t) }"""
    )
    assert len(inline_all(model)) == 1
    then = model.graph.nodes[0].subgraphs["then_branch"]
    assert [node.op_type for node in then.nodes] == ["Neg", "Relu"]


@pytest.mark.parametrize(("depth", "allowed"), [(100, True), (101, False)])
def test_functions_may_be_so_many_calls_deep(depth: int, allowed: bool) -> None:
    imports = '<domain: "f", opset_import: ["" : 21, "f" : 1]>'
    functions = [f"{imports} F{i} (x) => (y) {{ y = f.F{i + 1}(x) }}" for i in range(depth - 1)]
    functions.append(f"{imports} F{depth - 1} (x) => (y) {{ y = Neg(x) }}")
    text = "g (float[2] x) => (float[2] y) { y = f.F0(x) } " + "\n".join(functions)
    model = model_of(text, inferred=False)
    if allowed:
        assert len(inline_all(model)) == depth
        assert operators(model) == ["Neg"]
    else:
        with pytest.raises(InvalidGraph, match=r"F100.* calls deep"):
            inline_all(model)


def test_shorthand_of_onnx_is_written_out_and_real_operators_are_not() -> None:
    model = model_of("g (float[2] x) => (float[2] y) { h = HardSwish(x)  y = Softmax(h) }")
    swish, softmax = model.graph.nodes
    assert function_of(model, swish) is not None
    inline_all(model)
    assert "HardSwish" not in operators(model)
    assert softmax in model.graph.nodes
    assert_linked(model)


def test_a_body_that_nobody_wanted_is_taken_back_as_it_was() -> None:
    model = model_of(NESTED)
    before = (operators(model), sorted(model.graph.values))
    calls = inline_all(model)
    infer(model)
    assert operators(model) != before[0]
    assert all(restore(reversed(calls)))
    assert (operators(model), sorted(model.graph.values)) == before
    assert_linked(model)


def test_a_body_of_which_somebody_wants_a_node_stays() -> None:
    model = model_of(NESTED)
    calls = inline_all(model)
    wanted = next(node for node in model.graph.nodes if node.op_type == "Relu")
    wanted.ep_name = "somebody"
    assert restore(reversed(calls)) == [False, False]
    assert wanted in model.graph.nodes
    assert_linked(model)


def test_only_the_call_whose_body_is_untouched_is_taken_back() -> None:
    model = model_of(
        """g (float[2] x) => (float[2] y) { a = f.Inner(x)  y = f.Inner(a) }
        <domain: "f", opset_import: ["" : 21]> Inner (x) => (y) { t = Neg(x)  y = Relu(t) }"""
    )
    calls = inline_all(model)
    calls[1].body[0].ep_name = "somebody"
    assert restore(calls) == [True, False]
    assert operators(model) == ["Inner", "Neg", "Relu"]
    assert_linked(model)


def test_a_call_is_taken_back_with_the_constant_that_its_body_did_not_need() -> None:
    model = model_of("g (float[2] x, int32[2] i) => (float[2] y) <float k = {7}> { y = CastLike(i, k) }")
    calls = inline_all(model)
    drop_unused_initializers(model.graph)
    assert "k" not in model.graph.values  # its type is all that counts
    assert restore(calls) == [True]
    assert operators(model) == ["CastLike"]
    assert_linked(model)
    assert evaluate(model, x=X, i=np.array([3, 4], np.int32))[0].tolist() == [3.0, 4.0]


# What two functions share becomes one; `zero` is known once its call is replaced.
FUNCTIONS = """
<domain: "f", opset_import: ["" : 21]> Inner (x) => (y) { t = Neg(x)  y = Relu(t) }
<domain: "f", opset_import: ["" : 21]> Other (x) => (y) { t = Neg(x)  y = Abs(t) }
<domain: "f", opset_import: ["" : 21]> Zero () => (y) { y = Constant <value_float: float = 0.0> () }"""


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("a = f.Inner(x)  b = f.Other(x)  y = Sub(a, b)", ["Neg", "Relu", "Abs", "Sub"]),
        ("zero = f.Zero()  a = Exp(x)  b = Add(a, zero)  y = f.Inner(b)", ["Exp", "Neg", "Relu"]),
        ("zero = f.Zero()  a = f.Inner(x)  y = Add(a, zero)", ["Neg", "Relu"]),
    ],
    ids=["its values are read elsewhere", "what it read is gone", "its output is gone"],
)
def test_a_call_that_no_longer_fits_in_is_not_taken_back(body: str, after: list[str]) -> None:
    model = model_of(f"g (float[2] x) => (float[2] y) {{ {body} }} {FUNCTIONS}")
    expected = evaluate(model, x=X)[0]
    calls = inline_all(model)
    infer(model)
    simplify(model)
    assert operators(model) == after
    assert not any(restore(reversed(calls)))
    assert operators(model) == after
    assert_linked(model)
    assert evaluate(model, x=X)[0].tolist() == expected.tolist()


# ---- branches ----

DECIDED = """g (float[2] x) => (float[2] y) <bool c = {%d}, float[2] w = {10, 20}>
  { a = Neg(x)
    y = If (c) <then_branch = t () => (float[2] o) <float[2] w2 = {1, 2}> { q = Add(a, w2)  o = Mul(q, w) },
                else_branch = e () => (float[2] a2) { a2 = Identity(a) }> }"""


@pytest.mark.parametrize(("condition", "wanted"), [(1, [20.0, 0.0]), (0, [1.0, -2.0])])
def test_the_branch_that_is_taken_takes_the_place_of_its_if(condition: int, wanted: list[float]) -> None:
    model = model_of(DECIDED % condition)
    assert inline_decided_ifs(model)
    assert "If" not in operators(model)
    assert_linked(model)
    assert evaluate(model, x=X)[0].tolist() == wanted
    assert not inline_decided_ifs(model)


@pytest.mark.parametrize("claimed", ["the If", "a node of its branch"])
def test_an_if_that_is_decided_stays_while_somebody_has_a_part_of_it(claimed: str) -> None:
    model = model_of(DECIDED % 1)
    node = model.graph.nodes[1]
    owned = node if claimed == "the If" else node.subgraphs["then_branch"].nodes[0]
    owned.ep_name = "somebody"
    assert not inline_decided_ifs(model)
    assert node in model.graph.nodes
    assert_linked(model)


def test_a_branch_that_hands_on_what_it_captures_does_so() -> None:
    model = model_of(
        """g (float[2] x) => (float[2] y) <bool c = {1}>
        { a = Neg(x)
          y = If (c) <then_branch = t () => (float[2] o) { o = Identity(a) },
                      else_branch = e () => (float[2] p) { p = Abs(a) }> }"""
    )
    then = model.graph.nodes[1].subgraphs["then_branch"]
    simplify(model)
    assert operators(model) == ["Neg"]
    assert then.nodes[0].op_type == "Identity"
    assert_linked(model)
    assert evaluate(model, x=X)[0].tolist() == (-X).tolist()


def test_conditions_that_callers_may_replace_decide_nothing() -> None:
    model = model_of(
        """g (float[2] x, bool c) => (float[2] y) <bool c = {1}>
        { y = If (c) <then_branch = t () => (float[2] o) { o = Neg(x) },
                      else_branch = e () => (float[2] p) { p = Abs(x) }> }"""
    )
    assert not inline_decided_ifs(model)
    assert "If" in operators(model)


def test_a_decided_if_inside_a_body_is_replaced_there() -> None:
    model = model_of(
        """g (float[2] x, bool c) => (float[2] y) <bool yes = {1}>
        { y = If (c) <then_branch = t () => (float[2] o)
                        { o = If (yes) <then_branch = tt () => (float[2] oo) { oo = Neg(x) },
                                        else_branch = te () => (float[2] op) { op = Abs(x) }> },
                      else_branch = e () => (float[2] p) { p = Exp(x) }> }"""
    )
    assert inline_decided_ifs(model)
    then = model.graph.nodes[0].subgraphs["then_branch"]
    assert [node.op_type for node in then.nodes] == ["Neg"]
    assert [v.name for v in then.outputs] == ["o"]


def test_bodies_in_a_branch_are_taken_as_they_are_by_then() -> None:
    """Nodes of theirs have gone, and others have constants of their own."""
    model = model_of(
        """g (float[2, 2] x, bool c) => (float[2, 2] y)
        <bool yes = {1}, float[2, 2] w = {1, 2, 3, 4}, float[2] b = {5, 6}>
        { y = If (yes) <
            then_branch = t () => (float[2, 2] u) {
              v = If (c) <
                then_branch = tt () => (float[2, 2] o) { m = MatMul(x, w) n = Identity(m) o = Add(n, b) },
                else_branch = te () => (float[2, 2] p) { e = Neg(x) p = Identity(e) }>
              u = Abs(v) },
            else_branch = e () => (float[2, 2] q) { q = Exp(x) }> }"""
    )
    for graph in all_graphs(model.graph):
        eliminate(graph)
    for graph in all_graphs(model.graph):
        for node in graph.nodes:
            assert node.proto.output  # somebody asks for the messages in between
    assert inline_decided_ifs(model)
    assert_linked(model)
    assert sorted(operators(model)) == ["Abs", "Add", "If", "MatMul", "Neg"]
    x = np.ones((2, 2), np.float32)
    assert evaluate(model, x=x, c=np.array(True))[0].tolist() == [[9, 12], [9, 12]]
    assert evaluate(model, x=x, c=np.array(False))[0].tolist() == [[1, 1], [1, 1]]


def test_a_body_that_a_sequence_is_mapped_by_is_taken_as_it_is_by_then() -> None:
    model = model_of(
        """g (seq(float[2]) s, bool c) => (seq(float[2]) y)
        { y = SequenceMap (s) <body = b (float[2] v) => (float[2] u)
            { u = If (c) <then_branch = t () => (float[2] o) { m = Abs(v) o = Identity(m) },
                          else_branch = e () => (float[2] p) { n = Neg(v) p = Identity(n) }> }> }""",
        opset=17,
    )
    for graph in all_graphs(model.graph):
        eliminate(graph)
    for graph in all_graphs(model.graph):
        for node in graph.nodes:
            assert node.proto.output
    assert len(inline_all(model)) == 1
    assert_linked(model)
    branches = next(node for graph in all_graphs(model.graph) for node in graph.nodes if node.op_type == "If")
    assert [[n.op_type for n in body.nodes] for body in branches.subgraphs.values()] == [["Abs"], ["Neg"]]


@pytest.mark.parametrize("around", ["Loop", "If"])
def test_what_only_the_other_branch_read_is_captured_no_more(around: str) -> None:
    inner = """d = If (no) <then_branch = tt () => (int64 q) { q = SequenceLength(s) },
                            else_branch = te () => (int64 w) { w = Constant <value_int = 1> () }>
               f = Cast <to = 1> (d)"""
    node = {
        "Loop": f"""y = Loop (m, "", x) <body = b (int64 i, bool k, float[2] v) => (bool g, float[2] u)
                    {{ g = Identity(k) {inner} u = Add(v, f) }}>""",
        "If": f"""y = If (c) <then_branch = t () => (float[2] u) {{ {inner} u = Add(x, f) }},
                              else_branch = e () => (float[2] p) {{ p = Exp(x) }}>""",
    }[around]
    source = f"""g (float[2] x, bool c, int64 m, seq(float[2]) s) => (float[2] y) <bool no = {{0}}>
        {{ {node} }}"""
    model = model_of(source)
    simplify(model)
    assert [value.name for value in model.graph.nodes[-1].implicit_inputs if value.name == "s"] == []
    assert_linked(model)


@pytest.mark.parametrize("opset", [12, 13, 14, 17, 21, 23])
@pytest.mark.parametrize("weights", ["", ", float[7] w"])
def test_a_loss_is_written_out_whatever_opset_its_body_is_of(opset: int, weights: str) -> None:
    """Newer versions of the operators of its body have more types, and attributes that it does not use."""
    model = model_of(
        f"""g (float[n, 7, h] x, int64[n, h] t{weights}) => (float y, float[n, 7, h] p)
        {{ y, p = SoftmaxCrossEntropyLoss(x, t{", w" if weights else ""}) }}""",
        opset=opset,
    )
    inline_all(model)
    assert "SoftmaxCrossEntropyLoss" not in operators(model)
    assert_linked(model)
