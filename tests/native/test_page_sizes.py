"""What the kernel's pages are is the kernel's: on other processors they have 16 or 64 KiB."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="stands in for functions of a POSIX system")

# A kernel of pages of 64 KiB, as far as giving memory back goes: it takes whole pages only, and rounds up.
KERNEL = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <dlfcn.h>

enum { PAGE = 65536 };

long sysconf(int name) {
  long (*real)(int) = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
  return name == _SC_PAGESIZE ? PAGE : real(name);
}

int madvise(void* begin, size_t nbytes, int advice) {
  if ((uintptr_t)begin % PAGE != 0) {
    errno = EINVAL;
    return -1;
  }
  return (int)syscall(SYS_madvise, begin, (nbytes + PAGE - 1) / PAGE * PAGE, advice);
}
"""

SHARE_MEMORY = r"""
import os
from ephost._bindings import ffi, lib

MIB = 1 << 20
file = os.memfd_create("pool")
os.ftruncate(file, 1024 * MIB)
pool = lib.ephost_pool_open(file, 1024 * MIB)
allocator = lib.ephost_pool_allocator(pool)
given = []
alloc = lambda nbytes: given.append(allocator.Alloc(allocator, nbytes)) or given[-1]
free = lambda block: allocator.Free(allocator, given.pop(given.index(block)))
at = lambda block: int(ffi.cast("uintptr_t", block))

small, neighbour = alloc(4096), alloc(4096)
while at(small) % 65536:
    small, neighbour = neighbour, alloc(4096)
assert at(neighbour) == at(small) + 4096
ffi.memmove(neighbour, b"x" * 4096, 4096)
large = alloc(64 * MIB)
ffi.memmove(large, b"y" * 64 * MIB, 64 * MIB)
more = alloc(64 * MIB)
free(large)  # as much as may wait
free(small)
free(more)
assert bytes(ffi.buffer(neighbour, 4096)) == b"x" * 4096, "a neighbour's memory went"
blocks = os.stat(file).st_blocks * 512
assert 64 * MIB <= blocks < 65 * MIB, blocks
while given:
    free(given[-1])
lib.ephost_pool_release(pool)
"""


def test_memory_that_goes_back_to_the_system_takes_none_of_its_neighbours_along(tmp_path: Path) -> None:
    source, library = tmp_path / "kernel.c", tmp_path / "libkernel.so"
    source.write_text(KERNEL)
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
    preload = f"{os.environ.get('LD_PRELOAD', '')} {library}".strip()  # a sanitizer wants to be the first
    done = subprocess.run(
        [sys.executable, "-c", SHARE_MEMORY],
        env={**os.environ, "LD_PRELOAD": preload},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
