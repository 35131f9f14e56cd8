"""What a Python is told that finds no extension module built for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import SimpleNamespace

import ephost
import numpy as np
import pytest
from ephost import missing_native

PACKAGE = Path(ephost.__file__).parent
FOREIGN = "_native.cpython-399-other-system.so"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package without anything that was compiled."""
    left_out = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__", "plugins", "include")
    return Path(shutil.copytree(PACKAGE, tmp_path / "ephost", ignore=left_out))


def said_on_import(package: Path) -> str:
    """The last line of what importing the copy prints."""
    paths = [str(package.parent), str(Path(np.__file__).parents[1])]
    program = f"import sys; sys.path[:0] = {paths}; import ephost"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_a_module_for_another_python_is_named_with_what_this_one_is(package: Path) -> None:
    (package / FOREIGN).touch()
    said = said_on_import(package)
    assert said.startswith("ImportError: ephost has no C half for this Python, cpython 3.")
    assert EXTENSION_SUFFIXES[0] in said
    assert said.endswith(f"there is only {FOREIGN} in {package}") or "free-threaded" in said


def test_a_folder_without_any_module_is_named(package: Path) -> None:
    assert f"there is none at all in {package}" in said_on_import(package)


def test_a_module_that_cannot_be_loaded_is_named_with_the_reason(package: Path) -> None:
    module = package / f"_native{EXTENSION_SUFFIXES[-1]}"
    module.write_bytes(b"no library")
    assert said_on_import(package).startswith(f"ImportError: ephost's C half, {module}, cannot be loaded: ")


def test_a_python_without_the_gil_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suffixes = [".cpython-314t-x86_64-linux-gnu.so", ".abi3.so", ".so"]
    monkeypatch.setattr(missing_native, "EXTENSION_SUFFIXES", suffixes)
    monkeypatch.setattr(missing_native, "is_free_threaded", lambda: True)
    (tmp_path / "_native.abi3.so").touch()
    error = missing_native.explain_missing(ImportError("no module"), tmp_path)
    assert "free-threaded): of what it loads" in str(error)
    assert "there is only _native.abi3.so in" in str(error)
    assert "use one of those, or build ephost for this one" in str(error)
    assert (error.name, error.path) == ("ephost._native", str(tmp_path))


def test_a_python_without_the_gil_does_not_load_the_stable_abi(monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(origin="/somewhere/_native.abi3.so")
    monkeypatch.setattr(missing_native, "find_spec", lambda name: found)
    with pytest.raises(ImportError, match=r"_native\.abi3\.so is for Pythons with the GIL"):
        missing_native.refuse_stable_abi()
    found.origin = "/somewhere/_native.cpython-314t-x86_64-linux-gnu.so"
    missing_native.refuse_stable_abi()


def test_a_module_of_the_stable_abi_is_refused_where_there_is_no_gil(package: Path) -> None:
    if not missing_native.is_free_threaded():
        pytest.skip("this Python has the GIL")
    (package / "_native.abi3.so").touch()
    assert f"there is only _native.abi3.so in {package}" in said_on_import(package)
