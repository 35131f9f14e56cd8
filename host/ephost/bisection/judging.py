"""Whether a model shows a symptom: tried at a target, compared with the reference, and remembered."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx

from ephost.bisection.measuring import (
    PRECISIONS,
    Measure,
    Precision,
    Tolerance,
    compare,
    draws_random_numbers,
    tolerance,
)
from ephost.bisection.packing import Packer, identity
from ephost.bisection.processes import Trial, Verdict, Worker, require_usable
from ephost.bisection.slicing import Lineage, lineages
from ephost.bisection.targets import Target
from ephost.bisection.worker import read_value
from ephost.errors import Fail

SYMPTOMS = ("numbers", "error", "crash", "hang", "leak", "slow")
_LEAKED = 24.0  # bytes a run, of what malloc has given out
_GROWN = 4096.0  # and of resident memory, which other allocators take
_ALIKE = 0.6  # of two messages of the same error


@dataclass(frozen=True)
class Mode:
    """How a model is run, beside once."""

    repeats: int = 1
    threads: int = 1
    leak: bool = False
    timed: bool = False
    optimize: bool = False

    def words(self) -> str:
        """What a person is told of it; "" for a single run."""
        found = []
        if self.repeats > 1:
            found.append(f"in one of {self.repeats} runs of a session")
        if self.threads > 1:
            found.append(f"with {self.threads} runs at once")
        return ", ".join(found)


@dataclass(frozen=True)
class Symptom:
    """What goes wrong."""

    kind: str
    stage: str = ""
    message: str = ""

    def words(self) -> str:
        """What a person is told of it."""
        named = {
            "numbers": "wrong numbers",
            "error": "an error",
            "crash": "a crash",
            "hang": "no end",
            "leak": "a leak",
            "slow": "a slow run",
        }[self.kind]
        where = {"numbers": "", "leak": "", "slow": ""}.get(
            self.kind, f" at {self.stage}" if self.stage else ""
        )
        return f"{named}{where}{': ' + self.message if self.message else ''}"

    def shown_by(self, judgement: Judgement, *, elsewhere: bool = False) -> bool:
        """Whether a judgement is one of this symptom.

        Args:
            judgement: of a try.
            elsewhere: in another host, which has words of its own around a plugin's.
        """
        if judgement.kind != self.kind:
            return False
        if self.kind in ("error", "crash", "hang") and _step(judgement.stage) != _step(self.stage):
            return False
        if self.kind == "crash":
            return judgement.message.partition(":")[0] == self.message.partition(":")[0]
        if self.kind != "error":
            return True
        told = (self.message, judgement.message)
        mine, theirs = (_plain(_WRAPPING.sub("", text) if elsewhere else text) for text in told)
        return difflib.SequenceMatcher(None, mine, theirs, autojunk=False).ratio() >= _ALIKE


# What onnxruntime and ephost say before they give a plugin's own words.
_WRAPPING = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : |Non-zero status code returned while running .*?Status Message: "
    r"|(?:the execution provider )?\S+ (?:\([^()]*\) )?failed in .*?: ",
    re.DOTALL,
)


def _step(stage: str) -> str:
    return stage.partition(" ")[0] if not stage[:1].isdigit() else "run"


def _plain(message: str) -> list[str]:
    """The words of an error but for names, numbers and paths, and for who says it."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"|\S*/\S*", " ", message)
    text = re.sub(r"[-+]?\d[\d.,x ]*", " ", text)
    return re.findall(r"[A-Za-z_]{2,}", text)


