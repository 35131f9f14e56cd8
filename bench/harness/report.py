"""What a benchmark prints and keeps, and the options that all have."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import results
from harness.sides import Side


@dataclass(frozen=True)
class Row:
    """One measurement: seconds on either side, and the ratio that is not to be exceeded, if any.

    ``least`` is how long it would take at the rate that is the processor's limit, where that is known.
    """

    name: str
    one: float
    other: float
    limit: float | None = None
    least: float | None = None

    @property
    def ratio(self) -> float:
        """The second side's time as a part of the first's."""
        return self.other / self.one

    @property
    def holds(self) -> bool:
        """Whether the ratio is within its limit."""
        return self.limit is None or self.ratio <= self.limit


def arguments(
    description: str | None, rounds: int, more: Callable[[argparse.ArgumentParser], None] | None = None
) -> argparse.Namespace:
    """The command line that the benchmarks of rows have; ``more`` may add to it."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=rounds, help="measurements of each host (%(default)s)")
    common(parser)
    if more is not None:
        more(parser)
    return checked(parser)


def common(parser: argparse.ArgumentParser) -> None:
    """Options of every benchmark."""
    parser.add_argument("--only", default="", help="measure what has this in its name; several, with commas")
    parser.add_argument("--save", action="store_true", help="keep the figures in bench/results")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a ratio is above its limit")
    parser.add_argument(
        "--against", type=Path, metavar="CHECKOUT", help="beside that checkout of ephost, not onnxruntime"
    )


def checked(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options, if they go together."""
    options = parser.parse_args()
    if options.save and (options.only or options.against):
        parser.error("--save keeps a whole comparison with onnxruntime: leave --only and --against away")
    return options


def wanted(name: str, options: argparse.Namespace) -> bool:
    """Whether --only asks for it."""
    return any(text in name for text in options.only.split(","))


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for models and copies of libraries, which may still be mapped when it is removed."""
    with tempfile.TemporaryDirectory(prefix="ephost-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def geometric_mean(values: Sequence[float]) -> float:
    """Of those that are numbers above 0; nan if none is."""
    good = [value for value in values if value > 0 and math.isfinite(value)]
    return math.exp(sum(map(math.log, good)) / len(good)) if good else math.nan


# What a newer commit may be slower than the one that it is compared with, in the mean.
AGAINST_LIMIT = 1.02


def report(
    kept: results.Results, rows: Sequence[Row], both: Sequence[Side], options: argparse.Namespace
) -> int:
    """Print the table, keep the figures; the exit code of the script."""
    one, other = (side.name for side in both)
    width = max([len(row.name) for row in rows], default=0)
    print(f"{'':{width}}  {one:>14}  {other:>14}  {'ratio':>6}  limit")
    for row in rows:
        limit = None if options.against else row.limit
        said = "" if limit is None else f"{limit:5.2f}" + ("" if row.holds else "  above")
        if row.least is not None:
            said += f"  {row.least / row.one:4.0%} and {row.least / row.other:4.0%} of the processor's limit"
        print(f"{row.name:{width}}  {_time(row.one)}  {_time(row.other)}  {row.ratio:6.3f}  {said}")
    mean = geometric_mean([row.ratio for row in rows])
    print(f"{'geometric mean':{width}}  {'':14}  {'':14}  {mean:6.3f}")
    kept.rows = [
        {"name": row.name, one: row.one, other: row.other}
        | ({} if options.against or row.limit is None else {"limit": row.limit})
        | ({} if row.least is None else {"least": row.least})
        for row in rows
    ]
    if options.json:
        kept.write(Path(options.json))
    if options.save:
        kept.keep()
    if not options.check:
        return 0
    return int(mean > AGAINST_LIMIT if options.against else not all(row.holds for row in rows))


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:11.1f} us" if seconds < 0.1 else f"{seconds * 1e3:11.1f} ms"


def note(text: str) -> None:
    """Say how far the measuring is."""
    print(text, file=sys.stderr, flush=True)


def dump(path: str, found: object) -> None:
    """Write JSON."""
    Path(path).write_text(json.dumps(found, indent=1) + "\n")
