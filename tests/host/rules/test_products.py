"""Products, and what is added, transposed or divided around them."""

from __future__ import annotations

import ephost
import numpy as np
import onnx
import pytest
from rewriting import MATRIX, NORM, ROWS, kinds, rewritten


@pytest.mark.parametrize(
    ("constants", "body", "left"),
    [
        (f"{MATRIX}, float[4] b = {{1, 2, 3, 4}}", "m = MatMul(x, p)  y = Add(m, b)", ["Gemm"]),
        (f"{MATRIX}, float[3,1] b = {{1, 2, 3}}", "m = MatMul(x, p)  y = Add(b, m)", ["Gemm"]),
        (MATRIX, "m = MatMul(x, p)  n = Neg(p)  r = MatMul(x, n)  y = Add(m, r)", ["MatMul", "Gemm"]),
        (f"{MATRIX}, float[1,1,4] b = {{1, 2, 3, 4}}", "m = MatMul(x, p)  y = Add(m, b)", ["MatMul", "Add"]),
        (f"{MATRIX}, {NORM}", "m = MatMul(x, p)  y = BatchNormalization(m, s, b, m2, v)", ["Gemm"]),
        (f"{MATRIX}, float[4] b = {{1, 2, 3, 4}}", "m = Gemm<alpha = 2.0>(x, p)  y = Sum(m, b)", ["Gemm"]),
        (f"{MATRIX}, float b = {{5}}", "m = Gemm<alpha = 2.0, beta = 3.0>(x, p)  y = Add(b, m)", ["Gemm"]),
        (f"{MATRIX}, float b = {{5}}", "m = Gemm(x, p, b)  y = Add(b, m)", ["Gemm", "Add"]),
        (
            "float[4,2] p = {1, 2, 3, 4, 5, 6, 7, 8}",
            "n = Neg(p)  t = Transpose<perm = [1, 0]>(n)  y = Gemm(x, t)",
            ["Gemm"],
        ),
        (
            MATRIX,
            "t = Transpose(x)  u = Neg(t)  w = Transpose(u)  m = Gemm(w, p)  y = Neg(m)",
            ["Transpose", "Neg", "Gemm", "Neg"],
        ),
    ],
)
def test_products_and_sums_become_one_gemm(constants: str, body: str, left: list[str]) -> None:
    constants = constants.replace("float[4] m =", "float[4] m2 =")
    text = f"g (float[3,2] x) => (float[{'1,' if '[1,1,4]' in constants else ''}3,4] y) <{constants}>"
    model = rewritten(f"{text} {{ {body} }}", ROWS)
    assert kinds(model) == left


def test_integers_are_multiplied_and_added_as_they_were() -> None:
    text = (
        "g (int32[3,2] x) => (int32[3,4] y) <int32[2,4] p = {1, 2, 3, 4, 5, 6, 7, 8}> "
        "{ m = MatMul(x, p)  y = Add(m, m) }"
    )
    assert kinds(rewritten(text, {"x": np.arange(6, dtype=np.int32).reshape(3, 2)})) == ["MatMul", "Add"]


def test_the_fused_node_keeps_the_name_of_the_product() -> None:
    body = "m = MatMul(x, p)  y = Add(m, b)"
    text = f"g (float[3,2] x) => (float[3,4] y) <{MATRIX}, float b = {{1}}> {{ {body} }}"
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    proto.graph.node[0].name = "product"
    options = ephost.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = ephost.InferenceSession(proto, options)
    nodes = [n for g in session.get_provider_graph_assignment_info() for n in g.get_nodes()]
    assert [(n.name, n.op_type) for n in nodes] == [("product", "Gemm")]
