"""com.microsoft's operators around models that write text, and its CropAndResize and Range."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from ephost.errors import Fail, InvalidArgument, InvalidGraph
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model


def _node(type_: str, feeds: dict[str, np.ndarray], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(type_, list(feeds), ["y"], domain="com.microsoft", **attributes)


# Small whole numbers, of which many sums are equal; and others.
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (6, 1), (5, 9), (1, 40, 30)])
def test_the_cheapest_path(cpu_plugin: Cpu, shape: tuple[int, ...], ties: bool) -> None:
    rng = np.random.default_rng(0)
    costs = rng.integers(0, 3, shape) if ties else rng.standard_normal(shape)
    feeds = {"x": costs.astype(np.float32)}
    cpu_plugin.check_beside_onnxruntime(_node("DynamicTimeWarping", feeds), feeds)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_path_ends_whatever_costs_are(cpu_plugin: Cpu, value: float) -> None:
    feeds = {"x": np.full((4, 3), value, np.float32)}
    (path,) = cpu_plugin.run(make_model([_node("DynamicTimeWarping", feeds)], feeds, ["y"]), feeds)
    assert path[:, 0].tolist() == [0, 0]
    assert path[:, -1].tolist() == [3, 2]
    assert (np.diff(path) >= 0).all()
    assert (np.diff(path).max(0) == 1).all()


@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 3), (3, 0), (3,)])
def test_costs_that_are_no_matrix_are_refused(cpu_plugin: Cpu, shape: tuple[int, ...]) -> None:
    feeds = {"x": np.zeros(shape, np.float32)}
    with pytest.raises(InvalidArgument, match=r"no matrix|no costs"):
        cpu_plugin.run(make_model([_node("DynamicTimeWarping", feeds)], feeds, ["y"]), feeds)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.float16, np.bool_])
@pytest.mark.parametrize(
    ("shape", "dim", "size", "step"),
    [
        ((7,), -1, 3, 2),
        ((2, 8, 3), 1, 3, 2),
        ((2, 8, 3), 1, 8, 5),
        ((2, 3, 4), 0, 1, 1),
        ((2, 3, 5), -1, 2, 4),
    ],
)
def test_slices(
    cpu_plugin: Cpu, shape: tuple[int, ...], dim: int, size: int, step: int, dtype: type[np.generic]
) -> None:
    feeds = {"x": np.random.default_rng(0).integers(0, 2 if dtype is np.bool_ else 100, shape).astype(dtype)}
    node = _node("UnfoldTensor", feeds, dim=dim, size=size, step=step)
    every = [slice(None)] * len(shape)
    every[dim] = slice(None, None, step)
    expected = np.lib.stride_tricks.sliding_window_view(feeds["x"], size, dim)[tuple(every)]
    for open_shapes in (False, True):
        (y,) = cpu_plugin.run(make_model([node], feeds, ["y"], open_shapes=open_shapes), feeds)
        np.testing.assert_array_equal(y, expected)
    if feeds["x"].itemsize >= 4:  # of others it says that they are unsupported
        cpu_plugin.check_beside_onnxruntime(node, feeds)


@pytest.mark.parametrize("size", [4096, 5000, 70000])
def test_long_slices(cpu_plugin: Cpu, size: int) -> None:
    feeds = {"x": np.arange(70003, dtype=np.float32)}
    cpu_plugin.check_beside_onnxruntime(_node("UnfoldTensor", feeds, size=size, step=3000), feeds)


def test_slices_of_text(cpu_plugin: Cpu) -> None:
    feeds = {"x": np.array(["a", "bc", "", "a longer text than fits in place"], object)}
    (y,) = cpu_plugin.run(make_model([_node("UnfoldTensor", feeds, size=3)], feeds, ["y"]), feeds)
    assert y.tolist() == [["a", "bc", ""], ["bc", "", "a longer text than fits in place"]]


@pytest.mark.parametrize(
    ("size", "step", "dim"), [(0, 1, 0), (6, 1, 0), (1 << 62, 1, 0), (2, 0, 0), (2, -1, 0), (2, 1, 1)]
)
def test_slices_that_cannot_be_are_refused(cpu_plugin: Cpu, size: int, step: int, dim: int) -> None:
    feeds = {"x": np.zeros(5, np.float32)}
    node = _node("UnfoldTensor", feeds, size=size, step=step, dim=dim)
    with pytest.raises(InvalidArgument):
        cpu_plugin.run(make_model([node], feeds, ["y"], open_shapes=True), feeds)


@pytest.mark.parametrize("n", [1, 2, 3, 9, 10])
def test_rows_of_tokens_do_not_repeat(cpu_plugin: Cpu, n: int) -> None:
    rng = np.random.default_rng(0)
    feeds = {"ids": rng.integers(0, 3, (4, 9)), "scores": rng.random((4, 20)).astype(np.float32)}
    cpu_plugin.check_beside_onnxruntime(_node("NGramRepeatBlock", feeds, ngram_size=n), feeds)


@pytest.mark.parametrize("token", [-1, 20, 1 << 62])
def test_a_token_without_a_score_is_refused(cpu_plugin: Cpu, token: int) -> None:
    feeds = {"ids": np.array([[token, 1, token, 1]]), "scores": np.zeros((1, 20), np.float32)}
    model = make_model([_node("NGramRepeatBlock", feeds, ngram_size=1)], feeds, ["y"])
    with pytest.raises(InvalidArgument, match="a token that has no score"):
        cpu_plugin.run(model, feeds)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(4, 3), (1, 5), (1, 1), (9, 12)])
def test_crops(cpu_plugin: Cpu, size: tuple[int, int], mode: str) -> None:
    rng = np.random.default_rng(0)
    # Parts of the image, all of it, turned around, and beyond its sides.
    boxes = [
        [0.1, 0.2, 0.8, 0.9],
        [0, 0, 1, 1],
        [0.9, 0.8, 0.1, 0.2],
        [-0.5, -0.2, 1.5, 1.3],
        [0.3, 0.3, 0.3, 0.3],
    ]
    feeds = {
        "x": rng.standard_normal((3, 2, 7, 6)).astype(np.float32),
        "boxes": np.array(boxes, np.float32),
        "images": np.array([0, 2, 1, 1, 0], np.int32),
    }
    node = helper.make_node(
        "CropAndResize", [*feeds, "size"], ["y"], domain="com.microsoft", mode=mode, extrapolation_value=-3.0
    )
    constants = {"size": np.array(size, np.int32)}
    cpu_plugin.check_beside_onnxruntime(node, feeds, constants=constants, rtol=1e-5, atol=1e-5)


def test_crops_of_float16(cpu_plugin: Cpu) -> None:
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal((1, 2, 7, 6)).astype(np.float16),
        "boxes": np.array([[0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1]], np.float16),
        "images": np.zeros(2, np.int32),
    }
    constants = {"size": np.array([4, 3], np.int32)}
    node = _node("CropAndResize", {**feeds, **constants})
    cpu_plugin.check_beside_onnxruntime(node, feeds, constants=constants, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("image", [-1, 1])
def test_a_crop_of_no_image_is_refused(cpu_plugin: Cpu, image: int) -> None:
    feeds = {
        "x": np.zeros((1, 2, 3, 3), np.float32),
        "boxes": np.zeros((1, 4), np.float32),
        "images": np.array([image], np.int32),
        "size": np.array([2, 2], np.int32),
    }
    with pytest.raises(InvalidArgument, match="the number of an image"):
        cpu_plugin.run(make_model([_node("CropAndResize", feeds)], feeds, ["y"]), feeds)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("values", [(2, 9), (2, 9, 3), (9, 2, -2), (3, 3)])
def test_ranges(cpu_plugin: Cpu, values: tuple[int, ...], dtype: type[np.generic]) -> None:
    feeds = {name: np.array(value, dtype) for name, value in zip(("from", "to", "by"), values, strict=False)}
    cpu_plugin.check_beside_onnxruntime(_node("Range", feeds), feeds)


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("count", [2, 3])
def test_a_range_of_constants(cpu_plugin: Cpu, count: int, shape: tuple[int, ...]) -> None:
    constants = {name: np.full(shape, value) for name, value in [("from", 2), ("to", 9), ("by", 3)][:count]}
    model = make_model([_node("Range", constants)], {}, ["y"], constants)
    assert cpu_plugin.run(model, {})[0].tolist() == list(range(2, 9, 3 if count == 3 else 1))


@pytest.mark.parametrize("at", ["images", "size"])
def test_a_crop_is_told_by_whole_numbers(cpu_plugin: Cpu, at: str) -> None:
    feeds = {
        "x": np.zeros((1, 2, 3, 3), np.float32),
        "boxes": np.zeros((1, 4), np.float32),
        "images": np.zeros(1, np.int32),
        "size": np.array([2, 2], np.int32),
    }
    feeds[at] = feeds[at].astype(np.float16)
    with pytest.raises((Fail, InvalidGraph), match=r"CropAndResize|'y'"):
        cpu_plugin.run(make_model([_node("CropAndResize", feeds)], feeds, ["y"]), feeds)
