"""What convolutions, batch normalisations and matrix products take in of the nodes around them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model, steps_of

N = helper.make_node


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def operators(cpu: Cpu, model: onnx.ModelProto, feeds: dict[str, np.ndarray], folder: Path) -> list[str]:
    """The operators that one run executes, without changes of layout."""
    return [op for op in steps_of(cpu, model, feeds, folder) if op != "Reorder"]


def check(
    cpu: Cpu,
    nodes: Sequence[onnx.NodeProto],
    feeds: dict[str, np.ndarray],
    constants: dict[str, np.ndarray],
    steps: Sequence[str],
    folder: Path,
    outputs: Sequence[str] = ("y",),
    opset: int = 15,
) -> None:
    """Fused and unfused give the same, for known and open shapes; fused it runs only these steps."""
    for open_shapes in (False, True):
        model = make_model(nodes, feeds, outputs, constants, opset, open_shapes)
        for found, expected in zip(cpu.run(model, feeds), cpu.run(model, feeds, fusion=0), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert operators(cpu, make_model(nodes, feeds, outputs, constants, opset), feeds, folder) == list(steps)


def batch_norm(channels: int) -> dict[str, np.ndarray]:
    found = {name: random(channels, seed=i + 5) for i, name in enumerate(["scale", "shift", "mean"])}
    return found | {"variance": np.abs(random(channels, seed=9)) + 0.5}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("groups", [1, 2])
def test_what_scales_channels_is_folded_into_the_weights(
    cpu_plugin: Cpu, tmp_path: Path, bias: bool, kind: str, groups: int
) -> None:
    channels = 10
    nodes = [
        N(kind, ["x", "w", "b"] if bias else ["x", "w"], ["a"], group=groups),
        N("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], ["c"]),
        N("Mul", ["factor", "c"], ["d"]),
        N("Sub", ["d", "term"], ["y"]),
    ]
    shape = (channels, 6 // groups, 3, 3) if kind == "Conv" else (6, channels // groups, 3, 3)
    constants = batch_norm(channels) | {
        "w": random(*shape),
        "factor": random(channels, 1, 1, seed=2),
        "term": random(1, channels, 1, 1, seed=3),
    }
    if bias:
        constants["b"] = random(channels, seed=4)
    check(cpu_plugin, nodes, {"x": random(2, 6, 7, 8)}, constants, [kind], tmp_path)


def test_a_sum_along_another_axis_is_not_a_bias(cpu_plugin: Cpu, tmp_path: Path) -> None:
    nodes = [N("Conv", ["x", "w"], ["a"]), N("Add", ["a", "term"], ["y"])]
    constants = {"w": random(6, 6, 1, 1), "term": random(6)}  # Along the last axis, of the same size.
    check(cpu_plugin, nodes, {"x": random(1, 6, 6, 6)}, constants, ["Conv", "Add"], tmp_path)


def test_what_others_read_too_stays(cpu_plugin: Cpu, tmp_path: Path) -> None:
    nodes = [N("Conv", ["x", "w"], ["a"]), N("Relu", ["a"], ["y"])]
    constants = {"w": random(6, 6, 1, 1)}
    check(cpu_plugin, nodes, {"x": random(1, 6, 5, 5)}, constants, ["Conv", "Relu"], tmp_path, ["y", "a"])


ACTIVATIONS = {
    "Relu": [N("Relu", ["a"], ["y"])],
    "LeakyRelu": [N("LeakyRelu", ["a"], ["y"], alpha=0.3)],
    "Clip": [N("Clip", ["a", "low", "high"], ["y"])],
    "Sigmoid": [N("Sigmoid", ["a"], ["y"])],
    "Tanh": [N("Tanh", ["a"], ["y"])],
    "Elu": [N("Elu", ["a"], ["y"], alpha=0.7)],
    "Softplus": [N("Softplus", ["a"], ["y"])],
    "HardSigmoid": [N("HardSigmoid", ["a"], ["y"], alpha=0.3, beta=0.4)],
    "HardSwish": [N("HardSwish", ["a"], ["y"])],
    "x sigmoid(x)": [N("Sigmoid", ["a"], ["s"]), N("Mul", ["a", "s"], ["y"])],
    "x hardsigmoid(x)": [N("HardSigmoid", ["a"], ["s"]), N("Mul", ["s", "a"], ["y"])],
    "x clip(x + 3) / 6": [
        N("Add", ["a", "three"], ["s"]),
        N("Clip", ["s", "zero", "six"], ["t"]),
        N("Mul", ["a", "t"], ["u"]),
        N("Div", ["u", "six"], ["y"]),
    ],
    "x (clip(x + 3) / 6)": [
        N("Add", ["a", "three"], ["s"]),
        N("Clip", ["s", "zero", "six"], ["t"]),
        N("Div", ["t", "six"], ["u"]),
        N("Mul", ["u", "a"], ["y"]),
    ],
    "two": [N("Relu", ["a"], ["s"]), N("Sigmoid", ["s"], ["y"])],
}
NUMBERS = {"low": -0.5, "high": 1.5, "three": 3, "zero": 0, "six": 6}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("channels", [16, 5])
def test_convolutions_take_activations_in(cpu_plugin: Cpu, tmp_path: Path, name: str, channels: int) -> None:
    constants = {"w": random(channels, 4, 3, 3), "b": random(channels)}
    used = {i for node in ACTIVATIONS[name] for i in node.input}
    constants |= {key: np.array(value, np.float32) for key, value in NUMBERS.items() if key in used}
    nodes = [N("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1]), *ACTIVATIONS[name]]
    check(cpu_plugin, nodes, {"x": random(1, 4, 6, 5)}, constants, ["Conv"], tmp_path, opset=18)


@pytest.mark.parametrize("channels", [16, 5])
@pytest.mark.parametrize("first", [True, False])
def test_convolutions_take_residual_sums_in(
    cpu_plugin: Cpu, tmp_path: Path, channels: int, first: bool
) -> None:
    nodes = [
        N("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        N("Relu", ["a"], ["b"]),
        N("Conv", ["b", "w2"], ["c"], pads=[1, 1, 1, 1]),
        N("Add", ["c", "b"] if first else ["b", "c"], ["d"]),
        N("Relu", ["d"], ["y"]),
    ]
    constants = {"w": random(channels, 3, 3, 3), "w2": random(channels, channels, 3, 3)}
    check(cpu_plugin, nodes, {"x": random(2, 3, 7, 7)}, constants, ["Conv", "Conv"], tmp_path)


def test_a_sum_that_is_broadcast_in_the_run_is_right(cpu_plugin: Cpu) -> None:
    """Shapes that only the run knows may turn out different from each other."""
    nodes = [N("Conv", ["x", "w"], ["a"]), N("Add", ["a", "r"], ["b"]), N("Relu", ["b"], ["y"])]
    constants = {"w": random(6, 3, 1, 1)}
    for x, r in [((2, 3, 5, 5), (2, 6, 5, 5)), ((2, 3, 5, 5), (1, 6, 1, 5)), ((1, 3, 1, 1), (2, 6, 4, 4))]:
        feeds = {"x": random(*x), "r": random(*r, seed=1)}
        cpu_plugin.check(nodes, feeds, constants=constants, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("channels", [16, 5])
def test_batch_norms_in_front_of_convolutions_become_one_step(
    cpu_plugin: Cpu, tmp_path: Path, channels: int
) -> None:
    nodes = [
        N("BatchNormalization", ["x", "scale", "shift", "mean", "variance"], ["a"]),
        N("Mul", ["a", "factor"], ["b"]),
        N("Add", ["b", "term"], ["c"]),
        N("Relu", ["c"], ["d"]),
        N("Conv", ["d", "w"], ["y"]),
    ]
    constants = batch_norm(channels) | {
        "factor": random(channels, 1, 1, seed=2),
        "term": random(channels, 1, 1, seed=3),
        "w": random(4, channels, 1, 1),
    }
    check(cpu_plugin, nodes, {"x": random(2, channels, 4, 5)}, constants, ["ChannelAffine", "Conv"], tmp_path)


PRODUCTS = {
    "bias": [N("MatMul", ["x", "w"], ["a"]), N("Add", ["bias", "a"], ["y"])],
    "bias and activation": [
        N("MatMul", ["x", "w"], ["a"]),
        N("Add", ["a", "bias"], ["b"]),
        N("Relu", ["b"], ["y"]),
    ],
    "bias and residual": [
        N("MatMul", ["x", "w"], ["a"]),
        N("Add", ["a", "bias"], ["b"]),
        N("Add", ["r", "b"], ["y"]),
    ],
    "a gate of another slope than HardSwish's": [
        N("MatMul", ["x", "w"], ["a"]),
        N("HardSigmoid", ["a"], ["g"], alpha=0.3, beta=0.4),
        N("Mul", ["a", "g"], ["y"]),
    ],
    "factor": [N("MatMul", ["x", "w"], ["a"]), N("Div", ["a", "eight"], ["y"])],
    "turned": [N("Transpose", ["v2"], ["u"]), N("MatMul", ["m", "u"], ["y"])],
    "transposed": [N("Transpose", ["t"], ["u"], perm=[0, 2, 1]), N("MatMul", ["x", "u"], ["y"])],
    "Gemm": [N("Gemm", ["m", "w", "bias"], ["a"]), N("Sigmoid", ["a"], ["y"])],
    "Gemm with a transposed matrix": [
        N("Gemm", ["m", "v", "bias"], ["a"], transB=1),
        N("Tanh", ["a"], ["y"]),
    ],
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_matrices_take_in_what_is_around_them(cpu_plugin: Cpu, tmp_path: Path, name: str) -> None:
    feeds = {
        "x": random(2, 5, 7),
        "r": random(2, 5, 9, seed=1),
        "t": random(2, 9, 7, seed=2),
        "m": random(5, 7),
        "v2": random(9, 7, seed=4),
    }
    constants = {"w": random(7, 9), "v": random(9, 7), "bias": random(9, seed=3), "eight": np.float32([8])}
    used = {i for node in PRODUCTS[name] for i in node.input}
    check(
        cpu_plugin,
        PRODUCTS[name],
        {key: value for key, value in feeds.items() if key in used},
        {key: value for key, value in constants.items() if key in used},
        ["MatMul"],
        tmp_path,
    )


def test_a_product_with_another_transposition_is_left(cpu_plugin: Cpu, tmp_path: Path) -> None:
    nodes = [N("Transpose", ["t"], ["u"], perm=[1, 0, 2]), N("MatMul", ["x", "u"], ["y"])]
    feeds = {"x": random(2, 5, 7), "t": random(7, 2, 9)}
    check(cpu_plugin, nodes, feeds, {}, ["Transpose", "MatMul"], tmp_path)
