"""com.microsoft.MoE: experts that a router chooses for each token."""

from __future__ import annotations

from math import erf, sqrt
from typing import Any

import numpy as np
import onnx
import pytest
from ephost.errors import InvalidArgument
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model

EXPERTS, HIDDEN, INNER = 4, 8, 12
NAMES = ("x", "router", "up", "up_bias", "down", "down_bias", "gate", "gate_bias")


def _feeds(tokens: tuple[int, ...], *, fusion: int, gated: bool, biased: bool) -> dict[str, np.ndarray]:
    width = 2 * INNER if gated and fusion else INNER
    shapes: dict[str, tuple[int, ...]] = {
        "x": (*tokens, HIDDEN),
        "router": (int(np.prod(tokens)), EXPERTS),
        "up": (EXPERTS, width, HIDDEN),
        "down": (EXPERTS, HIDDEN, INNER),
    }
    if gated and not fusion:
        shapes |= {"gate": (EXPERTS, INNER, HIDDEN)}
    if biased:
        shapes |= {"up_bias": (EXPERTS, width), "down_bias": (EXPERTS, HIDDEN)}
        shapes |= {"gate_bias": (EXPERTS, INNER)} if "gate" in shapes else {}
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def _node(feeds: dict[str, np.ndarray], **attributes: Any) -> onnx.NodeProto:
    names = [name if name in feeds else "" for name in NAMES]
    while not names[-1]:
        names.pop()
    return helper.make_node("MoE", names, ["y"], domain="com.microsoft", **attributes)


