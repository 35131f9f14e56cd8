"""The end of a lane, on which a worker's thread may be late: a test plays the worker.

A session that ends gives its lanes' memory back, and the next one in the same worker gets it. A thread that
has not heard of the end by then would take a turn that is the next session's.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from native_objects import api, ffi, lib, out

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="plugins are isolated on Linux alone")

POOL_BYTES = 1 << 24
# The tests wait so long for what must not happen, and stay well below the host's patience with a thread.
A_WHILE = 0.5


class Worker:
    """The other end of lanes: their sockets, and where their blocks lie."""

    def __init__(self) -> None:
        file = os.memfd_create("lanes", os.MFD_CLOEXEC)
        os.ftruncate(file, POOL_BYTES)
        self.pool = lib.ephost_pool_open(file, POOL_BYTES)
        assert self.pool
        self.process = -1
        self.sockets: list[socket.socket] = []
        self.offsets: list[int] = []
        self._open = ffi.callback("EphostLaneOpener", self._opened)
        self._fault = ffi.callback("EphostFaultCallback", self._faulted)

    def _opened(self, _: Any, offset: int, given: Any) -> Any:
        ours, theirs = socket.socketpair()
        given[0] = ours.detach()
        self.sockets.append(theirs)
        self.offsets.append(offset)
        return ffi.NULL

    def _faulted(self, _: Any, timed_out: bool, what: Any) -> Any:
        said = f"{ffi.string(what).decode()}{' was late' if timed_out else ''}"
        return api.CreateStatus(lib.ORT_EP_FAIL, said.encode())

    def memory(self, seconds: float = 0.0) -> Any:
        """What has a lane, from when it is made to when it is released."""
        remote = lib.ephost_remote_new(self.pool, self.process, ffi.NULL, self._open, self._fault)
        lib.ephost_remote_set_timeout(remote, seconds)
        return out("EphostRemoteMemory*", lib.ephost_remote_memory_new, remote, 0, ffi.NULL)

    def in_use(self) -> int:
        """Bytes of the pool that nobody else gets."""
        return int(lib.ephost_pool_in_use(self.pool))


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    for each in made.sockets:
        each.close()
    lib.ephost_pool_release(made.pool)


def test_a_lanes_memory_is_kept_until_the_workers_thread_has_left(worker: Worker) -> None:
    memory = worker.memory()
    (theirs,) = worker.sockets
    taken = worker.in_use()
    assert taken > 0
    ending = threading.Thread(target=lib.ephost_remote_memory_release, args=(memory,), daemon=True)
    ending.start()
    assert theirs.recv(1) == b""  # it has ended, which a thread of the worker's hears when it gets to it
    ending.join(A_WHILE)
    assert ending.is_alive()
    assert worker.in_use() == taken
    other = worker.memory()  # the next session's
    assert worker.offsets[1] != worker.offsets[0]
    theirs.close()  # what a worker's thread does last
    ending.join()
    assert worker.in_use() == taken
    worker.sockets[1].close()
    lib.ephost_remote_memory_release(other)
    assert worker.in_use() == 0
    again = worker.memory()
    assert set(worker.offsets[2:]) <= set(worker.offsets[:2])
    worker.sockets[2].close()
    lib.ephost_remote_memory_release(again)


def test_who_is_late_is_a_fault_before_anybody_waits_for_its_thread(worker: Worker) -> None:
    """The host ends a worker when it hears of the fault: a thread of it that hangs leaves no lane before."""
    memory = worker.memory(seconds=0.001)
    (theirs,) = worker.sockets
    block = ffi.new("void**")
    for _ in range(2):  # found out, and asked again
        status = lib.ephost_remote_memory_alloc(memory, 64, block)
        assert ffi.string(api.GetErrorMessage(status)).decode() == "allocate was late"
        api.ReleaseStatus(status)
        assert worker.in_use() > 0
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):  # nothing was said of an end
            while theirs.recv(64):
                pass
    theirs.close()
    lib.ephost_remote_memory_release(memory)
    assert worker.in_use() == 0
