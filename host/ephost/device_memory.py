"""The memory of an EP's own device: its allocator, and the way of tensors there and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ephost._bindings import NULL, api, check, ep_api, ffi, lib, member, new_key_values
from ephost.errors import EPFail, Fail, OnnxRuntimeException

if TYPE_CHECKING:
    from ephost.execution_provider import ExecutionProvider
    from ephost.model.graph import Value

_CPU = 0  # OrtMemoryInfoDeviceType_CPU
_HOST_ACCESSIBLE = 5  # OrtDeviceMemoryType_HOST_ACCESSIBLE
_RESERVING = 18  # the API version from which on allocators have Reserve


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


def own_memory(ep: ExecutionProvider) -> Any:
    """The ``OrtMemoryInfo*`` of the memory in which the EP wants its tensors; NULL when that is the CPU's."""
    info = memory_of(ep.devices[0]._pointer)
    if info and ep.member("GetDefaultMemoryDevice") is not None:
        device = ffi.new("OrtMemoryDevice**")
        ep.call("GetDefaultMemoryDevice", device)
        if device[0] and int(ep_api.MemoryDevice_GetDeviceType(device[0])) == _CPU:
            return NULL
    return info


def _checked(label: str, function: str, status: Any) -> None:
    try:
        check(status)
    except OnnxRuntimeException as error:
        raise type(error)(f"{label} failed in {function}: {error}") from None


def _given(pointer: Any, what: str, label: str) -> Any:
    if not pointer:
        raise EPFail(f"{label} names memory of its own, but gives no {what} for it")
    return pointer


def _factory_allocator(
    factory: Any, info: Any, label: str, options: Mapping[str, str], what: str = "allocator"
) -> Any:
    out = ffi.new("OrtAllocator**")
    create = member("OrtEpFactory", factory, "CreateAllocator")
    if create is not None:
        pairs = new_key_values(dict(options)) if options else NULL
        try:
            _checked(label, "CreateAllocator", create(factory, info, pairs, out))
        finally:
            if pairs:
                api.ReleaseKeyValuePairs(pairs)
    return _given(out[0], what, label)


def _factory_transfer(factory: Any, info: Any, label: str) -> Any:
    out = ffi.new("OrtDataTransferImpl**")
    create = member("OrtEpFactory", factory, "CreateDataTransfer")
    if create is not None:
        _checked(label, "CreateDataTransfer", create(factory, out))
    transfer = _given(out[0], "data transfer", label)
    here = ep_api.MemoryInfo_GetMemoryDevice(lib.ephost_get_cpu_memory_info())
    there = ep_api.MemoryInfo_GetMemoryDevice(info)
    if not (transfer.CanCopy(transfer, here, there) and transfer.CanCopy(transfer, there, here)):
        transfer.Release(transfer)
        raise EPFail(
            f"{label} names memory of its own, but its data transfer cannot copy to and from the CPU"
        )
    return transfer


def _release_pair(factory: Any, transfer: Any, allocator: Any) -> None:
    if transfer:
        transfer.Release(transfer)
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
        status = self.transfer.CopyTensors(self.transfer, [source], [target], streams, 1)
        _checked(self.label, "CopyTensors", status)

    def is_on(self, device: tuple[int, int, int, int]) -> bool:
        """Whether it is the memory of a device: type, memory type, vendor (0: any) and number."""
        kind, memory_type, vendor, number = device_numbers(self.info)
        return (kind, memory_type, number) == (device[0], device[1], device[3]) and device[2] in (0, vendor)

    def can_copy(self, source: Any, target: Any) -> bool:
        """Whether it copies from one ``OrtMemoryInfo*`` to another."""
        devices = (ep_api.MemoryInfo_GetMemoryDevice(info) for info in (source, target))
        return bool(self.transfer.CanCopy(self.transfer, *devices))


