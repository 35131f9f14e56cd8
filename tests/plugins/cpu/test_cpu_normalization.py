"""Softmax and the normalisations."""

import ephost
import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model


def some(*shape: int, seed: int = 0, dtype: object = np.float32) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) * 2 + 0.5).astype(dtype)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_softmax_along_any_axis_agrees(cpu_plugin: Cpu, op: str, axis: int) -> None:
    cpu_plugin.check(helper.make_node(op, ["x"], ["y"], axis=axis), {"x": some(5, 40, 33)})


@pytest.mark.parametrize(
    "opset, axis, shape", [(13, -1, (0,)), (13, 1, (2, 0)), (13, 0, (0, 3)), (11, 1, (2, 0))]
)
def test_of_no_elements_there_is_no_largest(
    cpu_plugin: Cpu, opset: int, axis: int, shape: tuple[int, ...]
) -> None:
    x = np.zeros(shape, np.float32)
    model = make_model([helper.make_node("Hardmax", ["x"], ["y"], axis=axis)], {"x": x}, ["y"], opset=opset)
    assert cpu_plugin.run(model, {"x": x})[0].shape == shape


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_logarithm_is_not_lost_beside_large_scores(cpu_plugin: Cpu, dtype: type) -> None:
    x = np.array([[1e8] * 5, [3e4, 3e4 - 1, 3e4 - 2, 3e4, 3e4 - 1]], dtype)
    node = helper.make_node("LogSoftmax", ["x"], ["y"])
    (found,) = cpu_plugin.run(make_model([node], {"x": x}, ["y"]), {"x": x})
    exact = x.astype(np.longdouble) - x.max(axis=1, keepdims=True)
    exact -= np.log(np.exp(exact).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found, exact.astype(dtype), rtol=1e-6)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_before_opset_13_all_from_the_axis_on_is_one_row(cpu_plugin: Cpu, op: str, axis: int) -> None:
    x = some(5, 8, 9)
    rows = (int(np.prod(x.shape[: axis % 3])), -1)
    old = make_model([helper.make_node(op, ["x"], ["y"], axis=axis)], {"x": x}, ["y"], opset=11)
    new = make_model([helper.make_node(op, ["x"], ["y"])], {"x": x.reshape(rows)}, ["y"], opset=13)
    expected = cpu_plugin.run(new, {"x": x.reshape(rows)})[0]
    np.testing.assert_array_equal(cpu_plugin.run(old, {"x": x})[0], expected.reshape(x.shape))


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_softmax_of_other_floats_agrees(cpu_plugin: Cpu, dtype: type) -> None:
    for axis in (0, 1):
        node = helper.make_node("Softmax", ["x"], ["y"], axis=axis)
        cpu_plugin.check(node, {"x": some(30, 70, dtype=dtype)}, rtol=1e-2 if dtype == np.float16 else 1e-6)


