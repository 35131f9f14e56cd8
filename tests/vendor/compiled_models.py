"""Models that vendors' plugins compile to EPContext nodes, in both hosts: what does one store that the other
does not?

    python -m tests.vendor.compiled_models FOLDER [--vendor NAME ...] [--model NAME ...]

Each model of :mod:`tests.vendor.real_models` is opened and run on the plugin, compiled, and opened and run
from what was compiled, each time in a process of its own, in ephost and, where it lists the plugin's device,
in onnxruntime. Outputs of the compiled model have to be those of the model, bit for bit.

Times of opening are the shortest of ``--rounds`` processes, in turns.

Writes FOLDER/compiled.json and FOLDER/compiled.md. Exit status 1 when onnxruntime can do it with a model and
ephost cannot. What is not done in time is listed with what it was at.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

if __package__:
    from .real_models import feeds_for, models, prepare, script
    from .vendors import VENDORS
else:
    sys.path.insert(0, str(Path(__file__).parent))
    from real_models import feeds_for, models, prepare, script
    from vendors import VENDORS

HOSTS = ("onnxruntime", "ephost")
COMPILING = ("openvino", "qnn")  # the vendors whose plugins store what they have compiled


@dataclass
class Row:
    """One model, plugin and host. ``reason`` says why there are no numbers, which are seconds."""

    model: str
    vendor: str
    host: str
    reason: str = ""
    late: bool = False  # the reason is that time was up
    context_nodes: int = 0
    nodes: int = 0  # of the compiled model
    open: float = 0.0
    open_compiled: float = 0.0


def measure(row: Row, model: Path, folder: Path, timeout: float, rounds: int) -> Row:
    """Fill in a row; openings are timed so often, what was run and compared among them."""
    folder = folder / f"{row.host}_{row.vendor}_{row.model}"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    target = folder / "compiled.onnx"
    vendor = VENDORS[row.vendor]
    case = {
        "host": row.host,
        "registration": vendor.registration,
        "library": str(vendor.library),
        "options": vendor.options,
        "embed": False,
        "feeds": str(folder / "feeds.npz"),
    }
    (folder / "case.json").write_text(json.dumps(case))
    np.savez(folder / "feeds.npz", **feeds_for(row.model, _Described(model)))  # type: ignore[arg-type]
    steps: list[tuple[str, Path, Path]] = [
        ("open", model, folder / "plain.npz"),
        ("compile", model, target),
        ("open", target, folder / "again.npz"),
        *(("time", source, folder / "none") for _ in range(rounds - 1) for source in (model, target)),
    ]
    seconds: dict[Path, list[float]] = {model: [], target: []}
    for action, source, output in steps:
        which = "the compiled model" if source == target else "the model"
        reason, said = script(
            "compile_vendor.py",
            [action, str(folder / "case.json"), str(source), str(output)],
            [row.vendor],
            timeout,
        )
        if reason:
            row.reason, row.late = f"{action} {which}: {reason}", reason.startswith("not done")
            return row
        told = json.loads(next(line for line in reversed(said.splitlines()) if line.startswith("{")))
        if action != "compile":
            seconds[source].append(told["seconds"])
    nodes = onnx.load(target, load_external_data=False).graph.node
    row.nodes, row.context_nodes = len(nodes), sum(node.op_type == "EPContext" for node in nodes)
    row.open, row.open_compiled = min(seconds[model]), min(seconds[target])
    with np.load(folder / "plain.npz") as plain, np.load(folder / "again.npz") as again:
        if not all(np.array_equal(plain[key], again[key]) for key in plain.files):
            row.reason = "the compiled model gives other outputs"
    return row


class _Described:
    """What :func:`real_models.feeds_for` asks of a session, of a model that is not opened."""

    def __init__(self, path: Path) -> None:
        graph = onnx.load(path, load_external_data=False).graph
        stored = {tensor.name for tensor in graph.initializer}
        self._inputs = [_Input(value) for value in graph.input if value.name not in stored]

    def get_inputs(self) -> list[_Input]:
        return self._inputs


class _Input:
    def __init__(self, proto: onnx.ValueInfoProto) -> None:
        kind = proto.type.tensor_type
        self.name = proto.name
        self.type = "tensor(float)" if kind.elem_type == onnx.TensorProto.FLOAT else "another"
        self.shape: list[Any] = [
            d.dim_value if d.dim_value > 0 else d.dim_param or None for d in kind.shape.dim
        ]


def lost(rows: Sequence[Row]) -> list[str]:
    """What onnxruntime can do and ephost cannot."""
    there = {(r.vendor, r.model) for r in rows if r.host == "onnxruntime" and not r.reason}
    return [
        f"{row.model} on {row.vendor}: {row.reason}"
        for row in rows
        if row.host == "ephost" and row.reason and (row.vendor, row.model) in there
    ]


def markdown(rows: Sequence[Row]) -> str:
    """The report for people."""
    return "\n".join(_lines(rows)) + "\n"


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    yield "# Models that vendors' plugins compile"
    yield ""
    yield "| model | plugin | host | EPContext nodes | open the model | open the compiled model | times |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        start = f"| {row.model} | {row.vendor} | {row.host} |"
        if row.reason:
            reason = row.reason.replace("|", "\\|")
            yield f"{start} {reason[:250]} | | | |"
            continue
        times = row.open / row.open_compiled
        numbers = f"{row.open * 1e3:.0f} ms | {row.open_compiled * 1e3:.0f} ms | {times:.1f}"
        yield f"{start} {row.context_nodes} of {row.nodes} | {numbers} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where models, outputs and the report go")
    parser.add_argument("--vendor", action="append", choices=COMPILING, help="default: all that can run")
    parser.add_argument("--model", action="append", help="default: all")
    parser.add_argument("--timeout", type=float, default=200, help="seconds for one step (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="openings of each (%(default)s)")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for name, path in models().items():
        if options.model and name not in options.model:
            continue
        model = prepare(name, path, options.folder)
        for vendor in options.vendor or COMPILING:
            for host in HOSTS:
                if VENDORS[vendor].missing(host):
                    continue
                row = Row(name, vendor, host)
                rows.append(measure(row, model, options.folder, options.timeout, options.rounds))
                print(asdict(rows[-1]), file=sys.stderr, flush=True)
                told = json.dumps([asdict(row) for row in rows], indent=1)
                (options.folder / "compiled.json").write_text(told + "\n")
                (options.folder / "compiled.md").write_text(markdown(rows))
    print(markdown(rows))
    for line in lost(rows):
        print(f"onnxruntime can, ephost cannot: {line}")
    return int(bool(lost(rows)))


if __name__ == "__main__":
    raise SystemExit(main())
