"""The checks that there are. A module of ``groups`` makes its own known with the decorators here."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ephost.checking.subject import Subject

HOSTS = ("ephost", "onnxruntime")
LEVELS = range(1, 11)
SHIP = 5  # the level of a plugin that is fit to ship
GROUPS = {
    "file": "the library as a file",
    "registration": "registering the library",
    "devices": "the devices that it offers",
    "options": "options of execution providers and sessions",
    "sessions": "opening, using and closing sessions",
    "graphs": "graphs that the plugin is asked about",
    "claims": "what the plugin claims of them",
    "numbers": "results, operator by operator",
    "shapes": "sizes of tensors",
    "types": "element types",
    "threads": "several threads at once",
    "memory": "what is not given back",
    "device-memory": "memory of the device",
    "transfers": "copies from and to the device",
    "streams": "queues of work",
    "kernels": "the registry of kernels",
    "context": "compiled models (EPContext)",
    "layout": "channels last",
    "profiling": "the plugin's part of a profile",
    "versions": "versions of the ABI",
    "allocations": "allocations that fail",
    "rules": "the rules of the ABI",
    "fuzz": "models drawn at random",
    "unload": "unregistering",
    "exit": "the end of the process",
}


@dataclass(frozen=True)
class Check:
    """One check: a stable name, a line of text, a level of strictness, and the function that does it.

    ``needs`` is what has to be known of the plugin before it makes sense: ``devices``; ``claim`` for a model
    of which the plugin takes a node, ``model`` for one that it runs rightly as well. ``exits`` is for checks
    of how a process ends. ``environment`` is set before the plugin is loaded.
    """

    name: str
    text: str
    level: int
    function: Callable[[Subject], None]
    needs: str = ""
    hosts: tuple[str, ...] = HOSTS
    exits: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    cases: str = ""  # the operator whose cases of the standard it wants

    @property
    def group(self) -> str:
        """The group, the first part of the name."""
        return self.name.partition(".")[0]


_checks: dict[str, Check] = {}


def add(made: Check) -> None:
    """Make a check known.

    Raises:
        ValueError: its name is taken, its group or its level is unknown.
    """
    if made.name in _checks:
        raise ValueError(f"there are two checks called {made.name}")
    if made.group not in GROUPS or made.level not in LEVELS or not made.text:
        raise ValueError(f"the check {made.name} has no known group, no level or no text")
    _checks[made.name] = made


def check(
    name: str,
    level: int,
    *,
    needs: str = "",
    hosts: Iterable[str] = HOSTS,
    exits: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
    """Make a function a check; the first line of its description is the check's text."""

    def known(function: Callable[[Subject], None]) -> Callable[[Subject], None]:
        text = (function.__doc__ or "").partition("\n")[0].strip()
        add(Check(name, text, level, function, needs, tuple(hosts), exits, dict(environment or {})))
        return function

    return known


@cache
def all_checks() -> dict[str, Check]:
    """Every check by name, in the order of the groups."""
    from ephost.checking import groups

    for module in pkgutil.iter_modules(groups.__path__):
        importlib.import_module(f"{groups.__name__}.{module.name}")
    order = {group: at for at, group in enumerate(GROUPS)}
    return {made.name: made for made in sorted(_checks.values(), key=lambda made: order[made.group])}
