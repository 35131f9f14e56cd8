"""The published plugins under the layers: the same answers in both hosts, a trace of what was said, and no
rule is broken that is not known of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ephost import layers
from ephost.layers.trace import TraceFile
from vendors import VENDORS, Vendor

pytest.importorskip("onnxruntime")
PROGRAM = """
import importlib, json, sys
import numpy as np
from onnx import helper, TensorProto
host = importlib.import_module(sys.argv[1])
host.register_execution_provider_library("between", sys.argv[2])
devices = [d for d in host.get_ep_devices() if d.ep_name != "CPUExecutionProvider"][:1]
options = host.SessionOptions()
options.add_provider_for_devices(devices, json.loads(sys.argv[3]))
names = ("x", "y")
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in names)
nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Add", ["a", "x"], ["y"])]
graph = helper.make_graph(nodes, "tiny", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
session = host.InferenceSession(model.SerializeToString(), options)
feed = {"x": np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)}
print(json.dumps(session.run(None, feed)[0].tolist()))
del session, options, devices
host.unregister_execution_provider_library("between")
"""


def run(host: str, library: Path, vendor: Vendor) -> str:
    """What the program prints in a host with this library."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, host, str(library), json.dumps(vendor.options)],
        env={**os.environ, **vendor.variables()},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("host", ["onnxruntime", "ephost"])
@pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)
def test_a_wrapped_plugin_gives_the_same_answers(vendor: Vendor, host: str, tmp_path: Path) -> None:
    if reason := vendor.missing(host):
        pytest.skip(reason)
    wrapped, file = tmp_path / "libwrapped.so", tmp_path / "vendor.trace"
    findings = tmp_path / "vendor.jsonl"
    layers.wrap(vendor.library, wrapped, [layers.Trace(file), layers.Validate(findings)])
    assert run(host, wrapped, vendor) == run(host, vendor.library, vendor)
    read = TraceFile(file)
    names = {call.function.name for call in read.calls}
    assert {"CreateEpFactories", "OrtEpFactory.CreateEp", "OrtEp.GetCapability", "ReleaseEpFactory"} <= names
    assert not read.unfinished
    assert not [call for call in read.calls if call.code == -2]
    found = layers.read_findings(findings)
    assert sorted({each.rule for each in found}) == sorted(vendor.breaks), found
