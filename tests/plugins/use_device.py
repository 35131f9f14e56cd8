"""Runs a model on device_plugin inside one host, in a process of its own, and tells what the plugin counted.

usage: use_device.py HOST LIBRARY FOLDER

FOLDER holds ``case.json`` (``eps``: names to register the library under, in order of priority; ``calls``;
``sessions``; ``config``: entries of the sessions' options), ``model.onnx`` and ``feeds.npz``. ``result.json``
has the counts after each stage, what each EP took, and the error if there was one; ``outputs.npz`` the
outputs of the last call.
"""

import ctypes
import gc
import importlib
import json
import sys
from pathlib import Path

import numpy as np


def main(host_name: str, library: str, folder: Path) -> None:
    host = importlib.import_module(host_name)
    case = json.loads((folder / "case.json").read_text())
    tell = ctypes.CDLL(library).device_plugin_counts
    tell.restype = ctypes.c_char_p
    result: dict = {"counts": {}, "stage": "register"}

    def counted(stage: str) -> None:
        pairs = (entry.split("=") for entry in tell().decode().split())
        result["counts"][stage] = {name: int(number) for name, number in pairs}

    sessions: list = []
    try:
        for name in case["eps"]:
            host.register_execution_provider_library(name, library)
        counted("registered")
        result["stage"] = "open"
        options = host.SessionOptions()
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        for key, value in case["config"].items():
            options.add_session_config_entry(key, value)
        options.graph_optimization_level = host.GraphOptimizationLevel.ORT_DISABLE_ALL
        for name in case["eps"]:
            devices = [device for device in host.get_ep_devices() if device.ep_name == name]
            options.add_provider_for_devices(devices, {})
        sessions = [
            host.InferenceSession(str(folder / "model.onnx"), options, enable_fallback=0)
            for _ in range(case["sessions"])
        ]
        result["groups"] = [
            [group.ep_name, [node.op_type for node in group.get_nodes()]]
            for group in sessions[0].get_provider_graph_assignment_info()
        ]
        counted("opened")
        result["stage"] = "run"
        with np.load(folder / "feeds.npz") as held:
            feeds = dict(held)
        names = [output.name for output in sessions[0].get_outputs()]
        for call in range(case["calls"]):
            for session in sessions:
                outputs = session.run(names, feeds)
            counted(f"call{call}")
        kept = [array.astype(str) if array.dtype == object else array for array in outputs]
        np.savez(folder / "outputs.npz", **dict(zip(names, kept, strict=True)))
        result["stage"] = "done"
    except Exception as error:
        result["error"], result["message"] = type(error).__name__, str(error)
    sessions.clear()
    session = options = devices = None
    gc.collect()
    counted("closed")
    for name in case["eps"]:
        try:
            host.unregister_execution_provider_library(name)
        except Exception as error:
            result.setdefault("unregister", str(error))
    counted("unregistered")
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
