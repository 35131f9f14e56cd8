"""What a host's process does of models on a GPU: ``python -m gpu_side.worker MODULE``."""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from harness.worker import serve
from whole_models.catalog import Inputs, feed_for

NVIDIA = 0x10DE


class Worker:
    """A model on a host's provider for NVIDIA's GPUs, with inputs and outputs that stay on the first GPU."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.module: Any = importlib.import_module(host)
        if host == "ephost":
            from ephost.plugins import cuda

            self.module.register_execution_provider_library("cuda", cuda.get_library_path())

    def _open(self, model: str) -> Any:
        options = self.module.SessionOptions()
        options.log_severity_level = 3
        if self.host == "ephost":
            devices = [device for device in self.module.get_ep_devices() if device.ep_name == "cuda"]
            options.add_provider_for_devices(devices[:1], {})
            return self.module.InferenceSession(model, options, enable_fallback=0)
        providers = [("CUDAExecutionProvider", {"use_tf32": "0"}), "CPUExecutionProvider"]
        session = self.module.InferenceSession(model, options, providers=providers)
        if "CUDAExecutionProvider" not in session.get_providers():
            raise RuntimeError("onnxruntime has no CUDA provider here (pip install onnxruntime-gpu)")
        return session

    def _value(self, array: np.ndarray) -> Any:
        make = self.module.OrtValue.ortvalue_from_numpy
        array = np.ascontiguousarray(array)
        return make(array, "gpu", 0, NVIDIA) if self.host == "ephost" else make(array, "cuda", 0)

    def prepare(self, model: str, inputs: Inputs, dimensions: Sequence[int], path: str) -> float:
        """Open a model and bind its inputs and outputs; what a run gives is written. Seconds to open it."""
        start = time.perf_counter()
        session = self._open(model)
        elapsed = time.perf_counter() - start
        feed = feed_for(session, inputs, dimensions)
        found = [np.asarray(value) for value in session.run(None, feed)]
        np.savez(path, *found)
        binding = session.io_binding()
        for name, array in feed.items():
            binding.bind_ortvalue_input(name, self._value(array))
        for node, array in zip(session.get_outputs(), found, strict=True):
            binding.bind_ortvalue_output(node.name, self._value(array))
        self._run = lambda: session.run_with_iobinding(binding)
        for _ in range(5):
            self._run()
        return elapsed

    def run(self, calls: int, samples: int = 3) -> float:
        """Seconds of a run with its end waited for: the median of so many samples of so many calls."""
        times = []
        for _ in range(samples):
            start = time.perf_counter()
            for _ in range(calls):
                self._run()
            times.append((time.perf_counter() - start) / calls)
        return statistics.median(times)


if __name__ == "__main__":
    serve(Worker(sys.argv[1]))
