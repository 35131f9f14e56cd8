"""Graphs that the plugin is asked about: whatever it takes of them, they open and give the right numbers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ephost.checking.models import Arrays, F, make, node
from ephost.checking.registry import Check, add, check
from ephost.checking.subject import Subject, reference
from ephost.checking.verdicts import Skip

_X = np.linspace(-1.5, 1.5, 32, dtype=np.float32).reshape(4, 8)
_C = np.linspace(0.5, 2, 8, dtype=np.float32)
_ONE = {"x": (F, (4, 8))}
_OUT = {"y": (F, (4, 8))}
_Builder = Callable[[], bytes]


def _graph(name: str, level: int, text: str, build: _Builder, feeds: Arrays | None = None) -> None:
    def opens(subject: Subject) -> None:
        model, given = build(), {"x": _X} if feeds is None else feeds
        try:
            want = reference(model, given)
            alone = subject.host.InferenceSession(
                model
            )  # without the plugin: what the host cannot do counts not
            alone.run(None, given)
        except Exception as error:
            raise Skip(f"the host itself refuses it: {error}") from None
        session = subject.open(model)
        subject.numbers["claimed"] = subject.groups(session)
        subject.require_equal(subject.run(session, given), want, "the model")

    add(Check(f"graphs.{name}", text, level, opens, "devices"))


def _changed(change: Callable[[onnx.ModelProto], None], model: bytes | None = None) -> _Builder:
    """A small model, changed."""

    def build() -> bytes:
        made = onnx.ModelProto.FromString(model or _small())
        change(made)
        return bytes(made.SerializeToString())

    return build


def _small() -> bytes:
    nodes = [node("Add", "x c", "a"), node("Relu", "a", "r"), node("Mul", "r x", "y")]
    return make(nodes, _ONE, _OUT, {"c": _C})


def _rename(model: onnx.ModelProto, rename: Callable[[str], str]) -> None:
    """Other names for nodes and inner values."""
    kept = {value.name for value in (*model.graph.input, *model.graph.output)}
    new = {name: rename(name) for each in model.graph.node for name in (*each.input, *each.output)} | {
        name: name for name in kept
    }
    for each in model.graph.node:
        each.name = rename(each.name)
        each.input[:] = [new[name] for name in each.input]
        each.output[:] = [new[name] for name in each.output]
    for tensor in model.graph.initializer:
        tensor.name = new.get(tensor.name, tensor.name)


def _unnamed(model: onnx.ModelProto) -> None:
    for each in model.graph.node:
        each.name = ""


def _same_names(model: onnx.ModelProto) -> None:
    for each in model.graph.node:
        each.name = "same"


def _without_types(model: onnx.ModelProto) -> None:
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")


def _default_input(model: onnx.ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("c", F, [8]))


def _unused(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.ones((3, 0, 2), np.float32), "nobody's"))
    model.graph.input.append(helper.make_tensor_value_info("z", F, [2]))


def _metadata(model: onnx.ModelProto) -> None:
    model.producer_name, model.doc_string = "ephost check", "\u4e2d\u6587 " * 500
    for at in range(50):
        entry = model.metadata_props.add()
        entry.key, entry.value = f"key {at}", "v" * 1000
    for each in model.graph.node:
        each.doc_string = "a text " * 100
        entry = each.metadata_props.add()
        entry.key, entry.value = "namespace", "a/b/c"


def _raw_free(model: onnx.ModelProto) -> None:
    """Weights as lists of floats, and not as bytes."""
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        tensor.ClearField("raw_data")
        tensor.float_data[:] = values.ravel().tolist()


def _function() -> bytes:
    body = [node("Add", "a b", "s"), node("Relu", "s", "r")]
    made = helper.make_function(
        "ephost.check", "AddRelu", ["a", "b"], ["r"], body, [helper.make_opsetid("", 17)]
    )
    graph = helper.make_graph(
        [node("AddRelu", "x c", "f", domain="ephost.check"), node("Neg", "f", "y")],
        "check",
        [helper.make_tensor_value_info("x", F, [4, 8])],
        [helper.make_tensor_value_info("y", F, [4, 8])],
        [numpy_helper.from_array(_C, "c")],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ephost.check", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8, functions=[made])
    return bytes(model.SerializeToString())


def _value(name: str, kind: int = F, dims: tuple[int, ...] | None = (4, 8)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, dims)


def _if() -> bytes:
    """Both branches read a value of the graph around."""
    branches = [
        helper.make_graph([node(op, "a c", "b")], f"{op} branch", [], [_value("b")]) for op in ("Add", "Mul")
    ]
    choice = node("If", "k", "i", then_branch=branches[0], else_branch=branches[1])
    nodes = [node("Relu", "x", "a"), choice, node("Neg", "i", "y")]
    return make(nodes, {"k": (TensorProto.BOOL, ()), **_ONE}, _OUT, {"c": _C})


def _nested() -> bytes:
    def branches(depth: int) -> onnx.GraphProto:
        if depth == 0:
            return helper.make_graph([node("Add", "a c", "leaf")], "leaf", [], [_value("leaf")])
        out = f"b{depth}"
        inner = node("If", "k", out, then_branch=branches(depth - 1), else_branch=branches(0))
        return helper.make_graph([inner], f"level {depth}", [], [_value(out)])

    choice = node("If", "k", "i", then_branch=branches(4), else_branch=branches(0))
    nodes = [node("Relu", "x", "a"), choice, node("Neg", "i", "y")]
    return make(nodes, {"k": (TensorProto.BOOL, ()), **_ONE}, _OUT, {"c": _C})


def _loop() -> bytes:
    body = helper.make_graph(
        [node("Add", "v c", "w"), node("Identity", "going", "on"), node("Relu", "w", "scan")],
        "body",
        [_value("i", TensorProto.INT64, ()), _value("going", TensorProto.BOOL, ()), _value("v")],
        [_value("on", TensorProto.BOOL, ()), _value("w"), _value("scan")],
    )
    made = node("Loop", "n k x", "last all", body=body)
    return make(
        [made, node("Neg", "last", "y")],
        {"n": (TensorProto.INT64, ()), "k": (TensorProto.BOOL, ()), **_ONE},
        {**_OUT, "all": (F, ("n", 4, 8))},
        {"c": _C},
    )


def _optional_input() -> bytes:
    """Clip with a maximum alone: its second input is left out."""
    made = helper.make_node("Clip", ["x", "", "m"], ["y"], name="clip")
    return make([made], _ONE, _OUT, {"m": np.float32(0.5)})


def _optional_output() -> bytes:
    made = helper.make_node("MaxPool", ["x"], ["y", ""], name="pool", kernel_shape=[2, 2])
    return make([made], {"x": (F, (1, 2, 4, 4))}, {"y": (F, (1, 2, 3, 3))})


def _strings() -> bytes:
    kind = TensorProto.STRING
    return make([node("Identity", "x", "y")], {"x": (kind, (3,))}, {"y": (kind, (3,))})


def _sequence() -> bytes:
    nodes = [node("SequenceConstruct", "x x", "s"), node("ConcatFromSequence", "s", "y", axis=0)]
    return make(nodes, _ONE, {"y": (F, (8, 8))})


def _scalar() -> bytes:
    return make([node("Add", "x c", "y")], {"x": (F, ())}, {"y": (F, ())}, {"c": np.float32(2)})


def _unknown_rank() -> bytes:
    made = onnx.ModelProto.FromString(_small())
    made.graph.input[0].type.tensor_type.ClearField("shape")
    _without_types(made)
    return bytes(made.SerializeToString())


def _empty_weight() -> bytes:
    nodes = [node("Concat", "x e", "y", axis=0)]
    return make(nodes, _ONE, _OUT, {"e": np.zeros((0, 8), np.float32)})


def _constant_node() -> bytes:
    value = numpy_helper.from_array(_C)
    return make(
        [helper.make_node("Constant", [], ["c"], name="c", value=value), node("Add", "x c", "y")], _ONE, _OUT
    )


def _wide() -> bytes:
    nodes = [node("Mul", "x c", f"v{at}") for at in range(300)]
    nodes.append(node("Concat", " ".join(f"v{at}" for at in range(300)), "y", axis=0))
    return make(nodes, _ONE, {"y": (F, (1200, 8))}, {"c": _C})


def _long() -> bytes:
    nodes = [node("Add" if at % 2 else "Mul", f"v{at} c", f"v{at + 1}") for at in range(1000)]
    nodes[0].input[0] = "x"
    nodes.append(node("Tanh", "v1000", "y"))
    return make(nodes, _ONE, _OUT, {"c": np.full(8, 0.5, np.float32)})


def _many_inputs() -> bytes:
    names = [f"x{at}" for at in range(100)]
    return make([node("Sum", " ".join(names), "y")], dict.fromkeys(names, (F, (4, 8))), _OUT)


def _dead() -> bytes:
    nodes = [node("LeakyRelu", "x", "nobodys"), node("Add", "x x", "a"), node("Relu", "a", "y")]
    return make(nodes, _ONE, _OUT)


def _opset(version: int) -> _Builder:
    nodes = [node("Add", "x x", "a"), node("Relu", "a", "b"), node("MatMul", "b w", "y")]
    return lambda: make(nodes, _ONE, {"y": (F, (4, 3))}, {"w": np.ones((8, 3), np.float32)}, version)


_graph("dead-node", 6, "A node whose result nobody reads does no harm.", _dead)
_graph("plain", 1, "Three nodes in a row open and give the right numbers.", _small)
_graph("names-not-ascii", 3, "Names of nodes and values may be any text of UTF-8.",
       _changed(lambda m: _rename(m, lambda n: f"\u4e2d\u6587/\u00e9 {n}\u2603")))  # fmt: skip
_graph("names-with-signs", 3, "Names of nodes and values may have slashes, colons, quotes and blanks.",
       _changed(lambda m: _rename(m, lambda n: f"/a/b:0\"'%s%n {n}\\")))  # fmt: skip
_graph("names-long", 4, "Names of nodes and values may have 3,000 letters.",
       _changed(lambda m: _rename(m, lambda n: n * 3000)))  # fmt: skip
_graph("nodes-without-names", 2, "Nodes need no names.", _changed(_unnamed))
_graph("nodes-of-one-name", 4, "Nodes may have the same name.", _changed(_same_names))
_graph("without-types", 3, "Values need no types but those of inputs and outputs.", _changed(_without_types))
_graph(
    "default-input",
    3,
    "An initializer that is an input too may be left at its default.",
    _changed(_default_input),
)
_graph("unused", 4, "Initializers and inputs that nobody reads do no harm.",
       _changed(_unused), {"x": _X, "z": np.ones(2, np.float32)})  # fmt: skip
_graph("metadata", 4, "Much metadata of model and nodes does no harm.", _changed(_metadata))
_graph("weights-as-lists", 3, "Weights may be written as lists of numbers.", _changed(_raw_free))
_graph("function", 4, "A function of the model's own gives the right numbers.", _function)
_graph(
    "if-true", 3, "If with branches that read values around it, taken.", _if, {"x": _X, "k": np.array(True)}
)
_graph(
    "if-false",
    3,
    "If with branches that read values around it, not taken.",
    _if,
    {"x": _X, "k": np.array(False)},
)
_graph("if-nested", 4, "If in If in If, which all read values of the outermost graph.",
       _nested, {"x": _X, "k": np.array(True)})  # fmt: skip
_graph("loop", 4, "Loop with a value that is carried and one that is collected.",
       _loop, {"x": _X, "n": np.array(3), "k": np.array(True)})  # fmt: skip
_graph("loop-never", 5, "Loop that does not go round once.",
       _loop, {"x": _X, "n": np.array(0), "k": np.array(True)})  # fmt: skip
_graph("optional-input", 3, "An optional input in the middle may be left out.", _optional_input)
_graph(
    "optional-output",
    3,
    "An optional output may be left out.",
    _optional_output,
    {"x": _X.reshape(1, 2, 4, 4)},
)
_graph("strings", 4, "Tensors of strings pass.", _strings, {"x": np.array(["a", "", "\u4e2d" * 100], object)})
_graph("sequence", 4, "A sequence between two nodes gives the right numbers.", _sequence)
_graph(
    "scalar", 2, "Tensors without dimensions give the right numbers.", _scalar, {"x": np.array(3, np.float32)}
)
_graph("unknown-rank", 4, "An input of which nobody knows the rank gives the right numbers.", _unknown_rank)
_graph("empty-weight", 4, "A weight without elements gives the right numbers.", _empty_weight)
_graph("constant-node", 2, "Constants may be nodes.", _constant_node)
_graph("wide", 4, "A node with three hundred inputs gives the right numbers.", _wide)
_graph("long", 5, "A thousand nodes in a row give the right numbers.", _long)
_graph("many-inputs", 4, "A hundred inputs give the right numbers.",
       _many_inputs, {f"x{at}": _X + np.float32(at) for at in range(100)})  # fmt: skip
for _version in (7, 11, 13, 18, 21, 23):
    _graph(
        f"opset-{_version}",
        3,
        f"A model of opset {_version} opens and gives the right numbers.",
        _opset(_version),
    )


@check("graphs.external-weights", 4, needs="devices")
def _external(subject: Subject) -> None:
    """Weights in a file beside the model are found."""
    model = onnx.ModelProto.FromString(_small())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
        session = subject.open(str(path))
        subject.require_equal(subject.run(session, {"x": _X}), reference(_small(), {"x": _X}), "the model")
