"""Hostile attributes and inputs of every operator end in errors of the host, or in a result.

EPHOST_FUZZ_TRIES is how many cases are tried: two of each operator unless it says more.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzz import models, operators, processes
from tests.fuzz.cases import make_case
from tests.fuzz.differences import known_differences
from tests.fuzz.examples import Example, examples


@pytest.fixture(scope="module")
def found() -> dict[str, list[Example]]:
    return examples()


def test_every_operator_of_the_standard_is_tried(found: dict[str, list[Example]]) -> None:
    import onnx

    newest = {s.name for s in onnx.defs.get_all_schemas() if s.domain == "" and not s.deprecated}
    # What takes sequences alone has no example that is guessed.
    assert newest - set(found) == set()


def test_a_case_is_the_same_each_time(found: dict[str, list[Example]]) -> None:
    cases = [make_case(5, "Conv", number, found) for number in range(20)]
    again = [make_case(5, "Conv", number, found) for number in range(20)]
    other = [make_case(6, "Conv", number, found) for number in range(20)]
    assert [case.model for case in cases] == [case.model for case in again]
    assert [case.model for case in cases] != [case.model for case in other]


def test_what_a_second_run_is_fed_is_among_the_changes(found: dict[str, list[Example]]) -> None:
    cases = [make_case(5, "Conv", number, found) for number in range(100)]
    twice = [case for case in cases if len(case.feeds) == 2]
    assert twice
    for case in twice:
        first, second = case.feeds
        other = {f"input {name[1:]}, again" for name in first if second[name] is not first[name]}
        told = {name for name in other if any(name in change for change in case.changes)}
        assert told == other and sum("again" in change for change in case.changes) == len(other)


@pytest.mark.timeout(3000)
def test_hostile_values_end_in_errors_of_the_host(
    found: dict[str, list[Example]], capfd: pytest.CaptureFixture[str]
) -> None:
    tries = int(os.environ.get("EPHOST_FUZZ_TRIES", 2 * len(found)))
    assert operators.main(["--cases", str(tries), "--seed", "1"]) == 0, capfd.readouterr().out[-8000:]
    total = capfd.readouterr().out.splitlines()[-1]
    assert "'ran': " in total and "'error': " in total, total


def test_known_differences_name_operators_that_there_are(found: dict[str, list[Example]]) -> None:
    from fnmatch import filter as matching

    for known in known_differences():
        assert (
            len(known.reason) > 20 and known.hosts and set(known.hosts) <= {*operators.HOSTS, *models.HOSTS}
        )
        for pattern in known.operators:
            assert matching(found, pattern), pattern


def test_a_difference_without_a_reason_is_told() -> None:
    known = known_differences()
    random = ("Bernoulli", "cpu", [], "output 0 at (0,): 1.0 and 0.0 (1 of 6)")
    assert any(each.holds(*random) for each in known)
    assert not any(each.holds("Add", *random[1:]) for each in known)


def test_a_fault_is_found_and_named(
    found: dict[str, list[Example]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = processes.Worker("operators", "cpu", 1, tmp_path / "nowhere", tmp_path / "log")  # ends at once
    assert "FileNotFoundError" in lost.run("Conv/1")["fault"]
