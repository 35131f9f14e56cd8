"""com.microsoft.QMoE: experts whose weights have two, three, four or eight bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from ephost.errors import Fail, InvalidArgument
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model

EXPERTS, HIDDEN, INNER = 4, 32, 48
NAMES = (
    *("x", "router", "up", "up_scales", "up_bias", "down", "down_scales", "down_bias"),
    *("gate", "gate_scales", "gate_bias", "up_zeros", "down_zeros", "gate_zeros", "weights"),
)


class Case:
    """Feeds, constants, and the same weights as numbers."""

    def __init__(self, tokens: tuple[int, ...], *, block: int = 0, zeros: bool = False, **how: Any) -> None:
        """`how` are the node's attributes, `biased` and `weighted`, which add inputs, and `inner`, a size."""
        inner = how.pop("inner", INNER)
        self.rng = np.random.default_rng(0)
        biased, weighted = how.pop("biased", False), how.pop("weighted", False)
        self.attributes = how | ({"block_size": block} if block else {})
        gated = how.get("activation_type") == "swiglu"
        width = 2 * inner if gated and how["swiglu_fusion"] else inner
        scores = (int(np.prod(tokens)), EXPERTS)
        self.feeds = {"x": self._floats(*tokens, HIDDEN), "router": self._floats(*scores)}
        self.constants: dict[str, np.ndarray] = {}
        self.numbers: dict[str, np.ndarray] = {}
        matrices = {"up": (width, HIDDEN), "down": (HIDDEN, inner)}
        if gated and not how["swiglu_fusion"]:
            matrices["gate"] = (inner, HIDDEN)
        for (name, (n, k)), fc in zip(matrices.items(), (1, 2, 3), strict=False):
            bits = how.get(f"fc{fc}_expert_weight_bits", how.get("expert_weight_bits", 4))
            self._add(name, n, k, bits, block or k, zeros, blocked=bool(block))
            if biased:
                self.constants[f"{name}_bias"] = self._floats(EXPERTS, n)
        if weighted:
            self.feeds["weights"] = self.rng.random(scores).astype(np.float32)

    def _floats(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(np.float32)

    def _add(self, name: str, n: int, k: int, bits: int, block: int, zeros: bool, *, blocked: bool) -> None:
        codes = self.rng.integers(0, 1 << bits, (EXPERTS, n, k), np.uint8)
        scales = ((self.rng.random((EXPERTS, n, k // block)) + 0.2) / (1 << bits)).astype(np.float32)
        points = np.full(scales.shape, 1 << bits - 1, np.uint8)
        if zeros and bits != 3:
            points = self.rng.integers(0, 1 << bits, scales.shape, np.uint8)
        if zeros:
            self.constants[f"{name}_zeros"] = _packed(points if blocked else points[..., 0], bits)
        self.constants[name] = _packed(codes, bits)
        self.constants[f"{name}_scales"] = scales if blocked else scales[..., 0]
        numbers = (codes.astype(np.float32) - points.repeat(block, 2)) * scales.repeat(block, 2)
        self.numbers[name] = numbers

    def node(self) -> onnx.NodeProto:
        there = self.feeds | self.constants
        names = [name if name in there else "" for name in NAMES]
        while not names[-1]:
            names.pop()
        return helper.make_node("QMoE", names, ["y"], domain="com.microsoft", **self.attributes)

    def model(self) -> onnx.ModelProto:
        return make_model([self.node()], self.feeds, ["y"], self.constants)

    def of_floats(self) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        """The model as MoE has it, which normalizes the weights where it is told to."""
        feeds = self.feeds | self.numbers
        feeds |= {name: value for name, value in self.constants.items() if name.endswith("_bias")}
        names = ["x", "router", "up", "up_bias", "down", "down_bias", "gate", "gate_bias"]
        names = [name if name in feeds else "" for name in names]
        while not names[-1]:
            names.pop()
        known = (
            "k",
            "activation_type",
            "swiglu_fusion",
            "activation_alpha",
            "activation_beta",
            "swiglu_limit",
        )
        kept = {name: value for name, value in self.attributes.items() if name in known}
        kept |= {"normalize_routing_weights": 1}
        node = helper.make_node("MoE", names, ["y"], domain="com.microsoft", **kept)
        return make_model([node], feeds, ["y"]), feeds


def _packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Several to a byte along the last axis, the first in the lowest bits."""
    if bits == 3:  # across the borders of bytes
        single = codes[..., None] >> np.arange(3, dtype=np.uint8) & 1
        return np.packbits(single.reshape(*codes.shape[:-1], -1), axis=-1, bitorder="little")
    each = 8 // bits
    padded = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, -codes.shape[-1] % each)])
    parts = padded.reshape(*padded.shape[:-1], -1, each)
    made = np.zeros(parts.shape[:-1], np.uint8)
    for i in range(each):
        made |= parts[..., i] << (bits * i)
    return made


# One, a few, and more tokens than are multiplied without unpacking the weights.
@pytest.mark.parametrize("tokens", [(1,), (5,), (2, 40)])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("block", [0, 16])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_experts(cpu_plugin: Cpu, bits: int, block: int, zeros: bool, tokens: tuple[int, ...]) -> None:
    case = Case(tokens, block=block, zeros=zeros, expert_weight_bits=bits, k=2, biased=zeros)
    # There blocks of eight bits are multiplied by inputs rounded to bytes.
    model, feeds = case.of_floats()
    (expected,) = cpu_plugin.run(model, feeds)
    (found,) = cpu_plugin.run(case.model(), case.feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    # There inputs of blocks of eight bits are rounded to bytes.
    rtol, atol = (0, 0.03 * np.abs(expected).max()) if bits == 8 and block else (1e-4, 1e-4)
    cpu_plugin.check_beside_onnxruntime(
        case.node(), case.feeds, constants=case.constants, rtol=rtol, atol=atol
    )


@pytest.mark.parametrize("normalize", [0, 1])
@pytest.mark.parametrize("k", [1, 3])
def test_what_experts_say_may_have_weights_of_its_own(cpu_plugin: Cpu, k: int, normalize: int) -> None:
    case = Case((7,), block=16, k=k, weighted=True, normalize_routing_weights=normalize)
    cpu_plugin.check_beside_onnxruntime(
        case.node(), case.feeds, constants=case.constants, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("activation", ["gelu", "silu", "identity", "swiglu"])
def test_activations(cpu_plugin: Cpu, activation: str) -> None:
    more: dict[str, Any] = {}
    if activation == "swiglu":
        more = {"swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 2.0}
    case = Case((6,), block=16, k=2, activation_type=activation, biased=True, **more)
    cpu_plugin.check_beside_onnxruntime(
        case.node(), case.feeds, constants=case.constants, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("fusion", [0, 2])
def test_a_gated_expert_has_two_matrices_or_one_above_the_other(cpu_plugin: Cpu, fusion: int) -> None:
    """onnxruntime's for the CPU has rows that take turns only."""
    case = Case((6,), block=16, k=2, zeros=True, biased=True, activation_type="swiglu", swiglu_fusion=fusion)
    model, feeds = case.of_floats()
    (expected,) = cpu_plugin.run(model, feeds)
    (found,) = cpu_plugin.run(case.model(), case.feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_matrices_may_have_different_bits(cpu_plugin: Cpu) -> None:
    case = Case((3,), block=16, k=2, expert_weight_bits=4, fc2_expert_weight_bits=8, accuracy_level=0)
    model, feeds = case.of_floats()
    (expected,) = cpu_plugin.run(model, feeds)
    (found,) = cpu_plugin.run(case.model(), case.feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tokens", [(1,), (30,)])
def test_inputs_may_be_rounded_to_bytes(cpu_plugin: Cpu, tokens: tuple[int, ...]) -> None:
    case = Case(tokens, block=16, k=2, accuracy_level=4)
    model, feeds = case.of_floats()
    (expected,) = cpu_plugin.run(model, feeds)
    (found,) = cpu_plugin.run(case.model(), case.feeds)
    assert 0 < np.abs(found - expected).max() < 0.03 * np.abs(expected).max()


def test_halves(cpu_plugin: Cpu) -> None:
    case = Case((3,), block=16, k=2, biased=True)
    for values in (case.feeds, case.constants):
        for name, value in values.items():
            if value.dtype == np.float32:
                values[name] = value.astype(np.float16)
    cpu_plugin.check_beside_onnxruntime(
        case.node(), case.feeds, constants=case.constants, rtol=5e-3, atol=5e-3
    )


def test_no_token(cpu_plugin: Cpu) -> None:
    case = Case((0,), block=16, k=2)
    (found,) = cpu_plugin.run(case.model(), case.feeds)
    assert found.shape == (0, HIDDEN)


def test_what_does_not_fit_is_named(cpu_plugin: Cpu) -> None:
    case = Case((3,), block=16, k=2, biased=True)
    case.constants["down_bias"] = case.constants["down_bias"][:, :3]
    with pytest.raises(InvalidArgument, match="the second bias"):
        cpu_plugin.run(case.model(), case.feeds)
    case = Case((3,), block=16, k=2)
    case.feeds["x"] = case.feeds["x"][:, :16]
    with pytest.raises(InvalidArgument, match="do not fit each other"):
        cpu_plugin.run(case.model(), case.feeds)
    case = Case((3,), block=16, k=2)
    case.feeds["router"] = case.feeds["router"][:, :3]
    with pytest.raises(InvalidArgument, match="do not fit each other"):
        cpu_plugin.run(case.model(), case.feeds)


_THREE = {"activation_type": "swiglu", "swiglu_fusion": 1, "weights_prepacked": 0, "expert_weight_bits": 3}


@pytest.mark.parametrize("tokens", [(1,), (5,), (2, 40)])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("of_down", [2, 3, 4])
def test_three_bits(cpu_plugin: Cpu, of_down: int, zeros: bool, tokens: tuple[int, ...]) -> None:
    how = _THREE | {"fc2_expert_weight_bits": of_down, "k": 2, "normalize_routing_weights": 1}
    case = Case(tokens, block=32, zeros=zeros, inner=64, biased=zeros, **how)
    model, feeds = case.of_floats()
    (expected,) = cpu_plugin.run(model, feeds)
    (found,) = cpu_plugin.run(case.model(), case.feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("normalize", [0, 1])
def test_three_bits_of_halves_beside_onnxruntime(cpu_plugin: Cpu, normalize: int) -> None:
    """Which normalizes the shares of the best there where it is told to, and else always."""
    ort = pytest.importorskip("onnxruntime")
    case = Case((5,), block=32, inner=64, k=2, normalize_routing_weights=normalize, **_THREE)
    for values in (case.feeds, case.constants):
        for name, value in values.items():
            if value.dtype == np.float32:
                values[name] = value.astype(np.float16)
    try:
        session = ort.InferenceSession(case.model().SerializeToString(), providers=["CPUExecutionProvider"])
        (expected,) = session.run(None, case.feeds)
    except Exception as error:
        pytest.skip(f"onnxruntime {ort.__version__} does not run it on its CPU: {error}")
    (found,) = cpu_plugin.run(case.model(), case.feeds)
    scale = np.abs(expected.astype(np.float32)).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.03 * scale)


@pytest.mark.parametrize("wrong", ["zeros", "activation_type", "weights_prepacked", "block_size"])
def test_three_bits_in_another_form_are_left_to_others(cpu_plugin: Cpu, wrong: str) -> None:
    case = Case((3,), block=32, zeros=True, inner=64, k=2, **_THREE)
    if wrong == "zeros":
        case.constants["up_zeros"][0, 0, 0] += 1
    else:
        case.attributes[wrong] = {"activation_type": "silu", "weights_prepacked": -1, "block_size": 16}[wrong]
    with pytest.raises(Fail, match="claimed by no execution provider"):
        cpu_plugin.run(case.model(), case.feeds)


def test_weights_of_eight_bits_have_no_other_form_than_their_own(cpu_plugin: Cpu) -> None:
    case = Case((3,), block=16, k=2, expert_weight_bits=8)
    (expected,) = cpu_plugin.run(case.model(), case.feeds)
    case.attributes["weights_prepacked"] = 1
    np.testing.assert_array_equal(cpu_plugin.run(case.model(), case.feeds)[0], expected)
    case = Case((3,), block=16, k=2, weights_prepacked=1)
    with pytest.raises(Fail, match="claimed by no execution provider"):
        cpu_plugin.run(case.model(), case.feeds)
