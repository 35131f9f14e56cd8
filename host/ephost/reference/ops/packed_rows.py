"""Rows of embeddings in the blocks of ggml's files, which com.microsoft's GatherPacked looks up."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable

import numpy as np

from ephost.records import Record

from ...message_helpers import numpy_dtype
from .registry import OperatorNode, operator


def _grid(levels: tuple[int, ...], length: int, places: str) -> np.ndarray:
    """Vectors of ``length`` levels. ``places`` says which there are of all of them, in ascending order as
    numbers whose lowest digit is the first.
    """
    there = np.unpackbits(np.frombuffer(zlib.decompress(base64.b64decode(places)), np.uint8))
    digits = np.flatnonzero(there)[:, None] // len(levels) ** np.arange(length) % len(levels)
    return np.asarray(np.array(levels, np.float32)[digits])


_GRID_2_XXS = _grid(
    (8, 25, 43),
    8,
    "eNp1UkuuhDAMs7KyeoqIVY8ZdcUxWD7NKV+S/mDEWFQqjZ3agc9f/fBoDVoPEIAKKgSxAwqlnbCqUvzcy5evAhiC0vy81iT2"
    "J1XEQFXSaXpCzTcSKod1IlW8ZVdxrLyi47IohY9zHqVcRut4tat36qIyeZDmVZlsHZpRi6c7UDzR7RWfBumRwS4/EN6Hf2HS"
    "GEZXUsOODNpuTptDycUjPaqlRB/a7VHs1lEXR6nbs9zLiZY0GyXZtDR57pT1NfstwzdimuNTqCzhapC/jeyQeWPO3B6x7jfs"
    "eMY5hrtvzBnKq+oB/qgtJ9/TfNm/Qn/T/gHr3Cc5",
)
_GRID_2_XS = _grid(
    (8, 25, 43),
    8,
    "eNpdUUuuhDAMs7KKeoqIFeKUUVeIU1SsUE85+bTQ96oZCE3i2E7v/ep3fW49ei935aY4LqYqUEXx1KO7wFJoKgJQBTd72a+3"
    "cxdlEFmXpxiwQGGHDfCyLpqAlioopzd6gQPeygkYN44pM2wNYpX2fca3AKPET+8JCCnsU9kHZqsVbhWkb7VkUgcwuGpM4Ynp"
    "OahXYUvJoWtIxmbyqk5AM8pS3tKCvM8woyja4SlVHVNrzCfMM+wNyYL2MsxeCnvZ7al5wRhJ+4u5QQFl6DzYfJ6EG+y0yppJ"
    "jSb9I+EM8Q7FEuofo/3NHJKbPuK45THyKTpUuMt1P6yfkLtKjBEHU4mV7i5g4RXgIulGbEaDhX4FBrJZUHkluS9EP7ayXPIs"
    "vXVM1NdL2ucUmXsh/D+Uw++xgsG6fU+j+wMxz1/h",
)
_GRID_2_S = _grid(
    (8, 25, 43),
    8,
    "eNptUktuBSEMi7KKOAWaFeKUESvEKRArlFPWCUz7qhaN5mdsbIOZDVu2Z8dLWlbmLnVIsky947HMbNc1klnBBYgBjZKTEG9z"
    "lqjytPwAYiItMoWImKqNAeU9SrVYwgql0lqeVDL5Wq+gQyFYpgICnW1kh5ToQPiXxaEMbapjjzazdqqp8TwsoZExf9KDFL8E"
    "OyhTQQ1yhw1fgmjHN4U4PnFTSu7Vdnm8jXkdtp09svsyq15UowOl9jqEgJQDwUaw0AbTgXxAcAeL/kQugN+1PgTpmo/IgJgQ"
    "8Ecwaokkz9oTDtk35XYobiM7gXR8CkpgdLPjPcktQU8t74gZzHv1Urs0pXXMN+K+Lwu73D3y/ImsDqUrDtbUkMFdX3UoTz8r"
    "y+SyYlNC8RwAp/zTYZfv2IBET6+B0MfAZJzeGjp+JuSEkcxe9KM0rqDy7fBXZmDXqF41/GYtemv6AlGinC0=",
)
_GRID_3_XXS = _grid(
    (4, 12, 20, 28, 36, 44, 52, 62),
    4,
    "eNpNUUEKwzAMU0IHYacOtnue4sIekMEeZHoae4XZqc+c5TTdVEqbWJbkZHuYVODa7G5SoJvYAwumxSY4FDNSSbguQPWH8EIB"
    "3vCSoFnbkgImFsVm4itUg0pGxr2rOF6+goRqoMa2tQ/98Yy+i9piSZ0kL/Qm+s30Su5G446WIwjEmutP4XfmPpuZVNgV0OQ7"
    "K8OzoTBGlGYG89lOuByhCumK1d0GnSZlxNBBnGz/d1nPpSvyaOA4te4O0BCvnTYS4SDyew4X6W/CcF3/QoX03rCH73I3HfeS"
    "uyzHrDySEVeCab+jO2Ygvs6ML0w=",
)
_LEVELS_4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)
_EVEN = np.array([i | (i.bit_count() & 1) << 7 for i in range(128)])  # 7 signs, and one that makes them even


def _halves(blocks: np.ndarray, at: int = 0) -> np.ndarray:
    """The float16 at that byte of each block, [blocks, 1]."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view(np.float16).astype(np.float32)


