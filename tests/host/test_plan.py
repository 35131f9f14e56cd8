"""The arena: blocks that live at the same time share no byte, and what is given back is used again."""

from __future__ import annotations

import numpy as np
import pytest
from ephost.model.graph import tensor_bytes, tensor_type
from ephost.model.planning.arena import Arena, round_up
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper


def test_blocks_lie_one_after_the_other() -> None:
    arena = Arena()
    assert [arena.take(64), arena.take(128), arena.take(64)] == [0, 64, 192]
    assert arena.size == 256


def test_the_smallest_gap_that_is_large_enough_is_taken() -> None:
    arena = Arena()
    offsets = [arena.take(size) for size in (256, 64, 128, 64, 192, 64)]
    for at in (0, 2, 4):
        arena.give(offsets[at], (256, 64, 128, 64, 192, 64)[at])
    assert arena.take(128) == offsets[2]  # fits exactly
    assert arena.take(128) == offsets[4]  # 192 wastes less than 256
    assert arena.take(64) == offsets[4] + 128  # what was left of it
    assert arena.take(256) == offsets[0]
    assert arena.size == 768


def test_neighbours_given_back_become_one_gap() -> None:
    for order in ([0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2]):
        arena = Arena()
        offsets = [arena.take(64) for _ in range(4)]
        for at in order:
            arena.give(offsets[at], 64)
        assert arena.take(192) == 0
        assert arena.size == 256


def test_a_gap_at_the_end_grows() -> None:
    arena = Arena()
    arena.take(64)
    arena.give(arena.take(64), 64)
    assert arena.take(256) == 64
    assert arena.size == 320


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 6)), max_size=60))
def test_live_blocks_never_overlap_and_all_that_is_free_is_one_gap_in_the_end(
    requests: list[tuple[int, int]],
) -> None:
    arena = Arena()
    live: list[tuple[int, int]] = []
    for wanted, drop in requests:
        size = round_up(wanted)
        offset = arena.take(size)
        assert offset % 64 == 0
        assert offset + size <= arena.size
        assert all(offset + size <= o or o + s <= offset for o, s in live)
        live.append((offset, size))
        if drop < len(live):
            arena.give(*live.pop(drop))
    for block in live:
        arena.give(*block)
    if arena.size:
        assert arena.take(arena.size) == 0


@pytest.mark.parametrize(("nbytes", "block"), [(0, 64), (1, 64), (64, 64), (65, 128), (4096, 4096)])
def test_blocks_are_multiples_of_a_cache_line(nbytes: int, block: int) -> None:
    assert round_up(nbytes) == block


def test_bytes_are_known_where_the_shape_is() -> None:
    assert tensor_bytes(tensor_type(TensorProto.FLOAT, (2, 3))) == 24
    assert tensor_bytes(tensor_type(TensorProto.INT64, ())) == np.dtype(np.int64).itemsize
    assert tensor_bytes(tensor_type(TensorProto.FLOAT, (0, 3))) == 0
    assert tensor_bytes(tensor_type(TensorProto.FLOAT, ("n", 3))) is None
    assert tensor_bytes(tensor_type(TensorProto.FLOAT, None)) is None
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    assert tensor_bytes(sequence) is None
