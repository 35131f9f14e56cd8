"""Making messages, and reading tensors and attributes: what ``onnx.helper`` and ``onnx.numpy_helper`` do for
onnx's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ephost._bindings import call, dtype_of
from ephost.messages import (
    AttributeProto,
    Dimension,
    GraphProto,
    NodeProto,
    TensorProto,
    TensorShapeProto,
    TensorTypeProto,
    TypeProto,
)

# Types of which a byte holds several elements: bits of one. The raw data of the others is the array itself.
PACKED: dict[int, int] = {
    TensorProto.UINT4: 4,
    TensorProto.INT4: 4,
    TensorProto.FLOAT4E2M1: 4,
    TensorProto.UINT2: 2,
    TensorProto.INT2: 2,
}
# The field that holds a type's elements where they are not raw, and what they are there.
_FIELDS: dict[int, tuple[str, Any]] = {
    TensorProto.FLOAT: ("float_data", np.float32),
    TensorProto.DOUBLE: ("double_data", np.float64),
    TensorProto.INT64: ("int64_data", np.int64),
    TensorProto.UINT64: ("uint64_data", np.uint64),
    TensorProto.UINT32: ("uint64_data", np.uint64),
    **dict.fromkeys(
        (
            TensorProto.INT32,
            TensorProto.INT16,
            TensorProto.INT8,
            TensorProto.UINT16,
            TensorProto.UINT8,
            TensorProto.BOOL,
        ),
        ("int32_data", np.int32),
    ),
}
_ELEMENT_TYPES: dict[Any, int] = {
    dtype_of(kind): kind
    for kind in (*range(1, TensorProto.STRING), *range(TensorProto.BOOL, TensorProto.BFLOAT16))
}


def to_array(tensor: TensorProto) -> np.ndarray:
    """The elements of a tensor that are in the message; text as an object array of ``str``.

    Raises:
        ValueError: they do not fit its shape, or are of no known type.
        TypeError: likewise.
    """
    kind, shape = tensor.data_type, tuple(tensor.dims)
    if tensor.data_location == TensorProto.EXTERNAL:
        raise ValueError("its data is in a file of its own, where only initializers may have it")
    if kind == TensorProto.STRING:
        texts = np.empty(len(tensor.string_data), dtype=object)
        texts[:] = [content.decode("utf-8") for content in tensor.string_data]
        return texts.reshape(shape)
    if tensor.HasField("raw_data") and kind not in PACKED:
        dtype = dtype_of(kind)
        if dtype is not None:
            return np.frombuffer(tensor.raw_data, dtype=dtype).reshape(shape)
    elif kind in _FIELDS:
        name, stored = _FIELDS[kind]
        found: np.ndarray = np.frombuffer(getattr(tensor, name), dtype=stored)
        return found.astype(dtype_of(kind), copy=False).reshape(shape)
    if kind in PACKED:
        # Older versions of onnx make up what is missing, and none sees what is left over.
        held = len(tensor.raw_data) if tensor.HasField("raw_data") else len(tensor.int32_data) // 4
        expected = -(-math.prod(shape) * PACKED[kind] // 8)
        if held != expected:
            raise ValueError(f"it has {held} bytes instead of {expected}")
    # What is rare is onnx's to read.
    import onnx
    from onnx import numpy_helper

    array: np.ndarray = numpy_helper.to_array(onnx.TensorProto.FromString(tensor.SerializeToString()))
    return array


def from_array(array: np.ndarray, name: str = "") -> TensorProto:
    """A tensor with an array's elements."""
    kind = _ELEMENT_TYPES.get(array.dtype)
    if kind is not None:
        tensor = TensorProto(dims=list(array.shape), data_type=kind, raw_data=array.tobytes())
        if name:
            tensor.name = name
        return tensor
    if array.dtype.hasobject:
        texts = [
            text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape")
            for text in array.ravel()
        ]
        return TensorProto(dims=list(array.shape), data_type=TensorProto.STRING, string_data=texts, name=name)
    from onnx import numpy_helper

    return TensorProto.FromString(numpy_helper.from_array(array, name).SerializeToString())


def element_type_of(dtype: np.dtype) -> int:
    """ONNX's number of a numpy dtype.

    Raises:
        ValueError: it has none.
    """
    kind = _ELEMENT_TYPES.get(dtype)
    if kind is None:
        from onnx import helper

        kind = int(helper.np_dtype_to_tensor_dtype(dtype))
    return kind


def numpy_dtype(element_type: int) -> np.dtype:
    """The numpy dtype of an element type; ``object`` for text.

    Raises:
        ValueError: there is no such element type.
    """
    dtype = np.dtype(object) if element_type == TensorProto.STRING else dtype_of(element_type)
    if dtype is None:
        raise ValueError(f"there is no element type {element_type}")
    return dtype


def tensor_type_proto(element_type: int, dims: Iterable[int | str | None] | None) -> TypeProto:
    """A tensor's type; None for dimensions is an unknown rank, None for one an unknown size."""
    tensor = TensorTypeProto(elem_type=element_type)
    if dims is not None:
        tensor.shape = TensorShapeProto(dim=[_dimension(size) for size in dims])
    return TypeProto(tensor_type=tensor)


def _dimension(size: int | str | None) -> Dimension:
    if size is None:
        return Dimension()
    return Dimension(dim_param=size) if isinstance(size, str) else Dimension(dim_value=int(size))


def make_node(
    op_type: str,
    inputs: Iterable[str],
    outputs: Iterable[str],
    name: str = "",
    domain: str = "",
    **attributes: Any,
) -> NodeProto:
    """A node."""
    node = NodeProto(
        op_type=op_type,
        input=list(inputs),
        output=list(outputs),
        attribute=[make_attribute(key, value) for key, value in sorted(attributes.items())],
    )
    if name:
        node.name = name
    if domain:
        node.domain = domain
    return node


def make_attribute(name: str, value: Any) -> AttributeProto:
    """An attribute of the type that its value is of.

    Raises:
        TypeError: of none.
    """
    kinds = AttributeProto
    if isinstance(value, (bool, int, np.integer)):
        return AttributeProto(name=name, type=kinds.INT, i=int(value))
    if isinstance(value, (float, np.floating)):
        return AttributeProto(name=name, type=kinds.FLOAT, f=float(value))
    if isinstance(value, (str, bytes)):
        return AttributeProto(name=name, type=kinds.STRING, s=_content(value))
    if isinstance(value, TensorProto):
        return AttributeProto(name=name, type=kinds.TENSOR, t=value)
    if isinstance(value, GraphProto):
        return AttributeProto(name=name, type=kinds.GRAPH, g=value)
    items = list(value) if isinstance(value, (Sequence, np.ndarray)) else []
    if items and all(isinstance(item, (bool, int, np.integer)) for item in items):
        return AttributeProto(name=name, type=kinds.INTS, ints=[int(item) for item in items])
    if items and all(isinstance(item, (int, float, np.integer, np.floating)) for item in items):
        return AttributeProto(name=name, type=kinds.FLOATS, floats=[float(item) for item in items])
    if items and all(isinstance(item, (str, bytes)) for item in items):
        return AttributeProto(name=name, type=kinds.STRINGS, strings=[_content(item) for item in items])
    raise TypeError(f"{value!r} is no value that the attribute '{name}' can have")


def _content(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")


def get_attribute_value(attribute: AttributeProto) -> Any:
    """An attribute's value: a number, bytes or a message, or a list of these.

    Raises:
        ValueError: it has no type, or stands for an attribute of a function's.
    """
    return call.attribute_value(attribute)
