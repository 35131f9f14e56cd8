"""Convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ephost.messages import TensorProto
from ephost.model.graph import Dim, Node, TensorType, tensor_type
from ephost.model.type_rules.registry import (
    Knowledge,
    Made,
    Types,
    Unsure,
    attribute_text,
    dims_of,
    given,
    product,
    rule,
    same,
)


class _Window:
    """A window over some axes: networks have a few, and slide each over few shapes."""

    def __init__(
        self,
        kernel: tuple[int, ...],
        strides: tuple[int, ...],
        dilations: tuple[int, ...],
        pads: tuple[int, ...],
        auto_pad: str,
        rounds_up: bool,
    ) -> None:
        self.axes = axes = len(kernel)
        self.kernel, self.strides, self.dilations, self.pads = kernel, strides, dilations, pads
        self.auto_pad, self.rounds_up = auto_pad, rounds_up
        if (
            {len(strides), len(dilations), len(pads) // 2} != {axes}
            or min(kernel + strides + dilations, default=1) < 1
            or min(pads, default=0) < 0
        ):
            raise Unsure
        if auto_pad == "VALID":
            self.pads = (0,) * (2 * axes)
        elif auto_pad not in ("NOTSET", "SAME_UPPER", "SAME_LOWER"):
            raise Unsure

    def extent(self, at: int) -> int:
        """How far it reaches along an axis."""
        return (self.kernel[at] - 1) * self.dilations[at] + 1

    def slid_over(self, dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """How many places it has along each axis."""
        return tuple([self._places(at, dim) for at, dim in enumerate(dims)])

    def _places(self, at: int, dim: Dim) -> Dim:
        if not isinstance(dim, int):
            return None
        stride, extent = self.strides[at], self.extent(at)
        if self.auto_pad.startswith("SAME"):
            if self.rounds_up or dim == 0:
                raise Unsure
            return -(-dim // stride)
        end = self.pads[self.axes + at]
        room = dim + self.pads[at] + end - extent
        if room < 0 or (self.rounds_up and (room % stride or end >= extent)):
            raise Unsure
        return room // stride + 1

    def spread_over(self, dims: Sequence[Dim], more: Sequence[int]) -> list[Dim]:
        """How far so many places reach along each axis."""
        if self.auto_pad.startswith("SAME"):
            raise Unsure
        made: list[Dim] = []
        for at, dim in enumerate(dims):
            if not isinstance(dim, int) or dim < 1:
                made.append(None)
                continue
            cut = self.pads[at] + self.pads[self.axes + at]
            made.append(self.strides[at] * (dim - 1) + more[at] + self.extent(at) - cut)
        if any(isinstance(size, int) and size < 0 for size in made):
            raise Unsure
        return made


_window = lru_cache(maxsize=1024)(_Window)


@lru_cache(maxsize=1024)
def _slid(window: _Window, dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    return window.slid_over(dims)


def _window_of(node: Node, kernel: Sequence[Dim]) -> _Window:
    """The window that attributes say, with their defaults for so many axes."""
    axes = len(kernel)
    if not all(isinstance(size, int) for size in kernel):
        raise Unsure
    return _window(
        tuple(kernel),
        tuple(node.attribute("strides") or (1,) * axes),
        tuple(node.attribute("dilations") or (1,) * axes),
        tuple(node.attribute("pads") or (0,) * (2 * axes)),
        attribute_text(node, "auto_pad", "NOTSET"),
        bool(node.attribute("ceil_mode", 0)),
    )


def _image(types: Types, at: int) -> tuple[Dim, ...]:
    dims = dims_of(types, at)
    if len(dims) < 3:
        raise Unsure
    return dims


def _kernel(node: Node, weights: tuple[Dim, ...], image: tuple[Dim, ...]) -> Sequence[Dim]:
    if len(weights) != len(image):
        raise Unsure
    return node.attribute("kernel_shape") or weights[2:]


def _convolved(node: Node, image: tuple[Dim, ...], weights: tuple[Dim, ...]) -> tuple[Dim, ...]:
    window = _window_of(node, _kernel(node, weights, image))
    if window.axes != len(image) - 2:
        raise Unsure
    return (image[0], weights[0], *_slid(window, image[2:]))


@rule("Conv", of_first=True)
def _conv(node: Node, types: Types, known: Knowledge) -> Made:
    return [same(given(types, 0), _convolved(node, _image(types, 0), _image(types, 1)))]


@rule("ConvInteger")
def _conv_integer(node: Node, types: Types, known: Knowledge) -> Made:
    return [tensor_type(TensorProto.INT32, _convolved(node, _image(types, 0), _image(types, 1)))]


@rule("QLinearConv")
def _quantized_conv(node: Node, types: Types, known: Knowledge) -> Made:
    return [tensor_type(given(types, 7).element_type, _convolved(node, _image(types, 0), _image(types, 3)))]


@rule("ConvTranspose", of_first=True)
def _conv_transpose(node: Node, types: Types, known: Knowledge) -> Made:
    image, weights = _image(types, 0), _image(types, 1)
    window = _window_of(node, _kernel(node, weights, image))
    groups, channels = node.attribute("group", 1), weights[1]
    more = node.attribute("output_padding") or [0] * window.axes
    if node.attribute("output_shape") or len(more) != window.axes or window.axes != len(image) - 2:
        raise Unsure
    wide = channels * groups if isinstance(channels, int) else None
    return [same(given(types, 0), (image[0], wide, *window.spread_over(image[2:], more)))]


@rule("AveragePool", "MaxPool")
def _pool(node: Node, types: Types, known: Knowledge) -> Made:
    kind, image = given(types, 0), _image(types, 0)
    window = _window_of(node, node.attribute("kernel_shape") or ())
    if window.axes != len(image) - 2:
        raise Unsure
    dims = (*image[:2], *_slid(window, image[2:]))
    return [same(kind, dims), tensor_type(TensorProto.INT64, dims)]


@rule("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", of_first=True)
def _global_pool(node: Node, types: Types, known: Knowledge) -> Made:
    image = _image(types, 0)
    return [same(given(types, 0), image[:2] + (1,) * (len(image) - 2))]


def _blocks(node: Node, types: Types) -> tuple[TensorType, tuple[Dim, ...], int]:
    dims, size = dims_of(types, 0), node.attribute("blocksize", 0)
    if len(dims) != 4 or size < 1:
        raise Unsure
    return given(types, 0), dims, size


def _divided(dim: Dim, by: int) -> Dim:
    if not isinstance(dim, int):
        return dim if by == 1 else None
    if dim % by:
        raise Unsure
    return dim // by


@rule("DepthToSpace", of_first=True)
def _depth_to_space(node: Node, types: Types, known: Knowledge) -> Made:
    kind, dims, size = _blocks(node, types)
    places = [product((dim, size)) for dim in dims[2:]]
    return [same(kind, (dims[0], _divided(dims[1], size * size), *places))]


@rule("SpaceToDepth", of_first=True)
def _space_to_depth(node: Node, types: Types, known: Knowledge) -> Made:
    kind, dims, size = _blocks(node, types)
    return [
        same(kind, (dims[0], product((dims[1], size * size)), *[_divided(dim, size) for dim in dims[2:]]))
    ]
