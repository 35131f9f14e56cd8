"""LoRA adapters: named tensors in a file that a run feeds to a model in place of the defaults of its inputs.

The file is a FlatBuffer with the identifier ``TORT``: a table of the format's version, the adapter's, the
model's, and a list of parameters, each a table of name, dimensions, element type (as ONNX numbers it) and
bytes.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from ephost._bindings import abi_element_type, ffi
from ephost.arguments import file_path as file_path_of
from ephost.arguments import integer, of_type
from ephost.devices import cpu_device
from ephost.errors import Fail, InvalidArgument, NoSuchFile
from ephost.messages import TensorProto
from ephost.reading import refuse_special
from ephost.saving import write_bytes
from ephost.values import OrtValue

_IDENTIFIER = b"TORT"
_FORMAT_VERSION = 1
_TABLE = struct.Struct("<HHHHHH")  # a vtable of four fields of 4 bytes, which all our tables have
_VTABLE = _TABLE.pack(_TABLE.size, 20, 4, 8, 12, 16)
_ALIGNMENT = 8
_LAST_TABLE = 2**31 - 1  # the way from a table to its vtable has 32 bits and a sign
_LONGEST = 2**32 - 1  # items of a vector


class AdapterFormat:
    """The contents of an adapter file."""

    def __init__(self, adapter: AdapterFormat | None = None) -> None:
        if adapter is not None:
            of_type("adapter", adapter, AdapterFormat)
        self._format_version: int = _FORMAT_VERSION if adapter is None else adapter._format_version
        self._adapter_version: int = 0 if adapter is None else adapter._adapter_version
        self._model_version: int = 0 if adapter is None else adapter._model_version
        self._parameters: dict[str, OrtValue] = {} if adapter is None else dict(adapter._parameters)

    @staticmethod
    def read_adapter(file_path: os.PathLike[str]) -> AdapterFormat:
        """Read a file. The tensors lie in the file, which is mapped as long as one of them is there.

        Raises:
            NoSuchFile: there is none.
            Fail: it is a pipe or a folder, or cannot be read otherwise.
            InvalidArgument: it is no adapter, or cut short, or of a version that is not known.
        """
        path = file_path_of("the adapter file", file_path)
        made = AdapterFormat()
        refuse_special(path, "the adapter file")
        try:
            with open(path, "rb") as file:
                data: Any = (
                    mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.path.getsize(path) else b""
                )
        except FileNotFoundError:
            raise NoSuchFile(f"there is no adapter file {path}") from None
        except OSError as error:
            raise Fail(f"the adapter file {path} cannot be read: {error.strerror}") from None
        try:
            _read(_File(data), made)
        except InvalidArgument as error:
            raise InvalidArgument(f"{path} is no adapter that can be read: {error}") from None
        return made

    def export_adapter(self, file_path: os.PathLike[str]) -> None:
        """Write a file.

        Raises:
            InvalidArgument: a parameter is no tensor of numbers, or there is more than a file can hold.
            OSError: the file cannot be written.
        """
        write_bytes(file_path, _written(self))

    def get_format_version(self) -> int:
        """The version of the format of the file that it was read from; 0: of none."""
        return self._format_version

    def set_adapter_version(self, adapter_version: int) -> None:
        """Set the adapter's version.

        Raises:
            TypeError, InvalidArgument: it is no int of 32 bits.
        """
        self._adapter_version = integer("the adapter_version", adapter_version)

    def get_adapter_version(self) -> int:
        """The adapter's version."""
        return self._adapter_version

    def set_model_version(self, model_version: int) -> None:
        """Set the version of the model that the adapter is for.

        Raises:
            TypeError, InvalidArgument: it is no int of 32 bits.
        """
        self._model_version = integer("the model_version", model_version)

    def get_model_version(self) -> int:
        """The version of the model that the adapter is for."""
        return self._model_version

    def set_parameters(self, params: dict[str, OrtValue]) -> None:
        """Set the adapter's tensors.

        Raises:
            TypeError: it is no dict of OrtValues by their names.
        """
        for name, value in of_type("params", params, Mapping).items():  # type: ignore[type-abstract]
            of_type("the name of a parameter", name, str)
            of_type(f"the parameter {name!r} of an adapter", value, OrtValue)
        self._parameters = dict(params)

    def get_parameters(self) -> dict[str, OrtValue]:
        """The adapter's tensors."""
        return dict(self._parameters)


class LoraAdapter:
    """The tensors of an adapter file, for ``RunOptions.add_active_adapter``."""

    def __init__(self) -> None:
        self._parameters: Mapping[str, OrtValue] = {}

    def Load(self, file_path: str) -> None:  # noqa: N802 - onnxruntime's name
        """Take the tensors of a file, which stays mapped as long as they are used.

        Raises:
            As :meth:`AdapterFormat.read_adapter`.
        """
        self._parameters = AdapterFormat.read_adapter(file_path)._parameters  # type: ignore[arg-type]


