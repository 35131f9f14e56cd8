"""The process in which models are tried: ``python -m ephost.bisection.worker FD PARENT``.

It reads a target from the connection at that file descriptor, registers its plugins, and then tries each
model that it is sent. Before each step it says which one it is, so that whoever waits knows where a process
was that died or does not end. It uses of its host only what ephost and onnxruntime have in common.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

_RECORD = "session.record_ep_graph_assignment_info"
_OWN_TYPES = 256  # numpy's own types have numbers below it
_WARM, _WINDOW = 15, 40  # runs before memory is measured, and in each of the windows that are compared
_WINDOWS = 3
_FEWEST = 3
_LEAK_SECONDS = 6.0  # how long runs may take that look for a leak
_REPEATING_SECONDS = 10.0  # after which two runs are enough
_PDEATHSIG = 1  # prctl's: the signal that comes when the parent ends
_TOGETHER_SECONDS = 3.0  # and runs at once
_Told = Callable[[str], None]


class Prepared:
    """A host with the plugins of a target registered."""

    def __init__(self, target: dict[str, Any]) -> None:
        self.host = importlib.import_module(target["host"])
        self.target = target
        self.devices: list[tuple[list[Any], dict[str, str]]] = []
        for library in target["libraries"]:
            before = {_key(device) for device in self.host.get_ep_devices()}
            self.host.register_execution_provider_library(library["name"], library["path"])
            path = os.path.realpath(library["path"])
            offered = [device for device in self.host.get_ep_devices() if _is_of(device, path, before)]
            if not offered:
                raise RuntimeError(
                    f"the library '{library['name']}' ({library['path']}) offers no device of this machine"
                )
            for name in dict.fromkeys(device.ep_name for device in offered):
                self.devices.append(([d for d in offered if d.ep_name == name], library["options"]))

    def open(self, trial: dict[str, Any]) -> Any:
        """A session of the trial's model."""
        options = self.host.SessionOptions()
        options.log_severity_level = 4
        for key, value in {**self.target["config"], _RECORD: "1"}.items():
            options.add_session_config_entry(key, value)
        if not trial["optimize"]:
            options.graph_optimization_level = self.host.GraphOptimizationLevel.ORT_DISABLE_ALL
        if trial.get("optimized_path"):
            options.optimized_model_filepath = trial["optimized_path"]
        for devices, given in self.devices:
            options.add_provider_for_devices(devices, given)
        return self.host.InferenceSession(trial["model"], options, enable_fallback=0)


def _key(device: Any) -> tuple[str, str, str]:
    """What tells one device from another: onnxruntime gives other objects each time that it is asked."""
    hardware = device.device
    return device.ep_name, device.ep_vendor, f"{hardware.type} {hardware.vendor_id} {hardware.device_id}"


def _is_of(device: Any, path: str, before: set[tuple[str, str, str]]) -> bool:
    told = dict(device.ep_metadata).get("library_path")
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")  # as metadata has bytes that are no text
    return told == shown or os.path.realpath(told) == path if told else _key(device) not in before


def attempt(prepared: Prepared, trial: dict[str, Any], told: _Told) -> dict[str, Any]:
    """Open a model and run it as the trial says; raises what the host raises."""
    told("opening")
    started = time.perf_counter()
    session = prepared.open(trial)
    answer: dict[str, Any] = {"open_seconds": time.perf_counter() - started, "run_seconds": []}
    answer["groups"] = [
        (group.ep_name, [node.name for node in group.get_nodes()])
        for group in session.get_provider_graph_assignment_info()
    ]
    answer["signature"] = [(value.name, value.type, list(value.shape)) for value in session.get_inputs()]
    names = [value.name for value in session.get_outputs()]
    feeds = [_feed(feed) for feed in trial["feeds"]]
    runs: list[list[Any]] = []

    def run(feed: dict[str, Any], keep: list[list[Any]]) -> None:
        began = time.perf_counter()
        keep.append(session.run(None, feed))
        answer["run_seconds"].append(time.perf_counter() - began)

    for number in range(trial["repeats"] if feeds else 0):
        if number > 1 and sum(answer["run_seconds"]) > _REPEATING_SECONDS:
            break
        told(f"run {number + 1}")
        run(feeds[0], runs)
    owners = [0] * len(runs)
    if trial["each"]:
        for number, feed in enumerate(feeds[1:], 1):
            told(f"run {number + 1}")
            run(feed, runs)
            owners.append(number)
    if trial["threads"] > 1:
        told(f"{trial['threads']} runs at once")
        more, made = _at_once(session, feeds, trial["threads"], trial["rounds"])
        runs += more
        owners += made
    if trial["leak"]:
        told("runs that look for a leak")
        answer["growth"] = _growth(lambda: session.run(None, feeds[0]))
    answer["runs"] = _different(names, runs, owners, trial["folder"])
    return answer


