"""A model behind Ray Serve, which answers the Open Inference Protocol."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ephost.errors import InvalidArgument, PluginFault
from ephost.ray.opened import Source
from ephost.serving.batching import Job, answer, fit, run_together, runs_of
from ephost.serving.core import Output, Result, described
from ephost.serving.errors import DeadlineExceeded, RunFailed, ServingError, Unavailable
from ephost.serving.rest import check_encoding, parse, respond

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
        self._label = f"model '{name}'"
        self._version = str(source.version or source.file()[0].parent.name)
        self._running = threading.Lock()
        self._broken = ""  # why there is no session any more
        batching = self._opened.config.batching
        self._most = batching.max_size
        if self._most > 1 and (why := self._opened.signature.unbatchable):
            raise InvalidArgument(f"{source.model} cannot be batched: {why}")
        batches: Any = self._batch
        batches.set_max_batch_size(self._most)
        batches.set_batch_wait_timeout_s(batching.delay_milliseconds / 1000 if self._most > 1 else 0.0)

    def check_health(self) -> None:
        """Asked by Ray, which replaces a replica that raises."""
        if self._broken:
            raise RuntimeError(self._broken)

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
        job = Job(dict(inputs), names)
        fit(job, self._most, self._label)
        done = await self._batch(job)
        if isinstance(done, ServingError):
            raise done
        return dict(zip(names, done, strict=True))

    @serve.batch
    async def _batch(self, jobs: list[Job]) -> list[Any]:
        """For each request its outputs, or what it is answered with."""
        return await asyncio.to_thread(self._run_all, jobs)

    def _run_all(self, jobs: list[Job]) -> list[Any]:
        results: dict[int, Any] = {}
        with self._running:
            for run in runs_of(jobs, self._most):
                for job, result in zip(run, self._run(run), strict=True):
                    results[id(job)] = result
        return [results[id(job)] for job in jobs]

    def _run(self, run: list[Job]) -> list[Any]:
        if self._broken:
            return [Unavailable(self._broken) for _ in run]
        try:
            made: list[Any] = list(run_together(self._opened.session, run, self._label))
            return made
        except PluginFault as fault:
            self._bring_back()
            return [RunFailed(str(fault)) for _ in run]
        except Exception as error:
            if len(run) == 1:
                return [answer(error)]
            return [result for job in run for result in self._run([job])]

    def _bring_back(self) -> None:
        """Another session, behind a crash of an isolated plugin."""
        try:
            self._opened.reopen()
        except Exception as error:
            self._broken = f"{self._label} cannot be opened again: {error}"

    async def __call__(self, request: Request) -> Response:
        """A request of the protocol over HTTP."""
        try:
            path = request.url.path.removeprefix(request.scope.get("root_path", "")).rstrip("/")
            if request.method == "POST" and path == "/infer":
                return await self._answer(request)
            if request.method == "GET" and path == "":
                return JSONResponse(described(self._name, [self._version], self._opened.signature))
            if request.method == "GET" and path == "/ready":
                is_ready = not self._broken
                return JSONResponse({"name": self._name, "ready": is_ready}, 200 if is_ready else 503)
            return JSONResponse({"error": f"{request.method} {request.url.path}: Not Found"}, 404)
        except ServingError as error:
            return JSONResponse({"error": str(error)}, error.http_status)

    async def _answer(self, request: Request) -> Response:
        check_encoding(request)
        signature = self._opened.signature
        parsed = await parse(request, await request.body(), signature)
        try:
            async with asyncio.timeout(parsed.timeout):
                made = await self.infer(parsed.inputs, parsed.outputs)
        except TimeoutError:
            raise DeadlineExceeded("the request's time is over") from None
        outputs = [Output(name, signature.outputs[name].datatype, array) for name, array in made.items()]
        return await respond(parsed, Result(self._name, self._version, outputs))
