"""Products of bytes are exact, however large they are, in each form that the weights are kept in."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model


def _weights(kind: str, k: int, n: int, dtype: type) -> np.ndarray:
    rng = np.random.default_rng(5)
    limits = np.iinfo(dtype)
    middle = 0 if dtype is np.int8 else 128
    if kind == "small":
        made = rng.integers(-40, 41, size=(k, n)) + middle
    elif kind == "a few large":  # Some neighbours of a column are more than 16 bits hold together.
        made = rng.integers(-30, 31, size=(k, n))
        made[:: max(1, k // 3)] = 127
        made[1 :: max(1, k // 3), ::3] = 120
        made[2 :: max(1, k // 4), 1::2] = -128
        made[3 :: max(1, k // 4), 1::2] = -128
        made += middle
    elif kind == "any":
        made = rng.integers(limits.min, limits.max + 1, size=(k, n))
    else:
        made = np.full((k, n), limits.max if kind == "highest" else limits.min)
    return made.astype(dtype)


def _inputs(kind: str, m: int, k: int, dtype: type) -> np.ndarray:
    limits = np.iinfo(dtype)
    if kind == "any":
        return np.random.default_rng(6).integers(limits.min, limits.max + 1, size=(m, k)).astype(dtype)
    return np.full((m, k), limits.max if kind == "highest" else limits.min, dtype)


@pytest.mark.parametrize(
    "shapes", [((4, 7, 13), (4, 13, 17)), ((3, 1, 7, 9), (1, 2, 9, 33)), ((7, 13), (5, 13, 20))]
)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_stacks_of_products_are_exact(
    cpu_plugin: Cpu, shapes: tuple[tuple[int, ...], tuple[int, ...]], threads: int
) -> None:
    """Each thread has stacks of its own, or parts of each."""
    rng = np.random.default_rng(7)
    a, b = (rng.integers(0, 256, shape).astype(np.uint8) for shape in shapes)
    feeds = {"a": a, "b": b, "az": np.array(3, np.uint8), "bz": np.array(250, np.uint8)}
    node = helper.make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"])
    (y,) = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds, intra_op_num_threads=threads)
    np.testing.assert_array_equal(y, (a.astype(np.int64) - 3) @ (b.astype(np.int64) - 250))


@pytest.mark.parametrize("constant", [True, False], ids=["packed weights", "weights as an input"])
@pytest.mark.parametrize("weights", ["small", "a few large", "any", "highest", "lowest"])
@pytest.mark.parametrize("a_type", [np.uint8, np.int8])
@pytest.mark.parametrize("b_type", [np.int8, np.uint8])
def test_sums_of_bytes_are_exact(
    cpu_plugin: Cpu, constant: bool, weights: str, a_type: type, b_type: type
) -> None:
    for m, k, n in [(1, 1, 1), (7, 13, 17), (50, 131, 33)]:
        b = _weights(weights, k, n, b_type)
        for inputs in ["any", "highest", "lowest"]:
            a = _inputs(inputs, m, k, a_type)
            for a_zero, b_zero in [(0, 0), (3, 5)]:
                feeds = {"a": a, "az": np.array(a_zero, a_type)}
                fixed = {"b": b, "bz": np.array(b_zero, b_type)}
                node = helper.make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"])
                model = (
                    make_model([node], feeds, ["y"], fixed)
                    if constant
                    else make_model([node], feeds | fixed, ["y"])
                )
                (y,) = cpu_plugin.run(model, feeds if constant else feeds | fixed)
                expected = (a.astype(np.int64) - a_zero) @ (b.astype(np.int64) - b_zero)
                np.testing.assert_array_equal(y, expected, err_msg=f"{m} x {k} x {n}, {inputs}")


# Tiles have up to 12 rows and two panels of 16 columns; rows beyond a cache are multiplied in another order.
@pytest.mark.parametrize("m", [1, 2, 5, 6, 11, 12, 13, 17, 18, 23, 47, 49, 97])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 31, 32, 33, 48, 49, 80])
def test_tiles_of_all_sizes_are_exact(cpu_plugin: Cpu, m: int, n: int) -> None:
    for k in (4, 7) if m < 97 else (4 * 700 + 1,):
        a, b = _inputs("any", m, k, np.uint8), _weights("any", k, n, np.int8)
        node = helper.make_node("MatMulInteger", ["a", "b"], ["y"])
        (y,) = cpu_plugin.run(make_model([node], {"a": a}, ["y"], {"b": b}), {"a": a})
        np.testing.assert_array_equal(y, a.astype(np.int64) @ b.astype(np.int64), err_msg=f"k = {k}")


@pytest.mark.parametrize("weights", ["small", "a few large", "any", "highest"])
@pytest.mark.parametrize("a_type", [np.uint8, np.int8])
def test_convolutions_of_bytes_are_exact(cpu_plugin: Cpu, weights: str, a_type: type) -> None:
    for channels, outputs, kernel, side in [(8, 16, 1, 5), (3, 17, 3, 6), (12, 32, 3, 7), (40, 16, 1, 3)]:
        w = _weights(weights, channels * kernel**2, outputs, np.int8)
        fixed = {"w": w.T.reshape(outputs, channels, kernel, kernel), "xz": np.array(2, a_type)}
        node = helper.make_node("ConvInteger", ["x", "w", "xz"], ["y"], pads=[kernel // 2] * 4)
        x = _inputs("any", 2, channels * side**2, a_type).reshape(2, channels, side, side)
        model = make_model([node], {"x": x}, ["y"], fixed)
        (y,) = cpu_plugin.run(model, {"x": x})
        pad = kernel // 2
        padded = np.pad(x.astype(np.int64) - 2, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
        windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(2, 3))
        expected = np.einsum("bchwij,ocij->bohw", windows, fixed["w"].astype(np.int64))
        np.testing.assert_array_equal(y, expected, err_msg=f"{channels} to {outputs}, {kernel} x {kernel}")
