"""The search as a whole: what programs and the command line call."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ephost.bisection.feeds import check_numbers, complete, left_open, read_feeds, require_dimensions
from ephost.bisection.judging import SYMPTOMS, Clock, Judge, Memory
from ephost.bisection.locating import Part, turned
from ephost.bisection.packing import Packer
from ephost.bisection.page import page_of
from ephost.bisection.repro import remove_repro, write_repro
from ephost.bisection.results import Bisection, Fault, NodeError, Repro
from ephost.bisection.searching import Search, Settings
from ephost.bisection.shrinking import Case, Shrinker
from ephost.bisection.slicing import Sliced, lineages
from ephost.bisection.targets import HOSTS, Library, Target, named_target, plugin_target, told_apart
from ephost.errors import InvalidArgument
from ephost.interrupts import interrupts_kept
from ephost.saving import write_text
from ephost.suggestions import did_you_mean

__all__ = ["Bisection", "Fault", "Library", "NodeError", "Repro", "Target", "bisect"]

_SHRINKING = 240.0  # seconds
_HANG = (
    4.0  # seconds after which what is known to hang is taken to do so again, or ten times what others take
)


@interrupts_kept()
def bisect(
    model: Any,
    target: Target | str,
    *,
    against: Target | str = "cpu",
    inputs: Iterable[Mapping[str, Any] | str | os.PathLike[str]] = (),
    dimensions: Mapping[str, int] | None = None,
    seed: int = 0,
    symptom: str = "",
    everything: bool = False,
    timeout: float = 60.0,
    memory: int = 1 << 30,
    shrink: bool = True,
    probes: bool = True,
    output: str | os.PathLike[str] | None = None,
    resume: bool = False,
    told: Callable[[str], None] | None = None,
) -> Bisection:
    """Find the smallest part of a model that goes wrong.

    Every try takes place in a process of its own, or in one for several where the symptom cannot end it.

    Args:
        model: a path, bytes or a ``ModelProto``.
        target: where it goes wrong: a :class:`Target`, a plugin library's path, or a package that has
            ``get_library_path()``.
        against: what is right: ``reference`` (ONNX's reference operators), ``cpu`` (the bundled plugin),
            ``onnxruntime`` (its CPU provider), or another target.
        inputs: feeds, each a mapping or the path of an ``.npz`` file. The first that shows something wrong
            is taken. Inputs that are in none are made up.
        dimensions: sizes of the inputs' named dimensions, for made-up inputs.
        seed: of made-up inputs.
        symptom: ``numbers``, ``error``, ``crash``, ``hang``, ``leak`` or ``slow``; by default whichever
            shows. A slow run is only looked for when it is asked for.
        everything: look for more faults when one is found.
        timeout: seconds that opening a model may take, and each run of it: more is a hang.
        memory: bytes of values to hold at once.
        shrink: reduce what is found.
        probes: also run twice at once, and look for leaks, where single runs are right.
        output: a folder for what is found, and for the state of the search.
        resume: go on with the search whose state that folder holds.
        told: is called with what is being done.

    Returns:
        What was found.

    Raises:
        Fail: the model cannot be read, the reference cannot run it, or the symptom that was asked for is not
            there.
        InvalidArgument: no such symptom, target or input; a seed or time limit that can be none.
    """
    if symptom and symptom not in SYMPTOMS:
        meant = did_you_mean(symptom, SYMPTOMS)
        raise InvalidArgument(f"there is no symptom {symptom!r}{meant}: there are {', '.join(SYMPTOMS)}")
    check_numbers(seed, timeout)
    if resume and output is None:
        raise InvalidArgument("a search that is to go on needs the folder of its output")
    here, there = told_apart(_target(target), _target(against))
    say = told or (lambda text: None)
    sliced = Sliced.load(model)
    sizes = dimensions or {}
    require_dimensions(sliced, sizes)
    given = read_feeds(sliced, inputs)
    feeds = [complete(sliced, each, sizes, seed + at) for at, each in enumerate(given)]
    if not feeds:
        feeds = [complete(sliced, {}, sizes, seed, kind) for kind in ("normal", "odd")]
    name = str(model) if isinstance(model, str | os.PathLike) else sliced.model.graph.name or "the model"
    result = Bisection(name, here.label, there.label, None, folder=None if output is None else Path(output))
    if opened := left_open(sliced, given[0] if given else {}, sizes):
        result.notes.append(
            f"Open sizes of inputs that were made up are 1, where --dim says nothing: {opened}."
        )
    clock = Clock()
    with tempfile.TemporaryDirectory(prefix="ephost-bisect-") as scratch:
        folder = Path(scratch)
        if output is not None:
            Path(output).mkdir(parents=True, exist_ok=True)
            folder = Path(output, "state")
            folder.mkdir(exist_ok=True)
        if resume and not (folder / "judged.jsonl").exists():
            result.notes.append(f"{output} holds no search to go on with: this one began anew.")
        judged = Memory(folder / "judged.jsonl" if output is not None else None, resume)
        if output is not None and not resume:
            for old in Path(output).glob("fault[1-9]*"):
                remove_repro(old)
        models = Packer(folder / "models")
        judge = Judge(here, there, judged, timeout, models)
        settings = Settings(everything, symptom, memory, probes=probes)
        search = Search(sliced, judge, settings, folder, result, say)
        try:
            result.symptom = search.recognise(feeds)
            if result.symptom is not None and result.symptom.kind == "hang":
                judge.limit = min(timeout, max(_HANG, judge.against.slowest * 10))
            result.symptom = search.choose_form(result.symptom)
            search.run(result.symptom)
            if shrink:
                for number, (fault, part) in enumerate(search.parts):
                    if number == 0 or everything:
                        where = None if output is None else Path(output, f"fault{number + 1}")
                        fault.repro = _reduced(judge, search, fault, part, where, say, result)
        finally:
            search.close()
            judge.close()
            judged.close()
            shutil.rmtree(models.folder, ignore_errors=True)
            result.seconds = clock.seconds
            result.run_seconds = judge.target.run_seconds + judge.against.run_seconds
            result.loading_seconds = judge.target.loading_seconds + judge.against.loading_seconds
            result.tries, result.node_runs = judge.tries, judge.node_runs
            if output is not None:  # also of a search that is interrupted
                with _told(result, page := Path(output, "index.html")):
                    write_text(page, page_of(result).html())
                with _told(result, found := Path(output, "result.json")):
                    write_text(found, json.dumps(result.to_dict(), indent=1, default=str) + "\n")
    return result


@contextmanager
def _told(result: Bisection, path: Path) -> Iterator[None]:
    """Have the result say what cannot be written: what was found took longer than that, and is not lost."""
    try:
        yield
    except OSError as error:
        result.is_written = False
        result.notes.append(f"{path} cannot be written: {error.strerror or error}")


def _target(given: Target | str) -> Target:
    if isinstance(given, Target):
        if given.host not in HOSTS:
            raise InvalidArgument(f"there is no host {given.host!r}{did_you_mean(given.host, HOSTS)}")
        return given
    return named_target(given) or plugin_target(given)


def _reduced(
    judge: Judge,
    search: Search,
    fault: Fault,
    part: Part,
    folder: Path | None,
    told: Callable[[str], None],
    result: Bisection,
) -> Repro | None:
    """The least that shows a fault, written into a folder if there is one."""
    shrinker = Shrinker(judge, fault.symptom, _SHRINKING, told)
    case = Case(part.model, dict(part.feed), fault.mode, judge.target.target)
    if shrinker.shown(case) is None:
        fault.note = fault.note or "it does not show again in these nodes alone"
        return None
    case = shrinker.shrink(case)
    shown = shrinker.shown(case)
    seconds = shown.run_seconds - shown.excess / 2 if shown and fault.symptom.kind == "slow" else 0.0
    told("trying the reduced model in both hosts")
    hosts = [judge.target.target.host]
    for host in HOSTS:
        if host not in hosts and case.target.libraries:
            feeds = [case.feed, turned(case.feed)] if case.mode.threads > 1 else [case.feed]
            judgement = judge.judge(case.model, feeds, case.mode, target=case.target.in_host(host))
            if fault.symptom.shown_by(judgement, elsewhere=True):
                hosts.append(host)
    if folder is not None:
        wanted, folder = folder, None
        with _told(result, wanted):
            _write(judge, fault, case, tuple(hosts), wanted, seconds)
            folder = wanted
    return Repro(
        len(case.model.graph.node),
        tuple(node.op_type for node in case.model.graph.node),
        folder,
        tuple(hosts),
        tuple(case.steps),
        tuple(f"{key}={value}" for each in case.target.libraries for key, value in each.options.items()),
    )


def _write(
    judge: Judge, fault: Fault, case: Case, hosts: tuple[str, ...], folder: Path, seconds: float
) -> None:
    feeds = [case.feed, turned(case.feed)] if case.mode.threads > 1 else [case.feed]
    expected = judge.expected(case.model, feeds) or [{} for _ in feeds]
    known = [*expected[0].items(), *case.feed.items()]
    made = lineages(case.model, {name: each.shape for name, each in known if isinstance(each, np.ndarray)})
    tolerances = {key: judge.allowed(made[key], value) for key, value in expected[0].items() if key in made}
    write_repro(
        folder,
        case,
        fault.symptom,
        fault.headline(),
        hosts,
        list(feeds),
        list(expected),
        tolerances,
        _hardware(),
        seconds,
    )


def _hardware() -> Any:
    """What the environment says that the machine has; a program for a vendor has to say it, too."""
    text = os.environ.get("EPHOST_HARDWARE_DEVICES", "")
    if not text:
        return None
    if os.path.exists(text):
        text = Path(text).read_text()
    return json.loads(text)
