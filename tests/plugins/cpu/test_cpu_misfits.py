"""Scales, zero points and biases that would broadcast, but not in their operators: errors in both hosts."""

import gc
from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from ephost.errors import Fail, InvalidArgument, InvalidGraph
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model, steps_of

F = np.float32
MS = "com.microsoft"
X = np.arange(24, dtype=np.uint8).reshape(4, 6)
IMAGE = np.arange(32, dtype=np.uint8).reshape(1, 2, 4, 4)
SCALE, ZERO = np.array(0.37, F), np.array(3, np.uint8)
PIXELS = np.arange(4, dtype=np.uint8).reshape(2, 2, 1, 1)


def wide(value: np.ndarray) -> np.ndarray:
    return value.reshape(1, 1)


# Operator, domain, inputs, and the place of the one at fault.
CASES: dict[str, tuple[str, str, list[np.ndarray], int, dict[str, Any]]] = {
    "BiasGelu, one number": ("BiasGelu", MS, [np.ones((2, 3), F), np.ones(1, F)], 1, {}),
    "BiasGelu, a matrix": ("BiasGelu", MS, [np.ones((2, 3), F), np.ones((1, 3), F)], 1, {}),
    "BiasGelu, another length": ("BiasGelu", MS, [np.ones((2, 1), F), np.ones(3, F)], 1, {}),
    "FastGelu, one number": ("FastGelu", MS, [np.ones((2, 3), F), np.ones(1, F)], 1, {}),
    "FastGelu, a scalar": ("FastGelu", MS, [np.ones((2, 3), F), np.array(1, F)], 1, {}),
    "FastGelu, of a scalar": ("FastGelu", MS, [np.array(2, F), np.ones(1, F)], 1, {}),
    "Clip": ("Clip", "", [np.ones((2, 3), F), np.zeros(3, F)], 1, {}),
    "Trilu": ("Trilu", "", [np.ones((2, 3), F), np.array([[1]])], 1, {}),
    "Range": ("Range", "", [np.array(1), np.array([[9]]), np.array(2)], 1, {}),
    "HannWindow": ("HannWindow", "", [np.array([4, 5])], 0, {}),
    "ReduceSum": ("ReduceSum", "", [np.ones((2, 3), F), np.array([[1]])], 1, {}),
    "Unsqueeze": ("Unsqueeze", "", [np.ones((2, 3), F), np.array([[0]])], 1, {}),
    "ReduceMax": ("ReduceMax", "", [np.ones((2, 3), F), np.array(1)], 1, {}),
    "QuantizeLinear": ("QuantizeLinear", "", [np.ones((2, 3), F), wide(SCALE), ZERO], 1, {}),
    "DequantizeLinear": ("DequantizeLinear", "", [X, SCALE, wide(ZERO)], 2, {}),
    "QLinearAdd": ("QLinearAdd", MS, [X, wide(SCALE), ZERO, X, SCALE, ZERO, SCALE, ZERO], 1, {}),
    "QLinearMul": ("QLinearMul", MS, [X, SCALE, ZERO, X, SCALE, wide(ZERO), SCALE, ZERO], 5, {}),
    "QLinearSigmoid": ("QLinearSigmoid", MS, [X, SCALE, ZERO, wide(SCALE), ZERO], 3, {}),
    "QLinearLeakyRelu": ("QLinearLeakyRelu", MS, [X, SCALE, wide(ZERO), SCALE, ZERO], 2, {}),
    "QGemm": ("QGemm", MS, [X, wide(SCALE), ZERO, X.T.copy(), SCALE, ZERO], 1, {}),
    "QLinearMatMul": (
        "QLinearMatMul",
        "",
        [X, wide(SCALE), ZERO, X.T.copy(), SCALE, ZERO, SCALE, ZERO],
        1,
        {},
    ),
    "QLinearConv": ("QLinearConv", "", [IMAGE, wide(SCALE), ZERO, PIXELS, SCALE, ZERO, SCALE, ZERO], 1, {}),
    "QGemm, of stacks": ("QGemm", MS, [X[None], SCALE, ZERO, X.T.copy(), SCALE, ZERO], 0, {}),
    "InstanceNormalization": (
        *("InstanceNormalization", ""),
        *([np.ones((1, 2, 3), F), np.ones((1, 2), F), np.ones(2, F)], 1, {}),
    ),
    "SkipLayerNormalization": (
        *("SkipLayerNormalization", MS),
        *([np.ones((2, 3), F), np.ones((2, 3), F), np.ones((1, 3), F)], 2, {}),
    ),
    "SkipLayerNormalization, a bias": (
        *("SkipLayerNormalization", MS),
        *([np.ones((2, 3), F), np.ones((2, 3), F), np.ones(3, F), np.ones((1, 3), F)], 3, {}),
    ),
    "SkipLayerNormalization, a smaller skip": (
        *("SkipLayerNormalization", MS),
        *([np.ones((1, 2, 3), F), np.ones((1, 1, 3), F), np.ones(3, F)], 1, {}),
    ),
    "DeformConv": (
        *("DeformConv", ""),
        *(
            [
                np.ones((1, 1, 3, 3), F),
                np.ones((2, 1, 2, 2), F),
                np.zeros((1, 8, 2, 2), F),
                np.ones((1, 2), F),
            ],
            3,
        ),
        {},
    ),
    "BatchNormalization": (
        *("BatchNormalization", ""),
        *([np.ones((2, 3), F), *[np.ones(3, F)] * 2, np.ones((1, 3), F), np.ones(3, F)], 3, {}),
    ),
    "MatMulInteger": ("MatMulInteger", "", [X, X.T.copy(), ZERO, np.full((4, 1), 3, np.uint8)], 3, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_no_scale_and_no_bias_of_the_operator_is_refused(cpu_plugin: Cpu, case: str) -> None:
    operator, domain, values, _, attributes = CASES[case]
    feeds = {f"i{i}": value for i, value in enumerate(values)}
    node = helper.make_node(operator, list(feeds), ["y"], "node", domain=domain, **attributes)
    model = make_model([node], feeds, ["y"], open_shapes=True)
    with pytest.raises((InvalidArgument, Fail), match="node") as caught:
        cpu_plugin.run(model, feeds)
    del caught  # Its frames hold the session, which holds the plugin.
    gc.collect()
    onnxruntime = pytest.importorskip("onnxruntime")
    with pytest.raises(Exception, match=r"node|Node|input|Input|scale|zero|bias"):
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(
            None, feeds
        )


@pytest.mark.parametrize("case", CASES)
def test_as_many_numbers_in_the_operators_own_shape_are_taken(cpu_plugin: Cpu, case: str) -> None:
    operator, domain, values, at, attributes = CASES[case]
    if case == "FastGelu, of a scalar":
        pytest.skip("a scalar has no last dimension")
    if case == "SkipLayerNormalization, a smaller skip":
        pytest.skip("a skip of another size is none")
    right = list(values)
    if case == "QGemm, of stacks":
        right[at] = values[at][0]
    elif operator.endswith("Gelu"):
        right[at] = np.resize(values[at], values[0].shape[-1])
    elif operator in ("Clip", "HannWindow"):
        right[at] = np.asarray(values[at][0])
    elif values[at].size == 1 and not operator.startswith("Reduce"):
        right[at] = values[at].reshape(())
    else:
        right[at] = values[at].reshape(-1)
    feeds = {f"i{i}": value for i, value in enumerate(right)}
    node = helper.make_node(operator, list(feeds), ["y"], "node", domain=domain, **attributes)
    tolerance = 1e-5 if domain == MS and not operator.startswith("QL") else None
    cpu_plugin.check_beside_onnxruntime(node, feeds, rtol=tolerance, atol=tolerance)


# Operators, their inputs without the last, which is a zero point, and their attributes.
SHORTER: dict[str, tuple[list[np.ndarray], dict[str, Any]]] = {
    "QLinearAdd": ([X, SCALE, ZERO, X, SCALE, ZERO, SCALE], {}),
    "QLinearMul": ([X, SCALE, ZERO, X, SCALE, ZERO, SCALE], {}),
    "QLinearSigmoid": ([X, SCALE, ZERO, SCALE], {}),
    "QLinearLeakyRelu": ([X, SCALE, ZERO, SCALE], {}),
    "QLinearAveragePool": ([IMAGE, SCALE, ZERO, SCALE], {"kernel_shape": [2, 2]}),
}


@pytest.mark.parametrize("constants", [False, True])
@pytest.mark.parametrize("operator", SHORTER)
def test_a_zero_point_is_0_where_the_list_of_inputs_ends_before_it(
    cpu_plugin: Cpu, operator: str, constants: bool
) -> None:
    values, attributes = SHORTER[operator]

    def run(values: list[np.ndarray]) -> np.ndarray:
        feeds = {f"i{i}": value for i, value in enumerate(values)}
        node = helper.make_node(operator, list(feeds), ["y"], "node", domain=MS, **attributes)
        known = {name: feeds.pop(name) for name in list(feeds)[1:]} if constants else {}
        return cpu_plugin.run(make_model([node], feeds, ["y"], known), feeds)[0]

    # onnxruntime reads behind its list of inputs, too, and ends the process at some of these.
    np.testing.assert_array_equal(run(values), run([*values, np.array(0, np.uint8)]))


@pytest.mark.parametrize("threshold", [-0.1, 1.1, np.nan])
def test_an_overlap_is_a_part_of_one(cpu_plugin: Cpu, threshold: float) -> None:
    boxes, scores = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9]]], F), np.array([[[0.9, 0.8]]], F)
    feeds = {"b": boxes, "s": scores, "m": np.array([5]), "t": np.array([threshold], F)}
    node = helper.make_node("NonMaxSuppression", list(feeds), ["y"], "node")
    with pytest.raises((InvalidArgument, Fail), match=r"node.*overlaps"):
        cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)


