"""How long an event loop is blocked by runs that are awaited on it: 64 requests at once on one session.

Each request awaits ``session.run_asyncio`` and starts again until all are answered. A *step* is what an await
does on the loop's thread at a time: it starts the run, or takes its results. Beside them is the *pause*: the
longest time in which a task that only yields to the loop was not called, with the same tasks and threads when
they run the model, and when they only spin in Python for as long. The difference is what the host adds to
what threads of Python do to each other.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from harness.machine import ROOT
from harness.results import begin
from onnx import TensorProto, helper

sys.path.insert(0, str(ROOT / "host"))
import ephost
from ephost.plugins import sample_kernels

LIMIT = 5.0  # milliseconds
AT_ONCE = 64


class Metered:
    """Awaits a coroutine, and notes for each of its steps the time on the wall and of the processor."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], steps: list[tuple[float, float]]) -> None:
        self._coroutine, self._steps = coroutine, steps

    def __await__(self) -> Generator[Any, Any, Any]:
        while True:
            wall, processor = time.perf_counter(), time.thread_time()
            try:
                waits_for = self._coroutine.send(None)
            except StopIteration as end:
                return end.value
            finally:
                used = time.thread_time() - processor
                self._steps.append(((time.perf_counter() - wall) * 1e3, used * 1e3))
            yield waits_for


async def serve(
    request: Callable[[], Coroutine[Any, Any, Any]], each: int
) -> tuple[list[tuple[float, float]], list[float]]:
    """The steps of ``AT_ONCE`` tasks of ``each`` requests, and the pauses of the loop meanwhile, in ms."""
    steps: list[tuple[float, float]] = []
    pauses: list[float] = []
    running = True

    async def watch() -> None:
        while running:
            before = time.perf_counter()
            await asyncio.sleep(0)
            pauses.append((time.perf_counter() - before) * 1e3)

    async def client() -> None:
        for _ in range(each):
            await Metered(request(), steps)

    watcher = asyncio.create_task(watch())
    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    running = False
    await watcher
    return steps, pauses


def products(size: int, nodes: int) -> bytes:
    """A chain of so many matrix products."""
    shape = [size, size]
    names = ["x", *(f"v{at}" for at in range(nodes - 1)), "y"]
    graph = helper.make_graph(
        [helper.make_node("MatMul", [names[at], "x"], [names[at + 1]]) for at in range(nodes)],
        "products",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    model: onnx.ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    )
    return bytes(model.SerializeToString())


def measure(name: str, size: int, nodes: int, each: int) -> dict[str, Any]:
    """One row of the report."""
    session = ephost.InferenceSession(products(size, nodes), providers=[sample_kernels.get_ep_name()])
    feed = {"x": np.full((size, size), 1 / size, np.float32)}
    session.run(None, feed)
    before = time.perf_counter()
    session.run(None, feed)
    seconds = time.perf_counter() - before
    pool = ThreadPoolExecutor(8)

    def spin() -> None:
        until = time.perf_counter() + min(seconds, 0.002)
        while time.perf_counter() < until:
            pass

    async def spun() -> None:
        await asyncio.get_running_loop().run_in_executor(pool, spin)

    steps, pauses = asyncio.run(serve(lambda: session.run_asyncio(None, feed), each))
    _, spinning = asyncio.run(serve(spun, each))
    pool.shutdown()
    return {
        "name": name,
        "run_ms": seconds * 1e3,
        "runs": AT_ONCE * each,
        "step_processor_median_ms": statistics.median(step[1] for step in steps),
        "step_processor_longest_ms": max(step[1] for step in steps),
        "step_wall_median_ms": statistics.median(step[0] for step in steps),
        "step_wall_longest_ms": max(step[0] for step in steps),
        "pause_longest_ms": max(pauses),
        "pause_longest_spinning_ms": max(spinning),
    }


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--each", type=int, default=20, help="requests of each task (%(default)s)")
    parser.add_argument("--save", action="store_true", help="keep the figures in bench/results")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a step takes 5 ms or more")
    options = parser.parse_args()
    ephost.register_execution_provider_library("bundled", sample_kernels.get_library_path())
    kept = begin("event_loop")
    rows = kept.rows = [
        measure("short runs", 16, 1, options.each),
        measure("long runs", 256, 4, max(options.each // 10, 1)),
    ]
    for row in rows:
        print(f"{row['name']}: {row['runs']} runs of {row['run_ms']:.2f} ms, {AT_ONCE} at once")
        for what in ("processor", "wall"):
            median, longest = row[f"step_{what}_median_ms"], row[f"step_{what}_longest_ms"]
            print(f"  a step on the loop, {what:9}: median {median:7.3f} ms, longest {longest:7.3f} ms")
        print(
            f"  longest pause of the loop: {row['pause_longest_ms']:.2f} ms; "
            f"{row['pause_longest_spinning_ms']:.2f} ms with threads that spin in Python"
        )
    if options.json:
        kept.write(Path(options.json))
    if options.save:
        kept.keep()
    worst = max(row["step_processor_longest_ms"] for row in rows)
    return 1 if options.check and worst >= LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
