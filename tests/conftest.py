"""What holds for all tests: they know which execution providers a session has."""

import os

import pytest

# Without this every session would have the bundled CPU plugin behind the execution providers of its test, and
# that would take the nodes that tests leave to the reference fallback on purpose. Tests that want it ask for
# the fixture `cpu_plugin_as_default`, which is for programs that the test starts.
os.environ.setdefault("EPHOST_CPU_PLUGIN", "0")


@pytest.fixture
def cpu_plugin_as_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that the test starts have the bundled CPU plugin, as users' programs do."""
    monkeypatch.delenv("EPHOST_CPU_PLUGIN", raising=False)
