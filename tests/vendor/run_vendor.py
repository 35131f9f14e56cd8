"""Registers a plugin in a host, runs models on it, and unregisters it, in a process of its own.

usage: run_vendor.py HOST FOLDER

FOLDER holds ``case.json`` (``registration`` and ``library``, both null for no plugin; ``options``;
``models``: paths by name) and for each model ``NAME.npz`` with the feeds. ``NAME.out.npz`` gets the outputs,
in order; ``result.json`` the EP's devices and how many nodes of each model it took.
"""

import gc
import importlib
import json
import sys
from pathlib import Path

import numpy as np


def main(host_name: str, folder: Path) -> None:
    host = importlib.import_module(host_name)
    case = json.loads((folder / "case.json").read_text())
    result: dict = {"claimed": {}, "nodes": {}}
    name = case["registration"]
    found = []
    if name:
        before = len(host.get_ep_devices())
        host.register_execution_provider_library(name, case["library"])
        found = [d for d in host.get_ep_devices() if d.ep_metadata.get("library_path") == case["library"]]
        assert len(host.get_ep_devices()) == before + len(found)
        result["devices"] = [
            {"ep": d.ep_name, "vendor": d.ep_vendor, "type": d.device.type.name} for d in found
        ]
    for model, path in case["models"].items():
        options = host.SessionOptions()
        options.log_severity_level = 4
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        if found:
            options.add_provider_for_devices(
                [d for d in found if d.ep_name == found[0].ep_name][:1], case["options"]
            )
        session = host.InferenceSession(path, options, enable_fallback=0)
        groups = session.get_provider_graph_assignment_info()
        ep_name = found[0].ep_name if found else ""
        result["claimed"][model] = sum(len(g.get_nodes()) for g in groups if g.ep_name == ep_name)
        result["nodes"][model] = sum(len(g.get_nodes()) for g in groups)
        with np.load(folder / f"{model}.npz") as held:
            feeds = dict(held)
        session.run(None, feeds)
        outputs = session.run(None, feeds)  # the second run finds the memory that the first one left
        np.savez(folder / f"{model}.out.npz", *outputs)
        del session, options, groups
        gc.collect()
    if name:
        ep_name = found[0].ep_name if found else ""
        found = []
        gc.collect()
        host.unregister_execution_provider_library(name)
        assert ep_name not in {d.ep_name for d in host.get_ep_devices()}
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
