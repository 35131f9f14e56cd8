"""com.microsoft's products beside onnxruntime and numpy, and what is known of their outputs' types."""

import numpy as np
import onnx
import pytest
from ephost.messages import NodeProto
from ephost.model.contrib import StandIns
from onnx import helper

from tests.plugins.cpu.conftest import Cpu

MS = "com.microsoft"


def some(*shape: int, seed: int = 0, dtype: object = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("constant", [False, True])
def test_a_fused_product_transposes_and_scales(
    cpu_plugin: Cpu, trans_a: int, trans_b: int, constant: bool
) -> None:
    a = some(2, 3, 9, 6) if trans_a else some(2, 3, 6, 9)
    b = some(2, 3, 10, 9, seed=1) if trans_b else some(2, 3, 9, 10, seed=1)
    if constant:
        b = np.ascontiguousarray(b[0, 0])
    node = helper.make_node(
        "FusedMatMul", ["a", "b"], ["y"], domain=MS, transA=trans_a, transB=trans_b, alpha=0.125
    )
    feeds, constants = ({"a": a}, {"b": b}) if constant else ({"a": a, "b": b}, {})
    cpu_plugin.check_beside_onnxruntime(node, feeds, constants=constants, rtol=1e-5, atol=1e-6)


def ours(node: onnx.NodeProto) -> NodeProto:
    """The node as the host reads it."""
    return NodeProto.FromString(node.SerializeToString())


def inferred(
    nodes: list[onnx.NodeProto], inputs: dict[str, list[int | str]], **ranks: int
) -> dict[str, list[int | str | None]]:
    """The shapes of all values whose element type inference finds; it knows the ranks of some before."""
    ranks |= {name: len(shape) for name, shape in inputs.items()}
    stand_ins = StandIns(ranks.get)
    replaced = stand_ins.replace(map(ours, nodes))
    functions = [onnx.FunctionProto.FromString(made.SerializeToString()) for made in stand_ins.functions]
    graph = helper.make_graph(
        [onnx.NodeProto.FromString(node.SerializeToString()) for node in replaced],
        "graph",
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, shape) for n, shape in inputs.items()],
        [onnx.ValueInfoProto(name=nodes[-1].output[0])],
    )
    opsets = [helper.make_opsetid("", 21)]
    opsets += [helper.make_opsetid(domain, 1) for domain in {f.domain for f in functions}]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=10)
    found = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    return {
        info.name: [d.dim_value or d.dim_param or None for d in info.type.tensor_type.shape.dim]
        for info in [*found.value_info, *found.output]
        if info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    }


def test_shapes_go_through_a_layer_of_an_optimised_transformer() -> None:
    def node(op: str, names: list[str], outputs: list[str], **attributes: object) -> onnx.NodeProto:
        return helper.make_node(op, names, outputs, domain=MS, **attributes)

    nodes = [
        node("MatMulNBits", ["x", "w", "s"], ["q"], K=64, N=64, bits=4, block_size=32),
        node("MatMulNBits", ["x", "w", "s"], ["k"], K=64, N=64, bits=4, block_size=32),
        node("MatMulNBits", ["x", "w", "s"], ["v"], K=64, N=96, bits=4, block_size=32),
        node("RotaryEmbedding", ["q", "p", "c", "c"], ["r"]),
        node("MultiHeadAttention", ["r", "k", "v", "", "", "", "pk", "pv"], ["a", "ck", "cv"], num_heads=4),
        node(
            "GroupQueryAttention", ["g", "", "", "pk", "pv", "n", "t"], ["h", "dk"],
            num_heads=8, kv_num_heads=4,
        ),
        node("FusedMatMul", ["pk", "pv"], ["m"], transB=1),
        node("SkipLayerNormalization", ["a", "a", "e"], ["z", "", "", "total"]),
        node("FastGelu", ["z"], ["y"]),
    ]  # fmt: skip
    shapes = inferred(
        nodes,
        {
            "x": ["batch", "length", 64],
            "w": [64, 2, 16],
            "s": [128],
            "p": [1],
            "c": [9, 8],
            "e": [96],
            "g": ["batch", "length", 256],
            "pk": ["batch", 4, 5, 16],
            "pv": ["batch", 4, 5, 16],
            "n": ["batch"],
            "t": [1],
        },
        v=3,
    )
    assert shapes["q"] == shapes["r"] == ["batch", "length", 64]
    assert shapes["a"] == shapes["z"] == shapes["y"] == shapes["total"] == ["batch", "length", 96]
    assert shapes["ck"][:2] + shapes["ck"][3:] == ["batch", 4, 16]
    assert shapes["h"] == ["batch", "length", 128]
    assert shapes["dk"][:2] + shapes["dk"][3:] == ["batch", 4, 16]
    assert shapes["m"] == ["batch", 4, 5, 5]


