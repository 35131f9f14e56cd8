"""RNN, GRU and LSTM beside onnxruntime's CPU provider, which has all that the standard says of them."""

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model

onnxruntime = pytest.importorskip("onnxruntime")

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _network(
    op: str, steps: int, batch: int, inputs: int, hidden: int, direction: str, given: set[str], **more: Any
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    rng = np.random.default_rng(steps * 1000 + batch * 100 + inputs * 10 + hidden)
    d, width = 2 if direction == "bidirectional" else 1, GATES[op] * hidden
    batch_first = more.get("layout") == 1
    state = (batch, d, hidden) if batch_first else (d, batch, hidden)
    shapes = {
        "x": (batch, steps, inputs) if batch_first else (steps, batch, inputs),
        "w": (d, width, inputs),
        "r": (d, width, hidden),
        "b": (d, 2 * width),
        "h": state,
        "c": state,
        "p": (d, 3 * hidden),
    }
    values = {name: rng.standard_normal(shape).astype(np.float32) * 0.5 for name, shape in shapes.items()}
    values["l"] = rng.integers(0 if "zero" in given else 1, steps + 1, batch).astype(np.int32)
    values["l"][0] = steps
    order = ["x", "w", "r", "b", "l", "h", "c", "p"] if op == "LSTM" else ["x", "w", "r", "b", "l", "h"]
    names = [name if name in given | {"x", "w", "r"} else "" for name in order]
    outputs = ["y", "yh", "yc"] if op == "LSTM" else ["y", "yh"]
    node = helper.make_node(op, names, outputs, direction=direction, hidden_size=hidden, **more)
    feeds = {name: values[name] for name in names if name}
    constants = {name: feeds.pop(name) for name in ("w", "r", "b", "p") if name in feeds}
    return make_model([node], feeds, outputs, constants, opset=14), feeds


def _same(cpu_plugin: Cpu, model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, feeds)
    for threads in (1, 2):
        found = cpu_plugin.run(model, feeds, intra_op_num_threads=threads)
        for a, b in zip(found, expected, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@given(
    op=st.sampled_from(list(GATES)),
    steps=st.integers(1, 6),
    batch=st.integers(1, 4),
    inputs=st.integers(1, 9),
    hidden=st.integers(1, 20),
    direction=st.sampled_from(["forward", "reverse", "bidirectional"]),
    given_inputs=st.sets(st.sampled_from(["b", "l", "h", "c", "p"])),
    variant=st.booleans(),
    clip=st.sampled_from([None, 0.3]),
)
def test_every_combination_of_directions_and_inputs(
    cpu_plugin: Cpu,
    op: str,
    steps: int,
    batch: int,
    inputs: int,
    hidden: int,
    direction: str,
    given_inputs: set[str],
    variant: bool,
    clip: float | None,
) -> None:
    more: dict[str, Any] = {} if clip is None else {"clip": clip}
    if op == "GRU":
        more["linear_before_reset"] = int(variant)
    model, feeds = _network(op, steps, batch, inputs, hidden, direction, given_inputs, **more)
    _same(cpu_plugin, model, feeds)


@pytest.mark.parametrize("op", list(GATES))
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_batch_first_is_the_same_network(cpu_plugin: Cpu, op: str, direction: str) -> None:
    model, feeds = _network(op, 5, 3, 4, 6, direction, {"b", "h", "c"})
    other, other_feeds = _network(op, 5, 3, 4, 6, direction, {"b", "h", "c"}, layout=1)
    for name in feeds:
        other_feeds[name] = np.ascontiguousarray(np.swapaxes(feeds[name], 0, 1))
    y, *states = cpu_plugin.run(model, feeds)
    found, *found_states = cpu_plugin.run(other, other_feeds)
    np.testing.assert_allclose(found, y.transpose(2, 0, 1, 3), rtol=1e-5, atol=1e-6)
    for a, b in zip(found_states, states, strict=True):
        np.testing.assert_allclose(a, np.swapaxes(b, 0, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("names", "alpha", "beta"),
    [
        (["Relu", "Tanh", "Sigmoid"], [], []),
        (["HardSigmoid", "ScaledTanh", "Affine"], [0.3, 1.5, 0.7], [0.4, 0.6, 0.1]),
        (["LeakyRelu", "Elu", "ThresholdedRelu"], [0.2, 0.8, 0.3], []),
        (["Softsign", "Softplus", "Tanh"], [], []),
    ],
)
def test_activations_take_their_parameters_in_order(
    cpu_plugin: Cpu, names: list[str], alpha: list[float], beta: list[float]
) -> None:
    more: dict[str, Any] = {"activations": names}
    if alpha:
        more["activation_alpha"] = alpha
    if beta:
        more["activation_beta"] = beta
    model, feeds = _network("LSTM", 4, 2, 3, 5, "forward", {"b", "p"}, **more)
    _same(cpu_plugin, model, feeds)


def test_ended_sequences_keep_their_state_and_give_zeros(cpu_plugin: Cpu) -> None:
    model, feeds = _network("LSTM", 6, 4, 3, 5, "forward", {"b", "l"})
    feeds["l"] = np.array([6, 1, 3, 2], np.int32)
    y, h, _ = cpu_plugin.run(model, feeds)
    for b, length in enumerate(feeds["l"]):
        assert not y[length:, 0, b].any()
        np.testing.assert_array_equal(h[0, b], y[length - 1, 0, b])


@pytest.mark.parametrize("dtype", [np.float16])
def test_halves_are_computed_as_floats(cpu_plugin: Cpu, dtype: type) -> None:
    rng = np.random.default_rng(0)
    x, w, r = (rng.standard_normal(s).astype(dtype) * dtype(0.5) for s in [(4, 2, 3), (1, 20, 3), (1, 20, 5)])
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y", "h"], hidden_size=5)
    feeds = {"x": x, "w": w, "r": r}
    model = make_model([node], feeds, ["y", "h"])
    found = cpu_plugin.run(model, feeds)
    wide = {name: value.astype(np.float32) for name, value in feeds.items()}
    expected = cpu_plugin.run(make_model([node], wide, ["y", "h"]), wide)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a, b, atol=2e-3)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [[4, 0, 2], [0, 0, 0]])
def test_sequences_of_no_steps_leave_zeros_whatever_state_they_had(
    cpu_plugin: Cpu, op: str, direction: str, lengths: list[int]
) -> None:
    model, feeds = _network(op, 4, 3, 3, 5, direction, {"b", "l", "h", "c"})
    feeds["l"] = np.array(lengths, np.int32)
    _same(cpu_plugin, model, feeds)
