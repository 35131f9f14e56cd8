"""This project's own operators, against onnxruntime where it has them, else against the definition."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from ephost.reference import NodeError, create_kernel
from onnx import TensorProto, helper

RNG = np.random.default_rng(7)


def ours(
    op_type: str, inputs: list[Any], outputs: int = 1, opset: int = 21, domain: str = "", **attributes: Any
) -> Any:
    return create_kernel(_node(op_type, inputs, outputs, domain, attributes), {domain: opset})(inputs)


def theirs(op_type: str, inputs: list[Any], outputs: int = 1, opset: int = 21, **attributes: Any) -> Any:
    ort = pytest.importorskip("onnxruntime")
    graph = helper.make_graph(
        [_node(op_type, inputs, outputs, "", attributes)],
        "g",
        [
            helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for i, x in enumerate(inputs)
            if x is not None
        ],
        [onnx.ValueInfoProto(name=f"y{i}") for i in range(outputs)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {f"x{i}": x for i, x in enumerate(inputs) if x is not None})


def _node(
    op_type: str, inputs: list[Any], outputs: int, domain: str, attributes: dict[str, Any]
) -> onnx.NodeProto:
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    return helper.make_node(op_type, names, [f"y{i}" for i in range(outputs)], domain=domain, **attributes)


def assert_like_onnxruntime(op_type: str, inputs: list[Any], outputs: int = 1, **attributes: Any) -> None:
    expected = theirs(op_type, inputs, outputs, **attributes)
    for want, got in zip(expected, ours(op_type, inputs, outputs, **attributes), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape), attributes
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=str(attributes))


def image(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


PLACEMENTS: list[dict[str, Any]] = [
    {},
    {"pads": [1, 0, 2, 1]},
    {"pads": [0, 2, 1, 0], "strides": [2, 3]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"auto_pad": "SAME_LOWER", "strides": [2, 1]},
    {"auto_pad": "VALID", "strides": [3, 2]},
]


@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
@pytest.mark.parametrize("group", [1, 2, 4])
def test_conv_places_its_windows_as_onnxruntime_does(placement: dict[str, Any], group: int) -> None:
    x, w, bias = image(2, 4, 11, 10), image(8, 4 // group, 3, 4), image(8)
    assert_like_onnxruntime("Conv", [x, w, bias], group=group, **placement)
    if "auto_pad" not in placement:
        assert_like_onnxruntime("Conv", [x, w], group=group, dilations=[2, 1], **placement)


@pytest.mark.parametrize("spatial", [(9,), (5, 6, 7)])
def test_conv_takes_images_of_any_rank(spatial: tuple[int, ...]) -> None:
    kernel = (3,) * len(spatial)
    assert_like_onnxruntime(
        "Conv", [image(1, 2, *spatial), image(3, 2, *kernel)], pads=[1] * (2 * len(spatial))
    )


def test_conv_works_in_parts_on_a_large_image() -> None:
    assert_like_onnxruntime("Conv", [image(1, 32, 260, 260), image(4, 32, 3, 3)], strides=[1, 2])


def test_conv_gives_equal_filters_equal_channels() -> None:
    w = np.repeat(image(1, 96, 1, 1), 250, axis=0)
    (y,) = ours("Conv", [image(1, 96, 13, 13), w])
    assert (y == y[:, :1]).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16])
def test_conv_keeps_the_images_type(dtype: Any) -> None:
    x, w = image(1, 2, 5, 5), image(3, 2, 3, 3)
    (y,) = ours("Conv", [x.astype(dtype), w.astype(dtype)], opset=22)
    assert y.dtype == np.dtype(dtype)
    np.testing.assert_allclose(y.astype(np.float32), ours("Conv", [x, w])[0], atol=0.2)


def test_conv_refuses_what_does_not_fit() -> None:
    with pytest.raises(NodeError, match="do not fit together"):
        ours("Conv", [image(1, 3, 5, 5), image(2, 2, 3, 3)])
    with pytest.raises(NodeError, match="does not fit on"):
        ours("Conv", [image(1, 2, 2, 2), image(2, 2, 3, 3)])


@pytest.mark.parametrize(
    "placement",
    [
        {},
        {"pads": [1, 0, 2, 1], "strides": [2, 3]},
        {"strides": [3, 2], "output_padding": [2, 1]},
        {"strides": [2, 2], "output_shape": [9, 12]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 1], "auto_pad": "SAME_LOWER"},
        {"dilations": [2, 3], "pads": [1, 1, 1, 1]},
    ],
    ids=str,
)
@pytest.mark.parametrize("group", [1, 2])
def test_conv_transpose_places_its_output_as_onnxruntime_does(placement: dict[str, Any], group: int) -> None:
    x, w, bias = image(2, 4, 5, 6), image(4, 3, 3, 2), image(3 * group)
    assert_like_onnxruntime("ConvTranspose", [x, w, bias], group=group, **placement)


@pytest.mark.parametrize(
    "placement", [*PLACEMENTS, {"strides": [2, 2], "pads": [1, 1, 0, 1], "ceil_mode": 1}], ids=str
)
def test_pools_place_their_windows_as_onnxruntime_does(placement: dict[str, Any]) -> None:
    x = image(2, 3, 9, 10)
    kernel = {"kernel_shape": [3, 4]}
    assert_like_onnxruntime("MaxPool", [x], 2, **kernel, **placement)
    assert_like_onnxruntime("MaxPool", [x], 2, storage_order=1, **kernel, **placement)
    for include in (0, 1):
        assert_like_onnxruntime("AveragePool", [x], count_include_pad=include, **kernel, **placement)
    assert_like_onnxruntime("LpPool", [x], p=3, **kernel, **placement)


@pytest.mark.parametrize(("pads", "ceil_mode"), list(itertools.product([[0, 0], [1, 2]], [0, 1])))
def test_pools_take_images_of_one_and_three_dimensions(pads: list[int], ceil_mode: int) -> None:
    for rank in (1, 3):
        x = image(1, 2, *range(7, 7 + rank))
        shared = {"strides": [2] * rank, "pads": np.repeat(pads, rank).tolist(), "ceil_mode": ceil_mode}
        assert_like_onnxruntime("MaxPool", [x], 2, kernel_shape=[3] * rank, **shared)
        assert_like_onnxruntime("AveragePool", [x], kernel_shape=[3] * rank, **shared)


def test_max_pool_of_integers_and_of_minus_infinity() -> None:
    x = RNG.integers(-100, 100, (1, 1, 6, 6)).astype(np.int8)
    assert_like_onnxruntime("MaxPool", [x], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    low = np.full((1, 1, 2, 2), -np.inf, np.float32)
    best, places = ours("MaxPool", [low], 2, kernel_shape=[2, 2], pads=[1, 1, 1, 1])
    assert (best == -np.inf).all()
    assert 0 <= places.min() <= places.max() <= 3


@pytest.mark.parametrize("op_type", ["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"])
@pytest.mark.parametrize("spatial", [(5,), (4, 5), (3, 4, 5)])
def test_global_pools_take_images_of_any_rank(op_type: str, spatial: tuple[int, ...]) -> None:
    assert_like_onnxruntime(op_type, [image(2, 3, *spatial)])


def test_max_roi_pool_is_onnxruntimes() -> None:
    x = image(2, 3, 12, 10)
    rois = np.array([[0, 0, 0, 9, 11], [1, 2, 3, 8, 7], [1, 4, 4, 4, 4], [0, 8, 9, 30, 30]], np.float32)
    for scale in (1.0, 0.5):
        assert_like_onnxruntime("MaxRoiPool", [x, rois], pooled_shape=[3, 2], spatial_scale=scale)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_before_opset_13_these_see_a_matrix(op_type: str, axis: int) -> None:
    assert_like_onnxruntime(op_type, [image(2, 3, 4)], opset=11, axis=axis)


@pytest.mark.parametrize("opset", [7, 9, 14])
def test_batch_normalization_ignores_the_momentum_in_inference(opset: int) -> None:
    vectors = [image(3), image(3), image(3), np.abs(image(3))]
    assert_like_onnxruntime("BatchNormalization", [image(2, 3, 4, 5), *vectors], opset=opset, momentum=0.4)


def test_batch_normalization_in_training_updates_the_running_statistics() -> None:
    x, scale, bias, mean, var = image(8, 3, 5), image(3), image(3), image(3), np.abs(image(3))
    y, new_mean, new_var = ours(
        "BatchNormalization", [x, scale, bias, mean, var], 3, training_mode=1, momentum=0.75, epsilon=1e-5
    )
    batch_mean, batch_var = x.mean((0, 2)), x.var((0, 2))
    normal = (x - batch_mean[:, None]) / np.sqrt(batch_var[:, None] + 1e-5)
    np.testing.assert_allclose(y, normal * scale[:, None] + bias[:, None], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(new_mean, mean * 0.75 + batch_mean * 0.25, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(new_var, var * 0.75 + batch_var * 0.25, rtol=1e-5)


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMax", "ReduceLogSumExp", "ReduceMean"])
def test_a_number_is_reduced_along_any_axes(op_type: str) -> None:
    for axes in ([0], [-1], [2]):
        for keepdims in (0, 1):
            (y,) = ours(op_type, [np.array(-3, np.float32), np.array(axes)], keepdims=keepdims)
            assert (y.shape, float(y)) == ((), -3)


@pytest.mark.parametrize("opset", [7, 9, 14])
def test_batch_normalization_of_one_dimension_has_one_channel(opset: int) -> None:
    vectors = [image(1), image(1), image(1), np.abs(image(1))]
    assert_like_onnxruntime("BatchNormalization", [image(5), *vectors], opset=opset)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("ignored", [None, -1, 0, 7])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(5, 3), (5, 3, 2)])
def test_a_loss_leaves_ignored_targets_out(
    reduction: str, ignored: int | None, weighted: bool, shape: tuple[int, ...]
) -> None:
    targets = RNG.integers(0, 3, (shape[0], *shape[2:]))
    targets[0] = 1
    targets[1] = 0 if ignored is None else ignored
    attributes = {} if ignored is None else {"ignore_index": ignored}
    weights = [np.abs(image(3))] if weighted else []
    assert_like_onnxruntime(
        "NegativeLogLikelihoodLoss", [image(*shape), targets, *weights], reduction=reduction, **attributes
    )


def test_the_mean_loss_of_no_target_is_none() -> None:
    inputs = [image(2, 3), np.array([-1, -1])]
    assert_like_onnxruntime("NegativeLogLikelihoodLoss", inputs, ignore_index=-1)


@pytest.mark.parametrize(
    ("targets", "said"), [([0, 3], "target 3 is none of 3 classes"), ([0], r"targets of shape \[1\]")]
)
def test_a_loss_names_what_does_not_fit(targets: list[int], said: str) -> None:
    with pytest.raises(NodeError, match=said):
        ours("NegativeLogLikelihoodLoss", [image(2, 3), np.array(targets)])


def test_erf_of_doubles_is_exact_to_double_precision() -> None:
    x = np.linspace(-3, 3, 7)
    (y,) = ours("Erf", [x])
    assert y.dtype == np.float64
    assert abs(y[-1] - 0.9999779095030014) < 1e-15


def test_scatter_writes_along_its_axis() -> None:
    data, updates = image(3, 4), image(2, 4)
    indices = np.array([[0, 2, -1, 1], [1, 0, 0, 2]])
    assert_like_onnxruntime("Scatter", [data, indices, updates], opset=9, axis=0)
    with pytest.raises(NodeError, match="outside of axis 0"):
        ours("Scatter", [data, indices + 3, updates], opset=9, axis=0)


def test_squeeze_before_opset_13_takes_axes_in_any_order() -> None:
    (y,) = ours("Squeeze", [image(1, 2, 1, 3, 1)], opset=11, axes=[4, 0, -3])
    assert y.shape == (2, 3)


def test_cast_map_gives_a_row_in_key_order_or_with_gaps() -> None:
    values = {3: np.float32(1.5), 1: np.float32(-2)}
    assert ours("CastMap", [values], opset=1, domain="ai.onnx.ml")[0].tolist() == [[-2, 1.5]]
    (sparse,) = ours("CastMap", [values], opset=1, domain="ai.onnx.ml", map_form="SPARSE", max_map=5)
    assert (sparse.tolist(), sparse.dtype) == ([[0, -2, 0, 1.5, 0]], np.float32)
    with pytest.raises(NodeError, match="CastMap"):
        ours("CastMap", [values], opset=1, domain="ai.onnx.ml", map_form="SPARSE", max_map=2**50)
    (numbers,) = ours("CastMap", [{0: "7"}], opset=1, domain="ai.onnx.ml", cast_to="TO_INT64")
    assert (numbers.tolist(), numbers.dtype) == ([[7]], np.int64)


def test_category_mapper_goes_both_ways() -> None:
    lists = {"cats_strings": ["a", "b"], "cats_int64s": [10, 20], "opset": 1, "domain": "ai.onnx.ml"}
    (numbers,) = ours("CategoryMapper", [np.array([["b", "x"]], object)], default_int64=-5, **lists)
    assert (numbers.tolist(), numbers.dtype) == ([[20, -5]], np.int64)
    (names,) = ours("CategoryMapper", [np.array([10, 11])], default_string="?", **lists)
    assert names.tolist() == ["a", "?"]


def test_zip_map_makes_a_map_of_each_row() -> None:
    (rows,) = ours("ZipMap", [image(2, 2)], opset=1, domain="ai.onnx.ml", classlabels_strings=["a", "b"])
    assert [sorted(row) for row in rows] == [["a", "b"], ["a", "b"]]
    with pytest.raises(NodeError, match="1 class labels"):
        ours("ZipMap", [image(2, 2)], opset=1, domain="ai.onnx.ml", classlabels_int64s=[1])


def test_a_constant_of_each_kind() -> None:
    assert ours("Constant", [], value_float=1.5)[0].dtype == np.float32
    assert ours("Constant", [], value_ints=[1, 2])[0].tolist() == [1, 2]
    assert ours("Constant", [], value_string="é")[0].item() == "é"
    tensor = helper.make_tensor("t", TensorProto.INT32, [2], [3, 4])
    kernel = create_kernel(helper.make_node("Constant", [], ["y"], value=tensor), {"": 21})
    first = kernel([])[0]
    first[:] = 0
    assert kernel([])[0].tolist() == [3, 4]


@pytest.mark.parametrize(("op_type", "gates", "outputs"), [("RNN", 1, 2), ("GRU", 3, 2), ("LSTM", 4, 3)])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_nets_are_onnxruntimes(op_type: str, gates: int, outputs: int, direction: str) -> None:
    count = 2 if direction == "bidirectional" else 1
    x, w, r = image(5, 3, 2), image(count, gates * 4, 2), image(count, gates * 4, 4)
    shared = {"hidden_size": 4, "direction": direction}
    assert_like_onnxruntime(op_type, [x, w, r], outputs, **shared)
    bias, lengths = image(count, 2 * gates * 4), np.array([5, 3, 1], np.int32)
    state = [image(count, 3, 4) for _ in range(outputs - 1)]
    assert_like_onnxruntime(op_type, [x, w, r, bias, lengths, *state], outputs, **shared)


def test_recurrent_nets_take_their_options() -> None:
    x, w, r, bias = image(5, 3, 2), image(1, 12, 2), image(1, 12, 4), image(1, 24)
    assert_like_onnxruntime("GRU", [x, w, r, bias], 2, hidden_size=4, linear_before_reset=1)
    assert_like_onnxruntime("GRU", [x, w, r, bias], 2, hidden_size=4, clip=0.3)
    assert_like_onnxruntime("GRU", [x, w, r], 2, hidden_size=4, activations=["HardSigmoid", "Softsign"])
    x, w, r, bias = image(5, 3, 2), image(1, 16, 2), image(1, 16, 4), image(1, 32)
    state = [image(1, 3, 4), image(1, 3, 4), image(1, 12)]
    assert_like_onnxruntime("LSTM", [x, w, r, bias, None, *state], 3, hidden_size=4)
    assert_like_onnxruntime("LSTM", [x, w, r, bias], 3, hidden_size=4, input_forget=1)
    y, h, c = ours("LSTM", [x, w, r, bias], 3, hidden_size=4)
    swapped = ours("LSTM", [x.swapaxes(0, 1), w, r, bias], 3, hidden_size=4, layout=1)
    for got, want in zip(swapped, (y.transpose(2, 0, 1, 3), h.swapaxes(0, 1), c.swapaxes(0, 1)), strict=True):
        np.testing.assert_allclose(got, want)


def test_lrn_goes_over_the_channels() -> None:
    for size in (2, 3, 5):
        want = {"size": size, "alpha": 0.5, "beta": 0.6, "bias": 1.5}
        if size % 2:
            assert_like_onnxruntime("LRN", [image(2, 7, 3, 4)], **want)
        assert ours("LRN", [image(2, 7, 3)], **want)[0].shape == (2, 7, 3)


@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization_divides_by_the_norm_and_leaves_zeros(p: int) -> None:
    x = image(3, 4)
    assert_like_onnxruntime("LpNormalization", [x], p=p, axis=0)
    assert ours("LpNormalization", [np.zeros((2, 2), np.float32)], p=p)[0].tolist() == [[0, 0], [0, 0]]


def test_dequantize_linear_before_opset_19() -> None:
    x = RNG.integers(-128, 127, (2, 3, 4)).astype(np.int8)
    assert_like_onnxruntime(
        "DequantizeLinear", [x, np.array(0.5, np.float32), np.array(3, np.int8)], opset=10
    )
    vectors = [np.abs(image(3)), np.array([1, -2, 3], np.int8)]
    assert_like_onnxruntime("DequantizeLinear", [x, *vectors], opset=13, axis=1)


@pytest.mark.parametrize("depth", [np.array(4), np.array([4])])
def test_one_hot_takes_a_depth_of_either_shape(depth: np.ndarray) -> None:
    indices, values = np.array([[0, -1], [3, 9]]), np.array([2, 5], np.float32)
    for axis in (-1, 0, 1):
        assert_like_onnxruntime("OneHot", [indices, depth, values], axis=axis)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad_adds_and_takes_away(mode: str) -> None:
    x = image(3, 4, 5)
    assert_like_onnxruntime("Pad", [x, np.array([0, -1, 2, 1, 0, -2])], mode=mode)
    assert_like_onnxruntime("Pad", [x, np.array([1, 2]), None, np.array([-1])], opset=18, mode=mode)
    assert_like_onnxruntime("Pad", [x], opset=2 + 5, pads=[0, 1, 0, 0, 1, 2], mode=mode)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample_takes_scales_as_attribute_or_input(mode: str) -> None:
    x = image(1, 2, 3, 4)
    assert_like_onnxruntime("Upsample", [x], opset=7, mode=mode, scales=[1.0, 1.0, 2.0, 3.0])
    assert_like_onnxruntime("Upsample", [x, np.array([1, 1, 2, 1.5], np.float32)], opset=9, mode=mode)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [[1, 1, 2, 1.5], [1, 1, 0.5, 0.75], [1, 1, 0.6, 3], [1, 1, 1.3, 0.7]])
def test_resize_of_opset_10_takes_scales_and_no_regions(mode: str, scales: list[float]) -> None:
    x = image(1, 2, 10, 4)
    assert_like_onnxruntime("Resize", [x, np.array(scales, np.float32)], opset=10, mode=mode)


@pytest.mark.parametrize("mode", ["up", "down"])
def test_a_cast_like_another_heeds_how_to_round_where_that_says_anything(mode: str) -> None:
    x = np.array([1.2, -2.7, 3], np.float32)
    for like in ("float16", "int8", "bfloat16", "int4", "float8_e5m2"):
        kind = np.zeros(1, getattr(ml_dtypes, like, like))
        (found,) = ours("CastLike", [x, kind], opset=25, round_mode=mode)
        (expected,) = ours("CastLike", [x, kind], opset=19)
        assert (found.dtype, found.tolist()) == (kind.dtype, expected.tolist())
    (found,) = ours("CastLike", [abs(x), np.zeros(1, ml_dtypes.float8_e8m0fnu)], opset=25, round_mode=mode)
    assert found.astype(np.float32).tolist() == {"up": [2, 4, 4], "down": [1, 2, 2]}[mode]


def test_defaults_of_old_opsets_reach_the_packages_operators() -> None:
    regions = [np.array([[0, 0, 7, 7], [2, 1, 9, 8]], np.float32), np.array([0, 1])]
    assert_like_onnxruntime(
        "RoiAlign",
        [image(2, 3, 10, 10), *regions],
        opset=10,
        output_height=3,
        output_width=2,
        sampling_ratio=2,
    )


@pytest.mark.parametrize(
    "placement",
    [{}, {"pads": [1, 0, 2, 1]}, {"strides": [2, 1]}, {"dilations": [2, 1], "pads": [1, 1, 1, 1]}],
    ids=str,
)
def test_col2im_adds_up_where_windows_overlap(placement: dict[str, Any]) -> None:
    kernel = [2, 3]
    weights = np.ones((1, 1, *kernel), np.float32)
    count = ours("Conv", [np.ones((1, 1, 6, 7), np.float32), weights], **placement)[0].size
    columns = image(2, 3 * 6, count)
    assert_like_onnxruntime("Col2Im", [columns, np.array([6, 7]), np.array(kernel)], **placement)


def test_scalars_go_through_softsign_and_log_sum_exp() -> None:
    assert ours("Softsign", [np.array(-1.0, np.float32)])[0].item() == -0.5
    assert ours("ReduceLogSumExp", [np.array(800.0)])[0].item() == 800.0


@pytest.mark.parametrize("keepdims", [0, 1])
def test_log_sum_exp_reduces_the_axes_it_is_given(keepdims: int) -> None:
    x = image(2, 3, 4) * 100
    for inputs in ([x], [x, np.array([-1, 0])], [x, np.array([], np.int64)]):
        assert_like_onnxruntime("ReduceLogSumExp", inputs, keepdims=keepdims)
    (same,) = ours("ReduceLogSumExp", [x], keepdims=keepdims, noop_with_empty_axes=1)
    np.testing.assert_allclose(same, x)
    assert ours("ReduceLogSumExp", [np.zeros((0, 2))], keepdims=keepdims)[0].max() == -np.inf


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grid_sample_is_onnxruntimes(mode: str, padding: str, aligned: int) -> None:
    x, grid = image(2, 3, 4, 5), image(2, 6, 7, 2) * 1.5
    shared = {"padding_mode": padding, "align_corners": aligned}
    assert_like_onnxruntime("GridSample", [x, grid], mode=mode, **shared)
    old = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    assert_like_onnxruntime("GridSample", [x, grid], opset=16, mode=old, **shared)
    if mode != "cubic":
        volume, places = image(1, 2, 3, 4, 5), image(1, 2, 3, 4, 3)
        assert_like_onnxruntime("GridSample", [volume, places], mode=mode, **shared)


@pytest.mark.parametrize("index", [-4, 3, 2**62])
def test_gather_elements_refuses_a_place_outside_of_the_axis(index: int) -> None:
    data, indices = np.arange(3.0), np.array([0, index])
    with pytest.raises(NodeError, match="outside of axis 0"):
        ours("GatherElements", [data, indices])
    assert_like_onnxruntime("GatherElements", [image(3, 4), np.array([[0, -1], [2, 1]])], axis=1)


@pytest.mark.parametrize("op_type", ["Div", "Mod"])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
def test_integers_by_zero_are_an_error(op_type: str, dtype: Any) -> None:
    some, zeros = np.array([4, 2], dtype), np.array([2, 0], dtype)
    with pytest.raises(NodeError, match="divided by zero"):
        ours(op_type, [some, zeros])
    assert ours(op_type, [some[:0], zeros[1:]])[0].shape == (0,)


@pytest.mark.parametrize("position", [None, 0, 1, 2, -1, -2])
def test_a_sequence_takes_one_more_at_any_position_up_to_its_end(position: int | None) -> None:
    values, one = [np.array([1], np.float32), np.array([2, 3], np.float32)], np.array([9], np.float32)
    where = [] if position is None else [np.array(position)]
    (found,) = ours("SequenceInsert", [values, one, *where])
    expected = list(values)
    expected.insert(2 if position is None else position, one)
    assert [v.tolist() for v in found] == [v.tolist() for v in expected]
    assert len(values) == 2


@pytest.mark.parametrize("position", [3, -3, 2**31 - 1])
def test_a_position_outside_of_a_sequence_is_an_error(position: int) -> None:
    with pytest.raises(NodeError, match="of a sequence of 2"):
        ours(
            "SequenceInsert",
            [
                [np.array([1], np.float32), np.array([2], np.float32)],
                np.array([9], np.float32),
                np.array(position),
            ],
        )


def test_an_empty_sequence_takes_its_first() -> None:
    (found,) = ours("SequenceInsert", [[], np.array([9], np.float32), np.array(0)])
    assert [v.tolist() for v in found] == [[9]]


def test_axes_that_are_no_list_are_an_error() -> None:
    for operator in ("ReduceSum", "ReduceProd", "ReduceLogSumExp"):
        with pytest.raises(NodeError, match="the axes are not a list"):
            ours(operator, [np.ones((2, 3), np.float32), np.array(1)])


def test_only_1_lets_a_zero_of_a_shape_stand_for_itself() -> None:
    x, shape = np.ones((2, 0, 3), np.float32), np.array([2, 0, 0])
    assert ours("Reshape", [x, shape], allowzero=2)[0].shape == (2, 0, 3)
    assert ours("Reshape", [x, shape], allowzero=1)[0].shape == (2, 0, 0)
    # What torch's exporter writes, and the standard rules out.
    assert ours("Reshape", [x, np.array([0, -1, 3])], allowzero=1)[0].shape == (0, 2, 3)


@pytest.mark.parametrize(
    ("split", "sizes"),
    [
        (None, [1, 1, 1, 1, 1]),
        (np.array(2), [2, 2, 1]),
        (np.array([1, 4]), [1, 4]),
        (np.array([0, 5]), [0, 5]),
    ],
)
def test_a_tensor_is_split_into_a_sequence(split: np.ndarray | None, sizes: list[int]) -> None:
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    (found,) = ours("SplitToSequence", [x, *([] if split is None else [split])], axis=-1)
    assert [part.shape for part in found] == [(2, size) for size in sizes]
    np.testing.assert_array_equal(np.concatenate(found, axis=1), x)
    if split is None:
        (found,) = ours("SplitToSequence", [x], axis=1, keepdims=0)
        assert [part.tolist() for part in found] == x.T.tolist()


@pytest.mark.parametrize("split", [[1, 2], [3, 3], [-1, 6], 0, -2])
def test_parts_that_do_not_sum_up_are_an_error(split: list[int] | int) -> None:
    with pytest.raises(NodeError, match="parts of"):
        ours("SplitToSequence", [np.ones((2, 5), np.float32), np.array(split)], axis=1)


def test_axes_of_an_unsqueeze_are_a_list() -> None:
    with pytest.raises(NodeError, match="the axes are not a list"):
        ours("Unsqueeze", [np.ones(3, np.float32), np.array([[0, 1]])])


def test_the_statistics_of_a_batch_have_one_shape() -> None:
    node = helper.make_node("BatchNormalization", list("xsbmv"), ["y", "a", "c"], training_mode=1)
    vector = np.ones(3, np.float32)
    values = [np.ones((2, 3), np.float32), vector, vector, np.ones(1, np.float32), vector]
    with pytest.raises(NodeError, match=r"of the shapes \[3\], \[3\], \[1\], \[3\]"):
        create_kernel(node, {"": 15})(values)


def different(kind: Any, *shape: int) -> np.ndarray:
    """With repetitions."""
    codes = np.random.default_rng(len(shape)).integers(0, 3, shape)
    return np.array(["b", "", "ab"], object)[codes] if kind is object else (codes - 1).astype(kind)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.int8, object])
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(
    ("shape", "axis"), [((7,), None), ((2, 3, 4), None), ((5, 2), 0), ((2, 6, 1), -2), ((0,), 0)]
)
def test_different_elements(shape: tuple[int, ...], axis: int | None, order: int, kind: Any) -> None:
    x, how = different(kind, *shape), {"sorted": order} | ({} if axis is None else {"axis": axis})
    expected = theirs("Unique", [x], 4, **how)
    for want, got in zip(expected, ours("Unique", [x], 4, **how), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_of_different_elements_a_nan_is_like_none() -> None:
    x = np.array([2, np.nan, -0.0, 2, np.nan, 0], np.float32)
    y, first, which, counts = ours("Unique", [x], 4)
    np.testing.assert_array_equal(y, [-0.0, 2, np.nan, np.nan])
    assert (first.tolist(), which.tolist(), counts.tolist()) == (
        [2, 0, 1, 4],
        [1, 2, 0, 1, 3, 0],
        [2, 2, 1, 1],
    )
    (y, *_) = ours("Unique", [x.astype(ml_dtypes.bfloat16)], 4, opset=28, sorted=0)
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y.astype(np.float32), [2, np.nan, 0, np.nan])


def test_slices_of_no_elements_are_the_same() -> None:
    y, first, which, counts = ours("Unique", [np.zeros((3, 0), np.float32)], 4, axis=0)
    assert (y.shape, first.tolist(), which.tolist(), counts.tolist()) == ((1, 0), [0], [0, 0, 0], [3])


@pytest.mark.parametrize("length", [0, 2, 3, 7])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_a_condition_may_be_shorter_or_longer(axis: int | None, length: int) -> None:
    x, condition = image(3, 2), np.arange(length) % 2 == 0
    assert_like_onnxruntime("Compress", [x, condition], **({} if axis is None else {"axis": axis}))


@pytest.mark.parametrize("op_type", ["Compress", "Unique"])
def test_an_axis_beyond_the_input_is_refused(op_type: str) -> None:
    inputs = [image(3, 2), *([np.ones(2, bool)] if op_type == "Compress" else [])]
    with pytest.raises(NodeError, match="axis is 2 for an input of 2 dimensions"):
        ours(op_type, inputs, 4 if op_type == "Unique" else 1, axis=2)


NAN = float("nan")


@pytest.mark.parametrize(
    ("mode", "saturate", "expected"),
    [
        ("up", 1, [2.0**-127, 2.0**-127, 2, 2, 1, 2, 4, 2.0**127, 2.0**127, NAN, 2.0**-127]),
        ("down", 1, [2.0**-127, 2.0**-127, 1, 1, 1, 1, 2, 2.0**127, 2.0**127, NAN, 2.0**-127]),
        ("nearest", 1, [2.0**-127, 2.0**-127, 1, 2, 1, 2, 4, 2.0**127, 2.0**127, NAN, 2.0**-127]),
        ("up", 0, [NAN, NAN, 2, 2, 1, 2, 4, NAN, NAN, NAN, NAN]),
        ("nearest", 0, [NAN, NAN, 1, 2, 1, 2, 4, NAN, NAN, NAN, NAN]),
    ],
)
def test_powers_of_two(mode: str, saturate: int, expected: list[float]) -> None:
    """Special values go by the standard's table, which onnx's own operator does not."""
    x = np.array([0, 1e-39, 1.25, 1.5, 1, 1.75, 3, 1.5 * 2.0**127, np.inf, NAN, -3], np.float32)
    for given in (x, x.astype(np.float64), x.astype(ml_dtypes.bfloat16)):
        (found,) = ours(
            "Cast", [given], opset=28, to=TensorProto.FLOAT8E8M0, round_mode=mode, saturate=saturate
        )
        assert found.dtype == ml_dtypes.float8_e8m0fnu
        np.testing.assert_array_equal(found.astype(np.float32), np.array(expected, np.float32))


def test_texts_of_bfloat16_are_those_of_float32() -> None:
    x = np.array([1.5, -3, 0.1, np.inf], ml_dtypes.bfloat16)
    assert ours("Cast", [x], to=TensorProto.STRING)[0].tolist() == ["1.5", "-3", "0.10009766", "INF"]


def test_a_way_to_round_that_is_not_known_is_refused() -> None:
    with pytest.raises(NodeError, match="round_mode 'other' is none of up, down and nearest"):
        ours("Cast", [image(2)], opset=28, to=TensorProto.FLOAT8E8M0, round_mode="other")


SIGNAL = RNG.normal(size=(1, 64, 1)).astype(np.float32)
NUMBERS: list[tuple[str, list[Any], tuple[int, ...]]] = [
    ("HannWindow", [np.array(10)], (0,)),
    ("HammingWindow", [np.array(10, np.int32)], (0,)),
    ("BlackmanWindow", [np.array(10)], (0,)),
    ("CumSum", [image(3, 4), np.array(1)], (1,)),
    ("DFT", [SIGNAL, np.array(32), np.array(1)], (1, 2)),
    ("STFT", [SIGNAL, np.array(8), None, np.array(16)], (1, 3)),
    (
        "MelWeightMatrix",
        [np.array(8), np.array(32), np.array(16000), np.array(0, np.float32), np.array(8000, np.float32)],
        (0, 1, 2, 3, 4),
    ),
    (
        "NonMaxSuppression",
        [
            np.array([[[0, 0, 1, 1], [0, 0, 1, 1.1], [2, 2, 3, 3]]], np.float32),
            np.array([[[0.9, 0.8, 0.7]]], np.float32),
            *(np.array(3), np.array(0.5, np.float32), np.array(0.1, np.float32)),
        ],
        (2, 3, 4),
    ),
]


@pytest.mark.parametrize("shape", [(), (1,)], ids=str)
@pytest.mark.parametrize(("op_type", "inputs", "numbers"), NUMBERS, ids=[case[0] for case in NUMBERS])
def test_a_number_may_come_as_a_scalar_or_a_list_of_one(
    op_type: str, inputs: list[Any], numbers: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    given = [value.reshape(shape) if at in numbers else value for at, value in enumerate(inputs)]
    assert_like_onnxruntime(op_type, given)


@pytest.mark.parametrize("left_out", [(2,), (3,), (4,), (2, 3), (3, 4), (2, 3, 4)], ids=str)
def test_boxes_are_chosen_without_the_numbers_that_are_left_out(left_out: tuple[int, ...]) -> None:
    inputs = [None if at in left_out else value for at, value in enumerate(NUMBERS[-1][1])]
    assert_like_onnxruntime("NonMaxSuppression", inputs)


def test_a_cumulative_product_takes_its_axis_as_a_list_of_one() -> None:
    (got,) = ours("CumProd", [np.arange(1, 7).reshape(2, 3), np.array([1])], opset=26)
    assert got.tolist() == [[1, 2, 6], [4, 20, 120]]


def test_dropout_takes_its_ratio_and_mode_as_lists_of_one() -> None:
    x = image(3, 4)
    (got,) = ours("Dropout", [x, np.array([0.25], np.float32), np.array([False])], opset=22)
    assert got.tolist() == x.tolist()


def test_a_list_of_two_is_no_axis() -> None:
    with pytest.raises(NodeError, match="CumSum"):
        ours("CumSum", [image(3, 4), np.array([0, 1])])


def test_a_negative_depth_is_refused() -> None:
    with pytest.raises(NodeError, match="a depth of -1"):
        ours("OneHot", [np.array([0]), np.array(-1), image(2)])
