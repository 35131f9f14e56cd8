"""Whole models on the bundled CPU plugin and on onnxruntime's CPU provider: time, memory, agreement.

Each host runs in a process of its own, since each keeps threads that spin for a while after a run. The two
are asked in turns, and what is reported is the ratio of medians: below 1 ephost is quicker.

    python bench/cpu.py                             ONNX's light models, rapidocr's, magika's
    python bench/cpu.py --models FOLDER             those that bench/export_models.py wrote, too
    python bench/cpu.py --only bert --profile       where the time of a run goes, by operator, in either host
    python bench/cpu.py --models FOLDER --scaling   batches of 1 to 64 and 16 to 1,024 tokens

``--markdown FILE`` writes what is printed, ``--plot FILE`` a picture of it, which needs matplotlib.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import HOSTS, PAUSE, SOURCE, package_models

TOLERANCE = 2e-3
LIMITS = {"run": 0.9, "run of any": 1.2, "open": 1.0, "memory": 1.0, "claimed": 0.95}

Inputs = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Model:
    """A model file, and what its inputs look like: where nothing is said, ``dimensions`` fill open shapes."""

    name: str
    path: str
    inputs: Inputs = field(default_factory=dict)
    dimensions: tuple[int, ...] = ()


def all_models(folder: Path | None) -> list[Model]:
    """The models that are there: those of installed packages, and those of a folder."""
    found = [Model(name, path) for name, path in package_models("onnx").items() if name.startswith("light_")]
    shapes = {"det": (1, 3, 320, 320), "rec": (1, 3, 48, 320), "cls": (1, 3, 48, 192)}
    for name, path in package_models("rapidocr_onnxruntime").items():
        short = next(key for key in shapes if f"_{key}_" in name)
        found.append(Model(f"rapidocr_{short}", path, dimensions=shapes[short]))
    for path in package_models("magika").values():
        found.append(Model("magika", path, dimensions=(1, 2048)))
    for described in sorted(folder.glob("*.json")) if folder else []:
        inputs = json.loads(described.read_text())
        found.append(Model(described.stem, str(described.with_suffix(".onnx")), inputs))
    return found


# ---- one host's process


def _feed(session: Any, inputs: Inputs, dimensions: Sequence[int]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    types = {"float": "float32", "double": "float64"}
    feed = {}
    for value in session.get_inputs():
        told = inputs.get(value.name, {})
        shape = told.get("shape") or [
            d if isinstance(d, int) else dimensions[at] for at, d in enumerate(value.shape)
        ]
        name = value.type.removeprefix("tensor(").removesuffix(")")
        dtype = np.dtype(types.get(name, name))
        if told.get("ones"):
            feed[value.name] = np.ones(shape, dtype)
        elif dtype.kind == "f":
            feed[value.name] = random.standard_normal(shape).astype(dtype)
        else:
            feed[value.name] = random.integers(0, told.get("high") or 256, shape).astype(dtype)
    return feed


def _status(key: str) -> float:
    """A line of /proc/self/status, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(key)


