"""What is known to be different between the two hosts in cases of the fuzzer, each with the reason."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

KNOWN = Path(__file__).with_name("known_differences.toml")


@dataclasses.dataclass(frozen=True)
class Difference:
    """Cases that may differ: those of the operators, where what differs and what was changed match."""

    operators: tuple[str, ...]  # patterns of names
    reason: str
    differs: str = ""  # expressions that are found somewhere in the text
    changed: str = ""
    hosts: tuple[str, ...] = ("cpu", "reference", "cuda", "sample_compiler", "sample_kernels")

    def holds(self, operator: str, host: str, changes: list[str], difference: str) -> bool:
        """Whether this is the reason for a difference."""
        return (
            host in self.hosts
            and any(fnmatchcase(operator, pattern) for pattern in self.operators)
            and re.search(self.differs, difference, re.DOTALL) is not None
            and re.search(self.changed, "; ".join(changes)) is not None
        )


def known_differences(path: Path = KNOWN) -> list[Difference]:
    """Those of a list."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["difference"]
    return [
        Difference(
            tuple(table.get("operators", ["*"])),
            table["reason"],
            table.get("differs", ""),
            table.get("changed", ""),
            tuple(table.get("hosts", Difference.hosts)),
        )
        for table in tables
    ]
