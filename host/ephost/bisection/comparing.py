"""How near a model's results at one target are to those at another, over many inputs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from ephost.bisection.feeds import check_numbers, complete, read_feeds, require_dimensions
from ephost.bisection.packing import Packer
from ephost.bisection.processes import Trial, Worker
from ephost.bisection.slicing import Sliced
from ephost.bisection.targets import Target, told_apart
from ephost.bisection.worker import same_value
from ephost.errors import Fail, InvalidArgument
from ephost.pages import Grid, Page, Plot, Text
from ephost.tables import Table

_AT_ONCE = 16  # inputs whose outputs are held at once


@dataclass
class Distances:
    """How far one output is off, input by input; errors are relative to the largest number."""

    name: str
    largest: list[float] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    cosine: list[float] = field(default_factory=list)
    agreed: list[float] = field(
        default_factory=list
    )  # the share of rows whose largest number is the same one
    not_finite: int = 0  # inputs for which NaN or infinities stand elsewhere

    def add(self, got: np.ndarray, want: np.ndarray) -> None:
        """Take the values of one more input."""
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        a, b = got.astype(wide), want.astype(wide)
        fine = np.isfinite(a) & np.isfinite(b)
        self.not_finite += int(bool(((~fine) & ~((a == b) | (np.isnan(a) & np.isnan(b)))).any()))
        a, b = a[fine], b[fine]
        size = _largest(b)
        with np.errstate(over="ignore"):
            errors = np.abs(a / 2 - b / 2) / size * 2  # of two numbers whose difference may be none
        self.largest.append(float(errors.max(initial=0.0)))
        self.mean.append(float(errors.mean()) if errors.size else 0.0)
        # What is large has no square, and what is small has none but 0.
        mine, theirs = a / _largest(a), b / size
        norm = float(np.linalg.norm(mine) * np.linalg.norm(theirs))
        self.cosine.append(float(np.vdot(mine, theirs).real) / norm if norm else 1.0)
        long = [axis for axis, size in enumerate(want.shape) if size > 1]
        if long and want.size and want.dtype.kind != "c":
            same = np.argmax(got.astype(wide), long[-1]) == np.argmax(want.astype(wide), long[-1])
            self.agreed.append(float(np.mean(same)))


def _finite(value: Any) -> Any:
    """JSON has no infinities."""
    return [each if isfinite(each) else str(each) for each in value] if isinstance(value, list) else value


def _largest(values: np.ndarray) -> float:
    return float(np.abs(values).max(initial=0.0)) or 1.0


@dataclass
class Comparison:
    """What became of a comparison. ``str()`` gives a table, :meth:`to_dict` what JSON can hold."""

    model: str
    target: str
    against: str
    inputs: int
    outputs: list[Distances]
    same: dict[str, list[bool]] = field(default_factory=dict)  # of outputs that are no numbers, by input

    def headline(self) -> str:
        """One sentence."""
        return f"{self.model}: {self.target} against {self.against}, {self.inputs} inputs"

    def remarks(self) -> list[str]:
        """What is said of outputs that are no numbers."""
        return [
            f"{name} (no numbers): the same for {sum(found)} of {len(found)} inputs"
            for name, found in self.same.items()
        ]

    def table(self) -> Table:
        """A row for each output."""
        numbers = ("largest error", "mean error", "least cosine", "top-1 agreement", "not finite")
        table = Table("Outputs", ("output", *numbers), right=frozenset(numbers))
        table.rows.extend(tuple(map(str, row)) for row in self._rows())
        return table

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                each.name,
                f"{max(each.largest, default=0.0):.2g}",
                f"{np.mean(each.mean or [0.0]):.2g}",
                f"{min(each.cosine, default=1.0):.9g}",
                f"{100 * float(np.mean(each.agreed)):.2f} %" if each.agreed else "-",
                str(each.not_finite),
            )
            for each in self.outputs
        ]

    def to_dict(self) -> dict[str, Any]:
        """The same as dicts, lists and numbers."""
        outputs = [{key: _finite(value) for key, value in vars(each).items()} for each in self.outputs]
        return {**vars(self), "outputs": outputs}

    def __str__(self) -> str:
        return "\n\n".join([self.headline(), self.table().plain(), *self.remarks()])

    def page(self) -> Page:
        """What a browser shows: the table, and for each output how the errors are spread."""
        page = Page(f"ephost compare: {Path(self.model).name}", [Text([self.headline(), *self.remarks()])])
        table = self.table()
        page.parts.append(Grid(table.title, table.columns, table.rows, table.columns[1:]))
        for each in self.outputs:
            series = {"largest error": sorted(each.largest), "mean error": sorted(each.mean)}
            page.parts.append(Plot(f"{each.name}: errors", "inputs, the nearest first", series))
        return page


def compare(
    model: Any,
    target: Target,
    against: Target,
    *,
    inputs: Iterable[Mapping[str, Any] | str | Path] = (),
    count: int = 16,
    dimensions: Mapping[str, int] | None = None,
    seed: int = 0,
    timeout: float = 60.0,
    told: Callable[[str], None] | None = None,
) -> Comparison:
    """Compare a model's results at two targets, each in a process of its own.

    Args:
        model: a path, bytes or a ``ModelProto``.
        target: what is looked at.
        against: what it is compared with.
        inputs: feeds, each a mapping or the path of an ``.npz`` file. Without any they are made up.
        count: how many to make up.
        dimensions: sizes of the inputs' named dimensions, for made-up inputs.
        seed: of made-up inputs.
        timeout: seconds that opening a model may take, and each run.
        told: is called with what is being done.

    Raises:
        Fail: one of the two cannot run the model.
        InvalidArgument: there is nothing to compare; a seed or time limit that can be none.
    """
    check_numbers(seed, timeout)
    sliced = Sliced.load(model)
    require_dimensions(sliced, dimensions or ())
    given = read_feeds(sliced, inputs)
    target, against = told_apart(target, against)
    if not given and count < 1:
        raise InvalidArgument("there are no inputs to compare results for")
    number = len(given) or count
    found: dict[str, Distances] = {}
    texts: dict[str, list[bool]] = {}
    name = str(model) if isinstance(model, str | Path) else sliced.model.graph.name or "the model"
    with Worker(target) as here, Worker(against) as there, tempfile.TemporaryDirectory() as folder:
        data = Packer(Path(folder)).pack(sliced.model)
        for start in range(0, number, _AT_ONCE):
            some = [
                complete(sliced, given[at] if given else {}, dimensions or {}, seed + at)
                for at in range(start, min(start + _AT_ONCE, number))
            ]
            if told is not None:
                told(f"input {start + 1} of {number}")
            pairs = zip(
                _outputs(here, data, some, timeout), _outputs(there, data, some, timeout), strict=True
            )
            for mine, theirs in pairs:
                _measure(found, texts, mine, theirs)
    return Comparison(name, target.label, against.label, number, list(found.values()), texts)


def _outputs(
    worker: Worker, model: bytes | str, feeds: Sequence[dict[str, Any]], timeout: float
) -> list[dict[str, Any]]:
    verdict = worker.attempt(Trial(model, list(feeds), each=True, optimize=True), timeout)
    if verdict.status != "ok":
        raise Fail(
            f"{worker.target.label} cannot run the model: {verdict.status} at {verdict.stage}: "
            f"{verdict.message}"
        )
    return [values for _, _, values in verdict.runs]


def _measure(
    found: dict[str, Distances],
    texts: dict[str, list[bool]],
    mine: Mapping[str, Any],
    theirs: Mapping[str, Any],
) -> None:
    for name, want in theirs.items():
        got = mine[name]
        if not isinstance(want, np.ndarray) or want.dtype.kind in "OSU":
            texts.setdefault(name, []).append(same_value(got, want))
            continue
        if got.shape != want.shape or got.dtype != want.dtype:
            raise Fail(f"'{name}' is {got.dtype} of {got.shape}, and {want.dtype} of {want.shape} there")
        found.setdefault(name, Distances(name)).add(got, want)
