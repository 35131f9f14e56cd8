"""From a model's file and configuration to sessions, warmed up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ephost.enums import GraphOptimizationLevel, OrtExecutionProviderDevicePolicy
from ephost.errors import InvalidArgument
from ephost.model.prepack import PrepackedWeightsContainer
from ephost.options import RunOptions, SessionOptions
from ephost.serving.config import ModelConfig, WarmUp
from ephost.serving.datatypes import DATATYPES
from ephost.serving.signature import Signature
from ephost.session import InferenceSession

# Gives a session's options the execution providers of a model whose configuration names none.
DefaultProviders = Callable[[SessionOptions], None]


def session_options(config: ModelConfig, add_default: DefaultProviders) -> SessionOptions:
    """The options of a model's sessions.

    Raises:
        InvalidArgument: no registered library has an execution provider that is named, or an entry that a
            session cannot have.
    """
    options = SessionOptions()
    chosen = config.session
    options.intra_op_num_threads = chosen.intra_op_num_threads
    options.graph_optimization_level = GraphOptimizationLevel[chosen.graph_optimization_level]
    for key, value in chosen.entries.items():
        options.add_session_config_entry(key, value)
    for name, size in chosen.dimensions.items():
        options.add_free_dimension_override_by_name(name, size)
    for name, provider_options in config.providers:
        options.add_provider(name, provider_options)
    if config.policy:
        options.set_provider_selection_policy(OrtExecutionProviderDevicePolicy[config.policy])
    if not options.has_providers():
        add_default(options)
    return options


class Opener:
    """Opens the sessions of one version of a model, which share what kernels pack of its weights."""

    def __init__(self, path: Path, config: ModelConfig, add_default: DefaultProviders) -> None:
        self._path = path
        self._config = config
        self._add_default = add_default
        self._container = PrepackedWeightsContainer()
        self._warming = RunOptions()
        self._opening: SessionOptions | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """End what is being opened before its next stage, or its warm-up's next node, says any thread."""
        self._is_cancelled = True
        self._warming.terminate = True
        if self._opening is not None:
            self._opening.set_load_cancellation_flag(True)

    def open(self) -> InferenceSession:
        """A session that has done its warm-up. What a plugin reports is raised, not fallen back from.

        Raises:
            What options, opening and running raise.
        """
        options = self._opening = session_options(self._config, self._add_default)
        options.set_load_cancellation_flag(self._is_cancelled)
        session = InferenceSession(
            str(self._path),
            options,
            prepacked_weights_container=self._container,
            enable_fallback=0,
        )
        try:
            signature = Signature.of(session)
            for at, warm_up in enumerate(self._config.warm_up):
                feed = warm_up_feed(signature, warm_up, f"warm_up[{at}]")
                for _ in range(warm_up.count):
                    session.run(None, feed, self._warming)
        except BaseException:
            session.close()
            raise
        return session

    def open_all(self) -> list[InferenceSession]:
        """A session for each instance, or none."""
        sessions: list[InferenceSession] = []
        try:
            for _ in range(self._config.instances):
                sessions.append(self.open())
        except BaseException:
            close_all(sessions)
            raise
        return sessions


def close_all(sessions: Sequence[InferenceSession]) -> None:
    """Close sessions that nothing runs on."""
    for session in sessions:
        session.close()


def warm_up_feed(signature: Signature, warm_up: WarmUp, where: str) -> dict[str, np.ndarray]:
    """Zeros and empty strings for the inputs that a run must have.

    Args:
        signature: of the model.
        warm_up: with shapes for inputs whose open dimensions are not to be 1.
        where: what messages call it.

    Raises:
        InvalidArgument: a shape for an input that does not exist, or one that it cannot have.
    """
    for name, shape in warm_up.shapes.items():
        spec = signature.inputs.get(name)
        if spec is None:
            raise InvalidArgument(f"{where}.shapes has {name!r}, which is no input of the model")
        if len(shape) != len(spec.shape) or any(
            want not in (-1, got) for got, want in zip(shape, spec.shape, strict=True)
        ):
            raise InvalidArgument(
                f"{where}.shapes.{name} is {list(shape)}, but the input is {list(spec.shape)}"
            )
    feed = {}
    for name, spec in signature.inputs.items():
        if not spec.required and name not in warm_up.shapes:
            continue
        shape = warm_up.shapes.get(name, tuple(1 if dim == -1 else dim for dim in spec.shape))
        empty: Any = "" if spec.datatype == "BYTES" else 0
        feed[name] = np.full(shape, empty, dtype=DATATYPES[spec.datatype])
    return feed
