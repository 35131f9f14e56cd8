"""ONNX's messages are read and written as protobuf does it, whatever the bytes are."""

from __future__ import annotations

import pickle
from array import array
from contextlib import suppress
from pathlib import Path
from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from ephost import message_helpers, messages
from ephost._bindings import call, lib
from ephost.errors import OnnxRuntimeException
from ephost.model import load as loading
from ephost.model.load import load
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
MODELS = sorted(DATA.glob("simple/*/model.onnx")) + sorted(DATA.glob("light/*.onnx"))


def make_model(sizes: list[int]) -> onnx.ModelProto:
    random = np.random.default_rng(0)
    weights = [random.normal(size=size).astype(np.float32) for size in sizes]
    nodes = [helper.make_node("Mul", [f"v{i}", f"w{i}"], [f"v{i + 1}"]) for i in range(len(sizes))]
    graph = helper.make_graph(
        [helper.make_node("ReduceSum", ["x"], ["v0"], keepdims=0), *nodes],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info(f"v{len(sizes)}", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, f"w{i}") for i, weight in enumerate(weights)],
        doc_string="with a text behind the tensors",
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, {"key": "value"})
    return model


def everything() -> onnx.ModelProto:
    """A model with every kind of field."""
    body = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["b"])],
        "body",
        [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, ["n", 2, None])],
    )
    tensors = [
        helper.make_tensor("f", TensorProto.FLOAT, [2], [0.5, float("inf")]),
        helper.make_tensor("i", TensorProto.INT32, [2], [-1, 1 << 30]),
        helper.make_tensor("l", TensorProto.INT64, [2], [-(1 << 62), 5]),
        helper.make_tensor("d", TensorProto.DOUBLE, [1], [0.1]),
        helper.make_tensor("u", TensorProto.UINT64, [1], [(1 << 64) - 1]),
        helper.make_tensor("s", TensorProto.STRING, [2], [b"a", b"\xff"]),
        helper.make_tensor("r", TensorProto.INT8, [3], b"abc", raw=True),
    ]
    sparse = helper.make_sparse_tensor(
        tensors[0], helper.make_tensor("at", TensorProto.INT64, [2], [0, 3]), [5]
    )
    node = helper.make_node(
        "If", ["c", ""], ["y"], name="node", domain="d", then_branch=body, else_branch=body
    )
    values: list[Any] = [
        1,
        -2,
        0.5,
        b"\xff",
        [1, -1],
        [0.5, 2.0],
        ["a", "b"],
        tensors[0],
        sparse,
        tensors,
        [body],
    ]
    node.attribute.extend(helper.make_attribute(f"a{at}", value) for at, value in enumerate(values))
    types = [
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None)),
        helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [])),
        helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(1, [0])),
        helper.make_sparse_tensor_type_proto(1, ["n"]),
        onnx.TypeProto(opaque_type=onnx.TypeProto.Opaque(domain="d", name="n"), denotation="IMAGE"),
    ]
    node.attribute.extend(helper.make_attribute(f"t{at}", kind) for at, kind in enumerate(types))
    node.metadata_props.add(key="of a node", value="kept, although nobody reads it")
    infos = [helper.make_value_info(f"v{at}", kind) for at, kind in enumerate(types)]
    graph = helper.make_graph(
        [node], "g", infos, infos, tensors, value_info=infos, sparse_initializer=[sparse]
    )
    function = helper.make_function(
        "f", "F", ["x"], ["y"], [helper.make_node("Neg", ["x"], ["y"])], [helper.make_opsetid("", 21)], ["k"]
    )
    model = helper.make_model(graph, functions=[function], producer_name="test", model_version=-7)
    model.training_info.add().initialization.name = "kept as well"
    return model


@pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_is_read_and_written_again_is_the_model(path: Path) -> None:
    data = path.read_bytes()
    found = messages.ModelProto.FromString(data)
    assert onnx.ModelProto.FromString(found.SerializeToString()) == onnx.ModelProto.FromString(data)
    assert found == messages.ModelProto.FromString(found.SerializeToString())