def _codes(data: np.ndarray, bits: int) -> np.ndarray:
    """All codes in the bytes [blocks, n]: [blocks, codes of a byte, n], the lowest ones first."""
    return np.stack([data >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)], axis=1)


def _words(data: np.ndarray, kind: type[np.generic]) -> np.ndarray:
    return np.ascontiguousarray(data).view(kind).astype(np.int64)


def _signs(patterns: np.ndarray) -> np.ndarray:
    """-1 where one of a pattern's 8 bits is set, and 1: an axis more."""
    return np.asarray(1 - 2.0 * (patterns[..., None] >> np.arange(8) & 1), np.float32)


def _four_bits(blocks: np.ndarray) -> np.ndarray:
    return _halves(blocks) * (_codes(blocks[:, 2:], 4).reshape(-1, 32).astype(np.float32) - 8)


def _five_bits(blocks: np.ndarray) -> np.ndarray:
    high = np.unpackbits(blocks[:, 2:6], axis=1, bitorder="little")
    codes = _codes(blocks[:, 6:], 4).reshape(-1, 32) | high << 4
    return np.asarray(_halves(blocks) * (codes.astype(np.float32) - 16))


def _eight_bits(blocks: np.ndarray) -> np.ndarray:
    return _halves(blocks) * blocks[:, 2:].view(np.int8).astype(np.float32)


def _two_bits(blocks: np.ndarray) -> np.ndarray:
    codes = _codes(blocks[:, 2:], 2).swapaxes(1, 2).reshape(-1, 64)
    return np.asarray(_halves(blocks) * (codes.astype(np.float32) - 1))


def _five_bits_of_groups(blocks: np.ndarray) -> np.ndarray:
    """Eight groups of 32, each with a scale and a minimum of 6 bits."""
    packed = blocks[:, 4:16].reshape(-1, 3, 4)
    first, second, third = packed[:, 0], packed[:, 1], packed[:, 2]
    scales = np.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=1)
    minima = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=1)
    high = np.unpackbits(blocks[:, 16:48], axis=1, bitorder="little").reshape(-1, 32, 8).swapaxes(1, 2)
    low = _codes(blocks[:, 48:].reshape(-1, 32), 4).reshape(-1, 8, 32)
    codes = (low | high << 4).astype(np.float32)
    factors = _halves(blocks) * scales.astype(np.float32)
    below = _halves(blocks, 2) * minima.astype(np.float32)
    return np.asarray(factors[..., None] * codes - below[..., None])


def _six_bits_of_groups(blocks: np.ndarray) -> np.ndarray:
    """Sixteen groups of 16, each with a scale of 8 bits."""
    low = _codes(blocks[:, :128].reshape(-1, 64), 4).reshape(-1, 2, 2, 64)
    high = _codes(blocks[:, 128:192].reshape(-1, 32), 2).reshape(-1, 2, 2, 64)
    codes = (low | high << 4).astype(np.float32).reshape(-1, 16, 16) - 32
    factors = _halves(blocks, 208) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    return np.asarray(factors[..., None] * codes)


def _grid_2_xxs(blocks: np.ndarray) -> np.ndarray:
    groups = blocks[:, 2:].reshape(-1, 8)
    word = _words(groups[:, 4:], np.uint32)
    signs = _signs(_EVEN[word >> np.arange(0, 28, 7) & 127])
    factors = _halves(blocks) * (0.5 + (word >> 28).astype(np.float32)).reshape(-1, 8) * np.float32(0.25)
    return np.asarray(factors[..., None] * (_GRID_2_XXS[groups[:, :4]] * signs).reshape(-1, 8, 32))


def _factors_of_sixteen(blocks: np.ndarray, at: int) -> np.ndarray:
    """One for each 16 elements, of the last 8 bytes, [blocks, 16, 1]."""
    codes = _codes(blocks[:, at:], 4).swapaxes(1, 2).reshape(-1, 16)
    factors = _halves(blocks) * (0.5 + codes.astype(np.float32)) * np.float32(0.25)
    return np.asarray(factors[..., None])


def _grid_2_xs(blocks: np.ndarray) -> np.ndarray:
    words = _words(blocks[:, 2:66], np.uint16)
    values = _GRID_2_XS[words & 511] * _signs(_EVEN[words >> 9])
    return np.asarray(_factors_of_sixteen(blocks, 66) * values.reshape(-1, 16, 16))


