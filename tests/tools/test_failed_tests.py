"""A test that fails is one failure: the tests behind it have what they need."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

TESTS = """
import pytest


class Session:
    there = 0

    def __init__(self):
        Session.there += 1

    def __del__(self):
        Session.there -= 1


@pytest.fixture
def plugin():
    yield
    assert Session.there == 0


def test_fails_with_a_session(plugin):
    session = Session()
    assert session is None


def test_fails_with_a_session_and_keeps_the_error(plugin):
    session = Session()
    try:
        raise ValueError("first")
    except ValueError as error:
        kept = error
        assert kept is session


def test_another(plugin):
    pass
"""


def test_a_failed_test_keeps_nothing_that_its_fixtures_end(tmp_path: Path) -> None:
    (tmp_path / "test_inner.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-q"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, f"--rootdir={tmp_path}", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=environment,
    )
    counts = re.findall(r"(\d+) (failed|passed|error)", done.stdout.splitlines()[-1])
    assert counts == [("2", "failed"), ("1", "passed")], done.stdout + done.stderr