def test_every_kind_of_field_is_read_and_written() -> None:
    model = everything()
    found = messages.ModelProto.FromString(model.SerializeToString())
    assert onnx.ModelProto.FromString(found.SerializeToString()) == model
    assert found.copied() == found == pickle.loads(pickle.dumps(found))
    node, given = found.graph.node[0], model.graph.node[0]
    for own, theirs in zip(node.attribute, given.attribute, strict=True):
        value, expected = message_helpers.get_attribute_value(own), helper.get_attribute_value(theirs)
        if isinstance(value, (int, float, bytes)):
            assert value == expected
    assert list(node.input) == ["c", ""]
    for own, theirs in zip(found.graph.initializer, model.graph.initializer, strict=True):
        if own.name != "s":
            np.testing.assert_array_equal(message_helpers.to_array(own), numpy_helper.to_array(theirs))


@given(st.data())
@settings(max_examples=10 * settings.default.max_examples)
def test_damaged_bytes_are_refused_or_read_as_protobuf_reads_them(data: st.DataObject) -> None:
    damaged = bytearray(_EVERYTHING)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(0, 2 * len(damaged))) :]
    _same_as_protobuf(bytes(damaged))


@given(st.binary(max_size=60))
@settings(max_examples=10 * settings.default.max_examples)
def test_any_bytes_are_refused_or_read_as_protobuf_reads_them(data: bytes) -> None:
    _same_as_protobuf(data)


_EVERYTHING = everything().SerializeToString()


def _same_as_protobuf(data: bytes) -> None:
    try:
        expected = onnx.ModelProto.FromString(data)
    except DecodeError:
        try:
            found = messages.ModelProto.FromString(data)
        except messages.DecodeError:
            return
        assert _has_unknown(found)  # what is wrong lies in a message that nobody here looks into
        return
    except UnicodeDecodeError:
        return  # protobuf in Python, which has no extension without the GIL, is stricter with texts
    found = messages.ModelProto.FromString(data)
    written = onnx.ModelProto.FromString(found.SerializeToString())
    assert written.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)


def _has_unknown(message: Any) -> bool:
    if isinstance(message, list):
        return any(map(_has_unknown, message))
    if not isinstance(message, messages.Message):
        return False
    return "_unknown" in message.__dict__ or any(map(_has_unknown, message.__dict__.values()))


@pytest.mark.parametrize(
    ("data", "is_read"),
    [
        (b"\x12\x00\x12\x00", True),
        (b"\x12\x01", False),  # cut short
        (b"\x00\x00", False),  # there is no field 0
        (b"\xff" * 11, False),
        (b"\x0b\x0c", True),  # a group
        (b"\x0b\x14", False),  # of another number's end
        (b"\x0b", False),
        (b"\x0f\x00", False),  # a wire type that there is not
        (b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02\x01", False),
    ],
)
def test_the_wire_format_has_its_rules(data: bytes, is_read: bool) -> None:
    _same_as_protobuf(data)
    if is_read:
        messages.ModelProto.FromString(data)
    else:
        with pytest.raises(messages.DecodeError):
            messages.ModelProto.FromString(data)


def test_a_message_in_two_parts_is_merged() -> None:
    one = onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor(elem_type=1)).SerializeToString()
    shape = helper.make_tensor_type_proto(0, [2, "n"])
    shape.tensor_type.ClearField("elem_type")
    other = helper.make_sequence_type_proto(shape).SerializeToString()
    for data in (one + shape.SerializeToString(), one + other, other + one, one + other + one):
        found = messages.TypeProto.FromString(data)
        expected = onnx.TypeProto.FromString(data)
        assert onnx.TypeProto.FromString(found.SerializeToString()) == expected
        assert found.WhichOneof("value") == expected.WhichOneof("value")


@pytest.mark.timeout(60)
def test_a_message_in_any_number_of_parts_is_merged_at_once() -> None:
    part = b"\x3a\x03\xf0\x01\x07"  # a graph with the unknown field 30
    found = messages.ModelProto.FromString(part * 1_000_000)
    assert found.graph.SerializeToString() == part[2:] * 1_000_000
    assert found.copied() == found


def test_numbers_of_a_tensor_may_be_packed_or_not() -> None:
    for tag, rest in ((b"\x22\x08" + bytes(8), b"\x25" + bytes(4)), (b"\x3a\x02\x05\x06", b"\x38\x07")):
        for data in (tag + rest, rest + tag, rest + rest, tag + tag):
            found = messages.TensorProto.FromString(data)
            assert onnx.TensorProto.FromString(found.SerializeToString()) == onnx.TensorProto.FromString(data)


