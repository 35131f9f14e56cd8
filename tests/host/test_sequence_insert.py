"""SequenceInsert, which the host runs itself: a sequence that nobody reads any more grows in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ephost
import numpy as np
import onnxruntime
import pytest
from ephost import errors
from ephost._bindings import lib
from onnx import NodeProto, TensorProto, helper

FLOATS = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))


def inserting(
    nodes: Sequence[NodeProto], outputs: dict[str, Any], position: int = TensorProto.INT64, opset: int = 17
) -> bytes:
    """A model that takes a tensor `x`, a sequence `given` and a position `at`."""
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]),
        helper.make_value_info("given", FLOATS),
        helper.make_tensor_value_info("at", position, []),
    ]
    made = [helper.make_value_info(name, kind) for name, kind in outputs.items()]
    graph = helper.make_graph(nodes, "g", inputs, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return bytes(model.SerializeToString())


def insert(source: str, element: str, made: str, *position: str) -> NodeProto:
    return helper.make_node("SequenceInsert", [source, element, *position], [made], f"to {made}")


def run(content: bytes, **feed: Any) -> list[Any]:
    everything = {
        "x": np.array([1, 2], np.float32),
        "given": [np.array([7], np.float32), np.array([8, 9], np.float32)],
        "at": np.array(0, np.int64),
        **feed,
    }
    session = ephost.InferenceSession(content)
    found: list[Any] = []
    for _ in range(2):  # the second one on the first one's frame
        found = session.run(None, everything)
    return found


def as_lists(sequence: list[np.ndarray]) -> list[Any]:
    return [value.tolist() for value in sequence]


@pytest.mark.parametrize("position", [None, 0, 1, 2, -1, -2])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_an_element_comes_where_onnxruntime_puts_it(position: int | None, kind: Any) -> None:
    where = [] if position is None else ["at"]
    content = inserting(
        [insert("given", "x", "y", *where)], {"y": FLOATS}, helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    )
    feed = {
        "x": np.array([1, 2], np.float32),
        "given": [np.array([7], np.float32), np.array([8, 9], np.float32)],
        "at": np.array(position or 0, kind),
    }
    (ours,) = run(content, **feed)
    (theirs,) = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, feed)
    assert as_lists(ours) == as_lists(theirs)
    assert as_lists(feed["given"]) == [[7], [8, 9]]


@pytest.mark.parametrize("position", [3, -3, 2**31 - 1])
def test_a_position_outside_is_an_error_that_names_the_node(position: int) -> None:
    content = inserting([insert("given", "x", "y", "at")], {"y": FLOATS})
    with pytest.raises(errors.OnnxRuntimeException, match=rf"'to y'.*position {position} of a sequence of 2"):
        run(content, at=np.array(position, np.int64))


def test_an_empty_sequence_takes_its_first() -> None:
    nodes = [
        helper.make_node("SequenceEmpty", [], ["empty"], dtype=TensorProto.FLOAT),
        insert("empty", "x", "one", "at"),
        helper.make_node("SequenceAt", ["given", "at"], ["first"]),
        insert("one", "first", "y", "at"),
    ]
    assert as_lists(run(inserting(nodes, {"y": FLOATS}))[0]) == [[7], [1, 2]]


def test_a_sequence_that_is_read_again_stays_as_it_is() -> None:
    nodes = [
        insert("given", "x", "longer"),
        insert("longer", "x", "longest", "at"),
        insert("longer", "x", "other", "at"),
        helper.make_node("SequenceLength", ["longer"], ["length"]),
    ]
    outputs = {
        "given again": FLOATS,
        "longest": FLOATS,
        "other": FLOATS,
        "longer": FLOATS,
        "length": helper.make_tensor_type_proto(TensorProto.INT64, []),
    }
    nodes.append(helper.make_node("Identity", ["given"], ["given again"]))
    given, longest, other, longer, length = run(inserting(nodes, outputs))
    assert as_lists(given) == [[7], [8, 9]]
    assert as_lists(longest) == as_lists(other) == [[1, 2], [7], [8, 9], [1, 2]]
    assert as_lists(longer) == [[7], [8, 9], [1, 2]]
    assert length == 3


def test_elements_outlive_the_memory_that_they_were_made_in() -> None:
    """What the nodes make lies in the arena, each in the place of the one before."""
    nodes = [helper.make_node("SequenceEmpty", [], ["s0"], dtype=TensorProto.FLOAT)]
    for at in range(8):
        source = f"v{at - 1}" if at else "x"
        nodes.append(helper.make_node("Add", [source, "x"], [f"v{at}"]))
        nodes.append(insert(f"s{at}", f"v{at}", f"s{at + 1}"))
    (y,) = run(inserting(nodes, {"s8": FLOATS}))
    assert as_lists(y) == [[at + 2.0, 2 * (at + 2.0)] for at in range(8)]


def test_what_comes_out_is_the_callers_own() -> None:
    x, given = np.array([1, 2], np.float32), [np.array([7], np.float32)]
    session = ephost.InferenceSession(inserting([insert("given", "x", "y")], {"y": FLOATS}))
    (y,) = session.run(None, {"x": x, "given": given, "at": np.array(0, np.int64)})
    for array in (x, *given):
        array[:] = -1
    assert as_lists(y) == [[7], [1, 2]]


def test_text_is_an_element_as_well() -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x"], ["one"]),
        insert("one", "x", "two"),
        helper.make_node("ConcatFromSequence", ["two"], ["y"], axis=0),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.STRING, [2])
    y = helper.make_tensor_value_info("y", TensorProto.STRING, [4])
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    (found,) = ephost.InferenceSession(model.SerializeToString()).run(None, {"x": np.array(["a", "grün"])})
    assert found.tolist() == ["a", "grün"] * 2


def test_a_chain_copies_each_element_once() -> None:
    count = 400
    nodes = [helper.make_node("SequenceEmpty", [], ["s0"], dtype=TensorProto.FLOAT)]
    nodes += [insert(f"s{at}", "x", f"s{at + 1}") for at in range(count)]
    nodes.append(helper.make_node("SequenceLength", [f"s{count}"], ["y"]))
    content = inserting(nodes, {"y": helper.make_tensor_type_proto(TensorProto.INT64, [])})
    session = ephost.InferenceSession(content)
    feed = {"x": np.ones(2, np.float32), "given": [], "at": np.array(0, np.int64)}
    session.run(None, feed)
    # One that copied the sequence for each element would ask for memory 80,000 times, and then fail.
    lib.ephost_fail_allocation_after(20 * count)
    try:
        assert session.run(None, feed) == [count]
    finally:
        lib.ephost_fail_allocation_after(-1)
