"""Registers a vendor's plugin, opens and runs a model on it, and unregisters it, over and over in a process.

usage: soak_vendor.py HOST VENDOR MODEL ROUNDS

Prints one line of JSON: ``resident`` (bytes, after a warm-up and then after each tenth of the rounds),
``threads`` and ``files`` (open descriptors) at the same moments, ``handles`` (the host's live native handles
at the end, less those after the warm-up) and ``claimed`` (nodes that the plugin ran).
"""

import gc
import importlib
import json
import os
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from vendors import VENDORS


def resident_bytes() -> int:
    """What this process holds in memory."""
    pages = Path("/proc/self/statm").read_text().split()
    return (int(pages[1])) * os.sysconf("SC_PAGE_SIZE")


def live_handles(host: object) -> dict[str, int]:
    """How many of each kind of the host's handles are there; empty where that is not counted."""
    if getattr(host, "__name__", "") != "ephost":
        return {}
    from ephost._bindings import lib

    return {str(kind): int(lib.ephost_live_handles(kind)) for kind in range(64)}


def main(host_name: str, vendor_name: str, model: str, rounds: int) -> None:
    host = importlib.import_module(host_name)
    vendor = VENDORS[vendor_name]
    library = str(vendor.library)
    random = np.random.default_rng(0)
    claimed = 0

    def once() -> None:
        nonlocal claimed
        host.register_execution_provider_library(vendor.registration, library)
        found = [d for d in host.get_ep_devices() if d.ep_metadata.get("library_path") == library]
        options = host.SessionOptions()
        options.log_severity_level = 4
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        options.add_provider_for_devices(found[:1], vendor.options)
        session = host.InferenceSession(model, options, enable_fallback=0)
        name = found[0].ep_name
        groups = session.get_provider_graph_assignment_info()
        claimed = sum(len(group.get_nodes()) for group in groups if group.ep_name == name)
        feeds = {i.name: random.random(i.shape, dtype=np.float32) for i in session.get_inputs()}
        assert all(np.isfinite(value).all() for value in session.run(None, feeds))
        del session, options, found, groups
        gc.collect()
        host.unregister_execution_provider_library(vendor.registration)

    told = {"resident": [], "threads": [], "files": []}
    warm_up = max(5, rounds // 5)
    before = {}
    for index in range(warm_up + rounds):
        if index == warm_up:
            before = live_handles(host)
        if index >= warm_up and (index - warm_up) % max(1, rounds // 10) == 0:
            told["resident"].append(resident_bytes())
            told["threads"].append(len(os.listdir("/proc/self/task")))
            told["files"].append(len(os.listdir("/proc/self/fd")))
        once()
    told["resident"].append(resident_bytes())
    told["threads"].append(len(os.listdir("/proc/self/task")))
    told["files"].append(len(os.listdir("/proc/self/fd")))
    after = live_handles(host)
    told["handles"] = {kind: n - before.get(kind, 0) for kind, n in after.items() if n != before.get(kind, 0)}
    told["claimed"] = claimed
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
