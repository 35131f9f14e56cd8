"""What a user may say of an isolated plugin, at registration and in a session's entries."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ephost.config_values import switched
from ephost.errors import InvalidArgument
from ephost.records import Record, replaced
from ephost.suggestions import did_you_mean

VARIABLE = "EPHOST_ISOLATED"  # in the environment, "1": every library is isolated unless it is said otherwise
PREFIX = "ephost.isolation."  # of a session's entries
RESTARTS = ("never", "on_demand", "always")
ON_CRASH = PREFIX + "on_crash"  # "fallback": a run that a crash ended is repeated without plugins
ENTRIES = (
    PREFIX + "run_timeout_seconds",
    PREFIX + "compile_timeout_seconds",
    PREFIX + "release_timeout_seconds",
    PREFIX + "memory_limit_bytes",
    PREFIX + "processor_seconds",
    PREFIX + "network",
    PREFIX + "writable",
    ON_CRASH,
)
_WHOLE = ("memory_limit_bytes", "processor_seconds", "shared_bytes")
_LEAST_SHARED = 1 << 16  # bytes; 0 is no lack of a limit there
_LONGEST = 10**6  # seconds; the system takes milliseconds of 32 bits
_SWITCHES = {"0": False, "1": True}


class Isolation(Record, frozen=True):
    """How a plugin is isolated. 0 stands for no limit."""

    run_timeout_seconds: float = 0.0
    register_timeout_seconds: float = 60.0
    compile_timeout_seconds: float = 0.0  # making an EP, its claims, and compiling them
    release_timeout_seconds: float = 10.0
    memory_limit_bytes: int = 0  # of the worker's own memory
    processor_seconds: int = 0
    shared_bytes: int = 64 << 30  # addresses for tensors; memory is taken as it is used
    restart: str = "on_demand"  # after a fault: with the next session, at once, or never
    environment: Mapping[str, str] | None = None  # None: this process' own
    network: bool = True
    writable: Sequence[str] | None = (
        None  # paths below which files may be changed; None: all that the user may
    )

    @property
    def of_process(self) -> tuple[Any, ...]:
        """What is settled when a worker starts, and may differ from session to session."""
        return self.memory_limit_bytes, self.processor_seconds, self.network, self.writable


def isolation_of(given: bool | Mapping[str, Any] | Isolation | None) -> Isolation | None:
    """The settings that an argument stands for; None where the plugin is not isolated.

    Raises:
        TypeError: it is something else.
        InvalidArgument: a setting that does not exist, or a value that it or the environment cannot have.
    """
    if given is None:
        given = switched(VARIABLE, False)
    if isinstance(given, bool):
        return Isolation() if given else None
    if isinstance(given, Isolation):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f"isolated is a bool or a dict of settings, not {given!r}")
    known = Isolation._fields
    for key in given:
        if key not in known:
            raise InvalidArgument(
                f"isolation has no setting {key!r}{did_you_mean(str(key), known)}. "
                f"Settings: {', '.join(known)}"
            )
    settings = Isolation(**given)
    if not isinstance(settings.network, bool):
        raise InvalidArgument(f"the isolation's network is a bool, not {settings.network!r}")
    if settings.writable is not None:
        if isinstance(settings.writable, (str, bytes)) or not isinstance(settings.writable, Sequence):
            raise InvalidArgument(f"the isolation's writable is a list of paths, not {settings.writable!r}")
        settings = replaced(settings, writable=tuple(map(_absolute, settings.writable)))
    for key in known[:7]:
        value = getattr(settings, key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
            raise InvalidArgument(f"the isolation's {key} is a number from 0 on, not {value!r}")
        if wrong := _unfit(key, value):
            raise InvalidArgument(f"the isolation's {key} is {wrong}, not {value!r}")
    if settings.environment is not None:
        _require_environment(settings.environment)
    if settings.restart not in RESTARTS:
        raise InvalidArgument(
            f"the isolation's restart is one of {', '.join(RESTARTS)}, not {settings.restart!r}"
        )
    return settings


def _absolute(path: str | os.PathLike[str]) -> str:
    return os.path.abspath(os.fspath(path))


def _unfit(name: str, value: float) -> str:
    """What a setting is that cannot have this number; "" where it can."""
    if name not in _WHOLE:
        return "" if value <= _LONGEST else f"at most {_LONGEST} seconds, or 0 for no limit"
    if not (isinstance(value, int) and value < 1 << 63):
        return "a whole number below 2**63"
    return f"at least {_LEAST_SHARED}" if name == "shared_bytes" and value < _LEAST_SHARED else ""


def _require_environment(given: Any) -> None:
    """Raise InvalidArgument for what can be no environment of a process."""
    pairs = given.items() if isinstance(given, Mapping) else [(given, "")]
    for key, value in pairs:
        texts = isinstance(key, str) and isinstance(value, str)
        if not texts or not key or "=" in key or "\0" in key + value:
            raise InvalidArgument(
                "the isolation's environment is a dict of variables and their texts, which "
                f"{key!r}: {value!r} is not"
            )


def _number(key: str, value: str, kind: type[int] | type[float]) -> int | float:
    try:
        number = kind(value)
    except ValueError:
        number = -1
    name = key.removeprefix(PREFIX)
    if number >= 0 and (wrong := _unfit(name, number)):
        raise InvalidArgument(f"the session entry {key} is {wrong}, not {value!r}")
    if not number >= 0:
        what = "a whole number" if kind is int else "a number of seconds"
        raise InvalidArgument(f"the session entry {key} is {what} from 0 on, not {value!r}")
    return number


def with_entries(settings: Isolation, entries: Mapping[str, str]) -> Isolation:
    """The settings with what a session's entries say otherwise.

    Raises:
        InvalidArgument: an entry that is no number, or none that it can be.
    """
    changes: dict[str, Any] = {}
    for key, value in entries.items():
        if key not in ENTRIES or key == ON_CRASH:
            continue
        name = key.removeprefix(PREFIX)
        if name == "network":
            if value not in _SWITCHES:
                raise InvalidArgument(f"the session entry {key} is 0 or 1, not {value!r}")
            changes[name] = _SWITCHES[value]
        elif name == "writable":
            changes[name] = tuple(_absolute(path) for path in value.split(os.pathsep) if path)
        else:
            changes[name] = _number(key, value, int if name in _WHOLE else float)
    return replaced(settings, **changes) if changes else settings
