"""Operators that read images at places that are computed."""

import math

import ephost
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@given(
    st.sampled_from(["nearest", "linear", "cubic"]),
    st.sampled_from(["zeros", "border", "reflection"]),
    st.booleans(),
    st.integers(0, 1000),
)
def test_grids_reach_inside_and_outside_of_images(
    cpu_plugin: Cpu, mode: str, padding: str, corners: bool, seed: int
) -> None:
    node = helper.make_node(
        "GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding, align_corners=int(corners)
    )
    # Odd numbers of pixels, and places that are not halfway: there rounding decides.
    feeds = {"x": noise(2, 3, 5, 7), "grid": noise(2, 4, 3, 2, seed=seed)}
    cpu_plugin.check(node, feeds, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_grids_of_volumes(cpu_plugin: Cpu, mode: str) -> None:
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode)
    feeds = {"x": noise(1, 2, 3, 5, 4), "grid": noise(1, 2, 3, 2, 3, seed=1)}
    cpu_plugin.check(node, feeds, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("shape", [(9,), (1,), (2,), (6, 5), (1, 4), (4, 1), (3, 4, 5), (2, 1, 2)], ids=str)
@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize("corners", [0, 1])
def test_grids_of_many_points_along_one_to_three_axes(
    cpu_plugin: Cpu, shape: tuple[int, ...], padding: str, corners: int
) -> None:
    # More points than are taken together, and no multiple of that; some on the pixels and on the edges.
    axes = len(shape)
    points = (150, *[1] * (axes - 1))
    grid = np.random.default_rng(3).uniform(-1.7, 1.7, size=(2, *points, axes)).astype(np.float32)
    grid[:, 100:120] = np.round(grid[:, 100:120])
    node = helper.make_node(
        "GridSample", ["x", "grid"], ["y"], mode="linear", padding_mode=padding, align_corners=corners
    )
    cpu_plugin.check(node, {"x": noise(2, 3, *shape), "grid": grid}, rtol=1e-3, atol=1e-4)


def test_grids_that_are_no_numbers_do_no_harm(cpu_plugin: Cpu) -> None:
    grid = np.full((1, 1, 4, 2), np.nan, np.float32)
    grid[0, 0, 1:, 0] = [np.inf, -np.inf, 1e30]
    x = noise(1, 1, 4, 4)
    model = make_model([helper.make_node("GridSample", ["x", "g"], ["y"])], {"x": x, "g": grid}, ["y"])
    np.testing.assert_array_equal(cpu_plugin.run(model, {"x": x, "g": grid})[0], 0)


def test_infinities_outside_of_what_a_point_reads_do_not_count(cpu_plugin: Cpu) -> None:
    x = noise(2, 2, 6, 7)
    x[:, :, 0, 0] = np.inf
    grid = np.random.default_rng(2).uniform(-0.5, 1, size=(2, 10, 13, 2)).astype(np.float32)
    grid[:, 0, 0] = -2.4  # Behind the pixel at the corner, by more than one.
    model = make_model([helper.make_node("GridSample", ["x", "g"], ["y"])], {"x": x, "g": grid}, ["y"])
    (found,) = cpu_plugin.run(model, {"x": x, "g": grid})
    np.testing.assert_array_equal(found[:, :, 0, 0], 0)
    # More points than are taken together: each alone gives the same.
    one = grid[:, 9:, 12:]
    model = make_model([helper.make_node("GridSample", ["x", "g"], ["y"])], {"x": x, "g": one}, ["y"])
    np.testing.assert_array_equal(cpu_plugin.run(model, {"x": x, "g": one})[0], found[:, :, 9:, 12:])
    assert np.isfinite(found).all()


@pytest.mark.parametrize("size", [[2, 3, 4, 5], [1, 2, 3, 4, 5]])
@pytest.mark.parametrize("corners", [0, 1])
def test_grids_of_affine_maps(cpu_plugin: Cpu, size: list[int], corners: int) -> None:
    n = len(size) - 2
    node = helper.make_node("AffineGrid", ["theta", "size"], ["y"], align_corners=corners)
    cpu_plugin.check(node, {"theta": noise(size[0], n, n + 1)}, constants={"size": np.array(size)}, atol=1e-5)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("transform", ["half_pixel", "output_half_pixel"])
def test_regions_are_averaged(cpu_plugin: Cpu, mode: str, transform: str) -> None:
    rois = np.array([[0, 0, 7, 5], [2, 1, 9, 8], [3, 3, 3.2, 3.1]], np.float32)
    node = helper.make_node(
        "RoiAlign",
        ["x", "rois", "of"],
        ["y"],
        output_height=3,
        output_width=2,
        sampling_ratio=2,
        spatial_scale=0.9,
        mode=mode,
        coordinate_transformation_mode=transform,
    )
    feeds = {"x": noise(2, 3, 10, 11), "rois": rois, "of": np.array([0, 1, 1])}
    cpu_plugin.check(node, feeds, rtol=1e-4, atol=1e-5)
    feeds["of"] = np.array([0, 2, 1])
    with pytest.raises(ephost.capi.onnxruntime_pybind11_state.InvalidArgument, match="an image"):
        cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)


