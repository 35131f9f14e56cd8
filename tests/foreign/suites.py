"""The suites that are known, and the differences that are."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Suite:
    """Tests of somebody else's repository. Paths and patterns are relative to its checkout."""

    name: str
    source: str  # where the checkout comes from
    tests: Sequence[str]  # patterns of the files with tests
    folders: Sequence[str]  # folders and files of the checkout that the tests need
    working_directory: str = "."
    needs: str = ""  # packages
    limit: float = 120.0  # seconds that a test may take
    left_out: Mapping[str, str] = field(default_factory=dict)  # pattern of files: why they are not run
    # Of the environment, and of pytest; {checkout} is the folder.
    variables: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[str] = ()

    def files(self, checkout: Path) -> list[str]:
        """The files with tests that a checkout has, in order."""
        found = {path.relative_to(checkout).as_posix() for p in self.tests for path in checkout.glob(p)}
        return sorted(f for f in found if not any(fnmatchcase(f, pattern) for pattern in self.left_out))


@dataclass(frozen=True)
class Difference:
    """Tests that pass on onnxruntime and not on ephost, and why that is accepted."""

    suite: str
    test: str  # a pattern of names: FILE::CLASS::FUNCTION
    reason: str


def load_suites(path: Path = HERE / "suites.toml") -> dict[str, Suite]:
    """The suites by name."""
    return {name: Suite(name=name, **table) for name, table in tomllib.loads(path.read_text()).items()}


def load_differences(path: Path = HERE / "known_differences.toml") -> list[Difference]:
    """All known differences.

    Raises:
        ValueError: one without a reason.
    """
    found = [Difference(**table) for table in tomllib.loads(path.read_text()).get("difference", [])]
    for difference in found:
        if not difference.reason.strip():
            raise ValueError(f"{path}: the difference of {difference.test!r} has no reason")
    return found
