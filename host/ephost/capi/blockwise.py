"""Weights in blocks of few bits, as onnxruntime's quantizers ask its native module for them: what
MatMulNBits, MatMulBnb4 and DequantizeLinear with blocks read.

All functions write into arrays that the caller made.
"""

from __future__ import annotations

import functools

import numpy as np

# Where one code ends and the next begins, of what is divided by the largest magnitude of its block; and the
# codes, in that order. FP4: sign, and a float of 2 bits of exponent and one of mantissa. NF4: quantiles of
# the normal distribution (Dettmers et al., QLoRA, 2023).
_FP4_BOUNDS = np.array([0.00260417, 0.0859375, 0.20833333, 0.29166667, 0.4166667, 0.583333, 0.8333333])
_FP4_CODES = np.array([0, 1, 6, 7, 4, 5, 2, 3], np.uint8)
_NF4_VALUES = np.array(
    [
        -1.0,
        -0.6961928009986877,
        -0.5250730514526367,
        -0.39491748809814453,
        -0.28444138169288635,
        -0.18477343022823334,
        -0.09105003625154495,
        0.0,
        0.07958029955625534,
        0.16093020141124725,
        0.24611230194568634,
        0.33791524171829224,
        0.44070982933044434,
        0.5626170039176941,
        0.7229568362236023,
        1.0,
    ]
)
_NF4_BOUNDS = (_NF4_VALUES[1:] + _NF4_VALUES[:-1]) / 2
_FP4 = 0


