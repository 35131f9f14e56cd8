"""Linear quantization."""

from __future__ import annotations

import numpy as np

from .registry import OperatorNode, operator


@operator("DequantizeLinear", until=19)
def dequantize_linear(
    node: OperatorNode, x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray | None = None
) -> tuple[np.ndarray]:
    """The package begins with opset 19. A scale of one dimension goes along `axis`."""
    shape = [1] * x.ndim
    if scale.size > 1:
        shape[node.attributes.get("axis", 1)] = -1
    values = x.astype(np.int64)
    if zero_point is not None:
        values = values - zero_point.astype(np.int64).reshape(shape if zero_point.size > 1 else ())
    return ((values * scale.reshape(shape if scale.size > 1 else ()).astype(np.float64)).astype(scale.dtype),)
