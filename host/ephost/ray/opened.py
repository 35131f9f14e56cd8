"""A model of a repository, opened in whatever process it is asked for in."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ephost.environment import get_ep_devices, register_execution_provider_library
from ephost.errors import InvalidArgument, NoSuchFile
from ephost.named_plugins import add_offered
from ephost.options import SessionOptions
from ephost.plugin_paths import library_path
from ephost.serving.config import CONFIG_FILE, ModelConfig, read_config
from ephost.serving.repository import MODEL_FILE, versions_in
from ephost.serving.sessions import Opener
from ephost.serving.signature import Signature

_lock = threading.Lock()
_registered: dict[str, str] = {}  # by this module: registration names, and what was registered


@dataclass(frozen=True)
class Source:
    """Which model, and on what. It is pickled, and every process opens it for itself.

    Args:
        model: the folder of a model as ``ephost serve`` has it (``NAME/VERSION/model.onnx`` and, if wanted,
            ``NAME/config.toml``), or a model's file. Every node must see it under this path.
        version: of a folder; None: the highest.
        libraries: plugin libraries: the name that each is registered under, and its path or an installed
            package with ``get_library_path()``. A model whose configuration names no execution provider
            runs on what they offer, in their order; without any on the bundled CPU plugin.
        isolated: whether they are loaded into processes of their own.
        devices: what a device must be to be taken, of the keys "type" (CPU, GPU, NPU), "vendor", "ep_name"
            and those of its metadata.
    """

    model: str
    version: int | None = None
    libraries: Mapping[str, str] = field(default_factory=dict)
    isolated: bool = False
    devices: Mapping[str, str] = field(default_factory=dict)

    def file(self) -> tuple[Path, ModelConfig]:
        """The model's file and its configuration.

        Raises:
            NoSuchFile: there is no such model, or no such version of it.
            InvalidArgument: its configuration is wrong.
        """
        path = Path(self.model)
        if path.is_file():
            if self.version is not None:
                raise InvalidArgument(f"{path} is a file and has no versions, {self.version} is asked for")
            return path, ModelConfig()
        if not path.is_dir():
            raise NoSuchFile(f"there is no model {path} on the node {os.uname().nodename}")
        there = versions_in(path)
        if not there or self.version not in (None, *there):
            wanted = "VERSION" if self.version is None else self.version
            raise NoSuchFile(f"there is no {path / str(wanted) / MODEL_FILE}")
        version = there[-1] if self.version is None else self.version
        return path / str(version) / MODEL_FILE, read_config(path / CONFIG_FILE)

    def open(self) -> Opened:
        """Register the libraries, if this process has not, and open a session.

        Raises:
            NoSuchFile, InvalidArgument: as :meth:`file`.
            Fail: a library offers no such device on this node.
            What registering and opening raise.
        """
        path, config = self.file()
        for name, where in self.libraries.items():
            register(name, where, isolated=self.isolated)
        return Opened(Opener(path, config, self._add_devices), config)

    def _add_devices(self, options: SessionOptions) -> None:
        for name, where in self.libraries.items():
            add_offered(options, name, where, {}, self.devices)


class Opened:
    """A model with an open session."""

    def __init__(self, opener: Opener, config: ModelConfig) -> None:
        """Open a session; raises what opening raises."""
        self._opener = opener
        self.config = config
        self.session = opener.open()
        try:
            self.signature = Signature.of(self.session)
        except BaseException:
            self.session.close()
            raise

    def reopen(self) -> None:
        """Open a session in place of one whose plugin's process has ended; raises what opening raises."""
        session = self._opener.open()
        before, self.session = self.session, session
        before.close()


def register(name: str, where: str, *, isolated: bool = False) -> None:
    """Register a library once in this process.

    Args:
        name: to register it under.
        where: its path, or an installed package that has ``get_library_path()``.
        isolated: whether in a process of its own.

    Raises:
        InvalidArgument: the name stands for another library; the package has no library.
        What registering raises.
    """
    with _lock:
        if (before := _registered.get(name)) is not None:
            if before != where:
                raise InvalidArgument(f"'{name}' is {before} in this process, and cannot be {where}, too")
            return
        register_execution_provider_library(name, library_path(where), isolated=isolated or None)
        _registered[name] = where


def labels(libraries: Mapping[str, str]) -> dict[str, str]:
    """What plugins offer on this machine, as labels for ``ray start --labels`` and ``label_selector``.

    Args:
        libraries: as those of a :class:`Source`.

    Returns:
        ``ephost.NAME`` for each library that offers a device, with the devices' types: "GPU", or "CPU-NPU".

    Raises:
        What registering raises.
    """
    found = {}
    for name, where in libraries.items():
        register(name, where)
        types = {each.device.type.name for each in get_ep_devices() if each.registration_name == name}
        if types:
            found[f"ephost.{name}"] = "-".join(sorted(types))
    return found
