"""What a model's ``config.toml`` may say, and what holds without it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from ephost.enums import GraphOptimizationLevel, OrtExecutionProviderDevicePolicy
from ephost.errors import InvalidArgument
from ephost.reading import refuse_special
from ephost.suggestions import did_you_mean

CONFIG_FILE = "config.toml"
LATEST, ALL = "latest", "all"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Batching:
    """``[batching]``: how requests become one run along the first axis."""

    max_size: int = 1  # rows of a run; 1: no batching
    delay_milliseconds: float = 1.0  # that the first request of a batch waits for others


@dataclass(frozen=True)
class Queue:
    """``[queue]``: what waits for an instance."""

    size: int = 256  # requests; one more is refused
    timeout_milliseconds: float = 0.0  # that a request may wait, where it says nothing itself; 0: any time


@dataclass(frozen=True)
class WarmUp:
    """``[[warm_up]]``: runs before the model is ready, on zeros and empty strings."""

    count: int = 1
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # open dimensions are 1 without


@dataclass(frozen=True)
class SessionChoices:
    """``[session]``: what :class:`ephost.SessionOptions` of the model's sessions get."""

    intra_op_num_threads: int = 0
    graph_optimization_level: str = "ORT_ENABLE_ALL"
    entries: Mapping[str, str] = field(default_factory=dict)
    dimensions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelConfig:
    """All of the file."""

    versions: str | tuple[int, ...] = LATEST
    instances: int = 1
    policy: str = ""  # an OrtExecutionProviderDevicePolicy's name
    providers: tuple[tuple[str, Mapping[str, str]], ...] = ()
    batching: Batching = Batching()
    queue: Queue = Queue()
    session: SessionChoices = SessionChoices()
    warm_up: tuple[WarmUp, ...] = ()


def read_config(path: Path) -> ModelConfig:
    """The configuration in a file; the defaults where there is none.

    Raises:
        InvalidArgument: it is no TOML, has keys that do not exist, or values that they cannot have. The
            message names the file and the key.
        Fail: the path is a pipe's or a device's.
    """
    refuse_special(path, "the configuration")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ModelConfig()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path} cannot be read: {error}") from None
    try:
        return parse_config(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, InvalidArgument) as error:
        raise InvalidArgument(f"{path}: {error}") from None


def parse_config(data: Mapping[str, Any]) -> ModelConfig:
    """The configuration that a parsed file has; raises as :func:`read_config`."""
    table = _Table("", data, ModelConfig)
    config = ModelConfig(
        versions=table.take("versions", _versions, ModelConfig.versions),
        instances=table.take("instances", _whole(1, 1024), 1),
        policy=table.take("policy", _one_of(OrtExecutionProviderDevicePolicy.__members__), ""),
        providers=table.take("providers", _providers, ()),
        batching=_batching(table.table("batching", Batching)),
        queue=_queue(table.table("queue", Queue)),
        session=_session(table.table("session", SessionChoices)),
        warm_up=table.take("warm_up", _warm_ups, ()),
    )
    if config.policy and config.providers:
        raise InvalidArgument("policy and providers exclude each other")
    return config


class _Table:
    """A table of the file whose keys are a dataclass' fields."""

    def __init__(self, where: str, data: Any, kind: type[Any]) -> None:
        if not isinstance(data, Mapping):
            raise InvalidArgument(f"{where} is a table, not {data!r}")
        self._where = f"{where}." if where else ""
        self._data = data
        known = [each.name for each in fields(kind)]
        for key in data:
            if key not in known:
                raise InvalidArgument(
                    f"there is no key {self._where}{key}{did_you_mean(key, known)}. Keys: {', '.join(known)}"
                )

    def take(self, key: str, parse: Callable[[str, Any], _T], default: _T) -> _T:
        return parse(self._where + key, self._data[key]) if key in self._data else default

    def table(self, key: str, kind: type[Any]) -> _Table:
        return _Table(self._where + key, self._data.get(key, {}), kind)


