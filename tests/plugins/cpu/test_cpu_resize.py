"""Resize and Upsample in all their modes."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model


def noise(shape: list[int] | tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    return (np.random.default_rng(0).normal(size=shape) * 50 + 100).astype(dtype)


COORDINATES = ["half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric"]


@given(
    st.lists(st.integers(2, 6), min_size=2, max_size=4),
    st.data(),
    st.sampled_from(COORDINATES),
    st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
    st.sampled_from([np.float32, np.uint8, np.int64]),
)
def test_nearest_takes_the_elements_that_the_standard_says(
    cpu_plugin: Cpu, shape: list[int], data: st.DataObject, coordinates: str, rounding: str, dtype: type
) -> None:
    sizes = [data.draw(st.sampled_from([n, 1, 2 * n, 3 * n])) for n in shape]
    cpu_plugin.check(
        helper.make_node(
            "Resize",
            ["x", "", "", "sizes"],
            ["y"],
            mode="nearest",
            coordinate_transformation_mode=coordinates,
            nearest_mode=rounding,
        ),
        {"x": noise(shape, dtype)},
        constants={"sizes": np.array(sizes, np.int64)},
    )


@given(
    st.lists(st.integers(2, 5), min_size=2, max_size=3),
    st.data(),
    st.sampled_from(["linear", "cubic"]),
    st.sampled_from(COORDINATES),
    st.booleans(),
    st.booleans(),
)
def test_weighted_modes_are_those_of_the_standard(
    cpu_plugin: Cpu,
    shape: list[int],
    data: st.DataObject,
    mode: str,
    coordinates: str,
    antialias: bool,
    exclude: bool,
) -> None:
    sizes = [data.draw(st.integers(2, 8)) for n in shape]
    # The reference shifts the window where half_pixel_symmetric leaves the input.
    assume(coordinates != "half_pixel_symmetric" or not exclude)
    cpu_plugin.check(
        helper.make_node(
            "Resize",
            ["x", "", "", "sizes"],
            ["y"],
            mode=mode,
            coordinate_transformation_mode=coordinates,
            antialias=int(antialias),
            exclude_outside=int(exclude and mode == "cubic"),
        ),
        {"x": noise(shape)},
        constants={"sizes": np.array(sizes, np.int64)},
        rtol=1e-4,
    )


def test_what_is_left_where_large_numbers_cancel_is_as_exact_as_they_are(cpu_plugin: Cpu) -> None:
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="cubic")
    sizes = {"sizes": np.array([2, 6, 5])}
    (y,) = cpu_plugin.check(node, {"x": noise([2, 4, 2])}, constants=sizes)
    assert np.abs(y).min() < np.abs(y).max() / 100


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.uint8, np.int32])
def test_images_at_twice_the_size(cpu_plugin: Cpu, mode: str, dtype: type) -> None:
    cpu_plugin.check(
        helper.make_node("Resize", ["x", "", "scales"], ["y"], mode=mode),
        {"x": noise((2, 3, 17, 19), dtype)},
        constants={"scales": np.array([1, 1, 2, 2], np.float32)},
        rtol=1e-3,
        atol=1 if np.issubdtype(dtype, np.integer) else 1e-3,
    )


def test_crop_and_resize_extrapolates(cpu_plugin: Cpu) -> None:
    for mode in ("linear", "nearest", "cubic"):
        cpu_plugin.check(
            helper.make_node(
                "Resize",
                ["x", "roi", "", "sizes"],
                ["y"],
                mode=mode,
                coordinate_transformation_mode="tf_crop_and_resize",
                extrapolation_value=10.0,
            ),
            {"x": noise((1, 1, 4, 4))},
            constants={
                "roi": np.array([0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7], np.float32),
                "sizes": np.array([1, 1, 3, 3]),
            },
            rtol=1e-4,
        )


@pytest.mark.parametrize("rounding", [None, "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("opset", [11, 13])
def test_tensorflows_half_pixels_are_rounded_as_the_node_says(
    cpu_plugin: Cpu, opset: int, rounding: str | None
) -> None:
    """The standard's own implementation does not have them."""
    node = helper.make_node(
        "Resize",
        ["x", "roi", "scales"],
        ["y"],
        mode="nearest",
        coordinate_transformation_mode="tf_half_pixel_for_nn",
        **({} if rounding is None else {"nearest_mode": rounding}),
    )
    constants = {"roi": np.empty(0, np.float32), "scales": np.array([1, 1, 2.5, 1.75], np.float32)}
    cpu_plugin.check_beside_onnxruntime(node, {"x": noise((1, 2, 4, 5))}, constants=constants, opset=opset)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_sizes_that_keep_the_aspect_ratio(cpu_plugin: Cpu, policy: str) -> None:
    cpu_plugin.check(
        helper.make_node(
            "Resize",
            ["x", "", "", "sizes"],
            ["y"],
            mode="linear",
            keep_aspect_ratio_policy=policy,
            axes=[2, 3],
        ),
        {"x": noise((1, 2, 4, 6))},
        constants={"sizes": np.array([7, 8])},
        rtol=1e-4,
    )


