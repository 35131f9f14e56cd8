"""Operators that put elements elsewhere without looking at them."""

import ephost
import numpy as np
import pytest
from ephost.errors import InvalidArgument
from ephost.reference import create_kernel
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model

TYPES = [np.float32, np.int64, np.float16, np.uint8, np.bool_]


def numbered(shape: tuple[int, ...] | list[int], dtype: type = np.float32) -> np.ndarray:
    """Elements that differ from their neighbours, so that one in the wrong place shows."""
    return (np.arange(np.prod(shape, dtype=np.int64)) % 251).reshape(shape).astype(dtype)


shapes = st.lists(st.integers(0, 9), min_size=1, max_size=5)


@given(st.data(), shapes, st.sampled_from(TYPES))
def test_transposes_of_any_shape_and_element_size(
    cpu_plugin: Cpu, data: st.DataObject, shape: list[int], dtype: type
) -> None:
    perm = data.draw(st.permutations(range(len(shape))))
    cpu_plugin.check(
        helper.make_node("Transpose", ["x"], ["y"], perm=perm), {"x": numbered(shape, dtype)}, ["y"]
    )


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float64, np.int16])
@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((257, 131), (1, 0)),
        ((2, 37, 53, 3), (0, 3, 1, 2)),
        ((2, 3, 37, 53), (0, 2, 3, 1)),
        ((2, 61, 12, 64), (0, 2, 1, 3)),
        ((2, 12, 61, 64), (0, 1, 3, 2)),
        ((1, 500, 1, 40), (2, 3, 0, 1)),
    ],
)
def test_large_transposes_are_the_same_on_one_thread_and_on_many(
    cpu_plugin: Cpu, shape: tuple[int, ...], perm: tuple[int, ...], dtype: type
) -> None:
    x = numbered(shape, dtype)
    model = make_model([helper.make_node("Transpose", ["x"], ["y"], perm=perm)], {"x": x}, ["y"])
    for threads in (1, 2, 3):
        (y,) = cpu_plugin.run(model, {"x": x}, intra_op_num_threads=threads)
        np.testing.assert_array_equal(y, x.transpose(perm))


@given(st.data(), shapes, st.sampled_from(TYPES))
def test_concat_joins_any_number_of_parts(
    cpu_plugin: Cpu, data: st.DataObject, shape: list[int], dtype: type
) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    feeds = {}
    for i, size in enumerate(data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))):
        part = list(shape)
        part[axis] = size
        feeds[f"x{i}"] = numbered(part, dtype)
    cpu_plugin.check(helper.make_node("Concat", list(feeds), ["y"], axis=axis), feeds)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        ([(3, 40, 64), (3, 40, 200)], -1),  # Rows with a piece of each part.
        ([(16, 9, 17), (16, 4, 17), (16, 8, 17), (16, 0, 17)], 1),
        ([(15, 9, 17), (15, 4, 17)], 1),  # Few rows.
        ([(4000, 64), (4000, 65)], 1),  # For several threads.
    ],
)
def test_long_pieces_are_joined(
    cpu_plugin: Cpu, shapes: list[tuple[int, ...]], axis: int, dtype: type
) -> None:
    feeds = {f"x{i}": numbered(shape, dtype) for i, shape in enumerate(shapes)}
    cpu_plugin.check(helper.make_node("Concat", list(feeds), ["y"], axis=axis), feeds)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize(
    ("shapes", "axis", "joined"),
    [
        ([(0, 1, 75), (1, 15, 75)], 1, (1, 16, 75)),
        ([(3, 6, 128), (0, 6, 16)], 2, (3, 6, 144)),
        ([(20, 100), (0, 3), (20, 200)], -1, (20, 303)),
        ([(2, 3), (5, 0), (2, 1)], 1, (2, 4)),
        ([(2, 3), (2, 0), (0, 2)], 0, (4, 3)),
        ([(2, 0), (0, 3)], 1, (2, 3)),
        ([(2, 0), (0, 3)], 0, (2, 0)),
        ([(0, 2), (0, 3), (1, 2)], 1, (1, 7)),
        ([(0,), (2, 3), (2, 4)], 1, (2, 7)),  # onnxruntime ends the process.
        ([(2, 3), (0, 1, 2)], -1, (2, 4)),
    ],
)
def test_what_is_empty_joins_anything(
    cpu_plugin: Cpu, shapes: list[tuple[int, ...]], axis: int, joined: tuple[int, ...], dtype: type
) -> None:
    """In onnxruntime too, where shapes are open; there its part at the end is not written."""
    feeds = {f"x{i}": numbered(shape, dtype) + dtype(1) for i, shape in enumerate(shapes)}
    node = helper.make_node("Concat", list(feeds), ["y"], axis=axis)
    model = make_model([node], feeds, ["y"], opset=21)
    for value in model.graph.input:
        value.type.tensor_type.ClearField("shape")
    expected = np.zeros(joined, dtype)
    whole = [x for x in feeds.values() if x.size > 0]
    if whole:
        parts = np.concatenate(whole, axis=axis)
        expected[tuple(map(slice, parts.shape))] = parts
    np.testing.assert_array_equal(cpu_plugin.run(model, feeds)[0], expected)
    kernel = create_kernel(node, {"": 21})
    np.testing.assert_array_equal(kernel(list(feeds.values()))[0], expected)


