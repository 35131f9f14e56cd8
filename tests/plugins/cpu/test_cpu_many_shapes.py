"""Models of which each run has other shapes: lines of text, pictures of any size."""

from __future__ import annotations

import json
from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from onnx import helper

from tests.plugins.cpu.conftest import GENERAL_METHOD, WITH_ONEDNN, Cpu, growth_of_runs, make_model

onednn = pytest.mark.skipif(not WITH_ONEDNN, reason="a build without oneDNN has one kind of plan")


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _network(groups: int = 1) -> onnx.ModelProto:
    """Convolutions of several kinds, with what is done behind them, and a shape that the run computes."""
    conv = helper.make_node
    nodes = [
        conv("Conv", ["x", "w0"], ["a"], pads=[1] * 4, strides=[2, 1], name="first"),
        conv("Relu", ["a"], ["b"]),
        conv("Conv", ["b", "w1", "bias"], ["c"], group=16, pads=[1] * 4, name="depthwise"),
        conv("HardSwish", ["c"], ["d"]),
        conv("Conv", ["d", "w2"], ["e"], group=groups, name="pointwise"),
        conv("Add", ["e", "d"], ["f"]),
        conv("Conv", ["f", "w3"], ["g"], pads=[1] * 4, name="square"),
        conv("MaxPool", ["g"], ["h"], kernel_shape=[2, 1], strides=[2, 1]),
        conv("ConvTranspose", ["h", "w4"], ["i"], name="transposed"),
        conv("Transpose", ["i"], ["j"], perm=[0, 3, 1, 2]),
        conv("Shape", ["j"], ["s"], end=2),
        conv("Concat", ["s", "rest"], ["t"], axis=0),
        conv("Reshape", ["j", "t"], ["y"]),
    ]
    constants = {
        "w0": _random(16, 3, 3, 3) / 5,
        "w1": _random(16, 1, 3, 3, seed=1) / 3,
        "bias": _random(16, seed=2),
        "w2": _random(16, 16 // groups, 1, 1, seed=3) / 4,
        "w3": _random(16, 16, 3, 3, seed=4) / 12,
        "w4": _random(16, 8, 2, 2, seed=5) / 8,
        "rest": np.array([-1]),
    }
    return make_model(nodes, {"x": _random(1, 3, 8, 8)}, ["y"], constants, open_shapes=True)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("groups", [1, 4])
def test_each_run_has_the_answer_of_its_shape(cpu_plugin: Cpu, groups: int, threads: int) -> None:
    """Whether it is the first of its shape, the second in a row, or comes back when its plan is gone."""
    onnxruntime = pytest.importorskip("onnxruntime")
    model = _network(groups)
    session = cpu_plugin.session(model, intra_op_num_threads=threads, max_shapes=4)
    rival = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    sizes = [
        (8, 8),
        (12, 20),
        (12, 20),
        (12, 20),
        (8, 8),
        (30, 7),
        (9, 64),
        (16, 16),
        (40, 40),
        (12, 20),
        (8, 9),
    ]
    for height, width in sizes:
        x = _random(1, 3, height, width, seed=width)
        (found,), (expected,) = session.run(None, {"x": x}), rival.run(None, {"x": x})
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4, err_msg=f"{height} x {width}")


def test_a_shape_that_comes_back_often_has_the_same_answer(cpu_plugin: Cpu) -> None:
    model = _network()
    session = cpu_plugin.session(model)
    first: dict[int, np.ndarray] = {}
    for _ in range(12):
        for width in (8, 21, 40):
            (found,) = session.run(None, {"x": _random(1, 3, 12, width, seed=width)})
            np.testing.assert_allclose(found, first.setdefault(width, found), rtol=1e-4, atol=1e-4)


def _methods(cpu: Cpu, widths: list[int], folder: Path) -> list[dict[str, str]]:
    """How each of the runs does each convolution."""
    options = ephost.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "runs")
    options.graph_optimization_level = ephost.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_provider_for_devices([cpu.device], {})
    session = ephost.InferenceSession(_network().SerializeToString(), options)
    for width in widths:
        session.run(None, {"x": _random(1, 3, 12, width)})
    trace = json.loads(Path(session.end_profiling()).read_text())
    steps = [event for event in trace if event.get("cat") == "Kernel" and "method" in event["args"]]
    found: list[dict[str, str]] = []
    for step in sorted(steps, key=lambda step: float(step["ts"])):
        name = step["args"].get("node_name", step["name"])
        if not found or name in found[-1]:
            found.append({})
        found[-1][name] = step["args"]["method"]
    return found


@onednn
def test_kernels_that_take_long_to_make_are_made_for_shapes_that_stay(
    cpu_plugin: Cpu, tmp_path: Path
) -> None:
    """For the first shape; and for another when it is asked for twice in a row."""
    general = [
        GENERAL_METHOD in run.values() for run in _methods(cpu_plugin, [8, 20, 21, 21, 21, 8], tmp_path)
    ]
    assert general == [True, False, False, True, True, True]


@onednn
def test_shapes_that_take_turns_get_them_in_time(cpu_plugin: Cpu, tmp_path: Path) -> None:
    runs = _methods(cpu_plugin, [8, *[20, 21] * 9], tmp_path)[1:]
    general = [GENERAL_METHOD in run.values() for run in runs]
    assert not any(general[:12])
    assert all(general[-2:])


