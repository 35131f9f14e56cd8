"""The operators of sequences, which the host runs itself: one that nobody reads any more grows in its place,
also round a loop and through branches, and of others a node takes what it asks for.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import ephost
import numpy as np
import pytest
from ephost import errors
from ephost._bindings import lib
from onnx import NodeProto, TensorProto, helper, parser

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
    onnxruntime = pytest.importorskip("onnxruntime")
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


LOOP = """<ir_version: 8, opset_import: ["": 17]>
looping (int64 trips, float[k] x, seq(float[k]) given)
    => (seq(float[k]) grown, int64 length, seq(float[k]) same) {{
  true = Constant<value=bool{{1}}>()
  grown = Loop (trips, true, given) <body = body
    (int64 i, bool go, seq(float[k]) before) => (bool on, seq(float[k]) after) {{
      on = Identity(go)
      number = Cast<to=1>(i)
      made = Add(x, number)
      {nodes}
    }}>
  length = SequenceLength(grown)
  same = Identity(given)
}}"""
BODIES = {
    "an element more": "after = SequenceInsert(before, made)",
    "in front": "first = Constant<value=int64{0}>() after = SequenceInsert(before, made, first)",
    "in a branch that a plugin has a part of": """
      small = Constant<value=int64{3}>()
      late = Greater(i, small)
      after = If(late) <
        then_branch = then () => (seq(float[k]) here) {
          twice = Add(made, made)
          here = SequenceInsert(before, twice)
        },
        else_branch = else () => (seq(float[k]) there) { there = Identity(before) }>""",
    "in a branch of sequences alone": """
      small = Constant<value=int64{3}>()
      late = Greater(i, small)
      after = If(late) <
        then_branch = then () => (seq(float[k]) here) { here = SequenceInsert(before, made) },
        else_branch = else () => (seq(float[k]) there) { there = SequenceInsert(before, x) }>""",
    "and read again": """
      more = SequenceInsert(before, made)
      first = Constant<value=int64{0}>()
      oldest = SequenceAt(more, first)
      sum = Add(oldest, made)
      after = SequenceInsert(more, sum)""",
    "one that leaves": """
      more = SequenceInsert(before, made)
      first = Constant<value=int64{0}>()
      after = SequenceErase(more, first)""",
    "in a loop in it": """
      two = Constant<value=int64{2}>()
      after = Loop(two, go, before) <body = inner
        (int64 j, bool going, seq(float[k]) b) => (bool inner_on, seq(float[k]) a) {
          inner_on = Identity(going)
          both = Add(made, x)
          a = SequenceInsert(b, both)
        }>""",
}


def looping(nodes: str) -> bytes:
    return bytes(parser.parse_model(LOOP.format(nodes=nodes)).SerializeToString())


def loop_feed(trips: int) -> dict[str, Any]:
    given = [np.array([at, -at, 7], np.float32) for at in range(3)]
    return {"trips": np.array(trips), "x": np.array([1, 2, 3], np.float32), "given": given}


@pytest.mark.parametrize("trips", [0, 1, 9])
@pytest.mark.parametrize("body", BODIES)
def test_round_a_loop_as_in_onnxruntime(body: str, trips: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    content = looping(BODIES[body])
    theirs = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    ours = ephost.InferenceSession(content)
    for _ in range(2):
        feed = loop_feed(trips)
        grown, length, same = ours.run(None, feed)
        expected = theirs.run(None, feed)
        assert as_lists(grown) == as_lists(expected[0])
        assert length == expected[1]
        assert as_lists(same) == as_lists(feed["given"]) == as_lists(loop_feed(trips)["given"])


@pytest.mark.parametrize("body", [body for body in BODIES if body != "one that leaves"])
def test_round_a_loop_each_element_is_copied_once(body: str) -> None:
    session = ephost.InferenceSession(looping(BODIES[body]))
    trips = 400
    session.run(None, loop_feed(trips))
    # One that copied the sequence in each iteration would ask for memory 80,000 times, and then fail.
    lib.ephost_fail_allocation_after(60 * trips)
    try:
        session.run(None, loop_feed(trips))
    finally:
        lib.ephost_fail_allocation_after(-1)


def test_an_error_in_a_body_names_the_node() -> None:
    nodes = (
        "last = Constant<value=int64{99}>() it = SequenceAt(before, last) after = SequenceInsert(before, it)"
    )
    session = ephost.InferenceSession(looping(nodes))
    with pytest.raises(errors.OnnxRuntimeException, match=r"\(SequenceAt\): position 99 of a sequence of 3"):
        session.run(None, loop_feed(1))
    with pytest.raises(errors.OnnxRuntimeException, match="position 99"):
        session.run(None, loop_feed(1))


NUMBER = helper.make_tensor_type_proto(TensorProto.INT64, [])
TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, None)


@pytest.mark.parametrize(
    ("node", "kind"),
    [
        (helper.make_node("SequenceAt", ["given", "at"], ["y"]), TENSOR),
        (helper.make_node("SequenceErase", ["given", "at"], ["y"]), FLOATS),
        (helper.make_node("SequenceErase", ["given"], ["y"]), FLOATS),
        (helper.make_node("SequenceLength", ["given"], ["y"]), NUMBER),
        (helper.make_node("SequenceConstruct", ["x", "x"], ["y"]), FLOATS),
        (helper.make_node("Identity", ["given"], ["y"]), FLOATS),
    ],
    ids=lambda given: f"{given.op_type} of {len(given.input)}" if isinstance(given, NodeProto) else "",
)
@pytest.mark.parametrize("position", [0, 1, -1, -2, 2, -3])
def test_operators_that_read_do_as_in_onnxruntime_and_not_in_python(
    node: NodeProto, kind: Any, position: int
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    content = inserting([node], {"y": kind})
    session = ephost.InferenceSession(content)
    feed = {
        "x": np.array([1, 2], np.float32),
        "given": [np.array([7], np.float32), np.array([8, 9], np.float32)],
        "at": np.array(position),
    }
    try:
        (expected,) = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(
            None, feed
        )
    except Exception:  # a position outside
        with pytest.raises(errors.OnnxRuntimeException, match=f"position {position} of a sequence of 2"):
            session.run(None, feed)
        return
    called: list[str] = []

    def profiler(frame: FrameType, event: str, argument: Any) -> None:
        called.append(frame.f_code.co_filename)

    sys.setprofile(profiler)
    try:
        (found,) = session.run(None, feed)
    finally:
        sys.setprofile(None)
    assert not [name for name in called if "reference" in name]
    if isinstance(expected, list):
        assert as_lists(found) == as_lists(expected)
    else:
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


def test_what_an_element_is_bound_to_stays_where_it_is() -> None:
    session = ephost.InferenceSession(
        inserting([helper.make_node("SequenceAt", ["given", "at"], ["y"])], {"y": TENSOR})
    )
    bound = ephost.OrtValue.ortvalue_from_numpy(np.zeros(2, np.float32))
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", ephost.OrtValue.ortvalue_from_numpy(np.zeros(1, np.float32)))
    binding.bind_ortvalue_input(
        "given", ephost.OrtValue.from_python([np.array([7], np.float32), np.array([8, 9], np.float32)])
    )
    binding.bind_ortvalue_output("y", bound)
    binding.bind_cpu_input("at", np.array(1))
    session.run_with_iobinding(binding)
    assert bound.numpy().tolist() == [8, 9]
    binding.bind_cpu_input("at", np.array(0))
    with pytest.raises(errors.OnnxRuntimeException, match="another type or shape than the value bound"):
        session.run_with_iobinding(binding)
    assert bound.numpy().tolist() == [8, 9]


def test_parts_of_a_value_outlive_the_memory_that_it_was_made_in() -> None:
    """The reference operator gives views of its input, which lies in the arena."""
    nodes = [helper.make_node("Add", ["x", "x"], ["v0"])]
    for at in range(5):
        nodes.append(helper.make_node("SplitToSequence", [f"v{at}", "one"], [f"s{at}"], axis=0))
        nodes.append(helper.make_node("ConcatFromSequence", [f"s{at}"], [f"j{at}"], axis=0))
        nodes.append(helper.make_node("Mul", [f"j{at}", "x"], [f"v{at + 1}"]))
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
        helper.make_tensor_value_info("one", TensorProto.INT64, []),
    ]
    outputs = [helper.make_value_info(f"s{at}", FLOATS) for at in range(5)]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    found = ephost.InferenceSession(model.SerializeToString()).run(
        None, {"x": np.array([2, 3], np.float32), "one": np.array(1)}
    )
    assert [as_lists(parts) for parts in found] == [
        [[2 * 2.0 ** (at + 1)], [2 * 3.0 ** (at + 1)]] for at in range(5)
    ]


@pytest.mark.parametrize(
    "made",
    [
        "[named] s = SequenceConstruct(one, last, more)",
        "c = SequenceConstruct(one, more) [named] s = SequenceInsert(c, last)",
    ],
)
def test_elements_of_a_sequence_need_not_have_a_type(made: str) -> None:
    model = parser.parse_model(
        """<ir_version: 9, opset_import: ["": 14]>
        g (float x, float[2, 3] rows, bool[k] flags) => (int64 length)
        <int64[1] at = {0}, float one = {8}, float[3] more = {3, 2, -2}> {
        q = Gather <axis = 0> (flags, at)
        last, all = Scan <num_scan_inputs = 1, scan_output_axes = [1], scan_output_directions = [1],
            body = b (float[] state, float[3] row) => (float state, bool[1] q) { }>(x, rows)
        """
        + made
        + " length = SequenceLength(s) }"
    )
    feed = {"x": np.array(1, np.float32), "rows": np.ones((2, 3), np.float32), "flags": np.array([True])}
    assert ephost.InferenceSession(model).run(None, feed)[0] == 3