class SharedMemory(Transport):
    """The memory of an EP's device outside of sessions: for the values that a program puts there itself.

    It belongs to the registration of the EP's library, which stays registered while there are such values.
    """

    def __init__(self, factory: Any, info: Any, label: str, options: Mapping[str, str]) -> None:
        """Ask a factory for what it takes to use its device's memory.

        Args:
            factory: ``OrtEpFactory*``.
            info: the memory, from :func:`memory_of` or :func:`host_accessible_memory_of`.
            label: what errors call the execution provider.
            options: for the allocator, as the plugin understands them.

        Raises:
            EPFail: the plugin gives no allocator, or no data transfer that can copy to and from the CPU.
        """
        self.info = info
        self.label = label
        self._factory = factory
        self.is_on_host = device_numbers(info)[1] == _HOST_ACCESSIBLE
        self.allocator = _factory_allocator(factory, info, label, options)
        self.transfer = NULL
        try:
            if not self.is_on_host:  # there the CPU copies
                self.transfer = _factory_transfer(factory, info, label)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the transfer, then the allocator. No value may be left."""
        transfer, allocator = self.transfer, self.allocator
        self.transfer = self.allocator = NULL
        _release_pair(self._factory, transfer, allocator)


class DeviceMemory(Transport):
    """An allocator and a data transfer for one EP of a session, and the weights uploaded through them."""

    def __init__(self, ep: ExecutionProvider, info: Any, *, reserve: bool = False) -> None:
        """Ask the EP, or its factory, for what it takes to use its memory.

        Args:
            ep: whose memory it is.
            info: the memory, from :func:`own_memory`.
            reserve: weights get memory by the allocator's ``Reserve``, where it has one: memory that is kept
                for long, and taken past what it sets aside for runs.

        Raises:
            EPFail: the plugin gives no allocator, or no data transfer that can copy to and from the CPU.
        """
        self.ep = ep
        self.info = info
        self.label = ep.label
        self.allocator = NULL
        self.transfer = NULL
        self._weights: Any = NULL  # OrtAllocator* of weights, where they have one of their own
        self._reserve = reserve
        self._uploaded: dict[int, tuple[Value, Any]] = {}
        try:
            self.allocator = self._make_allocator(info, "allocator")
            if weights := weight_memory_of(ep.devices[0]._pointer):
                self._weights = self._make_allocator(weights, "allocator for what is only read")
            self.transfer = _factory_transfer(ep._factory, info, ep.label)
        except BaseException:
            self.release()
            raise

    def _make_allocator(self, info: Any, what: str) -> Any:
        ep = self.ep
        if ep.member("CreateAllocator") is None:
            return _factory_allocator(ep._factory, info, ep.label, {}, what)
        out = ffi.new("OrtAllocator**")
        ep.call("CreateAllocator", info, out)
        return _given(out[0], what, ep.label)

    @property
    def stream_factory(self) -> Any:
        """The factory when its EPs work on streams, else NULL."""
        aware = self.ep.factory_member("IsStreamAware")
        return self.ep._factory if aware is not None and aware(self.ep._factory) else NULL

    def upload(self, value: Value, host: Any) -> Any:
        """The ``OrtValue*`` of an initializer on the device; made once, owned by this object.

        Args:
            value: the initializer.
            host: its ``OrtValue*`` on the CPU.

        Raises:
            The plugin's error, when there is no room or the copy fails; the message names the initializer.
        """
        held = self._uploaded.get(id(value))
        if held is None:
            view = ffi.new("EphostValueView*")
            lib.ephost_value_view(host, view)
            out = ffi.new("OrtValue**")
            try:
                self._allocate(view, out)
                self._uploaded[id(value)] = (value, out[0])
                if view.nbytes:
                    check(self.transfer.CopyTensors(self.transfer, [host], [out[0]], NULL, 1))
            except OnnxRuntimeException as error:
                what = f"the initializer '{value.name}' ({value.type})"
                raise type(error)(f"{self.ep.label} cannot take {what} to its device: {error}") from None
            held = self._uploaded[id(value)]
        return held[1]

    def _allocate(self, view: Any, out: Any) -> None:
        allocator = self._weights or self.allocator
        shape = view.dims, view.rank, view.element_type, out
        if not (self._reserve and int(allocator.version) >= _RESERVING and allocator.Reserve):
            check(api.CreateTensorAsOrtValue(allocator, *shape))
            return
        data = allocator.Reserve(allocator, max(int(view.nbytes), 1))
        if not data:
            raise Fail(f"the allocator has no {view.nbytes} bytes to reserve")
        try:
            check(api.CreateTensorWithDataAndDeleterAsOrtValue(allocator, data, view.nbytes, *shape))
        except BaseException:
            allocator.Free(allocator, data)
            raise

    def forget(self, value: Value) -> None:
        """Free an initializer on the device that nobody needs any more."""
        if (held := self._uploaded.pop(id(value), None)) is not None:
            api.ReleaseValue(held[1])

    def release(self) -> None:
        """Free the weights, then the transfer and the allocators."""
        for _, pointer in self._uploaded.values():
            api.ReleaseValue(pointer)
        self._uploaded.clear()
        transfer, allocator, weights = self.transfer, self.allocator, self._weights
        self.transfer = self.allocator = self._weights = NULL
        _release_pair(self.ep._factory, NULL, weights)
        _release_pair(self.ep._factory, transfer, allocator)
