"""A model that is not valid is refused with an exception of onnxruntime's name that names the culprit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from ephost import errors, schema_table
from host_state import adds_model, needs_newest_onnx, one_node_model
from onnx import TensorProto, helper, numpy_helper

pytestmark = pytest.mark.usefixtures("nothing_leaks")
FLOAT = TensorProto.FLOAT
ERRORS = (errors.OnnxRuntimeException,)


def refused(model: onnx.ModelProto | bytes | str | Path, kind: type[Exception], *texts: str) -> str:
    """Opening it raises exactly that class, with all of the texts in the message."""
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    with pytest.raises(kind) as caught:
        ephost.InferenceSession(source)
    assert type(caught.value) is kind
    message = str(caught.value)
    missing = [text for text in texts if text not in message]
    assert not missing, (missing, message)
    return message


def graph_model(
    nodes: list, inputs: list | None = None, outputs: list | None = None, **more
) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "bad",
        [value("x", FLOAT, [2])] if inputs is None else inputs,
        [value("y", FLOAT, None)] if outputs is None else outputs,
        more.pop("constants", []),
    )
    opsets = more.pop("opset_imports", [helper.make_opsetid("", 17)])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **more)


# ---- files ----


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    refused(str(tmp_path / "gone.onnx"), errors.NoSuchFile, str(tmp_path / "gone.onnx"))


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs a file that nobody can read")
def test_a_file_that_cannot_be_read() -> None:
    refused("/proc/self/mem", errors.Fail, "/proc/self/mem cannot be read: ")


def test_a_folder(tmp_path: Path) -> None:
    refused(str(tmp_path), errors.InvalidProtobuf, str(tmp_path), "folder")


@pytest.mark.parametrize("content", [b"no model at all\n" * 20, b"\x00" * 100, b"PK\x03\x04", b"\xff" * 64])
def test_a_file_that_is_no_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "text.onnx"
    path.write_bytes(content)
    refused(str(path), errors.InvalidProtobuf, str(path))
    refused(content, errors.InvalidProtobuf, "the buffer")


@pytest.mark.parametrize("content", [b"", onnx.ModelProto(ir_version=8).SerializeToString()])
def test_a_model_without_a_graph_is_what_onnxruntime_says(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "empty.onnx"
    path.write_bytes(content)
    refused(str(path), errors.InvalidArgument, str(path))
    refused(content, errors.InvalidArgument, "the buffer")


def test_a_model_that_is_cut_short_anywhere(tmp_path: Path) -> None:
    whole = adds_model().SerializeToString()
    path = tmp_path / "short.onnx"
    accepted = []
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        try:
            ephost.InferenceSession(str(path))
        except ERRORS as error:
            assert type(error) in (
                errors.InvalidArgument,
                errors.InvalidProtobuf,
                errors.InvalidGraph,
            ), (length, error)
            if type(error) is not errors.InvalidGraph:
                assert str(path) in str(error)
        else:
            accepted.append(length)
    # Fields come in order of their numbers, graph (7) before opset_import (8): only what lacks that may pass.
    opset = len(whole) - len(onnx.ModelProto(opset_import=adds_model().opset_import).SerializeToString())
    assert set(accepted) <= {opset}


def test_something_that_is_no_source_of_a_model() -> None:
    for source in (3, None, ["a"], object()):
        with pytest.raises(TypeError):
            ephost.InferenceSession(source)


# ---- graphs ----


def test_a_circle_names_its_nodes() -> None:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], name="first"),
        helper.make_node("Neg", ["a"], ["b"], name="second"),
        helper.make_node("Neg", ["b"], ["y"], name="third"),
    ]
    refused(graph_model(nodes), errors.InvalidGraph, "first", "second")


def test_a_node_that_reads_itself() -> None:
    refused(graph_model([helper.make_node("Neg", ["y"], ["y"], name="self")]), errors.InvalidGraph, "self")


@pytest.mark.parametrize(
    ("domain", "op_type", "kind"),
    [
        ("", "NoSuchOperator", errors.InvalidGraph),
        ("com.acme", "Special", errors.Fail),
        ("com.microsoft", "Special", errors.Fail),
    ],
)
def test_an_operator_that_nobody_knows(domain: str, op_type: str, kind: type[Exception]) -> None:
    model = one_node_model(op_type, {"x": (FLOAT, [2])}, {"y": FLOAT}, domain=domain)
    says = [f"{domain}:{op_type}(-1) is not a registered function/op"] if domain else []  # as onnxruntime
    refused(model, kind, "'node'", op_type, *says)


def test_an_operator_that_is_known_and_that_nobody_implements() -> None:
    inputs = {"x": (FLOAT, [2, 4]), "w": (TensorProto.UINT8, [3]), "s": (FLOAT, [3])}
    model = one_node_model("MatMulNBits", inputs, {"y": FLOAT}, domain="com.microsoft", bits=3, K=4, N=1)
    refused(model, errors.NotImplemented, "'node'", "MatMulNBits")


@pytest.mark.parametrize(
    ("domain", "op_type", "advice"),
    [
        ("com.microsoft.nchwc", "ReorderInput", "ORT_ENABLE_EXTENDED"),
        ("com.microsoft.nchwc", "Conv", "ORT_ENABLE_EXTENDED"),
        ("com.microsoft", "MatMulFpQ4", "MatMulNBits"),
    ],
)
def test_what_onnxruntime_writes_for_its_own_kernels_says_how_else(
    domain: str, op_type: str, advice: str
) -> None:
    model = one_node_model(op_type, {"x": (FLOAT, [1, 16, 4, 4])}, {"y": FLOAT}, domain=domain)
    refused(model, errors.NotImplemented, "'node'", op_type, advice)


def test_an_operator_of_a_domain_that_is_not_imported() -> None:
    model = graph_model([helper.make_node("Special", ["x"], ["y"], name="node", domain="com.acme")])
    refused(model, errors.Fail, "'node'", "com.acme")  # a plugin might have it


def test_an_operator_that_is_newer_than_the_opset() -> None:
    model = one_node_model("Gelu", {"x": (FLOAT, [2])}, {"y": FLOAT}, opset=17)
    refused(model, errors.InvalidGraph, "'node'", "Gelu", "17")


def test_types_that_an_operator_does_not_take_are_told_as_onnxruntime_begins() -> None:
    """Converters' tests look for these words."""
    add = helper.make_node("Add", ["x", "w"], ["y"], name="node")
    for types, says in [
        ((TensorProto.COMPLEX64, TensorProto.COMPLEX64), "Type Error: Type 'tensor(complex64)'"),
        ((FLOAT, TensorProto.INT32), "Type Error: Type parameter (T) bound to different types"),
    ]:
        inputs = [
            helper.make_tensor_value_info(name, kind, [2]) for name, kind in zip("xw", types, strict=True)
        ]
        outputs = [helper.make_tensor_value_info("y", types[0], None)]
        refused(graph_model([add], inputs, outputs), errors.InvalidGraph, "'node'", "'A'", says)


