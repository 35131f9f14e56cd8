"""Operators of com.microsoft that are several of ONNX's in one, beside onnxruntime: what its optimizers and
quantizers make of transformers, convolutions and recurrent networks."""

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, assert_close, make_model

MS = "com.microsoft"


def some(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def node_of(op: str, inputs: list[str], outputs: list[str], **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, domain=MS, **attributes)


MASKS = {
    "none": None,
    "lengths": np.array([4, 6]),
    "lengths and starts": np.array([5, 6, 1, 0]),
    "keys": np.array([[1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1]]),
    "queries and keys": np.tril(np.ones((2, 6, 6))),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_of_packed_weights(cpu_plugin: Cpu, mask: str, unidirectional: int) -> None:
    feeds = {"x": some(2, 6, 20)}
    names = ["x", "w", "b"]
    if MASKS[mask] is not None:
        feeds["m"] = MASKS[mask].astype(np.int32)
        names.append("m")
    node = node_of("Attention", names, ["y"], num_heads=4, unidirectional=unidirectional)
    constants = {"w": some(20, 96, seed=1), "b": some(96, seed=2)}
    cpu_plugin.check_beside_onnxruntime(node, feeds, constants=constants, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_a_mask_of_one_column_is_none(cpu_plugin: Cpu, unidirectional: int, rows: int) -> None:
    feeds = {"x": some(2, 6, 20), "m": np.array([[0], [3]], np.int32)[:rows]}
    node = node_of("Attention", ["x", "w", "b", "m"], ["y"], num_heads=4, unidirectional=unidirectional)
    constants = {"w": some(20, 96, seed=1), "b": some(96, seed=2)}
    cpu_plugin.check_beside_onnxruntime(node, feeds, constants=constants, rtol=1e-4, atol=1e-5)


def test_attention_with_values_of_another_size_a_scale_and_a_bias_of_the_scores(cpu_plugin: Cpu) -> None:
    node = node_of(
        "Attention", ["x", "w", "b", "", "", "a"], ["y"],
        num_heads=2, qkv_hidden_sizes=[16, 16, 24], scale=0.5,
    )  # fmt: skip
    constants = {"w": some(12, 56, seed=1), "b": some(56, seed=2)}
    feeds = {"x": some(3, 5, 12), "a": some(1, 2, 5, 5, seed=3)}
    cpu_plugin.check_beside_onnxruntime(node, feeds, constants=constants, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("past", [0, 1, 7])
@pytest.mark.parametrize("mask", [False, True])
def test_attention_keeps_keys_and_values(cpu_plugin: Cpu, past: int, mask: bool) -> None:
    feeds = {"x": some(2, 3, 16), "p": some(2, 2, 4, past, 4, seed=4)}
    if mask:
        feeds["m"] = (np.arange(past + 3) > [[0], [-1]]).astype(np.int32)
    node = node_of(
        "Attention", ["x", "w", "b", "m" if mask else "", "p"], ["y", "present"],
        num_heads=4, unidirectional=1,
    )  # fmt: skip
    constants = {"w": some(16, 48, seed=1), "b": some(48, seed=2)}
    cpu_plugin.check_beside_onnxruntime(node, feeds, ("y", "present"), constants, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("columns", [1, 48])
@pytest.mark.parametrize("past", [False, True])
def test_attention_of_bytes(cpu_plugin: Cpu, columns: int, past: bool) -> None:
    random = np.random.default_rng(0)
    # Sums that do not saturate in onnxruntime's products.
    feeds = {"x": random.integers(0, 128, (2, 5, 16)).astype(np.uint8)}
    constants = {
        "w": random.integers(-64, 64, (16, 48)).astype(np.int8),
        "b": some(48, seed=2),
        "xs": np.float32(0.03),
        "ws": random.uniform(0.01, 0.02, columns).astype(np.float32).reshape(() if columns == 1 else (-1,)),
        "xz": np.uint8(60),
        "wz": np.zeros(() if columns == 1 else columns, np.int8),
    }
    names = ["x", "w", "b", "xs", "ws", "", "xz", "wz"]
    if past:
        feeds["p"] = some(2, 2, 4, 3, 4, seed=4)
        names.append("p")
    outputs = ["y", "present"] if past else ["y"]
    node = node_of("QAttention", names, outputs, num_heads=4, unidirectional=int(past))
    cpu_plugin.check_beside_onnxruntime(node, feeds, outputs, constants, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("positions", [False, True])
def test_embeddings_are_summed_and_normalised(
    cpu_plugin: Cpu, segments: bool, mask: bool, positions: bool
) -> None:
    random = np.random.default_rng(0)
    feeds = {"i": random.integers(0, 30, (2, 6)).astype(np.int32)}
    constants = {"word": some(30, 16), "place": some(9, 16, seed=1), "g": some(16, seed=3), "b": some(16)}
    names = ["i", "", "word", "place", "", "g", "b", "", ""]
    if segments:
        feeds["s"] = random.integers(0, 2, (2, 6)).astype(np.int32)
        constants["segment"] = some(2, 16, seed=2)
        names[1], names[4] = "s", "segment"
    if mask:
        feeds["m"] = np.array([[1, 1, 1, 1, 0, 0], [1] * 6], np.int32)
        names[7] = "m"
    if positions:
        feeds["p"] = random.integers(0, 9, (2, 6)).astype(np.int32)
        names[8] = "p"
    while not names[-1]:
        names.pop()
    node = node_of("EmbedLayerNormalization", names, ["y", "lengths", "sum"], epsilon=1e-5)
    cpu_plugin.check_beside_onnxruntime(node, feeds, ("y", "lengths", "sum"), constants, rtol=1e-4, atol=1e-5)


ACTIVATIONS = {
    "Relu": [],
    "Tanh": [],
    "Sigmoid": [],
    "LeakyRelu": [0.2],
    "Clip": [-0.5, 1.5],
    "HardSigmoid": [0.3, 0.6],
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("added", [False, True])
def test_convolutions_with_what_follows_them(cpu_plugin: Cpu, activation: str, added: bool) -> None:
    feeds = {"x": some(2, 4, 9, 7)}
    constants = {"w": some(8, 2, 3, 3, seed=1), "b": some(8, seed=2)}
    names = ["x", "w", "b"]
    if added:
        feeds["z"] = some(2, 8, 5, 4, seed=3)
        names.append("z")
    attributes: dict[str, object] = {"activation": activation, "group": 2, "strides": [2, 2]}
    if ACTIVATIONS[activation]:
        attributes["activation_params"] = ACTIVATIONS[activation]
    node = node_of("FusedConv", names, ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], **attributes)
    cpu_plugin.check_beside_onnxruntime(node, feeds, constants=constants, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", ["Relu", "Clip"])
def test_a_convolution_of_float16_with_what_follows_it(cpu_plugin: Cpu, activation: str) -> None:
    feeds = {"x": some(1, 3, 6, 6).astype(np.float16), "w": some(4, 3, 3, 3, seed=1).astype(np.float16)}
    more = {"activation_params": [0.0, 1.5]} if activation == "Clip" else {}
    node = node_of("FusedConv", list(feeds), ["y"], activation=activation, **more)
    cpu_plugin.check_beside_onnxruntime(node, feeds, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [
        ("Relu", {}),
        ("LeakyRelu", {"activation_alpha": 0.3}),
        ("Tanh", {}),
        ("Sigmoid", {}),
        ("ParametricSoftplus", {"activation_alpha": 0.4, "activation_beta": 1.7}),
        ("Selu", {"activation_alpha": 1.5, "activation_gamma": 1.1}),
        ("HardSigmoid", {"activation_alpha": 0.4, "activation_beta": 0.3}),
    ],
)
def test_products_with_what_follows_them(
    cpu_plugin: Cpu, activation: str, parameters: dict[str, float]
) -> None:
    node = node_of(
        "FusedGemm",
        ["a", "w", "b"],
        ["y"],
        activation=activation,
        alpha=0.5,
        beta=2.0,
        transB=1,
        **parameters,
    )
    constants = {"w": some(9, 12, seed=1), "b": some(9, seed=2)}
    cpu_plugin.check_beside_onnxruntime(node, {"a": some(5, 12)}, constants=constants, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("transposed", ["", "A", "B", "AB"])
@pytest.mark.parametrize("moved", ["A", "B", "AB"])
def test_products_with_the_batch_between_rows_and_columns(
    cpu_plugin: Cpu, transposed: str, moved: str
) -> None:
    shapes = {"a": [6, 5] if "A" in transposed else [5, 6], "b": [4, 6] if "B" in transposed else [6, 4]}
    for name, shape in shapes.items():
        shape[1 if name.upper() in moved else 0 : 0] = [2, 3]
    feeds = {"a": some(*shapes["a"]), "b": some(*shapes["b"], seed=1)}
    attributes: dict[str, float] = {f"trans{side}": 1 for side in transposed}
    attributes |= {f"transBatch{side}": 1 for side in moved}
    node = node_of("FusedMatMul", ["a", "b"], ["y"], alpha=0.5, **attributes)
    cpu_plugin.check_beside_onnxruntime(node, feeds, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize(("left", "right"), [(0, 1), (1, 0), (1, 1)])
def test_products_are_transposed_whose_ranks_only_inference_finds(
    cpu_plugin: Cpu, weights: bool, left: int, right: int
) -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["a"]),
        helper.make_node("Identity" if weights else "Reshape", ["w"] if weights else ["z", "t"], ["b"]),
        node_of("FusedMatMul", ["a", "w" if weights else "b"], ["p"], transA=left, transB=right),
        helper.make_node("IsNaN", ["p"], ["y"]),
    ]
    a, b = ([2, 3, 6, 5] if left else [2, 3, 5, 6]), ([4, 6] if right else [6, 4])
    constants = {"s": np.array(a), "t": np.array([2, 3, *b]), "w": some(*b, seed=1)}
    model = make_model(nodes, feeds := {"x": some(180), "z": some(144, seed=2)}, ["p", "y"], constants)
    del model.graph.value_info[:]
    found = cpu_plugin.run(model, feeds)
    other = constants["w"] if weights else feeds["z"].reshape(2, 3, *b)
    one = feeds["x"].reshape(a)
    expected = (one.swapaxes(-1, -2) if left else one) @ (other.swapaxes(-1, -2) if right else other)
    assert_close(found[0], expected, 1e-4, 1e-5, "p")
    assert not found[1].any()


@pytest.mark.parametrize("opset", [13, 16, 17])
def test_normalisations_that_onnxruntime_writes_into_an_opset_without_them(
    cpu_plugin: Cpu, opset: int
) -> None:
    nodes = [
        helper.make_node("LayerNormalization", ["x", "g", "b"], ["n"], axis=-1, epsilon=1e-5),
        helper.make_node("SimplifiedLayerNormalization", ["n", "g"], ["s"], axis=-1, epsilon=1e-6),
        helper.make_node("Exp", ["s"], ["y"]),
    ]
    constants = {"g": some(16, seed=1), "b": some(16, seed=2)}
    cpu_plugin.check_beside_onnxruntime(nodes, {"x": some(2, 5, 16)}, ("y",), constants, opset)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("Attention", ["x", "w", "b"], {"num_heads": 4, "do_rotary": 1}),
        ("Attention", ["x", "w", "b"], {"num_heads": 5}),
        ("FusedConv", ["x", "w", "b"], {"activation": "Softmax"}),
        ("FusedGemm", ["x", "w", "b"], {"activation": "Softmax"}),
    ],
)
def test_what_cannot_be_written_out_is_not_taken(
    cpu_plugin: Cpu, op: str, inputs: list[str], attributes: dict[str, object]
) -> None:
    feeds = {"x": some(2, 3, 16), "w": some(16, 48), "b": some(48)}
    model = make_model([node_of(op, inputs, ["y"], **attributes)], feeds, ["y"])
    with pytest.raises(Exception, match=op):
        cpu_plugin.session(model)
