"""Attributes whose numbers do not fit each other are refused when a model is opened, whoever would run it."""

from __future__ import annotations

from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from ephost.errors import Fail, InvalidGraph
from onnx import TensorProto, helper, numpy_helper

from tests.host.host_state import needs_newest_onnx

F = TensorProto.FLOAT
ML, MS = "ai.onnx.ml", "com.microsoft"
SVM = {
    "coefficients": [0.5, -0.5],
    "support_vectors": [0.1, 0.2, 0.3, 0.4],
    "rho": [0.1],
    "kernel_type": "RBF",
}
CLASSES = {"classlabels_ints": [0, 1], "vectors_per_class": [1, 1], "kernel_params": [0.5, 0.0, 3.0]}
# Operator, domain, opset of ONNX, how many inputs, attributes that are right, those that are not, the words.
CASES: dict[str, tuple[str, str, int, int, dict[str, Any], dict[str, Any], str]] = {
    "kernel parameters": (
        *("SVMRegressor", ML, 21, 1),
        {**SVM, "n_supports": 2, "kernel_params": [0.5, 0.0, 3.0]},
        {"kernel_params": [0.5, 0.0, 3.0, 1.0]},
        "kernel_params has 4 entries",
    ),
    "probabilities": (
        *("SVMClassifier", ML, 21, 1),
        {**SVM, **CLASSES, "prob_a": [1.0], "prob_b": [0.5]},
        {"prob_b": [0.5, 1.0]},
        "prob_a has 1 entries and prob_b 2",
    ),
    "labels": (
        *("LinearClassifier", ML, 21, 1),
        {"coefficients": [0.1, 0.2, 0.3], "intercepts": [0.1], "classlabels_strings": ["a", "b"]},
        {"classlabels_ints": [1, 2]},
        "are both given",
    ),
    "no support vectors": (
        *("SVMRegressor", ML, 21, 1),
        {**SVM, "n_supports": 2, "kernel_params": [0.5, 0.0, 3.0]},
        {"n_supports": -2},
        "n_supports is -2",
    ),
    "support vectors of classes": (
        *("SVMClassifier", ML, 21, 1),
        {**SVM, **CLASSES},
        {"classlabels_ints": [0, 1, 2]},
        "vectors_per_class has 2 entries for 3 labels",
    ),
    "categories": (
        *("OneHotEncoder", ML, 21, 1),
        {"cats_int64s": [1, 2]},
        {"cats_strings": ["a", "b"]},
        "are both given",
    ),
    "offsets": (
        *("Scaler", ML, 21, 1),
        {"offset": [1.0, 2.0, 3.0], "scale": [1.0, 2.0, 3.0]},
        {"scale": [2.0]},
        "offset has 3 entries and scale 1",
    ),
    "bits of a type": ("BitCast", "", 26, 1, {"to": 6}, {"to": 4294967297}, "'to'"),
    "names of a map": (
        *("ZipMap", ML, 21, 1),
        {"classlabels_int64s": [1, 2, 3]},
        {"classlabels_strings": ["a", "b", "c"]},
        "are both given",
    ),
    "widths": (
        *("FeatureVectorizer", ML, 21, 2),
        {"inputdimensions": [3, 3]},
        {"inputdimensions": [3, 3, 3]},
        "inputdimensions has 3 entries for 2 inputs",
    ),
    "a negative width": (
        *("FeatureVectorizer", ML, 21, 2),
        {"inputdimensions": [3, 3]},
        {"inputdimensions": [3, -3]},
        "an input of -3 features",
    ),
    "two kinds of imputed values": (
        *("Imputer", ML, 21, 1),
        {"imputed_value_floats": [1.0]},
        {"imputed_value_int64s": [1]},
        "needs one of",
    ),
    "scales": ("Upsample", "", 7, 1, {"scales": [2.0, 1.0]}, {"scales": [2.0, 0.5]}, "the entry 0.5"),
    "quantised types": ("MatMulBnb4", MS, 21, 3, {"quant_type": 1}, {"quant_type": 2}, "'quant_type'"),
    "sequences": ("SequenceEmpty", "", 11, 0, {"dtype": 1}, {"dtype": 4294967297}, "'dtype'"),
    "a division's type": ("QuantizeLinear", "", 23, 2, {"precision": 1}, {"precision": 7}, "'precision'"),
    "turns": ("RotaryEmbedding", "", 23, 3, {"interleaved": 1}, {"interleaved": 7}, "'interleaved'"),
    "pixels": (
        *("Resize", "", 19, 1),
        {"coordinate_transformation_mode": "asymmetric"},
        {"coordinate_transformation_mode": "forward"},
        "'coordinate_transformation_mode'",
    ),
    "groups": (
        "GroupNormalization",
        "",
        21,
        3,
        {"num_groups": 1},
        {"num_groups": -100},
        "num_groups is -100",
    ),
    "an element type": ("EyeLike", "", 9, 1, {"dtype": 7}, {"dtype": 4294967297}, "'dtype'"),
    "a softmax's type": (
        *("Attention", "", 23, 3),
        {"q_num_heads": 1, "kv_num_heads": 1, "softmax_precision": 1},
        {"softmax_precision": 99},
        "'softmax_precision'",
    ),
    "bits": ("GatherBlockQuantized", MS, 21, 3, {"bits": 4}, {"bits": 1}, "'bits'"),
    "sizes of grams": (
        *("BifurcationDetector", MS, 21, 3),
        {"min_ngram_size": 2},
        {"min_ngram_size": 4},
        "min_ngram_size is 4 and max_ngram_size 3",
    ),
    "a window": (
        *("MaxpoolWithMask", MS, 21, 2),
        {"kernel_shape": [2, 2]},
        {"kernel_shape": [2, -2]},
        "kernel_shape has the entry -2",
    ),
    "heads of keys": (
        *("SparseAttention", MS, 21, 9),
        {"num_heads": 2, "kv_num_heads": 1, "sparse_block_size": 16},
        {"kv_num_heads": 0},
        "kv_num_heads is 0",
    ),
    "inputs of an operator on trial": ("Affine", "", 7, 1, {}, {"inputs": 2}, "2 inputs in place of one"),
    "outputs of one": ("Scale", "", 7, 1, {}, {"outputs": 2}, "2 outputs in place of one"),
    "heads": ("RotaryEmbedding", MS, 21, 4, {"num_heads": 2}, {"num_heads": -2}, "num_heads is -2"),
}


