"""Where the time of a run goes, by operator, on either side."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.sides import Host, Side

from whole_models.catalog import Model
from whole_models.measure import WORKER


def profile(model: Model, both: Sequence[Side], options: argparse.Namespace) -> str:
    """Where the time goes in either host, by operator; and ephost's longest steps."""
    found = []
    for side in both:
        with Host(side, WORKER) as host, tempfile.TemporaryDirectory() as folder:
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
        f"| operator | {both[0].name} | calls | {both[1].name} | calls | lost |",
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
        f"{both[1].name}'s longest steps: "
        + "; ".join(f"{n} {s * 1e3:.3f} ms" for n, s in found[1]["nodes"]),
    ]
    return "\n".join(lines)
