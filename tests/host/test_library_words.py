"""What is wrong with a library is said in the same words of Linux' files and of Windows', by whatever reads
them and by the loader of this system: but for the file's name, its format, and what the system itself says.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import ephost
import pytest
from ephost import errors
from ephost.library_files import check_path, describe_binary, explain_open_error
from ephost.plugins import sample_compiler
from library_bytes import elf_library, pe_library, with_machine

HERE = describe_binary(Path(sample_compiler.get_library_path()).read_bytes()[:4096])
SYSTEMS = {"ELF": "linux", "PE": "win32"}
LIBRARY = {"ELF": "libneeded.so.1", "PE": "needed.dll"}
# Each fault, and what is said. ELF stands for either format, SYSTEM for the system's own words.
SAID = {
    "nothing": "the library FILE does not exist",
    "folder": "the library FILE is a folder",
    "empty": "the library FILE is empty: its first bytes are b''",
    "text": "the library FILE is no shared library: its first bytes are b'#!/bin/s'",
    "head": "the library FILE is cut short: it has 20 of at least 64 bytes",
    "half": "the library FILE is cut short: it has NUMBER of at least NUMBER bytes",
    "other processor": "the library FILE is ELF for OTHER; this process runs ELF for MACHINE",
    "unknown processor": "the library FILE is ELF for machine 9999; this process runs ELF for MACHINE",
    "missing library": "the library FILE needs LIBRARY, which is not on this machine (SYSTEM)",
    "missing function": ("the library FILE needs function, which is in no library that it asks for (SYSTEM)"),
    "refused": "the library FILE cannot be loaded: SYSTEM",
}
if HERE is None or sys.platform not in SYSTEMS.values():
    pytest.skip("libraries of another kind than Linux' and Windows'", allow_module_level=True)
FORMAT, MACHINE = HERE
OTHER = "aarch64" if MACHINE == "x86_64" else "x86_64"


def content_of(fault: str, whole: bytes) -> bytes:
    """What a file has that has a fault of those that are seen before it is loaded."""
    return {
        "empty": b"",
        "text": b"#!/bin/sh\necho no plugin\n",
        "head": whole[:20],
        "half": whole[: len(whole) // 2],
        "other processor": with_machine(whole, OTHER),
        "unknown processor": with_machine(whole, "machine 9999"),
    }[fault]


def make(fault: str, file: Path, whole: bytes) -> None:
    """Puts there what has the fault."""
    if fault == "folder":
        file.mkdir()
    elif fault != "nothing":
        file.write_bytes(content_of(fault, whole))


def generalized(said: str, file: Path, kind: str) -> str:
    """The message without what differs by nature between systems."""
    said = said.replace(str(file), "FILE").replace(LIBRARY[kind], "LIBRARY")
    said = said.replace("function of LIBRARY", "function")  # which ELF's symbols do not say
    if kind == "PE":
        said = re.sub(r"\bPE\b", "ELF", said)
    said = said.replace(f"runs ELF for {MACHINE}", "runs ELF for MACHINE").replace(
        f"ELF for {OTHER};", "ELF for OTHER;"
    )
    if "at least 64 bytes" not in said:
        said = re.sub(r"it has \d+ of at least \d+ bytes", "it has NUMBER of at least NUMBER bytes", said)
    said = re.sub(r" \(.+\)$", " (SYSTEM)", said)
    return re.sub(r"cannot be loaded: .+", "cannot be loaded: SYSTEM", said)


BEFORE = [fault for fault in SAID if fault not in ("missing library", "missing function", "refused")]


@pytest.mark.parametrize("kind", SYSTEMS)
@pytest.mark.parametrize("fault", BEFORE)
def test_what_is_seen_before_loading(tmp_path: Path, fault: str, kind: str) -> None:
    whole = {"ELF": elf_library, "PE": pe_library}[kind](MACHINE)
    check_path(str(_written(tmp_path / "whole", whole)), SYSTEMS[kind])
    file = tmp_path / "made"
    make(fault, file, whole)
    with pytest.raises(errors.OnnxRuntimeException) as caught:
        check_path(str(file), SYSTEMS[kind])
    assert generalized(str(caught.value), file, kind) == SAID[fault]
    if fault == "nothing":
        assert isinstance(caught.value, errors.NoSuchFile)


@pytest.mark.parametrize("fault", BEFORE)
def test_registering_says_it(tmp_path: Path, fault: str) -> None:
    file = tmp_path / "plugin.so"
    make(fault, file, Path(sample_compiler.get_library_path()).read_bytes())
    assert generalized(refusal(file), file, FORMAT) == SAID[fault]


def _written(file: Path, content: bytes) -> Path:
    file.write_bytes(content)
    return file


def refusal(file: Path) -> str:
    """What registering a library that cannot be registered says."""
    with pytest.raises(errors.OnnxRuntimeException) as caught:
        ephost.register_execution_provider_library("words", file)
    return str(caught.value)


def explained_elf(fault: str, file: Path) -> str:
    """Of what glibc's loader says."""
    words = {
        "missing library": f"{LIBRARY['ELF']}: cannot open shared object file: No such file or directory",
        "missing function": f"{file}: undefined symbol: function",
        "refused": f"{file}: failed to map segment from shared object",
    }[fault]
    return explain_open_error(str(file), words)


def explained_pe(fault: str, file: Path) -> str:
    """Of what the file asks for: Windows' loader says nothing about that."""
    file.write_bytes(pe_library(MACHINE, {LIBRARY["PE"]: ["there", "function"]}))
    if fault != "missing library":
        exports = ["there"] if fault == "missing function" else ["there", "function"]
        (file.parent / LIBRARY["PE"]).write_bytes(pe_library(MACHINE, exports=exports))
    words = {
        "missing library": "The specified module could not be found",
        "missing function": "The specified procedure could not be found",
        "refused": "A dynamic link library (DLL) initialization routine failed",
    }[fault]
    return explain_open_error(str(file), words, windows=[])


@pytest.mark.parametrize("fault", ["missing library", "missing function", "refused"])
def test_what_loaders_refuse_is_explained(
    tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "made"
    assert generalized(explained_pe(fault, file), file, "PE") == SAID[fault]
    monkeypatch.setattr(sys, "platform", "linux")
    assert generalized(explained_elf(fault, file), file, "ELF") == SAID[fault]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler called cc")
@pytest.mark.parametrize("fault", ["missing library", "missing function"])
def test_what_this_loader_refuses_is_explained(
    tmp_path: Path, fault: str, compiled: Callable[..., Path]
) -> None:
    needed = tmp_path / LIBRARY[FORMAT]
    soname = [f"-Wl,-soname,{needed.name}", "-Wl,-rpath,$ORIGIN"] if FORMAT == "ELF" else []
    compiled("int function(void) { return 1; }", needed, *soname)
    user = "int function(void); int user(void) { return function(); }"
    plugin = compiled(user, tmp_path / "plugin.so", str(needed), *soname[1:])
    needed.unlink()
    if fault == "missing function":
        compiled("int other(void) { return 1; }", needed, *soname)
    said = refusal(plugin)
    if fault == "missing function" and "has no symbol CreateEpFactories" in said and _is_wine():
        pytest.skip("wine puts a function of its own where one is missing, and loads the library")
    assert generalized(said, plugin, FORMAT) == SAID[fault]


def _is_wine() -> bool:
    """Whether this is wine, and no Windows."""
    if sys.platform != "win32":
        return False
    import ctypes

    return hasattr(ctypes.windll.ntdll, "wine_get_version")