@pytest.mark.parametrize(("op", "opset"), [("Upsample", 9), ("Resize", 10)])
def test_the_operators_of_old_opsets(cpu_plugin: Cpu, op: str, opset: int) -> None:
    x = noise((1, 2, 3, 4))
    found = cpu_plugin.check(
        helper.make_node(
            "Resize",
            ["x", "", "scales"],
            ["y"],
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        {"x": x},
        constants={"scales": np.array([1, 1, 2, 3], np.float32)},
    )
    model = make_model(
        [helper.make_node(op, ["x", "scales"], ["y"])],
        {"x": x},
        ["y"],
        {"scales": np.array([1, 1, 2, 3], np.float32)},
        opset,
    )
    np.testing.assert_array_equal(cpu_plugin.run(model, {"x": x})[0], found[0])


@pytest.mark.parametrize(
    ("scale", "expected"), [(0.6, [1, 3, 5, 6]), (0.5, [1, 3, 5]), (0.75, [1, 3, 4, 5, 7]), (2, None)]
)
def test_a_smaller_output_takes_elements_on_the_right_before_opset_11(
    cpu_plugin: Cpu, scale: float, expected: list[int] | None
) -> None:
    """As in the standard's example, in which four elements by 0.6 are the first and the third."""
    x = np.arange(1, 8, dtype=np.float32).reshape(1, 1, 7)
    scales = {"scales": np.array([1, 1, scale], np.float32)}
    model = make_model([helper.make_node("Resize", ["x", "scales"], ["y"])], {"x": x}, ["y"], scales, 10)
    (found,) = cpu_plugin.run(model, {"x": x})
    assert found.ravel().tolist() == (expected or np.repeat(x, 2).tolist())


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel", "pytorch_half_pixel"])
def test_sizes_and_nearest_elements_follow_from_scales_as_floats(
    cpu_plugin: Cpu, coordinates: str, rounding: str
) -> None:
    """As exporters computed them: 1.3 times 10 is 13, though the float 1.3 is a little less than that."""
    for scale, length in itertools.product([1.1, 1.3, 1.7, 2.1, 2.4, 0.3], [7, 17, 30]):
        node = helper.make_node(
            "Resize",
            ["x", "", "scales"],
            ["y"],
            mode="nearest",
            coordinate_transformation_mode=coordinates,
            nearest_mode=rounding,
        )
        if int(np.float32(length) * np.float32(scale)) == length:
            continue  # onnxruntime copies what stays as long, wherever its elements would come from
        feeds = {"x": np.arange(length, dtype=np.float32).reshape(1, 1, length)}
        constants = {"scales": np.array([1, 1, scale], np.float32)}
        cpu_plugin.check_beside_onnxruntime(node, feeds, ["y"], constants, rtol=0, atol=0)


def weights_of(n: int, m: int, mode: str, antialias: bool) -> np.ndarray:
    """What each of m elements is of those of an axis of n, at half_pixel's places."""
    x = (np.arange(m) + 0.5) * n / m - 0.5
    shrink = min(m / n, 1.0) if antialias else 1.0
    reach = int(np.ceil((1 if mode == "linear" else 2) / shrink)) + 1
    made = np.zeros((m, n))
    for i, at in enumerate(x):
        near = np.arange(int(np.floor(at)) - reach, int(np.floor(at)) + reach + 1)
        d, a = np.abs(near - at) * shrink, -0.75
        linear = np.maximum(0, 1 - d)
        inner, outer = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        cubic = np.where(d <= 1, inner, np.where(d < 2, outer, 0))
        weights = linear if mode == "linear" else cubic
        np.add.at(made[i], np.clip(near, 0, n - 1), weights / weights.sum())
    return made


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.uint8, np.int8, np.int32])
@pytest.mark.parametrize(
    ("shape", "axes", "sizes"),
    [
        ((2, 3, 131, 97), [2, 3], [9, 7]),  # Most rows are not read.
        ((1, 2, 40, 300), [2, 3], [90, 4]),
        ((1, 2, 300, 40), [2, 3], [4, 90]),
        ((1, 2, 31, 33, 37), [2, 3, 4], [5, 40, 6]),
        ((3, 700, 23), [1, 2], [2, 23]),  # More lines than are loaded together, and fewer of a tile.
        ((2, 600, 1100), [1], [3]),
        ((2, 64, 65, 1), [1, 2], [9, 8]),
        ((2, 64, 65, 3), [1, 2], [9, 80]),
        ((64, 65, 4), [0, 1], [90, 8]),
        ((1, 33, 35, 7), [1, 2], [12, 11]),
        ((1, 33, 35, 19), [2, 1], [12, 80]),
        ((1, 33, 35, 80), [1, 2], [12, 11]),
        ((9, 5, 8, 6), [0, 1, 2, 3], [4, 7, 3, 8]),
        ((1, 1, 1, 1), [2, 3], [3, 2]),
    ],
)
def test_sizes_much_smaller_and_larger(
    cpu_plugin: Cpu,
    shape: tuple[int, ...],
    axes: list[int],
    sizes: list[int],
    dtype: type,
    mode: str,
    antialias: bool,
) -> None:
    node = helper.make_node(
        "Resize", ["x", "", "", "s"], ["y"], mode=mode, axes=axes, antialias=int(antialias)
    )
    x = noise(shape, dtype)
    expected = x.astype(np.float64)
    # Against aliasing integers are rounded after each axis, as in onnxruntime.
    stepwise = antialias and np.issubdtype(dtype, np.integer)
    for axis, size in sorted(zip(axes, sizes, strict=True), reverse=True):
        along = weights_of(shape[axis], size, mode, antialias)
        expected = np.moveaxis(np.tensordot(along, expected, (1, axis)), 0, axis)
        if stepwise:
            expected = np.clip(np.floor(expected + 0.5), np.iinfo(dtype).min, np.iinfo(dtype).max)
    model = make_model([node], {"x": x}, ["y"], {"s": np.array(sizes)})
    (y,) = cpu_plugin.session(model, threads=2).run(None, {"x": x})
    assert y.dtype == dtype and y.shape == expected.shape
    if stepwise:
        assert np.abs(y - expected).max() <= 2  # Halves are a question of the weights' last digits.
        assert np.mean(y != expected) < 0.1
    elif np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        expected = np.clip(expected, limits.min, limits.max)
        # Towards zero, which from nearly a whole number may be the one before it.
        assert np.all(np.abs(y - expected) < 1 + 1e-3)
    else:
        tolerance = {np.float64: 1e-12, np.float32: 1e-5, np.float16: 1e-3}[dtype]
        np.testing.assert_allclose(y, expected, rtol=tolerance, atol=200 * tolerance)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.int64])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_an_image_of_one_colour_keeps_it(cpu_plugin: Cpu, mode: str, dtype: type) -> None:
    x = np.full((1, 2, 24, 24), 100, dtype)
    for n in range(1, 24):
        node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode=mode, antialias=1)
        model = make_model([node], {"x": x}, ["y"], {"s": np.array([1, 2, n, 24 - n])})
        (y,) = cpu_plugin.session(model).run(None, {"x": x})
        assert np.all(y == 100), n


