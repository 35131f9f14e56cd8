"""Rewritings compute what the graph computed before, and happen only where they may."""

from __future__ import annotations

from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from ephost.model.fold import simplify, unwanted
from ephost.model.graph import Model
from ephost.model.rewrite import CAST_CHAINS, RULE_NAMES, Rewriter
from graphs import assert_linked, evaluate, model_of

W = "float[4,3,1,1] w = {1, 2, 3, -1, 0.5, 2, 3, 1, -2, 0.25, 1, 1}"
NORM = (
    "float[4] s = {1, -2, 0.5, 3}, float[4] b = {0, 1, 2, 3}, float[4] m = {0.5, 1, -1, 2}, "
    "float[4] v = {1, 4, 0.25, 2}"
)
IMAGE = {"x": np.random.default_rng(1).standard_normal((2, 3, 5, 4)).astype(np.float32)}
ROWS = {"x": np.random.default_rng(2).standard_normal((3, 2)).astype(np.float32)}
P = "float[2,4] p = {1, 2, 3, 4, 5, 6, 7, 8}"


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


CONV = "g (float[2,3,5,4] x) => (float[2,4,5,4] y)"


@pytest.mark.parametrize(
    ("constants", "body", "left"),
    [
        (f"{W}, {NORM}", "c = Conv(x, w)  y = BatchNormalization(c, s, b, m, v)", ["Conv"]),
        (
            f"{W}, {NORM}, float[4] d = {{1, 2, 3, 4}}",
            "c = Conv(x, w, d)  n = BatchNormalization<epsilon = 0.1>(c, s, b, m, v)  y = Relu(n)",
            ["Conv", "Relu"],
        ),
        (f"{W}, float[4,1,1] f = {{1, 2, 3, 4}}", "c = Conv(x, w)  y = Mul(c, f)", ["Conv"]),
        (f"{W}, float[1,4,1,1] f = {{1, 2, 3, 4}}", "c = Conv(x, w)  y = Add(f, c)", ["Conv"]),
        (f"{W}, float f = {{3}}", "c = Conv(x, w)  d = Mul(f, c)  y = Add(d, f)", ["Conv"]),
        (
            f"{W}, {NORM}, float[4,1,1] f = {{1, 2, 3, 4}}",
            "c = Conv(x, w)  n = BatchNormalization(c, s, b, m, v)  d = Mul(n, f)  y = Add(d, f)",
            ["Conv"],
        ),
        # along another axis than the channels'
        (f"{W}, float[4] f = {{1, 2, 3, 4}}", "c = Conv(x, w)  y = Mul(c, f)", ["Conv", "Mul"]),
        (f"{W}, float[2,1,1,1] f = {{1, 2}}", "c = Conv(x, w)  y = Mul(c, f)", ["Conv", "Mul"]),
        # somebody else reads what is between
        (
            f"{W}, {NORM}",
            "c = Conv(x, w)  n = BatchNormalization(c, s, b, m, v)  r = Relu(c)  y = Sub(n, r)",
            ["Conv", "BatchNormalization", "Relu", "Sub"],
        ),
    ],
)
def test_a_convolution_takes_scales_and_shifts_into_its_weights(
    constants: str, body: str, left: list[str]
) -> None:
    assert kinds(rewritten(f"{CONV} <{constants}> {{ {body} }}", IMAGE)) == left


def test_a_normalisation_takes_scales_and_shifts_into_its_own() -> None:
    text = (
        f"g (float[2,4,5] x) => (float[2,4,5] y) <{NORM}, float[4,1] f = {{1, 2, 3, 4}}> "
        "{ n = BatchNormalization(x, s, b, m, v)  d = Mul(n, f)  e = Add(f, d)  y = Neg(e) }"
    )
    x = np.random.default_rng(1).standard_normal((2, 4, 5)).astype(np.float32)
    assert kinds(rewritten(text, {"x": x})) == ["BatchNormalization", "Neg"]
    assert kinds(rewritten(text, {"x": x}, "BatchNormalizationAddFusion")) == [
        "BatchNormalization",
        "Add",
        "Neg",
    ]


