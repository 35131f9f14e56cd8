"""Run the ONNX standard's node tests on vendors' plugins in both hosts, and say how they did.

    python -m tests.vendor.report FOLDER [--vendor NAME ...] [--host NAME ...] [--only REGEX ...] [--every N]

Writes FOLDER/report.md for people and FOLDER/report.json for programs: for each plugin and host how many
cases ran, passed and had nodes on the plugin, how long their runs took there and here, and which cases pass
(or are claimed) in onnxruntime but not in ephost. The records of each run, one for each case, are
FOLDER/HOST_VENDOR.json. The vendor ``none`` is no plugin at all. A plugin that cannot run is listed with the
reason.

Exit status: 0; 1 when there is a case that onnxruntime does better; 2 when a run did not come to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

if __package__:
    from . import compare
    from .vendors import VENDORS
else:
    import compare
    from vendors import VENDORS

HOSTS = ("ephost", "onnxruntime")
NO_PLUGIN = "none"
_LOSSES = {
    "fails": "pass in onnxruntime, not in {}",
    "unclaimed": "are claimed in onnxruntime, not in {}",
    "fallbacks": "pass on the plugin in onnxruntime, only without it in {}",
}


@dataclass
class Entry:
    """One plugin in one host. ``reason`` says why there are no numbers; ``broken`` that there should be."""

    vendor: str
    host: str
    cases: int = 0
    passed: int = 0
    claimed: int = 0
    crashed: int = 0
    crashes: list[str] = field(default_factory=list)  # case: how it ended, and what was said last
    # case: status, and why the host went on without the plugin; what passes there is counted in ``passed``
    fallbacks: list[str] = field(default_factory=list)
    reason: str = ""
    broken: bool = False
    regressions: dict[str, list[str]] = field(default_factory=dict)
    # Of cases with nodes on the plugin in both hosts: the median of a run's time as a part of onnxruntime's,
    # and how many were quicker here than there.
    ratio: float | None = None
    faster: int = 0
    slower: int = 0


def measure(vendor: str, host: str, only: Sequence[str], folder: Path, every: int = 1) -> Entry:
    """Run the node tests in a process of their own, and keep their records in the folder."""
    entry = Entry(vendor, host)
    output = folder / f"{host}_{vendor}.json"
    output.unlink(missing_ok=True)
    command = [sys.executable, str(Path(__file__).with_name("compare.py")), host, "--output", str(output)]
    command += ["--every", str(every)]
    variables = dict(os.environ)
    if vendor != NO_PLUGIN:
        plugin = VENDORS[vendor]
        entry.reason = plugin.missing(host)
        if entry.reason:
            return entry
        options = "".join(f",{key}={value}" for key, value in plugin.options.items())
        command += ["--ep", f"{plugin.registration}={plugin.library}{options}"]
        variables.update(plugin.variables())
    for pattern in only:
        command += ["--only", pattern]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    if not output.exists():
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        entry.reason, entry.broken = lines[-1], True
        return entry
    results = compare.read_results(output)
    entry.cases = len(results)
    entry.passed = sum(result.status == "pass" for result in results)
    entry.claimed = sum(bool(result.claimed) for result in results)
    lost = [result for result in results if result.status in ("crash", "timeout")]
    entry.crashed = len(lost)
    entry.fallbacks = [f"{r.name}: {r.status}: {r.fallback}" for r in results if r.fallback]
    entry.crashes = [f"{result.name}: {result.status}: {result.error}" for result in lost]
    return entry


def add_comparison(entries: Sequence[Entry], folder: Path) -> None:
    """Fill in what onnxruntime does and ephost does not, and who is quicker, for plugins that ran in both."""
    ran = {(entry.vendor, entry.host): entry for entry in entries if not entry.reason}
    for (vendor, host), entry in ran.items():
        if host == "ephost" and (vendor, "onnxruntime") in ran:
            here, there = (
                compare.read_results(folder / f"{name}_{vendor}.json") for name in ("ephost", "onnxruntime")
            )
            entry.regressions = compare.regressions(here, there)
            theirs = {r.name: r.seconds for r in there if r.seconds and (r.claimed or vendor == NO_PLUGIN)}
            ratios = [
                r.seconds / theirs[r.name]
                for r in here
                if r.seconds and r.name in theirs and (r.claimed or vendor == NO_PLUGIN)
            ]
            if ratios:
                entry.ratio = statistics.median(ratios)
                entry.faster = sum(ratio < 1 for ratio in ratios)
                entry.slower = len(ratios) - entry.faster


def markdown(entries: Sequence[Entry], every: int = 1) -> str:
    """The report for people."""
    return "\n".join(_lines(entries, every)) + "\n"


def _lines(entries: Sequence[Entry], every: int) -> Iterator[str]:
    yield "# The ONNX standard's node tests on vendors' plugins"
    yield ""
    if every > 1:
        yield f"This is a sample: one of {every} cases.\n"
    yield (
        "| plugin | host | cases | passed | with nodes on the plugin | without it, since it failed | "
        "crashed or hung | time of a run |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for e in entries:
        numbers = f"{e.cases} | {e.passed} | {e.claimed} | {len(e.fallbacks)} | {e.crashed}"
        reason = e.reason.replace("|", "\\|")
        time = f"{e.ratio:.2f} of onnxruntime's, {e.faster} faster, {e.slower} slower" if e.ratio else ""
        cells = f"{reason} | | | | |" if e.reason else f"{numbers} | {time}"
        yield f"| {e.vendor} | {e.host} | {cells} |"
    for e in entries:
        if e.crashes:
            yield f"\n## {e.vendor} in {e.host}: {len(e.crashes)} cases that end the process, or never end\n"
            yield from (f"- {line.splitlines()[0]}" for line in e.crashes)
    for e in entries:
        if e.fallbacks:
            count = len(e.fallbacks)
            yield f"\n## {e.vendor} in {e.host}: {count} cases that ran without it, since it failed\n"
            yield from (f"- {line.splitlines()[0]}" for line in e.fallbacks)
    for e in entries:
        for what, lines in e.regressions.items():
            if lines:
                yield f"\n## {e.vendor}: {len(lines)} cases that {_LOSSES[what].format(e.host)}\n"
                yield from (f"- {line.splitlines()[0]}" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the report goes")
    parser.add_argument("--vendor", action="append", choices=[NO_PLUGIN, *VENDORS], help="default: all")
    parser.add_argument("--host", action="append", choices=HOSTS, help="default: both")
    parser.add_argument("--only", action="append", default=[], metavar="REGEX", help="matching cases only")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="a sample: every N-th case")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for vendor in options.vendor or [NO_PLUGIN, *VENDORS]:
        for host in options.host or HOSTS:
            entries.append(measure(vendor, host, options.only, options.folder, options.every))
            print(f"{vendor} in {host}: {asdict(entries[-1])}", file=sys.stderr, flush=True)
    add_comparison(entries, options.folder)
    text = markdown(entries, options.every)
    (options.folder / "report.md").write_text(text)
    report = {
        "only": options.only,
        "every": options.every,
        "entries": [asdict(entry) for entry in entries],
    }
    (options.folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    print(text)
    if any(entry.broken for entry in entries):
        return 2
    return int(any(lines for entry in entries for lines in entry.regressions.values()))


if __name__ == "__main__":
    raise SystemExit(main())