def test_a_value_that_nobody_makes() -> None:
    model = graph_model([helper.make_node("Add", ["x", "w"], ["y"], name="node")])
    refused(model, errors.InvalidGraph, "'node'", "'w'", "'bad'")


def test_an_output_that_nobody_makes() -> None:
    model = graph_model([helper.make_node("Neg", ["x"], ["z"], name="node")])
    refused(model, errors.InvalidGraph, "'y'", "'bad'")


def test_no_output_at_all() -> None:
    refused(graph_model([helper.make_node("Neg", ["x"], ["z"])], outputs=[]), errors.InvalidGraph, "output")


@pytest.mark.parametrize("twice", ["inputs", "nodes", "input and node", "constant and node"])
def test_a_name_that_is_defined_twice(twice: str) -> None:
    value = helper.make_tensor_value_info("x", FLOAT, [2])
    constant = numpy_helper.from_array(np.ones(2, np.float32), "c")
    nodes = [helper.make_node("Add", ["x", "c"], ["y"])]
    inputs, constants, name = [value], [constant], "x"
    match twice:
        case "inputs":
            inputs.append(value)
        case "nodes":
            nodes.append(helper.make_node("Neg", ["x"], ["y"]))
            name = "y"
        case "input and node":
            nodes.append(helper.make_node("Neg", ["c"], ["x"]))
        case "constant and node":
            nodes.append(helper.make_node("Neg", ["x"], ["c"]))
            name = "c"
    refused(graph_model(nodes, inputs, constants=constants), errors.InvalidGraph, f"'{name}'", "twice")


@pytest.mark.parametrize("both", ["initializers", "nodes", "a node and an initializer"])
def test_of_several_constants_of_one_name_the_last_counts_with_a_warning(
    both: str, caplog: pytest.LogCaptureFixture
) -> None:
    values = [numpy_helper.from_array(np.full(2, n, np.float32), "c") for n in (1, 2)]
    made = [helper.make_node("Constant", [], ["c"], value=value) for value in values]
    add = helper.make_node("Add", ["x", "c"], ["y"])
    nodes, constants = {
        "initializers": ([add], values),
        "nodes": ([made[0], add, made[1]], []),
        "a node and an initializer": ([made[1], add], values[:1]),
    }[both]
    model = graph_model(nodes, constants=constants)
    session = ephost.InferenceSession(model.SerializeToString())
    assert session.run(None, {"x": np.zeros(2, np.float32)})[0].tolist() == [2, 2]
    assert "several constants 'c'" in caplog.text


def test_a_constant_with_the_name_of_an_input_is_its_default() -> None:
    inputs = [helper.make_tensor_value_info(name, FLOAT, [2]) for name in "xc"]
    constant = helper.make_node("Constant", [], ["c"], value_floats=[1.0, 1.0])
    model = graph_model([constant, helper.make_node("Add", ["x", "c"], ["y"])], inputs)
    session = ephost.InferenceSession(model.SerializeToString())
    feeds = {"x": np.zeros(2, np.float32)}
    assert session.run(None, feeds)[0].tolist() == [1, 1]
    assert session.run(None, {**feeds, "c": np.full(2, 3, np.float32)})[0].tolist() == [3, 3]


def test_a_negative_dimension_of_an_initializer() -> None:
    bad = TensorProto(name="c", data_type=FLOAT, dims=[-2], raw_data=b"")
    nodes = [helper.make_node("Add", ["x", "c"], ["y"])]
    refused(graph_model(nodes, constants=[bad]), errors.InvalidGraph, "'c'", "negative")


@pytest.mark.parametrize("size", [0, 7, 9, 4, 800])
def test_raw_data_of_another_size(size: int) -> None:
    bad = TensorProto(name="c", data_type=FLOAT, dims=[2], raw_data=bytes(size))
    nodes = [helper.make_node("Add", ["x", "c"], ["y"])]
    refused(graph_model(nodes, constants=[bad]), errors.InvalidGraph, "'c'", f"{size} bytes", "8")


@needs_newest_onnx
@pytest.mark.parametrize(
    "bad",
    [
        TensorProto(name="c", data_type=FLOAT, dims=[3], float_data=[1, 2]),
        TensorProto(name="c", data_type=TensorProto.INT64, dims=[2], int64_data=[1, 2, 3]),
        TensorProto(name="c", data_type=TensorProto.INT4, dims=[5], raw_data=b"\x11"),
        TensorProto(name="c", data_type=TensorProto.STRING, dims=[5], string_data=[b"a"]),
        TensorProto(name="c", data_type=TensorProto.STRING, dims=[1], raw_data=b"a"),
        TensorProto(name="c", data_type=999, dims=[2], raw_data=bytes(8)),
        TensorProto(name="c", data_type=0, dims=[2], raw_data=bytes(8)),
        TensorProto(name="c", dims=[2]),
        TensorProto(name="c", data_type=FLOAT, dims=[1 << 40, 1 << 40], raw_data=bytes(8)),
        TensorProto(name="c", data_type=FLOAT, dims=[1 << 62, 4], float_data=[1.0]),
    ],
    ids=lambda t: f"{t.data_type}{list(t.dims)}",
)
def test_an_initializer_whose_data_does_not_fit(bad: TensorProto) -> None:
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Identity", ["c"], ["z"])]
    refused(graph_model(nodes, constants=[bad]), errors.InvalidGraph, "'c'")


@pytest.mark.parametrize("dims", [[1] * 70, [1] * 33, [1 << 40, 1 << 40, 0]])
@pytest.mark.parametrize("kind", [FLOAT, TensorProto.INT4])
@pytest.mark.parametrize("is_external", [False, True])
def test_an_initializer_of_a_shape_that_no_array_has(
    dims: list[int], kind: int, is_external: bool, tmp_path: Path
) -> None:
    data = bytes(4 if kind == FLOAT else 1) * (0 not in dims)
    bad = TensorProto(name="c", data_type=kind, dims=dims)
    if is_external:
        (tmp_path / "data").write_bytes(data)
        bad.data_location = TensorProto.EXTERNAL
        bad.external_data.add(key="location", value="data")
    else:
        bad.raw_data = data
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Identity", ["c"], ["z"])]
    (tmp_path / "m.onnx").write_bytes(graph_model(nodes, constants=[bad]).SerializeToString())
    refused(tmp_path / "m.onnx", errors.InvalidGraph, "the initializer 'c'")


