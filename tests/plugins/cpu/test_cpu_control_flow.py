"""If, Loop and Scan: claimed as a whole with what is in them, in ephost and in onnxruntime."""

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from ephost.model import partition
from ephost.model.native_graph import NativeGraph
from ephost.plugins import cpu, sample_kernels
from onnx import TensorProto, helper, parser
from onnx.reference import ReferenceEvaluator

from tests.plugins.cpu.conftest import Cpu, traced

NESTED_IF = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[n] x, bool a, bool b) => (float[m] y) {
  two = Constant <value_float = 2.0> ()
  doubled = Mul (x, two)
  y = If (a) <
    then_branch = g1 () => (float[m] r) {
      bias = Constant <value_floats = [1.0]> ()
      r = If (b) <
        then_branch = g2 () => (float[m] s) { s = Add (doubled, bias) },
        else_branch = g3 () => (float[m] s) { t = Mul (bias, x)  s = Concat <axis = 0> (t, doubled) }
      >
    },
    else_branch = g4 () => (float[n] r) { r = Identity (x) }
  >
}
"""

# Sums x over the iterations, with an early end; gives each partial sum, and the number of the iteration.
LOOP = """
<ir_version: 10, opset_import: ["" : 21]>
g (int64 most, bool go, float[n] x, float limit) => (float[n] y, float[k, n] parts, int64[k] numbers) {
  zero = Sub (x, x)
  y, parts, numbers = Loop (most, go, zero) <
    body = b (int64 i, bool c, float[n] sum) => (bool more, float[n] next, float[n] part, int64 number) {
      next = Add (sum, x)
      first = Constant <value_int = 0> ()
      top = Gather (next, first)
      more = Less (top, limit)
      part = Mul (next, limit)
      number = Identity (i)
    }
  >
}
"""

# The loop's state grows: its shape is another one in each iteration.
GROWING = """
<ir_version: 10, opset_import: ["" : 21]>
g (int64 most, float[n] x) => (float[m] y) {
  y = Loop (most, "", x) <
    body = b (int64 i, bool c, float[k] state) => (bool more, float[l] next) {
      more = Identity (c)
      next = Concat <axis = 0> (state, x)
    }
  >
}
"""

SLICING = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[8, 3] x) => (float[2, 3] y, float[k, 2, 3] rows) {
  most = Constant <value_int = 6> ()
  go = Constant <value = bool {1}> ()
  one = Constant <value_ints = [1]> ()
  two = Constant <value_ints = [2]> ()
  zero = Constant <value_float = 0.0> ()
  shape = Constant <value_ints = [2, 3]> ()
  start = Expand (zero, shape)
  y, rows = Loop (most, go, start) <
    body = b (int64 i, bool c, float[2, 3] sum) => (bool more, float[2, 3] next, float[2, 3] row) {
      more = Identity (c)
      first = Reshape (i, one)
      past = Add (first, two)
      row = Slice (x, first, past)
      next = Add (sum, row)
    }
  >
}
"""

# As exporters of TensorFlow write loops: all that the body reads are states. One of them, the weights, goes
# through an inner loop as well.
INVARIANTS = """
<ir_version: 10, opset_import: ["" : 21]>
g (int64 most, float[1, 4] x, float[1, 4] bias)
    => (float[1, 4] y, float[1, 4] kept, float[4, 4] v, float[k, 1, 4] all) {
  w = Constant <value = float[4, 4] WEIGHTS> ()
  y, kept, v, swapped, also, all = Loop (most, "", x, bias, w, x, bias) <
    body = b (int64 i, bool c, float[1, 4] s, float[1, 4] a, float[4, 4] m, float[1, 4] o, float[1, 4] d)
        => (bool more, float[1, 4] next, float[1, 4] a2, float[4, 4] m2, float[1, 4] o2, float[1, 4] d,
            float[1, 4] a) {
      more = Identity (c)
      a1 = Identity (a)
      a2 = Identity (a1)
      one = Constant <value_int = 1> ()
      t, m2 = Loop (one, "", s, m) <
        body = b2 (int64 j, bool cc, float[1, 4] u, float[4, 4] n)
            => (bool go, float[1, 4] p, float[4, 4] n) {
          go = Identity (cc)
          p = MatMul (u, n)
        }
      >
      e = Add (t, d)
      next = Add (e, o)
      o2 = Neg (o)
    }
  >
}
"""

