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
