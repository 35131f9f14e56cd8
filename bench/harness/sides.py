"""The two that are compared, each a process that is asked in turns with the other."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import lowered
from harness.machine import ROOT

# Seconds between the turns of hosts in processes of their own: threads of onnxruntime spin for over 30 ms.
PAUSE = 0.1
HOSTS = ("onnxruntime", "ephost")


@dataclass(frozen=True)
class Side:
    """One of the two: a module with onnxruntime's Python API, and the checkout that it is imported from.

    ``root`` is also where onnxruntime's bundled plugins are taken from.
    """

    name: str
    module: str
    root: Path = ROOT

    def bundled(self, plugin: str) -> str:
        """The library of a bundled plugin, as `make develop` leaves it in the checkout.

        Raises:
            SystemExit: it is not built.
        """
        folder = self.root / "host" / "ephost" / "plugins" / plugin
        found = sorted(folder.glob("lib*.so"))
        if not found:
            raise SystemExit(f"{folder} has no library: run `make develop` in {self.root}")
        return str(found[0])

    def environment(self) -> dict[str, str]:
        """Variables of the process: this side's modules come before an installed ephost."""
        # Installed packages have their modules compiled: no process but the first is to compile ours.
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        bench = ROOT / "bench"
        paths = [str(bench / "harness" / "startup"), str(bench), str(self.root / "host")]
        kept |= lowered.environment()
        return {**kept, "PYTHONPATH": os.pathsep.join([*paths, *filter(None, [kept.get("PYTHONPATH")])])}


def sides(against: Path | None) -> tuple[Side, Side]:
    """onnxruntime and this checkout; or another checkout of ephost and this one."""
    if against is None:
        return Side("onnxruntime", "onnxruntime"), Side("ephost", "ephost")
    root = against.resolve()
    if not (root / "host" / "ephost" / "__init__.py").is_file():
        raise SystemExit(f"{root} is no checkout of ephost")
    return Side("before", "ephost", root), Side("after", "ephost")


class Failed(Exception):
    """A host could not do what it was asked."""


class Host:
    """A side's process: a call with a command's name and arguments is answered by its worker's method."""

    def __init__(self, side: Side, worker: str = "harness.worker") -> None:
        """Start it; ``worker`` is a module that serves (``harness.worker.serve``)."""
        self.side, self.name = side, side.name
        self.process = subprocess.Popen(
            [sys.executable, "-m", worker, side.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=side.environment(),
        )

    def __call__(self, command: str, **arguments: Any) -> Any:
        """What the method answers.

        Raises:
            Failed: it raised, or its process ended.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps([command, arguments]), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"{self.name} died with {self.process.wait()} in {command}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(f"{self.name}: {answer['error']}")
        return answer["is"]

    def close(self) -> None:
        """End the process."""
        self.process.communicate()

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def in_turns(
    hosts: Sequence[Host],
    command: str,
    *,
    rounds: int = 3,
    most: int | None = None,
    seconds: float = 0.0,
    pause: float = PAUSE,
    each: Sequence[dict[str, Any]] | None = None,
    **arguments: Any,
) -> list[float]:
    """Medians of what the hosts answer, every second round in the opposite order.

    Args:
        hosts: who is asked.
        command: what.
        rounds: how often at least.
        most: how often at most; ``rounds``, if nothing is said.
        seconds: no round above ``rounds`` begins after that time.
        pause: seconds before each turn: 0 for hosts without threads of their own.
        each: arguments that are a host's own, by host.
        **arguments: those of all hosts.
    """
    samples: list[list[float]] = [[] for _ in hosts]
    order = list(range(len(hosts)))
    until = time.monotonic() + seconds
    while len(samples[0]) < rounds or (time.monotonic() < until and len(samples[0]) < (most or rounds)):
        for at in order:
            time.sleep(pause)
            samples[at].append(hosts[at](command, **arguments, **(each[at] if each else {})))
        order.reverse()
    return [statistics.median(some) for some in samples]
