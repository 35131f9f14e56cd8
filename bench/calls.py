"""One call of a session in either host: what the way into a run and back costs.

A one-node model on nxrt-ep-cpu is nearly all host; the chain of 1,000 Adds on sample_kernels, which has a
kernel for each, shows what a step costs. (nxrt-ep-cpu fuses it into one node.)

    python bench/calls.py [--save]                  beside onnxruntime
    python bench/calls.py --against CHECKOUT        beside another commit of ephost
"""

from __future__ import annotations

import sys

import nxrt_ep_cpu
from harness.models import adds
from harness.report import Row, arguments, note, report, temporary_folder, wanted
from harness.results import begin
from harness.sides import Host, in_turns, sides


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=25)
    both = sides(options.against)
    kept = begin("calls")
    rows = []
    with temporary_folder() as folder, Host(both[0]) as one, Host(both[1]) as other:
        hosts = (one, other)
        for host in hosts:
            host("register", name="nxrt", path=nxrt_ep_cpu.get_library_path())
            host("register", name="sample_kernels", path=host.side.bundled("sample_kernels"))
        cases = [
            ("one node of [1] on nxrt", "nxrt", adds(folder, "one"), [1], 100, 0.6),
            ("one node of [1, 64] on nxrt", "nxrt", adds(folder, "row", shape=(1, 64)), [1, 64], 100, 0.6),
            ("one node with 1 input on nxrt", "nxrt", adds(folder, "in1", inputs=1), [1], 100, 0.6),
            ("one node with 4 inputs on nxrt", "nxrt", adds(folder, "in4", inputs=4), [1], 100, 0.6),
            ("one node with 16 inputs on nxrt", "nxrt", adds(folder, "in16", inputs=16), [1], 100, 0.6),
            ("one node on sample_kernels", "sample_kernels", adds(folder, "kernel"), [1], 100, 0.6),
            (
                "1,000 Adds on sample_kernels",
                "sample_kernels",
                adds(folder, "chain", nodes=1000),
                [1],
                3,
                0.7,
            ),
        ]
        for name, plugin, model, shape, calls, limit in cases:
            if not wanted(name, options):
                continue
            note(f"{name} ...")
            first, second = (host("prepare", model=model, plugin=plugin, shape=shape) for host in hosts)
            if any(abs(a - b) > 1e-6 * abs(a) for a, b in zip(first, second, strict=True)):
                raise SystemExit(f"{name}: the hosts do not agree: {first} and {second}")
            rows.append(Row(name, *in_turns(hosts, "run", rounds=options.rounds, calls=calls), limit=limit))
    return report(kept, rows, both, options)


if __name__ == "__main__":
    sys.exit(main())
