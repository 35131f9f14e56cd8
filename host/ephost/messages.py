"""ONNX's messages as plain Python objects, with the names that onnx's own have.

onnx's are protobuf's: to import both takes longer than all else that opens a small model. These are read and
written by the C half (``message_read.c``, ``message_write.c``). They differ from protobuf's in this:

- a repeated field is a list, and what is put into a list or a field is not copied;
- what is read of a message that is not set is a new one of its kind, and writing to it sets nothing;
- repeated numbers of tensors are the bytes of an array, and a thousand and more of an attribute an
  ``array.array``, which has neither list's ``+`` nor is it equal to one;
- text that is not UTF-8 has its bytes as surrogates.

Fields that are not listed here are kept as they are, and written again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from ephost._bindings import call

if TYPE_CHECKING:
    from array import array

# As in host/native/messages.h.
(
    _INT64,
    _INT32,
    _ENUM,
    _FLOAT,
    _STRING,
    _WORD,
    _BYTES,
    _MESSAGE,
    _FLOAT_ARRAY,
    _DOUBLE_ARRAY,
    _INT32_ARRAY,
    _INT64_ARRAY,
) = range(12)
_REPEATED, _EAGER, _VIEWED, _ONEOF, _LONG = 1, 2, 4, 8, 16
_LIST = _REPEATED | _EAGER

DecodeError = ValueError  # what is raised for bytes that are no message


class Message:
    """A message; its fields are attributes, unset ones with their defaults."""

    # name, number, kind, flags, and the class of a message's or the largest value of an enum's
    FIELDS: tuple[tuple[str, int, int, int, Any], ...] = ()
    _codec: Any
    _lists: dict[str, Any]  # a repeated field's kind of container, or a message's class
    _oneof: tuple[str, ...] = ()
    _unknown: bytes | bytearray

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)
        for name, make in self._lists.items():
            if make is list and name not in fields:
                self.__dict__[name] = []

    def __getattr__(self, name: str) -> Any:
        make = self._lists.get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        made = make()
        if make is list:
            self.__dict__[name] = made
        return made

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._set_fields() == other._set_fields()

    __hash__ = None  # type: ignore[assignment]

    def _set_fields(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if value != [] and name != "place"}

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._set_fields().items())
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> Any:
        return type(self).FromString, (self.SerializeToString(),)

    def HasField(self, name: str) -> bool:  # noqa: N802
        """Whether a field that is not repeated is set."""
        return name in self.__dict__

    def ClearField(self, name: str) -> None:  # noqa: N802
        """Unset a field."""
        self.__dict__.pop(name, None)

    def WhichOneof(self, group: str) -> str | None:  # noqa: N802
        """Which of the fields is set of which one at most can be; no message has two such groups."""
        for name in self._oneof:
            if name in self.__dict__:
                return name
        return None

    def copied(self) -> Self:
        """A message with the same fields, and nothing in common with this one."""
        return self.FromString(self.SerializeToString())

    def with_fields(self, **fields: Any) -> Self:
        """A message with these fields, and of the others what this one has: the same objects."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__, **fields)
        return twin

    def SerializeToString(self) -> bytes:  # noqa: N802
        """The bytes, as protobuf writes them."""
        written: bytes = call.message_write(self._codec, self)
        return written

    @classmethod
    def FromString(cls, data: Any, smallest_view: int = 0) -> Self:  # noqa: N802
        """The message that bytes hold.

        Args:
            data: an object with a buffer.
            smallest_view: if not 0, of initializers and of nodes' tensors raw data of so many bytes and more
                is a view of ``data``, and the attribute ``place`` says where it begins there.

        Raises:
            DecodeError: they hold none.
        """
        message: Self = call.message_read(cls._codec, data, smallest_view)
        return message


class _Enum:
    """Names and numbers of an enum of ONNX's."""

    def __init__(self, **values: int) -> None:
        self._values = values
        self._names = {number: name for name, number in values.items()}

    def Name(self, number: int) -> str:  # noqa: N802
        """The name of a number.

        Raises:
            ValueError: there is none.
        """
        if number not in self._names:
            raise ValueError(f"{number} is no such value")
        return self._names[number]

    def values(self) -> list[int]:
        """All numbers."""
        return list(self._names)


class StringStringEntryProto(Message):
    """A key and its value."""

    key: str = ""
    value: str = ""
    FIELDS = (("key", 1, _STRING, 0, None), ("value", 2, _STRING, 0, None))


class OperatorSetIdProto(Message):
    """An opset."""

    domain: str = ""
    version: int = 0
    FIELDS = (("domain", 1, _WORD, 0, None), ("version", 2, _INT64, 0, None))


