"""Graphs and tensors that break the standard's rules: refused by the CPU plugin, and never a crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from ephost.errors import InvalidArgument
from onnx import TensorProto, helper

from tests.plugins.cpu.conftest import Cpu, make_model

ROOT = Path(__file__).resolve().parents[3]
TRIES = int(os.environ.get("EPHOST_FUZZ_TRIES", "600"))


def test_the_table_of_signatures_is_what_the_standard_says() -> None:
    pytest.importorskip("onnxruntime")  # says what the operators of com.microsoft are
    made = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "operator_signatures.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    table = (ROOT / "plugins" / "cpu" / "operators" / "signatures.inc").read_text().splitlines()
    assert len(table) > 400
    assert set(table) <= set(made.stdout.splitlines())  # a later standard may have more


def test_a_range_to_no_number_is_refused(cpu_plugin: Cpu) -> None:
    node = helper.make_node("Range", ["start", "limit", "delta"], ["y"])
    feeds = {"start": np.int64(0), "limit": np.zeros(0, np.int64), "delta": np.int64(1)}
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(name, TensorProto.INT64, None) for name in feeds],
        [helper.make_tensor_value_info("y", TensorProto.INT64, ["n"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(InvalidArgument, match="single numbers"):
        cpu_plugin.run(model, {name: np.asarray(value) for name, value in feeds.items()})


@pytest.mark.parametrize("fusion", [0, 1])
@pytest.mark.parametrize("name, wrong", [("s2", np.uint8(1)), ("z2", np.int8(1)), ("z2", np.float32(1))])
def test_a_part_that_is_quantised_by_other_types_is_refused(
    cpu_plugin: Cpu, name: str, wrong: np.generic, fusion: int
) -> None:
    scale, zero = np.float32(1), np.uint8(0)
    values: dict[str, np.generic | np.ndarray] = {
        "ys": scale,
        "yz": zero,
        "x1": np.ones((1, 2), np.uint8),
        "s1": scale,
        "z1": zero,
    }
    values |= {"x2": np.ones((1, 3), np.uint8), "s2": scale, "z2": zero, name: wrong}
    node = helper.make_node("QLinearConcat", list(values), ["y"], domain="com.microsoft", axis=1)
    feeds = {key: np.asarray(value) for key, value in values.items()}
    model = make_model([node], feeds, ["y"])
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.UINT8
    with pytest.raises(InvalidArgument, match="a part, its zero point or its scale has another type"):
        cpu_plugin.run(model, feeds, fusion=fusion)


@pytest.mark.skipif(sys.platform == "win32", reason="nothing limits the memory that graphs ask for")
@pytest.mark.parametrize("part", range(3))
def test_broken_graphs_and_tensors_end_in_errors(tmp_path: Path, part: int) -> None:
    seed = os.environ.get("EPHOST_FUZZ_SEED", "1")
    first = part * (TRIES // 3)
    done = subprocess.run(
        [sys.executable, "-m", "tests.plugins.cpu.cpu_fuzz_worker", seed, str(first), str(first + TRIES // 3),
         str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=2900,
        cwd=ROOT,
        env={**os.environ, "EPHOST_CPU_PLUGIN": "0"},
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, (
        f"exit code {done.returncode} on try {(tmp_path / 'try').read_text()} of seed {seed}\n"
        f"{done.stderr[-4000:]}"
    )
    ended = json.loads(done.stdout)
    ran = sum(count for how, count in ended.items() if how.startswith(("ran", "not run")))
    assert ran > TRIES // 12, ended  # most reach the plugin's kernels, or what checks their inputs
    assert ended.get("ran", 0) > 0, ended


def test_a_diagonal_of_another_type_is_refused(cpu_plugin: Cpu) -> None:
    node = helper.make_node("Trilu", ["x", "k"], ["y"], domain="com.microsoft")
    feeds = {"x": np.ones((3, 3), np.float32), "k": np.array(1, np.uint8)}
    with pytest.raises(InvalidArgument, match="the diagonal is no int64"):
        cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_pads_beyond_all_memory_are_refused(cpu_plugin: Cpu, mode: str) -> None:
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)
    feeds = {"x": np.ones((2, 3), np.float32), "pads": np.array([0, 2**33, 0, 0])}
    with pytest.raises(InvalidArgument, match="pads of this mode"):
        cpu_plugin.run(make_model([node], feeds, ["y"], open_shapes=True), feeds)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_an_axis_that_grows_beyond_all_tables_is_refused(cpu_plugin: Cpu, mode: str) -> None:
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode)
    feeds = {"x": np.ones((1, 1, 2, 3), np.float32), "sizes": np.array([1, 1, 2, 2**33])}
    with pytest.raises(InvalidArgument, match="longer than the tables"):
        cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)


@pytest.mark.parametrize("shape", [[-2, -12], [-(2**63), 12], [2**62, 4, 6], [-3, 2, -1]])
def test_a_shape_of_no_tensor_is_refused(cpu_plugin: Cpu, shape: list[int]) -> None:
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    feeds = {"x": np.ones((2, 3, 4), np.float32), "shape": np.array(shape)}
    with pytest.raises(InvalidArgument, match=r"negative dimension|more elements"):
        cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)


@pytest.mark.parametrize("size", [2**62, 2**63 - 1])
def test_an_input_of_no_size_that_can_be_is_named(cpu_plugin: Cpu, size: int) -> None:
    source = f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[2] a, float[3, {size}] huge) => (y, z) {{ y = Neg(huge) z = Neg(a) }}"""
    with pytest.raises(InvalidArgument, match=f"the input 'huge': a tensor of shape .3, {size}. cannot be"):
        cpu_plugin.session(onnx.parser.parse_model(source))
