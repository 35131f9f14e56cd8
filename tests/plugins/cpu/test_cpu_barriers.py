"""Graphs whose shapes depend on what is in their tensors, at many places: their plans end at barriers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.plugins.cpu.conftest import Cpu, growth_of_runs, make_model

FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL


class RandomGraph:
    """Rows of four numbers that are computed, filtered by their content, joined and cut, at random."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants = {"axis0": np.array([0]), "axis1": np.array([1]), "zero": np.array([0])}
        self.rows = ["x"]
        for _ in range(int(self.random.integers(6, 16))):
            steps = (self._compute, self._filter, self._cut, self._join, self._view, self._branch, self._fill)
            step = steps[self.random.choice(len(steps), p=(0.22, 0.22, 0.11, 0.11, 0.11, 0.11, 0.12))]
            step(self._pick(), f"v{len(self.rows)}")
            self.rows.append(f"v{len(self.rows)}")
        others = self.random.permutation(self.rows[1:-1])[: int(self.random.integers(0, 4))]
        feeds = {"x": np.zeros((1, 4), np.float32)}
        self.model = make_model(self.nodes, feeds, [self.rows[-1], *others], self.constants, open_shapes=True)

    def _pick(self) -> str:
        """Of the last ones, mostly: an earlier one is read across many barriers."""
        back = 1 + int(self.random.geometric(0.4))
        return self.rows[-min(back, len(self.rows))]

    def _add(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def _constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def _compute(self, x: str, y: str) -> None:
        weights = self._constant(self.random.standard_normal((4, 4)).astype(np.float32))
        self._add("Sin", [self._add("MatMul", [x, weights], f"{y}p")], y)

    def _filter(self, x: str, y: str) -> None:
        """The rows whose largest number is above a limit."""
        limit = self._constant(np.array(self.random.uniform(0.2, 0.8), np.float32))
        largest = self._add("ReduceMax", [x, "axis1"], f"{y}m", keepdims=0)
        where = self._add("NonZero", [self._add("Greater", [largest, limit], f"{y}g")], f"{y}z")
        self._add("Gather", [x, self._add("Squeeze", [where, "axis0"], f"{y}i")], y)

    def _count(self, x: str, y: str) -> str:
        """How many numbers of the first column are above 0, in a list of one."""
        column = self._add("Gather", [x, "zero"], f"{y}c", axis=1)
        above = self._add(
            "Cast", [self._add("Greater", [column, f"{y}limit"], f"{y}a")], f"{y}b", to=TensorProto.INT64
        )
        self.constants[f"{y}limit"] = np.array(0, np.float32)
        return self._add("ReduceSum", [above, "axis0"], f"{y}n", keepdims=0)

    def _cut(self, x: str, y: str) -> None:
        """As many rows as there are of those, from the start."""
        self._add("Slice", [x, "zero", self._count(x, y), "axis0"], y)

    def _join(self, x: str, y: str) -> None:
        self._add("Concat", [x, self._pick()], f"{y}j", axis=0)
        limit = self._constant(np.array([40]))
        self._add("Slice", [f"{y}j", "zero", limit, "axis0"], y)

    def _view(self, x: str, y: str) -> None:
        """A name of the same memory, which is read under both."""
        flat = self._add("Reshape", [x, self._constant(np.array([-1]))], f"{y}f")
        back = self._add("Reshape", [flat, self._constant(np.array([-1, 4]))], f"{y}r")
        self._add("Add", [self._add("Neg", [back], f"{y}n"), x], f"{y}s")
        self._add("Add", [f"{y}s", back], y)

    def _branch(self, x: str, y: str) -> None:
        """If there are rows, one body, which filters them too, and if not the other."""
        size = self._add("Size", [x], f"{y}q")
        some = self._add("Greater", [size, self._constant(np.array(7))], f"{y}t")
        inner = f"{y}k"
        then = [
            helper.make_node("ReduceMin", [x, "axis1"], [f"{inner}m"], keepdims=0),
            helper.make_node("Less", [f"{inner}m", f"{y}l"], [f"{inner}g"]),
            helper.make_node("Compress", [x, f"{inner}g"], [f"{inner}y"], axis=0),
        ]
        self.constants[f"{y}l"] = np.array(-0.3, np.float32)
        otherwise = [helper.make_node("Abs", [x], [f"{inner}e"])]

        def body(nodes: list[onnx.NodeProto], output: str) -> onnx.GraphProto:
            return helper.make_graph(
                nodes, "body", [], [helper.make_tensor_value_info(output, FLOAT, [None, 4])]
            )

        self._add(
            "If", [some], y, then_branch=body(then, f"{inner}y"), else_branch=body(otherwise, f"{inner}e")
        )

    def _fill(self, x: str, y: str) -> None:
        """Rows of a constant, as many as x has, behind it; made from its shape."""
        shape = self._add("Shape", [x], f"{y}w")
        fill = helper.make_tensor("value", FLOAT, [1], [0.25])
        self._add("Add", [x, self._add("ConstantOfShape", [shape], f"{y}o", value=fill)], y)


@pytest.mark.parametrize("max_shapes", [1, 32])
@pytest.mark.parametrize("seed", range(40))
def test_each_run_has_its_own_answer(cpu_plugin: Cpu, seed: int, max_shapes: int) -> None:
    """Whichever way earlier runs went, and whichever of their plans are still there."""
    onnxruntime = pytest.importorskip("onnxruntime")
    model = RandomGraph(seed).model
    session = cpu_plugin.session(model, max_shapes=max_shapes)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    rival = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    random = np.random.default_rng(seed)
    for run in range(12):
        rows = 9 if run % 3 else int(random.integers(0, 12))
        feeds = {"x": random.uniform(-2, 2, (rows, 4)).astype(np.float32)}
        for name, found, expected in zip(
            [x.name for x in session.get_outputs()],
            session.run(None, feeds),
            rival.run(None, feeds),
            strict=True,
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4, err_msg=f"run {run}, {name}")


def _filters(count: int, nodes_between: int, level: float) -> onnx.ModelProto:
    """A chain in which rows are dropped by their content again and again."""
    nodes, value = [], "x"
    constants: dict[str, np.ndarray] = {"one": np.array([1]), "level": np.array(level, np.float32)}
    for i in range(count):
        for k in range(nodes_between):
            nodes.append(helper.make_node("Tanh", [value], [value := f"t{i}_{k}"]))
        constants[f"column{i}"] = np.array([i % 8])
        nodes += [
            helper.make_node("Gather", [value, f"column{i}"], [f"a{i}"], axis=1),
            helper.make_node("Squeeze", [f"a{i}", "one"], [f"b{i}"]),
            helper.make_node("Greater", [f"b{i}", "level"], [f"c{i}"]),
            helper.make_node("Compress", [value, f"c{i}"], [f"d{i}"], axis=0),
        ]
        value = f"d{i}"
    return make_model(nodes, {"x": np.zeros((1, 8), np.float32)}, [value], constants, open_shapes=True)


@pytest.mark.resources
def test_runs_that_go_other_ways_do_not_fill_the_memory(tmp_path: Path) -> None:
    """Of each barrier as many plans are kept as of inputs' shapes, not as many as there are ways to it."""
    model = _filters(8, 1, -0.55)
    assert growth_of_runs(model, [(100, 8)] * 2300, tmp_path, warm=300, fill="random") < 8 << 20


@pytest.mark.resources
def test_plans_take_memory_for_their_own_part_of_the_graph(tmp_path: Path) -> None:
    """Not for all that came before it: that is a thousand times as much here."""
    model = _filters(400, 6, -2.0)
    shapes = [(rows, 8) for rows in range(1, 11)]
    assert growth_of_runs(model, shapes, tmp_path, max_shapes=32) < 120 << 20


@pytest.mark.resources
def test_memory_that_no_later_plan_reads_is_there_for_the_next(tmp_path: Path) -> None:
    """What 24 plans in a row work on is not 24 times as much as one does."""
    rows = 1 << 18
    grown = growth_of_runs(_filters(24, 2, -2.0), [(rows, 8)], tmp_path)
    assert grown < 10 * rows * 8 * np.dtype(np.float32).itemsize
