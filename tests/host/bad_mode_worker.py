"""Walks the modes of tests/plugins/bad_plugin in one process and says what the host made of each.

usage: bad_mode_worker.py LIBRARY GOOD_LIBRARY OUTPUT MODE...

Appends one line of JSON to OUTPUT for each mode, before the next one starts: a mode that takes the process
down is the one without a line.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

import ephost
import numpy as np
from host_state import adds_model, is_mapped, live_handles

CONFIG = {"session.record_ep_graph_assignment_info": "1"}
X = np.array([1.0, 2.0], np.float32)
_MESSAGES: list[str] = []


class _Collector(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _MESSAGES.append(f"{record.name}: {record.getMessage()}")


def conditional_model():
    """An If around an Add, for the mode that claims a node of a subgraph."""
    import onnx
    from onnx import TensorProto, helper

    def branch(name: str, op_type: str) -> onnx.GraphProto:
        return helper.make_graph(
            [helper.make_node(op_type, ["x", "x"], [name], name=f"{name}_node")],
            name,
            [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])],
        )

    graph = helper.make_graph(
        [
            helper.make_node(
                "If", ["c"], ["y"], name="if", then_branch=branch("t", "Add"), else_branch=branch("e", "Sub")
            )
        ],
        "conditional",
        [
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def walk(library: str, ep_name: str, conditional: bool) -> dict:
    """Register, open, run, close and unregister; what came of it and where it stopped."""
    result: dict = {"stage": None, "claimed": None, "output": None, "devices": None}
    stage = "register"
    session = None
    try:
        ephost.register_execution_provider_library("under_test", library)
        devices = [d for d in ephost.get_ep_devices() if d.registration_name == "under_test"]
        result["devices"] = len(devices)
        stage = "open"
        options = ephost.SessionOptions()
        for key, value in CONFIG.items():
            options.add_session_config_entry(key, value)
        if devices:
            options.add_provider_for_devices(devices, {})
        model = conditional_model() if conditional else adds_model()
        session = ephost.InferenceSession(model.SerializeToString(), options, enable_fallback=0)
        result["claimed"] = sum(
            len(g.get_nodes()) for g in session.get_provider_graph_assignment_info() if g.ep_name == ep_name
        )
        stage = "run"
        feeds = {"x": X, **({"c": np.array(True)} if conditional else {})}
        result["output"] = session.run(None, feeds)[0].tolist()
        stage = "end"
    except Exception as error:
        result |= {"stage": stage, "error": type(error).__name__, "message": str(error)}
    session = None
    try:
        if result["stage"] != "register":
            ephost.unregister_execution_provider_library("under_test")
    except Exception as error:
        result |= {"stage": "unregister", "error": type(error).__name__, "message": str(error)}
    return result


def main() -> None:
    """See the module's docstring."""
    library, good_library, output, *modes = sys.argv[1:]
    logging.getLogger("ephost").addHandler(_Collector())
    logging.getLogger("ephost").setLevel(logging.DEBUG)
    logging.getLogger("ephost").propagate = False
    ephost.get_hardware_devices()
    walk(good_library, "sample_compiler", conditional=False)
    before = live_handles()
    for mode in modes:
        os.environ["EPHOST_BAD"] = mode
        _MESSAGES.clear()
        result = walk(library, "bad_plugin", conditional=mode == "claim_from_subgraph")
        result["log"] = list(_MESSAGES)
        after = live_handles()
        result["leaked"] = {str(k): after.get(k, 0) - before.get(k, 0) for k in {*before, *after}}
        result["leaked"] = {k: n for k, n in result["leaked"].items() if n}
        result["registered"] = [d.registration_name for d in ephost.get_ep_devices()]
        result["mapped"] = is_mapped(library)
        del os.environ["EPHOST_BAD"]
        result["good"] = walk(good_library, "sample_compiler", conditional=False)
        with Path(output).open("a") as file:
            file.write(json.dumps({"mode": mode, **result}) + "\n")


main()
