"""Runs on vendors' plugins: against the same plugin in onnxruntime, or the host's own share of a run.

Where onnxruntime lists the plugin's device, both hosts run the model, each in a process of its own (most
plugins keep process-wide pointers to the host that they saw first), asked in turns; the outputs are compared
before anything is timed. A run's time is told by the clock and in processor time, that of all threads of
the process: other work on the machine disturbs the second less, and threads that wait actively lengthen it.
Where onnxruntime does not list the device, what counts is the part of a run that is not spent in the plugin:
the time around ``run`` less that of the plugin's steps and of copies to and from its device, by the host's
profile. What is left out is named: a plugin that is not installed, and a model that a host cannot run on it,
or not in the time that ``--limit`` gives.

    python bench/vendor_runs.py --vendor nxrt [--save]   every model on one plugin
    python bench/vendor_runs.py                      the same on nxrt, ggml, QNN, OpenVINO and WebGPU
    python bench/vendor_runs.py --only "on nxrt"     what has this in its name
    python bench/vendor_runs.py --share              the host's share of a run on each of them
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from harness.machine import ROOT
from harness.models import adds
from harness.report import checked, common, geometric_mean, note, temporary_folder, wanted
from harness.results import begin
from harness.sides import HOSTS, PAUSE

sys.path[:0] = [str(ROOT / "host"), str(ROOT / "tests" / "vendor")]
from real_models import feeds_for, models, prepare  # noqa: E402
from vendors import VENDORS  # noqa: E402

_COMPARED = ("nxrt", "ggml", "qnn")  # in onnxruntime too
_SHARED = ("openvino", "webgpu")  # where onnxruntime lists no device
_SAMPLE = 0.02  # seconds: what is quicker is run several times for one measurement
_SLOW = 2.0  # seconds from which on a run is not repeated just to warm up
_ONCE = 20.0  # seconds from which on the first run, which both hosts do at once, is the measurement
_BUDGET = 60.0  # seconds after which no further round begins
_MOST_OF_A_RUN = 0.02  # that the host may take


def opened(host: str, vendor_name: str, model: str, *, profile: bool = False) -> tuple[Any, Any]:
    """A session of the host on the vendor's plugin, and feeds for it."""
    module = importlib.import_module(host)
    vendor = VENDORS[vendor_name]
    module.register_execution_provider_library(vendor.registration, str(vendor.library))
    found = [d for d in module.get_ep_devices() if d.ep_metadata.get("library_path") == str(vendor.library)]
    options = module.SessionOptions()
    options.log_severity_level = 4
    options.enable_profiling = profile
    options.add_provider_for_devices(found[:1], vendor.options)
    session = module.InferenceSession(model, options)
    return session, feeds_for(_short(model), session)


def _short(model: str) -> str:
    return next((name for name, path in models().items() if str(path) == model), "")


def work(host: str, vendor_name: str, model: str, output: str) -> None:
    """One host's process: writes its outputs to a file; answers each number of runs with the time of one."""
    session, feeds = opened(host, vendor_name, model)

    def run(count: int) -> list[Any]:
        made: list[Any] = []
        start, used = time.perf_counter(), time.process_time()
        for _ in range(count):
            made = session.run(None, feeds)
        took = time.perf_counter() - start, time.process_time() - used
        print("took", *(seconds / count for seconds in took), flush=True)
        return made

    np.savez(output, *run(1))
    print("ready", flush=True)
    for line in sys.stdin:
        run(int(line))


