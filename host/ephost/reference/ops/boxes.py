"""Choosing among boxes."""

from __future__ import annotations

import numpy as np

from .registry import OperatorNode, operator

_Maybe = np.ndarray | None


@operator("NonMaxSuppression")
def non_max_suppression(
    node: OperatorNode,
    boxes: np.ndarray,
    scores: np.ndarray,
    most: _Maybe = None,
    overlap: _Maybe = None,
    least: _Maybe = None,
) -> tuple[np.ndarray, ...]:
    """The package's, which wants to be told each number but the last."""
    most = np.zeros(1, np.int64) if most is None else most
    overlap = np.zeros(1, np.float32) if overlap is None else overlap
    return node.package(boxes, scores, most, overlap, least)
