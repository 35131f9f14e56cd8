"""Operators of com.microsoft that few models have, beside onnxruntime's, on random inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from ephost.reference.ops import find_operator
from onnx import helper

ort = pytest.importorskip("onnxruntime")
FLOAT, INT, LONG = np.float32, np.int32, np.int64
Random = np.random.Generator
Inputs = list[np.ndarray | None]
Case = tuple[Inputs, dict[str, Any], int]  # inputs, attributes, how many outputs


def normal(r: Random, *shape: int) -> np.ndarray:
    return r.normal(size=shape).astype(FLOAT)


def streams(r: Random) -> tuple[np.ndarray, dict[str, Any]]:
    """Streams of [2, 3, 3, 4], or with the last two axes in one."""
    x = normal(r, 2, 3, 3, 4)
    return (x, {}) if r.random() < 0.5 else (x.reshape(2, 3, 12), {"num_branches": 3})


def gates(r: Random) -> np.ndarray:
    shape = [(2, 3, 3), (2, 3, 3, 1), (2, 3, 3, 4)][r.integers(3)]
    return normal(r, *shape)


def branchwise_rmsnorm(r: Random) -> Case:
    x, attributes = streams(r)
    if r.random() < 0.5:
        attributes["epsilon"] = 0.1
    return [x, [None, normal(r, 12), normal(r, 3, 4), normal(r, 4)][r.integers(4)]], attributes, 1


def hyper_connection_pre_mix(r: Random) -> Case:
    x, attributes = streams(r)
    if r.random() < 0.5:
        attributes["reduction_scale"] = 0.5
    return [x, gates(r)], attributes, 1


def hyper_connection_post_mix(r: Random) -> Case:
    x, attributes = streams(r)
    mix = normal(r, 2, 3, 3, 3) if r.random() < 0.5 else None
    return [x, normal(r, 2, 3, 4), gates(r), mix], attributes, 1


def engram_gate(r: Random) -> Case:
    tensors: Inputs = [normal(r, 2, 5, 3, 4), normal(r, 2, 5, 3, 4), normal(r, 2, 5, 4)]
    scales = [normal(r, 3, 4) for _ in range(r.integers(2, 4))]
    return [*tensors, *scales], {"epsilon": 1e-3}, len(scales) - 1


def hashing(r: Random, rows: int, dtype: type) -> tuple[Inputs, Inputs, dict[str, Any]]:
    longest, heads = int(r.integers(2, 5)), int(r.integers(1, 3))
    count = (longest - 1) * heads
    needed: Inputs = [
        r.integers(-(2**30), 2**30, longest).astype(dtype),
        r.integers(3, 50, count).astype(dtype),
    ]
    optional: Inputs = [
        r.integers(0, 6, (rows, longest - 1)).astype(dtype),
        r.integers(0, 600, count).astype(dtype),
        np.array(2, dtype),
    ]
    attributes = {"pad_id": 0, "max_ngram_size": longest, "n_head_per_ngram": heads}
    if r.random() < 0.6:
        attributes["reset_on_eos"] = 1
    return needed, [x if r.random() < 0.5 else None for x in optional], attributes


def n_gram_hash_mapping(r: Random) -> Case:
    dtype, length = [INT, LONG][r.integers(2)], int(r.integers(1, 9))
    needed, optional, attributes = hashing(r, 2, dtype)
    segments = np.cumsum(r.random((2, length)) < 0.3, axis=1).astype(INT) if r.random() < 0.5 else None
    ids = r.integers(0, 6, (2, length)).astype(dtype)
    return [ids, *needed, *optional, segments], attributes, 2


def varlen_n_gram_hash_mapping(r: Random) -> Case:
    dtype, lengths = [INT, LONG][r.integers(2)], r.integers(1, 7, 3)
    total = int(lengths.sum())
    needed, optional, attributes = hashing(r, 3, dtype)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(INT)
    segments = np.cumsum(r.random(total) < 0.3).astype(INT)
    before = r.integers(0, 2, (3, attributes["max_ngram_size"] - 1)).astype(INT) if r.random() < 0.6 else None
    inputs: Inputs = [r.integers(0, 6, total).astype(dtype), *needed, ends, *optional, segments, before]
    if r.random() < 0.5:
        attributes["state_update_capacity"] = int(r.integers(1, 5))
        return [*inputs, r.integers(0, 5, 3).astype(INT)], attributes, 4
    return inputs, attributes, 3


def word_conv_embedding(r: Random) -> Case:
    letters, window = int(r.integers(3, 9)), int(r.integers(1, 4))
    words = r.integers(1, 9, (6, letters)).astype(INT)
    for word in words:
        word[r.integers(1, letters + 1) :] = 0
    return [words, normal(r, 4, 1, window, 3), normal(r, 4), normal(r, 9, 3)], {}, 1


def bifurcation_detector(r: Random) -> Case:
    source, tokens = (r.integers(0, 4, r.integers(3, 9)).astype(LONG) for _ in range(2))
    start = int(r.integers(len(source)))
    guessed = np.append(source[start:], 1)
    guessed[r.integers(len(guessed))] = 3
    sizes = {"min_ngram_size": int(r.integers(1, 3)), "max_ngram_size": 3}
    return [source, tokens, np.array([start], LONG), guessed if r.random() < 0.7 else None], sizes, 2


def maxpool_with_mask(r: Random) -> Case:
    image = [int(size) for size in r.integers(4, 8, r.integers(1, 3))]
    kernel = [int(taps) for taps in r.integers(1, 4, len(image))]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": [int(r.integers(1, 3)) for _ in image]}
    if r.random() < 0.5:
        attributes["pads"] = [min(1, taps - 1) for taps in kernel] * 2
    return [normal(r, 2, 3, *image), (r.random((1, 1, *image)) < 0.7).astype(INT)], attributes, 1


def conv_transpose_with_dynamic_pads(r: Random) -> Case:
    strides = {"strides": [2, 1]} if r.random() < 0.5 else {}
    bias = normal(r, 3) if r.random() < 0.5 else None
    return [normal(r, 1, 4, 5, 6), normal(r, 4, 3, 3, 2), np.array([1, 0, 0, 1], LONG), bias], strides, 1


def attn_lstm(r: Random) -> Case:
    direction = ["forward", "reverse", "bidirectional"][r.integers(3)]
    ways, time, has_layer = 1 + (direction == "bidirectional"), int(r.integers(1, 5)), r.random() < 0.5
    seen = 6 if has_layer else 3

    def maybe(x: np.ndarray) -> np.ndarray | None:
        return x if r.random() < 0.5 else None

    inputs: Inputs = [
        *(normal(r, time, 2, 3), normal(r, ways, 16, 3 + seen), normal(r, ways, 16, 4)),
        *(maybe(normal(r, ways, 32)), maybe(r.integers(1, time + 1, 2).astype(INT))),
        *(maybe(normal(r, ways, 2, 4)), maybe(normal(r, ways, 2, 4)), maybe(normal(r, ways, 12))),
        *(normal(r, ways, 4, 4), normal(r, ways, 3, 4), normal(r, ways, 4), normal(r, 2, 5, 3)),
        *(maybe(r.integers(1, 6, 2).astype(INT)), normal(r, ways, 7, 6) if has_layer else None),
    ]
    functions = ["Sigmoid", "Tanh", "Tanh"] * ways
    return inputs, {"direction": direction, "hidden_size": 4, "activations": functions}, 3


def sparse_attention(r: Random) -> Case:
    heads, kv_heads, size, room, block = 4, int(r.choice([1, 2, 4])), 16, 64, 16
    length = int(r.integers(2, 50)) if r.random() < 0.5 else 1
    total = length if length > 1 else int(r.integers(2, 60))
    layouts, blocks = int(r.integers(1, 3)), room // block
    mask = np.tril(r.random((layouts, blocks, blocks)) < 0.5) | np.eye(blocks, dtype=bool)
    rows = np.zeros((layouts, blocks + 1), INT)
    rows[:, 1:] = np.cumsum(mask.sum(axis=2), axis=1)
    columns = np.full((layouts, rows.max()), -1, INT)
    for at, layout in enumerate(mask):
        columns[at, : rows[at, -1]] = np.nonzero(layout)[1]
    if r.random() < 0.5:
        tensors: Inputs = [normal(r, 1, length, (heads + 2 * kv_heads) * size), None, None]
    else:
        tensors = [normal(r, 1, length, count * size) for count in (heads, kv_heads, kv_heads)]
    past = [normal(r, 1, kv_heads, room, size) * (length == 1) for _ in range(2)]
    inputs: Inputs = [*tensors, *past, rows, columns, np.array([total], INT), np.array([total], INT)]
    attributes = {"num_heads": heads, "kv_num_heads": kv_heads, "sparse_block_size": block}
    if r.random() < 0.5:
        angles = r.normal(size=(room, size // 2))
        inputs += [np.cos(angles).astype(FLOAT), np.sin(angles).astype(FLOAT)]
        attributes.update(do_rotary=1, rotary_interleaved=int(r.integers(2)))
    return inputs, attributes, 3


def model(op_type: str, inputs: Inputs, attributes: dict[str, Any], outputs: int) -> onnx.ModelProto:
    while inputs[-1] is None:
        inputs = inputs[:-1]
    names = [f"i{at}" if x is not None else "" for at, x in enumerate(inputs)]
    made = [f"o{at}" for at in range(outputs)]
    node = helper.make_node(op_type, names, made, "n", domain="com.microsoft", **attributes)
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, inputs, strict=True)
        if x is not None
    ]
    graph = helper.make_graph(
        [node], "g", infos, [helper.make_value_info(name, onnx.TypeProto()) for name in made]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def fed(inputs: Inputs) -> dict[str, np.ndarray]:
    return {f"i{at}": x for at, x in enumerate(inputs) if x is not None}


def theirs(op_type: str, made: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> Sequence[np.ndarray]:
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    if op_type != "SparseAttention":
        found: list[np.ndarray] = session.run(None, feeds)
        return found
    # Its cache must be written where it is read.
    binding = session.io_binding()
    for name, x in feeds.items():
        if name not in ("i3", "i4"):
            binding.bind_cpu_input(name, x)
    binding.bind_output("o0")
    caches = {name: ort.OrtValue.ortvalue_from_numpy(feeds[name].copy()) for name in ("i3", "i4")}
    for (name, value), output in zip(caches.items(), ("o1", "o2"), strict=True):
        binding.bind_ortvalue_input(name, value)
        binding.bind_ortvalue_output(output, value)
    session.run_with_iobinding(binding)
    return [value.numpy().copy() for value in binding.get_outputs()]  # they lie in the caches


CASES: dict[str, Callable[[Random], Case]] = {
    "BranchwiseRMSNorm": branchwise_rmsnorm,
    "HyperConnectionPreMix": hyper_connection_pre_mix,
    "HyperConnectionPostMix": hyper_connection_post_mix,
    "EngramGate": engram_gate,
    "NGramHashMapping": n_gram_hash_mapping,
    "VarlenNGramHashMapping": varlen_n_gram_hash_mapping,
    "WordConvEmbedding": word_conv_embedding,
    "BifurcationDetector": bifurcation_detector,
    "MaxpoolWithMask": maxpool_with_mask,
    "ConvTransposeWithDynamicPads": conv_transpose_with_dynamic_pads,
    "AttnLSTM": attn_lstm,
    "SparseAttention": sparse_attention,
}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("op_type", CASES)
def test_results_are_those_of_onnxruntime(op_type: str, seed: int) -> None:
    inputs, attributes, outputs = CASES[op_type](np.random.default_rng(seed))
    made, feeds = model(op_type, inputs, attributes, outputs), fed(inputs)
    session = ephost.InferenceSession(made.SerializeToString())
    found = session.run(None, feeds)
    for our, their in zip(found, theirs(op_type, made, feeds), strict=True):
        assert our.dtype == their.dtype
        np.testing.assert_allclose(our, their, rtol=1e-4, atol=1e-5)
    # What is known before a run holds.
    for output, value in zip(session.get_outputs(), found, strict=True):
        assert len(output.shape) == value.ndim
        assert all(size in (None, seen) for size, seen in zip(output.shape, value.shape, strict=True))


def test_no_rows_of_streams_give_none() -> None:
    inputs: Inputs = [np.ones((0, 6), FLOAT)]
    made = model("BranchwiseRMSNorm", inputs, {"num_branches": 3}, 1)
    (found,) = ephost.InferenceSession(made.SerializeToString()).run(None, fed(inputs))
    assert found.shape == (0, 6)


def test_letters_that_are_not_in_the_table_are_zeros() -> None:
    r = np.random.default_rng(3)
    words = np.array([[1, 16, 3], [4, -1, 0], [4, 5, 2**31 - 1]], INT)
    inputs: Inputs = [words, normal(r, 4, 1, 2, 3), normal(r, 4), normal(r, 9, 3)]
    made, feeds = model("WordConvEmbedding", inputs, {}, 1), fed(inputs)
    (found,) = ephost.InferenceSession(made.SerializeToString()).run(None, feeds)
    np.testing.assert_allclose(found, theirs("WordConvEmbedding", made, feeds)[0], rtol=1e-5, atol=1e-6)


# The place of an input, what is there, and what is said of it.
NO_LSTM: list[tuple[int, np.ndarray, str]] = [
    (1, np.ones((1, 15, 6), FLOAT), r"W has shape \[1, 15, 6\] in place of \[1, 16, 6\]"),
    (3, np.ones((7, 32), FLOAT), r"B has shape \[7, 32\] in place of \[1, 32\]"),
    (4, np.array([3, 4], INT), "sequence_lens has the entry 4: a length is from 1 to 3"),
    (9, np.ones((1, 1, 3, 4), FLOAT), r"MW has shape \[1, 1, 3, 4\]"),
    (12, np.array([4], INT), r"M_seq_len has shape \[1\]"),
    (12, np.array([0, 5], INT), "M_seq_len has the entry 0: a length is from 1 to 5"),
]


@pytest.mark.parametrize(("at", "wrong", "said"), NO_LSTM)
def test_an_attending_lstm_has_inputs_that_fit(at: int, wrong: np.ndarray, said: str) -> None:
    r = np.random.default_rng(1)
    lengths = np.array([3, 2], INT), np.array([4, 5], INT)
    inputs: Inputs = [
        *(normal(r, 3, 2, 3), normal(r, 1, 16, 6), normal(r, 1, 16, 4), normal(r, 1, 32), lengths[0]),
        *(None, None, None, normal(r, 1, 4, 4), normal(r, 1, 3, 4), normal(r, 1, 4), normal(r, 2, 5, 3)),
        lengths[1],
    ]
    inputs[at] = wrong
    session = ephost.InferenceSession(model("AttnLSTM", inputs, {"hidden_size": 4}, 3).SerializeToString())
    with pytest.raises(Exception, match=f"'n'.*{said}"):
        session.run(None, fed(inputs))


# The place of an input, what is there, and what is said of it.
NO_BLOCKS: list[tuple[int, np.ndarray, str]] = [
    (1, np.ones((1, 16), FLOAT), r"key has shape \[1, 16\]"),
    (4, np.ones((2, 1, 32, 16), FLOAT), r"past_value has shape \[2, 1, 32, 16\]"),
    (5, np.array([[1, 1, 3]], INT), "do not grow from 0"),
    (5, np.array([[0, 1]], INT), "has no row for each of 2 blocks"),
    (5, np.array([[0, 1, 3]] * 3, INT), "4 heads cannot share layouts"),
    (6, np.array([[0, 0, 2]], INT), "block_col_indices has the entry 2"),
    (8, np.array([20, 20], INT), r"key_total_sequence_lengths has shape \[2\]"),
]


@pytest.mark.parametrize(("at", "wrong", "said"), NO_BLOCKS)
def test_attention_to_blocks_has_inputs_that_fit(at: int, wrong: np.ndarray, said: str) -> None:
    inputs: Inputs = [
        *(
            np.ones((1, 1, 64), FLOAT),
            *[np.ones((1, 1, 16), FLOAT)] * 2,
            *[np.ones((1, 1, 32, 16), FLOAT)] * 2,
        ),
        *(np.array([[0, 1, 3]], INT), np.array([[0, 0, 1]], INT), np.array([20], INT), np.array([20], INT)),
    ]
    inputs[at] = wrong
    attributes = {"num_heads": 4, "kv_num_heads": 1, "sparse_block_size": 16}
    with pytest.raises(Exception, match=f"'n'.*{said}"):
        made = model("SparseAttention", inputs, attributes, 3)
        ephost.InferenceSession(made.SerializeToString()).run(None, fed(inputs))


def test_hashes_of_a_text_in_pieces_are_those_of_the_whole() -> None:
    r = np.random.default_rng(5)
    attributes = {"pad_id": 0, "max_ngram_size": 4, "n_head_per_ngram": 2}
    ids, multipliers, sizes = r.integers(0, 9, (1, 12)), r.integers(1, 99, 4), r.integers(3, 50, 6)

    def hashed(part: np.ndarray, past: np.ndarray | None) -> list[np.ndarray]:
        inputs: Inputs = [part, multipliers, sizes, past]
        made = model("NGramHashMapping", inputs, attributes, 2)
        return ephost.InferenceSession(made.SerializeToString()).run(None, fed(inputs))

    whole, _ = hashed(ids, None)
    pieces, past = [], None
    for part in np.split(ids, [1, 2, 7], axis=1):
        found, past = hashed(part, past)
        pieces.append(found)
    np.testing.assert_array_equal(np.concatenate(pieces, axis=1), whole)


def test_a_shorter_text_of_a_batch_attends_as_if_alone() -> None:
    """onnxruntime's shares do not add up to one there."""
    r = np.random.default_rng(2)
    rows, columns = np.array([[0, 1, 3]], INT), np.array([[0, 0, 1]], INT)
    query = [normal(r, 2, 1, 4 * 16), normal(r, 2, 1, 16), normal(r, 2, 1, 16)]
    past = [normal(r, 2, 1, 32, 16) for _ in range(2)]
    attributes = {"num_heads": 4, "kv_num_heads": 1, "sparse_block_size": 16}

    def attended(only: slice, total: int, *totals: int) -> np.ndarray:
        tensors = [x[only] for x in (*query, *past)]
        inputs: Inputs = [*tensors, rows, columns, np.array([total], INT), np.array(totals, INT)]
        made = model("SparseAttention", inputs, attributes, 3)
        (found, *_) = ephost.InferenceSession(made.SerializeToString()).run(None, fed(inputs))
        return found

    together = attended(slice(2), 20, 20, 7)
    np.testing.assert_allclose(attended(slice(1, 2), 7, 7), together[1:], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(attended(slice(1), 20, 20), together[:1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "said"),
    [
        (
            "BranchwiseRMSNorm",
            [np.ones((2, 7), FLOAT)],
            {"num_branches": 3},
            "does not consist of 3 branches",
        ),
        (
            "HyperConnectionPreMix",
            [np.ones((2, 3, 4), FLOAT), np.ones((5, 3), FLOAT)],
            {},
            r"pre_mix of shape \[5, 3\] does not fit",
        ),
        (
            "NGramHashMapping",
            [np.ones((1, 3), LONG), np.ones(1, LONG), np.ones(1, LONG)],
            {"pad_id": 0, "max_ngram_size": 2, "n_head_per_ngram": 1},
            "need 2 multipliers and 1 vocab_sizes, got 1 and 1",
        ),
        (
            "NGramHashMapping",
            [np.ones((1, 3), LONG), np.ones(2, LONG), np.zeros(1, LONG)],
            {"pad_id": 0, "max_ngram_size": 2, "n_head_per_ngram": 1},
            "vocab_sizes must be over 0",
        ),
        (
            "VarlenNGramHashMapping",
            [np.ones(3, LONG), np.ones(2, LONG), np.ones(1, LONG), np.array([0, 2], INT)],
            {"pad_id": 0, "max_ngram_size": 2, "n_head_per_ngram": 1},
            r"must grow from 0 to 3, got \[0, 2\]",
        ),
        (
            "BifurcationDetector",
            [np.ones(3, LONG), np.ones(3, LONG), np.array([1], LONG), np.ones(5, LONG)],
            {},
            "5 guessed tokens for 3 of the source from 1 on",
        ),
        (
            "WordConvEmbedding",
            [np.ones((2, 2), INT), np.ones((4, 1, 3, 3), FLOAT), np.ones(4, FLOAT), np.ones((9, 3), FLOAT)],
            {},
            "do not fit together",
        ),
        (
            "WordConvEmbedding",
            [np.ones((2, 3), INT), np.ones((4, 1, 3, 3), FLOAT), np.ones(1, FLOAT), np.ones((9, 3), FLOAT)],
            {},
            r"a bias of shape \[1\] for 4 filters",
        ),
        (
            "BranchwiseRMSNorm",
            [np.ones((2, 6), FLOAT), np.ones(1, FLOAT)],
            {"num_branches": 2},
            r"a scale of shape \[1\] for 2 branches of 3 features",
        ),
        (
            "HyperConnectionPostMix",
            [
                np.ones((2, 3, 4), FLOAT),
                np.ones((2, 4), FLOAT),
                np.ones((2, 3), FLOAT),
                np.ones((1, 1), FLOAT),
            ],
            {},
            r"stream_mix of shape \[1, 1\] does not fit",
        ),
        (
            "EngramGate",
            [
                *[np.ones((2, 5, 3, 4), FLOAT)] * 2,
                np.ones((2, 5, 4), FLOAT),
                np.ones(1, FLOAT),
                np.ones((3, 4), FLOAT),
            ],
            {},
            r"key_norm_scale has shape \[1\] in place of \[3, 4\]",
        ),
        (
            "HyperConnectionPostMix",
            [np.ones((2, 3, 4), FLOAT), np.ones((1, 1), FLOAT), np.ones((2, 3), FLOAT)],
            {},
            r"block_output of shape \[1, 1\] does not fit",
        ),
        (
            "EngramGate",
            [*[np.ones((5, 3, 4), FLOAT)] * 2, np.ones((5, 4), FLOAT), *[np.ones((3, 4), FLOAT)] * 2],
            {},
            r"key has shape \[5, 3, 4\]",
        ),
        (
            "BifurcationDetector",
            [np.ones(3, LONG), np.ones(3, LONG), np.array([0, 1], LONG)],
            {},
            "prev_suffix_match_idx has 2 elements",
        ),
        (
            "MaxpoolWithMask",
            [np.ones((1, 2, 4, 4), FLOAT), np.ones((1, 1, 4, 16), INT)],
            {"kernel_shape": [2, 2]},
            r"a mask of shape \[1, 1, 4, 16\]",
        ),
        (
            "ConvTransposeWithDynamicPads",
            [np.ones((1, 4, 5, 6), FLOAT), np.ones((4, 3, 3, 2), FLOAT), np.array([1, 0, 0, -1])],
            {},
            r"pads of \[1, 0, 0, -1\]",
        ),
        (
            "ConvTransposeWithDynamicPads",
            [
                np.ones((1, 4, 5, 6), FLOAT),
                np.ones((4, 3, 3, 2), FLOAT),
                np.zeros(4, LONG),
                np.ones((1, 1), FLOAT),
            ],
            {},
            r"a bias of shape \[1, 1\] for 3 channels",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    op_type: str, inputs: Inputs, attributes: dict[str, Any], said: str
) -> None:
    session = ephost.InferenceSession(model(op_type, inputs, attributes, 1).SerializeToString())
    with pytest.raises(Exception, match=f"'n'.*{said}"):
        session.run(None, fed(inputs))


def test_the_page_names_every_operator_of_onnxruntimes_cpu() -> None:
    """Those of com.microsoft, each with what takes it."""
    from onnxruntime.capi import onnxruntime_pybind11_state as bound

    page = (Path(__file__).parents[2] / "docs" / "cpu-operators.md").read_text()
    kernels = {
        (kernel.domain, kernel.op_name)
        for kernel in bound.get_all_opkernel_def()
        if kernel.provider == "CPUExecutionProvider"
    }
    theirs = {name for domain, name in kernels if domain == "com.microsoft"} - {
        "SampleOp"
    }  # that is an example
    named = set(re.findall(r"`(\w+\*?)`", page))
    families = tuple(name.removesuffix("*") for name in named if name.endswith("*"))
    assert {name for name in theirs if name not in named and not name.startswith(families)} == set()
    section = page[page.index("## Operators of onnxruntime's CPU that are not here") :]
    listed = section[: section.index("`MatMulFpQ4`")]
    for name in re.findall(r"`(\w+)`", listed):
        assert find_operator("com.microsoft", name, 1, ()) is not None, name
