"""What a library of Windows says of itself: what it exports, and which libraries it asks for.

Read on any system, by the package pefile.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

from ephost.records import Record

# Names that Windows itself maps to one of its libraries: no files.
_API_SETS = ("api-ms-win-", "ext-ms-win-")
_EXPORTS, _IMPORTS, _DELAYED = 0, 1, 13  # places in a file's list of directories
_SHOWN = 12  # of the libraries that a message lists


class WindowsLibrary(Record, frozen=True):
    """A DLL's tables.

    Attributes:
        exports: the names of what it offers.
        imports: by library, as the file spells it, how many functions it takes of it when it is loaded.
        delayed: the same of those that are loaded when a function of theirs is first called.
    """

    exports: tuple[str, ...]
    imports: dict[str, int]
    delayed: dict[str, int]

    def summary(self, wanted: Iterable[str]) -> str:
        """A sentence for a message: which of some functions it exports, and what it imports."""
        there = [name for name in wanted if name in self.exports]
        exported = " and ".join(there) if there else f"no {' or '.join(wanted)}"
        # Each once, however its letters are written, and without the names that no file has.
        all_taken = {name.lower(): name for name in reversed([*self.imports, *self.delayed])}
        taken = sorted(name for key, name in all_taken.items() if not key.startswith(_API_SETS))
        more = f" and {len(taken) - _SHOWN} more" if len(taken) > _SHOWN else ""
        return f"it exports {exported}, and imports {', '.join(taken[:_SHOWN]) or 'nothing'}{more}"


def read_windows_library(path: str | os.PathLike[str]) -> WindowsLibrary | None:
    """Read a DLL's tables; None for a file that has none, or damaged ones."""
    import pefile

    try:
        with pefile.PE(os.fspath(path), fast_load=True) as file:
            file.parse_data_directories(directories=[_EXPORTS, _IMPORTS, _DELAYED])
            exported = file.DIRECTORY_ENTRY_EXPORT.symbols if hasattr(file, "DIRECTORY_ENTRY_EXPORT") else []
            return WindowsLibrary(
                tuple(symbol.name.decode("ascii", "replace") for symbol in exported if symbol.name),
                _counted(getattr(file, "DIRECTORY_ENTRY_IMPORT", [])),
                _counted(getattr(file, "DIRECTORY_ENTRY_DELAY_IMPORT", [])),
            )
    except (pefile.PEFormatError, OSError, ValueError):
        return None


def _counted(entries: Iterable[Any]) -> dict[str, int]:
    return {entry.dll.decode("ascii", "replace"): len(entry.imports) for entry in entries if entry.dll}


def missing_libraries(
    path: str | os.PathLike[str], folders: Iterable[str | os.PathLike[str]]
) -> list[list[str]]:
    """Which of the libraries that a DLL needs, or that those need in turn, are nowhere.

    Args:
        path: the DLL; what lies beside it is found first.
        folders: where else to look, in this order; Windows' own folder among them.

    Returns:
        For each that is missing, the names on the way to it: the library that the DLL asks for first, the
        missing one last. What is loaded late is not looked for, nor what a library elsewhere than beside the
        DLL needs: that is installed, and whole.
    """
    # Windows does not tell capital letters from small ones.
    beside, *elsewhere = (
        {file.name.lower(): file for file in place.iterdir()} if place.is_dir() else {}
        for place in (Path(path).absolute().parent, *map(Path, folders))
    )
    missing: list[list[str]] = []
    seen: set[str] = set()
    waiting: list[tuple[Path, list[str]]] = [(Path(path), [])]
    while waiting:
        file, way = waiting.pop(0)
        library = read_windows_library(file)
        for name in library.imports if library is not None else ():
            key = name.lower()
            if key in seen or key.startswith(_API_SETS):
                continue
            seen.add(key)
            if key in beside:
                waiting.append((beside[key], [*way, name]))
            elif not any(key in files for files in elsewhere):
                missing.append([*way, name])
    return missing


def missing_functions(path: str | os.PathLike[str]) -> list[str]:
    """The functions that a DLL takes of libraries beside it, and that those do not export.

    Returns:
        For each "FUNCTION of LIBRARY". Those of libraries elsewhere are Windows' own.
    """
    import pefile

    beside = {file.name.lower(): file for file in Path(path).absolute().parent.iterdir()}
    try:
        with pefile.PE(os.fspath(path), fast_load=True) as file:
            file.parse_data_directories(directories=[_IMPORTS])
            taken = [
                (entry.dll.decode("ascii", "replace"), symbol.name.decode("ascii", "replace"))
                for entry in getattr(file, "DIRECTORY_ENTRY_IMPORT", [])
                for symbol in entry.imports
                if symbol.name  # some have a number alone
            ]
    except (pefile.PEFormatError, OSError, ValueError):
        return []
    exported: dict[str, Container[str]] = {}
    for library in {library.lower() for library, _ in taken} & set(beside):
        read = read_windows_library(beside[library])
        if read is not None:
            exported[library] = frozenset(read.exports)
    return [
        f"{function} of {library}"
        for library, function in taken
        if library.lower() in exported and function not in exported[library.lower()]
    ]
