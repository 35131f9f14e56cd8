"""Models of one node: every kind of operator on elements of every type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from harness.nodes import Feed, random

INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
FLOATS = ("float16", "float32", "float64")
PLANE = (128, 768)
IMAGE = (1, 32, 28, 28)
OPSET = 21


@dataclass(frozen=True)
class Case:
    """A node, what it is fed with, and what is constant; `name` says which elements, and what is special."""

    operator: str
    name: str
    feed: Feed
    constants: Feed = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1

    def model(self) -> bytes:
        """The model of this node."""
        node = helper.make_node(
            self.operator,
            [*self.feed, *self.constants],
            [f"y{at}" for at in range(self.outputs)],
            **self.attributes,
        )
        graph = helper.make_graph(
            [node],
            "case",
            [helper.make_tensor_value_info(name, _element_type(x), x.shape) for name, x in self.feed.items()],
            [onnx.ValueInfoProto(name=name) for name in node.output],
            [numpy_helper.from_array(x, name) for name, x in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", OPSET)]
        content: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
        return content


def _element_type(x: np.ndarray) -> int:
    return onnx.TensorProto.STRING if x.dtype.kind == "U" else helper.np_dtype_to_tensor_dtype(x.dtype)


def some(dtype: str, *shape: int) -> np.ndarray:
    """Numbers around 0, or from 0 on."""
    numbers = random.standard_normal(shape) * 6
    return (np.abs(numbers) if dtype.startswith("uint") else numbers).astype(dtype)


def positive(dtype: str, *shape: int) -> np.ndarray:
    """Numbers from 1 on."""
    return (np.abs(random.standard_normal(shape)) * 6 + 1).astype(dtype)


def places(most: int, *shape: int) -> np.ndarray:
    """Indices below ``most``."""
    return random.integers(0, most, shape)


def functions(dtype: str) -> Iterator[Case]:
    """Elementwise operators of one input."""
    operators = ["Abs", "Neg", "Sign"]
    if dtype in FLOATS:
        operators += [
            *("Exp", "Log", "Sqrt", "Reciprocal", "Sigmoid", "Tanh", "Erf", "Sin", "Cos", "Tan", "Atan"),
            *("Sinh", "Floor", "Ceil", "Round", "Relu", "Elu", "Selu", "LeakyRelu", "ThresholdedRelu"),
            *("HardSigmoid", "HardSwish", "Softplus", "Softsign", "Gelu", "Mish", "Celu", "IsNaN"),
            *("IsInf", "Dropout"),
        ]
    for operator in operators:
        yield Case(operator, dtype, {"x": positive(dtype, *PLANE)})
    yield Case(
        "Clip", dtype, {"x": some(dtype, *PLANE)}, {"low": np.array(1, dtype), "high": np.array(5, dtype)}
    )


def pairs(dtype: str) -> Iterator[Case]:
    """Elementwise operators of two inputs, of which the second is as large, a row, or a number."""
    x = positive(dtype, *PLANE)
    second = {
        dtype: x[::-1].copy() % 3 + np.array(1, dtype),
        f"{dtype}, a row": positive(dtype, PLANE[1]) % 3 + np.array(1, dtype),
        f"{dtype}, a number": np.array(2, dtype),
    }
    bits = () if dtype in FLOATS else ("BitwiseAnd",)
    for operator in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", "Pow", "Less", "Equal", *bits):
        for name, y in second.items():
            fmod = {"fmod": 1} if operator == "Mod" and dtype in FLOATS else {}
            yield Case(operator, name, {"x": x, "y": y.astype(dtype)}, attributes=fmod)
    yield Case("Sum", dtype, {"x": x, "y": x, "z": x})
    yield Case("Mean", dtype, {"x": x, "y": x, "z": x})
    chosen = random.random(PLANE) < 0.5
    yield Case("Where", dtype, {"c": chosen, "x": x, "y": x})
    yield Case("Where", f"{dtype}, a number", {"c": chosen, "x": x, "y": np.array(1, dtype)})
    if dtype in FLOATS:
        yield Case("PRelu", dtype, {"x": x, "y": some(dtype, PLANE[1])})


def reductions(dtype: str) -> Iterator[Case]:
    """Over rows, columns and all."""
    x = some(dtype, *PLANE)
    over = {"rows": [1], "columns": [0], "all": [0, 1]}
    for operator in ("Sum", "Max", "Min", "Mean", "Prod", "L1", "L2", "SumSquare", "LogSumExp"):
        for name, axes in over.items():
            yield Case(f"Reduce{operator}", f"{dtype}, {name}", {"x": x}, {"axes": np.array(axes)})
    for axis, name in enumerate(("columns", "rows")):
        yield Case("ArgMax", f"{dtype}, {name}", {"x": x}, attributes={"axis": axis})
        yield Case("CumSum", f"{dtype}, {name}", {"x": x}, {"axis": np.array(axis)})
    yield Case("TopK", dtype, {"x": x}, {"k": np.array([5])}, outputs=2)


def movements(dtype: str) -> Iterator[Case]:
    """What moves elements: by shapes, and by indices."""
    image, plane = some(dtype, *IMAGE), some(dtype, *PLANE)
    if dtype == "bool":
        image, plane = image > 0, plane > 0
    for name, order in {"to channels last": [0, 2, 3, 1], "of rows": [0, 2, 1, 3]}.items():
        yield Case("Transpose", f"{dtype}, {name}", {"x": image}, attributes={"perm": order})
    for axis in (1, 3):
        at = {"axis": axis}
        yield Case("Concat", f"{dtype}, axis {axis}", {"x": image, "y": image}, attributes=at)
        sizes = np.array([IMAGE[axis] // 2] * 2)
        yield Case("Split", f"{dtype}, axis {axis}", {"x": image}, {"sizes": sizes}, at, outputs=2)
    crop = {"starts": np.array([1, 1]), "ends": np.array([27, 27]), "axes": np.array([2, 3])}
    yield Case("Slice", dtype, {"x": image}, crop)
    turned = {"starts": [-1], "ends": [-100], "axes": [3], "steps": [-1]}
    yield Case("Slice", f"{dtype}, backwards", {"x": image}, {k: np.array(v) for k, v in turned.items()})
    for axis in (2, 3):
        yield Case(
            "Gather",
            f"{dtype}, axis {axis}",
            {"x": image, "i": places(28, 40)},
            attributes={"axis": axis},
        )
    rows = places(PLANE[0], 60, PLANE[1])
    yield Case("GatherElements", dtype, {"x": plane, "i": rows}, attributes={"axis": 0})
    yield Case("GatherND", dtype, {"x": plane, "i": places(PLANE[0], 500, 1)})
    yield Case("ScatterElements", dtype, {"x": plane, "i": rows, "u": plane[:60]}, attributes={"axis": 0})
    yield Case("ScatterND", dtype, {"x": plane, "i": places(PLANE[0], 50, 1), "u": plane[:50]})
    around = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])}
    for mode in ("constant", "reflect", "edge"):
        yield Case("Pad", f"{dtype}, {mode}", {"x": image}, around, {"mode": mode})
    yield Case("Expand", dtype, {"x": plane[:1]}, {"shape": np.array(PLANE)})
    yield Case("Tile", dtype, {"x": plane[:16, :48].copy()}, {"repeats": np.array([4, 4])})
    yield Case("Compress", dtype, {"x": plane, "c": random.random(PLANE[0]) < 0.5}, attributes={"axis": 0})
    lengths = random.integers(1, PLANE[0], 8)
    yield Case(
        "ReverseSequence",
        dtype,
        {"x": plane.reshape(PLANE[0], 8, -1), "l": lengths},
        attributes={"batch_axis": 1, "time_axis": 0},
    )
    if dtype != "bool":
        for operator in ("DepthToSpace", "SpaceToDepth"):
            yield Case(operator, dtype, {"x": image}, attributes={"blocksize": 2})
        yield Case("Trilu", dtype, {"x": plane.reshape(8, 128, -1)})
        yield Case("NonZero", dtype, {"x": plane})
        yield Case("Unique", dtype, {"x": plane.ravel()[:3000]})
        yield Case(
            "OneHot", dtype, {"i": places(100, 128)}, {"d": np.array(100), "v": np.array([0, 1], dtype)}
        )


def images(dtype: str) -> Iterator[Case]:
    """Windows, enlargements and convolutions."""
    x = some(dtype, *IMAGE)
    window = {"kernel_shape": [3, 3], "strides": [2, 2]}
    yield Case("MaxPool", dtype, {"x": x}, attributes=window)
    sizes = {"roi": np.zeros(0, "f"), "scales": np.zeros(0, "f"), "sizes": np.array([1, 3, 100, 130])}
    for mode in ("linear", "nearest", "cubic"):
        yield Case("Resize", f"{dtype}, {mode}", {"x": some(dtype, 1, 3, 60, 80)}, sizes, {"mode": mode})
    if dtype not in FLOATS:
        return
    yield Case("AveragePool", dtype, {"x": x}, attributes=window)
    for operator in ("GlobalAveragePool", "GlobalMaxPool"):
        yield Case(operator, dtype, {"x": x})
    yield Case("Conv", dtype, {"x": x}, {"w": some(dtype, 32, 32, 3, 3)}, {"pads": [1] * 4})
    depthwise = {"pads": [1] * 4, "group": 32}
    yield Case("Conv", f"{dtype}, depthwise", {"x": x}, {"w": some(dtype, 32, 1, 3, 3)}, depthwise)
    yield Case("ConvTranspose", dtype, {"x": x}, {"w": some(dtype, 32, 16, 2, 2)}, {"strides": [2, 2]})
    grid = np.clip(random.standard_normal((1, 28, 28, 2)), -1, 1)
    yield Case(
        "GridSample", dtype, {"x": x, "g": grid.astype("float64" if dtype == "float64" else "float32")}
    )
    boxes = np.abs(random.standard_normal((50, 4)).cumsum(1) * 5).astype(dtype)
    size = {"output_height": 7, "output_width": 7}
    yield Case("RoiAlign", dtype, {"x": x, "r": boxes, "b": np.zeros(50, np.int64)}, attributes=size)


def rows(dtype: str) -> Iterator[Case]:
    """Normalisations, recurrent networks, signals and losses."""
    x, image = some(dtype, *PLANE), some(dtype, *IMAGE)
    for operator in ("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"):
        yield Case(operator, dtype, {"x": x})
    each = {"scale": some(dtype, PLANE[1]), "bias": some(dtype, PLANE[1])}
    yield Case("LayerNormalization", dtype, {"x": x}, each)
    channels = {"scale": some(dtype, 32), "bias": some(dtype, 32)}
    moments = {"mean": some(dtype, 32), "variance": positive(dtype, 32)}
    yield Case("BatchNormalization", dtype, {"x": image}, channels | moments)
    yield Case("InstanceNormalization", dtype, {"x": image}, channels)
    yield Case("GroupNormalization", dtype, {"x": image}, channels, {"num_groups": 8})
    yield Case("MeanVarianceNormalization", dtype, {"x": image})
    for operator, gates in {"LSTM": 4, "GRU": 3, "RNN": 1}.items():
        weights = {name: some(dtype, 1, gates * 32, 32) for name in ("w", "r")}
        yield Case(operator, dtype, {"x": some(dtype, 20, 1, 32)}, weights, {"hidden_size": 32})
    yield Case("DFT", dtype, {"x": some(dtype, 1, 512, 1)})
    yield Case("Det", dtype, {"x": some(dtype, 64, 8, 8)})
    yield Case("SoftmaxCrossEntropyLoss", dtype, {"x": x, "t": places(PLANE[1], PLANE[0])})


def products(dtype: str) -> Iterator[Case]:
    """Of matrices; integers of 32 and 64 bits have them as well."""
    a, b = some(dtype, 64, 128), some(dtype, 128, 64)
    yield Case("MatMul", dtype, {"a": a, "b": b})
    yield Case("MatMul", f"{dtype}, a constant", {"a": a}, {"b": b})
    yield Case("MatMul", f"{dtype}, small ones", {"a": some(dtype, 96, 20, 16), "b": some(dtype, 96, 16, 20)})
    if dtype in FLOATS:
        yield Case("Gemm", dtype, {"a": a}, {"b": b, "c": some(dtype, 64)})
        batches = {"a": some(dtype, 8, 64, 32), "b": some(dtype, 8, 32, 64)}
        yield Case("Einsum", dtype, batches, attributes={"equation": "bij,bjk->bik"})


def casts(dtype: str) -> Iterator[Case]:
    """From one type to all others."""
    for to in (*INTEGERS, *FLOATS, "bool"):
        if to != dtype:
            x = random.random(PLANE) < 0.5 if dtype == "bool" else positive(dtype, *PLANE)
            number = helper.np_dtype_to_tensor_dtype(np.dtype(to))
            yield Case("Cast", f"{dtype} to {to}", {"x": x}, attributes={"to": number})


def quantized(dtype: str) -> Iterator[Case]:
    """To and from integers of 8 and 16 bits."""
    by_tensor = {"scale": np.float32(0.1), "zero": np.array(5, dtype)}
    last = {"scale": positive("float32", PLANE[1]), "zero": np.zeros(PLANE[1], dtype)}
    first = {"scale": positive("float32", PLANE[0]), "zero": np.zeros(PLANE[0], dtype)}
    blocks = {"scale": positive("float32", PLANE[0], 24), "zero": np.zeros((PLANE[0], 24), dtype)}
    for operator, x in (
        ("QuantizeLinear", some("float32", *PLANE)),
        ("DequantizeLinear", some(dtype, *PLANE)),
    ):
        yield Case(operator, dtype, {"x": x}, {name: np.asarray(value) for name, value in by_tensor.items()})
        yield Case(operator, f"{dtype}, by columns", {"x": x}, last, {"axis": 1})
        yield Case(operator, f"{dtype}, by rows", {"x": x}, first, {"axis": 0})
        yield Case(operator, f"{dtype}, by blocks", {"x": x}, blocks, {"axis": 1, "block_size": 32})


def texts() -> Iterator[Case]:
    """What takes strings."""
    words = np.array([f"word{number}" for number in places(500, 4096)]).reshape(64, 64)
    yield Case("Transpose", "string", {"x": words}, attributes={"perm": [1, 0]})
    yield Case("Concat", "string", {"x": words, "y": words}, attributes={"axis": 1})
    yield Case("Gather", "string", {"x": words, "i": places(64, 40)}, attributes={"axis": 1})
    yield Case("Equal", "string", {"x": words, "y": words[:, ::-1].copy()})
    yield Case("Where", "string", {"c": random.random((64, 64)) < 0.5, "x": words, "y": words})
    yield Case("Expand", "string", {"x": words[:1]}, {"shape": np.array([64, 64])})
    yield Case("Tile", "string", {"x": words[:16, :16].copy()}, {"repeats": np.array([4, 4])})
    yield Case("Unique", "string", {"x": words.ravel()})
    yield Case("Split", "string", {"x": words}, {"sizes": np.array([32, 32])}, {"axis": 1}, outputs=2)
    numbers = np.array([str(number) for number in some("float32", 4096)])
    yield Case("Cast", "string to float32", {"x": numbers}, attributes={"to": onnx.TensorProto.FLOAT})
    to_text = {"to": onnx.TensorProto.STRING}
    yield Case("Cast", "float32 to string", {"x": some("float32", 4096)}, attributes=to_text)
    yield Case("StringConcat", "string", {"x": words, "y": words})
    yield Case("RegexFullMatch", "string", {"x": words}, attributes={"pattern": "word[0-9]*5"})
    sentences = np.array(["one of some words"] * 1000)
    yield Case("StringSplit", "string", {"x": sentences}, attributes={"delimiter": " "}, outputs=2)


def cases() -> Iterator[Case]:
    """All of them."""
    for dtype in (*INTEGERS, *FLOATS):
        for group in (functions, pairs, reductions, movements, images, casts):
            yield from group(dtype)
    for dtype in FLOATS:
        yield from rows(dtype)
    for dtype in (*FLOATS, "int32", "int64", "uint32", "uint64"):
        yield from products(dtype)
    yield from movements("bool")
    yield from casts("bool")
    for dtype in ("uint8", "int8", "uint16", "int16"):
        yield from quantized(dtype)
    for operator in ("And", "Or", "Xor"):
        x = random.random((2, *PLANE)) < 0.5
        yield Case(operator, "bool", {"x": x[0], "y": x[1]})
        yield Case(operator, "bool, a row", {"x": x[0], "y": x[1][0]})
    yield Case("Not", "bool", {"x": random.random(PLANE) < 0.5})
    yield from texts()
