"""Values on their way to another process: what is packed comes back, and nothing that comes is trusted."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from native_objects import Refused, api, check, cpu_tensor, ffi, lib, out, read_strings, string_tensor, view

FLOAT = lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT
STRING = lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING


def packed(value: Any) -> list[int]:
    count = lib.ephost_packed_words(value)
    words = ffi.new("uint64_t[]", count)
    assert lib.ephost_pack_value(words, value) == words + count
    return list(words)


def unpacked(words: list[int]) -> Any:
    """The value, to be released; raises Refused."""
    value = lib.ephost_value_new()
    try:
        check(lib.ephost_unpack_value(ffi.new("uint64_t[]", words), len(words), value))
    except Refused:
        assert view(value).type == lib.ONNX_TYPE_UNKNOWN
        api.ReleaseValue(value)
        raise
    return value


def sequence_of(*items: Any) -> Any:
    made = out(
        "OrtValue*", api.CreateValue, ffi.new("OrtValue*[]", items), len(items), lib.ONNX_TYPE_SEQUENCE
    )
    for item in items:
        api.ReleaseValue(item)
    return made


def numbers(*shape: int) -> Any:
    value = cpu_tensor(shape)
    data = np.arange(np.prod(shape), dtype=np.float32).tobytes()
    ffi.memmove(view(value).data, data, len(data))
    return value


@pytest.mark.parametrize("texts", [[], [b""], [b"a", b"b\0c", b"", b"x" * 4099]], ids=len)
def test_texts_come_back(texts: list[bytes]) -> None:
    value = string_tensor(texts)
    again = unpacked(packed(value))
    assert read_strings(again) == texts
    api.ReleaseValue(value)
    api.ReleaseValue(again)


def test_sequences_come_back() -> None:
    value = sequence_of(numbers(2, 3), numbers(0, 7), numbers())
    words = packed(value)
    again = unpacked(words)
    assert view(again).item_count == 3
    assert packed(again) == words
    api.ReleaseValue(value)
    api.ReleaseValue(again)


def test_an_optional_that_holds_nothing_comes_back() -> None:
    value = out("OrtValue*", lambda o: lib.ephost_value_empty_optional(FLOAT, o))
    again = unpacked(packed(value))
    assert (view(again).type, view(again).element_type) == (lib.ONNX_TYPE_OPTIONAL, FLOAT)
    api.ReleaseValue(value)
    api.ReleaseValue(again)


@pytest.mark.parametrize(
    "words",
    [
        [],
        [lib.ONNX_TYPE_TENSOR],
        [lib.ONNX_TYPE_UNKNOWN, FLOAT],
        [77, FLOAT, 0],
        [lib.ONNX_TYPE_TENSOR, 1 << 40, 0, 0],
        [lib.ONNX_TYPE_TENSOR, FLOAT, 1 << 60, 1],
        [lib.ONNX_TYPE_TENSOR, FLOAT, 1, 1 << 62, 0],
        [lib.ONNX_TYPE_TENSOR, FLOAT, 1, (1 << 64) - 1, 0],
        [lib.ONNX_TYPE_TENSOR, FLOAT, 1, 5, 0],
        [lib.ONNX_TYPE_TENSOR, STRING, 1, 1 << 50],
        [lib.ONNX_TYPE_TENSOR, STRING, 1, 2, 3, (1 << 64) - 2, 0],
        [lib.ONNX_TYPE_TENSOR, STRING, 1, 1, 9, 0],
        [lib.ONNX_TYPE_SEQUENCE, FLOAT, 0, 1 << 61],
        [lib.ONNX_TYPE_SEQUENCE, FLOAT, 1, 0],
        [lib.ONNX_TYPE_MAP, FLOAT, 0, 0],
        [lib.ONNX_TYPE_SEQUENCE, FLOAT, 0, 1] * 40,
    ],
    ids=lambda words: "-".join(map(str, words[:6])),
)
def test_words_that_are_no_value_are_refused(words: list[int]) -> None:
    with pytest.raises(Refused, match="damaged"):
        unpacked(words)


def test_damaged_words_are_refused_or_are_another_value() -> None:
    value = sequence_of(numbers(2, 3), numbers(5))
    texts = string_tensor([b"one", b"", b"three"])
    rng = random.Random(7)
    for whole in (packed(value), packed(texts)):
        for _ in range(2000):
            words = whole[: rng.randint(0, len(whole))] if rng.random() < 0.3 else list(whole)
            for _ in range(rng.randint(0, 3)):
                if words:
                    words[rng.randrange(len(words))] = rng.choice(
                        [0, 1, 2, 3, 8, 1 << 31, 1 << 63, 2**64 - 1]
                    )
            try:
                api.ReleaseValue(unpacked(words))
            except Refused as refused:
                assert "damaged" in str(refused)
    api.ReleaseValue(value)
    api.ReleaseValue(texts)


INT32, INT64 = lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64


@pytest.mark.parametrize(
    ("keys", "values", "is_one"), [(INT64, FLOAT, True), (INT32, FLOAT, False), (INT64, INT32, False)]
)
def test_maps_that_are_zipped_have_the_types_that_those_of_the_host_have(
    keys: int, values: int, is_one: bool
) -> None:
    tensor = lib.ONNX_TYPE_TENSOR
    words = [lib.ONNX_TYPE_SEQUENCE, 0, 1, 2, tensor, keys, 1, 1, 5, tensor, values, 2, 1, 1, 0]
    if is_one:
        api.ReleaseValue(unpacked(words))
        return
    with pytest.raises(Refused, match="damaged"):
        unpacked(words)
