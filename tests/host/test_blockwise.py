"""Weights in blocks of few bits are onnxruntime's, bit for bit, but where a float's rounding decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ephost.capi import onnxruntime_pybind11_state as ours

theirs = pytest.importorskip("onnxruntime.capi._pybind_state")
RNG = np.random.default_rng(7)
SHAPES = [(128, 32), (52, 16), (72, 24)]  # where a byte is not full, onnxruntime reads beyond the weight


def alike(one: list[np.ndarray], other: list[np.ndarray], bits: int) -> None:
    codes, expected = (unpacked(arrays[0], bits) for arrays in (one, other))
    assert (codes != expected).mean() < 0.02  # halves, which are rounded to either side
    assert np.abs(codes.astype(int) - expected).max() <= 1
    for found, right in zip(one[1:], other[1:], strict=True):
        np.testing.assert_allclose(found.astype(np.float64), right.astype(np.float64), rtol=1e-3)


def unpacked(array: np.ndarray, bits: int) -> np.ndarray:
    return np.stack([array.reshape(-1) >> at & (1 << bits) - 1 for at in range(0, 8, bits)])


# Of halves the largest magnitude may be there twice, with either sign.
@pytest.mark.parametrize(
    ("kind", "is_symmetric"), [(np.float32, False), (np.float32, True), (np.float16, False)]
)
@pytest.mark.parametrize("block_size", [16, 64])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_blocks_for_matmulnbits(bits: int, block_size: int, kind: Any, is_symmetric: bool) -> None:
    for k, n in SHAPES:
        weight = RNG.standard_normal((k, n)).astype(kind)
        count = -(-k // block_size)

        def made(
            module: Any, weight: np.ndarray = weight, k: int = k, n: int = n, count: int = count
        ) -> list:
            out = [
                np.zeros((n, count, block_size * bits // 8), np.uint8),
                np.zeros((n, count), kind),
                np.full((n, -(-count * bits // 8)), 0x88, np.uint8),
            ]
            quantize = getattr(module, f"quantize_matmul_{bits}bits")
            assert quantize(out[0], weight, out[1], out[2], block_size, n, k, is_symmetric) is None
            return out

        alike(made(ours), made(theirs), bits)


@pytest.mark.parametrize("is_symmetric", [False, True])
@pytest.mark.parametrize("bits", [4])
def test_blocks_for_dequantizelinear(bits: int, is_symmetric: bool) -> None:
    for k, n in SHAPES:
        weight = RNG.standard_normal((k, n)).astype(np.float32)
        count = -(-k // 32)

        def made(
            module: Any, weight: np.ndarray = weight, k: int = k, n: int = n, count: int = count
        ) -> list:
            out = [
                np.zeros(-(-k * n * bits // 8), np.uint8),
                np.zeros((count, n), np.float32),
                np.zeros(-(-count * n * bits // 8), np.uint8),
            ]
            quantize = getattr(module, f"quantize_qdq_matmul_{bits}bits")
            return [*out, np.array(quantize(out[0], weight, out[1], out[2], 32, n, k, is_symmetric))]

        alike(made(ours), made(theirs), bits)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("quant_type", [0, 1])
def test_blocks_of_4_bit_floats(quant_type: int, kind: Any) -> None:
    for k, n in SHAPES:
        weight = RNG.uniform(-1, 1, (n, k)).astype(kind)

        def made(module: Any, weight: np.ndarray = weight, k: int = k, n: int = n) -> list:
            packed, largest = np.zeros(-(-k * n // 2), np.uint8), np.zeros(-(-k * n // 64), kind)
            module.quantize_matmul_bnb4(packed, weight, largest, 64, quant_type, n, k)
            return [packed, largest]

        alike(made(ours), made(theirs), 4)


def test_a_block_of_zeros_has_the_scale_zero() -> None:
    packed, scales, zeros = (
        np.ones((1, 1, 8), np.uint8),
        np.ones((1, 1), np.float32),
        np.zeros((1, 1), np.uint8),
    )
    ours.quantize_matmul_4bits(packed, np.zeros((16, 1), np.float32), scales, zeros, 16, 1, 16, False)
    assert scales.item() == 0 and not packed.any()