class TensorProto(Message):
    """A tensor; see :func:`ephost.tensors.to_array`."""

    DataType = _Enum(
        UNDEFINED=0,
        FLOAT=1,
        UINT8=2,
        INT8=3,
        UINT16=4,
        INT16=5,
        INT32=6,
        INT64=7,
        STRING=8,
        BOOL=9,
        FLOAT16=10,
        DOUBLE=11,
        UINT32=12,
        UINT64=13,
        COMPLEX64=14,
        COMPLEX128=15,
        BFLOAT16=16,
        FLOAT8E4M3FN=17,
        FLOAT8E4M3FNUZ=18,
        FLOAT8E5M2=19,
        FLOAT8E5M2FNUZ=20,
        UINT4=21,
        INT4=22,
        FLOAT4E2M1=23,
        FLOAT8E8M0=24,
        UINT2=25,
        INT2=26,
    )
    UNDEFINED, FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL = range(10)
    FLOAT16, DOUBLE, UINT32, UINT64 = range(10, 14)
    BFLOAT16 = 16
    UINT4, INT4, FLOAT4E2M1 = range(21, 24)
    UINT2, INT2 = range(25, 27)
    EXTERNAL = 1

    dims: list[int]
    data_type: int = 0
    float_data: bytes = b""
    int32_data: bytes = b""
    string_data: list[bytes]
    int64_data: bytes = b""
    name: str = ""
    raw_data: bytes | memoryview = b""
    double_data: bytes = b""
    uint64_data: bytes = b""
    external_data: list[StringStringEntryProto]
    data_location: int = 0
    place: int  # where raw data that is a view begins
    FIELDS = (
        ("dims", 1, _INT64, _LIST, None),
        ("data_type", 2, _INT32, 0, None),
        ("float_data", 4, _FLOAT_ARRAY, 0, None),
        ("int32_data", 5, _INT32_ARRAY, 0, None),
        ("string_data", 6, _BYTES, _REPEATED, None),
        ("int64_data", 7, _INT64_ARRAY, 0, None),
        ("name", 8, _STRING, 0, None),
        ("raw_data", 9, _BYTES, _VIEWED, None),
        ("double_data", 10, _DOUBLE_ARRAY, 0, None),
        ("uint64_data", 11, _INT64_ARRAY, 0, None),
        ("external_data", 13, _MESSAGE, _REPEATED, StringStringEntryProto),
        ("data_location", 14, _ENUM, 0, 1),
    )


class SparseTensorProto(Message):
    """A sparse tensor."""

    values: TensorProto
    indices: TensorProto
    dims: list[int]
    FIELDS = (
        ("values", 1, _MESSAGE, 0, TensorProto),
        ("indices", 2, _MESSAGE, 0, TensorProto),
        ("dims", 3, _INT64, _LIST, None),
    )


class Dimension(Message):
    """A dimension: known, named or neither."""

    dim_value: int = 0
    dim_param: str = ""
    denotation: str = ""
    FIELDS = (
        ("dim_value", 1, _INT64, _ONEOF, None),
        ("dim_param", 2, _WORD, _ONEOF, None),
        ("denotation", 3, _WORD, 0, None),
    )


class TensorShapeProto(Message):
    """A shape."""

    dim: list[Dimension]
    FIELDS = (("dim", 1, _MESSAGE, _LIST, Dimension),)


class TensorTypeProto(Message):
    """The type of a tensor, dense or sparse."""

    elem_type: int = 0
    shape: TensorShapeProto
    FIELDS = (("elem_type", 1, _INT32, 0, None), ("shape", 2, _MESSAGE, 0, TensorShapeProto))


class ElementTypeProto(Message):
    """The type of a sequence, or of what may be missing."""

    elem_type: TypeProto


class MapTypeProto(Message):
    """The type of a map."""

    key_type: int = 0
    value_type: TypeProto


class TypeProto(Message):
    """The type of a value."""

    tensor_type: TensorTypeProto
    sequence_type: ElementTypeProto
    map_type: MapTypeProto
    denotation: str = ""
    sparse_tensor_type: TensorTypeProto
    optional_type: ElementTypeProto
    FIELDS = (
        ("tensor_type", 1, _MESSAGE, _ONEOF, TensorTypeProto),
        ("sequence_type", 4, _MESSAGE, _ONEOF, ElementTypeProto),
        ("map_type", 5, _MESSAGE, _ONEOF, MapTypeProto),
        ("denotation", 6, _WORD, 0, None),
        ("opaque_type", 7, _MESSAGE, _ONEOF, Message),
        ("sparse_tensor_type", 8, _MESSAGE, _ONEOF, TensorTypeProto),
        ("optional_type", 9, _MESSAGE, _ONEOF, ElementTypeProto),
    )


ElementTypeProto.FIELDS = (("elem_type", 1, _MESSAGE, 0, TypeProto),)
MapTypeProto.FIELDS = (("key_type", 1, _INT32, 0, None), ("value_type", 2, _MESSAGE, 0, TypeProto))


