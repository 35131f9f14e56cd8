"""Whole models on vendors' plugins, one at a time or all registered at once: are the answers right?

    python -m tests.vendor.real_models FOLDER [--vendor NAME ...] [--model NAME ...] [--orders N]

The models are those that packages bring along: ONNX's nine light networks (their constant weights made
random, but for the largest, so that there is something to be wrong about), rapidocr's and magika's. Each
pair runs in a process of its own; what is expected comes from onnxruntime's CPU kernels in another.
``--orders N`` also registers in one process all of the vendors that run the model alone, in N orders of
priority.

Writes FOLDER/models.json and FOLDER/models.md. Exit status 1 when an answer is further off than the plugin's
precision allows, or when a plugin fails that does not fail in onnxruntime, unless it is a fault that
vendors.py knows; one that is not done in time is
listed with what it was at, and is no failure.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

if __package__:
    from .vendors import VENDORS, variables_of
else:
    sys.path.insert(0, str(Path(__file__).parent))
    from vendors import VENDORS, variables_of

HOST = Path(__file__).parents[2] / "host"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
SHAPES = {  # for dimensions that a model leaves open
    "det": (1, 3, 320, 320),
    "rec": (1, 3, 48, 320),
    "cls": (1, 3, 48, 192),
    "magika": (1, 2048),
}
STEP = "step: "  # how a line begins in which a process says what it does
_LONG = 30  # seconds from which on a run is not done again
_LARGE = 1 << 26  # elements up to which weights are made random


def models() -> dict[str, Path]:
    """The models that are here, by a short name."""
    found = {path.stem: path for path in sorted(LIGHT.glob("light_*.onnx"))}
    for package, names in (("rapidocr_onnxruntime", ("det", "rec", "cls")), ("magika", ("magika",))):
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations or []) if spec else []:
            for path in sorted(Path(root).rglob("*.onnx")):
                name = next((n for n in names if f"_{n}_" in path.name or n == "magika"), None)
                if name:
                    found[name] = path
    return found


def prepare(name: str, path: Path, folder: Path) -> Path:
    """A light network with random weights that nobody can replace; other models as they are."""
    if not name.startswith("light_"):
        return path
    target = folder / f"{name}.onnx"
    if target.exists():
        return target
    model = onnx.load(path)
    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    # Scale, shift, mean and variance of a normalisation: about 1, 0, 0 and 1.
    centre = {}
    for node in graph.node:
        if node.op_type == "BatchNormalization":
            centre.update(zip(node.input[1:5], (1.0, 0.0, 0.0, 1.0), strict=True))
    random = np.random.default_rng(0)
    nodes = []
    for node in graph.node:
        shape = None
        if node.op_type == "ConstantOfShape" and node.input[0] in stored:
            shape = numpy_helper.to_array(stored[node.input[0]])
        if shape is None or np.prod(shape) > _LARGE:
            nodes.append(node)
            continue
        numbers = random.standard_normal(shape)
        if (at := centre.get(node.output[0])) is not None:
            numbers = at + 0.1 * (np.abs(numbers) if at else numbers)
        elif len(shape) > 1:
            numbers *= np.sqrt(2 / max(1, np.prod(shape[1:])))
        graph.initializer.append(numpy_helper.from_array(numbers.astype(np.float32), node.output[0]))
    kept = [value for value in graph.input if value.name not in stored]
    read = {name for node in nodes for name in node.input}
    weights = [tensor for tensor in graph.initializer if tensor.name in read]  # not the shapes
    del graph.node[:], graph.input[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.input.extend(kept)
    graph.initializer.extend(weights)
    model.ir_version = max(model.ir_version, 4)
    _calm(model)
    onnx.save(model, target)
    return target


def _calm(model: onnx.ModelProto) -> None:
    """Scale the last weights so that the network is not sure of one class, which would hide differences."""
    import onnxruntime

    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    weights = {tensor.name: tensor for tensor in graph.initializer}
    softmax = next((node for node in graph.node if node.op_type == "Softmax"), None)
    last = makers.get(softmax.input[0]) if softmax is not None else None
    while last is not None and not (last.op_type in ("Conv", "Gemm") and last.input[1] in weights):
        last = makers.get(last.input[0])
    if softmax is None or last is None:
        return
    seen = onnx.ModelProto()
    seen.CopyFrom(model)
    del seen.graph.output[:]
    seen.graph.output.add(name=softmax.input[0])
    session = onnxruntime.InferenceSession(seen.SerializeToString(), providers=["CPUExecutionProvider"])
    largest = float(np.abs(session.run(None, feeds_for("", session))[0]).max())
    for name in last.input[1:]:
        if name in weights and np.isfinite(largest) and largest > 0:
            numbers = numpy_helper.to_array(weights[name]) * np.float32(3 / largest)
            weights[name].CopyFrom(numpy_helper.from_array(numbers, name))


def feeds_for(name: str, session: Any) -> dict[str, np.ndarray]:
    """The same picture or bytes in every host: strokes in lines like those of a text, or random numbers."""
    random = np.random.default_rng(0)
    made = {}
    for value in session.get_inputs():
        given = SHAPES.get(name, (1, *value.shape[1:]))
        shape = [d if isinstance(d, int) else given[at] for at, d in enumerate(value.shape)]
        if value.type != "tensor(float)":
            made[value.name] = random.integers(0, 256, shape).astype(np.int32)
        elif name in ("det", "rec", "cls"):
            picture = np.ones(shape, np.float32)
            for top in range(8, shape[2] - 24, 48):
                for left in range(8, shape[3] - 24, 6):
                    picture[:, :, top : top + random.integers(12, 32), left : left + 3] = -1
            made[value.name] = picture
        else:
            made[value.name] = random.standard_normal(shape).astype(np.float32)
    return made


# ---------------------------------------------------------------------------- in a process of its own


def work(host_name: str, name: str, model: str, output: str, vendors: Sequence[str]) -> None:
    """Open the model on these vendors' plugins, in this order of priority, run it twice, unless that takes
    long, and tell.
    """
    host = importlib.import_module(host_name)
    options = host.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    found: list[Any] = []
    registered = {}
    for vendor_name in vendors:
        vendor = VENDORS[vendor_name]
        host.register_execution_provider_library(vendor.registration, str(vendor.library))
        found = [d for d in host.get_ep_devices() if d.ep_metadata.get("library_path") == str(vendor.library)]
        registered[found[0].ep_name] = vendor_name
        options.add_provider_for_devices(found[:1], vendor.options)
    print(f"{STEP}opening", flush=True)
    started = time.perf_counter()
    session = host.InferenceSession(model, options, enable_fallback=0)
    opened = time.perf_counter()
    feeds = feeds_for(name, session)
    print(f"{STEP}the first run, after {opened - started:.0f} s of opening", flush=True)
    again = time.perf_counter()
    outputs = session.run(None, feeds)
    seconds = time.perf_counter() - again
    if seconds < _LONG:  # the second run finds the memory that the first one left
        print(f"{STEP}the second run, after a first of {seconds:.0f} s", flush=True)
        again = time.perf_counter()
        outputs = session.run(None, feeds)
        seconds = time.perf_counter() - again
    np.savez(output, *outputs)
    groups = session.get_provider_graph_assignment_info()
    claimed = dict.fromkeys(vendors, 0)
    for group in groups:
        if group.ep_name in registered:
            claimed[registered[group.ep_name]] += len(group.get_nodes())
    told = {
        "claimed": claimed,
        "nodes": sum(len(group.get_nodes()) for group in groups),
        "open": opened - started,
        "run": seconds,
    }
    Path(output).with_suffix(".json").write_text(json.dumps(told))
    del session, groups, options, found, feeds
    gc.collect()
    for vendor_name in vendors:
        host.unregister_execution_provider_library(VENDORS[vendor_name].registration)


# --------------------------------------------------------------------------------------- all of them


@dataclass
class Row:
    """One model on these vendors, in order of priority. ``reason`` says why there are no numbers."""

    model: str
    vendors: list[str]
    reason: str = ""
    wrong: bool = False
    distance: float = 0.0
    allowed: float = 0.0
    claimed: dict[str, int] = field(default_factory=dict)
    nodes: int = 0
    open: float = 0.0
    run: float = 0.0


def in_process(
    host: str, name: str, model: Path, output: Path, vendors: Sequence[str], timeout: float
) -> str:
    """Run :func:`work` in a process of its own; what was wrong, or ""."""
    told = json.dumps([host, name, str(model), str(output), vendors])
    return script(Path(__file__).name, ["--work", told], vendors, timeout)[0]


def script(name: str, arguments: Sequence[str], vendors: Sequence[str], timeout: float) -> tuple[str, str]:
    """Run a script of this folder, in what some vendors' plugins need around them: (what was wrong, or "";
    what it printed).
    """
    paths = [str(HOST), os.environ.get("PYTHONPATH", "")]
    variables = variables_of(VENDORS[vendor] for vendor in vendors)
    try:
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name(name)), *arguments],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={**os.environ, **variables, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
    except subprocess.TimeoutExpired as late:
        return f"not done in {timeout:.0f} s: {_reached(late.stdout)}", ""
    if done.returncode == 0:
        return "", done.stdout
    lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
    return f"ended with {done.returncode}: {lines[-1] if lines else ''}", done.stdout


def _reached(said: bytes | str | None) -> str:
    """The step that a process was at, of those that :func:`work` announces."""
    text = said.decode(errors="replace") if isinstance(said, bytes) else said or ""
    steps = [line.removeprefix(STEP) for line in text.splitlines() if line.startswith(STEP)]
    return f"{steps[-1]} was not over" if steps else "it had not begun"


def distance(mine: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, relative to the largest number; infinite for another shape or type."""
    if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype) or not np.isfinite(mine).all():
        return float("inf")
    return float(np.abs(mine - theirs).max() / max(float(np.abs(theirs).max()), 1e-6)) if mine.size else 0.0


