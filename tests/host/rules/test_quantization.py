"""What a quantisation makes superfluous before it."""

from __future__ import annotations

import numpy as np
import pytest
from ephost.model.fold import simplify
from graphs import evaluate, model_of
from rewriting import TWO_ROWS, kinds, rewritten

Q = "float s = {0.1}, uint8 z = {0}, uint8 z3 = {3}, float lo = {0}, float hi = {6}, float big = {25.5}"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("r = Relu(x)  q = QuantizeLinear(r, s, z)  y = DequantizeLinear(q, s, z)", 2),
        ("r = Relu(x)  q = QuantizeLinear(r, s, z3)  y = DequantizeLinear(q, s, z3)", 3),
        ("r = Clip(x, lo, hi)  q = QuantizeLinear(r, s, z)  y = DequantizeLinear(q, s, z)", 3),
        ("r = Clip(x, lo, big)  q = QuantizeLinear(r, s, z)  y = DequantizeLinear(q, s, z)", 2),
        (
            "q = QuantizeLinear(x, s, z3)  d = DequantizeLinear(q, s, z3)  q1 = QuantizeLinear(d, s, z3)"
            "  y = DequantizeLinear(q1, s, z3)",
            2,
        ),
        (
            "q = QuantizeLinear(x, s, z3)  d = DequantizeLinear(q, s, z3)  q1 = QuantizeLinear(d, s, z)"
            "  y = DequantizeLinear(q1, s, z)",
            4,
        ),
    ],
)
def test_quantisation_needs_no_limits_of_its_own_and_no_detours(body: str, left: int) -> None:
    text = f"g (float[2,3] x) => (float[2,3] y) <{Q}> {{ {body} }}"
    assert len(rewritten(text, TWO_ROWS).graph.nodes) == left


def test_quantised_pairs_give_back_what_went_in() -> None:
    model = model_of(
        "g (uint8[256] x) => (uint8[256] y) <float s = {0.0371}, uint8 z = {131}> "
        "{ i = Max(x)  d = DequantizeLinear(i, s, z)  q = QuantizeLinear(d, s, z)  y = Max(q) }"
    )
    x = np.arange(256, dtype=np.uint8)
    assert evaluate(model, x=x)[0].tolist() == x.tolist()
    simplify(model)
    assert kinds(model) == ["Max", "Max"]
