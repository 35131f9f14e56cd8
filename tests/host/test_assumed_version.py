"""Plugins of an API version that the host does not know: denied, unless the user says to go on anyway."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import ephost
import pytest
from ephost._bindings import lib

KNOWN = int(lib.ephost_api_version())
PROGRAM = """
import sys, ephost
from host_state import adds_model
ephost.register_execution_provider_library("newer", sys.argv[1])
print("registered")
ephost.InferenceSession(adds_model().SerializeToString(), providers=["bad_plugin"], enable_fallback=0)
"""
Python = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(python: Python, bad_plugin: Callable[..., Path]) -> Python:
    """Opens a session on a plugin of the first version that is not known, which calls a function of that."""

    def start(**env: str) -> subprocess.CompletedProcess[str]:
        return python("-c", PROGRAM, str(bad_plugin()), EPHOST_BAD="asks_api_33", **env)

    return start


def test_a_newer_plugin_is_denied_and_the_error_names_the_setting(run: Python) -> None:
    done = run()
    assert done.stdout == ""
    assert f"it asked for API version {KNOWN + 1}; ephost serves versions 1 to {KNOWN}" in done.stderr
    assert f"EPHOST_ASSUME_API_VERSION={KNOWN + 1}" in done.stderr


def test_with_the_setting_it_loads_with_a_warning_and_what_it_calls_beyond_is_an_error(run: Python) -> None:
    done = run(EPHOST_ASSUME_API_VERSION=str(KNOWN + 1))
    assert done.stdout == "registered\n"
    assert f"the functions of API version {KNOWN} for version {KNOWN + 1}" in done.stderr
    slots = ephost.abi_coverage().counts()["OrtApi"]
    complaint = f"slot {sum(slots.values())} of OrtApi is beyond API version {KNOWN}"
    assert f"a plugin called {complaint}" in done.stderr  # in the log, as it may give no status
    assert "ephost.errors.NotImplemented: the execution provider bad_plugin (newer: " in done.stderr
    assert f"cannot be created: {complaint}" in done.stderr


@pytest.mark.parametrize("version", ["thirty", "-1", "1.5", "0", str(KNOWN + 9), "99999999999999"])
def test_a_setting_that_is_no_version_is_an_error(run: Python, version: str) -> None:
    done = run(EPHOST_ASSUME_API_VERSION=version)
    assert done.stdout == ""
    assert f"EPHOST_ASSUME_API_VERSION is an API version up to {KNOWN + 8}, not '{version}'" in done.stderr


def test_an_older_version_changes_nothing(run: Python) -> None:
    done = run(EPHOST_ASSUME_API_VERSION="24")
    assert f"ephost serves versions 1 to {KNOWN}" in done.stderr


@pytest.mark.in_process("this process serves no plugin")
def test_the_version_that_plugins_read_follows_the_setting(
    python: Python, bad_plugin: Callable[..., Path]
) -> None:
    program = """
import sys, ephost
from ephost._bindings import ffi, lib
ephost.register_execution_provider_library("any", sys.argv[1])
print(ffi.string(lib.ephost_get_api_base().GetVersionString()).decode())
"""
    for assumed, told in (("", f"1.{KNOWN}.0"), (str(KNOWN + 2), f"1.{KNOWN + 2}.0")):
        done = python("-c", program, str(bad_plugin()), EPHOST_ASSUME_API_VERSION=assumed)
        assert done.stdout.strip() == told, done.stderr


def test_every_table_has_stubs_behind_it() -> None:
    program = """
from ephost._bindings import ffi, lib
api = lib.ephost_get_api_base().GetApi(lib.ephost_api_version())
others = (api.GetEpApi(), api.GetModelEditorApi(), api.GetCompileApi(), api.GetInteropApi())
for table in (api, *others):
    behind = ffi.cast("OrtStatus*(**)(void)", ffi.cast("char*", table) + ffi.sizeof(table[0]))
    for at in (0, 127):
        status = behind[at]()
        print(ffi.string(api.GetErrorMessage(status)).decode())
        api.ReleaseStatus(status)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 10
    counts = {name: sum(row.values()) for name, row in ephost.abi_coverage().counts().items()}
    names = ["OrtApi", "OrtEpApi", "OrtModelEditorApi", "OrtCompileApi", "OrtInteropApi"]
    expected = [f"slot {counts[name] + at} of {name} is beyond" for name in names for at in (0, 127)]
    assert [line[: len(start)] for line, start in zip(lines, expected, strict=True)] == expected