def compare(row: Row, model: Path, folder: Path, timeout: float) -> Row:
    """Fill in a row; the expected outputs are kept in the folder."""
    _compare(row, model, folder, timeout)
    known = [VENDORS[v].faults[row.model] for v in row.vendors if row.model in VENDORS[v].faults]
    if row.wrong and known:
        found = row.reason or f"{row.distance:.1e} off"
        row.wrong, row.reason = False, f"the plugin's own fault ({known[0]}): {found}"
    return row


def _compare(row: Row, model: Path, folder: Path, timeout: float) -> Row:
    expected = folder / f"{row.model}.npz"
    if not expected.exists():
        problem = in_process("onnxruntime", row.model, model, expected, [], 600)
        if problem:
            row.reason, row.wrong = f"onnxruntime {problem}", True
            return row
    output = folder / f"{row.model}_{'_'.join(row.vendors)}.npz"
    output.unlink(missing_ok=True)
    row.reason = in_process("ephost", row.model, model, output, row.vendors, timeout)
    if row.reason:
        row.wrong = row.reason.startswith("ended")
        if row.wrong and row.vendors and not any(VENDORS[v].missing("onnxruntime") for v in row.vendors):
            there = in_process("onnxruntime", row.model, model, output, row.vendors, timeout)
            row.wrong = not there.startswith("ended")
            row.reason = f"{'' if row.wrong else 'in onnxruntime, too: '}{row.reason}"
        return row
    told = json.loads(output.with_suffix(".json").read_text())
    row.claimed, row.nodes, row.open, row.run = told["claimed"], told["nodes"], told["open"], told["run"]
    row.allowed = max((VENDORS[v].tolerance for v, n in row.claimed.items() if n), default=1e-4)
    with np.load(output) as mine, np.load(expected) as theirs:
        row.distance = max(distance(mine[key], theirs[key]) for key in theirs.files)
    row.wrong = not row.distance <= row.allowed
    return row