@given(st.data())
def test_softmax_of_any_shape_sums_to_one(cpu_plugin: Cpu, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 9, 64]), min_size=1, max_size=3)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = some(*shape) * 10
    model = make_model(
        [helper.make_node("Softmax", ["x"], ["y"], axis=axis)], {"x": x}, ["y"], open_shapes=True
    )
    y = cpu_plugin.run(model, {"x": x})[0]
    e = np.exp(x.astype(np.float64) - x.max(axis=axis, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(axis=axis, keepdims=True), rtol=1e-5, atol=1e-8)


def test_softmax_of_masked_rows_is_not_a_number_only_where_all_is_masked(cpu_plugin: Cpu) -> None:
    x = np.float32([[-np.inf, 1, 2], [-np.inf, -np.inf, -np.inf], [1e38, -1e38, 0]])
    model = make_model([helper.make_node("Softmax", ["x"], ["y"])], {"x": x}, ["y"])
    y = cpu_plugin.run(model, {"x": x})[0]
    assert y[0, 0] == 0
    assert np.isnan(y[1]).all()
    assert y[2].tolist() == [1, 0, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("axis", [-1, 1, 0])
def test_layer_normalization_agrees_with_its_definition(cpu_plugin: Cpu, dtype: object, axis: int) -> None:
    x = some(6, 10, 72, dtype=dtype)
    size = x.shape[axis:] if axis >= 0 else x.shape[-1:]
    scale, bias = some(*size, seed=1, dtype=dtype), some(*size, seed=2, dtype=dtype)
    node = helper.make_node("LayerNormalization", ["x", "s", "b"], ["y", "m", "f"], axis=axis, epsilon=1e-3)
    feeds = {"x": x, "s": scale, "b": bias}
    y, mean, factor = cpu_plugin.run(make_model([node], feeds, ["y", "m", "f"]), feeds)
    wide = x.astype(np.float64)
    axes = tuple(range(axis % 3, 3))
    m = wide.mean(axis=axes, keepdims=True)
    f = 1 / np.sqrt(wide.var(axis=axes, keepdims=True) + 1e-3)
    tolerance = {2: 0.02 if dtype == ml_dtypes.bfloat16 else 3e-3, 4: 1e-5, 8: 1e-9}[np.dtype(dtype).itemsize]
    expected = (wide - m) * f * scale.astype(np.float64) + bias.astype(np.float64)
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(mean, m, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(factor, f, rtol=1e-4)


def test_layer_normalization_is_accurate_far_from_zero(cpu_plugin: Cpu) -> None:
    x = some(4, 1000) + 1000
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y"])
    feeds = {"x": x, "s": np.ones(1000, np.float32)}
    y = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)[0]
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(-1, keepdims=True)) / wide.std(-1, keepdims=True)
    np.testing.assert_allclose(y, expected, atol=1e-3)


def test_rms_normalization_agrees(cpu_plugin: Cpu) -> None:
    node = helper.make_node("RMSNormalization", ["x", "s"], ["y"])
    cpu_plugin.check(node, {"x": some(4, 5, 96), "s": some(96, seed=1)}, opset=23)


@pytest.mark.parametrize("simplified", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_normalization_with_a_skip_connection_gives_the_sum_too(
    cpu_plugin: Cpu, simplified: bool, dtype: type
) -> None:
    x, skip = some(2, 7, 64, dtype=dtype), some(1, 7, 64, seed=1, dtype=dtype)
    feeds = {"x": x, "k": skip, "s": some(64, seed=2, dtype=dtype)}
    names = ["x", "k", "s"] if simplified else ["x", "k", "s", ""]
    feeds["b"] = some(64, seed=4, dtype=dtype)
    names.append("b")
    op = "SkipSimplifiedLayerNormalization" if simplified else "SkipLayerNormalization"
    node = helper.make_node(op, names, ["y", "", "", "z"], domain="com.microsoft", epsilon=1e-5)
    model = make_model([node], feeds, ["y", "z"])
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    for i, name in enumerate(("y", "z")):
        model.graph.output[i].CopyFrom(helper.make_tensor_value_info(name, kind, x.shape))
    y, z = cpu_plugin.run(model, feeds)
    wide = {name: value.astype(np.float64) for name, value in feeds.items()}
    total = wide["x"] + wide["k"] + wide["b"]
    centered = total if simplified else total - total.mean(-1, keepdims=True)
    expected = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * wide["s"]
    tolerance = 5e-3 if dtype == np.float16 else 1e-5
    np.testing.assert_allclose(z, total, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)


def test_channels_are_normalised_by_image_and_group(cpu_plugin: Cpu) -> None:
    x, scale, bias = some(2, 6, 9, 11), some(6, seed=1), some(6, seed=2)
    cpu_plugin.check(
        helper.make_node("InstanceNormalization", ["x", "s", "b"], ["y"]),
        {"x": x, "s": scale, "b": bias}, rtol=1e-4, atol=1e-5,
    )  # fmt: skip
    node = helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=3)
    feeds = {"x": x, "s": scale, "b": bias}
    y = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)[0]
    rows = x.astype(np.float64).reshape(2, 3, -1)
    rows = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    expected = rows.reshape(x.shape) * scale[:, None, None] + bias[:, None, None]
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axes", [[0, 2, 3], [1], [2, 3]])
def test_mean_and_variance_are_normalised_over_any_axes(cpu_plugin: Cpu, axes: list[int]) -> None:
    x = some(3, 4, 5, 6)
    node = helper.make_node("MeanVarianceNormalization", ["x"], ["y"], axes=axes)
    y = cpu_plugin.run(make_model([node], {"x": x}, ["y"]), {"x": x})[0]
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(tuple(axes), keepdims=True)) / (wide.std(tuple(axes), keepdims=True) + 1e-9)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("p", [1, 2])
def test_rows_are_brought_to_length_one(cpu_plugin: Cpu, p: int) -> None:
    x = some(4, 9, 17)
    for axis in (0, 1, -1):
        node = helper.make_node("LpNormalization", ["x"], ["y"], axis=axis, p=p)
        y = cpu_plugin.run(make_model([node], {"x": x}, ["y"]), {"x": x})[0]
        # The reference forgets the absolute values of p = 1.
        norms = np.sum(np.abs(x) ** p, axis=axis, keepdims=True) ** (1 / p)
        np.testing.assert_allclose(y, x / norms, rtol=1e-5)


