"""com.microsoft's operators for hashed n-grams of tokens and for streams of hyper-connections."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from .registry import OperatorNode, operator

_MS = "com.microsoft"
_Maybe = np.ndarray | None


def _normed(x: np.ndarray, epsilon: float) -> np.ndarray:
    """x over the root of its mean square along the last axis, in float32."""
    wide = x.astype(np.float32)
    return np.asarray(wide / np.sqrt(np.mean(wide * wide, axis=-1, keepdims=True) + np.float32(epsilon)))


def _branches(node: OperatorNode, x: np.ndarray, name: str) -> np.ndarray:
    """Streams as [..., branches, features], of which the last two may be one axis."""
    count = node.attributes.get("num_branches", 0)
    if not count:
        if x.ndim < 2:
            raise ValueError(
                f"{name} has shape {list(x.shape)}: without num_branches it needs two axes or more"
            )
        return x
    if not x.ndim or x.shape[-1] % count:
        raise ValueError(f"{name} of shape {list(x.shape)} does not consist of {count} branches")
    return x.reshape(*x.shape[:-1], count, x.shape[-1] // count)


@operator("BranchwiseRMSNorm", domain=_MS)
def branchwise_rms_norm(node: OperatorNode, x: np.ndarray, scale: _Maybe = None) -> tuple[np.ndarray]:
    """Each branch over the root of its mean square; a scale is of [C * H], [C, H] or [H]."""
    streams = _branches(node, x, "X")
    y = _normed(streams, node.attributes.get("epsilon", 1e-5))
    if scale is not None:
        count, features = streams.shape[-2:]
        if scale.shape not in ((features,), (count * features,), (count, features)):
            raise ValueError(
                f"a scale of shape {list(scale.shape)} for {count} branches of {features} features"
            )
        whole = scale.size == count * features
        y = y * scale.astype(np.float32).reshape(streams.shape[-2:] if whole else scale.shape)
    return (y.reshape(x.shape).astype(x.dtype),)


@operator("HyperConnectionPreMix", domain=_MS)
def hyper_connection_pre_mix(node: OperatorNode, streams: np.ndarray, mix: np.ndarray) -> tuple[np.ndarray]:
    """Streams [..., C, H], each times its gate, added up to [..., H]."""
    wide = _branches(node, streams, "streams").astype(np.float32)
    gates = _gates(mix, wide.shape, "pre_mix")
    scale = np.float32(node.attributes.get("reduction_scale", 1.0))
    return ((scale * (wide * gates).sum(axis=-2)).astype(streams.dtype),)


def _gates(mix: np.ndarray, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Gates of [..., C], [..., C, 1], [..., C, H] or [..., C * H] for streams [..., C, H]."""
    wide = mix.astype(np.float32)
    if wide.shape in (shape, (*shape[:-1], 1)):
        return wide
    if wide.shape == shape[:-1]:
        return wide[..., None]
    if wide.shape == (*shape[:-2], shape[-2] * shape[-1]):
        return wide.reshape(shape)
    raise ValueError(f"{name} of shape {list(mix.shape)} does not fit streams of {list(shape)}")


@operator("HyperConnectionPostMix", domain=_MS)
def hyper_connection_post_mix(
    node: OperatorNode, streams: np.ndarray, block: np.ndarray, post: np.ndarray, mix: _Maybe = None
) -> tuple[np.ndarray]:
    """Streams [..., C, H] mixed by [..., C, C], and to each a branch's output [..., H] times its gate."""
    wide = _branches(node, streams, "streams").astype(np.float32)
    gates = _gates(post, wide.shape, "post_mix")
    if block.shape != (*wide.shape[:-2], wide.shape[-1]):
        raise ValueError(
            f"block_output of shape {list(block.shape)} does not fit streams of {list(wide.shape)}"
        )
    if mix is not None and mix.shape != (*wide.shape[:-1], wide.shape[-2]):
        raise ValueError(f"stream_mix of shape {list(mix.shape)} does not fit streams of {list(wide.shape)}")
    mixed = wide if mix is None else np.einsum("...ck,...ch->...kh", mix.astype(np.float32), wide)
    y = mixed + gates * block.astype(np.float32)[..., None, :]
    return (y.reshape(streams.shape).astype(streams.dtype),)


