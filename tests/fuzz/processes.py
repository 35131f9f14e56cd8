"""The processes that run cases of the fuzzers: started when needed, and again when a case took one down.

And what else the commands of both fuzzers are made of.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BATCH = 2000
SILENCE = 900  # seconds in which a case says nothing, whatever it waits for


class Worker:
    """A process that runs cases, started anew after each batch and when it was lost."""

    def __init__(self, cases: str, host: str, seed: int, file: Path, log: Path) -> None:
        """Say what it runs.

        Args:
            cases: "operators", "models" or "programs": which fuzzer makes the cases.
            host: what opens them.
            seed: of all cases.
            file: what cases are made of, pickled.
            log: where the process writes what it says.
        """
        self._command = [sys.executable, "-m", "tests.fuzz.worker", cases, host, str(seed), str(file)]
        self._host = host
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._left = 0

    def run(self, name: str, results: Path | None = None) -> dict[str, Any]:
        """The worker's record of the case, with a ``fault`` if it was lost in it."""
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        line = b""
        try:
            process.stdin.write(f"{name}\t{results or ''}\n".encode())
            process.stdin.flush()
            if select.select([process.stdout], [], [], SILENCE)[0]:
                line = process.stdout.readline()
            else:
                process.kill()
        except BrokenPipeError:
            pass
        if not line.endswith(b"\n"):
            return {"case": name, "fault": self._lost()}
        self._left -= 1
        record: dict[str, Any] = json.loads(line)
        if self._left == 0 and (said := self.close()):
            record["fault"] = said
        return record

    def close(self) -> str:
        """Ends the process; what was wrong with that, or ""."""
        if self._process is None:
            return ""
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait()
        self._process = None
        return "" if code == 0 else f"{ending(code)} at the end of a batch: {self._said()}"

    def _start(self) -> None:
        plugin = "1" if self._host == "default" else "0"
        given = {**os.environ, "EPHOST_CPU_PLUGIN": plugin, "PYTHONFAULTHANDLER": "1"}
        # numpy's threads would look for work beside the plugin's: matrices are small here.
        given["OPENBLAS_NUM_THREADS"] = "1"
        # A report ends the process, so that it has a case.
        given["UBSAN_OPTIONS"] = f"{given.get('UBSAN_OPTIONS', '')}:halt_on_error=1".lstrip(":")
        if self._host == "onnxruntime":
            given.pop("LD_PRELOAD", None)  # the sanitizers are for what is ours
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env=given,
            )
        self._left = BATCH

    def _lost(self) -> str:
        assert self._process is not None
        code = self._process.wait()
        self._process = None
        return f"{ending(code)}: {self._said()}"

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-6000:]


def ending(code: int) -> str:
    """How a process ended, by its status."""
    if code == -signal.SIGPROF:
        return "a hang (processor time)"
    if code == -signal.SIGKILL:
        return "killed (a hang, or memory)"
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Of a fuzzer's command, with the options that both have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="go on from this one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--compare", action="store_true", help="with onnxruntime")
    parser.add_argument("--folder", type=Path, help="where files are kept")
    return parser


def in_threads(work: Callable[[int], None], jobs: int) -> None:
    """Do so many jobs at once, each with its number."""
    threads = [threading.Thread(target=work, args=(job,)) for job in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def told_in_full(cases: str, hosts: Sequence[str], seed: int, name: str, file: Path) -> int:
    """Print what a case gives in each host; 1 for a fault in the first one, or if a process said something.

    `cases` and `file` are as for `Worker`; results are kept beside the file.
    """
    status = 0
    for host in hosts:
        worker = Worker(cases, host, seed, file, file.with_name("log"))
        results = file.with_name(host)
        record = worker.run(name, results)
        said = worker.close()
        status |= (host == hosts[0] and "fault" in record) or bool(said)
        print(host, json.dumps(record, indent=1).replace("\\n", "\n"), said)
        if results.exists():
            print(pickle.loads(results.read_bytes()))
    return int(status)
