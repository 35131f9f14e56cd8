"""Graphs of 16-bit floats: between operators they are float32, and what is stored in 16 bits stays so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.plugins.cpu.conftest import Cpu, make_model, steps_of, traced

HALF, FLOAT, INT64 = TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


def halves(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float16)


def by_onnxruntime(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, feeds))


def test_what_leaves_the_range_between_operators_comes_back(cpu_plugin: Cpu) -> None:
    """300 * 300 is no half; its root is."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Softplus", ["a"], ["b"]),
        node("MatMul", ["b", "v"], ["c"]),
        node("LayerNormalization", ["c", "g"], ["y"]),
    ]
    constants = {
        "w": np.full((4, 4), 300, np.float16),
        "v": halves(4, 8, scale=100),
        "g": np.ones(8, np.float16),
    }
    feeds = {"x": np.full((2, 4), 300, np.float16)}
    model = make_model(nodes, feeds, ["y"], constants)
    (y,) = cpu_plugin.run(model, feeds)
    assert y.dtype == np.float16
    wide = np.full((2, 4), 360000.0) @ constants["v"].astype(np.float64)
    expected = (wide - wide.mean(-1, keepdims=True)) / wide.std(-1, keepdims=True)
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=2e-3, atol=2e-3)
    # Without fusion each node is by itself, and rounds.
    (apart,) = cpu_plugin.run(model, feeds, fusion=0)
    assert np.isnan(apart).all()


@pytest.mark.parametrize("length", [2047, 2049, 16001, 100_003])
def test_lengths_that_are_no_halves(cpu_plugin: Cpu, length: int) -> None:
    """Converters make halves of floats that count: 16,001 would be 16,000."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["n"], axis=0),
        node("Cast", ["n"], ["h"], to=HALF),
        node("Div", ["h", "two"], ["d"]),
        node("Floor", ["d"], ["f"]),
        node("Cast", ["f"], ["i"], to=INT64),
        node("Unsqueeze", ["i", "axis"], ["end"]),
        node("Slice", ["x", "axis", "end"], ["y"]),
    ]
    constants = {"zero": np.array(0), "axis": np.array([0]), "two": np.array(2, np.float16)}
    feeds = {"x": np.arange(length)}
    for open_shapes in (False, True):
        model = make_model(nodes, feeds, ["y"], constants, open_shapes=open_shapes)
        (y,) = cpu_plugin.run(model, feeds)
        np.testing.assert_array_equal(y, feeds["x"][: length // 2])


def test_a_model_that_rounds_on_purpose_rounds(cpu_plugin: Cpu) -> None:
    nodes = [
        node("Mul", ["x", "three"], ["a"]),
        node("Cast", ["a"], ["h"], to=HALF),
        node("Cast", ["h"], ["b"], to=FLOAT),
        node("Sub", ["a", "b"], ["y"]),
        node("Add", ["h", "h"], ["z"]),
    ]
    x = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    model = make_model(nodes, {"x": x}, ["y", "z"], {"three": np.array(3, np.float32)})
    y, z = cpu_plugin.run(model, {"x": x})
    product = x * np.float32(3)
    np.testing.assert_array_equal(y, product - product.astype(np.float16).astype(np.float32))
    assert z.dtype == np.float16
    np.testing.assert_array_equal(z, (product + product).astype(np.float16))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_values_that_leave_the_graph_are_halves(cpu_plugin: Cpu, dtype: Any) -> None:
    """Inputs, outputs in the middle, the same value twice, and what others of the graph still read."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("Reshape", ["b", "flat"], ["c"]),
        node("Identity", ["x"], ["d"]),
        node("Softmax", ["c"], ["e"]),
        node("Concat", ["d", "b"], ["f"], axis=0),
        node("IsInf", ["b"], ["g"]),
        node("Shape", ["b"], ["h"]),
    ]
    feeds = {"x": halves(3, 4).astype(dtype)}
    constants = {"w": halves(4, 4, seed=1).astype(dtype), "flat": np.array([-1])}
    if dtype == ml_dtypes.bfloat16:
        nodes = [n for n in nodes if n.op_type != "IsInf"]
    names = [n.output[0] for n in nodes]
    model = make_model(nodes, feeds, names, constants)
    found = dict(zip(names, cpu_plugin.run(model, feeds), strict=True))
    x, w = (value.astype(np.float32) for value in (feeds["x"], constants["w"]))
    a = x @ w
    b = np.maximum(a, 0)
    exponents = np.exp(b.ravel() - b.max())
    expected = {
        "a": a,
        "b": b,
        "c": b.ravel(),
        "d": x,
        "e": exponents / exponents.sum(),
        "f": np.concatenate([x, b]),
    }
    step = float(ml_dtypes.finfo(dtype).eps)
    for name, value in expected.items():
        assert found[name].dtype == dtype, name
        np.testing.assert_allclose(found[name].astype(np.float32), value, rtol=step, atol=1e-6, err_msg=name)
    np.testing.assert_array_equal(found["h"], [3, 4])
    if "g" in found:
        assert not found["g"].any()


