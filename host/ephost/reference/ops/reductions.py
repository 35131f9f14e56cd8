"""Reductions."""

from __future__ import annotations

import numpy as np

from .registry import OperatorNode, operator
from .windows import compute_dtype


@operator("ReduceLogSumExp", since=18)
def reduce_log_sum_exp(
    node: OperatorNode, x: np.ndarray, axes: np.ndarray | None = None
) -> tuple[np.ndarray]:
    """log(sum(exp(x))) without overflow. The package fails on an input without dimensions."""
    if axes is not None and axes.size:
        over: tuple[int, ...] = tuple(axes.tolist())
    else:
        over = () if node.attributes.get("noop_with_empty_axes") else tuple(range(x.ndim))
    values = x.astype(compute_dtype(x.dtype) if x.dtype.kind == "f" else np.float64)
    largest = values.max(axis=over, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0)
    total = np.log(np.exp(values - shift).sum(axis=over, keepdims=True)) + shift
    if not node.attributes.get("keepdims", 1):
        total = total.reshape(
            tuple(size for axis, size in enumerate(x.shape) if axis not in _positive(over, x.ndim))
        )
    return (total.astype(x.dtype),)


def _positive(axes: tuple[int, ...], rank: int) -> set[int]:
    return {axis % rank for axis in axes}