def test_nodes_in_bodies_are_replaced_and_the_model_is_not_changed() -> None:
    body = helper.make_graph(
        [helper.make_node("FastGelu", ["x"], ["b"], domain=MS)], "body", [], [onnx.ValueInfoProto(name="b")]
    )
    node = ours(helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body))
    before = node.SerializeToString()
    stand_ins = StandIns()
    (made,) = stand_ins.replace([node])
    assert node.SerializeToString() == before
    assert {a.g.node[0].domain for a in made.attribute} == {f.domain for f in stand_ins.functions}
    assert MS not in {f.domain for f in stand_ins.functions}


def test_what_follows_a_function_of_contrib_operators_is_claimed_with_its_body(cpu_plugin: Cpu) -> None:
    """Inference does not know what the function makes before its body is in the place of the call."""
    opsets = '["" : 21, "com.microsoft" : 1, "f" : 1]'
    text = f"""<ir_version: 10, opset_import: {opsets}>
      g (float[2, 3] x, float[3, 4] w) => (float[2, 4] y) {{ h = f.Half (x, w)  n = Neg (h)  y = Exp (n) }}
      <domain: "f", opset_import: {opsets}>
      Half (x, w) => (h) {{ h = com.microsoft.FusedMatMul<alpha = 0.5> (x, w) }}"""
    session = cpu_plugin.session(onnx.parser.parse_model(text))
    x, w = some(2, 3), some(3, 4)
    np.testing.assert_allclose(session.run(None, {"x": x, "w": w})[0], np.exp(-0.5 * (x @ w)), rtol=1e-5)


def test_a_chain_of_contrib_operators_is_claimed_without_declared_types(cpu_plugin: Cpu) -> None:
    nodes = [
        helper.make_node("FastGelu", ["x", "b"], ["g"], domain=MS),
        helper.make_node("MatMul", ["g", "w"], ["m"]),
        helper.make_node("SkipSimplifiedLayerNormalization", ["m", "m", "s"], ["n"], domain=MS),
        helper.make_node("QuickGelu", ["n"], ["y"], domain=MS),
    ]
    feeds = {"x": some(3, 7, 16), "b": some(16, seed=1)}
    constants = {"w": some(16, 32, seed=2), "s": some(32, seed=3)}
    cpu_plugin.check_beside_onnxruntime(nodes, feeds, constants=constants, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(5,), (1, 5), (3, 5), (3, 1), (1, 1), (1,), ()])
