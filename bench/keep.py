"""Keeps in bench/results what a report of tests/vendor says.

After the command on the left, the one on the right::

    python -m tests.vendor.report FOLDER            python bench/keep.py node_tests FOLDER/report.json
    python -m tests.vendor.real_models FOLDER       python bench/keep.py vendor_models FOLDER/models.json
    python -m tests.vendor.compiled_models FOLDER   python bench/keep.py compiled_models FOLDER/compiled.json
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from harness.results import begin

# What is kept of a row of each report.
COLUMNS = {
    "node_tests": ("vendor", "host", "cases", "passed", "claimed", "reason"),
    "vendor_models": ("model", "vendors", "distance", "claimed", "nodes", "run", "wrong", "reason"),
    "compiled_models": ("model", "vendor", "host", "open", "open_compiled", "reason"),
}


def main() -> int:
    """Read the report and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("kind", choices=COLUMNS)
    parser.add_argument("report", type=Path)
    options = parser.parse_args()
    found = json.loads(options.report.read_text())
    rows = found["entries"] if isinstance(found, dict) else found
    if isinstance(found, dict) and (found["only"] or found["every"] > 1):
        raise SystemExit(f"{options.report} is a report of a part of the cases")
    kept = begin(options.kind)
    kept.rows = [{key: row[key] for key in COLUMNS[options.kind] if row[key] != ""} for row in rows]
    kept.keep()
    return 0


if __name__ == "__main__":
    sys.exit(main())
