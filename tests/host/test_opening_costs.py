"""What makes opening quick must not change what comes out."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from ephost._bindings import call, packed
from ephost.errors import Fail, InvalidGraph, InvalidProtobuf
from ephost.messages import NodeProto
from ephost.model import infer as infer_module
from ephost.model.data_files import DataFiles
from ephost.model.fold import drop_unused_initializers, fill, fold
from ephost.model.graph import Model, Node, Value, tensor_type, topological_order
from ephost.model.groups import Fusing
from ephost.model.infer import infer
from ephost.model.inline import inline_calls, restore
from ephost.model.load import load, value_type
from ephost.plugins import cpu
from ephost.reference import create_kernel
from onnx import TensorProto, helper, numpy_helper, parser


def model(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{text}')


def test_texts_for_c_have_one_nul_each_whatever_is_in_them() -> None:
    assert packed(["a", "", "é"]) == b"a\0\0\xc3\xa9\0"
    assert packed(["a\0b", "c"]) == "a\ufffdb\0c\0".encode()
    assert packed([]) == b""


def test_a_node_with_a_nul_in_its_name_runs() -> None:
    proto = model("g (float[1] x) => (float[1] y) { t = Neg(x) \n y = Neg(t) }")
    proto.graph.node[0].name = "first\0node"
    session = ephost.InferenceSession(proto.SerializeToString())
    assert session.run(None, {"x": np.ones(1, np.float32)})[0].tolist() == [1]


def test_equal_types_are_one_object() -> None:
    proto = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, "n", None])
    again = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, "n", None])
    assert value_type(proto) is value_type(again)
    assert value_type(proto) is tensor_type(TensorProto.FLOAT, (2, "n", None))
    assert tensor_type(1, (2, 3)).static_dims == (2, 3)
    assert tensor_type(1, (2, "n")).static_dims is None
    assert tensor_type(1, ()).static_dims == ()
    assert tensor_type(1, None).static_dims is None


def test_nodes_out_of_order_are_put_in_order_and_others_left_alone() -> None:
    nodes = load(model("g (float[1] x) => (float[1] y) { t = Neg(x) \n y = Neg(t) }")).graph.nodes
    assert topological_order(nodes) is nodes
    assert topological_order(nodes[::-1]) == nodes


def test_folding_asks_for_inference_where_a_shape_follows_from_the_data() -> None:
    made = load(
        model(
            """g (float[n] x) => (float[a, b] y)
            <int64[2] one = {1, 2}, int64[2] two = {3, 1}>
            { shape = BitwiseXor(one, two) \n y = Expand(x, shape) }"""
        )
    )
    infer(made)
    assert fold(made)
    assert [n.op_type for n in made.graph.nodes] == ["Expand"]


def test_what_constants_fill_is_a_constant_before_inference() -> None:
    """Reshape of opset 13 looks at constants alone."""
    proto = model(
        """g (float[8, n] x) => (float[a, b, c] y)
        <int64[1] three = {3}>
        { shape = ConstantOfShape <value: tensor = int64[1] {2}> (three) \n y = Reshape(x, shape) }"""
    )
    proto.opset_import[0].version = 13
    made = load(proto)
    fill(made)
    assert [n.op_type for n in made.graph.nodes] == ["Reshape"]
    assert "three" not in made.graph.values
    infer(made)
    assert made.graph.outputs[0].type == tensor_type(TensorProto.FLOAT, (2, 2, 2))


@pytest.mark.parametrize("declared", ["int64[3]", "float[2]", "float[3, 1]", "seq(float[3])"])
def test_what_contradicts_its_declaration_is_left_to_inference(declared: str) -> None:
    text = f"""g (float[3] x) => (float[3] y) <int64[1] three = {{3}}, {declared} zeros>
      {{ zeros = ConstantOfShape(three) \n y = Add(x, zeros) }}"""
    made = load(model(text))
    fill(made)
    assert [n.op_type for n in made.graph.nodes] == ["ConstantOfShape", "Add"]


@pytest.mark.parametrize("declared", ["float[3]", "float[n]", "float[]"])
def test_what_agrees_with_its_declaration_has_its_own_type(declared: str) -> None:
    text = f"""g (float[3] x) => (float[3] y) <int64[1] three = {{3}}, {declared} zeros>
      {{ zeros = ConstantOfShape(three) \n y = Add(x, zeros) }}"""
    made = load(model(text))
    fill(made)
    assert made.graph.values["zeros"].type == tensor_type(TensorProto.FLOAT, (3,))


@pytest.mark.parametrize("name", ["ConstantFolding", "another"])
def test_nothing_is_filled_where_folding_is_not_wanted(name: str) -> None:
    text = """g (float[3] x) => (float[3] y) <int64[1] three = {3}>
      { zeros = ConstantOfShape(three) \n y = Mul(x, zeros) }"""
    options = ephost.SessionOptions()
    options.add_session_config_entry("optimization.disable_specified_optimizers", name)
    session = ephost.InferenceSession(model(text).SerializeToString(), options)
    kinds = [n.op_type for part in ephost.explain(session).partitions for n in part.nodes]
    assert ("ConstantOfShape" in kinds) == (name == "ConstantFolding")


def test_folding_asks_for_no_inference_where_only_numbers_follow() -> None:
    made = load(
        model(
            """g (float[n, 2] x) => (float[n, 2] y)
            <float[2] one = {1, 2}, float[2] two = {3, 1}>
            { sum = Add(one, two) \n y = Mul(x, sum) }"""
        )
    )
    infer(made)
    assert not fold(made)
    assert [n.op_type for n in made.graph.nodes] == ["Mul"]


def test_the_scales_of_resize_inform_inference_after_folding() -> None:
    made = load(
        model(
            """g (float[1, 1, 2, 2] x) => (float[a, b, c, d] y)
            <float[4] one = {1, 1, 1, 1}, float[4] two = {0, 0, 1, 1}>
            { scales = Add(one, two) \n y = Resize(x, , scales) }"""
        )
    )
    infer(made)
    assert fold(made)
    infer(made)
    assert made.graph.outputs[0].type == tensor_type(TensorProto.FLOAT, (1, 1, 4, 4))


def test_a_large_constant_gives_its_shape_to_inference_without_its_data() -> None:
    weights = numpy_helper.from_array(np.ones((8, 4), np.float32), "w")
    proto = model("g (float[n, 8] x) => (float[a, b] y) { y = MatMul(x, w) }")
    proto.graph.initializer.append(weights)
    made = load(proto)
    infer(made)
    assert made.graph.values["y"].type == tensor_type(TensorProto.FLOAT, ("a", 4))


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_a_session_that_runs_nothing_in_parallel_starts_no_thread() -> None:
    proto = model("g (float[1] x) => (float[1] y) { y = Neg(x) }")
    options = ephost.SessionOptions()
    options.intra_op_num_threads = 5
    before = len(os.listdir("/proc/self/task"))
    session = ephost.InferenceSession(proto.SerializeToString(), options)
    session.run(None, {"x": np.ones(1, np.float32)})
    assert len(os.listdir("/proc/self/task")) == before


def test_what_needs_more_imports_is_there_when_asked_for() -> None:
    assert ephost.abi_coverage().counts()["OrtApi"]["native"] > 0
    assert {"abi_coverage", "InferenceSession"} <= set(dir(ephost))


@pytest.mark.parametrize(
    ("rows", "reader", "is_left"),
    [
        (1024, "y = MatMul (x, turned)", True),
        (64, "y = MatMul (x, turned)", False),
        (1024, "z = MatMul (x, turned) \n y = Concat <axis = 0> (z, turned)", False),
        (1024, "y = MatMul (turned, x)", False),
    ],
)
def test_large_matrices_stay_as_they_are_for_products_that_take_them_transposed(
    rows: int, reader: str, is_left: bool
) -> None:
    text = (
        f"g (float[{rows}, 512] x) => (float[a, b] y) "
        f"{{ turned = Transpose <perm = [1, 0]> (w) \n {reader} }}"
    )
    for leave in (True, False):
        proto = model(text)
        weights = np.ones((rows, 512), np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
        made = load(proto)
        infer(made)
        fold(made, leave_transposed=leave)
        assert ("Transpose" in [node.op_type for node in made.graph.nodes]) == (leave and is_left)


def test_matrices_in_the_body_of_a_function_stay_as_well() -> None:
    """The body takes the place of its call once nobody has claimed that, for its Unique."""
    weights = numpy_helper.from_array(np.ones((1024, 512), np.float32), "w")
    body = [
        helper.make_node("Constant", [], ["w"], value=weights),
        helper.make_node("Transpose", ["w"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "turned"], ["product"]),
        helper.make_node("Unique", ["product"], ["y"]),
    ]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]
    function = helper.make_function("f", "Part", ["x"], ["y"], body, opsets[:1])
    graph = helper.make_graph(
        [helper.make_node("Part", ["x"], ["y"], domain="f")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 512])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    )
    proto = helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=10)
    options = ephost.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    ephost.register_execution_provider_library("takes transposed", cpu.get_library_path())
    try:
        session = ephost.InferenceSession(
            proto.SerializeToString(), options, providers=["takes transposed"], enable_fallback=0
        )
        parts = session.get_provider_graph_assignment_info()
        assert [node.op_type for part in parts for node in part.nodes][:2] == ["Transpose", "MatMul"]
        session.close()
    finally:
        ephost.unregister_execution_provider_library("takes transposed")


def test_a_value_that_thousands_of_fused_nodes_read_is_looked_at_once() -> None:
    x, shared = helper.make_tensor_value_info("x", 1, [1]), helper.make_tensor_value_info("s", 1, [1])
    count = 40_000
    names = ["x", *(f"v{at}" for at in range(count))]
    nodes = [helper.make_node("Add", [names[at], "s"], [names[at + 1]]) for at in range(count)]
    last = helper.make_tensor_value_info(names[-1], 1, [1])
    made = load(helper.make_model(helper.make_graph(nodes, "g", [x, shared], [last])))
    graph, started = made.graph, time.process_time()
    given, result = graph.values["s"], graph.outputs[0]
    fused = Node(made.new_index(), NodeProto(op_type="F"), "F", "", "", 1, [*graph.inputs], [result])
    fusing = Fusing(graph)
    fusing.replace(list(graph.nodes), fused)
    fusing.settle()
    assert given.consumers == {fused: 1} and result.producer is fused and graph.nodes == [fused]
    assert time.process_time() - started < 5  # once for each node: a quarter of a minute


def test_thousands_of_groups_open_in_proportion(sample_compiler: list) -> None:
    count = 6_000  # groups of two, with a node between them that the plugin does not take
    nodes = []
    for at in range(count):
        nodes.append(helper.make_node("Mul", [f"v{at}", "x"], [f"a{at}"]))
        nodes.append(helper.make_node("Add", [f"a{at}", "x"], [f"b{at}"]))
        nodes.append(helper.make_node("Erf", [f"b{at}"], [f"v{at + 1}"]))
    nodes[0].input[0] = "x"
    x = helper.make_tensor_value_info("x", 1, [2])
    graph = helper.make_graph(nodes, "g", [x], [helper.make_tensor_value_info(f"v{count}", 1, [2])])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = ephost.SessionOptions()
    options.add_provider_for_devices(sample_compiler, {})
    started = time.process_time()
    session = ephost.InferenceSession(proto.SerializeToString(), options)
    seconds = time.process_time() - started
    assert len(ephost.explain(session).partitions) > count
    assert seconds < 30  # minutes where each group looks at all nodes


@pytest.mark.parametrize("weights", [5, 20_000])  # most nodes are equal, or none are
def test_a_node_of_thousands_of_inputs_costs_in_proportion(weights: int) -> None:
    count = 20_000
    constants = [numpy_helper.from_array(np.array([at], np.float32), f"w{at}") for at in range(weights)]
    nodes = [helper.make_node("Mul", ["x", f"w{at % weights}"], [f"v{at}"]) for at in range(count)]
    nodes.append(helper.make_node("Concat", [f"v{at}" for at in range(count)], ["y"], axis=0))
    inputs = [helper.make_tensor_value_info("x", 1, [1])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", 1, [count])], constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    started = time.process_time()
    session = ephost.InferenceSession(proto.SerializeToString())
    assert time.process_time() - started < 20  # a minute where each node looks at all that read its input
    (y,) = session.run(None, {"x": np.array([2], np.float32)})
    np.testing.assert_array_equal(y, 2 * (np.arange(count) % weights))


def test_thousands_of_calls_of_functions_open_in_proportion() -> None:
    count = 6_000
    names = ["x", *(f"v{at}" for at in range(1, count)), "y"]
    calls = [helper.make_node("F", [names[at]], [names[at + 1]], domain="f") for at in range(count)]
    body = [
        helper.make_node("Neg", ["a"], ["t"]),
        helper.make_node("Abs", ["t"], ["u"]),
        helper.make_node("Neg", ["u"], ["b"]),
    ]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]
    function = helper.make_function("f", "F", ["a"], ["b"], body, opsets[:1])
    values = [helper.make_tensor_value_info(name, 1, [1]) for name in "xy"]
    graph = helper.make_graph(calls, "g", values[:1], values[1:])
    proto = helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=10)
    made = load(proto)
    started = time.process_time()
    replaced = inline_calls(made, made.graph, {})
    assert len(made.graph.nodes) == 3 * count and topological_order(made.graph.nodes) is made.graph.nodes
    assert all(restore(reversed(replaced))) and [n.op_type for n in made.graph.nodes] == ["F"] * count
    assert time.process_time() - started < 10  # a minute where each looks at all nodes


def test_bodies_look_names_up_in_the_graphs_around_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of what is around for each body would make many bodies cost their number times all values."""
    made_with, link_inputs = [], call.link_inputs

    def noting(nodes: list[Node], scopes: tuple[dict, ...]) -> tuple[Node, str] | None:
        made_with.append(scopes)
        return link_inputs(nodes, scopes)

    monkeypatch.setattr(call, "link_inputs", noting)
    made = load(
        model(
            """g (float[1] x, bool c) => (float[1] y) { a = Neg(x)
            y = If(c) <then_branch = t () => (float[1] r) {
                            r = If(c) <then_branch = i () => (float[1] s) { s = Abs(a) },
                                       else_branch = j () => (float[1] u) { u = Add(a, x) }> },
                       else_branch = e () => (float[1] v) { v = Neg(a) }> }"""
        )
    )
    (node,) = [each for each in made.graph.nodes if each.subgraphs]
    assert [value.name for value in node.implicit_inputs] == ["c", "a", "x"]
    assert {len(scopes) for scopes in made_with} == {1, 2, 3}
    assert all(scopes[-1] is made.graph.values for scopes in made_with)


