"""The search: from a model that goes wrong to the nodes that are to blame."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx

from ephost.bisection.judging import Judge, Judgement, Mode, Symptom
from ephost.bisection.locating import Locator, Part, responses, trembling, turned
from ephost.bisection.measuring import PRECISIONS, Measure
from ephost.bisection.processes import Trial, Worker, require_usable
from ephost.bisection.reference_values import compute
from ephost.bisection.results import Bisection, Fault, NodeError
from ephost.bisection.slicing import Sliced, names_within
from ephost.bisection.targets import Target, named_target
from ephost.errors import Fail
from ephost.providers import DEFAULT_PROVIDER

_CONFIRMED = 6  # suspects of one operator that are looked at one by one; the others are taken for alike
_FAR_LONGER = 10.0  # times a try alone: what takes longer at once does not end
_LONG = 10.0  # seconds of a try after which leaks are not looked for
_DRIFT = 0.75  # how much of an error has to go one way
_NONE_TAKEN = (
    "No node of the model runs on a plugin: all run on the host's own provider (`ephost explain` says "
    "why). Nodes by themselves may have been taken."
)
_ONLY_ALONE = (
    "The model's own outputs are right with these inputs: what is told goes wrong where nodes run by "
    "themselves, such as those that the host otherwise computes before it asks the plugin."
)
_PRODUCTS = frozenset(
    [
        "Conv",
        "ConvTranspose",
        "MatMul",
        "Gemm",
        "FusedMatMul",
        "Einsum",
        "Attention",
        "MultiHeadAttention",
        "LSTM",
        "GRU",
        "RNN",
    ]
)
# Operators whose results follow from one rounding each: an error that always goes one way is no rounding.
_ROUNDED_ONCE = frozenset(["Add", "Sub", "Mul", "Div"])
_UNBIASED = frozenset(["Conv", "MatMul", "Gemm", "Sum", "AveragePool", "GlobalAveragePool", "ReduceMean"])


@dataclass
class Settings:
    """How a search goes about it."""

    everything: bool = False  # look for more faults than one
    symptom: str = ""  # "": recognise it
    budget: int = 1 << 30  # bytes of values that are held at once
    repeats: int = 3
    slow_factor: float = 3.0  # a run that takes so much longer than elsewhere is slow
    probes: bool = True  # try what the given run does not show: leaks, runs at once


class Search:
    """One search."""

    def __init__(
        self,
        sliced: Sliced,
        judge: Judge,
        settings: Settings,
        folder: Path,
        result: Bisection,
        told: Callable[[str], None],
    ) -> None:
        self.sliced, self.judge, self.settings = sliced, judge, settings
        self.folder, self.result, self.told = folder, result, told
        self.mode = Mode()
        self.feed: dict[str, Any] = {}
        self.parts: list[tuple[Fault, Part]] = []
        self._third: Worker | None = None
        self._single = 0.0  # seconds of opening the whole model and running it
        self._owners: dict[str, str] = {}  # node -> who takes it

    def close(self) -> None:
        """End the process of the third opinion."""
        if self._third is not None:
            self._third.close()

    # ---- what goes wrong ----

    def recognise(self, feeds: Sequence[Mapping[str, Any]]) -> Symptom | None:
        """Run the whole model as a program would, on feeds in turn until something goes wrong."""
        data = self.sliced.model
        wanted = self.settings.symptom
        self.judge.fresh = True
        found: Symptom | None = None
        for number, feed in enumerate(feeds):
            self.told(f"running the whole model on feed {number + 1} of {len(feeds)}")
            mode = Mode(self.settings.repeats, optimize=True)
            judgement = self._whole(data, feed, mode)
            self._single = judgement.seconds
            self.feed, self.mode = dict(feed), mode
            found = self._symptom_of(judgement)
            if number == 0 or found is not None:
                self.result.outputs = list(judgement.measures.values())
            if found is not None:
                break
        if found is None and self.settings.probes and wanted in ("", "numbers"):
            found = self._at_once(data)
        if found is None and (
            wanted == "leak" or (self.settings.probes and not wanted and self._single < _LONG)
        ):
            self.told("looking for a leak")
            judgement = self._whole(data, self.feed, Mode(leak=True, optimize=True))
            if judgement.kind == "leak":
                found, self.mode = self._symptom_of(judgement), Mode(leak=True, optimize=True)
        if found is None and wanted == "slow":
            found = self._slow(data)
        self.judge.fresh = found is not None and found.kind in ("crash", "hang", "leak")
        if wanted and (found is None or found.kind != wanted):
            seen = found.words() if found else "nothing wrong"
            raise Fail(f"the symptom '{wanted}' was asked for, and what shows is {seen}")
        if found is not None and found.kind in ("crash", "hang", "error"):
            self.mode = self._fewest_runs(found)
        return found

    def _fewest_runs(self, symptom: Symptom) -> Mode:
        number = symptom.stage.rpartition(" ")[2]
        return replace(self.mode, repeats=int(number) if number.isdigit() else 1)

    def _symptom_of(self, judgement: Judgement) -> Symptom | None:
        if judgement.kind == "unjudged":
            raise Fail(f"there is nothing to compare with: {judgement.message}")
        if judgement.kind == "unusable":
            raise Fail(f"{self.judge.target.target.label} cannot be used: {judgement.message}")
        if judgement.kind == "right":
            return None
        if judgement.kind == "numbers":
            self.mode = replace(self.mode, repeats=judgement.run + 1)
            return Symptom("numbers")
        return Symptom(judgement.kind, judgement.stage, judgement.message)

    def _whole(self, model: onnx.ModelProto, feed: Mapping[str, Any], mode: Mode) -> Judgement:
        data = self.judge.packer.pack(model)
        feeds = [dict(feed), turned(feed)] if mode.threads > 1 else [dict(feed)]
        answers = self.judge.expected(data, [feed])
        if answers is None:
            verdict = self.judge.against.attempt(Trial(data, [dict(feed)]), self.judge.limit)
            require_usable(verdict, self.judge.against.target)
            raise Fail(
                f"{self.judge.against.target.label} cannot run the model: there is nothing to compare with: "
                f"{verdict.status} at {verdict.stage}: {verdict.message}"
            )
        expected = answers if mode.threads == 1 else None

        def excuse() -> Mapping[str, float]:
            """What the reference itself makes of a rounding error is none of the plugin's doing."""
            moved = self.judge.expected(data, [trembling(feed)])
            return responses(answers[0], moved[0]) if moved else {}

        return self.judge.judge(model, feeds, mode, expected, excuse=excuse)

    def _at_once(self, model: onnx.ModelProto) -> Symptom | None:
        self.told("running the model twice at once")
        mode = Mode(threads=2, optimize=True)
        judgement = self._whole(model, self.feed, mode)
        if judgement.kind in ("right", "unjudged"):
            return None
        if judgement.kind == "hang" and judgement.seconds < _FAR_LONGER * self._single:
            self.result.notes.append(
                "Whether runs at once disturb each other was not found out: they take too long."
            )
            return None
        self.mode = mode
        found = self._symptom_of(judgement)
        self.mode = mode
        return found

    def _slow(self, model: onnx.ModelProto) -> Symptom | None:
        data = self.judge.packer.pack(model)
        trial = Trial(data, [self.feed], repeats=5, optimize=True)
        here = self.judge.target.attempt(trial, self.judge.limit)
        there = self.judge.against.attempt(trial, self.judge.limit)
        if here.status != "ok" or there.status != "ok":
            return None
        mine, theirs = min(here.run_seconds), min(there.run_seconds)
        if mine < self.settings.slow_factor * theirs:
            return None
        self.judge.slow_excess = (mine - theirs) / 2
        self.mode = Mode(timed=True, optimize=True)
        return Symptom("slow", message=f"a run takes {mine:.3g} s, and {theirs:.3g} s elsewhere")

    # ---- the form of the model that is searched ----

    def choose_form(self, symptom: Symptom | None) -> Symptom | None:
        """Take the model as it is, or as the host rewrites it for plugins: where the symptom shows.

        Returns:
            The symptom; where there was none, one that the model shows only as it is.
        """
        plain = replace(self.mode, optimize=False, repeats=self.mode.repeats if symptom else 1)
        for sliced, mode in self._forms(plain):
            model, feed, _ = sliced.cut([range(len(sliced.nodes))], self.feed)
            judgement = self._whole(model, feed, mode)
            if symptom is None and judgement.kind not in ("right", "unjudged", "unusable"):
                self.mode = mode
                self.result.notes.append(
                    "It shows where the host rewrites nothing (ORT_DISABLE_ALL), not else."
                )
                self.sliced, symptom = sliced, self._symptom_of(judgement)
                return symptom
            shown = symptom.shown_by(judgement) if symptom is not None else judgement.kind == "right"
            if shown:
                self.sliced, self.mode = sliced, mode
                return symptom
        self.mode = replace(self.mode, optimize=True)
        return symptom

    def _forms(self, plain: Mode) -> Any:
        yield self.sliced, plain
        model = self.sliced.model
        self.told("looking at the model as the host rewrites it")
        path = self.folder / "rewritten.onnx"
        host = Target("the host", self.judge.target.target.host, config=self.judge.target.target.config)
        with Worker(host) as worker:
            verdict = worker.attempt(
                Trial(self.judge.packer.pack(model), [], optimize=True, optimized_path=str(path)),
                self.judge.limit,
            )
        if verdict.status == "ok" and path.exists():
            rewritten = Sliced.load(path)
            if all(node.domain in self.sliced.opsets or not node.domain for node in rewritten.nodes):
                yield rewritten, plain
        yield self.sliced, replace(plain, optimize=True)

    # ---- who is to blame ----

    def locator(self) -> Locator:
        """What tries parts of the model, with the reference's values."""
        self.told("computing the reference's values")
        values = compute(
            self.sliced, self.judge.against, self.judge.packer, self.feed, self.folder, self.judge.memory,
            self.settings.budget, self.judge.limit,
        )  # fmt: skip
        return Locator(self.sliced, self.judge, values, self.settings.budget)

    def run(self, symptom: Symptom | None) -> None:
        """Find who is to blame for a symptom, or for errors that outputs do not show."""
        locator = self.locator()
        self._describe_nodes()
        if symptom is None or symptom.kind == "numbers":
            self._numbers(locator, symptom)
            self._settle_first()
        else:
            self._other(locator, symptom)

    def _settle_first(self) -> None:
        """The first node that diverges because of who is to blame: others may only make rounding larger."""
        behind = {self.sliced.numbers[name] for fault in self.result.faults for name in fault.nodes}
        for from_node, to_node in sorted(self.result.edges, key=lambda edge: edge[1]):
            if from_node in behind:
                behind.add(to_node)
        for row in self.result.nodes:
            if row.index in behind and row.total is not None and row.total.ratio > 1:
                self.result.first = f"{row.name} ({row.op_type})"
                return

    def _describe_nodes(self) -> None:
        self.result.nodes = [
            NodeError(at, node.name, node.op_type, "") for at, node in enumerate(self.sliced.nodes)
        ]
        self.result.edges = [
            (self.sliced.makers[name], at)
            for at, reads in enumerate(self.sliced.reads)
            for name in reads
            if name in self.sliced.makers
        ]

    def _numbers(self, locator: Locator, symptom: Symptom | None) -> None:
        units = self.sliced.single_units()
        groups = self._totals(locator)
        self.told("trying each node by itself")
        single = locator.each(units, self.mode)
        self._settle_precision(units, single)
        if self.judge.precision is not PRECISIONS[0]:
            single = locator.each(units, self.mode)
        self._note(locator, units, single)
        accused = self._suspects(locator, [units[at] for at, j in single.items() if j.wrong])
        blamed = {at for part in accused for at in part.nodes}
        self._add_alike(Symptom("numbers"), accused)
        if accused and symptom is None:
            self.result.notes.append(_ONLY_ALONE)
        if accused and not self.settings.everything:
            return
        self.told(f"trying {len(groups)} groups that are fused")
        rests = [rest for group in groups if len(rest := [at for at in group if at not in blamed]) > 1]
        for at, judgement in locator.each(rests, self.mode).items():
            if judgement.wrong:
                self._group(locator, rests[at], blamed)
                if self.parts and not self.settings.everything:
                    return
        if symptom is not None and not self.parts:
            self._whole_as_group(locator, symptom)
        if not self.parts:
            self._drift(locator, symptom)

    def _totals(self, locator: Locator) -> list[list[int]]:
        """Put the error along the model into the table; gives the groups that plugins fuse."""
        self.told("running the model with every value kept")
        everything = list(range(len(self.sliced.nodes)))
        once = Mode(optimize=self.mode.optimize)
        whole = locator.try_units([everything], once)
        groups = []
        for _, names in whole.groups:
            numbers = [self.sliced.numbers[name] for name in names if name in self.sliced.numbers]
            if len(numbers) > 1:
                groups.append(sorted(numbers))
        owners = {name: ep for ep, names in whole.groups for name in names}
        for row in self.result.nodes:
            row.ep_name = self._owner(row.index, owners)
        if self.judge.target.target.libraries and set(owners.values()) == {DEFAULT_PROVIDER}:
            self.result.notes.append(_NONE_TAKEN)
        model, feed, _ = self.sliced.cut(
            [everything],
            locator.values,
            extra=[name for node in self.sliced.nodes for name in node.output if name],
        )
        if sum(locator.values.bytes.values()) > self.settings.budget:
            self.result.notes.append(
                "The model's values are larger than the memory that the search may use: the error along the "
                "model is left out, and nodes are tried in several parts."
            )
            return groups
        kept = self.judge.judge(model, [feed], once, [locator.values], None, locator.values.shapes)
        if kept.kind not in ("right", "numbers"):
            self.result.notes.append(f"With every value kept the model shows {kept.kind}: {kept.message}")
            return groups
        for row, node in zip(self.result.nodes, self.sliced.nodes, strict=True):
            row.total = worst(kept.measures[name] for name in node.output if name in kept.measures)
            if row.total is not None and row.total.ratio > 1 and not self.result.first:
                self.result.first = f"{row.name} ({row.op_type})"
        if groups and {tuple(names) for _, names in kept.groups} != {
            tuple(names) for _, names in whole.groups
        }:
            self.result.notes.append(
                "Nodes are fused otherwise where every value is kept: the error in all is that of such a run."
            )
        return groups

    def _owner(self, at: int, owners: Mapping[str, str]) -> str:
        """Who runs a node; of one with a body who runs what is in it, but for the host's own provider."""
        node = self.sliced.nodes[at]
        within = {owners[name] for name in names_within(node, self.sliced.functions) if name in owners}
        plugins = sorted(within - {DEFAULT_PROVIDER})
        return ", ".join(plugins) or owners.get(node.name) or next(iter(within), "")

    def _note(
        self, locator: Locator, units: Sequence[Sequence[int]], single: Mapping[int, Judgement]
    ) -> None:
        owners: dict[str, str] = {}
        groups: object = None
        for at, judgement in single.items():
            if judgement.groups is not groups:  # Nodes that were tried together have the same.
                groups = judgement.groups
                owners = {name: ep for ep, names in judgement.groups for name in names}
            for number in units[at]:
                row = self.result.nodes[number]
                made = [
                    judgement.measures[n] for n in self.sliced.nodes[number].output if n in judgement.measures
                ]
                row.own = worst(made)
                own = self._owner(number, owners)
                row.ep_name = row.ep_name or own
                if own not in ("", row.ep_name):
                    row.note = f"by itself on {own}"
        for number, why in locator.unjudged.items():
            self.result.nodes[number].note = f"not tried by itself: {why}"

    def _settle_precision(self, units: Sequence[Sequence[int]], single: Mapping[int, Judgement]) -> None:
        """Say what a plugin computes products in: to be off throughout, and as rounding is, is no fault."""
        products = [
            measure
            for at, judgement in single.items()
            if any(self.sliced.nodes[n].op_type in _PRODUCTS for n in units[at])
            for measure in judgement.measures.values()
            if measure.elements > 1
        ]
        off = [measure for measure in products if measure.ratio > 1]
        if not off or len(off) * 2 < len(products) or not all(map(like_rounding, off)):
            return
        for precision in PRECISIONS[1:]:
            factor = precision.roundoff / PRECISIONS[0].roundoff
            if all(measure.ratio <= factor for measure in off):
                self.judge.precision = precision
                self.result.precision = precision.name
                return

    def _suspects(self, locator: Locator, suspects: Sequence[Sequence[int]]) -> list[Part]:
        """Those of the parts that are wrong beyond what the reference's own rounding explains."""
        found: list[Part] = []
        looked: dict[str, list[bool]] = {}
        for unit in suspects:
            operator = "+".join(self.sliced.nodes[at].op_type for at in unit)
            before = looked.setdefault(operator, [])
            if len(before) >= _CONFIRMED and all(before):
                judgement = locator.try_units([unit], self.mode)
                if judgement.wrong:
                    model, feed = locator.build([unit])
                    found.append(Part(list(unit), model, feed, judgement))
                continue
            self.told(f"looking at {operator} '{self.sliced.nodes[unit[0]].name}'")
            part = self._confirmed(locator, unit)
            before.append(part is not None)
            if part is not None:
                found.append(part)
            else:
                for at in unit:
                    self.result.nodes[
                        at
                    ].note = "no more than its inputs' rounding, or the reference's, explains"
        return found

    def _confirmed(self, locator: Locator, unit: Sequence[int]) -> Part | None:
        model, feed = locator.build([unit])
        exact = len(unit) == 1 and all(
            not m.relative or not m.why or m.why.startswith(("elements", "integers"))
            for m in locator.try_units([unit], self.mode).measures.values()
        )
        floors = {} if exact else locator.floors([unit])
        for _ in range(3 if self.mode.threads > 1 else 1):
            judgement = locator.try_units([unit], self.mode, floors)
            if judgement.kind == "numbers":
                break
        else:
            return None
        if self._reference_is_off(model, feed, judgement, floors):
            names = ", ".join(self.sliced.nodes[at].name for at in unit)
            self.result.notes.append(
                f"{names}: {self.judge.against.target.label} is off there, and not the plugin: the reference "
                "operators agree with the plugin."
            )
            return None
        return Part(list(unit), model, feed, judgement)

    def _reference_is_off(
        self,
        model: onnx.ModelProto,
        feed: Mapping[str, Any],
        judgement: Judgement,
        floors: Mapping[str, float],
    ) -> bool:
        """A third opinion: whether ONNX's reference operators agree with the target."""
        third = named_target("reference")
        assert third is not None
        if self.judge.against.target.environment == third.environment or self.mode.threads > 1:
            return False
        if self._third is None:
            self._third = Worker(third)
        answer = self._third.attempt(Trial(self.judge.packer.pack(model), [dict(feed)]), self.judge.limit)
        if answer.status != "ok":
            return False
        with_third = self.judge.judge(model, [feed], self.mode, [answer.values], {**floors, "\0third": 0.0})
        return with_third.kind == "right"

    def _group(self, locator: Locator, rest: list[int], blamed: set[int]) -> None:
        """Look for what is right by itself and wrong together in a group, until nothing is left."""
        symptom = Symptom("numbers")
        while len(rest) > 1:
            if not locator.shows([rest], symptom, self.mode):
                return
            if self._confirmed(locator, rest) is None:
                return
            self.told(f"looking into a group of {len(rest)} nodes")
            part = locator.together(rest, symptom, self.mode)
            if part is None:
                return
            if (sure := self._confirmed(locator, part.nodes)) is None:
                part = Part(list(rest), *locator.build([rest]), locator.try_units([rest], self.mode))
                self._blame(symptom, part, fused=True)
                return
            self._blame(symptom, sure, fused=len(sure.nodes) > 1)
            blamed.update(sure.nodes)
            rest = [at for at in rest if at not in set(sure.nodes)]
            if not self.settings.everything:
                return

    def _whole_as_group(self, locator: Locator, symptom: Symptom) -> None:
        everything = list(range(len(self.sliced.nodes)))
        self._group(locator, everything, set())

    def _drift(self, locator: Locator, symptom: Symptom | None) -> None:
        """Errors that are too small to be wrong each, and all go one way."""
        alike: dict[tuple[str, str], list[NodeError]] = {}
        for row in self.result.nodes:
            own = row.own
            rounded_once = row.op_type in _ROUNDED_ONCE
            if (
                own is None
                or own.elements < 8
                or not (rounded_once or (symptom and row.op_type in _UNBIASED))
            ):
                continue
            if abs(own.bias) >= _DRIFT and own.roundings >= 1.5:
                alike.setdefault((row.op_type, row.ep_name), []).append(row)
        for rows in alike.values():
            if len(rows) < 3:
                continue
            nodes = [row.index for row in rows]
            part = Part(
                nodes, *locator.build([sorted(nodes)]), locator.try_units([[n] for n in nodes], self.mode)
            )
            self._blame(
                Symptom("numbers"), part, fused=False,
                note="each error is small, but they go one way and add up",
            )  # fmt: skip
            return

    def _other(self, locator: Locator, symptom: Symptom) -> None:
        """Find the parts that crash, fail, hang, leak or are slow."""
        units = self.sliced.single_units()
        left = self._of_plugins([unit for unit in units if locator.usable(unit)], symptom)
        while left:
            self.told(f"trying {len(left)} nodes by themselves")
            part = locator.apart(left, symptom, self.mode)
            if part is None:
                break
            self._blame(symptom, part, fused=len(part.nodes) > 1)
            blamed = set(part.nodes)
            left = [unit for unit in left if not blamed.intersection(unit)]
            if not self.settings.everything:
                return
        if self.parts:
            return
        self.told("trying nodes together")
        everything = list(range(len(self.sliced.nodes)))
        part = locator.together(everything, symptom, self.mode)
        if part is None:
            model, feed = locator.build([everything])
            judgement = locator.try_units([everything], self.mode)
            if not symptom.shown_by(judgement):
                return
            part = Part(everything, model, feed, judgement)
        self._blame(symptom, part, fused=len(part.nodes) > 1)

    def _of_plugins(self, units: list[list[int]], symptom: Symptom) -> list[list[int]]:
        """Those that plugins take, where opening the model still tells who takes what."""
        if symptom.stage in ("", "opening", "registering"):
            return units
        data = self.judge.packer.pack(self.sliced.model)
        verdict = self.judge.target.attempt(Trial(data, [], optimize=self.mode.optimize), self.judge.limit)
        self._owners = {name: ep for ep, names in verdict.groups for name in names}
        taken = {name for name, ep in self._owners.items() if ep != DEFAULT_PROVIDER}
        return [unit for unit in units if any(self.sliced.nodes[at].name in taken for at in unit)] or units

    # ---- saying it ----

    def _add_alike(self, symptom: Symptom, parts: Sequence[Part]) -> None:
        """One fault for the nodes of an operator that are wrong by themselves."""
        alike: dict[tuple[str, ...], list[Part]] = {}
        for part in parts:
            alike.setdefault(tuple(self.sliced.nodes[at].op_type for at in part.nodes), []).append(part)
        for same in alike.values():
            first = same[0]
            groups = [group for part in same for group in part.judgement.groups]
            merged = replace(
                first,
                nodes=[at for part in same for at in part.nodes],
                judgement=replace(first.judgement, groups=groups),
            )
            self._blame(symptom, merged, fused=False)

    def _blame(self, symptom: Symptom, part: Part, fused: bool, note: str = "") -> None:
        names = [self.sliced.nodes[at].name for at in part.nodes]
        owners = {**self._owners, **{name: ep for ep, group in part.judgement.groups for name in group}}
        eps = dict.fromkeys(self._owner(at, owners) or self.result.nodes[at].ep_name for at in part.nodes)
        said = part.judgement.message
        fault = Fault(
            replace(symptom, message=said or symptom.message, stage=part.judgement.stage or symptom.stage),
            tuple(names),
            tuple(dict.fromkeys(self.sliced.nodes[at].op_type for at in part.nodes)),
            ", ".join(filter(None, eps)) or self.judge.target.target.label,
            fused,
            self.mode,
            worst(part.judgement.measures.values()),
            note,
        )
        self.parts.append((fault, part))
        self.result.faults.append(fault)


def worst(measures: Any) -> Measure | None:
    """The measure with the largest ratio, or of equal ones the largest error."""
    return max(measures, key=lambda m: (m.ratio, m.relative), default=None)


def like_rounding(measure: Measure) -> bool:
    """Whether an error is spread over elements and signs, as rounding is, and is not at single ones."""
    if not math.isfinite(measure.ratio) or measure.largest == 0:
        return False
    return abs(measure.bias) < 0.3 and measure.mean > 0.02 * measure.largest
