"""The gRPC half of the protocol, on grpcio's server for asyncio."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc

from ephost import __version__
from ephost.serving.core import NAME, Core, described
from ephost.serving.errors import BadRequest, Forbidden, ServingError, Unauthorized
from ephost.serving.grpc_bodies import parse, read_request, write_response
from ephost.serving.grpc_messages import MESSAGES, SERVICE
from ephost.serving.http_heads import most_connections
from ephost.serving.triton import configured, statistics

_LOG = logging.getLogger("ephost.serving.grpc")
# Messages from so many bytes on are parsed by other threads, so that the event loop goes on.
_LARGE = 1 << 20
# Likewise, of a request's lists of numbers, whose elements are looked at one by one.
_LARGE_LISTS = 64 << 10
# In which a connection has to say that it is HTTP/2, and in which it has to carry a request. Clients that are
# told that theirs ends open another one when they have one to send.
_HANDSHAKE_SECONDS, _IDLE_SECONDS = 30, 300
_LARGEST = (1 << 31) - 1  # bytes of a message, in protobuf and in grpcio's options
_MOST_DETAILS = 4 << 10  # bytes of an error's text
# What questions of health need no token for.
_OPEN = frozenset({"ServerLive", "ServerReady", "ModelReady"})


@dataclass(frozen=True)
class _Call:
    """What is known of a request beside its message."""

    context: Any  # grpcio's
    size: int  # bytes of the message: to ask the message for them makes it anew


Method = Callable[[Any, _Call], Awaitable[Any]]


def make_server(
    core: Core,
    *,
    max_request_bytes: int,
    token: str | None,
    certificate: tuple[bytes, bytes] | None,
    address: str,
) -> tuple[Any, int]:
    """A server that has its port, but is not started.

    Args:
        core: the models.
        max_request_bytes: that a message may have.
        token: what the metadata ``authorization: Bearer`` has to say, but for questions of health; None:
            anybody may ask.
        certificate: for TLS, a private key and a chain of certificates, both PEM.
        address: host and port; 0: any port that is free.

    Returns:
        The server, and its port.

    Raises:
        OSError: the port cannot be had.
    """
    most = (most_connections() or _LARGEST) // 2  # half of HTTP's: files are left for what else there is
    server = grpc.aio.server(
        options=[
            ("grpc.max_allowed_incoming_connections", max(1, min(most, _LARGEST))),
            ("grpc.max_receive_message_length", min(max_request_bytes, _LARGEST)),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),
            ("grpc.server_handshake_timeout_ms", 1000 * _HANDSHAKE_SECONDS),
            ("grpc.max_connection_idle_ms", 1000 * _IDLE_SECONDS),
        ]
    )
    server.add_generic_rpc_handlers([_handlers(core, token)])
    try:
        if certificate is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, grpc.ssl_server_credentials([certificate]))
    except RuntimeError as error:
        raise OSError(f"{address} cannot be had: {error}") from None
    return server, port


def _handlers(core: Core, token: str | None) -> Any:
    service = _Service(core)
    methods: dict[str, Method] = {
        "ServerLive": service.server_live,
        "ServerReady": service.server_ready,
        "ModelReady": service.model_ready,
        "ServerMetadata": service.server_metadata,
        "ModelMetadata": service.model_metadata,
        "ModelConfig": service.model_config,
        "ModelStatistics": service.model_statistics,
        "ModelInfer": service.model_infer,
        "RepositoryIndex": service.repository_index,
        "RepositoryModelLoad": service.repository_model_load,
        "RepositoryModelUnload": service.repository_model_unload,
    }
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            _answering(name, method, None if name in _OPEN else token),
            response_serializer=MESSAGES[f"{name}Response"].SerializeToString,
        )
        for name, method in methods.items()
    }
    handlers["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(
        _streaming(service, token),
        response_serializer=MESSAGES["ModelStreamInferResponse"].SerializeToString,
    )
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def _answering(name: str, method: Method, token: str | None) -> Callable[[bytes, Any], Awaitable[Any]]:
    """A method's handler. It takes bytes: where grpcio parses, a client is not told what is wrong."""
    kind = f"{name}Request"

    async def handle(data: bytes, context: Any) -> Any:
        try:
            if token is not None:
                _check_token(context, token)
            if len(data) < _LARGE:
                message = parse(kind, data)
            else:
                message = await asyncio.to_thread(parse, kind, data)
            return await method(message, _Call(context, len(data)))
        except ServingError as error:
            if error.http_status >= 500:
                _LOG.warning("%s: %s", name, error)
            await context.abort(grpc.StatusCode[error.grpc_code], _details(error))

    return handle