def markdown(rows: Sequence[Row]) -> str:
    """The report for people."""
    return "\n".join(_lines(rows)) + "\n"


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    yield "# Whole models on vendors' plugins"
    yield ""
    yield "| model | plugins | nodes on them | difference | allowed | open | run |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        where = ", ".join(row.vendors)
        if row.reason:
            reason = row.reason.replace("|", "\\|")
            yield f"| {row.model} | {where} | {reason[:200]} | | | | |"
            continue
        claimed = " + ".join(str(row.claimed[name]) for name in row.vendors)
        off = f"{row.distance:.1e}" + (" **too far**" if row.wrong else "")
        numbers = f"{off} | {row.allowed:.0e} | {row.open:.2f} s | {row.run * 1e3:.1f} ms"
        yield f"| {row.model} | {where} | {claimed} of {row.nodes} | {numbers} |"


def orders(vendors: Sequence[str], count: int) -> list[list[str]]:
    """Different orders of the vendors: each comes first once, then the reverse of those."""
    turned = [[*vendors[at:], *vendors[:at]] for at in range(len(vendors))]
    return [*turned, *(order[::-1] for order in turned)][:count]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where models, outputs and the report go")
    parser.add_argument("--vendor", action="append", choices=list(VENDORS), help="default: all that can run")
    parser.add_argument("--model", action="append", help="default: all; none: --model none")
    parser.add_argument("--orders", type=int, default=0, help="orders in which to use all of them at once")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one model (%(default)s)")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    here = [name for name in options.vendor or VENDORS if not VENDORS[name].missing()]
    rows = []
    for name, path in models().items():
        if options.model and name not in options.model:
            continue
        model = prepare(name, path, options.folder)
        alone = []
        for vendor in here:
            alone.append(compare(Row(name, [vendor]), model, options.folder, options.timeout))
            _write([*rows, *alone], options.folder)
        rows += alone
        # What fails or takes too long alone does so in company, and would hide what the others do.
        able = [row.vendors[0] for row in alone if not row.reason]
        for order in orders(able, options.orders) if len(able) > 1 else []:
            rows.append(compare(Row(name, order), model, options.folder, options.timeout))
            _write(rows, options.folder)
    print(markdown(rows))
    return int(any(row.wrong for row in rows))


def _write(rows: Sequence[Row], folder: Path) -> None:
    """Keep what is known so far, and say what was last."""
    print(asdict(rows[-1]), file=sys.stderr, flush=True)
    (folder / "models.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    (folder / "models.md").write_text(markdown(rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(*json.loads(sys.argv[2]))
    else:
        raise SystemExit(main())
