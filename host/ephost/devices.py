"""OrtDevice, OrtMemoryInfo and their kin: where values lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ephost._bindings import api, check, ffi, lib, raise_thrown, text
from ephost.arguments import characters, integer, of_type
from ephost.enums import (
    OrtAllocatorType,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtMemoryInfoDeviceType,
    OrtMemType,
)
from ephost.errors import InvalidArgument, naming

_CPU, _GPU, _FPGA, _NPU, _DML = 0, 1, 2, 3, 4
_WIDE = 2**32 - 1  # the most that a number of a device is
# name -> (device type, vendor that the name implies)
_NAMES: dict[str, tuple[int, int]] = {
    "cpu": (_CPU, 0),
    "gpu": (_GPU, 0),
    "npu": (_NPU, 0),
    "cuda": (_GPU, OrtDeviceVendorId.NVIDIA),
    "dml": (_DML, OrtDeviceVendorId.MICROSOFT),
    "cann": (_NPU, OrtDeviceVendorId.HUAWEI),
    "webgpu": (_GPU, OrtDeviceVendorId.NONE),
}
# What onnxruntime calls a GPU by its vendor; "cuda" is its word for those of all others.
GPU_NAMES: dict[int, str] = {
    OrtDeviceVendorId.NONE: "webgpu",
    OrtDeviceVendorId.NVIDIA: "cuda",
    OrtDeviceVendorId.AMD: "hip",
    OrtDeviceVendorId.MICROSOFT: "dml",
}


def device_name(device_type: int, vendor_id: int) -> str:
    """What onnxruntime calls a device, in lower case, as ``OrtValue.device_name`` has it."""
    if device_type == _GPU:
        return GPU_NAMES.get(vendor_id, "cuda")
    return {_CPU: "cpu", _FPGA: "fpga", _NPU: "npu", _DML: "dml"}.get(device_type, "?")


def get_ort_device_type(device_type: str) -> int:
    """The number of a device type by its name: ``cpu``, ``gpu``, ``npu``, ``cuda``, ``dml``, ``cann``,
    ``webgpu``.

    Raises:
        InvalidArgument: another name.
    """
    if of_type("the device's type", device_type, str) not in _NAMES:
        raise InvalidArgument(f"Unsupported device type: {device_type}; the types are {', '.join(_NAMES)}")
    return _NAMES[device_type][0]


class OrtDevice:
    """A device by type, memory, vendor and number.

    ``OrtDevice(type, memory, id)`` or ``OrtDevice(type, memory, vendor, id)``, as onnxruntime's native class;
    most callers want :meth:`make`.
    """

    def __init__(self, c_ort_device: OrtDevice | int, *numbers: int) -> None:
        if isinstance(c_ort_device, OrtDevice):
            if numbers:
                raise TypeError("OrtDevice takes a device, or three or four numbers")
            values = c_ort_device._values
        elif len(numbers) in (2, 3):
            kind, memory, *vendor, number = (
                integer("a number of OrtDevice", each, -_WIDE - 1, _WIDE) for each in (c_ort_device, *numbers)
            )
            values = (kind, memory, vendor[0] if vendor else 0, number)
        else:
            raise TypeError("OrtDevice takes a device, or three or four numbers")
        self._values: tuple[int, int, int, int] = values

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int | OrtDeviceVendorId = -1) -> OrtDevice:
        """The device of a name, such as ``cpu`` or ``cuda``, and number.

        Raises:
            InvalidArgument: an unknown name.
        """
        kind = get_ort_device_type(ort_device_name)
        vendor = integer("the vendor_id", vendor_id, -_WIDE - 1, _WIDE)
        if vendor < 0:
            vendor = _NAMES[ort_device_name][1]
        return OrtDevice(kind, 0, vendor, integer("the device_id", device_id, -_WIDE - 1, _WIDE))

    def device_type(self) -> int:
        """The number of its type."""
        return self._values[0]

    def device_mem_type(self) -> int:
        """The number of its memory's type; 0 is its own."""
        return self._values[1]

    def device_vendor_id(self) -> int:
        """The PCI number of its vendor; 0 for any."""
        return self._values[2]

    def device_id(self) -> int:
        """Which of several devices."""
        return self._values[3]

    mem_type = device_mem_type
    vendor_id = device_vendor_id

    def _get_c_device(self) -> OrtDevice:
        return self

    @property
    def _ort_device(self) -> OrtDevice:
        return self

    cpu = staticmethod(lambda: _CPU)
    gpu = staticmethod(lambda: _GPU)
    cuda = staticmethod(lambda: _GPU)
    webgpu = staticmethod(lambda: _GPU)
    fpga = staticmethod(lambda: _FPGA)
    npu = staticmethod(lambda: _NPU)
    cann = staticmethod(lambda: _NPU)
    dml = staticmethod(lambda: _DML)
    default_memory = staticmethod(lambda: 0)

    def _is_cpu(self) -> bool:
        return self._values[0] == _CPU

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OrtDevice) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    def __repr__(self) -> str:
        kind, memory, vendor, number = self._values
        return f"OrtDevice(type={kind}, memory={memory}, vendor={vendor:#06x}, id={number})"


