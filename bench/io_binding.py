"""Runs with bound values: the time of the Python layer, with 1, 4 and 16 inputs, beside onnxruntime's.

The model is one small node on the same plugin in both hosts, so that nearly all of a run is the way there and
back. Values are bound once; a run reads them where they are, and writes where the output is bound.
"""

from __future__ import annotations

import sys

import nxrt_ep_cpu
from harness.models import adds
from harness.report import Row, arguments, note, report, temporary_folder, wanted
from harness.results import begin
from harness.sides import Host, in_turns, sides

LIMIT = 0.7
INPUTS = (1, 4, 16)


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=25)
    both = sides(options.against)
    kept = begin("io_binding")
    rows = []
    with temporary_folder() as folder, Host(both[0]) as one, Host(both[1]) as other:
        hosts = (one, other)
        for host in hosts:
            host("register", name="nxrt", path=nxrt_ep_cpu.get_library_path())
        for inputs in INPUTS:
            name = f"{inputs} bound inputs" if inputs > 1 else "1 bound input"
            if not wanted(name, options):
                continue
            note(f"{name} ...")
            model = adds(folder, f"in{inputs}", inputs=inputs)
            for host in hosts:
                host("prepare_bound", model=model, plugin="nxrt")
            rows.append(Row(name, *in_turns(hosts, "run", rounds=options.rounds, calls=100), limit=LIMIT))
    return report(kept, rows, both, options)


if __name__ == "__main__":
    sys.exit(main())
