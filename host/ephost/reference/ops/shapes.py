"""Constants, and operators that only rearrange."""

from __future__ import annotations

import numpy as np

from .registry import OperatorNode, operator


@operator("Constant")
def constant(node: OperatorNode) -> tuple[np.ndarray]:
    """A copy of the constant. The package fails on `sparse_value`, whose dense form this gives."""
    for name, value in node.attributes.items():
        dtype = _CONSTANT_TYPES[name]
        return (np.array(value, dtype=dtype) if dtype else value.copy(),)
    raise ValueError("the node has no value")


_CONSTANT_TYPES: dict[str, type | None] = {
    "value": None,
    "sparse_value": None,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": object,
    "value_strings": object,
}


@operator("Squeeze", until=13)
def squeeze(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """The package takes `axes` away one by one from the last: wrong when they are not in ascending order."""
    axes = node.attributes.get("axes")
    return (np.squeeze(x, axis=tuple(axes) if axes else None),)
