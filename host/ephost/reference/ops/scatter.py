"""Scatter, which opset 11 renamed to ScatterElements: the package has only the new name."""

from __future__ import annotations

import numpy as np

from .registry import OperatorNode, operator


@operator("Scatter")
def scatter(
    node: OperatorNode, data: np.ndarray, indices: np.ndarray, updates: np.ndarray
) -> tuple[np.ndarray]:
    """A copy of `data` in which `updates` stand at `indices` along `axis`; all three have the same rank."""
    result = data.copy()
    axis = node.attributes.get("axis", 0)
    size = data.shape[axis]
    if indices.size and (indices.min() < -size or indices.max() >= size):
        raise IndexError(f"an index lies outside of axis {axis}, which has {size} elements")
    places: list[np.ndarray] = list(np.indices(indices.shape, sparse=True))
    places[axis] = indices % size if size else indices
    result[tuple(places)] = updates
    return (result,)
