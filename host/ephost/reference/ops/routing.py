"""com.microsoft's router of a mixture of experts that come in groups."""

from __future__ import annotations

import math

import numpy as np

from .registry import OperatorNode, operator

_LEAST = np.float32(1e-20)  # of a share, whose logarithm is taken


def _highest(scores: np.ndarray, count: int) -> np.ndarray:
    """The places of the highest scores along the last axis, of equal ones the first; NaN is the lowest."""
    return np.argsort(-scores, axis=-1, kind="stable")[..., :count]


@operator("MoEGroupRouter", domain="com.microsoft")
def moe_group_router(
    node: OperatorNode, logits: np.ndarray, bias: np.ndarray, projection: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logarithms of shares [tokens, experts], a constant for experts that are not chosen; shares with biases
    added, and without, of all experts, both float32.
    """
    if logits.ndim < 2:
        raise ValueError(f"logits of shape {list(logits.shape)} have no axes of tokens and experts")
    rows = logits.reshape(math.prod(logits.shape[:-1]), logits.shape[-1]).astype(np.float32)
    if projection is not None:
        if projection.ndim != 2 or projection.shape[1] != rows.shape[1]:
            raise ValueError(
                f"projection_weight of shape {list(projection.shape)} does not fit logits of "
                f"{list(logits.shape)}"
            )
        rows = rows @ projection.astype(np.float32).T
    experts = rows.shape[1]
    if bias.size != experts:
        raise ValueError(f"expert_bias of shape {list(bias.shape)} for {experts} experts")
    shares = 1 / (1 + np.exp(-rows))
    scores = shares + bias.reshape(-1)
    chosen = scores if not node.wants(0) else _chosen(node, shares, scores)
    return chosen.astype(logits.dtype), scores, shares


def _chosen(node: OperatorNode, shares: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Logarithms of the shares of those experts whose scores are the highest in the groups that are."""
    count, groups = node.attributes["top_k"], node.attributes.get("n_group", 1)
    kept, judges = node.attributes.get("topk_group", 1), node.attributes.get("group_topk", 2)
    tokens, experts = scores.shape
    if min(count, groups, kept, judges) < 1 or not experts:
        raise ValueError("top_k, n_group, topk_group, group_topk and the number of experts must be over 0")
    if count > experts or kept > groups or experts % groups:
        raise ValueError(
            f"top_k {count} of {experts} experts, topk_group {kept} of n_group {groups}: one is not possible"
        )
    grouped = scores.reshape(tokens, groups, experts // groups)
    best = np.take_along_axis(grouped, _highest(grouped, judges), axis=2).sum(axis=2)
    is_kept = np.zeros((tokens, groups), bool)
    np.put_along_axis(is_kept, _highest(best, kept), True, axis=1)
    limited = np.where(is_kept[..., None], grouped, -np.inf).reshape(tokens, experts)
    is_chosen = np.zeros((tokens, experts), bool)
    np.put_along_axis(is_chosen, _highest(limited, count), True, axis=1)
    is_chosen &= np.repeat(is_kept, experts // groups, axis=1)
    other = np.float32(node.attributes.get("router_sentinel", -1e4))
    return np.where(is_chosen, np.log(np.maximum(shares, _LEAST)), other)