def test_a_bias_is_of_the_inputs_type(cpu_plugin: Cpu) -> None:
    feeds = {"x": np.ones((2, 3), np.float16), "b": np.ones(3, F)}
    node = helper.make_node("FastGelu", list(feeds), ["y"], "node", domain=MS)
    with pytest.raises((InvalidArgument, InvalidGraph, Fail), match="node"):
        cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)


@pytest.mark.parametrize("bias", [(1,), (6,), (1, 6)])
@pytest.mark.parametrize("known", [True, False])
def test_a_bias_is_looked_at_within_a_chain_of_operators(
    cpu_plugin: Cpu, bias: tuple[int, ...], known: bool, tmp_path: Any
) -> None:
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a"], "before"),
        helper.make_node("BiasGelu", ["a", "b"], ["c"], "node", domain=MS),
        helper.make_node("Sigmoid", ["c"], ["y"], "behind"),
    ]
    feeds = {"x": np.linspace(-2, 2, 12, dtype=F).reshape(2, 6)}
    model = make_model(
        nodes, feeds, ["y"], {"b": np.linspace(0, 1, max(bias), dtype=F).reshape(bias)}, open_shapes=not known
    )
    if bias == (6,):
        onnxruntime = pytest.importorskip("onnxruntime")
        other = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(cpu_plugin.run(model, feeds)[0], other.run(None, feeds)[0], 1e-5, 1e-6)
        assert (len(steps_of(cpu_plugin, model, feeds, tmp_path)) == 1) == known
        return
    with pytest.raises((InvalidArgument, Fail), match=r"node.*bias of shape"):
        cpu_plugin.run(model, feeds)


