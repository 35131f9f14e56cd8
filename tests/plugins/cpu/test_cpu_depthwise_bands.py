"""Convolutions of each channel, or of two or four of them, on their own, by bands of lines."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model, traced


def model_of(
    x: tuple[int, ...],
    group: int,
    kernel: list[int],
    end: str = "Relu",
    dtype: type = np.float32,
    attributes: dict[str, Any] | None = None,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A convolution and what is computed with it, the same for any dtype."""
    rng = np.random.default_rng(0)
    channels = x[1]
    values = {"x": rng.standard_normal(x).astype(np.float32)}
    constants = {
        "w": rng.standard_normal((channels, group, *kernel)).astype(np.float32),
        "b": rng.standard_normal(channels).astype(np.float32),
    }
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], group=channels // group, **attributes or {})]
    if end == "Swish":
        nodes += [helper.make_node("Sigmoid", ["c"], ["s"]), helper.make_node("Mul", ["c", "s"], ["y"])]
    elif end == "Add":
        nodes += [
            helper.make_node("Abs", ["c0"], ["z"]),
            helper.make_node("Add", ["c", "z"], ["y"]),
        ]
        nodes.insert(
            0, helper.make_node("Conv", ["x", "w", "b"], ["c0"], group=channels // group, **attributes or {})
        )
    else:
        nodes.append(helper.make_node(end, ["c"], ["y"]))
    feeds: dict[str, np.ndarray] = {name: value.astype(dtype) for name, value in values.items()}
    return make_model(nodes, feeds, ["y"], {name: v.astype(dtype) for name, v in constants.items()}), feeds


def check(
    cpu: Cpu,
    x: tuple[int, ...],
    group: int,
    kernel: list[int],
    attributes: dict[str, Any],
    *,
    end: str = "Relu",
    threads: int = 1,
) -> None:
    """Against the same in float64, which other kernels compute."""
    model, feeds = model_of(x, group, kernel, end, attributes=attributes)
    (found,) = cpu.session(model, intra_op_num_threads=threads).run(None, feeds)
    wide, wide_feeds = model_of(x, group, kernel, end, np.float64, attributes)
    (expected,) = cpu.run(wide, wide_feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("x", "group", "kernel", "attributes"),
    [
        ((1, 40, 14, 29), 1, [7, 7], {"pads": [3, 3, 3, 3]}),
        ((2, 8, 9, 3), 1, [5, 5], {"pads": [2, 2, 2, 2]}),
        ((1, 15, 6, 7), 1, [5, 5], {"pads": [2, 2, 2, 2]}),
        ((1, 17, 20, 31), 1, [5, 5], {"pads": [2, 2, 1, 1], "strides": [2, 2]}),
        ((1, 24, 11, 16), 1, [7, 5], {"pads": [3, 2, 3, 2], "strides": [1, 3]}),
        ((1, 16, 33, 21), 1, [9, 9], {"pads": [4, 4, 4, 4]}),
        ((1, 16, 40, 21), 1, [31, 3], {"pads": [15, 1, 15, 1]}),
        # Gaps: as many first lines as there are, more than the image has, and with steps.
        ((1, 16, 23, 21), 1, [5, 5], {"pads": [6, 6, 6, 6], "dilations": [3, 3]}),
        ((1, 16, 4, 30), 1, [3, 5], {"pads": [9, 4, 9, 4], "dilations": [9, 2]}),
        ((1, 16, 300, 5), 1, [3, 5], {"pads": [200, 2, 200, 2], "dilations": [200, 1]}),
        ((1, 16, 23, 21), 1, [5, 5], {"pads": [4, 4, 4, 4], "dilations": [2, 2], "strides": [2, 2]}),
        # Channels in several parts, and long lines.
        ((1, 512, 28, 28), 1, [7, 7], {"pads": [3, 3, 3, 3]}),
        ((1, 328, 30, 30), 1, [5, 5], {"pads": [2, 2, 2, 2]}),
        ((1, 1160, 40, 40), 1, [5, 5], {"pads": [2, 2, 2, 2]}),
        ((1, 20, 1000), 1, [31], {"pads": [15, 15]}),
        ((1, 24, 3, 700), 1, [3, 5], {"pads": [1, 2, 1, 2], "strides": [1, 2]}),
        ((1, 16, 9, 22), 2, [5, 5], {"pads": [2, 2, 2, 2]}),
        ((1, 20, 9, 22), 4, [3, 3], {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ((1, 16, 5, 6, 17), 1, [3, 3, 3], {"pads": [1, 1, 1, 1, 1, 1]}),
        ((2, 12, 6, 9, 10), 1, [3, 2, 5], {"dilations": [2, 3, 1], "strides": [1, 1, 2]}),
    ],
)
def test_bands(
    cpu_plugin: Cpu,
    x: tuple[int, ...],
    group: int,
    kernel: list[int],
    attributes: dict[str, Any],
    threads: int,
) -> None:
    check(cpu_plugin, x, group, kernel, attributes, threads=threads)


@pytest.mark.parametrize("end", ["Swish", "Add", "Sigmoid"])
@pytest.mark.parametrize("channels", [24, 512])
def test_what_follows_a_band(cpu_plugin: Cpu, channels: int, end: str) -> None:
    check(cpu_plugin, (1, channels, 20, 28), 1, [5, 5], {"pads": [2, 2, 2, 2]}, end=end, threads=2)


@given(data=st.data())
def test_any_band(cpu_plugin: Cpu, data: st.DataObject) -> None:
    def draw(least: int, most: int, size: int = 2) -> list[int]:
        return data.draw(st.lists(st.integers(least, most), min_size=size, max_size=size))

    group = data.draw(st.sampled_from([1, 1, 1, 2, 4]))
    channels = data.draw(st.integers(2, 9)) * 4
    kernel, dilations, strides, pads = draw(1, 8), draw(1, 4), draw(1, 3), draw(0, 9, 4)
    size = [(k - 1) * d + 1 + more for k, d, more in zip(kernel, dilations, draw(0, 20), strict=True)]
    threads = data.draw(st.sampled_from([1, 2]))
    options = {"pads": pads, "dilations": dilations, "strides": strides}
    check(cpu_plugin, (1, channels, *size), group, kernel, options, threads=threads)


def test_bands_are_what_computes_them(cpu_plugin: Cpu, tmp_path: Path) -> None:
    model, feeds = model_of((1, 32, 14, 14), 1, [7, 7], attributes={"pads": [3, 3, 3, 3]})
    steps = [a for a in traced(cpu_plugin, model, feeds, tmp_path) if "Conv" in a["op_name"]]
    assert [a.get("method") for a in steps] == ["lines"]
