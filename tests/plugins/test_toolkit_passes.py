"""Passes of plugins/toolkit: what they leave is checked in debug and sanitizer builds; what changes cost."""

from __future__ import annotations

import ctypes
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from plugin_harness import ROOT

Run = Callable[[str], str]


def load(target: Path, *flags: str) -> ctypes.CDLL:
    toolkit = ROOT / "plugins" / "toolkit"
    sources = [
        ROOT / "tests/plugins/toolkit_units/units.cc",
        *(toolkit / name for name in ("graph.cc", "types.cc", "passes/pass.cc")),
    ]
    words = ["c++", "-std=c++20", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", *flags]
    words += [f"-I{ROOT}/plugins", f"-I{ROOT}/include", *map(str, sources), "-o", str(target)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(target))
    library.run.restype = ctypes.c_char_p
    library.remove_readers.argtypes = [ctypes.c_size_t]
    library.remove_readers.restype = ctypes.c_size_t
    return library


def build(target: Path, *flags: str) -> Run:
    library = load(target, *flags)
    return lambda which: library.run(which.encode()).decode()


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return build(tmp_path_factory.mktemp("checked") / "libunits.so", "-DEPHOST_CHECK_GRAPHS")


@pytest.mark.parametrize(
    ("which", "wrong"),
    [
        ("forget_a_use", "'y' has 1 uses and knows 0"),
        ("forget_a_producer", "'z' does not know its producer Exp 'second'"),
        ("lose_the_output", "nobody produces the output 'z'"),
    ],
)
def test_a_pass_that_breaks_the_graph_is_named(checked: Run, which: str, wrong: str) -> None:
    said = checked(which)
    assert f"the pass {which} left a broken graph" in said and wrong in said


@pytest.mark.parametrize("which", ["leave_it", "replace_the_first"])
def test_a_pass_that_keeps_the_rules_passes(checked: Run, which: str) -> None:
    assert checked(which) == ""


def test_release_builds_do_not_look(tmp_path: Path) -> None:
    assert build(tmp_path / "libunits.so")("forget_a_use") == ""


def test_removing_readers_takes_time_in_proportion_to_their_number(tmp_path: Path) -> None:
    library = load(tmp_path / "libunits.so", "-O2")

    def processor_time(count: int) -> float:
        start = time.process_time()
        assert library.remove_readers(count) == count // 2
        return time.process_time() - start

    few, many = (min(processor_time(count) for _ in range(3)) for count in (4_000, 64_000))
    assert many < 64 * max(few, 1e-3)  # 16 times the readers: the square is 256 times as much
