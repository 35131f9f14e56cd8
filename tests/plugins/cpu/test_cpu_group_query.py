"""GroupQueryAttention without causality, and of padded queries; test_cpu_transformer.py has the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from ephost.errors import Fail, InvalidArgument
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model

Feeds = dict[str, np.ndarray]


def some(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _group_query(rows: int, last: list[int], most: int, **attributes: object) -> tuple[onnx.NodeProto, Feeds]:
    """Of two batches, with a cache of 8 places; ``last`` are the indices of the last keys."""
    feeds = {
        "q": some(2, rows, 4 * 16),
        "k": some(2, rows, 2 * 16, seed=1),
        "v": some(2, rows, 2 * 16, seed=2),
        "pk": some(2, 2, 8, 16, seed=3),
        "pv": some(2, 2, 8, 16, seed=4),
        "n": np.array(last, np.int32),
        "t": np.array(most, np.int32),
    }
    angles = np.outer(np.arange(8), np.linspace(1, 0.1, 8)).astype(np.float32)
    feeds |= {"cos": np.cos(angles), "sin": np.sin(angles)}
    given = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1} | attributes
    return helper.make_node(
        "GroupQueryAttention", list(feeds), ["y", "ck", "cv"], domain="com.microsoft", **given
    ), feeds


def _compare(
    found: Sequence[np.ndarray], expected: Sequence[np.ndarray], rows: Sequence[int], keys: Any
) -> None:
    """Rows of padding are not compared, nor, in the cache, what lies behind the last key."""
    for place, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        for b in range(2):
            seen = slice(rows[b]) if place == 0 else (slice(None), slice(keys[b] + 1))
            np.testing.assert_allclose(ours[b][seen], theirs[b][seen], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("rows", "last"), [(4, [3, 3]), (4, [3, 1]), (1, [4, 2])])
def test_queries_may_see_later_keys(cpu_plugin: Cpu, rows: int, last: list[int]) -> None:
    ort = pytest.importorskip("onnxruntime")
    node, feeds = _group_query(rows, last, max(last) + 1, causal=0)
    model = make_model([node], feeds, ["y", "ck", "cv"])
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    valid = [min(rows, n + 1) for n in last]
    _compare(cpu_plugin.run(model, feeds), session.run(None, feeds), valid, last)


@pytest.mark.parametrize("valid", [[3, 3], [2, 3], [3, 0], [1, 2]])
@pytest.mark.parametrize("window", [-1, 2])
def test_queries_may_be_padded(cpu_plugin: Cpu, window: int, valid: list[int]) -> None:
    ort = pytest.importorskip("onnxruntime")
    node, feeds = _group_query(3, [4, 3], 8, local_window_size=window)
    feeds["valid"] = np.array(valid, np.int32)
    node.input.extend([*[""] * 7, "valid"])
    model = make_model([node], feeds, ["y", "ck", "cv"])
    found = cpu_plugin.run(model, feeds)
    try:
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as error:
        pytest.skip(f"onnxruntime before 1.32 has no numbers of queries: {error}")
    _compare(found, session.run(None, feeds), valid, feeds["n"])


@pytest.mark.parametrize("valid", [[4, 1], [-1, 1], [3, 5]])
def test_numbers_of_queries_that_do_not_fit_are_refused(cpu_plugin: Cpu, valid: list[int]) -> None:
    node, feeds = _group_query(3, [4, 3], 8)
    feeds["valid"] = np.array(valid, np.int32)
    node.input.extend([*[""] * 7, "valid"])
    with pytest.raises(InvalidArgument, match="a number of queries that does not fit the lengths"):
        cpu_plugin.run(make_model([node], feeds, ["y", "ck", "cv"]), feeds)


@pytest.mark.parametrize(
    "change",
    [
        {"sliding_window_cache": 1, "local_window_size": 4},
        {"causal": 2},
        {"causal": 0, "local_window_size": 2},
        {"inputs": [*[""] * 5, "norm", "norm"]},
    ],
)
def test_what_group_query_attention_does_not_do_is_left_to_others(
    cpu_plugin: Cpu, change: dict[str, Any]
) -> None:
    more = change.pop("inputs", [])
    node, feeds = _group_query(1, [4, 3], 5, **change)
    node.input.extend(more)
    if more:
        feeds["norm"] = some(16)
    with pytest.raises(Fail, match="claimed by no execution provider"):
        cpu_plugin.run(make_model([node], feeds, ["y", "ck", "cv"]), feeds)
