"""What a plugin leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ephost.checking import process_state as state
from ephost.checking.groups import leaving
from ephost.checking.verdicts import Failure


class Unregistered:
    """A subject that has been used and unregistered: its library is gone."""

    path = "/nowhere/plugin.so"

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def unregister(self) -> None: ...

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture
def thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that begins when the plugin is used, and goes on."""
    used: list[object] = []
    monkeypatch.setattr(leaving, "_use", used.append)
    monkeypatch.setattr(state, "native_threads", lambda: 3 + len(used))
    monkeypatch.setattr(state, "thread_names", lambda: ["driver"])


def test_threads_of_code_that_is_gone_are_a_fault(thread: None) -> None:
    subject: Any = Unregistered()
    with pytest.raises(Failure, match="its code is not in memory"):
        leaving._threads_end(subject)


def test_threads_may_be_of_a_library_that_stays(thread: None, monkeypatch: pytest.MonkeyPatch) -> None:
    subject: Any = Unregistered()
    there = iter([{"/lib/libc.so.6"}, {"/lib/libc.so.6", "/lib/libdriver.so.1"}])
    monkeypatch.setattr(state, "libraries", lambda: next(there))
    leaving._threads_end(subject)
    assert subject.warnings[0].startswith("1 threads go on after it was unregistered: driver")
    assert subject.warnings[0].endswith("of what stays in memory: libdriver.so.1")


def test_libraries_are_files_with_code() -> None:
    found = state.libraries()
    assert any("libc.so" in path for path in found)
    assert all(Path(path).is_absolute() for path in found)
