"""Opens and runs models whose structure, fields or bytes were changed, on several execution providers.

    python -m tests.fuzz.models --cases 20000 --seed 1 --jobs 2 [--from FOLDER] [--only 'made/*']
    python -m tests.fuzz.models --seed 1 --case made/loop/17 [--host cpu]     one case again, told in full
    python -m tests.fuzz.models --cases 5000 --compare --folder FOLDER

The last one says what onnxruntime does otherwise, without what known_model_differences.toml has a reason for:
FOLDER/groups has a folder for each kind of difference, with a list of its cases and the models of the first
few; FOLDER/summary lists the kinds, the most frequent first.

A case is named by the model that it was made of and a number; with the seed, that makes it the same each
time. It may end in an exception of ephost's or in a result. A fault is a signal, a report of a sanitizer,
another exception, or processor time or memory beyond the limits (tests/fuzz/worker.py). Errors that name
nothing of the model are counted, and told with --verbose. Status 1 says that there were faults. Sources are
the standard's node tests, the operators' examples, models made by hand (made_models.py), a folder's files.
"""

from __future__ import annotations

import argparse
import pickle
import re
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from tests.fuzz.comparison import differing
from tests.fuzz.differences import known_differences
from tests.fuzz.model_sources import Source, sources
from tests.fuzz.mutants import host_of, make_case
from tests.fuzz.processes import Worker, in_threads, parser_of, told_in_full

HOSTS = ("cpu", "reference", "sample_compiler", "sample_kernels")
KNOWN = Path(__file__).with_name("known_model_differences.toml")
# Of a group of sources how many cases are drawn.
SHARES = {"standard": 40, "examples": 15, "made": 30, "folder": 40}
KEPT = 4  # cases of one kind of difference whose models are written


