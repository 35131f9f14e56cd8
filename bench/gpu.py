"""The CUDA plugin on a GPU: bandwidth of kernels beside that of a copy, products, and host time of a run.

usage: gpu.py [--wheels FOLDER] [--bytes N] [--rounds N] [--json FILE]

Needs no network: with --wheels, the wheels in a folder (ephost, NVIDIA's libraries, torch for comparisons)
are installed into a temporary folder and used from there. Inputs and outputs stay on the GPU, runs are queued
without waiting, and one wait at the end closes each measurement; what is told is the best of five.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def with_wheels(folder: Path) -> int:
    """Installs the wheels where nothing else is, and runs this program there."""
    wheels = sorted(str(path) for path in folder.glob("*.whl"))
    with tempfile.TemporaryDirectory() as target:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-index",
            "--no-deps",
            "--target",
            target,
        ]
        subprocess.run([*pip, *wheels], check=True)
        arguments = [word for word in sys.argv[1:] if word not in ("--wheels", str(folder))]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([target, os.environ.get("PYTHONPATH", "")])}
        return subprocess.run([sys.executable, __file__, *arguments], env=env, check=False).returncode


def best_of(repeat: int, rounds: int, work: Callable[[], None], finish: Callable[[], None]) -> float:
    """Seconds for one call of `work`, of which `rounds` are queued before `finish` waits for them."""
    times = []
    for _ in range(repeat + 1):  # the first is for warming up
        start = time.perf_counter()
        for _ in range(rounds):
            work()
        finish()
        times.append((time.perf_counter() - start) / rounds)
    return min(times[1:])


class Gpu:
    """The first GPU of the plugin, and sessions on it."""

    def __init__(self) -> None:
        import ephost
        from ephost.plugins import cuda

        self.ephost = ephost
        ephost.register_execution_provider_library("cuda", cuda.get_library_path())
        self.devices = [d for d in ephost.get_ep_devices() if d.ep_name == "cuda"]
        if not self.devices:
            ask = ephost.get_hardware_device_ep_incompatibility_details
            notes = (ask("cuda", hardware)["notes"] for hardware in ephost.get_hardware_devices())
            raise SystemExit(f"there is no GPU to measure: {'; '.join(sorted({note for note in notes if note}))}")

    def value(self, array: Any) -> Any:
        return self.ephost.OrtValue.ortvalue_from_numpy(array, "gpu", 0, 0x10DE)

    def runner(self, model: bytes, feeds: dict[str, Any]) -> tuple[Callable[[], None], Callable[[], None]]:
        """A function that queues a run on values that are on the GPU, and one that runs and waits."""
        host = self.ephost
        options = host.SessionOptions()
        options.add_provider_for_devices(self.devices[:1], {})
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        session = host.InferenceSession(model, options)
        binding = session.io_binding()
        for name, array in feeds.items():
            binding.bind_ortvalue_input(name, self.value(array))
        outputs = session.run(None, feeds)
        for node, array in zip(session.get_outputs(), outputs, strict=True):
            binding.bind_ortvalue_output(node.name, self.value(array))
        unwaited = host.RunOptions()
        unwaited.add_run_config_entry("disable_synchronize_execution_providers", "1")
        return (
            lambda: session.run_with_iobinding(binding, unwaited),
            lambda: session.run_with_iobinding(binding),
        )

    def copy_bandwidth(self, size: int, rounds: int) -> float:
        """Bytes a second, read and written, of a copy on the GPU."""
        import numpy as np

        stream = self.devices[0].create_sync_stream()
        array = np.zeros(size // 4, np.float32)
        source, target = self.value(array), self.value(array)
        seconds = best_of(
            5,
            rounds,
            lambda: self.ephost.copy_tensors([source], [target], stream),
            lambda: target.numpy()[0],  # follows what is queued; its own time is in all measurements alike
        )
        return 2 * size / seconds


def model_of(nodes: list[Any], feeds: dict[str, Any], output: str) -> bytes:
    """A model of nodes with one output."""
    from onnx import helper

    graph = helper.make_graph(
        nodes,
        "bench",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in feeds.items()
        ],
        [
            helper.make_tensor_value_info(
                output, helper.np_dtype_to_tensor_dtype(next(iter(feeds.values())).dtype), None
            )
        ],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10
    ).SerializeToString()


def measure(size: int, rounds: int) -> dict[str, Any]:
    """All measurements, by name."""
    import numpy as np
    from onnx.helper import make_node as node

    gpu = Gpu()
    rng = np.random.default_rng(0)
    copy = gpu.copy_bandwidth(size, rounds)
    result: dict[str, Any] = {"device": dict(gpu.devices[0].ep_metadata), "copy, GB/s": copy / 1e9}
    for dtype in (np.float32, np.float16):
        columns = 1024
        rows = max(1, size // (columns * np.dtype(dtype).itemsize))
        x = rng.standard_normal((rows, columns)).astype(dtype)
        weights = {name: rng.standard_normal(columns).astype(dtype) for name in ("s", "b")}
        cases = {
            "Relu": ([node("Relu", ["x"], ["y"])], {"x": x}, 2),
            "Add": ([node("Add", ["x", "z"], ["y"])], {"x": x, "z": x}, 3),
            "bias, Gelu": (
                [node("Add", ["x", "b"], ["a"]), node("Gelu", ["a"], ["y"])],
                {"x": x, "b": weights["b"]},
                2,
            ),
            "Softmax": ([node("Softmax", ["x"], ["y"])], {"x": x}, 2),
            "LayerNormalization": (
                [node("LayerNormalization", ["x", "s", "b"], ["y"])],
                {"x": x, **weights},
                2,
            ),
            "Transpose": ([node("Transpose", ["x"], ["y"], perm=[1, 0])], {"x": x}, 2),
        }
        for name, (nodes, feeds, passes) in cases.items():
            work, finish = gpu.runner(model_of(nodes, feeds, "y"), feeds)
            seconds = best_of(5, rounds, work, finish)
            share = passes * x.nbytes / seconds / copy
            result[f"{name} {np.dtype(dtype).name}, share of the copy's bandwidth"] = share
    side = max(16, int((size / 4) ** 0.5) // 16 * 16)
    for dtype in (np.float32, np.float16):
        feeds = {name: rng.standard_normal((side, side)).astype(dtype) for name in "ab"}
        work, finish = gpu.runner(model_of([node("MatMul", ["a", "b"], ["y"])], feeds, "y"), feeds)
        seconds = best_of(5, rounds, work, finish)
        result[f"MatMul {side} {np.dtype(dtype).name}, TFLOP/s"] = 2 * side**3 / seconds / 1e12
        if (theirs := torch_matmul(feeds, rounds)) is not None:
            result[f"MatMul {side} {np.dtype(dtype).name}, time beside PyTorch's"] = seconds / theirs
    small = {"x": np.ones(16, np.float32)}
    work, finish = gpu.runner(model_of([node("Relu", ["x"], ["y"])], small, "y"), small)
    result["a run of one node, us of the host"] = best_of(5, rounds * 10, work, finish) * 1e6
    return result


def torch_matmul(feeds: dict[str, Any], rounds: int) -> float | None:
    """Seconds of the same product in PyTorch, which calls cuBLAS directly; None where it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    a, b = (torch.from_numpy(feeds[name]).cuda() for name in "ab")
    out = a @ b
    return best_of(5, rounds, lambda: torch.matmul(a, b, out=out), torch.cuda.synchronize)


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--bytes", type=int, default=256 << 20)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.wheels is not None:
        return with_wheels(options.wheels)
    result = measure(options.bytes, options.rounds)
    for name, value in result.items():
        print(f"{name:60} {value if isinstance(value, dict) else f'{value:.4g}'}")
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