class Worker:
    """What a host's process does: answers commands, each a line of JSON, with a line of JSON."""

    def __init__(self, host: str) -> None:
        import importlib

        self.host = host
        self.module = importlib.import_module(host)
        self.session: Any = None
        self.feed: dict[str, np.ndarray] = {}

    def make(self, model: str, threads: int, prefix: str = "") -> Any:
        """A session on the host's default provider."""
        options = self.module.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        if prefix:
            options.enable_profiling = True
            options.profile_file_prefix = prefix
        return self.module.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def open(self, model: str, threads: int, again: bool = False) -> float:
        """Seconds to open a session, which is kept unless it is only opened for its time."""
        gc.collect()
        start = time.perf_counter()
        session = self.make(model, threads)
        elapsed = time.perf_counter() - start
        if not again:
            self.session = session
        return elapsed

    def inputs(self, inputs: Inputs, dimensions: Sequence[int]) -> None:
        """Make the feed of the runs that follow."""
        self.feed = _feed(self.session, inputs, dimensions)

    def outputs(self, path: str, model: str, threads: int) -> None:
        """Write what a run gives: in onnxruntime with products of bytes that do not saturate."""
        session = self.session
        if self.host == "onnxruntime":
            options = self.module.SessionOptions()
            options.intra_op_num_threads = threads
            options.log_severity_level = 3
            options.add_session_config_entry("session.x64quantprecision", "1")
            session = self.module.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        found = session.run(None, self.feed)
        np.savez(path, *[np.asarray(value) for value in found])

    def run(self, calls: int = 1) -> float:
        """Seconds of a run."""
        start = time.perf_counter()
        for _ in range(calls):
            self.session.run(None, self.feed)
        return (time.perf_counter() - start) / calls

    def claimed(self) -> tuple[int, int, dict[str, int]]:
        """Nodes on the plugin, nodes, and the operators of the others (of ephost alone)."""
        if self.host != "ephost":
            return 0, 0, {}
        missing: dict[str, int] = defaultdict(int)
        explanation = self.module.explain(self.session)
        for node in explanation.fallback:
            missing[node.node.op_type] += 1
        total = sum(len(part.nodes) for part in explanation.partitions)
        return total - len(explanation.fallback), total, dict(missing)

    def memory(
        self, model: str, threads: int, inputs: Inputs, dimensions: Sequence[int]
    ) -> tuple[float, float]:
        """MB that opening a model and running it add to the process at most, and that the whole process has
        then; for a process of its own. The host's own libraries are not in the former if its import loads
        them, which onnxruntime's does.
        """
        self.module.SessionOptions()
        gc.collect()
        before = _status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        self.open(model, threads)
        self.inputs(inputs, dimensions)
        for _ in range(3):
            self.run()
        peak = _status("VmHWM")
        return peak - before, peak

    def profile(self, model: str, threads: int, prefix: str, runs: int) -> dict[str, Any]:
        """Seconds and calls of a run by operator, and by node, from the host's trace."""
        self.session = self.make(model, threads, prefix)
        for _ in range(runs):
            self.run()
        path = self.session.end_profiling()
        trace = json.loads(Path(path).read_text())
        os.unlink(path)
        events = [event for event in trace if event.get("cat") == "Kernel"]
        if not events:  # onnxruntime's own provider; ephost without the plugin.
            events = [
                event
                for event in trace
                if event.get("cat") == "Node"
                and not event["name"].endswith(("_fence_before", "_fence_after", "_fence"))
            ]
        # The first run makes plans and packs weights: what is shown is the time of the later ones.
        by_op: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        by_node: dict[str, list[float]] = defaultdict(list)
        for event in sorted(events, key=lambda event: event["ts"]):
            by_node[event["name"] + "\t" + event["args"].get("op_name", event["name"])].append(event["dur"])
        for name, durations in by_node.items():
            each = len(durations) / runs
            entry = by_op[name.split("\t")[1]]
            entry[0] += statistics.median(durations) * each * 1e-6
            entry[1] += each
        nodes = {name: statistics.median(d) * len(d) / runs * 1e-6 for name, d in by_node.items()}
        top = sorted(nodes.items(), key=lambda item: -item[1])[:15]
        return {"ops": by_op, "nodes": [[name.split("\t")[0], seconds] for name, seconds in top]}

    def serve(self) -> None:
        """Answer until the other side closes."""
        answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # What libraries print goes elsewhere.
        for line in sys.stdin:
            command, arguments = json.loads(line)
            try:
                answer = {"is": getattr(self, command)(**arguments)}
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=answers, flush=True)


class Failed(Exception):
    """A host could not do what it was asked."""


class Host:
    """The other end of a host's process."""

    def __init__(self, name: str) -> None:
        self.name = name
        command = [sys.executable, __file__, "--worker", name]
        # Installed packages have their modules compiled: no process but the first is to compile ours.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def __call__(self, command: str, **arguments: Any) -> Any:
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


# ---- measuring


@dataclass
class Result:
    """What was found of one model: seconds and MB as pairs, onnxruntime's first."""

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
    """ephost's part of onnxruntime's; nan without figures."""
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


def interleaved(
    hosts: Sequence[Host], command: str, seconds: float, most: int, **arguments: Any
) -> list[float]:
    """Medians of what the hosts answer, asked in turns for so many seconds, 3 times at least."""
    samples: list[list[float]] = [[] for _ in hosts]
    order = list(range(len(hosts)))
    until = time.monotonic() + seconds
    while len(samples[0]) < 3 or (time.monotonic() < until and len(samples[0]) < most):
        for at in order:
            time.sleep(PAUSE)
            samples[at].append(hosts[at](command, **arguments))
        order.reverse()
    return [statistics.median(each) for each in samples]