@pytest.mark.parametrize("quantized", [False, True])
def test_the_bias_of_a_quantised_gemm_is_broadcast(
    cpu_plugin: Cpu, shape: tuple[int, ...], quantized: bool
) -> None:
    random = np.random.default_rng(3)
    feeds: dict[str, np.ndarray] = {
        "a": random.integers(0, 255, size=(3, 4)).astype(np.uint8),
        "as": np.array(0.1, np.float32),
        "az": np.array(120, np.uint8),
        "b": random.integers(-127, 127, size=(4, 5)).astype(np.int8),
        "bs": np.array(0.2, np.float32),
        "bz": np.array(0, np.int8),
        "c": random.integers(-9000, 9000, size=shape).astype(np.int32),
    }
    if quantized:
        feeds |= {"ys": np.array(3, np.float32), "yz": np.array(128, np.uint8)}
    node = helper.make_node("QGemm", list(feeds), ["y"], domain=MS)
    cpu_plugin.check_beside_onnxruntime(node, feeds, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("rows", [3, 70])
@pytest.mark.parametrize(
    "attributes", [{"alpha": 0.37}, {"transA": 1}, {"alpha": -2.5, "transA": 1, "transB": 1}]
)
@pytest.mark.parametrize("quantized", [False, True])
def test_a_quantised_gemm_has_a_factor_and_takes_matrices_transposed(
    cpu_plugin: Cpu, rows: int, attributes: dict[str, float], quantized: bool
) -> None:
    random = np.random.default_rng(5)
    a = random.integers(0, 255, size=(rows, 33)).astype(np.uint8)
    b = random.integers(-63, 64, size=(33, 21)).astype(np.int8)  # whose sums by twos fit 16 bits there
    feeds: dict[str, np.ndarray] = {
        "a": np.ascontiguousarray(a.T) if "transA" in attributes else a,
        "as": np.array(0.1, np.float32),
        "az": np.array(120, np.uint8),
        "b": np.ascontiguousarray(b.T) if "transB" in attributes else b,
        "bs": random.uniform(0.1, 0.3, 21).astype(np.float32),
        "bz": np.zeros(21, np.int8),
        "c": random.integers(-9000, 9000, size=21).astype(np.int32),
    }
    if quantized:
        feeds |= {"ys": np.array(20, np.float32), "yz": np.array(128, np.uint8)}
    node = helper.make_node("QGemm", list(feeds), ["y"], domain=MS, **attributes)
    cpu_plugin.check_beside_onnxruntime(node, feeds, rtol=1e-5, atol=1e-2)


BEFORE = {
    "Mul": [helper.make_node("Mul", ["v", "one"], ["w"])],
    "Add": [helper.make_node("Add", ["v", "zero"], ["w"])],
    "Cast": [helper.make_node("Cast", ["v"], ["w"], to=1)],
    "Reshape": [
        helper.make_node("Shape", ["v"], ["shape"]),
        helper.make_node("Reshape", ["v", "shape"], ["w"]),
    ],
    "Transpose": [
        helper.make_node("Transpose", ["v"], ["back"]),
        helper.make_node("Transpose", ["back"], ["w"]),
    ],
}


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("heads", [False, True], ids=["3-D", "4-D"])
def test_an_attention_has_types_whatever_makes_its_values(cpu_plugin: Cpu, before: str, heads: bool) -> None:
    """Their rank is known when inference has been there; then the attention is gone through again."""
    shape = (1, 2, 5, 8) if heads else (1, 5, 16)
    feeds = {
        "q": some(1, 5, 16),
        "k": some(*shape),
        "v": some(*shape),
        "one": some(1) * 0 + 1,
        "zero": some(1) * 0,
    }
    nodes = [
        *BEFORE[before],
        helper.make_node("MultiHeadAttention", ["q", "k", "w"], ["a"], domain=MS, num_heads=2),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    cpu_plugin.check_beside_onnxruntime(nodes, feeds, ["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_a_product_of_turned_sums_has_a_type(cpu_plugin: Cpu, rank: int) -> None:
    feeds = {"x": some(*[2] * (rank - 2), 3, 4), "z": some(1)}
    nodes = [
        helper.make_node("Add", ["x", "z"], ["s"]),
        helper.make_node("FusedMatMul", ["s", "x"], ["p"], domain=MS, transA=1),
        helper.make_node("Relu", ["p"], ["y"]),
    ]
    cpu_plugin.check_beside_onnxruntime(nodes, feeds, ["y"], rtol=1e-4, atol=1e-5)


def test_an_attention_in_a_body_has_types(cpu_plugin: Cpu) -> None:
    def info(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)

    inner = [
        helper.make_node("Mul", ["v", "one"], ["w"]),
        helper.make_node("MultiHeadAttention", ["q", "k", "w"], ["a"], domain=MS, num_heads=2),
        helper.make_node("Relu", ["a"], ["r"]),
    ]
    other = [helper.make_node("Identity", ["q"], ["r"])]
    node = helper.make_node(
        "If",
        ["c"],
        ["y"],
        then_branch=helper.make_graph(inner, "then", [], [info("r")]),
        else_branch=helper.make_graph(other, "else", [], [info("r")]),
    )
    feeds = {name: some(1, 5, 16) for name in "qkv"}
    feeds |= {"one": some(1) * 0 + 1, "c": np.array(True)}
    cpu_plugin.check_beside_onnxruntime(node, feeds, ["y"], rtol=1e-4, atol=1e-5)
