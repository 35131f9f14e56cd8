"""Operators of ai.onnx.ml that the package lacks: casts from maps, and between strings and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .registry import OperatorNode, operator

_ML = "ai.onnx.ml"


def _text(number: Any) -> str:
    return (
        np.format_float_positional(number, unique=True, trim="-")
        if isinstance(number, np.floating)
        else str(number)
    )


@operator("CastMap", domain=_ML)
def cast_map(node: OperatorNode, values: dict[Any, Any]) -> tuple[np.ndarray]:
    """A map from integers to floats or strings gives a tensor [1, C]: dense in key order, or with zeros
    between.
    """
    casts: dict[str, tuple[Any, Callable[[Any], Any]]] = {
        "TO_FLOAT": (np.float32, np.float32),
        "TO_INT64": (np.int64, lambda value: np.int64(float(value))),
        "TO_STRING": (object, lambda value: value if isinstance(value, str) else _text(np.float32(value))),
    }
    dtype, cast = casts[node.attributes.get("cast_to", "TO_FLOAT")]
    keys = sorted(values)
    if node.attributes.get("map_form", "DENSE") == "DENSE":
        items = [cast(values[key]) for key in keys]
    else:
        size = node.attributes.get("max_map", 1)
        if keys and not (keys[0] >= 0 and keys[-1] < size):
            raise IndexError(f"the keys {keys[0]} to {keys[-1]} do not fit into max_map {size}")
        items = [
            cast(values[key]) if key in values else ("" if dtype is object else 0) for key in range(size)
        ]
    return (np.array([items], dtype=dtype),)


@operator("CategoryMapper", domain=_ML)
def category_mapper(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """Strings to integers or back, by position in two lists; what is in neither becomes the default."""
    names, numbers = node.attributes["cats_strings"], node.attributes["cats_int64s"]
    if x.dtype == object:
        to_number = dict(zip(names, numbers, strict=True))
        default: Any = node.attributes.get("default_int64", -1)
        return (np.array([to_number.get(item, default) for item in x.flat], np.int64).reshape(x.shape),)
    to_name = dict(zip(numbers, names, strict=True))
    default = node.attributes.get("default_string", "_Unused")
    return (np.array([to_name.get(int(item), default) for item in x.flat], object).reshape(x.shape),)


@operator("ZipMap", domain=_ML)
def zip_map(node: OperatorNode, x: np.ndarray) -> tuple[list[dict[Any, Any]]]:
    """Each row of x [N, C] (or the one row [C]) becomes a map from the class labels to its values."""
    labels = node.attributes.get("classlabels_strings") or node.attributes.get("classlabels_int64s")
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    if not labels or len(labels) != rows.shape[1]:
        raise ValueError(f"{len(labels or ())} class labels for rows of {rows.shape[1]} values")
    return ([dict(zip(labels, row, strict=True)) for row in rows],)
