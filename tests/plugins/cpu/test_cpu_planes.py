"""Convolutions of few input channels with wide kernels, which run along the rows of plain images."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.plugins.cpu.conftest import Cpu, make_model, traced


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("outputs", [1, 2, 3, 4, 7, 8, 13, 16, 23])
@pytest.mark.parametrize("kernel", [(1, 64), (3, 40), (22, 1), (64,), (33,)])
def test_outputs_of_one_channel_are_those_of_the_reference(
    cpu_plugin: Cpu, outputs: int, kernel: tuple[int, ...]
) -> None:
    rank = len(kernel)
    for width, same in itertools.product((70, 16, 81, 200), (True, False)):
        pads = [k // 2 for k in kernel] + [(k - 1) // 2 for k in kernel] if same else [0] * 2 * rank
        size = (24, width)[-rank:]
        if size[-1] + pads[rank - 1] + pads[-1] < kernel[-1]:
            continue
        conv = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=pads)
        constants = {"w": _random(outputs, 1, *kernel), "b": _random(outputs)}
        x = _random(2, 1, *size)
        cpu_plugin.check(conv, {"x": x}, constants=constants, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("groups", [1, 2, 5])
@pytest.mark.parametrize("inputs", [1, 2, 4])
def test_groups_strides_and_dilations(cpu_plugin: Cpu, groups: int, inputs: int) -> None:
    for outputs, stride, dilation in itertools.product((1, 3), (1, 2, 3), (1, 2)):
        conv = helper.make_node(
            "Conv",
            ["x", "w"],
            ["c"],
            group=groups,
            strides=[stride, 1],
            dilations=[2, dilation],
            pads=[3, 30 * dilation, 1, 31 * dilation],
        )
        weights = _random(groups * outputs, inputs, 3, 62)
        nodes = [conv, helper.make_node("Elu", ["c"], ["e"]), helper.make_node("Add", ["e", "r"], ["y"])]
        x = _random(1, groups * inputs, 9, 50)
        height = (9 + 4 - 5) // stride + 1
        residual = _random(1, groups * outputs, height, 50)
        cpu_plugin.check(nodes, {"x": x, "r": residual}, constants={"w": weights}, rtol=1e-4, atol=2e-5)


def test_a_wide_kernel_on_a_signal_runs_along_its_rows(cpu_plugin: Cpu, tmp_path: Path) -> None:
    conv = helper.make_node("Conv", ["x", "w"], ["y"], pads=[0, 32, 0, 31])
    x = _random(1, 1, 22, 256)
    model = make_model([conv], {"x": x}, ["y"], {"w": _random(8, 1, 1, 64)})
    (step,) = traced(cpu_plugin, model, {"x": x}, tmp_path)
    assert step["method"] == "planes"


def test_weights_serve_other_shapes_after_they_are_packed(cpu_plugin: Cpu) -> None:
    conv = helper.make_node("Conv", ["x", "w"], ["y"], pads=[0, 32, 0, 31])
    x = _random(1, 1, 22, 256)
    model = make_model([conv], {"x": x}, ["y"], {"w": _random(8, 1, 1, 64)}, open_shapes=True)
    session = cpu_plugin.session(model)
    for width in (256, 3, 40, 15, 256):
        feed = {"x": _random(2, 1, 5, width)}
        (expected,) = ReferenceEvaluator(model).run(None, feed)
        np.testing.assert_allclose(session.run(None, feed)[0], expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_share_rows(cpu_plugin: Cpu, threads: int) -> None:
    conv = helper.make_node("Conv", ["x", "w"], ["y"], pads=[0, 32, 0, 31])
    cpu_plugin.check(
        conv,
        {"x": _random(3, 1, 7, 130)},
        constants={"w": _random(8, 1, 1, 64)},
        rtol=1e-4,
        atol=2e-5,
        threads=threads,
    )


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("channels", [(1, 1), (2, 7), (12, 3)])
@pytest.mark.parametrize("kernel", [(3, 3), (2, 4), (5, 1), (1, 6), (7,), (2, 3, 3)])
def test_transposed_ones_in_all_steps_and_gaps(
    cpu_plugin: Cpu, channels: tuple[int, int], groups: int, kernel: tuple[int, ...]
) -> None:
    rank = len(kernel)
    inputs, outputs = channels
    sizes = [((5, 3, 7)[-rank:], 0), ((2, 4, 19)[-rank:], 1), ((3, 9, 60)[-rank:], 4)]
    for (size, pad), step, gap in itertools.product(sizes, (1, 2, 3), (1, 2)):
        steps = [step, *[1 + step % 2] * (rank - 1)][:rank]
        pads = [pad, *[pad // 2] * (2 * rank - 1)]
        full = [
            (s - 1) * t + (k - 1) * gap + 1 - pads[i] - pads[rank + i]
            for i, (s, t, k) in enumerate(zip(size, steps, kernel, strict=True))
        ]
        if min(full) < 1:
            continue
        node = helper.make_node(
            "ConvTranspose",
            ["x", "w", "b"],
            ["c"],
            group=groups,
            strides=steps,
            dilations=[gap] * rank,
            pads=pads,
            output_padding=[t - 1 for t in steps],
        )
        nodes = [node, helper.make_node("Relu", ["c"], ["y"])]
        constants = {
            "w": _random(groups * inputs, outputs, *kernel),
            "b": _random(groups * outputs),
        }
        cpu_plugin.check_beside_onnxruntime(
            nodes, {"x": _random(2, groups * inputs, *size)}, constants=constants, rtol=1e-4, atol=2e-5
        )


@pytest.mark.parametrize("kernel", [(3, 3, 3), (2, 5, 4), (5, 1, 1), (1, 3, 3)])
@pytest.mark.parametrize("channels", [(1, 1, 1), (2, 1, 3), (3, 3, 3), (20, 40, 20)])
def test_three_dimensions(
    cpu_plugin: Cpu, channels: tuple[int, int, int], kernel: tuple[int, int, int]
) -> None:
    inputs, outputs, groups = channels
    groups = 1 if inputs % groups or outputs % groups else groups
    for size, steps, gap in itertools.product(((6, 7, 5), (9, 10, 33)), ((1, 1, 1), (2, 3, 1)), (1, 2)):
        pads = [k // 2 * gap for k in kernel]
        node = helper.make_node(
            "Conv", ["x", "w", "b"], ["y"], group=groups, strides=steps, dilations=[gap] * 3, pads=pads * 2
        )
        constants = {"w": _random(outputs, inputs // groups, *kernel), "b": _random(outputs)}
        cpu_plugin.check_beside_onnxruntime(
            node, {"x": _random(2, inputs, *size)}, constants=constants, rtol=1e-4, atol=2e-5
        )


@pytest.mark.parametrize(
    ("operator", "weights", "attributes"),
    [
        ("ConvTranspose", (1, 1, 3, 3), {}),
        ("ConvTranspose", (2, 2, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("ConvTranspose", (24, 1, 12), {"strides": [2], "group": 24}),
        ("ConvTranspose", (16, 8, 2, 2, 2), {"strides": [2, 2, 2]}),
        ("Conv", (3, 1, 3, 3, 3), {"group": 3, "pads": [1] * 6}),
        ("Conv", (24, 1, 5, 1, 1), {"group": 24, "pads": [2, 0, 0, 2, 0, 0]}),
    ],
)
def test_few_channels_run_along_rows(
    cpu_plugin: Cpu, operator: str, weights: tuple[int, ...], attributes: dict[str, object], tmp_path: Path
) -> None:
    node = helper.make_node(operator, ["x", "w"], ["y"], **attributes)
    x = _random(1, weights[0], *[12] * (len(weights) - 2))
    model = make_model([node], {"x": x}, ["y"], {"w": _random(*weights)})
    (step,) = traced(cpu_plugin, model, {"x": x}, tmp_path)
    assert step["method"] == "planes"


@pytest.mark.parametrize("strides", [[1, 1], [2, 1], [2, 2]])
@pytest.mark.parametrize("column", [False, True])
def test_what_is_added_to_transposed_ones_may_be_broadcast(
    cpu_plugin: Cpu, strides: list[int], column: bool
) -> None:
    """Which another way does, with the weights that were packed for this one."""
    size, kernel = ((9, 1), (4, 1)) if column else ((9, 5), (4, 3))
    strides = [strides[0], 1] if column else strides
    node = helper.make_node("ConvTranspose", ["x", "w"], ["c"], strides=strides)
    nodes = [node, helper.make_node("Add", ["c", "a"], ["y"])]
    feeds = {"x": _random(2, 3, *size), "a": _random(2, 1, 1)}
    cpu_plugin.check(nodes, feeds, constants={"w": _random(3, 2, *kernel)}, rtol=1e-4, atol=2e-5)


def test_transposed_weights_serve_other_shapes_after_they_are_packed(cpu_plugin: Cpu) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1])
    x = _random(1, 2, 9, 9)
    model = make_model([node], {"x": x}, ["y"], {"w": _random(2, 3, 4, 4)}, open_shapes=True)
    session = cpu_plugin.session(model)
    for height, width in ((9, 9), (1, 1), (3, 100), (40, 2), (9, 9)):
        feed = {"x": _random(2, 2, height, width)}
        (expected,) = ReferenceEvaluator(model).run(None, feed)
        np.testing.assert_allclose(session.run(None, feed)[0], expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_share_rows_of_transposed_ones(cpu_plugin: Cpu, threads: int) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], group=3)
    cpu_plugin.check(
        node,
        {"x": _random(3, 3, 30, 130)},
        constants={"w": _random(3, 1, 4, 3)},
        rtol=1e-4,
        atol=2e-5,
        threads=threads,
    )