def test_infinity_is_what_a_half_cannot_hold(cpu_plugin: Cpu) -> None:
    nodes = [
        node("Mul", ["x", "x"], ["a"]),
        node("Exp", ["x"], ["b"]),
        node("Add", ["a", "b"], ["c"]),
        node("IsInf", ["c"], ["y"]),
        node("Sqrt", ["c"], ["z"]),
    ]
    x = np.array([1, 200, 300, -300], np.float16)
    model = make_model(nodes, {"x": x}, ["y", "z"])
    y, z = cpu_plugin.run(model, {"x": x})
    np.testing.assert_array_equal(y, [False, True, True, True])
    np.testing.assert_array_equal(np.isinf(z), [False, True, True, False])


def test_bodies_compute_wide_and_pass_on_halves(cpu_plugin: Cpu) -> None:
    """What goes from step to step, into a branch and out of it, has the type that the model says."""
    info = helper.make_tensor_value_info
    step = helper.make_graph(
        [
            node("MatMul", ["state", "w"], ["m"]),
            node("Tanh", ["m"], ["next"]),
            node("Mul", ["next", "next"], ["square"]),
            node("Sqrt", ["square"], ["seen"]),
            node("Identity", ["go"], ["goes"]),
        ],
        "step",
        [info("i", INT64, []), info("go", TensorProto.BOOL, []), info("state", HALF, [2, 4])],
        [
            info("goes", TensorProto.BOOL, []),
            info("next", HALF, [2, 4]),
            info("seen", HALF, [2, 4]),
        ],
    )
    branches = {
        name: helper.make_graph(
            [node("MatMul", ["last", "w"], ["p"]), node(op, ["p"], ["q"])],
            name,
            [],
            [info("q", HALF, [2, 4])],
        )
        for name, op in (("then_branch", "Relu"), ("else_branch", "Sigmoid"))
    }
    nodes = [
        node("MatMul", ["x", "w"], ["start"]),
        node("Loop", ["count", "", "start"], ["last", "all"], body=step),
        node("If", ["choice"], ["y"], **branches),
    ]
    feeds = {"x": halves(2, 4), "choice": np.array(True)}
    constants = {"w": halves(4, 4, seed=3), "count": np.array(5)}
    model = make_model(nodes, feeds, ["y", "all"], constants)
    for choice in (True, False):
        feeds["choice"] = np.array(choice)
        for found, expected in zip(cpu_plugin.run(model, feeds), by_onnxruntime(model, feeds), strict=True):
            assert found.dtype == expected.dtype == np.float16
            np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=2e-3, atol=2e-3)


def test_caches_and_tables_stay_in_16_bits(cpu_plugin: Cpu, tmp_path: Path) -> None:
    """A cache is not converted to be made longer, nor a table to take rows of it."""
    nodes = [
        node("Gather", ["table", "ids"], ["x"]),
        node("MatMul", ["x", "w"], ["k"]),
        node("Concat", ["past", "k"], ["present"], axis=0),
        node("Transpose", ["present"], ["turned"], perm=[1, 0]),
        node("MatMul", ["x", "turned"], ["y"]),
    ]
    feeds = {"ids": np.array([5, 1]), "past": halves(6, 8, seed=5)}
    constants = {"table": halves(50, 8, seed=6), "w": halves(8, 8, seed=7)}
    model = make_model(nodes, feeds, ["y", "present"], constants, open_shapes=True)
    y, present = cpu_plugin.run(model, feeds)
    x = constants["table"][[5, 1]].astype(np.float32)
    k = (x @ constants["w"].astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(present[:6], feeds["past"])
    np.testing.assert_allclose(present[6:].astype(float), k.astype(float), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(y.astype(float), x @ present.astype(np.float32).T, rtol=2e-3, atol=2e-2)
    steps = steps_of(cpu_plugin, model, feeds, tmp_path)
    assert steps == ["Gather", "Cast", "MatMul", "Cast", "Concat", "Cast", "MatMul", "Cast"]


def test_attention_that_looks_for_nan_is_one_operator(cpu_plugin: Cpu, tmp_path: Path) -> None:
    """As exporters write it where all keys of a query may be masked."""
    nodes = [
        node("MatMul", ["x", "wq"], ["q"]),
        node("MatMul", ["x", "wk"], ["k"]),
        node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "t"], ["scores"]),
        node("Mul", ["scores", "scale"], ["scaled"]),
        node("Add", ["scaled", "mask"], ["masked"]),
        node("Softmax", ["masked"], ["s"]),
        node("IsNaN", ["s"], ["n"]),
        node("Where", ["n", "zero", "s"], ["w"]),
        node("MatMul", ["w", "x"], ["y"]),
    ]
    feeds = {"x": halves(1, 2, 6, 8), "mask": np.zeros((6, 6), np.float16)}
    feeds["mask"][2] = -np.inf
    feeds["mask"][4, 3:] = -np.inf
    constants = {
        "wq": halves(8, 8, seed=1),
        "wk": halves(8, 8, seed=2),
        "scale": np.array(0.25, np.float16),
        "zero": np.array(0, np.float16),
    }
    model = make_model(nodes, feeds, ["y"], constants)
    steps = steps_of(cpu_plugin, model, feeds, tmp_path)
    assert "Attention" in steps and "Softmax" not in steps and "IsNaN" not in steps, steps
    (found,) = cpu_plugin.run(model, feeds)
    (expected,) = by_onnxruntime(model, feeds)
    assert (found[:, :, 2] == 0).all()
    np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=5e-3, atol=5e-3)


