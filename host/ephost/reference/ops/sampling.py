"""GridSample on all points at once: the package's takes seconds for a small image."""

from __future__ import annotations

from itertools import product

import numpy as np

from .registry import OperatorNode, operator
from .windows import compute_dtype

_CUBIC = -0.75


@operator("GridSample")
def grid_sample(node: OperatorNode, x: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray]:
    """x [N, C, *image] at the places grid [N, *output, rank] gives [N, C, *output].

    A place has its last image axis first, from -1 to 1. Where a place (unless the mode is cubic) or a
    neighbour that it is interpolated from lies outside of the image, padding_mode moves it inside or makes it
    count as 0.
    """
    attributes = node.attributes
    mode = attributes.get("mode", "linear").removeprefix("bi")
    padding = attributes.get("padding_mode", "zeros")
    aligned = bool(attributes.get("align_corners", 0))
    dtype = compute_dtype(x.dtype)
    image = x.shape[2:]
    taps: list[list[tuple[np.ndarray, np.ndarray]]] = []
    for axis, size in enumerate(image):
        place = grid[..., len(image) - 1 - axis].astype(np.float64)
        place = (place + 1) / 2 * (size - 1) if aligned else ((place + 1) * size - 1) / 2
        if mode == "nearest":
            place = np.rint(place)
        if mode != "cubic":
            place = _inside(place, size, padding, aligned)
        taps.append(_neighbours(place, mode))
    batch = np.arange(len(x)).reshape(-1, *[1] * (grid.ndim - 2))
    y = np.zeros((len(x), *grid.shape[1:-1], x.shape[1]), dtype)
    for combination in product(*taps):
        weight = np.ones(grid.shape[:-1], np.float64)
        indices = []
        for (index, share), size in zip(combination, image, strict=True):
            inner = _inside(index, size, padding, aligned)
            weight = weight * share * ((inner >= 0) & (inner <= size - 1))
            indices.append(np.clip(inner, 0, size - 1).astype(np.int64))
        y += x[(batch, slice(None), *indices)] * weight[..., None].astype(dtype)
    return (np.ascontiguousarray(np.moveaxis(y, -1, 1)).astype(x.dtype, copy=False),)


def _inside(place: np.ndarray, size: int, padding: str, aligned: bool) -> np.ndarray:
    if padding == "border":
        clipped: np.ndarray = np.clip(place, 0, size - 1)
        return clipped
    if padding != "reflection":
        return place
    low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
    span = high - low
    if span == 0:
        return np.full_like(place, low)
    offset = np.mod(place - low, 2 * span)
    reflected: np.ndarray = low + np.minimum(offset, 2 * span - offset)
    return reflected


def _neighbours(place: np.ndarray, mode: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Along one axis: the positions that a place is interpolated from, with their weights."""
    low = np.floor(place)
    share = place - low
    if mode == "nearest":
        return [(place, np.ones_like(place))]
    if mode == "linear":
        return [(low, 1 - share), (low + 1, share)]
    if mode != "cubic":
        raise ValueError(f"unknown mode {mode!r}")
    neighbours = []
    for offset in (-1, 0, 1, 2):
        d = np.abs(share - offset)
        near = ((_CUBIC + 2) * d - (_CUBIC + 3)) * d * d + 1
        far = ((_CUBIC * d - 5 * _CUBIC) * d + 8 * _CUBIC) * d - 4 * _CUBIC
        neighbours.append((low + offset, np.where(d <= 1, near, far)))
    return neighbours
