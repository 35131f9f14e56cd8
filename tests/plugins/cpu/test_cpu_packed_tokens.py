"""com.microsoft's GatedDeltaNet and VarlenCausalConvWithState: sequences that lie one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from ephost.errors import Fail, InvalidArgument
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model

INT = np.int32
Feeds = dict[str, np.ndarray]


def _made(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) / 2).astype(np.float32)


def _node(kind: str, names: list[str], feeds: Feeds, outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    inputs = [name if name in feeds else "" for name in names]
    while not inputs[-1]:
        inputs.pop()
    return helper.make_node(kind, inputs, outputs, domain="com.microsoft", **attributes)


def _beside_onnxruntime(cpu_plugin: Cpu, node: onnx.NodeProto, feeds: Feeds, outputs: list[str]) -> None:
    bound = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    if not any(kernel.op_name == node.op_type for kernel in bound.get_all_opkernel_def()):
        pytest.skip(f"this onnxruntime has no {node.op_type} for the CPU")
    cpu_plugin.check_beside_onnxruntime(node, feeds, outputs, rtol=1e-4, atol=1e-5)


NET = ["q", "k", "v", "ends", "decay", "beta", "past", "a_log", "bias"]


def _net(
    rule: str,
    lengths: list[int],
    heads: tuple[int, int],
    sizes: tuple[int, int],
    *,
    gate: str = "none",
    of_each_key: bool = False,
    past: bool = True,
    form: str = "ends",
    **attributes: Any,
) -> tuple[onnx.NodeProto, Feeds]:
    """`form`, which is ends, uniform, batches or packed, says how sequences, and queries and keys, lie."""
    rng, (query_heads, value_heads), (keys, values) = np.random.default_rng(0), heads, sizes
    batch, tokens = len(lengths), sum(lengths)
    leading = (batch, lengths[0]) if form == "batches" else (tokens,)
    feeds = {
        "q": _made(rng, *leading, query_heads, keys),
        "k": _made(rng, *leading, query_heads, keys),
        "v": _made(rng, *leading, value_heads, values),
    }
    if form == "packed":
        feeds = {"q": np.concatenate([x.reshape(*leading, -1) for x in feeds.values()], -1)}
    if form in ("ends", "packed"):
        feeds["ends"] = np.concatenate([[0], np.cumsum(lengths)]).astype(INT)
    more = [keys] if of_each_key else []
    if "gated" in rule:
        feeds["decay"] = -np.abs(_made(rng, *leading, value_heads, *more))
    if "delta" in rule:
        feeds["beta"] = _made(rng, *leading, value_heads)
    if past:
        feeds["past"] = _made(rng, batch, value_heads, values, keys)
    if gate != "none":
        feeds |= {"a_log": _made(rng, value_heads), "bias": _made(rng, value_heads, *more)}
    attributes |= {"update_rule": rule, "gate_activation": gate}
    return _node("GatedDeltaNet", NET, feeds, ["y", "last"], **attributes), feeds


@pytest.mark.parametrize("of_each_key", [False, True])
@pytest.mark.parametrize("heads", [(2, 2), (1, 3), (2, 6)])
# Of columns as many as are taken at a time, fewer, and some left over.
@pytest.mark.parametrize("sizes", [(8, 16), (5, 43), (16, 3)])
@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_delta_net(
    cpu_plugin: Cpu, rule: str, sizes: tuple[int, int], heads: tuple[int, int], of_each_key: bool
) -> None:
    lengths, past = ([1, 4, 2], True) if of_each_key else ([3, 0, 5], False)
    node, feeds = _net(rule, lengths, heads, sizes, of_each_key=of_each_key, past=past)
    _beside_onnxruntime(cpu_plugin, node, feeds, ["y", "last"])


@pytest.mark.parametrize("form", ["uniform", "batches", "packed"])
@pytest.mark.parametrize("gate", ["softplus", "qwen", "sigmoid", "kda"])
@pytest.mark.parametrize("of_each_key", [False, True])
def test_gates_and_forms_of_the_delta_net(cpu_plugin: Cpu, of_each_key: bool, gate: str, form: str) -> None:
    how: dict[str, Any] = {"qk_l2_norm": 1, "beta_activation": "sigmoid", "scale": 0.7}
    node, feeds = _net(
        "gated_delta", [3, 3], (2, 4), (8, 12), gate=gate, of_each_key=of_each_key, form=form, **how
    )
    _beside_onnxruntime(cpu_plugin, node, feeds, ["y", "last"])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("wide_gates", [False, True])
def test_the_delta_net_of_halves_keeps_its_state_in_float32(
    cpu_plugin: Cpu, dtype: str, wide_gates: bool
) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    half = np.float16 if dtype == "float16" else ml_dtypes.bfloat16
    node, feeds = _net("gated_delta", [3, 2], (2, 4), (8, 12))
    narrow = {"q", "k", "v"} | (set() if wide_gates else {"decay", "beta"})
    feeds = {name: value.astype(half) if name in narrow else value for name, value in feeds.items()}
    y, last = cpu_plugin.run(make_model([node], feeds, ["y", "last"]), feeds)
    wide = {name: value.astype(np.float32) if name in narrow else value for name, value in feeds.items()}
    expected, expected_last = cpu_plugin.run(make_model([node], wide, ["y", "last"]), wide)
    np.testing.assert_array_equal(y, expected.astype(half))
    np.testing.assert_array_equal(last, expected_last)


CONV = ["x", "w", "ends", "b", "past", "count"]


def _conv(
    lengths: list[int], channels: int, taps: int, *, bias: bool = True, room: int = 0, **how: Any
) -> Any:
    rng = np.random.default_rng(1)
    feeds = {
        "x": _made(rng, sum(lengths), channels),
        "w": _made(rng, channels, 1, taps),
        "ends": np.concatenate([[0], np.cumsum(lengths)]).astype(INT),
        "past": _made(rng, len(lengths), channels, (taps - 1) * how.get("dilation", 1)),
    }
    if bias:
        feeds["b"] = _made(rng, channels)
    outputs = ["y", "last"]
    if room:
        feeds["count"] = np.array([9, -1, 1], INT)[: len(lengths)]
        how["state_update_capacity"] = room
        outputs.append("first")
    return _node("VarlenCausalConvWithState", CONV, feeds, outputs, **how), feeds, outputs


@pytest.mark.parametrize("room", [0, 3])
@pytest.mark.parametrize("activation", ["none", "silu", "swish"])
@pytest.mark.parametrize(("taps", "dilation"), [(1, 1), (4, 1), (3, 3)])
@pytest.mark.parametrize("channels", [3, 40])
def test_convolution(
    cpu_plugin: Cpu, channels: int, taps: int, dilation: int, activation: str, room: int
) -> None:
    lengths = [2, 0, 7] if room else [1, 1]
    how: dict[str, Any] = {"activation": activation, "dilation": dilation, "bias": bool(room), "room": room}
    node, feeds, outputs = _conv(lengths, channels, taps, **how)
    _beside_onnxruntime(cpu_plugin, node, feeds, outputs)


def test_no_tokens_leave_the_states(cpu_plugin: Cpu) -> None:
    for node, feeds in (_net("gated_delta", [0, 0], (2, 2), (4, 4)), _conv([0, 0], 4, 3)[:2]):
        y, last = cpu_plugin.run(make_model([node], feeds, ["y", "last"]), feeds)
        assert y.shape[0] == 0
        np.testing.assert_array_equal(last, feeds["past"])


@pytest.mark.parametrize("ends", [[0, 9, 5], [0, -1, 5], [1, 3, 5], [0, 3, 4], [0, 3, 6], [0, 1 << 30, 5]])
@pytest.mark.parametrize("kind", ["net", "conv"])
def test_ends_that_do_not_grow_to_the_number_of_tokens_are_refused(
    cpu_plugin: Cpu, kind: str, ends: list[int]
) -> None:
    node, feeds = _net("linear", [3, 2], (2, 2), (4, 4)) if kind == "net" else _conv([3, 2], 4, 3)[:2]
    feeds["ends"] = np.array(ends, INT)
    with pytest.raises(InvalidArgument, match="do not grow from 0 to the number of tokens"):
        cpu_plugin.run(make_model([node], feeds, ["y", "last"]), feeds)


def test_what_does_not_fit_is_named(cpu_plugin: Cpu) -> None:
    node, feeds = _net("gated_delta", [3, 2], (2, 2), (4, 6), gate="softplus")
    for name, shape, said in (
        ("past", (2, 2, 4, 6), "the state has another shape"),
        ("past", (3, 2, 6, 4), "the state has another shape"),
        ("past", (), "the state has four dimensions"),
        ("decay", (5, 3), "a decay is one number for each head"),
        ("beta", (5, 1), "a beta is one number for each head"),
        ("k", (5, 1, 4), "queries, keys and values that do not fit"),
        ("a_log", (1,), "a_log is one number"),
        ("bias", (2, 4), "dt_bias is one number"),
        ("v", (5, 3, 6), "heads that cannot share others"),
    ):
        wrong = feeds | {name: np.zeros(shape, np.float32)}
        with pytest.raises(InvalidArgument, match=said):
            cpu_plugin.run(make_model([node], wrong, ["y", "last"], open_shapes=True), wrong)
    conv, feeds, outputs = _conv([3, 2], 4, 3)
    for name, shape, said in (
        ("past", (2, 4, 3), "the state has another shape"),
        ("w", (4, 1, 0), r"the weights are \[channels, 1, taps\]"),
        ("b", (1,), "the bias has one element for each channel"),
    ):
        wrong = feeds | {name: np.zeros(shape, np.float32)}
        with pytest.raises(InvalidArgument, match=said):
            cpu_plugin.run(make_model([conv], wrong, outputs, open_shapes=True), wrong)


def test_updates_and_changing_weights_are_left_to_others(cpu_plugin: Cpu) -> None:
    node, feeds = _net("gated_delta", [3, 2], (2, 2), (4, 6), state_update_capacity=2)
    with pytest.raises(Fail, match="claimed by no execution provider"):
        cpu_plugin.run(make_model([node], feeds, ["y", "last"]), feeds)
    conv, feeds, outputs = _conv([3, 2], 4, 2)
    feeds |= {"delta": np.zeros((5, 2, 4), np.float32), "mask": np.ones((5, 1), np.float32)}
    conv.input.extend(["", "delta", "mask"])
    with pytest.raises(Fail, match="claimed by no execution provider"):
        cpu_plugin.run(make_model([conv], feeds, outputs), feeds)
