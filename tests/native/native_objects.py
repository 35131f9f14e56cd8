"""Helpers of the tests that call the C half directly, through cffi."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ephost._native import ffi, lib

HANDLE_KINDS = 19
api = lib.ephost_api
ep_api = lib.ephost_ep_api
editor = lib.ephost_model_editor_api


class Refused(Exception):
    """A slot answered with a status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def check(status: Any) -> None:
    """Release a status; raise Refused unless it says success."""
    if status != ffi.NULL:
        error = Refused(api.GetErrorCode(status), ffi.string(api.GetErrorMessage(status)).decode())
        api.ReleaseStatus(status)
        raise error


def out(ctype: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a slot whose last parameter is an out-pointer to `ctype` and return what it put there."""
    place = ffi.new(f"{ctype}*")
    check(call(*arguments, place))
    return place[0]


def live_handles() -> dict[int, int]:
    """The number of live handles of each kind."""
    return {kind: lib.ephost_live_handles(kind) for kind in range(HANDLE_KINDS)}


_kept: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()


def c_strings(*texts: bytes | None) -> Any:
    """A C array of strings (None for NULL) that keeps them alive."""
    strings = [ffi.new("char[]", text) if text is not None else ffi.NULL for text in texts]
    array = ffi.new("char*[]", strings)
    _kept[array] = strings
    return array


def path_text(path: str) -> Any:
    """A path as C has it, for a call."""
    return ffi.new("ORTCHAR_T[]", path if ffi.typeof("ORTCHAR_T").cname == "wchar_t" else path.encode())


def dims(*values: int) -> Any:
    """A C array of dimensions."""
    return ffi.new("int64_t[]", list(values))


def cpu_tensor(shape: tuple[int, ...], element_type: int = lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) -> Any:
    """A new tensor from the CPU allocator; the caller releases it."""
    return out(
        "OrtValue*",
        api.CreateTensorAsOrtValue,
        lib.ephost_cpu_allocator(),
        dims(*shape),
        len(shape),
        element_type,
    )


def view(value: Any) -> Any:
    """What ephost_value_view says about a value."""
    result = ffi.new("EphostValueView*")
    lib.ephost_value_view(value, result)
    return result


def string_tensor(texts: list[bytes]) -> Any:
    """A tensor of strings of rank 1; the caller releases it."""
    offsets = [0]
    for text in texts:
        offsets.append(offsets[-1] + len(text))
    place = ffi.new("OrtValue**")
    check(lib.ephost_value_strings(b"".join(texts), ffi.new("size_t[]", offsets), dims(len(texts)), 1, place))
    return place[0]


def read_strings(value: Any) -> list[bytes]:
    """All texts of a tensor of strings."""
    count = view(value).element_count
    nbytes = out("size_t", api.GetStringTensorDataLength, value)
    packed = ffi.new("char[]", nbytes + 1)
    offsets = ffi.new("size_t[]", count + 1)
    offsets[count] = nbytes
    check(api.GetStringTensorContent(value, packed, nbytes, offsets, count))
    return [bytes(ffi.buffer(packed + offsets[i], offsets[i + 1] - offsets[i])) for i in range(count)]
