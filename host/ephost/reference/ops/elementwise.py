"""Operators that work along one axis or element by element, in versions that the package lacks."""

from __future__ import annotations

import math

import numpy as np

from .registry import OperatorNode, operator
from .windows import compute_dtype


def _rows(node: OperatorNode, x: np.ndarray) -> np.ndarray:
    """Before opset 13 these operators see a matrix: the dimensions before `axis`, and those from it on."""
    axis = node.attributes.get("axis", 1) % max(x.ndim, 1)
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:])).astype(compute_dtype(x.dtype))


def _shifted(node: OperatorNode, x: np.ndarray) -> np.ndarray:
    rows = _rows(node, x)
    return rows - rows.max(axis=1, keepdims=True) if rows.size else rows


@operator("Softmax", until=13)
def softmax(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """The package has only the rule of opset 13, which normalizes along the one axis."""
    powers = np.exp(_shifted(node, x))
    return ((powers / powers.sum(axis=1, keepdims=True)).reshape(x.shape).astype(x.dtype),)


@operator("LogSoftmax", until=13)
def log_softmax(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """As Softmax: the package has only the rule of opset 13."""
    shifted = _shifted(node, x)
    return ((shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))).reshape(x.shape).astype(x.dtype),)


@operator("Hardmax", until=13)
def hardmax(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """As Softmax: the package has only the rule of opset 13."""
    rows = _rows(node, x)
    result = np.zeros(rows.shape, x.dtype)
    if rows.size:
        result[np.arange(len(rows)), rows.argmax(axis=1)] = 1
    return (result.reshape(x.shape),)


_ERF = np.frompyfunc(math.erf, 1, 1)


@operator("Erf")
def erf(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """The package computes in single precision, for double inputs too."""
    return (np.asarray(_ERF(x.astype(np.float64))).astype(x.dtype),)


@operator("Softsign")
def softsign(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """x / (1 + |x|). The package fails on an input without dimensions."""
    return (x / (1 + np.abs(x)),)
