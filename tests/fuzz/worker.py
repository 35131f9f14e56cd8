"""Runs cases of the fuzzer in one process, which a fault may end.

usage: worker.py {operators|models|programs} HOST SEED FILE

HOST is cpu, cuda, sample_compiler, sample_kernels, reference, onnxruntime or default: ephost as it is.

FILE is what cases are made of, by the first half of their names; the starting process has pickled it. A line
on standard input names a case; a line of JSON says how it ended. What the runs gave is in the file that the
case's line names after a tab, if it names one, for comparisons.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import resource
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.cases import Case
from tests.fuzz.performing import FAULT, UNTOLD, Outcome, perform
from tests.fuzz.programs import Program
from tests.vendor.compare import ONNX_TYPE_OF, run_in_onnxruntime

NAME = "CpuFuzzed"
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")
MEMORY = 4 << 30  # bytes of address space beside what a host has: what asks for more must fail cleanly
TIME = 60 if SANITIZED else 20  # seconds of processor time for one case; what takes longer is a hang
PATIENCE = 4.0  # seconds after which a run is told to stop: some cases are a loop of 2^62 trips


class Host:
    """Opens and runs models in one way."""

    def __init__(self, which: str) -> None:
        self.which = which
        self.devices: list[Any] = []
        if which == "onnxruntime":
            import onnxruntime

            self.module: Any = onnxruntime
            onnxruntime.set_default_logger_severity(4)
            self.errors: tuple[type[Exception], ...] = (Exception,)
            return
        import ephost
        from ephost.errors import OnnxRuntimeException
        from ephost.plugins import cpu, cuda, sample_compiler, sample_kernels

        self.module = ephost
        ephost.set_default_logger_severity(4)
        self.errors = (OnnxRuntimeException,)
        if which == "cpu":
            ephost.register_execution_provider_library(NAME, cpu.get_library_path())
            self.devices = [device for device in ephost.get_ep_devices() if device.ep_name == NAME]
        if which.startswith("sample_"):
            package = {"sample_compiler": sample_compiler, "sample_kernels": sample_kernels}[which]
            ephost.register_execution_provider_library(which, package.get_library_path())
            self.devices = list(ephost.get_ep_devices())
        if which == "cuda":
            ephost.register_execution_provider_library(which, cuda.get_library_path())
            self.devices = [device for device in ephost.get_ep_devices() if device.ep_name == which][:1]
            if not self.devices:
                raise SystemExit(
                    "plugins/cuda offers no device: tests/plugins/cuda_harness.py has a driver for it"
                )

    def perform(self, program: Program) -> tuple[dict[str, Any], list[Outcome]]:
        """What each step of a program of calls came to: what a record says of it, and all."""
        self.module.set_default_logger_severity(4)  # whatever the one before it made of it
        untold = None if self.which == "onnxruntime" else UNTOLD
        outcomes = perform(self.module, program, (*self.errors, TypeError, ValueError), untold)
        fault = next((f"step {at}: {text}" for at, (how, text) in enumerate(outcomes) if how == FAULT), None)
        return {"ended": [how for how, _ in outcomes]} | ({"fault": fault} if fault else {}), outcomes

    def run(self, case: Case) -> list[Any]:
        """What each run gave: a list of outputs, or the error's text."""
        options = self.module.SessionOptions()
        options.intra_op_num_threads = 2
        options.log_severity_level = 4
        if not case.optimised:
            options.graph_optimization_level = self.module.GraphOptimizationLevel.ORT_DISABLE_ALL
        if self.devices:
            options.add_provider_for_devices(self.devices, {})
        given = {"providers": ["CPUExecutionProvider"]} if self.which == "onnxruntime" else {}
        with tempfile.TemporaryDirectory() if case.files else contextlib.nullcontext() as folder:
            source: bytes | str = case.model
            if folder is not None:
                for name, content in {**case.files, "model.onnx": case.model}.items():
                    Path(folder, name).write_bytes(content)
                source = str(Path(folder, "model.onnx"))
            try:
                session = self.module.InferenceSession(source, options, **given)
            except self.errors as error:
                return [f"{type(error).__name__}: {error}"]
            return self._runs(session, case)

    def _runs(self, session: Any, case: Case) -> list[Any]:
        made: list[Any] = []
        for feeds in case.feeds:
            run_options = self.module.RunOptions()
            stopping = threading.Timer(PATIENCE, setattr, (run_options, "terminate", True))
            stopping.start()
            try:
                if self.which == "onnxruntime" and any(
                    getattr(v, "dtype", None) in ONNX_TYPE_OF for v in feeds.values()
                ):
                    made.append(run_in_onnxruntime(self.module, session, feeds))
                else:
                    made.append(session.run(None, feeds, run_options))
            except (*self.errors, MemoryError) as error:
                made.append(f"{type(error).__name__}: {error}")
            except ValueError as error:  # what onnxruntime says of a feed
                if "missing from input feed" not in str(error):
                    raise
                made.append(f"{type(error).__name__}: {error}")
            finally:
                stopping.cancel()
        return made


def _pickled(made: list[Any]) -> bytes:
    """Results for comparisons; a type's name for what stays in its process: onnxruntime's sparse tensors."""
    try:
        return pickle.dumps(made)
    except (TypeError, AttributeError, pickle.PicklingError):
        named = [[v if isinstance(v, np.ndarray) else type(v) for v in run] for run in made]
        return pickle.dumps([[v.__name__ if isinstance(v, type) else v for v in run] for run in named])


def main() -> None:
    """See the module's docstring."""
    kind, which, seed, path = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    makes = {"operators": "cases", "models": "mutants", "programs": "programs"}
    make_case = importlib.import_module(f"tests.fuzz.{makes[kind]}").make_case
    warnings.simplefilter("ignore")
    # A host's library may print: its own standard output is where its errors go.
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    made_of = pickle.loads(path.read_bytes())
    host = Host(which)
    if not SANITIZED:  # which reserves terabytes, and has a limit of its own
        most = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        name, _, file = line.rstrip("\n").partition("\t")
        source, _, number = name.rpartition("/")
        case = make_case(seed, source, int(number), made_of)
        signal.setitimer(signal.ITIMER_PROF, TIME)
        record: dict[str, Any] = {"case": name, "changes": case.changes}
        made: list[Any] = []
        try:
            if kind == "programs":
                about, made = host.perform(case)
                record |= about
            else:
                made = host.run(case)
                record["ended"] = [each if isinstance(each, str) else "ran" for each in made]
        except BaseException as error:  # none of the host's: a fault, told with its place
            frames = traceback.extract_tb(error.__traceback__)
            where = next((f for f in reversed(frames) if "ephost" in f.filename), frames[-1])
            record["fault"] = f"bare {type(error).__name__} at {where.filename}:{where.lineno}: {error}"[:400]
        signal.setitimer(signal.ITIMER_PROF, 0)
        if file:
            Path(file).write_bytes(_pickled(made))
        print(json.dumps(record), file=told, flush=True)


if __name__ == "__main__":
    main()
