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
