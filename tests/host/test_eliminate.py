"""Nodes that change nothing go, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest
from ephost.model.eliminate import eliminate
from ephost.model.fold import simplify
from graphs import assert_linked, claim, evaluate, model_of

X = np.array([-1.0, 2.0], np.float32)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("a = Neg(x)  b = Identity(a)  y = Abs(b)", ["Neg", "Abs"]),
        ("a = Neg(x)  y = Identity(a)", ["Neg"]),  # its producer makes the output itself
        ("a = Identity(x)  y = Neg(a)", ["Neg"]),
        ("a = Identity(x)  b = Identity(a)  c = Identity(b)  y = Neg(c)", ["Neg"]),
        ("a = Dropout(x)  y = Neg(a)", ["Neg"]),
        ("a = Identity(x)  y = Add(a, a)", ["Add"]),
        ("y = Identity(x)", ["Identity"]),  # an output has to be made by somebody
        ("a = Neg(x)  y = Identity(a)  z = Abs(a)  w = Add(y, z)", ["Neg", "Identity", "Abs", "Add"]),
        ("a, m = Dropout(x)  k = Not(m)  y = Neg(a)", ["Dropout", "Not", "Neg"]),  # the mask is read
    ],
)
def test_identities_go_where_nobody_needs_them(body: str, left: list[str]) -> None:
    text = f"g (float[2] x) => (float[2] y) {{ {body} }}"
    before = evaluate(model_of(text), x=X)[0]
    model = model_of(text)
    changed = eliminate(model.graph)
    assert [node.op_type for node in model.graph.nodes] == left
    assert changed == ("Identity" not in left and "Dropout" not in left)
    assert_linked(model)
    assert evaluate(model, x=X)[0].tolist() == before.tolist()
    assert [v.name for v in model.graph.outputs] == ["y"]


def test_an_output_made_from_another_output_stays() -> None:
    model = model_of("g (float[2] x) => (float[2] y, float[2] z) { y = Neg(x)  z = Identity(y) }")
    assert not eliminate(model.graph)
    assert [v.tolist() for v in evaluate(model, x=X)] == [(-X).tolist()] * 2


def test_training_keeps_its_dropout() -> None:
    for training, gone in ((0, True), (1, False)):
        model = model_of(
            f"g (float[2] x) => (float[2] y) <float r = {{0.5}}, bool t = {{{training}}}>"
            " { a = Dropout(x, r, t)  y = Neg(a) }"
        )
        assert eliminate(model.graph) == gone
        assert sorted(model.graph.values) == (["x", "y"] if gone else ["a", "r", "t", "x", "y"])
        assert_linked(model)
    model = model_of(
        "g (float[2] x, bool t) => (float[2] y) <float r = {0.5}> { a = Dropout(x, r, t) y = Neg(a) }"
    )
    assert not eliminate(model.graph)


def test_claimed_nodes_stay() -> None:
    model = model_of("g (float[2] x) => (float[2] y) { a = Identity(x)  y = Neg(a) }")
    model.graph.nodes[0].ep_name = "somebody"
    assert not eliminate(model.graph)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("a = Exp(x)  b = Identity(a)  y = Neg(b)", ["Exp", "Fused"]),  # its producer makes `b` itself
        ("b = Identity(x)  y = Neg(b)", ["Identity", "Fused"]),
        ("a = Exp(x)  b = Identity(a)  c = Abs(a)  y = Sub(b, c)", ["Exp", "Identity", "Abs", "Fused"]),
    ],
)
def test_what_a_claimed_node_reads_stays_the_value_that_it_was_claimed_with(
    body: str, left: list[str]
) -> None:
    model = model_of(f"g (float[2] x) => (float[2] y) {{ {body} }}")
    fused = claim(model, "y")
    before = list(fused.inputs)
    eliminate(model.graph)
    assert [node.op_type for node in model.graph.nodes] == left
    assert fused.inputs == before
    assert_linked(model)


def test_what_a_body_reads_by_name_keeps_its_name() -> None:
    model = model_of(
        """g (float[2] x, bool c) => (float[2] y)
        { a = Identity(x)
          y = If (c) <then_branch = t () => (float[2] o) { o = Neg(a) },
                      else_branch = e () => (float[2] p) { p = Abs(a) }> }"""
    )
    eliminate(model.graph)
    assert_linked(model)
    assert evaluate(model, x=X, c=np.array(True))[0].tolist() == (-X).tolist()


def test_an_identity_of_an_outer_value_stays_in_its_body() -> None:
    model = model_of(
        """g (float[2] x, bool c) => (float[2] y)
        { y = If (c) <then_branch = t () => (float[2] o) { b = Identity(x)  o = Neg(b) },
                      else_branch = e () => (float[2] p) { p = Abs(x) }> }"""
    )
    body = model.graph.nodes[0].subgraphs["then_branch"]
    assert not eliminate(body)
    assert [node.op_type for node in body.nodes] == ["Identity", "Neg"]


def test_types_known_only_behind_an_identity_are_not_lost() -> None:
    model = model_of(
        "g (float[2] x) => (float[2] y) { a = f.Unknown(x)  b = Identity(a)  y = Neg(b) }", inferred=False
    )
    values = model.graph.values
    values["b"].type = values["x"].type
    assert values["a"].type is None
    assert eliminate(model.graph)
    assert values["a"].type is values["x"].type


def test_weights_that_are_shared_by_identities_stay_one() -> None:
    """Folded each would be a copy, which a kernel packs once more. Exporters write shared layers so."""
    weights = ", ".join(str(float(number)) for number in range(16))
    model = model_of(
        f"g (float[2,4] x) => (float[2,4] y) <float[4,4] w = {{{weights}}}>"
        " { v = Identity(w)  u = Identity(v)  a = MatMul(x, w)  b = MatMul(a, v)  y = MatMul(b, u) }"
    )
    x = np.ones((2, 4), np.float32)
    before = evaluate(model, x=x)[0]
    simplify(model)
    assert [node.op_type for node in model.graph.nodes] == ["MatMul"] * 3
    assert [value.name for value in model.graph.initializers] == ["w"]
    assert_linked(model)
    assert evaluate(model, x=x)[0].tolist() == before.tolist()
