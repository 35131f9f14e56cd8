"""Compiles a model with a plugin, or opens one and runs it, in a process of its own.

usage: compile_vendor.py compile|open CASE MODEL OUTPUT

CASE is a JSON file (``registration``, ``library``, ``options``, ``embed``). ``compile`` writes the compiled
model to OUTPUT; ``open`` writes the outputs to OUTPUT (npz). What is printed: how long compiling or opening
took, in seconds, and the execution provider of each node.
"""

import json
import sys
import time
from pathlib import Path

import ephost
import ephost.compiler  # at once: the time that importing takes is not that of opening
import numpy as np


def main(action: str, case_file: str, model: str, output: str) -> None:
    case = json.loads(Path(case_file).read_text())
    ephost.register_execution_provider_library(case["registration"], case["library"])
    devices = [d for d in ephost.get_ep_devices() if d.registration_name == case["registration"]]
    options = ephost.SessionOptions()
    options.log_severity_level = 4
    options.add_provider_for_devices(devices[:1], case["options"])
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    started = time.perf_counter()
    if action == "compile":
        compiler = ephost.ModelCompiler(
            options,
            model,
            case["embed"],
            flags=ephost.OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED,
            graph_optimization_level=ephost.GraphOptimizationLevel.ORT_ENABLE_BASIC,
        )
        compiler.compile_to_file(output)
        print(json.dumps({"seconds": time.perf_counter() - started, "providers": []}))
        return
    session = ephost.InferenceSession(model, options)
    seconds = time.perf_counter() - started
    (value,) = session.get_inputs()
    feed = np.random.default_rng(0).random(value.shape, dtype=np.float32)
    np.savez(output, *session.run(None, {value.name: feed}))
    groups = session.get_provider_graph_assignment_info()
    print(json.dumps({"seconds": seconds, "providers": [g.ep_name for g in groups for _ in g.get_nodes()]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
