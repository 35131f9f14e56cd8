"""Gives the CPU plugin broken graphs and broken tensors. A crash takes this process down.

usage: cpu_fuzz_worker.py SEED FIRST LAST FOLDER

Each try from FIRST up to but not including LAST takes one of the standard's node tests or a network of a few
layers, breaks a few things in it after the host has checked it and found all types, so that it is the plugin
that has to notice, and opens and runs it. FOLDER/try says which one it is. Prints how they ended, as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import ephost
import ephost.opening
import numpy as np
import onnx
from ephost.isolation.settings import VARIABLE
from ephost.messages import NodeProto
from ephost.model.graph import Graph, Model, Node, TensorType, Value, all_graphs, tensor_type
from ephost.plugins import cpu
from onnx import helper, numpy_helper

from tests.vendor.compare import node_cases

NAME = "CpuFuzzed"
ROOM = 6 << 30  # bytes of address space: what asks for more must fail cleanly
TIME = 60  # seconds of processor time for one try; what takes longer is a hang
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")
# AddressSanitizer ends the process where `new` would throw.
HUGE = [] if SANITIZED else [1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63)]
NUMBERS = [-1000, -3, -2, -1, 0, 0, 1, 1, 2, 3, 4, 5, 7, 8, 16, 33, 100, 1000, *HUGE]
SIZES = [0, 1, 1, 2, 3, 4, 5, 8, 16, 33, 64]
TYPES = [1, 1, 1, 2, 3, 5, 6, 7, 7, 9, 10, 11, 12, 13, 16]

NETWORKS = [
    """
    g (float[1, 3, 8, 8] x) => (float[1, 4, 8, 8] y)
    <float[4, 3, 3, 3] w, float[4] b, float[4] s, float[4] m, float[4, 4, 1, 1] v> {
      c = Conv <pads = [1, 1, 1, 1]> (x, w, b)
      n = BatchNormalization (c, s, b, m, s)
      r = Relu (n)
      d = Conv (r, v)
      a = Add (d, r)
      y = HardSwish (a)
    }""",
    """
    g (float[2, 5, 8] x) => (float[2, 5, 8] y)
    <float[8, 8] q, float[8, 8] k, float[8] b, float[8] s, int64[4] h = {2, 5, 2, 4}, int64[3] j = {2, 5, 8},
     float e = {0.5}> {
      n = LayerNormalization (x, s, b)
      m = MatMul (n, q)
      f = Add (m, b)
      i = Reshape (f, h)
      l = Transpose <perm = [0, 2, 1, 3]> (i)
      o = MatMul (n, k)
      p = Reshape (o, h)
      r = Transpose <perm = [0, 2, 3, 1]> (p)
      t = MatMul (l, r)
      u = Mul (t, e)
      v = Softmax (u)
      w = MatMul (v, l)
      z = Transpose <perm = [0, 2, 1, 3]> (w)
      aa = Reshape (z, j)
      bb = Gelu (aa)
      y = Add (bb, x)
    }""",
    """
    g (float[2, 12] x) => (float[2, 6] y, int64[2] z)
    <float[12, 6] w, float[6] b, float s = {0.1}, uint8 o = {128}> {
      q = QuantizeLinear (x, s, o)
      d = DequantizeLinear (q, s, o)
      m = Gemm (d, w, b)
      t = Tanh (m)
      g = Sigmoid (m)
      y = Mul (t, g)
      z = ArgMax <axis = 1, keepdims = 0> (y)
    }""",
]


def networks() -> list[tuple[str, onnx.ModelProto, list[np.ndarray]]]:
    """Models with fused layers, and what to feed them."""
    made = []
    for at, text in enumerate(NETWORKS):
        model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
        numbers = np.random.default_rng(at)
        for tensor in model.graph.initializer:
            if not numpy_helper.to_array(tensor).size:
                weights = numbers.random(tuple(tensor.dims), np.float32)
                tensor.CopyFrom(numpy_helper.from_array(weights, tensor.name))
        shapes = [[d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input]
        made.append((f"network {at}", model, [numbers.random(shape, np.float32) for shape in shapes]))
    return made


def bases() -> list[tuple[str, onnx.ModelProto, list[np.ndarray]]]:
    """All that is broken: names, models, what their inputs are fed."""
    made = networks() * 40
    for name, case in sorted(node_cases().items()):
        assert case.model is not None
        if case.data_sets and all(isinstance(value, np.ndarray) for value in case.data_sets[0][0]):
            made.append((name, case.model, list(case.data_sets[0][0])))
    return made


class Breaker:
    """Changes that the host would have refused, and some that it would not."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def model(self, model: Model) -> None:
        graphs = list(all_graphs(model.graph))
        for _ in range(self.random.choice([0, 1, 1, 1, 2, 2, 3, 5])):
            graph = self.random.choice(graphs)
            if graph.nodes:
                self.random.choice([self.type, self.type, self.data, self.attribute, self.node, self.link])(
                    graph
                )

    def dims(self, dims: list[Any]) -> list[Any]:
        dims, random = list(dims), self.random
        match random.randrange(6):
            case 0 if dims:
                dims[random.randrange(len(dims))] = random.choice(SIZES)
            case 1 if dims:
                del dims[random.randrange(len(dims))]
            case 2:
                dims.insert(random.randint(0, len(dims)), random.choice(SIZES))
            case 3:
                dims = [random.choice(SIZES) for _ in range(random.randrange(5))]
            case 4 if dims:
                random.shuffle(dims)
            case _:
                dims = []
        return dims

    def type(self, graph: Graph) -> None:
        random = self.random
        value = random.choice(list(graph.values.values()))
        known = value.type if isinstance(value.type, TensorType) else tensor_type(1, (2,))
        dims = known.dims
        element = known.element_type
        match random.randrange(6):
            case 0 if not value.is_input:
                value.type = None
                return
            case 1:
                element = random.choice(TYPES)
            case 2:
                dims = None if not value.is_input else dims
            case 3:
                dims = tuple(None for _ in dims or ())
            case 4 if HUGE:
                dims = (*(dims or ())[:1], random.choice([1 << 31, 1 << 62]))
            case _:
                dims = tuple(self.dims(list(dims or ())))
        value.type = tensor_type(element, dims)

    def data(self, graph: Graph) -> None:
        """An initializer's data: other shapes, types and contents, with the declared type left as it was."""
        random, held = self.random, graph.initializers
        if not held:
            return
        value = random.choice(held)
        value.initializer = self.array(value.initializer)
        if random.random() < 0.5 and value.initializer.dtype in _element_of:
            value.type = tensor_type(_element_of[value.initializer.dtype], value.initializer.shape)

    def array(self, array: np.ndarray) -> np.ndarray:
        random = self.random
        if array.dtype.hasobject or array.dtype not in _element_of:
            return array
        match random.randrange(5):
            case 0:
                return np.resize(array, self.dims(list(array.shape))) if array.size else array
            case 1 if array.dtype.kind in "iu" and array.size:
                changed = array.copy()
                info = np.iinfo(array.dtype)
                number = min(max(random.choice(NUMBERS), int(info.min)), int(info.max))
                changed.flat[random.randrange(array.size)] = number
                return changed
            case 2 if array.dtype.kind == "f" and array.size:
                changed = array.copy()
                changed.flat[random.randrange(array.size)] = random.choice(
                    [np.nan, np.inf, -np.inf, 0, -1e30]
                )
                return changed
            case 3:
                return array.astype(
                    random.choice([np.float32, np.int64, np.int32, np.uint8, np.bool_, np.float16])
                )
            case _:
                return array.reshape(-1)[: random.randrange(array.size + 1)]

    def attribute(self, graph: Graph) -> None:
        random = self.random
        node = random.choice(graph.nodes)
        proto = onnx.NodeProto.FromString(node.proto.SerializeToString())
        plain = [a for a in proto.attribute if not a.HasField("g")]
        known = [a.name for a in helper_attributes(node)] or ["axis"]
        match random.randrange(5):
            case 0 if plain:
                proto.attribute.remove(random.choice(plain))
            case 1:
                name = random.choice([*known, "nobody_knows_this"])
                _set(
                    proto,
                    name,
                    random.choice([self.number(), self.numbers(), 0.5, "", "text", ["a", ""], [0.5]]),
                )
            case 2 if plain:
                changed = random.choice(plain)
                if changed.type == onnx.AttributeProto.INTS:
                    numbers = list(changed.ints)
                    if numbers and random.random() < 0.7:
                        numbers[random.randrange(len(numbers))] = self.number()
                    elif numbers and random.random() < 0.5:
                        numbers.pop()
                    else:
                        numbers.append(self.number())
                    _set(proto, changed.name, numbers)
                elif changed.type == onnx.AttributeProto.STRING:
                    _set(proto, changed.name, random.choice(["", "linear", "constant", "\0", "x" * 300]))
                elif changed.type == onnx.AttributeProto.FLOAT:
                    _set(proto, changed.name, random.choice([0.0, -1.0, float("nan"), float("inf"), 1e30]))
                elif changed.type == onnx.AttributeProto.TENSOR:
                    array = self.array(numpy_helper.to_array(changed.t))
                    if array.size < 1 << 16:
                        _set(proto, changed.name, numpy_helper.from_array(np.ascontiguousarray(array)))
                else:
                    _set(proto, changed.name, self.number())
            case _:
                name = random.choice(known)
                _set(proto, name, random.choice([self.number(), self.number(), self.numbers()]))
        graph.set_attributes(node, NodeProto.FromString(proto.SerializeToString()).attribute)

    def number(self) -> int:
        return self.random.choice(NUMBERS)

    def numbers(self) -> list[int]:
        return [self.number() for _ in range(self.random.randrange(1, 6))]

    def node(self, graph: Graph) -> None:
        """Another operator, another version, fewer or more inputs and outputs."""
        random, node = self.random, self.random.choice(graph.nodes)
        match random.randrange(6):
            case 0:
                node.op_type = random.choice(OPERATORS)
            case 1:
                node.since_version = random.choice([0, 1, 5, 7, 9, 11, 13, 18, 21, 25, 1000, -1])
            case 2 if node.inputs:
                node.inputs[random.randrange(len(node.inputs))] = None
            case 3 if node.inputs:
                node.inputs.pop()
            case 4 if node.outputs:
                at = random.randrange(len(node.outputs))
                dropped = node.outputs[at]
                if dropped is not None and not dropped.is_output:
                    node.outputs[at] = None
                    dropped.producer = None
            case _:
                node.inputs.append(random.choice([None, *graph.values.values()]))

    def link(self, graph: Graph) -> None:
        """An input becomes another value of the graph, also one that comes later: a cycle."""
        random, node = self.random, self.random.choice(graph.nodes)
        if node.inputs:
            at = random.randrange(len(node.inputs))
            was = node.inputs[at]
            if was is not None:
                was.forget_reader(node)
            now = random.choice([*graph.values.values(), Value("from_nowhere", tensor_type(1, (2, 3)))])
            if now.name not in graph.values:
                graph.values[now.name] = now
            node.inputs[at] = now
            now.note_reader(node)


