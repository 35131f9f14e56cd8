"""Connections over HTTP: what one carries besides requests in turn, those that carry nothing, and many."""

import asyncio
import json
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from served import Served

uvicorn = pytest.importorskip("uvicorn", reason="the extra ephost[serve] is not installed")
from ephost.serving import http_heads  # noqa: E402
from ephost.serving.logs import Sparing  # noqa: E402
from ephost.serving.server import _handle  # noqa: E402
from uvicorn.server import ServerState  # noqa: E402

SECONDS = 60.0
LARGE = 8 << 20
BODY = json.dumps({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]})
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"


def request(headers: bytes = b"", spaces: int = 0) -> bytes:
    body = BODY.encode() + b" " * spaces
    head = b"POST /v2/models/versions/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n" % len(body)
    return head + headers + b"\r\n" + body


def statuses(server: Served, *parts: bytes, count: int = 1) -> list[int]:
    """The statuses of so many answers, or of fewer where the server closes; a part follows the last one's."""
    found: list[int] = []
    with socket.create_connection(("127.0.0.1", server.http_port), SECONDS) as connection:
        stream = connection.makefile("rb")
        for part in parts:
            connection.sendall(part)
            server.ask("/v2/health/live")  # so that it has come by itself
        while len(found) < count and (line := stream.readline()):
            found.append(int(line.split()[1]))
            length = 0
            while (line := stream.readline()).strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            stream.read(length)
    return found


def test_bodies_of_pipelined_requests_are_no_part_of_a_head(server: Served) -> None:
    large = request(spaces=70_000)
    assert statuses(server, large + request()[:20], request()[20:], count=2) == [200] * 2
    assert statuses(server, request(spaces=20_000) * 9, count=9) == [200] * 9


def test_a_large_head_is_refused_when_it_comes_as_one(server: Served) -> None:
    head = b"GET /v2 HTTP/1.1\r\nHost: x\r\nX: %b\r\n\r\n"
    assert statuses(server, head % (b"a" * 70_000)) == [431]
    assert statuses(server, head % (b"a" * 60_000)) == [200]
    assert statuses(server, b"GET /v2/health/live HTTP/1.1\r\n\r\n", head % (b"a" * 70_000), count=2) == [
        200,
        431,
    ]


@pytest.mark.parametrize("protocol", [H2C, b"Connection: upgrade\r\nUpgrade: websocket\r\n"])
def test_the_wish_for_another_protocol_is_ignored(server: Served, protocol: bytes) -> None:
    upgrading = request(protocol)
    at = upgrading.index(b"\r\n\r\n") + 4
    assert statuses(server, upgrading) == [200]
    assert statuses(server, upgrading[:at], upgrading[at:]) == [200]
    assert statuses(server, upgrading[: at - 1], upgrading[at - 1 : at + 5], upgrading[at + 5 :]) == [200]
    assert statuses(server, upgrading * 3 + request(), count=4) == [200] * 4


async def echo(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def run(test: Callable[[int], Awaitable[None]], **more: Any) -> None:
    """A test that is given the port of connections in this process."""

    async def serve() -> None:
        state = ServerState()
        config = uvicorn.Config(echo, log_config=None, access_log=False, lifespan="off", ws="none", **more)
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(
            lambda: http_heads.BoundedHeads(config, state, {}), "127.0.0.1", 0
        )
        async with listening:
            await asyncio.wait_for(test(listening.sockets[0].getsockname()[1]), SECONDS)

    asyncio.run(serve())


LIVE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n",
        b"GET / HT",
        b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ],
)
def test_a_client_that_lets_the_server_wait_is_closed(
    monkeypatch: pytest.MonkeyPatch, sent: bytes, is_first: bool
) -> None:
    monkeypatch.setattr(http_heads, "WAIT_SECONDS", 0.4)

    async def test(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if not is_first:
            writer.write(LIVE)
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        assert await reader.read() == b""  # the end
        writer.close()

    run(test, timeout_keep_alive=3600)


def test_a_client_that_sends_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_heads, "WAIT_SECONDS", 0.4)

    async def test(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()

    run(test)


def test_a_body_that_comes_slowly_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_heads, "WAIT_SECONDS", 2.0)

    async def test(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: 24\r\n\r\n")
        for _ in range(24):
            await asyncio.sleep(0.1)
            writer.write(b"a")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()

    run(test)


def test_more_connections_than_there_may_be_are_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http_heads, "most_connections", lambda: 2)
    monkeypatch.setattr(http_heads, "_warn_of_many", Sparing("more than %d connections"))

    async def test(port: int) -> None:
        kept = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for reader, writer in kept:
            writer.write(LIVE)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            writer.close()
        for _, writer in kept:
            writer.close()

    with caplog.at_level(logging.WARNING, "ephost.serving"):
        run(test)
    assert [each.getMessage() for each in caplog.records] == ["more than 2 connections"]


def test_there_is_one_warning_of_connections_that_cannot_be_accepted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ephost.serving.server._warn_of_no_files", Sparing("not accepted: %s"))
    loop = asyncio.new_event_loop()
    try:
        loop.set_exception_handler(_handle)
        with caplog.at_level(logging.WARNING):
            for _ in range(100):
                context = {"message": "socket.accept() out of system resource", "exception": OSError("full")}
                loop.call_exception_handler(context)
            loop.call_exception_handler({"message": "another"})
    finally:
        loop.close()
    assert [each.getMessage() for each in caplog.records] == ["not accepted: full", "another"]


def test_an_answer_that_the_client_does_not_take_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_heads, "WAIT_SECONDS", 0.4)
    gone = asyncio.Event()

    class Watched(http_heads.BoundedHeads):
        def connection_lost(self, exc: Exception | None) -> None:
            gone.set()
            super().connection_lost(exc)

    async def large(scope: Any, receive: Any, send: Any) -> None:
        length = b"%d" % LARGE
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
        await send({"type": "http.response.body", "body": bytes(LARGE)})

    monkeypatch.setattr(http_heads, "BoundedHeads", Watched)
    monkeypatch.setitem(globals(), "echo", large)

    async def test(port: int) -> None:
        with (
            socket.create_connection(("127.0.0.1", port)) as slow,
            socket.create_connection(("127.0.0.1", port)) as silent,
        ):
            for each in (slow, silent):
                each.setblocking(False)
                each.sendall(LIVE)
            loop, got = asyncio.get_running_loop(), 0
            while len(part := await loop.sock_recv(slow, LARGE // 16)) > 0 and got + len(part) < LARGE:
                got += len(part)
                await asyncio.sleep(0.1)  # slowly, but for longer than the others may wait
            assert got + len(part) >= LARGE
            await asyncio.wait_for(gone.wait(), 10)

    run(test, timeout_keep_alive=3600)


def test_connections_are_counted_before_tls_is_spoken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_heads, "most_connections", lambda: 2)
    with http_heads.BoundedSocket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def connected() -> socket.socket:
            return socket.create_connection(listening.getsockname(), 10)

        with connected(), connected(), connected() as third:
            kept = [listening.accept()[0] for _ in range(2)]
            with pytest.raises(ConnectionAbortedError):
                listening.accept()
            assert third.recv(1) == b""
            kept[0].close()
            with connected():
                kept.append(listening.accept()[0])
        for each in kept:
            each.close()
