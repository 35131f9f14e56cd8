"""Trying models in processes of their own, with time limits."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from ephost.bisection.targets import Target
from ephost.errors import Fail
from ephost.own_processes import module_command, module_environment
from ephost.printed import Printed

_TELLING = re.compile("assert|error|fail|abort|terminat|fatal|exception", re.IGNORECASE)
_STARTING = 120.0  # seconds in which a process has to have registered its plugins
_LONGEST = 1e6  # seconds; the system takes milliseconds of 32 bits
_LOG = 2000  # bytes of what a process prints, of the end
_LEAVING = 30.0  # and in which it has to end
_DYING = 10.0  # how long a process may take that writes its memory to a file


@dataclass
class Trial:
    """A model, its feeds, and how it is run.

    ``feeds`` holds values, or paths of files that ``write_value`` wrote. ``threads`` runs take place at once
    after the ``repeats`` that follow each other, the second of them on the second feed. ``folder`` is where
    outputs are left as files; without one they come back in the verdict. With ``each`` every feed is
    run once.
    """

    model: bytes | str
    feeds: list[dict[str, Any]]
    repeats: int = 1
    threads: int = 1
    rounds: int = 30
    leak: bool = False
    each: bool = False
    optimize: bool = False
    optimized_path: str = ""
    folder: str | None = None


@dataclass
class Verdict:
    """What became of a trial.

    ``status`` is ``ok``, ``error``, ``crash``, ``hang``, or ``unusable`` for a target that cannot even
    register its plugins; ``runs`` has each different outcome: the number of the run and of its feed, the
    outputs.
    """

    status: str
    stage: str = ""
    message: str = ""
    seconds: float = 0.0
    open_seconds: float = 0.0
    run_seconds: list[float] = field(default_factory=list)
    groups: list[tuple[str, list[str]]] = field(default_factory=list)
    signature: list[tuple[str, str, list[Any]]] = field(default_factory=list)
    runs: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)
    growth: dict[str, float] = field(default_factory=dict)

    @property
    def nodes(self) -> int:
        """How many nodes ran, in each of the runs."""
        return sum(len(names) for _, names in self.groups)

    @property
    def values(self) -> dict[str, Any]:
        """The outputs of the first run."""
        return self.runs[0][2] if self.runs else {}


class Worker:
    """Tries models at one target: in a process that starts when it is needed, and anew after it was lost."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.run_seconds = 0.0
        self.loading_seconds = 0.0  # of starting processes, and of opening models
        self.tries = 0
        self.slowest = 0.0  # seconds that a try took which ended
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._pidfd: int | None = None  # readable when the process has ended; None where there are none
        self._log: Printed | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def attempt(self, trial: Trial, limit: float, fresh: bool = False) -> Verdict:
        """Try a model.

        Args:
            trial: what to try.
            limit: seconds that opening may take, and each run.
            fresh: in a new process, and not in one that tried others.
        """
        self.tries += 1
        if fresh:
            self.close()
        if self._process is None:
            began = time.monotonic()
            wrong = self._start()
            self.loading_seconds += time.monotonic() - began
            if wrong:
                return wrong
        assert self._connection is not None
        began = stage_began = time.monotonic()
        limit = min(limit, _LONGEST)
        stage = "opening"
        try:
            self._connection.send(vars(trial))
            while True:
                left = limit - (time.monotonic() - stage_began)
                if left <= 0 or not self._hears(self._connection, left):
                    self._end()
                    return Verdict(
                        "hang", stage, f"not done with {stage} within {limit:.3g} s", time.monotonic() - began
                    )
                kind, told = self._connection.recv()
                if kind == "stage":
                    stage, stage_began = told, time.monotonic()
                    continue
                seconds = time.monotonic() - began
                if kind == "error":
                    return Verdict("error", stage, told, seconds)
                self.run_seconds += sum(told["run_seconds"])
                self.loading_seconds += told["open_seconds"]
                self.slowest = max(self.slowest, seconds)
                verdict = Verdict("ok", "", "", seconds, **told)
                break
        except (EOFError, ConnectionResetError, BrokenPipeError):
            return Verdict("crash", stage, self._end(_DYING), time.monotonic() - began)
        except BaseException:
            self._end()
            raise
        return self._left(verdict) if fresh else verdict

    def _left(self, verdict: Verdict) -> Verdict:
        """A process of its own also has to end: a crash or a hang there is the model's."""
        how = self.close()
        if how:
            return Verdict("hang" if how.startswith("does not") else "crash", "leaving", how, verdict.seconds)
        return verdict

    def close(self) -> str:
        """End the process, if there is one; says what went wrong with that."""
        if self._process is None or self._connection is None:
            return ""
        with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):
            self._connection.send(None)
            if not self._hears(self._connection, _LEAVING):
                self._end()
                return "does not end"
            self._connection.recv()
        process = self._process
        if not self._waits_for_end(process, _LEAVING):
            self._end()
            return "does not end"
        said = self._end()
        return said if process.returncode else ""

    def _start(self) -> Verdict | None:
        mine, theirs = socket.socketpair()
        self._log = Printed(_LOG)
        environment = {**module_environment(), **self.target.environment}
        with theirs:
            self._process = subprocess.Popen(
                module_command("ephost.bisection.worker", str(theirs.fileno()), str(os.getpid())),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log.file,
                stderr=self._log.file,
                env=environment,
                start_new_session=True,  # Ctrl-C is the search's to take
            )
        self._log.handed_out()
        self._connection = Connection(mine.detach())
        with contextlib.suppress(AttributeError, OSError):
            self._pidfd = os.pidfd_open(self._process.pid)
        stage = "registering"
        try:
            self._connection.send(self.target.to_dict())
            if not self._hears(self._connection, _STARTING):
                self._end()
                return Verdict("hang", stage, f"not done with {stage} within {_STARTING:.0f} s")
            kind, told = self._connection.recv()
        except (EOFError, ConnectionResetError, BrokenPipeError):
            return Verdict("crash", stage, self._end(_DYING))
        except BaseException:
            self._end()
            raise
        if kind == "unusable":
            self._end()
            return Verdict("unusable", stage, told)
        return None

    def _hears(self, connection: Connection, seconds: float) -> bool:
        """Whether the process says something within so many seconds.

        Raises:
            EOFError: it has ended. What it has started may keep its end of the connection open.
        """
        ready = wait([connection] if self._pidfd is None else [connection, self._pidfd], seconds)
        if ready and connection not in ready:
            raise EOFError
        return bool(ready)

    def _waits_for_end(self, process: subprocess.Popen[bytes], seconds: float) -> bool:
        """Whether it ends within so many seconds."""
        if self._pidfd is not None:
            return bool(wait([self._pidfd], seconds))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.poll() is not None

    def _end(self, patience: float = 0.0) -> str:
        """Make sure that the process is gone; say how it ended and what it printed last."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if process is None or connection is None:
            return ""
        connection.close()
        self._waits_for_end(process, patience)
        with contextlib.suppress(ProcessLookupError, PermissionError):  # also what it has started itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        code = process.returncode
        how = _signal_name(-code) if code < 0 else f"exit code {code}"
        lines = self._log.end().splitlines() if self._log is not None else []
        self._log = None
        telling = [line for line in lines if _TELLING.search(line)] or lines
        return f"{how}: {telling[-1][:400]}" if telling else how


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one for real time
        return f"signal {number}"


def require_usable(verdict: Verdict, target: Target) -> None:
    """Raise Fail for a target that cannot register its plugins."""
    if verdict.status == "unusable":
        raise Fail(f"{target.label} cannot be used: {verdict.message}")