def test_text_of_constant_that_is_not_utf_8_is_carried_as_it_is_in_inputs() -> None:
    nodes = [
        helper.make_node("Constant", [], ["one"], value_string=b"\xff"),
        helper.make_node("Constant", [], ["some"], value_strings=[b"\xff", b"a"]),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.STRING, None) for name in ("one", "some")]
    one, some = ephost.InferenceSession(graph_model(nodes, [], outputs).SerializeToString()).run(None, {})
    assert (one.tolist(), some.tolist()) == ("\udcff", ["\udcff", "a"])


def test_an_opset_from_the_future() -> None:
    model = one_node_model("Neg", {"x": (FLOAT, [2])}, {"y": FLOAT}, opset=999)
    refused(model, errors.InvalidGraph, "999", "opset")


def test_an_ir_version_from_the_future() -> None:
    model = adds_model()
    model.ir_version = 9999
    refused(model, errors.InvalidGraph, "9999", "IR version")


def test_without_an_opset_of_onnx_a_model_that_imports_others_has_the_newest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = one_node_model("Gelu", {"x": (FLOAT, [2])}, {"y": FLOAT}, opset=20)
    expected = ephost.InferenceSession(model.SerializeToString()).run(None, {"x": np.ones(2, np.float32)})
    model.opset_import[0].domain = "com.microsoft"
    session = ephost.InferenceSession(model.SerializeToString())
    assert session.run(None, {"x": np.ones(2, np.float32)})[0].tolist() == expected[0].tolist()
    del model.opset_import[:]
    refused(model, errors.InvalidGraph, "no opset")
    monkeypatch.setattr(schema_table, "has", lambda domain, version: False)  # a build that has no table
    refused(model, errors.InvalidGraph, "no opset")


def test_without_an_opset_of_ai_onnx_ml_its_nodes_have_the_newest() -> None:
    lists = {"keys_floats": [3.0, 4.0], "values_floats": [30.0, 40.0]}  # since its second version
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **lists)
    session = ephost.InferenceSession(graph_model([node]).SerializeToString())
    (y,) = session.run(None, {"x": np.resize(np.array([4, 3], np.float32), session.get_inputs()[0].shape)})
    assert y.ravel()[:2].tolist() == [40, 30]
    node.attribute.append(helper.make_attribute("no_such", 1))
    refused(graph_model([node]), errors.InvalidGraph, "LabelEncoder", "no_such")


def test_an_opset_that_is_none() -> None:
    for version in (0, -1):
        model = one_node_model("Neg", {"x": (FLOAT, [2])}, {"y": FLOAT}, opset=version)
        refused(model, errors.InvalidGraph, str(version), "opset")


def test_types_that_contradict_each_other() -> None:
    model = one_node_model("Add", {"x": (FLOAT, [2]), "w": (TensorProto.INT64, [2])}, {"y": FLOAT})
    refused(model, errors.InvalidGraph, "'node'", "Add")


@pytest.mark.parametrize(
    ("attributes", "text"),
    [({}, "to"), ({"to": "float"}, "to"), ({"to": 1, "no_such": 3}, "no_such")],
)
def test_attributes_that_are_missing_wrong_or_unknown(attributes: dict, text: str) -> None:
    refused(
        one_node_model("Cast", {"x": (FLOAT, [2])}, {"y": FLOAT}, **attributes),
        errors.InvalidGraph,
        "node",
        text,
    )


