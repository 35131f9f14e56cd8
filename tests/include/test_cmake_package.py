"""The CMake package, used by a plugin author's project: from the source tree and as installed."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import abi_tables
import pytest

PROJECT = abi_tables.HERE / "project"
CMAKE = shutil.which("cmake") or shutil.which("cmake", path=str(Path(sys.executable).parent))
pytestmark = pytest.mark.skipif(CMAKE is None, reason="needs cmake (pip install cmake)")
WINDOWS = ("x86_64-w64-mingw32-gcc", "x86_64-w64-mingw32-g++", "x86_64-w64-mingw32-objdump")


@pytest.fixture(params=["source", "installed"])
def package(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The directory to give as ephost_DIR."""
    if request.param == "source":
        return abi_tables.ROOT / "cmake"
    shutil.copytree(abi_tables.INCLUDE, tmp_path / "ephost" / "include")
    installed = tmp_path / "ephost" / "cmake"
    shutil.copytree(abi_tables.ROOT / "cmake", installed)
    version = installed / "ephostConfigVersion.cmake"
    version.write_text(version.read_text().replace("@PROJECT_VERSION@", project_version()))
    return installed


def project_version() -> str:
    """ephost's version, without what CMake takes no version with."""
    stated = tomllib.loads((abi_tables.ROOT / "pyproject.toml").read_text())["project"]["version"]
    match = re.match(r"[0-9]+(\.[0-9]+)*", stated)
    assert match
    return match[0]


def configure(package: Path, build: Path, *definitions: str) -> subprocess.CompletedProcess[str]:
    command = [str(CMAKE), "-S", str(PROJECT), "-B", str(build), f"-Dephost_DIR={package}", *definitions]
    return subprocess.run(command, capture_output=True, text=True)


def build_plugin(package: Path, build: Path, *definitions: str) -> None:
    configured = configure(package, build, *definitions)
    assert configured.returncode == 0, configured.stderr
    built = subprocess.run([str(CMAKE), "--build", str(build)], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF symbols")
def test_a_plugin_exports_the_two_functions_and_nothing_else(package: Path, tmp_path: Path):
    build_plugin(package, tmp_path / "build")
    library = tmp_path / "build" / "libtiny.so"
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    )
    assert {line.split()[-1] for line in symbols.stdout.splitlines()} == {
        "CreateEpFactories",
        "ReleaseEpFactory",
    }


@pytest.mark.skipif(not all(map(shutil.which, WINDOWS)), reason="needs MinGW-w64's x86-64 compilers")
def test_a_plugin_for_windows_exports_the_two_functions_and_nothing_else(package: Path, tmp_path: Path):
    compilers = [f"-DCMAKE_C_COMPILER={WINDOWS[0]}", f"-DCMAKE_CXX_COMPILER={WINDOWS[1]}"]
    build_plugin(package, tmp_path / "build", "-DCMAKE_SYSTEM_NAME=Windows", *compilers)
    library = tmp_path / "build" / "tiny.dll"
    dump = subprocess.run([WINDOWS[2], "-p", str(library)], capture_output=True, text=True, check=True).stdout
    names = re.search(r"\[Ordinal/Name Pointer\] Table.*?\n(.*?)\n\s*\n", dump, re.S)
    assert names, dump
    assert re.findall(r"(\w+)$", names[1], re.M) == ["CreateEpFactories", "ReleaseEpFactory"]


@pytest.mark.parametrize("wanted", ["0", "{major}.{minor}", "{version}"])
def test_a_version_that_is_there_is_found(package: Path, wanted: str, tmp_path: Path):
    version = project_version()
    major, minor = version.split(".")[:2]
    wanted = wanted.format(version=version, major=major, minor=minor)
    done = configure(package, tmp_path / "build", f"-DWANTED_VERSION={wanted}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("step", [(1, 0), (0, 1)], ids=["major", "minor"])
def test_a_version_newer_than_the_installed_one_is_refused(
    package: Path, step: tuple[int, int], tmp_path: Path
):
    major, minor = (
        int(part) + more for part, more in zip(project_version().split(".")[:2], step, strict=True)
    )
    done = configure(package, tmp_path / "build", f"-DWANTED_VERSION={major}.{minor}")
    assert done.returncode != 0
    assert f"version: {project_version()}" in done.stderr


def test_a_package_without_its_headers_is_not_found(tmp_path: Path):
    shutil.copytree(abi_tables.ROOT / "cmake", tmp_path / "alone" / "cmake")
    done = configure(tmp_path / "alone" / "cmake", tmp_path / "build")
    assert done.returncode != 0
    assert "no ephost/ephost.h in" in done.stderr


def test_a_plugin_without_sources_is_an_error(tmp_path: Path):
    package = abi_tables.ROOT / "cmake"
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(none LANGUAGES C)\n"
        f"find_package(ephost CONFIG REQUIRED PATHS {package})\nephost_add_plugin(none)\n"
    )
    command = [str(CMAKE), "-S", str(tmp_path), "-B", str(tmp_path / "build")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "ephost_add_plugin(none): no sources given" in done.stderr