@pytest.mark.parametrize("channels", [(64, 32), (24, 40, 16)])
def test_channels_that_lie_together_are_joined(cpu_plugin: Cpu, channels: tuple[int, ...]) -> None:
    """Between convolutions, in the layout that those like."""
    nodes = [
        helper.make_node("Conv", ["x", f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1]) for i in range(len(channels))
    ]
    names = [f"c{i}" for i in range(len(channels))]
    nodes += [
        helper.make_node("Concat", names, ["j"], axis=1),
        helper.make_node("Conv", ["j", "last"], ["y"]),
    ]
    random = np.random.default_rng(0)
    constants = {f"w{i}": random.normal(size=(n, 8, 3, 3)) / 9 for i, n in enumerate(channels)}
    constants["last"] = random.normal(size=(16, sum(channels), 1, 1)) / 9
    cpu_plugin.check_beside_onnxruntime(
        nodes,
        {"x": random.normal(size=(2, 8, 13, 11)).astype(np.float32)},
        constants={name: value.astype(np.float32) for name, value in constants.items()},
        rtol=1e-4,
        atol=1e-5,
    )


@given(st.data(), shapes, st.sampled_from(TYPES))
def test_split_is_the_reverse_of_concat(
    cpu_plugin: Cpu, data: st.DataObject, shape: list[int], dtype: type
) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    sizes = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    whole = list(shape)
    whole[axis] = sum(sizes)
    names = [f"y{i}" for i in range(len(sizes))]
    cpu_plugin.check(
        helper.make_node("Split", ["x", "sizes"], names, axis=axis),
        {"x": numbered(whole, dtype)},
        names,
        {"sizes": np.array(sizes, np.int64)},
    )


def test_split_into_equal_parts_of_which_the_last_is_smaller(cpu_plugin: Cpu) -> None:
    node = helper.make_node("Split", ["x"], ["a", "b", "c"], axis=1, num_outputs=3)
    cpu_plugin.check(node, {"x": numbered((2, 8))}, ["a", "b", "c"])


@given(st.data(), shapes, st.sampled_from(TYPES))
def test_slices_with_any_bounds_and_steps(
    cpu_plugin: Cpu, data: st.DataObject, shape: list[int], dtype: type
) -> None:
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=len(shape), unique=True))
    steps = [data.draw(st.integers(-3, 3).filter(lambda step: step != 0)) for _ in axes]
    # Below the first element a start counts as the first one in ONNX, and as none in numpy.
    starts = [data.draw(st.integers(-shape[axis], 12)) for axis in axes]
    ends = [data.draw(st.sampled_from([-(2**63), 2**63 - 1, *range(-12, 12)])) for _ in axes]
    constants = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    cpu_plugin.check(
        helper.make_node("Slice", ["x", *constants], ["y"]),
        {"x": numbered(shape, dtype)},
        constants={name: np.array(value, np.int64) for name, value in constants.items()},
    )


def test_slices_of_old_opsets_have_their_bounds_as_attributes(cpu_plugin: Cpu) -> None:
    node = helper.make_node("Slice", ["x"], ["y"], starts=[1, -2], ends=[3, 1000], axes=[2, 0])
    cpu_plugin.check(node, {"x": numbered((3, 4, 5))}, opset=9)


def test_slices_by_bounds_that_only_the_run_knows(cpu_plugin: Cpu) -> None:
    x = numbered((6, 4))
    model = make_model(
        [helper.make_node("Slice", ["x", "starts", "ends"], ["y"])],
        {"x": x, "starts": np.array([0]), "ends": np.array([1])},
        ["y"],
    )
    session = cpu_plugin.session(model)
    for start, end in ((0, 3), (2, 4), (5, 1), (0, 3)):
        (y,) = session.run(None, {"x": x, "starts": np.array([start]), "ends": np.array([end])})
        np.testing.assert_array_equal(y, x[start:end])


