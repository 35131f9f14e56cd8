"""What both protocols ask of the server, in neither's words."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from ephost.serving.batching import Job
from ephost.serving.errors import Closed, DeadlineExceeded, Unavailable
from ephost.serving.metrics import Metrics
from ephost.serving.repository import Repository, Version
from ephost.serving.signature import Signature

NAME = "ephost"
PLATFORM = "onnx_onnxv1"
_CHANGES_AT_ONCE = 4  # more wait


@dataclass(frozen=True)
class Output:
    """An output of a request."""

    name: str
    datatype: str
    array: np.ndarray


@dataclass(frozen=True)
class Result:
    """What a request gives."""

    model: str
    version: str
    outputs: Sequence[Output]


class Core:
    """The models behind the protocols."""

    def __init__(self, repository: Repository, metrics: Metrics, *, repository_control: bool = True) -> None:
        """Serve a repository.

        Args:
            repository: the models.
            metrics: is told of requests.
            repository_control: whether clients may load and unload models.
        """
        self.repository = repository
        self.metrics = metrics
        self.repository_control = repository_control
        # Threads of their own: what is being loaded for long must not hold requests up that others convert.
        self._changing = ThreadPoolExecutor(_CHANGES_AT_ONCE, "ephost-repository")
        self.is_loaded = False  # whether what the folder had at the start was loaded, or could not be
        self.is_draining = False

    @property
    def is_ready(self) -> bool:
        """Whether every model that was loaded can be run, and the server is not about to end."""
        return self.is_loaded and not self.is_draining and self.repository.is_ready()

    @property
    def extensions(self) -> list[str]:
        """The extensions of the protocol that the server has."""
        found = ["binary_tensor_data", "model_configuration", "statistics"]
        return [*found, "model_repository"] if self.repository_control else found

    async def change(self, change: Callable[[str], None], name: str) -> None:
        """Load or unload a model.

        Args:
            change: that method of the repository.
            name: of the model.

        Raises:
            What the method raises.
        """
        await asyncio.get_running_loop().run_in_executor(self._changing, change, name)

    def loaded(self, name: str, version: str) -> list[Version]:
        """The versions that are loaded: one, all of a model, or all there are.

        Args:
            name: of the model; "": all.
            version: of it; "": all.

        Raises:
            UnknownModel: there is none.
            Unavailable: the model has no version that is loaded.
        """
        names = [name] if name else self.repository.loaded()
        found = []
        for each in names:
            if name:
                self.repository.get(each, version)
            found += [self.repository.get(each, at) for at in self.repository.versions(each)]
        return [each for each in found if not version or each.version == version]

    def model_is_ready(self, name: str, version: str) -> bool:
        """Whether a version of a model can be run.

        Raises:
            UnknownModel: there is none.
        """
        try:
            return not self.is_draining and self.repository.get(name, version).scheduler.is_ready
        except Unavailable:
            return False

    async def infer(
        self,
        version: Version,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        deadline: float | None,
        *,
        wanted: str = "",
    ) -> Result:
        """Run a request whose inputs were held against the version's signature.

        Args:
            version: the model's.
            inputs: a tensor for each input.
            outputs: names, in the order wanted; none: all.
            deadline: on the clock of ``time.monotonic``.
            wanted: the version that the request names, if it names one.

        Raises:
            ServingError: what the request is answered with.
        """
        started = time.monotonic()
        outcome = "failed"
        try:
            for _ in range(3):
                names = tuple(outputs) or tuple(version.signature.outputs)
                job = Job(dict(inputs), names, deadline)
                try:
                    version.scheduler.submit(job)
                    break
                except Closed:  # replaced since: the one that is loaded now, if it takes the same
                    following = self.repository.get(version.model, wanted)
                    if following.signature != version.signature:
                        raise Unavailable(f"model '{version.model}' was replaced by another") from None
                    version = following
            else:
                raise Unavailable(f"model '{version.model}' is being replaced")
            arrays = await _within(deadline, job)
            outcome = "succeeded"
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            self.metrics.requested(version.model, version.version, outcome, time.monotonic() - started)
        specs = version.signature.outputs
        made = [Output(name, specs[name].datatype, array) for name, array in zip(names, arrays, strict=True)]
        return Result(version.model, version.version, made)


async def _within(deadline: float | None, job: Job) -> list[np.ndarray]:
    """A request's outputs. When its time is over it is waited for no more, and not run any more."""
    future = asyncio.wrap_future(job.future)
    try:
        async with asyncio.timeout(None if deadline is None else deadline - time.monotonic()):
            return await future
    except TimeoutError:
        job.give_up()
        raise DeadlineExceeded("the request's time is over") from None
    except asyncio.CancelledError:
        job.give_up()
        raise


def described(name: str, versions: Sequence[str], signature: Signature) -> dict[str, Any]:
    """The protocol's metadata of a model."""
    return {
        "name": name,
        "versions": list(versions),
        "platform": PLATFORM,
        "inputs": [each.described() for each in signature.inputs.values() if each.required],
        "outputs": [each.described() for each in signature.outputs.values()],
    }