def test_patches_are_added_up(cpu_plugin: Cpu) -> None:
    node = helper.make_node(
        "Col2Im", ["x", "image", "block"], ["y"], pads=[0, 1, 0, 1], strides=[1, 2], dilations=[2, 1]
    )
    constants = {"image": np.array([6, 7]), "block": np.array([2, 3])}
    cpu_plugin.check(node, {"x": noise(2, 2 * 6, 16)}, constants=constants, atol=1e-5)


@pytest.mark.parametrize(
    ("image", "block", "attributes"),
    [
        ([30], [5], {"pads": [7, 2], "strides": [3]}),
        ([6, 7], [2, 3], {"pads": [4, 5, 3, 6], "strides": [2, 3]}),
        ([5, 4], [4, 4], {"strides": [1, 4]}),
        ([4, 5, 6], [2, 1, 3], {"pads": [1, 0, 2, 0, 1, 1], "dilations": [2, 1, 2]}),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_patches_of_any_form_are_added_up(
    cpu_plugin: Cpu, image: list[int], block: list[int], attributes: dict[str, list[int]], dtype: type
) -> None:
    rank = len(image)
    pads = attributes.get("pads", [0] * 2 * rank)
    steps = [
        (
            image[d]
            + pads[d]
            + pads[d + rank]
            - attributes.get("dilations", [1] * rank)[d] * (block[d] - 1)
            - 1
        )
        // attributes.get("strides", [1] * rank)[d]
        + 1
        for d in range(rank)
    ]
    x = (noise(2, 3 * math.prod(block), math.prod(steps)) * 9).astype(dtype)
    node = helper.make_node("Col2Im", ["x", "image", "block"], ["y"], **attributes)
    constants = {"image": np.array(image), "block": np.array(block)}
    cpu_plugin.check(
        node, {"x": x}, constants=constants, rtol=1e-2 if dtype is np.float16 else 1e-5, atol=0.1
    )


def test_pooled_values_go_back_to_their_places(cpu_plugin: Cpu) -> None:
    x = noise(1, 2, 6, 6)
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p", "i"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("MaxUnpool", ["p", "i"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    (y,) = cpu_plugin.run(make_model(nodes, {"x": x}, ["y"]), {"x": x})
    np.testing.assert_array_equal(y[y != 0], x[y != 0])
    assert np.count_nonzero(y) == 18


def test_determinants(cpu_plugin: Cpu) -> None:
    x = noise(2, 3, 5, 5)
    x[0, 1, 2] = x[0, 1, 3]  # One that has none.
    cpu_plugin.check(helper.make_node("Det", ["x"], ["y"]), {"x": x}, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [1, 16, 33, 50, 64, 65, 100, 130])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_determinants_of_larger_matrices(cpu_plugin: Cpu, n: int, dtype: type) -> None:
    """Whose factors are known: up to the order of its rows each is a product of triangular ones."""
    rng = np.random.default_rng(n)
    lower = np.tril(rng.uniform(-0.5, 0.5, (2, n, n)), -1) + np.eye(n)
    diagonal = rng.uniform(0.8, 1.25, (2, n)) * rng.choice([-1, 1], (2, n))
    upper = np.triu(rng.uniform(-0.5, 0.5, (2, n, n)), 1) + np.eye(n) * diagonal[:, None]
    order = rng.permutation(n)
    x = (lower @ upper)[:, order].astype(dtype)
    sign = round(np.linalg.det(np.eye(n)[order]))
    model = make_model([helper.make_node("Det", ["x"], ["y"])], {"x": x}, ["y"])
    expected = np.linalg.det(x.astype(np.float64))
    np.testing.assert_allclose(cpu_plugin.run(model, {"x": x})[0], expected, rtol=1e-6)
    if dtype == np.float64 and n <= 50:
        np.testing.assert_allclose(expected, sign * diagonal.prod(1), rtol=1e-6)
    x[0, :, n // 2] = 0
    np.testing.assert_array_equal(cpu_plugin.run(model, {"x": x})[0][0], 0)


@pytest.mark.parametrize("kernel", [[3], [2, 3], [2, 2, 3]], ids=str)
@pytest.mark.parametrize("strides", [1, 2])
def test_patches_of_steps_along_all_axes(cpu_plugin: Cpu, kernel: list[int], strides: int) -> None:
    axes = len(kernel)
    image = [9, 8, 7][:axes]
    steps = [(n + 2 - 2 * (k - 1) - 1) // strides + 1 for n, k in zip(image, kernel, strict=True)]
    x = noise(2, 3 * int(np.prod(kernel)), int(np.prod(steps)))
    node = helper.make_node(
        "Col2Im", ["x", "i", "k"], ["y"], strides=[strides] * axes, pads=[1] * 2 * axes, dilations=[2] * axes
    )
    cpu_plugin.check(node, {"x": x}, constants={"i": np.array(image), "k": np.array(kernel)})
