"""`import ephost` and `import onnxruntime`, each in a fresh process, in turns.

Both may keep compiled modules, as installed packages have them, whatever PYTHONDONTWRITEBYTECODE says.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import median

from harness.report import Row, arguments, report, temporary_folder
from harness.results import begin
from harness.sides import Side, sides

_SCRIPT = """
import sys, time
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""


def import_time(side: Side, cache: Path) -> float:
    """Seconds that the import takes in a new interpreter, which keeps compiled modules in ``cache``."""
    environment = {**side.environment(), "PYTHONPYCACHEPREFIX": str(cache)}
    command = [sys.executable, "-c", _SCRIPT.format(module=side.module)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout)


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=30)
    both = sides(options.against)
    kept = begin("imports")
    samples: dict[str, list[float]] = {side.name: [] for side in both}
    with temporary_folder() as cache:
        for side in both * 3:  # the first of them compiles
            import_time(side, cache)
        order = list(both)
        for _ in range(options.rounds):
            for side in order:
                samples[side.name].append(import_time(side, cache))
            order.reverse()
    times = [median(samples[side.name]) for side in both]
    return report(kept, [Row("import, numpy's included", *times, limit=1.0)], both, options)


if __name__ == "__main__":
    sys.exit(main())
