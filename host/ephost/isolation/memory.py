"""The memory of an isolated plugin's devices, as the host has it: in workers, in blocks that the host knows
by addresses at which nothing lies.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ephost._bindings import NULL, address, api, check, ffi, guarded, lib, text
from ephost.device_memory import Transport, device_numbers
from ephost.isolation.tables import status_of

if TYPE_CHECKING:
    from ephost.isolation.process import Worker

_keys = itertools.count(1)
_memories: dict[int, RemoteMemory] = {}  # by the number that C has as their handle
_sources: dict[int, Source] = {}  # likewise


def described(info: Any) -> list[Any] | None:
    """What another process has to know of an ``OrtMemoryInfo*``; None for NULL."""
    if not info:
        return None
    name, kind = ffi.new("char**"), ffi.new("OrtAllocatorType*")
    check(api.MemoryInfoGetName(info, name))
    check(api.MemoryInfoGetType(info, kind))
    return [text(name[0]), int(kind[0]), *device_numbers(info)]


def new_info(row: list[Any]) -> Any:
    """Such an ``OrtMemoryInfo*`` again, for the caller to release."""
    name, allocator_type, kind, memory_type, vendor, number = row
    out = ffi.new("OrtMemoryInfo**")
    numbers = int(kind), int(vendor), int(number), int(memory_type), 0, int(allocator_type)
    check(api.CreateMemoryInfo_V2(str(name).encode(), *numbers, out))
    return out[0]


class RemoteMemory(Transport):
    """The memory of one device in one worker, and the way of tensors there and back."""

    is_elsewhere = True

    def __init__(self, worker: Worker, number: int, info: Any, label: str, seconds: float) -> None:
        """Have the worker offer the memory.

        Args:
            worker: whose it is.
            number: which of its devices.
            info: ``OrtMemoryInfo*``, as long as there are blocks.
            label: what errors call the execution provider.
            seconds: how long an allocation or a copy may take; 0: any time.

        Raises:
            The plugin's error, or its fault.
        """
        sweep()
        worker.ask("memory", {"device": number}, timeout=seconds)
        self.worker = worker
        self.info = info
        self.label = label
        self.seconds = seconds
        self.pointer: Any = NULL
        self.allocator = self.transfer = NULL
        self._key = next(_keys)
        remote = lib.ephost_remote_new(
            worker.map_pool(),
            worker.pidfd,
            ffi.cast("void*", self._key),
            _open_lane_of_memory,
            _fault_of_memory,
        )
        if not remote:
            raise MemoryError("no memory for that of an isolated plugin's device")
        lib.ephost_remote_set_timeout(remote, seconds)
        _memories[self._key] = self  # before the lane is asked for
        out = ffi.new("EphostRemoteMemory**")
        try:
            check(lib.ephost_remote_memory_new(remote, number, info, out))
            self.pointer = out[0]
            self.allocator = lib.ephost_remote_memory_allocator(self.pointer)
            self.transfer = lib.ephost_remote_transfer_new(info)
            if not self.transfer:
                raise MemoryError("no memory for that of an isolated plugin's device")
        except BaseException:
            self.release()
            raise

    @property
    def is_used(self) -> bool:
        """Whether a value lies in it."""
        return bool(self.pointer) and lib.ephost_remote_memory_blocks(self.pointer) > 0

    def release(self) -> None:
        """Let go of what C has of it; no value may be left."""
        _memories.pop(self._key, None)
        if self.transfer:
            guarded("OrtDataTransferImpl_Release")(self.transfer)
        lib.ephost_remote_memory_release(self.pointer)
        self.pointer = self.allocator = self.transfer = NULL


def sweep() -> None:
    """Release the memories of workers that have ended, of which no value is left: the last one may have died
    after its worker.
    """
    for memory in list(_memories.values()):
        if memory.pointer and not memory.worker.is_alive and not memory.is_used:
            memory.release()


def memory_in(worker: Worker, number: int, info: Any, label: str, seconds: float) -> RemoteMemory:
    """The memory of a worker's device, made when it is first asked for."""
    found: RemoteMemory | None = worker.memories.get(number)
    if found is None:
        found = worker.memories[number] = RemoteMemory(worker, number, info, label, seconds)
    return found


def release_memories(worker: Worker) -> None:
    """Let go of the memories of a worker that ends, but for those of which values are left."""
    for memory in worker.memories.values():
        if not memory.is_used:
            memory.release()
    worker.memories.clear()


class Source:
    """An ``OrtAllocator*`` for values that belong to no session, in the worker that is there then."""

    def __init__(self, info: Any, find: Callable[[], RemoteMemory]) -> None:
        """Allocate nothing yet. ``find`` gives the memory to take a block of."""
        self.find = find
        self._key = next(_keys)
        _sources[self._key] = self
        self.pointer = lib.ephost_remote_allocator_new(ffi.cast("void*", self._key), _allocate, info)
        if not self.pointer:
            del _sources[self._key]
            raise MemoryError("no memory for an allocator")

    @staticmethod
    def free(pointer: Any) -> None:
        """Free such an allocator."""
        for key, source in list(_sources.items()):
            if address(source.pointer) == address(pointer):
                del _sources[key]
        lib.ephost_remote_allocator_free(pointer)


def _lane(handle: Any, offset: int, socket: Any) -> Any:
    try:
        memory = _memories[int(ffi.cast("uintptr_t", handle))]
        socket[0] = memory.worker.open_lane(offset)
    except Exception as error:
        return status_of(error)
    return NULL


def _fault(handle: Any, timed_out: bool, what: Any) -> Any:
    try:
        memory = _memories[int(ffi.cast("uintptr_t", handle))]
        return status_of(memory.worker.fail(text(what), timed_out=memory.seconds if timed_out else 0.0))
    except Exception as error:
        return status_of(error)


def _take(handle: Any, nbytes: int, out: Any) -> Any:
    try:
        memory = _sources[int(ffi.cast("uintptr_t", handle))].find()
        check(lib.ephost_remote_memory_alloc(memory.pointer, nbytes, out))
    except Exception as error:
        return status_of(error)
    return NULL


_open_lane_of_memory = ffi.callback("EphostLaneOpener", _lane)
_fault_of_memory = ffi.callback("EphostFaultCallback", _fault)
_allocate = ffi.callback("EphostRemoteAllocate", _take)
