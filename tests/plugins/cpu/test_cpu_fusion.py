"""What passes make of a graph gives what the graph gives."""

import json
from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model


def some(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def both_ways(
    cpu: Cpu,
    nodes: list[onnx.NodeProto],
    feeds: dict[str, np.ndarray],
    outputs: list[str],
    constants: dict[str, np.ndarray] | None = None,
    open_shapes: bool = False,
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> ephost.InferenceSession:
    """Compares a session with fusions and one without; returns the former."""
    model = make_model(nodes, feeds, outputs, constants, open_shapes=open_shapes)
    fused, plain = cpu.session(model), cpu.session(model, fusion=0)
    for found, expected in zip(fused.run(None, feeds), plain.run(None, feeds), strict=True):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_allclose(
            found.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=atol
        )
    return fused


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[onnx.NodeProto], dict[str, np.ndarray], list[str]]:
    """A graph of elementwise nodes over inputs of shapes that broadcast, with values that are used twice."""
    full = draw(st.sampled_from([(2, 3, 40), (7, 300), (1, 5, 4, 9)]))
    feeds = {"x": some(*full), "s": some(*full[-1:], seed=1), "c": some(*full[1:-1], 1, seed=2)}
    values, nodes = list(feeds), []
    for i in range(draw(st.integers(2, 9))):
        a, b = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        op = draw(
            st.sampled_from(["Add", "Mul", "Sub", "Max", "Tanh", "Sigmoid", "Relu", "Clip", "Where", "Div"])
        )
        name = f"v{i}"
        if op == "Where":
            nodes.append(helper.make_node("Greater", [a, b], [name + "c"]))
            nodes.append(helper.make_node("Where", [name + "c", a, "x"], [name]))
        elif op == "Div":  # By something that is not near zero.
            nodes.append(helper.make_node("Exp", [b], [name + "e"]))
            nodes.append(helper.make_node("Tanh", [name + "e"], [name + "t"]))
            nodes.append(helper.make_node("Div", [a, name + "t"], [name]))
        else:
            nodes.append(helper.make_node(op, [a, b] if op in ("Add", "Mul", "Sub", "Max") else [a], [name]))
        values.append(name)
    outputs = {values[-1], draw(st.sampled_from(values[3:]))}
    return nodes, feeds, sorted(outputs)


@settings(max_examples=60, deadline=None)
@given(trees(), st.booleans())
def test_any_tree_of_elementwise_nodes_gives_the_same_in_one_pass(
    cpu_plugin: Cpu,
    tree: tuple[list[onnx.NodeProto], dict[str, np.ndarray], list[str]],
    open_shapes: bool,
) -> None:
    nodes, feeds, outputs = tree
    both_ways(cpu_plugin, nodes, feeds, outputs, open_shapes=open_shapes, rtol=1e-4, atol=1e-5)


def test_a_chain_of_many_types_is_one_expression(cpu_plugin: Cpu) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=onnx.TensorProto.FLOAT16),
        helper.make_node("Mul", ["h", "two"], ["d"]),
        helper.make_node("Cast", ["d"], ["i"], to=onnx.TensorProto.INT32),
        helper.make_node("Mod", ["i", "three"], ["m"]),
        helper.make_node("Equal", ["m", "zero"], ["e"]),
        helper.make_node("Cast", ["e"], ["f"], to=onnx.TensorProto.DOUBLE),
        helper.make_node("Cast", ["f"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    constants = {"two": np.float16([2]), "three": np.int32(3), "zero": np.int32([[0]])}
    both_ways(cpu_plugin, nodes, {"x": some(5, 700) * 9}, ["y"], constants)


def test_constants_of_higher_rank_count_for_the_shape(cpu_plugin: Cpu) -> None:
    nodes = [helper.make_node("Mul", ["x", "k"], ["a"]), helper.make_node("Add", ["a", "k"], ["y"])]
    both_ways(cpu_plugin, nodes, {"x": some(3)}, ["y"], {"k": np.float32([[[2]]])})


@pytest.mark.parametrize("fusion", [0, 1])
def test_masked_softmax_is_zero_where_the_model_says_so(cpu_plugin: Cpu, fusion: int) -> None:
    nodes = [
        helper.make_node("Softmax", ["x"], ["s"]),
        helper.make_node("IsNaN", ["s"], ["n"]),
        helper.make_node("Where", ["n", "zero", "s"], ["y"]),
    ]
    x = some(4, 30)
    x[2] = -np.inf
    model = make_model(nodes, {"x": x}, ["y"], {"zero": np.float32(0)})
    y = cpu_plugin.run(model, {"x": x}, fusion=fusion)[0]
    assert (y[2] == 0).all()
    np.testing.assert_allclose(y.sum(-1), [1, 1, 0, 1], rtol=1e-6)


def test_a_tree_is_one_step_of_a_run(cpu_plugin: Cpu, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"]),
        helper.make_node("Mul", ["x", "s"], ["m"]),
        helper.make_node("Add", ["m", "k"], ["a"]),
        helper.make_node("Tanh", ["a"], ["y"]),
    ]
    feeds = {"x": some(3, 50), "k": some(50, seed=1)}
    steps = {}
    for fuse in (0, 1):
        options = ephost.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = str(tmp_path / f"steps{fuse}")
        options.add_provider_for_devices([cpu_plugin.device], {"fusion": str(fuse)})
        model = make_model(nodes, feeds, ["y"]).SerializeToString()
        session = ephost.InferenceSession(model, options)
        session.run(None, feeds)
        trace = json.loads(Path(session.end_profiling()).read_text())
        steps[fuse] = sum("Elementwise" in str(event) for event in trace)
    assert steps[0] == 0
    assert steps[1] >= 1
