"""What host and worker send each other: messages of bytes over a connected pair of sockets, with descriptors.

The host sends pickles, which the worker may trust; the worker answers in JSON, since nothing that it sends
may make the host do anything.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from collections.abc import Sequence
from typing import Any

_HEADER = struct.Struct("<QI")  # bytes of the message, number of descriptors
MAX_DESCRIPTORS = 8
MAX_BYTES = 1 << 31


class Hearing(socket.socket):
    """The end of a pair that also ends with a process, whose children may hold the other end open."""

    process = -1  # a descriptor that can be read once the process has ended; -1: there is none

    def _wait(self, what: int) -> None:
        process = self.process
        if process < 0:
            return
        poll = select.poll()
        poll.register(self, what)
        poll.register(process, select.POLLIN)
        if any(file == process for file, _ in poll.poll()):
            self.process = -1
            self.shutdown(socket.SHUT_RDWR)  # what was sent can still be read

    def recvmsg(self, *arguments: Any) -> Any:
        """As a socket has it."""
        self._wait(select.POLLIN)
        return super().recvmsg(*arguments)

    def recv_into(self, *arguments: Any) -> int:
        """As a socket has it."""
        self._wait(select.POLLIN)
        return super().recv_into(*arguments)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """As a socket has it; an OSError also when the process ends before it has read enough."""
        view = memoryview(data)
        while len(view):
            self._wait(select.POLLOUT)
            with contextlib.suppress(BlockingIOError):  # it is looked at again
                view = view[self.send(view, flags | (socket.MSG_DONTWAIT if self.process >= 0 else 0)) :]


def send(connection: socket.socket, data: bytes, descriptors: Sequence[int] = ()) -> None:
    """Send a message whole."""
    header = _HEADER.pack(len(data), len(descriptors))
    if descriptors:
        sent = socket.send_fds(connection, [header], list(descriptors))
        header = header[sent:]
    connection.sendall(header + data if len(data) < 65536 else header)
    if len(data) >= 65536:
        connection.sendall(data)


def receive(connection: socket.socket) -> tuple[bytearray, list[int]] | None:
    """The next message, and the descriptors that came with it; None at the end.

    Raises:
        ValueError: what comes is no message.
    """
    head, descriptors, _, _ = socket.recv_fds(connection, _HEADER.size, MAX_DESCRIPTORS)
    header = bytearray(head)
    if not header:
        return None
    if len(header) < _HEADER.size:
        rest = _exactly(connection, _HEADER.size - len(header))
        if rest is None:
            return None
        header += rest
    size, _ = _HEADER.unpack(header)
    if size > MAX_BYTES:
        raise ValueError(f"a message of {size} bytes")
    data = _exactly(connection, size)
    return None if data is None else (data, descriptors)


def _exactly(connection: socket.socket, size: int) -> bytearray | None:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        count = connection.recv_into(view[got:])
        if count == 0:
            return None
        got += count
    return data
