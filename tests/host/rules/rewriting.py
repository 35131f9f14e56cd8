"""Models to rewrite, and what must hold of each afterwards."""

from __future__ import annotations

import numpy as np
from ephost.model.fold import simplify, unwanted
from ephost.model.graph import Model
from graphs import assert_linked, evaluate, model_of

W = "float[4,3,1,1] w = {1, 2, 3, -1, 0.5, 2, 3, 1, -2, 0.25, 1, 1}"
NORM = (
    "float[4] s = {1, -2, 0.5, 3}, float[4] b = {0, 1, 2, 3}, float[4] m = {0.5, 1, -1, 2}, "
    "float[4] v = {1, 4, 0.25, 2}"
)
IMAGE = {"x": np.random.default_rng(1).standard_normal((2, 3, 5, 4)).astype(np.float32)}
MATRIX = "float[2,4] p = {1, 2, 3, 4, 5, 6, 7, 8}"
TWO_ROWS = {"x": np.array([[-3.0, -1.0, 0.0], [0.5, 2.0, 7.0]], np.float32)}
ROWS = {"x": np.random.default_rng(2).standard_normal((3, 2)).astype(np.float32)}

CONV = "g (float[2,3,5,4] x) => (float[2,4,5,4] y)"


def kinds(model: Model) -> list[str]:
    return [node.op_type for node in model.graph.nodes]


def rewritten(text: str, feeds: dict[str, np.ndarray], *off: str, opset: int = 21) -> Model:
    """The model after all rules, which still computes what it did."""
    before = evaluate(model_of(text, opset=opset), **feeds)
    model = model_of(text, opset=opset)
    names = [v.name for v in (*model.graph.inputs, *model.graph.outputs)]
    simplify(model, unwanted({}, off))
    assert_linked(model)
    assert [v.name for v in (*model.graph.inputs, *model.graph.outputs)] == names
    for a, b in zip(evaluate(model, **feeds), before, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=2e-6 if a.dtype.kind == "f" else 0, atol=2e-6)
    return model
