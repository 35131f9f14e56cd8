"""What holds for all tests: they know which execution providers a session has, and every run is the same."""

import gc
import importlib.util
import os
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# The examples of a test follow from its source alone, so that a run that passes does so again, anywhere. To
# look for new ones: EPHOST_HYPOTHESIS=explore draws at random, and far more of them. EPHOST_EXAMPLES says how
# many, in either case. A test that wants more or fewer asks for a multiple of settings.default.max_examples.
ALWAYS: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}
for name, examples in (("same", 50), ("explore", 2000)):
    examples = int(os.environ.get("EPHOST_EXAMPLES", examples))
    settings.register_profile(name, derandomize=name == "same", max_examples=examples, **ALWAYS)
settings.load_profile(os.environ.get("EPHOST_HYPOTHESIS", "same"))

# Without this every session would have the bundled CPU plugin behind the execution providers of its test, and
# that would take the nodes that tests leave to the reference fallback on purpose. Tests that want it ask for
# the fixture `cpu_plugin_as_default`, which is for programs that the test starts.
os.environ.setdefault("EPHOST_CPU_PLUGIN", "0")


HAS_ONNXRUNTIME = importlib.util.find_spec("onnxruntime") is not None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what onnxruntime is to do where there is none: the newest Python has to wait for it. Skip what
    cannot be had of an isolated plugin, and what would be the same again, where EPHOST_ISOLATED says that all
    of them are isolated.
    """
    chosen = getattr(item, "callspec", None)
    hosts = [value for value in chosen.params.values() if isinstance(value, str)] if chosen else []
    if "onnxruntime" in hosts and not HAS_ONNXRUNTIME:
        pytest.skip("onnxruntime is not installed")
    if os.environ.get("EPHOST_ISOLATED", "0") in ("", "0"):
        return
    mark = item.get_closest_marker("in_process")
    if chosen is not None and chosen.params.get("host") == "onnxruntime":
        pytest.skip("isolated: onnxruntime isolates no plugin")
    if mark is not None:
        pytest.skip(f"isolated: {mark.args[0]}")


def pytest_runtest_teardown() -> None:
    """Let go of what a test that failed had at hand, before its module's fixtures end.

    pytest keeps the traceback for debuggers until the next test. A session in it would keep the plugin that
    the fixture is about to unregister, and every later test that registers it would fail, too.
    """
    if getattr(sys, "last_value", None) is None:
        return
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        setattr(sys, name, None)
    gc.collect()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with tests that take long, so that no process waits for another's at the end; leave out some.

    EPHOST_PART leaves one part of several, ``0/4`` the first of four; a test is in the part that its name
    says, whatever other tests there are. Of the parameters of a test that is marked ``sampled(n)`` every n-th
    is taken: EPHOST_SAMPLE says from which on, or ``all``. Tests that are named one by one are not sampled.
    """
    part, _, parts = os.environ.get("EPHOST_PART", "0/1").partition("/")
    sample = os.environ.get("EPHOST_SAMPLE", "0")
    seen: Counter[str] = Counter()
    kept, left = [], []
    for item in items:
        mark = item.get_closest_marker("sampled")
        name = item.nodeid.partition("[")[0]
        skipped = zlib.crc32(item.nodeid.encode()) % int(parts) != int(part)
        if mark is not None and sample != "all" and not any("::" in argument for argument in config.args):
            skipped |= (seen[name] - int(sample)) % mark.args[0] != 0
            seen[name] += 1
        (left if skipped else kept).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
    items[:] = sorted(kept, key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Let Python's collector pass over what importing and collecting the tests have made.

    Many tests collect before and after, to see what a session leaves behind. To look through the modules and
    parameters of thousands of tests each time took twenty times as long as the rest of such a test.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def temporary_files_go_with_the_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Programs that tests kill leave their temporary folders behind: they stand in one, which is removed."""
    tmp_path_factory.getbasetemp()  # pytest's own folders stay where they are
    kept = tempfile.TemporaryDirectory(prefix="ephost-tests-", ignore_cleanup_errors=True)
    with pytest.MonkeyPatch.context() as patch, kept as folder:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture
def cpu_plugin_as_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that the test starts have the bundled CPU plugin, as users' programs do."""
    monkeypatch.delenv("EPHOST_CPU_PLUGIN", raising=False)


_start: dict[str, dict[str, Any]] = {}  # by module: the state of its generator when it was imported


@pytest.fixture(autouse=True)
def random_numbers_that_no_other_test_moves(request: pytest.FixtureRequest) -> None:
    """A module's generator `RNG` gives a test the same numbers whichever tests ran before it."""
    generator = getattr(request.module, "RNG", None)
    if isinstance(generator, np.random.Generator):
        start = _start.setdefault(request.module.__name__, generator.bit_generator.state)
        generator.bit_generator.state = start
