"""A model behind Ray Serve, which answers the Open Inference Protocol."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ephost.errors import InvalidArgument
from ephost.ray.opened import Source
from ephost.serving.batching import Job, answer, run_together
from ephost.serving.core import Output, Result, described
from ephost.serving.errors import BadRequest, DeadlineExceeded, ServingError
from ephost.serving.rest_bodies import HEADER_LENGTH, parse_request, write_response
from ephost.serving.signature import rows_of

try:
    from ray import serve
except ImportError as error:
    raise ImportError(f"ray is not installed: pip install 'ephost[ray]' ({error})") from None

Arrays = Mapping[str, np.ndarray]


def deployment(
    model: str,
    *,
    name: str,
    version: int | None = None,
    libraries: Mapping[str, str] | None = None,
    isolated: bool = False,
    devices: Mapping[str, str] | None = None,
    **options: Any,
) -> serve.Application:
    """An application of Ray Serve, for ``serve.run(..., route_prefix="/v2/models/NAME")``.

    Under that route it answers GET (the model's metadata), GET ``/ready`` and POST ``/infer`` as ``ephost
    serve`` does, and a handle's ``infer.remote({input: array})`` gives ``{output: array}``. Ray puts
    requests together along the first axis, by ``[batching]`` of the model's configuration, starts replicas
    and shares requests out.

    Args:
        model: a model's folder or file, see :class:`ephost.ray.opened.Source`.
        name: of the model, in answers.
        version: of a folder; None: the highest.
        libraries: plugin libraries to register: names, and paths or packages.
        isolated: whether they are loaded into processes of their own.
        devices: what a device must be to be taken.
        options: of the deployment: ``num_replicas``, ``autoscaling_config``, ``max_queued_requests``,
            ``ray_actor_options`` (with ``label_selector``) and what else ``serve.deployment`` takes.

    Raises:
        NoSuchFile, InvalidArgument: there is no such model here, or its configuration is wrong.
    """
    source = Source(str(model), version, dict(libraries or {}), isolated, dict(devices or {}))
    _, config = source.file()
    if config.instances != 1:
        raise InvalidArgument(
            f"{model} has instances = {config.instances}: on Ray there is one in a replica, give num_replicas"
        )
    # A replica that is asked for fewer requests at once than a batch has never fills one.
    options.setdefault("max_ongoing_requests", max(5, 2 * config.batching.max_size))
    made: Any = serve.deployment(_Served, name=name, **options)
    application: serve.Application = made.bind(source, name)
    return application


class _Served:
    """A replica."""

    def __init__(self, source: Source, name: str) -> None:
        self._opened = source.open()
        self._name = name
        self._version = str(source.version or source.file()[0].parent.name)
        self._running = threading.Lock()
        batching = self._opened.config.batching
        if batching.max_size > 1 and (why := self._opened.signature.unbatchable):
            raise InvalidArgument(f"{source.model} cannot be batched: {why}")
        batches: Any = self._batch
        batches.set_max_batch_size(batching.max_size)
        batches.set_batch_wait_timeout_s(batching.delay_milliseconds / 1000 if batching.max_size > 1 else 0.0)

    async def infer(self, inputs: Arrays, outputs: Sequence[str] = ()) -> dict[str, np.ndarray]:
        """Run one request.

        Args:
            inputs: a tensor for each input.
            outputs: names; none: all.

        Raises:
            ServingError: what is wrong with the request, or failed.
        """
        signature = self._opened.signature
        signature.check_names(list(inputs))
        signature.check_outputs(outputs)
        names = tuple(outputs) or tuple(signature.outputs)
        rows = rows_of(inputs) if self._opened.config.batching.max_size > 1 else 0
        group = tuple((key, array.dtype.str, array.shape[1:]) for key, array in sorted(inputs.items()))
        done = await self._batch(Job(dict(inputs), names, rows=rows, group=group))
        if isinstance(done, ServingError):
            raise done
        return dict(zip(names, done, strict=True))

    @serve.batch
    async def _batch(self, jobs: list[Job]) -> list[Any]:
        """For each request its outputs, or what it is answered with."""
        return await asyncio.to_thread(self._run_all, jobs)

    def _run_all(self, jobs: list[Job]) -> list[Any]:
        groups: dict[Any, list[Job]] = {}
        for job in jobs:
            groups.setdefault((job.group, job.rows > 0) if job.rows else id(job), []).append(job)
        results: dict[int, Any] = {}
        with self._running:
            for group in groups.values():
                for job, result in zip(group, self._run(group), strict=True):
                    results[id(job)] = result
        return [results[id(job)] for job in jobs]

    def _run(self, group: list[Job]) -> list[Any]:
        try:
            made: list[Any] = list(run_together(self._opened.session, group, f"model '{self._name}'"))
            return made
        except Exception as error:
            if len(group) == 1:
                return [answer(error)]
            return [result for job in group for result in self._run([job])]

    async def __call__(self, request: Request) -> Response:
        """A request of the protocol over HTTP."""
        try:
            path = request.url.path.removeprefix(request.scope.get("root_path", "")).rstrip("/")
            if request.method == "POST" and path == "/infer":
                return await self._answer(request)
            if request.method == "GET" and path == "":
                return JSONResponse(described(self._name, [self._version], self._opened.signature))
            if request.method == "GET" and path == "/ready":
                return JSONResponse({"name": self._name, "ready": True})
            return JSONResponse({"error": f"{request.method} {request.url.path}: Not Found"}, 404)
        except ServingError as error:
            return JSONResponse({"error": str(error)}, error.http_status)

    async def _answer(self, request: Request) -> Response:
        encoding = request.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise BadRequest(f"requests are not taken in the Content-Encoding {encoding!r}")
        signature = self._opened.signature
        parsed = parse_request(await request.body(), request.headers.get(HEADER_LENGTH), signature)
        try:
            async with asyncio.timeout(parsed.timeout):
                made = await self.infer(parsed.inputs, parsed.outputs)
        except TimeoutError:
            raise DeadlineExceeded("the request's time is over") from None
        outputs = [Output(name, signature.outputs[name].datatype, array) for name, array in made.items()]
        data, length = write_response(parsed, Result(self._name, self._version, outputs))
        if length is None:
            return Response(data, media_type="application/json")
        return Response(data, headers={HEADER_LENGTH: str(length)}, media_type="application/octet-stream")
