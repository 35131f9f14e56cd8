"""Sliding windows: where a kernel stops on an image of any number of dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from ephost.records import Record


class Windows(Record, frozen=True):
    """The windows of one operator on one image; each field has one entry per spatial dimension."""

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[int, ...]
    """Padding before the image."""
    end: tuple[int, ...]
    """Padding after the image, as the node says; the last window of a ceil_mode pool may reach beyond it."""
    output: tuple[int, ...]
    """How many windows there are."""

    def pad(self, image: np.ndarray, fill: Any) -> np.ndarray:
        """The image [N, C, *image] with padding of value `fill`, large enough for all windows."""
        widths = [(0, 0), (0, 0)]
        for size, before, count, stride, extent in zip(
            self.image, self.begin, self.output, self.strides, self._extents(), strict=True
        ):
            widths.append((before, max(0, (count - 1) * stride + extent - before - size)))
        if not any(map(any, widths)):
            return image
        return np.pad(image, widths, constant_values=fill)

    def taps(self, padded: np.ndarray) -> Iterator[np.ndarray]:
        """For each position in the kernel, row-major: a view [N, C, *output] of what windows have there."""
        for position in product(*map(range, self.kernel)):
            yield padded[(slice(None), slice(None), *self.places(position))]

    def places(self, position: Sequence[int]) -> tuple[slice, ...]:
        """Where in the padded image all windows have that position of the kernel."""
        return tuple(
            slice(tap * dilation, max(0, tap * dilation + (count - 1) * stride + 1), stride)
            for tap, dilation, count, stride in zip(
                position, self.dilations, self.output, self.strides, strict=True
            )
        )

    def view(self, padded: np.ndarray) -> np.ndarray:
        """All windows as a view [N, C, *output, *kernel]."""
        steps = padded.strides[2:]
        return np.lib.stride_tricks.as_strided(
            padded,
            (*padded.shape[:2], *self.output, *self.kernel),
            (
                *padded.strides[:2],
                *(step * stride for step, stride in zip(steps, self.strides, strict=True)),
                *(step * dilation for step, dilation in zip(steps, self.dilations, strict=True)),
            ),
            writeable=False,
        )

    def counts(self, include_padding: bool) -> np.ndarray:
        """How many elements each window covers [*output], padding counted or not."""
        total = np.ones((), np.int64)
        for axis, count in enumerate(self.output):
            taps = np.arange(self.kernel[axis]) * self.dilations[axis]
            places = np.arange(count)[:, None] * self.strides[axis] - self.begin[axis] + taps
            low = -self.begin[axis] if include_padding else 0
            high = self.image[axis] + (self.end[axis] if include_padding else 0)
            total = total[..., None] * ((places >= low) & (places < high)).sum(axis=1)
        return total

    def _extents(self) -> tuple[int, ...]:
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def windows_of(
    attributes: Mapping[str, Any],
    image: Sequence[int],
    kernel: Sequence[int],
    *,
    pools: bool = False,
    ceil_mode: bool = False,
) -> Windows:
    """The windows that `strides`, `dilations`, `pads`, `auto_pad` and `ceil_mode` of a node describe.

    With ceil_mode a last window counts that reaches beyond the padding, unless it begins there. Raises
    ValueError for lists of the wrong length and where the kernel does not fit on the image. Where it `pools`,
    a kernel may reach beyond the image, as in onnxruntime, whose division cuts: by less than a stride there
    is one window, by less than two there is none.
    """
    rank = len(image)
    strides = attributes.get("strides") or [1] * rank
    dilations = attributes.get("dilations") or [1] * rank
    pads = attributes.get("pads") or [0] * (2 * rank)
    auto_pad = attributes.get("auto_pad") or "NOTSET"
    if not len(kernel) == len(strides) == len(dilations) == len(pads) // 2 == rank:
        raise ValueError(
            f"kernel {list(kernel)}, strides {strides}, dilations {dilations} and pads {pads}"
            f" do not fit an image of {rank} dimensions"
        )
    begin, end, output = [], [], []
    for axis, size in enumerate(image):
        stride, extent = strides[axis], (kernel[axis] - 1) * dilations[axis] + 1
        before, after = pads[axis], pads[axis + rank]
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            count = -(-size // stride)
            total = max(0, (count - 1) * stride + extent - size)
            before = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            after = total - before
        else:
            if auto_pad == "VALID":
                before = after = 0
            room = size + before + after - extent
            if room < 0 and not (pools and room > -2 * stride):
                raise ValueError(
                    f"a kernel that spans {extent} does not fit on {size + before + after} elements"
                )
            count = room // stride + 1 if room >= 0 else int(room > -stride)
            if ceil_mode and room > 0 and room % stride and count * stride < size + before:
                count += 1
        begin.append(before)
        end.append(after)
        output.append(count)
    return Windows(
        tuple(image), tuple(kernel), tuple(strides), tuple(dilations), tuple(begin), tuple(end), tuple(output)
    )


def compute_dtype(dtype: np.dtype) -> np.dtype:
    """The type to accumulate in: itself for float, double and integers, float for narrower floating-point
    types.
    """
    return dtype if dtype.kind in "iub" or dtype in (np.float32, np.float64) else np.dtype(np.float32)
