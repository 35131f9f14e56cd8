"""The one door to the C half: cffi's ``ffi`` and ``lib``, the call module, and the helpers that all need.

Nothing else imports ``_native`` or ``_call``.
"""

from __future__ import annotations

import atexit
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from ephost.errors import from_status

try:
    if "t" in getattr(sys, "abiflags", ""):
        from ephost.missing_native import refuse_stable_abi

        refuse_stable_abi()
    from ephost import _native
except ImportError as error:
    from ephost.missing_native import explain_missing

    raise explain_missing(error) from error

ffi: Any = _native.ffi
lib: Any = _native.lib
api: Any = lib.ephost_api
ep_api: Any = lib.ephost_ep_api
NULL = ffi.NULL
VERSION: str = ffi.string(lib.ephost_version()).decode()  # of ephost; the build takes it from pyproject.toml


def _load_call() -> ModuleType:
    # The call module lives in the same shared library as _native: both work on the same C state.
    name = "ephost._call"
    loader = importlib.machinery.ExtensionFileLoader(name, str(_native.__file__))
    spec = importlib.util.spec_from_file_location(name, _native.__file__, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[name] = module
    return module


call: Any = _load_call()

# numpy's own dtypes by the ABI's element type; the C half asks for those of ml_dtypes when it meets one.
_DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.float32),
    2: np.dtype(np.uint8),
    3: np.dtype(np.int8),
    4: np.dtype(np.uint16),
    5: np.dtype(np.int16),
    6: np.dtype(np.int32),
    7: np.dtype(np.int64),
    9: np.dtype(np.bool_),
    10: np.dtype(np.float16),
    11: np.dtype(np.float64),
    12: np.dtype(np.uint32),
    13: np.dtype(np.uint64),
    14: np.dtype(np.complex64),
    15: np.dtype(np.complex128),
}
_ML_DTYPES = {
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "uint2",
    25: "int2",
    26: "float8_e8m0fnu",
}
_FROM_ONNX = {24: 26, 25: 24, 26: 25}  # the three element types that onnx numbers otherwise than the ABI
_TO_ONNX = {abi: onnx for onnx, abi in _FROM_ONNX.items()}


@cache
def all_dtypes() -> dict[int, np.dtype[Any]]:
    """The ABI's element type -> numpy dtype, ml_dtypes' included."""
    import ml_dtypes

    dtypes = dict(_DTYPES)
    for element_type, name in _ML_DTYPES.items():
        if hasattr(ml_dtypes, name):
            dtypes[element_type] = np.dtype(getattr(ml_dtypes, name))
    return dtypes


call.setup(from_status, _DTYPES, all_dtypes)
atexit.register(call.finalize)


def abi_element_type(element_type: int) -> int:
    """The ABI's number (ONNXTensorElementDataType) for an ``onnx.TensorProto.DataType``."""
    return _FROM_ONNX.get(element_type, element_type)


def onnx_element_type(element_type: int) -> int:
    """The ``onnx.TensorProto.DataType`` for the ABI's number."""
    return _TO_ONNX.get(element_type, element_type)


def dtype_of(element_type: int) -> np.dtype[Any] | None:
    """The numpy dtype of an ``onnx.TensorProto.DataType``; None for strings and what is unknown."""
    return _DTYPES.get(element_type) or all_dtypes().get(abi_element_type(element_type))


def text(pointer: Any) -> str:
    """A C string as str; "" for NULL. What is not UTF-8 becomes ``\\xNN``, so that it can be shown."""
    return ffi.string(pointer).decode("utf-8", "backslashreplace") if pointer else ""


def path_text(path: str) -> Any:
    """A path as C has it (``const ORTCHAR_T*``): UTF-16 on Windows, the file system's bytes elsewhere.

    What is given stays alive as long as the call that it is an argument of.
    """
    return ffi.new("wchar_t[]", path) if sys.platform == "win32" else os.fsencode(path)


