"""Convolutions of float32 of single channels or small groups, which are loops of the plugin's own."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, helper

from tests.plugins.cpu.conftest import WITH_ONEDNN, Cpu, make_model, traced


def _silu(x: str, y: str) -> list[NodeProto]:
    return [helper.make_node("Sigmoid", [x], ["s"]), helper.make_node("Mul", [x, "s"], [y])]


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("channels", [8, 13, 16, 44])
@pytest.mark.parametrize("kernel", [(5, 5), (3, 3), (7, 7), (1, 11), (4, 3), (9,), (3,)])
def test_each_channel_is_convolved_on_its_own(
    cpu_plugin: Cpu, channels: int, kernel: tuple[int, ...]
) -> None:
    rank = len(kernel)
    sizes = [(1, 1), (9, 9), (14, 23)] if rank == 2 else [(1,), (9,), (40,)]
    for size, stride, dilation, same in itertools.product(sizes, (1, 2, 3), (1, 2), (True, False)):
        reach = [(k - 1) * dilation + 1 for k in kernel]
        pads = [r // 2 for r in reach] * 2 if same else [1, *[0] * (2 * rank - 1)]
        if any(s + pads[i] + pads[rank + i] < reach[i] for i, s in enumerate(size)):
            continue
        conv = helper.make_node(
            "Conv",
            ["x", "w", "b"],
            ["c"],
            group=channels,
            strides=[stride] * rank,
            dilations=[dilation] * rank,
            pads=pads,
        )
        constants = {"w": _random(channels, 1, *kernel), "b": _random(channels)}
        x = _random(2, channels, *size)
        cpu_plugin.check([conv, *_silu("c", "y")], {"x": x}, constants=constants, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("group", [2, 4])
@pytest.mark.parametrize("channels", [8, 12, 20, 44])
@pytest.mark.parametrize("kernel", [(3, 3), (5, 5), (1, 1), (3,)])
def test_small_groups_are_convolved_on_their_own(
    cpu_plugin: Cpu, group: int, channels: int, kernel: tuple[int, ...]
) -> None:
    rank = len(kernel)
    for size, stride, dilation in itertools.product([(5, 4), (9, 21)], (1, 2, 3), (1, 2)):
        conv = helper.make_node(
            "Conv",
            ["x", "w", "b"],
            ["y"],
            group=channels // group,
            strides=[stride] * rank,
            dilations=[dilation] * rank,
            pads=[(k - 1) * dilation // 2 for k in kernel] * 2,
        )
        constants = {"w": _random(channels, group, *kernel), "b": _random(channels)}
        x = _random(2, channels, *size[:rank])
        cpu_plugin.check(conv, {"x": x}, constants=constants, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("shape", [(1, 24, 3, 200), (3, 24, 40, 31)])
def test_threads_share_lines_and_parts_of_them(cpu_plugin: Cpu, threads: int, shape: tuple[int, ...]) -> None:
    conv = helper.make_node("Conv", ["x", "w"], ["y"], group=24, pads=[2] * 4)
    cpu_plugin.check(
        conv,
        {"x": _random(*shape)},
        constants={"w": _random(24, 1, 5, 5)},
        rtol=1e-4,
        atol=1e-5,
        intra_op_num_threads=threads,
    )


@pytest.mark.parametrize("other", [(2, 16, 12, 9), (2, 16, 1, 1), (1, 16, 12, 9), (2, 1, 12, 9)])
def test_what_is_added_may_be_broadcast(cpu_plugin: Cpu, other: tuple[int, ...]) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], group=16, pads=[2] * 4),
        helper.make_node("Add", ["c", "z"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    feeds = {"x": _random(2, 16, 12, 9), "z": _random(*other)}
    cpu_plugin.check(nodes, feeds, constants={"w": _random(16, 1, 5, 5)}, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axes", [[2, 3], [-1, -2], [-2, 3], [1, 2], [3]])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("opset", [13, 18])
def test_means_behind_convolutions(cpu_plugin: Cpu, axes: list[int], keepdims: int, opset: int) -> None:
    constants = {"w": _random(16, 1, 5, 5)}
    inputs = ["c"]
    attributes: dict[str, object] = {"keepdims": keepdims}
    if opset >= 18:
        constants["axes"] = np.array(axes)
        inputs.append("axes")
    else:
        attributes["axes"] = axes
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], group=16, pads=[2] * 4),
        helper.make_node("ReduceMean", inputs, ["y"], **attributes),
    ]
    feeds = {"x": _random(2, 16, 12, 9)}
    cpu_plugin.check(nodes, feeds, constants=constants, opset=opset, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # Of the reference.
@pytest.mark.parametrize("operator", ["Sigmoid", "Silu"])
def test_functions_of_very_large_numbers_stay_in_their_range(cpu_plugin: Cpu, operator: str) -> None:
    x = np.array([-np.inf, -3e38, -1000, -104, -90, -88.5, -87, -20, 0, 20, 87, 88.5, 90, 1000, 3e38, np.inf])
    x = np.tile(x.astype(np.float32), 3)
    if operator == "Sigmoid":
        nodes = [helper.make_node("Sigmoid", ["x"], ["y"])]
    else:
        x = x[np.isfinite(x)]
        nodes = _silu("x", "y")
    cpu_plugin.check(nodes, {"x": x}, rtol=1e-6, atol=1e-35)


@pytest.mark.parametrize(
    ("group", "kernel", "silu", "lines"),
    [(1, 5, False, True), (1, 3, True, True), (1, 3, False, False), (4, 3, False, True)],
)
def test_loops_are_used_where_they_are_quicker(
    cpu_plugin: Cpu, tmp_path: Path, group: int, kernel: int, silu: bool, lines: bool
) -> None:
    conv = helper.make_node("Conv", ["x", "w"], ["c" if silu else "y"], group=16 // group)
    feeds = {"x": _random(1, 16, 9, 9)}
    nodes = [conv, *(_silu("c", "y") if silu else [])]
    model = make_model(nodes, feeds, ["y"], {"w": _random(16, group, kernel, kernel)})
    methods = [a.get("method") for a in traced(cpu_plugin, model, feeds, tmp_path) if "Conv" in a["op_name"]]
    assert methods == (["lines"] if lines or not WITH_ONEDNN else ["onednn"])


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("channels", [8, 44])
@pytest.mark.parametrize("kernel", [(3, 3, 3), (2, 5, 4), (1, 3, 3), (7, 7, 7)])
def test_three_dimensions(cpu_plugin: Cpu, channels: int, group: int, kernel: tuple[int, int, int]) -> None:
    sizes, strides = [(1, 1, 1), (8, 5, 24)], [(1, 1, 1), (1, 2, 2), (2, 1, 3)]
    for size, steps, gap in itertools.product(sizes, strides, (1, 2)):
        conv = helper.make_node(
            "Conv",
            ["x", "w", "b"],
            ["c"],
            group=channels // group,
            strides=steps,
            dilations=[gap] * 3,
            pads=[k // 2 * gap for k in kernel] + [(k - k // 2) * gap for k in kernel],
        )
        nodes = [conv, helper.make_node("Relu", ["c"], ["y"])]
        constants = {"w": _random(channels, group, *kernel), "b": _random(channels)}
        x = _random(2, channels, *size)
        cpu_plugin.check_beside_onnxruntime(nodes, {"x": x}, constants=constants, rtol=1e-4, atol=1e-4)
