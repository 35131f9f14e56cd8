"""com.microsoft's DynamicQuantizeLSTM beside onnxruntime, which rounds what all products read to bytes: with
one thread, since with more it rounds the states of parts of the batch apart."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, assert_close, make_model

OUTPUTS = ["y", "h", "c"]
INPUTS = ["x", "w", "r", "b", "l", "h0", "c0", "p", "ws", "wz", "rs", "rz"]


def lstm(
    hidden: int = 32,
    width: int = 24,
    steps: int = 6,
    batch: int = 2,
    direction: str = "forward",
    dtype: type = np.int8,
    by_column: bool = False,
    zero: int = 0,
    lengths: list[int] | None = None,
    given: str = "b",
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """`zero`: from the weights' middle to zero points; `given`: which of the optional inputs are there."""
    random = np.random.default_rng(0)
    directions = 2 if direction == "bidirectional" else 1
    middle = 0 if dtype == np.int8 else 128
    scales = (directions, 4 * hidden) if by_column else (directions,)
    values: dict[str, np.ndarray] = {"x": random.normal(size=(steps, batch, width)).astype(np.float32)}
    for name, rows in (("w", width), ("r", hidden)):
        values[name] = (random.integers(-127, 128, (directions, rows, 4 * hidden)) + middle).astype(dtype)
        values[name + "s"] = random.uniform(0.001, 0.004, scales).astype(np.float32)
        values[name + "z"] = np.full(scales, middle + zero, dtype)
    shapes = {
        "b": (directions, 8 * hidden),
        "h0": (directions, batch, hidden),
        "c0": (directions, batch, hidden),
        "p": (directions, 3 * hidden),
    }
    for name, shape in shapes.items():
        if name in given.split():
            values[name] = (random.normal(size=shape) / 3).astype(np.float32)
    if lengths is not None:
        values["l"] = np.array(lengths, np.int32)
    feeds = {name: values.pop(name) for name in ("x", "l", "h0", "c0") if name in values}
    node = helper.make_node(
        "DynamicQuantizeLSTM",
        [name if name in feeds or name in values else "" for name in INPUTS],
        OUTPUTS,
        domain="com.microsoft",
        hidden_size=hidden,
        direction=direction,
        **attributes,
    )
    return make_model([node], feeds, OUTPUTS, values), feeds


