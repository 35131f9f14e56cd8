"""Operators that choose elements by what they are, or by where indices say."""

import math

import ephost
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from tests.plugins.cpu.conftest import Cpu, make_model

TYPES = [np.float32, np.int64, np.float16, np.uint8]
shapes = st.lists(st.integers(1, 6), min_size=1, max_size=4)


def some(shape: list[int] | tuple[int, ...], dtype: type = np.float32, seed: int = 0) -> np.ndarray:
    """Few different values, so that there are ties."""
    return np.random.default_rng(seed).integers(0, 9, size=shape).astype(dtype)


@given(st.data(), shapes, st.sampled_from([*TYPES, np.bool_]), st.sampled_from([np.int32, np.int64]))
def test_gather_along_any_axis(
    cpu_plugin: Cpu, data: st.DataObject, shape: list[int], dtype: type, index_type: type
) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    n = shape[axis]
    indices = data.draw(st.lists(st.integers(-n, n - 1), min_size=0, max_size=6))
    where = np.array(indices, index_type)
    if data.draw(st.booleans()) and indices:
        where = where[:1].reshape(())
    node = helper.make_node("Gather", ["x", "i"], ["y"], axis=axis)
    x = some(shape, dtype)
    (y,) = cpu_plugin.check(node, {"x": x, "i": where})
    model = make_model([node], {"x": x}, ["y"], {"i": where})
    np.testing.assert_array_equal(cpu_plugin.run(model, {"x": x})[0], y)


@pytest.mark.parametrize("op", ["Gather", "GatherElements", "GatherND", "ScatterND", "ScatterElements"])
def test_indices_beyond_their_axis_are_errors_that_name_the_node(cpu_plugin: Cpu, op: str) -> None:
    x = some((3, 4))
    feeds = {"x": x, "i": np.array([[7, 0]], np.int64)}
    if op.startswith("Scatter"):
        feeds["u"] = some((1,) if op == "ScatterND" else (1, 2))
    model = make_model([helper.make_node(op, list(feeds), ["y"], name="astray")], feeds, ["y"])
    with pytest.raises(ephost.capi.onnxruntime_pybind11_state.InvalidArgument, match="astray"):
        cpu_plugin.run(model, feeds)


@given(st.data(), shapes, st.sampled_from(TYPES))
def test_elements_are_gathered_and_scattered(
    cpu_plugin: Cpu, data: st.DataObject, shape: list[int], dtype: type
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    index_shape = [data.draw(st.integers(1, n)) for n in shape]
    n = shape[axis]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    indices = rng.integers(-n, n, size=index_shape)
    x = some(shape, dtype)
    expected = np.zeros(index_shape, dtype)
    for at in np.ndindex(*index_shape):
        source = list(at)
        source[axis] = indices[at]
        expected[at] = x[tuple(source)]
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=axis)
    feeds = {"x": x, "i": indices}
    np.testing.assert_array_equal(cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)[0], expected)

    updates = some(index_shape, dtype, 1)
    reduction = data.draw(st.sampled_from(["none", "add", "mul", "min", "max"]))
    combine = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    expected = x.copy()
    for at in np.ndindex(*index_shape):
        target = list(at)
        target[axis] = indices[at]
        place = tuple(target)
        update = updates[at]
        expected[place] = update if reduction == "none" else combine[reduction](expected[place], update)
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=axis, reduction=reduction)
    feeds = {"x": x, "i": indices, "u": updates}
    np.testing.assert_array_equal(cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)[0], expected)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_tuples_of_indices(cpu_plugin: Cpu, reduction: str, length: int) -> None:
    x = some((3, 4, 5))
    rng = np.random.default_rng(0)
    indices = np.stack([rng.permutation(3)[:2] for _ in range(length)], axis=-1)
    cpu_plugin.check(helper.make_node("GatherND", ["x", "i"], ["y"]), {"x": x, "i": indices})
    updates = some((2, *x.shape[length:]), seed=2)
    node = helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction=reduction)
    cpu_plugin.check(node, {"x": x, "i": indices, "u": updates}, opset=18)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_tuples_of_com_microsoft_may_be_short(cpu_plugin: Cpu, dtype: type) -> None:
    node = helper.make_node("GatherND", ["x", "i"], ["y"], domain="com.microsoft")
    feeds = {"x": some((3, 4, 5)), "i": np.array([[0, 1], [-1, 3]], dtype)}
    cpu_plugin.check_beside_onnxruntime(node, feeds)


