"""Graphs of thousands of nodes: their cost grows with their number, and memory is shared without fault."""

import random
import time
from collections.abc import Callable

import ephost
import numpy as np
import onnx
import pytest
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model

CLOCK = time.get_clock_info(
    "process_time"
).resolution  # 1e-9 seconds on Linux, 1e-7 said and 0.016 on Windows
WEIGHTS = np.eye(4, dtype=np.float32)


def session(
    cpu: Cpu, nodes: list[onnx.NodeProto], outputs: list[str], constants: dict[str, np.ndarray]
) -> ephost.InferenceSession:
    return cpu.session(make_model(nodes, {"x": np.zeros((4, 4), np.float32)}, outputs, constants))


def additions(cpu: Cpu, length: int) -> ephost.InferenceSession:
    """A chain of additions, each of a constant of its own."""
    names = ["x", *(f"v{i}" for i in range(length - 1)), "y"]
    nodes = [helper.make_node("Add", [names[i], f"c{i}"], [names[i + 1]]) for i in range(length)]
    return session(cpu, nodes, ["y"], {f"c{i}": np.full((4, 4), 0.5, np.float32) for i in range(length)})


def products(cpu: Cpu, length: int) -> ephost.InferenceSession:
    """As many products of the input, each an output."""
    names = [f"y{i}" for i in range(length)]
    return session(
        cpu, [helper.make_node("MatMul", ["x", "w"], [name]) for name in names], names, {"w": WEIGHTS}
    )


def processor_time(function: Callable[[], object]) -> float:
    """Seconds, the shortest of a few; each of as many calls as a coarse clock (Windows') has to see."""
    times = []
    for _ in range(3):
        start, calls = time.process_time(), 0
        while calls == 0 or time.process_time() - start < 2 * CLOCK:
            function()
            calls += 1
        times.append((time.process_time() - start) / calls)
    return min(times)


def branches(cpu: Cpu, length: int) -> ephost.InferenceSession:
    """An If whose branches read as many values of the graph around them, one of them last to first."""
    names = [f"v{i}" for i in range(length)]
    kind = helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [4, 4])
    then, other = (
        helper.make_graph([helper.make_node("Sum", read, ["z"])], "branch", [], [kind])
        for read in (names, names[::-1])
    )
    nodes = [helper.make_node("Softmax", ["x"], [name]) for name in names]
    nodes.append(helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0))
    nodes.append(helper.make_node("Cast", ["sum"], ["condition"], to=onnx.TensorProto.BOOL))
    nodes.append(helper.make_node("If", ["condition"], ["y"], then_branch=then, else_branch=other))
    return session(cpu, nodes, ["y"], {})


@pytest.mark.parametrize("make", [additions, products])
def test_a_run_takes_time_in_proportion_to_the_nodes(
    cpu_plugin: Cpu, make: Callable[[Cpu, int], ephost.InferenceSession]
) -> None:
    feeds = {"x": np.zeros((4, 4), np.float32)}
    times = {}
    for length in (500, 6_000):
        opened = make(cpu_plugin, length)
        opened.run(None, feeds)
        times[length] = processor_time(lambda opened=opened: opened.run(None, feeds))
    # 12 times the nodes: what grows with the square of their number takes 144 times as long.
    assert times[6_000] < 50 * times[500]


def test_a_run_takes_time_in_proportion_to_what_a_branch_reads_from_outside(cpu_plugin: Cpu) -> None:
    times = {}
    for length in (2_000, 24_000):
        opened = branches(cpu_plugin, length)
        for sign in (0, 1):
            feeds = {"x": np.full((4, 4), sign, np.float32)}
            np.testing.assert_allclose(opened.run(None, feeds)[0], np.full((4, 4), length / 4), rtol=1e-5)
            times[length, sign] = processor_time(lambda given=feeds, s=opened: s.run(None, given))
    for sign in (0, 1):
        # 12 times the values: what grows with the square of their number takes 144 times as long.
        assert times[24_000, sign] < 36 * times[2_000, sign]


