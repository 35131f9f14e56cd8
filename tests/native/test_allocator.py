"""The CPU allocator: alignment, its cache of freed blocks, its statistics, and what it refuses to free."""

from __future__ import annotations

import mmap
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from native_objects import Refused, api, check, ffi, lib, out
from test_objects import pairs_of

MEGABYTE = 1 << 20


@pytest.fixture
def allocator() -> Iterator[Any]:
    """The CPU allocator with an empty cache of at most 8 MB."""
    lib.ephost_trim_cpu_cache()
    lib.ephost_set_cpu_cache_limit(8 * MEGABYTE)
    yield lib.ephost_cpu_allocator()
    lib.ephost_set_cpu_cache_limit(256 * MEGABYTE)


def allocate(allocator: Any, size: int) -> Any:
    return out("void*", api.AllocatorAlloc, allocator, size)


def stats(allocator: Any) -> dict[str, int]:
    pairs = out("OrtKeyValuePairs*", api.AllocatorGetStats, allocator)
    result = {key: int(value) for key, value in pairs_of(pairs).items()}
    api.ReleaseKeyValuePairs(pairs)
    return result


def address(block: Any) -> int:
    return int(ffi.cast("uintptr_t", block))


def flags_of(begin: int) -> list[str]:
    """What the kernel knows of the pages at this address, as /proc/self/smaps has it."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if "-" in first and ":" not in first:
            start, end = (int(number, 16) for number in first.split("-"))
            inside = start <= begin < end
        elif inside and first == "VmFlags:":
            return rest
    raise AssertionError(f"no pages at {begin:#x}")


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_large_pages_are_asked_for_large_blocks(allocator: Any) -> None:
    """Without them the first run that writes one takes a fault for each 4 KiB."""
    with mmap.mmap(-1, 4 * MEGABYTE) as pages:
        pages.madvise(mmap.MADV_HUGEPAGE)
        if "hg" not in flags_of(address(ffi.from_buffer(pages)) + 2 * MEGABYTE):
            pytest.skip("smaps does not tell of it here; an emulator makes its own")
    block = allocate(allocator, 40 * MEGABYTE)
    flags = flags_of(address(block) + 20 * MEGABYTE)
    check(api.AllocatorFree(allocator, block))
    assert "hg" in flags


def test_blocks_are_aligned_and_hold_what_was_asked(allocator: Any) -> None:
    blocks = []
    for size in [0, 1, 63, 64, 65, 71, 72, 73, 127, 128, 129, 1000, 4095, 4097, MEGABYTE, MEGABYTE + 1]:
        block = allocate(allocator, size)
        ffi.memmove(block, b"\xab" * size, size)
        blocks.append((size, block))
    assert len({address(block) for _, block in blocks}) == len(blocks)
    for size, block in blocks:
        assert address(block) % 64 == 0
        assert bytes(ffi.buffer(ffi.cast("char*", block), size)) == b"\xab" * size
        check(api.AllocatorFree(allocator, block))


def test_little_is_lost_to_rounding(allocator: Any) -> None:
    before = stats(allocator)["InUse"]
    for size in (1000, 12345, 3 * MEGABYTE + 17):
        block = allocate(allocator, size)
        held = stats(allocator)["InUse"] - before
        assert size <= held <= size + size // 8
        check(api.AllocatorFree(allocator, block))


def test_a_freed_block_is_given_out_again(allocator: Any) -> None:
    first = allocate(allocator, 100_000)
    other = allocate(allocator, 100_000)
    hits = stats(allocator)["NumCacheHits"]
    check(api.AllocatorFree(allocator, first))
    again = allocate(allocator, 99_000)
    assert again == first and other != first
    assert stats(allocator)["NumCacheHits"] == hits + 1
    for block in (again, other):
        check(api.AllocatorFree(allocator, block))


def test_the_statistics_follow_use(allocator: Any) -> None:
    start = stats(allocator)
    block = allocate(allocator, MEGABYTE)
    used = stats(allocator)
    check(api.AllocatorFree(allocator, block))
    freed = stats(allocator)
    assert used["InUse"] == start["InUse"] + MEGABYTE
    assert used["NumAllocs"] == start["NumAllocs"] + 1
    assert used["MaxInUse"] >= used["InUse"] and used["MaxAllocSize"] >= MEGABYTE
    assert freed["InUse"] == start["InUse"]
    assert freed["Cached"] == start["Cached"] + MEGABYTE
    assert freed["TotalAllocated"] == freed["InUse"] + freed["Cached"]
    lib.ephost_trim_cpu_cache()
    assert stats(allocator)["Cached"] == 0


def test_the_cache_keeps_to_its_limit(allocator: Any) -> None:
    blocks = [allocate(allocator, MEGABYTE) for _ in range(12)]
    for block in blocks:
        check(api.AllocatorFree(allocator, block))
    assert stats(allocator)["Cached"] == 8 * MEGABYTE
    check(api.AllocatorFree(allocator, allocate(allocator, 9 * MEGABYTE)))
    assert stats(allocator)["Cached"] <= 8 * MEGABYTE
    lib.ephost_set_cpu_cache_limit(MEGABYTE)
    assert stats(allocator)["Cached"] <= MEGABYTE


def test_shrink_gives_the_cache_back(allocator: Any) -> None:
    check(api.AllocatorFree(allocator, allocate(allocator, MEGABYTE)))
    assert stats(allocator)["Cached"] > 0
    check(allocator.Shrink(allocator))
    assert stats(allocator)["Cached"] == 0


def test_too_much_is_refused(allocator: Any) -> None:
    for size in (1 << 46, (1 << 63) + 1, (1 << 64) - 1):
        with pytest.raises(Refused):
            allocate(allocator, size)


def test_freeing_twice_is_said_and_harmless(
    allocator: Any, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    block = allocate(allocator, 200)
    check(api.AllocatorFree(allocator, block))
    check(api.AllocatorFree(allocator, block))
    # To the standard error, or to logging once the process has imported the host's Python half.
    assert "not given out" in capfd.readouterr().err + caplog.text
    first, second = allocate(allocator, 200), allocate(allocator, 200)
    assert first != second
    for each in (first, second, ffi.NULL):
        check(api.AllocatorFree(allocator, each))


def test_the_default_allocator_is_never_released(allocator: Any) -> None:
    assert out("OrtAllocator*", api.GetAllocatorWithDefaultOptions) == allocator
    api.ReleaseAllocator(allocator)
    check(api.AllocatorFree(allocator, allocate(allocator, 10)))
    assert allocator.version == 32


def test_an_allocator_from_before_statistics_has_none() -> None:
    old = ffi.new("OrtAllocator*", {"version": 22, "GetStats": lib.ephost_cpu_allocator().GetStats})
    with pytest.raises(Refused) as refused:
        out("OrtKeyValuePairs*", api.AllocatorGetStats, old)
    assert refused.value.code == lib.ORT_NOT_IMPLEMENTED


@pytest.mark.threads
def test_threads_may_allocate_at_once(allocator: Any) -> None:
    before = stats(allocator)["InUse"]
    broken = []

    def work(mark: int) -> None:
        for round_ in range(300):
            blocks = [
                ffi.cast("unsigned char*", allocate(allocator, 1000 + (round_ % 3) * 1000)) for _ in range(4)
            ]
            for block in blocks:
                block[0] = block[999] = mark
            if any(block[0] != mark or block[999] != mark for block in blocks):
                broken.append(mark)
            for block in blocks:
                check(api.AllocatorFree(allocator, block))

    threads = [threading.Thread(target=work, args=(i + 1,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not broken and stats(allocator)["InUse"] == before
