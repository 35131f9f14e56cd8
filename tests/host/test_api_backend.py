"""ephost.backend: onnx.backend.base.Backend, and the standard's test-suite through it."""

from __future__ import annotations

import ephost
import ephost.backend
import numpy as np
import onnx
import pytest
from api_models import add_and_relu
from backend_suite import count, in_brief
from ephost.backend import EphostBackend
from ephost.errors import InvalidArgument
from host_state import needs_newest_onnx
from onnx import helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.runner import load_model_tests

X = np.ones((2, 3), np.float32)

# What onnxruntime.backend 1.31.1 passes of these groups (tests/host/backend_suite.py onnxruntime.backend).
ONNXRUNTIME = {
    "OnnxBackendSimpleModelTest": 17,
    "OnnxBackendPyTorchConvertedModelTest": 59,
    "OnnxBackendPyTorchOperatorModelTest": 24,
}


@pytest.mark.parametrize("group", ONNXRUNTIME)
def test_the_suite_passes_no_less_than_on_onnxruntime(group: str) -> None:
    outcome = count(ephost.backend, [group])[group]
    assert sum(text == "passed" for text in outcome.values()) >= ONNXRUNTIME[group]
    assert [name for name, text in outcome.items() if text == "skipped"] == []


@needs_newest_onnx
def test_in_brief_the_suite_still_has_every_operator() -> None:
    tests = load_model_tests(kind="node")
    brief = in_brief(tests)

    def operators(of: list[TestCase]) -> set[tuple[str, str]]:
        return {(node.domain, node.op_type) for test in of for node in test.model.graph.node}

    assert operators(brief) == operators(tests)
    assert len(brief) < len(tests) / 4
    models = load_model_tests(kind="pytorch-operator")
    assert [test.name for test in in_brief(models)] == sorted(test.name for test in models)[::5]


def test_the_suites_node_tests_run_through_the_backend() -> None:
    group = "OnnxBackendNodeModelTest"
    outcome = count(ephost.backend, [group], names="test_softmax")[group]
    assert len(outcome) > 20
    assert set(outcome.values()) == {"passed"}


def test_inputs_come_by_position_by_name_or_alone() -> None:
    prepared = ephost.backend.prepare(add_and_relu(), "CPU")
    for inputs in ([X, X], (X, X), {"x": X, "y": X}):
        assert prepared.run(inputs)[0].tolist() == [[2] * 3] * 2
    assert ephost.backend.run(onnx.load_from_string(add_and_relu()), [X, X])[1].tolist() == [[2] * 3] * 2
    relu = helper.make_node("Relu", ["x"], ["y"])
    assert EphostBackend.run_node(relu, [-X])[0].tolist() == [[0] * 3] * 2


def test_a_single_list_feeds_the_only_input() -> None:
    node = helper.make_node("Neg", ["x"], ["y"])
    info = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3]) for name in "xy"]
    model = helper.make_model(helper.make_graph([node], "g", info[:1], info[1:]))
    assert ephost.backend.prepare(model).run([1.0, 2.0, 3.0])[0].tolist() == [-1, -2, -3]


def test_a_node_runs_at_the_opset_asked_for_with_inputs_left_out() -> None:
    clip = helper.make_node("Clip", ["x", "", "high"], ["y"])
    (y,) = EphostBackend.run_node(
        clip, [X * 5, np.float32(2)], outputs_info=[(np.float32, (2, 3))], opset_version=13
    )
    assert y.tolist() == [[2] * 3] * 2
    with pytest.raises(InvalidArgument, match="1 values are given"):
        EphostBackend.run_node(clip, [X])


def test_what_is_prepared_already_is_taken_as_it_is() -> None:
    session = ephost.InferenceSession(add_and_relu())
    prepared = ephost.backend.prepare(session)
    assert ephost.backend.prepare(prepared) is prepared
    assert prepared.run([X, X])[0].tolist() == [[2] * 3] * 2


def test_devices_and_models_that_are_none_are_refused() -> None:
    assert ephost.backend.supports_device("CPU")
    assert not ephost.backend.supports_device("CUDA:0")
    assert not EphostBackend.is_compatible(None, "NPU")
    with pytest.raises(InvalidArgument, match="'NPU'"):
        ephost.backend.prepare(add_and_relu(), "NPU")
    with pytest.raises(TypeError, match="int"):
        ephost.backend.prepare(3)
    with pytest.raises(onnx.checker.ValidationError):
        ephost.backend.prepare(onnx.ModelProto())


def test_session_options_are_taken_by_name_and_others_ignored() -> None:
    prepared = ephost.backend.prepare(add_and_relu(), logid="mine", nonsense=1)
    assert prepared._session.get_session_options().logid == "mine"


def test_the_only_input_may_be_a_map() -> None:
    value = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    kind = helper.make_map_type_proto(onnx.TensorProto.INT64, value)
    node = helper.make_node("CastMap", ["x"], ["y"], domain="ai.onnx.ml", cast_to="TO_FLOAT")
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, None])
    graph = helper.make_graph([node], "graph", [helper.make_value_info("x", kind)], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 1)], ir_version=8)
    prepared = ephost.backend.prepare(ephost.InferenceSession(model.SerializeToString()))
    assert prepared.run({3: 1.0, 5: 2.0})[0].tolist() == prepared.run({"x": {3: 1.0, 5: 2.0}})[0].tolist()