def test_opening_takes_time_in_proportion_to_the_nodes(cpu_plugin: Cpu) -> None:
    additions(cpu_plugin, 10)
    few, many = (
        processor_time(lambda length=length: additions(cpu_plugin, length)) for length in (500, 8_000)
    )
    assert many < 50 * few


def test_opening_takes_time_in_proportion_to_how_often_a_node_reads_one_value(cpu_plugin: Cpu) -> None:
    def opened(length: int) -> ephost.InferenceSession:
        return session(cpu_plugin, [helper.make_node("Sum", ["x"] * length, ["y"])], ["y"], {})

    few, many = (processor_time(lambda length=length: opened(length)) for length in (10_000, 60_000))
    assert many < 16 * few  # what grows with the square takes 36 times as long


def test_opening_takes_time_in_proportion_to_the_attributes_of_a_node(cpu_plugin: Cpu) -> None:
    def refused(count: int) -> None:
        model = make_model([helper.make_node("Neg", ["x"], ["t"])], {"x": np.zeros(4, np.float32)}, ["t"])
        node = helper.make_node("F", ["t"], ["y"], domain="own", **{f"a{i}": i for i in range(count)})
        model.graph.node.append(node)
        model.graph.output[0].name = "y"
        model.opset_import.append(helper.make_opsetid("own", 1))
        with pytest.raises(ephost.errors.Fail, match="own"):
            cpu_plugin.session(model)

    refused(10)
    few, many = (processor_time(lambda count=count: refused(count)) for count in (4_000, 32_000))
    assert many < 16 * few  # what grows with the square takes 64 times as long


def test_thousands_of_values_of_different_size_and_life_share_memory(cpu_plugin: Cpu) -> None:
    draw = random.Random(5)
    x = np.random.default_rng(5).standard_normal((4, 4)).astype(np.float32)
    values = {"x": x}
    alive = ["x"]
    nodes = []
    while len(nodes) < 9_000:
        name = f"v{len(nodes)}"
        a = draw.choice(alive[-40:])
        rows = len(values[a])
        if rows > 40:
            begin = draw.randrange(rows - 4)
            nodes.append(helper.make_node("Gather", [a, f"rows{begin}"], [name], axis=0))
            values[name] = values[a][begin : begin + 4]
        elif draw.random() < 0.3:
            b = draw.choice(alive[-40:])
            nodes.append(helper.make_node("Concat", [a, b], [name], axis=0))
            values[name] = np.concatenate([values[a], values[b]])
        else:
            nodes.append(helper.make_node("MatMul", [a, "turn"], [name]))
            values[name] = values[a][:, ::-1]
        alive.append(name)
    outputs = [*draw.sample(alive[1:], 200), alive[-1]]
    constants = {f"rows{i}": np.arange(i, i + 4) for i in range(400)}
    opened = session(cpu_plugin, nodes, outputs, {"turn": WEIGHTS[::-1].copy(), **constants})
    for _ in range(2):
        for name, found in zip(outputs, opened.run(None, {"x": x}), strict=True):
            np.testing.assert_array_equal(found, values[name], err_msg=name)


def test_a_value_with_many_readers_loses_them_one_by_one(cpu_plugin: Cpu) -> None:
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    nodes = [helper.make_node("LeakyRelu", ["x"], [f"a{i}"], alpha=i / 512) for i in range(512)]
    for i in range(511):
        nodes.append(helper.make_node("Add", [f"s{i}" if i else "a0", f"a{i + 1}"], [f"s{i + 1}"]))
    model = make_model(nodes, {"x": x}, ["s511"])
    (result,) = cpu_plugin.run(model, {"x": x})
    expected = sum(np.where(x < 0, x * np.float32(i / 512), x) for i in range(512))
    np.testing.assert_allclose(result, expected, rtol=1e-4)
