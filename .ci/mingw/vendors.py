"""Vendors' plugins for Windows: each is registered, its devices listed, a model run, and it is let go.

python vendors.py: in the CPython for Windows that .ci/mingw/packages puts together
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import ephost
import numpy as np
from onnx import TensorProto, helper

# What packages say of where their library is: importing some wants onnxruntime.
PLUGINS = {"nxrt_ep_cpu": "*.dll", "onnxruntime_ggml": "*ggml*.dll"}


def model() -> bytes:
    """Z = relu(x @ y + x), of matrices."""
    nodes = [
        helper.make_node("MatMul", ["x", "y"], ["product"]),
        helper.make_node("Add", ["product", "x"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["z"]),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 8]) for name in "xyz"]
    graph = helper.make_graph(nodes, "graph", values[:2], values[2:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


def libraries(package: str, pattern: str) -> list[Path]:
    """The libraries of a package that export a plugin's functions."""
    from ephost.windows_library import read_windows_library

    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None, f"{package} is not installed"
    found = []
    for path in sorted(Path(spec.origin).parent.rglob(pattern)):
        library = read_windows_library(path)
        if library is not None and "CreateEpFactories" in library.exports:
            found.append(path)
    return found


def tried(package: str, path: Path) -> None:
    """Registers a library, runs the model on its first device, and lets it go."""
    rng = np.random.default_rng(3)
    feeds = {name: rng.standard_normal((8, 8), dtype=np.float32) for name in "xy"}
    ephost.register_execution_provider_library(package, path)
    devices = [device for device in ephost.get_ep_devices() if device.registration_name == package]
    assert devices, f"{path.name} offers no device"
    options = ephost.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_provider_for_devices(devices[:1], {})
    session = ephost.InferenceSession(model(), options)
    (found,) = session.run(None, feeds)
    np.testing.assert_allclose(
        found, np.maximum(feeds["x"] @ feeds["y"] + feeds["x"], 0), rtol=1e-4, atol=1e-4
    )
    groups = [
        (group.ep_name, len(group.get_nodes())) for group in session.get_provider_graph_assignment_info()
    ]
    assert any(name == devices[0].ep_name for name, _ in groups), f"{path.name} took nothing: {groups}"
    del session
    ephost.unregister_execution_provider_library(package)
    print(f"{package}: {path.name} offers {[device.ep_name for device in devices]}, ran {groups}")


def main() -> int:
    """1 if one of them does not do it."""
    wrong = 0
    for package, pattern in PLUGINS.items():
        found = libraries(package, pattern)
        if not found:
            print(f"{package}: no plugin in it")
            wrong = 1
        for path in found:
            try:
                tried(package, path)
            except Exception as error:
                print(f"{package}: {path.name}: {type(error).__name__}: {error}")
                wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
