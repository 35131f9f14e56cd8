"""Where in the one block of a run's frame each of its values lies."""

from __future__ import annotations

_ALIGNMENT = 64


class Arena:
    """Offsets for blocks by first use and last use, best fit first."""

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []  # (offset, bytes), by offset

    def take(self, nbytes: int) -> int:
        """The offset of a block; ``nbytes`` is rounded up by the caller's :func:`round_up`."""
        best = -1
        for at, (_, size) in enumerate(self._free):
            if size >= nbytes and (best < 0 or size < self._free[best][1]):
                best = at
                if size == nbytes:
                    break
        if best >= 0:
            offset, size = self._free.pop(best)
            if size > nbytes:
                from bisect import insort

                insort(self._free, (offset + nbytes, size - nbytes))
            return offset
        if self._free and sum(self._free[-1]) == self.size:  # grow the block at the end
            offset, _ = self._free.pop()
        else:
            offset = self.size
        self.size = offset + nbytes
        return offset

    def give(self, offset: int, nbytes: int) -> None:
        """Take a block back and join it with its neighbours."""
        at = 0
        while at < len(self._free) and self._free[at][0] < offset:
            at += 1
        if at < len(self._free) and offset + nbytes == self._free[at][0]:
            nbytes += self._free.pop(at)[1]
        if at > 0 and sum(self._free[at - 1]) == offset:
            start, size = self._free.pop(at - 1)
            offset, nbytes, at = start, size + nbytes, at - 1
        self._free.insert(at, (offset, nbytes))


def round_up(nbytes: int) -> int:
    """The size of the arena's block for so many bytes."""
    return max(_ALIGNMENT, (nbytes + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT)