class ValueInfoProto(Message):
    """A value's name and type."""

    name: str = ""
    type: TypeProto
    FIELDS = (("name", 1, _STRING, 0, None), ("type", 2, _MESSAGE, 0, TypeProto))


class ListedInfo(Message):
    """A ValueInfoProto among the many that a graph lists: its type stays bytes until it is asked for."""

    name: str = ""
    type: bytes = b""
    FIELDS = (("name", 1, _STRING, 0, None), ("type", 2, _BYTES, 0, None))


class AttributeProto(Message):
    """An attribute of a node."""

    AttributeType = _Enum(
        UNDEFINED=0,
        FLOAT=1,
        INT=2,
        STRING=3,
        TENSOR=4,
        GRAPH=5,
        FLOATS=6,
        INTS=7,
        STRINGS=8,
        TENSORS=9,
        GRAPHS=10,
        SPARSE_TENSOR=11,
        SPARSE_TENSORS=12,
        TYPE_PROTO=13,
        TYPE_PROTOS=14,
    )
    UNDEFINED, FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS, TENSORS, GRAPHS = range(11)
    SPARSE_TENSOR, TYPE_PROTO = 11, 13

    name: str = ""
    f: float = 0.0
    i: int = 0
    s: bytes = b""
    t: TensorProto
    g: GraphProto
    floats: list[float] | array[float]
    ints: list[int] | array[int]
    strings: list[bytes]
    tensors: list[TensorProto]
    graphs: list[GraphProto]
    tp: TypeProto
    type: int = 0
    ref_attr_name: str = ""
    sparse_tensor: SparseTensorProto

    def bodies(self) -> list[GraphProto]:
        """Its graphs."""
        if not self.__dict__.keys() & {"g", "graphs"}:
            return []
        return [self.g, *self.graphs] if self.HasField("g") else self.graphs


class NodeProto(Message):
    """A node."""

    input: list[str]
    output: list[str]
    name: str = ""
    op_type: str = ""
    attribute: list[AttributeProto]
    domain: str = ""
    overload: str = ""
    FIELDS = (
        ("input", 1, _STRING, _LIST, None),
        ("output", 2, _STRING, _LIST, None),
        ("name", 3, _STRING, 0, None),
        ("op_type", 4, _WORD, 0, None),
        ("attribute", 5, _MESSAGE, _LIST | _VIEWED, AttributeProto),
        ("domain", 7, _WORD, 0, None),
        ("overload", 8, _WORD, 0, None),
    )


class GraphProto(Message):
    """A graph."""

    node: list[NodeProto]
    name: str = ""
    initializer: list[TensorProto]
    doc_string: str = ""
    input: list[ValueInfoProto]
    output: list[ValueInfoProto]
    value_info: list[ListedInfo]
    sparse_initializer: list[SparseTensorProto]
    FIELDS = (
        ("node", 1, _MESSAGE, _LIST | _VIEWED, NodeProto),
        ("name", 2, _STRING, 0, None),
        ("initializer", 5, _MESSAGE, _LIST | _VIEWED, TensorProto),
        ("doc_string", 10, _STRING, 0, None),
        ("input", 11, _MESSAGE, _LIST, ValueInfoProto),
        ("output", 12, _MESSAGE, _LIST, ValueInfoProto),
        ("value_info", 13, _MESSAGE, _LIST, ListedInfo),
        ("sparse_initializer", 15, _MESSAGE, _LIST, SparseTensorProto),
    )


AttributeProto.FIELDS = (
    ("name", 1, _WORD, 0, None),
    ("f", 2, _FLOAT, 0, None),
    ("i", 3, _INT64, 0, None),
    ("s", 4, _BYTES, 0, None),
    ("t", 5, _MESSAGE, _VIEWED, TensorProto),
    ("g", 6, _MESSAGE, _VIEWED, GraphProto),
    ("floats", 7, _FLOAT, _REPEATED | _LONG, None),
    ("ints", 8, _INT64, _REPEATED | _LONG, None),
    ("strings", 9, _BYTES, _REPEATED, None),
    ("tensors", 10, _MESSAGE, _REPEATED, TensorProto),
    ("graphs", 11, _MESSAGE, _REPEATED, GraphProto),
    ("tp", 14, _MESSAGE, 0, TypeProto),
    ("type_protos", 15, _MESSAGE, _REPEATED, TypeProto),
    ("type", 20, _ENUM, 0, 14),
    ("ref_attr_name", 21, _WORD, 0, None),
    ("sparse_tensor", 22, _MESSAGE, 0, SparseTensorProto),
    ("sparse_tensors", 23, _MESSAGE, _REPEATED, SparseTensorProto),
)


