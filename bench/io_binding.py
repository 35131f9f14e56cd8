"""Runs with bound values: the time of the Python layer, with 1, 4 and 16 inputs, beside onnxruntime's.

The model is one small node on the same plugin in both hosts, so that nearly all of a run is the way there and
back. Values are bound once; a run reads them where they are, and writes where the output is bound.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import nxrt_ep_cpu
from side_by_side import HOSTS, Hosts, Row, adds, arguments, interleave, report, temporary_folder

LIMIT = 0.7
INPUTS = (1, 4, 16)


def bound_run(module: Any, session: Any, inputs: int) -> Callable[[], None]:
    """A run of the session on values that are bound already."""
    binding = session.io_binding()
    for at in range(inputs):
        value = module.OrtValue.ortvalue_from_numpy(np.ones(1, np.float32))
        binding.bind_ortvalue_input(f"x{at}", value)
    binding.bind_ortvalue_output("y", module.OrtValue.ortvalue_from_numpy(np.zeros(1, np.float32)))
    return lambda: session.run_with_iobinding(binding)


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=300)
    with temporary_folder() as folder:
        hosts = Hosts(folder, {"nxrt": nxrt_ep_cpu.get_library_path()})
        rows = []
        for inputs in INPUTS:
            name = f"{inputs} bound inputs"
            if options.only not in name:
                continue
            model = adds(folder, f"in{inputs}", inputs=inputs)
            timed = {}
            for host in HOSTS:
                module = hosts.modules[host]
                timed[host] = bound_run(module, hosts.open(host, model, "nxrt"), inputs)
            rows.append(Row(name, **interleave(timed, options.rounds, 100), limit=LIMIT))
        return report(rows, options)


if __name__ == "__main__":
    sys.exit(main())
