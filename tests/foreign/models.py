"""Open and run all models of a folder on both hosts, with inputs made up, and say where they part.

python -m tests.foreign.models FOLDER [--limit SECONDS] [--only PATTERN ...]

FOLDER is searched for .onnx and .ort files: of somebody's repository, which keep models that went wrong once.
A model is run four times, with 1, 2, 4 and 8 in the place of what its inputs leave open. What onnxruntime
refuses, ephost may refuse; what it answers, ephost answers alike, but for operators that draw numbers. The
exit status is 1 where it does not.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from tests.foreign.running import HOSTS

OPEN = (1, 2, 4, 8)  # what stands for dimensions that a model leaves open
_WORDS = np.array(["a", "b", "word", "0"], object)
_DTYPES = {
    "tensor(float)": "f4", "tensor(double)": "f8", "tensor(float16)": "f2", "tensor(bool)": "?",
    "tensor(int64)": "i8", "tensor(int32)": "i4", "tensor(int16)": "i2", "tensor(int8)": "i1",
    "tensor(uint64)": "u8", "tensor(uint32)": "u4", "tensor(uint16)": "u2", "tensor(uint8)": "u1",
    "tensor(string)": "O",
}  # fmt: skip


@dataclass
class Outcome:
    """What one host made of a model."""

    refused: str = ""  # what it said instead of opening it
    # Of each run: the outputs, or what it said; None where inputs cannot be made up.
    runs: list[list[Any] | str | None] = field(default_factory=list)


def made_up(name: str, kind: str, shape: Sequence[Any], size: int) -> np.ndarray | None:
    """An input of a model, the same for both hosts; None for what is no tensor."""
    if kind not in _DTYPES:
        return None
    dims = [dim if isinstance(dim, int) and dim >= 0 else size for dim in shape]
    random, dtype = np.random.default_rng([size, zlib.crc32(name.encode())]), np.dtype(_DTYPES[kind])
    if dtype.kind == "f":
        return random.standard_normal(dims).astype(dtype)
    numbers = random.integers(0, 2 if dtype.kind == "b" else 3, dims)
    return np.asarray(_WORDS[numbers] if dtype.kind == "O" else numbers.astype(dtype))


def outcome_of(host: str, path: Path) -> Outcome:
    """Open a model on the host's own provider, and run it."""
    module = importlib.import_module(host)
    options = module.SessionOptions()
    options.log_severity_level = 4
    try:
        session = module.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return Outcome(refused=f"{type(error).__name__}: {error}")
    found = Outcome()
    for size in OPEN:
        feed = {each.name: made_up(each.name, each.type, each.shape, size) for each in session.get_inputs()}
        if any(value is None for value in feed.values()):
            found.runs.append(None)
            continue
        try:
            results = session.run(None, feed)
            found.runs.append([value if isinstance(value, list) else np.asarray(value) for value in results])
        except Exception as error:
            found.runs.append(f"{type(error).__name__}: {error}")
    return found


def _apart(host: str, path: Path, limit: int) -> Outcome:
    """The same in a child: it may crash, or never end."""
    with tempfile.TemporaryFile() as file:
        child = os.fork()
        if child == 0:
            signal.alarm(limit)
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            os.chdir(path.parent)
            try:
                outcome = outcome_of(host, path)
                pickle.dump((outcome.refused, outcome.runs), file)
                file.flush()
            finally:
                os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == -signal.SIGALRM:
            return Outcome(refused=f"took longer than {limit} s")
        file.seek(0)
        if status or not file.read(1):
            return Outcome(refused=f"crashed: exit status {status}")
        file.seek(0)
        return Outcome(*pickle.load(file))


def differences(found: Sequence[Any], expected: Sequence[Any]) -> str:
    """How outputs differ by more than rounding; "" where they do not."""
    for at, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if isinstance(theirs, list):
            if type(ours) is not type(theirs) or len(ours) != len(theirs):
                return f"output {at} is another list"
        elif ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            return f"output {at} is {ours.dtype}{ours.shape}, not {theirs.dtype}{theirs.shape}"
        elif theirs.dtype.kind in "fc":
            a, b = (value.astype(np.complex128) for value in (ours, theirs))
            scale = np.abs(b[np.isfinite(b)]).max(initial=1)
            near = np.isclose(a, b, rtol=0.02, atol=0.002 * scale, equal_nan=True)
            if not near.all():
                return (
                    f"{(~near).sum()} of {near.size} in output {at}: {ours[~near][0]}, not {theirs[~near][0]}"
                )
        elif not np.array_equal(ours, theirs):
            return f"output {at}"
    return ""


def judged(here: Outcome, there: Outcome) -> tuple[str, str]:
    """What has become of a model on ephost, beside onnxruntime; and of what is at fault, why."""
    if there.refused:
        bad = here.refused.startswith(("crashed", "took")) and not there.refused.startswith(
            ("crashed", "took")
        )
        return ("at fault", here.refused) if bad else ("onnxruntime does not open it", "")
    answers = [run for run in there.runs if isinstance(run, list)]
    if not answers:
        return "onnxruntime does not run it", ""
    if here.refused:
        return "at fault", here.refused
    for found, expected in zip(here.runs, there.runs, strict=True):
        if isinstance(expected, list):
            if not isinstance(found, list):
                return "at fault", str(found)
            if why := differences(found, expected):
                return "at fault", f"another answer: {why}"
    return "the same", ""


def _all(host: str, paths: Sequence[Path], limit: int) -> list[Outcome]:
    """The outcomes on a host, each in a child of one process that has imported it."""
    with tempfile.NamedTemporaryFile() as file:
        command = [sys.executable, "-m", "tests.foreign.models", file.name]
        command += ["--host", host, "--limit", str(limit)]
        subprocess.run(command, input="\n".join(map(str, paths)), text=True, check=True)
        return [Outcome(*entry) for entry in pickle.load(file)]


def compare(folder: Path, limit: int, only: Sequence[str] = ()) -> dict[str, tuple[str, str]]:
    """What :func:`judged` says of each model, by its path in the folder."""
    paths = sorted(path.resolve() for kind in ("onnx", "ort") for path in folder.rglob(f"*.{kind}"))
    names = [str(path.relative_to(folder.resolve())) for path in paths]
    wanted = [
        (name, path)
        for name, path in zip(names, paths, strict=True)
        if not only or any(fnmatchcase(name, pattern) for pattern in only)
    ]
    there, here = (_all(host, [path for _, path in wanted], limit) for host in HOSTS)
    return {name: judged(h, t) for (name, _), h, t in zip(wanted, here, there, strict=True)}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.foreign.models", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int, default=40, metavar="SECONDS", help="for a model (%(default)s)")
    parser.add_argument("--only", nargs="*", default=(), metavar="PATTERN", help="of paths in the folder")
    parser.add_argument("--host", choices=HOSTS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.host:
        importlib.import_module(options.host)
        listed = [Path(line) for line in sys.stdin.read().splitlines()]
        outcomes = [_apart(options.host, path, options.limit) for path in listed]
        options.folder.write_bytes(pickle.dumps([(each.refused, each.runs) for each in outcomes]))
        return 0
    found = compare(options.folder, options.limit, options.only)
    for name, (verdict, why) in found.items():
        if verdict == "at fault":
            print(f"{name}: {why[:300]}")
    counts = Counter(verdict for verdict, _ in found.values())
    print(", ".join(f"{verdict}: {count}" for verdict, count in sorted(counts.items())))
    return 1 if counts["at fault"] else 0


if __name__ == "__main__":
    sys.exit(main())
