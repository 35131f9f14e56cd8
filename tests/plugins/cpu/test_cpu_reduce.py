"""Reductions, running sums and the places of extremes."""

import ephost
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model

KINDS = [
    "ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2",
    "ReduceSumSquare", "ReduceLogSumExp",
]  # fmt: skip


def some(shape: tuple[int, ...], dtype: object = np.float32) -> np.ndarray:
    return (np.random.default_rng(len(shape)).normal(size=shape) * 2).astype(dtype)


@pytest.mark.parametrize("axes", [[0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2], [-1]])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_over_every_set_of_axes_agrees(cpu_plugin: Cpu, kind: str, axes: list[int]) -> None:
    x = some((3, 37, 41)) / (1 if kind != "ReduceProd" else 2)
    node = helper.make_node(kind, ["x", "axes"], ["y"], keepdims=len(axes) % 2)
    cpu_plugin.check(node, {"x": x}, constants={"axes": np.int64(axes)}, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axes", [[1], [0, 1], [-1]])
@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMax"])
def test_axes_that_are_declared_a_scalar_may_be_a_list(cpu_plugin: Cpu, kind: str, axes: list[int]) -> None:
    """All shapes are declared, but a scalar's is not what runs are held to."""
    x = some((3, 4))
    feeds = {"x": x, "axes": np.int64(axes)}
    model = make_model([helper.make_node(kind, ["x", "axes"], ["y"], keepdims=0)], feeds, ["y"])
    (expected,) = cpu_plugin.run(model, feeds)
    del model.graph.input[1].type.tensor_type.shape.dim[:]
    session = cpu_plugin.session(model)
    np.testing.assert_array_equal(session.run(None, feeds)[0], expected)
    with pytest.raises(ephost.errors.OnnxRuntimeException, match="the axes are not a list"):
        session.run(None, {"x": x, "axes": np.int64(1)})


@pytest.mark.parametrize("flag", [2, -1, 1 << 32])
def test_a_flag_that_is_neither_0_nor_1_is_unset_as_in_onnxruntime(cpu_plugin: Cpu, flag: int) -> None:
    x = some((3, 4))
    for node, constants in (
        (helper.make_node("ReduceSum", ["x", "a"], ["y"], keepdims=flag), {"a": np.int64([1])}),
        (helper.make_node("ReduceMax", ["x"], ["y"], noop_with_empty_axes=flag), {}),
        (helper.make_node("ArgMin", ["x"], ["y"], keepdims=flag), {}),
        (helper.make_node("TopK", ["x", "k"], ["y", "i"], largest=flag), {"k": np.int64([2])}),
        (helper.make_node("Unique", ["x"], ["y"], sorted=flag), {}),
        (helper.make_node("Attention", ["q", "q", "q"], ["y"], is_causal=flag), {}),
    ):
        feeds = {"x": x} if "x" in node.input else {"q": some((1, 2, 3, 4))}
        unset = onnx.NodeProto()
        unset.CopyFrom(node)
        unset.attribute[0].i = 0
        found, expected = (
            cpu_plugin.run(make_model([each], feeds, node.output, constants, opset=23), feeds)
            for each in (node, unset)
        )
        for mine, other in zip(found, expected, strict=True):
            assert mine.shape == other.shape and mine.tolist() == other.tolist(), node.op_type


@given(st.data())
def test_sums_over_any_axes_of_any_shape_are_numpys(cpu_plugin: Cpu, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.sampled_from([0, 1, 2, 5, 33, 70]), max_size=4)))
    axes = data.draw(st.lists(st.sampled_from(range(len(shape))), unique=True)) if shape else []
    keep = data.draw(st.booleans())
    x = some(shape, np.float64)
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=int(keep))
    feeds = {"x": x, "axes": np.int64(axes)}
    found = cpu_plugin.run(make_model([node], feeds, ["y"], open_shapes=True), feeds)[0]
    expected = np.sum(x, axis=tuple(axes) if axes else None, keepdims=keep)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_axes_are_an_attribute_or_an_input_by_version(cpu_plugin: Cpu, opset: int) -> None:
    x = some((4, 5, 6))
    for kind in ("ReduceSum", "ReduceMax", "ReduceMean"):
        is_input = opset >= (13 if kind == "ReduceSum" else 18)
        node = (
            helper.make_node(kind, ["x", "axes"], ["y"])
            if is_input
            else helper.make_node(kind, ["x"], ["y"], axes=[1])
        )
        constants = {"axes": np.int64([1])} if is_input else {}
        cpu_plugin.check(node, {"x": x}, constants=constants, opset=opset)


