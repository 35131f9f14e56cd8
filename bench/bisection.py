"""What a search for a fault costs: from the start to the first node that diverges, in runs of the model.

A plugin with one wrong node runs models of many nodes: products of matrices, functions and sums in turn. The
first column is one run of the model on that plugin, the second all of the search but for starting processes
and opening models; the limit is 20 runs. What a search costs beside runs (comparing each value, writing the
reference's) does not shrink with the model, so that small models are far above it: they have no limit.

    python bench/bisection.py [--save]
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from statistics import median

import numpy as np
import onnx
from harness.machine import ROOT
from harness.report import Row, arguments, note, report, temporary_folder, wanted
from harness.results import begin
from harness.sides import Side

sys.path[:0] = [str(ROOT / part) for part in ("host", "tests/plugins", "tests/bisection")]
import ephost  # noqa: E402
from ephost.bisection.processes import Trial, Worker  # noqa: E402
from ephost.bisection.targets import Library, Target  # noqa: E402
from plugin_harness import build_plugin  # noqa: E402
from searched_models import chain_model  # noqa: E402

# nodes, width of the matrices, rows, limit
CASES = (
    (10, 16, 4, None),
    (1000, 16, 4, None),
    (1000, 256, 16, 20.0),
    (1000, 256, 64, 20.0),
)
_LIMIT = 300.0  # seconds


def one_run(target: Target, model: onnx.ModelProto) -> float:
    """Seconds of a run of a model, the median of some."""
    value = model.graph.input[0]
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    trial = Trial(model.SerializeToString(), [{value.name: np.ones(shape, np.float32)}], repeats=5)
    with Worker(target) as worker:
        verdict = worker.attempt(trial, _LIMIT)
    if verdict.status != "ok":
        raise RuntimeError(f"{verdict.status} at {verdict.stage}: {verdict.message}")
    return median(verdict.run_seconds)


def search(target: Target, model: onnx.ModelProto, node: str) -> float:
    """Seconds of a search that finds a node, beyond starting processes and opening models."""
    result = ephost.bisect(model, target, probes=False, shrink=False, timeout=_LIMIT)
    found = [fault.nodes for fault in result.faults]
    if found != [(node,)] or not result.first.startswith(f"{node} "):
        raise RuntimeError(f"the fault is in {node}, and found was {found}, first {result.first!r}")
    return result.seconds - result.loading_seconds


def plugin_option(parser: argparse.ArgumentParser) -> None:
    """--plugin."""
    parser.add_argument(
        "--plugin", metavar="FILE", help="tests/plugins/faulty_plugin, where it is built already"
    )


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=3, more=plugin_option)
    both = Side("one run", "ephost"), Side("search", "ephost")
    kept = begin("bisection")
    rows = []
    with temporary_folder() as folder:
        library = options.plugin or build_plugin(ROOT / "tests" / "plugins" / "faulty_plugin", Path(folder))
        target = Target("faulty", libraries=(Library("faulty", str(library)),))
        for nodes, size, height, limit in CASES:
            name = f"{nodes:,} nodes, {height} x {size}"
            if not wanted(name, options):
                continue
            note(f"{name} ...")
            node = f"n{nodes * 7 // 10 // 3 * 3}"  # a product
            os.environ["EPHOST_FAULT"] = f"scaled@{node}"
            model = chain_model(nodes, size, height)
            runs, searches = [], []
            for _ in range(options.rounds):
                runs.append(one_run(target, model))
                searches.append(search(target, model, node))
            rows.append(Row(name, median(runs), median(searches), limit=limit))
    return report(kept, rows, both, options)


if __name__ == "__main__":
    sys.exit(main())