def _grid_2_s(blocks: np.ndarray) -> np.ndarray:
    high = _codes(blocks[:, 66:74], 2).swapaxes(1, 2).reshape(-1, 32).astype(np.int64)
    values = _GRID_2_S[blocks[:, 2:34] | high << 8] * _signs(blocks[:, 34:66])
    return np.asarray(_factors_of_sixteen(blocks, 74) * values.reshape(-1, 16, 16))


def _grid_3_xxs(blocks: np.ndarray) -> np.ndarray:
    word = _words(blocks[:, 66:], np.uint32)[..., None]
    signs = _signs(_EVEN[word >> np.arange(0, 28, 7) & 127]).reshape(-1, 8, 32)
    factors = _halves(blocks)[..., None] * (0.5 + (word >> 28).astype(np.float32)) * np.float32(0.5)
    return np.asarray(factors * (_GRID_3_XXS[blocks[:, 2:66]].reshape(-1, 8, 32) * signs))


def _uneven_four_bits(blocks: np.ndarray) -> np.ndarray:
    return np.asarray(_halves(blocks) * _LEVELS_4[_codes(blocks[:, 2:], 4).reshape(-1, 32)])


def _uneven_four_bits_of_groups(blocks: np.ndarray) -> np.ndarray:
    high = _words(blocks[:, 2:4], np.uint16) >> np.arange(0, 16, 2) & 3
    low = _codes(blocks[:, 4:8], 4).swapaxes(1, 2).reshape(-1, 8)
    factors = _halves(blocks) * ((low | high << 4).astype(np.float32) - 32)
    codes = _codes(blocks[:, 8:].reshape(-1, 16), 4).reshape(-1, 8, 32)
    return np.asarray(factors[..., None] * _LEVELS_4[codes])


def _upper_halves(blocks: np.ndarray) -> np.ndarray:
    return (blocks.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


class _Format(Record, frozen=True):
    name: str
    elements: int
    """Of a block, in a row."""
    size: int
    """Of a block, in bytes."""
    unpack: Callable[[np.ndarray], np.ndarray]
    """Blocks [n, size] as float32 of n times as many elements."""


_FORMATS = {
    0: _Format("F32", 1, 4, lambda blocks: blocks.view(np.float32)),
    1: _Format("F16", 1, 2, lambda blocks: blocks.view(np.float16)),
    2: _Format("Q4_0", 32, 18, _four_bits),
    6: _Format("Q5_0", 32, 22, _five_bits),
    8: _Format("Q8_0", 32, 34, _eight_bits),
    13: _Format("Q5_K", 256, 176, _five_bits_of_groups),
    14: _Format("Q6_K", 256, 210, _six_bits_of_groups),
    16: _Format("IQ2_XXS", 256, 66, _grid_2_xxs),
    17: _Format("IQ2_XS", 256, 74, _grid_2_xs),
    18: _Format("IQ3_XXS", 256, 98, _grid_3_xxs),
    20: _Format("IQ4_NL", 32, 18, _uneven_four_bits),
    22: _Format("IQ2_S", 256, 82, _grid_2_s),
    23: _Format("IQ4_XS", 256, 136, _uneven_four_bits_of_groups),
    30: _Format("BF16", 1, 2, _upper_halves),
    42: _Format("Q2_0", 64, 18, _two_bits),
}
"""By ggml's numbers."""
_OUTPUTS = (1, 10, 16)  # float, float16, bfloat16


@operator("GatherPacked", domain="com.microsoft")
def gather_packed(node: OperatorNode, data: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray]:
    """Rows of ``data``, uint8 [rows, bytes], as ``K`` numbers each. An index beyond them is that of the first
    row.
    """
    number, length = node.attributes["packed_type"], node.attributes["K"]
    kind = node.attributes.get("output_dtype", 16)
    if number not in _FORMATS:
        known = ", ".join(f"{at} ({form.name})" for at, form in _FORMATS.items())
        raise ValueError(f"packed_type is {number}, known are {known}")
    form = _FORMATS[number]
    if length <= 0 or length % form.elements:
        raise ValueError(f"K is {length}, blocks of {form.name} have {form.elements} elements")
    if kind not in _OUTPUTS:
        raise ValueError(f"output_dtype is {kind}, not that of float, float16 or bfloat16")
    size = length // form.elements * form.size
    if data.ndim != 2 or data.shape[1] != size:
        raise ValueError(f"data of shape {list(data.shape)} does not have rows of {size} bytes")
    if indices.size and not len(data):
        raise ValueError("data has no rows to look up")
    rows = data[np.where((indices >= 0) & (indices < len(data)), indices, 0).reshape(-1)]
    found = form.unpack(np.ascontiguousarray(rows).reshape(-1, form.size)) if rows.size else np.zeros(0)
    return (found.reshape(*indices.shape, length).astype(numpy_dtype(kind)),)
