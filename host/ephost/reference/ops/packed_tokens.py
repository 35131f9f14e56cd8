"""com.microsoft's operators of networks with a state over sequences that lie one after the other."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from .registry import OperatorNode, operator

_MS = "com.microsoft"
_Maybe = np.ndarray | None
_MOST_UPDATES = 8  # that an output may keep of a sequence


def _sequences(ends: np.ndarray, tokens: int, name: str) -> list[slice]:
    """The tokens of each sequence, of which ``ends`` [sequences + 1] says where they end."""
    if ends.ndim != 1 or len(ends) < 2 or ends[0] != 0 or ends[-1] != tokens or (np.diff(ends) < 0).any():
        raise ValueError(f"{name} must grow from 0 to {tokens}, got {ends.tolist()}")
    return [slice(*pair) for pair in pairwise(ends.tolist())]


def _captured(node: OperatorNode, counts: _Maybe, sequences: int) -> tuple[int, list[int]]:
    """How many tokens there is room for in an output, and how many of each sequence go there."""
    room = node.attributes.get("state_update_capacity", 0)
    if not 0 <= room <= _MOST_UPDATES:
        raise ValueError(f"state_update_capacity is {room}, not from 0 to {_MOST_UPDATES}")
    if (counts is not None) != (room > 0):
        raise ValueError("capture_count belongs to a state_update_capacity over 0")
    if counts is None:
        return 0, [0] * sequences
    if counts.shape != (sequences,):
        raise ValueError(f"capture_count of shape {list(counts.shape)} for {sequences} sequences")
    return room, np.clip(counts, 0, room).tolist()


@operator("VarlenCausalConvWithState", domain=_MS)
def varlen_causal_conv_with_state(
    node: OperatorNode,
    x: np.ndarray,
    weight: np.ndarray,
    ends: np.ndarray,
    bias: _Maybe,
    initial: np.ndarray,
    counts: _Maybe = None,
    delta: _Maybe = None,
    mask: _Maybe = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens [tokens, channels] convolved, each channel along its sequence; the last ones of each sequence,
    and the first ones.
    """
    if delta is not None or mask is not None:
        raise NotImplementedError("kernel_delta and previous_mask are for CUDA")
    activation, dilation = node.attributes.get("activation", "none"), node.attributes.get("dilation", 1)
    if activation not in ("none", "silu", "swish"):
        raise ValueError(f"the activation {activation!r} is none of none, silu and swish")
    if x.ndim != 2 or weight.ndim != 3 or weight.shape[:2] != (x.shape[1], 1) or not weight.shape[2]:
        raise ValueError(f"weight of shape {list(weight.shape)} does not fit input of {list(x.shape)}")
    if dilation < 1:
        raise ValueError(f"dilation is {dilation}, not 1 or more")
    channels, taps = x.shape[1], weight.shape[2]
    if bias is not None and bias.shape != (channels,):
        raise ValueError(f"bias of shape {list(bias.shape)} for {channels} channels")
    sequences = _sequences(ends, len(x), "cumulative_sequence_length")
    before = (taps - 1) * dilation
    if initial.shape != (len(sequences), channels, before):
        raise ValueError(
            f"initial_state must have shape {[len(sequences), channels, before]}, got {list(initial.shape)}"
        )
    room, captured = _captured(node, counts, len(sequences))
    y = np.zeros(x.shape, np.float32)
    final = np.empty_like(initial)
    first = np.zeros((len(sequences), room, channels), x.dtype)
    for at, tokens in enumerate(sequences):
        line = np.concatenate([initial[at].T, x[tokens]])
        length = tokens.stop - tokens.start
        for tap in range(taps):
            seen = line[tap * dilation : tap * dilation + length].astype(np.float32)
            y[tokens] += seen * weight[:, 0, tap].astype(np.float32)
        final[at] = line[length:].T
        kept = min(captured[at], length)
        first[at, :kept] = x[tokens][:kept]
    if bias is not None:
        y += bias.astype(np.float32)
    if activation != "none":
        y = y / (1 + np.exp(-y))
    return y.astype(x.dtype), final, first