def signature(text: str) -> str:
    """What cases that differ in the same way have in common: the text without names, numbers and paths."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|\([^()]*\)", "_", text)
    text = re.sub(r"(?<=Name:)\S*|(?<=node )\S+|/\S+|\d[\d.e+-]*", "_", text)
    return re.sub(r"[_\W]+", " ", text.split("\n")[0]).strip()[:150]


def drawn_names(found: dict[str, Source], seed: int, count: int) -> list[str]:
    """The names of cases: of each group of sources its share, numbered by source."""
    random, numbers = Random(seed), Counter[str]()
    groups: dict[str, list[str]] = {}
    for name, source in found.items():
        groups.setdefault(source.group, []).append(name)
    shares = [SHARES[group] for group in groups]
    names = []
    for _ in range(count):
        (group,) = random.choices(list(groups), shares)
        name = random.choice(groups[group])
        names.append(f"{name}/{numbers[name]}")
        numbers[name] += 1
    return names


def words_of(model: bytes) -> set[str]:
    """Names that an error may say of a model: of nodes, values, operators, graphs, functions and domains."""
    try:
        proto = onnx.load_from_string(model)
    except (DecodeError, ValueError):
        return set()
    found: set[Any] = set()  # bytes where they are no UTF-8

    def nodes(held: Any) -> None:
        for node in held:
            found.update((node.name, node.op_type, node.domain, *node.input, *node.output))
            for attribute in node.attribute:
                found.add(attribute.name)
                for graph in (attribute.g, *attribute.graphs):
                    graphs(graph)

    def graphs(graph: onnx.GraphProto) -> None:
        found.add(graph.name)
        found.update(info.name for info in (*graph.input, *graph.output, *graph.value_info))
        found.update(tensor.name for tensor in graph.initializer)
        nodes(graph.node)

    graphs(proto.graph)
    for function in proto.functions:
        found.update((function.name, function.domain, *function.input, *function.output))
        nodes(function.node)
    return {word for word in found if word and isinstance(word, str)}


def names_nothing(text: str, words: set[str]) -> bool:
    """Whether an error says neither a name of the model nor a number of it, nor what in it is wrong."""
    told = set(re.findall(r"\w+", text))
    about = r"the model|the buffer|IR version|opset|#\d+|Terminate|terminat"
    return (
        not (told & words)
        and re.search(about, text) is None
        and not any(w in text for w in words if len(w) > 3)
    )


class Run:
    """All cases of one call, shared among threads that each have a worker of each kind."""

    def __init__(self, args: argparse.Namespace, found: dict[str, Source], folder: Path) -> None:
        self.args, self.folder, self.found = args, folder, found
        chosen = {n: s for n, s in found.items() if any(fnmatchcase(n, p) for p in args.only or ["*"])}
        if not chosen:
            raise SystemExit(f"no model is named {', '.join(args.only)}")
        self.names = drawn_names(chosen, args.seed, args.cases)[args.first :]
        self.file = folder / "sources"
        self.file.write_bytes(pickle.dumps(found))
        self.faults: dict[str, str] = {}
        self.ended: Counter[str] = Counter()
        self.nameless: dict[str, list[str]] = {}
        self.kinds: dict[str, list[str]] = {}  # of differences, with the names of cases
        self.known = [*known_differences(KNOWN), *known_differences()] if args.compare else []
        self.reasons: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._done = 0

    def work(self, job: int) -> None:
        """The part of one thread."""
        workers = {
            host: Worker("models", host, self.args.seed, self.file, self.folder / f"{host}{job}")
            for host in (*HOSTS, "cuda", "onnxruntime")
        }
        for name in self.names[job :: self.args.jobs]:
            host = self.args.host or host_of(self.args.seed, name)
            paths = {host: self.folder / f"ours{job}", "onnxruntime": self.folder / f"theirs{job}"}
            record = workers[host].run(name, paths[host] if self.args.compare else None)
            difference = ""
            if self.args.compare and "fault" not in record:
                other = workers["onnxruntime"].run(name, paths["onnxruntime"])
                difference = f"onnxruntime: {other['fault'][:300]}" if "fault" in other else ""
                if not difference:
                    difference = differing(*(pickle.loads(path.read_bytes()) for path in paths.values()))
            with self._lock:
                self._note(name, host, record, difference)
        for host, worker in workers.items():
            if said := worker.close():
                with self._lock:
                    self._note(f"{host} at the end", host, {"fault": said}, "")

    def _note(self, name: str, host: str, record: dict[str, Any], difference: str) -> None:
        self._done += 1
        if fault := record.get("fault"):
            self.faults[name] = fault
            self.ended["fault"] += 1
            print(f"FAULT {name} on {host} {record.get('changes', '')}: {fault}", flush=True)
            return
        self.ended["ran" if "ran" in record["ended"] else "error"] += 1
        for text in record["ended"]:
            if text == "ran":
                continue
            words = words_of(self._case(name).model)
            if words and names_nothing(text, words):
                self.nameless.setdefault(signature(text), []).append(f"{name} on {host}: {text[:300]}")
        if difference:
            self._differs(name, host, record["changes"], difference)
        if self._done % 1000 == 0:
            rate = self._done / (time.monotonic() - self._began)
            told = f"{self._done}/{len(self.names)}, {rate:.0f} a second, {len(self.faults)} faults"
            print(told, file=sys.stderr, flush=True)

    def _differs(self, name: str, host: str, changes: list[str], difference: str) -> None:
        case = self._case(name)
        operators = operators_of(case.model)
        for known in self.known:
            if any(known.holds(operator, host, changes, difference) for operator in operators or ["?"]):
                self.reasons[known.reason] += 1
                return
        kind = signature(difference)
        of_kind = self.kinds.setdefault(kind, [])
        of_kind.append(name)
        folder = self.folder / "groups" / f"{zlib.crc32(kind.encode()):08x}"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "cases").open("a") as file:
            file.write(f"{name} on {host} {changes}: {difference}\n"[:1500])
        if len(of_kind) <= KEPT:
            (folder / f"{len(of_kind)}.onnx").write_bytes(case.model)
            (folder / f"{len(of_kind)}.feeds").write_bytes(pickle.dumps(case.feeds))

    def _case(self, name: str) -> Any:
        source, _, number = name.rpartition("/")
        return make_case(self.args.seed, source, int(number), self.found)


def operators_of(model: bytes) -> set[str]:
    """Of all nodes of a model, with their domains; none where it cannot be read."""
    try:
        proto = onnx.load_from_string(model)
    except (DecodeError, ValueError):
        return set()

    def names(nodes: Any) -> set[str]:
        found = set()
        for node in nodes:
            found.add(f"{node.domain}.{node.op_type}" if node.domain else node.op_type)
            for attribute in node.attribute:
                for graph in (attribute.g, *attribute.graphs):
                    found |= names(graph.node)
        return found

    return names(proto.graph.node).union(*(names(function.node) for function in proto.functions))


def tell(run: Run) -> None:
    """The summary."""
    if run.args.compare:
        lines = []
        for kind, names in sorted(run.kinds.items(), key=lambda item: -len(item[1])):
            group = f"{zlib.crc32(kind.encode()):08x}"
            lines.append(f"{len(names):6} {group} {kind}   {names[0]}")
        (run.folder / "summary").write_text("\n".join(lines) + "\n")
        print("\n".join(lines))
        count = sum(map(len, run.kinds.values()))
        print(f"{count} unknown differences of {len(run.kinds)} kinds from onnxruntime,")
        print(f"and {run.reasons.total()} known:")
        for reason, count in run.reasons.most_common():
            print(f"{count:6} {' '.join(reason.split())}")
    if run.args.verbose:
        for names in run.nameless.values():
            print(f"{len(names):6} errors name nothing: {names[0]}")
    nameless = sum(map(len, run.nameless.values()))
    print(f"seed {run.args.seed}: {len(run.names)} cases: {dict(run.ended)}, {nameless} errors name nothing")


def again(args: argparse.Namespace, found: dict[str, Source], folder: Path) -> int:
    """One case, told in full."""
    import onnx.printer

    source, _, number = args.case.rpartition("/")
    case = make_case(args.seed, source, int(number), found)
    (folder / "sources").write_bytes(pickle.dumps(found))
    host = args.host or host_of(args.seed, args.case)
    (folder / "model.onnx").write_bytes(case.model)
    print(case.changes, "optimised" if case.optimised else "as it is", host)
    try:
        model = onnx.load_from_string(case.model)
        try:
            print(onnx.printer.to_text(model))
        except UnicodeDecodeError:
            print(model)
    except (DecodeError, ValueError):
        print("no message can be read")
    for feeds in case.feeds:
        for name, v in feeds.items():
            print(repr(name), f"{v.dtype} {v.shape} {v.reshape(-1)[:20]}" if isinstance(v, np.ndarray) else v)
    hosts = [host, *(["onnxruntime"] if args.compare else [])]
    return told_in_full("models", hosts, args.seed, args.case, folder / "sources")


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring."""
    parser = parser_of(__doc__)
    parser.add_argument("--from", type=Path, dest="models", metavar="FOLDER", help="of further models")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="of names of models")
    parser.add_argument(
        "--host", choices=(*HOSTS, "cuda"), help="all cases there; else most are the CPU plugin's"
    )
    parser.add_argument("--case", metavar="MODEL/NUMBER")
    parser.add_argument("--verbose", action="store_true", help="tell errors that name nothing")
    args = parser.parse_args(arguments)
    found = sources(args.models)
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
