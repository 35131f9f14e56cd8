"""Which functions of the ABI the host implements, and which missing ones plugins have called."""

from __future__ import annotations

from dataclasses import dataclass

from ephost._bindings import lib, text


@dataclass(frozen=True)
class AbiFunction:
    """One slot of a table. ``calls`` counts the calls of a missing one in this process."""

    table: str
    name: str
    since: int
    implementation: str  # "native" or "missing"
    calls: int


class AbiCoverage(list[AbiFunction]):
    """Every function of the ABI; prints as a summary."""

    def counts(self) -> dict[str, dict[str, int]]:
        """Table -> implementation -> how many functions."""
        found: dict[str, dict[str, int]] = {}
        for function in self:
            row = found.setdefault(function.table, {"native": 0, "missing": 0})
            row[function.implementation] += 1
        return found

    def missing(self) -> list[AbiFunction]:
        """The functions that answer ORT_NOT_IMPLEMENTED."""
        return [function for function in self if function.implementation == "missing"]

    def __str__(self) -> str:
        lines = [f"{'table':20} {'native':>7} {'missing':>8}"]
        for table, row in self.counts().items():
            lines.append(f"{table:20} {row['native']:7} {row['missing']:8}")
        called = [f"{f.table}.{f.name} ({f.calls})" for f in self if f.calls]
        if called:
            lines.append("missing, but called: " + ", ".join(called))
        return "\n".join(lines)


def abi_coverage() -> AbiCoverage:
    """Each function of the plugin ABI, how the host implements it, and how often missing ones were called."""
    found = AbiCoverage()
    for index in range(lib.ephost_slot_count()):
        slot = lib.ephost_slot(index)
        found.append(
            AbiFunction(
                text(slot.table),
                text(slot.member),
                int(slot.since),
                "native" if slot.is_implemented else "missing",
                int(lib.ephost_stub_calls(index)),
            )
        )
    return found