@dataclass
class Judgement:
    """What a try showed: ``kind`` is a symptom's, ``right``, or ``unjudged`` where the reference fails."""

    kind: str = "right"
    stage: str = ""
    message: str = ""
    measures: dict[str, Measure] = field(default_factory=dict)
    groups: list[tuple[str, list[str]]] = field(default_factory=list)
    seconds: float = 0.0
    run_seconds: float = 0.0  # of the shortest run
    excess: float = 0.0  # seconds that a run takes longer than at the other target
    growth: dict[str, float] = field(default_factory=dict)
    run: int = 0  # of several, the one that was wrong

    @property
    def wrong(self) -> list[str]:
        """The outputs that are wrong."""
        return [name for name, measure in self.measures.items() if measure.ratio > 1]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {**vars(self), "measures": {name: m.to_dict() for name, m in self.measures.items()}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Judgement:
        """What :meth:`to_dict` gave."""
        measures = {name: Measure.from_dict(each) for name, each in data["measures"].items()}
        groups = [(ep, list(names)) for ep, names in data["groups"]]
        return cls(**{**data, "measures": measures, "groups": groups})


class Memory:
    """The judgements that were made, in a file: a search that was interrupted goes on by asking it.

    Raises:
        Fail: another search writes that file now.
    """

    def __init__(self, path: Path | None, resume: bool) -> None:
        self.path = path
        self.known: dict[str, Any] = {}
        if path is not None and resume and path.exists():
            for line in path.read_text().splitlines():
                try:
                    key, value = json.loads(line)
                except ValueError:
                    continue  # the line that was being written
                self.known[key] = value
        self._file = None if path is None else _taken(path)
        if self._file is not None and not resume:
            self._file.truncate(0)

    def keep(self, key: str, value: Any) -> None:
        """Remember something, at once and for good."""
        self.known[key] = value
        if self._file is not None:
            try:
                self._file.write(json.dumps([key, value]) + "\n")
                self._file.flush()
            except OSError as error:
                raise Fail(
                    f"the state of the search cannot be written to {self.path}: {error.strerror}"
                ) from None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with suppress(OSError):  # of what could not be written, which was said
                self._file.close()


def _taken(path: Path) -> IO[str]:
    """A file to add to that no other process has taken like this; it is free when it is closed."""
    file = open(path, "a", encoding="utf-8")  # noqa: SIM115
    if sys.platform != "win32":
        import fcntl  # not on every system

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise Fail(
                f"another search is at work in {path.parent.parent}: give this one a folder of its own"
            ) from None
        except OSError:  # a file system without locks
            pass
    return file


def digest(*parts: Any) -> str:
    """A name for what these are."""
    made = hashlib.sha256()
    for part in parts:
        if isinstance(part, bytes):
            made.update(part)
        elif isinstance(part, np.ndarray):
            made.update(f"{part.dtype}{part.shape}".encode())
            made.update(repr(part.tolist()).encode() if part.dtype.kind == "O" else part.tobytes())
        elif isinstance(part, Mapping):
            for key in sorted(part):
                made.update(digest(str(key), part[key]).encode())
        elif isinstance(part, list | tuple):  # in words numpy leaves out the middle of large arrays
            made.update(digest(type(part).__name__, *part).encode())
        else:
            made.update(repr(part).encode())
        made.update(b"|")
    return made.hexdigest()


class Judge:
    """Tries models at a target and at what it is compared with.

    Args:
        target: where things go wrong.
        against: what is right.
        memory: of judgements.
        limit: seconds that a try may take.
        packer: of models for the processes that try them.
    """

    def __init__(self, target: Target, against: Target, memory: Memory, limit: float, packer: Packer) -> None:
        self.target, self.against = Worker(target), Worker(against)
        self.memory = memory
        self.limit = limit
        self.packer = packer
        self.fresh = False  # whether every try gets a process of its own
        self.precision: Precision = PRECISIONS[0]
        self.slow_excess = 0.0  # seconds above which a run is slow
        self.tries = 0
        self.node_runs = 0  # nodes that ran, each as often as it did

    def close(self) -> None:
        """End the processes."""
        self.target.close()
        self.against.close()

    def expected(
        self, model: onnx.ModelProto | bytes | str, feeds: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]] | None:
        """What the outputs should be for each feed, or None where the reference cannot say."""
        made = []
        data = self.packer.pack(model) if isinstance(model, onnx.ModelProto) else model
        for feed in feeds:
            verdict = self.against.attempt(Trial(data, [dict(feed)]), self.limit)
            self.node_runs += verdict.nodes
            require_usable(verdict, self.against.target)
            if verdict.status != "ok":
                return None
            made.append(verdict.values)
        return made

    def judge(
        self,
        model: onnx.ModelProto,
        feeds: Sequence[Mapping[str, Any]],
        mode: Mode,
        expected: Sequence[Mapping[str, Any]] | None = None,
        floors: Mapping[str, float] | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        target: Target | None = None,
        excuse: Callable[[], Mapping[str, float]] | None = None,
    ) -> Judgement:
        """Try a model.

        Args:
            model: to try.
            feeds: one, and another for runs at once.
            mode: how to run it.
            expected: the outputs for each feed; without them they are computed.
            floors: absolute errors to allow.
            shapes: of values inside of the model, where they are known.
            target: another target than the judge's.
            excuse: gives absolute errors to allow where outputs are wrong without them.
        """
        data = self.packer.pack(model)
        where = target or self.target.target
        key = digest(
            identity(data), *feeds, asdict(mode), repr(where.to_dict()), repr(self.against.target.to_dict()),
            self.precision.name, dict(floors or {}), excuse is not None,
        )  # fmt: skip
        if key in self.memory.known:
            return Judgement.from_dict(self.memory.known[key])
        self.tries += 1
        made = self._judge(model, data, feeds, mode, expected, floors or {}, shapes or {}, target, excuse)
        self.memory.keep(key, made.to_dict())
        return made

    def _judge(
        self,
        model: onnx.ModelProto,
        data: bytes | str,
        feeds: Sequence[Mapping[str, Any]],
        mode: Mode,
        expected: Sequence[Mapping[str, Any]] | None,
        floors: Mapping[str, float],
        shapes: Mapping[str, Sequence[int]],
        target: Target | None,
        excuse: Callable[[], Mapping[str, float]] | None,
    ) -> Judgement:
        given = [dict(feed) for feed in (feeds if mode.threads > 1 else feeds[:1])]
        if expected is None:
            expected = self.expected(data, given)
            if expected is None:
                return Judgement("unjudged", message=f"{self.against.target.label} cannot run it")
        trial = Trial(
            data,
            given,
            max(mode.repeats, 5 if mode.timed else 1),
            mode.threads,
            leak=mode.leak,
            optimize=mode.optimize,
        )
        fresh = self.fresh or mode.leak
        if target is None:
            verdict = self.target.attempt(trial, self.limit, fresh)
        else:
            with Worker(target) as worker:
                verdict = worker.attempt(trial, self.limit, True)
        self.node_runs += verdict.nodes * len(verdict.run_seconds)
        made = Judgement(
            seconds=verdict.seconds, groups=verdict.groups, stage=verdict.stage, growth=verdict.growth
        )
        if verdict.status != "ok":
            made.kind = verdict.status
            made.message = verdict.message
            return made
        made.run_seconds = min(verdict.run_seconds, default=0.0)
        self.measure(made, model, verdict, expected, floors, shapes)
        if made.wrong and excuse is not None:
            made.measures, made.run = {}, 0
            self.measure(made, model, verdict, expected, excuse(), shapes)
        if made.wrong:
            made.kind = "numbers"
        elif mode.leak and _leaks(verdict.growth):
            made.kind, made.message = "leak", _leak_words(verdict.growth)
        elif mode.timed:
            other = self.against.attempt(replace(trial, threads=1), self.limit)
            made.excess = min(verdict.run_seconds) - min(other.run_seconds, default=0.0)
            if made.excess > self.slow_excess > 0:
                made.kind, made.message = (
                    "slow",
                    f"{made.excess:.3g} s longer than at {self.against.target.label}",
                )
        return made

    def measure(
        self,
        made: Judgement,
        model: onnx.ModelProto,
        verdict: Verdict,
        expected: Sequence[Mapping[str, Any]],
        floors: Mapping[str, float],
        shapes: Mapping[str, Sequence[int]],
    ) -> None:
        """Put how far each output is from what it should be into a judgement: of several runs the worst."""
        found = lineages(model, shapes)
        for number, owner, values in verdict.runs:
            for name, got in values.items():
                want = _loaded(expected[owner].get(name))
                if want is None or name not in found:
                    continue
                if draws_random_numbers(found[name].operators):
                    continue
                allowed = self.allowed(found[name], want)
                measure = compare(name, _loaded(got), want, allowed, floors.get(name, 0.0))
                if name not in made.measures or measure.ratio > made.measures[name].ratio:
                    made.measures[name] = measure
                    made.run = number if measure.ratio > 1 else made.run

    def allowed(self, made: Lineage, want: Any) -> Tolerance:
        """How far a value may be off."""
        dtype = want.dtype if isinstance(want, np.ndarray) else np.dtype(np.float32)
        return tolerance(
            made.operators, dtype, made.terms, self.precision.roundoff, made.depth, made.coarsest
        )


def _loaded(value: Any) -> Any:
    return read_value(Path(value)) if isinstance(value, str) else value


def _leaks(growth: Mapping[str, float]) -> bool:
    return growth.get("allocated", 0) >= _LEAKED or growth.get("resident", 0) >= _GROWN


def _leak_words(growth: Mapping[str, float]) -> str:
    if growth["allocated"] >= _LEAKED:
        return f"{growth['allocated']:.0f} bytes a run are not given back"
    return f"the process grows by {growth['resident']:.0f} bytes a run"


class Clock:
    """How long a search has taken."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the search began."""
        return time.monotonic() - self._start