def test_tuples_within_batches(cpu_plugin: Cpu) -> None:
    node = helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=1)
    cpu_plugin.check(node, {"x": some((2, 4, 3)), "i": np.array([[[1], [-1]], [[0], [2]]])})


@given(st.data(), shapes, st.booleans(), st.sampled_from([np.float32, np.int64, np.float16]))
def test_top_k_takes_the_first_of_equals(
    cpu_plugin: Cpu, data: st.DataObject, shape: list[int], largest: bool, dtype: type
) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    k = data.draw(st.integers(1, shape[axis]))
    x = some(shape, dtype)
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=axis, largest=int(largest))
    model = make_model([node], {"x": x}, ["v", "i"], {"k": np.array([k])})
    values, indices = cpu_plugin.run(model, {"x": x})
    keys = -x.astype(np.float64) if largest else x.astype(np.float64)
    expected = np.take(np.argsort(keys, axis=axis, kind="stable"), range(k), axis=axis)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis=axis))


def test_top_k_of_long_rows_on_several_threads(cpu_plugin: Cpu) -> None:
    x = np.random.default_rng(0).permutation(64 * 4001).reshape(64, 4001).astype(np.float32)
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"])
    for k in (1, 10, 3000, 4001):
        model = make_model([node], {"x": x}, ["v", "i"], {"k": np.array([k])})
        values, indices = cpu_plugin.run(model, {"x": x}, intra_op_num_threads=2)
        np.testing.assert_array_equal(values, -np.sort(-x, axis=1)[:, :k])
        np.testing.assert_array_equal(np.take_along_axis(x, indices, axis=1), values)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("order", ["random", "rising", "falling", "few"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8])
def test_top_k_of_long_rows_in_any_order(cpu_plugin: Cpu, dtype: type, order: str, largest: int) -> None:
    """The first of equals, NaN as the greatest of all, however often what is kept changes on the way."""
    random = np.random.default_rng(0)
    for n in (1, 65, 79, 200, 1001):
        x = random.integers(0, 3 if order == "few" else 200, (3, n)).astype(dtype)
        if order in ("rising", "falling"):
            x = np.sort(x, axis=1)[:, :: 1 if order == "rising" else -1].copy()
        keys = x.astype(np.float64)
        if order == "random" and x.dtype.kind == "f":
            chosen = random.random(x.shape) < 0.05
            x[chosen], keys[chosen] = np.nan, np.inf
        sorted_places = np.argsort(-keys if largest else keys, axis=1, kind="stable")
        for k in sorted({1, min(n, 10), n // 3, n}):
            for axis in (1, 0):
                data = x if axis else x.T.copy()
                node = helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=axis, largest=largest)
                model = make_model([node], {"x": data}, ["v", "i"], {"k": np.array([k])})
                values, indices = cpu_plugin.run(model, {"x": data})
                np.testing.assert_array_equal(indices if axis else indices.T, sorted_places[:, :k])
                np.testing.assert_array_equal(values, np.take_along_axis(data, indices, axis=axis))


@given(st.data(), shapes, st.sampled_from([np.float32, np.int64, np.bool_]))
def test_what_is_not_zero(cpu_plugin: Cpu, data: st.DataObject, shape: list[int], dtype: type) -> None:
    x = (some(shape) % 3).astype(dtype)
    nodes = [
        helper.make_node("NonZero", ["x"], ["i"]),
        helper.make_node("Transpose", ["i"], ["t"]),
        helper.make_node("GatherND", ["x", "t"], ["y"]),
    ]
    model = make_model(nodes, {"x": x}, ["i", "y"])
    session = cpu_plugin.session(model)
    for feed in (x, np.zeros_like(x), np.ones_like(x)):
        found, y = session.run(None, {"x": feed})
        np.testing.assert_array_equal(found, np.stack(np.nonzero(feed)))
        np.testing.assert_array_equal(y, feed[np.nonzero(feed)])


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_compress(cpu_plugin: Cpu, axis: int | None) -> None:
    node = helper.make_node("Compress", ["x", "c"], ["y"], **({} if axis is None else {"axis": axis}))
    cpu_plugin.check(node, {"x": some((3, 4)), "c": np.array([False, True, True])})


@pytest.mark.parametrize("length", [7, 8, 1000, 4099])
@pytest.mark.parametrize("share", [0, 0.003, 0.5, 1])
def test_compress_by_many_conditions(cpu_plugin: Cpu, length: int, share: float) -> None:
    condition = np.random.default_rng(length).random(length) < share
    condition[-1] = True
    # A byte that is no bool's, as views of others have.
    condition = np.where(condition, np.uint8(6), np.uint8(0)).view(np.bool_)
    x = np.arange(length + 3, dtype=np.float32)
    node = helper.make_node("Compress", ["x", "c"], ["y"])
    (y,) = cpu_plugin.run(make_model([node], {"x": x, "c": condition}, ["y"]), {"x": x, "c": condition})
    np.testing.assert_array_equal(y, np.flatnonzero(condition.view(np.uint8)))


@pytest.mark.parametrize("shape", [(3, 9000), (2, 4097, 3), (4, 4096)])
def test_compress_of_an_axis_by_many_conditions(cpu_plugin: Cpu, shape: tuple[int, ...]) -> None:
    condition = np.random.default_rng(1).random(shape[1] - 1) < 0.4
    node = helper.make_node("Compress", ["x", "c"], ["y"], axis=1)
    cpu_plugin.check(node, {"x": some(shape), "c": condition})


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.uint8, np.float64])
@pytest.mark.parametrize("order", [0, 1])
def test_unique_of_many(cpu_plugin: Cpu, dtype: type, order: int) -> None:
    x = np.random.default_rng(5).integers(0, 1500, 20_000).astype(dtype)
    if issubclass(dtype, np.floating):
        x[::7], x[::11], x[::13] = np.nan, -0.0, 0.0
    node = helper.make_node("Unique", ["x"], ["y", "i", "v", "c"], sorted=order)
    y, first, inverse, counts = cpu_plugin.run(make_model([node], {"x": x}, ["y", "i", "v", "c"]), {"x": x})
    sorted_y, at, back, n = np.unique(x, True, True, True)
    place = np.arange(len(at)) if order else np.argsort(at)
    np.testing.assert_array_equal(y, sorted_y[place])
    np.testing.assert_array_equal(first, at[place])
    np.testing.assert_array_equal(counts, n[place])
    np.testing.assert_array_equal(place[inverse], back)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("order", [0, 1])