# More tokens than a few, which are multiplied otherwise.
@pytest.mark.parametrize("tokens", [(1,), (5,), (2, 40)])
@pytest.mark.parametrize("normalize", [0, 1])
@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity", "swiglu"])
def test_experts(
    cpu_plugin: Cpu, activation: str, biased: bool, k: int, normalize: int, tokens: tuple[int, ...]
) -> None:
    gated = activation == "swiglu"
    feeds = _feeds(tokens, fusion=1, gated=gated, biased=biased)
    attributes: dict[str, Any] = {
        "k": k,
        "activation_type": activation,
        "normalize_routing_weights": normalize,
    }
    if gated:
        attributes |= {"swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0}
        attributes |= {"swiglu_limit": 0.5} if biased else {}
    node = _node(feeds, **attributes)
    cpu_plugin.check_beside_onnxruntime(node, feeds, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("fusion", [0, 2])
@pytest.mark.parametrize("tokens", [(2,), (9,)])
def test_the_halves_of_a_gated_expert_lie_as_the_model_says(
    cpu_plugin: Cpu, tokens: tuple[int, ...], fusion: int
) -> None:
    """onnxruntime's for the CPU has rows that take turns only: the same weights in that order."""
    feeds = _feeds(tokens, fusion=fusion, gated=True, biased=True)
    turns = dict(feeds)
    for name in ("up", "up_bias"):
        halves = np.split(feeds[name], 2, 1) if fusion else [feeds[name], feeds[name.replace("up", "gate")]]
        turns[name] = np.stack(halves, 2).reshape(EXPERTS, 2 * INNER, *feeds[name].shape[2:])
    turns = {name: value for name, value in turns.items() if not name.startswith("gate")}
    attributes = {"k": 2, "activation_type": "swiglu", "activation_alpha": 1.5, "activation_beta": 0.5}
    (found,) = cpu_plugin.run(
        make_model([_node(feeds, swiglu_fusion=fusion, **attributes)], feeds, ["y"]), feeds
    )
    (expected,) = cpu_plugin.run(
        make_model([_node(turns, swiglu_fusion=1, **attributes)], turns, ["y"]), turns
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tokens", [0, 1, 9])
def test_experts_of_no_width_give_their_bias(cpu_plugin: Cpu, tokens: int) -> None:
    feeds = {
        "x": np.ones((tokens, 3), np.float32),
        "router": np.ones((tokens, 2), np.float32),
        "up": np.ones((2, 0, 3), np.float32),
        "down": np.ones((2, 3, 0), np.float32),
        "down_bias": np.full((2, 3), 7, np.float32),
    }
    for _ in range(2):
        (y,) = cpu_plugin.run(make_model([_node(feeds, k=2)], feeds, ["y"]), feeds)
        np.testing.assert_array_equal(y, np.full((tokens, 3), 7, np.float32))


def test_halves(cpu_plugin: Cpu) -> None:
    feeds = _feeds((3,), fusion=0, gated=False, biased=True)
    half = {name: value.astype(np.float16) for name, value in feeds.items()}
    (found,) = cpu_plugin.run(make_model([_node(half, k=2)], half, ["y"]), half)
    wide = {name: value.astype(np.float32) for name, value in half.items()}
    (expected,) = cpu_plugin.run(make_model([_node(wide, k=2)], wide, ["y"]), wide)
    np.testing.assert_array_equal(found, expected.astype(np.float16))


@pytest.mark.parametrize(
    ("name", "shape", "said"),
    [
        ("router", (2, EXPERTS), "a row for each token"),
        ("up", (EXPERTS, INNER, 3), "do not fit each other"),
        ("down_bias", (EXPERTS, 3), "the second bias"),
    ],
)
def test_what_does_not_fit_is_named(cpu_plugin: Cpu, name: str, shape: tuple[int, ...], said: str) -> None:
    feeds = _feeds((3,), fusion=0, gated=False, biased=True) | {name: np.zeros(shape, np.float32)}
    with pytest.raises(InvalidArgument, match=said):
        cpu_plugin.run(make_model([_node(feeds, k=2)], feeds, ["y"], open_shapes=True), feeds)
    good = _feeds((3,), fusion=0, gated=False, biased=True)
    with pytest.raises(InvalidArgument, match="k is from 1"):
        cpu_plugin.run(make_model([_node(good, k=5)], good, ["y"]), good)


def test_a_gelu_is_the_one_by_tanh(cpu_plugin: Cpu) -> None:
    """As in onnxruntime; the exact one is within a thousandth."""
    feeds = _feeds((1,), fusion=0, gated=False, biased=False)
    (found,) = cpu_plugin.run(
        make_model([_node(feeds, activation_type="gelu", k=1, normalize_routing_weights=1)], feeds, ["y"]),
        feeds,
    )
    e = int(feeds["router"][0].argmax())
    h = (feeds["up"][e] @ feeds["x"][0]).astype(np.float64)
    exact = h * np.array([0.5 * (1 + erf(value / sqrt(2))) for value in h])
    np.testing.assert_allclose(found[0], feeds["down"][e] @ exact, atol=5e-3)


@pytest.mark.parametrize("fusion", [0, 1, 2])
def test_the_limit_may_be_that_of_what_is_activated(cpu_plugin: Cpu, fusion: int) -> None:
    """Which onnxruntime has for CUDA only."""
    feeds = _feeds((5,), fusion=fusion, gated=True, biased=False)
    names = [name if name in feeds else "" for name in NAMES]
    while not names[-1]:
        names.pop()
    known: dict[str, Any] = {"activation_type": "swiglu", "swiglu_fusion": fusion, "k": EXPERTS}
    known |= {"activation_alpha": 1.702, "activation_beta": 1.0}
    x = feeds["x"].astype(np.float64)
    up, down = feeds["up"].astype(np.float64), feeds["down"].astype(np.float64)
    first = np.einsum("th,ewh->tew", x, up)
    if fusion == 0:
        gate, linear = first, np.einsum("th,ewh->tew", x, feeds["gate"].astype(np.float64))
    else:
        gate, linear = (first[..., 0::2], first[..., 1::2]) if fusion == 1 else np.split(first, 2, axis=-1)
    shares = np.exp(feeds["router"].astype(np.float64))
    shares /= shares.sum(-1, keepdims=True)
    limit = 0.3
    activated = np.minimum(gate / (1 + np.exp(-1.702 * gate)), limit)
    assert (activated == limit).any()
    inner = activated * (np.clip(linear, -limit, limit) + 1)
    expected = np.einsum("te,tew,ehw->th", shares, inner, down)
    node = helper.make_node(
        "MoE",
        names,
        ["y"],
        domain="com.microsoft",
        swiglu_limit=limit,
        swiglu_limit_after_activation=1,
        **known,
    )
    (y,) = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_of_equal_scores_the_last_count(cpu_plugin: Cpu, k: int) -> None:
    feeds = _feeds((4,), fusion=0, gated=False, biased=False)
    feeds["router"] = np.array([[0, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [2, 1, 2, 1]], np.float32)
    cpu_plugin.check_beside_onnxruntime(_node(feeds, k=k), feeds, rtol=1e-4, atol=1e-4)
