"""Where a model is tried: a host with its plugins, and their options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ephost.errors import InvalidArgument
from ephost.plugin_paths import is_path, library_path

HOSTS = ("ephost", "onnxruntime")
_NAMED = ("reference", "cpu", "onnxruntime")  # by named_target
_WITHOUT_CPU_PLUGIN = {"EPHOST_CPU_PLUGIN": "0"}


@dataclass(frozen=True)
class Library:
    """A plugin library to register, and the options for its execution providers. The path of a file that is
    there becomes absolute: onnxruntime looks for others beside itself, and a program for a vendor may run
    anywhere.
    """

    name: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if os.path.exists(self.path):
            object.__setattr__(self, "path", os.path.abspath(self.path))


@dataclass(frozen=True)
class Target:
    """A place to run models at. What no plugin takes is the host's own to run."""

    label: str
    host: str = "ephost"
    libraries: tuple[Library, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)  # entries of the session's options
    environment: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The same as dicts and texts."""
        return {
            "label": self.label,
            "host": self.host,
            "libraries": [
                {"name": each.name, "path": each.path, "options": dict(each.options)}
                for each in self.libraries
            ],
            "config": dict(self.config),
            "environment": dict(self.environment),
        }

    def without_option(self, library: str, key: str) -> Target:
        """The same without one option of a library's execution providers."""
        kept = tuple(
            replace(each, options={k: v for k, v in each.options.items() if k != key})
            if each.name == library
            else each
            for each in self.libraries
        )
        return replace(self, libraries=kept)

    def without_entry(self, key: str) -> Target:
        """The same without one entry of the session's options."""
        return replace(self, config={k: v for k, v in self.config.items() if k != key})

    def same_place(self, other: Target) -> bool:
        """Whether another target is this one, whatever it is called."""
        return replace(self, label="") == replace(other, label="")

    def in_host(self, host: str) -> Target:
        """The same plugins in another host."""
        return replace(self, host=host, label=f"{self.label} in {host}")


def named_target(name: str, config: Mapping[str, str] | None = None) -> Target | None:
    """What ``reference``, ``cpu`` and ``onnxruntime`` stand for; None for another name."""
    entries = dict(config or {})
    if name == "reference":
        return Target("the reference operators", config=entries, environment=_WITHOUT_CPU_PLUGIN)
    if name == "cpu":
        return Target("ephost's CPU plugin", config=entries)
    if name == "onnxruntime":
        return Target("onnxruntime's CPU provider", host="onnxruntime", config=entries)
    return None


def told_apart(here: Target, there: Target) -> tuple[Target, Target]:
    """Two targets whose labels say what differs between them.

    Raises:
        InvalidArgument: nothing does.
    """
    for name, target in (("target", here), ("against", there)):
        if not isinstance(target, Target):
            raise TypeError(f"{name} is a Target, a plugin's path or a name, not {type(target).__name__}")
    if here.same_place(there):
        raise InvalidArgument(f"{here.label} would be compared with itself")
    if here.label != there.label:
        return here, there
    for differs in (_paths, _options, _entries):
        if (mine := differs(here)) != (theirs := differs(there)):
            return replace(here, label=f"{here.label} ({mine})"), replace(
                there, label=f"{there.label} ({theirs})"
            )
    return here, there


def _paths(target: Target) -> str:
    return ", ".join(library.path for library in target.libraries)


def _options(target: Target) -> str:
    given = [f"{key}={value}" for each in target.libraries for key, value in each.options.items()]
    return ", ".join(given) or "no options"


def _entries(target: Target) -> str:
    return ", ".join(f"{key}={value}" for key, value in target.config.items()) or "no entries"


def plugin_target(where: str, options: Mapping[str, str] | None = None, host: str = "ephost") -> Target:
    """A target of one plugin.

    Args:
        where: the library's path, or a package with ``get_library_path()``.
        options: of its execution providers.
        host: that it runs in.

    Raises:
        InvalidArgument: there is no such file and no such package, or the package has no library.
    """
    if is_path(where) and not os.path.isfile(where):
        raise InvalidArgument(f"there is no library {where!r}")
    name = os.path.basename(where).partition(".")[0].removeprefix("lib")
    if not os.path.isfile(where):
        name, where = where.rpartition(".")[2], library_path(where, _NAMED)
    return Target(name, host, (Library(name, where, dict(options or {})),))
