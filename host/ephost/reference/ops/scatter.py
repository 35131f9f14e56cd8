"""Elements at places along an axis. The package has no Scatter, which opset 11 renamed to ScatterElements,
and its GatherElements takes hours over places that are out of bounds.
"""

from __future__ import annotations

import numpy as np

from .registry import OperatorNode, operator


def _places(data: np.ndarray, indices: np.ndarray, axis: int) -> tuple[np.ndarray, ...]:
    """Where the elements lie, as numpy indexes: those of `indices` along `axis`, and all of the others."""
    if data.ndim != indices.ndim or not data.ndim:
        raise ValueError(f"data and indices have {data.ndim} and {indices.ndim} dimensions")
    size = data.shape[axis]
    if indices.size and (indices.min() < -size or indices.max() >= size):
        raise IndexError(f"an index lies outside of axis {axis}, which has {size} elements")
    places: list[np.ndarray] = list(np.indices(indices.shape, sparse=True))
    places[axis] = indices % size if size else indices
    return tuple(places)


@operator("GatherElements")
def gather_elements(node: OperatorNode, data: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray]:
    """The elements of `data` at `indices` along `axis`; both have the same rank, the result has `indices`'s
    shape.
    """
    return (data[_places(data, indices, node.attributes.get("axis", 0))],)


@operator("Scatter")
def scatter(
    node: OperatorNode, data: np.ndarray, indices: np.ndarray, updates: np.ndarray
) -> tuple[np.ndarray]:
    """A copy of `data` in which `updates` stand at `indices` along `axis`; all three have the same rank."""
    result = data.copy()
    result[_places(data, indices, node.attributes.get("axis", 0))] = updates
    return (result,)
