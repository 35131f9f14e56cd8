"""What a fresh process costs: an import, and the way to a first result, in turns.

The way to the first result (import, open a model, run it once) is in processor time, of all threads, and
without numpy's import. numpy's OpenBLAS has one thread: a second one looks for work for tens of
milliseconds after that import, and would count as whatever comes next. Both hosts may keep compiled modules,
as installed packages have them, whatever PYTHONDONTWRITEBYTECODE says.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import median

from harness.models import adds, package_models
from harness.report import Row, arguments, note, report, temporary_folder, wanted
from harness.results import begin
from harness.sides import Side, sides

_IMPORT = """
import sys, time
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""
_FIRST_RESULT = """
import sys, time
import numpy as np
start = time.process_time()
import {module}
session = {module}.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
shape = [int(size) for size in sys.argv[2:]]
session.run(None, {{value.name: np.ones(shape, np.float32) for value in session.get_inputs()}})
print(time.process_time() - start)
"""


def seconds(script: str, side: Side, folder: Path, *arguments: str) -> float:
    """What a script says that it took in a new interpreter, which keeps compiled modules in ``folder``."""
    environment = {
        **side.environment(),
        "PYTHONPYCACHEPREFIX": str(folder / "modules"),
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", script.format(module=side.module), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout)


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=30)
    both = sides(options.against)
    kept = begin("imports")
    rows = []
    with temporary_folder() as folder:
        model = adds(folder, "one")
        network = package_models("rapidocr_onnxruntime")["ch_ppocr_mobile_v2.0_cls_infer"]
        for name, script, *given in (
            ("import, numpy's included", _IMPORT),
            ("import, open and run one node, numpy's import not included", _FIRST_RESULT, model, "1"),
            ("the same with a network of 170 nodes", _FIRST_RESULT, network, "1", "3", "48", "192"),
        ):
            if not wanted(name, options):
                continue
            note(f"{name} ...")
            samples: dict[str, list[float]] = {side.name: [] for side in both}
            for side in both * 3:  # the first of them compiles
                seconds(script, side, folder, *given)
            order = list(both)
            for _ in range(options.rounds):
                for side in order:
                    samples[side.name].append(seconds(script, side, folder, *given))
                order.reverse()
            rows.append(Row(name, *(median(samples[side.name]) for side in both), limit=1.0))
    return report(kept, rows, both, options)


if __name__ == "__main__":
    sys.exit(main())
