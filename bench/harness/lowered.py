"""Comparisons on a processor as if it had fewer instruction sets than it has.

``EPHOST_CPU_ISA`` names a set of the CPU plugin. It is a fair comparison only if onnxruntime does with as
little, and onnxruntime has no such option. So its CPUID instructions are replaced, after its library has been
loaded and before it is first used, by ones whose answer leaves out what is newer.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import numpy as np

from harness.machine import ROOT

SOURCE = Path(__file__).with_name("cpuid.c")
FOUND = ROOT / "build" / "cpuid"
VARIABLE = "EPHOST_CPU_ISA"

# (leaf, register, bits) of CPUID; leaves are 0: 1, 1: 7, 2: 7.1. From the processors' manuals.
_EAX, _EBX, _ECX, _EDX = range(4)
# What multiplies bytes or half floats by vectors: VNNI, BF16, FP16, and AMX.
_VNNI = (
    (1, _ECX, (11,)),
    (1, _EDX, (22, 23, 24, 25)),
    (2, _EAX, (4, 5, 21)),
    (2, _EDX, (4, 5, 8, 10)),
)
_AVX512 = ((1, _EBX, (16, 17, 21, 26, 27, 28, 30, 31)), (1, _ECX, (1, 6, 12, 14)), (1, _EDX, (2, 3, 8)))
_AVX10 = ((2, _EDX, (19,)),)
_AVX2 = ((0, _ECX, (12, 28, 29)), (1, _EBX, (5,)), (1, _ECX, (9, 10)), (2, _EAX, (23,)))
HIDDEN = {
    "x86-64-v4": (*_VNNI, *_AVX10),
    "x86-64-v3": (*_VNNI, *_AVX10, *_AVX512),
    "x86-64": (*_VNNI, *_AVX10, *_AVX512, *_AVX2),
}
# The same for oneDNN, which has a variable for it.
ONEDNN = {"x86-64-v4": "AVX512_CORE", "x86-64-v3": "AVX2", "x86-64": "SSE41"}


def environment() -> dict[str, str]:
    """Variables by which ephost's side does with as little as ``EPHOST_CPU_ISA`` says."""
    onednn = ONEDNN.get(os.environ.get(VARIABLE, ""))
    return {} if onednn is None else {"ONEDNN_MAX_CPU_ISA": onednn}


def lower(module: str) -> None:
    """Hide from onnxruntime what ``EPHOST_CPU_ISA`` leaves out, if that is what is about to be imported.

    Raises:
        SystemExit: it cannot be done here.
    """
    isa = os.environ.get(VARIABLE)
    if module != "onnxruntime" or not isa or isa == "x86-64-v4-vnni":
        return
    if isa not in HIDDEN or platform.machine() != "x86_64" or not sys.platform.startswith("linux"):
        raise SystemExit(f"{VARIABLE}={isa}: nothing is known of how to hide the rest from onnxruntime here")
    spec = importlib.util.find_spec(module)
    folders = spec.submodule_search_locations if spec is not None else None
    found = [file for folder in folders or () for file in Path(folder).glob("capi/onnxruntime_pybind11*.so")]
    if len(found) != 1:
        raise SystemExit(f"{module} has no library of its own to hide instruction sets from: {found}")
    path = found[0].resolve()
    addresses = cpuid_instructions(path)
    ctypes.CDLL(str(path))  # Stays: the import finds the same one.
    _hide(_base(path) + addresses, isa)


def cpuid_instructions(library: Path) -> np.ndarray:
    """Addresses of a library's CPUID instructions in its file, ``uint64``.

    Raises:
        SystemExit: there is no objdump, or it cannot read the file.
    """
    state = library.stat()
    kept = FOUND / f"{library.name}-{state.st_size}-{state.st_mtime_ns}.npy"  # Disassembling takes seconds.
    if kept.exists():
        return cast("np.ndarray", np.load(kept))
    command = ["objdump", "--disassemble", "--no-show-raw-insn", str(library)]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            found = _addresses(process.stdout)
    except OSError as error:
        raise SystemExit(f"{library.name} is not disassembled: {error}") from None
    if process.returncode != 0 or not found:
        raise SystemExit(f"objdump finds no CPUID instruction in {library}")
    FOUND.mkdir(parents=True, exist_ok=True)
    partial = kept.with_suffix(f".{os.getpid()}.partial.npy")
    np.save(partial, np.array(found, np.uint64))
    partial.replace(kept)
    return np.array(found, np.uint64)


def _addresses(lines: Iterable[str]) -> list[int]:
    matches = (re.match(r"\s*([0-9a-f]+):\s+cpuid\b", line) for line in lines if "cpuid" in line)
    return [int(match[1], 16) for match in matches if match]


def _base(library: Path) -> np.uint64:
    """Where a loaded library begins."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(str(library)):
            return np.uint64(int(line.split("-")[0], 16))
    raise SystemExit(f"{library} is not loaded")


def _hide(places: np.ndarray, isa: str) -> None:
    bits = np.zeros((3, 4), np.uint32)
    for leaf, register, numbers in HIDDEN[isa]:
        for number in numbers:
            bits[leaf, register] |= np.uint32(1 << number)
    with tempfile.TemporaryDirectory(prefix="ephost-bench-") as folder:
        built = Path(folder) / "cpuid.so"
        command = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", str(built), str(SOURCE)]
        try:
            subprocess.run(command, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(f"{SOURCE.name} is not compiled: {error}") from None
        library = ctypes.CDLL(str(built))
    library.hide.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_void_p]
    library.answered.restype = ctypes.c_long
    if library.hide(places.ctypes.data, len(places), bits.ctypes.data) != 0:
        raise SystemExit("onnxruntime's library cannot be changed in memory")
    _kept.append((library, places))


# The library that answers, and the addresses that it looks at: as long as the process.
_kept: list[tuple[ctypes.CDLL, np.ndarray]] = []


def answered() -> int:
    """How many CPUID instructions have been answered in this process."""
    return sum(int(library.answered()) for library, _ in _kept)
