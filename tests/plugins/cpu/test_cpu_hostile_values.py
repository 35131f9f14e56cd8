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
    "a flag that is neither": ("CumSum", {"x": ones(3), "a": numbers(0)}, {"reverse": 2}, "reverse"),
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
    "repeats of 2^62": ("Tile", {"x": ones(2, 4), "r": numbers(1, HUGE)}, {}, "repeats"),
    "more groups than channels": (
        "Conv",
        {"x": ones(1, 0, 8, 8), "w": ones(4, 3, 3, 3)},
        {"group": HUGE},
        "groups|do not fit",
    ),
    "strides of 2^62 back": (
        "MaxUnpool",
        {"x": ones(1, 1, 2, 2), "i": np.zeros((1, 1, 2, 2), np.int64)},
        {"kernel_shape": [2, 2], "strides": [HUGE, 8]},
        "below 2\\^31",
    ),
    "an image of 2^63 - 1": (
        "Col2Im",
        {"x": ones(1, 4, 4), "i": numbers(2**63 - 1, 5), "b": numbers(2, 2)},
        {},
        "too large",
    ),
    "dilations of 2^62": (
        "Col2Im",
        {"x": ones(1, 4, 4), "i": numbers(5, 5), "b": numbers(2, 2)},
        {"dilations": [HUGE, 1]},
        "too large",
    ),
    "blocks of 2^63 - 1": (
        "DequantizeLinear",
        {"x": np.ones((4, 3), np.int8), "s": ones(2, 3)},
        {"axis": 0, "block_size": 2**63 - 1},
        "one scale for each block",
    ),
    "groups of 2^63 - 1": (
        "ConvInteger",
        {"x": np.ones((1, 16, 6, 6), np.uint8), "w": np.ones((16, 16, 3, 3), np.uint8)},
        {"group": 2**63 - 1},
        "group",
    ),
    "groups of 2^32 + 1 back": (
        "ConvTranspose",
        {"x": ones(3, 2, 3, 3), "w": ones(2, 1, 3, 3)},
        {"group": 2**32 + 1},
        "group",
    ),
    "bytes of no channel": (
        "ConvInteger",
        {"x": np.ones((1, 0, 6, 6), np.uint8), "w": np.ones((4, 0, 3, 3), np.uint8)},
        {},
        "channels",
    ),
    "a value without elements": (
        "Pad",
        {"x": ones(2, 2), "p": numbers(0, 1, 0, 1), "v": ones(1, 0)},
        {},
        "not one element",
    ),
    "a transform of 2^31 - 1": (
        "DFT",
        {"x": ones(1, 6, 2), "n": np.array(2**31 - 1), "a": np.array(1)},
        {},
        "too long",
    ),
    "grams up to 2^62": (
        "TfIdfVectorizer",
        {"x": numbers(1, 2, 3)},
        {
            **{"min_gram_length": 2, "max_gram_length": 2, "max_skip_count": 0, "mode": "TF"},
            **{"ngram_counts": [0, 4, HUGE], "ngram_indexes": [0, 1, 2], "pool_int64s": [2, 3, 5, 4, 5, 6]},
        },
        "ngram_counts",
    ),
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


@pytest.mark.parametrize("left_out", [0, 1, 2])
@pytest.mark.parametrize("operator", ["DynamicQuantizeLinear", "MaxPool", "TopK", "LSTM"])
def test_any_output_may_be_left_out(cpu_plugin: Cpu, operator: str, left_out: int) -> None:
    image = np.arange(64, dtype=F).reshape(1, 1, 8, 8)
    cases: dict[str, tuple[dict[str, np.ndarray], dict[str, Any], list[str]]] = {
        "DynamicQuantizeLinear": ({"x": image - 30}, {}, ["a", "b", "c"]),
        "MaxPool": ({"x": image}, {"kernel_shape": [3, 3]}, ["a", "b"]),
        "TopK": ({"x": image, "k": numbers(3)}, {}, ["a", "b"]),
        "LSTM": ({name: LSTM[name] for name in ("x", "w", "r")}, {"hidden_size": 2}, ["a", "b", "c"]),
    }
    feeds, attributes, outputs = cases[operator]
    if left_out >= len(outputs):
        pytest.skip("it has two outputs")
    node = helper.make_node(operator, list(feeds), outputs, "node", **attributes)
    every = dict(zip(outputs, cpu_plugin.run(make_model([node], feeds, outputs), feeds), strict=True))
    node.output[left_out] = ""
    kept = [name for name in node.output if name]
    for constants in ({}, feeds):
        given = {name: value for name, value in feeds.items() if name not in constants}
        made = cpu_plugin.run(make_model([node], given, kept, constants), given)
        for name, value in zip(kept, made, strict=True):
            np.testing.assert_array_equal(value, every[name])