def _blocks(
    weight: np.ndarray, bits: int, block_size: int, is_symmetric: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes, scales [blocks, N] and zero points [blocks, N] of a weight [K, N] of floats. There are codes
    [blocks * block_size, N]: those beyond K stand for 0.
    """
    k, n = weight.shape
    count = -(-k // block_size)
    padded = np.zeros((count * block_size, n), np.float32)
    padded[:k] = weight
    blocks = padded.reshape(count, block_size, n)
    top, middle = (1 << bits) - 1, 1 << (bits - 1)
    if is_symmetric:
        at = np.abs(blocks).argmax(axis=1)[:, None]
        scales = np.take_along_axis(blocks, at, axis=1)[:, 0] / np.float32(-middle)
        zeros = np.full(scales.shape, middle, np.float32)
    else:
        low, high = np.minimum(blocks.min(axis=1), 0), np.maximum(blocks.max(axis=1), 0)
        scales = (high - low) / np.float32(top)
        with np.errstate(divide="ignore", invalid="ignore"):
            zeros = np.where(scales != 0, -low / scales, low)
        zeros = np.clip(_rounded(zeros), 0, top)
    with np.errstate(divide="ignore"):
        reciprocals = np.where(scales != 0, np.float32(1) / scales, np.float32(0))
    codes = np.clip(_rounded(blocks * reciprocals[:, None] + zeros[:, None]), 0, top)
    return codes.reshape(-1, n).astype(np.uint8), scales, zeros.astype(np.uint8)


def _rounded(values: np.ndarray) -> np.ndarray:
    """To the next integer, halves away from zero."""
    rounded: np.ndarray = np.trunc(values + np.copysign(np.float32(0.5), values))
    return rounded


def _packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes along the last axis, several a byte, the first one lowest; that axis has whole bytes."""
    each = 8 // bits
    parts = codes.reshape(*codes.shape[:-1], -1, each)
    shifts = np.arange(each, dtype=np.uint8) * np.uint8(bits)
    packed: np.ndarray = np.bitwise_or.reduce(parts << shifts, axis=-1).astype(np.uint8)
    return packed


def _filled(codes: np.ndarray, length: int, fill: int) -> np.ndarray:
    """Codes with their last axis filled up to a length."""
    out = np.full((*codes.shape[:-1], length), fill, np.uint8)
    out[..., : codes.shape[-1]] = codes
    return out


def _quantize_matmul(
    bits: int,
    packed: np.ndarray,
    weight: np.ndarray,
    scales: np.ndarray,
    zero_points: np.ndarray,
    block_size: int,
    n: int,
    k: int,
    is_symmetric: bool,
) -> None:
    """Quantise a weight [K, N] in blocks of a column to integers without sign, as MatMulNBits reads it.

    Args:
        bits: of a code: 2, 4 or 8.
        packed: uint8 [N, blocks, bytes of a block], filled.
        weight: float32 or float16.
        scales: of the weight's type, [N, blocks], filled.
        zero_points: uint8 [N, bytes of a code for each block], filled unless ``is_symmetric``.
        block_size: elements of a block.
        n: columns.
        k: rows.
        is_symmetric: whether zero is the middle code.
    """
    codes, found, zeros = _blocks(np.asarray(weight).reshape(-1, n)[:k], bits, block_size, is_symmetric)
    count, each = found.shape[0], 8 // bits
    there = -(-k // each) * each  # a byte that has begun is filled up
    whole = _filled(codes.T[:, :there], count * block_size, 0).reshape(n, count, block_size)
    whole = _filled(whole, -(-block_size // each) * each, 0)
    packed.reshape(-1)[:] = _packed(whole, bits).reshape(-1)
    scales.reshape(-1)[:] = found.T.reshape(-1)
    if not is_symmetric:
        row = _filled(zeros.T, -(-count // each) * each, 1 << (bits - 1))
        zero_points.reshape(-1)[:] = _packed(row, bits).reshape(-1)


quantize_matmul_2bits = functools.partial(_quantize_matmul, 2)
quantize_matmul_4bits = functools.partial(_quantize_matmul, 4)
quantize_matmul_8bits = functools.partial(_quantize_matmul, 8)


def _quantize_qdq(
    bits: int,
    packed: np.ndarray,
    weight: np.ndarray,
    scales: np.ndarray,
    zero_points: np.ndarray,
    block_size: int,
    n: int,
    k: int,
    is_symmetric: bool,
) -> bool:
    """Quantise a weight [K, N] in blocks of a column as DequantizeLinear with ``block_size`` reads it.

    Args:
        bits: of a code: 2 or 4.
        packed: uint8, the weight's codes in its own order, filled; with sign if ``is_symmetric``.
        weight: float32 or float16.
        scales: of the weight's type, [blocks, N], filled.
        zero_points: uint8, a code for each scale, filled unless ``is_symmetric``.
        block_size: elements of a block.
        n: columns.
        k: rows.
        is_symmetric: whether zero is the middle code.

    Returns:
        Whether the codes have a sign.
    """
    codes, found, zeros = _blocks(np.asarray(weight).reshape(-1, n)[:k], bits, block_size, is_symmetric)
    codes, middle, each = codes[:k], 1 << (bits - 1), 8 // bits
    if is_symmetric:  # with sign
        codes = (codes ^ np.uint8(middle)).astype(np.uint8)
    for out, values in ((packed, codes), (zero_points, zeros)):
        if out is zero_points and is_symmetric:
            continue
        flat = _filled(values.reshape(1, -1), -(-values.size // each) * each, 0)
        out.reshape(-1)[:] = _packed(flat, bits).reshape(-1)
    scales.reshape(-1)[:] = found.reshape(-1)
    return is_symmetric


quantize_qdq_matmul_2bits = functools.partial(_quantize_qdq, 2)
quantize_qdq_matmul_4bits = functools.partial(_quantize_qdq, 4)


def quantize_matmul_bnb4(
    packed: np.ndarray,
    weight: np.ndarray,
    largest: np.ndarray,
    block_size: int,
    quant_type: int,
    n: int,
    k: int,
) -> None:
    """Quantise a weight to the 4-bit floats of bitsandbytes, as MatMulBnb4 reads it.

    Args:
        packed: uint8, two codes a byte, the first one highest, filled.
        weight: float32 or float16, [N, K] or flat: blocks are of its elements in a row.
        largest: of the weight's type, the largest magnitude of each block, filled.
        block_size: elements of a block.
        quant_type: 0: FP4, 1: NF4.
        n: rows.
        k: columns.
    """
    count = -(-n * k // block_size)
    flat = np.zeros(count * block_size, np.float32)
    flat[: n * k] = np.asarray(weight).reshape(-1)[: n * k]
    blocks = flat.reshape(count, block_size)
    found = np.abs(blocks).max(axis=1)
    with np.errstate(divide="ignore"):
        factors = np.where(found != 0, np.float32(1) / found, np.float32(0))
    scaled = (blocks * factors[:, None]).reshape(-1)
    if quant_type == _FP4:
        magnitudes = np.searchsorted(_FP4_BOUNDS.astype(np.float32), np.abs(scaled))
        codes = _FP4_CODES[magnitudes] | ((scaled < 0).astype(np.uint8) << 3)
    else:
        codes = np.searchsorted(_NF4_BOUNDS.astype(np.float32), scaled).astype(np.uint8)
    pairs = codes[: 2 * packed.size].reshape(-1, 2)
    packed.reshape(-1)[: len(pairs)] = (pairs[:, 0] << 4) | pairs[:, 1]
    largest.reshape(-1)[:] = found