@pytest.mark.parametrize("plugin", [True, False])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16])
def test_floating_point_remainders_need_fmod_before_opset_28(
    monkeypatch: pytest.MonkeyPatch, plugin: bool, kind: type
) -> None:
    monkeypatch.setenv("EPHOST_CPU_PLUGIN", str(int(plugin)))
    feeds = {"a": np.array([-5.5, 5.5], kind), "b": np.array([3, 3], kind)}
    with pytest.raises((InvalidArgument, Fail), match="fmod"):
        run_anywhere(helper.make_node("Mod", ["a", "b"], ["y"], "node"), feeds)
    (found,) = run_anywhere(helper.make_node("Mod", ["a", "b"], ["y"], "node", fmod=1), feeds)
    np.testing.assert_array_equal(found, np.array([-2.5, 2.5], kind))
    if onnx.defs.onnx_opset_version() >= 28:  # which gives a meaning to the other
        (found,) = run_anywhere(helper.make_node("Mod", ["a", "b"], ["y"], "node"), feeds, opset=28)
        np.testing.assert_array_equal(found, np.array([0.5, 2.5], kind))


def run_anywhere(node: onnx.NodeProto, feeds: dict[str, np.ndarray], opset: int = 21) -> list[np.ndarray]:
    model = make_model([node], feeds, ["y"], opset=opset, open_shapes=True)
    return ephost.InferenceSession(model.SerializeToString()).run(None, feeds)