def test_a_scale_of_the_wrong_size_is_refused(cpu_plugin: Cpu) -> None:
    inputs = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", ["a", "b"]), ("s", ["c"]))
    ]
    graph = helper.make_graph(
        [helper.make_node("LayerNormalization", ["x", "s"], ["y"])],
        "g",
        inputs,
        [onnx.ValueInfoProto(name="y")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = cpu_plugin.session(onnx.shape_inference.infer_shapes(model))
    with pytest.raises(Exception, match="shape of what is normalised"):
        session.run(None, {"x": some(3, 8), "s": some(4)})


@pytest.mark.parametrize("shape", [(5, 4), (20,), (2, 10), (1, 20)])
def test_a_scale_of_as_many_elements_in_another_shape_is_refused(
    cpu_plugin: Cpu, shape: tuple[int, ...]
) -> None:
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y"], axis=1)
    feeds = {"x": some(3, 4, 5), "s": some(*shape)}
    with pytest.raises(Exception, match="shape of what is normalised"):
        cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)


@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize("scale", [(1,), (5,), (4, 1), (4, 5), (1, 4, 5), (3, 1, 1), (3, 4, 5), (2, 1, 1, 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_scale_or_bias_is_broadcast_to_what_is_normalised(
    cpu_plugin: Cpu, op: str, scale: tuple[int, ...], dtype: type
) -> None:
    feeds = {"x": some(2, 3, 4, 5, dtype=dtype), "s": some(*scale, seed=1, dtype=dtype)}
    if op == "LayerNormalization":
        feeds["b"] = some(*scale, seed=2, dtype=dtype)
    for axis in (1, 2, -1):
        node = helper.make_node(op, list(feeds), ["y"], axis=axis)
        model = make_model([node], feeds, ["y"], opset=23, open_shapes=True)
        (y,) = cpu_plugin.run(model, feeds)
        x = feeds["x"].astype(np.float64)
        over = tuple(range(axis % 4, 4))
        centred = x - x.mean(over, keepdims=True) if op == "LayerNormalization" else x
        want = centred / np.sqrt((centred**2).mean(over, keepdims=True) + 1e-5) * feeds["s"]
        want += feeds.get("b", np.zeros(1, dtype))
        near = 2e-2 if dtype == np.float16 else 1e-5
        np.testing.assert_allclose(y, want, rtol=near, atol=near)


def test_a_scale_that_cannot_be_broadcast_is_refused(cpu_plugin: Cpu) -> None:
    for shape in ((3,), (1, 1, 1, 1, 5), (20, 1)):
        feeds = {"x": some(2, 4, 5), "s": some(*shape)}
        node = helper.make_node("RMSNormalization", list(feeds), ["y"], "the node")
        model = make_model([node], feeds, ["y"], opset=23, open_shapes=True)
        with pytest.raises(ephost.errors.InvalidArgument, match=r"the node.*cannot be broadcast"):
            cpu_plugin.run(model, feeds)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "LpNormalization with p = 1", "LpNormalization"])
@pytest.mark.parametrize("shape", [(3, 5, 40), (2, 300, 9), (70, 33), (1, 1, 8), (2, 0, 16), (2, 3, 4, 200)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_what_is_normalised_along_outer_axes(
    cpu_plugin: Cpu, op: str, shape: tuple[int, ...], dtype: type
) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    if x.size:
        x[..., 1] = 0
        x[..., 2] *= 30
        x[..., 3] = -np.inf if "Softmax" in op else 1e-5
        x[..., 0, 4] = np.nan
    kind, _, with_p = op.partition(" ")
    for axis in range(x.ndim - 1):
        node = helper.make_node(kind, ["x"], ["y"], axis=axis, **({"p": 1} if with_p else {}))
        (y,) = cpu_plugin.run(make_model([node], {"x": x}, ["y"]), {"x": x})
        wide = x.astype(np.float64)
        with np.errstate(all="ignore"):
            if "Softmax" in op:
                shifted = wide - wide.max(axis, keepdims=True, initial=-np.inf)
                sums = np.exp(shifted).sum(axis, keepdims=True)
                expected = shifted - np.log(sums) if kind == "LogSoftmax" else np.exp(shifted) / sums
            else:
                norm = (
                    np.abs(wide).sum(axis, keepdims=True)
                    if with_p
                    else np.sqrt((wide**2).sum(axis, keepdims=True))
                )
                expected = np.where(norm == 0, 0, wide / norm)
        tolerance = 2e-3 if dtype is np.float16 else 1e-5
        np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance, err_msg=f"axis {axis}")