@given(st.data(), shapes, st.sampled_from(TYPES))
def test_expand_broadcasts(cpu_plugin: Cpu, data: st.DataObject, shape: list[int], dtype: type) -> None:
    shape = [data.draw(st.sampled_from([1, n])) for n in shape]
    asked = [data.draw(st.sampled_from([1, n] if n != 1 else [1, 2, 5])) for n in shape]
    asked = [data.draw(st.integers(1, 3)) for _ in range(data.draw(st.integers(0, 2)))] + asked
    cpu_plugin.check(
        helper.make_node("Expand", ["x", "shape"], ["y"]),
        {"x": numbered(shape, dtype)},
        constants={"shape": np.array(asked, np.int64)},
    )


@given(st.data(), shapes, st.sampled_from(TYPES))
def test_tile_repeats(cpu_plugin: Cpu, data: st.DataObject, shape: list[int], dtype: type) -> None:
    repeats = [data.draw(st.integers(0, 3)) for _ in shape]
    cpu_plugin.check(
        helper.make_node("Tile", ["x", "repeats"], ["y"]),
        {"x": numbered(shape, dtype)},
        constants={"repeats": np.array(repeats, np.int64)},
    )


@given(
    st.data(),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.sampled_from(["constant", "edge", "reflect", "wrap"]),
    st.sampled_from([np.float32, np.int64, np.uint8]),
)
def test_pad_fills_what_is_around(
    cpu_plugin: Cpu, data: st.DataObject, shape: list[int], mode: str, dtype: type
) -> None:
    # numpy reflects further than once in another way, and knows no negative pads.
    most = [n - 1 if mode == "reflect" else n for n in shape]
    pads = [data.draw(st.integers(0, n)) for n in most] + [data.draw(st.integers(0, n)) for n in most]
    constants = {"pads": np.array(pads, np.int64)}
    if mode == "constant":
        constants["value"] = np.array(7, dtype)
    cpu_plugin.check(
        helper.make_node("Pad", ["x", *constants], ["y"], mode=mode),
        {"x": numbered(shape, dtype)},
        constants=constants,
    )


def test_negative_pads_cut(cpu_plugin: Cpu) -> None:
    x = numbered((5, 6))
    node = helper.make_node("Pad", ["x", "pads"], ["y"])
    model = make_model([node], {"x": x}, ["y"], {"pads": np.array([-1, 2, 1, -3], np.int64)})
    (y,) = cpu_plugin.run(model, {"x": x})
    np.testing.assert_array_equal(y, np.pad(x[1:, :3], ((0, 1), (2, 0))))


def test_pads_of_some_axes(cpu_plugin: Cpu) -> None:
    constants = {"pads": np.array([1, 2], np.int64), "axes": np.array([-1], np.int64)}
    node = helper.make_node("Pad", ["x", "pads", "", "axes"], ["y"], mode="edge")
    cpu_plugin.check(node, {"x": numbered((2, 3, 4))}, constants=constants, opset=19)


def test_pads_of_old_opsets_are_attributes(cpu_plugin: Cpu) -> None:
    node = helper.make_node("Pad", ["x"], ["y"], pads=[0, 1, 2, 0], value=1.5)
    cpu_plugin.check(node, {"x": numbered((2, 3))}, opset=10)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_and_back(cpu_plugin: Cpu, mode: str) -> None:
    node = helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=2, mode=mode)
    cpu_plugin.check(node, {"x": numbered((2, 12, 3, 5))})
    node = helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=3)
    cpu_plugin.check(node, {"x": numbered((2, 4, 6, 9))})


@pytest.mark.parametrize("operator", ["DepthToSpace", "SpaceToDepth"])
@pytest.mark.parametrize("size", [2**32, 2**62])
@pytest.mark.parametrize("shape", [(1, 4, 2, 2), (1, 0, 2, 2), (1, 4, 0, 0)])
def test_blocks_whose_size_overflows_are_refused(
    cpu_plugin: Cpu, operator: str, size: int, shape: tuple[int, ...]
) -> None:
    """Its square is 0 in 64 bits, which the process divided by."""
    x = numbered(shape)
    node = helper.make_node(operator, ["x"], ["y"], blocksize=size)
    with pytest.raises(InvalidArgument, match=f"{operator} 'y': blocksize is too large|not multiples"):
        cpu_plugin.run(make_model([node], {"x": x}, ["y"], open_shapes=True), {"x": x})


