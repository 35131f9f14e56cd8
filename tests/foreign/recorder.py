"""A plugin of pytest that writes down, as it happens, which tests there are and how each one ended.

It runs inside somebody else's suite, with nothing but pytest at hand: the parent (``running.py``) reads the
file also when the process died. EPHOST_FOREIGN_RECORD names it; EPHOST_FOREIGN_ONLY names a file with the
tests to run, a name a line, in place of all.
"""

import json
import os
import time

import pytest

_PATH = os.environ["EPHOST_FOREIGN_RECORD"]
_ONLY = os.environ.get("EPHOST_FOREIGN_ONLY")
_RANK = {"passed": 0, "skipped": 1, "failed": 2}
_outcomes: dict = {}


def _write(**entry):
    with open(_PATH, "a", encoding="utf-8") as file:
        file.write(json.dumps({"time": time.monotonic(), **entry}) + "\n")


def pytest_collection_modifyitems(config, items):
    if _ONLY:
        with open(_ONLY, encoding="utf-8") as file:
            wanted = set(file.read().splitlines())
        items[:] = [item for item in items if item.nodeid in wanted]
    _write(event="collected", tests=[item.nodeid for item in items])


def pytest_collectreport(report):
    if report.failed:
        _write(event="not collected", text=str(report.longrepr)[-4000:])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart(nodeid, location):
    _outcomes[nodeid] = ("passed", "")
    _write(event="start", test=nodeid)


def pytest_runtest_logreport(report):
    outcome = report.outcome
    if hasattr(report, "wasxfail"):
        outcome = "skipped"
    now, _ = _outcomes.get(report.nodeid, ("passed", ""))
    if _RANK[outcome] > _RANK[now]:
        _outcomes[report.nodeid] = (outcome, str(report.longrepr)[-4000:])


def pytest_runtest_logfinish(nodeid, location):
    outcome, text = _outcomes[nodeid]
    _write(event="end", test=nodeid, outcome=outcome, text=text)