@pytest.mark.parametrize(
    ("domain", "op_type"), [("", "Softmax"), ("own", "F"), ("com.microsoft", "FastGelu")]
)
def test_an_attribute_that_is_there_twice(domain: str, op_type: str) -> None:
    node = helper.make_node(op_type, ["x"], ["y"], "node", domain=domain, axis=0)
    node.attribute.append(helper.make_attribute("axis", 1))
    model = graph_model([node])
    model.opset_import.extend([helper.make_opsetid(domain, 1)] if domain else [])
    refused(
        model, errors.InvalidGraph, "node 'node' (", f"{op_type}) has the attribute 'axis' more than once"
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"type": 0}, "'axis' of node 'node' (Softmax) has no type"),
        ({"ref_attr_name": "a"}, "not in a function"),
    ],
)
@pytest.mark.parametrize("depth", [0, 1])
def test_an_attribute_without_a_value_of_its_own(fields: dict, text: str, depth: int) -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], "node", axis=0)
    for name, value in fields.items():
        setattr(node.attribute[0], name, value)
    if depth:
        body = helper.make_graph([node], "body", [], [onnx.ValueInfoProto(name="y")])
        yes = helper.make_node("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True)))
        node = helper.make_node("If", ["yes"], ["z"], then_branch=body, else_branch=body)
        refused(graph_model([yes, node], outputs=[onnx.ValueInfoProto(name="z")]), errors.InvalidGraph, text)
        return
    refused(graph_model([node]), errors.InvalidGraph, text)


@pytest.mark.parametrize(
    ("op_type", "attributes", "texts"),
    [
        ("Gelu", {"approximate": "sinh"}, ("approximate", "'sinh'", "none, tanh")),
        ("LpNormalization", {"p": 3}, ("'p'", "is 3", "1, 2")),
        ("Upsample", {"mode": "wild", "scales": [1.0, 2.0]}, ("mode", "'wild'")),
    ],
)
def test_attributes_that_are_none_of_the_few_that_there_are(
    op_type: str, attributes: dict, texts: tuple[str, ...]
) -> None:
    opset = 7 if op_type == "Upsample" else 22
    model = one_node_model(op_type, {"x": (FLOAT, [2, 2])}, {"y": FLOAT}, opset=opset, **attributes)
    refused(model, errors.InvalidGraph, "'node'", op_type, *texts)


@pytest.mark.parametrize(
    ("op_type", "dims", "attributes", "text"),
    [
        ("Flatten", [2, 3], {"axis": 7}, "axis"),
        ("EyeLike", [5], {}, "2-dimensional"),
        ("LpPool", [1, 1, 4, 4], {"kernel_shape": [2, 2], "strides": [1, 1, 1]}, "strides"),
        ("Softmax", [2, 3], {"axis": 2}, "axis"),
    ],
)
def test_what_inference_says_against_a_node_is_an_error(
    op_type: str, dims: list[int], attributes: dict, text: str
) -> None:
    refused(
        one_node_model(op_type, {"x": (FLOAT, dims)}, {"y": FLOAT}, opset=21, **attributes),
        errors.Fail,
        "'node'",
        op_type,
        text,
    )


@pytest.mark.parametrize(
    "bad",
    [
        TensorProto(data_type=FLOAT, dims=[1], float_data=[1, 2]),
        TensorProto(data_type=FLOAT, dims=[1], raw_data=b"abc"),
        TensorProto(data_type=FLOAT, dims=[1], data_location=TensorProto.EXTERNAL),
        TensorProto(data_type=TensorProto.STRING, dims=[1], string_data=[b"\xff"]),
        TensorProto(dims=[1], raw_data=bytes(4)),
        None,
    ],
    ids=["long", "raw", "external", "text", "no type", "none"],
)
def test_a_tensor_of_an_attribute_that_cannot_be_read(bad: TensorProto | None, sample_kernels: list) -> None:
    node = helper.make_node("Special", ["x"], ["y"], "node", domain="com.acme")
    node.attribute.add(name="weights", type=onnx.AttributeProto.TENSOR)
    if bad is not None:
        node.attribute[0].t.CopyFrom(bad)
    options = ephost.SessionOptions()
    options.add_provider_for_devices(sample_kernels, {})
    with pytest.raises(errors.InvalidGraph, match="'weights' of node 'node'"):
        ephost.InferenceSession(graph_model([node]).SerializeToString(), options)


def test_a_range_of_constants_of_one_dimension_is_folded() -> None:
    ends = [
        numpy_helper.from_array(np.array([number]), name)
        for name, number in zip("abc", (1, 7, 2), strict=True)
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT64, [])]
    nodes = [helper.make_node("Range", list("abc"), ["r"]), helper.make_node("Add", ["r", "x"], ["y"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT64, None)]
    session = ephost.InferenceSession(graph_model(nodes, inputs, outputs, constants=ends).SerializeToString())
    assert session.run(None, {"x": np.array(1)})[0].tolist() == [2, 4, 6]


def test_a_branch_that_could_not_run_is_no_error_until_it_is_taken() -> None:
    x = helper.make_tensor_value_info("x", FLOAT, [2, 3])
    made = [onnx.ValueInfoProto(name="o")]
    squeezed = helper.make_graph([helper.make_node("Squeeze", ["x", "first"], ["o"])], "then", [], made)
    same = helper.make_graph([helper.make_node("Identity", ["x"], ["o"])], "else", [], made)
    node = helper.make_node("If", ["c"], ["y"], "node", then_branch=squeezed, else_branch=same)
    graph = helper.make_graph(
        [node],
        "graph",
        [x, helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [numpy_helper.from_array(np.array([0]), "first")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    session = ephost.InferenceSession(model.SerializeToString())
    fed = np.ones((2, 3), np.float32)
    assert session.run(None, {"x": fed, "c": np.array(False)})[0].shape == (2, 3)
    with pytest.raises(Exception, match="Squeeze"):
        session.run(None, {"x": fed, "c": np.array(True)})


@pytest.mark.parametrize("count", [0, 3])
def test_too_few_or_too_many_inputs(count: int) -> None:
    model = graph_model([helper.make_node("Add", ["x"] * count, ["y"], name="node")])
    refused(model, errors.InvalidGraph, "'node'", "Add")


@pytest.mark.parametrize("names", [["x", ""], ["", "x"], ["x", "", "x"]])
@pytest.mark.parametrize("op_type", ["Sum", "SequenceConstruct"])
def test_one_of_any_number_of_inputs_is_left_out(op_type: str, names: list[str]) -> None:
    model = graph_model(
        [helper.make_node(op_type, names, ["y"], "node")], None, [onnx.ValueInfoProto(name="y")]
    )
    refused(model, errors.InvalidGraph, "'node'", "leaves out one of its inputs")


@pytest.mark.parametrize("op_type, count", [("Neg", 1), ("Add", 2), ("Sum", 2)])
def test_a_sequence_is_no_tensor(op_type: str, count: int) -> None:
    made = helper.make_node("SequenceConstruct", ["x", "x"], ["s"])
    node = helper.make_node(op_type, ["s"] * count, ["y"], "node")
    model = graph_model([made, node], None, [onnx.ValueInfoProto(name="y")])
    refused(model, errors.InvalidGraph, "'node'", "is no tensor")


@pytest.mark.parametrize("axis", [-(2**31), 2**62])
def test_an_axis_that_no_tensor_has(axis: int) -> None:
    made = helper.make_node("SequenceConstruct", ["x", "x"], ["s"])
    node = helper.make_node("ConcatFromSequence", ["s"], ["y"], "node", axis=axis)
    refused(graph_model([made, node]), errors.InvalidGraph, "'node'", f"axis {axis}")
    # Beside a single scale nobody looks at the axis.
    scale = numpy_helper.from_array(np.array(2, np.float32), "s")
    quantize = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], "node", axis=axis)
    kept = graph_model([quantize], None, [onnx.ValueInfoProto(name="y")], constants=[scale])
    session = ephost.InferenceSession(kept.SerializeToString())
    assert session.run(None, {"x": np.array([2, 6], np.float32)})[0].tolist() == [1, 3]


def test_a_pool_that_ends_within_a_gram() -> None:
    attributes = {"mode": "TF", "min_gram_length": 2, "max_gram_length": 2, "max_skip_count": 0}
    for pool in ([1, 2, 3], [1, 1, 2, 3, 4]):
        node = helper.make_node(
            "TfIdfVectorizer",
            ["x"],
            ["y"],
            "node",
            ngram_counts=[0, len(pool) // 2],
            ngram_indexes=[0, 1, 2],
            pool_int64s=pool,
            **attributes,
        )
        inputs = [helper.make_tensor_value_info("x", 7, [4])]
        if len(pool) == 5:
            refused(graph_model([node], inputs), errors.InvalidGraph, "'node'", "within a gram of 2")
        else:
            ephost.InferenceSession(graph_model([node], inputs).SerializeToString())


@pytest.mark.parametrize("equation", [b"a\0b", b"i.j", b"ab\n", b"ab\xff", b"i...j..."])
def test_an_equation_that_onnx_would_read_for_ever(equation: bytes) -> None:
    node = helper.make_node("Einsum", ["x"], ["y"], "sum", equation=equation)
    refused(graph_model([node]), errors.InvalidGraph, "sum", "equation")
    function = helper.make_function("f", "F", ["x"], ["y"], [node], [helper.make_opsetid("", 17)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    call = helper.make_node("F", ["x"], ["y"], domain="f")
    refused(
        graph_model([call], opset_imports=opsets, functions=[function]), errors.InvalidGraph, "sum", "f.F"
    )


@pytest.mark.parametrize("axis", [2**63 - 1, -(2**31), -9, 2])
def test_an_axis_beyond_what_is_normalised(axis: int) -> None:
    for outputs in (["y"], ["y", "mean", "factor"]):
        node = helper.make_node("LayerNormalization", ["x", "x"], outputs, "norm", axis=axis)
        refused(graph_model([node]), errors.InvalidGraph, "norm", f"axis {axis}")
        # onnxruntime's own, from before ONNX had it
        older = graph_model([node], opset_imports=[helper.make_opsetid("", 12)])
        refused(older, errors.InvalidGraph, "norm", f"axis {axis}")


@pytest.mark.parametrize("dims", [-1, -(2**31), 2**40])
def test_batch_dimensions_that_cannot_be(dims: int) -> None:
    node = helper.make_node("GatherND", ["x", "i"], ["y"], "gather", batch_dims=dims)
    inputs = [helper.make_tensor_value_info(*more) for more in (("x", FLOAT, [2, 2]), ("i", 7, [2, 1]))]
    refused(graph_model([node], inputs), errors.InvalidGraph, "gather", "batch_dims")


@pytest.mark.parametrize("kind", [-1, 33])
def test_an_element_type_that_there_is_not(kind: int) -> None:
    node = helper.make_node("HannWindow", ["x"], ["y"], "window", output_datatype=kind)
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT64, [])]
    refused(
        graph_model([node], inputs, [onnx.ValueInfoProto(name="y")]),
        errors.InvalidGraph,
        "window",
        f"element type {kind}",
    )


@pytest.mark.parametrize("kind", [27, -1, 2**31 - 1])
@pytest.mark.parametrize("where", ["input", "output", "value_info", "body"])
@pytest.mark.parametrize("wrap", [None, helper.make_sequence_type_proto, helper.make_optional_type_proto])
def test_values_of_an_element_type_that_there_is_not(kind: int, where: str, wrap: Callable | None) -> None:
    bad = helper.make_tensor_type_proto(kind, [2])
    bad = bad if wrap is None else wrap(bad)
    nodes = [helper.make_node("Neg", ["x"], ["m"]), helper.make_node("Neg", ["m"], ["y"])]
    model = graph_model(nodes)
    if where == "body":
        body = model.graph.__deepcopy__()
        del body.input[:]
        body.output[0].type.CopyFrom(bad)
        yes = helper.make_node("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True)))
        node = helper.make_node("If", ["yes"], ["z"], then_branch=body, else_branch=body)
        model = graph_model([yes, node], outputs=[onnx.ValueInfoProto(name="z")])
    else:
        values = getattr(model.graph, where)
        del values[:]
        values.add(name={"input": "x", "output": "y", "value_info": "m"}[where]).type.CopyFrom(bad)
    refused(model, errors.InvalidGraph, f"element type {kind}", "'bad'")


@pytest.mark.parametrize("where", ["input", "output", "value_info"])
def test_a_type_that_does_not_say_what_it_is_made_of_is_none(where: str, sample_kernels: list) -> None:
    model = graph_model([helper.make_node("Neg", ["x"], ["m"]), helper.make_node("Neg", ["m"], ["y"])])
    values = getattr(model.graph, where)
    del values[:]
    name = {"input": "x", "output": "y", "value_info": "m"}[where]
    values.add(name=name).type.sequence_type.elem_type.optional_type.SetInParent()
    options = ephost.SessionOptions()
    options.add_provider_for_devices(sample_kernels, {})
    session = ephost.InferenceSession(model.SerializeToString(), options)
    fed = {"x": np.array([1, -2], np.float32)}
    assert session.run(None, fed)[0].tolist() == [1, -2]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dims": [3]}, "has 8 bytes instead of 12"),
        ({"dims": [-2]}, "negative dimension"),
        ({"data_type": 77}, "unknown element type 77"),
        ({"dims": [90], "data_type": TensorProto.INT4}, "cannot be read: it has 8 bytes instead of 45"),
        ({"dims": [3], "data_type": TensorProto.INT4}, "cannot be read: it has 8 bytes instead of 2"),
        ({"data_location": TensorProto.EXTERNAL}, "names no file"),
    ],
)
def test_a_constant_that_cannot_be_is_called_by_what_its_node_makes(changes: dict, said: str) -> None:
    """Its own name says nothing, and is mostly empty."""
    value = numpy_helper.from_array(np.array([1, 2], np.float32))
    for name, field in changes.items():
        if name == "dims":
            value.dims[:] = field
        else:
            setattr(value, name, field)
    nodes = [
        helper.make_node("Constant", [], ["held"], value=value),
        helper.make_node("Add", ["x", "held"], ["y"]),
    ]
    kind = errors.InvalidData if "data_location" in changes else errors.InvalidGraph
    refused(graph_model(nodes), kind, "the constant 'held'", said)


def test_a_function_that_onnx_cannot_write_out(sample_kernels: list) -> None:
    body = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["c"])],
        "body",
        [helper.make_tensor_value_info(name, FLOAT, [2]) for name in "ab"],
        [helper.make_tensor_value_info("c", FLOAT, [2])],
    )
    node = helper.make_node("SequenceMap", ["x"], ["y"], "map", body=body)
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    model = graph_model([node], [onnx.ValueInfoProto(name="x", type=kind)], [onnx.ValueInfoProto(name="y")])
    options = ephost.SessionOptions()
    options.add_provider_for_devices(sample_kernels, {})
    with pytest.raises(errors.InvalidGraph, match="'map'"):
        ephost.InferenceSession(model.SerializeToString(), options)


