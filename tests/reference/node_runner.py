"""Runs a model node by node on reference kernels, and compares outputs as the standard's test runner does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from ephost.reference import Value, create_kernel
from onnx import numpy_helper
from onnx.backend.test.runner import Runner


def read_only(value: Value) -> Value:
    """The value in arrays that cannot be written to: an operator that changes its input fails."""
    if isinstance(value, list):
        return [read_only(item) for item in value]
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value


def run_model(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[Value]:
    """The model's outputs for inputs in the order of the graph's inputs that have no initializer."""
    imports = {entry.domain: entry.version for entry in model.opset_import}
    functions = {(function.domain, function.name): function for function in model.functions}
    values: dict[str, Value] = {
        tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer
    }
    names = [value.name for value in model.graph.input if value.name not in values]
    values.update(zip(names, map(read_only, inputs), strict=False))
    for node in model.graph.node:
        values[""] = None
        kernel = create_kernel(node, imports, functions)
        captured = {name: values[name] for name in kernel.implicit_inputs}
        results = kernel([values[name] for name in kernel.input_names], captured)
        values.update(zip(kernel.output_names, map(read_only, results), strict=True))
    return [values[output.name] for output in model.graph.output]


def as_value(data: Any) -> Value:
    """A test case's datum, which may still be a message, as a value."""
    if isinstance(data, onnx.TensorProto):
        return numpy_helper.to_array(data)
    return [as_value(item) for item in data] if isinstance(data, list) else data


def assert_same(expected: Sequence[Any], actual: Sequence[Any], rtol: float, atol: float) -> None:
    """Element types and shapes equal, numbers close (NaN equals NaN), strings equal; sequences by item."""
    assert len(actual) == len(expected)
    for want, got in zip(expected, actual, strict=True):
        if want is None:
            assert got is None
        elif isinstance(want, list):
            assert isinstance(got, list), type(got)
            assert_same(want, got, rtol, atol)
        else:
            assert isinstance(got, np.ndarray), type(got)
            Runner.assert_similar_outputs([np.asarray(want)], [got], rtol, atol)