def _timed(
    model: Model, threads: int, options: argparse.Namespace, result: Result, first: bool
) -> list[float]:
    with Host(HOSTS[0]) as one, Host(HOSTS[1]) as two, tempfile.TemporaryDirectory() as folder:
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
        times = interleaved(hosts, "run", options.seconds, 200, calls=calls)
        if first:
            again = {"model": model.path, "threads": threads, "again": True}
            result.open = interleaved(hosts, "open", options.seconds / 2, 30, **again)
        return times


def measure(model: Model, options: argparse.Namespace) -> Result:
    """All figures of one model."""
    result = Result(model.name)
    try:
        if not options.memory:
            result.run = _timed(model, 0, options, result, True)
        if not options.quick:
            if not options.memory:
                result.run_single = _timed(model, 1, options, result, False)
            for name in HOSTS:
                with Host(name) as host:
                    arguments = {"inputs": model.inputs, "dimensions": model.dimensions}
                    growth, peak = host("memory", model=model.path, threads=0, **arguments)
                    result.memory.append(growth)
                    result.process.append(peak)
    except Failed as failed:
        result.failure = str(failed)
    return result


# ---- what is written


def geometric_mean(values: Sequence[float]) -> float:
    """Of those that are numbers; nan if none is."""
    good = [value for value in values if value > 0 and math.isfinite(value)]
    return math.exp(sum(map(math.log, good)) / len(good)) if good else math.nan


def _number(value: float, text: str = ".2f") -> str:
    return "-" if math.isnan(value) else f"{value:{text}}"


def table(results: Sequence[Result]) -> str:
    """The figures in Markdown."""
    lines = [
        "| model | nodes claimed | difference | onnxruntime | ephost | time | 1 thread | opening | memory "
        "| process |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        times = [f"{seconds * 1e3:.2f} ms" for seconds in r.run] or ["-", "-"]
        agree = (
            "-" if math.isnan(r.error) else f"{r.error:.0e}" + ("" if r.error <= TOLERANCE else " **wrong**")
        )
        ratios = [_number(ratio(pair)) for pair in (r.run, r.run_single, r.open, r.memory, r.process)]
        cells = [r.name, f"{r.claimed:.0%}", agree, *times, *ratios]
        lines.append("| " + " | ".join(cells) + " |")
    means = [
        _number(geometric_mean([ratio(getattr(r, key)) for r in results]))
        for key in ("run", "run_single", "open", "memory", "process")
    ]
    lines.append("| " + " | ".join(["geometric mean", "", "", "", "", *means]) + " |")
    for r in results:
        if r.failure:
            lines.append(f"\n{r.name} was not measured: {r.failure}")
        if r.missing:
            listed = ", ".join(
                f"{op} ({n})" for op, n in sorted(r.missing.items(), key=lambda item: -item[1])
            )
            lines.append(f"\n{r.name}, on the fallback: {listed}")
    return "\n".join(lines)


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("--plot needs matplotlib") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def plot(results: Sequence[Result], path: str) -> None:
    """The ratios as bars, on a logarithmic axis."""
    pyplot = _pyplot()
    shown = [r for r in results if r.run]
    kinds = {"all cores": "run", "1 thread": "run_single", "opening": "open", "peak memory": "memory"}
    figure, axes = pyplot.subplots(figsize=(9, 1.5 + 0.55 * len(shown)), layout="constrained")
    height = 0.8 / len(kinds)
    for at, (label, key) in enumerate(kinds.items()):
        places = [row + (at - 1.5) * height for row in range(len(shown))]
        axes.barh(places, [ratio(getattr(r, key)) for r in shown], height, label=label)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    ticks = [0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(shown)), [r.name for r in shown])
    axes.invert_yaxis()
    axes.set_xlabel("ephost / onnxruntime (less is better)")
    axes.legend(loc="best", fontsize="small")
    figure.savefig(path, dpi=120)


