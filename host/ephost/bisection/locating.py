"""Finding the nodes that make a symptom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from ephost.bisection.judging import Judge, Judgement, Mode, Symptom
from ephost.bisection.reference_values import ReferenceValues, pieces
from ephost.bisection.slicing import Sliced

Unit = Sequence[int]
_FAILED_PARTS = 48  # parts that cannot be tried by themselves, after which no more are looked for


def smallest(items: Sequence[Any], shows: Callable[[list[Any]], bool], tries: int = 400) -> list[Any]:
    """Items of which none can go: Zeller's delta debugging, for items that show the symptom together."""
    kept = list(items)
    parts = 2
    while len(kept) >= 2 and tries > 0:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            if not rest:
                continue
            tries -= 1
            if shows(rest):
                kept, parts = rest, max(parts - 1, 2)
                break
            if tries <= 0:
                return kept
        else:
            if parts >= len(kept):
                break
            parts = min(len(kept), parts * 2)
    return kept


def shortest_prefix(count: int, shows: Callable[[int], bool]) -> int:
    """The least number of first items that show a symptom which all ``count`` of them show."""
    least, most = 0, count
    while most - least > 1:
        middle = (least + most) // 2
        if shows(middle):
            most = middle
        else:
            least = middle
    return most


@dataclass
class Part:
    """Nodes with what they are given, and what came of them."""

    nodes: list[int]
    model: onnx.ModelProto
    feed: dict[str, Any]
    judgement: Judgement


