"""Casts, transposes, reshapes and slices in a row, and shapes that are put together in the run."""

from __future__ import annotations

import numpy as np
import pytest
from ephost.model.fold import simplify, unwanted
from graphs import evaluate, model_of
from rewriting import TWO_ROWS, kinds, rewritten

SHAPES = "int64[1] m1 = {-1}, int64[1] four = {4}, int64 i0 = {0}, int64 i1 = {1}, int64[1] a0 = {0}"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("r = Reshape(x, m1)  t = Reshape(r, out)  y = Neg(t)", ["Reshape", "Neg"]),
        (
            "s = Shape(x)  g0 = Gather(s, i0)  u = Unsqueeze(g0, a0)  c = Concat<axis = 0>(u, m1, four)"
            "  y = Reshape(x, c)",
            ["Reshape"],
        ),
        (
            "f = Cast<to = 1>(b)  s = Shape(f)  k = Cast<to = 6>(s)  h = Cast<to = 7>(k)"
            "  g0 = Slice(h, a0, o1)  c = Concat<axis = 0>(m1, g0, four)  y = Reshape(x, c)",
            ["Shape", "Cast", "Cast", "Slice", "Concat", "Reshape"],
        ),
        (
            "s = Shape(x)  g0 = Gather(s, i0)  g1 = Gather(s, i1)  u = Unsqueeze(g0, a0)"
            "  v = Unsqueeze(g1, a0)  c = Concat<axis = 0>(u, v, m1)  y = Reshape(x, c)",
            ["Reshape"],
        ),
    ],
)
def test_shapes_that_are_put_together_become_constants(body: str, left: list[str]) -> None:
    constants = f"{SHAPES}, int64[3] out = {{2, -1, 4}}, int64[1] o1 = {{1}}"
    text = f"g (float[n,6,k] x, float[q,w] b) => (float[a,c1,d] y) <{constants}> {{ {body} }}"
    feeds = {
        "x": np.arange(48, dtype=np.float32).reshape(2, 6, 4),
        "b": np.ones((6, 2), np.float32),
    }
    assert kinds(rewritten(text, feeds)) == left


def test_an_empty_batch_keeps_its_shape() -> None:
    text = (
        "g (float[n,6,k] x, float[q,w] b) => (float[a,c1,d] y) "
        "<int64 i0 = {0}, int64[1] a0 = {0}, int64[1] three = {3}> "
        "{ s = Shape(x)  g0 = Gather(s, i0)  u = Unsqueeze(g0, a0)  t = Shape(b)  h = Gather(t, i0)"
        "  v = Unsqueeze(h, a0)  c = Concat<axis = 0>(u, v, three)  y = Reshape(x, c) }"
    )
    feeds = {"x": np.ones((0, 6, 4), np.float32), "b": np.ones((8, 2), np.float32)}
    assert rewritten(text, feeds).graph.nodes[-1].op_type == "Reshape"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("a = Transpose<perm = [1, 0, 2]>(x)  b = Transpose<perm = [0, 2, 1]>(a)  y = Neg(b)", 2),
        ("a = Transpose<perm = [1, 2, 0]>(x)  b = Transpose<perm = [2, 0, 1]>(a)  y = Neg(b)", 1),
        (
            "a = Transpose<perm = [1, 2, 0]>(x)  c = Neg(a)  b = Transpose<perm = [2, 0, 1]>(c)  y = Abs(b)",
            4,
        ),
        ("a = Slice(x, z3, e3)  y = Neg(a)", 1),
        ("a = Slice(x, z3, far)  y = Neg(a)", 1),
        ("a = Slice(x, z3, e3, axes, back)  y = Neg(a)", 2),
    ],
)
def test_moves_that_undo_each_other_go(body: str, left: int) -> None:
    constants = (
        "int64[3] z3 = {0, 0, 0}, int64[3] e3 = {2, 3, 4}, int64[3] far = {2, 9223372036854775807, 4}, "
        "int64[3] axes = {0, 1, 2}, int64[3] back = {1, 1, -1}"
    )
    text = f"g (float[2,3,4] x) => (float[a,b0,c0] y) <{constants}> {{ {body} }}"
    feeds = {"x": np.arange(24, dtype=np.float32).reshape(2, 3, 4)}
    assert len(rewritten(text, feeds).graph.nodes) == left


def test_casts_in_a_row_are_one_only_where_that_is_asked_for() -> None:
    text = "g (float[2,3] x) => (double[2,3] y) { a = Cast<to = 6>(x)  y = Cast<to = 11>(a) }"
    assert kinds(rewritten(text, TWO_ROWS)) == ["Cast", "Cast"]
    model = model_of(text)
    simplify(model, unwanted({"optimization.enable_cast_chain_elimination": "1"}))
    assert kinds(model) == ["Cast"]
    assert evaluate(model, **TWO_ROWS)[0].tolist() == TWO_ROWS["x"].astype(np.float64).tolist()
