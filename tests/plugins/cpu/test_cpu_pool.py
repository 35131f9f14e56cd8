"""Pooling, batch normalisation and LRN on the CPU plugin."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model, steps_of


def random(*shape: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((2, 5, 9, 9), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((1, 3, 8, 9), {"kernel_shape": [3, 2], "strides": [2, 3], "ceil_mode": 1}),
        ((1, 3, 9, 9), {"kernel_shape": [3, 3], "dilations": [2, 2]}),
        ((1, 3, 9, 8), {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ((1, 3, 11), {"kernel_shape": [3], "strides": [2]}),
        ((1, 2, 5, 6, 7), {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}),
    ],
)
def test_maximum(cpu_plugin: Cpu, shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    cpu_plugin.check(helper.make_node("MaxPool", ["x"], ["y"], **attributes), {"x": random(*shape)})


@pytest.mark.parametrize("order", [0, 1])
def test_maximum_with_indices(cpu_plugin: Cpu, order: int) -> None:
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2], storage_order=order)
    cpu_plugin.check_beside_onnxruntime(node, {"x": random(2, 3, 5, 6)}, outputs=["y", "i"])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float64, np.float16])
def test_maximum_of_other_types(cpu_plugin: Cpu, dtype: type) -> None:
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2])
    cpu_plugin.check(node, {"x": (random(1, 3, 7, 7) * 20 + 60).astype(dtype)})


@given(data=st.data())
def test_average_of_any_window(cpu_plugin: Cpu, data: st.DataObject) -> None:
    kernel = data.draw(st.lists(st.integers(2, 4), min_size=2, max_size=2))
    strides = data.draw(st.lists(st.integers(1, 3), min_size=2, max_size=2))
    pads = data.draw(st.lists(st.integers(0, 1), min_size=4, max_size=4))
    node = helper.make_node(
        "AveragePool",
        ["x"],
        ["y"],
        kernel_shape=kernel,
        strides=strides,
        pads=pads,
        count_include_pad=data.draw(st.integers(0, 1)),
    )
    cpu_plugin.check(node, {"x": random(1, data.draw(st.integers(1, 9)), 9, 10)}, atol=1e-5)


@pytest.mark.parametrize("kind", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("shape", [(2, 5, 7, 7), (1, 16, 3, 5), (1, 3, 100), (1, 9, 1, 1)])
def test_whole_channels(cpu_plugin: Cpu, kind: str, shape: tuple[int, ...]) -> None:
    cpu_plugin.check_beside_onnxruntime(helper.make_node(kind, ["x"], ["y"]), {"x": random(*shape)})


@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 7), (1, 16, 4, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batch_normalisation(cpu_plugin: Cpu, shape: tuple[int, ...], dtype: type) -> None:
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], epsilon=1e-3)
    constants = {name: random(shape[1], seed=i, dtype=dtype) for i, name in enumerate("sbm")}
    constants["v"] = np.abs(random(shape[1], seed=9, dtype=dtype))
    cpu_plugin.check(
        node, {"x": random(*shape, dtype=dtype)}, constants=constants, rtol=1e-4, atol=1e-5, opset=15
    )


def test_layouts_of_pools_between_convolutions(cpu_plugin: Cpu) -> None:
    """In the layout that convolutions like: with and without channels to fill up."""
    for channels in (16, 13):
        nodes = [
            helper.make_node("Conv", ["x", "w"], ["a"]),
            helper.make_node("MaxPool", ["a"], ["b"], kernel_shape=[3, 3], strides=[2, 2]),
            helper.make_node("AveragePool", ["b"], ["c"], kernel_shape=[2, 2], pads=[1, 1, 0, 0]),
            helper.make_node("BatchNormalization", ["c", "s", "s", "s", "v"], ["d"]),
            helper.make_node("LRN", ["d"], ["e"], size=3),
            helper.make_node("Conv", ["e", "w2"], ["f"]),
            helper.make_node("GlobalAveragePool", ["f"], ["g"]),
            helper.make_node("GlobalMaxPool", ["d"], ["h"]),
        ]
        constants = {
            "w": random(channels, 3, 3, 3),
            "w2": random(channels, channels, 1, 1),
            "s": random(channels),
            "v": np.abs(random(channels)) + 1,
        }
        cpu_plugin.check_beside_onnxruntime(
            nodes, {"x": random(2, 3, 12, 12)}, ["g", "h"], constants, opset=15, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("channels", [16, 13])
@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [1, 4], "strides": [1, 4]}),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [4, 5], "pads": [1, 1, 1, 1]}),
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [3, 3], "dilations": [1, 2]}),
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("AveragePool", {"kernel_shape": [3, 3], "strides": [4, 4], "pads": [1, 1, 1, 1]}),
        (
            "AveragePool",
            {"kernel_shape": [3, 3], "strides": [4, 4], "pads": [1, 1, 1, 1], "count_include_pad": 1},
        ),
    ],
)
def test_pixels_that_no_window_reaches_change_no_layout(
    cpu_plugin: Cpu, tmp_path: Path, kind: str, attributes: dict[str, Any], channels: int
) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node(kind, ["a"], ["b"], **attributes),
        helper.make_node("GlobalAveragePool", ["b"], ["y"]),
    ]
    feeds, constants = {"x": random(2, 3, 23, 25)}, {"w": random(channels, 3, 3, 3)}
    cpu_plugin.check_beside_onnxruntime(nodes, feeds, ["y"], constants, rtol=1e-4, atol=1e-4)
    steps = steps_of(cpu_plugin, make_model(nodes, feeds, ["y"], constants), feeds, tmp_path)
    assert steps[:2] == ["Conv", kind]


@pytest.mark.parametrize("size", [3, 4, 5])
def test_lrn(cpu_plugin: Cpu, size: int) -> None:
    node = helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.5, beta=0.6, bias=1.5)
    x = random(1, 9, 3, 4)
    found = cpu_plugin.run(make_model([node], {"x": x}, ["y"]), {"x": x})[0]
    before = (size - 1) // 2
    padded = np.pad(x**2, ((0, 0), (before, size - 1 - before), (0, 0), (0, 0)))
    sums = sum(padded[:, i : i + 9] for i in range(size))
    np.testing.assert_allclose(found, x / (1.5 + 0.5 / size * sums) ** 0.6, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_not_a_number_is_the_largest(cpu_plugin: Cpu, dtype: type) -> None:
    x = np.random.default_rng(3).normal(size=(1, 3, 9, 11)).astype(dtype)
    x[0, 0, 4, 5] = x[0, 1, 0, 0] = np.nan
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    model = make_model([node], {"x": x}, ["y"])
    (found,) = cpu_plugin.run(model, {"x": x})
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    np.testing.assert_array_equal(found, windows.max((-1, -2)))


WINDOWS: list[dict[str, Any]] = [
    {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 1]},
    {"kernel_shape": [5, 4], "strides": [1, 3], "pads": [2, 3, 0, 1]},
    {"kernel_shape": [2, 3], "strides": [3, 2], "dilations": [2, 1], "ceil_mode": 1},
    {"kernel_shape": [1, 2], "dilations": [1, 4], "pads": [0, 3, 0, 3]},
]


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "AveragePool with pads"])
@pytest.mark.parametrize("width", [5, 7, 8, 9, 15, 16, 17, 18, 24, 33, 56])
def test_rows_of_any_width(cpu_plugin: Cpu, kind: str, width: int) -> None:
    """Float32 goes by vectors, float64 by single elements: both give the same."""
    x = random(2, 3, 11, width)
    x[1] = -np.abs(x[1])  # Here pads would be larger, if they counted.
    for attributes in WINDOWS:
        pads = {"count_include_pad": 1} if kind.endswith("pads") else {}
        node = helper.make_node(kind.split()[0], ["x"], ["y"], **attributes, **pads)
        (found,) = cpu_plugin.run(make_model([node], {"x": x}, ["y"], opset=19), {"x": x})
        wide = x.astype(np.float64)
        (expected,) = cpu_plugin.run(make_model([node], {"x": wide}, ["y"], opset=19), {"x": wide})
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=str(attributes))


@pytest.mark.parametrize("width", [1, 7, 8, 33])
def test_rows_of_infinities_and_of_what_is_not_a_number(cpu_plugin: Cpu, width: int) -> None:
    x = random(1, 4, 9, width)
    x[0, 0] = -np.inf
    x[0, 1, 4, width // 2] = np.nan
    x[0, 2, 8, 0] = np.nan
    x[0, 3, 0, width - 1] = np.inf  # Of both signs under one window, whose sum is no number.
    x[0, 3, 1, width // 2] = -np.inf
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    (found,) = cpu_plugin.run(make_model([node], {"x": x}, ["y"]), {"x": x})
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    np.testing.assert_array_equal(found, windows.max((-1, -2)))
    whole = helper.make_node("GlobalMaxPool", ["x"], ["y"])
    (found,) = cpu_plugin.run(make_model([whole], {"x": x}, ["y"]), {"x": x})
    np.testing.assert_array_equal(found, x.max((2, 3), keepdims=True))


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(
    ("size", "kernel", "stride"), [(1, 2, 2), (2, 3, 2), (2, 4, 3), (1, 2, 1), (1, 3, 2)]
)
def test_a_kernel_that_is_larger_than_its_input_by_less_than_a_stride_is_cut(
    cpu_plugin: Cpu, op: str, size: int, kernel: int, stride: int
) -> None:
    node = helper.make_node(op, ["x"], ["y"], kernel_shape=[kernel, 2], strides=[stride, 2])
    x = np.random.default_rng(0).normal(size=(1, 3, size, 6)).astype(np.float32)
    cpu_plugin.check_beside_onnxruntime(node, {"x": x})


def test_a_kernel_that_is_larger_than_its_input_by_more_is_refused(cpu_plugin: Cpu) -> None:
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3], strides=[1], name="far")
    x = np.zeros((1, 1, 1), np.float32)
    model = make_model([node], {"x": x}, ["y"], open_shapes=True)
    with pytest.raises(Exception, match=r"far.*larger than the padded input"):
        cpu_plugin.run(model, {"x": x})


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [3], "strides": [2]},
        {"kernel_shape": [4], "pads": [3, 1]},
        {"kernel_shape": [3], "dilations": [4], "pads": [2, 2], "ceil_mode": 1, "strides": [3]},
    ],
)
def test_maximum_of_lines_with_indices(cpu_plugin: Cpu, dtype: type, attributes: dict[str, Any]) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (2, 3, 41)).astype(dtype)
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], **attributes)
    cpu_plugin.check_beside_onnxruntime(node, {"x": x}, ["y", "i"])


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("shape", [(2, 5, 7, 7), (3, 4, 1, 5), (2, 3, 2, 3, 4), (1, 2, 19)], ids=str)
def test_a_window_of_all_of_an_image(cpu_plugin: Cpu, op: str, shape: tuple[int, ...]) -> None:
    node = helper.make_node(op, ["x"], ["y"], kernel_shape=shape[2:])
    cpu_plugin.check(node, {"x": random(*shape)})


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("width", range(1, 9))
def test_images_that_are_narrower_than_a_vector(cpu_plugin: Cpu, op: str, width: int) -> None:
    x = random(3, 5, 6, width)
    for kernel in ([3, 1], [3, min(3, width)], [1, min(2, width)], [6, 1]):
        pads = [1 if k > 1 else 0 for k in kernel] * 2
        for strides in ([1, 1], [2, 2], [2, 3]):
            node = helper.make_node(op, ["x"], ["y"], kernel_shape=kernel, pads=pads, strides=strides)
            cpu_plugin.check_beside_onnxruntime(node, {"x": x})
    x[0, 0, 2, width - 1], x[2, 4, 5, 0] = np.nan, -np.inf
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 1], pads=[1, 0, 1, 0])
    (y,) = cpu_plugin.run(make_model([node], {"x": x}, ["y"]), {"x": x})
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=-np.inf)
    np.testing.assert_array_equal(y, np.maximum.reduce([padded[:, :, k : k + 6] for k in range(3)]))
