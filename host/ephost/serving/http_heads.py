"""Heads of HTTP requests: their first lines and headers, of which uvicorn would keep any number of bytes."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_BYTES = 64 << 10
_BODY = b'{"error":"the request\'s first line and headers have more than %d bytes"}' % MOST_BYTES
_ANSWER = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(_BODY), _BODY)
)


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's protocol, which answers 431 to a head of more than :data:`MOST_BYTES`, and closes."""

    _in_head = True
    _head_bytes = 0

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head ends."""
        self._in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """More bytes of it."""
        super().data_received(data)
        if not self._in_head:
            return
        self._head_bytes += len(data)
        if self._head_bytes > MOST_BYTES and not self.transport.is_closing():
            self.transport.write(_ANSWER)
            self.transport.close()
