"""What the processor can do at most: the rates of loops that do nothing else, on all cores at once."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from harness import lowered
from harness.machine import machine

SOURCE = Path(__file__).with_name("loops.c")
BUFFER = 512 << 20  # Bytes that are read: more than caches hold.
ROUNDS = (
    10_000_000  # Of a loop in registers: some tens of milliseconds, beside which starting threads is nothing.
)


class Limits:
    """Loops in C, compiled in a folder for this processor, or for the set below it that is compared."""

    def __init__(self, folder: Path) -> None:
        """Compile them.

        Raises:
            SystemExit: there is no compiler that takes GCC's options.
        """
        library = folder / "loops.so"
        isa = os.environ.get(lowered.VARIABLE, "")
        target = isa if isa in lowered.HIDDEN else "native"
        command = [
            os.environ.get("CC", "cc"),
            "-O3",
            f"-march={target}",
            "-shared",
            "-fPIC",
            "-o",
            str(library),
        ]
        try:
            subprocess.run([*command, str(SOURCE)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(f"{SOURCE.name} is not compiled: {error}") from None
        self._library = ctypes.CDLL(str(library))
        for name in ("multiply_floats", "multiply_bytes", "read_memory"):
            getattr(self._library, name).restype = ctypes.c_double
        self._library.multiply_floats.argtypes = [ctypes.c_int64]
        self._library.multiply_bytes.argtypes = [ctypes.c_int64]
        self._library.read_memory.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        self._cores: int = machine()["cores"]
        self._numbers: np.ndarray | None = None

    def floats(self) -> float:
        """Operations of float32 in a second: a multiplication and an addition are two."""
        return self._together(lambda _: self._library.multiply_floats(ROUNDS))

    def bytes(self) -> float:
        """The same of bytes that are multiplied and added in 32 bits; 0 where no instruction does it."""
        return self._together(lambda _: self._library.multiply_bytes(ROUNDS))

    def memory(self) -> float:
        """Bytes that are read in a second, each core its part of them."""
        if self._numbers is None:
            self._numbers = np.ones(BUFFER // 4, np.float32)
        numbers, part = self._numbers, self._numbers.size // self._cores // 64 * 64
        return self._together(lambda i: self._library.read_memory(numbers.ctypes.data + 4 * i * part, part))

    def _together(self, work: Callable[[int], float]) -> float:
        """The best rate of some rounds in which all cores work at once. ctypes lets go of the GIL."""
        rates = []
        for _ in range(5):
            done = [0.0] * self._cores
            ready = threading.Barrier(self._cores + 1)

            def run(at: int, done: list[float] = done, ready: threading.Barrier = ready) -> None:
                ready.wait()
                done[at] = work(at)

            threads = [threading.Thread(target=run, args=(at,)) for at in range(self._cores)]
            for thread in threads:
                thread.start()
            ready.wait()
            start = time.perf_counter()
            for thread in threads:
                thread.join()
            rates.append(sum(done) / (time.perf_counter() - start))
        return max(rates)