def test_weights_that_two_convolutions_share_are_not_changed_for_both() -> None:
    text = (
        f"g (float[2,3,5,4] x) => (float[2,4,5,4] y, float[2,4,5,4] z) <{W}, {NORM}> "
        "{ c = Conv(x, w)  n = Neg(x)  z = Conv(n, w)  y = BatchNormalization(c, s, b, m, v) }"
    )
    assert kinds(rewritten(text, IMAGE)) == ["Conv", "Neg", "Conv"]


def test_half_precision_weights_stay_half() -> None:
    text = (
        "g (float16[2,3,5,4] x) => (float16[2,1,5,4] y) <float16[1,3,1,1] w = {1, 2, 3}, float16 f = {3}> "
        "{ c = Conv(x, w)  y = Mul(c, f) }"
    )
    before = model_of(text)
    x = np.round(IMAGE["x"] * 4).astype(np.float16)  # so that no number is rounded
    model = model_of(text)
    simplify(model)
    assert kinds(model) == ["Conv"]
    (mine,), (theirs,) = evaluate(model, x=x), evaluate(before, x=x)
    assert mine.dtype == np.float16
    assert mine.tolist() == theirs.tolist()


def test_what_a_caller_may_replace_is_no_constant() -> None:
    # `w` is listed as an input, too: its data is a default.
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> '
        f"g (float[2,3,5,4] x, {W}) => (float[2,4,5,4] y) <float f = {{3}}> "
        "{ c = Conv(x, w)  y = Mul(c, f) }"
    )
    session = ephost.InferenceSession(proto)
    weights = np.ones((4, 3, 1, 1), np.float32)
    (mine,) = session.run(None, {**IMAGE, "w": weights})
    expected = np.broadcast_to(IMAGE["x"].sum(1, keepdims=True) * 3, mine.shape)
    np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-5)


def test_graph_outputs_and_what_subgraphs_read_stay() -> None:
    both = f"g (float[2,3,5,4] x) => (float[2,4,5,4] c, float[2,4,5,4] y) <{W}, float f = {{3}}>"
    assert kinds(rewritten(f"{both} {{ c = Conv(x, w)  y = Mul(c, f) }}", IMAGE)) == ["Conv", "Mul"]
    captured = (
        f"g (float[2,3,5,4] x, bool q) => (float[2,4,5,4] y) <{W}, float f = {{3}}> "
        "{ c = Conv(x, w)  d = Mul(c, f)  e = If (q) <then_branch = t () => (float[2,4,5,4] o)"
        " { o = Neg(c) }, else_branch = u () => (float[2,4,5,4] p) { p = Abs(c) }>  y = Add(d, e) }"
    )
    assert kinds(rewritten(captured, {**IMAGE, "q": np.array(True)})) == ["Conv", "Mul", "If", "Add"]


def test_bodies_are_rewritten_and_may_read_outer_values() -> None:
    text = (
        f"g (float[3,2] x, bool q) => (float[3,4] y) <{P}, float[4] b = {{1, 2, 3, 4}}> "
        "{ a = Neg(x)  y = If (q) <then_branch = t () => (float[3,4] o) { m = MatMul(a, p)  o = Add(m, b) },"
        " else_branch = u () => (float[3,4] k) { k = MatMul(x, p) }> }"
    )
    model = rewritten(text, {**ROWS, "q": np.array(True)})
    assert [node.op_type for node in model.graph.nodes[1].subgraphs["then_branch"].nodes] == ["Gemm"]


