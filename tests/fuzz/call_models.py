"""Small models of every kind of value, for programs of calls, and feeds that fit them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Info = onnx.ValueInfoProto
Feeds = dict[str, Any]

SEQUENCE = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))


@dataclasses.dataclass(frozen=True)
class Called:
    """A model, the names of what it takes and gives, and feeds for it."""

    model: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    feeds: Callable[[Random, int], Feeds]  # of a length that inputs have where they may have any


def info(name: str, type_: int, shape: Sequence[Any] | None) -> Info:
    return helper.make_tensor_value_info(name, type_, shape)


def called(
    nodes: list[onnx.NodeProto],
    inputs: list[Info],
    outputs: list[Info],
    feeds: Callable[[Random, int], Feeds],
    initializers: Sequence[onnx.TensorProto] = (),
) -> Called:
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    helper.set_model_props(model, {"key": "value"})
    names = tuple(each.name for each in inputs), tuple(each.name for each in outputs)
    return Called(model.SerializeToString(), *names, feeds)


def cast(to: int) -> Called:
    return called(
        [helper.make_node("Cast", ["a"], ["c"], to=to)],
        [info("a", TensorProto.FLOAT, ["N"])],
        [info("c", to, ["N"])],
        lambda _, n: {"a": np.ones(n, np.float32)},
    )


def same(type_: int, array: Callable[[int], np.ndarray], shape: Sequence[Any] = ("N",)) -> Called:
    return called(
        [helper.make_node("Identity", ["a"], ["c"])],
        [info("a", type_, shape)],
        [info("c", type_, shape)],
        lambda _, n: {"a": array(n)},
    )


def made() -> dict[str, Called]:
    """All of them, by a name."""
    float_, double, int64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64
    ones = np.ones
    weight = numpy_helper.from_array(np.ones(2, np.float32), "w")
    maps = helper.make_sequence_type_proto(
        helper.make_map_type_proto(int64, helper.make_tensor_type_proto(float_, []))
    )
    optional = helper.make_optional_type_proto(helper.make_tensor_type_proto(float_, None))
    node = helper.make_node
    return {
        "add": called(
            [node("Add", ["a", "b"], ["c"], name="sum")],
            [info("a", float_, ["N", 3]), info("b", float_, [3])],
            [info("c", float_, ["N", 3])],
            lambda _, n: {"a": ones((n, 3), np.float32), "b": ones(3, np.float32)},
        ),
        "product": called(
            [node("MatMul", ["a", "b"], ["c"])],
            [info("a", float_, ["N", "K"]), info("b", float_, ["K", "M"])],
            [info("c", float_, ["N", "M"])],
            lambda _, n: {"a": ones((n, 2), np.float32), "b": ones((2, n), np.float32)},
        ),
        "initializer": called(
            [node("Add", ["a", "w"], ["c"]), node("Mul", ["c", "c"], ["d"])],
            [info("a", float_, ["N"]), info("w", float_, [2])],
            [info("c", float_, ["N"]), info("d", float_, None)],
            lambda random, _: (
                {"a": ones(2, np.float32)} | ({"w": np.zeros(2, np.float32)} if random.random() < 0.5 else {})
            ),
            [weight],
        ),
        "unread": called(
            [node("Identity", ["a"], ["b"])],
            [info("a", float_, ["N"]), info("z", TensorProto.INT32, ["N"])],
            [info("b", float_, ["N"])],
            lambda _, n: {"a": ones(n, np.float32), "z": ones(n, np.int32)},
        ),
        "square": called(
            [node("ReduceSum", ["a"], ["c"], keepdims=0)],
            [info("a", float_, ["N", "N", 2])],
            [info("c", float_, [])],
            lambda _, n: {"a": ones((n, n, 2), np.float32)},
        ),
        "halves": called(
            [node("Split", ["a"], ["x", "y"], num_outputs=2, axis=0)],
            [info("a", double, ["N"])],
            [info("x", double, None), info("y", double, None)],
            lambda _, n: {"a": ones(n)},
        ),
        "constant": called(
            [node("Constant", [], ["c"], value=numpy_helper.from_array(np.arange(3, dtype=np.float32)))],
            [],
            [info("c", float_, [3])],
            lambda *_: {},
        ),
        "scalar": same(int64, lambda _: np.array(4), ()),
        "bool": same(TensorProto.BOOL, lambda n: np.arange(n) % 2 == 1),
        "text": same(TensorProto.STRING, lambda n: np.array(["x"] * n)),
        "complex": same(TensorProto.COMPLEX64, lambda n: ones(n, np.complex64)),
        "bfloat16": same(TensorProto.BFLOAT16, lambda n: ones(n, ml_dtypes.bfloat16)),
        "to_float16": cast(TensorProto.FLOAT16),
        "to_bfloat16": cast(TensorProto.BFLOAT16),
        "to_float8": cast(TensorProto.FLOAT8E4M3FN),
        "to_int4": cast(TensorProto.INT4),
        "to_sequence": called(
            [node("SequenceConstruct", ["a", "b"], ["s"]), node("SequenceLength", ["s"], ["l"])],
            [info("a", float_, ["N"]), info("b", float_, ["M"])],
            [helper.make_value_info("s", SEQUENCE), info("l", int64, [])],
            lambda _, n: {"a": ones(n, np.float32), "b": np.zeros(2, np.float32)},
        ),
        "from_sequence": called(
            [node("SequenceAt", ["s", "i"], ["c"])],
            [helper.make_value_info("s", SEQUENCE), info("i", int64, [])],
            [info("c", float_, None)],
            lambda random, n: {
                "s": [ones(n, np.float32), np.zeros((2, 2), np.float32)],
                "i": np.array(random.choice([0, 1, -1, 5])),
            },
        ),
        "optional": called(
            [node("OptionalHasElement", ["o"], ["c"])],
            [helper.make_value_info("o", optional)],
            [info("c", TensorProto.BOOL, [])],
            lambda random, n: {"o": random.choice([None, ones(n, np.float32)])},
        ),
        "maps": called(
            [node("ZipMap", ["a"], ["m"], domain="ai.onnx.ml", classlabels_int64s=[1, 2, 3])],
            [info("a", float_, ["N", 3])],
            [helper.make_value_info("m", maps)],
            lambda _, n: {"a": ones((n, 3), np.float32)},
        ),
        "unknown": called(
            [node("Nope", ["a"], ["c"])], [info("a", float_, None)], [info("c", float_, None)], lambda *_: {}
        ),
        "none": Called(b"not a model", ("a",), ("c",), lambda *_: {}),
    }


MODELS = made()
