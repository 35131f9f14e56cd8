"""Libraries as files, for Linux (ELF) and for Windows (PE): what one is before the system loads it, and why
the system refused it. Both are read on any system, and what means the same is said in the same words.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Sequence
from functools import cache

from ephost.errors import Fail, NoSuchLibrary

CREATE, RELEASE = "CreateEpFactories", "ReleaseEpFactory"  # what every plugin exports
_ELF_MACHINES = {3: "x86", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64", 21: "ppc64", 22: "s390x"}
_PE_MACHINES = {0x014C: "x86", 0x01C4: "arm", 0x8664: "x86_64", 0xAA64: "aarch64", 0x5064: "riscv64"}
_MACHO_MACHINES = {7: "x86", 0x01000007: "x86_64", 12: "arm", 0x0100000C: "aarch64"}
_ALIASES = {"amd64": "x86_64", "arm64": "aarch64", "i686": "x86", "i386": "x86"}
_FORMATS = {"win32": "PE", "darwin": "Mach-O"}  # by sys.platform; elsewhere ELF
_PT_LOAD = 1
_LAST_OFFSET = (1 << 63) - 1  # in a file
_BINARY = getattr(os, "O_BINARY", 0)  # Windows alone would look for ends of lines


def describe_binary(head: bytes) -> tuple[str, str] | None:
    """(format, machine) of a shared library by its first bytes, or None when it is no binary."""
    if head[:4] == b"\x7fELF" and len(head) >= 20:
        order = "<" if head[5] == 1 else ">"
        number = struct.unpack_from(order + "H", head, 18)[0]
        return "ELF", _ELF_MACHINES.get(number, f"machine {number}")
    if head[:2] == b"MZ":
        at = struct.unpack_from("<I", head, 0x3C)[0] if len(head) >= 0x40 else len(head)
        if len(head) >= at + 6 and head[at : at + 4] == b"PE\0\0":
            number = struct.unpack_from("<H", head, at + 4)[0]
            return "PE", _PE_MACHINES.get(number, f"machine {number}")
        return "PE", "unknown machine"
    if head[:4] in (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe"):
        number = struct.unpack_from("<I", head, 4)[0]
        return "Mach-O", _MACHO_MACHINES.get(number, f"machine {number}")
    if head[:4] in (b"\xca\xfe\xba\xbe", b"\xbe\xba\xfe\xca"):
        return "Mach-O", "several machines"
    return None


@cache
def _machine() -> str:
    """This processor's name, as those of libraries are called here."""
    import platform

    name = platform.machine().lower()
    return _ALIASES.get(name, name)


def check_path(path: str, system: str = sys.platform) -> None:
    """Say what is wrong with a path before the system's loader says it in its own words. What is sound is
    mostly found to be so by the C half, which is quicker.

    Args:
        path: of the library.
        system: whose loader is meant, as in :data:`sys.platform`.

    Raises:
        NoSuchLibrary: nothing is there.
        Fail: it is a folder or a pipe, no shared library, cut short, or for another system or processor.
    """
    wanted = _FORMATS.get(system, "ELF")
    try:
        # To open a pipe is to wait for its other end.
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            raise Fail(f"the library {path} is a pipe or device")
        file = os.open(path, os.O_RDONLY | _BINARY)  # less than half of what open() takes
        try:
            head = os.read(file, 4096)
            found = describe_binary(head)
            # The system's loader would end the process where something is missing.
            needed = _NEEDED[wanted](file, head) if found and found[0] == wanted and wanted in _NEEDED else 0
            size = os.lseek(file, 0, os.SEEK_END)
        finally:
            os.close(file)
    except (OSError, ValueError) as error:
        if not os.path.exists(path):
            raise NoSuchLibrary(f"the library {path} does not exist") from None
        if os.path.isdir(path):
            raise Fail(f"the library {path} is a folder") from None
        raise Fail(f"the library {path} cannot be read: {error}") from error
    if found is None:
        kind = "is empty" if not head else "is no shared library"
        raise Fail(f"the library {path} {kind}: its first bytes are {head[:8]!r}")
    kind, machine = found
    if size < needed:
        raise Fail(f"the library {path} is cut short: it has {size} of at least {needed} bytes")
    here = _machine()
    if kind != wanted or machine not in (here, "several machines"):
        more = ""
        if kind == "PE" and wanted != "PE":
            from ephost.windows_library import read_windows_library

            windows = read_windows_library(path)
            more = f" (a library of Windows: {windows.summary((CREATE, RELEASE))})" if windows else ""
        raise Fail(f"the library {path} is {kind} for {machine}; this process runs {wanted} for {here}{more}")