def test_messages_in_messages_end() -> None:
    def nested(depth: int) -> bytes:
        kind = onnx.TypeProto()
        for _ in range(depth):
            kind = helper.make_sequence_type_proto(kind)
        return bytes(kind.SerializeToString())

    messages.TypeProto.FromString(nested(40))
    with pytest.raises(messages.DecodeError, match="deep"):
        messages.TypeProto.FromString(nested(60))
    looped = messages.TypeProto()
    looped.sequence_type = messages.ElementTypeProto(elem_type=looped)
    with pytest.raises(TypeError, match="deep"):
        looped.SerializeToString()


@pytest.mark.parametrize(
    "wrong",
    [
        messages.NodeProto(name=1),
        messages.NodeProto(input="x"),
        messages.NodeProto(attribute=[messages.NodeProto()]),
        messages.AttributeProto(i="1"),
        messages.AttributeProto(s=1),
        messages.AttributeProto(f="1"),
        messages.AttributeProto(ints=array("f", [1])),
        messages.AttributeProto(floats=array("q", [1])),
        messages.AttributeProto(floats=array("d", [1])),
        messages.AttributeProto(ints=(1, 2)),
        messages.AttributeProto(ints=b"12345678"),
        messages.AttributeProto(strings=array("q", [1])),
        messages.TensorProto(dims=array("q", [1])),
    ],
)
def test_what_is_no_field_of_its_kind_is_not_written(wrong: messages.Message) -> None:
    with pytest.raises(TypeError):
        wrong.SerializeToString()


def test_text_that_is_no_text_is_written_as_it_was_read() -> None:
    data = onnx.NodeProto(name="n").SerializeToString().replace(b"n", b"\xff")
    assert messages.NodeProto.FromString(data).SerializeToString() == data


def test_running_out_of_memory_is_an_error_and_no_crash() -> None:
    model = messages.ModelProto.FromString(_EVERYTHING)
    failed = 0
    for count in range(6):
        for work in (model.SerializeToString, lambda: messages.ModelProto.FromString(_EVERYTHING)):
            lib.ephost_fail_allocation_after(count)
            try:
                work()
            except MemoryError:
                failed += 1
            finally:
                lib.ephost_fail_allocation_after(-1)
    assert failed >= 2


def test_types_of_messages_are_declared_once() -> None:
    with pytest.raises(ValueError, match="once"):
        call.message_fields(messages.NodeProto._codec, ())
    with pytest.raises(ValueError):
        call.message_fields(None, ())
    with pytest.raises(TypeError):
        call.message_type("no class")


# ---- large tensors stay where they are ----


@given(st.lists(st.sampled_from([1, 3, 1000, 1024, 1025, 40_000]), max_size=6))
def test_large_tensors_are_views_of_what_is_read(sizes: list[int]) -> None:
    model = make_model(sizes)
    data = model.SerializeToString()
    found = messages.ModelProto.FromString(data, 4096)
    for size, own, theirs in zip(sizes, found.graph.initializer, model.graph.initializer, strict=True):
        assert isinstance(own.raw_data, memoryview) == (size * 4 >= 4096)
        assert own.raw_data == theirs.raw_data
        if isinstance(own.raw_data, memoryview):
            assert data[own.place : own.place + size * 4] == own.raw_data
    assert onnx.ModelProto.FromString(found.SerializeToString()) == model


def test_large_tensors_of_nodes_and_bodies_are_views_too_and_texts_are_not() -> None:
    large = numpy_helper.from_array(np.arange(2000, dtype=np.float32), "w")
    inner = helper.make_node("If", ["c"], ["z"], then_branch=helper.make_graph([], "inner", [], [], [large]))
    body = helper.make_graph([inner], "body", [], [], [large])
    node = helper.make_node("If", ["c"], ["y"], then_branch=body, value=large, text=b"t" * 8000)
    model = helper.make_model(helper.make_graph([node], "g", [], []))
    data = model.SerializeToString()
    found = messages.ModelProto.FromString(data, 4096)
    by_name = {attribute.name: attribute for attribute in found.graph.node[0].attribute}
    branch = by_name["then_branch"].g
    bodies = [branch, branch.node[0].attribute[0].g]
    for tensor in (by_name["value"].t, *(each.initializer[0] for each in bodies)):
        assert isinstance(tensor.raw_data, memoryview)
        assert data[tensor.place : tensor.place + 8000] == tensor.raw_data == large.raw_data
    assert by_name["text"].s == b"t" * 8000 and isinstance(by_name["text"].s, bytes)
    assert onnx.ModelProto.FromString(found.SerializeToString()) == model


