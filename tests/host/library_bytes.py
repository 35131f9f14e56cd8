"""Files of libraries for tests: made from nothing, as far as they are read and not loaded; and real ones that
say that they are for another processor.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

MACHINES = {  # number in ELF and in PE
    "x86_64": (62, 0x8664),
    "aarch64": (183, 0xAA64),
    "riscv64": (243, 0x5064),
    "machine 9999": (9999, 9999),
}
_SECTION, _RAW = 0x1000, 0x200  # where a PE file's only section is in memory, and in the file


def with_machine(content: bytes, machine: str) -> bytes:
    """A library that says that it is for another processor."""
    elf, pe = MACHINES[machine]
    changed = bytearray(content)
    if content[:2] == b"MZ":
        struct.pack_into("<H", changed, struct.unpack_from("<I", content, 0x3C)[0] + 4, pe)
    else:
        struct.pack_into("<H", changed, 18, elf)
    return bytes(changed)


def elf_library(machine: str) -> bytes:
    """An ELF file of one segment, with nothing in it."""
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    size = 64 + 56 + 200
    header = struct.pack("<HHIQQQIHHHHHH", 3, MACHINES[machine][0], 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, size, size, 4096)
    return ident + header + segment + bytes(200)


def pe_library(
    machine: str, imports: Mapping[str, Sequence[str]] | None = None, exports: Sequence[str] = ()
) -> bytes:
    """A PE file of one section, with tables of imports (function names by library) and exports."""
    section = bytearray()

    def place(content: bytes) -> int:
        """Adds to the section; returns where that is in memory."""
        section.extend(bytes(-len(section) % 8))
        section.extend(content)
        return _SECTION + len(section) - len(content)

    libraries = []
    for library, functions in (imports or {}).items():
        names = [place(b"\0\0" + name.encode() + b"\0") for name in functions]
        lookup = place(struct.pack(f"<{len(names) + 1}Q", *names, 0))
        addresses = place(struct.pack(f"<{len(names) + 1}Q", *names, 0))
        libraries.append(struct.pack("<5I", lookup, 0, 0, place(library.encode() + b"\0"), addresses))
    importing = place(b"".join(libraries) + bytes(20)) if libraries else 0
    exporting = 0
    if exports:
        count = len(exports)
        functions = place(struct.pack(f"<{count}I", *[_SECTION] * count))
        names = place(struct.pack(f"<{count}I", *[place(name.encode() + b"\0") for name in sorted(exports)]))
        numbers = place(struct.pack(f"<{count}H", *range(count)))
        called = place(b"made.dll\0")
        exporting = place(
            struct.pack("<10I", 0, 0, 0, called, 1, count, count, functions, names, numbers) + bytes(8)
        )
    raw = len(section) + -len(section) % 512 or 512
    section.extend(bytes(raw - len(section)))
    dos = b"MZ" + bytes(58) + struct.pack("<I", 64)
    coff = b"PE\0\0" + struct.pack("<HHIIIHH", MACHINES[machine][1], 1, 0, 0, 0, 240, 0x2022)
    optional = struct.pack("<HBBIIIII", 0x20B, 1, 0, 0, raw, 0, 0, _SECTION)
    optional += struct.pack("<QIIHHHHHHIIII", 0x180000000, 0x1000, 512, 6, 0, 0, 0, 6, 0, 0, 0x3000, _RAW, 0)
    optional += struct.pack("<HHQQQQII", 2, 0, 1 << 20, 4096, 1 << 20, 4096, 0, 16)
    directories = [
        (exporting, 40 if exporting else 0),
        (importing, 20 * len(libraries) + 20 if importing else 0),
    ]
    directories += [(0, 0)] * 14
    tables = b"".join(struct.pack("<II", *directory) for directory in directories)
    header = b".data\0\0\0" + struct.pack("<IIIIIIHHI", raw, _SECTION, raw, _RAW, 0, 0, 0, 0, 0xC0000040)
    head = dos + coff + optional + tables + header
    return head + bytes(_RAW - len(head)) + bytes(section)
