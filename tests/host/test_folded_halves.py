"""What the host computes of constants in 16 bits when a session opens: a chain of nodes is rounded once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ephost
import ml_dtypes
import numpy as np
import onnx
import pytest
from ephost.model import fold
from onnx import TensorProto, helper, numpy_helper


def outcome(nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], kind: int) -> np.ndarray:
    """What ``x + (what the nodes make of the constants)`` is, for x of zeros; the nodes' last output is y."""
    x = helper.make_tensor_value_info("x", kind, [1])
    z = helper.make_tensor_value_info("z", kind, None)
    graph = helper.make_graph(
        [*nodes, helper.make_node("Add", ["x", "y"], ["z"])],
        "graph",
        [x],
        [z],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
    session = ephost.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": np.zeros(1, helper.tensor_dtype_to_np_dtype(kind))})
    return np.asarray(found)


@pytest.mark.parametrize(
    ("kind", "dtype"), [(TensorProto.FLOAT16, np.float16), (TensorProto.BFLOAT16, ml_dtypes.bfloat16)]
)
def test_weights_are_standardised_before_they_are_rounded(kind: int, dtype: Any) -> None:
    """Squares of small weights are no halves: their variance would be 0."""
    weights = (np.random.default_rng(0).standard_normal((8, 16)) * 1e-4).astype(dtype)
    nodes = [
        helper.make_node("ReduceMean", ["w", "axis"], ["mean"]),
        helper.make_node("Sub", ["w", "mean"], ["centred"]),
        helper.make_node("Mul", ["centred", "centred"], ["squares"]),
        helper.make_node("ReduceMean", ["squares", "axis"], ["variance"]),
        helper.make_node("Sqrt", ["variance"], ["deviation"]),
        helper.make_node("Div", ["centred", "deviation"], ["scaled"]),
        helper.make_node("Transpose", ["scaled"], ["y"], perm=[1, 0]),
    ]
    found = outcome(nodes, {"w": weights, "axis": np.array([1])}, kind)
    wide = weights.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    expected = (centred / np.sqrt((centred**2).mean(1, keepdims=True))).T
    assert found.dtype == dtype
    step = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=step, atol=1e-6)


def test_lengths_are_counted_before_they_are_rounded() -> None:
    """As kernels count where only the run knows the length."""
    nodes = [
        helper.make_node("Cast", ["n"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Div", ["h", "step"], ["d"]),
        helper.make_node("Ceil", ["d"], ["c"]),
        helper.make_node("Mul", ["c", "step"], ["whole"]),
        helper.make_node("Sub", ["whole", "h"], ["y"]),
    ]
    constants = {"n": np.array([16001]), "step": np.array(320, np.float16)}
    assert outcome(nodes, constants, TensorProto.FLOAT16).tolist() == [51 * 320 - 16001]


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
@pytest.mark.parametrize(
    ("op", "output", "expected"),
    [
        ("Equal", 0, [1, 1, 1, 1]),
        ("Greater", 0, [0, 0, 0, 0]),
        ("LessOrEqual", 0, [1, 1, 1, 1]),
        ("Max", 0, [1, 1, 1, 1]),
        ("Where", 0, [1, 1, 1, 1]),
        ("ArgMax", 0, [2]),
        ("TopK", 1, [2, 3, 1, 0]),
        ("Trilu", 0, [1, 1, 1, 1]),
        ("NonZero", 0, [0, 1, 2, 3]),
    ],
)
def test_what_is_compared_was_rounded(kind: int, op: str, output: int, expected: list[int]) -> None:
    """0.3 and 0.3001 are one number then, and what is chosen is the number that it is compared with."""
    floats = np.array([0.1, 0.2, 0.3, 0.3001], np.float32)
    rounded = floats.astype(helper.tensor_dtype_to_np_dtype(kind))
    if op == "NonZero":
        floats[0] = 1e-42  # no number of either type is so small
        expected = expected[1:]
    constants = {"c": floats, "k": rounded, "choice": np.array([True, False] * 2), "four": np.array([4])}
    constants["shape"] = np.array([1, 4])
    taken = {"Where": ["choice", "h", "k"], "TopK": ["h", "four"], "Trilu": ["m"]}
    taken |= {"ArgMax": ["h"], "NonZero": ["h"]}
    nodes = [
        helper.make_node("Cast", ["c"], ["h"], to=kind),
        helper.make_node("Reshape", ["h", "shape"], ["m"]),
        helper.make_node(op, taken.get(op, ["h", "k"]), ["values", "r"][1 - output :]),
    ]
    if op in ("Max", "Where", "Trilu"):
        nodes.append(helper.make_node("Equal", ["r", "k"], ["same"]))
    made = nodes[-1].output[-1]
    nodes.append(helper.make_node("Cast", [made], ["y"], to=TensorProto.INT64))
    assert outcome(nodes, constants, TensorProto.INT64).ravel().tolist() == expected


def test_the_host_and_the_cpu_plugin_agree_on_what_moves_elements() -> None:
    source = (Path(__file__).parents[2] / "plugins/cpu/passes/widen.cc").read_text()
    listed = source.partition("const Names& movers()")[2].partition("return")[0]
    movers = set(re.findall(r'"(\w+)"', listed))
    # The host leaves what is stored to IsNaN, and computes with the scales of the other two.
    assert movers - {"IsNaN", "QuantizeLinear", "DequantizeLinear"} <= fold._MOVES | fold._CHOOSES
    assert movers >= fold._MOVES


def test_what_is_stored_in_16_bits_is_what_they_can_hold() -> None:
    """A Cast rounds, and IsInf sees what does not fit."""
    nodes = [
        helper.make_node("Mul", ["large", "large"], ["square"]),
        helper.make_node("IsInf", ["square"], ["is"]),
        helper.make_node("Where", ["is", "one", "third"], ["known"]),
        helper.make_node("Cast", ["precise"], ["rounded"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["rounded"], ["back"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["precise", "back"], ["lost"]),
        helper.make_node("Mul", ["lost", "many"], ["grown"]),
        helper.make_node("Cast", ["grown"], ["also"], to=TensorProto.FLOAT16),
        helper.make_node("Add", ["known", "also"], ["y"]),
    ]
    constants = {
        "large": np.array([300, 3], np.float16),
        "one": np.array(1, np.float16),
        "third": np.array(1 / 3, np.float16),
        "precise": np.array([1.0001, 1.0001], np.float32),
        "many": np.array(1e4, np.float32),
    }
    found = outcome(nodes, constants, TensorProto.FLOAT16)
    np.testing.assert_allclose(found, np.array([2, 1 + 1 / 3]), rtol=2e-3)


def test_moved_weights_are_the_same_bits() -> None:
    weights = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float16)
    weights[0, :3] = [np.nan, np.inf, 6e-8]
    nodes = [
        helper.make_node("Transpose", ["w"], ["a"], perm=[1, 0]),
        helper.make_node("Concat", ["a", "a"], ["b"], axis=0),
        helper.make_node("Unsqueeze", ["b", "axis"], ["y"]),
    ]
    found = outcome(nodes, {"w": weights, "axis": np.array([0])}, TensorProto.FLOAT16)
    np.testing.assert_array_equal(found[0, :5], weights.T)
    np.testing.assert_array_equal(found[0, 5:], weights.T)
