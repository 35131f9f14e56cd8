"""Attention of one new token for each beam, over a cache of which other beams may have written parts.

Plugins take com.microsoft's attention where past and present are values of their own. Here is the form in
which both are one buffer as long as a text may become.
"""

from __future__ import annotations

import numpy as np

from ..control_flow import scalar_of
from ..token_scores import softmax
from .registry import OperatorNode, operator

_MS = "com.microsoft"
_Maybe = np.ndarray | None


def _split(x: np.ndarray, heads: int, bias: _Maybe) -> np.ndarray:
    """[B, 1, heads * size] with its part of the bias as float32 [B, heads, 1, size]."""
    if x.ndim != 3 or x.shape[2] % heads:
        raise ValueError(f"a value of shape {list(x.shape)} does not consist of {heads} heads")
    wide = x.astype(np.float32)
    if bias is not None:
        wide = wide + bias.astype(np.float32)
    return wide.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


class _Cache:
    """Keys or values [B, heads, room, size] with a new one behind the first ``length``."""

    def __init__(self, past: np.ndarray, new: np.ndarray, length: int, beams: _Maybe) -> None:
        if past.ndim != 4 or past.shape[:2] != new.shape[:2] or past.shape[3] != new.shape[3]:
            raise ValueError(f"a cache of shape {list(past.shape)} does not fit {list(new.shape)}")
        if not 0 <= length < past.shape[2]:
            raise ValueError(f"a cache of {past.shape[2]} has no room behind {length}")
        self.present = past.copy()
        self.present[:, :, length] = new[:, :, 0].astype(past.dtype)
        self.seen = self.present[:, :, : length + 1].astype(np.float32)
        if beams is not None:
            self.seen[:, :, :length] = _of_beams(past, length, beams)


def _of_beams(past: np.ndarray, length: int, beams: np.ndarray) -> np.ndarray:
    """What each row sees: ``beams`` [batch, beams, room] says which beam wrote each place."""
    if beams.ndim != 3 or beams.shape[0] * beams.shape[1] != len(past) or beams.shape[2] < length:
        raise ValueError(
            f"cache_indirection of shape {list(beams.shape)} does not fit {len(past)} rows of {length} places"
        )
    width = beams.shape[1]
    writers = beams[:, :, :length].astype(np.int64)
    if writers.size and not 0 <= writers.min() <= writers.max() < width:
        raise ValueError(f"cache_indirection names a beam that is none of {width}")
    rows = (writers + np.arange(0, len(past), width)[:, None, None]).reshape(len(past), length)
    return np.asarray(past[rows, :, np.arange(length)].transpose(0, 2, 1, 3).astype(np.float32))


def _attend(
    node: OperatorNode, q: np.ndarray, keys: np.ndarray, values: np.ndarray, mask: _Maybe, added: _Maybe
) -> tuple[np.ndarray, np.ndarray]:
    """The results [B, 1, heads * size], and the scores, with mask and bias, before they become shares."""
    scores = (node.attributes.get("scale") or 1 / np.sqrt(q.shape[3])) * (q @ keys.swapaxes(2, 3))
    if mask is not None:
        if mask.shape == (len(q),):  # how many keys each row sees
            mask = np.arange(keys.shape[2]) < mask[:, None]
        if mask.shape != (len(q), keys.shape[2]):
            raise ValueError(
                f"the mask must have shape {[len(q), keys.shape[2]]} or {[len(q)]}, got {list(mask.shape)}"
            )
        least = np.float32(node.attributes.get("mask_filter_value", -10000.0))
        scores = scores + np.where(mask == 0, least, np.float32(0))[:, None, None, :]
    if added is not None:
        scores = scores + added.astype(np.float32)
    made = softmax(scores) @ values
    return made.transpose(0, 2, 1, 3).reshape(len(q), q.shape[2], -1), scores


def _decode(
    node: OperatorNode,
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    bias: _Maybe,
    mask: _Maybe,
    added: _Maybe,
    past: tuple[_Maybe, _Maybe],
    length: _Maybe,
    beams: _Maybe,
) -> tuple[np.ndarray, ...]:
    """The results, present keys and values, and the scores."""
    heads = node.attributes["num_heads"]
    size = query.shape[-1]
    parts = (None, None, None) if bias is None else np.split(bias, [size, 2 * size])
    if query.ndim != 3 or query.shape[1] != 1:
        raise NotImplementedError(
            f"a query of shape {list(query.shape)} with a cache that past and present share: it has one token"
        )
    q = _split(query, heads, parts[0])
    present: tuple[np.ndarray, ...]
    if key.ndim == 4:  # of an encoder, all of them
        keys, values = key.astype(np.float32), value.astype(np.float32)
        present = (key, value)
    else:
        if past[0] is None or past[1] is None or length is None:
            raise ValueError("past_key, past_value and past_sequence_length must be there")
        count = int(scalar_of(length, "past_sequence_length"))
        caches = [
            _Cache(before, _split(new, heads, part), count, beams)
            for before, new, part in zip(past, (key, value), parts[1:], strict=True)
            if before is not None
        ]
        keys, values = (cache.seen for cache in caches)
        present = tuple(cache.present for cache in caches)
    made, scores = _attend(node, q, keys, values, mask, added)
    return made.astype(query.dtype), *present, scores.astype(query.dtype)


@operator("DecoderMaskedMultiHeadAttention", domain=_MS, having=(7, 8, 9))
def decoder_masked_multi_head_attention(
    node: OperatorNode,
    query: np.ndarray,
    key: _Maybe = None,
    value: _Maybe = None,
    mask: _Maybe = None,
    added: _Maybe = None,
    past_key: _Maybe = None,
    past_value: _Maybe = None,
    length: _Maybe = None,
    width: _Maybe = None,
    beams: _Maybe = None,
    bias: _Maybe = None,
) -> tuple[np.ndarray, ...]:
    """As MultiHeadAttention for one token, with the number of beams beside what they wrote."""
    if key is None or value is None:
        query, key, value = np.split(query, 3, axis=2)
    count = 1 if width is None else int(scalar_of(width, "beam_width"))
    if key.ndim == 3 and count != (1 if beams is None else beams.shape[1]):
        raise ValueError(f"beam_width is {count}: cache_indirection must say which of them wrote what")
    past = past_key, past_value
    return _decode(node, query, key, value, bias, mask, added, past, length, beams)


@operator("MultiHeadAttention", domain=_MS, having=(8, 9))
def multi_head_attention(
    node: OperatorNode,
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    bias: _Maybe,
    mask: _Maybe,
    added: _Maybe,
    past_key: _Maybe,
    past_value: _Maybe,
    length: _Maybe,
    beams: _Maybe = None,
) -> tuple[np.ndarray, ...]:
    """The form with past_sequence_length or cache_indirection: plugins take the others."""
    past = past_key, past_value
    return _decode(node, query, key, value, bias, mask, added, past, length, beams)