def _elf_bytes(file: int, head: bytes) -> int:
    """How long an ELF file must be for all that is mapped of it."""
    wide = head[4] == 2
    order = "<" if head[5] == 1 else ">"
    if len(head) < 64:
        return 64
    start_at, sizes_at, segment = (32, 54, order + "I4xQ16xQ") if wide else (28, 42, order + "II8xI")
    (start,) = struct.unpack_from(order + ("Q" if wide else "I"), head, start_at)
    size, number = map(int, struct.unpack_from(order + "HH", head, sizes_at))
    headers = _read_at(file, head, start, size * number)
    if size < struct.calcsize(segment) or len(headers) < size * number:
        return int(start) + size * number
    found = [struct.unpack_from(segment, headers, at) for at in range(0, len(headers), size)]
    return max((offset + length for kind, offset, length in found if kind == _PT_LOAD), default=0)


def _pe_bytes(file: int, head: bytes) -> int:
    """How long a PE file must be for all that is mapped of it."""
    if len(head) < 64:
        return 64
    (start,) = struct.unpack_from("<I", head, 0x3C)
    coff = _read_at(file, head, start, 24)  # with the four bytes of its signature
    if len(coff) < 24:
        return int(start) + 24
    if coff[:4] != b"PE\0\0":
        return 0  # an older kind of program, of which no more is known
    number, optional = struct.unpack_from("<H12xH", coff, 6)
    table = start + 24 + optional
    sections = _read_at(file, head, table, 40 * number)
    if len(sections) < 40 * number:
        return int(table) + 40 * int(number)
    found = [struct.unpack_from("<II", sections, at + 16) for at in range(0, len(sections), 40)]
    return max((offset + length for length, offset in found if length > 0), default=0)


_NEEDED = {"ELF": _elf_bytes, "PE": _pe_bytes}


def _read_at(file: int, head: bytes, start: int, size: int) -> bytes:
    """As much as there is of so many bytes of a file, whose first ones are `head`."""
    part = head[start : start + size]
    if len(part) < size and start <= _LAST_OFFSET:
        os.lseek(file, start, os.SEEK_SET)
        part = os.read(file, size)
    return part


def explain_open_error(path: str, error: str, windows: Sequence[str] | None = None) -> str:
    """The loader's complaint, with the missing library or function named first when that is what it is about.

    Args:
        path: of the library.
        error: what the loader says. Windows' does not say what is missing.
        windows: the folders where Windows finds libraries, on any system; by default those of this one, if it
            is Windows.
    """
    if windows is None and sys.platform == "win32":
        root = os.environ.get("SYSTEMROOT", r"C:\Windows")
        windows = [os.path.join(root, "System32"), os.path.dirname(sys.executable)]
    if windows is not None:
        from ephost.windows_library import missing_functions, missing_libraries

        missing = [", which needs ".join(way) for way in missing_libraries(path, windows)]
        functions = [] if missing else missing_functions(path)
    else:
        # One library after another is looked for until one is missing.
        found = re.match(r"(.+?): cannot open shared object file", error)
        missing = [found[1]] if found and os.path.basename(found[1]) != os.path.basename(path) else []
        functions = re.findall(r"undefined symbol: (\w+)", error)
    are = "is" if len(missing or functions) == 1 else "are"
    if missing:
        needs = ", and ".join(missing)
        return f"the library {path} needs {needs}, which {are} not on this machine ({error})"
    if functions:
        needs = ", and ".join(functions)
        return f"the library {path} needs {needs}, which {are} in no library that it asks for ({error})"
    return f"the library {path} cannot be loaded: {error}"
