"""What the plugin claims of a graph."""

from __future__ import annotations

import numpy as np

from ephost.checking.models import SAMPLES, F, chain, circle, make, node
from ephost.checking.registry import Check, add, check
from ephost.checking.subject import Subject, reference
from ephost.checking.verdicts import Failure, Skip

_RAMP = np.linspace(-1.5, 1.5, 32, dtype=np.float32).reshape(4, 8)


def _sample(name: str) -> None:
    def runs(subject: Subject) -> None:
        sample = SAMPLES[name]
        model, feeds = sample.build(4), sample.feed(4)
        session = subject.open(model)
        claimed = subject.claimed(session)
        if not claimed:
            raise Skip("the plugin takes nothing of it")
        try:
            got = subject.run(session, feeds)
        except Exception as error:
            raise Failure(
                f"it claims {', '.join(op for _, op in claimed)}, and cannot run it: {error}"
            ) from None
        subject.require_equal(got, reference(model, feeds), f"the model {name!r}")

    text = f"If it claims nodes of the model {name!r}, it opens and gives the right numbers."
    add(Check(f"claims.sample-{name}", text, 2, runs, "devices"))


for _name in SAMPLES:
    _sample(_name)


@check("claims.same-each-time", 4, needs="model")
def _same_each_time(subject: Subject) -> None:
    """Asked twice about a model, it claims the same."""
    with subject.opened() as first, subject.opened() as second:
        if subject.groups(first) != subject.groups(second):
            raise Failure(f"it takes {subject.groups(first)}, and then {subject.groups(second)}")


@check("claims.nothing-unknown", 2, needs="devices")
def _nothing_unknown(subject: Subject) -> None:
    """It leaves operators of domains that nobody knows to others."""
    strange = node("EphostCheckNoSuchOperator", "x", "s", domain="ephost.check.unknown")
    model = make([strange, node("Relu", "s", "y")], {"x": (F, (4, 8))}, {"y": (F, (4, 8))})
    try:
        session = subject.open(model)
    except Exception as error:
        if "EphostCheckNoSuchOperator" not in str(error) and "ephost.check.unknown" not in str(error):
            raise Failure(f"the error is about something else: {error}") from None
        return
    if any("NoSuch" in op for _, op in subject.claimed(session)):
        raise Failure("it claims an operator that nobody knows")


def _graph(name: str, level: int, text: str, model: bytes, feeds: dict[str, np.ndarray]) -> None:
    def claims(subject: Subject) -> None:
        session = subject.open(model)
        subject.numbers["claimed"] = subject.groups(session)
        subject.require_equal(subject.run(session, feeds), reference(model, feeds), "the model")

    add(Check(f"claims.{name}", text, level, claims, "devices"))


def _diamond() -> bytes:
    nodes = [
        node("Relu", "x", "a"), node("Neg", "a", "b"), node("Sigmoid", "a", "c"), node("Det", "a", "d"),
        node("Mul", "b d", "e"), node("Add", "e c", "f"), node("Sub", "f b", "y"),
    ]  # fmt: skip
    return make(nodes, {"x": (F, (4, 4))}, {"y": (F, (4, 4))})


def _two_parts() -> bytes:
    nodes = [node("Add", "x x", "a"), node("Relu", "a", "y"), node("Mul", "z z", "b"), node("Neg", "b", "w")]
    return make(nodes, {"x": (F, (4, 8)), "z": (F, (4, 8))}, {"y": (F, (4, 8)), "w": (F, (4, 8))})


def _many_readers() -> bytes:
    nodes = [node("Add", "x x", "a")]
    nodes += [node("Mul", "a x", f"m{at}") for at in range(12)]
    nodes.append(node("Sum", " ".join(f"m{at}" for at in range(12)), "y"))
    return make(nodes, {"x": (F, (4, 8))}, {"y": (F, (4, 8)), "a": (F, (4, 8)), "m3": (F, (4, 8))})


_SQUARE = {"x": np.linspace(-1, 2, 16, dtype=np.float32).reshape(4, 4)}
_graph(
    "convex",
    3,
    "Groups that it claims do not wait for themselves around a node of others.",
    circle(),
    _SQUARE,
)
_graph(
    "diamond",
    3,
    "Branches that meet again, with a node of others in one, give the right numbers.",
    _diamond(),
    _SQUARE,
)
_graph(
    "two-parts",
    3,
    "A model of two parts that do not touch gives the right numbers.",
    _two_parts(),
    {"x": _RAMP, "z": _RAMP + 2},
)
_graph(
    "many-readers",
    3,
    "A value with many readers that is an output too is right everywhere.",
    _many_readers(),
    {"x": _RAMP},
)
_graph("alternating", 3, "Operators of which it may take every other one give the right numbers.",
       chain(["Relu", "Softsign", "Neg", "Softplus", "Abs", "Erf", "Sigmoid"]), {"x": _RAMP})  # fmt: skip
_graph("same-value-twice", 3, "A node that reads a value twice gives the right numbers.",
       make([node("Mul", "x x", "y")], {"x": (F, (4, 8))}, {"y": (F, (4, 8))}), {"x": _RAMP})  # fmt: skip
