"""What the benchmarks share: both hosts in one process, small models, interleaved timing, and the report.

Absolute times drift from minute to minute on a shared machine, so every figure is a ratio of two medians
whose samples were taken in turns. Each host loads a copy of a plugin of its own: loaded twice from one file
it would be one library with one set of global variables, and each host would run with what the other had set.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

# Seconds between the turns of hosts in processes of their own: threads of onnxruntime spin for over 30 ms.
PAUSE = 0.1
HOSTS = ("onnxruntime", "ephost")
SOURCE = Path(__file__).resolve().parent.parent / "host"
if SOURCE.is_dir() and str(SOURCE) not in sys.path:
    sys.path.insert(0, str(SOURCE))


@dataclass(frozen=True)
class Row:
    """One measurement: seconds in either host, and the ratio that is not to be exceeded, if any."""

    name: str
    onnxruntime: float
    ephost: float
    limit: float | None = None

    @property
    def ratio(self) -> float:
        """ephost's time as a part of onnxruntime's."""
        return self.ephost / self.onnxruntime

    @property
    def holds(self) -> bool:
        """Whether the ratio is within its limit."""
        return self.limit is None or self.ratio <= self.limit


def interleave(
    functions: Mapping[str, Callable[[], Any]], rounds: int, calls: int = 1, warmup: int = 3
) -> dict[str, float]:
    """The median time of one call of each function, in seconds.

    Args:
        functions: by host. What one returns is dropped outside of the measured time.
        rounds: how often each is measured, in turns; every second round in the opposite order.
        calls: calls in one measurement, for what is too quick to time alone.
        warmup: measurements of each that are not counted.
    """
    samples: dict[str, list[float]] = {name: [] for name in functions}
    order = list(functions)
    for round_number in range(-warmup, rounds):
        for name in order:
            function = functions[name]
            result = None
            start = time.perf_counter()
            for _ in range(calls):
                result = function()
            elapsed = time.perf_counter() - start
            del result
            if round_number >= 0:
                samples[name].append(elapsed / calls)
        order.reverse()
    return {name: statistics.median(times) for name, times in samples.items()}


class Hosts:
    """onnxruntime and ephost in this process, each with its own copies of the plugins."""

    def __init__(self, folder: Path, plugins: Mapping[str, str]) -> None:
        """Register ``plugins`` (name -> path of the library) in both."""
        self.modules: dict[str, Any] = {host: importlib.import_module(host) for host in HOSTS}
        self._devices: dict[tuple[str, str], list[Any]] = {}
        for host, module in self.modules.items():
            for name, path in plugins.items():
                copy = copy_library(path, folder / host)
                before = {device.ep_name for device in module.get_ep_devices()}
                module.register_execution_provider_library(name, copy)
                self._devices[host, name] = [d for d in module.get_ep_devices() if d.ep_name not in before]

    def options(self, host: str, plugin: str) -> Any:
        """Session options of the host that choose all devices of the plugin."""
        options = self.modules[host].SessionOptions()
        options.add_provider_for_devices(self._devices[host, plugin], {})
        return options

    def open(self, host: str, model: str, plugin: str) -> Any:
        """A session of the host."""
        return self.modules[host].InferenceSession(model, self.options(host, plugin))


def copy_library(path: str, folder: Path) -> str:
    """A copy of a plugin library in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return str(shutil.copy(path, folder / Path(path).name))


def adds(folder: Path, name: str, *, nodes: int = 1, shape: Sequence[int] = (1,), inputs: int = 2) -> str:
    """A small model of the inputs ``x0``, ``x1``, ...

    Of two inputs: so many Adds, one after the other. Of one: a Neg. Of more: a Sum.
    """
    names = [f"x{i}" for i in range(inputs)]
    made = []
    if inputs != 2:
        made.append(helper.make_node("Neg" if inputs == 1 else "Sum", names, ["y"], name="node"))
    else:
        last = names[0]
        for at in range(nodes):
            output = "y" if at == nodes - 1 else f"v{at}"
            made.append(helper.make_node("Add", [last, names[1]], [output], name=f"add{at}"))
            last = output
    graph = helper.make_graph(
        made,
        name,
        [helper.make_tensor_value_info(each, TensorProto.FLOAT, shape) for each in names],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    path = str(folder / f"{name}.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def package_models(package: str) -> dict[str, str]:
    """The ``.onnx`` files of a package, by stem; none when it is not installed. It is not imported."""
    spec = importlib.util.find_spec(package)
    roots = spec.submodule_search_locations if spec is not None else None
    files = sorted(file for root in roots or () for file in Path(root).rglob("*.onnx"))
    return {file.stem: str(file) for file in files}


def arguments(
    description: str | None, rounds: int, more: Callable[[argparse.ArgumentParser], None] | None = None
) -> argparse.Namespace:
    """The command line that every benchmark has; ``more`` may add to it."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=rounds, help="measurements of each host (%(default)s)")
    parser.add_argument("--only", default="", help="measure what has this in its name")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a ratio is above its limit")
    if more is not None:
        more(parser)
    return parser.parse_args()


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for models and copies of libraries, which may still be mapped when it is removed."""
    with tempfile.TemporaryDirectory(prefix="ephost-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def report(rows: Sequence[Row], options: argparse.Namespace) -> int:
    """Print the table, write the JSON; the exit code of the script."""
    width = max([len(row.name) for row in rows], default=0)
    print(f"{'':{width}}  {'onnxruntime':>14}  {'ephost':>14}  {'ratio':>6}  limit")
    for row in rows:
        limit = "" if row.limit is None else f"{row.limit:5.2f}" + ("" if row.holds else "  above")
        print(f"{row.name:{width}}  {_time(row.onnxruntime)}  {_time(row.ephost)}  {row.ratio:6.3f}  {limit}")
    if options.json:
        about = {
            "versions": {host: importlib.import_module(host).__version__ for host in HOSTS},
            "machine": platform.machine(),
            "processors": os.cpu_count(),
            "rounds": options.rounds,
        }
        rows_json = [asdict(row) | {"ratio": row.ratio} for row in rows]
        Path(options.json).write_text(json.dumps({"about": about, "rows": rows_json}, indent=2) + "\n")
    return 1 if options.check and not all(row.holds for row in rows) else 0


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:11.1f} us" if seconds < 0.1 else f"{seconds * 1e3:11.1f} ms"