@pytest.mark.parametrize("source", ["file", "bytes"])
def test_a_large_model_opens_from_its_own_bytes(tmp_path: Path, source: str) -> None:
    model = make_model([300_000, 1, 300_000])
    path = tmp_path / "large.onnx"
    path.write_bytes(model.SerializeToString())
    session = ephost.InferenceSession(path if source == "file" else path.read_bytes())
    (found,) = session.run(None, {"x": np.array([0.5, 0.5], np.float32)})
    expected = 1.0
    for tensor in model.graph.initializer:
        expected = expected * numpy_helper.to_array(tensor)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    loaded = load(path if source == "file" else path.read_bytes())
    for tensor in model.graph.initializer:
        value = loaded.graph.values[tensor.name]
        assert value.initializer is not None
        np.testing.assert_array_equal(value.initializer, numpy_helper.to_array(tensor))
        assert value.initializer.size < 1024 or not value.initializer.flags.owndata
        assert (value.external is not None) == (source == "file" and value.initializer.size >= 1024)
        if value.external is not None:
            assert value.external.in_model
            at = value.external.offset
            assert path.read_bytes()[at : at + value.external.nbytes] == tensor.raw_data


def test_no_file_can_have_a_name_with_a_nul() -> None:
    model = make_model([8])
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "\0inside"), ("offset", "0"), ("length", "32")):
        tensor.external_data.add(key=key, value=value)
    with pytest.raises(OnnxRuntimeException, match="no path"):
        load(model.SerializeToString())


def test_only_initializers_may_have_their_data_elsewhere() -> None:
    tensor = messages.TensorProto(data_type=1, dims=[1], data_location=messages.TensorProto.EXTERNAL)
    with pytest.raises(ValueError, match="file of its own"):
        message_helpers.to_array(tensor)


def test_a_model_of_onnx_that_protobuf_cannot_write_at_once_is_written_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for model in (everything(), make_model([3, 300])):
        monkeypatch.setattr(loading, "_LARGEST_MESSAGE", 10)
        data = loading._serialized(model)
        assert onnx.ModelProto.FromString(data) == model


# ---- what onnx.helper and onnx.numpy_helper do ----


@pytest.mark.parametrize("kind", sorted(set(TensorProto.DataType.values()) - {0, 27, 28}))
@pytest.mark.parametrize("raw", [False, True])
def test_tensors_of_every_element_type_are_read_as_onnx_reads_them(kind: int, raw: bool) -> None:
    if kind not in messages.TensorProto.DataType.values() or (raw and kind == TensorProto.STRING):
        return
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    numbers = np.array(["a", "é"], object) if kind == TensorProto.STRING else np.ones(2).astype(dtype)
    tensor = (
        numpy_helper.from_array(numbers, "t")
        if raw
        else helper.make_tensor("t", kind, numbers.shape, numbers.tolist() if kind == 8 else numbers)
    )
    own = messages.TensorProto.FromString(tensor.SerializeToString())
    found, expected = message_helpers.to_array(own), numpy_helper.to_array(tensor)
    np.testing.assert_array_equal(found.astype(object), expected.astype(object))
    assert found.dtype == expected.dtype
    made = message_helpers.from_array(found, "t")
    np.testing.assert_array_equal(message_helpers.to_array(made).astype(object), found.astype(object))
    assert made.data_type == message_helpers.element_type_of(found.dtype) or kind == TensorProto.STRING
    assert message_helpers.numpy_dtype(kind) == found.dtype