def test_what_a_body_reads_of_thousands_of_values_is_told_at_once() -> None:
    count = 10_000
    values = [Value(f"v{at}") for at in range(count)]
    node = Node(0, NodeProto(op_type="If"), "If", "", "", 1, [], [])
    node.implicit_inputs = values
    for value in values:
        value.note_reader(node)
    started = time.process_time()
    assert not any(value.is_replaceable for value in values)
    assert not node.captures(Value("v0"))
    assert time.process_time() - started < 1  # three where each is looked for among all
    node.implicit_inputs = values[1:]
    assert values[0].is_replaceable and not values[1].is_replaceable


def asked_of_onnx(monkeypatch: pytest.MonkeyPatch, made: Model) -> bool:
    """Whether types are found by onnx's inference."""
    asked = []
    monkeypatch.setattr(infer_module, "is_bounded", lambda model, _: not asked.append(model))
    with contextlib.suppress(Fail):  # what onnx says against a node
        infer(made)
    return bool(asked)


def if_of(then: str, other: str, *, within: bool = False) -> str:
    """A graph of an If with such branches, or that If alone."""
    node = f"If(c) <then_branch = t () => (a) {{ {then} }}, else_branch = e () => (b) {{ {other} }}>"
    return node if within else f"g (bool c, float[2, 3] x, float[3] w) => (y) {{ y = {node} }}"


