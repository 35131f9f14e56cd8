"""What a shared library of Linux says of itself: just what checks ask for."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551
_NEEDED, _STRTAB, _SYMTAB, _RPATH, _RUNPATH, _TEXTREL, _FLAGS = 1, 5, 6, 15, 29, 22, 30
_HASH, _GNU_HASH, _FLAGS_1 = 4, 0x6FFFFEF5, 0x6FFFFFFB
_DF_1_NODELETE = 8
_UNIQUE = 10  # a symbol's binding: one for all libraries of the process that have it
_DF_TEXTREL, _DF_STATIC_TLS = 4, 16
_EXECUTE, _WRITE = 1, 2


@dataclass
class Elf:
    """A library's needs, search paths, exported names and flags."""

    needed: list[str] = field(default_factory=list)
    search_paths: list[str] = field(default_factory=list)
    exported: list[str] = field(default_factory=list)
    undefined: list[str] = field(default_factory=list)
    unique: list[str] = field(default_factory=list)  # of the exported ones, for which the loader keeps it
    stays: bool = False  # it says that it is never to be unloaded
    executable_stack: bool = False
    writable_code: bool = False
    text_relocations: bool = False
    static_tls: bool = False


def read_elf(path: str) -> Elf | None:
    """Read a 64-bit, little-endian library; None for another file."""
    data = Path(path).read_bytes()
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
        return None
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQQQ", data, start + at * size) for at in range(count)]
    made = Elf()
    for kind, flags, *_ in segments:
        made.executable_stack |= kind == _STACK and bool(flags & _EXECUTE)
        made.writable_code |= kind == _LOAD and flags & (_EXECUTE | _WRITE) == _EXECUTE | _WRITE

    def place(address: int) -> int:
        for kind, _, offset, virtual, _, length, _, _ in segments:
            if kind == _LOAD and virtual <= address < virtual + length:
                return int(address - virtual + offset)
        raise ValueError(f"{path}: no segment has the address {address:#x}")

    entries: list[tuple[int, int]] = []
    for kind, _, offset, _, _, length, _, _ in segments:
        if kind == _DYNAMIC:
            entries = [struct.unpack_from("<qQ", data, at) for at in range(offset, offset + length, 16)]
    by_tag = dict(entries)
    if _STRTAB not in by_tag or _SYMTAB not in by_tag:
        return made
    texts = place(by_tag[_STRTAB])

    def text(at: int) -> str:
        return data[texts + at : data.index(b"\0", texts + at)].decode("utf-8", "replace")

    made.needed = [text(value) for tag, value in entries if tag == _NEEDED]
    paths = [text(value) for tag, value in entries if tag in (_RPATH, _RUNPATH)]
    made.search_paths = [part for path in paths for part in path.split(":") if part]
    flags = by_tag.get(_FLAGS, 0)
    made.text_relocations = _TEXTREL in by_tag or bool(flags & _DF_TEXTREL)
    made.static_tls = bool(flags & _DF_STATIC_TLS)
    made.stays = bool(by_tag.get(_FLAGS_1, 0) & _DF_1_NODELETE)
    symbols = place(by_tag[_SYMTAB])
    for at in range(1, _symbol_count(data, by_tag, place)):
        name, info, other, section, _, _ = struct.unpack_from("<IBBHQQ", data, symbols + 24 * at)
        if info >> 4 not in (1, 2, _UNIQUE) or not name:  # global, weak
            continue
        if section == 0:
            made.undefined.append(text(name))
        elif other & 3 in (0, 3):  # default, protected
            made.exported.append(text(name))
            if info >> 4 == _UNIQUE:
                made.unique.append(text(name))
    return made


def _symbol_count(data: bytes, by_tag: dict[int, int], place: Callable[[int], int]) -> int:
    if _HASH in by_tag:
        return int(struct.unpack_from("<I", data, place(by_tag[_HASH]) + 4)[0])
    if _GNU_HASH not in by_tag:
        return 0
    at = place(by_tag[_GNU_HASH])
    buckets, first, blooms, _ = struct.unpack_from("<IIII", data, at)
    table = at + 16 + 8 * blooms
    last = max(struct.unpack_from(f"<{buckets}I", data, table), default=0)
    if last < first:
        return int(first)
    chain = table + 4 * buckets + 4 * (last - first)
    while not struct.unpack_from("<I", data, chain)[0] & 1:
        chain += 4
        last += 1
    return int(last) + 1
