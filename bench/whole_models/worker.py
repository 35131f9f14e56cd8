"""What a host's process does of whole models: ``python -m whole_models.worker MODULE``."""

from __future__ import annotations

import gc
import importlib
import json
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import lowered
from harness.worker import serve

from whole_models.catalog import Inputs, feed_for


def _status(key: str) -> float:
    """A line of /proc/self/status, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(key)


class Worker:
    """A model on the default provider of a host."""

    def __init__(self, host: str) -> None:
        self.host = host
        lowered.lower(host)
        self.module = importlib.import_module(host)
        self.session: Any = None
        self.feed: dict[str, np.ndarray] = {}

    def make(self, model: str, threads: int, prefix: str = "") -> Any:
        """A session on the host's default provider."""
        options = self.module.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        if prefix:
            options.enable_profiling = True
            options.profile_file_prefix = prefix
        return self.module.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def open(self, model: str, threads: int, again: bool = False) -> float:
        """Seconds to open a session, which is kept unless it is only opened for its time."""
        gc.collect()
        start = time.perf_counter()
        session = self.make(model, threads)
        elapsed = time.perf_counter() - start
        if not again:
            self.session = session
        return elapsed

    def inputs(self, inputs: Inputs, dimensions: Sequence[int]) -> None:
        """Make the feed of the runs that follow."""
        self.feed = feed_for(self.session, inputs, dimensions)

    def outputs(self, path: str, model: str, threads: int) -> None:
        """Write what a run gives: in onnxruntime with products of bytes that do not saturate."""
        session = self.session
        if self.host == "onnxruntime":
            options = self.module.SessionOptions()
            options.intra_op_num_threads = threads
            options.log_severity_level = 3
            options.add_session_config_entry("session.x64quantprecision", "1")
            session = self.module.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        found = session.run(None, self.feed)
        np.savez(path, *[np.asarray(value) for value in found])

    def run(self, calls: int = 1) -> float:
        """Seconds of a run."""
        start = time.perf_counter()
        for _ in range(calls):
            self.session.run(None, self.feed)
        return (time.perf_counter() - start) / calls

    def claimed(self) -> tuple[int, int, dict[str, int]]:
        """Nodes on the plugin, nodes, and the operators of the others (of ephost alone)."""
        if self.host != "ephost":
            return 0, 0, {}
        missing: dict[str, int] = defaultdict(int)
        explanation = self.module.explain(self.session)
        for node in explanation.fallback:
            missing[node.node.op_type] += 1
        total = sum(len(part.nodes) for part in explanation.partitions)
        return total - len(explanation.fallback), total, dict(missing)

    def memory(
        self, model: str, threads: int, inputs: Inputs, dimensions: Sequence[int]
    ) -> tuple[float, float]:
        """MB that opening a model and running it add to the process at most, and that the whole process has
        then; for a process of its own. The host's own libraries are not in the former if its import loads
        them, which onnxruntime's does.
        """
        self.module.SessionOptions()
        gc.collect()
        before = _status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        self.open(model, threads)
        self.inputs(inputs, dimensions)
        for _ in range(3):
            self.run()
        peak = _status("VmHWM")
        return peak - before, peak

    def profile(self, model: str, threads: int, prefix: str, runs: int) -> dict[str, Any]:
        """Seconds and calls of a run by operator, and by node, from the host's trace."""
        self.session = self.make(model, threads, prefix)
        for _ in range(runs):
            self.run()
        path = self.session.end_profiling()
        trace = json.loads(Path(path).read_text())
        os.unlink(path)
        events = [  # of nodes, and of what ephost's plugin does between them
            event
            for event in trace
            if event.get("cat") in ("Kernel", "Node")
            and not event["name"].endswith(("_fence_before", "_fence_after", "_fence"))
        ]
        # The first run makes plans and packs weights: what is shown is the time of the later ones.
        by_op: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        by_node: dict[str, list[float]] = defaultdict(list)
        for event in sorted(events, key=lambda event: event["ts"]):
            by_node[event["name"] + "\t" + event["args"].get("op_name", event["name"])].append(event["dur"])
        for name, durations in by_node.items():
            each = len(durations) / runs
            entry = by_op[name.split("\t")[1]]
            entry[0] += statistics.median(durations) * each * 1e-6
            entry[1] += each
        nodes = {name: statistics.median(d) * len(d) / runs * 1e-6 for name, d in by_node.items()}
        top = sorted(nodes.items(), key=lambda item: -item[1])[:15]
        return {"ops": by_op, "nodes": [[name.split("\t")[0], seconds] for name, seconds in top]}


if __name__ == "__main__":
    serve(Worker(sys.argv[1]))
