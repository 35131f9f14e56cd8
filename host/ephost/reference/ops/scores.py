"""What becomes of the scores of classes in ai.onnx.ml's models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def logistic(scores: np.ndarray) -> Any:
    """1 / (1 + exp(-x))."""
    wide = 1 / (1 + np.exp(-np.abs(scores)))
    return np.where(scores < 0, 1 - wide, wide)


def _probit(scores: np.ndarray) -> Any:
    """The inverse of the normal distribution, by Winitzki's approximation of the inverse error function."""
    x = 2 * scores - 1
    log = np.log((1 - x) * (1 + x))
    v = 2 / (np.pi * 0.147) + 0.5 * log
    return np.sqrt(2) * np.sign(x) * np.sqrt(np.sqrt(v * v - log / 0.147) - v)


def _softmax(scores: np.ndarray) -> Any:
    wide = np.exp(scores - scores.max(-1, keepdims=True))
    return wide / wide.sum(-1, keepdims=True)


def _softmax_zero(scores: np.ndarray) -> Any:
    """A softmax in which scores of 0 stay about 0."""
    most = scores.max(-1, keepdims=True)
    counts = np.abs(scores) > 1e-7
    powers = np.exp(scores - most)
    return np.where(counts, powers, scores * np.exp(-most)) / np.where(counts, powers, 0).sum(
        -1, keepdims=True
    )


_TRANSFORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "NONE": lambda scores: scores,
    "LOGISTIC": logistic,
    "PROBIT": _probit,
    "SOFTMAX": _softmax,
    "SOFTMAX_ZERO": _softmax_zero,
}


def transformed(scores: np.ndarray, transform: str) -> Any:
    """Scores [N, C] after the transform; of a single one, only the probit is taken."""
    if scores.shape[1] == 1 and transform != "PROBIT":
        return scores
    return _TRANSFORMS[transform](scores)


def both_classes(score: np.ndarray, transform: str, mirrored: bool) -> Any:
    """The scores [N, 2] of two classes from that of the second [N, 1]."""
    if transform == "LOGISTIC":
        return np.concatenate([logistic(-score), logistic(score)], 1)
    if transform == "PROBIT":
        score = _probit(score)
    return np.concatenate([-score if mirrored else 1 - score, score], 1)