def profile(model: Model, options: argparse.Namespace) -> str:
    """Where the time goes in either host, by operator; and ephost's longest steps."""
    found = []
    for name in HOSTS:
        with Host(name) as host, tempfile.TemporaryDirectory() as folder:
            host("open", model=model.path, threads=options.threads)
            host("inputs", inputs=model.inputs, dimensions=model.dimensions)
            once = max(host("run"), host("run"))
            runs = max(5, min(100, int(options.seconds / once)))
            prefix = str(Path(folder) / "trace")
            found.append(host("profile", model=model.path, threads=options.threads, prefix=prefix, runs=runs))
    theirs, ours = (each["ops"] for each in found)
    # Operators that a host joins have other names there: what is left unmatched says so.
    rows = sorted(
        {*theirs, *ours},
        key=lambda op: theirs.get(op, [0, 0])[0] - ours.get(op, [0, 0])[0],
    )
    lines = [
        f"### {model.name}, {options.threads or 'all'} threads",
        "",
        "| operator | onnxruntime | calls | ephost | calls | lost |",
        "|---|---|---|---|---|---|",
    ]
    for op in rows:
        a, b = theirs.get(op, [0, 0]), ours.get(op, [0, 0])
        lost = (b[0] - a[0]) * 1e3
        lines.append(
            f"| {op} | {a[0] * 1e3:.3f} ms | {a[1]:.0f} | {b[0] * 1e3:.3f} ms | {b[1]:.0f} | {lost:+.3f} ms |"
        )
    totals = [sum(entry[0] for entry in each.values()) * 1e3 for each in (theirs, ours)]
    lines.append(f"| all | {totals[0]:.3f} ms | | {totals[1]:.3f} ms | | {totals[1] - totals[0]:+.3f} ms |")
    lines += [
        "",
        "ephost's longest steps: " + "; ".join(f"{n} {s * 1e3:.3f} ms" for n, s in found[1]["nodes"]),
    ]
    return "\n".join(lines)


# What grows, by model: the input dimensions that a size goes into.
SCALING: dict[str, tuple[str, list[int], dict[str, list[int | str]]]] = {
    "rapidocr_cls": ("images", [1, 2, 4, 8, 16, 32, 64], {"*": ["n", 3, 48, 192]}),
    "vit_b16_dynamic": ("images", [1, 2, 4, 8, 16, 32, 64], {"pixel_values": ["n", 3, 224, 224]}),
    "gpt2_dynamic": (
        "tokens",
        [16, 32, 64, 128, 256, 512, 1024],
        {"input_ids": [1, "n"], "attention_mask": [1, "n"]},
    ),
    "bert_base_dynamic": (
        "tokens",
        [16, 32, 64, 128, 256, 512],
        {"input_ids": [1, "n"], "attention_mask": [1, "n"], "token_type_ids": [1, "n"]},
    ),
}


def scaling(models: Sequence[Model], options: argparse.Namespace) -> dict[str, dict[int, list[float]]]:
    """Seconds by image or token at each size, of the models that have a size to vary."""
    found: dict[str, dict[int, list[float]]] = {}
    for model in models:
        if model.name not in SCALING:
            continue
        unit, sizes, shapes = SCALING[model.name]
        found[model.name] = {}
        print(f"\n{model.name}: microseconds for each of so many {unit}", flush=True)
        with Host(HOSTS[0]) as one, Host(HOSTS[1]) as two:
            for host in (one, two):
                host("open", model=model.path, threads=options.threads)
            for size in sizes:
                inputs = {name: dict(told) for name, told in model.inputs.items()}
                dimensions: tuple[int, ...] = ()
                for name, shape in shapes.items():
                    now = [size if d == "n" else d for d in shape]
                    if name == "*":
                        dimensions = tuple(int(d) for d in now)
                    else:
                        inputs[name]["shape"] = now
                for host in (one, two):
                    host("inputs", inputs=inputs, dimensions=dimensions)
                    host("run")
                times = interleaved([one, two], "run", options.seconds, 50)
                found[model.name][size] = [each / size for each in times]
                a, b = (each / size * 1e6 for each in times)
                print(f"{size:6d}  onnxruntime {a:10.1f}  ephost {b:10.1f}  ratio {b / a:.2f}", flush=True)
    return found


