"""The Python form of ONNX values, and the way to it from what callers and operators hand over."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..message_helpers import element_type_of, tensor_type_proto, to_array
from ..messages import ElementTypeProto, SparseTensorProto, TypeProto

Value = np.ndarray | list[Any] | dict[Any, Any] | None
"""A tensor, a sequence, a map, or an empty optional. An optional that is not empty is the value in it."""


def string_array(array: np.ndarray) -> np.ndarray:
    """A copy of an array of numpy's own string kinds (`<U`, `S`) as an object array of `str`."""
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    return array.astype(object)


def normalize(value: Any) -> Value:
    """`value` in the form that `Value` describes; the array itself where it has that form already."""
    if isinstance(value, np.ndarray):
        return string_array(value) if value.dtype.kind in "US" else value
    if value is None or isinstance(value, dict):
        return value
    if isinstance(value, (list, tuple)):
        return [normalize(item) for item in value]
    if isinstance(value, str):
        return np.array(value, dtype=object)
    if isinstance(value, (np.generic, bool, int, float)):
        return normalize(np.asarray(value))
    raise TypeError(f"{type(value).__name__} is no ONNX value: expected a tensor, a sequence, a map or None")


def dense(tensor: SparseTensorProto) -> np.ndarray:
    """The dense array of a sparse tensor, whose indices are flat ([NNZ]) or coordinates ([NNZ, rank])."""
    values = to_array(tensor.values)
    indices = to_array(tensor.indices)
    result = np.zeros(tuple(tensor.dims), dtype=values.dtype)
    if result.dtype == object:
        result[...] = ""
    if indices.ndim == 1:
        result.reshape(-1)[indices] = values
    else:
        result[tuple(indices.T)] = values
    return result


def type_of(value: Value) -> TypeProto:
    """The ONNX type of a value, with its shape; an empty message for None and for what an empty sequence
    leaves open.
    """
    if isinstance(value, np.ndarray):
        return tensor_type_proto(element_type_of(value.dtype), value.shape)
    if isinstance(value, list) and value:
        return TypeProto(sequence_type=ElementTypeProto(elem_type=type_of(value[0])))
    return TypeProto()
