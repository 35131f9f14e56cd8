"""Operators on a real GPU, against the reference: 2e-3 in float32 without TF32, 2e-2 in half precision."""

from __future__ import annotations

from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

node = helper.make_node
RNG = np.random.default_rng(3)


def real(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(np.float32)


CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, np.ndarray]]] = {
    "chain": (
        [
            node("Sigmoid", ["x"], ["s"]),
            node("Mul", ["x", "s"], ["m"]),
            node("Add", ["m", "b"], ["a"]),
            node("Gelu", ["a"], ["y"]),
        ],
        {"x": real(64, 1000), "b": real(1000)},
    ),
    "odd sizes": ([node("Add", ["x", "b"], ["y"])], {"x": real(37, 1, 101), "b": real(13, 1)}),
    "softmax": ([node("Softmax", ["x"], ["y"])], {"x": real(300, 1025)}),
    "long softmax": ([node("Softmax", ["x"], ["y"])], {"x": real(3, 100_000)}),
    "layer norm": (
        [node("LayerNormalization", ["x", "s", "b"], ["y"])],
        {"x": real(77, 768), "s": real(768), "b": real(768)},
    ),
    "instance norm": (
        [node("InstanceNormalization", ["x", "s", "b"], ["y"])],
        {"x": real(2, 8, 33, 31), "s": real(8), "b": real(8)},
    ),
    "matmul": ([node("MatMul", ["x", "w"], ["y"])], {"x": real(4, 130, 70), "w": real(70, 260)}),
    "batches": ([node("MatMul", ["x", "w"], ["y"])], {"x": real(2, 5, 33, 65), "w": real(2, 5, 65, 17)}),
    "gemm": (
        [node("Gemm", ["x", "w", "b"], ["y"], transB=1)],
        {"x": real(33, 128), "w": real(96, 128), "b": real(96)},
    ),
    "conv": (
        [node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]), node("Relu", ["c"], ["y"])],
        {"x": real(2, 16, 31, 33), "w": real(32, 16, 3, 3), "b": real(32)},
    ),
    "depthwise": (
        [node("Conv", ["x", "w"], ["y"], group=16, pads=[1, 1, 1, 1])],
        {"x": real(2, 16, 31, 33), "w": real(16, 1, 3, 3)},
    ),
    "pool": (
        [node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])],
        {"x": real(2, 16, 31, 33)},
    ),
    "average": ([node("GlobalAveragePool", ["x"], ["y"])], {"x": real(2, 16, 31, 33)}),
    "reduce": ([node("ReduceMean", ["x"], ["y"], keepdims=0)], {"x": real(20, 30, 40)}),
    "transpose": ([node("Transpose", ["x"], ["y"], perm=[0, 2, 1, 3])], {"x": real(3, 100, 12, 64)}),
    "matrix": ([node("Transpose", ["x"], ["y"], perm=[0, 2, 1])], {"x": real(3, 100, 333)}),
    "gather": (
        [node("Gather", ["x", "i"], ["y"])],
        {"x": real(1000, 96), "i": RNG.integers(-1000, 1000, (5, 7))},
    ),
    "concat": ([node("Concat", ["x", "z"], ["y"], axis=1)], {"x": real(9, 5, 6), "z": real(9, 8, 6)}),
}


def model_of(case: str, dtype: Any) -> tuple[bytes, dict[str, np.ndarray]]:
    nodes, feeds = CASES[case]
    cast = {k: v.astype(dtype) if v.dtype == np.float32 else v for k, v in feeds.items()}
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for k, v in cast.items()
    ]
    kind = TensorProto.FLOAT if dtype == np.float32 else TensorProto.FLOAT16
    graph = helper.make_graph(nodes, case, infos, [helper.make_tensor_value_info("y", kind, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    return model.SerializeToString(), cast


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["float32", "float16"])
@pytest.mark.parametrize("case", CASES)
def test_an_operator_agrees_with_the_reference(gpus: list[ephost.OrtEpDevice], case: str, dtype: Any) -> None:
    model, feeds = model_of(case, dtype)
    options = ephost.SessionOptions()
    options.add_provider_for_devices(gpus[:1], {})
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    session = ephost.InferenceSession(model, options, enable_fallback=0)
    reference, wide = model_of(case, np.float32)
    expected = ReferenceEvaluator(onnx.load_from_string(reference)).run(None, wide)[0]
    tolerance = 2e-3 if dtype == np.float32 else 2e-2
    for _ in range(2):
        got = session.run(None, feeds)[0].astype(np.float32)
        scale = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(got / scale, expected / scale, tolerance, tolerance)
