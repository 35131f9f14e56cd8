"""The data of EPContext nodes by way of callbacks: what plugins compiled goes to a function of the
application's in place of a file, and comes from one when a session opens.

The classes and their behaviour are those of onnxruntime 1.31.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ephost._bindings import NULL, api, ffi, guarded, lib, text
from ephost.device_memory import device_numbers
from ephost.enums import OrtDeviceMemoryType, OrtMemoryInfoDeviceType
from ephost.errors import InvalidArgument, OnnxRuntimeException, RuntimeException

EMBED_MODE = "ep.context_embed_mode"  # a session's entry, "1": the data is in the model, and all of this idle
READS, WRITES = 1, 2  # the bits of OrtEp::GetEpContextDataCallbackSupport
_LARGEST = (1 << 64) - 1


class OrtEpContextData:
    """What an execution provider compiled, as a callback that stores it sees it. Valid during the call."""

    _address: Any
    _size: int

    def __init__(self) -> None:
        raise TypeError("OrtEpContextData is what a callback of ModelCompiler gets")

    @classmethod
    def _over(cls, address: Any, size: int) -> OrtEpContextData:
        made = cls.__new__(cls)
        made._address, made._size = address, size
        return made

    def _alive(self) -> Any:
        if self._address is None:
            raise RuntimeException("EPContext data is valid only during the call of the write callback")
        return self._address

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return self._size

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """A copy of ``length`` bytes from ``offset`` on; None: of all that follow.

        Raises:
            RuntimeException: there are not so many, or the callback has returned.
        """
        address = self._alive()
        if length is None:
            length = self._size - offset
        if not 0 <= offset <= offset + length <= self._size:
            raise RuntimeException(
                f"EPContext data has {self._size} bytes: there are no {length} from {offset} on"
            )
        return bytes(ffi.buffer(address + offset, length)) if length else b""


class OrtEpContextDataBuffer:
    """Where a callback puts the data that an execution provider asks for. Valid during the call."""

    _allocator: Any
    _block: Any
    _size: int
    _max_size: int

    def __init__(self) -> None:
        raise TypeError("OrtEpContextDataBuffer is what a callback of SessionOptions gets")

    @classmethod
    def _by(cls, allocator: Any, max_size: int) -> OrtEpContextDataBuffer:
        made = cls.__new__(cls)
        made._allocator, made._block, made._size, made._max_size = allocator, None, 0, max_size
        return made

    def _alive(self) -> None:
        if self._allocator is None:
            raise RuntimeException("the buffer is valid only during the call of the read callback")

    @property
    def max_size(self) -> int:
        """The most that may be allocated."""
        return self._max_size

    @property
    def size(self) -> int:
        """How many bytes were allocated; 0 before."""
        return self._size

    @property
    def is_allocated(self) -> bool:
        """Whether :meth:`allocate` was called."""
        return self._block is not None

    def allocate(self, size: int) -> None:
        """Make room for the data, once, by the allocator of the execution provider.

        Raises:
            RuntimeException: it was done before, or it is more than ``max_size``.
            MemoryError: the allocator has no memory.
        """
        self._alive()
        if self._block is not None:
            raise RuntimeException("the buffer for EPContext data was allocated before")
        if not 0 <= size <= self._max_size:
            raise RuntimeException(f"EPContext data of {size} bytes exceeds the maximum of {self._max_size}")
        block = guarded("OrtAllocator_Alloc")(self._allocator, size) if size else NULL
        if size and not block:
            raise MemoryError(f"the allocator has no {size} bytes for EPContext data")
        self._block, self._size = ffi.cast("char*", block), size

    def write(self, data: Any, offset: int = 0) -> None:
        """Copy a bytes-like object to ``offset``.

        Raises:
            RuntimeException: there is no room for it, or none was allocated.
        """
        self._alive()
        view = memoryview(data).cast("B")
        if self._block is None:
            raise RuntimeException("the buffer for EPContext data is not allocated yet: call allocate first")
        if not 0 <= offset <= offset + view.nbytes <= self._size:
            raise RuntimeException(
                f"the buffer for EPContext data has {self._size} bytes: there is no room for {view.nbytes} "
                f"at {offset}"
            )
        if view.nbytes:
            ffi.memmove(self._block + offset, view, view.nbytes)


WriteFunction = Callable[[str, OrtEpContextData], Any]
ReadFunction = Callable[[str, OrtEpContextDataBuffer], Any]


class Reader:
    """A function of the application's that gives data, as sessions keep it."""

    def __init__(self, function: ReadFunction, max_size: int) -> None:
        """Hold the function.

        Raises:
            TypeError: it cannot be called, or the size is no number.
            RuntimeException: None in place of a function; a size of 0, or beyond all numbers.
        """
        _check_function(function, "read")
        if not isinstance(max_size, int) or isinstance(max_size, bool) or not 0 <= max_size <= _LARGEST:
            raise TypeError(f"max_data_size is a number of bytes, not {max_size!r}")
        if max_size in (0, _LARGEST):
            raise RuntimeException("max_data_size must be finite and greater than 0")
        self.function, self.max_size = function, max_size
        self.state = ffi.new_handle(self)


