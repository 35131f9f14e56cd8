"""Models drawn at random: small ones of well-known operators, whose numbers stay near 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from ephost.checking.models import Arrays, F, make, node

_UNARY = ("Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Identity", "Softsign", "Erf", "HardSigmoid", "LeakyRelu")
_BINARY = ("Add", "Sub", "Mul", "Max", "Min")
_MOST_NODES = 16
_SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
_RUNS = 3


@dataclass
class Drawn:
    """A model, the feeds of its runs, and its operators."""

    model: bytes
    feeds: list[Arrays]
    op_types: list[str]


class _Graph:
    """Nodes that are drawn one after the other. Every value has rows, which may be open, and columns."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.rows: int | str = self._pick(["n", *_SIZES[1:]])
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Any] = {}
        self.columns: dict[str, int] = {}  # of each value
        self.inputs = {}
        for at in range(int(random.integers(1, 4))):
            name = f"x{at}"
            self.columns[name] = self.inputs[name] = int(self._pick(_SIZES))

    def _pick(self, among: Any) -> Any:
        return among[int(self.random.integers(len(among)))]

    def _constant(self, *dims: int) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = self.random.uniform(-1, 1, dims).astype(np.float32)
        return name

    def _add(self, op: str, inputs: str, columns: int, **attributes: Any) -> None:
        name = f"v{len(self.nodes)}"
        self.nodes.append(node(op, inputs, name, **attributes))
        self.columns[name] = columns

    def draw(self) -> None:
        """One node more."""
        values = list(self.columns)
        value = values[-1] if self.random.random() < 0.6 else self._pick(values)
        wide = self.columns[value]
        match int(self.random.integers(9)):
            case 0 | 1 | 2:
                self._add(self._pick(_UNARY), value, wide)
            case 3 | 4:
                fitting = [name for name in values if self.columns[name] in (1, wide)]
                self._add(self._pick(_BINARY), f"{value} {self._pick(fitting)}", wide)
            case 5:
                dims = self._pick([(wide,), (1, wide), (1,), ()])
                self._add(self._pick(_BINARY), f"{value} {self._constant(*dims)}", wide)
            case 6:
                columns = int(self._pick(_SIZES))
                weights = self._constant(wide, columns)
                self.constants[weights] /= np.float32(wide)
                self._add("MatMul", f"{value} {weights}", columns)
            case 7:
                other = self._pick(values)
                if wide + self.columns[other] <= 64:
                    self._add("Concat", f"{value} {other}", wide + self.columns[other], axis=1)
                else:
                    self._add("ReduceMean", value, 1, axes=[1], keepdims=1)
            case _:
                self._add("Softmax", value, wide, axis=1)
        if self.nodes[-1].op_type in ("Mul", "Add", "Sub") and self.random.random() < 0.5:
            self._add("Tanh", self.nodes[-1].output[0], self.columns[self.nodes[-1].output[0]])


def draw(seed: int) -> Drawn:
    """The model of a seed: the same each time."""
    random = np.random.default_rng(seed)
    graph = _Graph(random)
    for _ in range(int(random.integers(1, _MOST_NODES))):
        graph.draw()
    made = [each.output[0] for each in graph.nodes]
    read = {name for each in graph.nodes for name in each.input}
    outputs = {name for name in made if name not in read or random.random() < 0.1}
    model = make(
        graph.nodes,
        {name: (F, (graph.rows, columns)) for name, columns in graph.inputs.items()},
        {name: (F, (graph.rows, graph.columns[name])) for name in made if name in outputs},
        graph.constants,
    )
    feeds: list[Arrays] = []
    for _ in range(_RUNS):
        rows = graph.rows if isinstance(graph.rows, int) else int(random.choice(_SIZES))
        feeds.append(
            {
                name: random.uniform(-2, 2, (rows, columns)).astype(np.float32)
                for name, columns in graph.inputs.items()
            }
        )
    return Drawn(model, feeds, sorted({each.op_type for each in graph.nodes}))
