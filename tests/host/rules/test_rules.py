"""Rewritings happen only where they may, and as a session's options say."""

from __future__ import annotations

from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from ephost.model.fold import simplify, unwanted
from ephost.model.rules import RULE_NAMES, rewrite
from ephost.model.rules.shapes import CAST_CHAINS
from graphs import assert_linked, claim, evaluate, model_of
from rewriting import CONV, IMAGE, MATRIX, NORM, ROWS, W, kinds, rewritten


@pytest.mark.parametrize(
    "body",
    [
        "a = Neg(x)  b = Neg(x)  c = Exp(a)  y = Sub(c, b)",  # equal nodes
        "b = Slice(x, k, n)  c = Exp(x)  y = Sub(c, b)",  # a Slice of all
    ],
)
def test_what_a_claimed_node_reads_stays_the_value_that_it_was_claimed_with(body: str) -> None:
    model = model_of(f"g (float[2] x) => (float[2] y) <int64[1] k = {{0}}, int64[1] n = {{2}}> {{ {body} }}")
    fused = claim(model, "y")
    before, nodes = list(fused.inputs), list(model.graph.nodes)
    simplify(model)
    assert fused.inputs == before
    assert not fused.proto.input
    assert model.graph.nodes == nodes
    assert_linked(model)


def test_a_claimed_node_is_not_computed_in_advance() -> None:
    model = model_of("g (float[2] x) => (float[2] y) <float[2] w = {1, -2}> { a = Neg(w)  y = Add(x, a) }")
    node = model.graph.nodes[0]
    node.ep_name = "somebody"
    simplify(model)
    assert node in model.graph.nodes
    node.ep_name = ""
    simplify(model)
    assert node not in model.graph.nodes


def test_what_a_caller_may_replace_is_no_constant() -> None:
    # `w` is listed as an input, too: its data is a default.
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> '
        f"g (float[2,3,5,4] x, {W}) => (float[2,4,5,4] y) <float f = {{3}}> "
        "{ c = Conv(x, w)  y = Mul(c, f) }"
    )
    session = ephost.InferenceSession(proto)
    weights = np.ones((4, 3, 1, 1), np.float32)
    (mine,) = session.run(None, {**IMAGE, "w": weights})
    expected = np.broadcast_to(IMAGE["x"].sum(1, keepdims=True) * 3, mine.shape)
    np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-5)


def test_graph_outputs_and_what_subgraphs_read_stay() -> None:
    both = f"g (float[2,3,5,4] x) => (float[2,4,5,4] c, float[2,4,5,4] y) <{W}, float f = {{3}}>"
    assert kinds(rewritten(f"{both} {{ c = Conv(x, w)  y = Mul(c, f) }}", IMAGE)) == ["Conv", "Mul"]
    captured = (
        f"g (float[2,3,5,4] x, bool q) => (float[2,4,5,4] y) <{W}, float f = {{3}}> "
        "{ c = Conv(x, w)  d = Mul(c, f)  e = If (q) <then_branch = t () => (float[2,4,5,4] o)"
        " { o = Neg(c) }, else_branch = u () => (float[2,4,5,4] p) { p = Abs(c) }>  y = Add(d, e) }"
    )
    assert kinds(rewritten(captured, {**IMAGE, "q": np.array(True)})) == ["Conv", "Mul", "If", "Add"]


def test_bodies_are_rewritten_and_may_read_outer_values() -> None:
    text = (
        f"g (float[3,2] x, bool q) => (float[3,4] y) <{MATRIX}, float[4] b = {{1, 2, 3, 4}}> "
        "{ a = Neg(x)  y = If (q) <then_branch = t () => (float[3,4] o) { m = MatMul(a, p)  o = Add(m, b) },"
        " else_branch = u () => (float[3,4] k) { k = MatMul(x, p) }> }"
    )
    model = rewritten(text, {**ROWS, "q": np.array(True)})
    assert [node.op_type for node in model.graph.nodes[1].subgraphs["then_branch"].nodes] == ["Gemm"]


def test_nodes_that_are_taken_stay() -> None:
    for owner in ("claimed", "left"):
        model = model_of(f"{CONV} <{W}, float f = {{3}}> {{ c = Conv(x, w)  y = Mul(c, f) }}")
        if owner == "claimed":
            model.graph.nodes[1].ep_name = "somebody"
        else:
            model.graph.nodes[1].left_to_host = True
        assert rewrite(model, model.graph) == (False, False)


TEXT = f"{CONV} <{W}, {NORM}> {{ c = Conv(x, w)  n = BatchNormalization(c, s, b, m, v)  y = Identity(n) }}"


def opened(folder: Path, options: ephost.SessionOptions, **arguments: object) -> list[str]:
    """The operators that are left when a session has opened, read from the model that it wrote."""
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {TEXT}')
    options.optimized_model_filepath = str(folder / "left.onnx")
    session = ephost.InferenceSession(proto, options, **arguments)
    (mine,) = session.run(None, IMAGE)
    np.testing.assert_allclose(mine, evaluate(model_of(TEXT), **IMAGE)[0], rtol=1e-5, atol=1e-5)
    return [node.op_type for node in onnx.load(folder / "left.onnx").graph.node]


def test_a_session_rewrites_as_its_options_say(tmp_path: Path) -> None:
    assert opened(tmp_path, ephost.SessionOptions()) == ["Conv"]
    off = ephost.SessionOptions()
    off.graph_optimization_level = ephost.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert opened(tmp_path, off) == ["Conv", "BatchNormalization", "Identity"]
    some = ephost.SessionOptions()
    some.add_session_config_entry(
        "optimization.disable_specified_optimizers", "ConvBNFusion; EliminateIdentity"
    )
    assert opened(tmp_path, some) == ["Conv", "BatchNormalization", "Identity"]
    by_argument = opened(tmp_path, ephost.SessionOptions(), disabled_optimizers=["ConvBNFusion"])
    assert by_argument == ["Conv", "BatchNormalization"]


def test_what_config_entries_turn_off_are_names_of_rules() -> None:
    off = unwanted({"session.disable_double_qdq_remover": "1", "session.disable_quant_qdq": "1"})
    assert off - {""} <= RULE_NAMES
    assert CAST_CHAINS in off
