"""One call of a session in either host: what the way into a run and back costs.

A one-node model on nxrt-ep-cpu is nearly all host; the chain of 1,000 Adds on sample_kernels, which has a
kernel for each, shows what a step costs. (nxrt-ep-cpu fuses it into one node.)
"""

from __future__ import annotations

import sys

import numpy as np
import nxrt_ep_cpu
from side_by_side import HOSTS, Hosts, Row, adds, arguments, interleave, report, temporary_folder


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=300)
    with temporary_folder() as folder:
        import ephost.plugins.sample_kernels as sample_kernels

        hosts = Hosts(
            folder,
            {"nxrt": nxrt_ep_cpu.get_library_path(), "sample_kernels": sample_kernels.get_library_path()},
        )
        cases = [
            ("one node, [1]", "nxrt", adds(folder, "one"), (1,), 100, 0.6),
            ("one node, [1, 64]", "nxrt", adds(folder, "row", shape=(1, 64)), (1, 64), 100, 0.6),
            ("one node, 1 input", "nxrt", adds(folder, "in1", inputs=1), (1,), 100, 0.6),
            ("one node, 4 inputs", "nxrt", adds(folder, "in4", inputs=4), (1,), 100, 0.6),
            ("one node, 16 inputs", "nxrt", adds(folder, "in16", inputs=16), (1,), 100, 0.6),
            ("one node, a kernel", "sample_kernels", adds(folder, "kernel"), (1,), 100, 0.6),
            ("chain of 1,000 Adds", "sample_kernels", adds(folder, "chain", nodes=1000), (1,), 3, 0.7),
        ]
        rows = []
        for name, plugin, model, shape, calls, limit in cases:
            if options.only not in name:
                continue
            sessions = {host: hosts.open(host, model, plugin) for host in HOSTS}
            names = [value.name for value in sessions["ephost"].get_inputs()]
            feed = {each: np.full(shape, at + 1, np.float32) for at, each in enumerate(names)}
            (expected,), (actual,) = (sessions[host].run(None, feed) for host in HOSTS)
            np.testing.assert_allclose(actual, expected, rtol=1e-6)
            timed = {host: (lambda s=sessions[host], f=feed: s.run(None, f)) for host in HOSTS}
            rows.append(Row(name, **interleave(timed, options.rounds, calls), limit=limit))
        return report(rows, options)


if __name__ == "__main__":
    sys.exit(main())
