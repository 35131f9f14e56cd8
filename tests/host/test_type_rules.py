"""The rules of types and shapes, beside onnx's own inference and what nodes really make."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from ephost.model.graph import Model, TensorType, tensor_type
from ephost.model.load import load
from ephost.model.type_rules import find_types
from ephost.model.type_rules.finder import _propagation
from ephost.model.type_rules.registry import ELEMENTWISE, RULES, Unsure, broadcast, joined
from graphs import model_of
from host_state import needs_newest_onnx
from onnx import helper, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

Dims = tuple[Any, ...] | None

_propagation()  # RULES is filled when the first of them is needed
OPERATORS = RULES.keys() | ELEMENTWISE.keys()


@functools.cache
def node_cases() -> dict[str, list[TestCase]]:
    """onnx's node tests all of whose operators have a rule, by each of these operators."""
    found: dict[str, list[TestCase]] = {}
    with np.errstate(all="ignore"):
        cases = load_model_tests(kind="node")
    for case in cases:
        nodes = case.model.graph.node
        if all(node.domain in ("", "ai.onnx") and node.op_type in OPERATORS for node in nodes):
            for kind in {node.op_type for node in nodes}:
                found.setdefault(kind, []).append(case)
    return found


def untold(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without the shapes that it declares of what nodes make."""
    twin = onnx.ModelProto()
    twin.CopyFrom(model)
    del twin.graph.value_info[:]
    for info in twin.graph.output:
        info.type.tensor_type.ClearField("shape")
    return twin


def with_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a name for the first dimension of each input, the same for the same size."""
    twin = untold(model)
    for info in twin.graph.input:
        for dim in info.type.tensor_type.shape.dim[:1]:
            if dim.dim_value > 1:
                dim.dim_param = f"n{dim.dim_value}"
    return twin


def with_constants(case: TestCase) -> onnx.ModelProto:
    """The model with the integers that its test feeds as constants."""
    twin = untold(case.model)
    for info, fed in zip(case.model.graph.input, case.data_sets[0][0], strict=False):
        if isinstance(fed, np.ndarray) and fed.dtype in (np.int64, np.int32):
            twin.graph.initializer.append(numpy_helper.from_array(fed, info.name))
            twin.graph.input.remove(next(given for given in twin.graph.input if given.name == info.name))
    return twin


def found_by_rules(proto: onnx.ModelProto) -> dict[str, TensorType] | None:
    model = load(proto)
    for value in model.graph.values.values():
        if value.producer is not None:
            value.type = None
    found = find_types(model.graph, model.graph)
    return None if found is None else {value.name: kind for value, kind in found.items()}


def found_by_onnx(proto: onnx.ModelProto) -> dict[str, TensorType]:
    inferred = onnx.shape_inference.infer_shapes(proto, data_prop=True).graph
    found = {}
    for info in (*inferred.value_info, *inferred.output):
        kind = info.type.tensor_type
        dims = [
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in kind.shape.dim
        ]
        found[info.name] = tensor_type(kind.elem_type, tuple(dims) if kind.HasField("shape") else None)
    return found


def assert_as_good(ours: TensorType, theirs: TensorType, what: str) -> None:
    """Hold that rules know what onnx knows, and nothing else."""
    assert theirs.element_type in (0, ours.element_type), what
    if theirs.dims is None:
        return
    assert ours.dims is not None and len(ours.dims) == len(theirs.dims), what
    for mine, other in zip(ours.dims, theirs.dims, strict=True):
        assert mine == other or not isinstance(other, int), what


@needs_newest_onnx
@pytest.mark.parametrize("op_type", sorted(OPERATORS))
def test_rules_find_what_onnx_finds_and_what_nodes_make(op_type: str) -> None:
    for case in node_cases().get(op_type, []):
        made = {info.name: info.type.tensor_type for info in case.model.graph.output}
        for proto in (untold(case.model), with_names(case.model), with_constants(case)):
            ours = found_by_rules(proto)
            if ours is None:
                continue
            for name, theirs in found_by_onnx(proto).items():
                what = f"{case.name}: {name} is {ours.get(name)}, for onnx {theirs}"
                if name in ours:
                    assert_as_good(ours[name], theirs, what)
                if name in made and made[name].HasField("shape"):
                    assert ours[name].element_type == made[name].elem_type, what
                    sizes = [dim.dim_value for dim in made[name].shape.dim]
                    for mine, size in zip(ours[name].dims or sizes, sizes, strict=True):
                        assert not isinstance(mine, int) or mine == size, what


# Operators whose node tests are all of a kind that is left to onnx.
LEFT = {"Scatter"}


@needs_newest_onnx
def test_most_node_tests_are_for_the_rules() -> None:
    unsure = []
    for op_type, cases in node_cases().items():
        tries = [proto for case in cases for proto in (untold(case.model), with_constants(case))]
        if op_type not in LEFT and all(found_by_rules(proto) is None for proto in tries):
            unsure.append(op_type)
    assert unsure == []


OLDER: list[tuple[int, str, str]] = [
    (11, "float[a, 1, 3] x", "y = Squeeze <axes = [1]> (x)"),
    (11, "float[a, 3] x", "y = Unsqueeze <axes = [0, -1]> (x)"),
    (11, "float[2, 9] x", "y, z = Split <axis = 1, split = [4, 5]> (x)"),
    (11, "float[2, 8] x", "y, z = Split <axis = -1> (x)"),
    (9, "float[7, 9] x", "y = Slice <starts = [1, -3], ends = [100, -1], axes = [0, 1]> (x)"),
    (9, "float[a, 9] x", "y = Slice <starts = [2], ends = [5], axes = [1]> (x)"),
    (10, "float[a, 9] x", "y = Pad <pads = [0, 2, 0, 3]> (x)"),
    (11, "float[a, 9, 4] x", "y = ReduceSum <axes = [-1], keepdims = 0> (x)"),
    (13, "float[a, 9, 4] x", "y = ReduceMean <axes = [1]> (x)"),
    (11, "float[a, 9] x", "y = Softmax <axis = 0> (x)"),
    (
        9,
        "float[2, 3, 5, 7] x",
        "y = MaxPool <kernel_shape = [2, 3], strides = [2, 2], pads = [1, 1, 0, 1]> (x)",
    ),
    (9, "float[2, 3, 5, 7] x", 'y = AveragePool <kernel_shape = [2, 3], auto_pad = "SAME_LOWER"> (x)'),
    (7, "float[a, 3] x", "y, m = Dropout (x)"),
    (10, "float[a, 3] x", "y, m = Dropout (x)"),
    (7, "float[a, 5] x, float[5, 1] w", "y = Gemm <alpha = 0.5> (x, w, x)"),
]


@pytest.mark.parametrize(("opset", "inputs", "node"), OLDER)
def test_older_versions_of_operators(opset: int, inputs: str, node: str) -> None:
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => (y) {{ {node} }}'
    proto = onnx.parser.parse_model(text)
    ours = found_by_rules(proto)
    assert ours is not None
    for name, theirs in found_by_onnx(proto).items():
        assert_as_good(ours[name], theirs, f"{name}: {ours[name]}, {theirs}")


def dims(model: Model, name: str) -> Dims:
    found = find_types(model.graph, model.graph)
    assert found is not None
    return found[model.graph.values[name]].dims


def of(body: str, *, inputs: str = "float[batch, 6] x", constants: str = "", opset: int = 21) -> Model:
    return model_of(f"g ({inputs}) => (y) <{constants}> {{ {body} }}", inferred=False, opset=opset)


PROPAGATED = [
    ("s = Shape(x)  y = ConstantOfShape(s)", "", ("batch", 6)),
    ("s = Shape(x)  b = Gather(s, zero)  t = Concat<axis = 0>(b, two)  y = ConstantOfShape(t)",
     "int64[1] zero = {0}, int64[1] two = {2}", ("batch", 2)),
    ("s = Shape<start = -1>(x)  t = Mul(s, two)  u = Add(t, two)  v = Div(u, two)  y = ConstantOfShape(v)",
     "int64[1] two = {2}", (7,)),
    ("s = Shape(x)  t = Slice(s, one, two)  y = Expand(t, t)",
     "int64[1] one = {1}, int64[1] two = {2}", (6,)),
    ("s = Shape(x)  t = Concat<axis = 0>(s, two)  y = Reshape(x, t)", "int64[1] two = {1}", ("batch", 6, 1)),
    ("y = Reshape(x, t)", "int64[3] t = {0, -1, 2}", ("batch", 3, 2)),
    ("s = Shape(x)  a, b = Split<num_outputs = 2>(s)  n = Squeeze(a, zero)  y = Range(nil, n, one)",
     "int64[1] zero = {0}, int64 nil = {0}, int64 one = {1}", None),
    ("s = Shape(x)  n = Gather(s, nil)  y = Range(nil, n, one)",
     "int64 nil = {0}, int64 one = {1}", ("batch",)),
]  # fmt: skip


@pytest.mark.parametrize(("body", "constants", "expected"), PROPAGATED)
def test_numbers_of_shapes_are_propagated(body: str, constants: str, expected: Dims) -> None:
    found = dims(of(body, constants=constants), "y")
    assert found == expected if expected is not None else len(found or ()) == 1


def test_floats_are_not_computed_with_as_integers() -> None:
    """5 / 2 * 2 is 5 of floats and 4 of integers."""
    body = "f = Cast<to = 1>(s)  h = Div(f, two)  d = Mul(h, two)  i = Cast<to = 7>(d)  y = Expand(one, i)"
    body = f"s = Shape(x)  {body}"
    model = of(body, inputs="float[5] x", constants="float two = {2}, float[1] one = {1}")
    assert isinstance((dims(model, "y") or ())[0], str)


def test_numbers_that_overflow_are_not_known() -> None:
    body = "a = Mul(big, big)  y = ConstantOfShape(a)"
    model = of(body, constants="int64[1] big = {4611686018427387904}")
    assert isinstance((dims(model, "y") or ())[0], str)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [((0, 10, 3), 4), ((5, 5, 1), 0), ((10, 0, -3), 4), ((0, 10, -1), 0), ((-5, 2**63 - 1, 2**62), 3)],
)
def test_a_range_has_as_many_numbers_as_fit(ends: tuple[int, int, int], expected: int) -> None:
    constants = ", ".join(f"int64 {name} = {{{end}}}" for name, end in zip("abc", ends, strict=True))
    assert dims(of("y = Range(a, b, c)", constants=constants), "y") == (expected,)


