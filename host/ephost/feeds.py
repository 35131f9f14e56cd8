"""What a caller feeds, made to fit the type that the model declares, or refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ephost._bindings import dtype_of
from ephost.errors import InvalidArgument
from ephost.messages import TensorProto, TypeProto
from ephost.model.graph import Dim, TensorType, tensor_type
from ephost.sparse import SparseTensor
from ephost.values import OrtValue, type_name

_MAX_RANK = 32  # a tensor's on its way through numpy
_ONNX_NAMES = {"float32": "float", "float64": "double", "str": "string"}
_NUMBERS = (bool, int, float, complex, np.generic)


def fit(name: str, kind: TensorType | TypeProto | None, value: Any) -> Any:
    """The feed for an input as an array, OrtValue, list, dict or None of the input's type.

    Args:
        name: the input's name, for messages.
        kind: its type; None lets anything through.
        value: what the caller gave. Arrays are only copied where their bytes are swapped. What another
            library has on a device becomes an OrtValue there; OrtValues are brought to the CPU.

    Raises:
        InvalidArgument: another type, element type, rank or dimension than the model declares.
        NotImplemented: no registered execution provider has memory on the device that it is on.
    """
    if kind is None:
        return value
    if isinstance(kind, TensorType):
        return _tensor(name, kind, value)
    which = kind.WhichOneof("value")
    if which == "optional_type":
        if value is None or (isinstance(value, OrtValue) and not value.has_value()):
            return value
        return fit(name, _element(kind.optional_type.elem_type), value)
    if isinstance(value, SparseTensor):
        value = OrtValue.ort_value_from_sparse_tensor(value)
    if isinstance(value, OrtValue):
        given, wanted = value.data_type(), type_text(kind)
        if given != wanted and not (given == "seq" and wanted.startswith("seq(")):
            raise _wrong_type(name, kind, given)
        if value._sparse is not None:
            dims = _dims(kind.sparse_tensor_type)
            _check_shape(name, tensor_type(kind.sparse_tensor_type.elem_type, dims), value._sparse._shape)
        return value
    if which == "sparse_tensor_type":
        raise _wrong_type(name, kind, _described(value))
    if which == "sequence_type":
        if not isinstance(value, (list, tuple)):
            raise _wrong_type(name, kind, _described(value))
        element = _element(kind.sequence_type.elem_type)
        return [_here(fit(f"{name}[{at}]", element, item)) for at, item in enumerate(value)]
    if which == "map_type":
        if not isinstance(value, Mapping):
            raise _wrong_type(name, kind, _described(value))
        entries = kind.map_type.value_type.tensor_type.elem_type
        return {
            _key(name, kind.map_type.key_type, key): _scalar(f"{name}[{key!r}]", entries, item)
            for key, item in value.items()
        }
    return value


def _here(value: Any) -> Any:
    return value._on_cpu() if isinstance(value, OrtValue) else value


def type_text(kind: TensorType | TypeProto | None) -> str:
    """A type as onnxruntime writes it: ``tensor(float)``, ``map(string,tensor(float))``, ..."""
    if kind is None:
        return "unknown"
    if isinstance(kind, TensorType):
        return f"tensor({type_name(kind.element_type)})"
    which = kind.WhichOneof("value")
    if which == "tensor_type":
        return f"tensor({type_name(kind.tensor_type.elem_type)})"
    if which == "sparse_tensor_type":
        return f"sparse_tensor({type_name(kind.sparse_tensor_type.elem_type)})"
    if which == "sequence_type":
        return f"seq({type_text(kind.sequence_type.elem_type)})"
    if which == "optional_type":
        return f"optional({type_text(kind.optional_type.elem_type)})"
    if which == "map_type":
        return f"map({type_name(kind.map_type.key_type)},{type_text(kind.map_type.value_type)})"
    return "unknown"


def _element(kind: TypeProto) -> TensorType | TypeProto | None:
    which = kind.WhichOneof("value")
    if which != "tensor_type":
        return kind if which else None
    return tensor_type(kind.tensor_type.elem_type, _dims(kind.tensor_type))


def _dims(kind: Any) -> tuple[int | None, ...] | None:
    if not kind.HasField("shape"):
        return None
    return tuple(d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim)


def _tensor(name: str, kind: TensorType, value: Any) -> Any:
    given = value
    if not isinstance(value, (OrtValue, np.ndarray, list, tuple, *_NUMBERS)):
        value = OrtValue._of_device(value) or value
    if isinstance(value, OrtValue):
        if not value.is_tensor():
            raise _wrong_type(name, kind, value.data_type())
        if value.element_type() != kind.element_type:
            raise _wrong_type(name, kind, f"tensor({type_name(value.element_type())})")
        _check_shape(name, kind, tuple(value.shape()))
        return value._on_cpu() if given is value else value
    array = value if isinstance(value, np.ndarray) else _as_array(name, kind, value)
    if kind.element_type == TensorProto.STRING:
        array = _strings(name, kind, array)
    else:
        dtype = dtype_of(kind.element_type)
        if array.dtype != dtype:
            if array.dtype.newbyteorder("=") != dtype:
                raise _wrong_type(name, kind, _described(array))
            array = array.astype(dtype)
    _check_shape(name, kind, array.shape)
    return array


def _as_array(name: str, kind: TensorType, value: Any) -> np.ndarray:
    if isinstance(value, str) and kind.element_type == TensorProto.STRING:
        return np.asarray(value, dtype=object)
    listed = isinstance(value, (list, tuple))
    if not (listed or isinstance(value, _NUMBERS) or hasattr(value, "__array__") or _is_buffer(value)):
        raise _wrong_type(name, kind, _described(value))
    dtype = dtype_of(kind.element_type)
    if kind.element_type == TensorProto.STRING:
        dtype = np.dtype(object)
    elif not listed and not isinstance(value, (bool, int, float, complex)):
        dtype = None  # it says its own type
    try:
        return np.asarray(value, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"Input '{name}' takes {type_text(kind)}: {error}") from error


def _is_buffer(value: Any) -> bool:
    try:
        memoryview(value).release()
    except TypeError:
        return False
    return not isinstance(value, (bytes, bytearray))


def _strings(name: str, kind: TensorType, array: np.ndarray) -> np.ndarray:
    """Text, and bytes without the zeros that numpy pads them with.

    Of numbers, lists of words, and what pandas has for missing text it is what str() says, as in onnxruntime.
    """
    if array.dtype.kind not in "OUSTV" or array.dtype.names is not None:
        raise _wrong_type(name, kind, _described(array))
    if array.dtype.kind == "V":
        # Raw bytes, of which none is there to fill up.
        texts = [item.tobytes() for item in array.ravel()]
        array = np.array(texts, dtype=object).reshape(array.shape)
    if array.dtype.kind == "T":
        return array.astype(object)
    kinds = set(map(type, array.ravel().tolist())) if array.dtype.kind == "O" else set()
    if not all(issubclass(each, (str, bytes)) for each in kinds):
        made = array.flatten()
        for at, text in enumerate(made):
            if not (text is None or isinstance(text, (str, bytes, list, tuple, *_NUMBERS))):
                raise InvalidArgument(
                    f"Input '{name}' takes tensor(string), but its element {at} is {_described(text)}"
                )
            made[at] = text if isinstance(text, (str, bytes)) else str(text)
        return made.reshape(array.shape)
    return array


def _key(name: str, element_type: int, value: Any) -> Any:
    if (element_type == TensorProto.STRING) != isinstance(value, str):
        raise InvalidArgument(
            f"Unexpected key type  {type(value)}, it cannot be linked to C type {type_name(element_type)}_t "
            f"for input '{name}'."
        )
    return _scalar(f"a key of {name}", element_type, value)


def _scalar(name: str, element_type: int, value: Any) -> Any:
    """A key or value of a map as what it is in numpy, so that it keeps its type on the way."""
    is_text = element_type == TensorProto.STRING
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]  # what indexing an array of records or a 0-d array leaves of it
    if is_text != isinstance(value, str) or not (is_text or isinstance(value, (int, float, np.generic))):
        raise InvalidArgument(f"Input: {name} is {_described(value)}, not {type_name(element_type)}")
    dtype = dtype_of(element_type)
    return value if is_text or dtype is None else dtype.type(value)


def required_dims(kind: TensorType) -> tuple[Dim, ...] | None:
    """The dimensions that a feed has to have; None where any shape will do.

    Of no dimensions is what makers of models write for any shape, and onnxruntime takes it so.
    """
    return kind.dims or None


def _check_shape(name: str, kind: TensorType, shape: tuple[int, ...]) -> None:
    if len(shape) > _MAX_RANK:
        raise InvalidArgument(
            f"Invalid rank for input: {name} Got: {len(shape)} Expected: at most {_MAX_RANK}"
        )
    required = required_dims(kind)
    if required is None:
        return
    if len(shape) != len(required):
        raise InvalidArgument(
            f"Invalid rank for input: {name} Got: {len(shape)} Expected: {len(required)} "
            "Please fix either the inputs/outputs or the model."
        )
    wrong = [
        f" index: {at} Got: {got} Expected: {want}"
        for at, (got, want) in enumerate(zip(shape, required, strict=True))
        if isinstance(want, int) and got != want
    ]
    if wrong:
        raise InvalidArgument(
            f"Got invalid dimensions for input: {name} for the following indices\n"
            + "\n".join(wrong)
            + "\n Please fix either the inputs/outputs or the model."
        )


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        name = "string" if value.dtype.kind in "UST" else _ONNX_NAMES.get(str(value.dtype), value.dtype)
        return f"tensor({name})"
    return "None" if value is None else type(value).__name__


def _wrong_type(name: str, kind: TensorType | TypeProto, actual: str) -> InvalidArgument:
    return InvalidArgument(
        f"Unexpected input data type for input '{name}'. Actual: ({actual}) , expected: ({type_text(kind)})"
    )
