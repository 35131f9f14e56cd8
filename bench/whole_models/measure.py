"""Time, memory and agreement of one model on both sides."""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from harness.sides import Failed, Host, Side, in_turns

from whole_models.catalog import Model

WORKER = "whole_models.worker"


@dataclass
class Result:
    """What was found of one model: seconds and MB as pairs, the side that is compared with first."""

    name: str
    claimed: float = 0.0
    missing: dict[str, int] = field(default_factory=dict)
    error: float = math.nan  # the largest relative difference of an output
    run: list[float] = field(default_factory=list)
    run_single: list[float] = field(default_factory=list)
    open: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)  # what opening and running add at most
    process: list[float] = field(default_factory=list)  # all that the process has then
    failure: str = ""


def ratio(pair: Sequence[float]) -> float:
    """The second as a part of the first; nan without figures."""
    return pair[1] / pair[0] if len(pair) == 2 and pair[0] > 0 else math.nan


def difference(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference relative to the value, or to the typical value where that is near zero.

    Where the typical value is below 1e-3, to that: sigmoids of very small values keep few digits, and
    onnxruntime's own results change by as much between its optimization levels.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return math.inf
    if expected.size == 0:
        return 0.0
    if expected.dtype.kind not in "fc":
        return 0.0 if np.array_equal(actual, expected) else math.inf
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return math.inf
    finite = np.isfinite(b)
    a, b = a[finite], b[finite]
    scale = np.abs(b) + (np.sqrt(np.mean(b * b)) if b.size else 0.0)
    return float(np.max(np.abs(a - b) / np.maximum(scale, 1e-3), initial=0.0))


def _timed(
    model: Model, both: Sequence[Side], threads: int, options: argparse.Namespace, result: Result
) -> list[float]:
    first = threads == 0
    with (
        Host(both[0], WORKER) as one,
        Host(both[1], WORKER) as two,
        tempfile.TemporaryDirectory() as folder,
    ):
        hosts = [one, two]
        for host in hosts:
            host("open", model=model.path, threads=threads)
            host("inputs", inputs=model.inputs, dimensions=model.dimensions)
        if first:
            good, total, result.missing = two("claimed")
            result.claimed = good / total if total else 1.0
            # What is left to the reference fallback may take minutes.
            if result.claimed < options.at_least:
                raise Failed(f"only {result.claimed:.0%} of its nodes are claimed")
            paths = [str(Path(folder) / f"{host.name}.npz") for host in hosts]
            for host, path in zip(hosts, paths, strict=True):
                host("outputs", path=path, model=model.path, threads=threads)
            expected, actual = (np.load(path) for path in paths)
            result.error = max(
                (difference(actual[key], expected[key]) for key in expected.files), default=0.0
            )
        quick = max(host("run") for host in hosts)
        calls = max(1, min(100, int(0.002 / quick)))
        times = in_turns(hosts, "run", seconds=options.seconds, most=200, calls=calls)
        if first:
            again = {"model": model.path, "threads": threads, "again": True}
            # The first ones get memory that the system has to find and clear, of which later ones get theirs.
            result.open = in_turns(hosts, "open", rounds=5, seconds=options.seconds / 2, most=30, **again)
        return times


def measure(model: Model, both: Sequence[Side], options: argparse.Namespace) -> Result:
    """All figures of one model."""
    result = Result(model.name)
    try:
        if not options.memory:
            result.run = _timed(model, both, 0, options, result)
        if not options.quick:
            if not options.memory:
                result.run_single = _timed(model, both, 1, options, result)
            for side in both:
                with Host(side, WORKER) as host:
                    arguments = {"inputs": model.inputs, "dimensions": model.dimensions}
                    growth, peak = host("memory", model=model.path, threads=0, **arguments)
                    result.memory.append(growth)
                    result.process.append(peak)
    except Failed as failed:
        result.failure = str(failed)
    return result
