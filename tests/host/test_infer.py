"""Types and shapes: what follows from inputs and operators, against what the model declares."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from ephost.errors import Fail, InvalidGraph
from ephost.model.graph import Model, tensor_type
from ephost.model.infer import infer
from ephost.model.load import load
from ephost.onnx_library import extension
from graphs import model_of
from host_state import needs_newest_onnx
from onnx import TensorProto, helper, numpy_helper

Dims = tuple[Any, ...] | None


def declared(
    middle: Any, out: Any, *, source: Any = (2, 3), element: int = TensorProto.FLOAT
) -> onnx.ModelProto:
    """``y = Relu(m)``, ``m = Add(x, x)``, with these shapes declared; None: nothing is said."""
    known = [] if middle is None else [helper.make_tensor_value_info("m", TensorProto.FLOAT, middle)]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["m"]), helper.make_node("Relu", ["m"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, source)],
        [helper.make_tensor_value_info("y", element, out)],
        value_info=known,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=9)


@pytest.mark.parametrize("source", ["float16[a, b, c]", "float16[2, 3, 4]", "float16"])
def test_means_and_factors_have_types_whatever_is_known_of_the_input(source: str) -> None:
    """onnx's inference gets them only where the rank is known, which it is of no value that a node makes."""
    text = f"""<ir_version: 10, opset_import: ["" : 17]>
      g ({source} x, float16[d, e] s) => (y, m, f, d) {{
        h = Identity(x)
        y, m, f = LayerNormalization<axis = 1>(h, s)
        d = Exp(m)
      }}"""
    proto = onnx.parser.parse_model(text)
    if source == "float16":
        proto.graph.input[0].type.tensor_type.ClearField("shape")
    types = {name: str(value.type) for name, value in inferred(proto).graph.values.items()}
    expected = {
        "float16[a, b, c]": "float[a,1,1]",
        "float16[2, 3, 4]": "float[2,1,1]",
        "float16": "float[...]",
    }[source]
    assert (types["m"], types["f"]) == (expected, expected)
    assert source == "float16" or types["d"] == expected


@pytest.mark.parametrize("place", ["graph", "body", "function"])
def test_onnx_has_two_names_for_its_own_domain(place: str) -> None:
    """onnx's inference, which functions are for, finds the opset of the one that the model imports alone."""
    nodes = {
        "graph": "y = ai.onnx.Relu (s)",
        "body": "y = If (c) <then_branch = b () => (t) { t = ai.onnx.Relu (s) }, else_branch = b () => (t) "
        "{ t = ai.onnx.Neg (s) }>",
        "function": "y = f.G (s)",
    }[place]
    text = f"""<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
      g (float[2, 3] x, bool c) => (y) {{ s = f.F (x) {nodes} }}
      <domain: "f", opset_import: ["" : 21]> F (x) => (s) {{ s = ai.onnx.Softmax (x) }}
      <domain: "f", opset_import: ["ai.onnx" : 21]> G (x) => (s) {{ s = Exp (x) }}"""
    assert str(inferred(onnx.parser.parse_model(text)).graph.values["y"].type) == "float[2,3]"


_READERS_OF_TYPES = {
    "EyeLike<dtype = 7>": "int64",
    'RegexFullMatch<pattern = "a">': "bool",
    'ai.onnx.ml.LabelEncoder<keys_strings = ["a"], values_int64s = [1]>': "int64",
    "ai.onnx.ml.DictVectorizer<int64_vocabulary = [1]>": None,
    "ai.onnx.ml.TreeEnsemble<leaf_targetids = [0], leaf_weights = float[1] {1.0}, nodes_falseleafs = [1], "
    "nodes_falsenodeids = [0], nodes_featureids = [0], nodes_modes = uint8[1] {0}, nodes_trueleafs = [1], "
    "nodes_splits = float[1] {1.0}, nodes_truenodeids = [0], tree_roots = [0]>": "float",
}
_OPSETS = '[ "" : 21, "ai.onnx.ml" : 5, "com.acme" : 1, "f" : 1]'


