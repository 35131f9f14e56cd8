"""Operators that move channels do so in the layout that convolutions left them in."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import NodeProto, helper

from tests.plugins.cpu.conftest import Cpu


def _conv(x: str, y: str, **attributes: object) -> NodeProto:
    return helper.make_node("Conv", [x, f"w{y}"], [y], **attributes)


def _weights(outputs: int, channels: int, kernel: int = 1) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((outputs, channels, kernel, kernel)).astype(np.float32)


@pytest.mark.parametrize("groups", [2, 3, 12])
@pytest.mark.parametrize("between", [True, False], ids=["between convolutions", "alone"])
def test_channels_are_shuffled(cpu_plugin: Cpu, groups: int, between: bool) -> None:
    x = np.random.default_rng(1).standard_normal((2, 12, 5, 7)).astype(np.float32)
    shape = np.array([2, groups, 12 // groups, 5, 7])
    nodes = [
        helper.make_node("Reshape", ["a", "shape"], ["b"]),
        helper.make_node("Transpose", ["b"], ["c"], perm=[0, 2, 1, 3, 4]),
        helper.make_node("Reshape", ["c", "back"], ["d"]),
    ]
    constants = {"shape": shape, "back": np.array(x.shape), "wa": _weights(12, 12), "wy": _weights(12, 12)}
    if between:
        cpu_plugin.check(
            [_conv("x", "a"), *nodes, _conv("d", "y")], {"x": x}, constants=constants, rtol=1e-4, atol=1e-4
        )
    else:
        nodes[0].input[0], nodes[2].output[0] = "x", "y"
        del constants["wa"], constants["wy"]
        cpu_plugin.check(nodes, {"x": x}, constants=constants)


@pytest.mark.parametrize(
    ("shape", "perm", "back"),
    [
        ([2, 3, 4, 35], [0, 2, 1, 3], [2, 12, 5, 7]),
        ([2, 4, 3, 5, 7], [0, 2, 1, 3, 4], [2, 4, 15, 7]),
        ([2, 4, 3, 5, 7], [1, 0, 2, 3, 4], [2, 12, 5, 7]),
        ([2, 4, 3, 7, 5], [0, 2, 1, 3, 4], [2, 12, 7, 5]),
    ],
)
def test_what_only_looks_like_a_shuffle_is_done_as_it_is_written(
    cpu_plugin: Cpu, shape: list[int], perm: list[int], back: list[int]
) -> None:
    x = np.random.default_rng(1).standard_normal((2, 12, 5, 7)).astype(np.float32)
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["b"]),
        helper.make_node("Transpose", ["b"], ["c"], perm=perm),
        helper.make_node("Reshape", ["c", "back"], ["y"]),
    ]
    cpu_plugin.check(nodes, {"x": x}, constants={"shape": np.array(shape), "back": np.array(back)})


@pytest.mark.parametrize("perm", [[0, 2, 3, 1], [0, 3, 1, 2], [0, 1, 3, 2], [3, 2, 1, 0], [1, 0, 2, 3]])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.float64])
@pytest.mark.parametrize("shape", [(1, 3, 19, 33), (2, 16, 16, 16), (3, 40, 5, 2)])
def test_images_are_transposed(cpu_plugin: Cpu, perm: list[int], dtype: type, shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    cpu_plugin.check(helper.make_node("Transpose", ["x"], ["y"], perm=perm), {"x": x})


@pytest.mark.parametrize("perm", [[0, 2, 3, 1], [0, 3, 1, 2], [0, 1, 3, 2]])
def test_transposes_around_convolutions(cpu_plugin: Cpu, perm: list[int]) -> None:
    """Of a tensor with its channels last, and to one that a convolution wants so."""
    x = np.random.default_rng(1).standard_normal((2, 6, 6, 6)).astype(np.float32)
    nodes = [
        _conv("x", "a"),
        helper.make_node("Transpose", ["a"], ["b"], perm=perm),
        helper.make_node("Transpose", ["x"], ["c"], perm=perm),
        _conv("c", "d"),
        helper.make_node("Add", ["b", "d"], ["y"]),
    ]
    constants = {"wa": _weights(6, 6), "wd": _weights(6, 6)}
    cpu_plugin.check(nodes, {"x": x}, outputs=["y", "c"], constants=constants, rtol=1e-4, atol=1e-4)
