"""What passes make of a graph gives what the graph gives."""

import json
from pathlib import Path

import ephost
import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, parser

from tests.plugins.cpu.conftest import Cpu, make_model, steps_of


def some(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def both_ways(
    cpu: Cpu,
    nodes: list[onnx.NodeProto],
    feeds: dict[str, np.ndarray],
    outputs: list[str],
    constants: dict[str, np.ndarray] | None = None,
    open_shapes: bool = False,
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> ephost.InferenceSession:
    """Compares a session with fusions and one without; returns the former."""
    model = make_model(nodes, feeds, outputs, constants, open_shapes=open_shapes)
    fused, plain = cpu.session(model), cpu.session(model, fusion=0)
    for found, expected in zip(fused.run(None, feeds), plain.run(None, feeds), strict=True):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_allclose(
            found.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=atol
        )
    return fused


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[onnx.NodeProto], dict[str, np.ndarray], list[str]]:
    """A graph of elementwise nodes over inputs of shapes that broadcast, with values that are used twice."""
    full = draw(st.sampled_from([(2, 3, 40), (7, 300), (1, 5, 4, 9)]))
    feeds = {"x": some(*full), "s": some(*full[-1:], seed=1), "c": some(*full[1:-1], 1, seed=2)}
    values, nodes = list(feeds), []
    for i in range(draw(st.integers(2, 9))):
        a, b = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        op = draw(
            st.sampled_from(["Add", "Mul", "Sub", "Max", "Tanh", "Sigmoid", "Relu", "Clip", "Where", "Div"])
        )
        name = f"v{i}"
        if op == "Where":
            nodes.append(helper.make_node("Greater", [a, b], [name + "c"]))
            nodes.append(helper.make_node("Where", [name + "c", a, "x"], [name]))
        elif op == "Div":  # By something that is not near zero.
            nodes.append(helper.make_node("Exp", [b], [name + "e"]))
            nodes.append(helper.make_node("Tanh", [name + "e"], [name + "t"]))
            nodes.append(helper.make_node("Div", [a, name + "t"], [name]))
        else:
            nodes.append(helper.make_node(op, [a, b] if op in ("Add", "Mul", "Sub", "Max") else [a], [name]))
        values.append(name)
    outputs = {values[-1], draw(st.sampled_from(values[3:]))}
    return nodes, feeds, sorted(outputs)


@given(trees(), st.booleans())
def test_any_tree_of_elementwise_nodes_gives_the_same_in_one_pass(
    cpu_plugin: Cpu,
    tree: tuple[list[onnx.NodeProto], dict[str, np.ndarray], list[str]],
    open_shapes: bool,
) -> None:
    nodes, feeds, outputs = tree
    both_ways(cpu_plugin, nodes, feeds, outputs, open_shapes=open_shapes, rtol=1e-4, atol=1e-5)


def test_a_chain_of_many_types_is_one_expression(cpu_plugin: Cpu) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=onnx.TensorProto.FLOAT16),
        helper.make_node("Mul", ["h", "two"], ["d"]),
        helper.make_node("Cast", ["d"], ["i"], to=onnx.TensorProto.INT32),
        helper.make_node("Mod", ["i", "three"], ["m"]),
        helper.make_node("Equal", ["m", "zero"], ["e"]),
        helper.make_node("Cast", ["e"], ["f"], to=onnx.TensorProto.DOUBLE),
        helper.make_node("Cast", ["f"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    constants = {"two": np.float16([2]), "three": np.int32(3), "zero": np.int32([[0]])}
    x = np.round(some(5, 700) * 72) / 8  # which are halves: only with fusion others are not rounded to one
    both_ways(cpu_plugin, nodes, {"x": x}, ["y"], constants)


def test_constants_of_higher_rank_count_for_the_shape(cpu_plugin: Cpu) -> None:
    nodes = [helper.make_node("Mul", ["x", "k"], ["a"]), helper.make_node("Add", ["a", "k"], ["y"])]
    both_ways(cpu_plugin, nodes, {"x": some(3)}, ["y"], {"k": np.float32([[[2]]])})


@pytest.mark.parametrize("fusion", [0, 1])
def test_masked_softmax_is_zero_where_the_model_says_so(cpu_plugin: Cpu, fusion: int) -> None:
    nodes = [
        helper.make_node("Softmax", ["x"], ["s"]),
        helper.make_node("IsNaN", ["s"], ["n"]),
        helper.make_node("Where", ["n", "zero", "s"], ["y"]),
    ]
    x = some(4, 30)
    x[2] = -np.inf
    model = make_model(nodes, {"x": x}, ["y"], {"zero": np.float32(0)})
    y = cpu_plugin.run(model, {"x": x}, fusion=fusion)[0]
    assert (y[2] == 0).all()
    np.testing.assert_allclose(y.sum(-1), [1, 1, 0, 1], rtol=1e-6)


def test_a_tree_is_one_step_of_a_run(cpu_plugin: Cpu, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"]),
        helper.make_node("Mul", ["x", "s"], ["m"]),
        helper.make_node("Add", ["m", "k"], ["a"]),
        helper.make_node("Tanh", ["a"], ["y"]),
    ]
    feeds = {"x": some(3, 50), "k": some(50, seed=1)}
    steps = {}
    for fuse in (0, 1):
        options = ephost.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = str(tmp_path / f"steps{fuse}")
        options.add_provider_for_devices([cpu_plugin.device], {"fusion": str(fuse)})
        model = make_model(nodes, feeds, ["y"]).SerializeToString()
        session = ephost.InferenceSession(model, options)
        session.run(None, feeds)
        trace = json.loads(Path(session.end_profiling()).read_text())
        steps[fuse] = sum("Elementwise" in str(event) for event in trace)
    assert steps[0] == 0
    assert steps[1] >= 1


def attention(scale: str, mask: bool, clear: bool, keys: str, merge: bool) -> list[onnx.NodeProto]:
    """softmax(scale q k^T + mask) v as exporters write it; inputs are [batch, sequence, heads, channels]."""
    nodes = [
        helper.make_node("Transpose", [name], [name + "t"], perm=[0, 2, 1, 3]) for name in ("q", "k", "v")
    ]
    if keys == "direct":
        nodes[1] = helper.make_node("Transpose", ["k"], ["kk"], perm=[0, 2, 3, 1])
    elif keys == "swapped":
        nodes.append(helper.make_node("Transpose", ["kt"], ["kk"], perm=[0, 1, 3, 2]))
    else:  # Three dimensions in between.
        nodes.append(helper.make_node("Reshape", ["kt", "flat"], ["k3"]))
        nodes.append(helper.make_node("Transpose", ["k3"], ["k3t"], perm=[0, 2, 1]))
        nodes.append(helper.make_node("Reshape", ["k3t", "deep"], ["kk"]))
    q, k, scores = "qt", "kk", "scores"
    if scale == "both":
        nodes += [helper.make_node("Mul", ["qt", "s"], ["qs"]), helper.make_node("Mul", ["s", "kk"], ["ks"])]
        q, k = "qs", "ks"
    nodes.append(helper.make_node("MatMul", [q, k], [scores]))
    if scale == "scores":
        nodes.append(helper.make_node("Div", [scores, "s"], ["scaled"]))
        scores = "scaled"
    if mask:
        nodes.append(helper.make_node("Add", [scores, "m"], ["masked"]))
        scores = "masked"
    nodes.append(helper.make_node("Softmax", [scores], ["w"], axis=-1))
    weights = "w"
    if clear:
        nodes.append(helper.make_node("IsNaN", ["w"], ["nan"]))
        nodes.append(helper.make_node("Where", ["nan", "zero", "w"], ["cleared"]))
        weights = "cleared"
    nodes.append(helper.make_node("MatMul", [weights, "vt"], ["o" if merge else "y"]))
    if merge:
        nodes.append(helper.make_node("Transpose", ["o"], ["y"], perm=[0, 2, 1, 3]))
    return nodes


@pytest.mark.parametrize("keys", ["direct", "swapped", "flat"])
@pytest.mark.parametrize("scale", ["both", "scores", "none"])
@pytest.mark.parametrize(
    ("rows", "columns", "depth", "width"),
    [(7, 7, 8, 8), (128, 128, 64, 64), (1, 33, 64, 64), (50, 1500, 32, 20), (3, 1, 5, 3)],
)
def test_attention_as_exporters_write_it_is_one_step(
    cpu_plugin: Cpu, tmp_path: Path, keys: str, scale: str, rows: int, columns: int, depth: int, width: int
) -> None:
    batch, heads = 2, 3
    feeds = {
        "q": some(batch, rows, heads, depth),
        "k": some(batch, columns, heads, depth, seed=1),
        "v": some(batch, columns, heads, width, seed=2),
    }
    constants = {"s": np.float32(0.5), "zero": np.float32(0)}
    constants |= {"flat": np.int64([-1, columns, depth]), "deep": np.int64([batch, heads, depth, columns])}
    for mask, clear, merge in ((False, False, True), (True, True, True), (True, False, False)):
        nodes = attention(scale, mask, clear, keys, merge)
        inputs = dict(feeds)
        if mask:
            inputs["m"] = np.where(some(batch, 1, rows, columns, seed=3) > 0.5, -np.inf, 0).astype(np.float32)
            if clear:
                inputs["m"][0, 0, 0] = -np.inf
            else:
                inputs["m"][..., 0] = 0
        both_ways(cpu_plugin, nodes, inputs, ["y"], constants, rtol=1e-4, atol=1e-5)
        steps = steps_of(cpu_plugin, make_model(nodes, inputs, ["y"], constants), inputs, tmp_path)
        assert steps == ["Attention"], (mask, clear, merge)


@pytest.mark.parametrize("known", [True, False])
def test_attention_of_16_bits_is_rounded_once(cpu_plugin: Cpu, tmp_path: Path, known: bool) -> None:
    """With a Where behind the softmax that is known to clear nothing, or without it."""
    shapes = {"q": (2, 5, 3, 8), "k": (2, 9, 3, 8), "v": (2, 9, 3, 8), "m": (5, 9)}
    feeds = {n: some(*shape, seed=at).astype(np.float16) for at, (n, shape) in enumerate(shapes.items())}
    constants = {"s": np.float16(0.375), "zero": np.float32(0), "none": np.zeros((5, 1), bool)}
    nodes = attention("both", True, False, "direct", True)
    if known:
        at = next(i for i, node in enumerate(nodes) if node.op_type == "Softmax") + 1
        nodes.insert(at, helper.make_node("Where", ["none", "like", "w"], ["cleared"]))
        nodes[at + 1].input[0] = "cleared"
        nodes.insert(at, helper.make_node("CastLike", ["zero", "w"], ["like"]))  # reads no numbers of w
    model = make_model(nodes, feeds, ["y"], constants)
    steps = steps_of(cpu_plugin, model, feeds, tmp_path)
    assert [step for step in steps if step != "Cast"] == ["Attention"]
    q, k, v = (feeds[name].astype(np.float64).transpose(0, 2, 1, 3) for name in ("q", "k", "v"))
    scores = 0.375 * 0.375 * q @ k.transpose(0, 1, 3, 2) + feeds["m"]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    exact = (weights / weights.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3)
    (found,) = cpu_plugin.run(model, feeds)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=2**-11, atol=1e-6)


def test_a_where_that_clears_something_stays(cpu_plugin: Cpu) -> None:
    feeds = {"q": some(2, 5, 3, 4), "k": some(2, 9, 3, 4, seed=1), "v": some(2, 9, 3, 4, seed=2)}
    some_rows = np.array([[False], [True], [False], [False], [False]])
    nodes = attention("none", False, False, "direct", True)
    at = next(i for i, node in enumerate(nodes) if node.op_type == "Softmax") + 1
    nodes.insert(at, helper.make_node("Where", ["rows", "zero", "w"], ["cleared"]))
    nodes[at + 1].input[0] = "cleared"
    constants = {"rows": some_rows, "zero": np.float32(0)}
    both_ways(cpu_plugin, nodes, feeds, ["y"], constants, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "mask", [(9,), (5, 9), (1, 1, 9), (2, 1, 1, 9), (3, 5, 9), (5, 1), (1,), (2, 3, 5, 9)]
)
def test_masks_are_broadcast_to_the_scores(cpu_plugin: Cpu, mask: tuple[int, ...]) -> None:
    feeds = {
        "q": some(2, 5, 3, 4),
        "k": some(2, 9, 3, 4, seed=1),
        "v": some(2, 9, 3, 4, seed=2),
        "m": some(*mask, seed=3),
    }
    nodes = attention("none", True, False, "direct", True)
    both_ways(cpu_plugin, nodes, feeds, ["y"], rtol=1e-4, atol=1e-5)
    both_ways(cpu_plugin, nodes, feeds, ["y"], rtol=1e-4, atol=1e-5, open_shapes=True)


def test_scores_that_somebody_else_reads_stay(cpu_plugin: Cpu) -> None:
    feeds = {"q": some(2, 5, 3, 4), "k": some(2, 9, 3, 4, seed=1), "v": some(2, 9, 3, 4, seed=2)}
    nodes = attention("scores", False, False, "direct", True)
    for extra in ("scores", "scaled", "w", "o"):
        both_ways(cpu_plugin, nodes, feeds, ["y", extra], {"s": np.float32(2)}, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("square", ["Pow", "Mul"])
@pytest.mark.parametrize("scaled", [True, False])
def test_normalisations_in_single_steps_are_one_step(
    cpu_plugin: Cpu, tmp_path: Path, centered: bool, square: str, scaled: bool
) -> None:
    d = "d" if centered else "x"
    nodes = [
        helper.make_node("ReduceMean", ["x", "last"], ["m"]),
        helper.make_node("Sub", ["x", "m"], ["d"]),
    ]
    nodes = nodes if centered else []
    nodes += [
        helper.make_node(square, [d, "two" if square == "Pow" else d], ["sq"]),
        helper.make_node("ReduceMean", ["sq", "last"], ["v"]),
        helper.make_node("Add", ["v", "e"], ["ve"]),
        helper.make_node("Sqrt", ["ve"], ["r"]),
    ]
    if centered:
        nodes.append(helper.make_node("Div", ["d", "r"], ["n"]))
    else:
        nodes += [helper.make_node("Reciprocal", ["r"], ["f"]), helper.make_node("Mul", ["x", "f"], ["n"])]
    if scaled:
        nodes.append(helper.make_node("Mul", ["g", "n"], ["s"]))
    if scaled and centered:
        nodes.append(helper.make_node("Add", ["s", "b"], ["t"]))
    nodes[-1].output[0] = "y"
    constants = {"last": np.int64([-1]), "two": np.float32(2), "e": np.float32(1e-3)}
    constants |= {"g": some(72, seed=1), "b": some(72, seed=2)}
    feeds = {"x": some(3, 5, 72) + np.float32(2)}
    both_ways(cpu_plugin, nodes, feeds, ["y"], constants, rtol=1e-4, atol=1e-5)
    steps = steps_of(cpu_plugin, make_model(nodes, feeds, ["y"], constants), feeds, tmp_path)
    assert steps == ["LayerNormalization" if centered else "RMSNormalization"]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("factor", [1e-4, 1, 1e3])
def test_squares_of_halves_stay_in_range(cpu_plugin: Cpu, dtype: type, scaled: bool, factor: float) -> None:
    nodes = [
        helper.make_node("Pow", ["x", "two"], ["sq"]),
        helper.make_node("ReduceMean", ["sq", "last"], ["v"]),
        helper.make_node("Add", ["v", "e"], ["ve"]),
        helper.make_node("Sqrt", ["ve"], ["r"]),
        helper.make_node("Div", ["one", "r"], ["f"]),
        helper.make_node("Mul", ["x", "f"], ["n"]),
        helper.make_node("Mul", ["g", "n"] if scaled else ["n", "one"], ["y"]),
    ]
    constants = {"two": dtype(2), "e": dtype(1e-6), "one": dtype(1), "g": some(72).astype(dtype)}
    constants["last"] = np.int64([-1])
    x = (some(3, 5, 72) * factor).astype(dtype)
    (found,) = cpu_plugin.run(make_model(nodes, {"x": x}, ["y"], constants), {"x": x})
    wide = x.astype(np.float32)
    expected = wide / np.sqrt(np.mean(wide**2, axis=-1, keepdims=True) + np.float32(constants["e"]))
    expected = expected * constants["g"].astype(np.float32) if scaled else expected
    np.testing.assert_allclose(found.astype(np.float32), expected, rtol=2e-2, atol=1e-3)


# Activations of x as exporters write them out: of GELU, what erf or tanh are taken of, and in which order x,
# 0.5 and the sum are multiplied.
BENT = {
    "erf of a quotient": "f = Div(x, root)  g = Erf(f)",
    "erf of a product": "f = Mul(reciprocal, x)  g = Erf(f)",
    "tanh of a power": "q = Pow(x, three)  p = Mul(q, share)  s = Add(x, p)  f = Mul(s, factor)  g = Tanh(f)",
    "tanh of a cube": "r = Mul(x, x)  q = Mul(r, x)  p = Mul(share, q)  s = Add(p, x)  f = Mul(factor, s)"
    "  g = Tanh(f)",
}
HALVED = {
    "x first": "sum = Add(g, one)  t = Mul(x, sum)  y = Mul(t, half)",
    "half first": "sum = Add(one, g)  t = Mul(half, sum)  y = Mul(t, x)",
    "both first": "sum = Add(g, one)  t = Mul(x, half)  y = Mul(t, sum)",
    "a quotient": "sum = Add(g, one)  t = Mul(sum, x)  y = Div(t, two)",
}
GELU = BENT["erf of a quotient"] + HALVED["x first"]
WRITTEN_OUT = {
    **{f"gelu: {one}, {other}": BENT[one] + HALVED[other] for one in BENT for other in HALVED},
    "swish": "g = Sigmoid(x)  y = Mul(x, g)",
    "quick gelu": "f = Mul(x, quick)  g = Sigmoid(f)  y = Mul(g, x)",
    "hard swish": "g = HardSigmoid <alpha = 0.16666667> (x)  y = Mul(x, g)",
    "another slope": "g = HardSigmoid <beta = 0.6> (x)  y = Mul(x, g)",
    "clip, product, quotient": "f = Add(x, three)  g = Clip(f, zero, six)  t = Mul(x, g)  y = Div(t, six)",
    "clip, quotient, product": "f = Add(x, three)  g = Clip(f, zero, six)  t = Div(g, six)  y = Mul(x, t)",
    "clip, product, product": "f = Add(three, x)  g = Clip(f, zero, six)  t = Mul(g, x)  y = Mul(t, sixth)",
    "mish": "f = Softplus(x)  g = Tanh(f)  y = Mul(g, x)",
}
NUMBERS = {
    "root": np.float32(1.4142135),
    "reciprocal": np.float32([0.70710677]),
    "share": np.float32(0.044715),
    "factor": np.float32(0.7978845),
    "quick": np.float32(1.702),
    "sixth": np.float32(1 / 6),
    "half": np.float32(0.5),
    **{name: np.float32(i) for i, name in enumerate(["zero", "one", "two", "three", "", "", "six"]) if name},
}


def nodes_of(text: str) -> list[onnx.NodeProto]:
    graph = parser.parse_graph(f"g (float[n] x) => (float[n] y) {{ {text} }}")
    return list(graph.node)


@pytest.mark.parametrize("form", WRITTEN_OUT)
def test_an_activation_in_single_steps_is_part_of_what_comes_before(
    cpu_plugin: Cpu, tmp_path: Path, form: str
) -> None:
    nodes = [helper.make_node("MatMul", ["a", "w"], ["x"]), *nodes_of(WRITTEN_OUT[form])]
    feeds, constants = {"a": some(9, 24)}, {"w": some(24, 40, seed=1), **NUMBERS}
    both_ways(cpu_plugin, nodes, feeds, ["y"], constants, rtol=1e-4, atol=1e-5)
    steps = steps_of(cpu_plugin, make_model(nodes, feeds, ["y"], constants), feeds, tmp_path)
    assert steps == ["MatMul"]


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (GELU, {"half": np.float32(0.6)}),
        (GELU, {"one": np.float32(1.001)}),
        (GELU, {"root": np.float32(1.5)}),
        (GELU, {"half": np.float32([[[0.5]]])}),  # The result has a dimension more.
        (GELU, {"half": some(40)}),
        (WRITTEN_OUT["gelu: tanh of a cube, x first"], {"share": np.float32(0.05)}),
        (WRITTEN_OUT["quick gelu"], {"quick": np.float32([[[1.702]]])}),
        (WRITTEN_OUT["clip, product, quotient"], {"six": np.float32(5)}),
        (WRITTEN_OUT["clip, product, quotient"], {"three": np.float32([[[3]]])}),
        ("f = Softplus(x)  g = Tanh(f)  y = Mul(g, one)", {}),
        ("g = Sigmoid(x)  y = Mul(g, g)", {}),
    ],
)
def test_what_is_almost_an_activation_stays(
    cpu_plugin: Cpu, text: str, changes: dict[str, np.ndarray]
) -> None:
    both_ways(cpu_plugin, nodes_of(text), {"x": some(9, 40)}, ["y"], {**NUMBERS, **changes}, atol=1e-5)


@pytest.mark.parametrize("read", ["f", "g", "sum", "t"])
def test_a_part_of_an_activation_that_somebody_reads_is_there(cpu_plugin: Cpu, read: str) -> None:
    both_ways(cpu_plugin, nodes_of(GELU), {"x": some(9, 40)}, ["y", read], NUMBERS, atol=1e-5)


def test_the_same_steps_of_integers_are_none(cpu_plugin: Cpu) -> None:
    """A quotient of them is rounded."""
    numbers = {"three": np.int32(3), "zero": np.int32(0), "six": np.int32(6)}
    x = np.arange(-9, 9, dtype=np.int32)
    text = WRITTEN_OUT["clip, product, quotient"]
    both_ways(cpu_plugin, nodes_of(text), {"x": x}, ["y"], numbers)