def plot_scaling(found: dict[str, dict[int, list[float]]], path: str) -> None:
    """Time for each image or token by how many there are, both hosts."""
    pyplot = _pyplot()
    figure, all_axes = pyplot.subplots(
        1, len(found), figsize=(4.2 * len(found), 3.6), layout="constrained", squeeze=False
    )
    for axes, (name, sizes) in zip(all_axes[0], found.items(), strict=True):
        for at, host in enumerate(HOSTS):
            axes.plot(list(sizes), [pair[at] * 1e3 for pair in sizes.values()], marker="o", label=host)
        axes.set_xscale("log", base=2)
        axes.set_xticks(list(sizes), [str(size) for size in sizes])
        axes.set_ylim(bottom=0)
        axes.set_title(name, fontsize="medium")
        unit = SCALING[name][0]
        axes.set_xlabel(unit)
        axes.set_ylabel(f"ms for each of the {unit}")
        axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def _about() -> str:
    import importlib

    versions = ", ".join(f"{host} {importlib.import_module(host).__version__}" for host in HOSTS)
    return f"{versions}; {platform.machine()}, {os.cpu_count()} processors"


def main() -> int:
    """Measure and report; 1 with --check when a limit is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--models", type=Path, metavar="FOLDER", help="with what bench/export_models.py wrote"
    )
    parser.add_argument("--only", default="", help="models with this in their name; several, with commas")
    parser.add_argument("--seconds", type=float, default=6.0, help="for each measurement (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="all cores and opening only")
    parser.add_argument("--memory", action="store_true", help="peak memory only")
    parser.add_argument("--at-least", type=float, default=0.5, help="part of the nodes that must be claimed")
    parser.add_argument("--threads", type=int, default=0, help="for --profile and --scaling (0: all)")
    parser.add_argument("--profile", action="store_true", help="time by operator")
    parser.add_argument("--scaling", action="store_true", help="by batch and by tokens")
    parser.add_argument("--markdown", metavar="FILE")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--plot", metavar="FILE", help="PNG or SVG; needs matplotlib")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a limit is broken")
    options = parser.parse_args()
    wanted = options.only.split(",")
    models = [model for model in all_models(options.models) if any(text in model.name for text in wanted)]
    if options.plot:
        _pyplot()
    if options.scaling:
        found = scaling(models, options)
        if options.plot and found:
            plot_scaling(found, options.plot)
        if options.json:
            Path(options.json).write_text(json.dumps(found, indent=2) + "\n")
        return 0
    if options.profile:
        texts = []
        for model in models:
            texts.append(profile(model, options))
            print(texts[-1], end="\n\n", flush=True)
        if options.markdown:
            Path(options.markdown).write_text("\n\n".join(texts) + "\n")
        return 0
    results = []
    for model in models:
        result = measure(model, options)
        results.append(result)
        ratios = " ".join(
            _number(ratio(p))
            for p in (result.run, result.run_single, result.open, result.memory, result.process)
        )
        print(f"{model.name}: {result.claimed:.0%} {ratios} {result.failure}", file=sys.stderr, flush=True)
        text = f"{table(results)}\n\n{_about()}\n"
        if options.markdown:
            Path(options.markdown).write_text(text)
    print(text)
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(r) for r in results], indent=2) + "\n")
    if options.plot:
        plot(results, options.plot)
    return 1 if options.check and broken(results) else 0


def broken(results: Sequence[Result]) -> list[str]:
    """Which of the limits do not hold, one line for each; printed as well."""
    lines = []
    for r in results:
        if r.failure:
            lines.append(f"{r.name}: {r.failure}")
        elif not r.error <= TOLERANCE:
            lines.append(f"{r.name}: differs by {r.error:.1e}")
        if r.claimed < LIMITS["claimed"]:
            lines.append(f"{r.name}: {r.claimed:.0%} of the nodes are claimed")
        for key in ("run", "run_single"):
            if ratio(getattr(r, key)) > LIMITS["run of any"]:
                lines.append(f"{r.name}: {key} {ratio(getattr(r, key)):.2f}")
    for key in ("run", "run_single", "open", "memory"):
        mean = geometric_mean([ratio(getattr(r, key)) for r in results])
        if mean > LIMITS[key.removesuffix("_single")]:
            lines.append(f"geometric mean of {key}: {mean:.2f}")
    for line in lines:
        print(line, file=sys.stderr)
    return lines


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        sys.path.insert(0, str(SOURCE))
        Worker(sys.argv[2]).serve()
    else:
        sys.exit(main())