def _details(error: ServingError) -> str:
    """An error's text, cut to what clients take: it is a part of the metadata, in which all but visible ASCII
    is written in three bytes, and of which more than 8 KiB is an error of its own.
    """
    text, left = str(error), _MOST_DETAILS
    for at, character in enumerate(text):
        is_plain = " " <= character <= "~" and character != "%"
        left -= 1 if is_plain else 3 * len(character.encode("utf-8", "surrogatepass"))
        if left < 0:
            return text[:at] + "..."
    return text


def _streaming(service: _Service, token: str | None) -> Callable[[Any, Any], AsyncIterator[Any]]:
    """The stream's handler: an answer for each request, in order; an error ends none but its own."""

    async def handle(requests: Any, context: Any) -> AsyncIterator[Any]:
        kind = MESSAGES["ModelStreamInferResponse"]
        try:
            if token is not None:
                _check_token(context, token)
        except ServingError as error:
            await context.abort(grpc.StatusCode[error.grpc_code], _details(error))
        async for data in requests:
            message = None
            try:
                message = parse("ModelInferRequest", data)
                call = _Call(context, len(data))
                yield kind(infer_response=await service.model_infer(message, call))
            except ServingError as error:
                answer = kind(error_message=str(error))
                if message is not None:
                    answer.infer_response.id = message.id
                yield answer

    return handle


def _check_token(context: Any, token: str) -> None:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization":
            given = value if isinstance(value, bytes) else value.encode()
            if hmac.compare_digest(given, f"Bearer {token}".encode()):
                return
    raise Unauthorized("the request brings no token that is valid here")


class _Service:
    """The methods."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def server_live(self, request: Any, call: _Call) -> Any:
        return MESSAGES["ServerLiveResponse"](live=True)

    async def server_ready(self, request: Any, call: _Call) -> Any:
        return MESSAGES["ServerReadyResponse"](ready=self._core.is_ready)

    async def model_ready(self, request: Any, call: _Call) -> Any:
        is_ready = self._core.model_is_ready(request.name, request.version)
        return MESSAGES["ModelReadyResponse"](ready=is_ready)

    async def server_metadata(self, request: Any, call: _Call) -> Any:
        return MESSAGES["ServerMetadataResponse"](
            name=NAME, version=__version__, extensions=self._core.extensions
        )

    async def model_metadata(self, request: Any, call: _Call) -> Any:
        repository = self._core.repository
        version = repository.get(request.name, request.version)
        found = described(version.model, repository.versions(version.model), version.signature)
        return MESSAGES["ModelMetadataResponse"](**found)

    async def model_config(self, request: Any, call: _Call) -> Any:
        version = self._core.repository.get(request.name, request.version)
        return MESSAGES["ModelConfigResponse"](config=configured(version, numbers=True))

    async def model_statistics(self, request: Any, call: _Call) -> Any:
        found = self._core.loaded(request.name, request.version)
        counts = await asyncio.to_thread(self._core.metrics.counts)
        return MESSAGES["ModelStatisticsResponse"](model_stats=statistics(counts, found))

    async def model_infer(self, request: Any, call: _Call) -> Any:
        started = time.monotonic()
        version = self._core.repository.get(request.model_name, request.model_version)
        signature = version.signature
        if call.size < (signature.bytes_at_once if request.raw_input_contents else _LARGE_LISTS):
            read = read_request(request, signature)
        else:
            read = await asyncio.to_thread(read_request, request, signature)
        limits = [each for each in (read.timeout, call.context.time_remaining()) if each is not None]
        deadline = started + min(limits) if limits else None
        result = await self._core.infer(
            version, read.inputs, read.outputs, deadline, wanted=request.model_version
        )
        if sum(output.array.nbytes for output in result.outputs) < signature.bytes_at_once:
            return write_response(request.id, result)
        return await asyncio.to_thread(write_response, request.id, result)

    async def repository_index(self, request: Any, call: _Call) -> Any:
        found = await asyncio.to_thread(self._core.repository.index, ready=request.ready)
        return MESSAGES["RepositoryIndexResponse"](models=[vars(each) for each in found])

    async def repository_model_load(self, request: Any, call: _Call) -> Any:
        await self._change(request, self._core.repository.load)
        return MESSAGES["RepositoryModelLoadResponse"]()

    async def repository_model_unload(self, request: Any, call: _Call) -> Any:
        await self._change(request, self._core.repository.unload)
        return MESSAGES["RepositoryModelUnloadResponse"]()

    async def _change(self, request: Any, change: Callable[[str], None]) -> None:
        if not self._core.repository_control:
            raise Forbidden("this server was started without control of its repository")
        # Triton's config and files in a request are not taken: what is served is the folder's.
        if others := set(request.parameters) - {"unload_dependents"}:
            raise BadRequest(f"these parameters are not taken: {', '.join(sorted(others))}")
        await self._core.change(change, request.model_name)
