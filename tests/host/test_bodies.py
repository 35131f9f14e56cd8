"""If, Loop, Scan and SequenceMap of whose bodies a plugin has a part, or through which sequences go: the host
runs them in C, on plans of the bodies, as the reference operators and onnxruntime do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import ephost
import numpy as np
import pytest
from ephost import errors
from ephost.model import partition
from ephost.model.load import load
from graphs import evaluate
from host_state import with_failing_allocations
from onnx import TensorProto, helper, parser

pytestmark = pytest.mark.usefixtures("nothing_leaks")

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def model(body: str, opset: int = 17) -> bytes:
    text = f'<ir_version: 8, opset_import: ["": {opset}]>\ng {body}'
    return bytes(parser.parse_model(text).SerializeToString())


def looping(nodes: str, state: str = "x", last: str = "y", signature: str = "") -> bytes:
    """A loop over `x` that a plugin has a part of: what `nodes` makes of `v` is `next`."""
    signature = signature or "(int64 n, bool c, float[a,b] x) => (float[a,b] y)"
    return model(f"{signature} {{ {last} = Loop (n, c, {state}) <body = {nodes}> }}")


# Each with what is fed, and whether Loop and Scan are in it.
CASES: dict[str, tuple[bytes, dict[str, Any]]] = {
    "a count and a condition that ends it": (
        looping(
            """b (int64 i, bool going, float[a,b] v) => (bool on, float[a,b] next) {
              next = Add (v, v) top = ReduceMax <keepdims = 0> (next) limit = Constant <value_float = 30.0> ()
              on = Less (top, limit) }"""
        ),
        {"n": np.array(9), "c": np.array(True), "x": X},
    ),
    "no iteration": (
        looping(
            """b (int64 i, bool going, float[a,b] v) => (bool on, float[a,b] next, float[k,3] seen) {
              next = Add (v, v) seen = Mul (v, v) on = Identity (going) }""",
            last="y, all",
            signature="(int64 n, bool c, float[a,b] x) => (float[a,b] y, float[j,k,3] all)",
        ),
        {"n": np.array(5), "c": np.array(False), "x": X},
    ),
    "neither count nor condition": (
        model("""(float[a,b] x) => (float[a,b] y) {
          y = Loop ("", "", x) <body = b (int64 i, bool going, float[a,b] v) => (bool on, float[a,b] next) {
            next = Add (v, v) four = Constant <value_int = 4> () on = Less (i, four) }> }"""),
        {"x": X},
    ),
    "one that takes the state, what it captures and the number of the run": (
        model("""(int64 n, float[a,b] x) => (float[a,b] y, float[j,a,b] same, int64[j] numbers,
                                           float[j,a,b] twice, float[j,a,b] again) {
          outer = Mul (x, x)
          y, same, numbers, twice, again = Loop (n, "", x) <body = b (int64 i, bool going, float[a,b] v) =>
            (bool going, float[a,b] v, float[a,b] outer, int64 i, float[a,b] sum, float[a,b] sum) {
              sum = Add (v, outer) }> }"""),
        {"n": np.array(4), "x": X},
    ),
    "counters that are tensors of one element": (
        looping(
            """b (int64[1] i, bool[1] going, float[a,b] v) => (bool[1] on, float[a,b] next, int64[1] at) {
              next = Add (v, v) on = Identity (going) at = Identity (i) }""",
            last="y, numbers",
            signature="(int64[1] n, bool[1] c, float[a,b] x) => (float[a,b] y, int64[j,1] numbers)",
        ),
        {"n": np.array([3]), "c": np.array([True]), "x": X},
    ),
    "texts that are put together": (
        looping(
            """b (int64 i, bool going, float[k] v) => (bool on, float[k] next, string[k] said) {
              next = Add (v, v) on = Identity (going) said = Cast <to = 8> (v) }""",
            last="y, texts",
            signature="(int64 n, bool c, float[k] x) => (float[k] y, string[j,k] texts)",
        ),
        {"n": np.array(70), "c": np.array(True), "x": np.array([0.5, 1e30], np.float32)},
    ),
    "more than there is room for at first": (
        looping(
            """b (int64 i, bool going, float[a,b] v) => (bool on, float[a,b] next, float[a,b] seen) {
              half = Constant <value_float = 0.5> () on = Identity (going)
              next = Add (v, v) seen = Mul (next, half) }""",
            last="y, all",
            signature="(int64 n, bool c, float[a,b] x) => (float[a,b] y, float[j,a,b] all)",
        ),
        {"n": np.array(50), "c": np.array(True), "x": np.ones((100, 40), np.float32)},
    ),
    "nested, with branches": (
        model("""(int64 n, float[a] x) => (float[a] y) {
          y = Loop (n, "", x) <body = b (int64 i, bool going, float[a] v) => (bool on, float[a] next) {
            on = Identity (going) two = Constant <value_int = 2> () rest = Mod (i, two)
            zero = Constant <value_int = 0> () even = Equal (rest, zero)
            inner = Loop (i, "", v) <body = d (int64 j, bool go, float[a] w) => (bool more, float[a] sum) {
              more = Identity (go) sum = Add (w, x) }>
            next = If (even) <then_branch = t () => (float[a] q) { q = Mul (inner, x) },
                              else_branch = e () => (float[a] r) { r = Identity (v) }> }> }"""),
        {"n": np.array(5), "x": np.array([0.5, 1.0, 1.5], np.float32)},
    ),
    "a branch of what is there already": (
        model("""(bool c, float[a] x) => (float[a] y, float[a] z) {
          twice = Add (x, x)
          y, z = If (c) <then_branch = t () => (float[a] twice, float[a] p) { p = Mul (twice, x) },
                         else_branch = e () => (float[a] q, float[a] q) { q = Mul (x, x) }> }"""),
        {"c": np.array(True), "x": np.array([1, 2, 3], np.float32)},
    ),
    "scans along other axes, and backwards": (
        model("""(float[3] s, float[a,b] x, float[b,a] z) => (float[3] last, float[b,a] u, float[a,b] w) {
          last, u, w = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0],
              scan_input_directions = [0, 1], scan_output_axes = [0, -1], scan_output_directions = [1, 0],
              body = b (float[3] v, float[a] p, float[a] q) => (float[3] next, float[a] r, float[a] c) {
                one = Constant <value_floats = [1.0]> () next = Add (v, one)
                r = Add (p, q) c = Mul (p, q) }> (s, x, z) }"""),
        {"s": np.zeros(3, np.float32), "x": X, "z": X.T + 1},
    ),
    "scans of texts": (
        model("""(string[a,b] x, float[1] s) => (float[1] last, string[a,b] y) {
          last, y = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
              body = b (float[1] v, string[a] p) => (float[1] next, string[a] r) {
                next = Add (v, v) r = Identity (p) }> (s, x) }"""),
        {
            "x": np.array([["a", "longer than what fits inside"], ["", "ü"]], object),
            "s": np.ones(1, np.float32),
        },
    ),
    "a scan of nothing": (
        model("""(float[1] s, float[j,2] x) => (float[1] last, float[2,j] y) {
          last, y = Scan <num_scan_inputs = 1, scan_output_axes = [1],
              body = b (float[1] v, float[2] p) => (float[1] next, float[2] r) {
                next = Add (v, v) r = Mul (p, p) }> (s, x) }"""),
        {"s": np.ones(1, np.float32), "x": np.zeros((0, 2), np.float32)},
    ),
    "sequences round a loop, and out of a branch": (
        model("""(int64 n, bool c, float[a] x) => (float[m] y) {
          none = SequenceEmpty <dtype = 1> ()
          last, all = Loop (n, "", x, none) <body = b (int64 i, bool going, float[a] v, seq(float[a]) s) =>
            (bool on, float[a] next, seq(float[a]) more) {
              on = Identity (going) next = Add (v, x) more = SequenceInsert (s, next) }>
          one = If (c) <then_branch = t () => (seq(float[a]) p) { p = SequenceInsert (all, x) },
                        else_branch = e () => (seq(float[a]) q) { q = Identity (all) }>
          y = ConcatFromSequence <axis = 0> (one) }"""),
        {"n": np.array(4), "c": np.array(True), "x": np.array([1, 2], np.float32)},
    ),
}


Opener = Callable[[bytes], ephost.InferenceSession]


@pytest.fixture
def opened(sample_kernels: list[Any]) -> Iterator[Opener]:
    """Opens sessions on a plugin that has kernels for parts of the bodies."""
    sessions: list[ephost.InferenceSession] = []

    def open_session(content: bytes) -> ephost.InferenceSession:
        options = ephost.SessionOptions()
        options.add_provider_for_devices(sample_kernels, {})
        sessions.append(ephost.InferenceSession(content, options))
        return sessions[-1]

    yield open_session
    for session in sessions:
        session.close()


# What onnxruntime refuses: values from outside as outputs of a body, and to scan what has no rows.
NOT_THERE = {
    "one that takes the state, what it captures and the number of the run",
    "a branch of what is there already",
    "a scan of nothing",
}


def assert_same(found: list[Any], expected: list[Any]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        if ours.dtype != object:
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
        elif theirs.size < 100:
            assert ours.tolist() == theirs.tolist()
        else:  # numbers as texts, of which onnxruntime writes more digits
            np.testing.assert_allclose(ours.astype(np.float32), theirs.astype(np.float32), rtol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_they_do_as_the_operators_that_they_are(opened: Opener, case: str) -> None:
    content, feed = CASES[case]
    session = opened(content)
    found = [session.run(None, feed) for _ in range(2)]  # the second run has the first one's frames
    expected = [evaluate(load(content), **feed)]
    if case not in NOT_THERE:
        onnxruntime = pytest.importorskip("onnxruntime")
        theirs = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        expected.append(theirs.run(None, feed))
    for each in expected:
        assert_same(found[0], each)
        assert_same(found[1], each)
    assert any(
        part.in_body and part.ep_name == "sample_kernels" for part in ephost.explain(session).partitions
    )


@pytest.mark.parametrize("case", CASES)
def test_each_allocation_may_fail(opened: Opener, case: str) -> None:
    """The run then says so and leaves nothing behind, and the next one is right."""
    content, feed = CASES[case]
    session = opened(content)
    expected = session.run(None, feed)
    failed = 0
    counts = range(0, 3000, 1 if feed.get("n", np.array(0)).max() < 10 else 37)
    for count, found in with_failing_allocations(lambda: session.run(None, feed), counts):
        if found is None:
            failed += 1
            continue
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        if failed and count > 2 * failed * 37:
            break
    assert failed > 3
    for ours, theirs in zip(session.run(None, feed), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


WRONG = {
    "a condition of two": (
        model("""(bool[k] c, float[a] x) => (float[a] y) {
          y = If (c) <then_branch = t () => (float[a] p) { p = Add (x, x) },
                      else_branch = e () => (float[a] q) { q = Mul (x, x) }> }"""),
        {"c": np.array([True, False]), "x": np.ones(2, np.float32)},
        r"\(If\).*the condition must have one element, not 2",
    ),
    "a trip count of two": (
        looping(
            """b (int64 i, bool going, float[a,b] v) => (bool on, float[a,b] next) {
              next = Add (v, v) on = Identity (going) }""",
            signature="(int64[k] n, bool c, float[a,b] x) => (float[a,b] y)",
        ),
        {"n": np.array([1, 2]), "c": np.array(True), "x": X},
        r"\(Loop\).*the trip count must have one element, not 2",
    ),
    "a scan output that grows": (
        model("""(int64 n, float[k] x) => (float[m] y, float[j,l] all) {
          y, all = Loop (n, "", x) <body = b (int64 i, bool going, float[k] v) =>
            (bool on, float[m] next, float[l] seen) {
              next = Concat <axis = 0> (v, x) on = Identity (going) seen = Add (v, v) }> }"""),
        {"n": np.array(3), "x": np.ones(2, np.float32)},
        r"\(Loop\).*scan output 'seen' has another type or shape than before",
    ),
    "scans of different lengths": (
        model("""(float[1] s, float[j,2] x, float[l,2] z) => (float[1] last, float[m,2] y) {
          last, y = Scan <num_scan_inputs = 2,
              body = b (float[1] v, float[2] p, float[2] q) => (float[1] next, float[2] r) {
                next = Add (v, v) r = Mul (p, q) }> (s, x, z) }"""),
        {
            "s": np.ones(1, np.float32),
            "x": np.zeros((3, 2), np.float32),
            "z": np.zeros((4, 2), np.float32),
        },
        r"\(Scan\).*different lengths along their scan axes: 3 and 4",
    ),
    "a tensor of another type than the body declares": (
        model("""(seq(float[k]) s, float16[k] x) => (seq(float[k]) y) {
          y = SequenceMap (s, x) <body = b (float[k] v, float[k] w) => (float[k] u) { u = Add (v, w) }> }"""),
        {"s": [np.ones(5, np.float32)], "x": np.ones(5, np.float16)},
        r"\(SequenceMap\).*input 1 of a body is of the element type 10, where the body says 1",
    ),
    "a state of another type than the body declares": (
        model("""(int64 n, float16[k] x) => (float[k] y) {
          y = Loop (n, "", x) <body = b (int64 i, bool going, float[k] v) => (bool on, float[k] next) {
              on = Identity (going) next = Add (v, v) }> }"""),
        {"n": np.array(2), "x": np.ones(5, np.float16)},
        r"input 2 of a body is of the element type 10, where the body says 1",
    ),
    "what fails in a body": (
        model("""(int64 n, float[k] x) => (float[k] y) {
          y = Loop (n, "", x) <body = b (int64 i, bool going, float[k] v) => (bool on, float[k] next) {
              two = Constant <value_ints = [2]> () on = Identity (going) w = Add (v, v)
              at = Gather <axis = 0> (w, i) next = Expand (at, two) }> }"""),
        {"n": np.array(9), "x": np.ones(2, np.float32)},
        r"\(Loop\).*\(Gather\)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_of_the_node(opened: Opener, case: str) -> None:
    content, feed, message = WRONG[case]
    session = opened(content)
    for _ in range(2):
        with pytest.raises(errors.OnnxRuntimeException, match=message):
            session.run(None, feed)


def test_elements_of_half_a_byte_are_put_together_all_the_same(opened: Opener) -> None:
    content = model(
        """(int64 n, float[3] x) => (float[3] y, int4[j,3] all) {
          y, all = Loop (n, "", x) <body = b (int64 i, bool going, float[3] v) =>
            (bool on, float[3] next, int4[3] seen) {
              next = Add (v, x) on = Identity (going) seen = Cast <to = 22> (v) }> }""",
        opset=21,
    )
    session = opened(content)
    _, found = session.run(None, {"n": np.array(3), "x": np.array([1, 2, -2], np.float32)})
    assert found.astype(np.int8).tolist() == [[1, 2, -2], [2, 4, -4], [3, 6, -6]]


@pytest.mark.parametrize("opset", [17, 21])
def test_a_body_is_mapped_over_sequences(opened: Opener, opset: int) -> None:
    floats = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    body = helper.make_graph(
        [
            helper.make_node("Add", ["p", "q"], ["r"]),
            helper.make_node("Mul", ["p", "k"], ["s"]),
        ],
        "b",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "pq"],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "rs"],
    )
    graph = helper.make_graph(
        [helper.make_node("SequenceMap", ["x", "z"], ["y", "w"], body=body)],
        "g",
        [
            helper.make_value_info("x", floats),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n"]),
            helper.make_tensor_value_info("k", TensorProto.FLOAT, ["n"]),
        ],
        [helper.make_value_info(name, floats) for name in "yw"],
    )
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    session = opened(content.SerializeToString())
    z, k = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    x = [np.array([at, -at], np.float32) for at in range(4)]
    for given in (x, x[:1]):
        for _ in range(2):
            y, w = session.run(None, {"x": given, "z": z, "k": k})
            np.testing.assert_array_equal(y, [each + z for each in given])
            np.testing.assert_array_equal(w, [each * k for each in given])


def test_an_endless_loop_ends_when_the_run_is_told_to(opened: Opener) -> None:
    content = model("""(float[a] x) => (float[a] y) {
      y = Loop ("", "", x) <body = b (int64 i, bool going, float[a] v) => (bool going, float[a] next) {
        next = Mul (v, x) }> }""")
    session = opened(content)
    run = ephost.RunOptions()
    timer = threading.Timer(0.3, setattr, (run, "terminate", True))
    timer.start()
    with pytest.raises(errors.Fail, match="terminated through its RunOptions"):
        session.run(None, {"x": np.ones(2, np.float32)}, run)
    timer.join()


def test_runs_at_the_same_time_are_apart(opened: Opener) -> None:
    content, feed = CASES["nested, with branches"]
    session = opened(content)
    feeds = [{**feed, "x": feed["x"] * at} for at in range(4)]
    expected = [session.run(None, each)[0] for each in feeds]
    wrong: list[int] = []

    def repeat(at: int) -> None:
        for _ in range(50):
            if not np.array_equal(session.run(None, feeds[at])[0], expected[at]):
                wrong.append(at)

    threads = [threading.Thread(target=repeat, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("plugin", ["sample_kernels", "sample_compiler"])
def test_a_plugin_that_has_nodes_of_many_bodies_is_shown_the_model_once_for_all(
    plugin: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time, and where each of them was kept the memory, grew with the square of their number."""
    devices = request.getfixturevalue(plugin)
    made: list[partition.NativeGraph] = []

    class Counted(partition.NativeGraph):
        def __init__(self, model: Any, graph: Any, *args: Any, **options: Any) -> None:
            if graph is model.graph:  # and no fused nodes alone
                made.append(self)
            super().__init__(model, graph, *args, **options)

    monkeypatch.setattr(partition, "NativeGraph", Counted)
    steps = "".join(
        f"""v{at + 1} = If (c) <
          then_branch = t{at} () => (float[2] a{at}) {{ a{at} = Mul (v{at}, x) }},
          else_branch = e{at} () => (float[2] b{at}) {{ b{at} = Add (v{at}, x) }}>
        """
        for at in range(20)
    )
    content = model(f"(float[2] x, bool c) => (float[2] v20) {{ v0 = Neg (x) {steps} }}")
    options = ephost.SessionOptions()
    options.add_provider_for_devices(devices, {})
    session = ephost.InferenceSession(content, options)
    assert len(made) < 8
    x = np.array([1, 2], np.float32)
    (y,) = session.run(None, {"x": x, "c": np.array(False)})
    np.testing.assert_array_equal(y, 19 * x)
    (y,) = session.run(None, {"x": x, "c": np.array(True)})
    np.testing.assert_array_equal(y, -(x**21))
    made.clear()
