"""Pools over windows, over whole images, and over regions.

The package loops over every window in Python, reads `pads` in the order (top, bottom, left, right) where ONNX
has all beginnings before all ends, ignores the pads of images that are not two-dimensional when a pool has no
stride, and has neither GlobalLpPool nor MaxRoiPool. Its GlobalMaxPool is wrong for images that are not
two-dimensional.
"""

from __future__ import annotations

import numpy as np

from .registry import OperatorNode, operator
from .windows import Windows, compute_dtype, windows_of


def _windows(node: OperatorNode, x: np.ndarray) -> Windows:
    attributes = node.attributes
    ceil_mode = bool(attributes.get("ceil_mode"))
    return windows_of(attributes, x.shape[2:], attributes["kernel_shape"], pools=True, ceil_mode=ceil_mode)


@operator("MaxPool")
def max_pool(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """The largest element of each window; as second output its index in x, flattened row- or column-major."""
    windows = _windows(node, x)
    lowest = -np.inf if x.dtype.kind not in "iu" else np.iinfo(x.dtype).min
    taps = windows.taps(windows.pad(x, lowest))
    best = next(taps).copy()
    if not node.wants(1):
        for tap in taps:
            np.maximum(best, tap, out=best)
        return (best,)
    winner = np.zeros(best.shape, np.int64)
    for index, tap in enumerate(taps, start=1):
        winner[tap > best] = index
        np.maximum(best, tap, out=best)
    return best, _image_indices(winner, windows, column_major=bool(node.attributes.get("storage_order")))


def _image_indices(winner: np.ndarray, windows: Windows, *, column_major: bool) -> np.ndarray:
    """From positions in the kernel [N, C, *output] to indices in the flattened image batch."""
    rank = len(windows.output)
    indices: np.ndarray = np.zeros(winner.shape, np.int64)
    step = 1
    positions = np.unravel_index(winner, windows.kernel)
    for axis in range(rank) if column_major else reversed(range(rank)):
        starts = np.arange(windows.output[axis]) * windows.strides[axis] - windows.begin[axis]
        places = starts.reshape(-1, *[1] * (rank - 1 - axis)) + positions[axis] * windows.dilations[axis]
        # Only a window that holds nothing above the padding's value has its winner outside the image.
        indices += np.clip(places, 0, windows.image[axis] - 1) * step
        step *= windows.image[axis]
    images: np.ndarray = np.arange(winner.shape[0] * winner.shape[1]).reshape(*winner.shape[:2], *[1] * rank)
    indices += images * step
    return indices


@operator("AveragePool")
def average_pool(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """The mean of what each window covers of the image; with count_include_pad of the padding too."""
    windows = _windows(node, x)
    dtype = compute_dtype(x.dtype)
    total = np.zeros((*x.shape[:2], *windows.output), dtype)
    for tap in windows.taps(windows.pad(x.astype(dtype, copy=False), 0)):
        total += tap
    total /= windows.counts(bool(node.attributes.get("count_include_pad"))).astype(dtype)
    return (total.astype(x.dtype, copy=False),)


@operator("LpPool")
def lp_pool(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """The p-norm of each window."""
    windows = _windows(node, x)
    p = node.attributes.get("p", 2)
    dtype = compute_dtype(x.dtype)
    total = np.zeros((*x.shape[:2], *windows.output), dtype)
    for tap in windows.taps(windows.pad(np.abs(x.astype(dtype, copy=False)) ** dtype.type(p), 0)):
        total += tap
    return ((total ** dtype.type(1 / p)).astype(x.dtype, copy=False),)


@operator("GlobalLpPool")
def global_lp_pool(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """The p-norm of each channel of each image: [N, C, *image] gives [N, C, 1, ...]."""
    p = node.attributes.get("p", 2)
    dtype = compute_dtype(x.dtype)
    powers = np.abs(x.astype(dtype, copy=False)) ** dtype.type(p)
    total = powers.sum(axis=tuple(range(2, x.ndim)), keepdims=True)
    return ((total ** dtype.type(1 / p)).astype(x.dtype),)


@operator("GlobalMaxPool")
def global_max_pool(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """The largest element of each channel of each image: [N, C, *image] gives [N, C, 1, ...]."""
    return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


@operator("MaxRoiPool")
def max_roi_pool(node: OperatorNode, x: np.ndarray, rois: np.ndarray) -> tuple[np.ndarray]:
    """x [N, C, H, W] and rois [R, 5] of (image, x1, y1, x2, y2) give [R, C, *pooled_shape].

    A region's corners are scaled and rounded, both inclusive; its cells overlap where they do not divide it
    evenly. A cell outside the image is 0.
    """
    rows, columns = node.attributes["pooled_shape"]
    scale = node.attributes.get("spatial_scale", 1.0)
    height, width = x.shape[2:]
    y = np.zeros((len(rois), x.shape[1], rows, columns), x.dtype)
    for index, roi in enumerate(rois.astype(np.float64)):
        left, top, right, bottom = np.floor(roi[1:] * scale + 0.5).astype(int)
        row_edges = _cells(top, bottom, rows, height)
        column_edges = _cells(left, right, columns, width)
        for row, (y0, y1) in enumerate(row_edges):
            for column, (x0, x1) in enumerate(column_edges):
                if y1 > y0 and x1 > x0:
                    y[index, :, row, column] = x[int(roi[0]), :, y0:y1, x0:x1].max(axis=(1, 2))
    return (y,)


def _cells(first: int, last: int, count: int, limit: int) -> list[tuple[int, int]]:
    """The half-open ranges of `count` cells over first..last, cut to 0..limit."""
    size = max(last - first + 1, 1) / count
    return [
        (
            min(max(int(np.floor(cell * size)) + first, 0), limit),
            min(max(int(np.ceil((cell + 1) * size)) + first, 0), limit),
        )
        for cell in range(count)
    ]
