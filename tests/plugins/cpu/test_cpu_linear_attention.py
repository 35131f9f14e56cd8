"""com.microsoft's operators of networks with a state: linear attention, its convolution, and their gates."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from ephost.errors import Fail, InvalidArgument
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model

RULES = ["linear", "gated", "delta", "gated_delta"]
Feeds = dict[str, np.ndarray]


def _node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs, outputs, domain="com.microsoft", **attributes)


def _attention(
    rule: str,
    tokens: int,
    heads: tuple[int, int, int],
    sizes: tuple[int, int],
    *,
    past: bool = True,
    window: int = 0,
    of_each_key: bool = False,
    one_rate: bool = False,
) -> tuple[onnx.NodeProto, Feeds]:
    """A node and its feeds: two batches; heads of queries, keys, values; channels of a key and of a value."""
    (query_heads, key_heads, value_heads), (keys, values) = heads, sizes
    rng = np.random.default_rng(0)

    def made(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / 2).astype(np.float32)

    feeds = {
        "q": made(2, tokens, query_heads * keys),
        "k": made(2, tokens, key_heads * keys),
        "v": made(2, tokens, value_heads * values),
    }
    if past:
        feeds["past"] = made(*([window] if window else []), 2, value_heads, keys, values)
    if "gated" in rule:
        feeds["decay"] = -np.abs(made(2, tokens, value_heads * (keys if of_each_key else 1)))
    if "delta" in rule:
        feeds["beta"] = np.abs(made(2, tokens, 1 if one_rate else value_heads))
    names = [name if name in feeds else "" for name in ("q", "k", "v", "past", "decay", "beta")]
    attributes = {"q_num_heads": query_heads, "kv_num_heads": value_heads, "state_window": window}
    return _node("LinearAttention", names, ["y", "present"], update_rule=rule, **attributes), feeds


# Queries that share keys and values, and values that share queries.
@pytest.mark.parametrize("heads", [(2, 2, 2), (4, 2, 2), (2, 2, 4), (2, 4, 4)])
# Of columns as many as are taken at a time, fewer, and some left over.
@pytest.mark.parametrize("sizes", [(8, 16), (5, 43), (16, 3)])
@pytest.mark.parametrize("of_each_key", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_linear_attention(
    cpu_plugin: Cpu, rule: str, of_each_key: bool, sizes: tuple[int, int], heads: tuple[int, int, int]
) -> None:
    for tokens, past in ((1, True), (5, False)):
        node, feeds = _attention(
            rule, tokens, heads, sizes, past=past, of_each_key=of_each_key, one_rate=tokens == 1
        )
        cpu_plugin.check_beside_onnxruntime(node, feeds, ["y", "present"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tokens", [1, 3, 6])
@pytest.mark.parametrize("past", [False, True])
def test_the_last_states_are_kept(cpu_plugin: Cpu, past: bool, tokens: int) -> None:
    """Of a window, which onnxruntime's for the CPU does not have: each as after what comes before it."""
    node, feeds = _attention("gated_delta", tokens, (2, 2, 4), (8, 12), past=past, window=4)
    y, window = cpu_plugin.run(make_model([node], feeds, ["y", "present"]), feeds)
    plain, _ = _attention("gated_delta", tokens, (2, 2, 4), (8, 12), past=past)
    assert window.shape == (4, 2, 4, 8, 12)
    for slot, known in enumerate(range(tokens - 3, tokens + 1)):
        before = {name: value[:, :known] for name, value in feeds.items() if name != "past"}
        if past:
            before["past"] = feeds["past"][-1]
        state = np.zeros_like(window[0])
        if known > 0:
            _, state = cpu_plugin.run(make_model([plain], before, ["y", "present"]), before)
        np.testing.assert_allclose(window[slot], state, rtol=1e-5, atol=1e-6)
    del node.output[1]
    (alone,) = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)
    np.testing.assert_array_equal(alone, y)


