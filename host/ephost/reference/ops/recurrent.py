"""RNN, GRU and LSTM: the package's ignore `sequence_lens`, `clip`, `activations` and `input_forget`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..token_scores import softmax
from .registry import OperatorNode, operator
from .windows import compute_dtype

Activation = Callable[[np.ndarray], np.ndarray]
Step = Callable[[np.ndarray, tuple[np.ndarray, ...]], tuple[np.ndarray, ...]]
"""One time step: the inputs' share of all gates [batch, gates * hidden] and the state give the next state."""


def _activation(name: str, alpha: float | None, beta: float | None) -> Activation:
    a = {
        "affine": 1.0,
        "leakyrelu": 0.01,
        "thresholdedrelu": 1.0,
        "scaledtanh": 1.0,
        "hardsigmoid": 0.2,
        "elu": 1.0,
    }
    b = {"scaledtanh": 1.0, "hardsigmoid": 0.5}
    key = name.lower()
    p = a.get(key, 0.0) if alpha is None else alpha
    q = b.get(key, 0.0) if beta is None else beta
    table: dict[str, Activation] = {
        "relu": lambda x: np.maximum(x, 0),
        "tanh": np.tanh,
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "affine": lambda x: p * x + q,
        "leakyrelu": lambda x: np.where(x < 0, p * x, x),
        "thresholdedrelu": lambda x: np.where(x > p, x, 0),
        "scaledtanh": lambda x: p * np.tanh(q * x),
        "hardsigmoid": lambda x: np.clip(p * x + q, 0, 1),
        "elu": lambda x: np.where(x < 0, p * np.expm1(x), x),
        "softsign": lambda x: x / (1 + np.abs(x)),
        "softplus": lambda x: np.log1p(np.exp(x)),
    }
    if key not in table:
        raise NotImplementedError(f"activation {name!r}")
    return table[key]


def _activations(node: OperatorNode, defaults: Sequence[str], directions: int) -> list[Activation]:
    """The functions with their parameters, those of the second direction after those of the first."""
    needed = len(defaults) * directions
    # The schema's own default for RNN is a list for two directions.
    names = (node.attributes.get("activations") or list(defaults) * directions)[:needed]
    alphas, betas = (list(node.attributes.get(f"activation_{kind}") or []) for kind in ("alpha", "beta"))
    # A list of parameters may end early; what is missing has the function's default.
    alphas += [None] * (len(names) - len(alphas))
    betas += [None] * (len(names) - len(betas))
    clip = node.attributes.get("clip")
    chosen = [_activation(*entry) for entry in zip(names, alphas, betas, strict=False)]
    if len(chosen) != needed:
        raise ValueError(f"{len(chosen)} activations where {needed} are needed")
    if clip is None:
        return chosen
    return [lambda x, function=function: function(np.clip(x, -clip, clip)) for function in chosen]  # type: ignore[misc]