SCAN = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[2] start, float[2, n] x, float[n, 2] z) => (float[2] last, float[2, n] sums, float[n, 2] products) {
  last, sums, products = Scan <
    num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [1, 0],
    scan_output_axes = [1, 0], scan_output_directions = [0, 1],
    body = b (float[2] state, float[2] a, float[2] c) => (float[2] next, float[2] sum, float[2] product) {
      next = Add (state, a)
      sum = Identity (next)
      product = Mul (next, c)
    }
  > (start, x, z)
}
"""


def model_of(text: str) -> onnx.ModelProto:
    return parser.parse_model(text)


@pytest.mark.parametrize("a", [True, False])
@pytest.mark.parametrize("b", [True, False])
def test_nested_branches_read_the_graphs_around_them(cpu_plugin: Cpu, a: bool, b: bool) -> None:
    feeds = {"x": np.arange(3, dtype=np.float32), "a": np.array(a), "b": np.array(b)}
    model = model_of(NESTED_IF)
    (expected,) = ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_allclose(cpu_plugin.run(model, feeds)[0], expected)


def without_types(graph: onnx.GraphProto) -> None:
    """Take the types of outputs away from all bodies, as the older exporter from PyTorch leaves them."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                without_types(attribute.g)
                for output in attribute.g.output:
                    output.ClearField("type")


def test_bodies_in_bodies_need_no_declared_types(cpu_plugin: Cpu) -> None:
    model = model_of(
        """
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[n] x, bool a, bool b) => (float[n] y) {
          y = If (a) <
            then_branch = g1 () => (float[n] r) {
              twice = Add (x, x)
              r = If (b) <
                then_branch = g2 () => (float[n] s) { t = Mul (twice, x)  u = Exp (t)  s = Sub (u, t) },
                else_branch = g3 () => (float[n] s) { s = Neg (twice) }
              >
            },
            else_branch = g4 () => (float[n] r) { r = Identity (x) }
          >
        }
        """
    )
    feeds = {"x": np.arange(3, dtype=np.float32), "a": np.array(True), "b": np.array(True)}
    (expected,) = ReferenceEvaluator(model).run(None, feeds)
    without_types(model.graph)
    np.testing.assert_allclose(cpu_plugin.run(model, feeds)[0], expected, rtol=1e-6)