def share(vendor_name: str, model: str, rounds: int) -> None:
    """Prints the median seconds of a run, and of that what was not spent in the plugin."""
    session, feeds = opened("ephost", vendor_name, model, profile=True)
    # Of what onnxruntime can run, too, a part may be the CPU plugin's, whose time is not the host's either.
    names = session.get_providers()[: 2 if vendor_name in _COMPARED else 1]
    spans: list[int] = []
    began = time.monotonic()
    while len(spans) < rounds + 2 and (len(spans) < 3 or time.monotonic() - began < _BUDGET):
        start = time.perf_counter_ns()
        session.run(None, feeds)
        spans.append(time.perf_counter_ns() - start)
    trace = session.end_profiling()
    events = json.loads(Path(trace).read_text())
    os.unlink(trace)
    steps = [e for e in events if e["cat"] in ("Node", "Copy")]
    each = len(steps) // len(spans)
    plugins = []
    for at in range(len(spans)):
        mine = steps[at * each : (at + 1) * each]
        inside = (e["dur"] for e in mine if e["cat"] == "Copy" or e["args"].get("provider") in names)
        plugins.append(sum(inside) * 1e3)
    runs = list(zip(spans, plugins, strict=True))[2:]
    total = median(span for span, _ in runs)
    print(json.dumps({"run": total / 1e9, "host": median(span - inside for span, inside in runs) / 1e9}))


def _command(*arguments: object) -> list[str]:
    return [sys.executable, __file__, "--worker", json.dumps([str(a) for a in arguments])]


@dataclass(frozen=True)
class Took:
    """The seconds of one run."""

    wall: float
    processor: float