def opened(
    operator: str, domain: str, opset: int, inputs: int, attributes: dict[str, Any]
) -> ephost.InferenceSession:
    names = [f"i{i}" for i in range(attributes.pop("inputs", inputs))]
    makes_two = operator.endswith("Classifier") or operator == "BifurcationDetector"
    outputs = ["y", "z"][: attributes.pop("outputs", 1 + makes_two)]
    node = helper.make_node(operator, names, outputs, "the node", domain=domain, **attributes)
    values = [helper.make_tensor_value_info(name, F, [2, 3]) for name in names]
    graph = helper.make_graph([node], "g", values, [onnx.ValueInfoProto(name=name) for name in outputs])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(ML, 2), helper.make_opsetid(MS, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return ephost.InferenceSession(model.SerializeToString())


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=needs_newest_onnx) if CASES[case][2] > 25 else case for case in CASES]
)
def test_numbers_that_do_not_fit_name_the_node(case: str) -> None:
    operator, domain, opset, inputs, right, wrong, words = CASES[case]
    with pytest.raises(InvalidGraph, match="the node") as caught:
        opened(operator, domain, opset, inputs, {**right, **wrong})
    assert words in str(caught.value)
    # What fits is not refused for these attributes, whatever else may be said of inputs that are guessed.
    try:
        opened(operator, domain, opset, inputs, dict(right))
    except ephost.errors.OnnxRuntimeException as error:
        assert words not in str(error)


@pytest.mark.parametrize("clip", [0.0, -1.0, float("nan")])
@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
def test_a_recurrent_operator_clips_to_a_positive_number(operator: str, clip: float) -> None:
    with pytest.raises(InvalidGraph, match=r"the node.*clip is"):
        opened(operator, "", 14, 3, {"hidden_size": 1, "clip": clip})