@pytest.mark.parametrize(
    "op_type, attributes",
    [
        ("QGemm", {"transB": [-8]}),
        ("QLinearConcat", {"axis": [4]}),
        ("Attention", {"num_heads": float("nan")}),
        ("GroupQueryAttention", {"num_heads": 2**31 - 1, "kv_num_heads": 2**31 - 1}),
        ("FusedMatMul", {"transA": 1}),
        ("DynamicQuantizeLSTM", {"hidden_size": 2, "direction": '"'}),
    ],
)
def test_attributes_of_contrib_operators_that_make_no_sense(op_type: str, attributes: dict) -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    for count in (1, 3, 9):
        node = helper.make_node(
            op_type, ["x"] * count, ["y"], "contrib", domain="com.microsoft", **attributes
        )
        refused_by = pytest.raises(ERRORS, match="contrib")
        with refused_by:
            session = ephost.InferenceSession(graph_model([node], opset_imports=opsets).SerializeToString())
            session.run(None, {"x": np.ones(2, np.float32)})


def test_two_nodes_of_one_name_are_no_error() -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["a"], name="same"),
        helper.make_node("Neg", ["a"], ["y"], name="same"),
    ]
    x = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(ephost.InferenceSession(graph_model(nodes)).run(None, {"x": x})[0], x)


