"""A host's process: answers commands, each a line of JSON, with a line of JSON.

python -m harness.worker MODULE
"""

from __future__ import annotations

import gc
import importlib
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from harness import lowered


class Worker:
    """Sessions of small models on a plugin, timed."""

    def __init__(self, module: str) -> None:
        """Import the host."""
        lowered.lower(module)
        self.module = importlib.import_module(module)
        self._devices: dict[str, list[Any]] = {}
        self._options: dict[str, dict[str, str]] = {}
        self._run: Callable[[], Any] | None = None

    def register(self, name: str, path: str, options: dict[str, str] | None = None) -> None:
        """Register a plugin's library, once; its sessions get these options of the EP."""
        if name in self._devices:
            return
        self.module.register_execution_provider_library(name, path)
        mine = [d for d in self.module.get_ep_devices() if d.ep_metadata.get("library_path") == path]
        mine = mine or [
            d
            for d in self.module.get_ep_devices()
            if Path(d.ep_metadata.get("library_path", "")).resolve() == Path(path).resolve()
        ]
        # A library may have several execution providers: the first is meant.
        self._devices[name] = [d for d in mine if d.ep_name == mine[0].ep_name]
        self._options[name] = options or {}

    def _open(self, model: str, plugin: str | None) -> Any:
        options = self.module.SessionOptions()
        if plugin is not None:
            options.add_provider_for_devices(self._devices[plugin], self._options[plugin])
        session = self.module.InferenceSession(model, options)
        if plugin is not None and self._devices[plugin][0].ep_name not in session.get_providers():
            raise RuntimeError(f"{model} runs without {plugin}: there is nothing to measure")
        return session

    def prepare(self, model: str, shape: list[int], plugin: str | None = None) -> list[float]:
        """Get ready for ``run``, without a plugin on the host's own provider; what a run gives."""
        session = self._open(model, plugin)
        names = [value.name for value in session.get_inputs()]
        feed = {name: np.full(shape, at + 1, np.float32) for at, name in enumerate(names)}
        self._run = lambda: session.run(None, feed)
        return [float(each) for each in session.run(None, feed)[0].ravel()]

    def prepare_feed(self, model: str, feed: str) -> list[Any]:
        """Get ready for ``run`` on the host's own provider with the arrays of a file; what a run gives."""
        session = self._open(model, None)
        with np.load(feed) as arrays:
            given = {name: arrays[name] for name in arrays.files}
        given = {name: x.astype(object) if x.dtype.kind == "U" else x for name, x in given.items()}
        self._run = lambda: session.run(None, given)
        return [_plain(result) for result in session.run(None, given)]

    def prepare_alone(self, model: str, feed: str) -> None:
        """Get ready for ``run`` on the host's own provider, on one thread."""
        options = self.module.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        session = self.module.InferenceSession(model, options)
        with np.load(feed) as arrays:
            given = {name: arrays[name] for name in arrays.files}
        given = {name: x.astype(object) if x.dtype.kind == "U" else x for name, x in given.items()}
        session.run(None, given)
        self._run = lambda: session.run(None, given)

    def prepare_shapes(self, model: str, shapes: list[list[int]]) -> list[float]:
        """Get ready for ``run_next_shapes``; sums of what runs of two of these shapes give."""
        session = self._open(model, None)
        (name,) = (value.name for value in session.get_inputs())
        random = np.random.default_rng(0)
        feeds = [{name: random.random(shape, np.float32)} for shape in shapes]
        turns = itertools.cycle(feeds)
        self._run = lambda: session.run(None, next(turns))
        return [float(np.abs(result).sum()) for feed in feeds[-2:] for result in session.run(None, feed)]

    def run_next_shapes(self, runs: int) -> float:
        """Seconds of a run in the mean, each with the shape that is next."""
        assert self._run is not None
        start = time.perf_counter()
        for _ in range(runs):
            self._run()
        return (time.perf_counter() - start) / runs

    def prepare_bound(self, model: str, plugin: str) -> None:
        """Get ready for ``run`` on values that are bound: one element each."""
        session = self._open(model, plugin)
        value = self.module.OrtValue.ortvalue_from_numpy
        binding = session.io_binding()
        for each in session.get_inputs():
            binding.bind_ortvalue_input(each.name, value(np.ones(1, np.float32)))
        binding.bind_ortvalue_output("y", value(np.zeros(1, np.float32)))
        self._run = lambda: session.run_with_iobinding(binding)

    def prepare_in_place(self, model: str, feed: str, shared: dict[str, str]) -> list[Any]:
        """Get ready for ``run`` on the host's own provider with the arrays of a file, which are bound;
        ``shared`` says of which input's memory an output is. What a run gives for the others.
        """
        session = self._open(model, None)
        binding = session.io_binding()
        with np.load(feed) as arrays:
            values = {name: self.module.OrtValue.ortvalue_from_numpy(arrays[name]) for name in arrays.files}
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        for each in session.get_outputs():
            if each.name in shared:
                binding.bind_ortvalue_output(each.name, values[shared[each.name]])
            else:
                binding.bind_output(each.name)
        self._run = lambda: session.run_with_iobinding(binding)
        self._run()
        return [
            _plain(value.numpy())
            for each, value in zip(session.get_outputs(), binding.get_outputs(), strict=True)
            if each.name not in shared
        ]

    def run(self, calls: int, samples: int = 5) -> float:
        """Seconds of a run: the median of so many samples of so many calls, after one that is not counted."""
        assert self._run is not None
        return _timed(self._run, calls, samples)

    def open(self, model: str, plugin: str | None, samples: int) -> float:
        """Seconds to open a session, without a plugin on the host's own provider."""
        gc.collect()
        return _timed(lambda: self._open(model, plugin), 1, samples)

    def come_and_go(self, path: str, samples: int) -> float:
        """Seconds to register a library that is not registered, and to unregister it."""

        def once() -> None:
            self.module.register_execution_provider_library("again", path)
            self.module.unregister_execution_provider_library("again")

        return _timed(once, 1, samples)


def _plain(result: Any) -> list[Any]:
    """An array's elements; of maps, which are a row each, the values in the order of their keys."""
    if isinstance(result, list):
        return [[row[key] for key in sorted(row)] for row in result]
    elements: list[Any] = result.tolist()
    return elements


def _timed(function: Callable[[], Any], calls: int, samples: int) -> float:
    times = []
    for _ in range(samples + 1):
        result = None
        start = time.perf_counter()
        for _ in range(calls):
            result = function()
        times.append((time.perf_counter() - start) / calls)
        del result
    return statistics.median(times[1:])


def serve(worker: object) -> None:
    """Answer until the other side closes."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print goes elsewhere.
    for line in sys.stdin:
        command, arguments = json.loads(line)
        try:
            answer = {"is": getattr(worker, command)(**arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve(Worker(sys.argv[1]))