def test_pools_of_rows_that_are_not_there(cpu_plugin: Cpu) -> None:
    feeds = {"x": ones(8, 1, 0, 4)}
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    (y,) = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)
    assert y.shape == (8, 1, 0, 2)


@pytest.mark.parametrize("shape", [(3, 0, 3), (3, 0), (0, 3)])
def test_a_softmax_of_no_bytes(cpu_plugin: Cpu, shape: tuple[int, ...]) -> None:
    feeds = {"x": np.zeros(shape, np.uint8), "s": F(0.1), "z": np.uint8(3)}
    feeds = {name: np.asarray(value) for name, value in feeds.items()}
    node = helper.make_node(
        "QLinearSoftmax", ["x", "s", "z", "s", "z"], ["y"], "node", domain="com.microsoft", axis=1, opset=13
    )
    (y,) = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)
    assert y.shape == shape


@pytest.mark.timeout(30)  # A minute of two processors, if each bin is looked at.
def test_regions_without_channels_take_no_time(cpu_plugin: Cpu) -> None:
    feeds = {"x": ones(1, 0, 10, 10), "r": ones(3, 4), "b": numbers(0, 0, 0)}
    node = helper.make_node("RoiAlign", ["x", "r", "b"], ["y"], "node", output_height=2**31 - 1)
    (y,) = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)
    assert y.shape == (3, 0, 2**31 - 1, 1)


@pytest.mark.parametrize("shape", [(1, 2, 0, 10), (1, 2, 10, 0)])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_of_an_image_without_pixels_are_zeros(
    cpu_plugin: Cpu, shape: tuple[int, ...], mode: str
) -> None:
    feeds = {"x": ones(*shape), "r": ones(3, 4) * F(0), "b": numbers(0, 0, 0)}
    node = helper.make_node("RoiAlign", ["x", "r", "b"], ["y"], "node", mode=mode, output_width=4)
    (y,) = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)
    np.testing.assert_array_equal(y, np.zeros((3, 2, 1, 4), F))


def test_a_ring_takes_any_place_to_write_to(cpu_plugin: Cpu) -> None:
    cache = np.arange(20, dtype=F).reshape(1, 1, 4, 5)
    feeds = {"c": cache, "u": -ones(1, 1, 2, 5), "i": numbers(2**63 - 1)}
    node = helper.make_node("TensorScatter", ["c", "u", "i"], ["y"], "node", mode="circular")
    (y,) = cpu_plugin.run(make_model([node], feeds, ["y"], opset=24), feeds)
    expected = cache.copy()
    expected[0, 0, [3, 0]] = -1  # 2^63 - 1 is 3 modulo 4
    np.testing.assert_array_equal(y, expected)


def test_one_batch_of_keys_for_all_queries_gets_its_bias_once(cpu_plugin: Cpu) -> None:
    random = np.random.default_rng(3)
    q, k, v = (random.standard_normal((b, n, 8), F) for b, n in ((2, 3), (1, 4), (1, 4)))
    bias = random.standard_normal(24, F)

    def run(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        feeds = {"q": q, "k": keys, "v": values, "b": bias}
        node = helper.make_node(
            "MultiHeadAttention", list(feeds), ["y"], "node", domain="com.microsoft", num_heads=2
        )
        return cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)[0]

    np.testing.assert_allclose(run(k, v), run(np.repeat(k, 2, 0), np.repeat(v, 2, 0)), 1e-6, 1e-6)


def test_cosines_of_another_rank_are_refused(cpu_plugin: Cpu) -> None:
    feeds = {"q": ones(2, 1, 32), "k": ones(2, 1, 8, 8), "l": numbers(4, 7, dtype=np.int32)}
    feeds |= {"t": np.array(8, np.int32), "c": np.array(3, F), "s": ones(16, 4)}
    node = helper.make_node(
        "GroupQueryAttention",
        ["q", "", "", "k", "k", "l", "t", "c", "s"],
        ["y"],
        "node",
        domain="com.microsoft",
        num_heads=2,
        kv_num_heads=1,
        do_rotary=1,
    )
    with pytest.raises((InvalidArgument, Fail), match="cosines and sines"):
        cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)


