"""Reductions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .registry import OperatorNode, operator
from .windows import compute_dtype


@operator("ReduceLogSumExp")
def reduce_log_sum_exp(
    node: OperatorNode, x: np.ndarray, axes: np.ndarray | None = None
) -> tuple[np.ndarray]:
    """log(sum(exp(x))) without overflow. The package fails on an input without dimensions."""
    over = _reduced(node, x, axes)
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


def _reduced(node: OperatorNode, x: np.ndarray, axes: np.ndarray | None) -> tuple[int, ...]:
    """The axes to reduce: an input since opset 13 (of ReduceSum) or 18, an attribute before; else all."""
    if axes is not None and axes.ndim != 1:
        raise ValueError(f"the axes are not a list but of shape {list(axes.shape)}")
    given = node.attributes.get("axes") if axes is None else axes.tolist()
    if given:
        # A number is reduced along any axes, and others along one that is named twice, as in onnxruntime.
        return tuple({axis + x.ndim if -x.ndim <= axis < 0 else axis for axis in given}) if x.ndim else ()
    return () if node.attributes.get("noop_with_empty_axes") else tuple(range(x.ndim))


# What follows the package has, too; see `numeric` for why it is here.
def _sum_like(
    function: Callable[..., Any], node: OperatorNode, x: np.ndarray, axes: np.ndarray | None = None
) -> tuple[Any]:
    keep = bool(node.attributes.get("keepdims", 1))
    return (function(x, axis=_reduced(node, x, axes), keepdims=keep, dtype=x.dtype),)


operator("ReduceSum")(partial(_sum_like, np.sum))
operator("ReduceProd")(partial(_sum_like, np.prod))
operator("ReduceMean")(partial(_sum_like, np.mean))


def _sum_of(
    before: Callable[[Any], Any],
    after: Callable[[Any], Any],
    node: OperatorNode,
    x: np.ndarray,
    axes: np.ndarray | None = None,
) -> tuple[Any]:
    values = before(x.astype(compute_dtype(x.dtype), copy=False))
    keep = bool(node.attributes.get("keepdims", 1))
    total = values.sum(axis=_reduced(node, x, axes), keepdims=keep, dtype=values.dtype)
    return (after(total).astype(x.dtype),)


operator("ReduceL1")(partial(_sum_of, np.abs, np.asarray))
operator("ReduceL2")(partial(_sum_of, np.square, np.sqrt))
operator("ReduceLogSum")(partial(_sum_of, np.asarray, np.log))
operator("ReduceSumSquare")(partial(_sum_of, np.square, np.asarray))


def _extreme(
    function: np.ufunc, empty: float, node: OperatorNode, x: np.ndarray, axes: np.ndarray | None = None
) -> tuple[Any]:
    """`empty` is what an infinite type has for no elements; others have their largest or smallest."""
    start: dict[str, Any] = {}
    if x.size == 0:
        if x.dtype.kind in "iu":
            limits = np.iinfo(x.dtype)
            start["initial"] = limits.max if empty > 0 else limits.min
        else:
            start["initial"] = empty > 0 if x.dtype.kind == "b" else np.array(empty, x.dtype)[()]
    keep = bool(node.attributes.get("keepdims", 1))
    return (function.reduce(x, axis=_reduced(node, x, axes), keepdims=keep, **start),)


operator("ReduceMax")(partial(_extreme, np.maximum, -np.inf))
operator("ReduceMin")(partial(_extreme, np.minimum, np.inf))