# ---- functions and subgraphs ----


def call(name: str, *body: onnx.NodeProto) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    return helper.make_function("my", name, ["a"], ["b"], list(body), opsets)


def function_model(*functions: onnx.FunctionProto) -> onnx.ModelProto:
    return graph_model(
        [helper.make_node("F", ["x"], ["y"], name="call", domain="my")],
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("my", 1)],
        functions=list(functions),
    )


def test_a_function_that_calls_itself() -> None:
    function = call("F", helper.make_node("F", ["a"], ["b"], domain="my", name="again"))
    refused(function_model(function), errors.InvalidGraph, "F")


def test_functions_that_call_each_other() -> None:
    one = call("F", helper.make_node("G", ["a"], ["b"], domain="my"))
    two = call("G", helper.make_node("F", ["a"], ["b"], domain="my"))
    refused(function_model(one, two), errors.InvalidGraph, "F", "G")


def test_a_function_with_a_broken_body() -> None:
    refused(
        function_model(call("F", helper.make_node("Add", ["a", "nowhere"], ["b"]))),
        errors.InvalidGraph,
        "nowhere",
    )


def test_a_function_that_does_not_make_its_output() -> None:
    refused(function_model(call("F", helper.make_node("Neg", ["a"], ["c"]))), errors.InvalidGraph, "'b'")


@pytest.mark.parametrize(
    ("inputs", "outputs", "said"),
    [(["x", "x"], ["y"], "2 inputs, its function 1"), (["x"], ["y", "z"], "2 outputs, its function 1")],
)
def test_a_call_with_more_than_its_function_has(inputs: list, outputs: list, said: str) -> None:
    model = function_model(call("F", helper.make_node("Neg", ["a"], ["b"])))
    model.graph.node[0].input[:] = inputs
    model.graph.node[0].output[:] = outputs
    refused(model, errors.InvalidGraph, "'call' (my.F)", said)


def test_a_function_whose_body_reads_its_callers_values() -> None:
    nodes = [
        helper.make_node("ReduceMax", ["a"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
        helper.make_node(
            "If",
            ["c"],
            ["b"],
            name="if",
            then_branch=body(helper.make_node("Neg", ["x"], ["t"], name="inner")),
            else_branch=body(helper.make_node("Neg", ["a"], ["t"])),
        ),
    ]
    refused(function_model(call("F", *nodes)), errors.InvalidGraph, "'inner'", "my.F", "'x'")
    nodes[-1].attribute[0].g.node[0].input[0] = "a"
    nodes[-1].attribute[0].g.output[0].name = "x"
    refused(function_model(call("F", *nodes)), errors.InvalidGraph, "'if'", "my.F", "'x'")


def conditional(then: onnx.GraphProto, **more) -> onnx.ModelProto:
    branch = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["e"])], "else", [], [helper.make_tensor_value_info("e", FLOAT, [2])]
    )
    inputs = [
        helper.make_tensor_value_info("x", FLOAT, [2]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    node = helper.make_node("If", ["c"], ["y"], name="if", then_branch=then, else_branch=branch)
    return graph_model([node], inputs, **more)


def body(*nodes: onnx.NodeProto, output: str = "t") -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "then", [], [helper.make_tensor_value_info(output, FLOAT, [2])])


@pytest.mark.parametrize(
    ("then", "texts"),
    [
        (body(helper.make_node("Add", ["x", "nowhere"], ["t"], name="inner")), ("'inner'", "nowhere")),
        (body(helper.make_node("Neg", ["x"], ["u"])), ("'t'", "'then'")),
        (body(helper.make_node("NoSuchOperator", ["x"], ["t"], name="inner")), ("inner", "NoSuchOperator")),
        (
            body(helper.make_node("Neg", ["t"], ["s"]), helper.make_node("Neg", ["s"], ["t"], name="inner")),
            ("inner",),
        ),
    ],
    ids=["undefined input", "undefined output", "unknown operator", "circle"],
)
def test_an_error_in_a_branch(then: onnx.GraphProto, texts: tuple[str, ...]) -> None:
    refused(conditional(then), errors.InvalidGraph, *texts)


def test_a_branch_that_is_missing() -> None:
    model = conditional(body(helper.make_node("Neg", ["x"], ["t"])))
    del model.graph.node[0].attribute[0]
    refused(model, errors.InvalidGraph, "'if'", "_branch")


# ---- external data ----


def external(tmp_path: Path, size: int | None = 8, **entries: str) -> str:
    """A model with an initializer of two floats in a file; ``entries`` say where."""
    tensor = TensorProto(name="c", data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "data.bin", **entries}.items():
        tensor.external_data.add(key=key, value=value)
    if size is not None:
        (tmp_path / "data.bin").write_bytes(bytes(size))
    path = tmp_path / "model.onnx"
    model = graph_model([helper.make_node("Add", ["x", "c"], ["y"])], constants=[tensor])
    path.write_bytes(model.SerializeToString())
    return str(path)


def test_external_data_is_read_where_it_should_be(tmp_path: Path) -> None:
    x = np.array([1, 2], np.float32)
    session = ephost.InferenceSession(external(tmp_path, 16, offset="8", length="8"))
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x)


@pytest.mark.parametrize(
    ("size", "entries", "kind", "texts"),
    [
        (None, {}, errors.NoSuchData, ("data.bin",)),
        (7, {}, errors.InvalidData, ("8 bytes", "data.bin", "7")),
        (0, {}, errors.InvalidData, ("8 bytes", "data.bin")),
        (8, {"offset": "4"}, errors.InvalidData, ("offset 4",)),
        (8, {"offset": "-4"}, errors.InvalidData, ("offset -4",)),
        (8, {"offset": str(1 << 70)}, errors.InvalidData, ("offset",)),
        (8, {"length": "-8"}, errors.InvalidData, ("-8",)),
        (8, {"length": "4"}, errors.InvalidData, ("4",)),
        (800, {"length": "16"}, errors.InvalidData, ("16 bytes",)),
        (8, {"offset": " 0"}, errors.InvalidData, ("no number",)),
        (8, {"offset": "zero"}, errors.InvalidData, ("no number",)),
        (8, {"location": "../data.bin"}, errors.InvalidData, ("../data.bin", "outside")),
        (8, {"location": "/etc/passwd"}, errors.InvalidData, ("/etc/passwd", "outside")),
        (8, {"location": ""}, errors.InvalidData, ("names no file",)),
        (8, {"location": "."}, errors.InvalidData, ("'c'", "a folder")),
        (8, {"location": "data\0.bin"}, errors.InvalidData, ("'c'",)),
    ],
    ids=str,
)
def test_external_data_that_is_not_there(
    tmp_path: Path, size: int | None, entries: dict[str, str], kind: type[Exception], texts: tuple[str, ...]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "data.bin").write_bytes(bytes(8))
    refused(external(folder, size, **entries), kind, "'c'", *texts)


