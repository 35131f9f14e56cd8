"""Operators that kernels call: the model of one node that each becomes."""

from __future__ import annotations

from typing import Any

import ephost
import ml_dtypes
import numpy as np
import pytest
from ephost.called_operators import _write, model_of
from ephost.errors import InvalidArgument, NotImplemented
from ephost.message_helpers import make_attribute
from onnx import TensorProto

FLOAT, DOUBLE, INT64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64


def element_types(values: Any) -> list[int]:
    return [value.type.tensor_type.elem_type for value in values]


def test_types_come_from_parameters_and_from_the_schema() -> None:
    attributes = [make_attribute("axis", 0), make_attribute("sorted", 1)]
    model = model_of("TopK", "", 11, {"T": DOUBLE, "I": INT64}, attributes, 2, 2)
    assert element_types(model.graph.input) == [DOUBLE, INT64]
    assert element_types(model.graph.output) == [DOUBLE, INT64]
    session = ephost.InferenceSession(model.SerializeToString())
    x = np.array([3.0, 1, 2])
    values, places = session.run(None, {"x0": x, "x1": np.array([2])})
    assert values.tolist() == [3, 2] and places.tolist() == [0, 2]


def test_any_number_of_inputs_has_the_type_of_the_last() -> None:
    model = model_of("Concat", "ai.onnx", 13, {"T": FLOAT}, [make_attribute("axis", 0)], 3, 1)
    assert element_types(model.graph.input) == [FLOAT] * 3
    assert [entry.domain for entry in model.opset_import] == [""]


def test_without_a_schema_all_values_have_the_one_type() -> None:
    model = model_of("Gelu", "com.microsoft", 1, {"T": FLOAT}, [], 1, 1)
    assert element_types([*model.graph.input, *model.graph.output]) == [FLOAT, FLOAT]
    with pytest.raises(NotImplemented, match="MatMulNBits of opset 1 has no schema"):
        model_of("MatMulNBits", "com.microsoft", 1, {"T1": FLOAT, "T2": TensorProto.UINT8}, [], 3, 1)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("Adding", "", 14, {"T": FLOAT}, [], 2, 1), "ai.onnx.Adding of opset 14: there is none"),
        (("Add", "", 0, {"T": FLOAT}, [], 2, 1), "ai.onnx.Add of opset 0: there is none"),
        (("Add", "", 14, {"U": FLOAT}, [], 2, 1), "has no type parameter 'U': it has T"),
        (("Add", "", 14, {}, [], 2, 1), "its type parameter 'T', which its input 0 has, is missing"),
        (("Add", "", 14, {"T": FLOAT}, [], 3, 1), "has 2 inputs, not 3"),
        (("Add", "", 14, {"T": FLOAT}, [], 2, 2), "has 1 outputs, not 2"),
    ],
)
def test_what_cannot_be_is_told(asked: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        model_of(*asked)


@pytest.mark.parametrize(
    "made",
    [
        np.array(["", "ü", "a" * 50], object),
        np.array([1, -3, 7], ml_dtypes.int4),
        np.array([[1.5], [2]], np.float32).T,
        np.zeros((0, 3)),
    ],
    ids=["texts", "four bits", "another order", "nothing"],
)
def test_what_is_made_goes_into_the_memory_that_is_given(made: np.ndarray) -> None:
    there = ephost.OrtValue.ortvalue_from_numpy(np.zeros_like(made) if made.dtype != object else made[::-1])
    _write(there._pointer, made, "it")
    assert there.numpy().tolist() == made.tolist()


def test_what_is_made_has_the_type_that_is_given() -> None:
    there = ephost.OrtValue.ortvalue_from_numpy(np.zeros(3, np.int32))
    with pytest.raises(InvalidArgument, match=r"it is float \[3\], and what was given for it int32 \[3\]"):
        _write(there._pointer, np.ones(3, np.float32), "it")
