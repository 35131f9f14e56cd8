"""Operators around models of scikit-learn and of language: distances, hashes, rows of quantised tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from ephost.errors import Fail, InvalidArgument
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model


def _node(kind: str, inputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs, ["y"], domain="com.microsoft", **attributes)


# By differences and by products, with blocks of rows that are full and not.
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (5, 9, 3), (50, 40, 11), (7, 16, 12), (131, 70, 33), (0, 3, 2), (3, 0, 20)]
)
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_of_rows(cpu_plugin: Cpu, shape: tuple[int, int, int], metric: str, dtype: type) -> None:
    m, n, k = shape
    rng = np.random.default_rng(5)
    # Far from the origin, where squares are large beside their differences.
    a, b = ((rng.standard_normal((rows, k)) + 100).astype(dtype) for rows in (m, n))
    b[: min(m, n)] = a[: min(m, n)] if k > 11 else b[: min(m, n)]
    node, feeds = _node("CDist", ["a", "b"], metric=metric), {"a": a, "b": b}
    found = [
        cpu_plugin.run(make_model([node], feeds, ["y"], open_shapes=open), feeds)[0] for open in (False, True)
    ]
    expected = ((a[:, None].astype(np.float64) - b[None]) ** 2).sum(-1)
    expected = np.sqrt(expected) if metric == "euclidean" else expected
    tolerance = 2e-5 if dtype is np.float32 else 1e-12
    for y in found:
        np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)
        # What is equal is at no distance, which a product alone would not say.
        if k > 11:
            assert not np.diagonal(y).any()


def test_what_is_not_finite_stays_in_its_row_and_column(cpu_plugin: Cpu) -> None:
    a, b = (np.random.default_rng(rows).standard_normal((rows, 20)).astype(np.float32) for rows in (9, 30))
    a[2, 3], a[4, 0], b[5, 7], b[11, 1] = np.inf, np.nan, np.inf, np.nan
    feeds = {"a": a, "b": b}
    (y,) = cpu_plugin.run(make_model([_node("CDist", ["a", "b"])], feeds, ["y"]), feeds)
    finite = np.ones((9, 30), bool)
    finite[[2, 4]] = finite[:, [5, 11]] = False
    np.testing.assert_array_equal(np.isfinite(y), finite)


@pytest.mark.parametrize("far", [1e6, 1e10, 3e38])
def test_a_row_that_is_far_away_takes_no_digits_from_others(cpu_plugin: Cpu, far: float) -> None:
    a, b = (np.random.default_rng(rows).standard_normal((rows, 20)).astype(np.float32) for rows in (9, 30))
    b[5, 7] = b[11, 3] = far
    feeds = {"a": a, "b": b}
    (y,) = cpu_plugin.run(make_model([_node("CDist", ["a", "b"])], feeds, ["y"]), feeds)
    expected = ((a[:, None].astype(np.float64) - b[None]) ** 2).sum(-1)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(y, expected.astype(np.float32), rtol=2e-5)


def test_another_metric_is_not_taken(cpu_plugin: Cpu) -> None:
    feeds = {name: np.zeros((2, 3), np.float32) for name in "ab"}
    model = make_model([_node("CDist", ["a", "b"], metric="cosine")], feeds, ["y"])
    with pytest.raises(Fail, match="CDist"):
        cpu_plugin.run(model, feeds)


@pytest.mark.parametrize("positive", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", "f4", "f8", "str"])
def test_hashes_are_onnxruntimes(cpu_plugin: Cpu, dtype: str, positive: int) -> None:
    if dtype == "str":
        x = np.array(
            [["", "a", "ab", "abc"], ["abcd", "abcde", "\N{SNOWMAN}", "a longer text, with spaces"]], object
        )
    else:
        x = np.array([[0, 1, 2], [77, 1 << 20, 5]]).astype(dtype)
    node = _node("MurmurHash3", ["x"], seed=3, positive=positive)
    cpu_plugin.check_beside_onnxruntime(node, {"x": x}, ["y"])


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("width", [32, 48])
def test_rows_of_a_quantised_table(cpu_plugin: Cpu, bits: int, zeros: bool, dtype: type, width: int) -> None:
    rng = np.random.default_rng(bits)
    blocks = -(-width // 32)
    feeds = {"i": np.array([[0, -1], [5, 3]])}
    table = {
        "d": rng.integers(0, 256, (6, width * bits // 8), dtype=np.uint8),
        "s": rng.random((6, blocks)).astype(dtype),
    }
    if zeros:
        table["z"] = rng.integers(0, 256, (6, -(-blocks * bits // 8)), dtype=np.uint8)
    names = ["d", "i", "s", *(["z"] if zeros else [])]
    node = _node("GatherBlockQuantized", names, bits=bits, block_size=32, quantize_axis=1, gather_axis=0)
    cpu_plugin.check_beside_onnxruntime(node, feeds, ["y"], table, rtol=1e-3 if dtype is np.float16 else 1e-6)


@pytest.mark.parametrize("index", [6, -7])
def test_an_index_beyond_a_quantised_table_is_an_error(cpu_plugin: Cpu, index: int) -> None:
    table = {"d": np.zeros((6, 16), np.uint8), "s": np.ones((6, 1), np.float32)}
    feeds = {"i": np.array([0, index])}
    node = _node("GatherBlockQuantized", ["d", "i", "s"], bits=4, block_size=32)
    with pytest.raises(InvalidArgument, match="beyond its axis"):
        cpu_plugin.run(make_model([node], feeds, ["y"], table), feeds)


def test_indices_that_are_no_integers_are_an_error(cpu_plugin: Cpu) -> None:
    table = {"d": np.zeros((6, 16), np.uint8), "s": np.ones((6, 1), np.float32)}
    feeds = {"i": np.zeros(2, np.float32)}
    node = _node("GatherBlockQuantized", ["d", "i", "s"], bits=4, block_size=32)
    with pytest.raises(InvalidArgument, match="int64"):
        cpu_plugin.run(make_model([node], feeds, ["y"], table), feeds)