def test_a_link_that_leaves_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(8))
    path = external(folder, None)
    (folder / "data.bin").symlink_to(tmp_path / "secret.bin")
    refused(path, errors.InvalidData, "outside")


@pytest.mark.parametrize(("leads_to", "is_inside"), [("weights", True), ("..", False)])
def test_a_folder_of_data_may_be_a_link_within_the_folder(
    tmp_path: Path, leads_to: str, is_inside: bool
) -> None:
    folder = tmp_path / "folder"
    (folder / "weights").mkdir(parents=True)
    path = external(folder, None, location="link/data.bin")
    (folder / "link").symlink_to(leads_to)
    (folder / "link" / "data.bin").write_bytes(bytes(8))
    if not is_inside:
        refused(path, errors.InvalidData, "link/data.bin", "outside")
        return
    x = np.array([1, 2], np.float32)
    assert ephost.InferenceSession(path).run(None, {"x": x})[0].tolist() == [1, 2]


@pytest.mark.skipif(os.name != "posix", reason="on Windows other names of a file are looked at each time")
def test_a_file_for_each_tensor_is_found_without_following_its_path_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 50
    tensors = []
    for at in range(count):
        (tmp_path / f"{at}.bin").write_bytes(np.float32([at, 1]).tobytes())
        tensor = TensorProto(name=f"c{at}", data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=f"{at}.bin")
        tensors.append(tensor)
    path = tmp_path / "model.onnx"
    node = helper.make_node("Sum", ["x", *(tensor.name for tensor in tensors)], ["y"])
    path.write_bytes(graph_model([node], constants=tensors).SerializeToString())
    followed, realpath = [], os.path.realpath

    def noting(name: str) -> str:
        followed.append(name)
        return realpath(name)

    monkeypatch.setattr(os.path, "realpath", noting)
    session = ephost.InferenceSession(path)
    assert len(followed) < 10 < count
    (y,) = session.run(None, {"x": np.zeros(2, np.float32)})
    assert y.tolist() == [count * (count - 1) / 2, count]


def test_a_pipe_is_no_external_data(tmp_path: Path) -> None:
    path = external(tmp_path, None)
    os.mkfifo(tmp_path / "data.bin")
    refused(path, errors.InvalidData, "pipe", "plain file")


def cached(tmp_path: Path) -> tuple[Path, Path]:
    """A model and its data as links into a folder of files with other names: Hugging Face's cache."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "one" / "onnx"
    for folder in (blobs, snapshot):
        folder.mkdir(parents=True)
    external(blobs)
    for name, blob in (("model.onnx", "3f5a"), ("data.bin", "9c01")):
        (blobs / name).rename(blobs / blob)
        (snapshot / name).symlink_to(Path("../../../blobs") / blob)
    return blobs, snapshot


def test_links_of_a_cache_lead_to_the_model_and_its_data(tmp_path: Path) -> None:
    x = np.array([1, 2], np.float32)
    blobs, snapshot = cached(tmp_path)
    assert ephost.InferenceSession(snapshot / "model.onnx").run(None, {"x": x})[0].tolist() == [1, 2]
    (snapshot / "data.bin").unlink()
    refused(str(snapshot / "model.onnx"), errors.NoSuchData, "data.bin")
    (blobs / "9c01").rename(blobs / "data.bin")  # beside the real model, under its own name
    assert ephost.InferenceSession(snapshot / "model.onnx").run(None, {"x": x})[0].tolist() == [1, 2]


def test_data_that_is_beside_neither_the_link_nor_the_model_is_refused(tmp_path: Path) -> None:
    blobs, snapshot = cached(tmp_path)
    (blobs / "9c01").rename(tmp_path / "secret.bin")
    (snapshot / "data.bin").unlink()
    (snapshot / "data.bin").symlink_to(tmp_path / "secret.bin")
    refused(str(snapshot / "model.onnx"), errors.InvalidData, "outside", str(blobs))


# ---- the fallback forbidden ----


def test_forbidding_the_fallback_lists_the_nodes(sample_kernels: list) -> None:
    model = graph_model(
        [
            helper.make_node("Add", ["x", "x"], ["a"], name="taken"),
            helper.make_node("Sinh", ["a"], ["b"], name="left"),
            helper.make_node("Cosh", ["b"], ["y"], name="too"),
        ]
    )
    options = ephost.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(sample_kernels, {})
    with pytest.raises(errors.Fail) as caught:
        ephost.InferenceSession(model, options)
    message = str(caught.value)
    assert "2 of 3 nodes" in message and "sample_kernels" in message
    assert "'left' (Sinh)" in message and "'too' (Cosh)" in message and "taken" not in message


@pytest.fixture(autouse=True)
def _a_good_model_still_opens() -> Callable:
    yield
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(ephost.InferenceSession(adds_model()).run(None, {"x": x})[0], -x)


# ---- more than there is ----

HUGE = 1 << 40
LIMITED = """
import os, resource, sys, time
import ephost
if "asan" not in os.environ.get("LD_PRELOAD", ""):  # which reserves terabytes, and has a limit of its own
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
started = time.process_time()
try:
    ephost.InferenceSession(sys.argv[1])
    print("opened")
except ephost.errors.OnnxRuntimeException as error:
    print(type(error).__name__, error)
