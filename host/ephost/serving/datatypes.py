"""The protocol's tensor datatypes, and tensors as bytes and as JSON.

The binary form is row-major and little-endian, without padding; an element of BYTES is its length in four
bytes, and then its bytes. Source: the Open Inference Protocol v2 and its extension for binary tensors.
"""

from __future__ import annotations

import itertools
import json
import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ephost.serving.errors import BadRequest

MAX_RANK = 32  # of a tensor on its way through numpy
_LENGTH = struct.Struct("<I")
# Elements that are written as JSON in one call: no other thread interrupts it, and the event loop waits.
_AT_ONCE = 1 << 14

# Names of the protocol, types as sessions write them, and dtypes of arrays.
_TABLE: tuple[tuple[str, str, Any], ...] = (
    ("BOOL", "tensor(bool)", np.bool_),
    ("UINT8", "tensor(uint8)", np.uint8),
    ("UINT16", "tensor(uint16)", np.uint16),
    ("UINT32", "tensor(uint32)", np.uint32),
    ("UINT64", "tensor(uint64)", np.uint64),
    ("INT8", "tensor(int8)", np.int8),
    ("INT16", "tensor(int16)", np.int16),
    ("INT32", "tensor(int32)", np.int32),
    ("INT64", "tensor(int64)", np.int64),
    ("FP16", "tensor(float16)", np.float16),
    ("FP32", "tensor(float)", np.float32),
    ("FP64", "tensor(double)", np.float64),
    ("BF16", "tensor(bfloat16)", ml_dtypes.bfloat16),
    ("BYTES", "tensor(string)", object),
)
DATATYPES: dict[str, np.dtype[Any]] = {name: np.dtype(dtype) for name, _, dtype in _TABLE}
OF_ONNX: dict[str, str] = {onnx: name for name, onnx, _ in _TABLE}
# What JSON has no agreed form for.
BINARY_ONLY = frozenset({"FP16", "BF16"})
_JSON_KINDS: dict[str, frozenset[type]] = {
    "b": frozenset({bool}),
    "i": frozenset({int}),
    "u": frozenset({int}),
    "f": frozenset({int, float}),
    "O": frozenset({str}),
}
_JSON_NAMES = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    dict: "object",
    list: "array",
}


def check_shape(name: str, shape: Any) -> tuple[int, ...]:
    """A shape as a request gives it.

    Raises:
        BadRequest: it is no list of numbers from 0 on, or has more than :data:`MAX_RANK` of them.
    """
    if not isinstance(shape, Iterable) or isinstance(shape, (str, bytes)):
        raise BadRequest(f"the shape of input '{name}' is no list of numbers")
    dims = tuple(shape)
    if len(dims) > MAX_RANK:
        raise BadRequest(f"input '{name}' has {len(dims)} dimensions; at most {MAX_RANK} are taken")
    for dim in dims:
        if type(dim) is not int or not 0 <= dim < 1 << 63:
            raise BadRequest(f"the shape of input '{name}' has {dim!r}, which is no size")
    return dims


def from_bytes(name: str, datatype: str, shape: tuple[int, ...], data: bytes | memoryview) -> np.ndarray:
    """A tensor from its binary form; it borrows ``data`` where that is aligned.

    Raises:
        BadRequest: the bytes are not those of a tensor of this datatype and shape.
    """
    if datatype == "BYTES":
        return _shaped(name, _strings(name, math.prod(shape), data), shape)
    dtype = DATATYPES[datatype]
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise BadRequest(
            f"input '{name}' of {datatype} {list(shape)} has {expected} bytes, but {len(data)} were sent"
        )
    if datatype == "BOOL":
        raw = np.frombuffer(data, np.uint8)
        if raw.size and raw.max() > 1:
            raise BadRequest(f"input '{name}' of BOOL has the byte {raw.max()}; 0 and 1 are taken")
    array = np.frombuffer(data, dtype)
    return _shaped(name, array if array.flags.aligned else array.copy(), shape)


