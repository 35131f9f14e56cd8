"""Takes random programs of calls of the Python API, and compares what they give with onnxruntime.

    python -m tests.fuzz.calls --cases 5000 --seed 1 --jobs 2
    python -m tests.fuzz.calls --cases 2000 --compare --folder FOLDER
    python -m tests.fuzz.calls --seed 1 --case calls/17 [--compare]         one program again, told in full

A fault is a signal, processor time or memory beyond the limits (tests/fuzz/worker.py), an exception that is
neither ephost's nor a TypeError or ValueError, or one that does not name the argument. With --compare, the
first step of a program that gave something else in the other host is a difference; what follows is not
compared, since it may follow from that. known_call_differences.toml has those with a reason;
FOLDER/differences gets the others. Of exceptions only whether there is one is compared. Status 1 says that
there were faults.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.differences import Difference, known_differences
from tests.fuzz.performing import GAVE, LEFT_OUT, Outcome
from tests.fuzz.processes import Worker, in_threads, parser_of, told_in_full
from tests.fuzz.programs import Program, make_case

KNOWN = Path(__file__).with_name("known_call_differences.toml")
SOURCE = "calls"
HOST = "default"


def hosts_of(args: argparse.Namespace) -> list[str]:
    """What programs are taken on."""
    return [HOST, "onnxruntime"] if args.compare else [HOST]


def first_difference(program: Program, ours: list[Outcome], theirs: list[Outcome]) -> tuple[int, str]:
    """The step that gave something else, and what: -1 if there is none."""
    for at, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if LEFT_OUT in (mine[0], other[0]) or (mine[0] != GAVE and other[0] != GAVE) or mine == other:
            continue
        return at, f"ephost {mine[0]} {mine[1][:300]}; onnxruntime {other[0]} {other[1][:300]}"
    return -1, ""


class Run:
    """All programs of one call of the command."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self.args, self.folder = args, folder
        self.names = [f"{SOURCE}/{number}" for number in range(args.first, args.first + args.cases)]
        self.file = folder / "nothing"  # a program is made of its name
        self.file.write_bytes(pickle.dumps(None))
        self.known: list[Difference] = known_differences(KNOWN) if args.compare else []
        self.faults: dict[str, str] = {}
        self.differences: dict[str, list[str]] = {}
        self.reasons: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def work(self, job: int) -> None:
        """The part of one thread."""
        hosts = hosts_of(self.args)
        workers = [
            Worker("programs", host, self.args.seed, self.file, self.folder / f"{host}{job}")
            for host in hosts
        ]
        files = [self.folder / f"{host}{job}.results" for host in hosts]
        for name in self.names[job :: self.args.jobs]:
            records = [worker.run(name, file) for worker, file in zip(workers, files, strict=True)]
            with self._lock:
                if "fault" in records[0]:
                    self._fault(name, records[0]["fault"])
                    continue
                outcomes = [pickle.loads(file.read_bytes()) for file in files[:1]]
                self.counts["calls"] += sum(does != LEFT_OUT for does, _ in outcomes[0])
                if "fault" in records[-1]:
                    self.counts["programs that end onnxruntime's process"] += 1
                elif self.args.compare:
                    self._compare(name, outcomes[0], pickle.loads(files[1].read_bytes()))
        for worker in workers:
            if (said := worker.close()) and worker is workers[0]:
                with self._lock:
                    self._fault("the end", said)

    def _fault(self, name: str, fault: str) -> None:
        self.faults[name] = fault
        print(f"FAULT {name}: {fault}", flush=True)

    def _compare(self, name: str, ours: list[Outcome], theirs: list[Outcome]) -> None:
        program = make_case(self.args.seed, *_parts(name))
        at, difference = first_difference(program, ours, theirs)
        if at < 0:
            return
        step = program.steps[at]
        for known in self.known:
            if known.holds(step.name, "reference", [str(step)], difference):
                self.reasons[known.reason] += 1
                return
        kind = f"{step.does} {step.name}: ephost {ours[at][0]}, onnxruntime {theirs[at][0]}"
        self.differences.setdefault(kind, []).append(f"{name} ${at} {str(step)[:400]}\n    {difference}")

    def tell(self) -> None:
        """The summary."""
        if self.args.compare:
            lines = []
            for kind, cases in sorted(self.differences.items(), key=lambda each: -len(each[1])):
                lines += [f"{len(cases)} {kind}", *(f"  {case}" for case in cases)]
                print(f"{len(cases):5} {kind}   {cases[0].split()[0]}")
            (self.folder / "differences").write_text("\n".join(lines) + "\n", errors="replace")
            print(f"{self.reasons.total()} known:")
            for reason, count in self.reasons.most_common():
                print(f"{count:5} {' '.join(reason.split())}")
        counts = {"programs": len(self.names), **self.counts, "faults": len(self.faults)}
        print(f"seed {self.args.seed}: " + ", ".join(f"{count} {what}" for what, count in counts.items()))


def _parts(name: str) -> tuple[str, int]:
    source, _, number = name.rpartition("/")
    return source, int(number)


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring."""
    parser = parser_of(__doc__)
    parser.add_argument("--case", metavar="calls/NUMBER")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        run = Run(args, folder)
        if args.case:
            print("\n".join(make_case(args.seed, *_parts(args.case)).changes))
            return told_in_full("programs", hosts_of(args), args.seed, args.case, run.file)
        in_threads(run.work, args.jobs)
        run.tell()
    return 1 if run.faults else 0


if __name__ == "__main__":
    sys.exit(main())
