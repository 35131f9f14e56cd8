"""Decoders in operators that generate texts: the plugin runs their nodes, the host the loop around them."""

from __future__ import annotations

from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

VOCABULARY = 12


def greedy_model() -> onnx.ModelProto:
    """Each next token is the likeliest after the sum of all before it; weights lie outside the decoder."""
    weights = np.random.default_rng(3).normal(size=(VOCABULARY, VOCABULARY)).astype(np.float32)
    info = helper.make_tensor_value_info
    state = [2, "n", 1, "p", VOCABULARY]
    decoder = helper.make_graph(
        [
            helper.make_node("Gather", ["W", "input_ids"], ["x"]),
            helper.make_node("Unsqueeze", ["x"], ["x4"], axes=[1]),
            helper.make_node("Unsqueeze", ["x4"], ["x5"], axes=[0]),
            helper.make_node("Concat", ["x5", "x5"], ["both"], axis=0),
            helper.make_node("Concat", ["past_0", "both"], ["present_0"], axis=3),
            helper.make_node("ReduceSum", ["present_0"], ["sum"], axes=[0, 2, 3], keepdims=0),
            helper.make_node("Unsqueeze", ["sum"], ["sum3"], axes=[1]),
            helper.make_node("FastGelu", ["sum3"], ["y"], domain="com.microsoft"),
            helper.make_node("MatMul", ["y", "W"], ["logits"]),
        ],
        "decoder",
        [
            info("input_ids", TensorProto.INT32, ["n", "s"]),
            info("position_ids", TensorProto.INT32, ["n", "s"]),
            info("attention_mask", TensorProto.INT32, ["n", "t"]),
            info("past_0", TensorProto.FLOAT, state),
        ],
        [
            info("logits", TensorProto.FLOAT, ["n", 1, VOCABULARY]),
            info("present_0", TensorProto.FLOAT, [*state[:3], "t", VOCABULARY]),
        ],
    )
    node = helper.make_node(
        "GreedySearch",
        ["ids", "most"],
        ["text"],
        domain="com.microsoft",
        decoder=decoder,
        eos_token_id=VOCABULARY - 1,
        pad_token_id=0,
    )
    graph = helper.make_graph(
        [node],
        "text",
        [info("ids", TensorProto.INT32, ["n", "s"]), info("most", TensorProto.INT32, [1])],
        [info("text", TensorProto.INT32, None)],
        [numpy_helper.from_array(weights, "W")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)


def test_the_plugin_takes_the_decoder_and_what_it_reads_from_outside(cpu_plugin: Any) -> None:
    model = greedy_model().SerializeToString()
    options = ephost.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_provider_for_devices([cpu_plugin.device], {})
    session = ephost.InferenceSession(model, options)
    claimed = {
        node.op_type for part in session.get_provider_graph_assignment_info() for node in part.get_nodes()
    }
    assert {"Gather", "Concat", "FastGelu", "MatMul"} <= claimed
    feeds = {"ids": np.array([[3, 4], [5, 6]], np.int32), "most": np.array([9], np.int32)}
    (found,) = session.run(None, feeds)
    (expected,) = _with_onnxruntime(model, feeds)
    np.testing.assert_array_equal(found, expected)


def _with_onnxruntime(model: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    made: list[np.ndarray] = session.run(None, feeds)
    return made
