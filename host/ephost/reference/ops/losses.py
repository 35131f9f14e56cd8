"""NegativeLogLikelihoodLoss, of which the package counts targets of -1 where these are to be ignored."""

from __future__ import annotations

import numpy as np

from .registry import OperatorNode, operator


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(
    node: OperatorNode, x: np.ndarray, target: np.ndarray, weight: np.ndarray | None = None
) -> tuple[np.ndarray]:
    """Logarithms of probabilities x [N, C, *image], classes target [N, *image], and weight [C] of each class.

    The result is [N, *image], or a number where `reduction` is "sum" or "mean". A target of `ignore_index`
    adds nothing to it and does not count for the mean: that of nothing is NaN.

    Raises:
        ValueError: a shape that does not fit, or a target that is neither a class nor ignored.
    """
    if x.ndim < 2 or target.shape != (x.shape[0], *x.shape[2:]):
        raise ValueError(f"targets of shape {list(target.shape)} for probabilities {list(x.shape)}")
    classes = x.shape[1]
    weights = np.ones(classes, x.dtype) if weight is None else weight
    if weights.shape != (classes,):
        raise ValueError(f"weights of shape {list(weights.shape)} for {classes} classes")
    ignored = np.zeros(target.shape, np.bool_)
    if (ignore_index := node.attributes.get("ignore_index")) is not None:
        ignored = target == ignore_index
    wrong = ~ignored & ((target < 0) | (target >= classes))
    if wrong.any():
        raise ValueError(f"target {target[wrong][0]} is none of {classes} classes")
    known = np.where(ignored, 0, target)
    counted = np.where(ignored, 0, weights[known]).astype(x.dtype)
    picked = np.take_along_axis(x, np.expand_dims(known, 1), axis=1).squeeze(1)
    loss = -np.where(ignored, 0, picked) * counted
    match node.attributes.get("reduction", "mean"):
        case "none":
            return (loss.astype(x.dtype, copy=False),)
        case "sum":
            return (np.asarray(loss.sum(dtype=x.dtype)),)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (np.asarray(loss.sum(dtype=x.dtype) / counted.sum(dtype=x.dtype)),)
