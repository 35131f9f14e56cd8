"""Operators of any number of inputs, and trees of more steps than one pass over memory can hold."""

import functools

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model


def _inputs(count: int, dtype: type, shape: tuple[int, ...] = (3, 5)) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(count)
    return {f"x{i}": rng.standard_normal(shape).astype(dtype) for i in range(count)}


@pytest.mark.parametrize("count", [16, 17, 31, 64, 65, 1000])
def test_a_sum_adds_any_number_of_inputs_in_their_order(cpu_plugin: Cpu, count: int) -> None:
    feeds = _inputs(count, np.float32)
    model = make_model([helper.make_node("Sum", list(feeds), ["y"])], feeds, ["y"])
    (found,) = cpu_plugin.run(model, feeds)
    np.testing.assert_array_equal(found, functools.reduce(np.add, feeds.values()))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_a_wide_sum_of_halves_is_rounded_once(cpu_plugin: Cpu, dtype: type) -> None:
    feeds = _inputs(100, dtype)
    model = make_model([helper.make_node("Sum", list(feeds), ["y"])], feeds, ["y"])
    (found,) = cpu_plugin.run(model, feeds)
    expected: np.ndarray = functools.reduce(np.add, [x.astype(np.float32) for x in feeds.values()]).astype(
        dtype
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("op", "dtype"),
    [("Mean", np.float32), ("Mean", np.float64), ("Max", np.float32), ("Min", np.int64), ("Max", np.int8)],
)
def test_wide_means_and_extremes(cpu_plugin: Cpu, op: str, dtype: type) -> None:
    feeds: dict[str, np.ndarray] = {
        name: (value * 9).astype(dtype) for name, value in _inputs(200, np.float64).items()
    }
    cpu_plugin.check(helper.make_node(op, list(feeds), ["y"]), feeds)


def test_inputs_of_a_wide_sum_are_broadcast(cpu_plugin: Cpu) -> None:
    feeds = _inputs(70, np.float32, (4,)) | {"row": np.ones((6, 1), np.float32)}
    cpu_plugin.check(helper.make_node("Sum", list(feeds), ["y"]), feeds)


def test_a_thousand_activations_into_one_sum(cpu_plugin: Cpu) -> None:
    feeds = _inputs(1000, np.float32)
    nodes = [helper.make_node("Relu", [name], [f"r{name}"]) for name in feeds]
    nodes.append(helper.make_node("Sum", [f"r{name}" for name in feeds], ["y"]))
    (found,) = cpu_plugin.run(make_model(nodes, feeds, ["y"]), feeds)
    expected = functools.reduce(np.add, [np.maximum(x, 0) for x in feeds.values()])
    np.testing.assert_array_equal(found, expected)


def _chain(step: str, count: int) -> tuple[list[onnx.NodeProto], dict[str, np.ndarray]]:
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, np.ndarray] = {}
    for i in range(count):
        names = [f"{step}{i}_{k}" for k in range({"Clip": 2}.get(step, 1))]
        for k, name in enumerate(names):
            constants[name] = np.array(
                (2 * k - 1) * (100 - i) / 8 if step == "Clip" else 1 + i / 1000, np.float32
            )
        nodes.append(helper.make_node(step, [f"v{i}", *names], [f"v{i + 1}"]))
    return nodes, constants


@pytest.mark.parametrize("count", [31, 32, 33, 100])
@pytest.mark.parametrize("step", ["Clip", "Mul", "Mod"])
def test_a_long_chain_with_numbers_of_its_own(cpu_plugin: Cpu, step: str, count: int) -> None:
    nodes, constants = _chain(step, count)
    if step == "Mod":
        for node in nodes:
            node.attribute.append(helper.make_attribute("fmod", 1))
    x = {"v0": np.linspace(-20, 20, 30, dtype=np.float32)}
    cpu_plugin.check(nodes, x, [f"v{count}"], constants)
