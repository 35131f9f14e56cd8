"""Normalization over a batch, over neighbouring channels and along an axis."""

from __future__ import annotations

import numpy as np

from .registry import OperatorNode, operator
from .windows import compute_dtype


@operator("BatchNormalization", since=7)
def batch_normalization(
    node: OperatorNode, x: np.ndarray, scale: np.ndarray, bias: np.ndarray, mean: np.ndarray, var: np.ndarray
) -> tuple[np.ndarray, ...]:
    """x [N, C, *image], or [N] of one channel; the others [C], or before opset 9 with spatial=0 [C, *image].

    Training (opset 14's training_mode, or earlier a node with more than one output) normalizes by the batch's
    own mean and variance and gives the running ones as second and third output; the fourth and fifth that
    there were before opset 14 are the batch's. The package mixes the batch's statistics into inference before
    opset 14 as soon as a node has a momentum.
    """
    attributes = node.attributes
    if any(other.shape != scale.shape for other in (bias, mean, var)):
        shapes = ", ".join(str(list(other.shape)) for other in (scale, bias, mean, var))
        raise ValueError(f"scale, bias, mean and variance of the shapes {shapes}")
    dtype = compute_dtype(x.dtype)
    values = x.astype(dtype, copy=False)
    if x.ndim == 1:
        values = values[:, np.newaxis]
    spatial = attributes.get("spatial", 1)
    axes = tuple(axis for axis in range(values.ndim) if axis == 0 or (spatial and axis > 1))
    training = bool(attributes.get("training_mode")) if node.version >= 14 else any(node.wanted[1:])
    statistics: tuple[np.ndarray, ...] = ()
    if training:
        momentum = attributes.get("momentum", 0.9)
        batch_mean, batch_var = values.mean(axis=axes), values.var(axis=axes)
        running_mean = mean * momentum + batch_mean * (1 - momentum)
        running_var = var * momentum + batch_var * (1 - momentum)
        statistics = (running_mean.astype(mean.dtype), running_var.astype(var.dtype))
        if node.version < 14:
            statistics += (batch_mean.astype(mean.dtype), batch_var.astype(var.dtype))
        mean, var = batch_mean, batch_var
    shape = [1, *scale.shape, *[1] * (values.ndim - 1 - scale.ndim)]
    factor = scale.astype(dtype) / np.sqrt(var.astype(dtype) + dtype.type(attributes.get("epsilon", 1e-5)))
    offset = bias.astype(dtype) - mean.astype(dtype) * factor
    result = values * factor.reshape(shape) + offset.reshape(shape)
    return (result.reshape(x.shape).astype(x.dtype, copy=False), *statistics)


@operator("LRN")
def lrn(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """Divides by the squares of `size` channels around each; x [N, C, *image].

    The package goes over the batch where it should go over the channels, and takes only images of rank 2.
    """
    attributes = node.attributes
    size = attributes["size"]
    dtype = compute_dtype(x.dtype)
    squares = np.square(x.astype(dtype, copy=False))
    before, after = (size - 1) // 2, size // 2
    total = np.zeros_like(squares)
    for channel in range(x.shape[1]):
        total[:, channel] = squares[:, max(0, channel - before) : channel + after + 1].sum(axis=1)
    share = attributes.get("alpha", 1e-4) / size
    divisor = (attributes.get("bias", 1.0) + share * total) ** dtype.type(attributes.get("beta", 0.75))
    return ((x / divisor).astype(x.dtype),)


@operator("LpNormalization")
def lp_normalization(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """Divides by the norm along `axis` where it is not 0. The package's norm of order 1 keeps signs."""
    axis, p = node.attributes.get("axis", -1), node.attributes.get("p", 2)
    values = x.astype(compute_dtype(x.dtype), copy=False)
    norm = np.linalg.norm(values, ord=p, axis=axis, keepdims=True)
    return (np.divide(values, norm, out=np.zeros_like(values), where=norm != 0).astype(x.dtype),)
