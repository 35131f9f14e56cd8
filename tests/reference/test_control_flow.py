"""If, Loop, Scan and SequenceMap, on kernels of their own and on a host's hook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from ephost.reference import NodeError, Value, create_kernel
from onnx import TensorProto, helper, parser

OPSET = {"": 21}


def graph(text: str) -> onnx.GraphProto:
    return parser.parse_graph(text)


def node(op_type: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, [f"y{index}" for index in range(outputs)], "n", **attributes)


def test_a_body_reads_values_of_every_scope_around_it() -> None:
    inner = graph("g () => (float[2] r) { r = Add(a, t) }")
    outer = graph("g () => (float[2] s) { t = Mul(b, b) }")
    choice = helper.make_node("If", ["flag"], ["s"], then_branch=inner, else_branch=inner)
    outer.node.append(choice)
    kernel = create_kernel(node("If", ["c"], 1, then_branch=outer, else_branch=inner), OPSET)
    assert kernel.implicit_inputs == ("a", "b", "flag", "t")
    captured = {"a": np.ones(2), "b": np.full(2, 3.0), "flag": np.array(True), "t": np.zeros(2)}
    assert kernel([np.array(True)], captured)[0].tolist() == [10, 10]
    assert kernel([np.array([False])], captured)[0].tolist() == [1, 1]


def test_a_loop_carries_values_stacks_scan_outputs_and_ends_on_its_condition() -> None:
    body = graph(
        """g (int64 i, bool c, float[1] x) => (bool go, float[1] next, float[1] seen, int64 at) {
            next = Add(x, step)
            seen = Mul(next, next)
            at = Identity(i)
            go = Less(next, limit)
            ok = Identity(go)
        }"""
    )
    kernel = create_kernel(node("Loop", ["m", "", "x"], 3, body=body), OPSET)
    captured = {"step": np.ones(1, np.float32), "limit": np.array([2.5], np.float32)}
    final, seen, at = kernel([np.array(10), None, np.zeros(1, np.float32)], captured)
    assert final.tolist() == [3]
    assert seen.tolist() == [[1], [4], [9]]
    assert (at.tolist(), at.dtype) == ([0, 1, 2], np.int64)


def test_a_loop_that_never_runs_gives_its_inputs_and_empty_scan_outputs() -> None:
    body = graph(
        "g (int64 i, bool c, float[1] x) => (bool d, float[1] n, double[1,3] s)"
        " { d = Identity(c) n = Identity(x) s = CastLike(x, x) }"
    )
    kernel = create_kernel(node("Loop", ["m", "c", "x"], 2, body=body), OPSET)
    for inputs in (
        [np.array(0), None, np.ones(1, np.float32)],
        [None, np.array(False), np.ones(1, np.float32)],
    ):
        final, scanned = kernel(inputs)
        assert final.tolist() == [1]
        assert (scanned.shape, scanned.dtype) == ((0, 1, 3), np.float64)


SCAN_BODY = """g (float[2] s, float[2] x) => (float[2] t, float[2] y) { t = Add(s, x) y = Identity(t) }"""


def test_a_scan_follows_axes_and_directions() -> None:
    kernel = create_kernel(
        node(
            "Scan",
            ["s", "x"],
            2,
            body=graph(SCAN_BODY),
            num_scan_inputs=1,
            scan_input_axes=[1],
            scan_input_directions=[1],
            scan_output_axes=[1],
            scan_output_directions=[1],
        ),
        OPSET,
    )
    x = np.array([[1, 2, 3], [10, 20, 30]], np.float32)
    final, stacked = kernel([np.zeros(2, np.float32), x])
    assert final.tolist() == [6, 60]
    # Read from the last column to the first, and written likewise.
    assert stacked.tolist() == [[6, 5, 3], [60, 50, 30]]


def test_a_scan_of_nothing_gives_empty_outputs_of_the_declared_type() -> None:
    kernel = create_kernel(node("Scan", ["s", "x"], 2, body=graph(SCAN_BODY), num_scan_inputs=1), OPSET)
    final, stacked = kernel([np.ones(2, np.float32), np.zeros((0, 2), np.float32)])
    assert final.tolist() == [1, 1]
    assert (stacked.shape, stacked.dtype) == ((0, 2), np.float32)


def test_a_scan_output_that_nobody_reads_may_be_left_out() -> None:
    kernel = create_kernel(
        node("Scan", ["s", "x"], 1, body=graph(SCAN_BODY), num_scan_inputs=1, scan_output_axes=[0]), OPSET
    )
    (final,) = kernel([np.ones(2, np.float32), np.ones((3, 2), np.float32)])
    assert final.tolist() == [4, 4]


def test_a_scan_of_opset_8_goes_over_a_batch_with_lengths() -> None:
    scan = node("Scan", ["lens", "s", "x"], 2, body=graph(SCAN_BODY), num_scan_inputs=1)
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    final, stacked = create_kernel(scan, {"": 8})([np.array([1, 2]), np.zeros((2, 2), np.float32), x])
    assert final.tolist() == [[0, 1], [10, 12]]
    assert stacked.tolist() == [[[0, 1], [0, 0]], [[4, 5], [10, 12]]]


def test_a_sequence_map_pairs_sequences_and_repeats_tensors() -> None:
    body = graph("g (float[1] a, float[1] b, float[1] c) => (float[1] s) { t = Add(a, b) s = Mul(t, c) }")
    kernel = create_kernel(node("SequenceMap", ["p", "q", "r"], 1, body=body), OPSET)
    ones, twos = np.ones(1, np.float32), np.full(1, 2, np.float32)
    (result,) = kernel([[ones, twos], [twos, twos], np.full(1, 10, np.float32)])
    assert [item.tolist() for item in result] == [[30], [40]]
    assert kernel([[], [], ones]) == [[]]
    with pytest.raises(NodeError, match="different lengths"):
        kernel([[ones], [], ones])


def test_a_loop_carries_sequences() -> None:
    body = graph(
        """g (int64 i, bool c, seq(int64) xs) => (bool d, seq(int64) ys) {
            d = Identity(c)
            ys = SequenceInsert(xs, i)
        }"""
    )
    (result,) = create_kernel(node("Loop", ["m", "", "xs"], 1, body=body), OPSET)([np.array(3), None, []])
    assert [item.tolist() for item in result] == [0, 1, 2]


@pytest.mark.parametrize(("declared", "shape"), [("int64", ()), ("int64[1]", (1,)), ("int64[]", ())])
def test_a_body_gets_the_iteration_and_the_condition_in_the_shape_it_declares(
    declared: str, shape: tuple[int, ...]
) -> None:
    going = declared.replace("int64", "bool")
    body = graph(
        f"""g ({declared} i, {going} c, seq(int64) xs) => (bool d, seq(int64) ys) {{
            d = Identity(c)
            ys = SequenceInsert(xs, i)
        }}"""
    )
    (result,) = create_kernel(node("Loop", ["m", "", "xs"], 1, body=body), OPSET)([np.array(2), None, []])
    assert [(item.shape, item.item()) for item in result] == [(shape, 0), (shape, 1)]


def test_a_failure_in_a_body_names_every_node_on_the_way() -> None:
    body = graph("g () => (float[2] r) { r = Add(a, b) }")
    body.node[0].name = "sum"
    kernel = create_kernel(node("If", ["c"], 1, then_branch=body, else_branch=body), OPSET)
    with pytest.raises(NodeError, match=r"node 'n' \(If.*node 'sum' \(Add"):
        kernel([np.array(True)], {"a": np.ones(2), "b": np.ones(3)})


def test_a_body_that_reads_what_nobody_makes_is_named() -> None:
    body = graph("g () => (float[2] r) { r = Relu(a) }")
    kernel = create_kernel(node("If", ["c"], 1, then_branch=body, else_branch=body), OPSET)
    with pytest.raises(NodeError, match="'a'"):
        kernel([np.array(True)], {})


def test_a_hook_runs_every_body_in_place_of_kernels() -> None:
    calls: list[tuple[str, list[Value], Mapping[str, Value]]] = []

    def run_subgraph(attribute: str, inputs: list[Value], implicit: Mapping[str, Value]) -> list[Value]:
        calls.append((attribute, inputs, implicit))
        return [np.array(len(calls) < 2), np.array([9.0], np.float32)]

    body = graph(
        "g (int64 i, bool c, float[1] x) => (bool d, float[1] n) { n = acme.Nobody(x, k) d = Identity(c) }"
    )
    kernel = create_kernel(node("Loop", ["", "", "x"], 1, body=body), OPSET, run_subgraph=run_subgraph)
    assert kernel.implicit_inputs == ("k",)
    (result,) = kernel([None, None, np.zeros(1, np.float32)], {"k": np.ones(1)})
    assert result.tolist() == [9]
    assert [attribute for attribute, _, _ in calls] == ["body", "body"]
    assert [inputs[0].tolist() for _, inputs, _ in calls] == [0, 1]
    assert all(set(implicit) == {"k"} for _, _, implicit in calls)


def test_an_operator_of_the_package_with_bodies_runs_them() -> None:
    body = graph("g (float[1,1,2,2] scores) => (float[1,1,2,2] out) { out = Mul(scores, factor) }")
    attention = helper.make_node(
        "FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview", score_mod=body
    )
    kernel = create_kernel(attention, {"": 26, "ai.onnx.preview": 1})
    assert kernel.implicit_inputs == ("factor",)
    q = np.eye(2, dtype=np.float32)[None, None]
    (flat,) = kernel([q, q, q], {"factor": np.zeros(1, np.float32)})
    assert np.allclose(flat, 0.5)
    (sharp,) = kernel([q, q, q], {"factor": np.full(1, 100, np.float32)})
    assert np.allclose(sharp, q[0, 0])


def test_initializers_of_a_body_are_its_constants() -> None:
    body = helper.make_graph(
        [helper.make_node("Add", ["a", "k"], ["r"])],
        "g",
        [],
        [helper.make_tensor_value_info("r", TensorProto.FLOAT, [1])],
        [helper.make_tensor("k", TensorProto.FLOAT, [1], [5.0])],
    )
    kernel = create_kernel(node("If", ["c"], 1, then_branch=body, else_branch=body), OPSET)
    assert kernel.implicit_inputs == ("a",)
    assert kernel([np.array(True)], {"a": np.ones(1, np.float32)})[0].tolist() == [6]