def around(node: str, source: str, place: str) -> onnx.ModelProto:
    """``y`` made by a node of ``h``, itself made by another, in the graph, a body or a function."""
    inner = f"h = {source} y = {node} (h)"
    if place == "body":
        y = inner.replace(" y =", " t =")
        inner = f"y = If (c) <then_branch = b () => (t) {{ {y} }}, else_branch = b () => (t) {{ {y} }}>"
    call = "y = f.F (x, c)" if place == "function" else inner
    text = f"""<ir_version: 10, opset_import: {_OPSETS}>
      g (float[2, 3] x, bool c) => (y) {{ unknown = com.acme.Special(x) {call} }}"""
    if place == "function":
        text += f"""<domain: "f", opset_import: {_OPSETS}> F (x, c) => (y) {{ {inner} }}"""
    return onnx.parser.parse_model(text)


@pytest.mark.parametrize("place", ["graph", "body", "function"])
@pytest.mark.parametrize("node", _READERS_OF_TYPES)
def test_operators_whose_inference_reads_a_type_that_there_is_not(node: str, place: str) -> None:
    """onnx's inference crashes over them."""
    inferred(around(node, "com.acme.Special (x)", place))


@pytest.mark.parametrize("place", ["graph", "body"])
@pytest.mark.parametrize(("node", "made"), _READERS_OF_TYPES.items())
def test_operators_that_read_a_type_which_inference_finds_first(
    node: str, made: str | None, place: str
) -> None:
    source = "Cast<to = 8> (x)" if "string" in node or "Regex" in node else "Identity (x)"
    found = inferred(around(node, source, place)).graph.values["y"].type
    assert made is None or str(found).startswith(f"{made}[")


@pytest.mark.parametrize(
    ("node", "attribute"),
    [
        ("y = Einsum<equation: string = @given> (x)", 'given = "i...j..."'),
        ("y, z = Split<num_outputs: int = @given> (x)", "given = 1"),
        ("y = GatherND<batch_dims: int = @given> (x, i)", "given = -2147483648"),
        ("y, m = LayerNormalization<axis: int = @given> (x, x)", "given = -9"),
    ],
)
def test_inference_is_not_asked_what_attributes_mean_that_calls_give(node: str, attribute: str) -> None:
    """onnx's inference never ends over some, and reads or writes beyond its lists for others."""
    text = f"""<ir_version: 10, opset_import: {_OPSETS}>
      g (float[2, 3] x, int64[2, 1] i) => (y) {{ y = f.F<{attribute}> (x, i) }}
      <domain: "f", opset_import: {_OPSETS}> F <given> (x, i) => (y) {{ {node} }}"""
    inferred(onnx.parser.parse_model(text))


@pytest.mark.parametrize(
    "nodes",
    [
        (  # two branches, whose names of lists are the same
            """y = If (c) <
              then_branch = t () => (ty) { s = Shape (a) ty = Reshape (p, s) },
              else_branch = e () => (ey) { s = Shape (b) ey = Reshape (p, s) }>"""
        ),
        (  # a branch, and the graph behind it
            """t = If (c) <
              then_branch = t () => (ty) { s = Shape (a) ty = Reshape (p, s) },
              else_branch = e () => (ey) { ey = Identity (a) }>
            s = Shape (b) y = Reshape (p, s)"""
        ),
    ],
    ids=["branches", "graph"],
)
def test_lists_of_one_name_in_several_graphs_are_not_taken_for_each_other(nodes: str) -> None:
    """onnx's inference says of the second that it is of the first one's shape, or that it exists already."""
    text = f"""<ir_version: 10, opset_import: {_OPSETS}>
      g (float[N, 4] a, float[N, 6] b, float[K] p, bool c) => (y) {{
        unknown = com.acme.Special (p)
        {nodes}
      }}"""
    y: Any = inferred(onnx.parser.parse_model(text)).graph.values["y"].type
    assert y.element_type == TensorProto.FLOAT and 4 not in (y.dims or ())


def inferred(proto: onnx.ModelProto) -> Model:
    model = load(proto)
    infer(model)
    return model


def dims(model: Model, name: str) -> Dims:
    kind: Any = model.graph.values[name].type
    return kind.dims


# What onnxruntime's get_outputs says of each is the same, with [] for what has no known rank.
DECLARED: list[tuple[Any, Dims]] = [
    ((2, 4), (2, None)),
    ((6,), None),
    ((2, 3, 1), None),
    ((), None),
    (("a", 4), (2, None)),
    (("a", "b"), (2, 3)),
    ((None, 3), (2, 3)),
    ((2, 3), (2, 3)),
]