def packed(texts: Sequence[str]) -> bytes:
    """The texts as C reads them one after the other: UTF-8, each with its NUL, and U+FFFD for one inside."""
    joined = "\0".join(texts) + "\0" if texts else ""
    if joined.count("\0") != len(texts):
        joined = "".join(text.replace("\0", "\ufffd") + "\0" for text in texts)
    return joined.encode("utf-8", "surrogateescape")


def c_strings(texts: Sequence[bytes]) -> tuple[Any, list[Any]]:
    """A ``char*[]``, and the strings that it points to, which have to outlive it."""
    strings = [ffi.new("char[]", content) for content in texts]
    return ffi.new("char*[]", strings or [NULL]), strings


def check(status: Any) -> None:
    """Raise the exception that an ``OrtStatus*`` stands for, and release it. NULL is success."""
    if status:
        code, message = int(api.GetErrorCode(status)), text(api.GetErrorMessage(status))
        api.ReleaseStatus(status)
        raise from_status(code, message)


def address(pointer: Any) -> int:
    """A pointer as an integer, for the call module."""
    return int(ffi.cast("uintptr_t", pointer))


def member_since(structure: str, name: str) -> int:
    """The API version in which a member of a struct appeared."""
    since = int(lib.ephost_member_since(structure.encode(), name.encode()))
    if not since:
        raise KeyError((structure, name))
    return since


@cache
def guarded(name: str) -> Any:
    """The way into functions of plugins of one type: ``OrtEp_Compile``, or ``CreateEpApiFactoriesFn``.

    Takes the struct (or the function), then the arguments. A C++ exception that leaves the function comes
    back as an error status; of one that returns no status it is raised here, as the exception of that status,
    and of one that only releases it is logged.
    """
    function = getattr(lib, f"ephost_guard_{name}")
    result = ffi.typeof(function).result.cname
    if result.endswith("OrtStatus *") or (result == "void" and not name.endswith("_KernelCompute")):
        return function

    def call(*arguments: Any) -> Any:
        answer = function(*arguments)
        raise_thrown()
        return answer

    return call


def raise_thrown() -> None:
    """Raise what a function without a status has thrown in this thread, if anything.

    Raises:
        RuntimeException: the function and what it threw.
    """
    check(lib.ephost_take_thrown())


def member(structure: str, pointer: Any, name: str) -> Any:
    """A function of a struct that a plugin filled, as :func:`guarded` has it, or None when there is none.

    ``structure`` is the struct's name (``OrtEp``), ``pointer`` a pointer to it. Members newer than the API
    version that the struct says are never read: they may lie behind its end.
    """
    field, since = _place(structure, name)
    if getattr(pointer, field) < since or not getattr(pointer, name):
        return None
    return guarded(f"{structure}_{name}")


@cache
def _place(structure: str, name: str) -> tuple[str, int]:
    """The field with a struct's version, and the version in which a member of it appeared."""
    field = "version" if structure in ("OrtAllocator", "OrtCustomOp") else "ort_version_supported"
    return field, member_since(structure, name)


def key_values(pairs: Any) -> dict[str, str]:
    """An ``OrtKeyValuePairs*`` as a dict."""
    if not pairs:
        return {}
    keys, values, count = ffi.new("char***"), ffi.new("char***"), ffi.new("size_t*")
    api.GetKeyValuePairs(pairs, keys, values, count)
    return {text(keys[0][i]): text(values[0][i]) for i in range(count[0])}


def new_key_values(entries: dict[str, str]) -> Any:
    """A new ``OrtKeyValuePairs*`` with these entries; the caller releases it by ReleaseKeyValuePairs."""
    out = ffi.new("OrtKeyValuePairs**")
    api.CreateKeyValuePairs(out)
    for key, value in entries.items():
        # A value may be a path, which is any bytes.
        api.AddKeyValuePair(out[0], key.encode(), value.encode("utf-8", "surrogateescape"))
    return out[0]
