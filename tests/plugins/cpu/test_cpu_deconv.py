"""Transposed convolutions in steps, which are products of matrices of the plugin's own."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.plugins.cpu.conftest import GENERAL_METHOD, Cpu, make_model, traced


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("channels", [(4, 16), (5, 9), (16, 33)])
@pytest.mark.parametrize("kernel", [(2, 2), (4, 4), (3, 5), (1, 3), (5,), (16,)])
@pytest.mark.parametrize("steps", [2, 3, 8])
def test_transposed_convolutions_in_steps(
    cpu_plugin: Cpu, channels: tuple[int, int], kernel: tuple[int, ...], steps: int
) -> None:
    rank = len(kernel)
    sizes = [(1, 1), (3, 7)] if rank == 2 else [(1,), (11,)]
    for size, pads in itertools.product(sizes, ([0] * 2 * rank, [1] * 2 * rank, [2, *[0] * (2 * rank - 1)])):
        out = [
            (s - 1) * steps + k - pads[i] - pads[rank + i]
            for i, (s, k) in enumerate(zip(size, kernel, strict=True))
        ]
        if min(out) < 1:
            continue
        node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], strides=[steps] * rank, pads=pads)
        constants = {"w": _random(*channels, *kernel), "b": _random(channels[1])}
        x = _random(2, channels[0], *size)
        cpu_plugin.check(node, {"x": x}, constants=constants, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "attributes",
    [
        {"strides": [2, 3], "output_padding": [1, 2]},
        {"strides": [3, 1], "pads": [1, 0, 1, 2]},
        {"strides": [1, 2], "pads": [0, 1, 0, 1]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
        {"strides": [2, 2], "output_shape": [14, 17]},
        {"strides": [4, 4], "pads": [1, 1, 0, 0]},
    ],
)
def test_sizes_of_the_output(cpu_plugin: Cpu, attributes: dict[str, object]) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)
    feeds = {"x": _random(1, 6, 7, 8)}
    cpu_plugin.check_beside_onnxruntime(
        node, feeds, constants={"w": _random(6, 18, 3, 3)}, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shape", [(1, 8, 500), (2, 8, 9, 30)])
def test_threads_share_lines_and_parts_of_them(cpu_plugin: Cpu, threads: int, shape: tuple[int, ...]) -> None:
    rank = len(shape) - 2
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[4] * rank, pads=[2] * 2 * rank)
    cpu_plugin.check_beside_onnxruntime(
        node,
        {"x": _random(*shape)},
        constants={"w": _random(8, 20, *[8] * rank)},
        rtol=1e-4,
        atol=1e-4,
        intra_op_num_threads=threads,
    )


def test_deep_and_wide_products_are_done_in_blocks(cpu_plugin: Cpu) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[5], pads=[2, 3])
    feeds = {"x": _random(1, 300, 21)}
    cpu_plugin.check_beside_onnxruntime(
        node, feeds, constants={"w": _random(300, 70, 10)}, rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("other", [(2, 16, 8, 6), (2, 16, 1, 1), (1, 1, 8, 6)])
def test_what_follows_is_done_with_it(cpu_plugin: Cpu, other: tuple[int, ...]) -> None:
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w"], ["c"], strides=[2, 2]),
        helper.make_node("Add", ["c", "z"], ["d"]),
        helper.make_node("Sigmoid", ["d"], ["s"]),
        helper.make_node("Mul", ["d", "s"], ["y"]),
    ]
    feeds = {"x": _random(2, 12, 4, 3), "z": _random(*other)}
    cpu_plugin.check(nodes, feeds, constants={"w": _random(12, 16, 2, 2)}, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("strides", "group", "outputs", "method"),
    [(2, 1, 16, "products"), (1, 1, 16, GENERAL_METHOD), (2, 8, 1, "planes")],
)
def test_only_steps_of_one_group_are_products(
    cpu_plugin: Cpu, tmp_path: Path, strides: int, group: int, outputs: int, method: str
) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[strides] * 2, group=group)
    feeds = {"x": _random(1, 8, 9, 9)}
    model = make_model([node], feeds, ["y"], {"w": _random(8, outputs, 3, 3)})
    methods = [a.get("method") for a in traced(cpu_plugin, model, feeds, tmp_path) if "Conv" in a["op_name"]]
    assert methods == [method]


@pytest.mark.parametrize("inputs", [8, 24, 45])
@pytest.mark.parametrize(("outputs", "kernel"), [(1, [2, 2]), (2, [1, 3]), (1, [3, 2]), (3, [2]), (8, [1])])
@pytest.mark.parametrize("biased", [False, True])
def test_next_to_no_outputs_are_dot_products(
    cpu_plugin: Cpu, tmp_path: Path, inputs: int, outputs: int, kernel: list[int], biased: bool
) -> None:
    sides = (5, 7)[: len(kernel)]
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w", "b"] if biased else ["x", "w"], ["c"], strides=kernel),
        helper.make_node("Add", ["c", "z"], ["d"]),
        helper.make_node("Sigmoid", ["d"], ["y"]),
    ]
    whole = [side * step for side, step in zip(sides, kernel, strict=True)]
    feeds = {"x": _random(2, inputs, *sides), "z": _random(2, outputs, *whole)}
    constants = {"w": _random(inputs, outputs, *kernel)} | ({"b": _random(outputs)} if biased else {})
    for threads in (1, 3):
        cpu_plugin.check_beside_onnxruntime(
            nodes, feeds, constants=constants, rtol=1e-4, atol=1e-4, intra_op_num_threads=threads
        )
    model = make_model(nodes, feeds, ["y"], constants)
    methods = [a.get("method") for a in traced(cpu_plugin, model, feeds, tmp_path) if "Conv" in a["op_name"]]
    assert methods == ["dots"]


@pytest.mark.parametrize("attributes", [{"pads": [1, 0, 0, 1]}, {"output_padding": [1, 1]}, {}])
def test_weights_packed_for_dot_products_serve_what_is_padded_or_cut(
    cpu_plugin: Cpu, attributes: dict[str, list[int]]
) -> None:
    """The original is gone by then, since no shape is known when the session opens."""
    weights = _random(12, 2, 2, 2)
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], **attributes)
    feeds = {"x": _random(1, 12, 4, 3)}
    session = cpu_plugin.session(make_model([node], feeds, ["y"], {"w": weights}, open_shapes=True))
    for shape in [(1, 12, 4, 3), (2, 12, 6, 9), (1, 12, 4, 3)]:
        x = _random(*shape)
        one = make_model([node], {"x": x, "w": weights}, ["y"])
        (expected,) = cpu_plugin.run(one, {"x": x, "w": weights})
        np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("after", ["", "Relu", "Sigmoid", "Add", "Add, Relu"])
@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((2, 32, 6, 7), (32, 4, 4, 4), {"strides": [2, 2], "pads": [1] * 4, "group": 8}),
        ((1, 16, 6, 7), (16, 1, 3, 3), {"pads": [1] * 4, "group": 16}),
        ((1, 6, 6, 7), (6, 21, 3, 3), {}),
        ((2, 24, 20), (24, 3, 9), {"pads": [4, 4], "group": 8}),
        ((1, 8, 3, 4, 5), (8, 4, 3, 3, 3), {"group": 2}),
    ],
)
def test_a_bias_and_what_follows_are_added_to_what_is_made(
    cpu_plugin: Cpu, x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any], after: str
) -> None:
    """oneDNN makes the products alone: what it does with the rest are loops for reference."""
    channels = w[1] * attributes.get("group", 1)
    nodes = [helper.make_node("ConvTranspose", ["x", "w", "b"], ["n0"], **attributes)]
    feeds, constants = {"x": _random(*x)}, {"w": _random(*w), "b": _random(channels)}
    for at, kind in enumerate(filter(None, after.split(", ")), 1):
        names = [f"n{at - 1}", *(["z"] if kind == "Add" else [])]
        nodes.append(helper.make_node(kind, names, [f"n{at}"]))
    if "Add" in after:
        model = make_model(nodes[:1], feeds, ["n0"], constants)
        feeds["z"] = _random(*cpu_plugin.run(model, {"x": feeds["x"]})[0].shape)
    outputs = [nodes[-1].output[0]]
    cpu_plugin.check_beside_onnxruntime(nodes, feeds, outputs, constants, rtol=1e-4, atol=1e-4)
