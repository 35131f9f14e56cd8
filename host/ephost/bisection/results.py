"""What a search found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ephost.bisection.judging import Mode, Symptom
from ephost.bisection.measuring import PRECISIONS, Measure
from ephost.tables import Table, shorten, time_text

_LONG = 160  # characters of what is told in a table


@dataclass
class NodeError:
    """A node, and how far its results are off: by its own doing (with the reference's inputs), and in all."""

    index: int
    name: str
    op_type: str
    ep_name: str
    own: Measure | None = None
    total: Measure | None = None
    note: str = ""


@dataclass
class Repro:
    """The smallest model that was found to show a fault, and what shows it."""

    nodes: int
    operators: tuple[str, ...]
    folder: Path | None
    hosts: tuple[str, ...]  # that the fault shows in
    steps: tuple[str, ...]  # what could go
    left_options: tuple[str, ...]


@dataclass
class Fault:
    """Nodes that are to blame: alone each of them, or as a group that is only wrong together."""

    symptom: Symptom
    nodes: tuple[str, ...]
    operators: tuple[str, ...]
    ep_name: str
    fused: bool
    mode: Mode
    measure: Measure | None = None
    note: str = ""
    repro: Repro | None = None

    def headline(self) -> str:
        """One sentence."""
        if self.fused:
            who = f"{len(self.nodes)} nodes together ({shorten(self.operators, 4)}: {shorten(self.nodes, 4)})"
        elif len(self.nodes) == 1:
            who = f"{self.operators[0]} '{self.nodes[0]}'"
        else:
            who = f"{len(self.nodes)} nodes of {shorten(self.operators, 3)} ({shorten(self.nodes, 4)})"
        text = f"{who} on {self.ep_name}: {self.symptom.words()}"
        if words := self.mode.words():
            text += f", {words}"
        if self.measure is not None and self.measure.ratio > 1:
            text += f"; {describe(self.measure)}"
        return f"{text}; {self.note}" if self.note else text


def describe(measure: Measure) -> str:
    """A measure in words."""
    if measure.kind in ("shape", "type"):
        return f"{measure.name} has the {measure.kind} {measure.got}, not {measure.expected}"
    where = f"[{', '.join(map(str, measure.where))}]" if measure.where else ""
    text = f"{measure.name}{where} is {measure.got}, not {measure.expected}"
    return f"{text} ({measure.wrong} of {measure.elements} elements are wrong)"


@dataclass
class Bisection:
    """What became of a search. ``str()`` gives tables, :meth:`to_dict` what JSON can hold."""

    model: str
    target: str
    against: str
    symptom: Symptom | None
    faults: list[Fault] = field(default_factory=list)
    nodes: list[NodeError] = field(default_factory=list)
    outputs: list[Measure] = field(default_factory=list)
    first: str = ""  # the first node whose results diverge in the whole model
    precision: str = "float32"
    notes: list[str] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    folder: Path | None = None
    is_written: bool = True  # whether the folder has all of it; a note says what it lacks
    seconds: float = 0.0
    run_seconds: float = 0.0
    loading_seconds: float = 0.0  # of starting processes, and of opening models
    node_runs: int = 0  # nodes that ran, each as often as it did
    tries: int = 0

    @property
    def found(self) -> bool:
        """Whether somebody is to blame, or something went wrong that nobody could be blamed for."""
        return bool(self.faults) or self.symptom is not None

    @property
    def whole_runs(self) -> float:
        """How many runs of the whole model ran as many nodes as all runs of the search."""
        return self.node_runs / max(len(self.nodes), 1)

    def headline(self) -> str:
        """One sentence."""
        where = f"{self.model} at {self.target}, against {self.against}"
        if not self.found:
            within = "" if self.precision == PRECISIONS[0].name else f" in {self.precision}"
            return f"{where}: no fault found. What differs is no more than rounding{within} explains"
        if not self.faults:
            assert self.symptom is not None
            return f"{where}: {self.symptom.words()}, but no part of the model shows it"
        return f"{where}: {len(self.faults)} fault{'s'[: len(self.faults) != 1]}"

    def to_dict(self) -> dict[str, Any]:
        """The same as dicts, lists, numbers and texts."""

        def measure(of: Measure | None) -> dict[str, Any] | None:
            return None if of is None else {k: _number(v) for k, v in of.to_dict().items()}

        return {
            "version": 1,
            "model": self.model,
            "target": self.target,
            "against": self.against,
            "symptom": None if self.symptom is None else vars(self.symptom),
            "first_divergence": self.first,
            "precision": self.precision,
            "faults": [
                {
                    "symptom": vars(fault.symptom),
                    "nodes": list(fault.nodes),
                    "operators": list(fault.operators),
                    "ep_name": fault.ep_name,
                    "fused": fault.fused,
                    "mode": vars(fault.mode),
                    "measure": measure(fault.measure),
                    "note": fault.note,
                    "headline": fault.headline(),
                    "repro": None
                    if fault.repro is None
                    else {
                        **vars(fault.repro),
                        "folder": str(fault.repro.folder) if fault.repro.folder else None,
                    },
                }
                for fault in self.faults
            ],
            "outputs": [measure(each) for each in self.outputs],
            "nodes": [
                {**vars(node), "own": measure(node.own), "total": measure(node.total)} for node in self.nodes
            ],
            "notes": self.notes,
            "folder": str(self.folder) if self.folder else None,
            "seconds": self.seconds,
            "run_seconds": self.run_seconds,
            "loading_seconds": self.loading_seconds,
            "whole_runs": self.whole_runs,
            "tries": self.tries,
        }

    def tables(self, limit: int | None = 12) -> list[Table]:
        """What ``str()`` prints: of the nodes those that add most."""
        found = []
        if self.faults:
            table = Table(
                "Faults",
                ("#", "who", "nodes", "on", "what", "reduced to", "shows in", "folder"),
                right=frozenset("#"),
            )
            for at, fault in enumerate(self.faults):
                repro = fault.repro
                size = (
                    f"{repro.nodes} node{'s'[: repro.nodes != 1]} ({', '.join(repro.operators)})"
                    if repro
                    else "-"
                )
                hosts = ", ".join(repro.hosts) if repro else "-"
                what = _in_one_line(fault.symptom)
                if len(what) > _LONG:
                    what = f"{what[:_LONG]}... (below)"
                if fault.measure is not None and fault.measure.ratio > 1:
                    what = describe(fault.measure)
                if words := fault.mode.words():
                    what += f"; {words}"
                table.rows.append(
                    (
                        str(at + 1),
                        ("together: " if fault.fused else "") + shorten(fault.operators, 4),
                        shorten(fault.nodes, 4),
                        fault.ep_name,
                        f"{what}; {fault.note}" if fault.note else what,
                        size,
                        hosts,
                        str(repro.folder) if repro and repro.folder else "-",
                    )
                )
            found.append(table)
        rows = sorted(
            (node for node in self.nodes if node.own is not None or node.note),
            key=lambda node: -(node.own.ratio if node.own is not None else 0),
        )
        if rows and any(node.own is not None for node in rows):
            found.append(self._added(rows, limit))
        if self.outputs:
            figures = ("error", "of what is tolerated", "mean", "cosine")
            table = Table("Outputs of the model", ("output", *figures), right=frozenset(figures))
            table.rows.extend(
                (m.name, _size(m), _ratio(m.ratio), f"{m.mean:.2g}", f"{m.cosine:.9g}") for m in self.outputs
            )
            found.append(table)
        return found

    def _added(self, rows: Sequence[NodeError], limit: int | None) -> Table:
        numbers = ("own error", "of what is tolerated", "in all", "of that")
        title = "Nodes that add most error of their own"
        if limit is not None and limit < len(rows):
            title += f" (the first {limit} of {len(rows)})"
        table = Table(title, ("node", "operator", "EP", *numbers, "why so much"), right=frozenset(numbers))
        for at, node in enumerate(rows[:limit]):
            if node.own is not None and node.own.ratio > 1:
                table.marked.add(at)
            table.rows.append(
                (
                    node.name,
                    node.op_type,
                    node.ep_name,
                    _size(node.own),
                    _ratio(node.own.ratio) if node.own else "-",
                    _size(node.total),
                    _ratio(node.total.ratio) if node.total else "-",
                    node.note or (node.own.why if node.own else ""),
                )
            )
        return table

    def __str__(self) -> str:
        parts = [self.headline(), *(table.plain() for table in self.tables()), *self.footer()]
        return "\n\n".join(parts)

    def footer(self) -> list[str]:
        """What is said below the tables: what the search says, and whole what is too long for a table."""
        lines = []
        if self.first and self.found:
            lines.append(f"The first node whose results diverge: {self.first}")
        lines += self.notes
        took = f"{self.tries} tries in {time_text(self.seconds)}"
        if self.nodes:
            took += f", {time_text(self.run_seconds)} of it in runs"
            took += f": as many nodes ran as in {self.whole_runs:.1f} runs of the model"
        lines.append(took)
        found = [_in_one_line(fault.symptom) for fault in self.faults]
        whole = [f"Fault {at}: {text}" for at, text in enumerate(found, 1) if len(text) > _LONG]
        return ["\n".join(lines), *whole]


def _in_one_line(symptom: Symptom) -> str:
    return " ".join(symptom.words().replace("\\n", " ").split())


def _size(measure: Measure | None) -> str:
    if measure is None:
        return "-"
    return "not finite" if measure.kind == "not finite" else f"{measure.relative:.2g}"


def _ratio(ratio: float) -> str:
    return "-" if math.isinf(ratio) else f"{ratio:.2g}"


def _number(value: Any) -> Any:
    """JSON has no infinities."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