class _Tokens:
    """Queries, keys and values in float32, [tokens, heads, channels], and what they are written as."""

    def __init__(self, query: np.ndarray, key: _Maybe, value: _Maybe, initial: _Maybe) -> None:
        if (key is None) != (value is None):
            raise ValueError("key and value are both there, or both packed with the query")
        if key is None or value is None:
            query, key, value = _unpacked(query, initial)
        if query.ndim not in (3, 4) or not query.ndim == key.ndim == value.ndim:
            raise ValueError(
                f"query, key and value of shapes {list(query.shape)}, {list(key.shape)} and "
                f"{list(value.shape)} are not all of rank 3, or of rank 4"
            )
        (self.heads, self.size), self.shape = query.shape[-2:], query.shape[:-2]
        self.value_heads, self.value_size = value.shape[-2:]
        if key.shape != query.shape or value.shape[:-2] != self.shape:
            raise ValueError(
                f"key and value of shapes {list(key.shape)} and {list(value.shape)} do not fit a query of "
                f"{list(query.shape)}"
            )
        if not self.heads or not self.value_heads or self.value_heads % self.heads:
            raise ValueError(f"{self.value_heads} heads of values for {self.heads} of queries")
        self.count = math.prod(self.shape)
        self.q, self.k, self.v = (
            tensor.reshape(self.count, *tensor.shape[-2:]).astype(np.float32)
            for tensor in (query, key, value)
        )

    def sequences(self, ends: _Maybe, initial: _Maybe) -> list[slice]:
        """The tokens of each; without ``ends`` all are as long."""
        if ends is not None:
            if len(self.shape) > 1:
                raise ValueError("cu_seqlens is for tokens in a row")
            return _sequences(ends, self.count, "cu_seqlens")
        if len(self.shape) > 1:
            batch = self.shape[0]
        elif initial is not None and initial.ndim:
            batch = len(initial)
        else:
            raise ValueError("without cu_seqlens and initial_state nothing says how many sequences there are")
        if not batch or self.count % batch:
            raise ValueError(f"{self.count} tokens in {batch} sequences of one length")
        length = self.count // batch
        return [slice(at * length, (at + 1) * length) for at in range(batch)]

    def gate(self, tensor: np.ndarray, name: str, *, of_each_key: bool = False) -> np.ndarray:
        """A number for each head of values, or each of its keys, [tokens, heads] with an axis more or not."""
        shapes = [(*self.shape, self.value_heads)]
        if of_each_key:
            shapes.append((*shapes[0], self.size))
        if tensor.shape not in shapes:
            raise ValueError(f"{name} of shape {list(tensor.shape)} is not of {list(shapes[0])}")
        return tensor.reshape(self.count, *tensor.shape[len(self.shape) :]).astype(np.float32)


