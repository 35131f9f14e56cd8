"""Losses of classification."""

import ephost
import numpy as np
import pytest
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model

SHAPES = [(5, 7), (3, 300), (2, 4, 3), (2, 5, 6, 50), (1, 3, 300), (2, 1)]


def feeds_of(
    shape: tuple[int, ...], dtype: type, weights: bool, index_type: type = np.int64
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(len(shape))
    feeds = {
        "x": (rng.standard_normal(shape) * 5).astype(dtype),
        "t": rng.integers(0, shape[1], (shape[0], *shape[2:])).astype(index_type),
    }
    if weights:
        feeds["w"] = rng.uniform(0.5, 2, shape[1]).astype(dtype)
    return feeds


@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_losses(cpu_plugin: Cpu, op: str, shape: tuple[int, ...], weights: bool, reduction: str) -> None:
    for dtype in (np.float32, np.float64):
        feeds = feeds_of(shape, dtype, weights)
        for ignored in ({}, {"ignore_index": 2}, {"ignore_index": -1}):
            if "ignore_index" in ignored and feeds["t"].size > 1:
                feeds["t"].flat[::3] = ignored["ignore_index"]
            elif shape[1] < 3:
                continue
            node = helper.make_node(op, list(feeds), ["y"], reduction=reduction, **ignored)
            cpu_plugin.check_beside_onnxruntime(node, feeds)


@pytest.mark.parametrize("shape", SHAPES[:5], ids=str)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_logarithms_of_probabilities_are_an_output(
    cpu_plugin: Cpu, shape: tuple[int, ...], dtype: type, index_type: type
) -> None:
    feeds = feeds_of(shape, dtype, True, index_type)
    node = helper.make_node("SoftmaxCrossEntropyLoss", list(feeds), ["y", "p"])
    model = make_model([node], feeds, ["y", "p"])
    loss, found = cpu_plugin.run(model, feeds)
    assert loss.dtype == found.dtype == dtype
    x = feeds["x"].astype(np.float64)
    shifted = x - x.max(1, keepdims=True)
    expected = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    tolerance = 2e-2 if dtype == np.float16 else 1e-5
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=tolerance, atol=tolerance)
    picked = np.take_along_axis(expected, np.expand_dims(feeds["t"], 1), 1).squeeze(1)
    counted = feeds["w"].astype(np.float64)[feeds["t"]]
    np.testing.assert_allclose(loss, -(picked * counted).sum() / counted.sum(), rtol=tolerance)


@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_the_mean_of_nothing_is_no_number(cpu_plugin: Cpu, op: str) -> None:
    feeds = {"x": np.zeros((2, 3), np.float32), "t": np.array([7, 7])}
    node = helper.make_node(op, list(feeds), ["y"], ignore_index=7)
    assert np.isnan(cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)[0])


@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
@pytest.mark.parametrize("target", [-4, 3, 2**40])
def test_a_target_that_is_no_class_is_an_error_that_names_the_node(
    cpu_plugin: Cpu, op: str, target: int
) -> None:
    feeds = {"x": np.zeros((2, 3), np.float32), "t": np.array([1, target])}
    model = make_model([helper.make_node(op, list(feeds), ["y"], name="astray")], feeds, ["y"])
    with pytest.raises(ephost.capi.onnxruntime_pybind11_state.InvalidArgument, match="astray"):
        cpu_plugin.run(model, feeds)


@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_classes_may_be_counted_from_the_end(cpu_plugin: Cpu, op: str) -> None:
    feeds = {"x": feeds_of((4, 3), np.float32, False)["x"], "t": np.array([-1, 2, -3, 0])}
    node = helper.make_node(op, list(feeds), ["y"], reduction="none")
    cpu_plugin.check_beside_onnxruntime(node, feeds)


@pytest.mark.parametrize("shape", [(3, 5), (3, 5, 4)])
def test_what_is_not_a_number_stays_in_its_item(cpu_plugin: Cpu, shape: tuple[int, ...]) -> None:
    feeds = feeds_of(shape, np.float32, False)
    feeds["x"][0, 1], feeds["x"][1, 2] = np.nan, np.inf
    node = helper.make_node("SoftmaxCrossEntropyLoss", list(feeds), ["y"], reduction="none")
    (y,) = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)
    assert np.isnan(y[:2]).all() and np.isfinite(y[2]).all()