def test_views_share_memory_and_the_copies_around_them_stay_right(cpu_plugin: Cpu) -> None:
    """Parts along the outermost axis are aliases: what is computed in place must not change them."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Split", ["a", "sizes"], ["b", "c"], axis=1),
        helper.make_node("Relu", ["b"], ["d"]),
        helper.make_node("Slice", ["c", "starts", "ends", "axes"], ["e"]),
        helper.make_node("Concat", ["d", "e", "b", "a"], ["y"], axis=1),
    ]
    constants = {
        "sizes": np.array([2, 4]),
        "starts": np.array([1]),
        "ends": np.array([3]),
        "axes": np.array([1]),
    }
    cpu_plugin.check(nodes, {"x": numbered((1, 6, 4)) - 5}, constants=constants)


@pytest.mark.parametrize(("batch_axis", "time_axis"), [(0, 1), (1, 0)])
def test_sequences_are_reversed_up_to_their_lengths(cpu_plugin: Cpu, batch_axis: int, time_axis: int) -> None:
    x = numbered((4, 4, 3))
    node = helper.make_node(
        "ReverseSequence", ["x", "lengths"], ["y"], batch_axis=batch_axis, time_axis=time_axis
    )
    cpu_plugin.check(node, {"x": x, "lengths": np.array([1, 4, 2, 3])})
    model = make_model([node], {"x": x, "lengths": np.array([1, 4, 2, 3])}, ["y"])
    with pytest.raises(ephost.capi.onnxruntime_pybind11_state.InvalidArgument, match="time axis"):
        cpu_plugin.run(model, {"x": x, "lengths": np.array([1, 5, 2, 3])})


@given(st.integers(-7, 7), st.booleans(), st.lists(st.integers(1, 5), min_size=2, max_size=3))
def test_triangles(cpu_plugin: Cpu, k: int, upper: bool, shape: list[int]) -> None:
    node = helper.make_node("Trilu", ["x", "k"], ["y"], upper=int(upper))
    cpu_plugin.check(node, {"x": numbered(shape) + 1, "k": np.array(k)})


@pytest.mark.parametrize("shape", [[7, 4], [4, 7], [5, 5]])
def test_center_crop_pad(cpu_plugin: Cpu, shape: list[int]) -> None:
    node = helper.make_node("CenterCropPad", ["x", "shape"], ["y"])
    cpu_plugin.check(node, {"x": numbered((5, 6))}, constants={"shape": np.array(shape)})


def test_an_axis_is_cropped_or_padded_once(cpu_plugin: Cpu) -> None:
    feeds = {"x": np.ones((3, 4), np.float32), "shape": np.array([2, 2])}
    for axes in ([1, 1], [1, -1]):
        node = helper.make_node("CenterCropPad", list(feeds), ["y"], "the node", axes=axes)
        with pytest.raises(InvalidArgument, match=r"the node.*an axis is named twice"):
            cpu_plugin.run(make_model([node], feeds, ["y"], open_shapes=True), feeds)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("pads", [[0, 1, 0, -1], [0, -2, 0, 2], [-1, 0, 1, 0]])
def test_a_pad_that_moves_its_input_along(cpu_plugin: Cpu, mode: str, pads: list[int]) -> None:
    x = np.arange(1, 16, dtype=np.float32).reshape(3, 5)
    node = helper.make_node("Pad", ["x", "p"], ["y"], mode=mode)
    model = make_model([node], {"x": x}, ["y"], {"p": np.array(pads)}, opset=19)
    (found,) = cpu_plugin.run(model, {"x": x})
    kept = x[max(0, -pads[0]) : 3 - max(0, -pads[2]), max(0, -pads[1]) : 5 - max(0, -pads[3])]
    widths = [(max(0, pads[0]), max(0, pads[2])), (max(0, pads[1]), max(0, pads[3]))]
    np.testing.assert_array_equal(found, np.pad(kept, widths, mode=mode))  # type: ignore[call-overload]


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 7, 100_000])
def test_one_element_fills_a_tensor(cpu_plugin: Cpu, n: int, dtype: type) -> None:
    node = helper.make_node("Expand", ["x", "n"], ["y"])
    x = np.array([3], dtype)
    (y,) = cpu_plugin.run(make_model([node], {"x": x}, ["y"], {"n": np.array([n])}), {"x": x})
    np.testing.assert_array_equal(y, np.full(n, 3, dtype))


@pytest.mark.parametrize("opset", [1, 4])
def test_a_reshape_by_an_attribute_has_a_type(cpu_plugin: Cpu, opset: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    node = helper.make_node("Reshape", ["x"], ["y"], shape=[3, -1])
    model = make_model([node], {"x": x}, ["y"], opset=opset)
    model.graph.output[0].ClearField("type")
    session = cpu_plugin.session(model)
    assert (session.get_outputs()[0].type, session.get_outputs()[0].shape) == ("tensor(float)", [3, 2])
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x.reshape(3, 2))
