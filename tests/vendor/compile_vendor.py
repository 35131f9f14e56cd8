"""Compiles a model with a plugin, or opens one and runs it, in a process of its own.

usage: compile_vendor.py compile|open|time CASE MODEL OUTPUT

CASE is a JSON file: ``registration``, ``library``, ``options``, ``embed``, and, if wanted, ``host`` (a
module, by default ephost), ``feeds`` (npz, by default random numbers) and ``entries`` for the session.
``compile`` writes the compiled model to OUTPUT; ``open`` writes the outputs to OUTPUT (npz); ``time`` only
opens. What is printed at the end: how long compiling or opening took, in seconds, and the execution provider
of each node.
"""

import importlib
import json
import sys
import time
from pathlib import Path

import numpy as np

STEP = "step: "  # what real_models.py takes for the step that a process was at


def main(action: str, case_file: str, model: str, output: str) -> None:
    case = json.loads(Path(case_file).read_text())
    host = importlib.import_module(case.get("host", "ephost"))
    if host.__name__ == "ephost":
        importlib.import_module("ephost.compiler")  # now: the time of importing is not that of opening
    host.register_execution_provider_library(case["registration"], case["library"])
    found = [d for d in host.get_ep_devices() if d.ep_metadata.get("library_path") == case["library"]]
    options = host.SessionOptions()
    options.log_severity_level = 4
    options.add_provider_for_devices(found[:1], case["options"])
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for key, value in case.get("entries", {}).items():
        options.add_session_config_entry(key, value)
    print(f"{STEP}{'compiling' if action == 'compile' else 'opening'}", flush=True)
    started = time.perf_counter()
    if action == "compile":
        compiler = host.ModelCompiler(
            options,
            model,
            case["embed"],
            flags=host.OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED,
            graph_optimization_level=host.GraphOptimizationLevel.ORT_ENABLE_BASIC,
        )
        compiler.compile_to_file(output)
        print(json.dumps({"seconds": time.perf_counter() - started, "providers": []}))
        return
    session = host.InferenceSession(model, options, enable_fallback=0)
    seconds = time.perf_counter() - started
    if action == "time":
        print(json.dumps({"seconds": seconds, "providers": []}))
        return
    print(f"{STEP}the run, after {seconds:.0f} s of opening", flush=True)
    if case.get("feeds"):
        with np.load(case["feeds"]) as held:
            feeds = dict(held)
    else:
        random = np.random.default_rng(0)
        feeds = {value.name: random.random(value.shape, dtype=np.float32) for value in session.get_inputs()}
    np.savez(output, *session.run(None, feeds))
    groups = session.get_provider_graph_assignment_info()
    print(json.dumps({"seconds": seconds, "providers": [g.ep_name for g in groups for _ in g.get_nodes()]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
