"""Channels last: what is converted, what the graph still means, and which transposes go."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from ephost.model.graph import NHWC_DOMAIN, Model, Node
from ephost.model.infer import infer
from ephost.model.layout import LayoutConverter, inverse, to_first, to_last
from ephost.model.load import load
from ephost.reference import create_kernel
from graphs import assert_linked, claim
from onnx import helper, numpy_helper

RNG = np.random.default_rng(5)


def _model(nodes: list[onnx.NodeProto], shape: list[int], **weights: np.ndarray) -> Model:
    graph = helper.make_graph(
        nodes,
        "layout",
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)]))
    infer(model)
    return model


def _evaluate(model: Model, x: np.ndarray) -> np.ndarray:
    """Run the graph node by node; what is channels last means ONNX's operator between two transposes."""
    values = {name: v.initializer for name, v in model.graph.values.items() if v.initializer is not None}
    values["x"] = x
    for node in model.graph.nodes:
        inputs = [None if v is None else values[v.name] for v in node.inputs]
        proto = node.proto.copied()
        if node.domain == NHWC_DOMAIN:
            proto.domain = ""
            rank = inputs[0].ndim
            inputs[0] = inputs[0].transpose(to_first(rank))
            if node.op_type == "Resize":
                inputs[1:] = [None if v is None or not v.size else v[to_first(rank)] for v in inputs[1:]]
        results = create_kernel(proto, model.opsets, {})(inputs)
        for value, result in zip(node.outputs, results, strict=False):
            if value is not None:
                last = node.domain == NHWC_DOMAIN
                values[value.name] = result.transpose(to_last(result.ndim)) if last else result
                kind = value.type
                assert kind is None or kind.static_dims in (None, values[value.name].shape), value.name
    return values["y"]


def _transposes(model: Model) -> list[Node]:
    return [node for node in model.graph.nodes if node.op_type == "Transpose"]


def _convert(model: Model, *op_types: str) -> list[Node]:
    nodes = list(model.graph.nodes)
    return LayoutConverter(model, model.graph).convert(nodes, lambda node: node.op_type in op_types)


def _weights(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def _conv(source: str, out: str, weight: str) -> onnx.NodeProto:
    return helper.make_node("Conv", [source, weight], [out], name=out, pads=[1, 1, 1, 1])


CHAIN = [_conv("x", "a", "w"), helper.make_node("Relu", ["a"], ["b"]), _conv("b", "y", "v")]
RESIDUAL = [
    _conv("x", "a", "w"),
    helper.make_node("Relu", ["a"], ["b"]),
    _conv("b", "c", "v"),
    helper.make_node("Add", ["c", "b"], ["d"]),
    helper.make_node("Mul", ["d", "s"], ["e"]),
    _conv("e", "y", "v"),
]
CONCAT = [
    _conv("x", "a", "w"),
    _conv("x", "b", "w"),
    helper.make_node("Concat", ["a", "b"], ["c"], axis=1),
    helper.make_node("MaxPool", ["c"], ["y"], kernel_shape=[2, 2]),
]
SCALE = np.asarray(RNG.standard_normal((4, 1, 1)), dtype=np.float32)


@pytest.mark.parametrize(
    ("nodes", "weights", "left"),
    [
        (CHAIN, {"w": (4, 3, 3, 3), "v": (2, 4, 3, 3)}, 2),
        (RESIDUAL, {"w": (4, 3, 3, 3), "v": (4, 4, 3, 3), "s": SCALE}, None),
        (CONCAT, {"w": (4, 3, 3, 3)}, None),
    ],
    ids=["chain", "residual", "concat"],
)
def test_the_graph_means_the_same_in_either_layout_and_back(nodes, weights, left):
    arrays = {k: v if isinstance(v, np.ndarray) else _weights(*v) for k, v in weights.items()}
    model = _model(nodes, [1, 3, 6, 6], **arrays)
    x = _weights(1, 3, 6, 6)
    expected = _evaluate(model, x)
    changed = _convert(model, "Conv", "MaxPool")
    assert {n.domain for n in changed} == {NHWC_DOMAIN}
    np.testing.assert_allclose(_evaluate(model, x), expected, rtol=1e-4, atol=1e-4)
    assert left is None or len(_transposes(model)) == left
    LayoutConverter(model, model.graph).convert_back(changed)
    assert not any(n.domain == NHWC_DOMAIN for n in model.graph.nodes)
    np.testing.assert_allclose(_evaluate(model, x), expected, rtol=1e-4, atol=1e-4)


def test_a_chain_back_in_its_own_layout_has_no_transpose_left():
    model = _model(CHAIN, [1, 3, 6, 6], w=_weights(4, 3, 3, 3), v=_weights(2, 4, 3, 3))
    changed = _convert(model, "Conv")
    LayoutConverter(model, model.graph).convert_back(changed)
    assert [n.op_type for n in model.graph.nodes] == ["Conv", "Relu", "Conv"]


def test_what_another_ep_has_claimed_reads_the_value_that_it_was_claimed_with():
    model = _model(
        [_conv("x", "c", "w"), helper.make_node("GlobalMaxPool", ["c"], ["y"])],
        [1, 2, 4, 4],
        w=_weights(3, 2, 3, 3),
    )
    # Another EP has what reads the convolution's output; transposes before it could cancel those behind `c`.
    taken = claim(model, "y")
    before = list(taken.inputs)
    _convert(model, "Conv")
    converter = LayoutConverter(model, model.graph)
    converter.convert_back(list(model.graph.nodes))
    assert taken.inputs == before
    assert [node.op_type for node in model.graph.nodes] == ["Conv", "Fused"]
    assert not _transposes(model)
    assert_linked(model)


def test_scales_of_resize_turn_with_the_layout():
    scales = np.asarray([1, 1, 2, 3], dtype=np.float32)
    model = _model(
        [helper.make_node("Resize", ["x", "", "s"], ["y"], mode="nearest")], [1, 2, 4, 4], s=scales
    )
    x = _weights(1, 2, 4, 4)
    expected = _evaluate(model, x)
    (node,) = _convert(model, "Resize")
    turned = node.inputs[2]
    assert turned is not None and turned.initializer is not None
    assert turned.initializer.tolist() == [1, 2, 3, 1]
    np.testing.assert_array_equal(_evaluate(model, x), expected)


def test_a_pool_whose_indices_are_used_keeps_its_layout():
    pool = helper.make_node("MaxPool", ["x"], ["y", "indices"], kernel_shape=[2, 2])
    model = _model([pool], [1, 2, 4, 4])
    assert _convert(model, "MaxPool") == []
    assert _transposes(model) == []


def test_permutations_undo_each_other():
    for rank in (3, 4, 5):
        assert inverse(to_last(rank)) == to_first(rank)
        assert [to_last(rank)[p] for p in to_first(rank)] == list(range(rank))