def test_unique(cpu_plugin: Cpu, axis: int | None, order: int) -> None:
    x = np.array([[2, 1, 2, 0], [2, 1, 2, 3], [2, 1, 2, 0]], np.float32)
    given_axis = {} if axis is None else {"axis": axis}
    node = helper.make_node("Unique", ["x"], ["y", "i", "v", "c"], sorted=order, **given_axis)
    y, first, inverse, counts = cpu_plugin.run(make_model([node], {"x": x}, ["y", "i", "v", "c"]), {"x": x})
    sorted_y, at, back, n = np.unique(x, True, True, True, axis=axis)
    # In the order of the values, or in that of their first places.
    place = np.arange(len(at)) if order else np.argsort(at)
    np.testing.assert_array_equal(y, np.take(sorted_y, place, axis=axis or 0))
    np.testing.assert_array_equal(first, at[place])
    np.testing.assert_array_equal(counts, n[place])
    np.testing.assert_array_equal(place[inverse], back.reshape(-1))


@pytest.mark.parametrize("center", [0, 1])
def test_boxes_that_overlap_a_better_one_are_dropped(cpu_plugin: Cpu, center: int) -> None:
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 2, size=(2, 40, 2))
    boxes = np.concatenate([corner, (1 if center else corner) + rng.uniform(0.5, 2, size=(2, 40, 2))], axis=2)
    feeds = {"b": boxes.astype(np.float32), "s": rng.uniform(size=(2, 3, 40)).astype(np.float32)}
    node = helper.make_node("NonMaxSuppression", ["b", "s", "m", "t", "l"], ["y"], center_point_box=center)
    constants = {
        "m": np.array([10]),
        "t": np.array([0.3], np.float32),
        "l": np.array([0.2], np.float32),
    }
    (y,) = cpu_plugin.check(node, feeds, constants=constants)
    assert 6 < len(y) < 60


def test_one_hot_and_its_kin(cpu_plugin: Cpu) -> None:
    node = helper.make_node("OneHot", ["i", "d", "v"], ["y"], axis=1)
    feeds = {"i": np.array([[0, -1], [2, 1]])}
    constants = {"d": np.array(3), "v": np.array([2, 5], np.float32)}
    cpu_plugin.check(node, feeds, constants=constants)
    cpu_plugin.check(helper.make_node("EyeLike", ["x"], ["y"], k=-1, dtype=7), {"x": some((3, 5))})


