"""Large tensors of a serialised model, left where they are.

Parsing copies a model's bytes twice: into the message, and out of it again for each tensor. Here the raw data
of the main graph's large initializers is cut out before: what is parsed refers to it by its place in the file
or buffer, as external data does, and the tensor is a view of it.

A protobuf message is a row of fields, each with a tag (its number and wire type) and a value. Walking the
three levels model, graph and initializer takes about a microsecond for each node and initializer.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx

INSIDE = "\0inside"  # the location of data that is in the model itself: no file can have that name
SMALLEST_MODEL = 1 << 20  # bytes; what is smaller is parsed as it is
_SMALLEST_TENSOR = 1 << 12
_MOST_FIELDS = 1 << 17  # of a model beside its graph: what has more is no model, or gains nothing
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIELD = {
    message.DESCRIPTOR.name: {field.name: field.number for field in message.DESCRIPTOR.fields}
    for message in (onnx.ModelProto, onnx.GraphProto, onnx.TensorProto)
}
_GRAPH = _FIELD["ModelProto"]["graph"]
_INITIALIZER = _FIELD["GraphProto"]["initializer"]
_RAW_DATA = _FIELD["TensorProto"]["raw_data"]
_DATA_LOCATION = _FIELD["TensorProto"]["data_location"]


class _Malformed(ValueError):
    pass


def without_large_tensors(data: memoryview) -> bytes | None:
    """The model without the raw data of its large initializers.

    Args:
        data: a serialised ``ModelProto``, as bytes.

    Returns:
        A serialised ``ModelProto`` in which each of them is external data at :data:`INSIDE`, with its offset
        in ``data`` and its length. None when there is nothing to gain, or the bytes are no message: parsing
        them will say what is wrong.
    """
    pieces: list[bytes | memoryview] = []
    found = 0
    try:
        for count, (number, wire, start, begin, end) in enumerate(_fields(data, 0, len(data))):
            if count == _MOST_FIELDS:
                return None
            if number == _GRAPH and wire == _BYTES:
                graph, cut = _graph(data, begin, end)
                found += cut
                pieces.append(_tag(number) + _varint(sum(map(len, graph))))
                pieces.extend(graph)
            else:
                pieces.append(data[start:end])
    except (_Malformed, IndexError):
        return None
    return b"".join(pieces) if found else None


def _graph(data: memoryview, begin: int, end: int) -> tuple[list[bytes | memoryview], int]:
    pieces: list[bytes | memoryview] = []
    copied = begin  # all before it is in `pieces`
    found = 0
    for number, wire, start, at, stop in _fields(data, begin, end):
        if number != _INITIALIZER or wire != _BYTES or stop - at < _SMALLEST_TENSOR:
            continue
        tensor = _tensor(data, at, stop)
        if tensor is not None:
            found += 1
            pieces.append(data[copied:start])
            pieces.append(_tag(number) + _varint(len(tensor)) + tensor)
            copied = stop
    pieces.append(data[copied:end])
    return pieces, found


def _tensor(data: memoryview, begin: int, end: int) -> bytes | None:
    """An initializer without its raw data; None when that is small, or not in the message."""
    kept: list[memoryview] = []
    raw: tuple[int, int] | None = None
    for number, wire, start, at, stop in _fields(data, begin, end):
        if number == _DATA_LOCATION:
            return None
        if number == _RAW_DATA and wire == _BYTES:
            raw = at, stop
        else:
            kept.append(data[start:stop])
    if raw is None or raw[1] - raw[0] < _SMALLEST_TENSOR:
        return None
    reference = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", INSIDE), ("offset", raw[0]), ("length", raw[1] - raw[0])):
        reference.external_data.add(key=key, value=str(value))
    # Of two messages in a row, a parser merges the fields.
    tail: bytes = reference.SerializeToString()
    return b"".join(kept) + tail


def _fields(data: memoryview, at: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(number, wire type, start of the tag, begin and end of the value) of each field."""
    while at < end:
        start = at
        tag = data[at]
        at += 1
        if tag & 0x80:
            tag, at = _read_varint(data, start)
        wire = tag & 7
        if tag < 8:
            raise _Malformed  # there is no field 0
        if wire == _BYTES:
            length = data[at]
            at += 1
            if length & 0x80:
                length, at = _read_varint(data, at - 1)
            stop = at + length
        elif wire == _VARINT:
            stop = _read_varint(data, at)[1]
        elif wire == _FIXED64:
            stop = at + 8
        elif wire == _FIXED32:
            stop = at + 4
        else:
            raise _Malformed
        if stop > end:
            raise _Malformed
        yield tag >> 3, wire, start, at, stop
        at = stop


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise _Malformed


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _tag(number: int) -> bytes:
    return _varint(number << 3 | _BYTES)
