"""Nodes that compute the same from the same become one."""

from __future__ import annotations

from ephost.model.fold import simplify
from graphs import model_of
from rewriting import TWO_ROWS, kinds, rewritten


def test_random_numbers_are_drawn_as_often_as_the_model_says() -> None:
    model = model_of(
        "g (float[2] x) => (float[2] y) { a = RandomUniformLike(x)  b = RandomUniformLike(x)  y = Sub(a, b) }"
    )
    simplify(model)
    assert len(model.graph.nodes) == 3


def test_equal_nodes_that_make_outputs_stay() -> None:
    text = "g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Exp(x)  z = Exp(x) }"
    assert kinds(rewritten(text, TWO_ROWS)) == ["Exp", "Exp"]
    text = "g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Exp(x)  a = Exp(x)  z = Neg(a) }"
    assert kinds(rewritten(text, TWO_ROWS)) == ["Exp", "Neg"]
