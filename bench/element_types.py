"""Every operator on elements of every type: one node at a time, on one thread, on the host's own provider.

Cases that onnxruntime has no kernel for are left out. Kept is for each operator how many cases it has, their
mean, and the slowest; --only takes operators.

    python bench/element_types.py [--save]              beside onnxruntime
    python bench/element_types.py --against CHECKOUT    beside another commit of ephost
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from harness import typed_nodes
from harness.report import Row, arguments, geometric_mean, note, temporary_folder
from harness.results import Results, begin
from harness.sides import Failed, Host, in_turns, sides

CALL = 5e-4  # Seconds or so of calls that are timed together.
LIMIT = 1.15


def _slowest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--slowest", type=int, default=40, help="cases that are printed (%(default)s)")


def _report(
    kept: Results, rows: dict[str, list[Row]], refused: list[str], options: argparse.Namespace
) -> int:
    """Print the slowest cases and the mean, keep a row of each operator; the exit code."""
    every = [(operator, row) for operator, some in rows.items() for row in some]
    every.sort(key=lambda pair: -pair[1].ratio)
    for operator, row in every[: options.slowest]:
        name = f"{operator}, {row.name}"
        print(f"{name:50}  {row.one * 1e6:9.1f} us  {row.other * 1e6:9.1f} us  {row.ratio:6.2f}")
    for text in refused:
        print(text)
    above = sum(row.ratio > LIMIT for _, row in every)
    mean = geometric_mean([row.ratio for _, row in every])
    print(f"{len(every)} cases, {mean:.3f} in the mean, {above} above {LIMIT}, {len(refused)} refused")
    for operator, some in sorted(rows.items()):
        if some:
            slowest = max(some, key=lambda row: row.ratio)
            kept.rows.append(
                {
                    "name": operator,
                    "cases": len(some),
                    "mean": geometric_mean([row.ratio for row in some]),
                    "above": sum(row.ratio > LIMIT for row in some),
                    "slowest": slowest.name,
                    "ratio": slowest.ratio,
                }
            )
    if options.json:
        kept.write(Path(options.json))
    if options.save:
        kept.keep()
    return int(bool(options.check and (above or refused)))


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=5, more=_slowest)
    both = sides(options.against)
    kept = begin("element_types")
    asked = set(filter(None, options.only.split(",")))
    rows: dict[str, list[Row]] = defaultdict(list)
    refused = []
    with temporary_folder() as folder, Host(both[0]) as one, Host(both[1]) as other:
        hosts = (one, other)
        model, feed = folder / "model.onnx", folder / "feed.npz"
        for case in typed_nodes.cases():
            if asked and case.operator not in asked:
                continue
            if not rows[case.operator]:
                note(f"{case.operator} ...")
            model.write_bytes(case.model())
            np.savez(feed, **case.feed)
            given = {"model": str(model), "feed": str(feed)}
            try:
                hosts[0]("prepare_alone", **given)
            except Failed:
                continue
            try:
                hosts[1]("prepare_alone", **given)
            except Failed as error:
                refused.append(f"{case.operator} of {case.name}: {error}")
                continue
            calls = max(1, min(50, round(CALL / hosts[0]("run", calls=1))))
            times = in_turns(hosts, "run", rounds=options.rounds, pause=0, calls=calls)
            rows[case.operator].append(Row(case.name, *times))
    return _report(kept, rows, refused, options)


if __name__ == "__main__":
    sys.exit(main())
