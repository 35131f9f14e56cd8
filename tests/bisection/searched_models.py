"""Models that searches look into, and their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from ephost.bisection.targets import Library, Target

SHAPES = {"cls": (1, 3, 48, 64), "det": (1, 3, 64, 64)}


def target_of(library: Path, **options: str) -> Target:
    """The test plugin with faults, in ephost."""
    return Target("faulty", libraries=(Library("faulty", str(library), options),))


def saved(folder: Path, model: onnx.ModelProto) -> Path:
    """The model as a file of a folder."""
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def picture(name: str, batch: int = 1, special: Sequence[float] = ()) -> np.ndarray:
    """An input for one of these models; special numbers among others."""
    made = np.random.default_rng(0).standard_normal((batch, *SHAPES[name][1:])).astype(np.float32)
    made.flat[: len(special)] = special
    return made


def chain_model(nodes: int, size: int = 64, rows: int = 4) -> onnx.ModelProto:
    """Nodes in a row: products, functions and sums in turn, which no host makes one of."""
    random = np.random.default_rng(1)
    made, weights, last = [], [], "x"
    for number in range(nodes):
        kind = ("MatMul", "Tanh", "Add")[number % 3]
        inputs = [last]
        if kind != "Tanh":
            shape = (size, size) if kind == "MatMul" else (size,)
            scale = 1 / np.sqrt(size) if kind == "MatMul" else 0.1
            array = (random.standard_normal(shape) * scale).astype(np.float32)
            weights.append(onnx.numpy_helper.from_array(array, f"w{number}"))
            inputs.append(f"w{number}")
        last = f"v{number}"
        made.append(onnx.helper.make_node(kind, inputs, [last], name=f"n{number}"))
    kinds = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [rows, size]) for name in ("x", last)
    ]
    graph = onnx.helper.make_graph(made, "chain", kinds[:1], kinds[1:], weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
