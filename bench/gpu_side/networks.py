"""Networks with random weights that say more of a GPU than the small ones of packages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper


class _Network:
    """Nodes and weights under way."""

    def __init__(self, dtype: type) -> None:
        self.dtype = dtype
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, *dims: int, scale: float = 1.0) -> str:
        """The name of a tensor of random numbers."""
        name = f"w{len(self.weights)}"
        numbers = (self.random.standard_normal(dims) * scale).astype(self.dtype)
        self.weights.append(numpy_helper.from_array(numbers, name))
        return name

    def constant(self, numbers: object, dtype: type | None = None) -> str:
        """The name of a tensor of these numbers."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(numbers, dtype or self.dtype), name))
        return name

    def add(self, op: str, *inputs: str, **attributes: object) -> str:
        """A node; the name of its output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def save(self, path: Path, dims: list[int | str], out: str) -> str:
        """Write the model from ``x`` to ``out``."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        graph = helper.make_graph(
            self.nodes,
            path.stem,
            [helper.make_tensor_value_info("x", kind, dims)],
            [helper.make_tensor_value_info(out, kind, None)],
            self.weights,
        )
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), str(path)
        )
        return str(path)


def encoder(folder: Path, dtype: type, *, layers: int = 12, width: int = 768, heads: int = 12) -> str:
    """A transformer's encoder on embeddings [batch, tokens, width], as exporters write it; of BERT's size."""
    net = _Network(dtype)
    scale = net.constant(float((width // heads) ** -0.5))
    split = net.constant([0, 0, heads, width // heads], np.int64)
    joined = net.constant([0, 0, width], np.int64)

    def linear(x: str, inputs: int, outputs: int) -> str:
        product = net.add("MatMul", x, net.weight(inputs, outputs, scale=inputs**-0.5))
        return net.add("Add", product, net.weight(outputs, scale=0.1))

    def norm(x: str) -> str:
        return net.add("LayerNormalization", x, net.weight(width), net.weight(width, scale=0.1), axis=-1)

    last = "x"
    for _ in range(layers):
        parts = []
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            part = net.add("Reshape", linear(last, width, width), split)
            parts.append(net.add("Transpose", part, perm=perm))
        q, k, v = parts
        scores = net.add("Softmax", net.add("Mul", net.add("MatMul", q, k), scale), axis=-1)
        seen = net.add("Transpose", net.add("MatMul", scores, v), perm=[0, 2, 1, 3])
        last = norm(net.add("Add", last, linear(net.add("Reshape", seen, joined), width, width)))
        inner = net.add("Gelu", linear(last, width, 4 * width))
        last = norm(net.add("Add", last, linear(inner, 4 * width, width)))
    return net.save(folder / f"encoder_{np.dtype(dtype).name}.onnx", ["batch", "tokens", width], last)


def residual(folder: Path, dtype: type) -> str:
    """A residual network of ResNet-50's blocks for images of 224 x 224, its normalisations folded in."""
    net = _Network(dtype)

    def conv(x: str, inputs: int, outputs: int, size: int, stride: int = 1) -> str:
        weight = net.weight(outputs, inputs, size, size, scale=(inputs * size * size) ** -0.5)
        pads = [size // 2] * 4
        bias = net.weight(outputs, scale=0.1)
        return net.add("Conv", x, weight, bias, kernel_shape=[size, size], strides=[stride] * 2, pads=pads)

    last = net.add("Relu", conv("x", 3, 64, 7, 2))
    last = net.add("MaxPool", last, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            inner = net.add("Relu", conv(last, channels, width, 1))
            inner = net.add("Relu", conv(inner, width, width, 3, stride))
            inner = conv(inner, width, 4 * width, 1)
            around = conv(last, channels, 4 * width, 1, stride) if block == 0 else last
            last = net.add("Relu", net.add("Add", inner, around))
            channels = 4 * width
    last = net.add("Flatten", net.add("GlobalAveragePool", last))
    last = net.add("Gemm", last, net.weight(channels, 1000, scale=0.02), net.weight(1000))
    return net.save(folder / f"residual_{np.dtype(dtype).name}.onnx", ["batch", 3, 224, 224], last)
