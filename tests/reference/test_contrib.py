"""com.microsoft's operators on the fallback give what onnxruntime's quantizers expect of them."""

from __future__ import annotations

from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from ephost.reference import NodeError, create_kernel
from onnx import helper, numpy_helper

ort = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(11)


def both(
    op_type: str,
    feed: dict[str, np.ndarray],
    constants: dict[str, np.ndarray],
    outputs: int = 1,
    **attributes: Any,
) -> None:
    node = helper.make_node(
        op_type,
        [*feed, *("" if array is None else name for name, array in constants.items())],
        [f"y{at}" for at in range(outputs)],
        domain="com.microsoft",
        **attributes,
    )
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in feed.items()
    ]
    held = [numpy_helper.from_array(a, n) for n, a in constants.items() if a is not None]
    graph = helper.make_graph(
        [node], "graph", inputs, [onnx.ValueInfoProto(name=o) for o in node.output], held
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    here = ephost.InferenceSession(model).run(None, feed)
    there = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feed)
    for found, expected in zip(here, there, strict=True):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_of(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


SCALE, ZERO = np.array(0.05, np.float32), np.array(128, np.uint8)


def test_quantize_and_dequantize() -> None:
    both("QuantizeLinear", {"x": floats(3, 4)}, {"s": SCALE, "z": ZERO})
    both("DequantizeLinear", {"x": bytes_of(3, 4)}, {"s": SCALE, "z": ZERO})
    per_axis = {"s": np.abs(floats(4)) + 0.1, "z": np.arange(4, dtype=np.uint8)}
    both("DequantizeLinear", {"x": bytes_of(3, 4)}, per_axis, axis=1)
    both(
        "DequantizeLinear", {"x": bytes_of(3, 4).astype(np.uint16)}, {"s": SCALE, "z": np.array(9, np.uint16)}
    )


def test_where_on_quantised_tensors() -> None:
    feed = {"c": np.array([[True, False, True]])}
    constants = {
        "x": bytes_of(1, 3),
        "xs": SCALE,
        "xz": ZERO,
        "y": bytes_of(1, 3),
        "ys": SCALE * 2,
        "yz": ZERO,
        "zs": SCALE * 3,
        "zz": ZERO,
    }
    both("QLinearWhere", feed, constants)


@pytest.mark.parametrize("quant_type", [0, 1])
def test_products_with_4_bit_floats(quant_type: int) -> None:
    constants = {"b": bytes_of(32 * 5 // 2), "m": np.abs(floats(10))}
    both("MatMulBnb4", {"a": floats(2, 32)}, constants, K=32, N=5, block_size=16, quant_type=quant_type)


@pytest.mark.parametrize("with_zeros", [True, False])
def test_gather_of_blocks(with_zeros: bool) -> None:
    constants = {"data": bytes_of(6, 16), "i": np.array([[1, 5]]), "s": np.abs(floats(6, 2))}
    if with_zeros:
        constants["z"] = bytes_of(6, 1)
    feed = {}
    indices = constants.pop("i")
    ordered = {"data": constants.pop("data")}
    both_with = {**ordered, "i": indices, **constants}
    both("GatherBlockQuantized", feed, both_with, bits=4, block_size=16, gather_axis=0, quantize_axis=1)


def test_quantised_embeddings() -> None:
    feed = {"ids": np.array([[1, 2, 0]], np.int32), "segments": np.array([[0, 1, 1]], np.int32)}
    constants = {
        **{name: bytes_of(rows, 8) for name, rows in (("w", 4), ("p", 5), ("k", 2))},
        "g": bytes_of(8),
        "b": bytes_of(8),
        "mask": np.array([[1, 1, 0]], np.int32),
        **{f"s{at}": np.array(0.01 * (at + 1), np.float32) for at in range(5)},
        **{f"z{at}": np.array(100 + at, np.uint8) for at in range(5)},
    }
    both("QEmbedLayerNormalization", feed, constants, outputs=2)


def test_zero_points_that_do_not_fit_the_scales_or_the_type_are_errors() -> None:
    data, scales = np.zeros((4, 32), np.uint8), np.ones((4, 2), np.float32)
    given = {"bits": 8, "block_size": 16, "quantize_axis": 1}
    values = [data, np.array([1]), scales, np.zeros((3, 2), np.uint8)]
    with pytest.raises(NodeError, match=r"zero points of shape \[3, 2\] for scales of shape \[4, 2\]"):
        _alone("GatherBlockQuantized", values, **given)
    with pytest.raises(NodeError, match=r"quantize_axis is 2 for data of shape \[4, 32\]"):
        _alone("GatherBlockQuantized", values[:3], **{**given, "quantize_axis": 2})
    with pytest.raises(NodeError, match="a zero point of type uint8 for uint16"):
        _alone("DequantizeLinear", [np.zeros(3, np.uint16), np.float32(1), np.array(3, np.uint8)])


def _alone(op_type: str, values: list[np.ndarray], **attributes: Any) -> Any:
    names = [f"x{at}" for at in range(len(values))]
    node = helper.make_node(op_type, names, ["y"], domain="com.microsoft", **attributes)
    return create_kernel(node, {"": 21, "com.microsoft": 1})(values)
