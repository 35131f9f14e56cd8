"""com.microsoft's product of a sparse matrix, of which the onnx package knows nothing."""

from __future__ import annotations

import numpy as np

from .registry import OperatorNode, operator


@operator("SparseToDenseMatMul", domain="com.microsoft")
def sparse_to_dense_matmul(node: OperatorNode, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray]:
    """alpha times the product of a [M, K], which the model calls sparse, and b [K, N]; each may be given
    transposed.
    """
    left = a.T if node.attributes.get("transA", 0) else a
    right = b.T if node.attributes.get("transB", 0) else b
    product = left @ right
    return ((product * product.dtype.type(node.attributes.get("alpha", 1.0))).astype(a.dtype),)
