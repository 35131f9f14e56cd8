"""Fixtures for the tests of the conformance suite."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from ephost.checking.processes import Server
from ephost.checking.registry import all_checks
from ephost.checking.running import perform
from ephost.checking.subject import Given
from ephost.checking.verdicts import Outcome

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "plugins"))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Builds a plugin of tests/plugins, once for each set of flags."""
    from plugin_harness import build_plugin

    made: dict[tuple[str, ...], Path] = {}

    def build(name: str, *flags: str) -> Path:
        if (name, *flags) not in made:
            folder = ROOT / "tests" / "plugins" / name
            made[(name, *flags)] = build_plugin(folder, tmp_path_factory.mktemp(name), *flags)
        return made[(name, *flags)]

    return build


@dataclass
class Checker:
    """Does checks of a plugin, one after the other, from one process that starts once for all tests.

    What is known of a library before them is what there is to know of it without the variables, unless a test
    wants it ``probed`` with them.
    """

    server: Server
    facts: dict[Path, dict[str, Any]] = field(default_factory=dict)

    def __call__(
        self,
        library: Path,
        checks: Sequence[str],
        variables: Mapping[str, str] | None = None,
        timeout: float = 20,
        probed: bool = False,
        cases: str = "",
    ) -> dict[str, Outcome]:
        name = library.stem.removeprefix("lib")
        given = Given(str(library), name, environment=dict(variables or {}))
        if library not in self.facts:
            self.facts[library] = self.server.probe(replace(given, environment={}), timeout)
        facts = self.server.probe(given, timeout) if probed else self.facts[library]
        known = all_checks()
        return {
            check: perform(self.server, known[check], given, facts, timeout, 0, cases) for check in checks
        }


@pytest.fixture(scope="session")
def checker() -> Iterator[Checker]:
    with Server("ephost") as server:
        yield Checker(server)
