"""A folder of models, laid out as Triton's: ``NAME/VERSION/model.onnx`` and ``NAME/config.toml``.

Requests name models, never paths: a name is looked up among the names that the folder has.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ephost.errors import InvalidArgument, NoSuchFile
from ephost.serving.batching import Observer, Scheduler
from ephost.serving.config import ALL, CONFIG_FILE, LATEST, ModelConfig, read_config
from ephost.serving.errors import BadRequest, Unavailable, UnknownModel
from ephost.serving.sessions import DefaultProviders, Opener, close_all
from ephost.serving.signature import Signature
from ephost.suggestions import did_you_mean
from ephost.tables import printable

_LOG = logging.getLogger("ephost.serving")
MODEL_FILE = "model.onnx"

# The states of the protocol's repository extension.
LOADING, READY, UNAVAILABLE = "LOADING", "READY", "UNAVAILABLE"


class Observing(Protocol):
    """Makes who is told of a version's runs."""

    def __call__(self, model: str, version: str, providers: tuple[str, ...]) -> Observer:
        """The observer for one version of a model."""
        ...


@dataclass(frozen=True)
class Version:
    """A version of a model that is loaded."""

    model: str
    version: str
    config: ModelConfig
    signature: Signature
    providers: tuple[str, ...]
    scheduler: Scheduler


@dataclass
class Entry:
    """What is known of a model of the folder."""

    state: str = UNAVAILABLE
    reason: str = "unloaded"
    versions: dict[str, Version] = field(default_factory=dict)  # the highest is the last


@dataclass(frozen=True)
class Indexed:
    """A line of the repository's index."""

    name: str
    version: str
    state: str
    reason: str