@pytest.mark.parametrize(
    "value", [1, True, np.int64(-3), 0.5, np.float32(2), "é", b"\xff", [1, 2], [1, 0.5], (1.5,), ["a", b"b"]]
)
def test_attributes_are_made_as_onnx_makes_them(value: Any) -> None:
    own = message_helpers.make_attribute("a", value)
    expected = helper.make_attribute("a", value)
    assert onnx.AttributeProto.FromString(own.SerializeToString()) == expected
    assert message_helpers.get_attribute_value(own) == helper.get_attribute_value(expected)


@pytest.mark.parametrize("value", [None, [], [None], {}])
def test_what_no_attribute_can_be_is_an_error(value: Any) -> None:
    with pytest.raises(TypeError, match="'a'"):
        message_helpers.make_attribute("a", value)


def test_an_attribute_without_a_value_has_none_to_give() -> None:
    with pytest.raises(ValueError, match="no type"):
        message_helpers.get_attribute_value(messages.AttributeProto(name="a"))
    with pytest.raises(ValueError, match="function"):
        message_helpers.get_attribute_value(messages.AttributeProto(name="a", type=1, ref_attr_name="b"))


def test_lists_are_read_in_a_row_and_in_pieces() -> None:
    """Behind one tag after another, with other fields in between, and behind a longer tag."""
    whole = onnx.AttributeProto(ints=[1, -1, 2**62], floats=[0.5], strings=[b"a", b"a", b"", b"", b"b"])
    piece = onnx.AttributeProto(ints=[7], floats=[1.5, 2.5], strings=[b"b"])
    longer = b"\xc0\x80\x00\x09"  # the tag of ints in three bytes, and a 9
    joined = whole.SerializeToString() + longer + piece.SerializeToString() + longer
    read = messages.AttributeProto.FromString(joined)
    assert read.ints == [1, -1, 2**62, 9, 7, 9]
    assert read.floats == [0.5, 1.5, 2.5]
    assert read.strings == [b"a", b"a", b"", b"", b"b", b"b"]
    assert read.strings[0] is read.strings[1]  # a forest has millions of two names
    for cut in range(1, len(joined)):
        with suppress(messages.DecodeError):
            messages.AttributeProto.FromString(joined[:cut])


@pytest.mark.parametrize("count", [1023, 1024, 5000])
@pytest.mark.parametrize("packed", [False, True])
def test_many_numbers_of_an_attribute_are_an_array(count: int, packed: bool) -> None:
    random = np.random.default_rng(0)
    ints = random.integers(-(2**63), 2**63 - 1, count).tolist()
    floats = random.standard_normal(count).astype(np.float32).tolist()
    model = onnx.AttributeProto(name="a", ints=ints, floats=floats)
    data = model.SerializeToString()
    if packed:
        numbers = onnx.TensorProto(int64_data=ints, float_data=floats).SerializeToString()
        assert numbers[0] == 0x22  # packed floats, as field 4
        length = numbers.index(b"\x3a", 4 * count)  # behind them the integers, as field 7
        data = b"\x0a\x01a" + b"\x3a" + numbers[1:length] + b"\x42" + numbers[length + 1 :]
        assert onnx.AttributeProto.FromString(data) == model
    found = messages.AttributeProto.FromString(data)
    kind = array if count >= 1024 else list
    assert isinstance(found.ints, kind) and isinstance(found.floats, kind)
    assert list(found.ints) == ints and list(found.floats) == floats
    assert onnx.AttributeProto.FromString(found.SerializeToString()) == model
    assert found == found.copied() == pickle.loads(pickle.dumps(found))
    found.type = messages.AttributeProto.INTS
    assert message_helpers.get_attribute_value(found) == ints

    # What comes behind them, and in front of them; and where they end too early.
    single = onnx.AttributeProto(ints=[7], floats=[0.5])
    both = messages.AttributeProto.FromString(data + single.SerializeToString() + data)
    assert list(both.ints) == [*ints, 7, *ints] and list(both.floats) == [*floats, 0.5, *floats]
    both = messages.AttributeProto.FromString(single.SerializeToString() + data)
    assert list(both.ints) == [7, *ints] and list(both.floats) == [0.5, *floats]
    for cut in range(len(data) - 12, len(data)):
        with suppress(messages.DecodeError):
            messages.AttributeProto.FromString(data[:cut])
