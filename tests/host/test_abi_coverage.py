"""docs/abi-coverage.md says what is left of the ABI, and why: held against the tables."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import ephost

from tests.host.conftest import ROOT

PAGE = (ROOT / "docs" / "abi-coverage.md").read_text()
LEFT = PAGE[PAGE.index("## What is left") :]
PATTERNS = [
    pattern
    for row in re.findall(r"^\|(.*?)\|", LEFT, re.M)
    for pattern in re.findall(r"`([^`]+\.[^`]+)`", row)
]


def test_the_numbers_are_those_of_the_tables() -> None:
    found = {
        table: (int(total), int(there), int(left))
        for table, total, there, left in re.findall(
            r"^\| (Ort\w+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.M
        )
    }
    assert found == {
        table: (sum(row.values()), row["native"], row["missing"])
        for table, row in ephost.abi_coverage().counts().items()
    }


def test_every_function_that_is_left_has_its_reason() -> None:
    names = [f"{f.table}.{f.name}" for f in ephost.abi_coverage().missing()]
    assert [name for name in names if not any(fnmatchcase(name, pattern) for pattern in PATTERNS)] == []


def test_no_reason_is_given_for_what_is_there() -> None:
    names = [f"{f.table}.{f.name}" for f in ephost.abi_coverage().missing()]
    assert [pattern for pattern in PATTERNS if not any(fnmatchcase(name, pattern) for name in names)] == []


def test_nothing_of_the_eps_own_table_is_left() -> None:
    left = [f for f in ephost.abi_coverage().missing() if f.table in ("OrtEpApi", "OrtInteropApi")]
    assert [f.name for f in left if f.since <= 30] == []
