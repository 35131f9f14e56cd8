"""Runs of which each has another shape, as no two lines of text or pictures have the same size.

Text recognizers get lines of other widths, detectors pictures of other sizes: rapidocr's, and with --packages
those that bench/collect_models.py has collected. On the host's own provider, all cores. The time of a run is
the mean of runs whose shapes came before in none of the last hundred. Results are held to each other first.

    python bench/shapes.py [--packages FOLDER] [--save]     beside onnxruntime
    python bench/shapes.py --against CHECKOUT               beside another commit of ephost
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import numpy as np
import onnx
from harness.models import package_models
from harness.report import Row, arguments, note, report, wanted
from harness.results import begin
from harness.sides import Host, in_turns, sides

LIMIT = 1.0
RUNS = 24  # of a measurement
WIDTHS = range(64, 960, 8)
SIDES = range(128, 480, 32)


def shapes_of(path: str) -> list[list[int]]:
    """Shapes in the order in which they are asked for; empty where the model has one, or is no such model."""
    inputs = onnx.load(path, load_external_data=False).graph.input
    if len(inputs) != 1:
        return []
    dims = [d.dim_value if d.HasField("dim_value") else 0 for d in inputs[0].type.tensor_type.shape.dim]
    if len(dims) != 4 or dims[1] not in (1, 3) or dims[3] > 0:
        return []
    name = Path(path).stem.lower()
    if "rec" in name:
        made = [[1, dims[1], dims[2] if dims[2] > 0 else 48, width] for width in WIDTHS]
    elif "det" in name:
        made = [[1, dims[1], height, width] for height in SIDES for width in SIDES]
    else:
        return []
    random.Random(0).shuffle(made)
    return made


def more(parser: argparse.ArgumentParser) -> None:
    """The option of this benchmark."""
    parser.add_argument(
        "--packages", metavar="FOLDER", type=Path, help="models of bench/collect_models.py, too"
    )


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, 5, more)
    both = sides(options.against)
    kept = begin("shapes")
    models = {
        f"rapidocr_{Path(name).stem}": str(path)
        for name, path in package_models("rapidocr_onnxruntime").items()
    }
    if options.packages:
        models |= {path.stem: str(path) for path in sorted(options.packages.glob("*.onnx"))}
    rows = []
    for name, path in models.items():
        shapes = shapes_of(path) if wanted(name, options) else []
        if not shapes:
            continue
        note(f"{name} ...")
        with Host(both[0]) as one, Host(both[1]) as other:
            hosts = (one, other)
            first, second = (np.array(host("prepare_shapes", model=path, shapes=shapes)) for host in hosts)
            if not np.allclose(first, second, rtol=1e-2, atol=1e-2):
                raise SystemExit(f"{name}: the hosts do not agree")
            times = in_turns(hosts, "run_next_shapes", rounds=options.rounds, runs=RUNS)
        rows.append(Row(name, *times, limit=LIMIT))
    return report(kept, rows, both, options)


if __name__ == "__main__":
    sys.exit(main())
