"""What is not given back."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.external_data_helper import set_external_data

from ephost._bindings import lib
from ephost.bisection.worker import held_memory
from ephost.checking import process_state as state
from ephost.checking.models import F, make, node
from ephost.checking.registry import check
from ephost.checking.subject import Subject, reference
from ephost.checking.verdicts import Failure, Skip
from ephost.tables import bytes_text

_WINDOWS = 3
_KINDS = range(64)  # of the host's handles


def _growth(act: Callable[[], object], rounds: int, warm: int) -> float:
    """Bytes by which memory grows in a round: the least of several windows, as caches fill once."""
    for _ in range(warm):
        act()
    least = float("inf")
    for _ in range(_WINDOWS):
        gc.collect()
        before = held_memory()[0]
        for _ in range(rounds):
            act()
        gc.collect()
        least = min(least, (held_memory()[0] - before) / rounds)
    return least


def _require_steady(
    subject: Subject,
    what: str,
    act: Callable[[], object],
    rounds: int,
    warm: int,
    most: int,
    unwise: int | None = None,
    alone: Callable[[], Callable[[], object]] | None = None,
) -> None:
    """Do something again and again, and look what is kept each time.

    Args:
        subject: what is checked.
        what: what is done, for messages.
        act: does it.
        rounds: of a measurement.
        warm: rounds before it.
        most: bytes that may be kept each time.
        unwise: bytes from which on that is a warning.
        alone: makes what does the same without the plugin; what that keeps is the host's, and does not count.

    Raises:
        Failure: more is kept.
    """
    subject.stage(f"measuring each {what}")
    grown = _growth(act, rounds, warm)
    if alone is not None and grown > (most if unwise is None else unwise):
        hosts = _growth(alone(), rounds, warm)
        subject.numbers["without the plugin"] = hosts
        grown -= max(hosts, 0)
    subject.numbers["bytes"] = grown
    told = f"each {what} keeps {bytes_text(int(grown))}"
    if grown > most:
        raise Failure(told, bytes=grown)
    if unwise is not None and grown > unwise:
        subject.warn(told)


def _require_steady_session(
    subject: Subject, act: Callable[[Any], object], size: int | str, rounds: int, most: int, what: str
) -> None:
    """The same of what is done with a session of the sample."""

    def alone() -> Callable[[], object]:
        other = subject.host.InferenceSession(subject.sample.build(size))
        return lambda: act(other)

    with subject.opened(size) as session:
        _require_steady(subject, what, lambda: act(session), rounds, rounds // 2, most, alone=alone)


@check("memory.runs", 4, needs="model")
def _runs(subject: Subject) -> None:
    """Runs give back what they allocate."""
    feeds = subject.sample.feed(4)
    _require_steady_session(subject, lambda session: session.run(None, feeds), 4, 60, 64, "run")


@check("memory.runs-of-many-sizes", 6, needs="model")
def _runs_of_many_sizes(subject: Subject) -> None:
    """Runs of open sizes that come again give back what they allocate."""
    feeds = [subject.sample.feed(n) for n in (1, 4, 9, 16)]

    def rounds(session: Any) -> None:
        for each in feeds:
            session.run(None, each)

    _require_steady_session(subject, rounds, "n", 20, 256, "round of four sizes")


@check("memory.failed-runs", 5, needs="model")
def _failed_runs(subject: Subject) -> None:
    """Runs that are refused for their inputs give back what they allocate."""
    feeds = subject.sample.feed(4)
    bad = {name: array[:, :1] for name, array in feeds.items()}

    def fail(session: Any) -> None:
        try:
            session.run(None, bad)
        except Exception:
            return
        raise Failure("a run with a wrong shape succeeds")

    _require_steady_session(subject, fail, "n", 30, 1024, "run that fails")


@check("memory.sessions", 5, needs="model")
def _sessions(subject: Subject) -> None:
    """Sessions give back what they allocate."""
    model, feeds = subject.sample.build(4), subject.sample.feed(4)
    options = subject.session_options()

    def round_() -> None:
        session = subject.host.InferenceSession(model, options, enable_fallback=0)
        session.run(None, feeds)

    def alone() -> None:
        subject.host.InferenceSession(model).run(None, feeds)

    _require_steady(subject, "session", round_, 8, 6, 1 << 14, 1 << 10, lambda: alone)


@check("memory.registrations", 6)
def _registrations(subject: Subject) -> None:
    """Registering and unregistering gives back what it allocates."""

    def round_() -> None:
        subject.register()
        subject.unregister()

    _require_steady(subject, "registration", round_, 4, 4, 1 << 20, 1 << 12)


def _use(subject: Subject) -> None:
    if subject.devices and subject.facts.get("samples"):
        _open_and_run(subject)
    subject.unregister()


def _open_and_run(subject: Subject) -> None:
    with subject.opened() as session:
        subject.run_sample(session)


@check("memory.descriptors", 5, needs="devices")
def _descriptors(subject: Subject) -> None:
    """Files that it opens are closed again."""
    _use(subject)
    before = state.descriptors()
    for _ in range(3):
        _use(subject)
    after = state.descriptors()
    left = [after[key] for key in after if key not in before]
    if len(left) >= 3:
        raise Failure(f"each use leaves files open: {', '.join(sorted(set(left))[:5])}")
    if left:
        subject.warn(f"it leaves {len(left)} files open: {', '.join(sorted(set(left))[:5])}")


@check("memory.threads", 5, needs="devices")
def _threads(subject: Subject) -> None:
    """Threads do not grow in number from one use to the next."""
    _use(subject)
    before = state.native_threads()
    for _ in range(3):
        _use(subject)
    more = state.native_threads() - before
    if more >= 3:
        raise Failure(
            f"three more uses leave {more} more threads: {', '.join(sorted(set(state.thread_names())))}"
        )


@check("memory.handles", 5, needs="devices", hosts=["ephost"])
def _handles(subject: Subject) -> None:
    """The host's objects that it made or was given are released in the end."""

    def live() -> dict[int, int]:
        gc.collect()
        return {kind: int(lib.ephost_live_handles(kind)) for kind in _KINDS}

    _use(subject)
    before = live()
    for _ in range(3):
        _use(subject)
    after = live()
    left = {kind: after[kind] - before[kind] for kind in _KINDS if after[kind] > before[kind]}
    if left:
        told = ", ".join(f"{number} of kind {kind}" for kind, number in left.items())
        subject.warn(f"three uses leave {sum(left.values())} of the host's objects unreleased ({told})")