def _at_once(
    session: Any, feeds: list[dict[str, Any]], threads: int, rounds: int
) -> tuple[list[list[Any]], list[int]]:
    """Runs in several threads at the same time: what came out, and which feed each was given."""
    barrier = threading.Barrier(threads)
    found: list[tuple[int, list[Any]]] = []
    failed: list[BaseException] = []

    def work(number: int) -> None:
        which = number % len(feeds)
        barrier.wait()
        try:
            until = time.monotonic() + _TOGETHER_SECONDS
            for number in range(rounds):
                found.append((which, session.run(None, feeds[which])))
                if number >= 2 and time.monotonic() > until:
                    break
        except BaseException as error:
            failed.append(error)

    started = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if failed:
        raise failed[0]
    return [values for _, values in found], [which for which, _ in found]


def _feed(feed: dict[str, Any]) -> dict[str, Any]:
    """The values of a feed, those that are files read."""
    return {
        name: read_value(Path(value)) if isinstance(value, str) else value for name, value in feed.items()
    }


def read_value(path: Path) -> Any:
    """What :func:`write_value` wrote."""
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    import pickle

    return pickle.loads(path.read_bytes())


def write_value(stem: Path, value: Any) -> Path:
    """Write a value beside others of this search: numpy's own types so that they can be mapped."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc" and value.dtype.num < _OWN_TYPES:
        path = stem.with_suffix(".npy")
        np.save(path, value, allow_pickle=False)
        return path
    import pickle

    path = stem.with_suffix(".pickle")
    path.write_bytes(pickle.dumps(value))
    return path


def _different(
    names: list[str], runs: list[list[Any]], owners: list[int], folder: str | None
) -> list[tuple[int, int, dict[str, Any]]]:
    """Each different outcome of the runs once: the first run that had it, its feed, its values."""
    kept: list[tuple[int, int, list[Any]]] = []
    for number, (values, owner) in enumerate(zip(runs, owners, strict=True)):
        if not any(owner == other and _same(values, known) for _, other, known in kept):
            kept.append((number, owner, values))
    answer = []
    for number, owner, values in kept:
        made: dict[str, Any] = dict(zip(names, values, strict=True))
        if folder is not None:
            written = {}
            for at, (name, value) in enumerate(made.items()):
                written[name] = str(write_value(Path(folder, f"run{number}_{at}"), value))
            made = written
        answer.append((number, owner, made))
    return answer


def _same(mine: list[Any], theirs: list[Any]) -> bool:
    return all(same_value(a, b) for a, b in zip(mine, theirs, strict=True))


def same_value(a: Any, b: Any) -> bool:
    """Whether two values are the same, bit by bit."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        return bool((a == b).all()) if a.dtype.kind == "O" else a.tobytes() == b.tobytes()
    if isinstance(a, list) and isinstance(b, list):  # in words numpy leaves out the middle of large arrays
        return len(a) == len(b) and _same(a, b)
    return repr(a) == repr(b)


class _MallInfo(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            [
                "arena",
                "ordblks",
                "smblks",
                "hblks",
                "hblkhd",
                "usmblks",
                "fsmblks",
                "uordblks",
                "fordblks",
                "keepcost",
            ]
        )
    )


def held_memory() -> tuple[int, int]:
    """Bytes that malloc has given out, where that can be asked, and the process' resident memory."""
    with contextlib.suppress(AttributeError, OSError):
        ask = ctypes.CDLL(None).mallinfo2
        ask.restype = _MallInfo
        info = ask()
        given = int(info.uordblks) + int(info.hblkhd)
        return given, _resident()
    return 0, _resident()


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _growth(run: Callable[[], Any]) -> dict[str, float]:
    """Bytes by which memory grows in a run: the least of several windows, as caches fill once."""
    began = time.perf_counter()
    for warm in range(1, _WARM + 1):
        run()
        if warm >= _FEWEST and time.perf_counter() - began > _LEAK_SECONDS / 4:
            break
    seconds = max((time.perf_counter() - began) / warm, 1e-6)
    window = max(_FEWEST, min(_WINDOW, int(_LEAK_SECONDS / _WINDOWS / seconds)))
    given, resident = [], []
    for _ in range(_WINDOWS):
        gc.collect()
        before = held_memory()
        for _ in range(window):
            run()
        gc.collect()
        after = held_memory()
        given.append((after[0] - before[0]) / window)
        resident.append((after[1] - before[1]) / window)
    return {"allocated": min(given), "resident": min(resident), "runs": float(window)}


def _die_with(parent: int) -> None:
    """Let this process end when the search does, however that ends: a plugin may never come back."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def main() -> None:
    """Serve one connection until it says None or ends."""
    _die_with(int(sys.argv[2]))
    connection = Connection(int(sys.argv[1]))
    try:
        prepared = Prepared(connection.recv())
    except Exception as error:
        connection.send(("unusable", f"{type(error).__name__}: {error}"))
        return
    connection.send(("ready", ""))
    while True:
        try:
            trial = connection.recv()
        except EOFError:
            return
        if trial is None:
            break
        try:
            answer = attempt(prepared, trial, lambda stage: connection.send(("stage", stage)))
        except Exception as error:
            connection.send(("error", f"{type(error).__name__}: {error}"))
            continue
        gc.collect()
        connection.send(("done", answer))
    del prepared
    connection.send(("left", ""))


if __name__ == "__main__":
    main()