def test_all_bodies_are_looked_at_in_one_graph(cpu_plugin: Cpu, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[NativeGraph] = []

    def counted(*arguments: object, **named: object) -> NativeGraph:
        made.append(NativeGraph(*arguments, **named))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(partition, "NativeGraph", counted)
    counts = []
    for branches in (1, 8):
        made.clear()
        nodes = "\n".join(
            f"y{i} = If (c) <then_branch = t () => (float[n] a) {{ a = Neg (x) }}, "
            "else_branch = e () => (float[n] b) { b = Abs (x) }>"
            for i in range(branches)
        )
        outputs = ", ".join(f"float[n] y{i}" for i in range(branches))
        model = model_of(
            f'<ir_version: 10, opset_import: ["" : 21]> g (bool c, float[n] x) => ({outputs}) {{ {nodes} }}'
        )
        found = cpu_plugin.run(model, {"c": np.array(True), "x": np.ones(2, np.float32)})
        assert [y.tolist() for y in found] == [[-1, -1]] * branches
        counts.append(len(made))
        assert not any(graph.pointer for graph in made)
    assert counts[0] == counts[1]


@pytest.mark.parametrize(("most", "limit"), [(5, 100.0), (5, 2.5), (1, 100.0)])
def test_loops_end_by_number_or_by_condition(cpu_plugin: Cpu, most: int, limit: float) -> None:
    feeds = {
        "most": np.array(most),
        "go": np.array(True),
        "x": np.array([1, 0.5], np.float32),
        "limit": np.array(limit, np.float32),
    }
    y, parts, numbers = cpu_plugin.run(model_of(LOOP), feeds)
    iterations = 3 if limit == 2.5 else most
    sums = np.arange(1, iterations + 1)[:, None] * feeds["x"]
    np.testing.assert_allclose(y, sums[-1])
    np.testing.assert_allclose(parts, sums * limit)
    np.testing.assert_array_equal(numbers, np.arange(iterations))


@pytest.mark.parametrize("most", [0, 1, 4])
@pytest.mark.parametrize("weights_are", ["constants", "inputs"])
def test_states_that_never_change_are_read_from_outside(
    cpu_plugin: Cpu, tmp_path: Path, most: int, weights_are: str
) -> None:
    weights = np.linspace(-0.4, 0.5, 16, dtype=np.float32).reshape(4, 4)
    written = "{" + ", ".join(f"{w:.9g}" for w in weights.ravel()) + "}"
    text = INVARIANTS.replace("WEIGHTS", written)
    feeds = {
        "most": np.array(most),
        "x": np.arange(4, dtype=np.float32).reshape(1, 4),
        "bias": np.array([[1, -1, 2, 0.5]], np.float32),
    }
    if weights_are == "inputs":
        text = re.sub(r"  w = Constant.*\n", "", text).replace(
            "float[1, 4] bias)", "float[1, 4] bias, float[4, 4] w)"
        )
        feeds["w"] = weights
    y, other = feeds["x"], feeds["x"]
    for _ in range(most):
        y, other = y @ weights + feeds["bias"] + other, -other
    model = model_of(text)
    found = cpu_plugin.run(model, feeds)
    np.testing.assert_allclose(found[0], y, rtol=1e-5)
    np.testing.assert_array_equal(found[1], feeds["bias"])
    np.testing.assert_array_equal(found[2], weights)
    np.testing.assert_array_equal(found[3], np.repeat(feeds["bias"][None], most, 0))
    # A constant outside is one inside: the product's weights are packed when the session opens.
    methods = {
        a.get("method") for a in traced(cpu_plugin, model, feeds, tmp_path) if "MatMul" in a["op_name"]
    }
    assert methods == (set() if most == 0 else {"packed" if weights_are == "constants" else "in place"})


def test_a_scan_reads_states_that_never_change_from_outside(cpu_plugin: Cpu, tmp_path: Path) -> None:
    model = model_of("""
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[1, 2] start, float[n, 1, 2] x) => (float[1, 2] last, float[2, 2] kept, float[n, 1, 2] sums) {
          w = Constant <value = float[2, 2] {0.5, -1, 2, 0.25}> ()
          last, kept, sums = Scan <
            num_scan_inputs = 1,
            body = b (float[1, 2] s, float[2, 2] m, float[1, 2] a)
                => (float[1, 2] next, float[2, 2] m, float[1, 2] sum) {
              p = MatMul (s, m)
              next = Add (p, a)
              sum = Identity (next)
            }
          > (start, w, x)
        }
    """)
    x = np.arange(6, dtype=np.float32).reshape(3, 1, 2)
    feeds = {"start": np.ones((1, 2), np.float32), "x": x}
    found = cpu_plugin.run(model, feeds)
    for a, b in zip(found, ReferenceEvaluator(model).run(None, feeds), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    methods = [
        a.get("method") for a in traced(cpu_plugin, model, feeds, tmp_path) if "MatMul" in a["op_name"]
    ]
    assert methods == ["packed"] * 3


@pytest.mark.parametrize(("most", "go"), [(0, True), (3, False)])
def test_a_loop_without_iterations_gives_its_first_state_and_no_parts(
    cpu_plugin: Cpu, most: int, go: bool
) -> None:
    feeds = {
        "most": np.array(most),
        "go": np.array(go),
        "x": np.array([1, 2], np.float32),
        "limit": np.array(9, np.float32),
    }
    y, parts, numbers = cpu_plugin.run(model_of(LOOP), feeds)
    np.testing.assert_array_equal(y, [0, 0])
    assert parts.shape[0] == 0
    assert parts.dtype == np.float32
    assert numbers.shape == (0,)


def test_states_may_change_their_shape(cpu_plugin: Cpu) -> None:
    feeds = {"most": np.array(5), "x": np.array([1, 2], np.float32)}
    (y,) = cpu_plugin.run(model_of(GROWING), feeds)
    np.testing.assert_array_equal(y, np.tile([1, 2], 6))


def test_slices_at_the_iterations_place(cpu_plugin: Cpu) -> None:
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    y, rows = cpu_plugin.run(model_of(SLICING), {"x": x})
    np.testing.assert_array_equal(rows, [x[i : i + 2] for i in range(6)])
    np.testing.assert_allclose(y, rows.sum(axis=0))


@pytest.mark.parametrize("n", [1, 4])
def test_scans_along_any_axis_and_in_both_directions(cpu_plugin: Cpu, n: int) -> None:
    rng = np.random.default_rng(0)
    feeds = {
        "start": rng.normal(size=2).astype(np.float32),
        "x": rng.normal(size=(2, n)).astype(np.float32),
        "z": rng.normal(size=(n, 2)).astype(np.float32),
    }
    last, sums, products = cpu_plugin.run(model_of(SCAN), feeds)
    expected = feeds["start"][:, None] + np.cumsum(feeds["x"][:, ::-1], axis=1)
    np.testing.assert_allclose(sums, expected, rtol=1e-5)
    np.testing.assert_allclose(last, expected[:, -1], rtol=1e-5)
    np.testing.assert_allclose(products, (expected.T * feeds["z"])[::-1], rtol=1e-5)


def test_parts_of_different_shapes_are_an_error_that_names_the_loop(cpu_plugin: Cpu) -> None:
    text = GROWING.replace("(float[m] y)", "(float[m] y, float[o, m] parts)")
    text = text.replace("y = Loop", "y, parts = Loop").replace(
        "(bool more, float[l] next)", "(bool more, float[l] next, float[p] part)"
    )
    model = model_of(text.replace("next = Concat", "part = Identity (state) next = Concat"))
    model.graph.node[0].name = "uneven"
    with pytest.raises(ephost.capi.onnxruntime_pybind11_state.InvalidArgument, match="uneven"):
        cpu_plugin.run(model, {"most": np.array(3), "x": np.array([1, 2], np.float32)})


def test_bodies_with_what_the_plugin_cannot_do_are_left_to_others(cpu_plugin: Cpu) -> None:
    """A body is claimed with its node or not at all; here a string keeps both from it."""
    text = helper.make_node(
        "Constant", [], ["s"], value=helper.make_tensor("s", TensorProto.STRING, [], [b"a"])
    )
    body = helper.make_graph(
        [
            text,
            helper.make_node("Equal", ["s", "s"], ["same"]),
            helper.make_node("Cast", ["same"], ["r"], to=TensorProto.FLOAT),
        ],
        "branch",
        [],
        [helper.make_tensor_value_info("r", TensorProto.FLOAT, [])],
    )
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)],
            "g",
            [helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
        ),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    options = ephost.SessionOptions()
    options.add_provider_for_devices([cpu_plugin.device], {})
    session = ephost.InferenceSession(model.SerializeToString(), options)
    assert session.run(None, {"c": np.array(True)})[0] == 1


