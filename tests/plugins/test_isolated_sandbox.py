"""What an isolated plugin can be kept from: the network, and files but for those that are named."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import ephost
import numpy as np
import pytest
from ephost import environment
from ephost.errors import Fail, InvalidArgument, NotImplemented
from ephost.isolation import process, sandbox
from plugin_models import model, node

NAME = "held"
ADD = model([node("Add", "x x2", "y")], {"x": [2], "x2": [2]}, ["y"])
X = np.float32([1, 2])
FEED = {"x": X, "x2": X}
DENIED, NOT_PERMITTED, OTHER_DEVICE = 13, 1, 18
# What the one and the other keep from a plugin that is free to do it without.
NETWORK = {"inet", "local", "datagram pair"}
FILES = {"written", "truncated", "made outside", "moved", "removed", "linked", "changed"}
PROCESSES = {"traced"}  # either keeps it from those
needs_landlock = pytest.mark.skipif(
    bool(sandbox.missing(network=True, writable=())), reason=sandbox.missing(network=True, writable=())
)
needs_seccomp = pytest.mark.skipif(
    bool(sandbox.missing(network=False, writable=None)), reason=sandbox.missing(network=False, writable=None)
)


@pytest.fixture(autouse=True)
def _unregistered() -> Iterator[None]:
    yield
    gc.collect()
    if NAME in environment.registrations():
        ephost.unregister_execution_provider_library(NAME)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "there").write_text("as it was")
    monkeypatch.setenv("EPHOST_REACH_IN", str(inside))
    monkeypatch.setenv("EPHOST_REACH_OUT", str(outside))
    monkeypatch.setenv("EPHOST_BAD", "compute_reaches")
    return inside, outside


def open_session(**entries: str) -> ephost.InferenceSession:
    options = ephost.SessionOptions()
    for key, value in entries.items():
        options.add_session_config_entry(f"ephost.isolation.{key}", value)
    options.add_provider_for_devices([d for d in ephost.get_ep_devices() if d.registration_name == NAME], {})
    return ephost.InferenceSession(ADD.SerializeToString(), options, enable_fallback=0)


def reached(session: ephost.InferenceSession) -> dict[str, int]:
    """What the plugin tried, with the number of the error; 0: it could."""
    with pytest.raises(ephost.errors.EPFail) as caught:
        session.run(None, FEED)
    text = str(caught.value).partition("failed in ")[2].partition(": ")[2]
    return {word.rpartition(" ")[0]: int(word.rpartition(" ")[2]) for word in text.split(", ")}


def denied(told: dict[str, int]) -> set[str]:
    return {what for what, error in told.items() if error in (DENIED, NOT_PERMITTED, OTHER_DEVICE)}


def test_without_being_held_a_plugin_may_do_what_its_user_may(bad: Path, folders: tuple[Path, Path]) -> None:
    ephost.register_execution_provider_library(NAME, bad, isolated=True)
    assert not denied(reached(open_session())) & (NETWORK | FILES - {"linked"})
    assert not (folders[1] / "there").exists()  # so the attempts are real ones


@needs_seccomp
def test_the_network_can_be_kept_from_a_plugin(bad: Path, folders: tuple[Path, Path]) -> None:
    ephost.register_execution_provider_library(NAME, bad, isolated={"network": False})
    told = reached(open_session())
    assert denied(told) >= NETWORK | PROCESSES
    assert told["stream pair"] == told["told"] == 0  # which reach nobody else
    assert not denied(told) & (FILES - {"linked"})


@needs_landlock
def test_files_can_be_kept_from_a_plugin(bad: Path, folders: tuple[Path, Path]) -> None:
    inside, outside = folders
    ephost.register_execution_provider_library(NAME, bad, isolated={"writable": [inside]})
    told = reached(open_session())
    assert denied(told) >= FILES | PROCESSES
    assert not denied(told) & NETWORK
    assert told["made"] == told["read outside"] == told["null device"] == 0
    assert (outside / "there").read_text() == "as it was"
    assert sorted(path.name for path in outside.iterdir()) == ["there"]
    assert [path.name for path in inside.iterdir()] == ["made"]


@needs_landlock
def test_nothing_at_all_may_be_writable(bad: Path, folders: tuple[Path, Path]) -> None:
    ephost.register_execution_provider_library(NAME, bad, isolated={"writable": [], "network": False})
    told = reached(open_session())
    assert denied(told) >= FILES | NETWORK | PROCESSES | {"made"}
    if sandbox._landlock_version() >= 6:
        assert told["signalled"] == NOT_PERMITTED


@needs_landlock
def test_a_session_can_be_held_to_more_than_others(bad: Path, folders: tuple[Path, Path]) -> None:
    inside, _ = folders
    ephost.register_execution_provider_library(NAME, bad, isolated=True)
    held = open_session(network="0", writable=str(inside))
    free = open_session()
    told = reached(held)
    assert denied(told) >= FILES | NETWORK
    assert told["made"] == 0
    assert not denied(reached(free)) & NETWORK
    held.close()
    assert not denied(reached(open_session())) & NETWORK  # a worker that is held is nobody else's later


@needs_landlock
def test_a_plugin_that_is_held_computes_as_ever(bad: Path) -> None:
    ephost.register_execution_provider_library(NAME, bad, isolated={"writable": [], "network": False})
    session = open_session()
    np.testing.assert_array_equal(session.run(None, FEED)[0], X + X)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"network": "no"}, "network is a bool"),
        ({"writable": "/tmp"}, "writable is a list of paths"),
        ({"writable": ["/does/not/exist"]}, "'/does/not/exist', which does not exist"),
    ],
)
def test_settings_that_cannot_be_are_refused(bad: Path, settings: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        ephost.register_execution_provider_library(NAME, bad, isolated=settings)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"network": "off"}, "is 0 or 1, not 'off'"),
        ({"writable": "/does/not/exist"}, "which does not exist"),
        ({"memory_limit_bytes": "1.5"}, "a whole number from 0 on"),
        ({"memory_limit_bytes": str(2**70)}, "a whole number below"),
        ({"run_timeout_seconds": "inf"}, "at most 1000000 seconds"),
    ],
)
def test_entries_that_cannot_be_are_refused(bad: Path, entries: dict[str, str], said: str) -> None:
    ephost.register_execution_provider_library(NAME, bad, isolated=True)
    with pytest.raises(InvalidArgument, match=said):
        open_session(**entries)


def test_a_kernel_that_cannot_hold_it_is_named(bad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_landlock_version", lambda: 2)
    with pytest.raises(NotImplemented, match=r"read-only files here: .*version 3 of Landlock.* version 2"):
        ephost.register_execution_provider_library(NAME, bad, isolated={"writable": []})
    monkeypatch.setattr(sandbox.platform, "machine", lambda: "riscv64")
    with pytest.raises(NotImplemented, match=r"no network here: .*not for riscv64"):
        ephost.register_execution_provider_library(NAME, bad, isolated={"network": False})


def test_a_process_that_cannot_be_held_runs_no_plugin(
    bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the host believed before it started the process."""
    gone = tmp_path / "gone"
    monkeypatch.setattr(process, "check_supported", lambda _: None)
    monkeypatch.setattr("ephost.isolation.proxy.check_supported", lambda _: None)
    with pytest.raises(Fail, match=f"cannot be set up: .*{gone.name}"):
        ephost.register_execution_provider_library(NAME, bad, isolated={"writable": [os.fspath(gone)]})


@pytest.mark.resources
def test_limits_above_those_that_a_process_was_started_with_are_kept_to_those(tmp_path: Path) -> None:
    """None can raise what it was given: the worker could not be started."""
    program = tmp_path / "limited.py"
    program.write_text(
        "import resource, ephost\n"
        "from ephost.plugins import sample_kernels\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (1 << 32, 1 << 32))\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (50, 60))\n"
        "limits = {'memory_limit_bytes': 1 << 33, 'processor_seconds': 100}\n"
        "path = sample_kernels.get_library_path()\n"
        "ephost.register_execution_provider_library('held', path, isolated=limits)\n"
    )
    subprocess.run([sys.executable, str(program)], check=True, timeout=60)
