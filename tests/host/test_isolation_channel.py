"""Messages between host and worker: whole, or an end that is heard."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest
from ephost.isolation import channel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="plugins are isolated on Linux alone")
LARGE = b"x" * (8 << 20)  # more than a socket holds

COUNT = """
import socket, sys

end, count = socket.socket(fileno=int(sys.argv[1])), 0
while part := end.recv(65536):
    count += len(part)
print(count)
"""


@pytest.fixture
def ends() -> Iterator[tuple[channel.Hearing, socket.socket]]:
    """The host's end, of a process that has ended, and the other, which a child of that still holds open."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen([sys.executable, "-c", ""])
    descriptor = os.pidfd_open(process.pid)
    process.wait()
    with channel.Hearing(fileno=ours.detach()) as heard, theirs:
        heard.process = descriptor
        yield heard, theirs
    os.close(descriptor)


def test_a_process_that_has_ended_is_heard_though_a_child_holds_the_socket(
    ends: tuple[channel.Hearing, socket.socket],
) -> None:
    assert channel.receive(ends[0]) is None


def test_what_it_said_before_is_heard_first(ends: tuple[channel.Hearing, socket.socket]) -> None:
    heard, theirs = ends
    channel.send(theirs, b"one")
    channel.send(theirs, b"two")
    assert channel.receive(heard) == (bytearray(b"one"), [])
    assert channel.receive(heard) == (bytearray(b"two"), [])
    assert channel.receive(heard) is None


@pytest.mark.parametrize("said", [b"\x05", struct.pack("<QI", 100, 0), struct.pack("<QI", 100, 0) + b"abc"])
def test_half_a_message_is_the_end(ends: tuple[channel.Hearing, socket.socket], said: bytes) -> None:
    heard, theirs = ends
    theirs.sendall(said)
    assert channel.receive(heard) is None


def test_nobody_waits_for_such_a_process_to_read(ends: tuple[channel.Hearing, socket.socket]) -> None:
    with pytest.raises(BrokenPipeError):
        channel.send(ends[0], LARGE)


def test_a_large_message_arrives_whole() -> None:
    ours, theirs = socket.socketpair()
    with channel.Hearing(fileno=ours.detach()) as heard:
        process = subprocess.Popen(
            [sys.executable, "-c", COUNT, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdout=subprocess.PIPE,
        )
        theirs.close()
        heard.process = os.pidfd_open(process.pid)
        channel.send(heard, LARGE)
        os.close(heard.process)
        heard.process = -1
    assert process.communicate()[0].strip() == str(len(LARGE) + 12).encode()