def test_what_branches_of_an_if_make_alike_has_the_types_that_onnx_finds() -> None:
    proto = model(if_of("u = Add(x, x) \n a = Neg(u)", "b = Abs(x)"))
    made = load(proto)
    infer(made)
    (node,) = made.graph.nodes
    inferred = onnx.shape_inference.infer_shapes(proto).graph
    kinds = {info.name: value_type(info.type) for info in (*inferred.output, *inferred.value_info)}
    for attribute in inferred.node[0].attribute:
        body = attribute.g
        kinds.update((info.name, value_type(info.type)) for info in (*body.output, *body.value_info))
    assert kinds.keys() == {"y", "u", "a", "b"}
    found = {value.name: value.type for body in node.subgraphs.values() for value in body.values.values()}
    found["y"] = made.graph.outputs[0].type
    assert found == kinds


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("g (float[2, 3] x) => (y) { t = Relu(x) \n y = Add(t, x) }", False),
        ("g (float[2, 3] x, float[3] z) => (y) { y = Add(x, z) }", False),
        ("g (float[2, 3] x, float[4] z) => (y) { y = Add(x, z) }", True),  # to say what is wrong
        ("g (float[n, 3] x) => (y) { y = Relu(x) }", False),
        ("g (float[2, 3] x) => (y) { t = Relu(x) \n y = Unique(t) }", True),
        ("g (float[2, 3] x) => (float[2, 4] y) { y = Relu(x) }", False),
        (if_of("a = Neg(x)", "b = Abs(x)"), False),
        (if_of("a = Identity(x)", "b = Identity(w)"), False),
        (if_of("a = Neg(x)", "b = Unique(x)"), True),
        (if_of("a = " + if_of("a = Neg(x)", "b = Abs(x)", within=True), "b = Abs(x)"), False),
        (if_of("a = " + if_of("a = Neg(x)", "b = Unique(x)", within=True), "b = Abs(x)"), True),
    ],
)
def test_onnx_infers_what_no_rule_is_sure_of(text: str, asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked_of_onnx(monkeypatch, load(model(text))) == asked


def test_what_is_found_at_once_is_held_against_what_is_declared() -> None:
    made = load(model("g (float[2, 3] x) => (float[2, 4] y) { y = Relu(x) }"))
    infer(made)
    assert made.graph.outputs[0].type == tensor_type(TensorProto.FLOAT, (2, None))
    with pytest.raises(InvalidGraph, match="is declared as int64"):
        infer(load(model("g (float[2, 3] x) => (int64[2, 3] y) { y = Relu(x) }")))


def test_a_hundred_thousand_entries_of_metadata_are_each_looked_at_once() -> None:
    proto = model("g (float[1] x) => (float[1] y) { y = Neg(x) }")
    entries = {f"key {i}": f"value {i}" for i in range(100_000)}
    helper.set_model_props(proto, entries)
    serialised, started = proto.SerializeToString(), time.process_time()
    session = ephost.InferenceSession(serialised)
    assert time.process_time() - started < 30  # each beside all before it: minutes
    assert session.get_modelmeta().custom_metadata_map == entries


def test_what_a_graph_lists_of_values_that_it_does_not_have_takes_little_memory() -> None:
    """Exporters list more than there is: each entry as messages in messages took 2 KiB."""
    count = 200_000
    program = f"""
import onnx
from ephost.model.load import load
from onnx import helper, parser

head = '<ir_version: 10, opset_import: ["" : 21]>'
proto = parser.parse_model(head + 'g (float[2] x) => (y) {{ t = Neg(x) \\n y = Abs(t) }}')
kinds = [helper.make_tensor_type_proto(1, [size]) for size in range(50)]
for at in range({count}):
    proto.graph.value_info.add(name=f"v{{at}}", type=kinds[at % 50])
proto.graph.value_info.add(name="t", type=helper.make_tensor_type_proto(1, ["n"]))
serialised = proto.SerializeToString()
del proto

def status(key):
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(key))

before = status("VmHWM")
made = load(serialised)
print(status("VmHWM") - before, made.graph.values["t"].type, made.graph.values["t"].is_listed)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    taken, kind, listed = said.split(maxsplit=2)
    assert int(taken) < count * 1000, int(taken) / count
    assert (kind, listed.strip()) == ("float[n]", "True"), said


def test_a_listed_type_that_cannot_be_read_is_refused() -> None:
    proto = model("g (float[2] x) => (y) { y = Neg(x) }")
    proto.graph.value_info.add(name="nobody", type=helper.make_tensor_type_proto(1, [3]))
    serialised = proto.SerializeToString()
    whole = proto.graph.value_info[0].type.SerializeToString()
    assert serialised.count(whole) == 1
    broken = serialised.replace(whole, whole[:1] + b"\x7f" + whole[2:])  # longer than what holds it
    with pytest.raises(InvalidProtobuf, match=r"the type of 'nobody'.*cannot be read"):
        ephost.InferenceSession(broken)


def test_nodes_that_differ_in_their_names_alone_are_folded_by_one_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To make a kernel takes longer than to run it, and a model may compute hundreds of shapes."""
    made = load(
        model(
            """g (float[2] x) => (int64[2] p, int64[2] q, int64[1] r, int64[1] s)
            <int64[2] a = {1, 2}, int64[2] b = {3, 4}, int64 zero = {0}, int64 one = {1},
             int64[1] u = {0}, int64[1] w = {2}> {
              c = Gather(a, zero) d = Gather(b, zero) e = Gather <axis = 0> (b, one)
              f = Unsqueeze(c, u) g = Unsqueeze(d, u) h = Unsqueeze(e, u)
              i = Concat <axis = 0> (f, g) j = Concat <axis = 0> (g, h, f)
              p = Identity(i) k = Slice(j, u, w) q = Identity(k) r = Identity(g) s = Identity(h) }"""
        )
    )
    infer(made)
    kinds: list[str] = []
    monkeypatch.setattr(
        "ephost.reference.create_kernel",
        lambda node, *rest: kinds.append(node.op_type) or create_kernel(node, *rest),
    )
    fold(made)
    # One Gather names its axis, and one Concat has three inputs.
    assert sorted(kinds) == ["Concat", "Concat", "Gather", "Gather", "Slice", "Unsqueeze"]
    data = {name: made.graph.values[name].initializer.tolist() for name in "ghik"}
    assert data == {"g": [3], "h": [4], "i": [1, 3], "k": [3, 4]}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("size", "is_mapped"), [(0, False), (4096, False), (1 << 16, True)])
