"""Elementwise operators that say the same in fewer nodes."""

from __future__ import annotations

import pytest
from rewriting import TWO_ROWS, rewritten


@pytest.mark.parametrize(
    ("constants", "body", "left"),
    [
        (
            "float one = {1}, float[3] k = {1, 2, 4}",
            "a = Abs(x)  e = Exp(a)  d = Div(one, e)  y = Mul(d, x)",
            3,
        ),
        ("float two = {2}", "e = Exp(x)  d = Div(two, e)  y = Mul(d, x)", 3),
        ("float lo = {-1}, float hi = {6}", "r = Relu(x)  y = Clip(r, lo, hi)", 1),
        ("float lo = {0.75}, float hi = {6}", "r = Relu(x)  y = Clip(r, lo, hi)", 1),
        ("float hi = {6}", "r = Relu(x)  y = Clip(r, , hi)", 1),
        ("float lo = {-1}, float hi = {6}", "r = Relu(x)  z = Clip(r, lo, hi)  y = Add(r, z)", 3),
        ("float z = {0}", "g0 = Greater(x, z)  n = Not(g0)  y = Where(n, x, z)", 2),
        ("float z = {0}", "a = Exp(x)  b = Exp(x)  y = Add(a, b)", 2),
        ("float z = {2}, float q = {2}", "a = Mul(x, z)  b = Mul(x, q)  y = Sub(a, b)", 2),
        ("float z = {2}, float q = {3}", "a = Mul(x, z)  b = Mul(x, q)  y = Sub(a, b)", 3),
        ("float z = {2}", "a = Sub(x, z)  b = Sub(z, x)  y = Mul(a, b)", 3),
        ("float z = {2}", "a = Elu<alpha = 1.0>(x)  b = Elu<alpha = 2.0>(x)  y = Add(a, b)", 3),
        ("float z = {2}", "a = Exp(x)  b = Exp(a)  c = Exp(x)  d = Exp(c)  y = Sub(b, d)", 3),
    ],
)
def test_elementwise_operators_become_fewer(constants: str, body: str, left: int) -> None:
    text = f"g (float[2,3] x) => (float[2,3] y) <{constants}> {{ {body} }}"
    assert len(rewritten(text, TWO_ROWS).graph.nodes) == left


def test_a_clip_of_an_old_opset_takes_a_relu_into_its_attributes() -> None:
    text = "g (float[2,3] x) => (float[2,3] y) { r = Relu(x)  y = Clip<min = -1.0, max = 6.0>(r) }"
    model = rewritten(text, TWO_ROWS, opset=9)
    assert [(a.name, a.f) for n in model.graph.nodes for a in n.proto.attribute if a.name == "min"] == [
        ("min", 0.0)
    ]