@pytest.mark.parametrize(("said", "left"), DECLARED)
def test_what_contradicts_inference_stays_unknown(said: Any, left: Dims) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    proto = declared(None, said)
    assert dims(inferred(proto), "y") == left
    x = np.ones((2, 3), np.float32)
    for host in (ephost, onnxruntime):
        session = host.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        assert session.get_outputs()[0].shape == list(left or ())
        assert session.run(None, {"x": x})[0].shape == (2, 3)


def test_a_wrong_shape_inside_the_graph_does_not_travel_on() -> None:
    for said in ((7,), (5, 3), (2, 3, 1)):
        model = inferred(declared(said, None))
        assert dims(model, "y") == (2, 3)
        assert dims(model, "m") in (None, (None, 3))


def test_what_is_declared_holds_where_nothing_else_is_known() -> None:
    model = inferred(declared(("n", 4), (2, "k"), source=None))
    assert (dims(model, "m"), dims(model, "y")) == (("n", 4), (2, 4))


def test_an_unknown_operators_declared_output_is_inferred_from() -> None:
    model = model_of(
        """g (float[2,3] x) => (float[a,b] y) <float[2,5] m> { m = other.Op(x)  y = Relu(m) }""",
        inferred=False,
    )
    infer(model)
    assert dims(model, "y") == (2, 5)


def test_a_wrong_shape_in_a_body_is_found_there() -> None:
    model = model_of(
        """g (float[2,3] x, bool c) => (float[2,3] y)
        { y = If (c) <then_branch = t () => (float[2,4] o) { o = Neg(x) },
                      else_branch = e () => (float[2,3] p) <float[7] q> { q = Abs(x)  p = Neg(q) }> }"""
    )
    (node,) = model.graph.nodes
    then, other = node.subgraphs["then_branch"].values, node.subgraphs["else_branch"].values
    assert then["o"].type.dims == (2, None)
    assert other["q"].type.dims is None
    assert other["p"].type.dims == (2, 3)
    assert dims(model, "y") == (2, 3)


def test_another_element_type_than_the_operators_is_refused() -> None:
    with pytest.raises(
        InvalidGraph, match=r"'y' of node .*Relu.* is declared as int32\[2,3\], .* makes float"
    ):
        inferred(declared(None, (2, 3), element=TensorProto.INT32))


@pytest.mark.parametrize("name", ["", "n"])
@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("y = Reshape(x, minus_two)", "Invalid dimension value: -2"),
        pytest.param(
            "y = AveragePool<kernel_shape = [1, -1]>(x)",
            "only contain positive",
            marks=needs_newest_onnx,
        ),
        pytest.param("y = Conv<strides = [1, -2]>(x, w)", "only contain positive", marks=needs_newest_onnx),
    ],
)
def test_nodes_that_cannot_be_are_refused_by_name_or_place(node: str, why: str, name: str) -> None:
    """onnx words it otherwise where a node has no field for its name; two without are told apart."""
    source = f"""<ir_version: 8, opset_import: ["": 17]> g (float[1, 1, 2, 3] x) => (y)
        <float[1, 1, 1, 1] w = {{1}}, int64[1] minus_two = {{-2}}, int64[1] six = {{6}}>
        {{ {node} a = Reshape(x, six) b = AveragePool<kernel_shape = [1, 1]>(x) c = Conv(x, w) }}"""
    model = onnx.parser.parse_model(source)
    for each in model.graph.node if name else ():
        each.name = name
    label = f"'{name}'" if name else "#0"
    with pytest.raises(Fail, match=rf"^node {label} \(\w+\): .*{why}"):
        infer(load(model))


