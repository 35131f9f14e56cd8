"""Models that the checks are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dims = Sequence[int | str]
Arrays = dict[str, np.ndarray[Any, Any]]
OPSET = 17


def make(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Dims]],
    outputs: Mapping[str, tuple[int, Dims | None]],
    constants: Mapping[str, Any] | None = None,
    opset: int = OPSET,
) -> bytes:
    """A model, as bytes, of nodes and of the element types and sizes of what goes in and comes out."""
    graph = helper.make_graph(
        list(nodes),
        "check",
        [helper.make_tensor_value_info(name, kind, list(dims)) for name, (kind, dims) in inputs.items()],
        [
            helper.make_tensor_value_info(name, kind, None if dims is None else list(dims))
            for name, (kind, dims) in outputs.items()
        ],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return bytes(made.SerializeToString())


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """A node by the names of its values, separated by blanks; it is called as its first output."""
    names = outputs.split()
    return helper.make_node(op_type, inputs.split(), names, name=names[0], **attributes)


F = TensorProto.FLOAT


def _ramp(*shape: int) -> np.ndarray[Any, Any]:
    count = int(np.prod(shape, dtype=np.int64))
    return ((np.arange(count) * 7 % 23 - 11) / 16).astype(np.float32).reshape(shape)


class Sample:
    """A small model that plugins may take: ``build`` makes it for a size or a name of its first dimension."""

    def __init__(self, build: Callable[[int | str], bytes], feed: Callable[[int], Arrays]) -> None:
        self.build = build
        self.feed = feed


def _pairwise(op_type: str) -> Sample:
    def build(n: int | str) -> bytes:
        two = {"x": (F, (n, 8)), "z": (F, (n, 8))}
        return make([node(op_type, "x z", "y")], two, {"y": (F, (n, 8))})

    return Sample(build, lambda n: {"x": _ramp(n, 8), "z": _ramp(n, 8)[:, ::-1].copy() + np.float32(2)})


def _single(op_type: str, **attributes: Any) -> Sample:
    def build(n: int | str) -> bytes:
        return make([node(op_type, "x", "y", **attributes)], {"x": (F, (n, 8))}, {"y": (F, (n, 8))})

    return Sample(build, lambda n: {"x": _ramp(n, 8)})


def _product(k: int, m: int) -> Sample:
    def build(n: int | str) -> bytes:
        return make([node("MatMul", "x w", "y")], {"x": (F, (n, k))}, {"y": (F, (n, m))}, {"w": _ramp(k, m)})

    return Sample(build, lambda n: {"x": _ramp(n, k)})


def _gemm() -> Sample:
    def build(n: int | str) -> bytes:
        constants = {"w": _ramp(16, 12), "b": _ramp(12)}
        return make([node("Gemm", "x w b", "y")], {"x": (F, (n, 16))}, {"y": (F, (n, 12))}, constants)

    return Sample(build, lambda n: {"x": _ramp(n, 16)})


def _layers() -> Sample:
    def build(n: int | str) -> bytes:
        nodes = [node("MatMul", "x w", "p"), node("Add", "p b", "s"), node("Relu", "s", "y")]
        constants = {"w": _ramp(16, 16), "b": _ramp(16)}
        return make(nodes, {"x": (F, (n, 16))}, {"y": (F, (n, 16))}, constants)

    return Sample(build, lambda n: {"x": _ramp(n, 16)})


def _conv(**attributes: Any) -> Sample:
    def build(n: int | str) -> bytes:
        made = node("Conv", "x w b", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1], **attributes)
        nodes = [made, node("Relu", "c", "y")]
        constants = {"w": _ramp(4, 4, 3, 3), "b": _ramp(4)}
        return make(nodes, {"x": (F, (n, 4, 8, 8))}, {"y": (F, (n, 4, 8, 8))}, constants)

    return Sample(build, lambda n: {"x": _ramp(n, 4, 8, 8)})


def _constant(op_type: str) -> Sample:
    def build(n: int | str) -> bytes:
        constants = {"c": _ramp(8) + np.float32(1)}
        return make([node(op_type, "x c", "y")], {"x": (F, (n, 8))}, {"y": (F, (n, 8))}, constants)

    return Sample(build, lambda n: {"x": _ramp(n, 8)})


def _same_shape() -> Sample:
    """A constant of the input's own shape, where that is fixed."""

    def build(n: int | str) -> bytes:
        rows = n if isinstance(n, int) else 1
        constants = {"c": _ramp(rows, 8) + np.float32(1)}
        return make([node("Add", "x c", "y")], {"x": (F, (n, 8))}, {"y": (F, (n, 8))}, constants)

    return Sample(build, lambda n: {"x": _ramp(n, 8)})


# In the order in which they are tried: what most plugins take comes first.
SAMPLES: dict[str, Sample] = {
    "layers": _layers(),
    "add": _pairwise("Add"),
    "mul": _pairwise("Mul"),
    "conv": _conv(),
    "relu": _single("Relu"),
    "matmul": _product(16, 12),
    "gemm": _gemm(),
    "add-constant": _constant("Add"),
    "add-constant-same": _same_shape(),
    "mul-constant": _constant("Mul"),
    "sigmoid": _single("Sigmoid"),
    "softmax": _single("Softmax", axis=1),
    "sub": _pairwise("Sub"),
    "neg": _single("Neg"),
    "abs": _single("Abs"),
    "exp": _single("Exp"),
    "tanh": _single("Tanh"),
    "identity": _single("Identity"),
    "big-matmul": _product(512, 512),
}


def chain(op_types: Sequence[str], n: int | str = 4) -> bytes:
    """Operators of one input, one behind the other."""
    names = ["x", *(f"v{at}" for at in range(len(op_types) - 1)), "y"]
    nodes = [node(op, names[at], names[at + 1]) for at, op in enumerate(op_types)]
    return make(nodes, {"x": (F, (n, 8))}, {"y": (F, (n, 8))})


def circle() -> bytes:
    """Two Adds around a node that few take: together they would wait for themselves."""
    nodes = [node("Add", "x x", "a"), node("Det", "a", "d"), node("Add", "a d", "b"), node("Relu", "b", "y")]
    return make(nodes, {"x": (F, (4, 4))}, {"y": (F, (4, 4))})


def foreign_context() -> bytes:
    """An EPContext node that says it is another plugin's."""
    context = node(
        "EPContext",
        "x",
        "c",
        domain="com.microsoft",
        source="SomebodyElsesExecutionProvider",
        main_context=1,
        embed_mode=1,
        ep_cache_context=b"not yours",
        partition_name="p0",
        ep_sdk_version="1",
    )
    made = make([context, node("Relu", "c", "y")], {"x": (F, (4, 8))}, {"y": (F, (4, 8))})
    model = onnx.ModelProto.FromString(made)
    entry = model.opset_import.add()
    entry.domain, entry.version = "com.microsoft", 1
    return bytes(model.SerializeToString())
