"""uvicorn's connections with bounds that it has none of: of a request's first line and headers, of the time
that a client lets it wait, and of their number.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ephost.serving.logs import Sparing

MOST_BYTES = 64 << 10
# In which a head has to be there, and something of a body to come.
WAIT_SECONDS = 30.0
_BODY = b'{"error":"the request\'s first line and headers have more than %d bytes"}' % MOST_BYTES
_ANSWER = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(_BODY), _BODY)
)
_warn_of_many = Sparing("more than %d connections are open: others are closed at once")


def most_connections() -> int | None:
    """How many may be open at once: half of the files that the process may open; None: any number."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if files == resource.RLIM_INFINITY else files // 2


class BoundedSocket(socket.socket):
    """A listening socket that closes connections beyond :func:`most_connections` before TLS is spoken on
    them: asyncio calls ``connection_made`` behind that.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._accepted: list[socket.socket] = []

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection.

        Raises:
            ConnectionAbortedError: there are too many, and it was closed.
        """
        made, address = super().accept()
        most = most_connections()
        if most is not None and len(self._accepted) >= most:
            self._accepted = [each for each in self._accepted if each.fileno() >= 0]  # the others are closed
            if len(self._accepted) >= most:
                _warn_of_many(most)
                made.close()
                raise ConnectionAbortedError
        self._accepted.append(made)
        return made, address


def _untaken_by(transport: asyncio.Transport) -> int:
    """Bytes that were written to a connection, and that the client has not confirmed."""
    untaken = transport.get_write_buffer_size()
    try:
        import fcntl
        import termios

        of_system = bytearray(4)
        fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, of_system)
    except (ImportError, OSError, ValueError):  # Windows; a socket that is closed
        return untaken
    return untaken + int.from_bytes(of_system, sys.byteorder)


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's protocol, which answers 431 to a head of more than :data:`MOST_BYTES`, and closes. It closes
    also when a client lets it wait for :data:`WAIT_SECONDS`, or takes nothing of an answer for so long, and
    ignores a wish for another protocol.
    """

    _heads = 0  # that have begun
    _in_head = True
    _head_bytes = 0  # that are known to be its own
    _ignores_upgrade = False
    _waits_since: float | None = None  # for the client
    _timer: asyncio.TimerHandle | None = None
    _untaken: tuple[int, float] = 0, 0.0  # bytes of answers that the client has not taken, and since when

    def connection_made(self, transport: Any) -> None:
        """A client has connected."""
        super().connection_made(transport)
        most = most_connections()
        if most is not None and len(self.connections) > most:
            _warn_of_many(most)
            transport.abort()
            return
        self._waits_since = self.loop.time()
        self._timer = self.loop.call_later(WAIT_SECONDS, self._check_time)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone, or was closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().connection_lost(exc)

    def _check_time(self) -> None:
        now = self.loop.time()
        untaken, since = _untaken_by(self.transport), self._untaken[1]
        if untaken == 0 or untaken != self._untaken[0]:
            self._untaken = untaken, now
        elif since + 0.9 * WAIT_SECONDS <= now:  # timers may be early
            self.transport.abort()  # to close it would wait for the client
            return
        if self._waits_since is not None and self.flow.read_paused:
            self._waits_since = now  # the client is not let send
        since = now if self._waits_since is None else self._waits_since
        left = since + WAIT_SECONDS - now
        if left <= 0:
            self.transport.close()
            left = WAIT_SECONDS  # for what the client has not taken yet
        self._timer = self.loop.call_later(left, self._check_time)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._heads += 1
        self._in_head, self._head_bytes = True, 0
        self._ignores_upgrade = False
        self._waits_since = self.loop.time()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header. What comes behind a body in chunks is read by nobody."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Its head ends."""
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > MOST_BYTES:
            self._refuse()
            raise ValueError("the head is too large")  # the parser's end
        self._in_head = False
        # Of an upgrade the parser would leave out the body. CONNECT is always one.
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._ignores_upgrade = True
        else:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request ends."""
        self._waits_since = None
        if not self._ignores_upgrade:
            super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """More bytes."""
        self._unset_keepalive_if_required()
        if not self._in_head:
            self._waits_since = self._waits_since and self.loop.time()
        heads, size = self._heads, len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError:
            if not self.transport.is_closing():
                self.logger.warning("Invalid HTTP request received.")
                self.send_400_response("Invalid HTTP request received.")
            return
        if self._in_head and self._heads in (heads, 1):
            self._head_bytes += size
            if self._head_bytes > MOST_BYTES:
                self._refuse()
        elif self._waits_since is None and (self.cycle is None or self.cycle.response_complete):
            self._waits_since = self.loop.time()  # bytes between requests have ended uvicorn's own wait

    def _feed(self, data: bytes) -> None:
        while True:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                if not self._ignores_upgrade:
                    return
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                with contextlib.suppress(AttributeError):  # httptools before 0.6.3
                    self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def _head_without_upgrade(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % (name, value) for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join((*lines, b"", b""))

    def _refuse(self) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:  # else it would be taken for that one's answer
            self.transport.write(_ANSWER)
        self.transport.close()
