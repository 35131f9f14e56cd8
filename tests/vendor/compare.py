"""Run the ONNX standard's node tests in a host of plugin EPs, and compare two such runs.

    python -m tests.vendor.compare HOST [--ep NAME=LIBRARY[,key=value...]] [--output FILE.json]

HOST is the importable name of a module with onnxruntime's Python API: ``onnxruntime`` or ``ephost``.  Every
case runs in a worker process that is replaced when it dies or exceeds ``--timeout``, so a plugin that crashes
costs one case.

Each case gives a record ``{name, status, error, claimed, random, seconds, fallback}``:

``status``   ``pass``, ``fail`` (an output differs), ``error`` (an exception), ``crash`` or ``timeout``
``error``    what was wrong, empty for a pass
``claimed``  how many of the case's nodes the plugin took; null when the session could not be opened
``random``   whether the model draws random numbers, so that ``fail`` is to be expected
``seconds``  the shortest of a few runs; null for what is not a pass of the plugin's
``fallback`` why the plugin failed, where the host then went on without it: whatever the status is, it is not
             the plugin's; else empty

Outputs are compared as onnx.backend.test does it: number, shape and element type exactly, values to the
case's tolerances, NaN equal to NaN.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import dataclasses
import faulthandler
import functools
import importlib
import io
import json
import multiprocessing
import multiprocessing.connection
import os
import re
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

STATUSES = ("pass", "fail", "error", "crash", "timeout")
RANDOM_OPERATORS = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
# Element types that numpy itself does not have: ONNX type -> (ml_dtypes type, bits of a packed element).
EXTENDED_TYPES: dict[int, tuple[np.dtype, int]] = {
    getattr(onnx.TensorProto, onnx_name): (np.dtype(getattr(ml_dtypes, name)), bits)
    for onnx_name, name, bits in (
        ("BFLOAT16", "bfloat16", 16),
        ("FLOAT8E4M3FN", "float8_e4m3fn", 8),
        ("FLOAT8E4M3FNUZ", "float8_e4m3fnuz", 8),
        ("FLOAT8E5M2", "float8_e5m2", 8),
        ("FLOAT8E5M2FNUZ", "float8_e5m2fnuz", 8),
        ("FLOAT8E8M0", "float8_e8m0fnu", 8),
        ("FLOAT4E2M1", "float4_e2m1fn", 4),
        ("INT4", "int4", 4),
        ("UINT4", "uint4", 4),
        ("INT2", "int2", 2),
        ("UINT2", "uint2", 2),
    )
    if hasattr(onnx.TensorProto, onnx_name) and hasattr(ml_dtypes, name)
}
ONNX_TYPE_OF = {dtype: onnx_type for onnx_type, (dtype, _) in EXTENDED_TYPES.items()}


class Difference(AssertionError):
    """An output is not what the standard says."""


@dataclasses.dataclass(frozen=True)
class Plugin:
    """A plugin library, the name to register it under, and the provider options for its devices."""

    name: str
    library: str
    options: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> Plugin:
        """Read ``NAME=LIBRARY[,key=value...]``; raises argparse.ArgumentTypeError when it is not that."""
        head, *pairs = text.split(",")
        name, _, library = head.partition("=")
        if not name or not library or any("=" not in pair for pair in pairs):
            raise argparse.ArgumentTypeError(f"{text!r} is not NAME=LIBRARY[,key=value...]")
        return cls(name, library, dict(pair.split("=", 1) for pair in pairs))


@dataclasses.dataclass
class Result:
    """What became of one case; see the module's docstring for the fields."""

    name: str
    status: str
    error: str = ""
    claimed: int | None = None
    random: bool = False
    seconds: float | None = None
    fallback: str = ""


# ------------------------------------------------------------------------------------------ comparing outputs


def check_outputs(
    actual: Sequence[Any], expected: Sequence[Any], rtol: float, atol: float, where: str = ""
) -> None:
    """Raise Difference unless the two lists of tensors, sequences, maps and empty optionals agree."""
    if len(actual) != len(expected):
        raise Difference(f"{where or 'run'} gives {len(actual)} values, expected {len(expected)}")
    for index, (got, want) in enumerate(zip(actual, expected, strict=True)):
        check_value(got, want, rtol, atol, f"{where}[{index}]" if where else f"output {index}")


