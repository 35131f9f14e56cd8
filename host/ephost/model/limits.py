"""How much of its device's memory an EP may plan for, and what the nodes that it claims cost.

The session option ``session.resource_cuda_partitioning_settings`` is "KILOBYTES,FILE". onnxruntime heeds it
for an EP called CUDAExecutionProvider; here it is for any EP that can say what it has, with
``GetAvailableResource``, which it is asked when there is no number.
"""

from __future__ import annotations

from collections.abc import Sequence

from ephost._bindings import ffi
from ephost.errors import InvalidArgument, NotImplemented
from ephost.execution_provider import ExecutionProvider
from ephost.model.graph import Node, Value, tensor_bytes

SETTINGS = "session.resource_cuda_partitioning_settings"
_TOTAL_BYTES = 1  # OrtResourceCountKind


class Budget:
    """Bytes that claims may cost. The first that is too much ends it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._spent = False
        self._counted: set[int] = set()

    def take(self, nodes: Sequence[Node]) -> bool:
        """Whether there is room for these nodes; if so, it is taken.

        As onnxruntime guesses without statistics: one and a half times the weights, each counted once, and
        the outputs whose size is known.
        """
        weights: dict[int, Value] = {}
        outputs = 0
        for node in nodes:
            weights.update((id(v), v) for v in node.reads() if v.is_constant and id(v) not in self._counted)
            outputs += sum(tensor_bytes(v.type) or 0 for v in node.outputs if v is not None)
        size = outputs + sum(tensor_bytes(v.type) or 0 for v in weights.values())
        cost = size + size // 2
        if self._spent or self.used + cost > self.limit:
            self._spent = True
            return False
        self.used += cost
        self._counted.update(weights)
        return True


def budget_of(ep: ExecutionProvider, settings: str | None) -> Budget | None:
    """What an EP may plan for; None: as much as it likes.

    Raises:
        InvalidArgument: the settings are not of the form above.
        NotImplemented: they name a file of statistics, which only onnxruntime's own CUDA provider writes.
    """
    if settings is None or not settings:
        return None
    kilobytes, comma, file = (part.strip() for part in settings.partition(","))
    if not comma or (kilobytes and not kilobytes.isdecimal()):
        raise InvalidArgument(f"{SETTINGS} is KILOBYTES,FILE, either of which may be empty, not {settings!r}")
    if file:
        raise NotImplemented(f"{SETTINGS} names the file {file!r}: statistics of allocations are not read")
    if ep.member("GetAvailableResource") is None:
        return None
    if kilobytes:
        return Budget(int(kilobytes) * 1024)
    count = ffi.new("OrtResourceCount*")
    ep.call("GetAvailableResource", count)
    return Budget(int(count.value.total_bytes)) if count.kind == _TOTAL_BYTES else None