class FunctionProto(Message):
    """A function of a model, or the body of an operator."""

    name: str = ""
    input: list[str]
    output: list[str]
    attribute: list[str]
    node: list[NodeProto]
    opset_import: list[OperatorSetIdProto]
    domain: str = ""
    attribute_proto: list[AttributeProto]
    value_info: list[ValueInfoProto]
    overload: str = ""
    FIELDS = (
        ("name", 1, _STRING, 0, None),
        ("input", 4, _STRING, _LIST, None),
        ("output", 5, _STRING, _LIST, None),
        ("attribute", 6, _STRING, _LIST, None),
        ("node", 7, _MESSAGE, _LIST | _VIEWED, NodeProto),
        ("opset_import", 9, _MESSAGE, _LIST, OperatorSetIdProto),
        ("domain", 10, _WORD, 0, None),
        ("attribute_proto", 11, _MESSAGE, _LIST, AttributeProto),
        ("value_info", 12, _MESSAGE, _LIST, ValueInfoProto),
        ("overload", 13, _WORD, 0, None),
    )


class ModelProto(Message):
    """A model."""

    ir_version: int = 0
    producer_name: str = ""
    producer_version: str = ""
    domain: str = ""
    model_version: int = 0
    doc_string: str = ""
    graph: GraphProto
    opset_import: list[OperatorSetIdProto]
    metadata_props: list[StringStringEntryProto]
    functions: list[FunctionProto]
    FIELDS = (
        ("ir_version", 1, _INT64, 0, None),
        ("producer_name", 2, _STRING, 0, None),
        ("producer_version", 3, _STRING, 0, None),
        ("domain", 4, _STRING, 0, None),
        ("model_version", 5, _INT64, 0, None),
        ("doc_string", 6, _STRING, 0, None),
        ("graph", 7, _MESSAGE, _VIEWED, GraphProto),
        ("opset_import", 8, _MESSAGE, _LIST, OperatorSetIdProto),
        ("metadata_props", 14, _MESSAGE, _LIST, StringStringEntryProto),
        ("functions", 25, _MESSAGE, _LIST | _VIEWED, FunctionProto),
    )


class TypesOfGraph(Message):
    """Of a graph, what is known of its values; all else stays bytes."""

    output: list[ListedInfo]
    value_info: list[ListedInfo]
    FIELDS = (
        ("output", 12, _MESSAGE, _LIST, ListedInfo),
        ("value_info", 13, _MESSAGE, _LIST, ListedInfo),
    )


class TypesOfModel(Message):
    """Of a model, what is known of the values of its main graph."""

    graph: TypesOfGraph
    FIELDS = (("graph", 7, _MESSAGE, 0, TypesOfGraph),)


class TypesOfAttribute(Message):
    """Of an attribute, what is known of the values of its graph."""

    name: str = ""
    g: TypesOfBody


class TypesOfNode(Message):
    """Of a node, what is known of the values of its bodies."""

    output: list[str]
    attribute: list[TypesOfAttribute]
    FIELDS = (
        ("output", 2, _STRING, _LIST, None),
        ("attribute", 5, _MESSAGE, _LIST, TypesOfAttribute),
    )


class TypesOfBody(Message):
    """Of a graph and of the bodies of its nodes, what is known of their values."""

    node: list[TypesOfNode]
    output: list[ListedInfo]
    value_info: list[ListedInfo]
    FIELDS = (("node", 1, _MESSAGE, _LIST, TypesOfNode), *TypesOfGraph.FIELDS)


TypesOfAttribute.FIELDS = (
    ("name", 1, _WORD, 0, None),
    ("g", 6, _MESSAGE, 0, TypesOfBody),
)


class TypesWithBodies(Message):
    """Of a model, what is known of the values of all its graphs."""

    graph: TypesOfBody
    FIELDS = (("graph", 7, _MESSAGE, 0, TypesOfBody),)


def _kinds(cls: type[Message]) -> Iterator[tuple[str, Any]]:
    for name, _, kind, flags, inner in cls.FIELDS:
        if flags & _REPEATED:
            yield name, list
        elif kind == _MESSAGE:
            yield name, inner


def _declare() -> None:
    classes: list[type[Message]] = [Message, *Message.__subclasses__()]
    for cls in classes:
        cls._codec = call.message_type(cls)
        cls._lists = dict(_kinds(cls))
        cls._oneof = tuple(name for name, _, _, flags, _ in cls.FIELDS if flags & _ONEOF)
    for cls in classes:
        rows = (
            (
                name,
                number,
                kind,
                flags,
                inner._codec if kind == _MESSAGE else None,
                inner if kind == _ENUM else 0,
            )
            for name, number, kind, flags, inner in cls.FIELDS
        )
        call.message_fields(cls._codec, tuple(rows))


_declare()
