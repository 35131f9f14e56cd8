"""Checking a plugin: which checks, in which order, in how many processes."""

from __future__ import annotations

import fnmatch
import functools
import itertools
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ephost.checking.processes import Server
from ephost.checking.registry import SHIP, Check, all_checks
from ephost.checking.report import Report
from ephost.checking.settings import Settings
from ephost.checking.subject import Given
from ephost.checking.verdicts import PASS, SKIPPED, TIMED_OUT, WARNING, WRONG, Outcome
from ephost.errors import InvalidArgument
from ephost.own_processes import module_command, module_environment
from ephost.suggestions import did_you_mean

FUZZ = "fuzz.model"
OFFERED = "devices.offered"
TIMEOUT = 30.0  # seconds for a check
_GENERATING = 300.0  # for the standard's cases, all of them
Told = Callable[[Outcome, int, int], None]


@dataclass
class Plan:
    """What to check, and how."""

    given: Given
    hosts: Sequence[str] = ("ephost",)
    level: int = SHIP
    only: Sequence[str] = ()
    exclude: Sequence[str] = ()
    jobs: int = 1
    timeout: float = TIMEOUT
    seed: int = 0
    settings: Settings = field(default_factory=Settings)
    fuzz: float = 0.0  # seconds in which models are drawn at random, and nothing else is done


def chosen(
    level: int = SHIP, only: Sequence[str] = (), exclude: Sequence[str] = (), host: str = ""
) -> list[Check]:
    """The checks up to a level whose names match; those that ``only`` names are done at any level.

    Raises:
        InvalidArgument: a pattern matches no check.
    """
    known = all_checks()
    for pattern in (*only, *exclude):
        if not any(_matches(name, [pattern]) for name in known):
            raise InvalidArgument(f"no check is called {pattern!r}{did_you_mean(pattern, known)}")
    return [
        made
        for name, made in known.items()
        if (_matches(name, only) if only else made.level <= level)
        and not _matches(name, exclude)
        and (not host or host in made.hosts)
    ]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(
        name == pattern or fnmatch.fnmatchcase(name, pattern) or name.partition(".")[0] == pattern
        for pattern in patterns
    )


