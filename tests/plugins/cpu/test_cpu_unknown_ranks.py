"""Models that leave open of which rank their inputs are, fed what onnxruntime takes all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, assert_close


def _model(
    kind: str, feeds: dict[str, np.ndarray], opset: int, attributes: dict[str, Any]
) -> onnx.ModelProto:
    node = helper.make_node(kind, list(feeds), ["y"], **attributes)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), None)
        for name, value in feeds.items()
    ]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _check(cpu: Cpu, kind: str, inputs: list[np.ndarray], opset: int = 20, **attributes: Any) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    feeds = {f"x{i}": value for i, value in enumerate(inputs)}
    model = _model(kind, feeds, opset, attributes)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,), (expected,) = cpu.run(model, feeds), session.run(None, feeds)
    assert_close(found, expected, 1e-5, 1e-5, "y")


@pytest.mark.parametrize("axes", [[], [0], [-1], [2]])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMax", "ReduceL2", "ReduceLogSumExp", "ReduceMean"])
def test_a_number_is_reduced_along_any_axes(
    cpu_plugin: Cpu, kind: str, axes: list[int], keepdims: int
) -> None:
    _check(cpu_plugin, kind, [np.array(-3, np.float32), np.array(axes, np.int64)], keepdims=keepdims)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axis", [0, -1, 1])
@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
def test_the_extreme_of_a_number(cpu_plugin: Cpu, kind: str, axis: int, keepdims: int) -> None:
    _check(cpu_plugin, kind, [np.array(-3, np.float32)], axis=axis, keepdims=keepdims)


@pytest.mark.parametrize("shape", [(), (2, 3)])
@pytest.mark.parametrize("indices", [(0,), (4, 0), (0, 0)])
def test_indices_of_no_dimension_name_all(
    cpu_plugin: Cpu, shape: tuple[int, ...], indices: tuple[int, ...]
) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    _check(cpu_plugin, "GatherND", [x, np.zeros(indices, np.int64)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0,), (5,), (4, 1), (4, 3)])
def test_a_batch_without_channels_has_one(cpu_plugin: Cpu, shape: tuple[int, ...], dtype: type) -> None:
    channels = shape[1] if len(shape) > 1 else 1
    x = np.linspace(-1, 1, int(np.prod(shape)), dtype=dtype).reshape(shape)
    vectors = [np.linspace(1, 2, channels, dtype=dtype) + i for i in range(4)]
    _check(cpu_plugin, "BatchNormalization", [x, *vectors])


@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_means_and_variances_are_of_all_but_the_channels(cpu_plugin: Cpu, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    _check(cpu_plugin, "MeanVarianceNormalization", [x])
