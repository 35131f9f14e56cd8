"""ephost bisect on what published plugins do wrong (docs/vendors.md): found without help, and reduced."""

from __future__ import annotations

from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
import real_models
from ephost.bisection.targets import Library, Target
from onnx import TensorProto, helper, numpy_helper
from vendors import VENDORS

pytestmark = [pytest.mark.usefixtures("cpu_plugin_as_default")]


def target_of(name: str) -> Target:
    vendor = VENDORS[name]
    if reason := vendor.missing():
        pytest.skip(reason)
    return Target(name, libraries=(Library(vendor.registration, str(vendor.library), vendor.options),))


def test_an_error_of_one_node_is_found_in_a_whole_network(tmp_path: Path) -> None:
    target = target_of("qnn")
    models = real_models.models()
    if "magika" not in models:
        pytest.skip("magika is not installed")
    result = ephost.bisect(models["magika"], target, output=tmp_path / "found", probes=False)
    assert result.symptom is not None and result.symptom.kind == "error"
    assert "Dynamic shape" in result.headline() + str(result)
    repro = result.faults[0].repro
    assert repro is not None
    assert repro.nodes <= 2


def test_a_node_that_a_plugin_claims_and_cannot_run_is_found(tmp_path: Path) -> None:
    target = target_of("ggml")
    weights = numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="before"),
        helper.make_node("Conv", ["a", "w"], ["b"], name="convolution"),
        helper.make_node("Neg", ["b"], ["y"], name="behind"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 6, 6])
    graph = helper.make_graph(nodes, "convolution of two dimensions", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    result = ephost.bisect(model, target, output=tmp_path / "found", probes=False)
    assert [fault.nodes for fault in result.faults] == [("convolution",)]
    repro = result.faults[0].repro
    assert repro is not None
    assert (repro.nodes, repro.operators) == (1, ("Conv",))
    assert set(repro.hosts) == {"ephost", "onnxruntime"}
