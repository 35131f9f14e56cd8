"""plugins/sample_compiler: groups of operators as one program, in real hosts."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from plugin_harness import Case, Runner
from plugin_models import chain, model, node

EP = "sample_compiler"
RNG = np.random.default_rng(11)


def floats(*dims: int) -> np.ndarray:
    """Random float32 away from 0, where division and logarithms are well behaved."""
    return RNG.uniform(0.1, 2.0, dims).astype(np.float32)


def check(outcome, case: Case) -> None:
    """Compares each call's outputs with the reference evaluator's, shapes included."""
    assert outcome.error is None, outcome.message
    reference = ReferenceEvaluator(case.model)
    for feeds, outputs in zip(case.feeds, outcome.outputs, strict=True):
        for name, expected in zip(reference.output_names, reference.run(None, feeds), strict=True):
            assert outputs[name].shape == np.shape(expected), name
            np.testing.assert_allclose(outputs[name], expected, rtol=3e-6, atol=1e-6, err_msg=name)


def test_a_chain_is_one_group_with_the_right_answer(runner: Callable[[str], Runner]) -> None:
    made = model(
        [
            node("Mul", "x scale", "a"),
            node("Add", "a bias", "b"),
            node("Tanh", "b", "c"),
            node("Div", "c x", "d"),
            node("Sigmoid", "d", "y"),
        ],
        {"x": ["n", 3, 5]},
        ["y"],
        {"scale": floats(3, 1), "bias": floats(5)},
    )
    case = Case(made, [{"x": floats(n, 3, 5)} for n in (1, 7, 0, 400)])
    outcome = runner(EP).run_one(case)
    assert outcome.operators(EP) == [["Add", "Div", "Mul", "Sigmoid", "Tanh"]]
    check(outcome, case)


def test_constants_are_kept_when_the_host_drops_them(runner: Callable[[str], Runner]) -> None:
    """Scalars, full tensors and an empty one, each read by two groups that a MatMul keeps apart."""
    made = model(
        [
            node("Add", "x c", "a"),
            node("Mul", "a s", "b"),
            node("MatMul", "b w", "m"),
            node("Sub", "m c", "d"),
            node("Div", "d s", "y"),
        ],
        {"x": [4, 4]},
        ["y"],
        {"c": floats(4, 4), "s": np.array(3, np.float32), "w": floats(4, 4)},
    )
    empty = model([node("Add", "x e", "y")], {"x": [1]}, ["y"], {"e": floats(0)})
    cases = [Case(made, [{"x": floats(4, 4)}] * 2), Case(empty, [{"x": floats(1)}])]
    first, second = runner(EP).run(cases)[0]
    assert sorted(first.operators(EP)) == [["Add", "Mul"], ["Div", "Sub"]]
    check(first, cases[0])
    check(second, cases[1])


def test_values_with_other_readers_and_outputs_in_the_middle(
    runner: Callable[[str], Runner],
) -> None:
    """``a`` is read three times, once outside of the group; ``b`` is an output that is also consumed."""
    made = model(
        [
            node("Relu", "x", "a"),
            node("Neg", "a", "b"),
            node("Exp", "b", "c"),
            node("Mul", "a c", "d"),
            node("Add", "d b", "y"),
            node("MatMul", "a w", "z"),
        ],
        {"x": ["n", 3]},
        ["y", "b", "z"],
        {"w": floats(3, 2)},
    )
    case = Case(made, [{"x": floats(5, 3) - 1}, {"x": floats(3000, 3) - 1}])
    outcome = runner(EP).run_one(case)
    assert outcome.operators(EP) == [["Add", "Exp", "Mul", "Neg", "Relu"]]
    check(outcome, case)


def test_results_of_different_shapes_in_one_group(runner: Callable[[str], Runner]) -> None:
    """Small results that are broadcast later, large ones that never meet, and outputs of both kinds."""
    made = model(
        [
            node("Exp", "row", "e"),
            node("Add", "e one", "f"),
            node("Mul", "f column", "grid"),
            node("Sqrt", "grid", "y"),
            node("Add", "e long", "other"),
            node("Neg", "other", "z"),
        ],
        {"row": [1, "m"], "column": ["n", 1], "long": ["k", 1], "one": []},
        ["y", "f", "z"],
    )
    feeds = [
        {"row": floats(1, m), "column": floats(n, 1), "long": floats(k, 1), "one": floats()}
        for n, m, k in ((3, 4, 5), (1, 1, 1), (700, 9, 2), (2, 0, 3), (0, 6, 1), (5, 1, 2000))
    ]
    case = Case(made, feeds)
    outcome = runner(EP).run_one(case)
    assert len(outcome.operators(EP)) == 1
    check(outcome, case)


def test_a_group_never_depends_on_itself(runner: Callable[[str], Runner]) -> None:
    """Relu -> MatMul -> Add, and Relu -> Add: one group of Relu and Add would wait for itself."""
    made = model(
        [node("Relu", "x", "a"), node("MatMul", "a w", "b"), node("Add", "a b", "y")],
        {"x": [2, 2]},
        ["y"],
        {"w": floats(2, 2)},
    )
    case = Case(made, [{"x": floats(2, 2)}])
    outcome = runner(EP).run_one(case)
    assert sorted(outcome.operators(EP)) == [["Add"], ["Relu"]]
    check(outcome, case)


def test_two_groups_never_wait_for_each_other(runner: Callable[[str], Runner]) -> None:
    """Each of two chains feeds a MatMul whose result the other one needs: only the halves can be fused."""
    made = model(
        [
            node("Relu", "x", "a1"),
            node("Relu", "u", "b1"),
            node("MatMul", "a1 w", "am"),
            node("MatMul", "b1 w", "bm"),
            node("Add", "a1 bm", "a2"),
            node("Add", "b1 am", "b2"),
            node("Add", "a2 b2", "y"),
        ],
        {"x": [2, 2], "u": [2, 2]},
        ["y"],
        {"w": floats(2, 2)},
    )
    case = Case(made, [{"x": floats(2, 2), "u": floats(2, 2)}])
    outcome = runner(EP).run_one(case)
    assert sum(len(group) for group in outcome.operators(EP)) == 5
    check(outcome, case)


def test_a_group_reaches_around_what_it_does_not_depend_on(runner: Callable[[str], Runner]) -> None:
    """``a`` is computed before the MatMul and read after it, which is no reason to split the group."""
    made = model(
        [node("Relu", "x", "a"), node("MatMul", "u w", "m"), node("Add", "a m", "b"), node("Exp", "b", "y")],
        {"x": [2, 2], "u": [2, 2]},
        ["y"],
        {"w": floats(2, 2)},
    )
    outcome = runner(EP).run_one(Case(made, [{"x": floats(2, 2), "u": floats(2, 2)}]))
    assert outcome.operators(EP) == [["Add", "Exp", "Relu"]]


def test_a_subgraph_that_reads_a_value_counts_as_a_reader(runner: Callable[[str], Runner]) -> None:
    """The If uses ``a`` as an implicit input only; Relu and Add may not become one group around it."""

    def branch(name: str) -> onnx.GraphProto:
        value = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2])
        return helper.make_graph([node("Erf", "a", name)], name, [], [value])

    inputs = [
        helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2]),
    ]
    nodes = [
        node("Relu", "x", "a"),
        node("If", "c", "b", then_branch=branch("t"), else_branch=branch("e")),
        node("Add", "a b", "y"),
    ]
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])
    made = helper.make_model(
        helper.make_graph(nodes, "g", inputs, [output]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    case = Case(onnx.shape_inference.infer_shapes(made), [{"c": np.array(True), "x": floats(2)}])
    outcome = runner(EP).run_one(case)
    assert sorted(outcome.operators(EP)) == [["Add"], ["Relu"]]
    check(outcome, case)


def test_a_chain_of_1000_nodes_is_one_group(runner: Callable[[str], Runner]) -> None:
    made = chain("Add", 1000, ["n"], np.array([0.5], np.float32))
    feeds = [{"x": np.arange(n, dtype=np.float32)} for n in (1, 5000)]
    outcome = runner(EP).run_one(Case(made, feeds))
    assert [len(group) for group in outcome.operators(EP)] == [1000]
    for feed, outputs in zip(feeds, outcome.outputs, strict=True):
        np.testing.assert_array_equal(outputs["y"], feed["x"] + 500)


@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_give_the_reference_answer(runner: Callable[[str], Runner], seed: int) -> None:
    """Random DAGs of elementwise nodes and the odd Transpose, in random shapes that broadcast."""
    rng = np.random.default_rng(seed)
    cases = []
    for _ in range(8):
        values, nodes = ["x", "u", "v", "c"], []
        for i in range(int(rng.integers(3, 30))):
            pick = [str(name) for name in rng.choice(values, 2)]
            op = str(rng.choice(["Add", "Sub", "Mul", "Relu", "Tanh", "Sigmoid", "Neg", "Abs", "Transpose"]))
            operands = pick if op in ("Add", "Sub", "Mul") else pick[:1]
            # Transposing twice keeps the shape: a node that is not ours, in the middle of the graph.
            if op == "Transpose":
                nodes.append(node(op, operands[0], f"t{i}"))
                operands = [f"t{i}"]
            nodes.append(node(op, " ".join(operands), f"n{i}"))
            values.append(f"n{i}")
        read = {name for made in nodes for name in made.input}
        outputs = [n for n in values[4:] if n not in read or rng.random() < 0.15]
        shapes = {name: [d if rng.random() < 0.6 else 1 for d in (3, 40, 11)] for name in ("x", "u", "v")}
        inputs = {name: [f"{name}{i}" for i in range(3)] for name in shapes}
        made = model(nodes, inputs, outputs, {"c": floats(40, 11)})
        cases.append(Case(made, [{name: floats(*dims) - 1 for name, dims in shapes.items()}]))
    taken = 0
    for case, outcome in zip(cases, runner(EP).run(cases)[0], strict=True):
        check(outcome, case)
        taken += sum(len(group) for group in outcome.operators(EP))
    assert taken == sum(n.op_type != "Transpose" for case in cases for n in case.model.graph.node)


def test_shapes_that_do_not_fit_are_an_error_at_run_time(runner: Callable[[str], Runner]) -> None:
    made = model([node("Add", "a b", "c"), node("Exp", "c", "y")], {"a": ["n"], "b": ["m"]}, ["y"])
    outcome = runner(EP).run([Case(made, [{"a": floats(2), "b": floats(3)}])])[0][0]
    assert outcome.error is not None and "do not fit together" in outcome.message


def test_other_types_and_unknown_ranks_are_left_alone(runner: Callable[[str], Runner]) -> None:
    doubles = model([node("Add", "a a", "y")], {"a": [2]}, ["y"], element=onnx.TensorProto.DOUBLE)
    unknown = model([node("Relu", "a", "y")], {"a": None}, ["y"], infer=False)
    cases = [Case(doubles, [{"a": np.ones(2)}]), Case(unknown, [{"a": floats(2)}])]
    for case, outcome in zip(cases, runner(EP).run(cases)[0], strict=True):
        check(outcome, case)
        assert outcome.operators(EP) == []


def test_optimised_models_run_too(runner: Callable[[str], Runner]) -> None:
    """With the host's own graph optimisations on, which may rename, fold and reorder."""
    made = model(
        [
            node("Mul", "x k", "a"),
            node("Identity", "a", "b"),
            node("Add", "b k", "c"),
            node("Relu", "c", "y"),
        ],
        {"x": ["n", 4]},
        ["y"],
        {"k": floats(4)},
    )
    case = Case(made, [{"x": floats(3, 4)}], basic_optimizations_off=False)
    check(runner(EP).run_one(case), case)