class _File:
    """Numbers of a file that nobody vouches for: each access is checked."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def number(self, at: int, form: str) -> int:
        size = struct.calcsize("<" + form)
        if not 0 <= at <= len(self.data) - size:
            raise InvalidArgument(f"it ends before what is to be at {at}")
        return int(struct.unpack_from("<" + form, self.data, at)[0])

    def field(self, table: int, index: int) -> int:
        """Where a table's field is; 0 when it is left out."""
        vtable = table - self.number(table, "i")
        slot = 4 + 2 * index
        offset = self.number(vtable + slot, "H") if slot < self.number(vtable, "H") else 0
        return table + offset if offset else 0

    def integer(self, table: int, index: int) -> int:
        at = self.field(table, index)
        return self.number(at, "i") if at else 0

    def vector(self, table: int, index: int, item_size: int) -> tuple[int, int]:
        """Where the items of a vector (or the bytes of a string) begin, and their number."""
        field = self.field(table, index)
        if not field:
            return 0, 0
        at = field + self.number(field, "I")
        count = self.number(at, "I")
        if at + 4 + count * item_size > len(self.data):
            raise InvalidArgument(f"it ends before the {count} items at {at}")
        return at + 4, count


def _read(file: _File, into: AdapterFormat) -> None:
    if bytes(file.data[4:8]) != _IDENTIFIER:
        raise InvalidArgument("the identifier of adapter files is missing")
    root = file.number(0, "I")
    into._format_version = file.integer(root, 0)
    if into._format_version != _FORMAT_VERSION:
        raise InvalidArgument(f"it is of version {into._format_version} of the format, not {_FORMAT_VERSION}")
    into._adapter_version, into._model_version = file.integer(root, 1), file.integer(root, 2)
    whole = np.frombuffer(file.data, np.uint8)
    start, count = file.vector(root, 3, 4)
    for at in range(start, start + 4 * count, 4):
        name, value = _parameter(file, at + file.number(at, "I"), whole)
        into._parameters[name] = value


def _parameter(file: _File, table: int, whole: np.ndarray) -> tuple[str, OrtValue]:
    start, size = file.vector(table, 0, 1)
    name = bytes(file.data[start : start + size]).decode("utf-8", "replace")
    start, rank = file.vector(table, 1, 8)
    shape = [file.number(start + 8 * axis, "q") for axis in range(rank)]
    element_type = max(file.integer(table, 2), 0)  # 0 is none
    start, size = file.vector(table, 3, 1)
    held = whole[start : start + size]
    if held.ctypes.data % _ALIGNMENT:
        held = held.copy()
    pointer = held.ctypes.data if size else 0
    try:
        value = OrtValue._over(pointer, abi_element_type(element_type), shape, cpu_device(), held, size)
    except InvalidArgument as error:
        raise InvalidArgument(f"the parameter '{name}': {error}") from None
    if value.tensor_size_in_bytes() != size:
        raise InvalidArgument(f"the parameter '{name}' of shape {shape} has {size} bytes")
    return name, value


def _written(adapter: AdapterFormat) -> bytes:
    out = bytearray(struct.pack("<I4s", 8 + _TABLE.size, _IDENTIFIER) + _VTABLE)
    versions = _FORMAT_VERSION, adapter._adapter_version, adapter._model_version
    # A table begins with the way back to its vtable; an offset says how far it is from itself.
    out += struct.pack("<iiiiI", _TABLE.size, *versions, 4)
    listed = len(out) + 4
    parameters = sorted(adapter._parameters.items())
    out += struct.pack("<I", len(parameters)) + bytes(4 * len(parameters))
    shared = len(out)
    out += _VTABLE
    for number, (name, value) in enumerate(parameters):
        if not value.is_tensor() or value.element_type() == TensorProto.STRING:
            raise InvalidArgument(
                f"the parameter '{name}' is {value.data_type()}: adapters have tensors of numbers"
            )
        value = value._on_cpu()
        size, shape = value.tensor_size_in_bytes(), value.shape()
        if size > _LONGEST:
            raise InvalidArgument(
                f"the parameter '{name}' has {size} bytes: an adapter has at most {_LONGEST} in one"
            )
        _pad(out, 4, 0)
        table = len(out)
        if table > _LAST_TABLE:
            raise InvalidArgument(
                f"the parameter '{name}' lies beyond the 2 GiB that an adapter file reaches"
            )
        struct.pack_into("<I", out, listed + 4 * number, table - (listed + 4 * number))
        out += struct.pack("<iIIiI", table - shared, 0, 0, value.element_type(), 0)
        contents = bytes(ffi.buffer(ffi.cast("char*", value.data_ptr()), size)) if size else b""
        text = name.encode()
        for field, items, data in (
            (4, len(text), text + b"\0"),
            (8, len(shape), struct.pack(f"<{len(shape)}q", *shape)),
            (16, size, contents),
        ):
            _pad(out, _ALIGNMENT, 4)  # the items behind their number
            struct.pack_into("<I", out, table + field, len(out) - (table + field))
            out += struct.pack("<I", items) + data
    _pad(out, _ALIGNMENT, 0)
    return bytes(out)


def _pad(out: bytearray, alignment: int, before: int) -> None:
    out += bytes(-(len(out) + before) % alignment)