def cpu_device() -> OrtDevice:
    """The CPU."""
    return OrtDevice(_CPU, 0, 0, 0)


class OrtMemoryInfo:
    """A kind of memory: its allocator's name, its device and what it is for."""

    def __init__(
        self, name: str, allocator_type: OrtAllocatorType, device_id: int, mem_type: OrtMemType
    ) -> None:
        out = ffi.new("OrtMemoryInfo**")
        numbers = (
            integer("the allocator_type", allocator_type),
            integer("the device_id", device_id),
            integer("the mem_type", mem_type),
        )
        check(api.CreateMemoryInfo(characters("the name", name), *numbers, out))
        self._pointer = ffi.gc(out[0], api.ReleaseMemoryInfo)

    @classmethod
    def _owning(cls, pointer: Any) -> OrtMemoryInfo:
        info = cls.__new__(cls)
        info._pointer = ffi.gc(pointer, api.ReleaseMemoryInfo)
        return info

    @classmethod
    def _copy_of(cls, pointer: Any) -> OrtMemoryInfo:
        """Of a plugin's ``OrtMemoryInfo*``, which goes with the plugin."""
        copy = lib.ephost_memory_info_copy(pointer)
        if not copy:
            raise MemoryError("no memory for a memory info")
        return cls._owning(copy)

    @staticmethod
    def create_v2(
        name: str,
        device_type: OrtMemoryInfoDeviceType,
        vendor_id: int,
        device_id: int,
        mem_type: OrtDeviceMemoryType,
        alignment: int,
        allocator_type: OrtAllocatorType,
    ) -> OrtMemoryInfo:
        """The memory info of a device by type, vendor and number."""
        out = ffi.new("OrtMemoryInfo**")
        check(
            api.CreateMemoryInfo_V2(
                characters("the name", name),
                integer("the device_type", device_type),
                integer("the vendor_id", vendor_id, 0, 2**32 - 1),
                integer("the device_id", device_id),
                integer("the mem_type", mem_type),
                integer("the alignment", alignment, 0, 2**63 - 1),
                integer("the allocator_type", allocator_type),
                out,
            )
        )
        return OrtMemoryInfo._owning(out[0])

    @property
    def name(self) -> str:
        """The allocator's name, such as ``Cpu``."""
        out = ffi.new("char**")
        check(api.MemoryInfoGetName(self._pointer, out))
        return text(out[0])

    @property
    def device_id(self) -> int:
        """Which of several devices."""
        out = ffi.new("int*")
        check(api.MemoryInfoGetId(self._pointer, out))
        return int(out[0])

    @property
    def mem_type(self) -> OrtMemType:
        """What it is for, seen from the execution provider."""
        out = ffi.new("OrtMemType*")
        check(api.MemoryInfoGetMemType(self._pointer, out))
        return OrtMemType(int(out[0]))

    @property
    def allocator_type(self) -> OrtAllocatorType:
        """Whether an arena stands before the device's allocator."""
        out = ffi.new("OrtAllocatorType*")
        check(api.MemoryInfoGetType(self._pointer, out))
        return OrtAllocatorType(int(out[0]))

    @property
    def device_mem_type(self) -> OrtDeviceMemoryType:
        """The device's own memory, or memory that the CPU can reach too."""
        return OrtDeviceMemoryType(int(api.MemoryInfoGetDeviceMemType(self._pointer)))

    @property
    def device_vendor_id(self) -> int:
        """The PCI number of the device's vendor; 0 for any."""
        return int(api.MemoryInfoGetVendorId(self._pointer))

    @property
    def device_type(self) -> OrtMemoryInfoDeviceType:
        """The kind of device."""
        out = ffi.new("OrtMemoryInfoDeviceType*")
        api.MemoryInfoGetDeviceType(self._pointer, out)
        return OrtMemoryInfoDeviceType(int(out[0]))

    def __repr__(self) -> str:
        return (
            f"OrtMemoryInfo(name={self.name!r}, device_type={self.device_type.name}, "
            f"device_id={self.device_id}, "
            f"mem_type={self.mem_type.name}, allocator_type={self.allocator_type.name})"
        )