def test_a_body_of_which_another_has_a_part_is_left_to_both(cpu_plugin: Cpu) -> None:
    model = parser.parse_model(LOOP)
    feeds = {
        "most": np.array(4),
        "go": np.array(True),
        "x": np.ones(2, np.float32),
        "limit": np.array(3, np.float32),
    }
    name, ours = sample_kernels.get_ep_name(), cpu_plugin.device.ep_name
    ephost.register_execution_provider_library("kernels", sample_kernels.get_library_path())
    try:
        options = ephost.SessionOptions()
        for wanted in (name, ours):  # in this order of priority
            found = [d for d in ephost.get_ep_devices() if d.ep_name == wanted]
            options.add_provider_for_devices(found, {})
        with contextlib.closing(ephost.InferenceSession(model.SerializeToString(), options)) as session:
            parts = ephost.explain(session).partitions
            outputs = session.run(None, feeds)
    finally:
        ephost.unregister_execution_provider_library("kernels")
    sums = np.array([[1, 1], [2, 2], [3, 3]], np.float32)
    for found, expected in zip(outputs, (sums[-1], sums * 3, np.arange(3)), strict=True):
        np.testing.assert_array_equal(found, expected)
    in_body = {part.ep_name: set(part.op_counts) for part in parts if part.in_body}
    assert in_body[name] & {"Add", "Mul"}
    assert "Identity" in in_body[ours]
    assert [set(part.op_counts) for part in parts if part.kind == "fallback"] == [{"Loop"}]


IN_ONNXRUNTIME = """
import sys
import numpy as np
import onnxruntime as ort
from onnx import parser

ort.register_execution_provider_library("EphostCPU", sys.argv[1])
device = next(device for device in ort.get_ep_devices() if device.ep_name == "EphostCPU")
for line in sys.stdin.read().split("====")[:-1]:
    text, feeds = line.split("----")
    feeds = eval(feeds, {"np": np})
    model = parser.parse_model(text).SerializeToString()
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices([device], {})
    found = ort.InferenceSession(model, options).run(None, feeds)
    expected = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    print("same")
"""