def test_a_large_matrix_of_halves_is_converted_once(cpu_plugin: Cpu, tmp_path: Path) -> None:
    """Not in each run, as what is too large to be folded is."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("MatMul", ["b", "v"], ["y"]),
    ]
    feeds = {"x": halves(1, 4096)}
    constants = {"w": np.ones((4096, 9000), np.float16), "v": np.ones((9000, 2), np.float16) / 4096}
    constants["v"] = constants["v"].astype(np.float16)
    model = make_model(nodes, feeds, ["y"], constants)
    steps = steps_of(cpu_plugin, model, feeds, tmp_path)
    assert steps.count("Cast") <= 2, steps


def test_a_network_of_halves_runs_as_one_of_floats_does(cpu_plugin: Cpu, tmp_path: Path) -> None:
    """By the same methods, between the same layouts."""

    def network(dtype: Any) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        nodes = [
            node("Conv", ["x", "w0"], ["a"], pads=[1] * 4),
            node("Relu", ["a"], ["b"]),
            node("Conv", ["b", "w1"], ["c"], pads=[1] * 4, group=16),
            node("HardSwish", ["c"], ["d"]),
            node("Conv", ["d", "w2"], ["e"]),
            node("Add", ["e", "b"], ["f"]),
            node("GlobalAveragePool", ["f"], ["y"]),
        ]
        constants = {
            "w0": halves(16, 3, 3, 3, seed=1).astype(dtype),
            "w1": halves(16, 1, 3, 3, seed=2).astype(dtype),
            "w2": halves(16, 16, 1, 1, seed=3).astype(dtype),
        }
        feeds = {"x": halves(1, 3, 32, 32).astype(dtype)}
        return make_model(nodes, feeds, ["y"], constants), feeds

    seen = {}
    for dtype in (np.float16, np.float32):
        model, feeds = network(dtype)
        steps = traced(cpu_plugin, model, feeds, tmp_path)
        seen[dtype] = [
            (s["op_name"], s.get("method")) for s in steps if s["op_name"] not in ("Cast", "Reorder")
        ]
    assert seen[np.float16] == seen[np.float32]


def test_quantized_products_with_scales_in_16_bits(cpu_plugin: Cpu, tmp_path: Path) -> None:
    """Their scales are float32 to the kernels, which multiply bytes as they do elsewhere."""
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("DequantizeLinear", ["w", "t", "u"], ["e"]),
        node("MatMul", ["d", "e"], ["p"]),
        node("Add", ["p", "bias"], ["y"]),
    ]
    random = np.random.default_rng(0)
    feeds = {"x": halves(5, 64)}
    constants = {
        "s": np.array(0.03, np.float16),
        "z": np.array(128, np.uint8),
        "w": random.integers(-127, 128, (64, 32)).astype(np.int8),
        "t": np.array(0.01, np.float16),
        "u": np.array(0, np.int8),
        "bias": halves(32, seed=4),
    }
    model = make_model(nodes, feeds, ["y"], constants)
    (found,) = cpu_plugin.run(model, feeds)
    (expected,) = by_onnxruntime(model, feeds)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=5e-3, atol=2e-2)
