"""Measurements that are kept: ``bench/results/MACHINE/BENCHMARK.json``. ``make results`` shows them.

A file has what was measured (``rows``, by benchmark) and under which conditions: machine, date, commit,
versions, command, the machine's load when it began and ended, and ``origin``, which is "measured" or
"transcribed" (carried over by hand from an earlier table, with a note that says from where).
"""

from __future__ import annotations

import datetime
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import machine as here

FOLDER = here.ROOT / "bench" / "results"


@dataclass
class Results:
    """One file of results."""

    benchmark: str
    machine: dict[str, Any]
    date: str
    commit: str
    versions: dict[str, str]
    command: str
    origin: str
    load: list[float]
    rows: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return FOLDER / here.folder_name(self.machine) / f"{self.benchmark}.json"

    def write(self, path: Path) -> None:
        """Write to a file, whole or not at all."""
        about = {key: value for key, value in vars(self).items() if key != "rows" and value != ""}
        lines = ",\n  ".join(json.dumps(row) for row in self.rows)  # one a line, for who compares two
        text = json.dumps(about, indent=1).removesuffix("\n}") + f',\n "rows": [\n  {lines}\n ]\n}}'
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(text + "\n")
        partial.replace(path)

    def keep(self) -> None:
        """Write to where the documents are made from."""
        self.load.append(here.load())
        self.write(self.path)
        print(f"kept in {self.path.relative_to(here.ROOT)}", file=sys.stderr)


def begin(benchmark: str, accelerator: str = "") -> Results:
    """Results of this machine and this commit, as yet without rows.

    ``accelerator`` is what is measured, where it is not the processor.
    """
    described = here.machine() | ({"accelerator": accelerator} if accelerator else {})
    command = " ".join(["python", "bench/" + Path(sys.argv[0]).name, *sys.argv[1:]])
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Results(
        benchmark, described, today, here.commit(), here.versions(), command, "measured", [here.load()]
    )


def read(path: Path) -> Results:
    """A file of results.

    Raises:
        ValueError: it is not one, or lies where those of another machine belong.
    """
    try:
        found = Results(**json.loads(path.read_text()))
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    if found.path.name != path.name or found.path.parent.name != path.parent.name:
        raise ValueError(f"{path}: these results belong to {found.path}")
    if found.origin not in ("measured", "transcribed"):
        raise ValueError(f"{path}: no origin is called {found.origin!r}")
    return found


def all_results(folder: Path = FOLDER) -> dict[str, list[Results]]:
    """By benchmark, the results of each machine, in the order of the machines' names."""
    found: dict[str, list[Results]] = {}
    for path in sorted(folder.glob("*/*.json")):
        results = read(path)
        found.setdefault(results.benchmark, []).append(results)
    return found
