"""The plugin that is checked, as a check sees it in its process."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ephost.checking.models import SAMPLES, Arrays, Sample
from ephost.checking.verdicts import Failure, Skip

RECORD = "session.record_ep_graph_assignment_info"


@dataclass(frozen=True)
class Given:
    """What the command line says of the plugin: its library, the devices to use, the options."""

    path: str
    name: str
    host: str = "ephost"
    device: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)  # set before the plugin is loaded

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {**vars(self), "options": dict(self.options), "environment": dict(self.environment)}


class Subject:
    """A plugin library in a host of this process.

    ``facts`` is what was found out about it before: ``ep_name``, ``devices``, ``samples`` (the names of
    models that it takes and runs rightly), ``wrong`` (of those that it takes, and why they are not right).
    ``stage`` tells whoever waits what is being done.
    """

    def __init__(
        self,
        given: Given,
        facts: Mapping[str, Any],
        seed: int = 0,
        stage: Callable[[str], None] = lambda text: None,
        cases: str = "",
    ) -> None:
        self.given = given
        self.facts = facts
        self.stage = stage
        self.cases = cases  # the folder with the standard's cases
        self.notes: list[str] = []  # warnings
        self.numbers: dict[str, Any] = {}
        self.seed = seed
        self.random = np.random.default_rng(seed)
        self._devices: list[Any] | None = None

    @property
    def host(self) -> Any:
        """The host's module."""
        return importlib.import_module(self.given.host)

    @property
    def path(self) -> str:
        """The library."""
        return self.given.path

    def warn(self, text: str) -> None:
        """Something that is allowed, and unwise."""
        self.notes.append(text)

    # ---- registering

    def register(self, name: str | None = None, path: str | None = None) -> list[Any]:
        """Register the library and give the devices that it offers, all of them."""
        self.stage("registering")
        before = {_key(device) for device in self.host.get_ep_devices()}
        self.host.register_execution_provider_library(name or self.given.name, path or self.path)
        real = os.path.realpath(path or self.path)
        return [d for d in self.host.get_ep_devices() if _is_of(d, real, before)]

    def unregister(self, name: str | None = None) -> None:
        """The opposite."""
        self._devices = None
        gc.collect()
        self.stage("unregistering")
        self.host.unregister_execution_provider_library(name or self.given.name)

    @property
    def devices(self) -> list[Any]:
        """The devices of the execution provider that is checked; the library is registered when needed.

        Raises:
            Skip: there is none here, or none that was asked for.
        """
        if self._devices is None:
            self._devices = self.choose(self.register())
        if not self._devices:
            raise Skip(f"the plugin offers no device here{self._wanted()}")
        return self._devices

    def choose(self, offered: Sequence[Any]) -> list[Any]:
        """Of the devices those of one execution provider that the command line asks for."""
        wanted = self.given.device.lower()
        if wanted:
            offered = [
                device
                for at, device in enumerate(offered)
                if wanted in (str(at), device.device.type.name.lower(), device.ep_name.lower())
            ]
        return [device for device in offered if device.ep_name == offered[0].ep_name]

    def _wanted(self) -> str:
        return f" that is called {self.given.device!r}" if self.given.device else ""

    @property
    def ep_name(self) -> str:
        """The execution provider's name."""
        return str(self.devices[0].ep_name)

    # ---- sessions

    def session_options(
        self,
        config: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        devices: Sequence[Any] | None = None,
        optimized: bool = False,
    ) -> Any:
        """Options of a session on the plugin."""
        made = self.host.SessionOptions()
        made.log_severity_level = 3
        for key, value in {RECORD: "1", **(config or {})}.items():
            made.add_session_config_entry(key, value)
        if not optimized:
            made.graph_optimization_level = self.host.GraphOptimizationLevel.ORT_DISABLE_ALL
        chosen = self.devices if devices is None else devices
        if chosen:
            made.add_provider_for_devices(list(chosen), {**self.given.options, **(options or {})})
        return made

    def open(self, model: bytes | str, options: Any = None, **settings: Any) -> Any:
        """A session of a model on the plugin, with the settings of :meth:`session_options`."""
        made = self.session_options(**settings) if options is None else options
        self.stage("opening a session")
        return self.host.InferenceSession(model, made, enable_fallback=0)

    def run(self, session: Any, feeds: Arrays) -> list[Any]:
        """The outputs of a run."""
        self.stage("running")
        return list(session.run(None, feeds))

    def claimed(self, session: Any) -> list[tuple[str, str]]:
        """Name and operator of the nodes that the plugin runs in a session."""
        return [
            (node.name, node.op_type)
            for group in session.get_provider_graph_assignment_info()
            if group.ep_name == self.ep_name
            for node in group.get_nodes()
        ]

    def groups(self, session: Any) -> list[list[str]]:
        """The operators of each group of nodes that the plugin runs."""
        return [
            [node.op_type for node in group.get_nodes()]
            for group in session.get_provider_graph_assignment_info()
            if group.ep_name == self.ep_name
        ]

    # ---- samples

    @property
    def sample(self) -> Sample:
        """A model that the plugin takes.

        Raises:
            Skip: it takes none of those that the checks know.
        """
        return SAMPLES[self.sample_name]

    @property
    def sample_name(self) -> str:
        """The name of :attr:`sample`."""
        found = [*self.facts.get("samples", ()), *self.facts.get("wrong", ())]
        if not found:
            raise Skip("the plugin takes none of the models that the checks are made of")
        return str(found[0])

    @contextlib.contextmanager
    def opened(self, n: int | str = 4, **settings: Any) -> Iterator[Any]:
        """A session of the sample, which is closed at the end."""
        session = self.open(self.sample.build(n), **settings)
        try:
            yield session
        finally:
            del session
            gc.collect()

    def run_sample(self, session: Any, n: int = 4, what: str = "the sample") -> None:
        """Run the sample's session and compare with the reference.

        Raises:
            Failure: it gives something else.
        """
        feeds = self.sample.feed(n)
        self.require_equal(self.run(session, feeds), reference(self.sample.build(n), feeds), what)

    def require_equal(
        self, got: Sequence[Any], want: Sequence[Any], what: str, op_types: Sequence[str] = ("Conv", "Tanh")
    ) -> None:
        """Compare outputs with the reference's.

        Raises:
            Failure: they are further off than rounding explains.
        """
        from ephost.checking.judging import require_equal

        if low := require_equal(got, want, what, op_types):
            self.warn(f"{what}: as exact as {' and '.join(sorted(set(low)))} allows, and not float32")

    def resident(self) -> int:
        """Bytes of this process that are resident."""
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )


def reference(model: bytes, feeds: Arrays) -> list[Any]:
    """A model's outputs on the reference operators, with no plugin at all."""
    ephost = importlib.import_module("ephost")
    options = ephost.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ephost.GraphOptimizationLevel.ORT_DISABLE_ALL
    return list(ephost.InferenceSession(model, options).run(None, feeds))


def require_error(
    action: Callable[[], Any], what: str, kinds: tuple[type[BaseException], ...] = (Exception,)
) -> str:
    """The message of the error that an action has to end with.

    Raises:
        Failure: it ends without one.
    """
    try:
        action()
    except (Failure, Skip):
        raise
    except kinds as error:
        return f"{type(error).__name__}: {error}"
    raise Failure(f"{what} succeeds, where an error is due")


def _key(device: Any) -> tuple[str, str, str]:
    hardware = device.device
    return device.ep_name, device.ep_vendor, f"{hardware.type} {hardware.vendor_id} {hardware.device_id}"


def _is_of(device: Any, path: str, before: set[tuple[str, str, str]]) -> bool:
    told = dict(device.ep_metadata).get("library_path")
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")  # as metadata has bytes that are no text
    return told == shown or os.path.realpath(told) == path if told else _key(device) not in before
