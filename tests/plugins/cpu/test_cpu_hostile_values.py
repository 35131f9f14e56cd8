"""Values and attributes that make no sense: an error that names the node, and never a signal or an answer."""

import gc
from typing import Any

import numpy as np
import pytest
from ephost.errors import Fail, InvalidArgument, InvalidGraph
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model

F = np.float32
HUGE = 2**62


def numbers(*values: int, dtype: type = np.int64) -> np.ndarray:
    return np.array(values, dtype)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, F)


LSTM = {"x": ones(3, 2, 4), "w": ones(1, 8, 4), "r": ones(1, 8, 2), "b": ones(1, 16)}
CASES: dict[str, tuple[str, dict[str, np.ndarray], dict[str, Any], str]] = {
    "a window of 2^62": ("HannWindow", {"n": np.array(HUGE)}, {}, "cannot be"),
    "a range of 2^62": (
        "Range",
        {"a": np.array(0), "b": np.array(HUGE), "c": np.array(1)},
        {},
        "cannot be|no memory",
    ),
    "a matrix of 2^40 bins": (
        "MelWeightMatrix",
        {"n": np.array(2**40), "l": np.array(8), "r": np.array(8000), "a": F(0), "b": F(4000)},
        {},
        "memory|alloc",
    ),
    "integers by zero": ("Div", {"a": numbers(1, 2), "b": numbers(3, 0)}, {}, "division by zero"),
    "bytes by zero": (
        "Mod",
        {"a": numbers(1, 2, dtype=np.uint8), "b": numbers(0, dtype=np.uint8)},
        {},
        "division by zero",
    ),
    "an axis far outside": (
        "LayerNormalization",
        {"x": ones(2, 3), "s": ones(3)},
        {"axis": 10**9},
        "axis",
    ),
    "another kernel than the weights'": (
        "Conv",
        {"x": ones(1, 3, 8, 8), "w": ones(4, 3, 3, 3)},
        {"kernel_shape": [5, 5]},
        "kernel_shape",
    ),
    "two axes": ("CumSum", {"x": ones(3, 3), "a": numbers(0, 1)}, {}, "axis"),
    "a negative length": (
        "LSTM",
        {**LSTM, "l": numbers(-5, 3, dtype=np.int32)},
        {"hidden_size": 2},
        "has the length -5",
    ),
    "a length beyond the steps": (
        "LSTM",
        {**LSTM, "l": numbers(3, 10**9, dtype=np.int32)},
        {"hidden_size": 2},
        "has the length 1000000000",
    ),
    "more taken away than there is": ("Pad", {"x": ones(2, 2), "p": numbers(-5, 0, -5, 0)}, {}, "pads"),
    "pads larger than any memory": ("Pad", {"x": ones(2, 2), "p": numbers(2**41, 0, 2**41, 0)}, {}, "pads"),
    "pads as large as the kernel": (
        "AveragePool",
        {"x": ones(1, 1, 4, 4)},
        {"kernel_shape": [2, 2], "pads": [5, 0, 0, 0]},
        "pads",
    ),
    "a kernel of 2^32": (
        "LpPool",
        {"x": ones(1, 3, 8, 8)},
        {"kernel_shape": [2**32 + 1, 2], "auto_pad": "SAME_LOWER"},
        "below 2\\^31",
    ),
    "strides of 2^62": ("MaxPool", {"x": ones(1, 1, 4)}, {"kernel_shape": [1], "strides": [HUGE]}, "2\\^31"),
    "a shape of too many bytes": ("ConstantOfShape", {"n": numbers(2**31, 2**31)}, {}, "cannot be|no memory"),
}


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_what_makes_no_sense_is_an_error(cpu_plugin: Cpu, case: str, constant: bool) -> None:
    operator, given, attributes, message = CASES[case]
    values = {name: np.asarray(value) for name, value in given.items()}
    if operator == "LSTM" and constant:
        pytest.skip("the weights of a network that is all constant are folded by its own kernel")
    feeds = dict(list(values.items())[:1]) if constant else values
    constants = {name: value for name, value in values.items() if name not in feeds}
    node = helper.make_node(operator, list(values), ["y"], "node", **attributes)
    model = make_model([node], feeds, ["y"], constants, open_shapes=True)
    with pytest.raises((InvalidArgument, InvalidGraph, Fail), match=message) as caught:
        cpu_plugin.run(model, feeds)
    text = str(caught.value)
    del caught  # Its frames hold the session, which holds the plugin.
    gc.collect()
    assert "node" in text


