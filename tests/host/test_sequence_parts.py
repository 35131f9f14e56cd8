"""Sequences out of tensors, tensors out of sequences, and optionals: the host runs them in C."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import ephost
import numpy as np
import pytest
from ephost import errors
from host_state import with_failing_allocations
from onnx import TensorProto, helper

pytestmark = pytest.mark.usefixtures("nothing_leaks")

TYPES = [np.float32, np.float64, np.int32, np.int64, np.object_]


def kind_of(value: Any) -> Any:
    """The type of a feed, of any shape."""
    if isinstance(value, list):
        return helper.make_sequence_type_proto(kind_of(value[0]))
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), [None] * value.ndim)


def single(op: str, output: Any, feed: dict[str, Any], opset: int = 18, **attributes: Any) -> bytes:
    graph = helper.make_graph(
        [helper.make_node(op, list(feed), ["y"], "the node", **attributes)],
        "g",
        [helper.make_value_info(name, kind_of(value)) for name, value in feed.items() if name],
        [helper.make_value_info("y", output)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return bytes(model.SerializeToString())


def run_in_c(content: bytes, feed: dict[str, Any]) -> Any:
    """The result, of runs that call no operator in Python."""
    session = ephost.InferenceSession(content)
    called: list[str] = []

    def profiler(frame: FrameType, event: str, argument: Any) -> None:
        called.append(frame.f_code.co_filename)

    sys.setprofile(profiler)
    try:
        for _ in range(2):
            (found,) = session.run(None, feed)
    finally:
        sys.setprofile(None)
    assert not [name for name in called if "reference" in name]
    return found


def assert_as_onnxruntime(content: bytes, feed: dict[str, Any]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    (expected,) = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, feed)
    found = run_in_c(content, feed)
    assert isinstance(found, list) == isinstance(expected, list)
    parts = zip(found, expected, strict=True) if isinstance(found, list) else [(found, expected)]
    for ours, theirs in parts:
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        assert ours.tolist() == theirs.tolist()


def numbers(kind: Any, *shape: int) -> np.ndarray:
    found = np.arange(np.prod(shape)).reshape(shape)
    return found.astype(str).astype(object) if kind is np.object_ else found.astype(kind)


SPLITS: list[Any] = [None, 1, 2, 3, 100, [1, 3, 2], [6], [0, 6], [2, 2, 2], [[4, 2]], [[1], [5]]]


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("split", SPLITS, ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_tensor_is_cut(kind: Any, split: Any, axis: int) -> None:
    feed = {"x": numbers(kind, 6, 6, 2) if axis != -1 else numbers(kind, 2, 1, 6)}
    if split is not None:
        feed["split"] = np.array(split, np.int32 if axis else np.int64)
    part = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(feed["x"].dtype), None)
    # By the standard keepdims says nothing beside a split; onnxruntime fails there, or heeds it.
    for keepdims in (1, 0) if split is None else (1,):
        content = single(
            "SplitToSequence", helper.make_sequence_type_proto(part), feed, axis=axis, keepdims=keepdims
        )
        assert_as_onnxruntime(content, feed)


def test_what_is_empty_is_cut_into_nothing() -> None:
    feed = {"x": np.zeros((0, 3), np.float32)}
    content = single("SplitToSequence", helper.make_sequence_type_proto(kind_of(feed["x"])), feed)
    assert run_in_c(content, feed) == []
    content = single("SplitToSequence", helper.make_sequence_type_proto(kind_of(feed["x"])), feed, axis=1)
    assert [part.shape for part in run_in_c(content, feed)] == [(0, 1)] * 3


@pytest.mark.parametrize(
    ("split", "axis", "message"),
    [
        (0, 0, "parts of 0 elements"),
        (-1, 0, "parts of -1 elements"),
        ([1, 2], 0, "its parts leave 3 of an axis of 6"),
        ([4, 4], 0, "its parts are not those of an axis of 6"),
        ([-1, 7], 0, "its parts are not those of an axis of 6"),
    ],
)
def test_a_cut_that_does_not_fit_is_an_error_that_names_the_node(split: Any, axis: int, message: str) -> None:
    feed = {"x": numbers(np.float32, 6, 2), "split": np.array(split)}
    content = single("SplitToSequence", helper.make_sequence_type_proto(kind_of(feed["x"])), feed, axis=axis)
    session = ephost.InferenceSession(content)
    with pytest.raises(errors.OnnxRuntimeException, match=rf"'the node' \(SplitToSequence\): {message}"):
        session.run(None, feed)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("new_axis", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_a_sequence_becomes_a_tensor(kind: Any, new_axis: int, axis: int) -> None:
    lengths = [1, 1, 1] if new_axis else [1, 3, 0, 2]
    shape = [2, 4, 3]
    given = []
    for length in lengths:
        if not new_axis:
            shape[axis] = length
        given.append(numbers(kind, *shape))
    feed = {"x": given}
    made = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(given[0].dtype), None)
    assert_as_onnxruntime(single("ConcatFromSequence", made, feed, axis=axis, new_axis=new_axis), feed)


def test_scalars_become_a_row() -> None:
    feed = {"x": [np.array(3.0, np.float32), np.array(4.0, np.float32)]}
    made = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    assert_as_onnxruntime(single("ConcatFromSequence", made, feed, axis=0, new_axis=1), feed)


@pytest.mark.parametrize(
    ("shapes", "attributes", "message"),
    [
        ([(2, 3), (2, 4)], {"axis": 0}, "element 1 of the sequence has a type or shape"),
        ([(2, 3), (3,)], {"axis": 0}, "element 1 of the sequence has a type or shape"),
        ([(2, 3), (1, 3)], {"axis": 0, "new_axis": 1}, "element 1 of the sequence has a type or shape"),
        ([()], {"axis": 0}, "there is no axis 0 with a rank of 0"),
        ([], {"axis": 0}, "there is nothing in the sequence"),
    ],
)
def test_what_does_not_fit_together_is_an_error(shapes: Any, attributes: Any, message: str) -> None:
    feed = {"x": [np.zeros(shape, np.float32) for shape in shapes]}
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    graph = helper.make_graph(
        [helper.make_node("ConcatFromSequence", ["x"], ["y"], "the node", **attributes)],
        "g",
        [helper.make_value_info("x", kind)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = ephost.InferenceSession(model.SerializeToString())
    with pytest.raises(errors.OnnxRuntimeException, match=rf"'the node' \(ConcatFromSequence\): {message}"):
        session.run(None, feed)


TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
SEQUENCE = helper.make_sequence_type_proto(TENSOR)


@pytest.mark.parametrize("inner", [TENSOR, SEQUENCE], ids=["tensor", "sequence"])
def test_an_optional_holds_something_or_nothing(inner: Any) -> None:
    optional = helper.make_optional_type_proto(inner)
    graph = helper.make_graph(
        [
            helper.make_node("Optional", ["x"], ["made"]),
            helper.make_node("OptionalHasElement", ["made"], ["has"]),
            helper.make_node("OptionalHasElement", ["given"], ["has_given"]),
            helper.make_node("OptionalGetElement", ["made"], ["y"]),
        ],
        "g",
        [helper.make_value_info("x", inner), helper.make_value_info("given", optional)],
        [
            helper.make_tensor_value_info("has", TensorProto.BOOL, []),
            helper.make_tensor_value_info("has_given", TensorProto.BOOL, []),
            helper.make_value_info("y", inner),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = ephost.InferenceSession(model.SerializeToString())
    x: Any = np.array([1, 2], np.float32)
    if inner is SEQUENCE:
        x = [x, x + 1]
    for given in (None, x):
        has, has_given, y = session.run(None, {"x": x, "given": given})
        assert has
        assert has_given == (given is not None)
        np.testing.assert_array_equal(y, x)
    get = helper.make_model(
        helper.make_graph(
            [helper.make_node("OptionalGetElement", ["given"], ["y"], "the node")],
            "g",
            [helper.make_value_info("given", optional)],
            [helper.make_value_info("y", inner)],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )
    session = ephost.InferenceSession(get.SerializeToString())
    with pytest.raises(errors.OnnxRuntimeException, match=r"'the node'.*the optional holds nothing"):
        session.run(None, {"given": None})
    (y,) = session.run(None, {"given": x})
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("op", ["SplitToSequence", "ConcatFromSequence", "SequenceEmpty"])
def test_each_allocation_may_fail(op: str) -> None:
    texts = numbers(np.object_, 3, 40)
    text = helper.make_tensor_type_proto(TensorProto.STRING, None)
    feed: dict[str, Any] = {"SplitToSequence": {"x": texts}, "ConcatFromSequence": {"x": [texts, texts]}}.get(
        op, {}
    )
    output = text if op == "ConcatFromSequence" else helper.make_sequence_type_proto(text)
    attributes = {"dtype": TensorProto.STRING} if op == "SequenceEmpty" else {"axis": 0}
    session = ephost.InferenceSession(single(op, output, feed, **attributes))
    (expected,) = session.run(None, feed)
    failed = 0
    for count, results in with_failing_allocations(lambda: session.run(None, feed), range(500)):
        if results is None:
            failed += 1
            continue
        (found,) = results
        assert [part.tolist() for part in found] == [part.tolist() for part in expected]
        if count > failed + 5:
            break
    assert failed > 0


def session_of(nodes: list[Any], kind: Any) -> ephost.InferenceSession:
    """A model of an input x and an output y, tensors of one type."""
    made = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(np.dtype(kind)), None)
    graph = helper.make_graph(nodes, "g", *([helper.make_value_info(name, made)] for name in "xy"))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return ephost.InferenceSession(model.SerializeToString())


@pytest.mark.parametrize("kind", [np.object_, np.float32])
@pytest.mark.parametrize("more", [1, 20])
def test_a_tensor_of_more_dimensions_than_an_array_may_have_is_none(kind: Any, more: int) -> None:
    nodes = []
    for at in range(more):
        nodes.append(helper.make_node("SequenceConstruct", ["x" if at == 0 else f"y{at}"], [f"s{at}"]))
        made = "y" if at == more - 1 else f"y{at + 1}"
        nodes.append(helper.make_node("ConcatFromSequence", [f"s{at}"], [made], axis=0, new_axis=1))
    session = session_of(nodes, kind)
    with pytest.raises(errors.InvalidArgument, match=f"rank {32 + more} has no numpy array.*is 32"):
        session.run(None, {"x": numbers(kind, *[1] * 32)})


@pytest.mark.timeout(60)
@pytest.mark.parametrize("new_axis", [0, 1])
def test_rows_without_elements_are_not_counted(new_axis: int) -> None:
    shape = (1 << 40, 0)
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=1),
        helper.make_node("SequenceInsert", ["parts", "x"], ["s"]),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=1, new_axis=new_axis),
    ]
    (y,) = session_of(nodes, np.float32).run(None, {"x": np.zeros(shape, np.float32)})
    assert y.shape == ((1 << 40, 1, 0) if new_axis else shape)
