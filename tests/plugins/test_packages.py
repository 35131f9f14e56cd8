"""ephost.plugins.*: where an application finds the bundled libraries."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from plugin_harness import ROOT

NAMES = ["cuda", "sample_compiler", "sample_kernels"]
# What a plugin's library is called where that is not the package's name: a libcuda is the driver.
LIBRARIES = {"cuda": "ephost_cuda"}


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A copy of ephost.plugins without libraries."""
    source = ROOT / "host" / "ephost" / "plugins"
    for path in source.rglob("__init__.py"):
        copy = tmp_path / "ephost" / "plugins" / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text())
    (tmp_path / "ephost" / "__init__.py").touch()
    return tmp_path


@pytest.fixture
def call(packages: Path) -> Callable[[str, str], subprocess.CompletedProcess[str]]:
    """Calls a function of a package in an interpreter that sees nothing but the copy."""

    def run(name: str, function: str) -> subprocess.CompletedProcess[str]:
        program = f"import sys; sys.path.insert(0, {str(packages)!r})\n"
        program += f"import ephost.plugins.{name} as package; print(package.{function}())"
        return subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True)

    return run


@pytest.mark.parametrize("name", NAMES)
def test_a_library_that_was_not_built_is_an_error_that_says_how_to_build_it(call, name: str) -> None:
    done = call(name, "get_library_path")
    assert done.returncode != 0
    assert "FileNotFoundError" in done.stderr and "was not built" in done.stderr
    assert "cmake -S" in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_the_library_is_found_beside_its_package(call, packages: Path, name: str) -> None:
    suffix = {"win32": "dll", "darwin": "dylib"}.get(sys.platform, "so")
    stem = LIBRARIES.get(name, name)
    file = f"{stem}.{suffix}" if sys.platform == "win32" else f"lib{stem}.{suffix}"
    library = packages / "ephost" / "plugins" / name / file
    library.touch()
    assert call(name, "get_library_path").stdout.strip() == str(library.resolve())


@pytest.mark.parametrize("name", NAMES)
def test_the_ep_is_called_like_its_package(call, name: str) -> None:
    assert call(name, "get_ep_name").stdout.strip() == name
    assert call(name, "get_ep_names").stdout.strip() == str([name])