print(time.process_time() - started)
"""


def opened_with_limits(model: onnx.ModelProto | bytes, tmp_path: Path) -> str:
    """What becomes of opening a model in a process of 4 GiB; it may take 20 s of a processor."""
    path = tmp_path / "model.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=False, timeout=250
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said, seconds = done.stdout.strip().rsplit("\n", 1)
    assert float(seconds) < 20
    return said


def numbers(name: str, *values: int) -> TensorProto:
    return helper.make_tensor(name, TensorProto.INT64, [len(values)], values)


def list_model(nodes: list, constants: list, output: str) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.INT64, [1])
    out = helper.make_tensor_value_info(output, TensorProto.INT64, None)
    graph = helper.make_graph(nodes, "g", [x], [out], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def doubled(times: int, op_type: str) -> list[onnx.NodeProto]:
    nodes = [helper.make_node("Shape", ["x"], ["c0"])]
    for at in range(times):
        last, more = f"c{at}", {"axis": 0} if op_type == "Concat" else {}
        second = "two" if op_type == "Tile" else last
        nodes.append(helper.make_node(op_type, [last, second], [f"c{at + 1}"], **more))
    return [*nodes, helper.make_node("Size", [f"c{times}"], ["n"])]


@pytest.mark.resources
@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        (
            [helper.make_node("Tile", ["x", "r"], ["t"]), helper.make_node("Size", ["t"], ["n"])],
            [numbers("r", HUGE)],
        ),
        (
            [helper.make_node("Expand", ["x", "r"], ["t"]), helper.make_node("Size", ["t"], ["n"])],
            [numbers("r", HUGE)],
        ),
        (
            [
                helper.make_node("Mul", ["a", "a"], ["b"]),
                helper.make_node("ConstantOfShape", ["b"], ["t"]),
                helper.make_node("Size", ["t"], ["n"]),
            ],
            [numbers("a", 1 << 22)],
        ),
        (doubled(40, "Concat"), []),
        (doubled(40, "Tile"), [numbers("two", 2)]),
        (
            [
                helper.make_node("RandomUniform", [], ["r"], shape=[1 << 40]),
                helper.make_node("Add", ["r", "r"], ["t"]),
                helper.make_node("Size", ["t"], ["n"]),
            ],
            [],
        ),
    ],
    ids=["Tile", "Expand", "product", "Concats", "Tiles", "random numbers"],
)
def test_a_small_model_with_a_list_without_end_opens_within_limits(
    nodes: list, constants: list, tmp_path: Path
) -> None:
    assert opened_with_limits(list_model(nodes, constants, "n"), tmp_path) == "opened"


@pytest.mark.resources
def test_constants_that_fold_to_more_than_there_is_are_left_to_the_runs(tmp_path: Path) -> None:
    nodes = []
    for at in range(40):
        nodes.append(helper.make_node("Expand", ["one", "half"], [f"e{at}"]))
        nodes.append(helper.make_node("Add", [f"e{at}", "x"], [f"y{at}"]))
    nodes.append(helper.make_node("Max", [f"y{at}" for at in range(40)], ["n"]))
    constants = [numbers("one", 1), numbers("half", 1 << 26)]
    assert opened_with_limits(list_model(nodes, constants, "n"), tmp_path) == "opened"


@pytest.mark.resources
def test_functions_that_are_a_multitude_of_nodes_are_refused(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    functions = [
        helper.make_function(
            "f",
            f"f{at}",
            ["a"],
            ["b"],
            [
                helper.make_node(f"f{at + 1}", ["a"], ["m"], domain="f"),
                helper.make_node(f"f{at + 1}", ["m"], ["b"], domain="f"),
            ],
            opsets,
        )
        for at in range(40)
    ]
    functions.append(
        helper.make_function("f", "f40", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], opsets)
    )
    model = list_model([helper.make_node("f0", ["x"], ["n"], domain="f")], [], "n")
    model.opset_import.append(opsets[1])
    model.functions.extend(functions)
    said = opened_with_limits(model, tmp_path)
    assert said.startswith("InvalidGraph the function f.") and "nodes in all" in said


@pytest.mark.resources
@pytest.mark.parametrize(
    ("filler", "kind"),
    [(b"\0", "InvalidProtobuf"), (b"\x08\x08", "InvalidArgument")],
    ids=["zeros", "one field over and over"],
)
def test_a_file_of_one_thing_is_refused_at_once(filler: bytes, kind: str, tmp_path: Path) -> None:
    said = opened_with_limits(filler * (50 << 20 >> len(filler) - 1), tmp_path)
    assert said.startswith(kind)


@pytest.mark.parametrize("parts", [0, 1, 2, 4, 2**40])
def test_a_split_whose_outputs_are_of_another_number(parts: int) -> None:
    node = helper.make_node("Split", ["x"], ["y", "y2", "y3"], "split", num_outputs=parts)
    model = graph_model([node], opset_imports=[helper.make_opsetid("", 18)])
    refused(model, errors.InvalidGraph, "split", f"num_outputs {parts} and 3 outputs")


@pytest.mark.parametrize(("dim", "group"), [(2**62, 1), (2**63 - 1, 1), (4, -(2**63))])
def test_a_dimension_beyond_64_bits_is_refused(dim: int, group: int) -> None:
    """What a model declares may make an output larger than any number that plugins get."""
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[4, 1], group=group)
    weights = helper.make_tensor("w", FLOAT, [1, 2, 1, 1], [1.0, 1.0])
    x = helper.make_tensor_value_info("x", FLOAT, [1, 1, dim, 5])
    y = helper.make_tensor_value_info("y", FLOAT, None)
    graph = helper.make_graph([node], "g", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(errors.InvalidGraph, match="64 bits do not hold a dimension"):
        ephost.InferenceSession(model.SerializeToString())


@pytest.mark.parametrize("scale", [np.inf, np.nan, 3e38, -np.inf])
def test_an_image_that_no_number_counts_is_an_error_of_the_run(scale: float) -> None:
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"])
    scales = numpy_helper.from_array(np.array([1, 1, scale, 1], np.float32), "scales")
    x = helper.make_tensor_value_info("x", FLOAT, [1, 1, 4, 4])
    y = helper.make_tensor_value_info("y", FLOAT, None)
    graph = helper.make_graph([node], "g", [x], [y], [scales])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(errors.OnnxRuntimeException):
        session = ephost.InferenceSession(model.SerializeToString())
        session.run(None, {"x": np.ones((1, 1, 4, 4), np.float32)})


@needs_newest_onnx
def test_a_shape_of_any_length_is_no_list() -> None:
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"])
    x = helper.make_tensor_value_info("x", FLOAT, [1, 1, 4, 4])
    sizes = helper.make_tensor_value_info("sizes", TensorProto.INT64, [2**62])
    y = helper.make_tensor_value_info("y", FLOAT, None)
    graph = helper.make_graph([node], "g", [x, sizes], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(errors.OnnxRuntimeException):
        session = ephost.InferenceSession(model.SerializeToString())
        session.run(None, {"x": np.ones((1, 1, 4, 4), np.float32), "sizes": np.ones(4, np.int64)})
