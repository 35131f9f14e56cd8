"""Conv, ConvTranspose and Col2Im on whole images at once.

The package's versions are correct but gather the image through index arrays (Conv) and add the columns up
element by element (ConvTranspose): one layer of a text detector takes it seconds.
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from .registry import OperatorNode, operator
from .windows import Windows, compute_dtype, windows_of

_COLUMN_BYTES = 32 << 20
"""About how much memory the unfolded image may take at once."""


@operator("Conv")
def conv(
    node: OperatorNode, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None
) -> tuple[np.ndarray]:
    """x [N, C, *image] and w [M, C / group, *kernel] give [N, M, *output]."""
    group = node.attributes.get("group", 1)
    if x.ndim < 3 or w.ndim != x.ndim:
        raise ValueError(
            f"the image has shape {x.shape} and the weights {w.shape}: they must have 3 dimensions or more"
        )
    if x.shape[1] != w.shape[1] * group or w.shape[0] % group:
        raise ValueError(f"{x.shape[1]} channels, weights {w.shape} and {group} groups do not fit together")
    windows = windows_of(node.attributes, x.shape[2:], node.attributes.get("kernel_shape") or w.shape[2:])
    if windows.kernel != w.shape[2:]:
        raise ValueError(f"kernel_shape {list(windows.kernel)} differs from the weights' {list(w.shape[2:])}")
    dtype = compute_dtype(x.dtype)
    padded = windows.pad(x.astype(dtype, copy=False), 0)
    weights = w.astype(dtype, copy=False)
    y = (
        _depthwise(padded, weights, windows)
        if group == x.shape[1]
        else _grouped(padded, weights, windows, group)
    )
    if bias is not None:
        y += bias.astype(dtype, copy=False).reshape(-1, *[1] * (y.ndim - 2))
    return (y.astype(x.dtype, copy=False),)


def _depthwise(padded: np.ndarray, weights: np.ndarray, windows: Windows) -> np.ndarray:
    """One input channel per group: too little for a matrix product, so the taps are summed one by one."""
    batch, channels = padded.shape[:2]
    multiplier = weights.shape[0] // channels
    factors = weights.reshape(1, channels, multiplier, prod(windows.kernel))
    y = np.zeros((batch, channels, multiplier, *windows.output), padded.dtype)
    ones = [1] * len(windows.output)
    for index, tap in enumerate(windows.taps(padded)):
        y += tap[:, :, None] * factors[..., index].reshape(1, channels, multiplier, *ones)
    return y.reshape(batch, channels * multiplier, *windows.output)


def _grouped(padded: np.ndarray, weights: np.ndarray, windows: Windows, group: int) -> np.ndarray:
    """Unfolds the image into columns, some rows of the output at a time.

    Single precision is summed in double: a matrix product's order of summation depends on a row's place in
    the matrix, so that filters with equal weights would otherwise differ in their last bits.
    """
    batch, channels = padded.shape[:2]
    depth = weights[0].size
    wide = np.dtype(np.float64) if padded.dtype == np.float32 else padded.dtype
    matrix = weights.astype(wide).reshape(group, weights.shape[0] // group, depth)
    rank = len(windows.output)
    y = np.empty((batch, group, matrix.shape[1], *windows.output), padded.dtype)
    # [N, C, *output, *kernel] becomes [N, C, *kernel, *output].
    view = windows.view(padded)
    view = view.transpose(0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    row_bytes = channels * prod(windows.kernel) * prod(windows.output[1:]) * wide.itemsize
    rows = max(1, _COLUMN_BYTES // max(1, row_bytes))
    for image in range(batch):
        rowwise = np.moveaxis(view[image], 1 + rank, 0)
        for start in range(0, windows.output[0], rows):
            part = np.moveaxis(rowwise[start : start + rows], 0, 1 + rank)
            columns = part.astype(wide, order="C").reshape(group, depth, -1)
            sums = matrix @ columns
            y[image, :, :, start : start + rows] = sums.reshape(*y.shape[1:3], -1, *windows.output[1:])
    return y.reshape(batch, weights.shape[0], *windows.output)


@operator("ConvTranspose")
def conv_transpose(
    node: OperatorNode, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None
) -> tuple[np.ndarray]:
    """x [N, C, *image] and w [C, M / group, *kernel] give [N, M, *output]."""
    attributes = node.attributes
    group = attributes.get("group", 1)
    image, kernel = x.shape[2:], w.shape[2:]
    rank = len(image)
    if rank < 1 or len(kernel) != rank or x.shape[1] != w.shape[0] or w.shape[0] % group:
        raise ValueError(f"image {x.shape}, weights {w.shape} and {group} groups do not fit together")
    strides = attributes.get("strides") or [1] * rank
    dilations = attributes.get("dilations") or [1] * rank
    extra = attributes.get("output_padding") or [0] * rank
    pads = attributes.get("pads") or [0] * (2 * rank)
    auto_pad = attributes.get("auto_pad") or "NOTSET"
    wanted = attributes.get("output_shape")
    if wanted is not None:
        wanted = wanted[-rank:]
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [size * stride for size, stride in zip(image, strides, strict=True)]
    reach = [
        (size - 1) * stride + (taps - 1) * dilation + 1
        for size, stride, taps, dilation in zip(image, strides, kernel, dilations, strict=True)
    ]
    begin, output = [], []
    for axis in range(rank):
        if wanted is not None:
            total = max(0, reach[axis] + extra[axis] - wanted[axis])
            begin.append(total // 2 if auto_pad == "SAME_UPPER" else total - total // 2)
            output.append(wanted[axis])
        else:
            before, after = (0, 0) if auto_pad == "VALID" else (pads[axis], pads[axis + rank])
            begin.append(before)
            output.append(reach[axis] + extra[axis] - before - after)
    if min(output) < 0:
        raise ValueError(f"the padding {pads} leaves nothing of an output of shape {reach}")

    dtype = compute_dtype(x.dtype)
    batch, filters = x.shape[0], w.shape[1]
    matrix = w.astype(dtype, copy=False).reshape(group, w.shape[0] // group, filters * prod(kernel))
    columns = x.astype(dtype, copy=False).reshape(batch, group, x.shape[1] // group, prod(image))
    taps = (matrix.transpose(0, 2, 1) @ columns).reshape(batch, group * filters, prod(kernel), *image)
    full = np.zeros(
        (batch, group * filters, *(max(r, b + o) for r, b, o in zip(reach, begin, output, strict=True))),
        dtype,
    )
    for index, position in enumerate(product(*map(range, kernel))):
        places = tuple(
            slice(tap * dilation, tap * dilation + (size - 1) * stride + 1, stride)
            for tap, dilation, size, stride in zip(position, dilations, image, strides, strict=True)
        )
        full[(slice(None), slice(None), *places)] += taps[:, :, index]
    y = full[(slice(None), slice(None), *(slice(b, b + o) for b, o in zip(begin, output, strict=True)))]
    if bias is not None:
        y = y + bias.astype(dtype, copy=False).reshape(-1, *[1] * rank)
    return (np.ascontiguousarray(y.astype(x.dtype, copy=False)),)


@operator("ConvTransposeWithDynamicPads", domain="com.microsoft")
def conv_transpose_with_dynamic_pads(
    node: OperatorNode,
    x: np.ndarray,
    w: np.ndarray,
    pads: np.ndarray | None = None,
    bias: np.ndarray | None = None,
) -> tuple[np.ndarray]:
    """ConvTranspose whose padding is an input."""
    attributes = dict(node.attributes)
    channels = w.shape[1] * attributes.get("group", 1)
    if bias is not None and bias.shape != (channels,):
        raise ValueError(f"a bias of shape {list(bias.shape)} for {channels} channels")
    if pads is not None:
        if pads.shape != (2 * (x.ndim - 2),) or (pads < 0).any():
            raise ValueError(f"pads of {pads.tolist()}: an image has {2 * (x.ndim - 2)}, from 0 on")
        attributes["pads"] = pads.tolist()
    return conv_transpose(OperatorNode(node.version, attributes, node.wanted, node.package), x, w, bias)


@operator("Col2Im")
def col2im(
    node: OperatorNode, columns: np.ndarray, image_shape: np.ndarray, block_shape: np.ndarray
) -> tuple[np.ndarray]:
    """columns [N, C * prod(block), windows] are added up where their windows lie: [N, C, *image].

    The package's adds element by element.
    """
    windows = windows_of(node.attributes, image_shape.tolist(), block_shape.tolist())
    batch, depth, count = columns.shape
    taps = prod(windows.kernel)
    if depth % taps or count != prod(windows.output):
        raise ValueError(f"columns {columns.shape} do not fit {windows.output} windows of {windows.kernel}")
    dtype = compute_dtype(columns.dtype)
    parts = columns.astype(dtype, copy=False).reshape(batch, depth // taps, taps, *windows.output)
    padded = windows.pad(np.zeros((batch, depth // taps, *windows.image), dtype), 0)
    for index, place in enumerate(windows.taps(padded)):
        place += parts[:, :, index]
    inside = tuple(slice(b, b + size) for b, size in zip(windows.begin, windows.image, strict=True))
    return (np.ascontiguousarray(padded[(slice(None), slice(None), *inside)].astype(columns.dtype)),)