def test_a_range_of_more_numbers_than_can_be_counted_is_for_onnx_to_judge() -> None:
    constants = f"int64 a = {{{-(2**63)}}}, int64 b = {{{2**63 - 1}}}, int64 one = {{1}}"
    model = of("y = Range(a, b, one)", constants=constants)
    assert find_types(model.graph, model.graph) is None


def test_dimensions_that_nobody_knows_have_names_of_their_own() -> None:
    model = of(
        "a = NonZero(x)  b = NonZero(w)  y = Concat<axis = 1>(a, b)", inputs="float[unk__0] x, float[3] w"
    )
    names = [(dims(model, name) or ())[1] for name in ("a", "b", "y")]
    assert len({"unk__0", *names}) == 4


def test_what_branches_have_in_common_is_what_an_if_makes() -> None:
    model = of(
        """y = If(c) <then_branch = t () => (a) { a = Concat<axis = 0>(x, x) },
                      else_branch = e () => (b) { b = Softmax(x) }>""",
        inputs="bool c, float[3, 6] x",
    )
    found = dims(model, "y") or ()
    assert isinstance(found[0], str) and found[1] == 6
    other = of(
        """y = If(c) <then_branch = t () => (a) { a = Flatten(x) },
                      else_branch = e () => (b) { b = Shape(x) }>""",
        inputs="bool c, float[3, 6] x",
    )
    assert find_types(other.graph, other.graph) is None  # of other elements: onnx says what is wrong


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("y = Add(x, z)", "float[2] x, float[3] z"),
        ("y = Add(x, z)", "float[2] x, double[2] z"),
        ("y = MatMul(x, z)", "float[2, 3] x, float[4, 2] z"),
        ("y = Concat<axis = 0>(x, z)", "float[2, 3] x, float[2, 4] z"),
        ("y = Reshape(x, s)", "float[2, 3] x"),
        ("y = Transpose<perm = [0, 0]>(x)", "float[2, 3] x"),
        ("y = Softmax(x)  z = Unknown(y)", "float[2, 3] x"),
    ],
)
def test_what_is_wrong_is_for_onnx_to_say(body: str, inputs: str) -> None:
    model = of(body, inputs=inputs, constants="int64[1] s = {7}") if "Unknown" not in body else None
    if model is not None:
        assert find_types(model.graph, model.graph) is None


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([(2, 1), (3,)], (2, 3)),
        ([("a", 1), ("a", 4)], ("a", 4)),
        ([("a",), (1,)], ("a",)),
        ([("a",), (5,)], (5,)),
        ([("a",), ("b",)], (None,)),
        ([(0,), (1,)], (0,)),
        ([(None,), (None,)], (None,)),
    ],
)
def test_shapes_are_broadcast(shapes: Sequence[tuple[Any, ...]], expected: Dims) -> None:
    assert broadcast(shapes) == expected
    assert broadcast(shapes[::-1]) == expected


