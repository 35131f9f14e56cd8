"""Operators of ai.onnx.ml that the package lacks or departs from the standard in: maps, labels, features."""

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
        row = np.full((1, size), "", object) if dtype is object else np.zeros((1, size), dtype)
        for key in keys:
            row[0, key] = cast(values[key])
        return (row,)
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


@operator("DictVectorizer", domain=_ML)
def dict_vectorizer(node: OperatorNode, values: dict[Any, Any]) -> tuple[np.ndarray]:
    """The values of a map in the order of the vocabulary, [1, C]; 0 or "" for what it lacks."""
    keys = node.attributes.get("string_vocabulary") or node.attributes.get("int64_vocabulary") or []
    held = next(iter(values.values()), np.float32(0))
    dtype: Any = object if isinstance(held, str) else np.asarray(held).dtype
    missing: Any = "" if dtype is object else 0
    return (np.array([[values.get(key, missing) for key in keys]], dtype),)


@operator("LabelEncoder", domain=_ML, until=2)
def label_encoder_1(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """Strings to their places in a list, or back."""
    names = node.attributes["classes_strings"]
    if x.dtype == object:
        return (_looked_up(x, {name: at for at, name in enumerate(names)}, node, "int64", np.int64),)
    return (_looked_up(x, dict(enumerate(names)), node, "string", object),)


_LABELS = {"strings": ("string", object), "int64s": ("int64", np.int64), "floats": ("float", np.float32)}


@operator("LabelEncoder", domain=_ML, since=2)
def label_encoder(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """Each element by a list of keys and one of values; NaN is a key as well."""
    texts = bool(node.attributes.get("keys_strings"))
    if node.attributes.get("keys_tensor") is None and texts != (x.dtype == object):
        raise TypeError(f"an input of {x.dtype} elements for keys that are {'' if texts else 'no '}texts")
    if any(name.endswith("_tensor") for name, held in node.attributes.items() if held is not None):
        return (node.package(x)[0],)
    kinds = [kind for kind in _LABELS if node.attributes.get(f"keys_{kind}")]
    wanted = [kind for kind in _LABELS if node.attributes.get(f"values_{kind}")]
    if len(kinds) != 1 or len(wanted) != 1:
        raise ValueError("a LabelEncoder has one list of keys and one of values")
    keys, values = node.attributes[f"keys_{kinds[0]}"], node.attributes[f"values_{wanted[0]}"]
    if len(keys) != len(values):
        raise ValueError(f"there are {len(keys)} keys and {len(values)} values")
    return (_looked_up(x, dict(zip(keys, values, strict=True)), node, *_LABELS[wanted[0]]),)


def _looked_up(x: np.ndarray, table: dict[Any, Any], node: OperatorNode, kind: str, dtype: Any) -> np.ndarray:
    usual = {"string": "_Unused", "int64": -1, "float": -0.0}[kind]
    default = node.attributes.get(f"default_{kind}", usual)
    if x.dtype == np.float32:  # keys are float32 too; NaN is one since opset 4
        of_nan = next((v for key, v in table.items() if key != key and node.version >= 4), default)
        table = {float(np.float32(key)): value for key, value in table.items()}
        found = [of_nan if item != item else table.get(item, default) for item in x.ravel().tolist()]
    else:
        found = [table.get(item, default) for item in x.ravel().tolist()]
    return np.array(found, dtype).reshape(x.shape)


@operator("Normalizer", domain=_ML)
def normalizer(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """Each row of x [N, C] or [C] by its largest element, the sum of absolute values, or the Euclidean norm;
    rows for which that is 0 stay.
    """
    if x.ndim not in (1, 2):
        raise ValueError(f"x has 1 or 2 dimensions, not {x.ndim}")
    rows, norm = x.astype(np.float32), node.attributes.get("norm", "MAX")
    by = {
        "MAX": lambda: rows.max(-1, keepdims=True, initial=-np.inf),
        "L1": lambda: np.abs(rows).sum(-1, keepdims=True),
        "L2": lambda: np.sqrt((rows * rows).sum(-1, keepdims=True)),
    }[norm]()
    return (np.where(by == 0, rows, rows / by),)


@operator("Scaler", domain=_ML)
def scaler(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """x minus the offsets, times the scales: one for all features or one for each."""
    offset, scale = (np.asarray(node.attributes[name], np.float32) for name in ("offset", "scale"))
    return ((x.astype(np.float32) - offset) * scale,)
