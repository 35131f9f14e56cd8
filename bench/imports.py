"""`import ephost` and `import onnxruntime`, each in a fresh process, in turns."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median

from side_by_side import HOSTS, SOURCE, Row, arguments, report, temporary_folder

_SCRIPT = """
import sys, time
sys.path.insert(0, {source!r})
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""


def import_time(module: str, cache: Path) -> float:
    """Seconds that the import takes in a new interpreter, which keeps compiled modules in ``cache``."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    script = _SCRIPT.format(source=str(SOURCE), module=module)
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, env=environment
    )
    return float(done.stdout)


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=30)
    samples: dict[str, list[float]] = {host: [] for host in HOSTS}
    with temporary_folder() as cache:
        runs = [(host, partial(import_time, host, cache)) for host in HOSTS]
        for _ in range(3):  # the first of them compiles
            for _, run in runs:
                run()
        for _ in range(options.rounds):
            for host, run in runs:
                samples[host].append(run())
            runs.reverse()
    return report(
        [Row("import", **{host: median(times) for host, times in samples.items()}, limit=1.0)], options
    )


if __name__ == "__main__":
    sys.exit(main())
