"""The server: models, both protocols, signals, and an end that loses no request."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import math
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from ephost.errors import InvalidArgument
from ephost.serving.core import Core
from ephost.serving.grpc_service import make_server
from ephost.serving.http_heads import WAIT_SECONDS, BoundedHeads, BoundedSocket, most_connections
from ephost.serving.logs import Sparing
from ephost.serving.metrics import Metrics
from ephost.serving.repository import Repository
from ephost.serving.rest import make_application
from ephost.serving.sessions import DefaultProviders

_LOG = logging.getLogger("ephost.serving")
_BACKLOG = 1024  # connections that wait to be accepted
_warn_of_no_files = Sparing("connections cannot be accepted: %s")
_LAST_ANSWERS = 1.0  # seconds in which runs that were stopped are answered


@dataclass(frozen=True)
class Settings:
    """What ``ephost serve`` may be told."""

    host: str = "127.0.0.1"
    http_port: int | None = 8000  # 0: any that is free; None: not at all
    grpc_port: int | None = 8001  # likewise
    max_request_bytes: int = 64 << 20
    drain_seconds: float = 30.0
    repository_control: bool = True
    token: str | None = None
    certificate: Path | None = None
    key: Path | None = None


def _check_pair(certificate: Path, key: Path) -> None:
    """That a certificate and a key are such, and belong together: what serves them would not say so.

    Raises:
        InvalidArgument: they are not, or the key has a password.
    """
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        raise InvalidArgument(
            f"TLS cannot be served with the certificate {certificate} and the key {key}: one of them is not "
            f"in PEM's form, they do not belong together, or the key has a password ({error})"
        ) from None


class _Http(uvicorn.Server):
    """uvicorn's, whose signals are the whole server's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Server:
    """A model server for a folder."""

    def __init__(self, folder: Path, settings: Settings, add_default: DefaultProviders) -> None:
        """Load the folder's models. What cannot be loaded is logged, and is not ready.

        Args:
            folder: with the models.
            settings: of the server.
            add_default: gives execution providers to models whose configuration names none.

        Raises:
            NoSuchFile: there is no such folder.
            InvalidArgument: settings that exclude each other, or files that are no certificate and its key.
        """
        if settings.http_port is None and settings.grpc_port is None:
            raise InvalidArgument("there is nothing to serve without a port")
        if (settings.certificate is None) != (settings.key is None):
            raise InvalidArgument("TLS needs both a certificate and a key")
        if settings.certificate is not None and settings.key is not None:
            _check_pair(settings.certificate, settings.key)
        self._settings = settings
        metrics = Metrics()
        self._repository = Repository(folder, add_default, metrics.observer)
        self._core = Core(self._repository, metrics, repository_control=settings.repository_control)
        self._stop = asyncio.Event()

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT; then answer what was accepted, and return.

        Raises:
            OSError: a port cannot be had.
        """
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.set_exception_handler(_handle)
        settings = self._settings
        if settings.certificate is not None:  # uvicorn has no setting for it
            loop.create_server = partial(  # type: ignore[method-assign]
                loop.create_server, ssl_handshake_timeout=WAIT_SECONDS
            )
        async with contextlib.AsyncExitStack() as stack:  # the ports go first, the models last
            stack.push_async_callback(asyncio.to_thread, self._repository.close)
            # Ports before models: what cannot be had is known at once.
            listening = rpc = None
            ports: dict[str, int] = {}
            if settings.http_port is not None:
                listening = _listen(settings.host, settings.http_port)
                stack.callback(listening.close)
                ports["http"] = listening.getsockname()[1]
            if settings.grpc_port is not None:
                rpc, ports["grpc"] = self._make_rpc(settings.grpc_port)
            ends: list[Callable[[], Awaitable[None]]] = []
            if rpc is not None:
                await rpc.start()
                ends.append(partial(rpc.stop, settings.drain_seconds + _LAST_ANSWERS))
            if listening is not None:
                http = _Http(self._http_config())
                serving = asyncio.ensure_future(http.serve(sockets=[listening]))
                ends.append(partial(_end, http, serving))
                while not http.started and not serving.done():
                    await asyncio.sleep(0.01)
                if http.started:
                    listening.listen(_BACKLOG)
            # Both protocols end at once: neither accepts requests while the other answers its last.
            stack.push_async_callback(self._drain, ends)
            # The server lives, but is not ready, while it loads.
            if await self._load_all():
                self._core.is_loaded = True
                shown = ", ".join(f"{name} on port {port}" for name, port in ports.items())
                fields = {f"{name}_port": port for name, port in ports.items()}
                _LOG.info("ready: %s", shown, extra={"event": "ready", **fields})
                await self._stop.wait()
            self._core.is_draining = True
            _LOG.info("draining", extra={"event": "draining"})
        _LOG.info("ended", extra={"event": "ended"})

    async def _load_all(self) -> bool:
        """Load the models; whether that was done before the server was told to end."""
        loading = asyncio.ensure_future(asyncio.to_thread(self._repository.load_all))
        stopping = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            self._repository.stop_loading()
            return False
        stopping.cancel()
        loading.result()
        return True

    async def _drain(self, ends: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """Answer what was accepted. When the time for that is over, what still runs is stopped."""
        seconds = self._settings.drain_seconds
        timer = asyncio.get_running_loop().call_later(seconds, self._repository.stop)
        try:
            await _end_all(ends)
        finally:
            timer.cancel()
            self._repository.stop()  # nobody waits for what runs now

    def _make_rpc(self, port: int) -> tuple[Any, int]:
        settings = self._settings
        pair = None
        if settings.certificate is not None and settings.key is not None:
            pair = settings.key.read_bytes(), settings.certificate.read_bytes()
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        return make_server(
            self._core,
            max_request_bytes=settings.max_request_bytes,
            token=settings.token,
            certificate=pair,
            address=f"{host}:{port}",
        )

    def _http_config(self) -> uvicorn.Config:
        settings = self._settings
        return uvicorn.Config(
            make_application(self._core, max_request_bytes=settings.max_request_bytes, token=settings.token),
            log_config=None,
            access_log=False,
            lifespan="off",
            http=BoundedHeads,
            # asyncio accepts so many at once.
            backlog=min(128, max(1, (most_connections() or _BACKLOG) // 8)),
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=math.ceil(settings.drain_seconds + _LAST_ANSWERS),
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.key,
        )


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """asyncio's errors. Of those of one burst of connections there would be thousands."""
    if "out of system resource" in context["message"]:
        _warn_of_no_files(context.get("exception"))
    else:
        loop.default_exception_handler(context)


async def _end(http: _Http, serving: asyncio.Future[None]) -> None:
    http.should_exit = True
    await serving


async def _end_all(ends: Sequence[Callable[[], Awaitable[None]]]) -> None:
    await asyncio.gather(*(end() for end in ends))


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named: asyncio lets small packets go at once (TCP_NODELAY) on such sockets alone, and
    # an answer of two of them waited for the client's delayed acknowledgement, 40 ms.
    listening = BoundedSocket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, TypeError) as error:  # TypeError: what has no form as a name of a host
        listening.close()
        number, why = (error.errno, error.strerror) if isinstance(error, OSError) else (errno.EINVAL, error)
        raise OSError(number, f"port {port} of {host} cannot be had: {why}") from None
    listening.set_inheritable(False)
    return listening
