"""Kernels for If, Loop and Scan that a host makes for an EP with a kernel registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from plugin_harness import Tracer
from plugin_models import node

X = np.arange(6, dtype=np.float32).reshape(3, 2)
OPEN, RUN = ("open", {"model": "m.onnx"}), ("run", {"feeds": "x.npz"})


def value(name: str, shape: list[Any] | None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def finished(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    shape: list[int],
    constants: dict[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, [value("y", shape)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def choosing() -> onnx.ModelProto:
    """y = (c ? x + x : x * x) + x"""
    branches = {
        f"{name}_branch": helper.make_graph(
            [node(op, "x x", name, name=name)], name, [], [value(name, [3, 2])]
        )
        for name, op in (("then", "Add"), ("else", "Mul"))
    }
    choose = helper.make_node("If", ["c"], ["z"], name="if", **branches)
    inputs = [value("c", [], TensorProto.BOOL), value("x", [3, 2])]
    return finished([choose, node("Add", "z x", "y", name="last")], inputs, [3, 2])


def repeated() -> onnx.ModelProto:
    """y: x doubled 1, 2 and 3 times, on top of each other."""
    body = helper.make_graph(
        [
            node("Add", "v v", "next", name="double"),
            helper.make_node("Identity", ["next"], ["seen"], name="cpu_seen"),
            helper.make_node("Identity", ["going"], ["on"], name="cpu_on"),
        ],
        "body",
        [value("i", [], TensorProto.INT64), value("going", [], TensorProto.BOOL), value("v", [3, 2])],
        [value("on", [], TensorProto.BOOL), value("next", [3, 2]), value("seen", [3, 2])],
    )
    loop = helper.make_node("Loop", ["n", "", "x"], ["last", "y"], name="loop", body=body)
    return finished([loop], [value("x", [3, 2])], [3, 3, 2], {"n": np.array(3)})


def scanned(axis: int) -> onnx.ModelProto:
    """y: sums of the first 1, 2, ... rows of x, as rows or as columns."""
    body = helper.make_graph(
        [
            node("Add", "sum row", "next", name="accumulate"),
            helper.make_node("Identity", ["next"], ["seen"], name="cpu_seen"),
        ],
        "body",
        [value("sum", [2]), value("row", [2])],
        [value("next", [2]), value("seen", [2])],
    )
    scan = helper.make_node(
        "Scan", ["zero", "x"], ["total", "y"], name="scan", body=body, num_scan_inputs=1,
        scan_output_axes=[axis],
    )  # fmt: skip
    shape = [3, 2] if axis == 0 else [2, 3]
    return finished([scan], [value("x", [3, 2])], shape, {"zero": np.zeros(2, np.float32)})


CASES = {
    "then": ("If", choosing(), {"c": np.array(True), "x": X}, X + X + X, ["then", "last"]),
    "else": ("If", choosing(), {"c": np.array(False), "x": X}, X * X + X, ["else", "last"]),
    "loop": ("Loop", repeated(), {"x": X}, np.stack([2 * X, 4 * X, 8 * X]), ["double"] * 3),
    "scan": ("Scan", scanned(0), {"x": X}, np.cumsum(X, 0), ["accumulate"] * 3),
    "scan_columns": ("Scan", scanned(1), {"x": X}, np.cumsum(X, 0).T, ["accumulate"] * 3),
}


@pytest.mark.parametrize("case", CASES)
def test_the_host_runs_the_node_and_the_ep_what_it_claims_of_the_bodies(
    host: str, traced: Tracer, case: str
) -> None:
    op, model, feeds, expected, computed = CASES[case]
    _, opened, ran, closed = traced(
        host, ["register", OPEN, RUN, ("close", {})], "control", {"m.onnx": model, "x.npz": feeds}
    )
    assert not opened.error, opened.message
    assert ["trace", [op]] in [[ep, [t for t in types if t == op]] for ep, types in opened.value]
    assert opened.only("Create").count(f"Create{op}Kernel") == 1
    assert ran.value[-1] == expected.tolist()
    assert ran.only("Compute") == [f"Compute '{name}'" for name in computed]
    released = 0 if op == "If" else 1
    assert closed.only("Release of the helper") == [f"Release of the helper of {op}"] * released


@pytest.mark.in_process("its profiler hears of its own steps alone")
def test_profilers_hear_of_the_steps_of_bodies(host: str, traced: Tracer, tmp_path: Path) -> None:
    _, model, feeds, _, _ = CASES["loop"]
    profiled = (OPEN[0], {**OPEN[1], "enable_profiling": True, "profile_file_prefix": str(tmp_path / "p")})
    _, opened, ran, profile, _ = traced(
        host,
        ["register", profiled, RUN, "profile", ("close", {})],
        "control profile",
        {"m.onnx": model, "x.npz": feeds},
    )
    assert not opened.error, opened.message
    lines = [line for line in ran.lines if "SequentialExecutor" not in line]
    heard = "profiler: StopEvent double_kernel_time, category 1, op_name Add, provider trace"
    steps = [at for at, line in enumerate(lines) if line == heard]
    assert len(steps) == 3
    for step in steps:
        assert lines[step - 2 : step] == ["profiler: StartEvent", "Compute 'double'"]
    assert sum("model_run" in line for line in lines) == 1
    assert any("StopEvent loop_kernel_time" in line for line in lines[steps[-1] :])
    assert profile.lines == ["profiler: EndProfiling, 0 event(s) open"]


def test_without_such_kernels_the_bodies_are_the_eps_all_the_same(host: str, traced: Tracer) -> None:
    _, model, feeds, expected, computed = CASES["loop"]
    _, opened, ran = traced(host, ["register", OPEN, RUN], "", {"m.onnx": model, "x.npz": feeds})
    assert [ep for ep, types in opened.value if "Loop" in types] == ["CPUExecutionProvider"]
    assert ran.value[-1] == expected.tolist()
    assert ran.only("Compute") == [f"Compute '{name}'" for name in computed]