def test_types_that_are_none_are_left_to_onnx() -> None:
    model = of("y = Add(x, x)", inputs="float[2] x")
    value = model.graph.inputs[0]
    for kind in (TensorType.__new__(TensorType), tensor_type(99, (2,)), TensorType(1, [2]), None):  # type: ignore[arg-type]
        value.type = kind
        assert find_types(model.graph, model.graph) is None


def test_dimensions_are_joined() -> None:
    assert [joined("a", 3), joined(3, None), joined(None, "a"), joined("a", "b"), joined(2, 2)] == [
        3,
        3,
        "a",
        "a",
        2,
    ]
    with pytest.raises(Unsure):
        joined(2, 3)


def test_a_rule_does_not_read_data_of_what_callers_may_replace() -> None:
    """An initializer that is an input too has a default, no constant."""
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3] x, int64[1] s) => (y) { y = Reshape(x, s) }'
    )
    proto.graph.initializer.append(numpy_helper.from_array(np.array([6]), "s"))
    found = found_by_rules(proto)
    assert found is not None and isinstance((found["y"].dims or ())[0], str)


LEARNED: list[tuple[str, dict[str, Any], str, list[str]]] = [
    ("Scaler", {"offset": [0.0], "scale": [1.0]}, "float[n, 3] x", ["float[n,3]"]),
    ("Binarizer", {}, "float[n, 3] x", ["float[n,3]"]),
    ("LinearRegressor", {"coefficients": [0.5] * 6, "targets": 2}, "float[n, 3] x", ["float[n,2]"]),
    ("LinearClassifier", {"coefficients": [0.5] * 9, "intercepts": [0.1] * 3, "classlabels_ints": [4, 5, 6]},
     "float[n, 3] x", ["int64[n]", "float[n,3]"]),
    ("LinearClassifier", {"coefficients": [0.5] * 3, "intercepts": [0.1], "classlabels_strings": ["a", "b"]},
     "float[n, 3] x", ["string[n]", "float[n,2]"]),
    ("LabelEncoder", {"keys_int64s": [1, 2], "values_strings": ["a", "b"]}, "int64[n, 2] x", ["string[n,2]"]),
    ("LabelEncoder", {"keys_strings": ["a"], "values_floats": [1.5]}, "string[n] x", ["float[n]"]),
    ("CategoryMapper", {"cats_int64s": [1], "cats_strings": ["a"]}, "string[n, 1] x", ["int64[n,1]"]),
    ("OneHotEncoder", {"cats_int64s": [1, 2, 3]}, "int64[n, 2] x", ["float[n,2,3]"]),
    ("ArrayFeatureExtractor", {}, "float[n, 5] x, int64[2] i", ["float[n,2]"]),
    ("ArrayFeatureExtractor", {}, "float[5] x, int64[2] i", ["float[1,2]"]),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "attributes", "inputs", "made"), LEARNED)