def _unpacked(query: np.ndarray, initial: _Maybe) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if initial is None or initial.ndim != 4:
        raise ValueError("initial_state of rank 4 must say what heads a packed query has")
    heads, value_size, size = initial.shape[1:]
    rest = query.shape[-1] - heads * value_size if query.ndim else -1
    if query.ndim not in (2, 3) or rest <= 0 or not size or not value_size or rest % (2 * size):
        raise ValueError(f"a packed query of shape {list(query.shape)} for a state of {list(initial.shape)}")
    parts = np.split(query, [rest // 2, rest], axis=-1)
    return tuple(  # type: ignore[return-value]  # three of them
        part.reshape(*query.shape[:-1], part.shape[-1] // width, width)
        for part, width in zip(parts, (size, size, value_size), strict=True)
    )


def _normed(x: np.ndarray, epsilon: float) -> np.ndarray:
    return np.asarray(x / np.sqrt((x * x).sum(axis=-1, keepdims=True) + np.float32(epsilon)))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


_RULES = {
    "linear": (False, False),
    "gated": (True, False),
    "delta": (False, True),
    "gated_delta": (True, True),
}
"""Whether a rule fades the state, and whether it corrects it."""
_GATES = {"none": "none", "softplus": "softplus", "qwen": "softplus", "sigmoid": "sigmoid", "kda": "sigmoid"}


def _faded(node: OperatorNode, of: _Tokens, decay: np.ndarray, a_log: _Maybe, bias: _Maybe) -> np.ndarray:
    """The factors [tokens, heads, 1 or keys] of states."""
    x = of.gate(decay, "decay", of_each_key=True)
    kind = _GATES[node.attributes.get("gate_activation", "none")]
    if kind != "none":
        if a_log is None or bias is None:
            raise ValueError("gate_activation needs a_log and dt_bias")
        heads = (of.value_heads,)
        if a_log.shape != heads:
            raise ValueError(f"a_log of shape {list(a_log.shape)} for {of.value_heads} heads")
        size = of.value_heads * of.size
        if x.ndim == 3 and bias.shape in ((size,), (*heads, of.size)) and bias.shape != heads:
            added = bias.reshape(*heads, of.size)
        elif bias.shape == heads:
            added = bias.reshape(*heads, *[1] * (x.ndim - 2))
        else:
            raise ValueError(
                f"dt_bias of shape {list(bias.shape)} does not fit a decay of {list(decay.shape)}"
            )
        rate = np.exp(a_log).reshape(*heads, *[1] * (x.ndim - 2))
        if kind == "softplus":
            x = -rate * _softplus(x + added)
        else:
            x = np.float32(node.attributes.get("gate_lower_bound", -5.0)) / (1 + np.exp(-rate * (x + added)))
    return np.asarray(np.exp(x if x.ndim == 3 else x[..., None]))


@operator("GatedDeltaNet", domain=_MS)
def gated_delta_net(
    node: OperatorNode,
    query: np.ndarray,
    key: _Maybe = None,
    value: _Maybe = None,
    ends: _Maybe = None,
    decay: _Maybe = None,
    beta: _Maybe = None,
    initial: _Maybe = None,
    a_log: _Maybe = None,
    bias: _Maybe = None,
    counts: _Maybe = None,
    active: _Maybe = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What queries read of states [heads, values, keys], to which each token's key and value are added; the
    last states of each sequence; and what its first tokens changed: factors, keys, and values.
    """
    rule = node.attributes.get("update_rule", "gated_delta")
    gate, rate = (node.attributes.get(f"{of}_activation", "none") for of in ("gate", "beta"))
    if rule not in _RULES or gate not in _GATES or rate not in ("none", "sigmoid"):
        raise ValueError(
            f"update_rule {rule!r}, gate_activation {gate!r}, beta_activation {rate!r}: one is unknown"
        )
    if not node.attributes.get("gate_lower_bound", -5.0) < 0:
        raise ValueError("gate_lower_bound must be below 0")
    fades, corrects = _RULES[rule]
    if (decay is not None) != fades or (beta is not None) != corrects:
        raise ValueError(
            f"the rule {rule} takes {'a' if fades else 'no'} decay and {'a' if corrects else 'no'} beta"
        )
    if gate == "none" and (a_log is not None or bias is not None):
        raise ValueError("a_log and dt_bias belong to a gate_activation")
    of = _Tokens(query, key, value, initial)
    sequences = of.sequences(ends, initial)
    state_shape = (len(sequences), of.value_heads, of.value_size, of.size)
    if initial is not None and initial.shape != state_shape:
        raise ValueError(f"initial_state must have shape {list(state_shape)}, got {list(initial.shape)}")
    room, captured = _captured(node, counts, len(sequences))
    if active is not None and active.shape != (1,):
        raise ValueError(f"state_update_active must have shape [1], got {list(active.shape)}")
    if active is not None and not active[0]:
        captured = [0] * len(sequences)
    q, k = of.q, of.k
    if node.attributes.get("qk_l2_norm", 0):
        epsilon = 1e-6 if _GATES[gate] == "sigmoid" else 1e-12  # as onnxruntime has it
        q, k = _normed(q, epsilon), _normed(k, epsilon)
    q = q * np.float32(node.attributes.get("scale", 0.0) or 1 / np.sqrt(max(of.size, 1)))
    group = of.value_heads // of.heads
    wide_q, wide_k = np.repeat(q, group, axis=1), np.repeat(k, group, axis=1)
    factors = np.ones((of.count, of.value_heads, 1), np.float32)
    if decay is not None:
        factors = _faded(node, of, decay, a_log, bias)
    rates = None if beta is None else of.gate(beta, "beta")
    if rates is not None and rate == "sigmoid":
        rates = 1 / (1 + np.exp(-rates))
    y = np.empty(of.v.shape, np.float32)
    deltas = np.empty(of.v.shape, np.float32)
    states = np.zeros(state_shape, np.float32) if initial is None else initial.astype(np.float32)
    for state, tokens in zip(states, sequences, strict=True):
        for at in range(tokens.start, tokens.stop):
            state *= factors[at][:, None, :]
            delta = of.v[at]
            if rates is not None:
                delta = rates[at][:, None] * (delta - (state @ wide_k[at][..., None])[..., 0])
            state += delta[..., None] * wide_k[at][:, None, :]
            y[at] = (state @ wide_q[at][..., None])[..., 0]
            deltas[at] = delta
    updates = []
    for part in (factors, k, deltas):
        made = np.zeros((len(sequences), room, *part.shape[1:]), np.float32)
        for at, (tokens, count) in enumerate(zip(sequences, captured, strict=True)):
            kept = part[tokens][:count]
            made[at, : len(kept)] = kept
        updates.append(made.reshape(len(sequences), room * math.prod(part.shape[1:])))
    return (
        y.reshape(*of.shape, of.value_heads, of.value_size).astype(query.dtype),
        states,
        np.concatenate(updates, axis=1),
    )