def helper_attributes(node: Node) -> list[Any]:
    """The attributes that the operator has in the newest opset."""
    try:
        return list(onnx.defs.get_schema(node.op_type, node.domain).attributes.values())
    except onnx.defs.SchemaError:
        return []


def _set(proto: onnx.NodeProto, name: str, value: Any) -> None:
    for attribute in list(proto.attribute):
        if attribute.name == name:
            if attribute.HasField("g"):
                return
            proto.attribute.remove(attribute)
    proto.attribute.append(helper.make_attribute(name, value))


_element_of = {
    np.dtype(kind): helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    for kind in ("f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")
}
OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""})


def attempt(base: tuple[str, onnx.ModelProto, list[np.ndarray]], random: Random, device: Any) -> str:
    """How it ended: "ran", or what refused it."""
    _, model, arrays = base
    breaker = Breaker(random)
    open_shapes = random.random() < 0.5
    mistakes: list[Exception] = []  # of the breaker itself

    def inferred(opened: Model) -> None:
        if open_shapes:
            for value in opened.graph.inputs:
                if isinstance(value.type, TensorType) and value.initializer is None:
                    value.type = tensor_type(
                        value.type.element_type, tuple(None for _ in value.type.dims or ())
                    )
        infer(opened)
        try:
            breaker.model(opened)
        except Exception as error:
            mistakes.append(error)
            raise

    ephost.opening.infer = inferred
    options = ephost.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    if random.random() < 0.7:
        options.graph_optimization_level = ephost.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_provider_for_devices([device], {"fusion": random.choice("011"), "intra_op_num_threads": "2"})
    try:
        session = ephost.InferenceSession(model.SerializeToString(), options)
    except Exception as error:
        if error in mistakes:
            raise
        return f"not opened: {type(error).__name__}"
    ended = "ran"
    for again in range(2):
        feeds = {}
        for value, array in zip(session.get_inputs(), arrays, strict=False):
            if again or random.random() < 0.4:
                changed = breaker.array(array)
                array = changed if changed.dtype == array.dtype else array
            feeds[value.name] = array
        try:
            session.run(None, feeds)
        except Exception as error:
            ended = f"not run: {type(error).__name__}"
    return ended


infer = ephost.opening.infer


def main() -> None:
    """See the module's docstring."""
    seed, first, last, folder = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    ephost.opening.check_types = lambda graph: None  # the plugin is to find what is wrong
    # Isolated, what both processes share has to have room below the limit, too.
    isolated = {"shared_bytes": ROOM // 8} if os.environ.get(VARIABLE, "0") not in ("", "0") else False
    ephost.register_execution_provider_library(NAME, cpu.get_library_path(), isolated=isolated)
    device = next(device for device in ephost.get_ep_devices() if device.ep_name == NAME)
    all_bases = bases()
    if not SANITIZED:  # which reserves terabytes, and has a limit of its own
        resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
    ended: Counter[str] = Counter()
    for at in range(first, last):
        random = Random(f"{seed} {at}")
        base = random.choice(all_bases)
        (folder / "try").write_text(f"{at}: {base[0]}")
        signal.setitimer(signal.ITIMER_PROF, TIME)
        ended[attempt(base, random, device)] += 1
    signal.setitimer(signal.ITIMER_PROF, 0)
    print(json.dumps(ended))


if __name__ == "__main__":
    main()