@pytest.mark.parametrize(
    ("start", "limit", "delta"), [(0, 7, 2), (5, -3, -3), (2, 2, 1), (3, 0, 1), (0.5, 3.1, 0.7)]
)
def test_ranges(cpu_plugin: Cpu, start: float, limit: float, delta: float) -> None:
    dtype = np.float32 if isinstance(start, float) else np.int64
    feeds = {k: np.array(v, dtype) for k, v in {"a": start, "b": limit, "c": delta}.items()}
    cpu_plugin.check(helper.make_node("Range", ["a", "b", "c"], ["y"]), feeds)


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64, np.float32, np.float64])
def test_long_ranges(cpu_plugin: Cpu, dtype: type) -> None:
    """Up to the end of the smallest type, whose next step would be beyond it."""
    feeds = {k: np.array(v, dtype) for k, v in {"a": -32767, "b": 32766, "c": 3}.items()}
    model = make_model([helper.make_node("Range", ["a", "b", "c"], ["y"])], feeds, ["y"])
    (found,) = cpu_plugin.run(model, feeds)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.arange(-32767, 32766, 3))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.float16, np.int32, np.float64])
def test_tensors_of_one_value(cpu_plugin: Cpu, dtype: type) -> None:
    value = np.array([3], dtype)
    node = helper.make_node("ConstantOfShape", ["s"], ["y"], value=numpy_helper.from_array(value))
    for shape in ([], [0, 2], [1], [3, 7], [200, 333]):
        feeds = {"s": np.array(shape, np.int64)}
        (found,) = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.full(shape, value[0]))


@pytest.mark.parametrize(
    ("op", "attributes", "mean", "deviation"),
    [
        ("RandomNormal", {"mean": 3.0, "scale": 2.0}, 3, 2),
        ("RandomUniform", {"low": 1.0, "high": 5.0}, 3, 4 / 12**0.5),
    ],
)
def test_random_numbers_follow_their_distribution(
    cpu_plugin: Cpu, op: str, attributes: dict[str, float], mean: float, deviation: float
) -> None:
    model = make_model([helper.make_node(op, [], ["y"], shape=[300, 300], **attributes)], {}, ["y"])
    session = cpu_plugin.session(model)
    first, second = session.run(None, {})[0], session.run(None, {})[0]
    assert not np.array_equal(first, second)
    assert abs(first.mean() - mean) < 0.05
    assert abs(first.std() - deviation) < 0.05
    seeded = make_model([helper.make_node(op, [], ["y"], shape=[8], seed=4.0, **attributes)], {}, ["y"])
    np.testing.assert_array_equal(cpu_plugin.run(seeded, {})[0], cpu_plugin.run(seeded, {})[0])


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique_strings(cpu_plugin: Cpu, order: int, axis: int | None) -> None:
    words = np.array(["", "a", "b", "ab", "a longer one", "a longer two", "\u00e9", "\0"], object)
    x = words[np.random.default_rng(3).integers(0, len(words), (200, 2))]
    feeds = {"x": x if axis is None else x[:40]}
    given_axis = {} if axis is None else {"axis": axis}
    node = helper.make_node("Unique", ["x"], ["y", "i", "v", "c"], sorted=order, **given_axis)
    cpu_plugin.check_beside_onnxruntime(node, feeds, ["y", "i", "v", "c"])


@pytest.mark.parametrize("least", [None, 0.25])
def test_boxes_of_equal_scores_are_taken_in_turn(cpu_plugin: Cpu, least: float | None) -> None:
    """More of them than are sorted at once."""
    rng = np.random.default_rng(1)
    corner = rng.uniform(0, 9, (1, 900, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(0.5, 2, (1, 900, 2))], 2).astype(np.float32)
    scores = (rng.integers(-20, 20, (1, 3, 900)) / 20).astype(np.float32)
    scores[0, :, ::7], scores[0, :, 1::7] = 0.0, -0.0
    feeds = {"b": boxes, "s": scores}
    names = ["b", "s", "m", "t", "l"][: 4 if least is None else 5]
    for most in (1, 20, 600):
        constants = {"m": np.array([most]), "t": np.array([0.3], np.float32)}
        if least is not None:
            constants["l"] = np.array([least], np.float32)
        cpu_plugin.check_beside_onnxruntime(
            helper.make_node("NonMaxSuppression", names, ["y"]), feeds, constants=constants
        )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint64])