# Operators, their inputs with the one at fault in the second place, and attributes.
SHAPES: dict[str, tuple[str, list[np.ndarray], np.ndarray, dict[str, Any]]] = {
    "repeats": ("Tile", [np.ones((1, 2), F), np.array([2, 2])], np.array([[2, 2]]), {}),
    "places": ("Slice", [np.ones((2, 3), F), np.array([0, 1]), np.array([1, 2])], np.array([[1, 2]]), {}),
    "a place": ("Slice", [np.ones(3, F), np.array([0]), np.array([2])], np.array(2), {}),
    "a shape": ("ConstantOfShape", [np.array([2])], np.array(2), {}),
    "a diagonal": (
        *("Einsum", [np.ones((2, 3, 3), F)], np.ones((2, 1, 3), F)),
        {"equation": "...ii->...i"},
    ),
    "updates": (
        *("ScatterND", [np.ones((4, 4, 4), F), np.array([[0], [2]]), np.zeros((2, 4, 4), F)]),
        *(np.zeros((2, 4, 4, 1), F), {}),
    ),
}


@pytest.mark.parametrize("case", SHAPES)
def test_as_many_numbers_in_another_shape_are_refused(cpu_plugin: Cpu, case: str) -> None:
    operator, values, wrong, attributes = SHAPES[case]
    feeds = {f"i{i}": value for i, value in enumerate(values)}
    node = helper.make_node(operator, list(feeds), ["y"], "the node", **attributes)
    cpu_plugin.check_beside_onnxruntime(node, feeds)
    feeds[f"i{len(values) - 1}"] = wrong
    with pytest.raises((InvalidArgument, Fail), match="the node"):
        cpu_plugin.run(make_model([node], feeds, ["y"], open_shapes=True), feeds)


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("count", [0, 3])
def test_a_loop_counts_by_one_number_and_goes_on_by_one_condition(
    cpu_plugin: Cpu, at: int, count: int
) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21]>
        g (int64[k] trips, bool[l] goes, float[n] x) => (float[n] y) {
          [the_node] y = Loop (trips, goes, x) <
            body = b (int64 i, bool c, float[n] z) => (bool d, float[n] w) { d = Identity(c) w = Add(z, z) }
          >
        }""")
    feeds = {"trips": np.array([3]), "goes": np.array([True]), "x": np.ones(1, F)}
    assert cpu_plugin.run(model, feeds)[0] == 8
    name = list(feeds)[at]
    feeds[name] = np.resize(feeds[name], count)
    with pytest.raises((InvalidArgument, Fail), match=r"the_node.*is not one element"):
        cpu_plugin.run(model, feeds)


# Operators, their inputs, what is wrong about them, and what is said of it.
ODD: dict[str, tuple[str, str, list[np.ndarray], dict[str, Any], str]] = {
    "a kernel": (
        *("ConvTranspose", "", [np.ones((1, 1, 3), F), np.ones((1, 2, 3), F)]),
        *({"kernel_shape": [1]}, "kernel_shape is not what the weights have"),
    ),
    "a count": (
        *("TopK", "", [np.ones((2, 3), F), np.array([2, 1])]),
        *({}, "k is not one number"),
    ),
    "positions": (
        "RotaryEmbedding",
        MS,
        [np.ones((2, 1, 3, 4), F), np.ones((3, 2), np.int64), *[np.ones((5, 2), F)] * 2],
        {},
        r"\[batch, sequence\]",
    ),
    "a depth": (
        *("OneHot", "", [np.array([1, 2]), np.array([3, 4, 5]), np.array([0, 1], F)]),
        *({}, "the depth is not one number"),
    ),
    "an axis": (
        *("ExpandDims", MS, [np.ones((2, 3), F), np.array([1, 0], np.int32)]),
        *({}, "the axis is not one number"),
    ),
    "channels": (
        *(
            "MaxUnpool",
            "",
            [np.ones((1, 1, 2, 2), F), np.arange(4).reshape(1, 1, 2, 2), np.array([2, 1, 4, 4])],
        ),
        *({"kernel_shape": [2, 2], "strides": [2, 2]}, "other batches or channels"),
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_inputs_that_do_not_fit_are_refused_by_name(cpu_plugin: Cpu, case: str) -> None:
    operator, domain, values, attributes, said = ODD[case]
    feeds = {f"i{i}": value for i, value in enumerate(values)}
    outputs = ["y", "z"] if operator == "TopK" else ["y"]
    node = helper.make_node(operator, list(feeds), outputs, "the node", domain=domain, **attributes)
    with pytest.raises((InvalidArgument, Fail), match=f"the node.*{said}"):
        cpu_plugin.run(make_model([node], feeds, ["y"], open_shapes=True), feeds)
