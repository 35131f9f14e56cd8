"""Operators of com.microsoft that few models have: for words, guessed tokens, masked images, and attention to
blocks.
"""

from __future__ import annotations

import numpy as np

from ..token_scores import softmax
from .registry import OperatorNode, operator
from .windows import windows_of

_MS = "com.microsoft"
_Maybe = np.ndarray | None


@operator("WordConvEmbedding", domain=_MS)
def word_conv_embedding(
    node: OperatorNode, words: np.ndarray, w: np.ndarray, bias: np.ndarray, chars: np.ndarray
) -> tuple[np.ndarray]:
    """words [W, letters], 0 behind a word's end; w [N, 1, window, D]; chars [letters, D]: gives [W, N]."""
    count, _, window, size = w.shape
    if bias.shape != (count,):
        raise ValueError(f"a bias of shape {list(bias.shape)} for {count} filters")
    if words.ndim != 2 or chars.shape[-1] != size or words.shape[1] < window:
        raise ValueError(
            f"words {list(words.shape)}, letters of {chars.shape[-1]} numbers and weights {list(w.shape)} "
            "do not fit together"
        )
    lengths = np.where(words[:, 0] > 0, (words > 0).sum(axis=1), 0)
    known = (words >= 0) & (words < len(chars))  # others are letters of zeros
    embedded = np.where(known[..., None], chars[np.where(known, words, 0)], 0)
    windows = np.lib.stride_tricks.sliding_window_view(embedded, window, axis=1)  # [words, places, D, window]
    scores = np.tanh(np.einsum("wpdk,nkd->wpn", windows, w[:, 0]) + bias)
    inside = np.arange(scores.shape[1]) <= np.maximum(lengths, window)[:, None] - window
    best = np.where(inside[:, :, None], scores, -np.inf).max(axis=1)
    best[lengths == 0] = 0
    return (best.astype(w.dtype),)


@operator("BifurcationDetector", domain=_MS)
def bifurcation_detector(
    node: OperatorNode, source: np.ndarray, tokens: np.ndarray, start: np.ndarray, guessed: _Maybe = None
) -> tuple[np.ndarray, np.ndarray]:
    """tokens, with what was guessed as far as it is the source, and where that goes on after their end."""
    if start.size != 1:
        raise ValueError(f"prev_suffix_match_idx has {start.size} elements: one is needed")
    begin = int(start.reshape(-1)[0])
    if guessed is not None:
        rest = source[begin:] if begin >= 0 else source[:0]
        if len(guessed) != len(source) + 1 - begin:
            raise ValueError(
                f"{len(guessed)} guessed tokens for {len(source)} of the source from {begin} on: "
                "there must be one more than those"
            )
        same = np.nonzero(rest != guessed[: len(rest)])[0]
        tokens = np.concatenate([tokens, guessed[: (same[0] if len(same) else len(rest)) + 1]])
    found = -1
    for size in range(node.attributes.get("min_ngram_size", 1), node.attributes.get("max_ngram_size", 3) + 1):
        if size > len(tokens) or size > len(source):
            break
        windows = np.lib.stride_tricks.sliding_window_view(source, size)
        places = np.nonzero((windows == tokens[len(tokens) - size :]).all(axis=1))[0]
        if not len(places):
            break
        if len(places) == 1:
            found = int(places[0]) + size
            break
    return tokens, np.full(start.shape, found, np.int64)


@operator("MaxpoolWithMask", domain=_MS)
def maxpool_with_mask(node: OperatorNode, x: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray]:
    """The largest of each window, of which each row ends before the first element whose mask is 0.

    The mask [N, C, *image] has as many planes as there are, or fewer, which then come again and again.
    """
    if mask.ndim != x.ndim or mask.shape[2:] != x.shape[2:]:
        raise ValueError(f"a mask of shape {list(mask.shape)} for an input of shape {list(x.shape)}")
    windows = windows_of(node.attributes, x.shape[2:], node.attributes["kernel_shape"])
    lowest = np.finfo(x.dtype).min
    ends = np.resize(mask.reshape(-1, *x.shape[2:]), x.shape) == 0
    if x.ndim > 3:
        ends[(..., *[0] * (x.ndim - 2))] = False  # what is first in an image always counts
    best = np.full((*x.shape[:2], *windows.output), lowest, x.dtype)
    gone = np.zeros(best.shape, bool)
    taps = zip(windows.taps(windows.pad(x, lowest)), windows.taps(windows.pad(ends, False)), strict=True)
    for place, (tap, end) in enumerate(taps):
        if place % windows.kernel[-1] == 0:
            gone[:] = False  # a row begins
        gone |= end
        np.maximum(best, np.where(gone, lowest, tap), out=best)
    return (best,)