def _turned() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Softmax", ["x"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"], perm=[1, 0]),
        helper.make_node("Softmax", ["b"], ["c"]),
        helper.make_node("ReduceSum", ["c"], ["y"], keepdims=0),
    ]
    return make_model(nodes, {"x": _random(2, 3)}, ["y"], open_shapes=True)


@pytest.mark.resources
def test_plans_of_many_shapes_share_their_memory(tmp_path: Path) -> None:
    shapes = [(width, 1 << 18) for width in (24, *range(4, 24))]  # whose matrices have 280 MiB in all
    assert growth_of_runs(_turned(), shapes, tmp_path, warm=1) < 100 << 20


def test_plans_that_share_their_memory_have_their_own_answers(cpu_plugin: Cpu) -> None:
    session = cpu_plugin.session(_turned())
    rows = 1 << 12
    for width in (24, *range(4, 24)):
        (y,) = session.run(None, {"x": np.ones((width, rows), np.float32)})
        np.testing.assert_allclose(y, rows, rtol=1e-3)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("channels", [(3, 5, 1), (16, 24, 1), (8, 8, 8), (12, 8, 4), (1, 4, 1)])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (1, 7), (5, 2)])
@pytest.mark.parametrize("step", [(1, 1), (2, 2), (1, 3)])
@pytest.mark.parametrize(
    ("gap", "pads"),
    [
        ((1, 1), (0, 0, 0, 0)),
        ((1, 1), (1, 2, 0, 3)),
        ((2, 1), (3, 0, 1, 4)),
        ((2, 3), (2, 2, 2, 2)),
    ],
)
def test_convolutions_at_once(
    cpu_plugin: Cpu,
    operator: str,
    channels: tuple[int, int, int],
    kernel: tuple[int, int],
    step: tuple[int, int],
    gap: tuple[int, int],
    pads: tuple[int, ...],
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    inputs, outputs, group = channels
    first, second = (outputs, inputs) if operator == "Conv" else (inputs, outputs)
    constants = {"w": _random(first, second // group, *kernel), "b": _random(outputs, seed=1)}
    node = helper.make_node(
        operator, ["x", "w", "b"], ["c"], strides=step, dilations=gap, pads=pads, group=group
    )
    nodes = [node, helper.make_node("Relu", ["c"], ["y"])]
    model = make_model(nodes, {"x": _random(1, inputs, 9, 9)}, ["y"], constants, open_shapes=True)
    session = cpu_plugin.session(model)
    rival = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for height, width in ((17, 22), (14, 20), (9, 31), (25, 19), (11, 90), (40, 57)):
        x = _random(2, inputs, height, width, seed=width)
        (found,), (expected,) = session.run(None, {"x": x}), rival.run(None, {"x": x})
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3, err_msg=f"{height} x {width}")


@pytest.mark.parametrize("channels", [(3, 5), (16, 8), (40, 70)])
@pytest.mark.parametrize(("step", "gap"), [(1, 1), (3, 1), (1, 2)])
@pytest.mark.parametrize("pads", [(0, 0), (4, 1), (30, 30)])
def test_convolutions_of_lines_at_once(
    cpu_plugin: Cpu, channels: tuple[int, int], step: int, gap: int, pads: tuple[int, int]
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    inputs, outputs = channels
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[step], dilations=[gap], pads=pads)
    constants = {"w": _random(outputs, inputs, 9)}
    model = make_model([node], {"x": _random(1, inputs, 30)}, ["y"], constants, open_shapes=True)
    session = cpu_plugin.session(model)
    rival = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for width in (40, 33, 120, 333):
        x = _random(2, inputs, width, seed=width)
        (found,), (expected,) = session.run(None, {"x": x}), rival.run(None, {"x": x})
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3, err_msg=str(width))


@onednn
def test_more_convolutions_than_answers_are_kept_for(cpu_plugin: Cpu) -> None:
    """What oneDNN said of a convolution is forgotten when so many others were asked about."""
    x = _random(1, 2, 6, 6)

    def summed(size: int) -> tuple[onnx.ModelProto, np.ndarray]:
        nodes, constants, whole = [], {}, np.zeros((1, 1, 7 - size, 7 - size))
        for at in range(300):
            weights = constants[f"w{at}"] = _random(at + 1, 2, size, size, seed=at)
            nodes.append(helper.make_node("Conv", ["x", f"w{at}"], [f"c{at}"]))
            nodes.append(helper.make_node("ReduceSum", [f"c{at}", "axes"], [f"s{at}"]))
            windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (1, 2, size, size))
            whole += (windows[:, 0] * weights.astype(np.float64).sum(axis=0)).sum(axis=(-1, -2, -3, -4))
        nodes.append(helper.make_node("Sum", [f"s{at}" for at in range(300)], ["y"]))
        return make_model(nodes, {"x": x}, ["y"], {**constants, "axes": np.array([1])}), whole

    models = [summed(3), summed(1)]
    for model, expected in [*models, *models]:
        (found,) = cpu_plugin.run(model, {"x": x})
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-2)