@operator("EngramGate", domain=_MS)
def engram_gate(
    node: OperatorNode,
    key: np.ndarray,
    query: np.ndarray,
    value: np.ndarray,
    key_scale: np.ndarray,
    query_scale: np.ndarray,
    value_scale: _Maybe = None,
) -> tuple[np.ndarray, ...]:
    """A value [B, S, H] times a gate of each stream of [B, S, C, H], and that normed."""
    if key.ndim != 4:
        raise ValueError(f"key has shape {list(key.shape)}: four dimensions are needed")
    batch, length, count, features = key.shape
    fitting = {"query": (query, key.shape), "value": (value, (batch, length, features))}
    scales = {"key_norm_scale": key_scale, "query_norm_scale": query_scale, "conv_norm_scale": value_scale}
    fitting.update((name, (scale, (count, features))) for name, scale in scales.items() if scale is not None)
    for name, (given, wanted) in fitting.items():
        if given.shape != wanted:
            raise ValueError(f"{name} has shape {list(given.shape)} in place of {list(wanted)}")
    epsilon = node.attributes.get("epsilon", 1e-5)
    keys = _normed(key, epsilon) * key_scale.astype(np.float32)
    queries = _normed(query, epsilon) * query_scale.astype(np.float32)
    dot = (keys * queries).sum(axis=-1, keepdims=True) / np.sqrt(np.float32(key.shape[-1]))
    root = np.sign(dot) * np.sqrt(np.maximum(np.abs(dot), np.float32(1e-6)))
    gated = value.astype(np.float32)[:, :, None, :] / (1 + np.exp(-root))
    results = [gated.astype(key.dtype)]
    if node.wants(1):
        if value_scale is None:
            raise ValueError("gated_value_normed needs conv_norm_scale")
        results.append((_normed(gated, epsilon) * value_scale.astype(np.float32)).astype(key.dtype))
    return tuple(results)


class _Hashes:
    """What the hashes of n-grams depend on, but for the tokens."""

    def __init__(
        self, node: OperatorNode, multipliers: np.ndarray, sizes: np.ndarray, offsets: _Maybe, end: _Maybe
    ) -> None:
        self._longest = node.attributes["max_ngram_size"]
        self._heads = node.attributes["n_head_per_ngram"]
        if self._longest < 2 or self._heads < 1:
            raise ValueError("max_ngram_size must be 2 or more, n_head_per_ngram 1 or more")
        count = (self._longest - 1) * self._heads
        if multipliers.size < self._longest or sizes.size != count:
            raise ValueError(
                f"n-grams up to {self._longest} with {self._heads} heads need {self._longest} multipliers "
                f"and {count} vocab_sizes, got {multipliers.size} and {sizes.size}"
            )
        if sizes.min() <= 0:
            raise ValueError(f"vocab_sizes must be over 0, one is {sizes.min()}")
        if offsets is not None and offsets.size != count:
            raise ValueError(f"head_offsets must have {count} elements, got {offsets.size}")
        self.before = self._longest - 1
        self.missing = node.attributes["pad_id"] if end is None else end.item()
        self._end = end.item() if end is not None and node.attributes.get("reset_on_eos", 0) else None
        self._multipliers, self._sizes, self._offsets = multipliers, sizes, offsets

    def history(self, past: _Maybe, rows: int, dtype: np.dtype) -> np.ndarray:
        """The tokens before each row, [rows, before]."""
        if past is None:
            return np.full((rows, self.before), self.missing, dtype)
        if past.shape != (rows, self.before):
            raise ValueError(f"past_ids must have shape {[rows, self.before]}, got {list(past.shape)}")
        return past

    def of(self, past: np.ndarray, ids: np.ndarray, begins: np.ndarray) -> np.ndarray:
        """Hashes [length, heads] of a row of ids after its history [before].

        ``begins`` [before + length] says where a segment begins, of which a token sees nothing before.
        """
        whole = np.concatenate([past, ids])
        places = np.arange(len(whole))
        # The last place, up to each one, from which on tokens are seen.
        first = np.where(begins, places, 0)
        if self._end is not None:
            first[1:] = np.maximum(first[1:], np.where(whole[:-1] == self._end, places[1:], 0))
        first = np.maximum.accumulate(first)[self.before :]
        here = places[self.before :]
        mixed = ids * self._multipliers[0]
        found = []
        for shift in range(1, self._longest):
            seen = np.where(here - shift >= first, whole[here - shift], self.missing).astype(ids.dtype)
            mixed = mixed ^ (seen * self._multipliers[shift])
            sizes = self._sizes[(shift - 1) * self._heads : shift * self._heads]
            found.append(np.mod(mixed[:, None], sizes[None, :]))
        hashes = np.concatenate(found, axis=1)
        return np.asarray(hashes if self._offsets is None else hashes + self._offsets.reshape(-1))