def test_a_token_at_a_time_is_as_all_at_once(cpu_plugin: Cpu) -> None:
    node, feeds = _attention("gated_delta", 6, (4, 2, 2), (8, 8))
    y, present = cpu_plugin.run(make_model([node], feeds, ["y", "present"]), feeds)
    state, rows = feeds["past"], []
    for token in range(6):
        one = {name: value[:, token : token + 1] for name, value in feeds.items() if name != "past"}
        row, state = cpu_plugin.run(
            make_model([node], one | {"past": state}, ["y", "present"]), one | {"past": state}
        )
        rows.append(row)
    np.testing.assert_allclose(np.concatenate(rows, 1), y, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state, present, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_computed_in_float32(cpu_plugin: Cpu, dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    half = np.float16 if dtype == "float16" else ml_dtypes.bfloat16
    node, feeds = _attention("gated_delta", 3, (2, 2, 2), (8, 8))
    feeds = {name: value.astype(half) for name, value in feeds.items()}
    found = cpu_plugin.run(make_model([node], feeds, ["y", "present"]), feeds)
    wide = {name: value.astype(np.float32) for name, value in feeds.items()}
    for a, b in zip(found, cpu_plugin.run(make_model([node], wide, ["y", "present"]), wide), strict=True):
        np.testing.assert_array_equal(a, b.astype(half))


def test_what_does_not_fit_is_named(cpu_plugin: Cpu) -> None:
    node, feeds = _attention("gated_delta", 2, (2, 2, 2), (8, 8))
    for name, shape, said in (
        ("past", (2, 2, 8, 7), "the past state has another shape"),
        ("decay", (2, 2, 3), "a decay is one number for each head"),
        ("beta", (2, 3, 2), "a beta is one number for each head"),
        ("k", (2, 3, 16), "as many as queries"),
    ):
        wrong = feeds | {name: np.zeros(shape, np.float32)}
        with pytest.raises(InvalidArgument, match=said):
            cpu_plugin.run(make_model([node], wrong, ["y", "present"], open_shapes=True), wrong)
    node.attribute.remove(next(a for a in node.attribute if a.name == "update_rule"))
    node.attribute.append(helper.make_attribute("update_rule", "another"))
    with pytest.raises(Fail, match="claimed by no execution provider"):
        cpu_plugin.run(make_model([node], feeds, ["y", "present"]), feeds)


def _convolved(feeds: Feeds, dilation: int, window: int, last: bool, silu: bool) -> list[np.ndarray]:
    """What the operator's description says, with the channels before the tokens."""
    x, w = feeds["x"], feeds["w"]
    x = np.moveaxis(x, 1, -1) if last else x
    tokens, before = x.shape[-1], (w.shape[-1] - 1) * dilation
    past = np.zeros((*x.shape[:-1], before), np.float32)
    if "past" in feeds:
        past = feeds["past"][-1] if window else feeds["past"]
        past = np.moveaxis(past, 1, -1) if last else past
    line = np.concatenate([past, x], -1)
    y = np.zeros_like(x) + (feeds["b"][:, None] if "b" in feeds else 0)
    for tap in range(w.shape[-1]):
        y = y + w[:, :, tap] * line[..., tap * dilation : tap * dilation + tokens]
    y = y / (1 + np.exp(-y)) if silu else y
    states = [
        line[..., at + 1 : at + 1 + before] if at >= 0 or slot == (window or 1) - 1 else np.zeros_like(past)
        for slot, at in enumerate(range(tokens - (window or 1), tokens))
    ]
    back = [np.moveaxis(value, -1, 1) if last else value for value in (y, *states)]
    return [back[0], np.stack(back[1:]) if window else back[1]]


@pytest.mark.parametrize("tokens", [1, 2, 7])
@pytest.mark.parametrize("taps", [1, 4])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("last", [False, True])
def test_a_causal_convolution_remembers_the_last_tokens(
    cpu_plugin: Cpu, tokens: int, taps: int, dilation: int, past: bool, window: int, last: bool
) -> None:
    rng, before = np.random.default_rng(1), (taps - 1) * dilation
    shapes = {"x": (2, tokens, 6) if last else (2, 6, tokens), "w": (6, 1, taps)}
    if taps > 1:
        shapes["b"] = (6,)
    if past:
        shapes["past"] = (*([window] if window else []), 2, *((before, 6) if last else (6, before)))
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    names = [name if name in feeds else "" for name in ("x", "w", "b", "past")]
    node = _node(
        "CausalConvWithState",
        names,
        ["y", "present"],
        activation="silu" if past else "none",
        dilation=dilation,
        state_window=window,
        channels_last=int(last),
    )
    for open_shapes in (False, True):
        found = cpu_plugin.run(make_model([node], feeds, ["y", "present"], open_shapes=open_shapes), feeds)
        for a, b in zip(found, _convolved(feeds, dilation, window, last, past), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    if not window:  # which onnxruntime's for the CPU does not have
        cpu_plugin.check_beside_onnxruntime(node, feeds, ["y", "present"], rtol=1e-4, atol=1e-5)


def test_channels_may_be_several_dimensions(cpu_plugin: Cpu) -> None:
    rng = np.random.default_rng(2)
    feeds = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in (("x", (2, 3, 2, 4)), ("w", (8, 1, 4)), ("b", (8,)))
    }
    node = _node("CausalConvWithState", ["x", "w", "b"], ["y", "present"], channels_last=1)
    cpu_plugin.check_beside_onnxruntime(node, feeds, ["y", "present"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("outputs", [["decay"], ["decay", "beta"]])
def test_gates_of_linear_attention(cpu_plugin: Cpu, outputs: list[str], dtype: type) -> None:
    rng = np.random.default_rng(3)
    shapes = {"a": (2, 3, 4), "bias": (4,), "scale": (4,), "b": (2, 3, 4)}
    feeds = {name: (9 * rng.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    feeds |= {name: feeds[name].astype(dtype) for name in ("a", "b")}
    if outputs == ["decay"]:
        del feeds["b"]
    node = _node("LinearAttentionGate", list(feeds), outputs)
    tolerance = 1e-5 if dtype is np.float32 else 1e-3
    cpu_plugin.check_beside_onnxruntime(node, feeds, outputs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dilation", [0, -1, 2**62])
def test_a_dilation_that_cannot_be_is_refused(cpu_plugin: Cpu, dilation: int) -> None:
    feeds = {"x": np.ones((1, 2, 3), np.float32), "w": np.ones((2, 1, 9), np.float32)}
    node = _node("CausalConvWithState", list(feeds), ["y", "present"], dilation=dilation)
    with pytest.raises(InvalidArgument, match=r"dilation is positive|cannot be"):
        cpu_plugin.run(make_model([node], feeds, ["y", "present"]), feeds)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("activation", ["silu", "swish", "sigmoid"])
def test_a_gated_norm_is_of_rows_as_long_as_its_scale(cpu_plugin: Cpu, activation: str, dtype: type) -> None:
    rng = np.random.default_rng(4)
    feeds = {
        name: rng.standard_normal(shape).astype(dtype)
        for name, shape in (("x", (2, 3, 24)), ("scale", (12,)), ("gate", (2, 3, 24)))
    }
    node = _node("GatedRMSNorm", list(feeds), ["y"], activation=activation, epsilon=1e-3)
    tolerance = 1e-5 if dtype is np.float32 else 1e-3
    cpu_plugin.check_beside_onnxruntime(node, feeds, ["y"], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(), (1,), (1, 4)])
def test_the_scale_of_a_gated_norm_may_have_any_rank(cpu_plugin: Cpu, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    shapes = {"x": (2, 3, 8), "scale": shape, "gate": (2, 3, 8)}
    feeds = {
        name: rng.standard_normal(of, np.float32) + np.zeros(of, np.float32) for name, of in shapes.items()
    }
    feeds = {name: np.asarray(value) for name, value in feeds.items()}
    node = _node("GatedRMSNorm", list(feeds), ["y"])
    cpu_plugin.check_beside_onnxruntime(node, feeds, ["y"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "how",
    [
        {"input_channels": 4},
        {"input_channel_offset": 1},
        {"state_length": 3},
        {"state_update_capacity": 2},
        {"state_channels_last": 0},
        {"outputs": 3},
    ],
)
def test_what_a_convolution_has_on_other_devices_is_left_to_them(
    cpu_plugin: Cpu, how: dict[str, Any]
) -> None:
    outputs = ["y", "present", "update"][: how.pop("outputs", 2)]
    feeds = {"x": np.ones((2, 5, 4), np.float32), "w": np.ones((4, 1, 3), np.float32)}
    node = _node("CausalConvWithState", ["x", "w"], outputs, channels_last=1, **how)
    with pytest.raises(Fail, match="claimed by no execution provider"):
        cpu_plugin.run(make_model([node], feeds, outputs), feeds)


def test_a_gate_that_is_computed_is_left_to_others(cpu_plugin: Cpu) -> None:
    feeds = {name: np.ones((2, 3), np.float32) for name in "xyg"} | {"w": np.ones((3, 1), np.float32)}
    node = _node("GatedAdd", list("xygw"), ["z"])
    with pytest.raises(Fail, match="claimed by no execution provider"):
        cpu_plugin.run(make_model([node], feeds, ["z"]), feeds)
