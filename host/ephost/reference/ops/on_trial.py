"""Operators that ONNX had on trial up to opset 9, and old models have: the package has none of them."""

from __future__ import annotations

import numpy as np

from .registry import OperatorNode, operator

_LAST = 10  # the first opset without them


@operator("Affine", until=_LAST)
def affine(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """alpha x + beta."""
    _expect_floats(x)
    alpha, beta = node.attributes.get("alpha", 1.0), node.attributes.get("beta", 0.0)
    return (x * x.dtype.type(alpha) + x.dtype.type(beta),)


@operator("Scale", until=_LAST)
def scale_of(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """scale x."""
    _expect_floats(x)
    return (x * x.dtype.type(node.attributes.get("scale", 1.0)),)


@operator("ScaledTanh", until=_LAST)
def scaled_tanh(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """alpha tanh(beta x)."""
    alpha, beta = _stretches(node, x)
    return (alpha * np.tanh(beta * x),)


@operator("ParametricSoftplus", until=_LAST)
def parametric_softplus(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """alpha log(exp(beta x) + 1)."""
    alpha, beta = _stretches(node, x)
    return (alpha * np.logaddexp(beta * x, x.dtype.type(0)),)


def _stretches(node: OperatorNode, x: np.ndarray) -> list[np.floating]:
    _expect_floats(x)
    return [x.dtype.type(node.attributes.get(name, 1.0)) for name in ("alpha", "beta")]


def _expect_floats(x: np.ndarray) -> None:
    if x.dtype not in (np.float16, np.float32, np.float64):
        raise TypeError(f"an input of {x.dtype} elements: the operator takes float16, float32 and float64")


@operator("ImageScaler", until=_LAST)
def image_scaler(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """scale x plus the bias of each channel: x is [N, C, H, W]."""
    _expect_floats(x)
    bias = np.array(node.attributes.get("bias") or [], x.dtype)
    if x.ndim != 4 or bias.size != x.shape[1]:
        raise ValueError(f"{bias.size} biases for channels of an input of shape {list(x.shape)}")
    return (x * x.dtype.type(node.attributes.get("scale", 1.0)) + bias.reshape(-1, 1, 1),)


@operator("Crop", until=_LAST)
def crop(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """What of images [N, C, H, W] lies within the `border`, from the left, the top, the right and the bottom;
    with `scale` as many rows and columns as that from the top and the left.
    """
    _expect_floats(x)
    border, size = node.attributes.get("border") or [], node.attributes.get("scale") or []
    if x.ndim != 4 or len(border) != 4 or len(size) not in (0, 2) or min(*border, *size) < 0:
        raise ValueError(f"a border of {border} and a scale of {size} for an input of shape {list(x.shape)}")
    left, top, right, bottom = border
    height, width = x.shape[2:]
    end = [top + size[0], left + size[1]] if size else [height - bottom, width - right]
    if not (top <= end[0] <= height and left <= end[1] <= width):
        raise ValueError(f"images of {height} x {width} have no place for a border of {border}, scale {size}")
    return (x[:, :, top : end[0], left : end[1]],)