def test_of_other_domains_operators_another_type_of_another_rank_may_be_declared() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3]>
      g (float[2, 3] x) => (y) <int64[6] m> { m = ai.onnx.ml.Binarizer (x) y = Identity (m) }"""
    values = inferred(onnx.parser.parse_model(text)).graph.values
    assert str(values["m"].type) == "int64[6]"


def test_a_plugin_is_not_shown_a_shape_that_is_wrong(sample_compiler) -> None:
    options = ephost.SessionOptions()
    options.add_provider_for_devices(sample_compiler, {})
    session = ephost.InferenceSession(declared((5, 3), (2, 4)), options, enable_fallback=0)
    assert session.run(None, {"x": np.ones((2, 3), np.float32)})[0].tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize(
    ("op", "attributes", "rank", "element", "made"),
    [
        ("Scaler", {}, 2, TensorProto.FLOAT, (("n", 4),)),
        ("Normalizer", {}, 1, TensorProto.FLOAT, ((4,),)),
        ("Imputer", {}, 2, TensorProto.INT64, (("n", 4),)),
        ("LinearRegressor", {"targets": 3}, 2, TensorProto.FLOAT, (("n", 3),)),
        ("LinearRegressor", {"targets": 3}, 1, TensorProto.FLOAT, ((1, 3),)),
        ("SVMRegressor", {}, 2, TensorProto.FLOAT, (("n", 1),)),
        ("TreeEnsembleRegressor", {"n_targets": 2}, 2, TensorProto.FLOAT, (("n", 2),)),
        ("FeatureVectorizer", {"inputdimensions": [7]}, 2, TensorProto.FLOAT, (("n", 7),)),
    ],
)
def test_models_of_ai_onnx_ml_that_onnx_infers_nothing_of(
    op: str, attributes: dict[str, Any], rank: int, element: int, made: tuple[Dims, ...]
) -> None:
    model = learned(op, attributes, rank, ["y"])
    assert (model.graph.values["y"].type.element_type, dims(model, "y")) == (element, *made)


@pytest.mark.parametrize(
    ("op", "attributes", "element", "columns"),
    [
        ("SVMClassifier", {"classlabels_ints": [1, 2, 3, 4]}, TensorProto.INT64, 4),
        (
            "SVMClassifier",
            {"classlabels_ints": [1, 2, 3, 4], "vectors_per_class": [1, 1, 1, 1]},
            TensorProto.INT64,
            6,
        ),
        (
            "SVMClassifier",
            {"classlabels_strings": ["a", "b"], "vectors_per_class": [1, 1]},
            TensorProto.STRING,
            2,
        ),
        (
            "SVMClassifier",
            {
                "classlabels_strings": ["a", "b", "c"],
                "vectors_per_class": [1, 1, 1],
                "prob_a": [0.5],
                "prob_b": [0.5],
            },
            TensorProto.STRING,
            3,
        ),
        ("TreeEnsembleClassifier", {"classlabels_int64s": [4, 7, 9]}, TensorProto.INT64, 3),
        ("TreeEnsembleClassifier", {"classlabels_strings": ["a", "b"]}, TensorProto.STRING, 2),
    ],
)
def test_labels_and_scores_of_support_vector_machines(
    op: str, attributes: dict[str, Any], element: int, columns: int
) -> None:
    for rank, rows in ((1, 1), (2, "n")):
        model = learned(op, attributes, rank, ["label", "y"])
        assert model.graph.values["label"].type.element_type == element
        assert (dims(model, "label"), dims(model, "y")) == ((rows,), (rows, columns))


@pytest.mark.parametrize("op", ["Scaler", "Imputer", "LinearRegressor", "SVMRegressor", "SVMClassifier"])
@pytest.mark.parametrize("rank", [1, 2])
def test_many_features_are_not_taken_for_a_shape_of_many_dimensions(op: str, rank: int) -> None:
    outputs = ["label", "y"] if op == "SVMClassifier" else ["y"]
    attributes = {"classlabels_ints": [1, 2]} if op == "SVMClassifier" else {}
    with room(1 << 30):
        model = learned(op, attributes, rank, outputs, many=1 << 30)
    assert model.graph.values["y"].type.element_type == (
        TensorProto.INT64 if op == "Imputer" else TensorProto.FLOAT
    )


@contextlib.contextmanager
def room(size: int) -> Iterator[None]:
    """Lets the process take that many bytes more than it has. Under a sanitizer it has terabytes."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def learned(
    op: str, attributes: dict[str, Any], rank: int, outputs: list[str], many: int | None = None
) -> Model:
    kind = TensorProto.INT64 if op == "Imputer" else TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], outputs, domain="ai.onnx.ml", **attributes)],
        "g",
        [helper.make_tensor_value_info("x", kind, [many or "n", many or 4][2 - rank :])],
        [onnx.ValueInfoProto(name=name) for name in outputs],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 1)]
    return inferred(helper.make_model(graph, opset_imports=opsets, ir_version=9))


