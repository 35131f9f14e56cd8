"""The memory of an EP's own device: its allocator, and the way of tensors there and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ephost._bindings import NULL, api, check, ep_api, ffi, lib, member
from ephost.errors import EPFail, OnnxRuntimeException

if TYPE_CHECKING:
    from ephost.execution_provider import ExecutionProvider
    from ephost.model.graph import Value

_CPU = 0  # OrtMemoryInfoDeviceType_CPU
_HOST_ACCESSIBLE = 5  # OrtDeviceMemoryType_HOST_ACCESSIBLE


def own_memory(ep: ExecutionProvider) -> Any:
    """The ``OrtMemoryInfo*`` of the memory in which the EP wants its tensors; NULL when that is the CPU's."""
    info = api.EpDevice_MemoryInfo(ep.devices[0]._pointer, 0)
    if not info:
        return NULL
    device_type = ffi.new("OrtMemoryInfoDeviceType*")
    api.MemoryInfoGetDeviceType(info, device_type)
    if int(device_type[0]) == _CPU or int(api.MemoryInfoGetDeviceMemType(info)) == _HOST_ACCESSIBLE:
        return NULL
    if ep.member("GetDefaultMemoryDevice") is not None:
        device = ffi.new("OrtMemoryDevice**")
        ep.call("GetDefaultMemoryDevice", device)
        if device[0] and int(ep_api.MemoryDevice_GetDeviceType(device[0])) == _CPU:
            return NULL
    return info


class DeviceMemory:
    """An allocator and a data transfer for one EP of a session, and the weights uploaded through them."""

    def __init__(self, ep: ExecutionProvider, info: Any) -> None:
        """Ask the EP, or its factory, for what it takes to use its memory.

        Args:
            ep: whose memory it is.
            info: the memory, from :func:`own_memory`.

        Raises:
            EPFail: the plugin gives no allocator, or no data transfer that can copy to and from the CPU.
        """
        self.ep = ep
        self.info = info
        self.allocator: Any = NULL
        self.transfer: Any = NULL
        self._uploaded: dict[int, tuple[Value, Any]] = {}
        try:
            self.allocator = self._make_allocator()
            self.transfer = self._make_transfer()
        except BaseException:
            self.release()
            raise

    def _make_allocator(self) -> Any:
        ep, out = self.ep, ffi.new("OrtAllocator**")
        if ep.member("CreateAllocator") is not None:
            ep.call("CreateAllocator", self.info, out)
        elif (create := ep.factory_member("CreateAllocator")) is not None:
            self._checked("CreateAllocator", create(ep._factory, self.info, NULL, out))
        if not out[0]:
            raise EPFail(f"{ep.label} names memory of its own, but gives no allocator for it")
        return out[0]

    def _make_transfer(self) -> Any:
        ep, out = self.ep, ffi.new("OrtDataTransferImpl**")
        create = ep.factory_member("CreateDataTransfer")
        if create is not None:
            self._checked("CreateDataTransfer", create(ep._factory, out))
        if not out[0]:
            raise EPFail(f"{ep.label} names memory of its own, but gives no data transfer to and from it")
        here = ep_api.MemoryInfo_GetMemoryDevice(lib.ephost_get_cpu_memory_info())
        there = ep_api.MemoryInfo_GetMemoryDevice(self.info)
        if not (out[0].CanCopy(out[0], here, there) and out[0].CanCopy(out[0], there, here)):
            out[0].Release(out[0])
            raise EPFail(
                f"{ep.label} names memory of its own, but its data transfer cannot copy to and from the CPU"
            )
        return out[0]

    def _checked(self, function: str, status: Any) -> None:
        try:
            check(status)
        except OnnxRuntimeException as error:
            raise type(error)(f"{self.ep.label} failed in {function}: {error}") from None

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
                check(
                    api.CreateTensorAsOrtValue(self.allocator, view.dims, view.rank, view.element_type, out)
                )
                self._uploaded[id(value)] = (value, out[0])
                if view.nbytes:
                    check(self.transfer.CopyTensors(self.transfer, [host], [out[0]], NULL, 1))
            except OnnxRuntimeException as error:
                what = f"the initializer '{value.name}' ({value.type})"
                raise type(error)(f"{self.ep.label} cannot take {what} to its device: {error}") from None
            held = self._uploaded[id(value)]
        return held[1]

    def release(self) -> None:
        """Free the weights, then the transfer and the allocator."""
        for _, pointer in self._uploaded.values():
            api.ReleaseValue(pointer)
        self._uploaded.clear()
        if self.transfer:
            self.transfer.Release(self.transfer)
            self.transfer = NULL
        if self.allocator:
            release = member("OrtEpFactory", self.ep._factory, "ReleaseAllocator")
            if release is not None:
                release(self.ep._factory, self.allocator)
            self.allocator = NULL
