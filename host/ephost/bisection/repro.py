"""What a vendor is sent: a model, its inputs, and a program that shows the fault."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ephost.bisection.judging import Symptom
from ephost.bisection.measuring import Tolerance
from ephost.bisection.packing import save
from ephost.bisection.shrinking import Case
from ephost.errors import Fail

_OWN_TYPES = 256  # numpy's own types have numbers below it
_PROGRAM = '''"""{headline}

    python repro.py [--host ephost|onnxruntime] [--library PATH]

Ends with status 1, or not at all, where the fault shows, and with 0 where it does not. Seen in: {hosts}.
"""

import argparse
import importlib
import os
import threading
import time
from pathlib import Path

import numpy as np

LIBRARIES = {libraries!r}  # name, path, options
ENTRIES = {entries!r}
HARDWARE = {hardware!r}  # what the machine has to be taken to have
OPTIMIZE, REPEATS, THREADS, RUNS = {optimize!r}, {repeats}, {threads}, {runs}
SECONDS = {seconds!r}  # that a run may take, where it is too slow; half way to what it takes elsewhere
TOLERANCES = {tolerances!r}  # output: of an element, of the largest one, whole steps
HERE = Path(__file__).parent


def load(path):
    """Values by name. What numpy has no type for, and what is no array, is said behind a bar."""
    with np.load(path, allow_pickle=False) as held:
        parts = [(*key.rpartition("|")[::2], held[key]) for key in held.files if "|" in key]
        found = {{key: held[key] for key in held.files if "|" not in key}}
    left = {{name: (kind, array) for name, kind, array in parts}}

    def take(name):
        kind, array = left.pop(name)
        if kind == "text":
            return array.astype(object)
        if kind == "none":
            return None
        if kind == "list":
            return [take(f"{{name}}|{{at}}") for at in range(array)]
        if kind == "map":
            return dict(zip(take(f"{{name}}|keys").tolist(), take(f"{{name}}|values").tolist()))
        if kind:
            import ml_dtypes

            return array.view(getattr(ml_dtypes, kind))
        return array

    while left:  # what is in a list lies behind it
        name = next(iter(left))
        found[name] = take(name)
    return found


def is_of(device, path, before):
    told = dict(device.ep_metadata).get("library_path")
    return os.path.realpath(told) == os.path.realpath(path) if told else device.ep_name not in before


def open_session(host, library):
    options = host.SessionOptions()
    for key, value in ENTRIES.items():
        options.add_session_config_entry(key, value)
    if not OPTIMIZE:
        options.graph_optimization_level = host.GraphOptimizationLevel.ORT_DISABLE_ALL
    for name, path, given in LIBRARIES:
        before = {{device.ep_name for device in host.get_ep_devices()}}
        path = os.path.abspath(library or path)  # onnxruntime looks for others beside itself
        host.register_execution_provider_library(name, path)
        devices = [device for device in host.get_ep_devices() if is_of(device, path, before)]
        for ep_name in dict.fromkeys(device.ep_name for device in devices):
            options.add_provider_for_devices([d for d in devices if d.ep_name == ep_name], given)
    return host.InferenceSession(str(HERE / "repro.onnx"), options, enable_fallback=0)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wrong(got, expected):
    """What is wrong with the outputs of a run; "" for nothing."""
    for name, value in got.items():
        allowed = TOLERANCES.get(name, (0, 0, 0))
        if name in expected and (text := differs(name, value, expected[name], allowed)):
            return text
    return ""


def differs(name, value, want, tolerance):
    if isinstance(value, list) and isinstance(want, list):
        if len(value) != len(want):
            return f"{{name}} has {{len(value)}} elements, not {{len(want)}}"
        pairs = enumerate(zip(value, want))
        return next(filter(None, (differs(f"{{name}}[{{at}}]", a, b, tolerance) for at, (a, b) in pairs)), "")
    if not (isinstance(value, np.ndarray) and isinstance(want, np.ndarray)):
        return "" if repr(value) == repr(want) else f"{{name}} is {{value!r:.80}}, not {{want!r:.80}}"
    if value.shape != want.shape or value.dtype != want.dtype:
        return f"{{name}} is {{value.dtype}} of {{value.shape}}, not {{want.dtype}} of {{want.shape}}"
    if want.dtype.kind in "OSU":
        return f"{{name}} is not what it should be" if (value != want).any() else ""
    relative, scaled, steps = tolerance
    a, b = value.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        largest = np.abs(b[np.isfinite(b)]).max(initial=0)
        off = ~(np.abs(a - b) <= relative * np.abs(b) + scaled * largest + steps)
        off &= ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if not off.any():
        return ""
    at = tuple(np.argwhere(off)[0])
    where = list(map(int, at))
    wrong = f"{{off.sum()}} of {{off.size}} are wrong"
    return f"{{name}}{{where}} is {{value[at]}}, not {{want[at]}}; {{wrong}}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default={host!r})
    parser.add_argument("--library")
    given = parser.parse_args()
    host = importlib.import_module(given.host)
    if HARDWARE and hasattr(host, "set_hardware_devices"):
        host.set_hardware_devices(HARDWARE)
    feeds = [load(path) for path in sorted(HERE.glob("inputs*.npz"))]
    expected = [load(path) for path in sorted(HERE.glob("expected*.npz"))]
    print("opening", flush=True)
    session = open_session(host, given.library)
    names = [output.name for output in session.get_outputs()]
    found, took = [], []

    def run(which, times):
        for _ in range(times):
            began = time.perf_counter()
            got = dict(zip(names, session.run(None, feeds[which])))
            took.append(time.perf_counter() - began)
            if expected and (text := wrong(got, expected[which])):
                found.append(text)

    print("running", flush=True)
    run(0, REPEATS)
    if THREADS > 1:
        threads = [threading.Thread(target=run, args=(n % len(feeds), 100)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if RUNS:
        run(0, 50)
        before = resident()
        run(0, RUNS)
        grown = (resident() - before) / RUNS
        print(f"{{grown:.0f}} bytes a run")
        if grown >= 16:
            found.append("memory is not given back")
    if SECONDS:
        run(0, 5)
        print(f"{{min(took):.3g}} s a run")
        if min(took) > SECONDS:
            found.append(f"a run should take less than {{SECONDS:.3g}} s")
    for text in found[:3]:
        print("WRONG:", text)
    print("the fault shows" if found else "nothing wrong")
    raise SystemExit(1 if found else 0)


main()
'''


def write_arrays(path: Path, values: Mapping[str, Any]) -> None:
    """Values in numpy's format: of a type that it lacks the bytes, of sequences and maps what is in them.

    Behind a bar in an array's name stands what it is.
    """
    held = dict(entry for name, value in values.items() for entry in _entries(name, value))
    # numpy.savez cannot take arrays of any name, such as its own arguments'.
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        for name, value in held.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, value, allow_pickle=False)


def _entries(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(value, list | tuple):
        yield f"{name}|list", np.array(len(value))
        for at, each in enumerate(value):
            yield from _entries(f"{name}|{at}", each)
    elif isinstance(value, Mapping):
        yield f"{name}|map", np.array(len(value))
        for part, items in (("keys", value.keys()), ("values", value.values())):
            yield from _entries(f"{name}|{part}", np.array(list(items)))
    elif value is None:
        yield f"{name}|none", np.array(0)
    elif not isinstance(value, np.ndarray):
        raise Fail(f"the value '{name}' cannot be written for a vendor: it is of {type(value).__name__}")
    elif value.dtype.kind in "OSU":
        yield f"{name}|text", value.astype(str)
    elif value.dtype.num < _OWN_TYPES:
        yield f"{name}|" if "|" in name else name, value
    else:
        whole = np.dtype(f"u{value.dtype.itemsize}")
        yield f"{name}|{value.dtype.name}", np.asarray(value, order="C").view(whole)


def remove_repro(folder: Path) -> None:
    """Take away what :func:`write_repro` wrote there before, and the folder if it has nothing else."""
    for pattern in ("repro.*", "inputs*.npz", "expected*.npz"):
        for path in folder.glob(pattern):
            path.unlink()
    with suppress(OSError):
        folder.rmdir()


def write_repro(
    folder: Path,
    case: Case,
    symptom: Symptom,
    headline: str,
    hosts: tuple[str, ...],
    feeds: list[Mapping[str, Any]],
    expected: list[Mapping[str, Any]],
    tolerances: Mapping[str, Tolerance],
    hardware: Any,
    seconds: float = 0.0,
) -> None:
    """Write ``repro.onnx``, ``inputs.npz``, ``expected.npz`` and ``repro.py``."""
    remove_repro(folder)  # more inputs, from a search before this one
    folder.mkdir(parents=True, exist_ok=True)
    save(case.model, folder / "repro.onnx")
    for number, (feed, outputs) in enumerate(zip(feeds, expected, strict=True)):
        end = "" if number == 0 else str(number + 1)
        write_arrays(folder / f"inputs{end}.npz", feed)
        write_arrays(folder / f"expected{end}.npz", outputs)
    said = headline.replace("\\", "\\\\").replace('"""', "'''")
    text = _PROGRAM.format(
        headline=said,
        hosts=", ".join(hosts) or "none but in the search itself",
        host=hosts[0] if hosts else "ephost",
        libraries=[(each.name, each.path, dict(each.options)) for each in case.target.libraries],
        entries=dict(case.target.config),
        hardware=hardware,
        optimize=case.mode.optimize,
        repeats=case.mode.repeats,
        threads=case.mode.threads,
        seconds=seconds,
        runs=2000 if symptom.kind == "leak" else 0,
        tolerances={name: (each.relative, each.scaled, each.steps) for name, each in tolerances.items()},
    )
    (folder / "repro.py").write_text(text, encoding="utf-8", errors="backslashreplace")
