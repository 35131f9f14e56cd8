"""Gives every operator hostile attributes and inputs, in the CPU plugin and in the reference operators.

    python -m tests.fuzz.operators --cases 100000 --seed 1 --jobs 2 [--only Conv --only com.microsoft.QGemm]
    python -m tests.fuzz.operators --seed 1 --case Conv/17 [--host cpu]      one case again, told in full
    python -m tests.fuzz.operators --cases 5000 --compare --folder FOLDER
    python -m tests.fuzz.operators --cases 5000 --host cuda                  in the CUDA plugin, on a GPU or
                                                                             what EPHOST_CUDA_LIBRARY names

The last one writes what onnxruntime does otherwise into FOLDER/differences, without what
known_differences.toml has a reason for.

A case is named by its operator and a number; with the seed, that makes it the same each time. It may end in
an exception of ephost's or in a result. A fault is a signal, a report of a sanitizer, another exception, or
processor time or memory beyond the limits (tests/fuzz/worker.py). Status 1 says that there were faults; they
are told as they come, and summed up by operator. Under sanitizers (.ci/sanitize says how) a batch of cases
shares a process, which is looked at for leaks when it ends.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.cases import make_case
from tests.fuzz.comparison import differing
from tests.fuzz.differences import known_differences
from tests.fuzz.examples import Example, examples
from tests.fuzz.processes import Worker, in_threads, parser_of, told_in_full

HOSTS = ("cpu", "reference", "cuda")


class Run:
    """All cases of one call, shared among threads that each have a worker of each kind."""

    def __init__(self, args: argparse.Namespace, found: dict[str, list[Example]], folder: Path) -> None:
        self.args, self.folder = args, folder
        operators = [name for name in found if not args.only or name in args.only]
        operators = [name for name in operators if name not in args.skip]
        if not operators:
            raise SystemExit(f"there are examples of none of these operators: {', '.join(args.only)}")
        self.names = [
            f"{operators[at % len(operators)]}/{at // len(operators)}" for at in range(args.first, args.cases)
        ]
        self.file = folder / "examples"
        self.file.write_bytes(pickle.dumps({name: found[name] for name in operators}))
        self.faults: dict[str, str] = {}
        self.ended: dict[str, Counter[str]] = defaultdict(Counter)
        self.differences: dict[str, str] = {}
        self.known = known_differences() if args.compare else []
        self.reasons: Counter[str] = Counter()
        self.done = 0
        self._lock = threading.Lock()
        self._began = time.monotonic()

    def work(self, job: int) -> None:
        """The part of one thread."""
        workers = {
            host: Worker("operators", host, self.args.seed, self.file, self.folder / f"{host}{job}")
            for host in (*HOSTS, "onnxruntime")
        }
        for name in self.names[job :: self.args.jobs]:
            number = int(name.rpartition("/")[2])
            # The plugin first of all; every fourth case of an operator is the reference operators'.
            host = self.args.host or ("reference" if number % 4 == 3 else "cpu")
            paths = {host: self.folder / f"ours{job}", "onnxruntime": self.folder / f"theirs{job}"}
            record = workers[host].run(name, paths[host] if self.args.compare else None)
            difference = ""
            if self.args.compare and "fault" not in record:
                other = workers["onnxruntime"].run(name, paths["onnxruntime"])
                difference = f"onnxruntime: {other['fault'][:300]}" if "fault" in other else ""
                if not difference:
                    difference = differing(*(pickle.loads(path.read_bytes()) for path in paths.values()))
            self._note(name, host, record, difference)
        for host, worker in workers.items():
            if said := worker.close():
                self._note(f"{host} at the end", host, {"fault": said}, "")

    def _note(self, name: str, host: str, record: dict[str, Any], difference: str) -> None:
        operator = name.rpartition("/")[0]
        with self._lock:
            self.done += 1
            if fault := record.get("fault"):
                self.faults[name] = fault
                self.ended[operator]["fault"] += 1
                print(f"FAULT {name} on {host} {record.get('changes', '')}: {fault}", flush=True)
            else:
                self.ended[operator]["ran" if "ran" in record["ended"] else "error"] += 1
            reason = next(
                (
                    k.reason
                    for k in self.known
                    if k.holds(operator, host, record.get("changes", []), difference)
                ),
                None,
            )
            if difference and reason is not None:
                self.reasons[reason] += 1
            elif difference:
                self.differences[name] = difference
                with (self.folder / "differences").open("a") as file:
                    file.write(f"{name} {host} {record['changes']}: {difference}\n"[:900])
            if self.done % 1000 == 0:
                rate = self.done / (time.monotonic() - self._began)
                print(
                    f"{self.done}/{len(self.names)}, {rate:.0f} a second, {len(self.faults)} faults",
                    file=sys.stderr,
                )


def tell(run: Run) -> None:
    """The summary by operator."""
    for operator, ended in sorted(run.ended.items()):
        if ended["fault"] or run.args.verbose:
            print(f"{operator}: {dict(ended)}")
    if run.args.compare:
        print(
            f"{len(run.differences)} unknown differences from onnxruntime, and {run.reasons.total()} known:"
        )
        for reason, count in run.reasons.most_common():
            print(f"{count:6} {' '.join(reason.split())}")
    total = sum(run.ended.values(), Counter())
    print(f"seed {run.args.seed}: {len(run.names)} cases of {len(run.ended)} operators: {dict(total)}")


def again(args: argparse.Namespace, found: dict[str, list[Example]], folder: Path) -> int:
    """One case, told in full."""
    import onnx.printer

    operator, _, number = args.case.rpartition("/")
    case = make_case(args.seed, operator, int(number), found)
    (folder / "examples").write_bytes(pickle.dumps({operator: found[operator]}))
    host = args.host or ("reference" if int(number) % 4 == 3 else "cpu")
    model = onnx.load_from_string(case.model)
    (folder / "model.onnx").write_bytes(case.model)
    print(case.changes, "optimised" if case.optimised else "as it is", host)
    try:
        print(onnx.printer.to_text(model))
    except UnicodeDecodeError:
        print(model)
    for feeds in case.feeds:
        print(
            {
                n: f"{v.dtype} {v.shape} {v.reshape(-1)[:20]}" if isinstance(v, np.ndarray) else v
                for n, v in feeds.items()
            }
        )
    hosts = [host, *(["onnxruntime"] if args.compare else [])]
    return told_in_full("operators", hosts, args.seed, args.case, folder / "examples")


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring."""
    parser = parser_of(__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="OPERATOR")
    parser.add_argument("--skip", action="append", default=[], metavar="OPERATOR")
    parser.add_argument("--host", choices=HOSTS, help="all cases there; else three of four are the plugin's")
    parser.add_argument("--case", metavar="OPERATOR/NUMBER")
    parser.add_argument("--verbose", action="store_true", help="sum up all operators")
    args = parser.parse_args(arguments)
    found = examples()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if args.case:
            return again(args, found, folder)
        run = Run(args, found, folder)
        in_threads(run.work, args.jobs)
        tell(run)
    return 1 if run.faults else 0


if __name__ == "__main__":
    sys.exit(main())
