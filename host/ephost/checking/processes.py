"""Doing checks in processes of their own, with time limits, several at once."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection, wait
from typing import Any

from ephost.checking.registry import Check
from ephost.checking.subject import Given
from ephost.checking.verdicts import CRASHED, FAILED, TIMED_OUT, Outcome
from ephost.errors import Fail
from ephost.own_processes import module_command, module_environment
from ephost.printed import Printed

_STARTING = 120.0  # seconds in which a server has to answer at all
_LEAVING = 15.0  # in which a process has to end that has told its verdict
_DYING = 10.0
_LONGEST = 1e6  # seconds; the system takes milliseconds of 32 bits
_LOG = 20_000  # characters of what a check prints, of the end
_WORDS = 200  # of its last line, in the message of a crash


def require_processes() -> None:
    """Look whether this system has what checks are started with.

    Raises:
        Fail: it has not; the message names what is missing.
    """
    needed = ((os, "fork"), (os, "pidfd_open"), (socket, "send_fds"), (socket, "SOCK_SEQPACKET"))
    missing = [f"{module.__name__}.{name}" for module, name in needed if not hasattr(module, name)]
    if missing:
        raise Fail(
            f"ephost check forks a process for each check, which needs Linux: {sys.platform} has no "
            f"{' and no '.join(missing)}"
        )


class Server:
    """A process that starts checks of one plugin in one host. Used by one thread."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_LEAVING)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
        self._process = self._socket = None

    def _start(self) -> socket.socket:
        if self._socket is not None:
            return self._socket
        require_processes()
        if importlib.util.find_spec(self.host) is None:
            raise Fail(f"there is no {self.host} to check the plugin in: it is not installed")
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {**module_environment(), "OPENBLAS_NUM_THREADS": "1"}  # threads do not survive a fork
        with theirs:
            self._process = subprocess.Popen(
                module_command("ephost.checking.server", str(theirs.fileno()), self.host),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,  # Ctrl-C is the caller's to take
            )
        self._socket = mine
        return mine

    def probe(self, given: Given, limit: float) -> dict[str, Any]:
        """What there is to know of the plugin; ``ended`` says how its process ended, if not well."""
        facts: dict[str, Any] = {"devices": [], "samples": [], "refused": {}, "wrong": {}}
        answer = self._ask("", given, {}, limit, 0, "")
        for fact in answer["facts"]:
            for key in ("refused", "wrong"):
                facts[key] |= fact.pop(key, {})
            facts |= fact
        facts["wrong"] = {name: why for name, why in facts["wrong"].items() if why}
        if answer["hung"]:
            facts["ended"] = f"not done within {limit:.3g} s while {answer['stage']}"
        elif answer["how"]:
            facts["ended"] = answer["how"]
        facts["log"] = answer["log"]
        return facts

    def perform(
        self, made: Check, given: Given, facts: Mapping[str, Any], limit: float, seed: int, cases: str
    ) -> Outcome:
        """Do a check."""
        answer = self._ask(made.name, given, facts, limit, seed, cases)
        outcome = Outcome(made.name, given.host, FAILED, seed=seed, stage=answer["stage"], log=answer["log"])
        outcome.seconds = answer["seconds"]
        verdict = answer["verdict"]
        if verdict is not None:
            seconds = verdict.pop("seconds")
            for key, value in verdict.items():
                setattr(outcome, key, value)
            outcome.seconds = seconds
        if answer["hung"]:
            outcome.status = TIMED_OUT
            outcome.message = f"not done within {limit:.3g} s while {answer['stage']}"
        elif answer["how"] and (verdict is None or made.exits):
            outcome.status = CRASHED
            outcome.message = answer["how"] + _last_words(answer["log"])
        elif verdict is None:
            outcome.status = CRASHED
            outcome.message = f"the process ended, with no error, while {answer['stage']}"
        return outcome

    def _ask(
        self, name: str, given: Given, facts: Mapping[str, Any], limit: float, seed: int, cases: str
    ) -> dict[str, Any]:
        connection = self._start()
        known = {key: value for key, value in facts.items() if key != "log"}
        request = {"check": name, "given": given.to_dict(), "facts": known, "seed": seed, "cases": cases}
        answer: dict[str, Any] = {"stage": "starting", "verdict": None, "hung": False, "facts": [], "how": ""}
        mine, theirs = socket.socketpair()
        began = time.monotonic()
        log = Printed(_LOG)
        with (
            tempfile.TemporaryFile() as asked,  # a packet has no room for what a plugin may say
            Connection(mine.detach()) as told,
        ):
            try:
                asked.write(json.dumps(request).encode())
                asked.flush()
                try:
                    socket.send_fds(connection, [b"?"], [theirs.fileno(), log.file, asked.fileno()])
                except OSError as error:
                    raise Fail(self._gone(name)) from error
                theirs.close()
                log.handed_out()
                pid = self._listen(told, connection, answer, began, limit)
                if pid is not None and answer["hung"]:
                    _kill(pid)
                ended = self._ended(connection, pid, _DYING if answer["hung"] else _LEAVING, answer)
                answer["seconds"] = time.monotonic() - began
            finally:
                answer["log"] = log.end()
        if pid is not None:
            _kill(pid)  # what it started itself, where the server could not
        if ended is None:
            self.close()  # the next check starts another one
            if pid is None:
                raise Fail(self._gone(name))
            answer["how"] = f"it ended the process that had started it, while {answer['stage']}"
            answer["verdict"] = None
        elif ended:
            answer["how"] = f"{_how(ended)} while {answer['stage']}"
        return answer

    def _listen(
        self, told: Connection, connection: socket.socket, answer: dict[str, Any], began: float, limit: float
    ) -> int | None:
        """Hear a check out; its process' number. What the process has started may keep its end of the channel
        open: it is heard out when the server says that it has ended, too.
        """
        pid: int | None = None
        try:
            if not wait([told, connection], _STARTING):
                answer["hung"] = True
                return None
            began = time.monotonic()  # the server's start is not the check's
            while True:
                left = limit - (time.monotonic() - began)
                ready = wait([told, connection], left) if left > 0 else []
                if not ready:
                    answer["hung"] = True
                    return pid
                if told not in ready:
                    return pid
                kind, value = told.recv()
                if kind == "pid":
                    pid = value
                elif kind == "fact":
                    answer["facts"].append(value)
                else:
                    answer[kind] = value
        except (EOFError, ConnectionResetError, OSError):
            return pid

    def _ended(
        self, connection: socket.socket, pid: int | None, patience: float, answer: dict[str, Any]
    ) -> int | None:
        """The exit code of a check's process; None where the process that had started it has ended."""
        connection.settimeout(min(patience, _LONGEST))
        try:
            data = self._receive(connection)
        except TimeoutError:
            answer["hung"] = True
            if pid is None:
                self.close()
                return 0
            _kill(pid)
            connection.settimeout(None)
            data = self._receive(connection)
        connection.settimeout(None)
        return int(json.loads(data)["code"]) if data else None

    @staticmethod
    def _receive(connection: socket.socket) -> bytes:
        try:
            return connection.recv(1 << 12)
        except ConnectionResetError:
            return b""

    def _gone(self, name: str) -> str:
        """What to say where the process has ended. What it printed says why."""
        what = name or "the plugin was looked at"
        return f"the process that starts checks in {self.host} has ended, before {what}"


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _last_words(log: str) -> str:
    """What a process wrote last, which is often why it ended: an assertion, a heap that is not whole."""
    lines = [line for line in log.partition("Fatal Python error: ")[0].splitlines() if line.strip()]
    return f"; its last words: {lines[-1].strip()[:_WORDS]}" if lines else ""


def _how(code: int) -> str:
    if code >= 0:
        return f"the process ended with exit code {code}"
    try:
        return f"the process ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"the process ended by signal {-code}"
