"""The library as a file, before anything of it runs."""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path

from ephost.checking.elf import Elf, read_elf
from ephost.checking.registry import check
from ephost.checking.subject import Subject
from ephost.checking.verdicts import Failure, Skip
from ephost.errors import OnnxRuntimeException
from ephost.library_files import check_path

_POINTS = ("CreateEpFactories", "ReleaseEpFactory")
_OURS = ("ephost",)


def _elf(subject: Subject) -> Elf:
    found = read_elf(subject.path)
    if found is None:
        raise Skip("the library is no 64-bit ELF file")
    return found


@check("file.whole", 1, hosts=_OURS)
def _whole(subject: Subject) -> None:
    """The file is a shared library of this system and processor, and not cut short."""
    check_path(subject.path)


@check("file.opens", 1, hosts=_OURS)
def _opens(subject: Subject) -> None:
    """The system's loader opens it, with all symbols found at once."""
    try:
        ctypes.CDLL(subject.path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise Failure(f"the loader refuses it: {error}") from None


@check("file.entry-points", 1, hosts=_OURS)
def _entry_points(subject: Subject) -> None:
    """It exports CreateEpFactories and ReleaseEpFactory."""
    missing = [name for name in _POINTS if name not in _elf(subject).exported]
    if missing:
        raise Failure(f"it does not export {' and '.join(missing)}")


@check("file.exports-nothing-else", 7, hosts=_OURS)
def _exports_nothing_else(subject: Subject) -> None:
    """It exports no other names, which could meet those of other libraries of the process."""
    other = [name for name in _elf(subject).exported if name not in _POINTS]
    if other:
        subject.warn(f"it exports {len(other)} other symbols, such as {', '.join(sorted(other)[:3])}")


@check("file.no-host-linked", 5, hosts=_OURS)
def _no_host_linked(subject: Subject) -> None:
    """It is not linked to a host, whose functions it gets as tables."""
    linked = [name for name in _elf(subject).needed if "onnxruntime." in name or "ephost" in name]
    if linked:
        subject.warn(f"it needs {', '.join(linked)}: another version in the process is loaded beside it")


@check("file.search-path", 5, hosts=_OURS)
def _search_path(subject: Subject) -> None:
    """It looks for its libraries beside itself or where the system has them, not where it was built."""
    strange = [
        path
        for path in _elf(subject).search_paths
        if not path.startswith(("$ORIGIN", "${ORIGIN}", "/usr", "/lib", "/opt"))
    ]
    if strange:
        subject.warn(f"it searches {', '.join(strange)}: whoever can write there runs code in the process")


@check("file.no-executable-stack", 5, hosts=_OURS)
def _no_executable_stack(subject: Subject) -> None:
    """It does not ask for a stack that can be executed."""
    if _elf(subject).executable_stack:
        raise Failure("it asks for an executable stack: hardened systems refuse to load it")


@check("file.no-writable-code", 5, hosts=_OURS)
def _no_writable_code(subject: Subject) -> None:
    """It has no segment that can be both written and executed."""
    if _elf(subject).writable_code:
        raise Failure("one of its segments can be both written and executed")


@check("file.no-text-relocations", 5, hosts=_OURS)
def _no_text_relocations(subject: Subject) -> None:
    """Its code needs no change when it is loaded, so that processes share it."""
    if _elf(subject).text_relocations:
        raise Failure("it has text relocations: it was not compiled as position-independent code")


@check("file.no-static-tls", 6, hosts=_OURS)
def _no_static_tls(subject: Subject) -> None:
    """It takes nothing of the scarce static thread-local storage."""
    if _elf(subject).static_tls:
        subject.warn("it uses static thread-local storage: loaded late, there may be none left")


@check("file.opens-and-closes", 4, hosts=_OURS)
def _opens_and_closes(subject: Subject) -> None:
    """It can be opened and closed three times without being used."""
    import _ctypes

    for number in range(3):
        subject.stage(f"opening it for time {number + 1}")
        handle = ctypes.CDLL(subject.path)._handle
        subject.stage(f"closing it for time {number + 1}")
        _ctypes.dlclose(handle)


@check("file.through-a-link", 5)
def _through_a_link(subject: Subject) -> None:
    """It registers by a symbolic link in another folder, as package managers make them."""
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder, os.path.basename(subject.path))
        link.symlink_to(subject.path)
        try:
            subject.register(path=str(link))
        except OnnxRuntimeException as error:
            if "shared object" not in str(error):
                raise
            subject.warn(f"its libraries are looked for beside the link: {error}")
        else:
            subject.unregister()


@check("file.from-another-folder", 5)
def _from_another_folder(subject: Subject) -> None:
    """It registers whatever the working folder is."""
    os.chdir("/")
    subject.register()
    subject.unregister()
