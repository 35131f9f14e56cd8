"""Fixtures for the tests of the Python half."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "plugins"))

import ephost  # noqa: E402
from host_state import live_handles  # noqa: E402


@pytest.fixture
def nothing_leaks() -> Iterator[None]:
    """Hold the counts of live handles and the registered libraries against those from before the test."""
    ephost.get_hardware_devices()  # made once for the process
    before = live_handles()
    libraries = {d.registration_name for d in ephost.get_ep_devices()}
    yield
    assert {d.registration_name for d in ephost.get_ep_devices()} == libraries
    assert live_handles() == before


@pytest.fixture
def sample_kernels() -> Iterator[list[ephost.OrtEpDevice]]:
    """The devices of the registered sample of that name."""
    from ephost.plugins import sample_kernels

    ephost.register_execution_provider_library("kernels", sample_kernels.get_library_path())
    yield [d for d in ephost.get_ep_devices() if d.registration_name == "kernels"]
    ephost.unregister_execution_provider_library("kernels")


@pytest.fixture
def sample_compiler() -> Iterator[list[ephost.OrtEpDevice]]:
    """The devices of the registered sample of that name."""
    from ephost.plugins import sample_compiler

    ephost.register_execution_provider_library("compiler", sample_compiler.get_library_path())
    yield [d for d in ephost.get_ep_devices() if d.registration_name == "compiler"]
    ephost.unregister_execution_provider_library("compiler")


@pytest.fixture(scope="session")
def bad_plugin(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Builds tests/plugins/bad_plugin with extra compiler flags, once for each set of them."""
    from plugin_harness import build_plugin

    built: dict[Sequence[str], Path] = {}

    def build(*flags: str) -> Path:
        if flags not in built:
            target = tmp_path_factory.mktemp("bad_plugin")
            built[flags] = build_plugin(ROOT / "tests" / "plugins" / "bad_plugin", target, *flags)
        return built[flags]

    return build


@pytest.fixture(scope="session")
def compiled() -> Callable[..., Path]:
    """Compiles a shared library from C text: ``compiled(text, library, flag...)``."""

    def compile_text(text: str, library: Path, *flags: str) -> Path:
        source = library.with_suffix(".c")
        source.write_text(text)
        command = ["cc", "-shared", "-fPIC", "-Wl,--no-as-needed", str(source), "-o", str(library), *flags]
        subprocess.run(command, check=True)
        return library

    return compile_text


@pytest.fixture
def sample_ep() -> Iterator[str]:
    """The name of an EP that is there for the test: the sample plugin of kernels."""
    from ephost.plugins import sample_kernels

    ephost.register_execution_provider_library("api-sample", sample_kernels.get_library_path())
    yield sample_kernels.get_ep_name()
    ephost.unregister_execution_provider_library("api-sample")


def run_python(*arguments: str, timeout: float = 250, **env: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter that finds this ephost and the helpers of these tests."""
    package = str(Path(ephost.__file__).parents[1])
    here = str(Path(__file__).parent)
    path = os.pathsep.join([package, here, os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "PYTHONPATH": path, **env},
    )


@pytest.fixture(scope="session")
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a fresh interpreter: ``python("-c", program, argument, VARIABLE="value")``."""
    return run_python
