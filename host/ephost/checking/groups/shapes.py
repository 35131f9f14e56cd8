"""Sizes of tensors: 0 and 1, unaligned, large, and open ones that change from run to run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ephost.checking.models import SAMPLES, F, make, node
from ephost.checking.registry import Check, add, check
from ephost.checking.subject import Subject, reference
from ephost.checking.verdicts import Skip

_RANKS: dict[str, tuple[int, ...]] = {
    "no-dimensions": (), "one": (5,), "three": (2, 3, 4), "four": (2, 3, 4, 5), "five": (2, 1, 3, 2, 3),
    "six": (2, 1, 2, 3, 1, 2), "eight": (1, 2, 1, 2, 1, 2, 1, 3), "empty-inside": (3, 0, 4),
    "ones": (1, 1, 1),
}  # fmt: skip
_ELEMENTWISE = ("Add", "Mul", "Sub", "Relu", "Neg", "Abs", "Identity", "Sigmoid", "Exp", "Tanh")


def _fixed(n: int, level: int) -> None:
    def size(subject: Subject) -> None:
        with subject.opened(n) as session:
            subject.run_sample(session, n, f"the sample with {n} rows")

    add(Check(f"shapes.rows-{n}", f"The sample with {n} rows gives the right numbers.", level, size, "model"))


def _open(numbers: Sequence[int], name: str, level: int, text: str) -> None:
    def sizes(subject: Subject) -> None:
        with subject.opened("n") as session:
            if not subject.claimed(session):
                raise Skip("the plugin does not take the sample with an open dimension")
            for n in numbers:
                subject.run_sample(session, n, f"the open sample with {n} rows")

    add(Check(f"shapes.{name}", text, level, sizes, "model"))


def _rank(name: str, dims: tuple[int, ...]) -> None:
    def elementwise(subject: Subject) -> None:
        feeds = {"x": np.linspace(-1, 1, max(int(np.prod(dims)), 0), dtype=np.float32).reshape(dims)}
        taken = []
        for op in _ELEMENTWISE:
            names = "x x" if op in ("Add", "Mul", "Sub") else "x"
            model = make([node(op, names, "y")], {"x": (F, dims)}, {"y": (F, dims)})
            session = subject.open(model)
            if subject.claimed(session):
                taken.append(op)
                subject.require_equal(subject.run(session, feeds), reference(model, feeds), op)
        if not taken:
            raise Skip(f"the plugin takes none of {', '.join(_ELEMENTWISE)} of this shape")
        subject.numbers["taken"] = taken

    text = f"Elementwise operators of the shape {list(dims)} give the right numbers."
    add(Check(f"shapes.rank-{name}", text, 4, elementwise, "devices"))


for _n, _level in ((1, 2), (2, 2), (3, 3), (7, 3), (8, 3), (16, 3), (17, 3), (31, 4), (33, 4), (64, 4),
                   (65, 4), (127, 4), (1000, 4), (4097, 5), (20011, 7)):  # fmt: skip
    _fixed(_n, _level)
_fixed(0, 4)
_open([4], "open", 2, "The sample with an open dimension gives the right numbers.")
_open([1, 2, 3, 8, 17, 4], "open-changing", 3, "An open dimension may be another one in each run.")
_open(
    [64, 1, 64, 1, 128, 2],
    "open-large-and-small",
    4,
    "Large runs after small ones and the other way are right.",
)
_open([4, 0, 4], "open-empty", 4, "An open dimension may be 0 in a run between others.")
_open(
    [*range(1, 41)],
    "open-forty-sizes",
    5,
    "Forty sizes of an open dimension, one after the other, are right.",
)
for _name, _dims in _RANKS.items():
    _rank(_name, _dims)


def _broadcast(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    def pair(subject: Subject) -> None:
        feeds = {
            key: np.linspace(0.5, 2, int(np.prod(dims)), dtype=np.float32).reshape(dims)
            for key, dims in (("x", a), ("z", b))
        }
        taken = []
        for op in ("Add", "Mul", "Sub", "Div"):
            model = make([node(op, "x z", "y")], {"x": (F, a), "z": (F, b)}, {"y": (F, None)})
            session = subject.open(model)
            if subject.claimed(session):
                taken.append(op)
                subject.require_equal(subject.run(session, feeds), reference(model, feeds), op)
        if not taken:
            raise Skip("the plugin takes no Add, Mul, Sub or Div of these shapes")

    text = f"Arithmetic of {list(a)} and {list(b)} broadcasts as the standard says."
    add(Check(f"shapes.broadcast-{name}", text, 3, pair, "devices"))


_broadcast("row", (4, 8), (8,))
_broadcast("column", (4, 8), (4, 1))
_broadcast("scalar", (4, 8), ())
_broadcast("first", (8,), (4, 8))
_broadcast("both", (4, 1, 3), (1, 5, 1))
_broadcast("empty", (0, 8), (1, 8))


@check("shapes.all-samples-by-one", 5, needs="devices")
def _all_samples(subject: Subject) -> None:
    """Every model that it takes gives the right numbers with one row, and with five."""
    for name in subject.facts.get("samples", ()):
        for n in (1, 5):
            model, feeds = SAMPLES[name].build(n), SAMPLES[name].feed(n)
            session = subject.open(model)
            subject.require_equal(subject.run(session, feeds), reference(model, feeds), f"{name} of {n} rows")


@check("shapes.unaligned", 4, needs="model")
def _unaligned(subject: Subject) -> None:
    """Inputs that begin at an odd place of memory give the right numbers."""
    feeds = {}
    for name, array in subject.sample.feed(4).items():
        room = np.zeros(array.nbytes + 64, np.uint8)
        moved = room[4 : 4 + array.nbytes].view(array.dtype).reshape(array.shape)
        moved[...] = array
        feeds[name] = moved
    with subject.opened() as session:
        want = reference(subject.sample.build(4), feeds)
        subject.require_equal(subject.run(session, feeds), want, "inputs that are not aligned")
