"""Operators that compute shapes, or only rename memory."""

import ephost
import numpy as np
import pytest
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model


def test_reshape_renames_and_fills_the_open_dimension(cpu_plugin: Cpu) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    cpu_plugin.check(
        helper.make_node("Reshape", ["x", "shape"], ["y"]), {"x": x}, constants={"shape": np.array([0, -1])}
    )


def test_a_shape_that_is_fed_splits_the_plan(cpu_plugin: Cpu) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    model = make_model([node], {"x": x, "shape": np.array([4, 6])}, ["y"])
    session = cpu_plugin.session(model)
    for shape in ([4, 6], [6, 4], [24, 1], [4, 6]):
        (y,) = session.run(None, {"x": x, "shape": np.array(shape[:2])})
        np.testing.assert_array_equal(y, x.reshape(shape))


def test_a_shape_that_does_not_fit_is_refused_by_name(cpu_plugin: Cpu) -> None:
    x = np.zeros((2, 3), np.float32)
    node = helper.make_node("Reshape", ["x", "shape"], ["y"], name="misfit")
    model = make_model([node], {"x": x, "shape": np.array([4, 6])}, ["y"])
    with pytest.raises(ephost.capi.onnxruntime_pybind11_state.InvalidArgument, match="misfit"):
        cpu_plugin.run(model, {"x": x, "shape": np.array([4, 6])})


def test_shape_arithmetic_is_done_once_for_each_shape(cpu_plugin: Cpu) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Shape", ["a"], ["s"]),
        helper.make_node("Reshape", ["b", "s"], ["y"]),
        helper.make_node("Flatten", ["a"], ["b"], axis=0),
    ]
    nodes = [nodes[0], nodes[1], nodes[3], nodes[2]]
    cpu_plugin.check(nodes, {"x": np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)})


@pytest.mark.parametrize(("x", "shape", "expected"), [
    ((0, 9, 384), (0, 9, -1, 32), (0, 9, 12, 32)),
    ((0, 9, 384), (2, 0, -1), (2, 0, 1728)),
    ((2, 0, 32), (-1, 0), (64, 0)),
])  # fmt: skip
def test_a_batch_of_nothing_is_reshaped_as_in_onnxruntime(
    cpu_plugin: Cpu, x: tuple[int, ...], shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """torch's exporter writes 0 and -1 in one shape, with allowzero, which the standard rules out."""
    node = helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=1)
    feeds = {"x": np.zeros(x, np.float32), "s": np.array(shape)}
    cpu_plugin.check_beside_onnxruntime(node, feeds)
    assert cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)[0].shape == expected
