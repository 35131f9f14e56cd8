"""The bundled plugins when an allocation fails: an error or the right answer, never a crash."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from plugin_harness import ROOT, build_plugin
from plugin_models import model, node

PROGRAM = """
import importlib, os, sys
import numpy as np
host = importlib.import_module(sys.argv[1])
library, ep_name, model = sys.argv[2:]
x = np.linspace(0.5, 2, 12, dtype=np.float32).reshape(3, 4)

def use():
    devices = [device for device in host.get_ep_devices() if device.ep_name == ep_name]
    options = host.SessionOptions()
    options.log_severity_level = 4
    options.add_provider_for_devices(devices, {})
    session = host.InferenceSession(model, options, enable_fallback=0)
    y, z = session.run(None, {"x": x})
    np.testing.assert_allclose(y, np.exp(x) + 1, rtol=1e-5)
    np.testing.assert_allclose(z, np.maximum(x[:1], 0) * (x + 1), rtol=1e-5)

for number in range(60):
    os.environ["EPHOST_FAIL_ALLOCATION"] = str(number)
    registered, outcome = False, "right"
    try:
        host.register_execution_provider_library("plugin", library)
        registered = True
        use()
    except AssertionError:
        raise
    except Exception as error:
        outcome = "out of memory" if "out of memory" in str(error) else f"{type(error).__name__}: {error}"
    if registered:  # Not in a "finally": there the error would still hold the session.
        host.unregister_execution_provider_library("plugin")
    print(outcome)
"""


@pytest.mark.parametrize("name", ["sample_kernels", "sample_compiler"])
def test_each_allocation_may_fail(host: str, tmp_path: Path, name: str) -> None:
    heap = Path(__file__).with_name("failing_heap.h")
    library = build_plugin(ROOT / "plugins" / name, tmp_path, "-include", str(heap))
    nodes = [
        node("Slice", "x zero end", "row"),
        node("Exp", "x", "e"),
        node("Add", "e one", "y"),
        node("Relu", "row", "r"),
        node("Add", "x one", "o"),
        node("Mul", "r o", "z"),
    ]
    constants = {"one": np.ones(1, np.float32), "zero": np.array([0]), "end": np.array([1])}
    onnx.save(model(nodes, {"x": [3, 4]}, ["y", "z"], constants), tmp_path / "m.onnx")
    command = [sys.executable, "-c", PROGRAM, host, str(library), name, str(tmp_path / "m.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcomes = done.stdout.splitlines()
    assert set(outcomes) == {"right", "out of memory"}
    assert outcomes.count("out of memory") >= 5
    assert outcomes[-1] == "right"