@pytest.mark.parametrize(
    "text",
    [
        # The function that defines it computes with what it takes for lists of numbers.
        "g (float[1099511627776] x) => (float[m] y) { y = MeanVarianceNormalization (x) }",
        "g (int32[4611686018427387904, 2] i, float[3, 8] w, float[8] s) => (float[a, b, c] y, int32[n] l)"
        " { y, l = com.microsoft.EmbedLayerNormalization (i, , w, , , s, s) }",
    ],
)
def test_what_is_inferred_inside_of_a_function_is_bounded(text: str) -> None:
    """A declared length of 2^40 made onnx's inference take all memory."""
    head = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>\n'
    with room(8 << 30):
        assert inferred(onnx.parser.parse_model(head + text)).graph.nodes


def test_weights_of_bodies_and_functions_stay_out_of_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    """They took four times their size of memory, and no body could hold 2 GiB."""
    weights = numpy_helper.from_array(np.ones((256, 256), np.float32), "w")
    axes = numpy_helper.from_array(np.array([0], np.int64), "axes")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Unsqueeze", ["m", "axes"], ["t"]),
    ]
    inner = helper.make_graph(nodes, "inner", [], [onnx.ValueInfoProto(name="t")], [weights, axes])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("d", 1)]
    constant = helper.make_node("Constant", [], ["w"], value=weights)
    branch = helper.make_graph([nodes[0]], "branch", [], [onnx.ValueInfoProto(name="m")], [weights])
    function = helper.make_function(
        "d",
        "F",
        ["c", "a"],
        ["b"],
        [
            constant,
            helper.make_node("MatMul", ["a", "w"], ["x"]),
            helper.make_node("If", ["c"], ["b"], then_branch=branch, else_branch=branch),
        ],
        opsets[:1],
    )
    nested = helper.make_node("If", ["c"], ["n"], then_branch=inner, else_branch=inner)
    outer = helper.make_graph([nested], "outer", [], [onnx.ValueInfoProto(name="n")])
    graph = helper.make_graph(
        [
            helper.make_node("If", ["c"], ["i"], then_branch=outer, else_branch=outer),
            helper.make_node("F", ["c", "i"], ["y"], domain="d"),
        ],
        "g",
        [
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 256]),
        ],
        [onnx.ValueInfoProto(name="y")],
    )
    given: list[int] = []
    infer_shapes = extension().shape_inference.infer_shapes

    def counted(model: bytes, *arguments: Any) -> bytes:
        given.append(len(model))
        found: bytes = infer_shapes(model, *arguments)
        return found

    monkeypatch.setattr(extension().shape_inference, "infer_shapes", counted)
    proto = helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=10)
    model = inferred(proto)
    assert given and max(given) < 4096
    assert dims(model, "i") == dims(model, "y") == (1, 3, 256)
    body = model.graph.nodes[0].subgraphs["then_branch"].nodes[0].subgraphs["else_branch"]
    assert body.values["m"].type == tensor_type(TensorProto.FLOAT, (3, 256))


SCORES = """<ir_version: 13, opset_import: ["": 26, "ai.onnx.preview": 1]>
g (float[1, 2, 4, 8] q, float[1, 2, 4, 8] k, float[1, 2, 4, 8] v) => (float[1, 2, 4, 8] y) {
  y = ai.onnx.preview.FlexAttention <score_mod: graph = b (float[B, H, L, S] s) => (float[B, H, L, S] out) {
    m = IsNaN(s)
    out = Where(m, s, s)
  }> (q, k, v)
}"""


@needs_newest_onnx
def test_bodies_that_onnx_does_not_look_into_have_types() -> None:
    model = inferred(onnx.parser.parse_model(SCORES))
    (body,) = model.graph.nodes[0].subgraphs.values()
    made: Any = body.values["m"].type
    assert (made.element_type, len(made.dims)) == (TensorProto.BOOL, 4)


