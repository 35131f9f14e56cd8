"""Run one file of tests on one host, whatever the tests do to their process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HOSTS = ("onnxruntime", "ephost")
_AS_EPHOST = ("-m", "ephost.as_onnxruntime")
_STARTING = 300.0  # seconds until the first test of a file: imports, mostly
_PAUSE = 0.05


@dataclass(frozen=True)
class Outcome:
    """How a test ended: passed, skipped, failed, crashed or "timed out"; and the end of what it said."""

    status: str
    text: str = ""

    @property
    def passed(self) -> bool:
        """Whether it passed."""
        return self.status == "passed"


@dataclass
class _Process:
    """What the record of one process says."""

    collected: list[str] | None = None
    problem: str = ""
    running: str | None = None
    since: float = 0.0

    def read(self, path: Path, into: dict[str, Outcome]) -> None:
        self.collected, self.problem, self.running = None, "", None
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue  # the process died over it
            match entry["event"]:
                case "collected":
                    self.collected, self.since = entry["tests"], entry["time"]
                case "not collected":
                    self.problem = entry["text"]
                case "start":
                    self.running, self.since = entry["test"], entry["time"]
                case "end":
                    into[entry["test"]] = Outcome(entry["outcome"], entry["text"])
                    self.running, self.since = None, entry["time"]


def run_file(
    host: str,
    file: Path,
    *,
    python: str,
    directory: Path,
    limit: float,
    variables: Mapping[str, str],
    arguments: Sequence[str] = (),
    only: Sequence[str] | None = None,
) -> dict[str, Outcome]:
    """The outcomes of a file's tests, by names as pytest gives them relative to ``directory``.

    Args:
        host: one of HOSTS.
        file: the file.
        python: the interpreter.
        directory: where the tests run.
        limit: seconds that one test may take.
        variables: added to the environment; PYTHONPATH in front of what it is.
        arguments: given to pytest.
        only: run these tests; None: all. A file that cannot be imported has one outcome, under its own name.
    """
    outcomes: dict[str, Outcome] = {}
    left = only
    while left is None or left:
        before = len(outcomes)
        with tempfile.TemporaryDirectory() as folder:
            said = _run_process(
                host, file, python, directory, limit, variables, arguments, left, Path(folder), outcomes
            )
        if said.collected is None or (said.problem and not said.collected):
            name = file.relative_to(directory).as_posix() if file.is_relative_to(directory) else str(file)
            return {**outcomes, name: Outcome("failed", said.problem)}
        left = [test for test in said.collected if test not in outcomes]
        if len(outcomes) == before:
            break
    return outcomes


def _run_process(
    host: str,
    file: Path,
    python: str,
    directory: Path,
    limit: float,
    variables: Mapping[str, str],
    arguments: Sequence[str],
    only: Sequence[str] | None,
    folder: Path,
    outcomes: dict[str, Outcome],
) -> _Process:
    record, said = folder / "record", folder / "said"
    here = Path(__file__).parent
    environment = {**os.environ, **variables, "EPHOST_FOREIGN_RECORD": str(record)}
    environment.pop("EPHOST_CPU_PLUGIN", None)  # as users have it
    path = [str(here), variables.get("PYTHONPATH", ""), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(entry for entry in path if entry)
    if only is not None:
        (folder / "only").write_text("\n".join(only), encoding="utf-8")
        environment["EPHOST_FOREIGN_ONLY"] = str(folder / "only")
    command = [python, *(_AS_EPHOST if host == "ephost" else ()), "-m", "pytest", "-p", "recorder", str(file)]
    command += ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(directory), *arguments]
    state = _Process()
    with said.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        started, timed_out = time.monotonic(), False
        try:
            while process.poll() is None:
                time.sleep(_PAUSE)
                state.read(record, outcomes)
                allowed = limit if state.collected is not None else _STARTING
                timed_out = time.monotonic() - (state.since or started) > allowed
                if timed_out:
                    break
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what the tests started ends with them
            process.wait()
    state.read(record, outcomes)
    end = said.read_bytes()[-4000:].decode(errors="replace")
    if state.running is not None:
        status = "timed out" if timed_out else "crashed"
        outcomes[state.running] = Outcome(status, end)
    elif state.collected is None and not state.problem:
        state.problem = "the limit of time passed while it was imported" if timed_out else end
    return state