@pytest.mark.parametrize(
    ("constants", "body", "left"),
    [
        (f"{P}, float[4] b = {{1, 2, 3, 4}}", "m = MatMul(x, p)  y = Add(m, b)", ["Gemm"]),
        (f"{P}, float[3,1] b = {{1, 2, 3}}", "m = MatMul(x, p)  y = Add(b, m)", ["Gemm"]),
        (P, "m = MatMul(x, p)  n = Neg(p)  r = MatMul(x, n)  y = Add(m, r)", ["MatMul", "Gemm"]),
        (f"{P}, float[1,1,4] b = {{1, 2, 3, 4}}", "m = MatMul(x, p)  y = Add(m, b)", ["MatMul", "Add"]),
        (f"{P}, {NORM}", "m = MatMul(x, p)  y = BatchNormalization(m, s, b, m2, v)", ["Gemm"]),
        (f"{P}, float[4] b = {{1, 2, 3, 4}}", "m = Gemm<alpha = 2.0>(x, p)  y = Sum(m, b)", ["Gemm"]),
        (f"{P}, float b = {{5}}", "m = Gemm<alpha = 2.0, beta = 3.0>(x, p)  y = Add(b, m)", ["Gemm"]),
        (f"{P}, float b = {{5}}", "m = Gemm(x, p, b)  y = Add(b, m)", ["Gemm", "Add"]),
        (
            "float[4,2] p = {1, 2, 3, 4, 5, 6, 7, 8}",
            "n = Neg(p)  t = Transpose<perm = [1, 0]>(n)  y = Gemm(x, t)",
            ["Gemm"],
        ),
        (
            P,
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
    text = f"g (float[3,2] x) => (float[3,4] y) <{P}, float b = {{1}}> {{ m = MatMul(x, p)  y = Add(m, b) }}"
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    proto.graph.node[0].name = "product"
    options = ephost.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = ephost.InferenceSession(proto, options)
    nodes = [n for g in session.get_provider_graph_assignment_info() for n in g.get_nodes()]
    assert [(n.name, n.op_type) for n in nodes] == [("product", "Gemm")]


V = {"x": np.array([[-3.0, -1.0, 0.0], [0.5, 2.0, 7.0]], np.float32)}


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
    assert len(rewritten(text, V).graph.nodes) == left


def test_a_clip_of_an_old_opset_takes_a_relu_into_its_attributes() -> None:
    text = "g (float[2,3] x) => (float[2,3] y) { r = Relu(x)  y = Clip<min = -1.0, max = 6.0>(r) }"
    model = rewritten(text, V, opset=9)
    assert [(a.name, a.f) for n in model.graph.nodes for a in n.proto.attribute if a.name == "min"] == [
        ("min", 0.0)
    ]


def test_random_numbers_are_drawn_as_often_as_the_model_says() -> None:
    model = model_of(
        "g (float[2] x) => (float[2] y) { a = RandomUniformLike(x)  b = RandomUniformLike(x)  y = Sub(a, b) }"
    )
    simplify(model)
    assert len(model.graph.nodes) == 3


def test_equal_nodes_that_make_outputs_stay() -> None:
    text = "g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Exp(x)  z = Exp(x) }"
    assert kinds(rewritten(text, V)) == ["Exp", "Exp"]
    text = "g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Exp(x)  a = Exp(x)  z = Neg(a) }"
    assert kinds(rewritten(text, V)) == ["Exp", "Neg"]


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
    assert len(rewritten(text, V).graph.nodes) == left


def test_quantised_pairs_give_back_what_went_in() -> None:
    model = model_of(
        "g (uint8[256] x) => (uint8[256] y) <float s = {0.0371}, uint8 z = {131}> "
        "{ i = Max(x)  d = DequantizeLinear(i, s, z)  q = QuantizeLinear(d, s, z)  y = Max(q) }"
    )
    x = np.arange(256, dtype=np.uint8)
    assert evaluate(model, x=x)[0].tolist() == x.tolist()
    simplify(model)
    assert kinds(model) == ["Max", "Max"]


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


NUMBERS = ",".join(str(n % 5) for n in range(24))
PADS = (
    "int64[8] p = {0, 0, 1, 0, 0, 0, 2, 1}, int64[8] n = {0, 0, -1, 0, 0, 0, 0, 0}, float one = {1}, "
    f"float zero = {{0}}, float[2,3,2,2] k = {{{NUMBERS}}}"
)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("a = Pad(x, p)  y = Conv(a, k)", ["Conv"]),
        ('a = Pad(x, p)  y = Conv<auto_pad = "VALID">(a, k)', ["Conv"]),
        ("a = Pad(x, p)  y = Conv<pads = [1, 1, 0, 0], strides = [2, 1]>(a, k)", ["Conv"]),
        ("a = Pad(x, p, one)  y = Conv(a, k)", ["Pad", "Conv"]),
        ("a = Pad(x, n)  y = Conv(a, k)", ["Pad", "Conv"]),
        ('a = Pad<mode = "reflect">(x, p)  y = Conv(a, k)', ["Pad", "Conv"]),
        ("a = Pad(x, p)  y = AveragePool<kernel_shape = [3, 2], count_include_pad = 1>(a)", ["AveragePool"]),
        ("a = Pad(x, p)  y = AveragePool<kernel_shape = [3, 2]>(a)", ["Pad", "AveragePool"]),
        ("a = Pad(x, p, inf)  y = MaxPool<kernel_shape = [3, 2]>(a)", ["MaxPool"]),
        ("a = Pad(x, p, inf)  y = MaxPool<kernel_shape = [2, 2]>(a)", ["Pad", "MaxPool"]),
        ("a = Pad(x, p)  y = MaxPool<kernel_shape = [3, 2]>(a)", ["Pad", "MaxPool"]),
        ("a = Pad(x, p)  b = Conv(a, k)  d = Conv(a, k)  e = Neg(d)  y = Add(b, e)", ["Conv", "Neg", "Add"]),
        (
            "a = Pad(x, p)  b = Conv(a, k)  d = ReduceSum(a)  y = Add(b, d)",
            ["Pad", "Conv", "ReduceSum", "Add"],
        ),
    ],
)
def test_padding_goes_into_what_can_pad_itself(body: str, left: list[str]) -> None:
    head = "g (float[2,3,5,4] x) => (float[a0,b0,c0,d0] y)"
    text = f"{head} <{PADS}> {{ {body} }}"
    if "inf" in body:
        text = text.replace(" { a = ", " { l = Log(zero)  a = ").replace("p, inf", "p, l")
    assert kinds(rewritten(text, IMAGE)) == left


def test_casts_in_a_row_are_one_only_where_that_is_asked_for() -> None:
    text = "g (float[2,3] x) => (double[2,3] y) { a = Cast<to = 6>(x)  y = Cast<to = 11>(a) }"
    assert kinds(rewritten(text, V)) == ["Cast", "Cast"]
    model = model_of(text)
    simplify(model, unwanted({"optimization.enable_cast_chain_elimination": "1"}))
    assert kinds(model) == ["Cast"]
    assert evaluate(model, **V)[0].tolist() == V["x"].astype(np.float64).tolist()


def test_nodes_that_are_taken_stay() -> None:
    for owner in ("claimed", "left"):
        model = model_of(f"{CONV} <{W}, float f = {{3}}> {{ c = Conv(x, w)  y = Mul(c, f) }}")
        if owner == "claimed":
            model.graph.nodes[1].ep_name = "somebody"
        else:
            model.graph.nodes[1].left_to_host = True
        assert not Rewriter(model, model.graph).run()


TEXT = f"{CONV} <{W}, {NORM}> {{ c = Conv(x, w)  n = BatchNormalization(c, s, b, m, v)  y = Identity(n) }}"


def opened(folder: Path, options: ephost.SessionOptions, **arguments: object) -> list[str]:
    """The operators that are left when a session has opened, read from the model that it wrote."""
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {TEXT}')
    options.optimized_model_filepath = str(folder / "left.onnx")
    session = ephost.InferenceSession(proto, options, **arguments)
    (mine,) = session.run(None, IMAGE)
    np.testing.assert_allclose(mine, evaluate(model_of(TEXT), **IMAGE)[0], rtol=1e-5, atol=1e-5)
    return [node.op_type for node in onnx.load(folder / "left.onnx").graph.node]


def test_a_session_rewrites_as_its_options_say(tmp_path: Path) -> None:
    assert opened(tmp_path, ephost.SessionOptions()) == ["Conv"]
    off = ephost.SessionOptions()
    off.graph_optimization_level = ephost.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert opened(tmp_path, off) == ["Conv", "BatchNormalization", "Identity"]
    some = ephost.SessionOptions()
    some.add_session_config_entry(
        "optimization.disable_specified_optimizers", "ConvBNFusion; EliminateIdentity"
    )
    assert opened(tmp_path, some) == ["Conv", "BatchNormalization", "Identity"]
    by_argument = opened(tmp_path, ephost.SessionOptions(), disabled_optimizers=["ConvBNFusion"])
    assert by_argument == ["Conv", "BatchNormalization"]


def test_what_config_entries_turn_off_are_names_of_rules() -> None:
    off = unwanted({"session.disable_double_qdq_remover": "1", "session.disable_quant_qdq": "1"})
    assert off - {""} <= RULE_NAMES
    assert CAST_CHAINS in off