def compared(vendor: str, model: str, folder: Path, rounds: int, limit: float) -> tuple[dict[str, Took], int]:
    """Median times of a run in each host, asked in turns, and of how many measurements: fewer where they
    take long.

    Raises:
        RuntimeError: a host cannot run the model, or is not done with a first run within the limit.
    """
    workers, outputs = {}, {}
    variables = {**os.environ, **VENDORS[vendor].variables()}
    samples: dict[str, list[Took]] = {host: [] for host in HOSTS}
    began = time.monotonic()
    watch = threading.Timer(limit, lambda: [worker.kill() for worker in workers.values()])
    try:
        watch.start()
        for host in HOSTS:
            outputs[host] = folder / f"{host}.npz"
            workers[host] = subprocess.Popen(
                _command("work", host, vendor, model, outputs[host]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=variables,
            )
        firsts = {host: _answer(workers[host], "took") for host in HOSTS}
        for host in HOSTS:
            if _answer(workers[host], "ready") is None:
                late = time.monotonic() - began >= limit
                raise RuntimeError(f"not done after {limit:.0f} s" if late else f"{host} cannot run it")
        watch.cancel()
        expected, actual = (np.load(outputs[host]) for host in HOSTS)
        for name in expected.files:
            largest = float(np.abs(expected[name]).max())
            np.testing.assert_allclose(actual[name], expected[name], rtol=1e-3, atol=1e-3 * largest)
        once = {host: _took(line or "") for host, line in firsts.items()}
        if min(took.wall for took in once.values()) > _ONCE:
            return once, 1
        first = max(_ask(workers[host], host, 1).wall for host in HOSTS)
        calls = max(1, int(_SAMPLE / first))
        order, began = list(HOSTS), time.monotonic()
        for at in range(0 if first > _SLOW else -2, rounds):
            for host in order:
                time.sleep(PAUSE)
                took = _ask(workers[host], host, calls)
                if at >= 0:
                    samples[host].append(took)
            order.reverse()
            if at >= 0 and time.monotonic() - began > _BUDGET:
                break
    finally:
        watch.cancel()
        for worker in workers.values():
            worker.communicate()
    medians = {
        host: Took(median(t.wall for t in times), median(t.processor for t in times))
        for host, times in samples.items()
    }
    return medians, len(samples[HOSTS[0]])


def _ask(worker: subprocess.Popen[str], host: str, runs: int) -> Took:
    """The time of one of so many runs."""
    print(runs, file=worker.stdin, flush=True)
    answer = _answer(worker, "took")
    if answer is None:
        raise RuntimeError(f"{host} does not run it again")
    return _took(answer)


def _took(line: str) -> Took:
    wall, processor = line.split()
    return Took(float(wall), float(processor))


def _answer(worker: subprocess.Popen[str], word: str) -> str | None:
    """The rest of the line that begins with the word: plugins print lines of their own."""
    assert worker.stdout is not None
    for line in worker.stdout:
        if line.startswith(word):
            return line[len(word) :].strip()
    return None


def main() -> int:
    """Measure and report."""
    options = _options()
    status = 0
    with temporary_folder() as folder:
        found = {"one node": adds(folder, "one"), **{n: str(p) for n, p in models().items()}}
        for vendor in options.vendor or (*_COMPARED, *_SHARED):
            kept = begin(f"vendor_runs-{vendor}")
            if missing := VENDORS[vendor].missing():
                note(f"{vendor}: {missing}")
                continue
            for name, path in found.items():
                if wanted(f"{name} on {vendor}", options):
                    note(f"{name} on {vendor} ...")
                    model = str(prepare(name, Path(path), folder))
                    kept.rows.append(_row(vendor, name, model, folder, options))
                    note("    " + _said(kept.rows[-1]))
            status |= _finish(vendor, kept.rows, options)
            if options.json:
                kept.write(Path(options.json).with_stem(f"{Path(options.json).stem}-{vendor}"))
            if options.save:
                kept.keep()
    return status if options.check else 0


def _row(vendor: str, name: str, model: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What is found of a model on a plugin: seconds, or why there are none."""
    try:
        if vendor in _COMPARED and not options.share:
            timed, count = compared(vendor, model, folder, options.rounds, options.limit)
            wall = {host: timed[host].wall for host in HOSTS}
            return {
                "name": name,
                **wall,
                "processor_time": [timed[host].processor for host in HOSTS],
                "measurements": count,
            }
        run, host = _share(vendor, model, options.rounds, options.limit)
        return {"name": name, "run": run, "host": host}
    except (RuntimeError, AssertionError, subprocess.SubprocessError) as error:
        return {"name": name, "left_out": str(error).strip().splitlines()[0]}


def _said(row: dict[str, Any]) -> str:
    if "left_out" in row:
        return f"left out: {row['left_out']}"
    if "host" in row:
        return f"the host's share is {row['host'] * 1e6:.1f} us of {row['run']:.3g} s"
    ratio = row["ephost"] / row["onnxruntime"]
    there, here = row["processor_time"]
    times = f"{ratio:.3f}, of processor time {here / there:.3f}"
    return f"{times}; {row['ephost']:.3g} s, medians of {row['measurements']}"


def _finish(vendor: str, rows: list[dict[str, Any]], options: argparse.Namespace) -> int:
    """Print a plugin's rows; 1 when a run is slower than in onnxruntime, or the host's share is too large."""
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        print(f"{row['name']:{width}} on {vendor}: {_said(row)}")
    timed = [row for row in rows if "ephost" in row]
    if timed:
        wall = geometric_mean([row["ephost"] / row["onnxruntime"] for row in timed])
        used = geometric_mean([row["processor_time"][1] / row["processor_time"][0] for row in timed])
        print(f"geometric mean on {vendor}: {wall:.3f}, of processor time {used:.3f} ({len(timed)} models)")
    above = any(row["ephost"] > row["onnxruntime"] for row in timed)
    return int(above or any(row["host"] > _MOST_OF_A_RUN * row["run"] for row in rows if "host" in row))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="measurements of each host (%(default)s)")
    common(parser)
    parser.add_argument("--vendor", action="append", choices=[*_COMPARED, *_SHARED], help="default: all")
    parser.add_argument("--share", action="store_true", help="the host's share also of what both could run")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a first run (%(default)s)")
    options = checked(parser)
    if options.against:
        parser.error("vendors' plugins are compared with onnxruntime alone")
    return options


def _share(vendor: str, model: str, rounds: int, limit: float) -> tuple[float, float]:
    done = subprocess.run(
        _command("share", vendor, model, rounds),
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
        env={**os.environ, **VENDORS[vendor].variables()},
    )
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise RuntimeError(said[-1] if said else f"it ended with {done.returncode}")
    told = json.loads(next(line for line in reversed(done.stdout.splitlines()) if line.startswith("{")))
    return told["run"], told["host"]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        task, *rest = json.loads(sys.argv[2])
        if task == "work":
            work(*rest)
        else:
            share(rest[0], rest[1], int(rest[2]))
    else:
        sys.exit(main())