def _batching(table: _Table) -> Batching:
    return Batching(
        table.take("max_size", _whole(1, 1 << 20), Batching.max_size),
        table.take("delay_milliseconds", _number, Batching.delay_milliseconds),
    )


def _queue(table: _Table) -> Queue:
    return Queue(
        table.take("size", _whole(1, 1 << 20), Queue.size),
        table.take("timeout_milliseconds", _number, Queue.timeout_milliseconds),
    )


def _session(table: _Table) -> SessionChoices:
    return SessionChoices(
        table.take("intra_op_num_threads", _whole(0, 4096), 0),
        table.take(
            "graph_optimization_level",
            _one_of(GraphOptimizationLevel.__members__),
            SessionChoices.graph_optimization_level,
        ),
        table.take("entries", _texts, {}),
        table.take("dimensions", _sizes, {}),
    )


def _warm_ups(where: str, value: Any) -> tuple[WarmUp, ...]:
    if not isinstance(value, list):
        raise InvalidArgument(f"{where} is a list of tables, not {value!r}")
    tables = [_Table(f"{where}[{at}]", each, WarmUp) for at, each in enumerate(value)]
    return tuple(
        WarmUp(each.take("count", _whole(1, 1 << 20), 1), each.take("shapes", _shapes, {})) for each in tables
    )


def _whole(least: int, most: int) -> Callable[[str, Any], int]:
    def parse(where: str, value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise InvalidArgument(f"{where} is a whole number from {least} to {most}, not {value!r}")
        return value

    return parse


def _number(where: str, value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < 1e9:
        raise InvalidArgument(f"{where} is a number from 0 on, not {value!r}")
    return float(value)


def _one_of(names: Mapping[str, Any]) -> Callable[[str, Any], str]:
    def parse(where: str, value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise InvalidArgument(
                f"{where} is one of {', '.join(names)}, not {value!r}{did_you_mean(str(value), names)}"
            )
        return value

    return parse


def _versions(where: str, value: Any) -> str | tuple[int, ...]:
    if isinstance(value, str) and value in (LATEST, ALL):
        return value
    if isinstance(value, list) and value:
        one = _whole(1, 1 << 62)
        return tuple(one(f"{where}[{at}]", each) for at, each in enumerate(value))
    raise InvalidArgument(f"{where} is {LATEST!r}, {ALL!r} or a list of version numbers, not {value!r}")


def _providers(where: str, value: Any) -> tuple[tuple[str, Mapping[str, str]], ...]:
    if not isinstance(value, list):
        raise InvalidArgument(f"{where} is a list, not {value!r}")
    found = []
    for at, entry in enumerate(value):
        here = f"{where}[{at}]"
        if isinstance(entry, str):
            entry = {"name": entry}
        if (
            not isinstance(entry, dict)
            or set(entry) - {"name", "options"}
            or not isinstance(entry.get("name"), str)
        ):
            raise InvalidArgument(
                f"{here} is an execution provider's name, or a table with name and options, not {entry!r}"
            )
        found.append((entry["name"], _texts(f"{here}.options", entry.get("options", {}))))
    return tuple(found)


def _texts(where: str, value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise InvalidArgument(f"{where} is a table of strings, not {value!r}")
    return value


def _sizes(where: str, value: Any) -> Mapping[str, int]:
    if not isinstance(value, dict):
        raise InvalidArgument(f"{where} is a table of sizes, not {value!r}")
    size = _whole(0, 1 << 62)
    return {key: size(f"{where}.{key}", each) for key, each in value.items()}


def _shapes(where: str, value: Any) -> Mapping[str, tuple[int, ...]]:
    if not isinstance(value, dict) or not all(isinstance(each, list) for each in value.values()):
        raise InvalidArgument(f"{where} is a table of lists of sizes, not {value!r}")
    size = _whole(0, 1 << 40)
    return {key: tuple(size(f"{where}.{key}", each) for each in shape) for key, shape in value.items()}
