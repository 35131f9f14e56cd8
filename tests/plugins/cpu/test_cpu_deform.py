"""Convolutions that read where they are told to."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model


def some(*shape: int, seed: int = 0, scale: float = 1) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_a_deformed_convolution_of_any_shape_agrees(cpu_plugin: Cpu, data: st.DataObject) -> None:
    draw = data.draw
    groups, each = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 2]))
    offset_groups = draw(st.sampled_from([1, groups * each]))
    kernel = [draw(st.integers(1, 3)), draw(st.integers(1, 2))]
    strides, dilations = ([draw(st.integers(1, 2)) for _ in range(2)] for _ in range(2))
    pads = [draw(st.integers(0, 2)) for _ in range(4)]
    size = [5, 6]
    spans = [size[i] + pads[i] + pads[2 + i] - (kernel[i] - 1) * dilations[i] - 1 for i in range(2)]
    out = [span // stride + 1 for span, stride in zip(spans, strides, strict=True)]
    points = kernel[0] * kernel[1]
    feeds = {
        "x": some(2, groups * each, *size),
        "w": some(groups * 2, each, *kernel, seed=1),
        "o": some(2, offset_groups * points * 2, *out, seed=2, scale=2),
    }
    names = ["x", "w", "o", "", ""]
    if draw(st.booleans()):
        feeds["b"], names[3] = some(groups * 2, seed=3), "b"
    if draw(st.booleans()):
        feeds["m"], names[4] = some(2, offset_groups * points, *out, seed=4), "m"
    node = helper.make_node(
        "DeformConv", names, ["y"], kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads,
        group=groups, offset_group=offset_groups,
    )  # fmt: skip
    cpu_plugin.check(node, feeds, opset=19, rtol=1e-4, atol=1e-5)


def test_without_offsets_it_is_a_convolution(cpu_plugin: Cpu) -> None:
    feeds = {"x": some(2, 8, 20, 21), "w": some(6, 4, 3, 3, seed=1), "b": some(6, seed=2)}
    attributes = {"pads": [1, 1, 1, 1], "strides": [2, 1], "group": 2, "kernel_shape": [3, 3]}
    plain = make_model([helper.make_node("Conv", list(feeds), ["y"], **attributes)], feeds, ["y"])
    expected = cpu_plugin.run(plain, feeds)[0]
    offsets = np.zeros((2, 18, *expected.shape[2:]), np.float32)
    feeds = {"x": feeds["x"], "w": feeds["w"], "o": offsets, "b": feeds["b"]}
    model = make_model([helper.make_node("DeformConv", list(feeds), ["y"], **attributes)], feeds, ["y"])
    np.testing.assert_allclose(cpu_plugin.run(model, feeds)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("far", [np.nan, np.inf, -1e30, 1e30, -1.0])
def test_what_lies_outside_counts_as_nothing(cpu_plugin: Cpu, far: float) -> None:
    feeds = {"x": some(1, 1, 3, 3), "w": some(1, 1, 1, 1), "o": np.full((1, 2, 3, 3), far, np.float32)}
    if far == -1.0:  # The first row and column only.
        feeds["o"][:, 1] = 0
    node = helper.make_node("DeformConv", list(feeds), ["y"], kernel_shape=[1, 1])
    y = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)[0]
    assert (y[0, 0, 0] == 0).all()
    if far == -1.0:
        np.testing.assert_allclose(y[0, 0, 1:], feeds["x"][0, 0, :2] * feeds["w"][0, 0], rtol=1e-6)
    else:
        assert (y == 0).all()


@pytest.mark.parametrize("opset", [10, 13, 22])
def test_a_dropout_that_leaves_nothing_out_has_a_mask_of_ones(cpu_plugin: Cpu, opset: int) -> None:
    node = helper.make_node("Dropout", ["x"], ["y", "m"])
    cpu_plugin.check(node, {"x": some(3, 4)}, ["y", "m"], opset=opset)
