"""Models in ONNX Runtime's own format, ``.ort``: a FlatBuffer, which is read into ONNX's messages.

What it says beyond them is for onnxruntime's kernels and optimizers alone, and is passed over. The numbers of
the fields are those of ``onnxruntime/core/flatbuffers/schema/ort.fbs``. The ``flatbuffers`` package has no
verifier in Python, and would read whatever a file that is damaged points to; the little of the format that
reading takes is here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from ephost.errors import InvalidProtobuf, NotImplemented
from ephost.messages import (
    AttributeProto,
    Dimension,
    ElementTypeProto,
    GraphProto,
    ListedInfo,
    MapTypeProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    SparseTensorProto,
    StringStringEntryProto,
    TensorProto,
    TensorShapeProto,
    TensorTypeProto,
    TypeProto,
    ValueInfoProto,
)

_VERSIONS = frozenset("123456")
_TENSOR, _SEQUENCE, _MAP = 1, 2, 3  # which type a TypeInfo holds
_VALUE, _PARAMETER = 1, 2  # what a dimension says
_SMALLEST_VIEW = 1 << 12  # bytes; what is smaller is copied


def read(data: Any, described: str) -> ModelProto:
    """The model that bytes hold. Raw data of large tensors are views of them.

    Args:
        data: bytes, or a file that is mapped.
        described: what they are, for errors.

    Raises:
        InvalidProtobuf: they are cut short or damaged.
        NotImplemented: the format is of another version than is known, or weights are in another file.
    """
    try:
        session = _Table.root(data)
        version = session.text(0)
        if version not in _VERSIONS:
            raise NotImplemented(
                f"{described} is of version '{version}' of ONNX Runtime's format: 1 to 6 are known"
            )
        return _model(_there(session, 1))
    except (_Damaged, RecursionError, struct.error) as error:
        raise InvalidProtobuf(
            f"{described} is a model in ONNX Runtime's format, and cut short or damaged ({error})"
        ) from None


class _Damaged(Exception):
    """What cannot be in such a buffer."""


class _Bytes:
    """A buffer. What is read of it may not be more than it is: parts do not overlap, and whoever made them do
    could have a small file read without an end.
    """

    def __init__(self, data: Any) -> None:
        self.data = memoryview(data)
        self.left = len(self.data)
        self._texts: dict[int, str] = {}  # by where they begin: several may read one

    def number(self, kind: str, at: int) -> Any:
        if at < 0:
            raise _Damaged("an offset leads out of it")
        return struct.unpack_from(kind, self.data, at)[0]

    def part(self, at: int, size: int) -> memoryview:
        self.left -= size
        if at < 0 or at + size > len(self.data) or self.left < 0:
            raise _Damaged("what it says of its parts is more than it has")
        return self.data[at : at + size]

    def vector(self, at: int, size: int) -> tuple[int, memoryview]:
        """How many elements of this size there are, and all of them."""
        count: int = self.number("<I", at)
        return count, self.part(at + 4, count * size)

    def text(self, at: int) -> str:
        found = self._texts.get(at)
        if found is None:
            found = bytes(self.vector(at, 1)[1]).decode("utf-8", "surrogateescape")
            self._texts[at] = found
        return found


class _Table:
    """A table of the buffer, whose fields are asked for by number."""

    __slots__ = ("_at", "_of", "_size", "_slots")

    def __init__(self, of: _Bytes, at: int) -> None:
        of.part(at, 4)
        self._of, self._at = of, at
        self._slots: int = at - of.number("<i", at)
        self._size: int = of.number("<H", self._slots)

    @classmethod
    def root(cls, data: Any) -> _Table:
        of = _Bytes(data)
        return cls(of, of.number("<I", 0))

    def _place(self, field: int) -> int:
        """Where a field is; 0 where it is left out."""
        slot = 4 + 2 * field
        offset: int = self._of.number("<H", self._slots + slot) if slot + 2 <= self._size else 0
        return self._at + offset if offset else 0

    def _target(self, field: int) -> int:
        place = self._place(field)
        return place + self._of.number("<I", place) if place else 0

    def number(self, field: int, kind: str, otherwise: Any = 0) -> Any:
        place = self._place(field)
        return self._of.number(kind, place) if place else otherwise

    def text(self, field: int) -> str:
        target = self._target(field)
        return self._of.text(target) if target else ""

    def table(self, field: int) -> _Table | None:
        target = self._target(field)
        return _Table(self._of, target) if target else None

    def content(self, field: int) -> tuple[int, memoryview]:
        """Where a vector of bytes begins in the buffer, and its bytes."""
        target = self._target(field)
        return (target + 4, self._of.vector(target, 1)[1]) if target else (0, memoryview(b""))

    def numbers(self, field: int, kind: str) -> list[Any]:
        """A vector of numbers of this kind."""
        target = self._target(field)
        if not target:
            return []
        count, content = self._of.vector(target, struct.calcsize(f"<{kind}"))
        return list(struct.unpack(f"<{count}{kind}", content))

    def _targets(self, field: int) -> Iterator[int]:
        target = self._target(field)
        for at, offset in enumerate(self.numbers(field, "I")):
            yield target + 4 * (at + 1) + offset

    def texts(self, field: int) -> list[str]:
        return [self._of.text(target) for target in self._targets(field)]

    def tables(self, field: int) -> Iterator[_Table]:
        for target in self._targets(field):
            yield _Table(self._of, target)


def _model(table: _Table) -> ModelProto:
    return ModelProto(
        ir_version=table.number(0, "<q"),
        opset_import=[
            OperatorSetIdProto(domain=entry.text(0), version=entry.number(1, "<q"))
            for entry in table.tables(1)
        ],
        producer_name=table.text(2),
        producer_version=table.text(3),
        domain=table.text(4),
        model_version=table.number(5, "<q"),
        doc_string=table.text(6),
        graph=_graph(_there(table, 7)).with_fields(doc_string=table.text(8)),
        metadata_props=[
            StringStringEntryProto(key=entry.text(0), value=entry.text(1)) for entry in table.tables(9)
        ],
    )


def _graph(table: _Table) -> GraphProto:
    types = {entry.text(0): _type(entry.table(2)) for entry in table.tables(1)}
    ends = [
        [ValueInfoProto(name=name, type=types.pop(name, TypeProto())) for name in table.texts(field)]
        for field in (5, 6)
    ]
    return GraphProto(
        name="",
        initializer=[_tensor(entry) for entry in table.tables(0)],
        node=[_node(entry) for entry in table.tables(2)],
        input=ends[0],
        output=ends[1],
        value_info=[
            ListedInfo(name=name, type=kind.SerializeToString()) for name, kind in types.items() if name
        ],
        sparse_initializer=[_sparse(entry) for entry in table.tables(7)],
    )


def _node(table: _Table) -> NodeProto:
    return NodeProto(
        name=table.text(0),
        domain=table.text(2),
        op_type=table.text(5),
        input=table.texts(8),
        output=table.texts(9),
        attribute=[_attribute(entry) for entry in table.tables(10)],
    )


def _attribute(table: _Table) -> AttributeProto:
    made = AttributeProto(name=table.text(0), type=table.number(2, "<i"))
    kind = made.type
    if kind == AttributeProto.FLOAT:
        made.f = table.number(3, "<f")
    elif kind == AttributeProto.INT:
        made.i = table.number(4, "<q")
    elif kind == AttributeProto.STRING:
        made.s = _encoded(table.text(5))
    elif kind == AttributeProto.TENSOR:
        made.t = _tensor(_there(table, 6))
    elif kind == AttributeProto.GRAPH:
        made.g = _graph(_there(table, 7))
    elif kind == AttributeProto.FLOATS:
        made.floats = table.numbers(8, "f")
    elif kind == AttributeProto.INTS:
        made.ints = table.numbers(9, "q")
    elif kind == AttributeProto.STRINGS:
        made.strings = [_encoded(text) for text in table.texts(10)]
    elif kind == AttributeProto.TENSORS:
        made.tensors = [_tensor(entry) for entry in table.tables(11)]
    elif kind == AttributeProto.GRAPHS:
        made.graphs = [_graph(entry) for entry in table.tables(12)]
    else:
        raise _Damaged(f"the attribute '{made.name}' is of type {kind}")
    return made


def _there(table: _Table, field: int) -> _Table:
    found = table.table(field)
    if found is None:
        raise _Damaged("a part of it is missing")
    return found


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _tensor(table: _Table) -> TensorProto:
    made = TensorProto(name=table.text(0), dims=table.numbers(2, "q"), data_type=table.number(3, "<i"))
    if table.number(6, "<q", -1) >= 0:
        raise NotImplemented(f"the tensor '{made.name}' is in a file of a training checkpoint")
    if made.data_type == TensorProto.STRING:
        made.string_data = [_encoded(text) for text in table.texts(5)]
    else:
        place, content = table.content(4)
        if len(content) < _SMALLEST_VIEW:
            made.raw_data = bytes(content)
        else:
            made.raw_data, made.place = content, place
    return made


def _sparse(table: _Table) -> SparseTensorProto:
    return SparseTensorProto(
        values=_tensor(_there(table, 0)), indices=_tensor(_there(table, 1)), dims=table.numbers(2, "q")
    )


def _type(table: _Table | None) -> TypeProto:
    if table is None:
        return TypeProto()
    made = TypeProto(denotation=table.text(0))
    kind = table.number(1, "<B")
    if kind == 0:
        return made
    value = _there(table, 2)
    if kind == _TENSOR:
        made.tensor_type = TensorTypeProto(elem_type=value.number(0, "<i"))
        if (shape := value.table(1)) is not None:
            dims = [_dimension(entry) for entry in shape.tables(0)]
            made.tensor_type.shape = TensorShapeProto(dim=dims)
    elif kind == _SEQUENCE:
        made.sequence_type = ElementTypeProto(elem_type=_type(value.table(0)))
    elif kind == _MAP:
        made.map_type = MapTypeProto(key_type=value.number(0, "<i"), value_type=_type(value.table(1)))
    else:
        raise _Damaged(f"a value is of a kind {kind} that there is not")
    return made


def _dimension(table: _Table) -> Dimension:
    made = Dimension(denotation=table.text(1))
    value = table.table(0)
    says = value.number(0, "<b") if value is not None else 0
    if value is not None and says == _VALUE:
        made.dim_value = value.number(1, "<q")
    elif value is not None and says == _PARAMETER:
        made.dim_param = value.text(2)
    return made