_ARENA_FIELDS = {
    "max_mem": 0,
    "arena_extend_strategy": -1,
    "initial_chunk_size_bytes": -1,
    "max_dead_bytes_per_chunk": -1,
    "initial_growth_chunk_size_bytes": -1,
    "max_power_of_two_extend_bytes": -1,
}


class OrtArenaCfg:
    """How an arena grows: four numbers, or a dict of any of the fields. -1 leaves a field to the arena."""

    max_mem: int
    arena_extend_strategy: int
    initial_chunk_size_bytes: int
    max_dead_bytes_per_chunk: int
    initial_growth_chunk_size_bytes: int
    max_power_of_two_extend_bytes: int

    def __init__(self, max_mem: int | Mapping[str, int], *numbers: int) -> None:
        if isinstance(max_mem, Mapping):
            given = {key: integer(f"{key!r}", value, -1, 2**64 - 1) for key, value in max_mem.items()}
            if numbers:
                raise TypeError("OrtArenaCfg takes a dict, or four numbers")
            if unknown := set(given) - set(_ARENA_FIELDS):
                raise InvalidArgument(
                    f"Invalid OrtArenaCfg option: {sorted(unknown)[0]}; the options are "
                    f"{', '.join(_ARENA_FIELDS)}"
                )
        elif len(numbers) == 3:
            given = dict(zip(_ARENA_FIELDS, (int(max_mem), *map(int, numbers)), strict=False))
        else:
            raise TypeError("OrtArenaCfg takes a dict, or four numbers")
        for name, default in _ARENA_FIELDS.items():
            setattr(self, name, given.get(name, default))

    def __repr__(self) -> str:
        return f"OrtArenaCfg({ {name: getattr(self, name) for name in _ARENA_FIELDS} })"


class OrtSyncStream:
    """A queue of a device's work, from ``OrtEpDevice.create_sync_stream``. Its library stays registered."""

    _pointer: Any
    _label: str  # what errors call the execution provider

    def __init__(self) -> None:
        raise TypeError("OrtSyncStream comes from OrtEpDevice.create_sync_stream()")

    @classmethod
    def _owning(cls, pointer: Any, registration: Any, label: str) -> OrtSyncStream:
        def release(stream: Any) -> None:
            api.ReleaseSyncStream(stream)
            registration.release()

        stream = cls.__new__(cls)
        stream._pointer = ffi.gc(pointer, release)
        stream._label = label
        return stream

    def get_handle(self) -> int:
        """The stream's own handle, as a number.

        Raises:
            EPFail and others: the plugin's error.
        """
        with naming(lambda: f"{self._label} failed to give a stream's handle", lambda: self._label):
            handle = api.SyncStream_GetHandle(self._pointer)
            raise_thrown()
        return int(ffi.cast("uintptr_t", handle))

    def synchronize(self) -> None:
        """Wait until all that was queued is done. A name of ephost's own.

        Raises:
            EPFail and others: the plugin's error.
        """
        with naming(lambda: f"{self._label} failed to wait for a stream", lambda: self._label):
            check(lib.ephost_stream_wait(self._pointer))
