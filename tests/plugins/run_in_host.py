"""Runs models on one plugin EP inside one host, in a process of its own. Called by ``plugin_harness.Runner``.

usage: run_in_host.py HOST LIBRARY EP_NAME FOLDER

FOLDER holds ``cases.json``, a list of cases. Case i reads ``i.onnx`` and, for each call j, ``i.j.npz``; it
writes ``i.j.out.npz``. ``result.json`` tells what each case did: which nodes the EP took, or the error.
"""

import importlib
import json
import sys
from pathlib import Path

import numpy as np


def run_case(host, devices, folder: Path, index: int, case: dict) -> dict:
    """Opens one model, makes its calls, and returns what the parent wants to know."""
    options = host.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for key, value in case["config"].items():
        options.add_session_config_entry(key, value)
    if case["basic_optimizations_off"]:
        options.graph_optimization_level = host.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_provider_for_devices(devices, case["provider_options"])
    try:
        # Both hosts would otherwise answer a failing EP by going on without it.
        model = str(folder / f"{index}.onnx")
        session = host.InferenceSession(model, options, enable_fallback=case["fallback"])
        groups = [
            {"ep": group.ep_name, "nodes": [[node.name, node.op_type] for node in group.get_nodes()]}
            for group in session.get_provider_graph_assignment_info()
        ]
        names = [output.name for output in session.get_outputs()]
        for call in range(case["calls"]):
            with np.load(folder / f"{index}.{call}.npz") as feeds:
                outputs = session.run(names, dict(feeds))
            np.savez(folder / f"{index}.{call}.out.npz", **dict(zip(names, outputs, strict=True)))
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {"groups": groups}


def main() -> None:
    """See the module's docstring."""
    host_name, library, ep_name, folder_name = sys.argv[1:]
    folder = Path(folder_name)
    host = importlib.import_module(host_name)
    host.register_execution_provider_library("plugin_under_test", library)
    devices = [device for device in host.get_ep_devices() if device.ep_name == ep_name]
    results = {
        "devices": [
            {"vendor": d.ep_vendor, "type": d.device.type.name, "metadata": dict(d.ep_metadata)}
            for d in devices
        ],
        "cases": [
            run_case(host, devices, folder, index, case)
            for index, case in enumerate(json.loads((folder / "cases.json").read_text()))
        ],
    }
    host.unregister_execution_provider_library("plugin_under_test")
    (folder / "result.json").write_text(json.dumps(results))


main()