class Writer:
    """A function of the application's that takes data."""

    def __init__(self, function: WriteFunction) -> None:
        """Hold the function; raises as :class:`Reader`."""
        _check_function(function, "write")
        self.function = function
        self.state = ffi.new_handle(self)


def _check_function(function: Any, kind: str) -> None:
    if function is None:
        raise RuntimeException(f"the {kind} callback for EPContext data must not be None: clear it instead")
    if not callable(function):
        raise TypeError(f"the {kind} callback for EPContext data is a function, not {function!r}")


def hand_over(options: Any, reader: Reader | None, writer: Writer | None) -> None:
    """Put the callbacks into ``OrtSessionOptions*``; they must live as long."""
    if reader is not None:
        status = api.SessionOptions_SetEpContextDataReadFunc(options, _on_read, reader.state)
        assert not status
    if writer is not None:
        lib.ephost_session_options_set_data_writer(options, _on_write, writer.state)


def _failure(kind: str, name: str, error: Exception) -> Any:
    code = error.code if isinstance(error, OnnxRuntimeException) else 1
    message = f"the {kind} callback for the EPContext data '{name}' failed: {type(error).__name__}: {error}"
    return api.CreateStatus(code, message.encode("utf-8", "backslashreplace"))


def _write(state: Any, name: Any, buffer: Any, size: int) -> Any:
    told = text(name)
    data = OrtEpContextData._over(ffi.cast("const char*", buffer), int(size))
    try:
        if size and not buffer:
            raise InvalidArgument(f"the execution provider gave NULL for {size} bytes")
        ffi.from_handle(state).function(told, data)
    except Exception as error:
        return _failure("write", told, error)
    finally:
        data._address = None
    return NULL


def _read(state: Any, name: Any, allocator: Any, buffer: Any, size: Any) -> Any:
    told = text(name)
    reader = ffi.from_handle(state)
    output = OrtEpContextDataBuffer._by(allocator, reader.max_size)
    buffer[0], size[0] = NULL, 0
    try:
        kind, memory, _, _ = device_numbers(guarded("OrtAllocator_Info")(allocator))
        if kind != OrtMemoryInfoDeviceType.CPU and memory != OrtDeviceMemoryType.HOST_ACCESSIBLE:
            raise InvalidArgument(
                "the execution provider's allocator is for memory that the CPU does not reach"
            )
        reader.function(told, output)
        if output._block is None:
            raise RuntimeException("it has not allocated its buffer")
        buffer[0], size[0] = output._block, output._size
    except Exception as error:
        if output._block:
            guarded("OrtAllocator_Free")(allocator, output._block)
        return _failure("read", told, error)
    finally:
        output._allocator = None
    return NULL


_on_write = ffi.callback("OrtWriteNamedBufferFunc", _write)
_on_read = ffi.callback("OrtReadNamedBufferFunc", _read)
