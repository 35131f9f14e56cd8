"""ephost.explain: partitions, bytes across their borders, and the reason of each node that fell back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import ephost as ort
import numpy as np
import pytest
from ephost.errors import Fail
from ephost.explained_graph import ExplainedNode
from ephost.explanation import (
    Explanation,
    FallbackNode,
    Partition,
    Refusal,
    start_profile,
    step_times,
)
from ephost.plugins import sample_compiler, sample_kernels
from onnx import parser

PLUGINS = {"compiler": sample_compiler, "kernels": sample_kernels}
HEAD = '<ir_version: 8, opset_import: ["": 17]>'


@pytest.fixture(autouse=True)
def plugins() -> Iterator[None]:
    for name, plugin in PLUGINS.items():
        ort.register_execution_provider_library(name, plugin.get_library_path())
    yield
    for name in PLUGINS:
        ort.unregister_execution_provider_library(name)


def explained(model: str, *libraries: str) -> Explanation:
    with_options = ort.SessionOptions()
    for name in libraries:
        devices = [d for d in ort.get_ep_devices() if d.registration_name == name]
        with_options.add_provider_for_devices(devices, {})
    session = ort.InferenceSession(parser.parse_model(HEAD + model).SerializeToString(), with_options)
    return ort.explain(session)


MIXED = """g (float[2, 3] x, float[3, 4] w) => (float[2, 4] y) <float[4] bias = {1, 2, 3, 4}> {
    product = MatMul(x, w)
    strange = Erf(product)
    sum = Add(strange, bias)
    y = Relu(sum)
}"""


@pytest.mark.in_process("kernels run in groups")
def test_partitions_are_runs_of_nodes_on_one_ep_with_the_bytes_across_their_borders() -> None:
    found = explained(MIXED, "kernels")
    assert [(p.ep_name, p.kind, [n.op_type for n in p.nodes]) for p in found.partitions] == [
        ("sample_kernels", "kernels", ["MatMul"]),
        ("CPUExecutionProvider", "fallback", ["Erf"]),
        ("sample_kernels", "kernels", ["Add", "Relu"]),
    ]
    first, middle, last = found.partitions
    assert (first.bytes_in, first.bytes_out, first.constant_bytes) == ((2 * 3 + 3 * 4) * 4, 2 * 4 * 4, 0)
    assert [flow.name for flow in first.inputs] == ["x", "w"]
    assert (middle.bytes_in, middle.bytes_out, middle.constant_bytes) == (32, 32, 0)
    assert (last.bytes_in, last.bytes_out, last.constant_bytes) == (32, 32, 16)
    assert [flow.name for flow in last.outputs] == ["y"]
    assert found.node_count == 4


def test_a_fused_group_is_one_partition_that_counts_the_constants_of_its_members() -> None:
    found = explained(MIXED, "compiler")
    compiled = [p for p in found.partitions if p.kind == "compiled"]
    assert [sorted(p.op_counts) for p in compiled] == [["Add", "Relu"]]
    assert compiled[0].constant_bytes == 16
    assert [flow.name for flow in compiled[0].inputs] == ["strange"]
    assert (found.providers[0].groups, found.providers[0].nodes) == (1, 2)


def test_bytes_of_unknown_shapes_are_not_made_up() -> None:
    found = explained("g (float[n, 2] x) => (float[n, 2] y) { y = Relu(x) }", "kernels")
    assert found.partitions[0].bytes_in is None
    assert found.partitions[0].inputs[0].type == "float[n,2]"


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("g (float[2] x) => (float[2] y) { y = Erf(x) }", "its registry has no kernel for Erf"),
        (
            "g (double[2] x) => (double[2] y) { y = Relu(x) }",
            "its kernels for Relu version 14 take T = float, not double",
        ),
    ],
)
def test_a_node_without_a_kernel_says_what_the_registry_lacks(model: str, reason: str) -> None:
    (entry,) = explained(model, "kernels").fallback
    assert [(r.ep_name, r.reason) for r in entry.reasons] == [("sample_kernels", reason)]


def test_a_node_of_a_version_without_a_kernel_says_which_versions_there_are() -> None:
    old = parser.parse_model(
        '<ir_version: 4, opset_import: ["": 6]> g (float[2] x) => (float[2] y) { y = Add(x, x) }'
    )
    options = ort.SessionOptions()
    options.add_provider_for_devices(
        [d for d in ort.get_ep_devices() if d.registration_name == "kernels"], {}
    )
    (entry,) = ort.explain(ort.InferenceSession(old.SerializeToString(), options)).fallback
    assert entry.reasons[0].reason.startswith("its kernels for Add are for version 7")
    assert entry.reasons[0].reason.endswith(", not 6")


def test_a_claim_that_was_refused_is_shown_and_is_the_reason_of_its_nodes(
    bad_plugin: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_BAD", "claim_all_as_one")
    ort.register_execution_provider_library("circle", bad_plugin())
    try:
        found = explained(
            """g (float[2] x) => (float[2] y) {
                [first] a = Add(x, x)
                [between] b = Erf(a)
                [last] y = Add(a, b)
            }""",
            "circle",
        )
    finally:
        ort.unregister_execution_provider_library("circle")
    (claim,) = found.refused
    assert claim.ep_name == "bad_plugin"
    assert sorted(node.name for node in claim.nodes) == ["first", "last"]
    assert "'between' (Erf)" in claim.reason
    reasons = {entry.node.name: entry.reasons[0].reason for entry in found.fallback}
    assert reasons["first"] == f"it claimed the node, which was refused: {claim.reason}"
    assert reasons["between"] == "it did not claim the node"


def test_every_ep_of_the_session_gives_its_reason() -> None:
    (entry,) = explained("g (float[2] x) => (float[2] y) { y = Erf(x) }", "compiler", "kernels").fallback
    assert [(r.ep_name, r.reason) for r in entry.reasons] == [
        ("sample_compiler", "it did not claim the node"),
        ("sample_kernels", "its registry has no kernel for Erf"),
    ]


@pytest.mark.in_process("kernels run in groups")
def test_what_goes_to_a_later_ep_says_why_the_earlier_ones_left_it() -> None:
    found = explained(MIXED, "compiler", "kernels")
    (row,) = found.passed_on()
    assert (row.operator, row.ep_name, [node.name for node in row.nodes]) == (
        *("MatMul", "sample_kernels"),
        [node.name for p in found.partitions for node in p.nodes if node.op_type == "MatMul"],
    )
    assert row.why == "sample_compiler: it did not claim the node"
    assert "Left to later execution providers: 1 of 4 nodes" in str(found)
    assert "Left to later" not in str(explained(MIXED, "kernels"))


def test_nodes_that_a_plugin_leaves_by_name_for_one_reason_are_one_row() -> None:
    nodes = tuple(ExplainedNode(at, f"n{at}", "", "Exp") for at in range(30))
    reasons = {
        node.index: (Refusal("vendor", f"it did not claim the node; it says: '{node.name}' is too wide"),)
        for node in nodes
    }
    partition = Partition("late", "compiled", nodes, (), (), 0, False)
    told = Explanation("m", (), (partition,), (), (), {}, 0, 0, refusals=reasons)
    (row,) = told.passed_on()
    assert len(row.nodes) == 30 and row.why.endswith("it says: 'n0' is too wide")
    fallback = tuple(FallbackNode(node, 13, ("float",), reasons[node.index]) for node in nodes)
    left = Explanation("m", (), (), fallback, (), {}, 0, 0)
    (table,) = (each for each in left.tables() if each.title.startswith("Left to the fallback"))
    assert [list(row) for row in table.rows] == [
        ["Exp-13", "30", "n0, n1 and 28 more", "float", "vendor: " + reasons[0][0].reason]
    ]


def test_a_session_without_eps_explains_that_it_has_none() -> None:
    found = explained("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    assert found.providers == ()
    assert found.fallback[0].reasons == ()
    assert "the session was given no execution provider" in str(found)


def test_partitions_in_the_bodies_of_control_flow_are_marked() -> None:
    found = explained(
        """g (bool c, float[2] x) => (float[2] y) {
            y = If(c) <
                then_branch = t () => (float[2] a) { a = Relu(x) },
                else_branch = e () => (float[2] b) { b = Erf(x) }
            >
        }""",
        "kernels",
    )
    bodies = [p for p in found.partitions if p.in_body]
    assert sorted((p.ep_name, p.nodes[0].op_type) for p in bodies) == [
        ("CPUExecutionProvider", "Erf"),
        ("sample_kernels", "Relu"),
    ]
    assert [p.nodes[0].op_type for p in found.partitions if not p.in_body] == ["If"]


def test_a_dict_of_it_is_json_and_holds_what_the_object_holds() -> None:
    found = explained(MIXED, "kernels")
    data = json.loads(json.dumps(found.to_dict()))
    assert [p["op_counts"] for p in data["partitions"]] == [{"MatMul": 1}, {"Erf": 1}, {"Add": 1, "Relu": 1}]
    assert [p["bytes_out"] for p in data["partitions"]] == [32, 32, 32]
    assert data["fallback"][0]["reasons"][0]["reason"] == "its registry has no kernel for Erf"
    assert data["node_count"] == 4
    assert set(data["stages"]) >= {"load", "infer", "partition", "plan", "total"}


def test_the_stages_of_opening_add_up_to_no_more_than_the_whole() -> None:
    stages = explained(MIXED, "kernels").stages
    total = stages.pop("total")
    assert 0 < sum(stages.values()) <= total


def test_the_headline_gives_the_memory_that_values_share_where_there_are_any() -> None:
    chain = """g (float[64] x) => (float[64] y)
        { a = Relu(x)  b = Erf(a)  c = Relu(b)  d = Erf(c)  e = Relu(d)  y = Erf(e) }"""
    found = explained(chain, "kernels")
    assert (found.arena_bytes, found.planned_bytes) == (256, 3 * 256)
    assert found.headline().endswith("; a run plans 256 B for values of 768 B")
    assert "a run plans" not in explained(chain).headline()


@pytest.mark.in_process("kernels run in groups")
def test_the_text_aligns_its_columns() -> None:
    lines = str(explained(MIXED, "kernels")).splitlines()
    header = next(line for line in lines if line.lstrip().startswith("#  EP"))
    at = header.index("kind")
    rows = lines[lines.index(header) + 1 :][:3]
    assert [row[at:].split()[0] for row in rows] == ["kernels", "fallback", "kernels"]


def test_a_closed_session_is_an_error() -> None:
    session = ort.InferenceSession(parser.parse_model(HEAD + MIXED).SerializeToString())
    session.close()
    with pytest.raises(Fail, match="closed"):
        ort.explain(session)


def test_what_is_no_session_is_refused() -> None:
    with pytest.raises(TypeError, match=r"as InferenceSession\(model\) opens one, not <class 'str'>"):
        ort.explain("model.onnx")  # type: ignore[arg-type]


def test_step_times_are_of_profiled_runs_only() -> None:
    options = ort.SessionOptions()
    options.add_provider_for_devices(
        [d for d in ort.get_ep_devices() if d.registration_name == "compiler"], {}
    )
    session = ort.InferenceSession(parser.parse_model(HEAD + MIXED).SerializeToString(), options)
    feed = {"x": np.ones((2, 3), np.float32), "w": np.ones((3, 4), np.float32)}
    session.run(None, feed)
    start_profile(session)
    for _ in range(3):
        session.run(None, feed)
    times = step_times(session)
    assert {(t.ep_name, t.op_type, t.nodes, t.calls) for t in times} >= {
        ("CPUExecutionProvider", "Erf", 1, 3),
        ("sample_compiler", "Add, Relu", 2, 3),
    }
    assert [t.seconds for t in times] == sorted((t.seconds for t in times), reverse=True)
    assert step_times(session) == []
    del session