class _Cases:
    """The standard's cases, made by a process of its own while other checks run."""

    def __init__(self, wanted: bool) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ephost-check-") if wanted else None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        if self._folder is not None:
            self._process = subprocess.Popen(
                module_command("ephost.checking.cases", self._folder.name),
                env=module_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def folder(self) -> str:
        """Where they are, once they are complete; "" without any."""
        with self._lock:
            if self._process is None or self._folder is None:
                return ""
            self._process.wait(_GENERATING)
            return self._folder.name

    def close(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
        if self._folder is not None:
            self._folder.cleanup()


def check_plugin(plan: Plan, told: Told = lambda outcome, done, total: None) -> Report:
    """Check a plugin; ``told`` hears of each outcome, the number of those so far, and of all.

    Raises:
        InvalidArgument: a pattern matches no check.
        Fail: processes cannot be started.
    """
    began = time.monotonic()
    only = [FUZZ] if plan.fuzz else plan.only
    work = [(host, chosen(plan.level, only, plan.exclude, host)) for host in plan.hosts]
    outcomes: list[Outcome] = []
    facts: dict[str, dict[str, Any]] = {}
    lock = threading.Lock()

    def hear(outcome: Outcome) -> None:
        outcome = plan.settings.judged(outcome)
        with lock:
            outcomes.append(outcome)
            told(outcome, len(outcomes), sum(len(checks) for _, checks in work))

    cases = _Cases(any(made.cases for _, checks in work for made in checks))
    try:
        for host, checks in work:
            given = replace(plan.given, host=host)
            servers = [Server(host) for _ in range(max(1, min(plan.jobs, len(checks))))]
            try:
                facts[host] = servers[0].probe(given, plan.timeout)
                offered = _without_devices(plan, facts[host], checks)
                checks += offered
                if plan.fuzz:
                    _fuzz(plan, given, facts[host], servers, hear)
                    _perform(plan, given, facts[host], offered, servers, cases, hear)
                else:
                    _perform(plan, given, facts[host], checks, servers, cases, hear)
            finally:
                for server in servers:
                    server.close()
    finally:
        cases.close()
    order = {name: at for at, name in enumerate(all_checks())}
    outcomes.sort(key=lambda outcome: (list(plan.hosts).index(outcome.host), order[outcome.check]))
    return Report(plan.given, outcomes, facts, plan.level, plan.seed, time.monotonic() - began)


def _without_devices(plan: Plan, facts: Mapping[str, Any], checks: Sequence[Check]) -> list[Check]:
    """What fails where the checks that were asked for would all be skipped: for want of a device."""
    made = all_checks()[OFFERED]
    if facts.get("devices") or made in checks or _matches(OFFERED, plan.exclude):
        return []
    return [made] if any(check.needs for check in checks) else []


def _fuzz(
    plan: Plan,
    given: Given,
    facts: Mapping[str, Any],
    servers: Sequence[Server],
    hear: Callable[[Outcome], None],
) -> None:
    """Draw models for a time, one seed after the other; what is right is told as one outcome."""
    made = all_checks()[FUZZ]
    seeds = itertools.count(plan.seed)
    until = time.monotonic() + plan.fuzz
    right: list[Outcome] = []
    lock = threading.Lock()

    def serve(server: Server) -> None:
        while time.monotonic() < until:
            with lock:
                seed = next(seeds)
            outcome = perform(server, made, given, facts, plan.timeout, seed)
            if outcome.status in WRONG:
                hear(outcome)
            else:
                right.append(outcome)
                if outcome.status == SKIPPED:
                    return

    _in_threads([functools.partial(serve, server) for server in servers])
    if right:
        counts = {status: sum(o.status == status for o in right) for status in (PASS, WARNING, SKIPPED)}
        last = max(right, key=lambda outcome: outcome.seed)
        worst = next((o for o in right if o.status != PASS), last)
        told = ", ".join(f"{number} {status}" for status, number in counts.items() if number)
        text = (
            f"{len(right)} models from seed {plan.seed} on: {told}{'; ' * bool(worst.message)}{worst.message}"
        )
        hear(replace(worst, message=text, numbers={}, seed=worst.seed if worst.status != PASS else plan.seed))


def _in_threads(works: Sequence[Callable[[], None]]) -> None:
    """Do several things at once; raises what one of them raised."""
    failed: list[BaseException] = []

    def work(act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(act,), daemon=True) for act in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.2)  # so that Ctrl-C is heard
    if failed:
        raise failed[0]


def _perform(
    plan: Plan,
    given: Given,
    facts: Mapping[str, Any],
    checks: Sequence[Check],
    servers: Sequence[Server],
    cases: _Cases,
    hear: Callable[[Outcome], None],
) -> None:
    """Do checks in several processes at once; what ran out of time is done once more, alone."""
    waiting: queue.SimpleQueue[Check] = queue.SimpleQueue()
    for made in sorted(checks, key=lambda made: bool(made.cases)):
        waiting.put(made)
    again: list[Check] = []
    stop = threading.Event()

    def once(server: Server, made: Check) -> Outcome:
        folder = cases.folder() if made.cases and not missing(made, facts) else ""
        limit = plan.settings.timeout_of(made.name, plan.timeout)
        return perform(server, made, given, facts, limit, plan.seed, folder)

    def serve(server: Server) -> None:
        try:
            while not stop.is_set():
                try:
                    made = waiting.get_nowait()
                except queue.Empty:
                    return
                outcome = once(server, made)
                if outcome.status == TIMED_OUT and len(servers) > 1:
                    again.append(made)
                else:
                    hear(outcome)
        except BaseException:
            stop.set()
            raise

    try:
        _in_threads([functools.partial(serve, server) for server in servers])
    finally:
        stop.set()
    for made in again:
        outcome = once(servers[0], made)
        if not outcome.is_wrong:
            note = f"not done in time beside other checks, and done in {outcome.seconds:.3g} s alone"
            outcome.notes.append(note)
            if outcome.status != SKIPPED:
                outcome.status, outcome.message = WARNING, outcome.message or note
        hear(outcome)


def perform(
    server: Server,
    made: Check,
    given: Given,
    facts: Mapping[str, Any],
    limit: float,
    seed: int = 0,
    cases: str = "",
) -> Outcome:
    """Do a check, unless it makes no sense with what is known of the plugin."""
    if reason := missing(made, facts):
        return Outcome(made.name, given.host, SKIPPED, reason, seed=seed)
    return server.perform(made, given, facts, limit, seed, cases)


def missing(made: Check, facts: Mapping[str, Any]) -> str:
    """Why a check makes no sense with what is known of a plugin; "" where it does."""
    if made.needs and not facts.get("devices"):
        why = facts.get("error") or facts.get("ended") or ""
        return f"the plugin cannot be used: {why}" if why else "the plugin offers no device here"
    wrong = facts.get("wrong") or {}
    if made.needs == "claim" and (wrong or facts.get("samples")):
        return ""
    if made.needs == "model" and wrong and not facts.get("samples"):
        name, reason = next(iter(wrong.items()))
        ended = f": {facts['ended']}" if facts.get("ended") else ""
        return f"it cannot run what it takes, such as the model {name!r} ({reason}{ended}): see sessions.run"
    if made.needs in ("model", "claim") and not facts.get("samples"):
        refused = facts.get("refused") or {}
        first = f" ({next(iter(refused.values()))})" if refused else ""
        if facts.get("ended"):
            first = f" ({facts['ended']})"
        return f"the plugin takes none of the models that the checks are made of{first}"
    return ""