def test_rules_of_learned_models_say_what_they_make(
    op_type: str, attributes: dict[str, Any], inputs: str, made: list[str]
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    names = [part.split()[-1] for part in inputs.split(", ") if "]" in part and part.split()[-1].isalpha()]
    outputs = [f"y{at}" for at in range(len(made))]
    parsed = onnx.parser.parse_graph(f"g ({inputs}) => () {{}}")
    node = helper.make_node(op_type, names, outputs, domain="ai.onnx.ml", **attributes)
    infos = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "g", parsed.input, infos)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    found = found_by_rules(proto)
    assert found is not None and [str(found[name]) for name in outputs] == made
    options = onnxruntime.SessionOptions()
    for info, kind in zip(infos, made, strict=True):  # without a type onnxruntime takes none
        element = {"float": 1, "int64": 7, "string": 8}[kind.split("[")[0]]
        info.CopyFrom(helper.make_tensor_value_info(info.name, element, None))
    del proto.graph.output[:]
    proto.graph.output.extend(infos)
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = {}
    for info in proto.graph.input:
        shape = [dim.dim_value or 4 for dim in info.type.tensor_type.shape.dim]
        kinds = {1: np.float32, 7: np.int64, 8: object}
        array = np.ones(shape, kinds[info.type.tensor_type.elem_type])
        feeds[info.name] = np.full(shape, "a", object) if array.dtype == object else array
    for kind, result in zip(made, session.run(None, feeds), strict=True):
        sizes = [4 if size == "n" else int(size) for size in kind.split("[")[1].rstrip("]").split(",")]
        assert list(result.shape) == sizes, kind


def test_a_zipmap_makes_a_list_of_maps() -> None:
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=["a", "b"])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", 1, ["n", 2])],
        [onnx.ValueInfoProto(name="y")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    found: Any = found_by_rules(proto)
    theirs = onnx.shape_inference.infer_shapes(proto).graph.output[0].type
    assert onnx.TypeProto.FromString(found["y"].SerializeToString()) == theirs
