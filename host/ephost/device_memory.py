"""The memory of an EP's own device: its allocator, and the way of tensors there and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ephost._bindings import NULL, api, check, ep_api, ffi, guarded, lib, member, new_key_values
from ephost.errors import EPFail, naming

_CPU = 0  # OrtMemoryInfoDeviceType_CPU
_HOST_ACCESSIBLE = 5  # OrtDeviceMemoryType_HOST_ACCESSIBLE


def memory_of(ep_device: Any) -> Any:
    """The ``OrtMemoryInfo*`` of an ``OrtEpDevice*``'s own memory; NULL when it names none but the CPU's."""
    info = api.EpDevice_MemoryInfo(ep_device, 0)
    if not info:
        return NULL
    device_type = ffi.new("OrtMemoryInfoDeviceType*")
    api.MemoryInfoGetDeviceType(info, device_type)
    if int(device_type[0]) == _CPU or int(api.MemoryInfoGetDeviceMemType(info)) == _HOST_ACCESSIBLE:
        return NULL
    return info


def host_accessible_memory_of(ep_device: Any) -> Any:
    """The ``OrtMemoryInfo*`` of what an ``OrtEpDevice*`` shares with the CPU; NULL when it names none."""
    return api.EpDevice_MemoryInfo(ep_device, _HOST_ACCESSIBLE)


def weight_memory_of(ep_device: Any) -> Any:
    """The ``OrtMemoryInfo*`` of where an ``OrtEpDevice*`` wants weights; NULL: where all else is."""
    return lib.ephost_ep_device_read_only_memory(ep_device)


def device_numbers(info: Any) -> tuple[int, int, int, int]:
    """The device of an ``OrtMemoryInfo*``: type, memory type, vendor and number."""
    kind, number = ffi.new("OrtMemoryInfoDeviceType*"), ffi.new("int*")
    api.MemoryInfoGetDeviceType(info, kind)
    check(api.MemoryInfoGetId(info, number))
    vendor, memory_type = api.MemoryInfoGetVendorId(info), api.MemoryInfoGetDeviceMemType(info)
    return int(kind[0]), int(memory_type), int(vendor), int(number[0])


def _checked(label: str, function: str, status: Any) -> None:
    with naming(lambda: f"{label} failed in {function}"):
        check(status)


def given(pointer: Any, what: str, label: str) -> Any:
    """The pointer, which a plugin must not leave NULL."""
    if not pointer:
        raise EPFail(f"{label} names memory of its own, but gives no {what} for it")
    return pointer


def require_release(factory: Any, label: str) -> None:
    """Hold that a factory releases the allocators that it, or an EP of it, makes.

    Raises:
        EPFail: it does not.
    """
    if member("OrtEpFactory", factory, "ReleaseAllocator") is None:
        raise EPFail(f"{label} has CreateAllocator, but no ReleaseAllocator to release what it makes")


def factory_allocator(
    factory: Any, info: Any, label: str, options: Mapping[str, str], what: str = "allocator"
) -> Any:
    """An allocator that a factory makes for a memory; the caller releases it."""
    out = ffi.new("OrtAllocator**")
    create = member("OrtEpFactory", factory, "CreateAllocator")
    if create is not None:
        require_release(factory, label)
        pairs = new_key_values(dict(options)) if options else NULL
        try:
            _checked(label, "CreateAllocator", create(factory, info, pairs, out))
        finally:
            if pairs:
                api.ReleaseKeyValuePairs(pairs)
    return given(out[0], what, label)


def factory_transfer(factory: Any, info: Any, label: str) -> Any:
    """The data transfer that a factory makes; the caller releases it."""
    out = ffi.new("OrtDataTransferImpl**")
    create = member("OrtEpFactory", factory, "CreateDataTransfer")
    if create is not None:
        _checked(label, "CreateDataTransfer", create(factory, out))
    transfer = given(out[0], "data transfer", label)
    here = ep_api.MemoryInfo_GetMemoryDevice(lib.ephost_get_cpu_memory_info())
    there = ep_api.MemoryInfo_GetMemoryDevice(info)
    can_copy = guarded("OrtDataTransferImpl_CanCopy")
    try:
        with naming(lambda: f"{label} failed in CanCopy"):
            fits = can_copy(transfer, here, there) and can_copy(transfer, there, here)
    except BaseException:
        guarded("OrtDataTransferImpl_Release")(transfer)
        raise
    if not fits:
        guarded("OrtDataTransferImpl_Release")(transfer)
        raise EPFail(
            f"{label} names memory of its own, but its data transfer cannot copy to and from the CPU"
        )
    return transfer


def release_pair(factory: Any, transfer: Any, allocator: Any) -> None:
    """Release a data transfer and an allocator, as far as there are any."""
    if transfer:
        guarded("OrtDataTransferImpl_Release")(transfer)
    if allocator and (release := member("OrtEpFactory", factory, "ReleaseAllocator")) is not None:
        release(factory, allocator)


def is_cpus(value: Any) -> bool:
    """Whether an ``OrtValue*`` is in memory that the CPU reads; as what is no tensor always is."""
    view, kind = ffi.new("EphostValueView*"), ffi.new("OrtMemoryInfoDeviceType*")
    lib.ephost_value_view(value, view)
    if not view.memory_info:
        return True
    api.MemoryInfoGetDeviceType(view.memory_info, kind)
    return int(kind[0]) == _CPU


class Transport:
    """The memory of one device of an EP, and the way of tensors there and back."""

    info: Any  # OrtMemoryInfo*
    is_on_host = False  # whether the CPU reads and writes it, too
    is_elsewhere = False  # whether it is in an isolated plugin's process: an address of it is only a name
    label: str  # what errors call the execution provider
    allocator: Any  # OrtAllocator*
    transfer: Any  # OrtDataTransferImpl*

    def copy(self, source: Any, target: Any, stream: Any = NULL) -> None:
        """Copy a tensor's elements, from or to the device.

        Args:
            source: ``OrtValue*``.
            target: ``OrtValue*`` of the same type and shape.
            stream: ``OrtSyncStream*`` of the device, or NULL to have the copy done on return.

        Raises:
            The plugin's error.
        """
        streams = [stream] if stream else NULL
        status = guarded("OrtDataTransferImpl_CopyTensors")(self.transfer, [source], [target], streams, 1)
        _checked(self.label, "CopyTensors", status)

    def allocate(self, dims: Sequence[int], element_type: int) -> Any:
        """A new tensor there, as an ``OrtValue*`` for the caller to release.

        Raises:
            EPFail and others: the plugin's error, or there is no such memory.
        """
        out = ffi.new("OrtValue**")
        for name in ("Alloc", "Free", "Info"):
            if not getattr(self.allocator, name):
                raise EPFail(f"{self.label} gave an allocator without {name} from CreateAllocator")
        with naming(lambda: f"{self.label} cannot make a value on its device", lambda: self.label):
            check(api.CreateTensorAsOrtValue(self.allocator, dims, len(dims), element_type, out))
        return out[0]

    def is_on(self, device: tuple[int, int, int, int]) -> bool:
        """Whether it is the memory of a device: type, memory type, vendor (0: any) and number."""
        kind, memory_type, vendor, number = device_numbers(self.info)
        return (kind, memory_type, number) == (device[0], device[1], device[3]) and device[2] in (0, vendor)

    def can_copy(self, source: Any, target: Any) -> bool:
        """Whether it copies from one ``OrtMemoryInfo*`` to another."""
        devices = (ep_api.MemoryInfo_GetMemoryDevice(info) for info in (source, target))
        return bool(guarded("OrtDataTransferImpl_CanCopy")(self.transfer, *devices))


class SharedMemory(Transport):
    """The memory of an EP's device outside of sessions: for the values that a program puts there itself.

    It belongs to the registration of the EP's library, which stays registered while there are such values.
    """

    def __init__(
        self, factory: Any, info: Any, label: str, options: Mapping[str, str], *, is_elsewhere: bool = False
    ) -> None:
        """Ask a factory for what it takes to use its device's memory.

        Args:
            factory: ``OrtEpFactory*``.
            info: the memory, from :func:`memory_of` or :func:`host_accessible_memory_of`.
            label: what errors call the execution provider.
            options: for the allocator, as the plugin understands them.
            is_elsewhere: whether the plugin is in a process of its own.

        Raises:
            EPFail: the plugin gives no allocator, or no data transfer that can copy to and from the CPU.
        """
        self.info = info
        self.label = label
        self._factory = factory
        self.is_on_host = device_numbers(info)[1] == _HOST_ACCESSIBLE
        self.is_elsewhere = is_elsewhere
        self.allocator = factory_allocator(factory, info, label, options)
        self.transfer = NULL
        try:
            if not self.is_on_host:  # there the CPU copies
                self.transfer = factory_transfer(factory, info, label)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the transfer, then the allocator. No value may be left."""
        transfer, allocator = self.transfer, self.allocator
        self.transfer = self.allocator = NULL
        release_pair(self._factory, transfer, allocator)


class Owner(Protocol):
    """What a device's memory belongs to: it lives while somebody has acquired it."""

    def acquire(self) -> None:
        """Keep the memory."""

    def release(self) -> None:
        """The end of an ``acquire``."""


class Lease:
    """Keeps what a device's memory belongs to, until the last value in that memory is gone."""

    def __init__(self, owner: Owner, keeps: Any) -> None:
        self._release: Callable[[], None] | None = None
        self._keeps = keeps
        owner.acquire()
        self._release = owner.release

    def __del__(self) -> None:
        if self._release is not None:
            self._release()
