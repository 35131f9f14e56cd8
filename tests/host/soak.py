"""Registers, opens, runs and unregisters over and over in one process, and watches what that leaves behind.

usage: soak.py LIBRARY EP_NAME ROUNDS MODULE

MODULE is the host: ephost or onnxruntime. Prints one line of JSON: ``resident`` (bytes after each tenth of
the rounds), ``handles`` (live native handles at the end, less those at the start) and ``mapped``.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys

import numpy as np
from host_state import adds_model, is_mapped, live_handles, resident_bytes


def main() -> None:
    """See the module's docstring."""
    library, ep_name, rounds, host_name = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    host = importlib.import_module(host_name)
    model = adds_model().SerializeToString()
    feeds = {"x": np.array([1.0, 2.0], np.float32)}

    def round_trip() -> None:
        host.register_execution_provider_library("soak", library)
        devices = [d for d in host.get_ep_devices() if d.ep_name == ep_name]
        options = host.SessionOptions()
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        options.add_provider_for_devices(devices, {})
        session = host.InferenceSession(model, options)
        claimed = [g for g in session.get_provider_graph_assignment_info() if g.ep_name == ep_name]
        assert claimed, "the plugin took no part"
        np.testing.assert_array_equal(session.run(None, feeds)[0], -feeds["x"])
        del session
        host.unregister_execution_provider_library("soak")

    round_trip()
    handles = live_handles()
    warm_up = min(50, rounds // 2)
    resident = []
    for index in range(rounds):
        if index >= warm_up and (index - warm_up) % max(1, (rounds - warm_up) // 10) == 0:
            gc.collect()
            resident.append(resident_bytes())
        round_trip()
    gc.collect()
    resident.append(resident_bytes())
    after = live_handles()
    left = {kind: after.get(kind, 0) - handles.get(kind, 0) for kind in {*after, *handles}}
    print(
        json.dumps(
            {
                "resident": resident,
                "handles": {kind: count for kind, count in left.items() if count},
                "mapped": is_mapped(library),
            }
        )
    )


main()
