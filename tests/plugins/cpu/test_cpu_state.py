"""Layers that carry a state along a sequence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model


def some(*shape: int, seed: int = 0, dtype: object = np.float32) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) / 2).astype(dtype)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_linear_attention_of_any_shape_agrees(cpu_plugin: Cpu, data: st.DataObject) -> None:
    draw = data.draw
    batch, length = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 5]))
    kv_heads, group = draw(st.sampled_from([1, 3])), draw(st.sampled_from([1, 2]))
    depth, width = draw(st.sampled_from([4, 8])), draw(st.sampled_from([4, 6]))
    rule = draw(st.sampled_from(["linear", "gated", "delta", "gated_delta"]))
    feeds = {
        "q": some(batch, length, kv_heads * group * depth),
        "k": some(batch, length, kv_heads * depth, seed=1),
        "v": some(batch, length, kv_heads * width, seed=2),
    }
    names = ["q", "k", "v", "", "", ""]
    if draw(st.booleans()):
        feeds["s"], names[3] = some(batch, kv_heads, depth, width, seed=3), "s"
    if rule.startswith("gated"):
        gates = draw(st.sampled_from([kv_heads, kv_heads * depth]))
        feeds["g"], names[4] = -np.abs(some(batch, length, gates, seed=4)), "g"
    if rule.endswith("delta"):
        feeds["b"], names[5] = some(batch, length, draw(st.sampled_from([1, kv_heads])), seed=5), "b"
    heads = {"q_num_heads": kv_heads * group, "kv_num_heads": kv_heads}
    node = helper.make_node("LinearAttention", names, ["y", "t"], update_rule=rule, **heads)
    cpu_plugin.check(node, feeds, ["y", "t"], opset=27, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("length", [1, 2, 9])
def test_a_causal_convolution_goes_on_where_it_stopped(
    cpu_plugin: Cpu, activation: str, state: bool, length: int
) -> None:
    feeds = {"x": some(2, 3, length), "w": some(3, 1, 4, seed=1), "b": some(3, seed=2)}
    names = ["x", "w", "b"]
    if state:
        feeds["s"] = some(2, 3, 3, seed=3)
        names.append("s")
    node = helper.make_node("CausalConvWithState", names, ["y", "t"], activation=activation)
    cpu_plugin.check(node, feeds, ["y", "t"], opset=27)


def test_a_sequence_in_two_parts_is_the_sequence(cpu_plugin: Cpu) -> None:
    whole = {"q": some(1, 6, 8), "k": some(1, 6, 8, seed=1), "v": some(1, 6, 8, seed=2)}
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    node = helper.make_node("LinearAttention", list("qkvs"), ["y", "t"], update_rule="linear", **heads)
    zero = np.zeros((1, 2, 4, 4), np.float32)

    def run(part: slice, state: np.ndarray) -> list[np.ndarray]:
        feeds = {name: value[:, part] for name, value in whole.items()} | {"s": state}
        return cpu_plugin.run(make_model([node], feeds, ["y", "t"], opset=27), feeds)

    y, state = run(slice(0, 6), zero)
    first, between = run(slice(0, 2), zero)
    second, after = run(slice(2, 6), between)
    np.testing.assert_allclose(np.concatenate([first, second], axis=1), y, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(after, state, rtol=1e-5, atol=1e-6)
