"""Tree ensembles on the fallback."""

from __future__ import annotations

from typing import Any

import ephost
import numpy as np
import pytest
from ephost.reference import NodeError, create_kernel
from onnx import helper, numpy_helper

ort = pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_numbers_of_64_bits_decide_as_in_onnxruntime(aggregate: str) -> None:
    near = 1.7999999523162842
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        aggregate_function=aggregate,
        n_targets=2,
        nodes_treeids=[0, 0, 0, 1, 1, 1],
        nodes_nodeids=[0, 1, 2, 0, 1, 2],
        nodes_featureids=[0, 0, 0, 1, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0, 1, 0, 0],
        nodes_falsenodeids=[2, 0, 0, 2, 0, 0],
        nodes_values_as_tensor=numpy_helper.from_array(np.array([near, 0, 0, 0.5, 0, 0])),
        target_treeids=[0, 0, 1, 1],
        target_nodeids=[1, 2, 1, 2],
        target_ids=[0, 1, 0, 1],
        target_weights_as_tensor=numpy_helper.from_array(np.array([1.5, -2.25, 3.125, 7.0])),
    )
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(np.float64))
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", kind, [None, 2])],
        [helper.make_tensor_value_info("y", 1, [None, 2])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    x = np.array([[near, 0.0], [1.79999995232, 1.0], [2.0, 0.5], [0.0, 9.0]])
    expected = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    found = ephost.InferenceSession(model).run(None, {"x": x})[0]
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected)


@pytest.mark.timeout(30)
def test_a_tree_that_goes_round_in_a_circle_is_refused() -> None:
    node = helper.make_node(
        "TreeEnsembleClassifier",
        ["x"],
        ["label", "y"],
        domain="ai.onnx.ml",
        nodes_treeids=[0, 0],
        nodes_nodeids=[0, 1],
        nodes_featureids=[0, 0],
        nodes_modes=["BRANCH_LEQ", "BRANCH_LEQ"],
        nodes_truenodeids=[1, 0],
        nodes_falsenodeids=[1, 0],
        nodes_values=[0.5, 0.5],
        class_treeids=[0],
        class_nodeids=[1],
        class_ids=[0],
        class_weights=[1.0],
        classlabels_int64s=[0, 1],
    )
    with pytest.raises(NodeError, match="tree 0 go round in a circle"):
        create_kernel(node, {"ai.onnx.ml": 3})([np.zeros((1, 1), np.float32)])


@pytest.mark.parametrize("base", [[], [0.25], [0.25, -0.75]])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("ids", [[0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0], [0, 1, 1, 1]])
@pytest.mark.parametrize("sign", [1, -1])
def test_two_classes_are_told_apart_as_in_onnxruntime(
    sign: int, ids: list[int], transform: str, base: list[float]
) -> None:
    given: dict[str, Any] = {"base_values": base} if base else {}
    node = helper.make_node(
        "TreeEnsembleClassifier",
        ["x"],
        ["label", "y"],
        domain="ai.onnx.ml",
        nodes_treeids=[0, 0, 0, 1, 1, 1],
        nodes_nodeids=[0, 1, 2, 0, 1, 2],
        nodes_featureids=[0, 0, 0, 1, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0, 1, 0, 0],
        nodes_falsenodeids=[2, 0, 0, 2, 0, 0],
        nodes_values=[0.5, 0, 0, 0.5, 0, 0],
        class_treeids=[0, 0, 1, 1],
        class_nodeids=[1, 2, 1, 2],
        class_ids=ids,
        class_weights=[0.125, 0.375 * sign, 0.25 * sign, 0.5],
        classlabels_int64s=[7, 3],
        post_transform=transform,
        **given,
    )
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", 1, [None, 2])],
        [helper.make_tensor_value_info("label", 7, [None]), helper.make_tensor_value_info("y", 1, [None, 2])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    expected, found = session.run(None, {"x": x}), ephost.InferenceSession(model).run(None, {"x": x})
    np.testing.assert_array_equal(found[0], expected[0])
    # Of a negative class whose score nobody gives onnxruntime leaves memory as it finds it.
    lone = len(base) < 2 and (transform == "PROBIT" or base) and ids != [1, 1, 1, 1]
    np.testing.assert_allclose(
        found[1][:, : 1 if lone else 2], expected[1][:, : 1 if lone else 2], rtol=1e-5, atol=1e-6
    )