def test_whole_nodes_run_inside_onnxruntime_too(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    cases = [
        (NESTED_IF, "{'x': np.ones(3, np.float32), 'a': np.array(True), 'b': np.array(True)}"),
        (NESTED_IF, "{'x': np.ones(3, np.float32), 'a': np.array(True), 'b': np.array(False)}"),
        (
            LOOP,
            "{'most': np.array(4), 'go': np.array(True), 'x': np.ones(2, np.float32),"
            " 'limit': np.array(3, np.float32)}",
        ),
        (GROWING, "{'most': np.array(4), 'x': np.ones(2, np.float32)}"),
        (SLICING, "{'x': np.ones((8, 3), np.float32)}"),
    ]
    script = tmp_path / "in_onnxruntime.py"
    script.write_text(IN_ONNXRUNTIME)
    done = subprocess.run(
        [sys.executable, str(script), cpu.get_library_path()],
        input="".join(f"{text}----{feeds}====" for text, feeds in cases),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["same"] * len(cases)


def beside_the_fallback(cpu_plugin: Cpu, model: onnx.ModelProto) -> ephost.InferenceSession:
    options = ephost.SessionOptions()
    options.add_provider_for_devices([cpu_plugin.device], {})
    return ephost.InferenceSession(model, options)


def test_a_sequence_of_what_onnx_finds_no_type_for_is_shown_to_plugins(cpu_plugin: Cpu) -> None:
    """What a body gives of the values around it."""
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]> g (seq(float[n]) s, bool[1] x) => (int64 length) {
        q = Not(x)
        y = SequenceMap(s) <body = b (float[n] v) => (bool[1] q) { }>
        length = SequenceLength(y) }"""
    )
    session = beside_the_fallback(cpu_plugin, model)
    assert session.run(None, {"s": [np.ones(3, np.float32)] * 2, "x": np.array([True])})[0] == 2


@pytest.mark.parametrize(
    ("body", "element_type"),
    [("o = Neg(i)", np.float32), ("o = Cast<to = 7>(i)", np.int64), ("o = Shape(i)", np.int64)],
)
@pytest.mark.parametrize("in_a_function", [False, True])
def test_a_body_of_sequence_map_need_not_say_what_it_makes(
    cpu_plugin: Cpu, body: str, element_type: type, in_a_function: bool
) -> None:
    mapped = f"SequenceMap(x) <body = b (i) => (o) {{ {body} }}>"
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17, "own": 1]>'
        f"g (seq(float[n]) x) => (z) {{ y = {'own.f(x)' if in_a_function else mapped} z = Identity(y) }}"
        f'<domain: "own", opset_import: ["": 17]> f (x) => (z) {{ z = {mapped} }}'
    )
    (made,) = beside_the_fallback(cpu_plugin, model).run(None, {"x": [np.ones(2, np.float32)] * 3})
    assert [value.dtype.type for value in made] == [element_type] * 3


def test_a_node_with_a_body_gets_no_sequence_that_only_a_dropped_branch_read(cpu_plugin: Cpu) -> None:
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]> g (seq(float[n]) s, float[n] x) => (float[n] y)
        <int64 trips = {2}, bool no = {0}> {
        y = Loop (trips, "", x) <body = b (int64 i, bool k, float[n] v) => (bool on, float[n] u) {
            on = Identity(k)
            d = If (no) <then_branch = t () => (int64 a) { a = SequenceLength(s) },
                         else_branch = e () => (int64 c) { c = Constant <value_int = 1> () }>
            f = Cast <to = 1> (d)
            u = Add(v, f) }> }"""
    )
    session = beside_the_fallback(cpu_plugin, model)
    x = np.ones(3, np.float32)
    assert session.run(None, {"s": [x], "x": x})[0].tolist() == [3, 3, 3]


def test_an_old_loop_may_hand_on_its_only_state(cpu_plugin: Cpu) -> None:
    model = parser.parse_model(
        """<ir_version: 4, opset_import: ["" : 9]>
        old (float[2] x) => (int64[1] kept, float[n, 2] y) <int64[1] most = {3}> {
          kept, y = Loop (most, "", most) <body = body (int64 i, bool on, int64[1] state)
              => (bool still, int64[1] state_out, float[2] part) <int64 last = {8}> {
            still = Less (i, last)
            state_out = Identity (state)
            part = Neg (x)
          }>
        }"""
    )
    x = np.array([1, -2], np.float32)
    kept, y = cpu_plugin.run(model, {"x": x})
    np.testing.assert_array_equal(kept, [3])
    np.testing.assert_array_equal(y, np.repeat(-x[None], 3, 0))
