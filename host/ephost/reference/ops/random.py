"""Operators that draw random numbers: the same ones at every call with a `seed`, fresh ones without.

The package has no Multinomial; its RandomNormal and RandomUniform refuse the shape of a scalar; its Dropout
takes the ratio of opset 7 for a seed and fails in training mode when the ratio is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...message_helpers import numpy_dtype
from ...messages import TensorProto
from .registry import OperatorNode, operator

_seeds: np.random.RandomState | None = None


def set_seed(seed: int) -> None:
    """From now on operators without a seed draw theirs from a sequence that this number begins."""
    global _seeds
    _seeds = np.random.RandomState(seed % 2**32)


def _generator(node: OperatorNode) -> np.random.RandomState:
    """A new generator for one call. RandomState: the standard's own test data were drawn from it."""
    seed = node.attributes.get("seed")
    if seed is None:
        return np.random.RandomState(None if _seeds is None else _seeds.randint(2**32, dtype=np.uint32))
    return np.random.RandomState(int(seed) % 2**32)


def _dtype(node: OperatorNode, like: np.ndarray | None = None) -> np.dtype:
    code = node.attributes.get("dtype")
    if code is None:
        return like.dtype if like is not None else np.dtype(np.float32)
    return numpy_dtype(code)


def _normal(node: OperatorNode, shape: Any) -> np.ndarray:
    attributes = node.attributes
    return np.asarray(
        _generator(node).normal(attributes.get("mean", 0.0), attributes.get("scale", 1.0), shape)
    )


def _uniform(node: OperatorNode, shape: Any) -> np.ndarray:
    attributes = node.attributes
    return np.asarray(
        _generator(node).uniform(attributes.get("low", 0.0), attributes.get("high", 1.0), shape)
    )


@operator("RandomNormal")
def random_normal(node: OperatorNode) -> tuple[np.ndarray]:
    """Normally distributed numbers of the shape that the attribute gives."""
    return (_normal(node, node.attributes["shape"]).astype(_dtype(node)),)


@operator("RandomUniform")
def random_uniform(node: OperatorNode) -> tuple[np.ndarray]:
    """Uniformly distributed numbers of the shape that the attribute gives."""
    return (_uniform(node, node.attributes["shape"]).astype(_dtype(node)),)


@operator("RandomNormalLike")
def random_normal_like(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """Normally distributed numbers of the shape of x."""
    return (_normal(node, x.shape).astype(_dtype(node, x)),)


@operator("RandomUniformLike")
def random_uniform_like(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """Uniformly distributed numbers of the shape of x."""
    return (_uniform(node, x.shape).astype(_dtype(node, x)),)


@operator("Bernoulli")
def bernoulli(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """1 with the probability that x gives for each element, else 0."""
    draws = np.asarray(_generator(node).random_sample(x.shape))
    return ((draws < x.astype(np.float64)).astype(_dtype(node, x)),)


@operator("Multinomial")
def multinomial(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """x [batch, classes] of unnormalized log-probabilities gives [batch, sample_size] of class numbers."""
    logits = x.astype(np.float64)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    edges = np.cumsum(powers, axis=1)
    count = node.attributes.get("sample_size", 1)
    draws = _generator(node).random_sample((len(x), count)) * edges[:, -1:]
    samples = [np.searchsorted(edge, draw, side="right") for edge, draw in zip(edges, draws, strict=True)]
    code = node.attributes.get("dtype", TensorProto.INT32)
    result = np.array(samples).reshape(len(x), count)
    return (result.astype(numpy_dtype(code)),)


@operator("Dropout", since=7)
def dropout(
    node: OperatorNode,
    x: np.ndarray,
    ratio: np.ndarray | None = None,
    training_mode: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """In training mode zeroes elements with probability `ratio` and scales the rest; else passes x on.

    The second output is the mask of elements that stay.
    """
    share = float(ratio.item()) if ratio is not None else 0.5
    if training_mode is None or not bool(training_mode) or share == 0:
        return x, np.ones(x.shape, bool)
    mask = np.asarray(_generator(node).uniform(0, 1, x.shape) >= share)
    scaled = x.astype(np.float64) * (1 / (1 - share)) if share < 1 else np.zeros(x.shape)
    return np.where(mask, scaled, 0).astype(x.dtype), mask
