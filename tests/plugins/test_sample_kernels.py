"""plugins/sample_kernels: each operator alone, in real hosts."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from plugin_harness import Case, Runner
from plugin_models import chain, model, node

EP = "sample_kernels"
RNG = np.random.default_rng(7)


def floats(*dims: int) -> np.ndarray:
    """Random float32 away from 0, where division and logarithms are well behaved."""
    return RNG.uniform(0.1, 2.0, dims).astype(np.float32)


UNARY = (
    *("Abs", "Ceil", "Cos", "Exp", "Floor", "Identity", "LeakyRelu", "Log", "Neg", "Reciprocal", "Relu"),
    *("Sigmoid", "Sin", "Softplus", "Softsign", "Sqrt", "Tanh"),
)
BINARY = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
BROADCASTS = [
    ((3, 4), (3, 4)),
    ((3, 4), ()),
    ((), (3, 4)),
    ((3, 4), (1, 1, 1)),
    ((3, 1), (1, 4)),
    ((2, 3, 4, 5), (3, 1, 1)),
    ((2, 1, 4, 1), (1, 3, 1, 5)),
    ((5,), (2, 3, 1, 5)),
    ((7, 300, 3), (300, 1)),  # more than one tile, and tiles that begin in the middle of a row
    ((0, 4), (1, 4)),
    ((2, 0), (1,)),
]


def test_cpu_is_offered_as_a_device_with_vendor_and_version(runner: Callable[[str], Runner]) -> None:
    _, devices = runner(EP).run([])
    assert [(d["vendor"], d["type"]) for d in devices] == [("ephost", "CPU")]
    assert devices[0]["metadata"]["version"] == "0.1.0"


def test_every_unary_operator_is_claimed_and_right(runner: Callable[[str], Runner]) -> None:
    x = np.concatenate([floats(50, 47), -floats(50, 47)])
    with np.errstate(invalid="ignore"):
        cases, wanted = [], []
        for op in UNARY:
            feed = np.abs(x) if op in ("Log", "Sqrt") else x
            made = model([node(op, "x", "y")], {"x": ["n", 47]}, ["y"])
            cases.append(Case(made, [{"x": feed}]))
            wanted.append(ReferenceEvaluator(made).run(None, {"x": feed})[0])
    for op, outcome, expected in zip(UNARY, runner(EP).run(cases)[0], wanted, strict=True):
        assert outcome.operators(EP) == [[op]], op
        np.testing.assert_allclose(outcome.outputs[0]["y"], expected, rtol=2e-6, atol=1e-7, err_msg=op)


def test_special_values_pass_through_relu_and_softplus(runner: Callable[[str], Runner]) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1000.0, -1000.0], np.float32)
    cases = [Case(model([node(op, "x", "y")], {"x": [5]}, ["y"]), [{"x": x}]) for op in ("Relu", "Softplus")]
    for outcome in runner(EP).run(cases)[0]:
        np.testing.assert_array_equal(
            outcome.outputs[0]["y"], np.array([np.nan, np.inf, 0, 1000, 0], np.float32)
        )


def test_attribute_given_or_defaulted_reaches_leaky_relu(runner: Callable[[str], Runner]) -> None:
    x = np.array([-2.0, 3.0], np.float32)
    cases = [
        Case(model([node("LeakyRelu", "x", "y", **given)], {"x": [2]}, ["y"]), [{"x": x}])
        for given in ({}, {"alpha": 0.5})
    ]
    defaulted, given = (outcome.outputs[0]["y"] for outcome in runner(EP).run(cases)[0])
    np.testing.assert_array_equal(defaulted, np.array([np.float32(0.01) * np.float32(-2), 3], np.float32))
    np.testing.assert_array_equal(given, np.array([-1, 3], np.float32))


def test_binary_operators_broadcast_as_numpy_does(runner: Callable[[str], Runner]) -> None:
    cases, wanted = [], []
    for op, function in BINARY.items():
        for a_dims, b_dims in BROADCASTS:
            a, b = floats(*a_dims), floats(*b_dims)
            made = model(
                [node(op, "a b", "y")],
                {"a": [f"a{i}" for i in range(a.ndim)], "b": [f"b{i}" for i in range(b.ndim)]},
                ["y"],
            )
            cases.append(Case(made, [{"a": a, "b": b}]))
            wanted.append(function(a, b))
    for outcome, expected in zip(runner(EP).run(cases)[0], wanted, strict=True):
        assert outcome.error is None, outcome.message
        assert len(outcome.operators(EP)) == 1
        assert outcome.outputs[0]["y"].shape == expected.shape
        np.testing.assert_array_equal(outcome.outputs[0]["y"], expected)


@pytest.mark.parametrize("op_type", ["Add", "Relu"])
def test_one_session_serves_many_shapes(runner: Callable[[str], Runner], op_type: str) -> None:
    inputs = {"a": ["n", "m"], "b": ["k", "m"]} if op_type == "Add" else {"a": ["n", "m"]}
    feeds = [
        {name: floats(n, 3) for name in inputs} | ({"b": floats(1, 3)} if op_type == "Add" else {})
        for n in (1, 5, 0, 2000, 2)
    ]
    outcome = runner(EP).run_one(Case(model([node(op_type, " ".join(inputs), "y")], inputs, ["y"]), feeds))
    for feed, output in zip(feeds, outcome.outputs, strict=True):
        expected = feed["a"] + feed["b"] if op_type == "Add" else np.maximum(feed["a"], 0)
        np.testing.assert_array_equal(output["y"], expected)


def test_matmul_broadcasts_batches_and_takes_vectors(runner: Callable[[str], Runner]) -> None:
    shapes = [
        ((3, 4), (4, 5)),
        ((4,), (4,)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((2, 3, 4), (4, 5)),
        ((2, 1, 3, 4), (1, 6, 4, 5)),
        ((4,), (6, 4, 5)),
        ((5, 1, 3, 4), (2, 4, 1)),
        ((3, 0), (0, 5)),
        ((0, 3, 4), (4, 5)),
    ]
    cases, wanted = [], []
    for a_dims, b_dims in shapes:
        a, b = floats(*a_dims), floats(*b_dims)
        cases.append(
            Case(model([node("MatMul", "a b", "y")], {"a": a_dims, "b": b_dims}, ["y"]), [{"a": a, "b": b}])
        )
        wanted.append(np.matmul(a, b))
    for outcome, expected in zip(runner(EP).run(cases)[0], wanted, strict=True):
        assert outcome.operators(EP) == [["MatMul"]], outcome.message
        assert outcome.outputs[0]["y"].shape == expected.shape
        np.testing.assert_allclose(outcome.outputs[0]["y"], expected, rtol=1e-5)


def test_shapes_that_do_not_fit_are_an_error_at_run_time(runner: Callable[[str], Runner]) -> None:
    made = model([node("Add", "a b", "y")], {"a": ["n"], "b": ["m"]}, ["y"])
    outcome = runner(EP).run([Case(made, [{"a": floats(2), "b": floats(3)}])])[0][0]
    assert outcome.error is not None and "do not fit together" in outcome.message


def test_other_types_versions_and_unknown_ranks_are_left_alone(runner: Callable[[str], Runner]) -> None:
    doubles = model([node("Add", "a b", "y")], {"a": [2], "b": [2]}, ["y"], element=TensorProto.DOUBLE)
    unknown = model([node("Relu", "a", "y")], {"a": None}, ["y"], infer=False)
    rank17 = model([node("Relu", "a", "y")], {"a": [1] * 17}, ["y"])
    floats2, doubles2 = floats(2), np.ones(2)
    outcomes, _ = runner(EP).run(
        [
            Case(doubles, [{"a": doubles2, "b": doubles2}]),
            Case(unknown, [{"a": floats2}]),
            Case(rank17, [{"a": floats2[:1].reshape([1] * 17)}]),
        ]
    )
    for outcome in outcomes:
        assert outcome.error is None, outcome.message
        assert outcome.operators(EP) == []


@pytest.mark.in_process("kernels run in groups")
def test_values_with_several_consumers_that_are_outputs_too_stay_intact(
    runner: Callable[[str], Runner],
) -> None:
    """In-place reuse is offered for every elementwise kernel: a host must not take it up here."""
    made = model(
        [
            node("Relu", "x", "r"),
            node("Neg", "r", "n"),
            node("Add", "r n", "zero"),
            node("Mul", "r r", "square"),
        ],
        {"x": [2, 3]},
        ["r", "zero", "square"],
    )
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    outcome = runner(EP).run_one(Case(made, [{"x": x}]))
    assert len(outcome.operators(EP)) == 4
    relu = np.maximum(x, 0)
    np.testing.assert_array_equal(outcome.outputs[0]["r"], relu)
    np.testing.assert_array_equal(outcome.outputs[0]["zero"], np.zeros_like(x))
    np.testing.assert_array_equal(outcome.outputs[0]["square"], relu * relu)


def test_a_chain_of_1000_nodes_is_1000_kernels(runner: Callable[[str], Runner]) -> None:
    made = chain("Add", 1000, [1], np.array([0.5], np.float32))
    outcome = runner(EP).run_one(Case(made, [{"x": np.array([1.0], np.float32)}]))
    assert sum(len(nodes) for ep, nodes in outcome.groups if ep == EP) == 1000
    assert outcome.outputs[0]["y"] == np.float32(501.0)


def test_nodes_in_the_branches_of_an_if_are_claimed(runner: Callable[[str], Runner]) -> None:
    def branch(op: str, name: str) -> onnx.GraphProto:
        value = helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])
        return helper.make_graph([node(op, "x", name)], name, [], [value])

    made = helper.make_model(
        helper.make_graph(
            [node("If", "c", "y", then_branch=branch("Neg", "then"), else_branch=branch("Relu", "else"))],
            "g",
            [
                helper.make_tensor_value_info("c", TensorProto.BOOL, []),
                helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
            ],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    x = np.array([1.0, -1.0], np.float32)
    feeds = [{"c": np.array(True), "x": x}, {"c": np.array(False), "x": x}]
    outcome = runner(EP).run_one(Case(made, feeds))
    np.testing.assert_array_equal(outcome.outputs[0]["y"], -x)
    np.testing.assert_array_equal(outcome.outputs[1]["y"], np.maximum(x, 0))