@check("memory.given-back", 7, needs="model")
def _given_back(subject: Subject) -> None:
    """A session that ran a large size once does not hold several times its memory."""
    n = 4096
    feeds = subject.sample.feed(n)
    size = sum(array.nbytes for array in feeds.values())
    with subject.opened("n") as session:
        subject.run(session, subject.sample.feed(4))
        before = held_memory()[0]
        subject.run(session, feeds)
        gc.collect()
        held = held_memory()[0] - before
    subject.numbers["bytes"] = held
    if held > 40 * size + (64 << 20):
        subject.warn(f"after a run on {bytes_text(size)} it holds {bytes_text(held)}")


_SIDE = 128  # a weight of so many rows and columns fills whole pages, and its file is mapped, not read
_WEIGHTED = ("Mul", "Add", "MatMul", "Gemm")


def _in_files(model: bytes, folder: Path) -> str:
    """A model whose weights have a file each, which a host maps into memory while it needs them."""
    proto = onnx.ModelProto.FromString(model)
    for tensor in proto.graph.initializer:
        (folder / tensor.name).write_bytes(tensor.raw_data)
        set_external_data(tensor, tensor.name, 0, len(tensor.raw_data))
        tensor.ClearField("raw_data")
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return str(path)


@check("memory.weights-of-files", 4, needs="devices")
def _weights_of_files(subject: Subject) -> None:
    """Weights that the host may drop, since the plugin said that it packed them, are not read any more."""
    feeds = {"x": np.random.default_rng(3).standard_normal((_SIDE, _SIDE)).astype(np.float32)}
    weight = np.random.default_rng(4).standard_normal((_SIDE, _SIDE)).astype(np.float32)
    taken = 0
    for op_type in _WEIGHTED:
        shapes = {"x": (F, (_SIDE, _SIDE))}, {"y": (F, (_SIDE, _SIDE))}
        model = make([node(op_type, "x w", "y")], *shapes, {"w": weight})
        with tempfile.TemporaryDirectory() as folder:
            session = subject.open(_in_files(model, Path(folder)))
        if not subject.claimed(session):
            continue
        taken += 1
        gc.collect()
        for _ in range(2):
            subject.require_equal(subject.run(session, feeds), reference(model, feeds), op_type, [op_type])
        del session
    if not taken:
        raise Skip("the plugin takes none of the nodes with a weight")