@pytest.mark.parametrize(
    "operator, feeds, attributes, message",
    [
        ("Pad", {"x": ones(2, 2), "p": numbers(-1, 0, -(2**63), 0)}, {}, "pads take more away"),
        (
            "ConvTranspose",
            {"x": ones(1, 1, 4, 4), "w": ones(1, 1, 3, 3)},
            {"pads": [0, 0, 0, -(2**63)]},
            "below 2\\^31",
        ),
    ],
)
def test_pads_of_minus_2_to_the_63_do_not_overflow(
    cpu_plugin: Cpu, operator: str, feeds: dict[str, np.ndarray], attributes: dict[str, Any], message: str
) -> None:
    node = helper.make_node(operator, list(feeds), ["y"], "node", **attributes)
    with pytest.raises((InvalidArgument, Fail), match=message):
        cpu_plugin.run(make_model([node], feeds, ["y"], open_shapes=True), feeds)


def test_more_dimensions_than_arrays_have_are_an_error(cpu_plugin: Cpu) -> None:
    feeds = {"n": np.ones(100, np.int64)}
    node = helper.make_node("ConstantOfShape", ["n"], ["y"], "node")
    with pytest.raises((InvalidArgument, Fail), match="rank 100"):
        cpu_plugin.run(make_model([node], feeds, ["y"], open_shapes=True), feeds)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_what_is_added_before_a_normalisation_is_of_its_type(cpu_plugin: Cpu, at: int) -> None:
    given = {"x": ones(2, 3, 8), "s": ones(2, 3, 8), "g": ones(8), "b": ones(8)}
    given[list(given)[at]] = given[list(given)[at]].astype(np.float16)
    node = helper.make_node(
        "SkipSimplifiedLayerNormalization", list(given), ["y"], "node", domain="com.microsoft"
    )
    model = make_model([node], given, ["y"])
    try:
        (found,) = cpu_plugin.run(model, given)
    except (InvalidArgument, InvalidGraph, Fail) as error:
        assert "node" in str(error)
    else:  # a scale may be of fewer bits
        assert at == 2 and found.shape == (2, 3, 8)


def test_a_response_over_more_channels_than_there_are(cpu_plugin: Cpu) -> None:
    x = np.arange(24, dtype=F).reshape(1, 6, 2, 2)
    node = helper.make_node("LRN", ["x"], ["y"], "node", size=HUGE, alpha=1.0, beta=0.5, bias=4.0)
    (found,) = cpu_plugin.run(make_model([node], {"x": x}, ["y"]), {"x": x})
    np.testing.assert_allclose(found, x / 2, rtol=1e-6)


def test_an_embedding_whose_result_is_left_out_is_refused(cpu_plugin: Cpu) -> None:
    given = {
        **{"i": np.zeros((2, 2), np.int32), "s": np.zeros((2, 2), np.int32)},
        **{
            "words": ones(3, 8),
            "places": ones(4, 8),
            "segments": ones(2, 8),
            "scale": ones(8),
            "bias": ones(8),
        },
    }
    node = helper.make_node(
        "EmbedLayerNormalization", list(given), ["", "lengths"], "node", domain="com.microsoft"
    )
    model = make_model([node], given, ["lengths"])
    with pytest.raises((InvalidArgument, InvalidGraph, Fail), match="node"):
        cpu_plugin.run(model, given)


def test_integers_and_their_zero_points_are_far_apart(cpu_plugin: Cpu) -> None:
    low, high = -(2**31), 2**31 - 1
    given = {"x": np.array([low, high], np.int32), "s": np.ones((), F), "z": np.array(3, np.int32)}
    node = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"], "node")
    (found,) = cpu_plugin.run(make_model([node], {"x": given["x"]}, ["y"], given), {"x": given["x"]})
    np.testing.assert_array_equal(found, np.array([low - 3, high - 3], F))


@pytest.mark.parametrize("operator", ["ReduceSum", "Relu"])
def test_a_tensor_without_elements_has_no_dimension_beyond_all_memory(cpu_plugin: Cpu, operator: str) -> None:
    node = helper.make_node(operator, ["a"], ["y"], "node")
    expand = helper.make_node("Expand", ["x", "s"], ["a"], "made")
    feed = {"x": np.ones((2, 0, 1), F)}
    model = make_model([expand, node], feed, ["y"], {"s": numbers(2, 0, HUGE)})
    with pytest.raises((InvalidArgument, InvalidGraph, Fail), match=f"{HUGE}|memory|cannot be"):
        cpu_plugin.run(model, feed)


def test_a_convolution_of_bytes_without_channels_to_make(cpu_plugin: Cpu) -> None:
    given = {"x": np.ones((1, 16, 6, 6), np.uint8), "w": np.ones((0, 16, 3, 3), np.uint8)}
    node = helper.make_node("ConvInteger", list(given), ["y"], "node")
    (found,) = cpu_plugin.run(make_model([node], given, ["y"]), given)
    assert found.shape == (1, 0, 4, 4)