def check_value(got: Any, want: Any, rtol: float, atol: float, where: str) -> None:
    """Raise Difference unless one value agrees with what the standard says."""
    if want is None or got is None:
        if got is not want:
            raise Difference(f"{where}: got {type(got).__name__}, expected {type(want).__name__}")
    elif isinstance(want, dict):
        if not isinstance(got, dict) or got.keys() != want.keys():
            raise Difference(f"{where}: not a map with the expected keys")
        for key in want:
            check_value(got[key], want[key], rtol, atol, f"{where}[{key!r}]")
    elif isinstance(want, list | tuple):
        if not isinstance(got, list | tuple):
            raise Difference(f"{where}: got {type(got).__name__}, expected a sequence")
        check_outputs(got, want, rtol, atol, where)
    else:
        check_tensor(got, np.asarray(want), rtol, atol, where)


def check_tensor(got: Any, want: np.ndarray, rtol: float, atol: float, where: str) -> None:
    """Raise Difference unless shape and element type are equal and values are within the tolerances."""
    if isinstance(got, list | tuple | dict):
        raise Difference(f"{where}: got {type(got).__name__}, expected a tensor")
    got = np.asarray(got)
    if got.shape != want.shape:
        raise Difference(f"{where}: shape {got.shape}, expected {want.shape}")
    text = {"O", "U", "S", "T"}
    if want.dtype.kind in text:
        if got.dtype.kind not in text or not np.array_equal(got.astype(object), want.astype(object)):
            raise Difference(f"{where}: strings differ")
        return
    if got.dtype != want.dtype:
        raise Difference(f"{where}: element type {got.dtype}, expected {want.dtype}")
    if want.dtype in ONNX_TYPE_OF:
        if want.dtype == ml_dtypes.bfloat16:
            rtol = max(rtol, 2**-6)  # two units in the last place, as onnx.backend.test allows
        got, want = got.astype(np.float32), want.astype(np.float32)
    try:
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
    except AssertionError as difference:
        lines = [line.strip() for line in str(difference).splitlines() if line.strip()]
        raise Difference(f"{where}: {'; '.join(lines[:5])}") from None


# ------------------------------------------------------------------------------------------ running in a host


def run_plain(host: Any, session: Any, feeds: dict[str, Any]) -> list[Any]:
    """One call in a host that takes and gives arrays of every element type."""
    return list(session.run(None, feeds))


def run_in_onnxruntime(host: Any, session: Any, feeds: dict[str, Any]) -> list[Any]:
    """One call in onnxruntime, whose ``run`` refuses ml_dtypes arrays and cannot give them back.

    When such a type is involved, every value crosses as an OrtValue whose buffer is filled and read in place.
    """
    extended_inputs = any(isinstance(v, np.ndarray) and v.dtype in ONNX_TYPE_OF for v in feeds.values())
    extended_outputs = any(
        re.search(r"bfloat16|float8|float4|int4|int2", o.type) for o in session.get_outputs()
    )
    if not extended_inputs and not extended_outputs:
        return list(session.run(None, feeds))
    values = {name: _to_ort_value(host, value) for name, value in feeds.items()}
    return [_from_ort_value(value) for value in session.run_with_ort_values(None, values)]


def _to_ort_value(host: Any, array: Any) -> Any:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"onnxruntime's Python API has no OrtValue of a {type(array).__name__}")
    onnx_type = ONNX_TYPE_OF.get(array.dtype)
    if onnx_type is None:
        return host.OrtValue.ortvalue_from_numpy(array)
    value = host.OrtValue.ortvalue_from_shape_and_type(list(array.shape), onnx_type)
    packed = _pack(array, EXTENDED_TYPES[onnx_type][1])
    if len(packed):
        ctypes.memmove(value.data_ptr(), packed, len(packed))
    return value