def _shaped(name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    try:
        return array.reshape(shape)
    except (ValueError, OverflowError) as error:  # [0, 2**62]: numpy has limits of its own
        raise BadRequest(f"input '{name}' cannot have the shape {list(shape)}: {error}") from None


def _strings(name: str, count: int, data: bytes | memoryview) -> np.ndarray:
    view = memoryview(data)
    if count * _LENGTH.size > len(view):
        raise BadRequest(f"input '{name}' has {count} strings, but only {len(view)} bytes were sent")
    array = np.empty(count, dtype=object)
    at = 0
    for index in range(count):
        if at + _LENGTH.size > len(view):
            raise BadRequest(f"string {index} of input '{name}' lies beyond the bytes that were sent")
        (length,) = _LENGTH.unpack_from(view, at)
        at += _LENGTH.size
        if length > len(view) - at:
            raise BadRequest(
                f"string {index} of input '{name}' says that it has {length} bytes; {len(view) - at} are left"
            )
        array[index] = _text(name, index, bytes(view[at : at + length]))
        at += length
    if at != len(view):
        raise BadRequest(f"input '{name}' has {len(view) - at} bytes behind its last string")
    return array


def _text(name: str, index: int, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"string {index} of input '{name}' is not UTF-8: {error}") from None


def from_texts(name: str, shape: tuple[int, ...], items: Sequence[bytes]) -> np.ndarray:
    """A tensor of strings from its elements.

    Raises:
        BadRequest: they are not as many as the shape says, or no UTF-8.
    """
    if len(items) != math.prod(shape):
        raise _count(name, "BYTES", shape, len(items))
    array = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        array[index] = _text(name, index, item)
    return _shaped(name, array, shape)


def from_numbers(name: str, datatype: str, shape: tuple[int, ...], items: Sequence[Any]) -> np.ndarray:
    """A tensor from Python's numbers or strings, in row-major order.

    Raises:
        BadRequest: they are not as many as the shape says, or not of the datatype.
    """
    if len(items) != math.prod(shape):
        raise _count(name, datatype, shape, len(items))
    dtype = DATATYPES[datatype]
    kinds = _JSON_KINDS[dtype.kind]
    if wrong := {type(item) for item in items} - kinds:
        found = ", ".join(sorted(_JSON_NAMES.get(kind, kind.__name__) for kind in wrong))
        raise BadRequest(f"input '{name}' of {datatype} has elements of the type {found}")
    try:
        with np.errstate(over="ignore"):
            array = _integers(items, dtype) if dtype.kind in "iu" else np.array(items, dtype=dtype)
    except (OverflowError, ValueError, TypeError) as error:
        raise BadRequest(f"input '{name}' of {datatype}: {error}") from None
    return _shaped(name, array, shape)


def _integers(items: Sequence[Any], dtype: np.dtype[Any]) -> np.ndarray:
    """Integers as an array. numpy would take those of protobuf's lists modulo the type's range, and before
    2.0 Python's, too.

    Raises:
        OverflowError: one is beyond the range.
    """
    limits = np.iinfo(dtype)
    if dtype == np.uint64:
        low, high = min(items, default=0), 0
        wide = np.array(items if low >= 0 else [], dtype=dtype)
    else:
        wide = np.array(items, dtype=np.int64)
        low, high = (int(wide.min()), int(wide.max())) if wide.size else (0, 0)
    if low < limits.min or high > limits.max:
        raise OverflowError(f"integer {low if low < limits.min else high} out of bounds for {dtype}")
    return wide.astype(dtype, copy=False)


def from_json(name: str, datatype: str, shape: tuple[int, ...], data: Any) -> np.ndarray:
    """A tensor from JSON's lists, nested as the shape is, or flat.

    Raises:
        BadRequest: they are neither, or their elements are not of the datatype.
    """
    if datatype in BINARY_ONLY:
        raise BadRequest(
            f"input '{name}' is {datatype}, which JSON has no numbers for: send it as binary data"
        )
    if not isinstance(data, list):
        raise BadRequest(f"the data of input '{name}' is no list")
    if data and isinstance(data[0], list):
        for depth, size in enumerate(shape):
            data = [data] if depth == 0 else data
            if not all(isinstance(part, list) and len(part) == size for part in data):
                raise BadRequest(
                    f"the lists of input '{name}' are not nested as its shape {list(shape)} says"
                )
            data = list(itertools.chain.from_iterable(data))
    array = from_numbers(name, datatype, shape, data)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise BadRequest(
            f"input '{name}' of {datatype} has numbers beyond its range: infinities have no form in JSON, "
            "and are sent as binary data"
        )
    return array


def _count(name: str, datatype: str, shape: tuple[int, ...], given: int) -> BadRequest:
    return BadRequest(
        f"input '{name}' of {datatype} {list(shape)} has {math.prod(shape)} elements, but {given} were sent"
    )


def to_bytes(array: np.ndarray) -> bytes:
    """A tensor's binary form."""
    if array.dtype.kind != "O":
        return array.tobytes()
    parts: list[bytes] = []
    for text in array.ravel():
        data = text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape")
        parts += (_LENGTH.pack(len(data)), data)
    return b"".join(parts)


def to_json(name: str, datatype: str, array: np.ndarray) -> str:
    """A tensor's elements as a list of JSON's, flat and in row-major order.

    Raises:
        BadRequest: its datatype has no form in JSON.
        BadRequest: likewise, of its values.
    """
    if datatype in BINARY_ONLY:
        raise BadRequest(f"output '{name}' is {datatype}, which JSON has no numbers for: ask for binary data")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise BadRequest(
            f"output '{name}' has values that are not finite, which JSON cannot say: ask for binary data"
        )
    flat = array.ravel()
    parts = (_listed(flat[at : at + _AT_ONCE]) for at in range(0, flat.size, _AT_ONCE))
    return f"[{','.join(json_text(each)[1:-1] for each in parts)}]"


def _listed(array: np.ndarray) -> list[Any]:
    if array.dtype.kind == "O":
        return [text.decode(errors="replace") if isinstance(text, bytes) else str(text) for text in array]
    items: list[Any] = array.tolist()
    return items


def json_text(value: Any) -> str:
    """A value as the protocol's JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