def test_grams_are_no_longer_than_their_counts() -> None:
    right = {
        **{"mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0},
        **{"ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2], "pool_int64s": [1, 2, 1, 2]},
    }
    with pytest.raises(InvalidGraph, match="min_gram_length is 3 and max_gram_length 2"):
        opened("TfIdfVectorizer", "", 9, 1, {**right, "min_gram_length": 3})
    with pytest.raises(InvalidGraph, match="max_gram_length is 3, and ngram_counts has 2 entries"):
        opened("TfIdfVectorizer", "", 9, 1, {**right, "max_gram_length": 3})
    with pytest.raises(InvalidGraph, match="weights has 2 of 3 entries"):
        opened("TfIdfVectorizer", "", 9, 1, {**right, "weights": [1.0, 2.0]})


def test_a_scan_goes_forward_or_backward() -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["a"], ["b"])],
        "body",
        [helper.make_tensor_value_info("a", F, [3])],
        [helper.make_tensor_value_info("b", F, [3])],
    )
    for directions in ([0], [1]):
        scan = {"body": body, "num_scan_inputs": 1, "scan_output_directions": directions}
        (found,) = opened("Scan", "", 11, 1, scan).run(
            None, {"i0": np.array([[1, 2, 3], [4, 5, 6]], np.float32)}
        )
        assert found[0, 0] == [1, 4][directions[0]]
    with pytest.raises(InvalidGraph, match=r"the node.*scan_output_directions has the entry 16"):
        opened("Scan", "", 11, 1, {"body": body, "num_scan_inputs": 1, "scan_output_directions": [16]})


@pytest.mark.parametrize(
    ("index", "shape", "kind", "text"),
    [
        (2, [2], InvalidGraph, "out of range"),
        (-1, [2], InvalidGraph, "out of range"),
        (0, [-2], InvalidGraph, "cannot be read"),
        (0, [2**44, 4], Fail, "no memory"),
    ],
)
def test_a_sparse_initializer_does_not_fit(
    index: int, shape: list[int], kind: type[Exception], text: str
) -> None:
    indices = [[index, 0]] if len(shape) > 1 else [index]
    sparse = onnx.SparseTensorProto(
        values=numpy_helper.from_array(np.array([1], np.float32), "w"),
        indices=numpy_helper.from_array(np.array(indices, np.int64)),
        dims=shape,
    )
    model = one_node("Add", ["x", "w"])
    model.graph.sparse_initializer.append(sparse)
    with pytest.raises(kind, match=f"the sparse initializer 'w'.*{text}|{text}.*the sparse initializer 'w'"):
        ephost.InferenceSession(model.SerializeToString())


@pytest.mark.parametrize("ir_version", [3, 10])
def test_a_sparse_initializer_may_be_an_inputs_default(ir_version: int) -> None:
    sparse = onnx.SparseTensorProto(
        values=numpy_helper.from_array(np.array([5], np.float32), "w"),
        indices=numpy_helper.from_array(np.array([1])),
        dims=[2],
    )
    model = one_node("Add", ["x", "w"])
    model.graph.input.append(helper.make_tensor_value_info("w", F, [2]))
    model.graph.sparse_initializer.append(sparse)
    model.ir_version = ir_version
    session = ephost.InferenceSession(model.SerializeToString())
    x = np.array([1, 2], np.float32)
    assert session.run(None, {"x": x})[0].tolist() == [1, 7]
    if ir_version > 3:
        assert [value.name for value in session.get_overridable_initializers()] == ["w"]
        assert session.run(None, {"x": x, "w": x})[0].tolist() == [2, 4]


def test_a_name_that_is_not_utf8_can_be_printed_where_it_is_at_fault() -> None:
    whole = one_node("Rela", ["x"]).SerializeToString().replace(b"Rela", b"R\xffla")
    with pytest.raises(InvalidGraph, match="has no operator R") as caught:
        ephost.InferenceSession(whole)
    assert str(caught.value).encode().decode() == str(caught.value)