def test_no_axes_mean_all_or_none_as_the_attribute_says(cpu_plugin: Cpu) -> None:
    x = some((4, 5))
    for noop in (0, 1):
        node = helper.make_node("ReduceSum", ["x"], ["y"], noop_with_empty_axes=noop)
        cpu_plugin.check(node, {"x": x}, rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(
    "kind",
    [
        "ReduceMean",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
        "ReduceLogSum",
        "ReduceLogSumExp",
    ],
)
def test_what_else_a_reduction_computes_it_does_without_axes(cpu_plugin: Cpu, kind: str, dtype: type) -> None:
    """ReduceSumSquare squares, ReduceL1 takes absolute values."""
    x = some((4, 5)).astype(dtype)
    x = np.abs(x) if kind == "ReduceLogSum" else x
    for inputs, constants in ((["x"], {}), (["x", "axes"], {"axes": np.empty(0, np.int64)})):
        node = helper.make_node(kind, inputs, ["y"], noop_with_empty_axes=1)
        tolerance = 1e-2 if dtype is np.float16 else 1e-5
        cpu_plugin.check(node, {"x": x}, constants=constants, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.int8])
@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceMin"])
def test_extremes_of_integers_are_exact(cpu_plugin: Cpu, kind: str, dtype: type) -> None:
    info = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(info.min, info.max, (7, 300), dtype=dtype, endpoint=True)
    for axis in (0, 1):
        node = helper.make_node(kind, ["x", "axes"], ["y"])
        cpu_plugin.check(node, {"x": x}, constants={"axes": np.int64([axis])}, rtol=0, atol=0)


def test_sums_of_halves_are_kept_in_float32(cpu_plugin: Cpu) -> None:
    x = np.full((3, 5000), 0.1, np.float16)
    node = helper.make_node("ReduceMean", ["x", "axes"], ["y"])
    feeds = {"x": x, "axes": np.int64([1])}
    found = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)[0]
    np.testing.assert_array_equal(found, np.full((3, 1), np.float16(0.1)))


def test_log_sum_exp_stays_finite_for_large_numbers(cpu_plugin: Cpu) -> None:
    x = np.float32([[1000, 1001], [-1000, -1001], [-np.inf, -np.inf], [np.inf, 0]])
    for axis in (0, 1):
        node = helper.make_node("ReduceLogSumExp", ["x", "axes"], ["y"], keepdims=0)
        feeds = {"x": x, "axes": np.int64([axis])}
        found = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)[0]
        np.testing.assert_allclose(found, np.logaddexp.reduce(x.astype(np.float64), axis=axis), rtol=1e-6)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_places_of_extremes_agree_for_ties_too(cpu_plugin: Cpu, op: str, last: int) -> None:
    x = np.random.default_rng(0).integers(0, 4, (5, 30, 7))
    for axis in (0, 1, -1):
        for dtype in (np.float32, np.float16, np.int64, np.uint8):
            node = helper.make_node(op, ["x"], ["y"], axis=axis, select_last_index=last, keepdims=last)
            cpu_plugin.check(node, {"x": x.astype(dtype)})


SIZES = [
    1,
    2,
    7,
    8,
    9,
    15,
    16,
    31,
    32,
    33,
    56,
    71,
    1030,
]  # Around those of vectors, of some of them, of a tile.


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"])
def test_rows_of_every_length_are_reduced_whole(cpu_plugin: Cpu, kind: str, size: int) -> None:
    # Each element matters in one row: an extreme, or a power of two whose sums and products are exact.
    count = min(size, 71)
    x = np.full((count, size), -0.0 if kind == "ReduceSum" else 1, np.float32)
    x[np.arange(count), size - 1 - np.arange(count)] = -4 if kind == "ReduceMin" else 4
    node = helper.make_node(kind, ["x", "a"], ["y"], keepdims=0)
    for axis in (0, 1):
        cpu_plugin.check(
            node, {"x": x if axis else x.T.copy()}, constants={"a": np.int64([axis])}, rtol=0, atol=0
        )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceMin"])
def test_an_extreme_of_a_row_with_nan_is_nan(cpu_plugin: Cpu, kind: str, size: int) -> None:
    count = min(size, 71)
    x = np.random.default_rng(size).normal(size=(count, size)).astype(np.float32)
    x[np.arange(count), np.arange(count)] = np.nan
    node = helper.make_node(kind, ["x", "a"], ["y"], keepdims=0)
    feeds = {"x": x}
    found = cpu_plugin.run(make_model([node], feeds, ["y"], {"a": np.int64([1])}), feeds)[0]
    assert np.isnan(found).all()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_places_of_extremes_in_lines_of_every_length(cpu_plugin: Cpu, op: str, last: int, size: int) -> None:
    """Of equal ones the first or the last, where they are infinite as well; of NaN always the first."""
    random = np.random.default_rng(size)
    x = random.integers(0, 9, (40, size)).astype(np.float32)
    x[:10] = np.inf if op == "ArgMin" else -np.inf
    x[10:20] = random.choice(np.float32([-np.inf, 0, np.inf]), (10, size))
    x[20:30][random.random((10, size)) < 2 / size] = np.nan
    best = np.argmax if op == "ArgMax" else np.argmin
    expected = size - 1 - best(x[:, ::-1], axis=1) if last else best(x, axis=1)
    nan = np.isnan(x)
    expected = np.where(nan.any(axis=1), nan.argmax(axis=1), expected)
    for axis, data in ((1, x), (0, x.T.copy()), (1, np.stack([x, x], axis=-1))):
        node = helper.make_node(op, ["x"], ["y"], axis=axis, select_last_index=last, keepdims=0)
        found = cpu_plugin.run(make_model([node], {"x": data}, ["y"]), {"x": data})[0]
        np.testing.assert_array_equal(
            found, expected if data.ndim == 2 else np.stack([expected] * 2, axis=-1)
        )