@pytest.mark.parametrize("opset", [13, 17])
def test_what_is_as_large_as_the_shape_of_another_value_is_known(opset: int) -> None:
    """onnx itself knows it of newer operators only: Reshape-13 looks at constants alone."""
    nodes = [
        helper.make_node("Shape", ["x"], ["x_shape"]),
        helper.make_node("Reshape", ["x", "flat"], ["f"]),
        helper.make_node("Reshape", ["f", "x_shape"], ["r"]),
        helper.make_node("Shape", ["r"], ["r_shape"]),
        helper.make_node("ConstantOfShape", ["r_shape"], ["zeros"]),
        helper.make_node("Relu", ["zeros"], ["y"]),
    ]
    if opset > 14:
        nodes[3] = helper.make_node("Shape", ["r"], ["r_shape"], start=-2, end=-1)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([-1]), "flat")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    known = inferred(proto).graph.values
    assert (known["r"].type.dims, known["x_shape"].type.dims) == ((2, 3), (2,))
    assert known["y"].type.dims == ((2,) if opset > 14 else (2, 3))


def test_constants_that_are_brought_to_a_table_by_unsqueeze_are_added() -> None:
    # onnx's propagation of contents forgets the axis that Unsqueeze adds, and finds that 3 and 4 do not fit.
    rows, columns = np.arange(3, dtype=np.float32), np.arange(4, dtype=np.float32)
    nodes = [
        helper.make_node("Div", ["rows", "one"], ["r"]),
        helper.make_node("Div", ["columns", "one"], ["c"]),
        helper.make_node("Unsqueeze", ["r", "axis"], ["column"]),
        helper.make_node("Add", ["column", "c"], ["table"], "sum"),
        helper.make_node("Add", ["table", "x"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    constants = {"rows": rows, "columns": columns, "one": np.array(1, np.float32), "axis": np.array([-1])}
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, [1])],
        [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ephost.InferenceSession(model.SerializeToString())
    (found,) = session.run(None, {"x": np.array([10], np.float32)})
    assert session.get_outputs()[0].shape == [3, 4]
    np.testing.assert_array_equal(found, rows[:, None] + columns + 10)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [(None, ["batch", 3]), (["k", "n"], ["batch", 3]), ([None, None], ["batch", 3]), ([4, 3], ["batch", 3])],
)
def test_an_output_is_what_it_is_declared_as_wherever_else_it_is_listed(
    listed: list[Any] | None, expected: list[Any]
) -> None:
    proto = declared(None, ["batch", 3], source=["n", "m"])
    proto.graph.value_info.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, listed))
    (output,) = ephost.InferenceSession(proto.SerializeToString()).get_outputs()
    assert output.shape == expected


def test_what_an_output_leaves_open_may_be_listed_elsewhere() -> None:
    proto = declared(None, [None, 3], source=["n", "m"])
    proto.graph.value_info.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["k", "l"]))
    (output,) = ephost.InferenceSession(proto.SerializeToString()).get_outputs()
    assert output.shape == ["k", 3]


def test_bodies_and_the_graph_around_them_may_have_values_of_one_name() -> None:
    """The rank of the inner Y is known and that of the outer one is not: asking for it again told nothing."""
    proto = onnx.parser.parse_model(
        """
        <ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
        graph (bool c, int64[5] x) => (Y, Z) {
            n = Constant <value = int64 {3}> ()
            last = Constant <value = int64 {2}> ()
            Y_all, Z_all = Loop (n, "") <body = body (int64 i, bool going) => (bool on, Y_l, Z_l) {
                Y_l, Z_l = If (c) <
                    then_branch = then () => (Y, Z) {
                        Y = Neg (x)
                        Z = com.microsoft.UnfoldTensor <size = 2> (Y)
                    },
                    else_branch = else () => (Y, Z) {
                        Y = Abs (x)
                        Z = com.microsoft.UnfoldTensor <size = 2> (Y)
                    }
                >
                on = Identity (going)
            }>
            Y = Gather <axis = 0> (Y_all, last)
            Z = Gather <axis = 0> (Z_all, last)
        }
        """
    )
    for value in proto.graph.output:
        value.ClearField("type")
    model = load(proto)
    infer(model)
    assert isinstance(model.graph.values["Z_all"].type, type(tensor_type(TensorProto.INT64, None)))