@pytest.mark.parametrize("constants", [{}, {"b": numbers(0)}], ids=["an input", "a constant"])
@pytest.mark.parametrize("operator", ["Div", "Mod"])
def test_nothing_is_divided_where_there_is_nothing(
    cpu_plugin: Cpu, operator: str, constants: dict[str, np.ndarray]
) -> None:
    node = helper.make_node(operator, ["a", "b"], ["y"])
    feeds = {"a": numbers(), "b": numbers(0)}
    feeds = {name: value for name, value in feeds.items() if name not in constants}
    (y,) = cpu_plugin.run(make_model([node], feeds, ["y"], constants, open_shapes=True), feeds)
    assert y.shape == (0,)


def test_recurrent_weights_of_another_size_are_not_packed(cpu_plugin: Cpu) -> None:
    node = helper.make_node("LSTM", ["x", "w", "r"], ["", "y"], "node", hidden_size=3)
    constants = {"w": ones(1, 12, 2), "r": ones(1, 12, 17)}
    with pytest.raises((InvalidArgument, Fail), match="do not fit each other"):
        cpu_plugin.run(make_model([node], {"x": ones(1, 3, 2)}, ["y"], constants), {"x": ones(1, 3, 2)})


@pytest.mark.parametrize(
    "operator, at",
    [("QLinearMul", 1), ("QLinearAdd", 4), ("QLinearSigmoid", 1), ("QLinearLeakyRelu", 3), ("QGemm", 4)],
)
def test_a_scale_that_is_no_float_is_not_read_as_one(cpu_plugin: Cpu, operator: str, at: int) -> None:
    scale, zero, x = np.array(0.1, F), np.array(3, np.uint8), numbers(1, 2, dtype=np.uint8).reshape(1, 2)
    inputs = {
        "QGemm": [x, scale, zero, x.reshape(2, 1), scale, zero],
        "QLinearSigmoid": [x, scale, zero, scale, zero],
        "QLinearLeakyRelu": [x, scale, zero, scale, zero],
    }.get(operator, [x, scale, zero, x, scale, zero, scale, zero])
    inputs[at] = np.array(1, np.uint8)
    feeds = {f"i{i}": value for i, value in enumerate(inputs)}
    node = helper.make_node(operator, list(feeds), ["y"], "node", domain="com.microsoft")
    with pytest.raises(Exception, match="node") as caught:
        cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)
    assert type(caught.value).__module__ == "ephost.errors"
    del caught
    gc.collect()


def test_pooling_nothing_is_a_result(cpu_plugin: Cpu) -> None:
    feeds = {"x": ones(2, 1, 3, 0)}
    node = helper.make_node("GlobalLpPool", ["x"], ["y"])
    (y,) = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)
    np.testing.assert_array_equal(y, np.zeros((2, 1, 1, 1), F))


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 2, 2, 1]])
def test_windows_that_reach_over_the_pads_count_what_is_inside(
    cpu_plugin: Cpu, operator: str, pads: list[int]
) -> None:
    feeds = {"x": np.arange(70, dtype=F).reshape(1, 2, 5, 7) - 30}
    attributes = {"kernel_shape": [3, 3], "pads": pads, "strides": [2, 1], "dilations": [1, 2]}
    outputs = ["y", "i"] if operator == "MaxPool" else ["y"]
    node = helper.make_node(operator, ["x"], outputs, **attributes)
    cpu_plugin.check_beside_onnxruntime(node, feeds, outputs, opset=22 if operator == "LpPool" else 19)
