"""What is said of a library of Windows, on any system: compiled here by MinGW's compiler for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import ephost
import pytest
from ephost import errors
from ephost.library_files import explain_open_error
from ephost.windows_library import missing_libraries, read_windows_library

COMPILER = "x86_64-w64-mingw32-gcc"
pytestmark = pytest.mark.skipif(
    shutil.which(COMPILER) is None, reason=f"needs {COMPILER} (on Debian: apt install gcc-mingw-w64-x86-64)"
)
PLUGIN = """
extern int middle(void);
__declspec(dllexport) int CreateEpFactories(void) { return middle(); }
__declspec(dllexport) int ReleaseEpFactory(void) { return 0; }
"""
MIDDLE = "extern int last(void); __declspec(dllexport) int middle(void) { return last(); }"
LAST = "__declspec(dllexport) int last(void) { return 1; }"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with plugin.dll, which needs middle.dll, which needs last.dll."""
    folder = tmp_path_factory.mktemp("windows")
    for name, source, *needed in (("last", LAST), ("middle", MIDDLE, "last"), ("plugin", PLUGIN, "middle")):
        (folder / f"{name}.c").write_text(source)
        libraries = [f"{other}.dll" for other in needed]
        command = [COMPILER, "-shared", f"{name}.c", *libraries, "-o", f"{name}.dll"]
        subprocess.run(command, check=True, cwd=folder)
    return folder


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """Those three, and a folder with what Windows has of what MinGW's libraries take of it."""
    system = tmp_path / "System32"
    system.mkdir()
    for name in ("KERNEL32.DLL", "MSVCRT.DLL"):  # files are found whatever the case of their letters
        (system / name).touch()
    for name in ("plugin.dll", "middle.dll", "last.dll"):
        shutil.copy(built / name, tmp_path)
    return tmp_path


def test_its_tables_are_read(folder: Path) -> None:
    library = read_windows_library(folder / "plugin.dll")
    assert library is not None
    assert set(library.exports) == {"CreateEpFactories", "ReleaseEpFactory"}
    assert library.imports["middle.dll"] == 1 and library.imports["KERNEL32.dll"] > 1
    assert not library.delayed
    said = library.summary(["CreateEpFactories", "Other"])
    assert said.startswith("it exports CreateEpFactories, and imports KERNEL32.dll, ")
    assert "it exports no Other, and" in library.summary(["Other"])


def test_registering_one_says_what_it_is(folder: Path) -> None:
    with pytest.raises(errors.Fail, match=r"plugin\.dll is PE for x86_64; this process runs ELF") as caught:
        ephost.register_execution_provider_library("windows", str(folder / "plugin.dll"))
    said = str(caught.value)
    assert "a library of Windows: it exports CreateEpFactories and ReleaseEpFactory, and imports" in said
    assert "middle.dll" in said


def test_what_is_whole_lacks_nothing(folder: Path) -> None:
    assert missing_libraries(folder / "plugin.dll", [folder / "System32"]) == []


def test_a_missing_library_is_named_with_the_one_that_needs_it(folder: Path) -> None:
    (folder / "last.dll").unlink()
    (folder / "System32" / "MSVCRT.DLL").unlink()
    missing = missing_libraries(folder / "plugin.dll", [folder / "System32", folder / "nowhere"])
    assert sorted(missing) == [["middle.dll", "last.dll"], ["msvcrt.dll"]]


def test_the_error_of_windows_loader_is_explained(folder: Path) -> None:
    (folder / "last.dll").unlink()
    path, system = str(folder / "plugin.dll"), [str(folder / "System32")]
    said = explain_open_error(path, "The specified module could not be found.", windows=system)
    assert said == (
        f"the library {path} needs middle.dll, which needs last.dll, which is not on this machine "
        "(The specified module could not be found.)"
    )
    (folder / "middle.dll").write_bytes((folder / "plugin.dll").read_bytes())  # another library of that name
    said = explain_open_error(path, "The specified procedure could not be found.", windows=system)
    assert said == (
        f"the library {path} needs middle of middle.dll, which is in no library that it asks for "
        "(The specified procedure could not be found.)"
    )


def test_what_the_tables_do_not_tell_is_said_as_windows_says_it(folder: Path) -> None:
    path, system = str(folder / "plugin.dll"), [str(folder / "System32")]
    said = explain_open_error(path, "Access is denied.", windows=system)
    assert said == f"the library {path} cannot be loaded: Access is denied."


@pytest.mark.parametrize("size", [0, 2, 64, 200, 1000, 3000])
def test_a_damaged_one_is_not_read_and_nothing_is_raised(folder: Path, size: int) -> None:
    content = (folder / "plugin.dll").read_bytes()
    file = folder / "damaged.dll"
    file.write_bytes(content[:size])
    read_windows_library(file)
    assert missing_libraries(file, [folder / "System32"]) in ([], [["middle.dll"]])
    file.write_bytes(content[:size] + bytes(b ^ 0xFF for b in content[size:]))
    read_windows_library(file)