@pytest.mark.parametrize("k", [1, 5, 40])
@pytest.mark.parametrize("largest", [0, 1])
def test_the_best_of_rows_with_ties_and_what_is_not_a_number(
    cpu_plugin: Cpu, dtype: type, k: int, largest: int
) -> None:
    """That counts as the greatest, and of equal elements the first comes first."""
    rng = np.random.default_rng(k)
    x = rng.integers(0, 90, (6, 333)).astype(dtype)
    if issubclass(dtype, np.floating):
        x[1, rng.integers(0, 333, 3)], x[2], x[3, 40:] = np.nan, np.nan, np.inf
        x[4, ::2] = -0.0
    key = x.astype(np.float64) if issubclass(dtype, np.floating) else x.astype(object)
    order = [
        sorted(
            range(333), key=lambda i, row=row: (row[i] != row[i], row[i]) if row[i] == row[i] else (True, 0)
        )
        for row in key
    ]
    if largest:
        order = [
            sorted(range(333), key=lambda i, row=row: (row[i] == row[i], -row[i] if row[i] == row[i] else 0))
            for row in key
        ]
    expected = np.array([each[:k] for each in order])
    node = helper.make_node("TopK", ["x", "k"], ["y", "i"], largest=largest)
    model = make_model([node], {"x": x}, ["y", "i"], {"k": np.array([k])})
    values, places = cpu_plugin.run(model, {"x": x})
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, 1))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_normal_numbers_are_normal_as_far_out_as_they_come(cpu_plugin: Cpu, dtype: type) -> None:
    x = np.zeros(400_000, dtype)
    (y,) = cpu_plugin.run(
        make_model([helper.make_node("RandomNormalLike", ["x"], ["y"], seed=3.0)], {"x": x}, ["y"]), {"x": x}
    )
    assert y.dtype == dtype
    y = np.sort(y.astype(np.float64))
    for bound in (0.0, 0.2, 0.5, 1.0, 2.0, 3.0, 3.6541528853610088, 4.0):
        share = 0.5 * math.erfc(bound / math.sqrt(2))
        allowed = 5 * math.sqrt(share / len(y)) + (1e-3 * share if dtype == np.float16 else 0)
        assert abs(np.mean(y > bound) - share) < allowed
        assert abs(np.mean(y < -bound) - share) < allowed
    assert abs(np.mean(y**4) - 3) < 0.1


def test_random_numbers_of_other_seeds_are_others(cpu_plugin: Cpu) -> None:
    drawn = [
        cpu_plugin.run(
            make_model([helper.make_node("RandomUniform", [], ["y"], shape=[2000], seed=seed)], {}, ["y"]), {}
        )[0]
        for seed in (0.0, 1.0, 2.0, -1.0)
    ]
    assert len(np.unique(np.concatenate(drawn))) > 7900


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("to", [np.float32, np.int64, np.bool_, np.float16])
def test_draws_hit_as_often_as_they_should(cpu_plugin: Cpu, dtype: type, to: type) -> None:
    x = np.repeat(np.array([0, 0.125, 0.5, 1], dtype), 50_000)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(to))
    node = helper.make_node("Bernoulli", ["x"], ["y"], seed=2.0, dtype=kind)
    (y,) = cpu_plugin.run(make_model([node], {"x": x}, ["y"]), {"x": x})
    assert y.dtype == to
    means = y.reshape(4, -1).astype(np.float64).mean(1)
    assert means[0] == 0 and means[3] == 1
    np.testing.assert_allclose(means, [0, 0.125, 0.5, 1], atol=0.01)


@pytest.mark.parametrize("op", ["GatherElements", "ScatterElements"])
@pytest.mark.parametrize("axis", [0, 1])
def test_an_index_beyond_its_axis_is_an_error_wherever_it_stands(cpu_plugin: Cpu, op: str, axis: int) -> None:
    feeds = {"x": some((5, 6)), "i": np.zeros((3, 4), np.int64)}
    if op == "ScatterElements":
        feeds["u"] = some((3, 4))
    model = make_model([helper.make_node(op, list(feeds), ["y"], axis=axis)], feeds, ["y"])
    session = cpu_plugin.session(model)
    for place in ((0, 0), (1, 2), (2, 3)):
        for index in (-(2**63), -feeds["x"].shape[axis] - 1, feeds["x"].shape[axis], 2**63 - 1):
            feeds["i"][:] = 1
            feeds["i"][place] = index
            with pytest.raises(ephost.capi.onnxruntime_pybind11_state.InvalidArgument):
                session.run(None, feeds)


@pytest.mark.parametrize("reduction", ["min", "max"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8])
def test_extremes_are_scattered(cpu_plugin: Cpu, reduction: str, dtype: type) -> None:
    feeds = {
        "x": some((7, 5), dtype),
        "i": np.random.default_rng(2).integers(-7, 7, (6, 5)),
        "u": some((6, 5), dtype, seed=1),
    }
    node = helper.make_node("ScatterElements", list(feeds), ["y"], axis=0, reduction=reduction)
    cpu_plugin.check(node, feeds)