@dataclass
class Locator:
    """Tries parts of a model."""

    sliced: Sliced
    judge: Judge
    values: ReferenceValues
    budget: int
    failed: int = 0
    unjudged: dict[int, str] = field(default_factory=dict)  # the first node of a part -> why

    def usable(self, unit: Unit) -> bool:
        """Whether what a part needs is known."""
        return all(name in self.values for name in self.sliced.needed([unit]))

    def build(self, units: Sequence[Unit]) -> tuple[onnx.ModelProto, dict[str, Any]]:
        """A model of parts that are apart, and its feed."""
        model, feed, _ = self.sliced.cut(units, self.values)
        return model, {name: np.asarray(v) if isinstance(v, np.ndarray) else v for name, v in feed.items()}

    def try_units(
        self, units: Sequence[Unit], mode: Mode, floors: Mapping[str, float] | None = None
    ) -> Judgement:
        """Try parts at once."""
        model, feed = self.build(units)
        feeds = [feed]
        expected: list[Mapping[str, Any]] | None = [self.values]
        if mode.threads > 1:  # the other runs have to have other numbers, or nobody sees them mixed up
            feeds.append(turned(feed))
            expected = None
        return self.judge.judge(model, feeds, mode, expected, floors, self.values.shapes)

    def each(self, units: Sequence[Unit], mode: Mode) -> dict[int, Judgement]:
        """What each of the parts shows by itself, found with all of them in one model; by their places.

        Where one of them makes the others fail, they are tried in halves.
        """
        sizes = {}
        for at, unit in enumerate(units):
            if not self.usable(unit):
                self.unjudged[unit[0]] = "what it reads is not known"
                continue
            names = {*self.sliced.needed([unit]), *self.sliced.produced(unit)}
            sizes[at] = sum(self.values.bytes.get(name, 0) for name in names)
        found: dict[int, Judgement] = {}
        for piece in pieces(sizes, self.budget):
            self._each(piece, units, mode, found)
        return found

    def _each(self, piece: list[int], units: Sequence[Unit], mode: Mode, found: dict[int, Judgement]) -> None:
        if self.failed > _FAILED_PARTS:
            self.unjudged.update((units[at][0], "too many others fail by themselves") for at in piece)
            return
        judgement = self.try_units([units[at] for at in piece], mode)
        if judgement.kind in ("right", "numbers", "leak", "slow"):
            for at in piece:
                names = self.sliced.produced(units[at])
                measures = {name: judgement.measures[name] for name in names if name in judgement.measures}
                made = Judgement(measures=measures, groups=judgement.groups, run=judgement.run)
                made.kind = "numbers" if made.wrong else "right"
                found[at] = made
        elif len(piece) == 1:
            self.failed += 1
            found[piece[0]] = judgement
            self.unjudged[units[piece[0]][0]] = f"{judgement.kind}: {judgement.message}"
        else:
            half = len(piece) // 2
            self._each(piece[:half], units, mode, found)
            self._each(piece[half:], units, mode, found)

    def shows(self, units: Sequence[Unit], symptom: Symptom, mode: Mode) -> Judgement | None:
        """The judgement of parts that show a symptom, else None."""
        usable = [unit for unit in units if unit and self.usable(unit)]
        if not usable:
            return None
        for _ in range(3 if mode.threads > 1 else 1):  # what depends on timing does not show each time
            judgement = self.try_units(usable, mode)
            if symptom.shown_by(judgement):
                return judgement
        return None

    def apart(self, units: Sequence[Unit], symptom: Symptom, mode: Mode) -> Part | None:
        """One of the parts that shows a symptom by itself, or the least number of them that shows it."""
        if not self.shows(units, symptom, mode):
            return None
        count = shortest_prefix(
            len(units), lambda length: self.shows(units[:length], symptom, mode) is not None
        )
        last = units[count - 1]
        if judgement := self.shows([last], symptom, mode):
            return self._part([last], judgement)
        kept = smallest(units[:count], lambda some: self.shows(some, symptom, mode) is not None)
        judgement = self.shows(kept, symptom, mode)
        return self._part(kept, judgement) if judgement else None

    def together(self, unit: Unit, symptom: Symptom, mode: Mode) -> Part | None:
        """The least of the nodes of a part that show a symptom when they stay connected."""
        order = sorted(unit)
        if not self.shows([order], symptom, mode):
            return None
        end = shortest_prefix(
            len(order), lambda length: self.shows([order[:length]], symptom, mode) is not None
        )
        order = order[:end]
        length = shortest_prefix(
            len(order), lambda some: self.shows([order[-some:]], symptom, mode) is not None
        )
        order = order[-length:]
        kept = smallest(order, lambda some: self.shows([some], symptom, mode) is not None)
        judgement = self.shows([kept], symptom, mode)
        return self._part([kept], judgement) if judgement else None

    def _part(self, units: Sequence[Unit], judgement: Judgement) -> Part:
        model, feed = self.build(units)
        return Part(sorted(at for unit in units for at in unit), model, feed, judgement)

    def floors(self, units: Sequence[Unit]) -> dict[str, float]:
        """How far the reference's own outputs move when the inputs move by a rounding error."""
        model, feed = self.build(units)
        answers = self.judge.expected(model, [feed, trembling(feed)])
        if answers is None:
            return {}
        return responses(answers[0], answers[1])


def responses(still: Mapping[str, Any], moved: Mapping[str, Any]) -> dict[str, float]:
    """How far outputs may be off since they follow noise in the inputs: eight times what that did."""
    found = {}
    for name, value in still.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiu" and value.size:
            if moved[name].shape != value.shape:
                continue
            with np.errstate(all="ignore"):
                far = np.abs(moved[name].astype(np.float64) - value.astype(np.float64))
            found[name] = 8 * float(np.nanmax(far, initial=0.0, where=np.isfinite(far)))
    return found


def trembling(feed: Mapping[str, Any]) -> dict[str, Any]:
    """The same values off by a rounding error."""
    random = np.random.default_rng(0)
    made = {}
    for name, value in feed.items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            unit = float(np.finfo(value.dtype).eps)
            signs = random.choice([-unit, unit], value.shape)
            value = (value * (1 + signs)).astype(value.dtype)
        made[name] = value
    return made


def turned(feed: Mapping[str, Any]) -> dict[str, Any]:
    """The same numbers in the reverse order, of inputs of floating-point numbers."""
    return {
        name: np.asarray(value.ravel()[::-1].reshape(value.shape), order="C")
        if isinstance(value, np.ndarray) and value.dtype.kind == "f"
        else value
        for name, value in feed.items()
    }
