"""Opening a session, and registering a library, in either host: warm process, default options.

python bench/opening.py [--save]                beside onnxruntime
python bench/opening.py --against CHECKOUT      beside another commit of ephost
"""

from __future__ import annotations

import sys

import nxrt_ep_cpu
from harness.models import adds, calls, files, forest, ifs, package_models
from harness.report import Row, arguments, note, report, temporary_folder, wanted
from harness.results import begin
from harness.sides import Host, in_turns, sides


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=15)
    both = sides(options.against)
    kept = begin("opening")
    nxrt = nxrt_ep_cpu.get_library_path()
    rows = []
    with temporary_folder() as folder, Host(both[0]) as one, Host(both[1]) as other:
        hosts = (one, other)
        for host in hosts:
            host("register", name="nxrt", path=nxrt)
            host("register", name="sample_kernels", path=host.side.bundled("sample_kernels"))
        chain = adds(folder, "chain", nodes=1000)
        cases: list[tuple[str, str, str | None, int, float | None]] = [
            ("one node on nxrt", adds(folder, "one"), "nxrt", 10, 1.0),
            ("1,000 Adds on nxrt", chain, "nxrt", 1, 1.0),
            ("1,000 Adds on sample_kernels", chain, "sample_kernels", 1, None),
        ]
        for name, path in package_models("rapidocr_onnxruntime").items():
            cases.append((f"{name} on nxrt", path, "nxrt", 1, 1.0))
        # On the host's own provider: what is built of something else than nodes and weights.
        cases += [
            ("2,000 calls of a function on the CPU provider", calls(folder, 2000), None, 1, None),
            ("1,000 Ifs on the CPU provider", ifs(folder, 1000), None, 1, None),
            ("1,000 weights, each in a file on the CPU provider", files(folder, 1000), None, 1, None),
            ("a forest of 200,000 nodes on the CPU provider", forest(folder, 200, 9), None, 1, None),
        ]
        for name, model, plugin, samples, limit in cases:
            if wanted(name, options):
                note(f"{name} ...")
                asked = {"model": model, "plugin": plugin, "samples": samples}
                rows.append(Row(name, *in_turns(hosts, "open", rounds=options.rounds, **asked), limit=limit))
    name = "registering and unregistering sample_kernels"
    if wanted(name, options):
        note(f"{name} ...")
        # In processes where it is not registered yet.
        with Host(both[0]) as one, Host(both[1]) as other:
            own = [{"path": host.side.bundled("sample_kernels")} for host in (one, other)]
            times = in_turns((one, other), "come_and_go", rounds=options.rounds, each=own, samples=10)
            rows.append(Row(name, *times))
    return report(kept, rows, both, options)


if __name__ == "__main__":
    sys.exit(main())