def test_files_of_weights_are_mapped_but_for_small_ones(tmp_path: Path, size: int, is_mapped: bool) -> None:
    weights = tmp_path / "weights.bin"
    weights.write_bytes(os.urandom(size))
    files = DataFiles([str(tmp_path)])
    path = files.path("weights.bin", "the data")
    content = files.content(path)
    assert content.tobytes() == weights.read_bytes()
    assert not content.flags.writeable
    assert (path in Path("/proc/self/maps").read_text()) == is_mapped
    # Another process maps what this one has mapped, and is sent what it has read.
    assert (files.file_id(path) is not None) == is_mapped


@pytest.mark.parametrize(("version", "left"), [(3, ["x", "w"]), (4, ["x", "w", "u"])])
def test_unread_constants_go_with_their_inputs(version: int, left: list[str]) -> None:
    """From IR version 4 on such an input has a default, and callers may feed another value."""
    proto = model(
        """g (float[1] x, float[1] w, float[1] u) => (float[1] y)
        <float[1] w = {1}, float[1] u = {2}> { y = Add(x, w) }"""
    )
    proto.ir_version = version
    proto.opset_import[0].version = 9
    made = load(proto)
    drop_unused_initializers(made.graph)
    assert [value.name for value in made.graph.inputs] == left
    assert [value.name for value in made.graph.initializers] == left[1:]
    session = ephost.InferenceSession(proto.SerializeToString())
    assert session.run(None, {"x": np.ones(1, np.float32)})[0].tolist() == [2]


def test_an_unread_constant_stays_where_a_body_lists_it_as_an_input() -> None:
    proto = model(
        """g (int64 n, bool c, float[1] x) => (float[m, 1] y) {
          y = Loop(n, c) <body = b (int64 i, bool d, float[1] s) => (bool d, float[1] t)
            <float[1] s = {1}> { t = Neg(x) }>
        }"""
    )
    proto.ir_version = 3
    (node,) = load(proto).graph.nodes
    body = node.subgraphs["body"]
    assert body.values["s"].is_constant and not body.values["s"].consumers
    drop_unused_initializers(body)
    assert [value.name for value in body.inputs] == ["i", "d", "s"]
