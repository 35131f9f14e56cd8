"""Operators that a plugin's factory or a library brings: known to sessions, inferred, checked, and run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from plugin_harness import Files, Tracer

DOMAIN = "test.trace"
FLOAT, DOUBLE, INT64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64
STRING = TensorProto.STRING
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


def custom(op_type: str, inputs: str, outputs: str, name: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), outputs.split(), name=name, domain=DOMAIN, **attributes)


def made(
    nodes: list[onnx.NodeProto],
    outputs: str = "y",
    *,
    version: int = 3,
    dims: Any = ("n", 3),
    types: dict[str, int] | None = None,
    inputs: str = "x",
    functions: list[onnx.FunctionProto] | None = None,
) -> onnx.ModelProto:
    types = types or {}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, types.get(n, FLOAT), dims) for n in inputs.split()],
        [helper.make_tensor_value_info(n, types.get(n, FLOAT), None) for n in outputs.split()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, version)]
    if functions:
        opsets.append(helper.make_opsetid("own", 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions or [])


ADD = helper.make_node("Add", ["a", "a"], ["y"], name="add")
TWICE = made([custom("Twice", "x", "a", "twice"), ADD])
ON_CPU = made([custom("Twice", "x", "a", "cpu_twice"), ADD])
FILES: Files = {
    "twice.onnx": TWICE,
    "on_cpu.onnx": ON_CPU,
    "x.npz": {"x": X},
    "double.npz": {"x": X.astype(np.float64)},
    "seven.npz": {"x": np.arange(7, dtype=np.float32)},
}
RUN = ("run", {"feeds": "x.npz"})


def opened(model: str = "m.onnx", **more: Any) -> tuple[str, dict[str, Any]]:
    return ("open", {"model": model, **more})


@pytest.mark.in_process("kernels run in groups")
def test_an_operator_of_the_ep_runs_by_its_own_kernel(host: str, traced: Tracer) -> None:
    actions = ["register", opened("twice.onnx"), "shapes", RUN, ("close", {}), "unregister"]
    _, session, shapes, ran, closed, _ = traced(host, actions, "custom_ops", FILES)
    assert session.value == [["trace", ["Twice"]], ["trace", ["Add"]]]
    assert session.only("GetNum", "GetCustom", "Twice") == [
        "GetNumCustomOpDomains",
        "GetCustomOpDomains of 1",
        "Twice: InferOutputShapeFn",
        "Twice: CreateKernel for 'twice'",
    ]
    assert shapes.value == [["y", "tensor(float)", ["n", 3]]]
    assert ran.only("Twice", "Compute") == ["Twice: KernelCompute", "Compute 'add'"]
    assert ran.value == [(4 * X).tolist()]
    assert closed.only("Twice") == ["Twice: KernelDestroy"]


def test_an_operator_of_the_ep_that_it_leaves_has_nobody(host: str, traced: Tracer) -> None:
    _, session = traced(host, ["register", opened("on_cpu.onnx")], "custom_ops", FILES)
    assert session.error == "NotImplemented" and "cpu_twice" in session.message


def test_an_operator_of_the_host_may_still_be_the_eps(host: str, traced: Tracer) -> None:
    _, session, ran = traced(host, ["register", opened("twice.onnx"), RUN], "custom_ops ops_on_cpu", FILES)
    assert session.only("CreateKernel", "Twice: Create") == ["CreateKernel 'twice'", "CreateKernel 'add'"]
    assert ran.value == [(4 * X).tolist()]


@pytest.mark.in_process("its process runs them, and they count as its EP's")
def test_what_the_ep_leaves_of_the_hosts_operators_runs_on_the_cpu(host: str, traced: Tracer) -> None:
    _, session, ran = traced(host, ["register", opened("on_cpu.onnx"), RUN], "custom_ops ops_on_cpu", FILES)
    assert ["CPUExecutionProvider", ["Twice"]] in session.value
    assert session.only("Twice: Create") == ["Twice: CreateKernel for 'cpu_twice'"]
    assert ran.only("Twice", "Compute") == ["Twice: KernelCompute", "Compute 'add'"]
    assert ran.value == [(4 * X).tolist()]


def test_variadic_inputs_optional_outputs_and_attributes(host: str, traced: Tracer) -> None:
    blend = custom("Blend", "x x x", "y z", "blend", weight=0.5)
    files = {**FILES, "m.onnx": made([blend], "y z", types={"z": INT64})}
    actions = ["register", opened(), "shapes", RUN, ("close", {})]
    _, session, shapes, ran, closed = traced(host, actions, "custom_ops", files)
    assert session.only("Blend") == [
        "Blend: InferOutputShapeFn of 3 inputs, the first of type 1, rank 2, -1 'n', weight given",
        "Blend: CreateKernelV2 with weight 0.5",
    ]
    assert shapes.value == [["y", "tensor(float)", ["n", 3]], ["z", "tensor(int64)", []]]
    assert ran.only("Blend") == ["Blend: KernelComputeV2 with 3 inputs and 2 outputs"]
    assert ran.value == [(1.5 * X).tolist(), 3]
    assert closed.only("Blend") == ["Blend: KernelDestroy"]


def test_an_attribute_may_be_left_out(host: str, traced: Tracer) -> None:
    files = {**FILES, "m.onnx": made([custom("Blend", "x", "y", "blend")])}
    _, session, ran = traced(host, ["register", opened(), RUN], "custom_ops", files)
    assert session.only("Blend")[0].endswith("weight not given")
    assert ran.value == [X.tolist()]


def test_an_output_without_a_type_has_the_inputs(host: str, traced: Tracer) -> None:
    model = made([custom("Blend", "x x", "y", "blend")], types={"x": DOUBLE, "y": DOUBLE}, dims=(2, 3))
    actions = ["register", opened(), "shapes", ("run", {"feeds": "double.npz"})]
    _, _, shapes, ran = traced(host, actions, "custom_ops", {**FILES, "m.onnx": model})
    assert shapes.value == [["y", "tensor(double)", [2, 3]]]
    assert ran.value == [(2 * X).tolist()]


def test_shapes_are_inferred_through_a_chain(host: str, traced: Tracer) -> None:
    nodes = [
        custom("Twice", "x", "a", "t1"),
        helper.make_node("Transpose", ["a"], ["b"], name="cpu"),
        custom("Blend", "b b", "c", "blend"),
        helper.make_node("Transpose", ["c"], ["y"], name="cpu2"),
    ]
    actions = ["register", opened(), "shapes", RUN]
    _, session, shapes, ran = traced(host, actions, "custom_ops", {**FILES, "m.onnx": made(nodes)})
    assert "Blend: InferOutputShapeFn of 2 inputs, the first of type 1, rank 2, 3 '', weight not given" in (
        session.lines
    )
    assert shapes.value == [["y", "tensor(float)", ["n", 3]]]
    assert ran.value == [(4 * X).tolist()]


def test_an_operator_in_a_branch_runs(host: str, traced: Tracer) -> None:
    branches = {
        name: helper.make_graph(
            [custom("Blend", "x " * times, name, f"in_{name}")],
            name,
            [],
            [helper.make_tensor_value_info(name, FLOAT, None)],
        )
        for name, times in (("then_branch", 2), ("else_branch", 3))
    }
    nodes = [helper.make_node("If", ["c"], ["y"], name="choice", **branches)]
    model = made(nodes, inputs="x c", types={"c": TensorProto.BOOL})
    del model.graph.input[1].type.tensor_type.shape.dim[:]
    files = {
        "m.onnx": model,
        "yes.npz": {"x": X, "c": np.array(True)},
        "no.npz": {"x": X, "c": np.array(False)},
    }
    actions = ["register", opened(), *(("run", {"feeds": f}) for f in ("yes.npz", "no.npz"))]
    _, session, yes, no = traced(host, actions, "custom_ops", files)
    assert not session.error, session.message
    assert [yes.value, no.value] == [[(2 * X).tolist()], [(3 * X).tolist()]]


def test_an_operator_in_a_function_runs(host: str, traced: Tracer) -> None:
    function = helper.make_function(
        "own",
        "Fn",
        ["x"],
        ["y"],
        [custom("Blend", "x x", "y", "inner")],
        [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 3)],
    )
    model = made([helper.make_node("Fn", ["x"], ["y"], name="fn", domain="own")], functions=[function])
    _, session, ran = traced(host, ["register", opened(), RUN], "custom_ops", {**FILES, "m.onnx": model})
    assert not session.error, session.message
    assert ran.value == [(2 * X).tolist()]


def test_a_failing_kernel_fails_the_run(host: str, traced: Tracer) -> None:
    model = made([custom("Blend", "x", "y", "blend")], dims=(7,))
    actions = ["register", opened(), ("run", {"feeds": "seven.npz"})]
    _, _, ran = traced(host, actions, "custom_ops", {**FILES, "m.onnx": model})
    assert ran.error == "EPFail" and "seven is too much" in ran.message and "blend" in ran.message


def test_a_kernel_that_cannot_be_made_fails_the_session(host: str, traced: Tracer) -> None:
    model = made([custom("Blend", "x", "y", "blend", weight=-1.0)])
    _, session, _ = traced(host, ["register", opened(), "unregister"], "custom_ops", {"m.onnx": model})
    assert session.error and "a weight below 0" in session.message
    assert session.lines[-1] == "ReleaseEp"


WRONG = {
    "no input": made([custom("Twice", "", "y", "t")]),
    "two inputs": made([custom("Twice", "x x", "y", "t")]),
    "three outputs": made([custom("Blend", "x", "y p q", "t")]),
    "another type": made([custom("Twice", "x", "y", "t")], types={"x": DOUBLE, "y": DOUBLE}),
    "another type of output": made([custom("Twice", "x", "y", "t")], types={"y": DOUBLE}),
    "its input's type": made([custom("Blend", "x", "y", "t")], types={"y": DOUBLE}),
    "two types": made([custom("Blend", "x d", "y", "t")], inputs="x d", types={"d": DOUBLE}),
}


@pytest.mark.parametrize("what", WRONG)
def test_nodes_that_do_not_fit_their_operator_are_refused(host: str, what: str, traced: Tracer) -> None:
    _, session = traced(host, ["register", opened()], "custom_ops", {"m.onnx": WRONG[what]})
    assert session.error in ("InvalidGraph", "Fail"), session.message
    assert session.only("CreateEp", "Blend: Create") == [] or host == "ephost"
    if host == "ephost":
        assert session.error == "InvalidGraph" and "'t'" in session.message


def test_an_operator_is_unknown_before_its_first_version(host: str, traced: Tracer) -> None:
    files = {
        "early.onnx": made([custom("Blend", "x", "y", "blend")], version=1),
        "late.onnx": made([custom("Blend", "x", "y", "blend")], version=4),
    }
    _, early, late = traced(
        host, ["register", opened("early.onnx"), opened("late.onnx")], "custom_ops", files
    )
    assert early.error
    assert not late.error, late.message


def test_operators_are_known_to_sessions_with_their_plugin_only(host: str, traced: Tracer) -> None:
    _, without = traced(host, ["register", opened("on_cpu.onnx", on=False)], "custom_ops ops_on_cpu", FILES)
    assert without.error


def test_a_domain_that_is_missing_does_no_harm(host: str, traced: Tracer) -> None:
    _, session, ran = traced(host, ["register", opened("twice.onnx"), RUN], "custom_ops bad_ops", FILES)
    assert not session.error, session.message
    assert ran.value == [(4 * X).tolist()]


def test_a_library_of_operators_runs_on_the_cpu(host: str, traced: Tracer) -> None:
    actions = [opened("twice.onnx", on=False, custom=True), "shapes", RUN, ("close", {})]
    session, shapes, ran, closed = traced(host, actions, "", FILES)
    assert session.only("Register", "Twice") == [
        "RegisterCustomOps",
        "Twice: InferOutputShapeFn",
        "Twice: CreateKernel for 'twice'",
    ]
    assert shapes.value == [["y", "tensor(float)", ["n", 3]]]
    assert ran.only("Twice") == ["Twice: KernelCompute"]
    assert ran.value == [(4 * X).tolist()]
    assert closed.only("Twice") == ["Twice: KernelDestroy"]


@pytest.mark.in_process("kernels run in groups")
def test_an_ep_may_claim_what_a_library_brings(host: str, traced: Tracer) -> None:
    _, session, ran = traced(host, ["register", opened("twice.onnx", custom=True), RUN], "", FILES)
    assert session.value == [["trace", ["Twice"]], ["trace", ["Add"]]]
    assert ran.value == [(4 * X).tolist()]


def test_a_library_comes_before_the_plugins_operators(host: str, traced: Tracer) -> None:
    _, session = traced(host, ["register", opened("twice.onnx", custom=True)], "custom_ops", FILES)
    assert session.only("CreateKernel", "Twice: Create") == ["CreateKernel 'twice'", "CreateKernel 'add'"]


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_a_librarys_operators_may_be_in_onnxs_domain(host: str, domain: str, traced: Tracer) -> None:
    twice = helper.make_node("Twice", ["x"], ["a"], name="twice", domain=domain)
    actions = [opened(on=False, custom=True), "shapes", RUN, opened(on=False)]
    _, shapes, ran, without = traced(host, actions, "ops_of_onnx", {**FILES, "m.onnx": made([twice, ADD])})
    assert shapes.value == [["y", "tensor(float)", ["n", 3]]]
    assert ran.only("Twice") == ["Twice: KernelCompute"]
    assert ran.value == [(4 * X).tolist()]
    assert without.error == "InvalidGraph" and "Twice" in without.message


@pytest.mark.parametrize("beside", ["the CPU plugin", "the fallback"])
def test_a_librarys_operator_stands_for_onnxs_of_its_name(
    host: str, beside: str, traced: Tracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_CPU_PLUGIN", str(int(beside == "the CPU plugin")))
    nodes = [
        helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(X)),
        helper.make_node("Neg", ["c"], ["t"], name="of a constant"),
        *[helper.make_node("Neg", ["x"], [f"{n}"], name=f"{n}") for n in ("a", "b")],
        helper.make_node("Sum", ["t", "a", "b"], ["y"]),
    ]
    actions = [opened(on=False, custom=True), RUN]
    _, ran = traced(host, actions, "ops_of_onnx twice_is_neg", {**FILES, "m.onnx": made(nodes)})
    assert ran.value == [(6 * X).tolist()]


BORROWED = {
    "ONNX's": ("Add", "", 14, "T", 2, -100, 2 * X),
    "ONNX's, by its long name": ("Softmax", "ai.onnx", 13, "T", 1, 0, softmax(X, 0)),
}


def borrowing(op: str, domain: str, version: int, of: str, inputs: int, axis: int) -> onnx.ModelProto:
    asked = {"op": op, "in_domain": domain, "version": version, "of": of, "number": inputs, "axis": axis}
    return made([custom("Borrow", "x", "y", "borrow", **asked)])


@pytest.mark.parametrize("what", BORROWED)
def test_a_kernel_calls_an_operator_of_the_host(host: str, what: str, traced: Tracer) -> None:
    *asked, wanted = BORROWED[what]
    actions = [opened(on=False, custom=True), RUN, RUN, ("close", {})]
    session, ran, again, closed = traced(host, actions, "", {**FILES, "m.onnx": borrowing(*asked)})
    assert session.only("Borrow") == ["Borrow: made"], session.message
    np.testing.assert_allclose(ran.value[0], wanted, rtol=1e-5)
    assert again.value == ran.value
    assert closed.only("Borrow") == ["Borrow: gone"]


def test_a_kernel_of_a_plugins_calls_one_too(host: str, traced: Tracer) -> None:
    nodes = [*borrowing("Add", "", 14, "T", 2, -100).graph.node, custom("Twice", "y", "z", "twice")]
    actions = ["register", opened(), RUN]
    _, _, ran = traced(host, actions, "custom_ops", {**FILES, "m.onnx": made(nodes, "z")})
    assert ran.value == [(4 * X).tolist()]


WRONG_CALLS = {
    "no such operator": (("Adding", "", 14, "T", 2, -100), "Adding"),
    "no such type": (("Add", "", 14, "U", 2, -100), ""),
    "no such attribute": (("Add", "", 14, "T", 2, 1), ""),
    "too many inputs": (("Relu", "", 14, "T", 2, -100), ""),
}


@pytest.mark.parametrize("what", WRONG_CALLS)
def test_a_call_of_an_operator_that_cannot_be_is_an_error(what: str, traced: Tracer) -> None:
    asked, named = WRONG_CALLS[what]
    (session,) = traced("ephost", [opened(on=False, custom=True)], "", {**FILES, "m.onnx": borrowing(*asked)})
    assert session.error and named in session.message and asked[0] in session.message


def test_what_a_called_operator_makes_has_to_fit(traced: Tracer) -> None:
    # Borrow gives memory of its input's shape for it.
    model = borrowing("GlobalAveragePool", "", 1, "T", 1, -100)
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", FLOAT, [1, 2, "n"]))
    files = {**FILES, "m.onnx": model, "x.npz": {"x": X.reshape(1, 2, 3)}}
    _, ran = traced("ephost", [opened(on=False, custom=True), RUN], "", files)
    assert ran.error and "[1, 2, 1]" in ran.message and "[1, 2, 3]" in ran.message


def test_a_library_that_fails_to_register_says_why(host: str, traced: Tracer) -> None:
    (session,) = traced(host, [opened("twice.onnx", on=False, custom=True)], "bad_ops", FILES)
    assert session.error == "EPFail" and "the shop is closed" in session.message


def test_an_output_of_another_shape_than_declared_is_told_once(
    trace_library: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """onnxruntime says so, too, at every run."""
    import ephost

    model = made(
        [custom("Shout", "x", "y lengths", "loud")], "y lengths", dims=[2], types={"x": STRING, "y": STRING}
    )
    declared = helper.make_tensor_value_info("lengths", INT64, [5, 2])
    model.graph.output[1].CopyFrom(declared)
    options = ephost.SessionOptions()
    options.register_custom_ops_library(str(trace_library))
    session = ephost.InferenceSession(model.SerializeToString(), options)
    with caplog.at_level(logging.WARNING, "ephost"):
        for _ in range(3):
            _, lengths = session.run(None, {"x": np.array(["a", "bc"])})
            assert lengths.tolist() == [[1, 0], [2, 0]]
    told = [record.message for record in caplog.records if "where the model says" in record.message]
    assert told == ["output 1 of node 'loud' (Shout) has the shape [2,2] where the model says [5,2]"]


TEXTS = ["", "a", "text that is long enough to be in memory of its own", "\u00fc"]


def shouts(dims: list[Any]) -> Files:
    """Texts that go through kernels, the reference operators, a body of an If, and out once in between."""
    bodies = {
        name: helper.make_graph(
            [custom("Shout", source, name, f"in_{name}")],
            name,
            [],
            [helper.make_tensor_value_info(name, STRING, None)],
        )
        for name, source in (("then_branch", "b"), ("else_branch", "a"))
    }
    nodes = [
        custom("Shout", "x", "a la", "first"),
        custom("Shout", "a", "b lb", "second"),
        helper.make_node("If", ["yes"], ["c"], name="choice", **bodies),
        helper.make_node("Identity", ["c"], ["d"], name="same"),
        helper.make_node("Identity", ["w"], ["weight"], name="lent"),
        custom("Shout", "d", "y", "last"),
        helper.make_node("ReduceSum", ["lb"], ["sum"], name="sum", keepdims=0),
    ]
    types = {"sum": INT64} | dict.fromkeys(("x", "y", "weight", "b", "la"), STRING)
    model = made(nodes, "y sum weight b la", dims=dims, types=types)
    model.graph.input.append(helper.make_tensor_value_info("yes", TensorProto.BOOL, []))
    model.graph.output[-1].type.tensor_type.elem_type = INT64
    model.graph.initializer.append(helper.make_tensor("w", STRING, [2], [b"kept", b"as it is"]))
    return {"m.onnx": model, "texts.npz": {"x": np.array(TEXTS), "yes": np.array(True)}}


SHOUTED = [
    [text + "!!!!" for text in TEXTS],
    sum(len(text.encode()) + 1 for text in TEXTS),
    ["kept", "as it is"],
    [text + "!!" for text in TEXTS],
    [[len(text.encode()), 0] for text in TEXTS],
]


@pytest.mark.parametrize("dims", [[4], ["n"]])
@pytest.mark.parametrize("runner", ["the library", "the EP", "the EP in place"])
def test_strings_go_through_every_kind_of_step(
    host: str, runner: str, dims: list[Any], traced: Tracer
) -> None:
    taken = runner != "the library"
    # onnxruntime binds no texts.
    ways = ("run", "run_bound") if host == "ephost" else ("run",)
    actions = [
        *(["register"] if taken else []),
        opened(on=taken, custom=not taken),
        *((way, {"feeds": "texts.npz", "times": 300}) for way in ways),
    ]
    mode = ("custom_ops" if taken else "") + (" in_place" if runner.endswith("place") else "")
    results = traced(host, actions, mode, shouts(dims))
    session, runs = results[-1 - len(ways)], results[-len(ways) :]
    assert not session.error, session.message
    for ran in runs:
        assert not ran.error, ran.message
        assert ran.value == SHOUTED
