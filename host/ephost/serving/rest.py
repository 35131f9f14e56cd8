"""The REST half of the protocol, as an ASGI application."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ephost import __version__
from ephost.serving.core import NAME, Core, Result, described
from ephost.serving.errors import BadRequest, Forbidden, ServingError, TooLarge, Unauthorized
from ephost.serving.metrics import CONTENT_TYPE
from ephost.serving.rest_bodies import HEADER_LENGTH, parameters_of, parse_json, parse_request, write_response
from ephost.serving.rest_bodies import Request as Inference
from ephost.serving.signature import Signature
from ephost.serving.triton import configured, statistics

_LOG = logging.getLogger("ephost.serving.rest")
# JSON from so many bytes on is read and written by other threads, so that the event loop goes on.
_LARGE = 64 << 10

Handler = Callable[[Request], Awaitable[Response]]


def make_application(core: Core, *, max_request_bytes: int, token: str | None) -> Starlette:
    """The application.

    Args:
        core: the models.
        max_request_bytes: that a body may have.
        token: what ``Authorization: Bearer`` has to say, but for questions of health; None: anybody may ask.
    """
    rest = _Rest(core, max_request_bytes)

    def route(path: str, handler: Handler, method: str, *, is_open: bool = False) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                if token is not None and not is_open:
                    _check_token(request, token)
                return await handler(request)
            except ServingError as error:
                if error.http_status >= 500:
                    _LOG.warning("%s %s: %s", request.method, request.url.path, error)
                return _error(error.http_status, str(error))

        return Route(path, endpoint, methods=[method])

    model = "/v2/models/{model}"
    version = model + "/versions/{version}"
    routes = [
        route("/v2/health/live", rest.live, "GET", is_open=True),
        route("/v2/health/ready", rest.ready, "GET", is_open=True),
        route("/v2", rest.server, "GET"),
        route("/v2/repository/index", rest.index, "POST"),
        route("/v2/repository/models/{model}/load", rest.load, "POST"),
        route("/v2/repository/models/{model}/unload", rest.unload, "POST"),
        route("/metrics", rest.metrics, "GET"),
        route("/v2/models/stats", rest.statistics, "GET"),
    ]
    for prefix in (version, model):
        routes += [
            route(prefix + "/ready", rest.model_ready, "GET", is_open=True),
            route(prefix + "/infer", rest.infer, "POST"),
            route(prefix + "/config", rest.config, "GET"),
            route(prefix + "/stats", rest.statistics, "GET"),
            route(prefix, rest.model, "GET"),
        ]
    return Starlette(
        routes=routes,
        exception_handlers={HTTPException: _http_error, Exception: _unforeseen},
    )


def _check_token(request: Request, token: str) -> None:
    given = request.headers.get("authorization", "")
    if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        raise Unauthorized("the request brings no token that is valid here")


def _error(status: int, text: str) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": text}, status, headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, f"{request.method} {request.url.path}: {error.detail}")


async def _unforeseen(request: Request, error: Exception) -> Response:
    return _error(500, f"{type(error).__name__}: see the server's log")


def check_encoding(request: Request) -> None:
    """Before a body is read, whether it can be.

    Raises:
        BadRequest: it is compressed.
    """
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise BadRequest(f"requests are not taken in the Content-Encoding {encoding!r}")


async def parse(request: Request, body: bytes, signature: Signature) -> Inference:
    """A request for inference, held against the model's signature; large ones by another thread.

    Raises:
        BadRequest: it is not what the protocol says, or not what the model takes.
    """
    header_length = request.headers.get(HEADER_LENGTH)
    if len(body) < (_LARGE if header_length is None else signature.bytes_at_once):
        return parse_request(body, header_length, signature)
    return await asyncio.to_thread(parse_request, body, header_length, signature)


async def respond(parsed: Inference, result: Result) -> Response:
    """The answer in the form that the request wants; large ones are written by another thread."""
    if sum(output.array.nbytes for output in result.outputs) < _LARGE:
        data, length = write_response(parsed, result)
    else:
        data, length = await asyncio.to_thread(write_response, parsed, result)
    if length is None:
        return Response(data, media_type="application/json")
    return Response(data, headers={HEADER_LENGTH: str(length)}, media_type="application/octet-stream")


class _Rest:
    """The endpoints."""

    def __init__(self, core: Core, max_request_bytes: int) -> None:
        self._core = core
        self._max_bytes = max_request_bytes

    async def live(self, request: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(self, request: Request) -> Response:
        is_ready = self._core.is_ready
        return JSONResponse({"live": True, "ready": is_ready}, 200 if is_ready else 503)

    async def server(self, request: Request) -> Response:
        return JSONResponse({"name": NAME, "version": __version__, "extensions": self._core.extensions})

    async def model(self, request: Request) -> Response:
        repository = self._core.repository
        version = repository.get(*_version_of(request))
        return JSONResponse(described(version.model, repository.versions(version.model), version.signature))

    async def config(self, request: Request) -> Response:
        version = self._core.repository.get(*_version_of(request))
        return JSONResponse(configured(version, numbers=False))

    async def statistics(self, request: Request) -> Response:
        found = self._core.loaded(
            request.path_params.get("model", ""), request.path_params.get("version", "")
        )
        counts = await asyncio.to_thread(self._core.metrics.counts)
        return JSONResponse({"model_stats": statistics(counts, found)})

    async def model_ready(self, request: Request) -> Response:
        name, version = _version_of(request)
        is_ready = self._core.model_is_ready(name, version)
        return JSONResponse({"name": name, "ready": is_ready}, 200 if is_ready else 503)

    async def metrics(self, request: Request) -> Response:
        text = await asyncio.to_thread(self._core.metrics.text)
        return Response(text, headers={"Content-Type": CONTENT_TYPE})

    async def index(self, request: Request) -> Response:
        body = await self._body(request)
        ready = parse_json(body).get("ready", False) if body else False
        if not isinstance(ready, bool):
            raise BadRequest("ready is true or false")
        found = await asyncio.to_thread(self._core.repository.index, ready=ready)
        return JSONResponse([vars(each) for each in found])

    async def load(self, request: Request) -> Response:
        return await self._change(request, self._core.repository.load)

    async def unload(self, request: Request) -> Response:
        return await self._change(request, self._core.repository.unload)

    async def _change(self, request: Request, change: Callable[[str], None]) -> Response:
        if not self._core.repository_control:
            raise Forbidden("this server was started without control of its repository")
        body = await self._body(request)
        parameters = parameters_of("the request", parse_json(body) if body else {})
        # Triton's config and files in a request are not taken: what is served is the folder's.
        if others := set(parameters) - {"unload_dependents"}:
            raise BadRequest(f"these parameters are not taken: {', '.join(sorted(others))}")
        await self._core.change(change, request.path_params["model"])
        return Response(status_code=200)

    async def infer(self, request: Request) -> Response:
        started = time.monotonic()
        name, wanted = _version_of(request)
        version = self._core.repository.get(name, wanted)
        check_encoding(request)
        parsed = await parse(request, await self._body(request), version.signature)
        deadline = None if parsed.timeout is None else started + parsed.timeout
        work = self._core.infer(version, parsed.inputs, parsed.outputs, deadline, wanted=wanted)
        result = await _while_connected(request, work)
        return await respond(parsed, result)

    async def _body(self, request: Request) -> bytes:
        """All of the request's body, of which no more is read than may come."""
        complaint = f"the request has more than {self._max_bytes} bytes"
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length[:19]) > self._max_bytes:
            raise TooLarge(complaint)
        parts, size = [], 0
        try:
            async for part in request.stream():
                size += len(part)
                if size > self._max_bytes:
                    raise TooLarge(complaint)
                parts.append(part)
        except ClientDisconnect:
            raise BadRequest("the client has gone before its request was complete") from None
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _version_of(request: Request) -> tuple[str, str]:
    return request.path_params["model"], request.path_params.get("version", "")


async def _while_connected(request: Request, work: Any) -> Any:
    """What the work gives; it is cancelled when the client goes."""
    running = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((running, gone), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            running.cancel()
            raise BadRequest("the client has gone before its request was run")
        return running.result()
    finally:
        gone.cancel()
        if not running.done():
            running.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
