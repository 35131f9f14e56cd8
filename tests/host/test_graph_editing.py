"""The editing of graphs: links that agree with each other, and one place that writes them."""

from __future__ import annotations

import ast
from pathlib import Path

import ephost
import numpy as np
import onnx
from ephost.model.graph import Substituting
from graphs import assert_linked, evaluate, maker, model_of

PACKAGE = Path(ephost.__file__).parent
X = np.array([-1.0, 2.0], np.float32)
LINKS = {
    "consumers",
    "dropped",
    "inputs",
    "is_edited",
    "message",
    "op_type",
    "outputs",
    "producer",
    "producer_output",
}


def _written(tree: ast.AST) -> set[str]:
    """Attributes of nodes and values that a module assigns to, or changes in place."""
    found = set()
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        elif isinstance(node, ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changes = node.func.attr in ("append", "extend", "insert", "remove", "pop", "clear")
            targets = [node.func.value] if changes else []
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            for part in parts:
                owner = part.value if isinstance(part, ast.Subscript) else part
                if isinstance(owner, ast.Attribute) and not _is_own(owner):
                    found.add(owner.attr)
    return found


def _is_own(attribute: ast.Attribute) -> bool:
    return isinstance(attribute.value, ast.Name) and attribute.value.id in ("self", "group", "plan", "step")


def test_only_the_graph_writes_the_links_between_nodes_and_values() -> None:
    # The loader builds what the graph then edits.
    others = [path for path in (PACKAGE / "model").rglob("*.py") if path.name not in ("graph.py", "load.py")]
    writers = {path.name: _written(ast.parse(path.read_text())) & LINKS for path in others}
    assert {name: found for name, found in writers.items() if found} == {}


def test_the_message_of_a_node_says_what_the_node_does() -> None:
    model = model_of("g (float[2] x, float[2] z) => (float[2] y) { a = Neg(x)  y = Sub(a, z) }")
    graph = model.graph
    (node,) = maker(model, "y")
    graph.set_inputs(node, [graph.values["z"], None, graph.values["x"]])
    graph.set_operator(node, "Clip", "", 13)
    graph.rename_node(node, "between")
    graph.set_attribute(node, "extra", 3)
    proto = node.proto
    assert (list(proto.input), list(proto.output)) == (["z", "", "x"], ["y"])
    assert (proto.op_type, proto.name, proto.attribute[0].i) == ("Clip", "between", 3)
    assert node.attribute("extra") == 3 and node.attribute("missing", "default") == "default"
    graph.set_attribute(node, "extra", None)
    assert not node.proto.attribute


def test_readers_of_a_value_read_another_one_wherever_they_read_it() -> None:
    model = model_of("g (float[2] x) => (float[2] y) { a = Neg(x)  b = Abs(x)  y = Mul(a, a) }")
    graph = model.graph
    graph.read_instead(graph.values["a"], graph.values["b"])
    assert_linked(model)
    assert graph.values["a"].consumers == {}
    assert evaluate(model, x=X)[0].tolist() == [1.0, 4.0]
    (unread,) = maker(model, "a")
    graph.drop(unread)
    graph.sweep()
    assert "a" not in graph.values and unread not in graph.nodes
    assert_linked(model)


def test_a_node_may_make_a_value_in_the_place_of_another() -> None:
    model = model_of("g (float[2] x) => (float[2] y) { a = Neg(x)  y = Identity(a) }")
    graph = model.graph
    first, second = maker(model, "a", "y")
    old = graph.values["a"]
    graph.set_output(first, 0, graph.values["y"])
    graph.drop(second)
    graph.sweep()
    graph.remove_value(old)
    assert list(graph.values) == ["x", "y"]
    assert_linked(model)
    assert list(first.proto.output) == ["y"]
    assert evaluate(model, x=X)[0].tolist() == [1.0, -2.0]


def test_new_values_get_names_of_their_own() -> None:
    graph = model_of("g (float[2] x) => (float[2] y) { y = Neg(x) }").graph
    names = [graph.new_value("x").name for _ in range(3)]
    constant = graph.new_constant("k", np.float32([[1, 2]]), onnx.TensorProto.FLOAT)
    assert len({*names, "x", "y"}) == 5
    assert constant.name == "k" and constant.is_constant and str(constant.type) == "float[1,2]"
    assert graph.owns(constant) and graph.remove_if_unread(constant) and not graph.owns(constant)


def test_nodes_take_the_place_of_others_in_order() -> None:
    model = model_of("g (float[2] x) => (float[2] y) { a = Neg(x)  b = Abs(a)  c = Exp(x)  y = Add(b, c) }")
    graph = model.graph
    a, b, c, y = maker(model, "a", "b", "c", "y")
    graph.nodes.reverse()
    graph.sort()
    assert_linked(model)
    substituting = Substituting(graph)
    substituting.put([c], {c.index})
    substituting.settle()
    assert set(map(id, graph.nodes)) == set(map(id, (a, b, c, y)))
    assert_linked(model)


def test_one_of_many_inputs_after_the_other_is_read_instead() -> None:
    text = ", ".join(["a", "b", "x"] * 40)
    model = model_of(
        f"g (float[2] x) => (float[n] y) {{ a = Neg(x)  b = Abs(x)  y = Concat<axis = 0>({text}) }}"
    )
    graph, values = model.graph, model.graph.values
    (node,) = maker(model, "y")
    names = lambda: [value.name for value in node.inputs]  # noqa: E731
    graph.read_instead(values["a"], values["b"])
    assert_linked(model)
    assert names() == ["b", "b", "x"] * 40 and values["b"].consumers == {node: 80}
    graph.set_input(node, 1, values["x"])  # what is known of the places goes with it
    graph.read_instead(values["b"], values["x"])
    assert_linked(model)
    assert names() == ["x"] * 120 and values["x"].consumers[node] == 120
    assert not values["b"].consumers and values["b"].only_reader is None
    graph.set_inputs(node, [values["a"]])
    assert values["a"].only_reader is node and node not in values["x"].consumers
    assert_linked(model)