class Repository:
    """The models of a folder, those that are loaded among them. Any thread may call its methods."""

    def __init__(self, folder: Path, add_default: DefaultProviders, observing: Observing) -> None:
        """Nothing is loaded yet.

        Args:
            folder: with the models.
            add_default: gives execution providers to models whose configuration names none.
            observing: makes who is told of runs.

        Raises:
            NoSuchFile: there is no such folder.
        """
        if not folder.is_dir():
            raise NoSuchFile(f"there is no folder {folder}")
        self._folder = folder
        self._add_default = add_default
        self._observing = observing
        self._entries: dict[str, Entry] = {}
        self._lock = threading.Lock()  # of the entries
        self._changing: dict[str, threading.Lock] = {}  # one load or unload of a model at a time
        self._ends = False
        self._openers: set[Opener] = set()
        # Those that were replaced and still run what they have taken, too.
        self._schedulers: weakref.WeakSet[Scheduler] = weakref.WeakSet()

    def names(self) -> list[str]:
        """The names of the models that the folder has now.

        Raises:
            Unavailable: it cannot be read.
        """
        return sorted(each.name for each in self._folders() if versions_in(each))

    def _folders(self) -> list[Path]:
        found = [self._folder / name for name in sorted(self._listed()) if not name.startswith(".")]
        return [each for each in found if os.path.isdir(each)]

    def _listed(self) -> list[str]:
        try:
            return os.listdir(self._folder)
        except OSError as error:
            raise Unavailable(f"the folder of models cannot be read: {error.strerror}") from None

    def _check_there(self, name: str) -> None:
        """That the folder has a model now. It looks into no other's: as many as there are may be loaded."""
        if name.startswith(".") or name not in self._listed() or not versions_in(self._folder / name):
            raise UnknownModel(f"there is no model '{name}'{did_you_mean(name, self.names())}")

    def load_all(self) -> dict[str, str]:
        """Load every model of the folder.

        Returns:
            For each that could not be loaded, why.
        """
        failed = {}
        names = self.names()
        self._warn_of_what_is_none(names)
        for name in names:
            if self._ends:
                break
            try:
                self.load(name)
            except Exception as error:
                failed[name] = str(error)
        return failed

    def _warn_of_what_is_none(self, names: Collection[str]) -> None:
        wanted = f"VERSION/{MODEL_FILE}, where VERSION is a number from 1 on"
        for each in self._folders():
            if each.name not in names:
                _LOG.warning("the folder %s is no model: it has no %s", printable(str(each)), wanted)
        if not names:
            _LOG.warning("there are no models in %s: each is NAME/%s", self._folder, wanted)

    def load(self, name: str) -> None:
        """Load a model, or load it again: requests are the old sessions' until the new ones are ready, and
        those that the old ones have taken are run there.

        Raises:
            UnknownModel: the folder has no such model.
            BadRequest: it cannot be loaded; what was loaded before goes on.
            Unavailable: nothing is loaded any more.
        """
        with self._change_of(name):
            self._check_there(name)
            with self._lock:
                entry = self._entries.setdefault(name, Entry())
                entry.state, entry.reason = LOADING, ""
            opened: dict[str, Version] = {}
            try:
                config = read_config(self._folder / name / CONFIG_FILE)
                for version in self._wanted(name, config):
                    opened[str(version)] = self._open(name, version, config)
                with self._lock:
                    self._check_not_ending()
                    before, entry.versions = entry.versions, opened
                    entry.state, entry.reason = READY, ""
            except Exception as error:
                _close(opened)
                with self._lock:
                    entry.state = READY if entry.versions else UNAVAILABLE
                    entry.reason = str(error)
                if self._ends:
                    self._check_not_ending()
                _LOG.error("model '%s' cannot be loaded: %s", name, error, extra={"model": name})
                raise BadRequest(f"model '{name}' cannot be loaded: {error}") from error
            for version_name, loaded in opened.items():
                _LOG.info(
                    "model '%s' version %s is ready on %s",
                    name,
                    version_name,
                    ", ".join(loaded.providers),
                    extra={"model": name, "version": version_name},
                )
            _close(before)

    def unload(self, name: str) -> None:
        """Unload a model when the requests that it has taken are done.

        Raises:
            UnknownModel: it is not known.
        """
        with self._change_of(name):
            with self._lock:
                entry = self._entries.get(name)
                if entry is None:
                    raise UnknownModel(f"there is no model '{name}'{did_you_mean(name, self._entries)}")
                before, entry.versions = entry.versions, {}
                entry.state, entry.reason = UNAVAILABLE, "unloaded"
            _close(before)
            _LOG.info("model '%s' is unloaded", name, extra={"model": name})

    def get(self, name: str, version: str = "") -> Version:
        """A version that is loaded; without one named, the highest.

        Raises:
            UnknownModel: there is none.
            Unavailable: the model has no version that is loaded.
        """
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                raise UnknownModel(f"there is no model '{name}'{did_you_mean(name, self._entries)}")
            if not entry.versions:
                raise Unavailable(f"model '{name}' is not ready: {entry.reason or 'it is being loaded'}")
            if not version:
                return next(reversed(entry.versions.values()))
            if version not in entry.versions:
                raise UnknownModel(
                    f"model '{name}' has no version '{version}'; it has {', '.join(entry.versions)}"
                )
            return entry.versions[version]

    def versions(self, name: str) -> list[str]:
        """The versions of a model that are loaded."""
        with self._lock:
            entry = self._entries.get(name)
            return list(entry.versions) if entry is not None else []

    def loaded(self) -> list[str]:
        """The names of the models that have a version that is loaded."""
        with self._lock:
            return sorted(name for name, entry in self._entries.items() if entry.versions)

    def is_ready(self) -> bool:
        """Whether all that was loaded can be run."""
        with self._lock:
            entries = list(self._entries.values())
        return all(
            entry.state == READY and all(each.scheduler.is_ready for each in entry.versions.values())
            for entry in entries
            if entry.reason != "unloaded"
        )

    def index(self, *, ready: bool = False) -> list[Indexed]:
        """All models of the folder, and those that are loaded.

        Args:
            ready: only what can be run now.
        """
        found = []
        names = self.names()
        with self._lock:
            for name in sorted({*names, *self._entries}):
                entry = self._entries.get(name, Entry())
                if not entry.versions:
                    found.append(Indexed(name, "", entry.state, entry.reason))
                for version, loaded in entry.versions.items():
                    state = READY if loaded.scheduler.is_ready else UNAVAILABLE
                    found.append(Indexed(name, version, state, entry.reason))
        return [each for each in found if not ready or each.state == READY]

    def stop_loading(self) -> None:
        """Load nothing any more, and end what is being loaded where it can. Does not block."""
        with self._lock:
            self._ends = True
            openers = list(self._openers)
        for opener in openers:
            opener.cancel()

    def stop(self) -> None:
        """Load and run nothing any more: end loads and runs that are under way. Does not block."""
        self.stop_loading()
        with self._lock:
            schedulers = list(self._schedulers)
        for scheduler in schedulers:
            scheduler.stop()

    def _check_not_ending(self) -> None:
        if self._ends:
            raise Unavailable("the server is about to end, and loads nothing any more")

    def close(self) -> None:
        """Unload everything; blocks until what was taken is done."""
        with self._lock:
            entries = list(self._entries.values())
            loaded = [entry.versions for entry in entries]
            for entry in entries:
                entry.versions = {}
                entry.state, entry.reason = UNAVAILABLE, "unloaded"
        for versions in loaded:
            _close(versions)

    def _change_of(self, name: str) -> threading.Lock:
        with self._lock:
            # Only names that the folder has get a lock: what requests name must not fill memory.
            known = name in self._changing or name in self._entries
        if not known:
            self._check_there(name)
        with self._lock:
            return self._changing.setdefault(name, threading.Lock())

    def _wanted(self, name: str, config: ModelConfig) -> list[int]:
        there = versions_in(self._folder / name)
        if not there:
            raise InvalidArgument(f"there is no {name}/VERSION/{MODEL_FILE}")
        if config.versions == LATEST:
            return there[-1:]
        if config.versions == ALL:
            return there
        assert isinstance(config.versions, tuple)
        if missing := set(config.versions) - set(there):
            raise InvalidArgument(f"there is no {name}/{min(missing)}/{MODEL_FILE}")
        return sorted(set(config.versions))

    def _open(self, name: str, version: int, config: ModelConfig) -> Version:
        path = self._folder / name / str(version) / MODEL_FILE
        opener = Opener(path, config, self._add_default)
        with self._lock:
            self._check_not_ending()
            self._openers.add(opener)
        try:
            sessions = opener.open_all()
        finally:
            with self._lock:
                self._openers.discard(opener)
        try:
            signature = Signature.of(sessions[0])
            if config.batching.max_size > 1 and (why := signature.unbatchable):
                raise InvalidArgument(f"{path} cannot be batched: {why}")
            providers = tuple(sessions[0].get_providers())
            observer = self._observing(name, str(version), providers)
        except BaseException:
            close_all(sessions)
            raise
        label = f"model '{name}' version {version}"
        scheduler = Scheduler(sessions, opener.open, config.batching, config.queue, observer, label)
        with self._lock:
            self._schedulers.add(scheduler)
        return Version(name, str(version), config, signature, providers, scheduler)


def _close(versions: dict[str, Version]) -> None:
    for version in versions.values():
        version.scheduler.close()


def versions_in(folder: Path) -> list[int]:
    """The numbers of a model's versions, ascending. ``01`` is none: a number has one name. None where the
    folder cannot be read, or has a name that no request can have.
    """
    try:
        folder.name.encode()
        names = os.listdir(folder)
    except (OSError, UnicodeEncodeError):
        return []
    numbers = [name for name in names if name.isascii() and name.isdigit() and not name.startswith("0")]
    return sorted(int(name) for name in numbers if os.path.isfile(folder / name / MODEL_FILE))
