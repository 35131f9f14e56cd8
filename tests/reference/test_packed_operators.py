"""Operators of onnxruntime 1.32's CPU over tokens of several sequences, packed rows and groups of experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from ephost.reference.ops.packed_rows import _FORMATS
from onnx import TensorProto, helper

ort = pytest.importorskip("onnxruntime")
FLOAT, INT, LONG = np.float32, np.int32, np.int64
Random = np.random.Generator
Inputs = list[np.ndarray | None]
Node = tuple[Inputs, dict[str, Any], list[bool]]  # inputs, attributes, which outputs are wanted
KINDS = {TensorProto.FLOAT: 1e-4, TensorProto.FLOAT16: 4e-3, TensorProto.BFLOAT16: 3e-2}


def normal(r: Random, *shape: int) -> np.ndarray:
    return r.normal(size=shape).astype(FLOAT)


def model(
    op_type: str, case: Node, halves: dict[int, int], made: dict[int, int] | None = None
) -> onnx.ModelProto:
    """Inputs named in ``halves`` become values of these types first, and outputs in ``made`` are of these."""
    inputs, attributes, wanted = case
    while inputs[-1] is None:
        inputs = inputs[:-1]
    names = ["" if x is None else f"i{at}" for at, x in enumerate(inputs)]
    outputs = [f"o{at}" if there else "" for at, there in enumerate(wanted)]
    node = helper.make_node(op_type, names, outputs, "n", domain="com.microsoft", **attributes)
    infos, casts = [], []
    for at, x in enumerate(inputs):
        if x is not None:
            name = f"w{at}" if at in halves else f"i{at}"
            kind = helper.np_dtype_to_tensor_dtype(x.dtype)
            infos.append(helper.make_tensor_value_info(name, kind, x.shape))
            if at in halves:
                casts.append(helper.make_node("Cast", [name], [f"i{at}"], to=halves[at]))
    results = []
    for name in filter(None, outputs):
        casts.append(helper.make_node("Cast", [name], [f"{name}w"], to=TensorProto.FLOAT))
        results.append(helper.make_tensor_value_info(f"{name}w", TensorProto.FLOAT, None))
    casts = [cast for cast in casts if cast.input[0] not in outputs] + [
        node,
        *(cast for cast in casts if cast.input[0] in outputs),
    ]
    known = [
        helper.make_tensor_value_info(f"o{at}", kind, None)
        for at, kind in (made or {}).items()
        if f"o{at}" in outputs
    ]
    graph = helper.make_graph(casts, "g", infos, results, value_info=known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def fed(case: Node, halves: dict[int, int]) -> dict[str, np.ndarray]:
    return {f"w{at}" if at in halves else f"i{at}": x for at, x in enumerate(case[0]) if x is not None}


def has_kernel(op_type: str) -> bool:
    from onnxruntime.capi import onnxruntime_pybind11_state as bound

    return any(k.op_name == op_type and k.domain == "com.microsoft" for k in bound.get_all_opkernel_def())


def both(op_type: str, case: Node, halves: dict[int, int]) -> list[tuple[np.ndarray, np.ndarray]]:
    if not has_kernel(op_type):
        pytest.skip(f"onnxruntime {ort.__version__} has no {op_type} for the CPU")
    made, feeds = model(op_type, case, halves).SerializeToString(), fed(case, halves)
    session = ephost.InferenceSession(made)
    ours = session.run(None, feeds)
    theirs = ort.InferenceSession(made, providers=["CPUExecutionProvider"]).run(None, feeds)
    # What is known before a run holds.
    for output, value in zip(session.get_outputs(), ours, strict=True):
        assert len(output.shape) == value.ndim
        assert all(size in (None, seen) for size, seen in zip(output.shape, value.shape, strict=True))
    return list(zip(ours, theirs, strict=True))


def one_of(r: Random, *choices: Any) -> Any:
    return choices[r.integers(len(choices))]


# ---- MoEGroupRouter


def router(r: Random) -> tuple[Node, tuple[int, ...]]:
    groups, each = int(r.integers(1, 5)), int(r.integers(1, 6))
    experts, leading = groups * each, [int(size) for size in r.integers(1, 4, r.integers(1, 3))]
    attributes: dict[str, Any] = {"top_k": int(r.integers(1, experts + 1))}
    whole, projected = r.random() < 0.3, r.random() < 0.5
    if not whole:
        attributes |= {"n_group": groups, "topk_group": int(r.integers(1, groups + 1))}
    if r.random() < 0.5:
        attributes["group_topk"] = int(r.integers(1, each + 2))
    if r.random() < 0.3:
        attributes["router_sentinel"] = -7.5
    bias = normal(r, experts)
    if whole and projected:
        inputs: Inputs = [normal(r, leading[0], 256) / 10, bias, normal(r, experts, 256) / 3]
    else:
        inputs = [normal(r, *leading, experts), bias]
    return (inputs, attributes, [False, True, True] if whole else [True]), (0, 2)


# ---- VarlenCausalConvWithState


def ends_of(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(INT)


def convolution(r: Random) -> tuple[Node, tuple[int, ...]]:
    batch, channels, taps, dilation = (int(r.integers(1, most)) for most in (4, 20, 5, 4))
    lengths = r.integers(0, 6, batch)
    lengths[0] += batch  # onnxruntime wants a token of each sequence, on average
    attributes: dict[str, Any] = {"activation": one_of(r, "none", "silu", "swish")}
    if dilation > 1:
        attributes["dilation"] = dilation
    total, wanted = int(lengths.sum()), [True, True]
    bias = normal(r, channels) if r.random() < 0.5 else None
    inputs: Inputs = [normal(r, total, channels), normal(r, channels, 1, taps), ends_of(lengths), bias]
    inputs.append(normal(r, batch, channels, (taps - 1) * dilation))
    if r.random() < 0.5:
        attributes["state_update_capacity"] = int(r.integers(1, 5))
        inputs.append(r.integers(-1, 7, batch).astype(INT))
        wanted.append(True)
    return (inputs, attributes, wanted), (0, 1, 3, 4)


# ---- GatedDeltaNet


def delta_net(r: Random) -> tuple[Node, tuple[int, ...]]:
    batch, heads, share, size, value_size = (int(r.integers(1, most)) for most in (4, 4, 4, 9, 9))
    value_heads, form = heads * share, one_of(r, "ends", "uniform", "rank 4", "packed")
    lengths = r.integers(0, 6, batch) if form == "ends" else np.full(batch, r.integers(1, 6))
    lengths[0] += form == "ends"
    leading = (batch, int(lengths[0])) if form == "rank 4" else (int(lengths.sum()),)
    rule = one_of(r, "linear", "gated", "delta", "gated_delta")
    attributes: dict[str, Any] = {"update_rule": rule}
    if r.random() < 0.5:
        attributes["qk_l2_norm"] = 1
    if r.random() < 0.3:
        attributes["scale"] = 0.7
    q, k, v = (
        normal(r, *leading, heads, size),
        normal(r, *leading, heads, size) / 3,
        normal(r, *leading, value_heads, value_size),
    )
    inputs: Inputs = [q, k, v, ends_of(lengths) if form == "ends" else None, *[None] * 7]
    if form == "packed":
        inputs[:3] = [np.concatenate([x.reshape(*leading, -1) for x in (q, k, v)], axis=-1), None, None]
    of_each_key = r.random() < 0.5
    if "gated" in rule:
        inputs[4] = -np.abs(normal(r, *leading, value_heads, *([size] if of_each_key else [])))
        gate = one_of(r, "none", "softplus", "qwen", "sigmoid", "kda")
        attributes["gate_activation"] = gate
        if gate != "none":
            shapes = [(value_heads,), (value_heads * size,), (value_heads, size)]
            inputs[7] = normal(r, value_heads)
            inputs[8] = normal(r, *one_of(r, *(shapes if of_each_key else shapes[:1])))
        if r.random() < 0.2:
            attributes["gate_lower_bound"] = -2.0
    if "delta" in rule:
        inputs[5] = np.abs(normal(r, *leading, value_heads)) / 2
        attributes["beta_activation"] = one_of(r, "none", "sigmoid")
    if form in ("uniform", "packed") or r.random() < 0.6:
        inputs[6] = normal(r, batch, value_heads, value_size, size)
    wanted = [True, True]
    if r.random() < 0.5:
        attributes["state_update_capacity"] = int(r.integers(1, 4))
        # Of others than these onnxruntime says that they are anything.
        inputs[9] = np.full(batch, 9, INT)
        if lengths.min() < attributes["state_update_capacity"] or r.random() < 0.4:
            inputs[10] = np.zeros(1, INT)
        wanted.append(True)
    return (inputs, attributes, wanted), (0, 1, 2)


CASES: dict[str, Callable[[Random], tuple[Node, tuple[int, ...]]]] = {
    "MoEGroupRouter": router,
    "VarlenCausalConvWithState": convolution,
    "GatedDeltaNet": delta_net,
}


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("op_type", CASES)
def test_results_are_those_of_onnxruntime(op_type: str, seed: int) -> None:
    r = np.random.default_rng(seed)
    case, typed = CASES[op_type](r)
    kind = list(KINDS)[seed % 3]
    halves = {at: kind for at in typed if kind != TensorProto.FLOAT and at < len(case[0])}
    halves = {at: kind for at in halves if case[0][at] is not None}
    if halves and op_type == "GatedDeltaNet" and r.random() < 0.5:  # gates in float32, or as queries
        halves |= {at: kind for at in (4, 5) if case[0][at] is not None}
    for ours, theirs in both(op_type, case, halves):
        np.testing.assert_allclose(ours, theirs, rtol=KINDS[kind], atol=KINDS[kind] / 3)


# ---- GatherPacked

SCALES = {"Q5_K": [0, 2], "Q6_K": [208], "F32": [], "F16": [], "BF16": []}  # else at 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", _FORMATS)
def test_packed_rows_are_those_of_onnxruntime(number: int, kind: int) -> None:
    """All bytes but scales at random, bit by bit."""
    form, r = _FORMATS[number], np.random.default_rng(number)
    blocks = r.integers(0, 256, (4, 3, form.size), np.uint8)
    for at in SCALES.get(form.name, [0]):
        blocks[..., at : at + 2] = normal(r, 4, 3, 1).astype(np.float16).view(np.uint8)
    if form.name == "F32":
        blocks = normal(r, 4, 3, 1).view(np.uint8)
    for indices in (np.array([[3, -1, 0], [4, 1, 2]], LONG), np.array(2, INT), np.zeros((0, 2), INT)):
        attributes = {"packed_type": number, "K": 3 * form.elements, "output_dtype": kind}
        for ours, theirs in both("GatherPacked", ([blocks.reshape(4, -1), indices], attributes, [True]), {}):
            np.testing.assert_array_equal(ours, theirs)


# ---- By themselves


def run(op_type: str, inputs: Inputs, attributes: dict[str, Any], outputs: int) -> list[np.ndarray]:
    case: Node = (inputs, attributes, [True] * outputs)
    return ephost.InferenceSession(model(op_type, case, {}).SerializeToString()).run(None, fed(case, {}))


@pytest.mark.parametrize("op_type", ["GatedDeltaNet", "VarlenCausalConvWithState"])
def test_sequences_side_by_side_are_as_alone_and_without_tokens_keep_their_state(op_type: str) -> None:
    r, lengths = np.random.default_rng(3), [3, 0, 4]
    states = normal(r, 3, 4, 5, 6) if op_type == "GatedDeltaNet" else normal(r, 3, 8, 2)
    tokens: Inputs = [normal(r, 7, 8), normal(r, 8, 1, 3)]
    if op_type == "GatedDeltaNet":
        tokens = [normal(r, 7, 2, 6), normal(r, 7, 2, 6) / 3, normal(r, 7, 4, 5)]
        gates: Inputs = [-np.abs(normal(r, 7, 4)), np.abs(normal(r, 7, 4)) / 2]

    def of(which: list[int]) -> list[np.ndarray]:
        at = np.concatenate(
            [np.arange(3) + 0 if i == 0 else np.arange(4) + 3 for i in which if i != 1] or [[]]
        )
        ends = ends_of(np.array([lengths[i] for i in which]))
        cut = lambda x: x[at.astype(int)]  # noqa: E731
        if op_type == "GatedDeltaNet":
            inputs: Inputs = [*map(cut, tokens), ends, *map(cut, gates), states[which]]
        else:
            inputs = [cut(tokens[0]), tokens[1], ends, None, states[which]]
        return run(op_type, inputs, {}, 2)

    y, final = of([0, 1, 2])
    np.testing.assert_array_equal(final[1], states[1])
    for place, alone in ((slice(0, 3), 0), (slice(3, 7), 2)):
        one, last = of([alone])
        np.testing.assert_allclose(y[place], one, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(final[[alone]], last, rtol=1e-5, atol=1e-6)
    nothing, kept = of([1])
    assert nothing.shape == (0, *y.shape[1:])
    np.testing.assert_array_equal(kept, states[[1]])


def test_updates_replay_the_state() -> None:
    r = np.random.default_rng(4)
    inputs: Inputs = [normal(r, 3, 1, 4), normal(r, 3, 1, 4), normal(r, 3, 2, 5), ends_of(np.array([3]))]
    inputs += [-np.abs(normal(r, 3, 2)), np.abs(normal(r, 3, 2)), normal(r, 1, 2, 5, 4)]
    inputs += [None, None, np.array([3], INT)]
    attributes = {"qk_l2_norm": 1, "state_update_capacity": 4}
    _, final, update = run("GatedDeltaNet", inputs, attributes, 3)
    factors, keys, deltas = np.split(update[0], np.cumsum([4 * 2, 4 * 4]))
    state = inputs[6][0].copy()  # type: ignore[index]
    for t in range(3):
        state = state * factors.reshape(4, 2)[t][:, None, None]
        state = state + deltas.reshape(4, 2, 5)[t][..., None] * keys.reshape(4, 4)[t]
    np.testing.assert_allclose(state, final[0], rtol=1e-5, atol=1e-6)
    assert not factors.reshape(4, 2)[3].any()


@pytest.mark.parametrize(
    ("op_type", "change", "said"),
    [
        ("GatedDeltaNet", {3: np.array([0, 2], INT)}, r"cu_seqlens must grow from 0 to 3, got \[0, 2\]"),
        ("GatedDeltaNet", {3: np.array([0, 4, 3], INT)}, r"cu_seqlens must grow from 0 to 3"),
        ("GatedDeltaNet", {4: None}, "the rule gated_delta takes a decay and a beta"),
        ("GatedDeltaNet", {4: np.zeros((3, 3), FLOAT)}, r"decay of shape \[3, 3\] is not of \[3, 2\]"),
        ("GatedDeltaNet", {5: np.zeros((3, 1), FLOAT)}, r"beta of shape \[3, 1\] is not of \[3, 2\]"),
        (
            "GatedDeltaNet",
            {6: np.zeros((1, 2, 4, 5), FLOAT)},
            r"initial_state must have shape \[1, 2, 5, 4\]",
        ),
        ("GatedDeltaNet", {2: np.zeros((3, 0, 5), FLOAT)}, "0 heads of values for 1 of queries"),
        ("GatedDeltaNet", {1: None}, "key and value are both there"),
        ("GatedDeltaNet", {3: None, 6: None}, "nothing says how many sequences there are"),
        ("GatedDeltaNet", {7: np.zeros(2, FLOAT)}, "a_log and dt_bias belong to a gate_activation"),
        ("GatedDeltaNet", {9: np.zeros(1, INT)}, "capture_count belongs to a state_update_capacity"),
        ("GatedDeltaNet", {"update_rule": "other"}, "'other'"),
        ("GatedDeltaNet", {"gate_activation": "softplus"}, "gate_activation needs a_log and dt_bias"),
        ("GatedDeltaNet", {"gate_lower_bound": 1.0}, "gate_lower_bound must be below 0"),
        ("GatedDeltaNet", {"state_update_capacity": 1 << 40}, "not from 0 to 8"),
        ("VarlenCausalConvWithState", {2: np.array([0, 1, 4], INT)}, "must grow from 0 to 3"),
        ("VarlenCausalConvWithState", {4: np.zeros((1, 4, 3), FLOAT)}, r"must have shape \[1, 4, 2\]"),
        ("VarlenCausalConvWithState", {1: np.zeros((4, 1, 0), FLOAT)}, "does not fit input"),
        ("VarlenCausalConvWithState", {"dilation": 1 << 60}, "initial_state must have shape"),
        ("VarlenCausalConvWithState", {"dilation": 0}, "dilation is 0"),
        ("VarlenCausalConvWithState", {"activation": "relu"}, "activation 'relu'"),
        (
            "VarlenCausalConvWithState",
            {6: np.zeros((3, 2, 4), FLOAT), 7: np.zeros((3, 1), FLOAT)},
            "are for CUDA",
        ),
        ("MoEGroupRouter", {1: np.zeros(5, FLOAT)}, r"expert_bias of shape \[5\] for 4 experts"),
        ("MoEGroupRouter", {"n_group": 3}, "topk_group 1 of n_group 3"),
        ("MoEGroupRouter", {"top_k": 5}, "top_k 5 of 4 experts"),
        ("MoEGroupRouter", {"group_topk": 0}, "must be over 0"),
        ("MoEGroupRouter", {2: np.zeros((4, 3), FLOAT)}, r"projection_weight of shape \[4, 3\]"),
        ("GatherPacked", {"packed_type": 12}, r"packed_type is 12, known are 0 \(F32\)"),
        ("GatherPacked", {"K": 33}, "blocks of Q8_0 have 32 elements"),
        ("GatherPacked", {"K": 1 << 62}, "does not have rows of"),
        ("GatherPacked", {"output_dtype": 7}, "output_dtype is 7"),
        ("GatherPacked", {0: np.zeros((0, 34), np.uint8)}, "no rows to look up"),
        ("GatherPacked", {0: np.zeros((1, 2, 34), np.uint8)}, "does not have rows of 34 bytes"),
    ],
)
def test_what_does_not_fit_is_refused(op_type: str, change: dict[Any, Any], said: str) -> None:
    inputs: Inputs
    attributes: dict[str, Any] = {}
    if op_type == "GatedDeltaNet":
        inputs = [np.ones((3, 1, 4), FLOAT), np.ones((3, 1, 4), FLOAT), np.ones((3, 2, 5), FLOAT)]
        inputs += [np.array([0, 3], INT), np.zeros((3, 2), FLOAT), np.ones((3, 2), FLOAT)]
        inputs += [np.zeros((1, 2, 5, 4), FLOAT), None, None, None]
    elif op_type == "VarlenCausalConvWithState":
        inputs = [np.ones((3, 4), FLOAT), np.ones((4, 1, 3), FLOAT), np.array([0, 3], INT), None]
        inputs += [np.ones((1, 4, 2), FLOAT), None, None, None]
    elif op_type == "MoEGroupRouter":
        inputs, attributes = [np.ones((2, 4), FLOAT), np.zeros(4, FLOAT), None], {"top_k": 2}
    else:
        inputs, attributes = [np.ones((2, 34), np.uint8), np.zeros(2, LONG)], {"packed_type": 8, "K": 32}
        attributes["output_dtype"] = TensorProto.FLOAT
    for at, value in change.items():
        if isinstance(at, int):
            inputs[at] = value
        else:
            attributes[at] = value
    with pytest.raises(Exception, match=f"'n'.*{said}"):
        run(op_type, inputs, attributes, 1 if op_type in ("MoEGroupRouter", "GatherPacked") else 2)