@pytest.mark.parametrize("inner", [2, 7, 1023, 1025, 2050])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_running_sums_of_neighbours_agree(cpu_plugin: Cpu, reverse: int, exclusive: int, inner: int) -> None:
    x = np.random.default_rng(inner).integers(-9, 9, (3, 5, inner)).astype(np.float32)
    # What is added up is not needed after it: the sums may come to lie in its place.
    nodes = [
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("CumSum", ["n", "a"], ["y"], exclusive=exclusive, reverse=reverse),
    ]
    feeds = {"x": x}
    found = cpu_plugin.run(make_model(nodes, feeds, ["y"], {"a": np.array(1)}), feeds)[0]
    line = -x[:, ::-1] if reverse else -x
    sums = np.cumsum(line, axis=1) - (line if exclusive else 0)
    np.testing.assert_array_equal(found, sums[:, ::-1] if reverse else sums)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_running_sums_agree(cpu_plugin: Cpu, exclusive: int, reverse: int) -> None:
    for dtype in (np.float32, np.float64, np.int32, np.int64):
        for axis in (0, 1, -1):
            node = helper.make_node("CumSum", ["x", "a"], ["y"], exclusive=exclusive, reverse=reverse)
            cpu_plugin.check(node, {"x": some((3, 4, 50), dtype), "a": np.array(axis)}, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_extremes_of_long_rows(cpu_plugin: Cpu, op: str, dtype: type, last: int, axis: int) -> None:
    """With ties, infinities, and what is not a number, of which the first is the extreme."""
    rng = np.random.default_rng(4)
    for n in (1, 7, 8, 30, 77):
        x = rng.integers(-9, 9, (9, n)).astype(dtype)
        x[1, rng.integers(0, n, 3)] = np.nan
        x[2], x[3, n // 2], x[4, n // 3] = np.nan, np.inf, -np.inf
        x[5, ::2], x[5, 1::2] = np.inf, -np.inf
        x[6], x[7, n // 2] = -np.inf, -0.0
        expected = []
        for row in x.astype(np.float64):
            best = (
                np.flatnonzero(row == (np.nanmax(row) if op == "ArgMax" else np.nanmin(row)))[-last]
                if not np.isnan(row).any()
                else np.flatnonzero(np.isnan(row))[0]
            )
            expected.append(best)
        given = x if axis == 1 else x.T.copy()
        node = helper.make_node(op, ["x"], ["y"], axis=axis, keepdims=0, select_last_index=last)
        (y,) = cpu_plugin.run(make_model([node], {"x": given}, ["y"]), {"x": given})
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("op", ["CumSum", "CumProd"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_running_sums_along_any_axis(
    cpu_plugin: Cpu, op: str, dtype: type, exclusive: int, reverse: int
) -> None:
    """Of an input that the kernel may write over, too."""
    x = np.random.default_rng(1).integers(1, 3, (2, 5, 3)).astype(dtype)
    for axis in (0, 1, 2):
        rows = np.flip(x, axis) if reverse else x
        done = (np.cumsum if op == "CumSum" else np.cumprod)(rows, axis, dtype)
        if exclusive:
            start = np.full_like(np.take(x, [0], axis), 0 if op == "CumSum" else 1)
            done = np.concatenate([start, np.take(done, range(x.shape[axis] - 1), axis)], axis)
        expected = np.flip(done, axis) if reverse else done
        nodes = [
            helper.make_node("Transpose", ["x"], ["t"], perm=[2, 1, 0]),
            helper.make_node("Transpose", ["t"], ["u"], perm=[2, 1, 0]),
            helper.make_node("Neg", ["u"], ["v"]),
            helper.make_node("Neg", ["v"], ["w"]),
            helper.make_node(op, ["w", "a"], ["y"], exclusive=exclusive, reverse=reverse),
        ]
        model = make_model(nodes, {"x": x}, ["y"], {"a": np.array(axis)}, opset=26 if op == "CumProd" else 21)
        (y,) = cpu_plugin.run(model, {"x": x})
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, expected)
