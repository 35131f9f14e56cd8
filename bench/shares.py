"""Where the time of opening a session goes: the interpreter, the host's C half, the plugin, the system.

A sampling profile by `perf` (Linux; it needs no counters of the processor) of a process that does nothing but
open a model, or register a library, again and again. A sample counts for the library whose code ran.

    python bench/shares.py [--packages FOLDER] [--seconds 4] [--save]

With --packages also models of bench/collect_models.py: those that took longer to open than in onnxruntime the
last time that `bench/cpu.py --packages FOLDER --save` was run on such a machine.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import nxrt_ep_cpu
from harness import machine
from harness.models import adds, forest, ifs, package_models
from harness.report import note, temporary_folder, wanted
from harness.results import FOLDER, begin, read
from harness.sides import Side

# In this order: the first whose pattern the name of a library has.
KINDS = {
    "interpreter": r"python|_cffi_backend|libffi",
    "host in C": r"_native\.abi3|_call\.abi3",
    "C library": r"libc\.so|libc-|ld-linux|libstdc\+\+|libm\.so|libgcc|libz",
    "system": r"kernel|vdso|unknown",
    "plugin": "",
}
OPEN = """
import sys
import ephost
name, library, model = sys.argv[1:]
options = ephost.SessionOptions()
if library:
    ephost.register_execution_provider_library(name, library)
    device = next(each for each in ephost.get_ep_devices() if each.registration_name == name)
    options.add_provider_for_devices([device], {})
while True:
    ephost.InferenceSession(model, options)
"""
REGISTER = """
import sys
import ephost
while True:
    ephost.register_execution_provider_library(sys.argv[1], sys.argv[2])
    ephost.unregister_execution_provider_library(sys.argv[1])
"""
WARM = 2.0  # seconds before the samples: imports, and what is kept from a first time


def shares(script: str, arguments: list[str], seconds: float, folder: Path, side: Side) -> dict[str, float]:
    """The share of each kind of code in the time that the script takes."""
    data = folder / "perf.data"
    command = [sys.executable, "-c", script, *arguments]
    perf = [
        "perf",
        "record",
        "-q",
        "-F",
        "1999",
        "-e",
        "cpu-clock",
        "-D",
        f"{WARM * 1000:.0f}",
        "-o",
        str(data),
    ]
    wait = ["timeout", "-s", "KILL", str(WARM + seconds)]
    ended = subprocess.run([*perf, *wait, *command], capture_output=True, text=True, env=side.environment())
    report = subprocess.run(
        ["perf", "report", "-i", str(data), "--sort", "dso", "--stdio", "-q"], capture_output=True, text=True
    )
    found: Counter[str] = Counter()
    for percent, library in re.findall(r"^\s+([0-9.]+)%\s+(\S+)", report.stdout, re.MULTILINE):
        kind = next(kind for kind, pattern in KINDS.items() if re.search(pattern, library))
        found[kind] += float(percent) / 100
    if not found:
        raise SystemExit(f"perf has no samples: {ended.stderr[-1000:]}{report.stderr[-1000:]}")
    return {kind: round(found[kind] / found.total(), 3) for kind in KINDS}


def slower(packages: Path) -> list[Path]:
    """The models of packages that took longer to open here than in onnxruntime, by what is kept of them."""
    kept = FOLDER / machine.folder_name(machine.machine()) / "cpu-packages.json"
    if not kept.exists():
        raise SystemExit(f"{kept} is missing: run bench/cpu.py --packages FOLDER --save first")
    rows = [row for row in read(kept).rows if "open" in row]
    names = [row["name"] for row in rows if row["open"][1] > row["open"][0]]
    return [path for name in names if (path := packages / f"{name}.onnx").exists()]


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--packages", metavar="FOLDER", type=Path, help="models of bench/collect_models.py, too"
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="of samples, for each case")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="cases with one of these in their names: a,b,..."
    )
    parser.add_argument("--save", action="store_true", help="keep the figures in bench/results")
    options = parser.parse_args()
    if options.save and options.only:
        parser.error("--save keeps all cases: leave --only away")
    if shutil.which("perf") is None:
        raise SystemExit("perf is missing: Debian and Ubuntu have it in linux-perf, or linux-tools")
    side = Side("ephost", "ephost")
    kept = begin("shares")
    with temporary_folder() as folder:
        nxrt, kernels = nxrt_ep_cpu.get_library_path(), side.bundled("sample_kernels")
        cases = [
            ("one node on nxrt", OPEN, ["nxrt", nxrt, adds(folder, "one")]),
            ("one node on the CPU provider", OPEN, ["", "", adds(folder, "one")]),
            ("1,000 Adds on nxrt", OPEN, ["nxrt", nxrt, adds(folder, "chain", nodes=1000)]),
            ("1,000 Ifs on the CPU provider", OPEN, ["", "", ifs(folder, 1000)]),
            ("a forest of 200,000 nodes on the CPU provider", OPEN, ["", "", forest(folder, 200, 9)]),
            ("registering and unregistering sample_kernels", REGISTER, ["sample_kernels", kernels]),
        ]
        for name, path in package_models("rapidocr_onnxruntime").items():
            cases.insert(-1, (f"{name} on nxrt", OPEN, ["nxrt", nxrt, path]))
        for path in slower(options.packages) if options.packages else []:
            cases.append((f"{path.stem} on the CPU provider", OPEN, ["", "", str(path)]))
        for name, script, arguments in cases:
            if not wanted(name, options):
                continue
            note(f"{name} ...")
            row = shares(script, arguments, options.seconds, folder, side)
            kept.rows.append({"name": name, **row})
            print(f"{name:50}", *(f"{kind} {share:.0%}" for kind, share in row.items()), sep="  ")
    if options.save:
        kept.keep()
    return 0


if __name__ == "__main__":
    sys.exit(main())