@operator("NGramHashMapping", domain=_MS)
def ngram_hash_mapping(
    node: OperatorNode,
    ids: np.ndarray,
    multipliers: np.ndarray,
    sizes: np.ndarray,
    past: _Maybe = None,
    offsets: _Maybe = None,
    end: _Maybe = None,
    segments: _Maybe = None,
) -> tuple[np.ndarray, ...]:
    """Hashes [B, S, heads of all n-grams] of ids [B, S], and the last ids [B, longest - 1]."""
    hashes = _Hashes(node, multipliers, sizes, offsets, end)
    history = hashes.history(past, len(ids), ids.dtype)
    begins = np.zeros((len(ids), hashes.before + ids.shape[1]), bool)
    if segments is not None:
        begins[:, hashes.before + 1 :] = segments[:, 1:] != segments[:, :-1]
    rows = [hashes.of(*row) for row in zip(history, ids, begins, strict=True)]
    present = np.concatenate([history, ids], axis=1)[:, ids.shape[1] :]
    heads = sizes.size
    return np.array(rows, ids.dtype).reshape(*ids.shape, heads), present


def _ranges(ends: np.ndarray, total: int) -> Iterator[tuple[int, int]]:
    """Where each text begins and ends."""
    edges = ends.tolist()
    if edges[:1] != [0] or edges[-1] != total or any(a >= b for a, b in pairwise(edges)):
        raise ValueError(f"cumulative_sequence_length must grow from 0 to {total}, got {edges}")
    return pairwise(edges)


@operator("VarlenNGramHashMapping", domain=_MS)
def varlen_ngram_hash_mapping(
    node: OperatorNode,
    ids: np.ndarray,
    multipliers: np.ndarray,
    sizes: np.ndarray,
    ends: np.ndarray,
    past: _Maybe = None,
    offsets: _Maybe = None,
    end: _Maybe = None,
    segments: _Maybe = None,
    past_segments: _Maybe = None,
    captured: _Maybe = None,
) -> tuple[np.ndarray, ...]:
    """Hashes [total, heads] of the ids of texts behind each other, and the last ids and segments of each."""
    hashes = _Hashes(node, multipliers, sizes, offsets, end)
    room = node.attributes.get("state_update_capacity", 0)
    if (captured is not None) != (room > 0):
        raise ValueError("capture_count must be there exactly where state_update_capacity is over 0")
    before, rows = hashes.before, len(ends) - 1
    history = hashes.history(past, rows, ids.dtype)
    found, present, states = (
        [],
        np.empty_like(history),
        np.full((rows, room, before), node.attributes["pad_id"]),
    )
    kept = np.zeros((rows, before), np.int32)
    for row, (begin, stop) in enumerate(_ranges(ends, len(ids))):
        own = ids[begin:stop]
        begins = np.zeros(before + len(own), bool)
        if segments is not None:
            known = None if past_segments is None else past_segments[row]
            earlier = np.full(before, segments[begin], np.int32) if known is None else known
            marks = np.concatenate([earlier, segments[begin:stop]])
            begins[1:] = marks[1:] != marks[:-1]
            kept[row] = marks[len(own) :]
        found.append(hashes.of(history[row], own, begins))
        whole = np.concatenate([history[row], own])
        present[row] = whole[len(own) :]
        count = 0 if captured is None else min(int(captured[row]), room, len(own))
        for at in range(count):
            states[row, at] = whole[at + 1 : at + 1 + before]
    return np.concatenate(found), present, kept, states.astype(ids.dtype)
