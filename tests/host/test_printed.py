"""What other processes print, of which the end is kept."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

if sys.platform == "win32":
    pytest.skip("processes of checks and searches are no matter of Windows", allow_module_level=True)
from ephost.printed import Printed


def test_the_end_of_what_is_printed_is_kept() -> None:
    printed = Printed(10)
    subprocess.run(
        [sys.executable, "-c", "print('x' * 300_000 + '0123456789')"], stdout=printed.file, check=True
    )
    assert printed.end() == "123456789"


def test_the_file_is_none_whose_end_is_waited_for() -> None:
    """A process that is left over may have it open for ever, and print for ever."""
    printed = Printed(100)
    left = subprocess.Popen(
        [sys.executable, "-c", "while True: print('y' * 1000)"], stdout=printed.file, stderr=-3
    )
    printed.handed_out()
    try:
        while not printed._last:
            pass
        assert set(printed.end()) <= {"y", "\n"}
    finally:
        left.kill()
        left.wait()


def test_nothing_is_left_open() -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(3):
        assert Printed(10).end() == ""
    assert not before or len(os.listdir("/proc/self/fd")) == before