def one_node(operator: str, inputs: list[str]) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    node = helper.make_node(operator, inputs, ["y"])
    graph = helper.make_graph([node], "g", [value("x", F, [2])], [value("y", F, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


@pytest.mark.parametrize("stash_type", [99, 2**31, -1])
@pytest.mark.parametrize("rank", [2, None])
def test_a_stash_type_is_none(rank: int | None, stash_type: int) -> None:
    node = helper.make_node(
        "LayerNormalization", ["x", "w"], ["y", "mean"], "norm", axis=0, stash_type=stash_type
    )
    inputs = [
        helper.make_tensor_value_info("x", F, rank and [2] * rank),
        helper.make_tensor_value_info("w", F, [2]),
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises((InvalidGraph, Fail), match=r"'norm'|'mean'"):
        ephost.InferenceSession(model.SerializeToString())


def body_of(inputs: int, outputs: int, first: int = F) -> onnx.GraphProto:
    """A body of so many inputs and outputs, which come from the graph around it."""
    nodes = [helper.make_node("Identity", ["yes" if first != F else "x"], ["o0"])]
    nodes += [helper.make_node("Identity", ["x"], [f"o{i}"]) for i in range(1, outputs)]
    shapes = [([], TensorProto.INT64), ([], TensorProto.BOOL)] if first != F else []
    shapes += [([3], F)] * 4
    return helper.make_graph(
        nodes[:outputs],
        "body",
        [helper.make_tensor_value_info(f"i{i}", shapes[i][1], shapes[i][0]) for i in range(inputs)],
        [helper.make_tensor_value_info(f"o{i}", F if i else first, None) for i in range(outputs)],
    )


def with_bodies(node: onnx.NodeProto) -> ephost.InferenceSession:
    inputs = [("n", TensorProto.INT64, []), ("yes", TensorProto.BOOL, []), ("x", F, [3])]
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(*entry) for entry in inputs],
        [helper.make_tensor_value_info(node.output[0], F, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return ephost.InferenceSession(model.SerializeToString())


@pytest.mark.parametrize(
    ("operator", "fed", "inputs", "outputs", "said"),
    [
        # A branch that asks for values would read what nobody has written.
        ("If", ["yes"], 1, 1, "its then_branch has 1 inputs, and 0 values are handed over"),
        ("If", ["yes"], 0, 2, "its then_branch has 2 outputs, and 1 are needed"),
        ("If", ["yes"], 0, 0, "its then_branch has 0 outputs, and 1 are needed"),
        ("Loop", ["n", "yes", "x"], 2, 2, "its body has 2 inputs, and 3 values are handed over"),
        ("Loop", ["n", "yes", "x"], 4, 2, "its body has 4 inputs, and 3 values are handed over"),
        ("Loop", ["n", "yes", "x"], 3, 1, "its body has 1 outputs, and 2 are needed"),
        ("Scan", ["x", "x"], 3, 1, "its body has 3 inputs, and 2 values are handed over"),
        ("Scan", ["x", "x"], 2, 2, "its body has 2 outputs, and 1 are needed"),
    ],
)
def test_bodies_take_what_is_handed_over_and_make_what_is_needed(
    operator: str, fed: list[str], inputs: int, outputs: int, said: str
) -> None:
    body = body_of(inputs, outputs, TensorProto.BOOL if operator == "Loop" else F)
    attributes: dict[str, Any] = {"body": body}
    if operator == "If":
        attributes = {"then_branch": body, "else_branch": body_of(0, 1)}
    elif operator == "Scan":
        attributes["num_scan_inputs"] = 1
    with pytest.raises(InvalidGraph, match=said):
        with_bodies(helper.make_node(operator, fed, ["y"], **attributes))


def test_a_body_may_list_its_initializers_among_its_inputs() -> None:
    one = numpy_helper.from_array(np.full(3, 7, np.float32), "i0")
    branch = helper.make_graph(
        [helper.make_node("Identity", ["i0"], ["o0"])],
        "branch",
        [helper.make_tensor_value_info("i0", F, [3])],
        [helper.make_tensor_value_info("o0", F, [3])],
        [one],
    )
    session = with_bodies(helper.make_node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch))
    feed = {"n": np.int64(1), "yes": np.True_, "x": np.zeros(3, np.float32)}
    (found,) = session.run(None, {i.name: np.asarray(feed[i.name]) for i in session.get_inputs()})
    np.testing.assert_array_equal(found, np.full(3, 7, np.float32))