def _from_ort_value(value: Any) -> Any:
    if not value.is_tensor() or value.element_type() not in EXTENDED_TYPES:
        made = value.numpy()
        return made.copy() if isinstance(made, np.ndarray) else made  # of memory that is the value's
    dtype, bits = EXTENDED_TYPES[value.element_type()]
    shape = value.shape()
    count = int(np.prod(shape, dtype=np.int64))
    packed = ctypes.string_at(value.data_ptr(), (count * bits + 7) // 8) if count else b""
    return _unpack(packed, count, bits, dtype).reshape(shape)


def _pack(array: np.ndarray, bits: int) -> bytes:
    """The array's bytes as ONNX packs them: narrow elements share a byte, the first in its low bits."""
    raw = np.ascontiguousarray(array).tobytes()
    if bits >= 8:
        return raw
    per_byte = 8 // bits
    codes = np.frombuffer(raw, np.uint8) & ((1 << bits) - 1)
    codes = np.append(codes, np.zeros(-len(codes) % per_byte, np.uint8)).reshape(-1, per_byte)
    shifted = codes << (np.arange(per_byte, dtype=np.uint8) * bits)
    return bytes(np.bitwise_or.reduce(shifted, axis=1).astype(np.uint8))


def _unpack(packed: bytes, count: int, bits: int, dtype: np.dtype) -> np.ndarray:
    if bits >= 8:
        return np.frombuffer(packed, dtype)
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    codes = ((np.frombuffer(packed, np.uint8)[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]
    if dtype.name.startswith("int"):
        half = 1 << (bits - 1)
        return ((codes ^ half).astype(np.int8) - half).astype(dtype)
    return codes.astype(np.uint8).view(dtype)


RUN_CALLS = {"onnxruntime": run_in_onnxruntime}


class HostSession:
    """The host module in this process, with the plugin registered, ready to run case after case."""

    def __init__(self, host_name: str, plugin: Plugin | None) -> None:
        self.host = importlib.import_module(host_name)
        self.call = RUN_CALLS.get(host_name, run_plain)
        self.plugin = plugin
        self.devices: list[Any] = []
        self.session: Any = None
        self.ep_name = ""
        if plugin:
            known = {device.ep_name for device in self.host.get_ep_devices()}
            self.host.register_execution_provider_library(plugin.name, plugin.library)
            new = [device for device in self.host.get_ep_devices() if device.ep_name not in known]
            if not new:
                raise RuntimeError(f"{plugin.library} offers no device on this machine")
            # A plugin may bring several EPs, and one call takes the devices of one of them.
            self.ep_name = new[0].ep_name
            self.devices = [device for device in new if device.ep_name == self.ep_name]

    def run_case(self, case: TestCase, result: Result) -> None:
        """Open and run the case, filling in ``result``; raises what the host raises, or Difference."""
        said = io.StringIO()  # onnxruntime prints why it goes on without a plugin, ephost warns
        with contextlib.redirect_stdout(said), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                self._run_case(case, result)
            finally:
                if self.plugin and self.session and self.ep_name not in self.session.get_providers():
                    lines = [str(w.message) for w in warned if w.category.__name__ == "FallbackWarning"]
                    lines += [line for line in said.getvalue().splitlines() if line.startswith("EP Error")]
                    result.fallback = lines[0] if lines else "the host does not say why"
                    result.seconds = None
                self.session = None

    def _run_case(self, case: TestCase, result: Result) -> None:
        assert case.model is not None and case.data_sets is not None
        options = self.host.SessionOptions()
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        if self.plugin:
            options.add_provider_for_devices(self.devices, self.plugin.options)
        self.session = session = self.host.InferenceSession(case.model.SerializeToString(), options)
        subgraphs = session.get_provider_graph_assignment_info()
        result.claimed = sum(
            len(s.get_nodes()) for s in subgraphs if self.plugin and s.ep_name == self.ep_name
        )
        for inputs, outputs in case.data_sets:
            # Some cases have fewer values than the model has inputs: the rest is left out.
            feeds = {i.name: plain(v) for i, v in zip(case.model.graph.input, inputs, strict=False)}
            began = time.perf_counter()
            made = self.call(self.host, session, feeds)
            took = time.perf_counter() - began
            check_outputs(made, [plain(v) for v in outputs], case.rtol, case.atol)
            for _ in range(3 if took < 0.05 else 0):
                began = time.perf_counter()
                self.call(self.host, session, feeds)
                took = min(took, time.perf_counter() - began)
            result.seconds = (result.seconds or 0) + took


def plain(value: Any) -> Any:
    """A case's value as arrays, lists and None: some cases carry protobuf messages instead."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return numpy_helper.to_optional(value)
    if isinstance(value, np.generic | int | float | bool):
        return np.asarray(value)
    return value


def draws_random_numbers(model: onnx.ModelProto | None) -> bool:
    """Whether an operator of the model, its subgraphs or functions draws random numbers."""

    def any_random(nodes: Iterable[onnx.NodeProto]) -> bool:
        return any(
            node.op_type in RANDOM_OPERATORS
            or any(any_random(g.node) for a in node.attribute for g in (a.g, *a.graphs))
            for node in nodes
        )

    if model is None:
        return False
    return any_random(model.graph.node) or any(any_random(function.node) for function in model.functions)


# ---------------------------------------------------------------------------------------------------- workers


def serve(
    connection: multiprocessing.connection.Connection,
    cases: dict[str, TestCase],
    host_name: str,
    plugin: Plugin | None,
    stderr_path: str,
) -> None:
    """A worker process: answer each case name received with its Result, until None comes."""
    log = os.open(stderr_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.disable()  # a crash is the parent's to report
    warnings.simplefilter("ignore")
    try:
        host = HostSession(host_name, plugin)
    except Exception as problem:
        connection.send(f"{type(problem).__name__}: {problem}")
        return
    connection.send("")
    while (name := connection.recv()) is not None:
        os.ftruncate(log, 0)
        os.lseek(log, 0, os.SEEK_SET)
        result = Result(name, "pass")
        try:
            host.run_case(cases[name], result)
        except Difference as difference:
            result.status, result.error = "fail", str(difference)
        except Exception as problem:
            result.status, result.error = "error", f"{type(problem).__name__}: {problem}"
        connection.send(result)


class Worker:
    """A worker process, started when it is first needed and again after it was lost."""

    def __init__(self, cases: dict[str, TestCase], host_name: str, plugin: Plugin | None, log: Path) -> None:
        self._arguments = (cases, host_name, plugin, str(log))
        self._log = log
        self._process: Any = None
        self._connection: Any = None

    def run(self, name: str, timeout: float) -> Result:
        """The case's result; a crash or a timeout ends the process and is the result."""
        if self._process is None:
            self._start()
        try:
            self._connection.send(name)
            if self._connection.poll(timeout):
                result: Result = self._connection.recv()
                return result
        except (EOFError, ConnectionResetError, BrokenPipeError):
            return Result(name, "crash", self._end())
        self._process.kill()
        self._end()
        return Result(name, "timeout", f"no answer within {timeout:g} s")

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._connection.send(None)
            self._process.join(10)
            self._end()

    def _start(self) -> None:
        # A fork costs milliseconds where making the cases again costs seconds, and is sound here because this
        # process never imports the host.
        context = multiprocessing.get_context("fork")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, *self._arguments), daemon=True)
        self._process.start()
        theirs.close()
        try:
            problem = self._connection.recv()
        except EOFError:
            problem = self._end()
        if problem:
            raise SystemExit(f"the host cannot start: {problem}")

    def _end(self) -> str:
        """Make sure that the process is gone; say how it ended and what it said in its last case."""
        self._process.join(60)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        code = self._process.exitcode
        self._process = None
        self._connection.close()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        said = self._log.read_text(errors="replace").strip()[:400] if self._log.exists() else ""
        return f"{how}: {said}" if said else how


@functools.cache
def node_cases() -> dict[str, TestCase]:
    """The standard's node tests by name. Making them takes seconds, and warnings that mean nothing here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


def run_cases(
    host_name: str,
    plugin: Plugin | None,
    patterns: Sequence[str] = (),
    timeout: float = 30,
    progress: bool = False,
    every: int = 1,
) -> list[Result]:
    """Run the node tests and return a Result for each.

    Args:
        host_name: the module to run them in.
        plugin: to run them on; None for none.
        patterns: only cases whose name matches one of these.
        timeout: seconds for one case.
        progress: count on stderr.
        every: of those cases only the first, and every so-many-th after it.
    """
    cases = node_cases()
    names = [name for name in cases if not patterns or any(re.search(pattern, name) for pattern in patterns)]
    names = names[::every]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(cases, host_name, plugin, Path(folder, "stderr"))
        for name in names:
            result = worker.run(name, timeout)
            result.random = draws_random_numbers(cases[name].model)
            results.append(result)
            if progress:
                print(f"\r{len(results)}/{len(names)}", end="", file=sys.stderr, flush=True)
        worker.close()
    if progress:
        print(file=sys.stderr)
    return results


# ---------------------------------------------------------------------------------------------------- reports


def summary(title: str, results: Sequence[Result]) -> str:
    """A Markdown table of how many cases ended how, and the cases that were lost to a crash or a timeout."""
    counts = collections.Counter(result.status for result in results)
    claimed = sum(bool(result.claimed) for result in results)
    without = [result for result in results if result.fallback]
    random = [result for result in results if result.random and result.status != "pass"]
    lines = [
        f"## {title}",
        "",
        "| cases | "
        + " | ".join(STATUSES)
        + " | with nodes on the plugin | without it, since it failed | not passing but random |",
        "|---|" + "---|" * (len(STATUSES) + 3),
        f"| {len(results)} | "
        + " | ".join(str(counts[status]) for status in STATUSES)
        + f" | {claimed} | {len(without)} | {len(random)} |",
        "",
    ]
    lost = [result for result in results if result.status in ("crash", "timeout")]
    lines += [f"- `{result.name}`: {result.status}, {result.error.splitlines()[0]}" for result in lost]
    lines += [
        f"- `{result.name}`: {result.status} without the plugin: {result.fallback.splitlines()[0]}"
        for result in without
    ]
    return "\n".join(lines)


def regressions(results: Sequence[Result], against: Sequence[Result]) -> dict[str, list[str]]:
    """What the other run did and this one does not, as ``{"fails": [...], "unclaimed": [...],
    "fallbacks": [...]}``; the last are passes, but without the plugin where it did not fail there.

    Cases that draw random numbers are left out of "fails"; only cases that both runs hold are compared.
    """
    there = {result.name: result for result in against}
    found: dict[str, list[str]] = {"fails": [], "unclaimed": [], "fallbacks": []}
    for here in results:
        other = there.get(here.name)
        if other is None:
            continue
        if other.status == "pass" and here.status != "pass" and not here.random:
            found["fails"].append(f"{here.name}: {here.status}: {here.error}")
        elif other.status == "pass" and here.fallback and not other.fallback:
            found["fallbacks"].append(f"{here.name}: {here.fallback}")
        if other.claimed and not here.claimed:
            found["unclaimed"].append(
                f"{here.name}: {other.claimed} there, {here.claimed} here; {here.status}"
            )
    return found


def read_results(path: Path) -> list[Result]:
    """The records of a file that ``--output`` wrote."""
    return [Result(**record) for record in json.loads(path.read_text())["cases"]]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns 1 when ``--against`` finds a case that this run lost, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("host", help="module with onnxruntime's Python API")
    parser.add_argument(
        "--ep", type=Plugin.parse, metavar="NAME=LIBRARY[,key=value...]", help="plugin to run on"
    )
    parser.add_argument("--output", type=Path, help="write the records here, as JSON")
    parser.add_argument(
        "--against", type=Path, help="another run's JSON: list what that run did and this did not"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="REGEX", help="run matching cases only"
    )
    parser.add_argument("--timeout", type=float, default=30, help="seconds for one case (30)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run every N-th case only")
    options = parser.parse_args(arguments)

    against = read_results(options.against) if options.against else None  # it may be the file that is written
    start = time.monotonic()
    results = run_cases(
        options.host, options.ep, options.only, options.timeout, sys.stderr.isatty(), options.every
    )
    title = (
        f"{options.host}, {options.ep.name if options.ep else 'no plugin'} ({time.monotonic() - start:.0f} s)"
    )
    print(summary(title, results))
    if options.output:
        record = {
            "host": options.host,
            "plugin": dataclasses.asdict(options.ep) if options.ep else None,
            "onnx": onnx.__version__,
            "cases": [dataclasses.asdict(result) for result in results],
        }
        options.output.write_text(json.dumps(record, indent=1) + "\n")
    if against is None:
        return 0
    found = regressions(results, against)
    for heading, lines in (
        ("pass there, not here", found["fails"]),
        ("claimed there, not here", found["unclaimed"]),
        ("pass there, here only without the plugin", found["fallbacks"]),
    ):
        print("\n".join([f"\n### {heading}: {len(lines)}\n", *(f"- {line}" for line in lines)]))
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
