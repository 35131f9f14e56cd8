"""Operators of com.microsoft that onnxruntime's quantizers write and no plugin may take: the onnx package has
none of them.
"""

from __future__ import annotations

import numpy as np

from .registry import OperatorNode, operator

_MS = "com.microsoft"
_FP4 = np.array([0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4], np.float32)
_FP4 = np.concatenate([_FP4, -_FP4])
_NF4 = np.array(
    [
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
        *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
        *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941),
        *(0.7229568362236023, 1.0),
    ],
    np.float32,
)


def _along(array: np.ndarray, rank: int, axis: int) -> np.ndarray:
    """A scale or zero point in the shape in which it goes along an axis."""
    if array.size == 1:
        return array.reshape(())
    shape = [1] * rank
    shape[axis] = -1
    return array.reshape(shape)


def _dequantized(x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None, axis: int = 0) -> np.ndarray:
    values = x.astype(np.int64)
    if zero is not None:
        values = values - _along(zero, x.ndim, axis).astype(np.int64)
    return np.asarray(values * _along(scale, x.ndim, axis).astype(np.float32))


def _quantized(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, axis: int = 0) -> np.ndarray:
    values = np.rint(x.astype(np.float32) / _along(scale, x.ndim, axis).astype(np.float32))
    limits = np.iinfo(zero.dtype)
    shifted = values + _along(zero, x.ndim, axis).astype(np.float32)
    return np.asarray(np.clip(shifted, limits.min, limits.max).astype(zero.dtype))


@operator("DequantizeLinear", domain=_MS)
def dequantize_linear(
    node: OperatorNode, x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray | None = None
) -> tuple[np.ndarray]:
    """As ONNX's, for 4 to 32 bits from the beginning; a scale of one dimension goes along `axis`."""
    if zero_point is not None and zero_point.dtype != x.dtype:
        raise TypeError(f"a zero point of type {zero_point.dtype} for {x.dtype}")
    return (_dequantized(x, scale, zero_point, node.attributes.get("axis", 1)).astype(scale.dtype),)


@operator("QuantizeLinear", domain=_MS)
def quantize_linear(
    node: OperatorNode, x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray | None = None
) -> tuple[np.ndarray]:
    """As ONNX's, for 4 to 16 bits from the beginning; a scale of one dimension goes along `axis`."""
    zero = np.zeros((), np.uint8) if zero_point is None else zero_point
    return (_quantized(x, scale, zero, node.attributes.get("axis", 1)),)


@operator("QLinearWhere", domain=_MS)
def qlinear_where(
    node: OperatorNode,
    condition: np.ndarray,
    x: np.ndarray,
    x_scale: np.ndarray,
    x_zero: np.ndarray,
    y: np.ndarray,
    y_scale: np.ndarray,
    y_zero: np.ndarray,
    z_scale: np.ndarray,
    z_zero: np.ndarray,
) -> tuple[np.ndarray]:
    """Where on two quantised tensors, quantised anew."""
    chosen = np.where(condition, _dequantized(x, x_scale, x_zero), _dequantized(y, y_scale, y_zero))
    return (_quantized(chosen, z_scale, z_zero),)


@operator("MatMulBnb4", domain=_MS)
def matmul_bnb4(node: OperatorNode, a: np.ndarray, b: np.ndarray, absmax: np.ndarray) -> tuple[np.ndarray]:
    """a [..., K] times the transpose of b [N, K], which is 4-bit floats of bitsandbytes in blocks of its
    elements in a row.
    """
    k, n, size = (node.attributes[name] for name in ("K", "N", "block_size"))
    codes = np.stack([b.reshape(-1) >> 4, b.reshape(-1) & 15], axis=1).reshape(-1)[: n * k]
    values = (_NF4 if node.attributes["quant_type"] == 1 else _FP4)[codes]
    weight = values * np.repeat(absmax.reshape(-1).astype(np.float32), size)[: n * k]
    return ((a.astype(np.float32) @ weight.reshape(n, k).T).astype(a.dtype),)


@operator("GatherBlockQuantized", domain=_MS)
def gather_block_quantized(
    node: OperatorNode,
    data: np.ndarray,
    indices: np.ndarray,
    scales: np.ndarray,
    zero_points: np.ndarray | None = None,
) -> tuple[np.ndarray]:
    """Gather of what is quantised in blocks along `quantize_axis`. uint8 data holds codes of `bits`, the
    first one lowest, along its last axis.
    """
    bits, size = node.attributes.get("bits", 4), node.attributes.get("block_size", 128)
    axis = node.attributes.get("quantize_axis", 1)
    if not -data.ndim <= axis < data.ndim:
        raise ValueError(f"quantize_axis is {axis} for data of shape {list(data.shape)}")
    axis %= data.ndim
    middle = 0
    if data.dtype == np.uint8:
        data, middle = _unpacked(data, bits), 1 << (bits - 1)
        zero_points = None if zero_points is None else _unpacked(zero_points, bits)
    if zero_points is not None and zero_points.shape[:-1] != scales.shape[:-1]:
        raise ValueError(
            f"zero points of shape {list(zero_points.shape)} for scales of shape {list(scales.shape)}"
        )
    values = data.astype(np.int64)
    length = values.shape[axis]
    spread = np.repeat(scales.astype(np.float32), size, axis=axis).take(range(length), axis=axis)
    if zero_points is None:
        values = values - middle
    else:
        zeros = zero_points.astype(np.int64).take(range(scales.shape[axis]), axis=axis)
        values = values - np.repeat(zeros, size, axis=axis).take(range(length), axis=axis)
    whole = (values * spread).astype(scales.dtype)
    return (np.take(whole, indices, axis=node.attributes.get("gather_axis", 0)),)


def _unpacked(data: np.ndarray, bits: int) -> np.ndarray:
    parts = [data >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*data.shape[:-1], -1)


@operator("QEmbedLayerNormalization", domain=_MS)
def q_embed_layer_normalization(
    node: OperatorNode, ids: np.ndarray, segments: np.ndarray | None, *rest: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The sum of three embeddings, normalised; all five tables are quantised. `rest`: the tables of words,
    positions and segments, gamma and beta, a mask, five scales, five zero points.
    """
    padded = [*rest, *[None] * (16 - len(rest))]
    tables = [
        None if table is None or scale is None else _dequantized(table, scale, zero)
        for table, scale, zero in zip(padded[:5], padded[6:11], padded[11:16], strict=True)
    ]
    words, positions, kinds, gamma, beta = tables
    assert words is not None and positions is not None and gamma is not None and beta is not None
    total = words[ids] + positions[: ids.shape[1]]
    if segments is not None and kinds is not None:
        total = total + kinds[segments]
    centred = total - total.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + node.attributes.get("epsilon", 1e-12))
    mask = padded[5]
    counts = np.zeros(len(ids), np.int32) if mask is None else mask.sum(axis=1).astype(np.int32)
    return (centred / deviation * gamma + beta).astype(np.float32), counts
