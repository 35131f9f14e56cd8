"""The memory of a session's EP: its allocators, its data transfer, and the weights uploaded to it."""

from __future__ import annotations

from typing import Any

from ephost._bindings import NULL, api, check, ep_api, ffi, guarded, lib, member
from ephost.device_memory import (
    Transport,
    factory_allocator,
    factory_transfer,
    given,
    memory_of,
    release_pair,
    require_release,
    weight_memory_of,
)
from ephost.errors import Fail, naming
from ephost.execution_provider import ExecutionProvider
from ephost.model.graph import Value

_CPU = 0  # OrtMemoryInfoDeviceType_CPU


def own_memory(ep: ExecutionProvider) -> Any:
    """The ``OrtMemoryInfo*`` of the memory in which the EP wants its tensors; NULL when that is the CPU's."""
    info = memory_of(ep.devices[0]._pointer)
    if info and ep.member("GetDefaultMemoryDevice") is not None:
        device = ffi.new("OrtMemoryDevice**")
        ep.call("GetDefaultMemoryDevice", device)
        if device[0] and int(ep_api.MemoryDevice_GetDeviceType(device[0])) == _CPU:
            return NULL
    return info


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
            self.transfer = factory_transfer(ep._factory, info, ep.label)
        except BaseException:
            self.release()
            raise

    def _make_allocator(self, info: Any, what: str) -> Any:
        ep = self.ep
        if ep.member("CreateAllocator") is None:
            return factory_allocator(ep._factory, info, ep.label, {}, what)
        require_release(ep._factory, ep.label)
        out = ffi.new("OrtAllocator**")
        ep.call("CreateAllocator", info, out)
        return given(out[0], what, ep.label)

    @property
    def stream_factory(self) -> Any:
        """The factory when its EPs work on streams, else NULL."""
        aware = self.ep.factory_member("IsStreamAware")
        with naming(lambda: f"the factory of {self.ep.label} failed in IsStreamAware"):
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
            what = f"the initializer '{value.name}' ({value.type})"
            with naming(lambda: f"{self.ep.label} cannot take {what} to its device"):
                self._allocate(view, out)
                self._uploaded[id(value)] = (value, out[0])
                if view.nbytes:
                    check(
                        guarded("OrtDataTransferImpl_CopyTensors")(self.transfer, [host], [out[0]], NULL, 1)
                    )
            held = self._uploaded[id(value)]
        return held[1]

    def _allocate(self, view: Any, out: Any) -> None:
        allocator = self._weights or self.allocator
        shape = view.dims, view.rank, view.element_type, out
        reserve = member("OrtAllocator", allocator, "Reserve") if self._reserve else None
        if reserve is None:
            check(api.CreateTensorAsOrtValue(allocator, *shape))
            return
        data = reserve(allocator, max(int(view.nbytes), 1))
        if not data:
            raise Fail(f"the allocator has no {view.nbytes} bytes to reserve")
        try:
            check(api.CreateTensorWithDataAndDeleterAsOrtValue(allocator, data, view.nbytes, *shape))
        except BaseException:
            guarded("OrtAllocator_Free")(allocator, data)
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
        release_pair(self.ep._factory, NULL, weights)
        release_pair(self.ep._factory, transfer, allocator)