def _scan(
    x: np.ndarray, lengths: np.ndarray, state: tuple[np.ndarray, ...], step: Step, reverse: bool
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Steps over x [time, batch, ...]; a sequence that has ended keeps its state, and its output is 0.

    In reverse each sequence is read from its own end.
    """
    outputs = np.zeros((*x.shape[:2], state[0].shape[-1]), state[0].dtype)
    times = range(len(x) - 1, -1, -1) if reverse else range(len(x))
    for time in times:
        running = (time < lengths)[:, None]
        state = tuple(
            np.where(running, new, old) for new, old in zip(step(x[time], state), state, strict=True)
        )
        outputs[time] = np.where(running, state[0], 0)
    return outputs, state


def _run(
    node: OperatorNode,
    x: np.ndarray,
    w: np.ndarray,
    lengths: np.ndarray | None,
    initial: Sequence[np.ndarray | None],
    make_step: Callable[[int], tuple[np.ndarray, Step]],
) -> tuple[np.ndarray, ...]:
    """All directions: Y, then the last value of each state; `make_step` gives bias and step."""
    hidden = node.attributes.get("hidden_size") or make_step(0)[0].shape[-1]
    batch_first = bool(node.attributes.get("layout"))
    dtype = compute_dtype(x.dtype)
    sequence = (x.swapaxes(0, 1) if batch_first else x).astype(dtype)
    batch = sequence.shape[1]
    if lengths is None:
        lengths = np.full(batch, len(sequence))
    direction = node.attributes.get("direction", "forward")
    outputs, finals = [], []
    for index in range(len(w)):
        state = tuple(
            np.zeros((batch, hidden), dtype)
            if value is None
            else (value[:, index] if batch_first else value[index]).astype(dtype)
            for value in initial
        )
        bias, step = make_step(index)
        gates = sequence @ w[index].T.astype(dtype) + bias
        reverse = direction == "reverse" or index == 1
        output, state = _scan(gates, lengths, state, step, reverse)
        outputs.append(output)
        finals.append(state)
    y = np.stack(outputs, axis=2 if batch_first else 1)
    y = y.swapaxes(0, 1) if batch_first else y
    last = [np.stack(values, axis=1 if batch_first else 0) for values in zip(*finals, strict=True)]
    return tuple(np.ascontiguousarray(value.astype(x.dtype)) for value in (y, *last))


def _biases(bias: np.ndarray | None, index: int, gates: int, hidden: int) -> tuple[np.ndarray, np.ndarray]:
    """A direction's biases for the input and for the state, each [gates * hidden]."""
    if bias is None:
        return np.zeros(gates * hidden, np.float32), np.zeros(gates * hidden, np.float32)
    return bias[index, : gates * hidden], bias[index, gates * hidden :]


@operator("RNN", since=7)
def rnn(
    node: OperatorNode,
    x: np.ndarray,
    w: np.ndarray,
    r: np.ndarray,
    bias: np.ndarray | None = None,
    lengths: np.ndarray | None = None,
    initial_h: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    """x [time, batch, input], w [directions, hidden, input], r [directions, hidden, hidden]: Y and Y_h."""
    hidden = r.shape[-1]
    functions = _activations(node, ["Tanh"], len(w))

    def make_step(index: int) -> tuple[np.ndarray, Step]:
        bias_x, bias_h = _biases(bias, index, 1, hidden)
        function = functions[index]
        return bias_x + bias_h, lambda gates, state: (function(gates + state[0] @ r[index].T),)

    return _run(node, x, w, lengths, [initial_h], make_step)


@operator("GRU", since=7)
def gru(
    node: OperatorNode,
    x: np.ndarray,
    w: np.ndarray,
    r: np.ndarray,
    bias: np.ndarray | None = None,
    lengths: np.ndarray | None = None,
    initial_h: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    """As RNN, with the gates update, reset and hidden (z, r, h) in w, r and the biases."""
    hidden = r.shape[-1]
    functions = _activations(node, ["Sigmoid", "Tanh"], len(w))
    after_reset = bool(node.attributes.get("linear_before_reset"))

    def make_step(index: int) -> tuple[np.ndarray, Step]:
        gate, candidate = functions[2 * index : 2 * index + 2]
        bias_x, bias_h = _biases(bias, index, 3, hidden)
        weights = r[index].T
        bias_zr, bias_c = bias_h[: 2 * hidden], bias_h[2 * hidden :]

        def step(gates: np.ndarray, state: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
            (h,) = state
            opened = gate(gates[:, : 2 * hidden] + h @ weights[:, : 2 * hidden] + bias_zr)
            update, reset = opened[:, :hidden], opened[:, hidden:]
            if after_reset:
                inner = reset * (h @ weights[:, 2 * hidden :] + bias_c)
            else:
                inner = (reset * h) @ weights[:, 2 * hidden :] + bias_c
            return ((1 - update) * candidate(gates[:, 2 * hidden :] + inner) + update * h,)

        return bias_x, step

    return _run(node, x, w, lengths, [initial_h], make_step)


@operator("LSTM", since=7)
def lstm(
    node: OperatorNode,
    x: np.ndarray,
    w: np.ndarray,
    r: np.ndarray,
    bias: np.ndarray | None = None,
    lengths: np.ndarray | None = None,
    initial_h: np.ndarray | None = None,
    initial_c: np.ndarray | None = None,
    peephole: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    """As RNN, with the gates input, output, forget and cell (i, o, f, c); gives Y, Y_h and Y_c."""
    make_step = _lstm_steps(node, r, bias, peephole)
    return _run(node, x, w, lengths, [initial_h, initial_c], make_step)


def _lstm_steps(
    node: OperatorNode, r: np.ndarray, bias: np.ndarray | None, peephole: np.ndarray | None
) -> Callable[[int], tuple[np.ndarray, Step]]:
    """Gives each direction's bias and step."""
    hidden = r.shape[-1]
    functions = _activations(node, ["Sigmoid", "Tanh", "Tanh"], len(r))
    coupled = bool(node.attributes.get("input_forget"))

    def make_step(index: int) -> tuple[np.ndarray, Step]:
        gate, candidate, output = functions[3 * index : 3 * index + 3]
        bias_x, bias_h = _biases(bias, index, 4, hidden)
        weights = r[index].T
        # Peepholes come in the order input, output, forget.
        peep_i, peep_o, peep_f = np.split(peephole[index], 3) if peephole is not None else (0, 0, 0)

        def step(gates: np.ndarray, state: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
            h, c = state
            i, o, f, new = np.split(gates + h @ weights, 4, axis=1)
            i = gate(i + peep_i * c)
            f = 1 - i if coupled else gate(f + peep_f * c)
            c = f * c + i * candidate(new)
            return gate(o + peep_o * c) * output(c), c

        return bias_x + bias_h, step

    return make_step


@operator("AttnLSTM", domain="com.microsoft")
def attention_lstm(
    node: OperatorNode,
    x: np.ndarray,
    w: np.ndarray,
    r: np.ndarray,
    bias: np.ndarray | None,
    lengths: np.ndarray | None,
    initial_h: np.ndarray | None,
    initial_c: np.ndarray | None,
    peephole: np.ndarray | None,
    query_weights: np.ndarray,
    memory_weights: np.ndarray,
    attention: np.ndarray,
    memory: np.ndarray,
    memory_lengths: np.ndarray | None = None,
    layer: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    """LSTM whose input at each step goes on with what it looked at in memory [batch, steps, depth] before."""
    directions, hidden, steps = len(w), r.shape[-1], memory.shape[1]
    fitting = {
        "W": (w, (directions, 4 * hidden, w.shape[-1])),
        "R": (r, (directions, 4 * hidden, hidden)),
        "B": (bias, (directions, 8 * hidden)),
        "sequence_lens": (lengths, (x.shape[1],)),
        "QW": (query_weights, (directions, hidden, query_weights.shape[-1])),
        "MW": (memory_weights, (directions, memory.shape[2], query_weights.shape[-1])),
        "M_seq_len": (memory_lengths, (len(memory),)),
    }
    for name, (given, wanted) in fitting.items():
        if given is not None and given.shape != wanted:
            raise ValueError(f"{name} has shape {list(given.shape)} in place of {list(wanted)}")
    for name, given, most in (("sequence_lens", lengths, len(x)), ("M_seq_len", memory_lengths, steps)):
        if given is not None and (wrong := given[(given < 1) | (given > most)]).size:
            raise ValueError(f"{name} has the entry {wrong[0]}: a length is from 1 to {most}")
    inside = np.arange(memory.shape[1]) < (
        np.full(len(memory), memory.shape[1]) if memory_lengths is None else memory_lengths
    ).reshape(-1, 1)
    values = np.where(inside[:, :, None], memory, 0)
    lstm_step = _lstm_steps(node, r, bias, peephole)

    def make_step(index: int) -> tuple[np.ndarray, Step]:
        offsets, step = lstm_step(index)
        keys = values @ memory_weights[index]  # [batch, steps, size]
        seen = w[index][:, x.shape[2] :].T

        def attending(gates: np.ndarray, state: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
            h, c = step(gates + state[2] @ seen, state[:2])
            scores = np.tanh(keys + (h @ query_weights[index])[:, None, :]) @ attention[index]
            shares = softmax(np.where(inside, scores, -np.inf))
            context = np.einsum("bs,bsd->bd", shares, values)
            looked = context if layer is None else np.concatenate([h, context], axis=1) @ layer[index]
            return h, c, looked

        return offsets, attending

    size = w.shape[2] - x.shape[2]
    before = np.zeros((len(w), x.shape[1], size), x.dtype)
    return _run(node, x, w[:, :, : x.shape[2]], lengths, [initial_h, initial_c, before], make_step)[:3]