@operator("SparseAttention", domain=_MS)
def sparse_attention(
    node: OperatorNode,
    query: np.ndarray,
    key: _Maybe,
    value: _Maybe,
    past_key: np.ndarray,
    past_value: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    total: np.ndarray,
    totals: np.ndarray,
    cosines: _Maybe = None,
    sines: _Maybe = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Attention to what came before, block by block as a layout says, with a cache in its place."""
    attributes = node.attributes
    for name, given in (("query", query), ("key", key), ("value", value)):
        if given is not None and given.ndim != 3:
            raise ValueError(f"{name} has shape {list(given.shape)}: three dimensions are needed")
    batch, length = query.shape[:2]
    size, heads, kv_heads = past_key.shape[-1], attributes["num_heads"], attributes["kv_num_heads"]
    for name, cache in (("past_key", past_key), ("past_value", past_value)):
        if cache.shape != (batch, kv_heads, past_key.shape[2], size):
            raise ValueError(f"{name} has shape {list(cache.shape)}: it is no cache of {batch} texts")
    if key is None or value is None:
        edges = np.cumsum([heads * size, kv_heads * size])
        query, key, value = np.split(query, edges, axis=2)
    block = attributes["sparse_block_size"]
    scale = attributes.get("scale") or 1 / np.sqrt(size)
    split = [
        x.astype(np.float32).reshape(batch, length, -1, size).transpose(0, 2, 1, 3)
        for x in (query, key, value)
    ]
    if totals.shape != (batch,):
        raise ValueError(f"key_total_sequence_lengths has shape {list(totals.shape)}: it is {batch} lengths")
    present_key, present_value = past_key.copy(), past_value.copy()
    whole = int(total.reshape(-1)[0])
    if whole > past_key.shape[2]:
        raise ValueError(f"a cache of {past_key.shape[2]} has no room for {whole} tokens")
    _check_layouts(rows, columns, heads, -(-whole // block))
    allowed = _allowed(rows, columns, block, whole)
    out = np.zeros((batch, length, heads, size), np.float32)
    for at in range(batch):
        own = int(totals[at])
        first = 0 if whole == length else own - length
        q, k, v = (x[at] for x in split)
        if attributes.get("do_rotary", 0):
            if cosines is None or sines is None:
                raise ValueError("do_rotary needs cos_cache and sin_cache")
            turn = cosines[first : first + length], sines[first : first + length]
            q, k = (_turned(x, *turn, bool(attributes.get("rotary_interleaved", 0))) for x in (q, k))
        present_key[at, :, first : first + length] = k.astype(past_key.dtype)
        present_value[at, :, first : first + length] = v.astype(past_value.dtype)
        places = np.arange(first, first + length)
        for head in range(heads):
            from_head = head * kv_heads // heads
            keys = present_key[at, from_head, : first + length].astype(np.float32)
            values = present_value[at, from_head, : first + length].astype(np.float32)
            scores = scale * (q[head] @ keys.T)
            seen = np.arange(first + length) <= places[:, None]
            seen &= allowed[head % len(allowed)][places][:, : first + length]
            out[at, :, head] = softmax(np.where(seen, scores, -np.inf)) @ values
    return out.reshape(batch, length, -1).astype(query.dtype), present_key, present_value


def _check_layouts(rows: np.ndarray, columns: np.ndarray, heads: int, blocks: int) -> None:
    """Whether layouts in rows are shared by the heads, have a row for each block, and name blocks."""
    if rows.ndim != 2 or columns.ndim != 2 or len(rows) != len(columns) or heads % max(1, len(rows)):
        raise ValueError(
            f"{heads} heads cannot share layouts of shapes {list(rows.shape)} and {list(columns.shape)}"
        )
    if not len(rows) or rows.shape[1] <= blocks:
        raise ValueError(
            f"block_row_indices of shape {list(rows.shape)} has no row for each of {blocks} blocks"
        )
    most = rows.shape[1] - 1
    for starts, found in zip(rows, columns, strict=True):
        if starts[0] != 0 or (np.diff(starts) < 0).any() or starts[-1] > len(found):
            raise ValueError(
                f"block_row_indices {starts.tolist()} do not grow from 0 to at most {len(found)}"
            )
        if (wrong := found[: starts[-1]][(found[: starts[-1]] < 0) | (found[: starts[-1]] >= most)]).size:
            raise ValueError(f"block_col_indices has the entry {wrong[0]}: there are {most} blocks")


def _allowed(rows: np.ndarray, columns: np.ndarray, block: int, length: int) -> list[np.ndarray]:
    """For each layout which token may look at which: [length, length]."""
    layouts = []
    count = -(-length // block)
    for starts, found in zip(rows, columns, strict=True):
        blocks = np.zeros((count, count), bool)
        for row in range(min(count, len(starts) - 1)):
            there = found[starts[row] : starts[row + 1]]
            blocks[row, there[(there >= 0) & (there < count)]] = True
        layouts.append(np.repeat(np.repeat(blocks, block, axis=0), block, axis=1)[:length, :length])
    return layouts


def _turned(x: np.ndarray, cosines: np.ndarray, sines: np.ndarray, interleaved: bool) -> np.ndarray:
    """x [heads, length, size] turned by angles [length, size / 2]; what lies behind those stays."""
    half = cosines.shape[-1]
    c, s = cosines.astype(np.float32), sines.astype(np.float32)
    y = x.copy()
    one, other = (
        (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
        if interleaved
        else (slice(half), slice(half, 2 * half))
    )
    y[..., one] = x[..., one] * c - x[..., other] * s
    y[..., other] = x[..., one] * s + x[..., other] * c
    return y