def beside_onnxruntime(cpu: Cpu, model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # Of weights that could saturate AVX2's instruction it has exact sums only so.
    options.add_session_config_entry("session.x64quantprecision", "1")
    other = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    expected = other.run(None, feeds)
    for name, a, b in zip(OUTPUTS, cpu.run(model, feeds), expected, strict=True):
        # An input that was rounded otherwise would change 1e-3.
        assert_close(a, b, 1e-5, 2e-6, name)


VARIANTS: dict[str, dict[str, Any]] = {
    "batch of one": {"batch": 1},
    "batch": {"batch": 3},
    "batch of many tiles": {"batch": 20},
    "reverse": {"direction": "reverse"},
    "bidirectional": {"direction": "bidirectional"},
    "bidirectional, one": {"direction": "bidirectional", "batch": 1},
    "unsigned": {"dtype": np.uint8},
    "unsigned, zero points": {"dtype": np.uint8, "zero": -5, "direction": "bidirectional"},
    "zero points": {"zero": 3},
    "by column": {"by_column": True, "direction": "bidirectional"},
    "sizes that fill no panel": {"hidden": 9, "width": 7, "direction": "bidirectional"},
    "an odd number of panels": {"hidden": 40, "batch": 7},
    "many units": {"hidden": 150, "width": 33, "batch": 1, "steps": 4},
    "no biases": {"given": ""},
    "initial states": {"given": "b h0 c0", "direction": "bidirectional"},
    "peepholes": {"given": "b p c0"},
    "input and forget": {"given": "b p", "input_forget": 1},
    "clip": {"clip": 0.4},
    "activations": {"activations": ["HardSigmoid", "Relu", "Tanh"]},
}
LENGTHS = [[6, 6, 6], [6, 2, 4], [2, 6, 1], [4, 3, 0], [1, 1, 1]]


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_rounded_to_bytes_is_what_onnxruntime_rounds(cpu_plugin: Cpu, variant: str) -> None:
    beside_onnxruntime(cpu_plugin, *lstm(**VARIANTS[variant]))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_states_of_sequences_that_have_ended_are_rounded_with_the_others_once_more(
    cpu_plugin: Cpu, direction: str, lengths: list[int]
) -> None:
    model, feeds = lstm(batch=3, direction=direction, lengths=lengths)
    # What lies behind all ends is far from all else: it is not to be rounded with it.
    feeds["x"][max(lengths) :] *= 50
    beside_onnxruntime(cpu_plugin, model, feeds)


@pytest.mark.parametrize("options", [{"lengths": [0, 4]}, {"steps": 0}], ids=str)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_a_sequence_of_no_steps_leaves_no_state(
    cpu_plugin: Cpu, direction: str, options: dict[str, Any]
) -> None:
    """Not the one that it begins with, either: as of all recurrent operators."""
    model, feeds = lstm(given="b h0 c0", direction=direction, **options)
    if "lengths" in options:  # without any step onnxruntime 1.32 leaves c as it is of all but the first
        beside_onnxruntime(cpu_plugin, model, feeds)
    _, h, c = cpu_plugin.run(model, feeds)
    assert not h[:, 0].any() and not c[:, 0].any()


@pytest.mark.parametrize("batch", [1, 4])
def test_threads_do_not_change_a_bit(cpu_plugin: Cpu, batch: int) -> None:
    model, feeds = lstm(hidden=512, batch=batch, steps=3)
    for a, b in zip(*(cpu_plugin.run(model, feeds, intra_op_num_threads=n) for n in (1, 4)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_outputs_that_nobody_wants_are_left_out(cpu_plugin: Cpu) -> None:
    model, feeds = lstm()
    expected = cpu_plugin.run(model, feeds)
    node = model.graph.node[0]
    node.output[0] = ""
    del node.output[2:]
    del model.graph.output[2], model.graph.output[0]
    np.testing.assert_array_equal(cpu_plugin.run(model, feeds)[0], expected[1])


@pytest.mark.parametrize("change", ["weights", "layout", "activation", "scales"])
def test_what_it_cannot_do_is_not_taken(cpu_plugin: Cpu, change: str) -> None:
    attributes: dict[str, Any] = {}
    if change == "layout":
        attributes["layout"] = 1
    if change == "activation":
        attributes["activations"] = ["Sigmoid", "Softmax", "Tanh"]
    model, _ = lstm(**attributes)
    if change == "weights":
        model.graph.input.append(helper.make_tensor_value_info("w", onnx.TensorProto.INT8, [1, 24, 128]))
        model.graph.initializer.remove(next(each for each in model.graph.initializer if each.name == "w"))
    if change == "scales":
        scales = next(each for each in model.graph.initializer if each.name == "ws")
        scales.CopyFrom(onnx.numpy_helper.from_array(np.ones((1, 2), np.float32), "ws"))
    with pytest.raises(Exception, match="DynamicQuantizeLSTM"):
        cpu_plugin.session(model)


def test_lengths_beyond_the_input_are_refused(cpu_plugin: Cpu) -> None:
    model, feeds = lstm(lengths=[2, 9])
    with pytest.raises(Exception, match="sequence 1 has the length 9, and the input has 6 steps"):
        cpu_plugin.run(model, feeds)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="instruction sets of x86-64")
@pytest.mark.skipif("EPHOST_CPU_ISA" in os.environ, reason="these tests run with a lower set already")
@pytest.mark.parametrize("isa", ["x86-64", "x86-64-v3"])
def test_lower_instruction_sets_round_the_same(isa: str) -> None:
    names = "what_is_rounded or states_of_sequences or threads"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", names],
        env={**os.environ, "EPHOST_CPU_ISA": isa},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
