"""Function bodies: a model's own and those of ONNX's schemas."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from ephost.reference import NodeError, create_kernel
from onnx import helper, parser

SCALE = parser.parse_function(
    """<domain: "acme", opset_import: ["" : 17, "acme" : 1]>
    Scale <factor: float = 2.0> (x, y) => (z) {
        f = Constant <value_float: float = @factor> ()
        z = Mul(x, f)
    }"""
)
TWICE = parser.parse_function(
    """<domain: "acme", opset_import: ["acme" : 1]>
    Twice <factor> (x) => (z) {
        t = acme.Scale <factor: float = @factor> (x)
        z = acme.Scale <factor: float = @factor> (t)
    }"""
)
FUNCTIONS = {("acme", "Scale"): SCALE, ("acme", "Twice"): TWICE}
IMPORTS = {"": 21, "acme": 1}


def call(name: str, **attributes: Any) -> list[Any]:
    node = helper.make_node(name, ["x"], ["y"], "n", domain="acme", **attributes)
    return create_kernel(node, IMPORTS, FUNCTIONS)([np.ones(2, np.float32)])


def test_a_function_takes_the_callers_attribute_or_its_default() -> None:
    assert call("Scale", factor=5.0)[0].tolist() == [5, 5]
    assert call("Scale")[0].tolist() == [2, 2]


def test_attributes_go_through_nested_functions() -> None:
    assert call("Twice", factor=3.0)[0].tolist() == [9, 9]
    assert call("Twice")[0].tolist() == [4, 4]


def test_expanding_leaves_the_function_as_it_was() -> None:
    before = SCALE.SerializeToString()
    call("Scale", factor=5.0)
    assert SCALE.SerializeToString() == before


def test_an_overload_picks_its_function() -> None:
    other = onnx.FunctionProto()
    other.CopyFrom(SCALE)
    other.overload = "neg"
    other.node[1].op_type = "Sub"
    node = helper.make_node("Scale", ["x"], ["y"], domain="acme", overload="neg")
    kernel = create_kernel(node, IMPORTS, {("acme", "Scale", ""): SCALE, ("acme", "Scale", "neg"): other})
    assert kernel([np.ones(2, np.float32)])[0].tolist() == [-1, -1]


def test_an_attribute_reaches_a_subgraph_in_a_function() -> None:
    function = parser.parse_function(
        """<domain: "acme", opset_import: ["" : 17]>
        Pick <factor: float = 2.0> (c) => (z) {
            z = If (c) <
                then_branch = t () => (float a) { a = Constant <value_float: float = @factor> () },
                else_branch = e () => (float b) { b = Constant <value_float = -1.0> () }
            >
        }"""
    )
    node = helper.make_node("Pick", ["c"], ["y"], domain="acme", factor=8.0)
    kernel = create_kernel(node, IMPORTS, {("acme", "Pick"): function})
    assert kernel([np.array(True)])[0] == 8
    assert kernel([np.array(False)])[0] == -1


@pytest.mark.parametrize("op_type", ["HardSwish", "Mish", "MeanVarianceNormalization"])
def test_an_operator_with_only_a_function_body_is_expanded(op_type: str) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
    (y,) = create_kernel(helper.make_node(op_type, ["x"], ["y"]), {"": 22})([x])
    mean, deviation = x.mean((0, 2, 3), keepdims=True), x.std((0, 2, 3), keepdims=True)
    expected = {
        "HardSwish": x * np.clip(x / 6 + 0.5, 0, 1),
        "Mish": x * np.tanh(np.log1p(np.exp(x))),
        "MeanVarianceNormalization": (x - mean) / deviation,
    }
    np.testing.assert_allclose(y, expected[op_type], rtol=1e-4, atol=1e-5)


def test_a_body_that_depends_on_the_inputs_is_made_for_each_types() -> None:
    kernel = create_kernel(helper.make_node("Gelu", ["x"], ["y"]), {"": 20})
    for dtype in (np.float32, np.float64, np.float32):
        (y,) = kernel([np.array([-1, 0, 1], dtype)])
        assert y.dtype == dtype
        np.testing.assert_allclose(y, [-0.158655, 0, 0.841345], rtol=1e-5)


def test_a_failure_in_a_function_names_the_caller_and_the_inner_node() -> None:
    node = helper.make_node("Scale", ["x"], ["y"], "caller", domain="acme")
    with pytest.raises(NodeError, match=r"'caller' \(acme::Scale.*\(Mul, opset 17\)"):
        create_kernel(node, IMPORTS, FUNCTIONS)([np.array(["a"])])
