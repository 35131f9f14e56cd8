"""GroupQueryAttention without causality, of padded queries, and with caches in codes or of a window;
test_cpu_transformer.py has the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ephost
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


CODES = {0: np.float32, 8: np.int8, 4: np.uint8}
D, KV = 32, 2


def _left(tokens: int, capacity: int, window: int) -> int:
    """How many of them a cache keeps; windows of 0 are none."""
    if not window or tokens <= capacity:
        return tokens
    at_once = capacity - window + 1
    return tokens - at_once * -(-(tokens - capacity) // at_once)


def _step(before: list[np.ndarray], past: np.ndarray, fresh: np.ndarray, rows: int, **form: Any) -> Any:
    """A node that adds tokens to caches, with its feeds. ``form``: bits and type of codes, window, and what
    more the node has.
    """
    batch, bits, window = len(past), form["bits"], form["window"]
    total = int((past + fresh).max())
    inputs: dict[int, tuple[str, np.ndarray]] = {
        0: ("q", some(batch, rows, (4 + 2 * KV) * D, seed=total)),
        3: ("pk", before[0]),
        4: ("pv", before[1]),
        5: ("n", (past + fresh - 1).astype(np.int32)),
        6: ("t", np.array(max(total, rows), np.int32)),
    }
    attributes: dict[str, Any] = {"num_heads": 4, "kv_num_heads": KV}
    if form["rotary"]:
        angles = np.outer(np.arange(64), np.linspace(1, 0.1, D // 2)).astype(np.float32)
        inputs |= {7: ("cos", np.cos(angles)), 8: ("sin", np.sin(angles))}
        attributes["do_rotary"] = 1
    if form["bias"]:
        inputs[10] = ("bias", some(batch, 4, rows, max(total, rows), seed=9))
    if bits:
        kind = form["kind"]
        size = (1,) if kind == "PER_TENSOR" else (1, KV, 1, D)
        scales = np.random.default_rng(7).uniform(0.01, 0.3, size=(2, *size)).astype(np.float32)
        inputs |= {12: ("ks", scales[0]), 13: ("vs", scales[1])}
        attributes |= {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}
    if window:
        attributes |= {"sliding_window_cache": 1, "local_window_size": window}
    if form["padded"]:
        inputs[16] = ("valid", fresh.astype(np.int32))
    names = [inputs[i][0] if i in inputs else "" for i in range(max(inputs) + 1)]
    node = helper.make_node(
        "GroupQueryAttention", names, ["y", "ck", "cv"], domain="com.microsoft", **attributes
    )
    return node, dict(inputs.values())


@pytest.mark.parametrize("window", [0, 3, 6])
@pytest.mark.parametrize(
    ("bits", "kind"), [(0, ""), (8, "PER_TENSOR"), (8, "PER_CHANNEL"), (4, "PER_CHANNEL")]
)
@pytest.mark.parametrize("more", ["", "rotary", "bias", "padded"])
def test_caches_may_be_in_codes_and_of_a_window(
    cpu_plugin: Cpu, window: int, bits: int, kind: str, more: str
) -> None:
    """Several runs, each of which goes on from the caches that onnxruntime has left."""
    ort = pytest.importorskip("onnxruntime")
    form = {"window": window, "bits": bits, "kind": kind}
    form |= {name: name == more for name in ("rotary", "bias", "padded")}
    capacity = 7 if window else 20
    batch = 2 if more == "padded" else 1
    width = D // 2 if bits == 4 else D
    before = [np.zeros((batch, KV, capacity, width), CODES[bits])] * 2
    past = np.zeros(batch, int)
    for rows, fresh in ((5, [5, 2]), (1, [1, 1]), (1, [1, 0]), (9, [9, 4]), (2, [2, 1])):
        node, feeds = _step(before, past, np.array(fresh[:batch]), rows, **form)
        model = make_model([node], feeds, ["y", "ck", "cv"])
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        expected, found = session.run(None, feeds), cpu_plugin.run(model, feeds)
        past = past + fresh[:batch]
        left = [_left(int(tokens), capacity, window) for tokens in past]
        for b in range(batch):
            valid = slice(fresh[b])
            np.testing.assert_allclose(found[0][b, valid], expected[0][b, valid], rtol=1e-4, atol=1e-5)
            for ours, theirs in zip(found[1:], expected[1:], strict=True):
                assert ours.dtype == CODES[bits]
                kept = (b, slice(None), slice(left[b]))
                np.testing.assert_allclose(ours[kept], theirs[kept], rtol=1e-5, atol=1e-6)
                theirs[b, :, left[b] :] = 0
        before = expected[1:]


@pytest.mark.parametrize("window", [0, 130])
@pytest.mark.parametrize(
    ("bits", "kind"),
    [(0, ""), (8, "PER_TENSOR"), (8, "PER_CHANNEL"), (4, "PER_TENSOR"), (4, "PER_CHANNEL")],
)
@pytest.mark.parametrize(("heads", "kv_heads", "channels"), [(4, 2, 32), (6, 1, 64), (3, 3, 48), (8, 2, 128)])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_token_follows_many(
    cpu_plugin: Cpu, heads: int, kv_heads: int, channels: int, bits: int, kind: str, window: int, threads: int
) -> None:
    """Keys are taken block by block, for several heads of queries at a time."""
    ort = pytest.importorskip("onnxruntime")
    random = np.random.default_rng(heads)
    past, capacity = [190, 70], 200
    width = channels // 2 if bits == 4 else channels
    feeds = {
        "q": some(2, 1, heads * channels),
        "k": some(2, 1, kv_heads * channels, seed=1),
        "v": some(2, 1, kv_heads * channels, seed=2),
    }
    for name in ("pk", "pv"):
        cache = random.integers(0, 255, (2, kv_heads, capacity, width), np.uint8)
        feeds[name] = cache.view(CODES[bits]) if bits else cache.astype(np.float32) / 64 - 2
    feeds |= {"n": np.array(past, np.int32), "t": np.array(past[0] + 1, np.int32)}
    names, more = list(feeds), {}
    if bits:
        size = (1,) if kind == "PER_TENSOR" else (1, kv_heads, 1, channels)
        feeds["ks"], feeds["vs"] = random.uniform(0.01, 0.1, (2, *size)).astype(np.float32)
        names += [""] * 5 + ["ks", "vs"]
        more = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}
    if window:
        more["local_window_size"] = window
    node = helper.make_node(
        "GroupQueryAttention",
        names,
        ["y", "ck", "cv"],
        domain="com.microsoft",
        num_heads=heads,
        kv_num_heads=kv_heads,
        **more,
    )
    model = make_model([node], feeds, ["y", "ck", "cv"])
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = cpu_plugin.run(model, feeds, intra_op_num_threads=threads)
    expected = session.run(None, feeds)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(found[1:], expected[1:], strict=True):
        for b in range(2):
            kept = (b, slice(None), slice(past[b] + 1))
            np.testing.assert_allclose(ours[kept], theirs[kept], rtol=1e-6)


@pytest.mark.parametrize("bits", [0, 8])
def test_a_window_is_left_where_it_was_found(cpu_plugin: Cpu, bits: int) -> None:
    """The cache that comes in and the one that goes out are one memory."""
    form = {"window": 3, "bits": bits, "kind": "PER_TENSOR", "rotary": True, "bias": False, "padded": False}
    kept = [np.random.default_rng(i).integers(-9, 9, (1, KV, 5, D)).astype(CODES[bits]) for i in range(2)]
    node, feeds = _step(kept, np.array([7]), np.array([2]), 2, **form)
    session = cpu_plugin.session(make_model([node], feeds, ["y", "ck", "cv"]))
    expected = session.run(None, feeds)
    binding = session.io_binding()
    shared = {name: ephost.OrtValue.ortvalue_from_numpy(feeds[name].copy()) for name in ("pk", "pv")}
    for name, array in feeds.items():
        if name in shared:
            binding.bind_ortvalue_input(name, shared[name])
        else:
            binding.bind_cpu_input(name, array)
    binding.bind_output("y")
    binding.bind_ortvalue_output("ck", shared["pk"])
    binding.bind_ortvalue_output("cv", shared["pv"])
    session.run_with_iobinding(binding)
    np.testing.assert_allclose(binding.get_outputs()[0].numpy(), expected[0], rtol=1e-6)
    for name, array in zip(("pk", "pv"), expected[1:], strict=True):
        np.testing.assert_array_equal(shared[name].numpy(), array)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ks": np.ones(3, np.float32)}, "scales that do not fit keys or values"),
        ({"pk": np.zeros((1, KV, 5, D // 2), np.int8)}, "past keys or values that do not fit the new ones"),
        ({"n": np.array([30], np.int32)}, "a length above the greatest one"),
        ({"n": np.array([-1], np.int32)}, "a length above the greatest one"),
    ],
)
def test_caches_that_do_not_fit_are_refused(cpu_plugin: Cpu, change: Feeds, said: str) -> None:
    form = {"window": 3, "bits": 8, "kind": "PER_TENSOR", "rotary": False, "bias": False, "padded": False}
    node, feeds = _step([np.zeros((1, KV, 5, D), np.int8)] * 2, np.array([7]), np.array([2]), 2, **form)
    feeds |= change
    with pytest.raises((InvalidArgument, Fail), match=said):
        cpu_plugin.run(make_model([node], feeds, ["y", "ck", "cv"]), feeds)


@pytest.mark.parametrize("last", [-3, -1, 5, 2**31 - 1])
@pytest.mark.parametrize("window", [0, 3])
def test_lengths_of_prompts_lie_in_their_caches(cpu_plugin: Cpu, last: int, window: int) -> None:
    form = {
        "window": window,
        "bits": 8,
        "kind": "PER_TENSOR",
        "rotary": False,
        "bias": False,
        "padded": False,
    }
    node, feeds = _step([np.zeros((1, KV, 5, D), np.int8)] * 2, np.array([0]), np.array([5]), 5, **form)
    feeds["n"] = np.array([last], np.int32)
    with pytest.raises((InvalidArgument, Fail), match="a length above the greatest one"):
        cpu_plugin.run(make_model([node], feeds, ["y", "ck", "cv"]), feeds)


def test_what_is_not_a_number_has_a_code(cpu_plugin: Cpu) -> None:
    form = {"window": 0, "bits": 8, "kind": "PER_TENSOR", "rotary": False, "bias": False, "padded": False}
    node, feeds = _step([np.zeros((1, KV, 5, D), np.int8)] * 2, np.array([2]), np.array([1]), 1, **form)
    feeds["q"][0, 0, 4 * D : 4 * D + 3] = np.nan, np.inf, -np.inf
    found = cpu_plugin.run(make_model([node], feeds, ["y", "ck", "cv"]), feeds)
    assert found[1][0, 0, 2, :3].tolist() == [-128, 127, -128]


@pytest.mark.parametrize(
    "change",
    [
        {"sliding_window_cache": 1},
        {"k_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8},
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