def test_an_infinite_element_stays_where_it_is(cpu_plugin: Cpu) -> None:
    x = np.zeros((1, 1, 1, 8), np.float32)
    x[..., 3] = np.inf
    for scales, where in (([1, 1, 1, 0.25], [False] * 2), ([1, 1, 3, 1], [i == 3 for i in range(8)])):
        node = helper.make_node(
            "Resize",
            ["x", "", "s"],
            ["y"],
            mode="linear",
            coordinate_transformation_mode="asymmetric",
        )
        model = make_model([node], {"x": x}, ["y"], {"s": np.array(scales, np.float32)})
        (y,) = cpu_plugin.session(model).run(None, {"x": x})
        assert np.array_equal(np.isposinf(y[0, 0, 0]), where)
        assert not np.isnan(y).any()


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64])
@pytest.mark.parametrize("end", [0.8, 1.3])
def test_nearest_of_a_crop(cpu_plugin: Cpu, dtype: type, end: float) -> None:
    node = helper.make_node(
        "Resize",
        ["x", "roi", "", "s"],
        ["y"],
        mode="nearest",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=7.0,
    )
    constants = {"roi": np.array([0, 0, 0.1, 0.2, 1, 1, end, end], np.float32), "s": np.array([1, 2, 5, 9])}
    cpu_plugin.check(node, {"x": noise((1, 2, 23, 17), dtype)}, constants=constants)


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize(
    "by", [{"scales": [1, 1, 0.6, 0.6]}, {"scales": [1, 1, 1 / 3, 0.25]}, {"sizes": [1, 1, 1, 2]}]
)
def test_an_axis_that_becomes_one_long_is_taken_from_its_beginning(
    cpu_plugin: Cpu, mode: str, by: dict[str, list[float]]
) -> None:
    """By pytorch_half_pixel, as the standard's text has it; its reference takes another place."""
    onnxruntime = pytest.importorskip("onnxruntime")
    x = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 3, 4)
    names = ["x", "", "scales"] if "scales" in by else ["x", "", "", "sizes"]
    node = helper.make_node(
        "Resize", names, ["y"], mode=mode, coordinate_transformation_mode="pytorch_half_pixel"
    )
    constants = {
        name: np.array(values, np.float32 if name == "scales" else np.int64) for name, values in by.items()
    }
    model = make_model([node], {"x": x}, ["y"], constants)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(cpu_plugin.run(model, {"x": x})[0], session.run(None, {"x": x})[0], rtol=1e-5)
