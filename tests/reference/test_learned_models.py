"""Operators of ai.onnx.ml, side by side with onnxruntime."""

from __future__ import annotations

from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from ephost.reference import create_kernel
from onnx import TensorProto, helper

onnxruntime = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(3)
TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]
KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]
DTYPES = [np.float32, np.float64, np.int64]


def numbers(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def listed(*shape: int) -> list[float]:
    return numbers(*shape).ravel().tolist()


def labels(strings: bool, count: int) -> dict[str, Any]:
    names = list("abcd"[:count])
    return {"classlabels_strings": names} if strings else {"classlabels_ints": [10, 20, 30, 40][:count]}


def assert_like_onnxruntime(
    op_type: str,
    x: Any,
    outputs: int = 1,
    *,
    kind: onnx.TypeProto | None = None,
    opset: int = 1,
    **attributes: Any,
) -> None:
    node = helper.make_node(
        op_type, ["x"], [f"y{i}" for i in range(outputs)], domain="ai.onnx.ml", **attributes
    )
    if kind is None:
        element = TensorProto.STRING if x.dtype == object else helper.np_dtype_to_tensor_dtype(x.dtype)
        kind = helper.make_tensor_type_proto(element, x.shape)
    graph = helper.make_graph(
        [node],
        "g",
        [onnx.ValueInfoProto(name="x", type=kind)],
        [onnx.ValueInfoProto(name=name) for name in node.output],
    )
    imports = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", opset)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    found = []
    for host in (onnxruntime, ephost):
        session = host.InferenceSession(model, providers=["CPUExecutionProvider"])
        found.append(session.run(None, {"x": x}))
    for want, got in zip(*found, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if want.dtype == object:
            assert got.tolist() == want.tolist()
        else:
            # Near 0.5 the probit takes the difference of nearly equal numbers.
            probit = attributes.get("post_transform") == "PROBIT"
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3 if probit else 1e-4)


@pytest.mark.parametrize("strings", [False, True], ids=["numbers", "strings"])
@pytest.mark.parametrize("probabilities", [False, True], ids=["votes", "probabilities"])
@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("kernel", KERNELS)
def test_support_vector_classifiers(kernel: str, classes: int, probabilities: bool, strings: bool) -> None:
    sizes = [2, 3, 1, 2][:classes]
    pairs = classes * (classes - 1) // 2
    coupling = {"prob_a": listed(pairs), "prob_b": listed(pairs)} if probabilities else {}
    for transform in TRANSFORMS:
        if transform == "PROBIT" and classes == 2 and not probabilities:
            continue  # of two scores onnxruntime writes one
        for dtype in DTYPES:
            assert_like_onnxruntime(
                "SVMClassifier",
                (numbers(6, 3) * 2).astype(dtype),
                2,
                kernel_type=kernel,
                kernel_params=[0.5, 0.1, 3.0],
                post_transform=transform,
                vectors_per_class=sizes,
                coefficients=listed(classes - 1, sum(sizes)),
                support_vectors=listed(sum(sizes), 3),
                rho=listed(pairs),
                **coupling,
                **labels(strings, classes),
            )


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("positive", [False, True], ids=["mixed", "positive"])
def test_classifiers_of_that_kind_without_support_vectors(
    positive: bool, classes: int, transform: str
) -> None:
    weights = numbers(classes, 3)
    assert_like_onnxruntime(
        "SVMClassifier",
        numbers(6, 3),
        2,
        post_transform=transform,
        coefficients=(np.abs(weights) if positive else weights).ravel().tolist(),
        rho=listed(classes),
        kernel_params=[0.0, 0.0, 0.0],
        **labels(False, classes),
    )


@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("kernel", KERNELS)
def test_support_vector_regressors(kernel: str, one_class: int) -> None:
    machine = {
        "kernel_type": kernel,
        "kernel_params": [0.5, 0.1, 3.0],
        "n_supports": 4,
        "one_class": one_class,
    }
    assert_like_onnxruntime(
        "SVMRegressor",
        numbers(6, 3),
        coefficients=listed(4),
        support_vectors=listed(4, 3),
        rho=listed(1),
        post_transform="LOGISTIC",
        **machine,
    )
    linear = {"kernel_params": [0.0, 0.0, 0.0], "n_supports": 0, "one_class": one_class}
    assert_like_onnxruntime("SVMRegressor", numbers(6, 3), coefficients=listed(3), rho=listed(1), **linear)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_linear_models(count: int, transform: str) -> None:
    model = {"coefficients": listed(count, 3), "intercepts": listed(count), "post_transform": transform}
    assert_like_onnxruntime("LinearRegressor", numbers(5, 3), targets=count, **model)
    if transform == "PROBIT" and count == 1:
        return  # of two scores onnxruntime writes one
    for dtype in DTYPES:
        for strings in (False, True):
            x = (numbers(5, 3) * 2).astype(dtype)
            assert_like_onnxruntime("LinearClassifier", x, 2, **model, **labels(strings, max(count, 2)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 3), (3,), (1, 4)])
def test_features_are_scaled_and_normalised_in_float32(shape: tuple[int, ...], dtype: Any) -> None:
    x = (numbers(*shape) * 5).astype(dtype)
    for norm in ("MAX", "L1", "L2"):
        assert_like_onnxruntime("Normalizer", x, norm=norm)
        assert_like_onnxruntime("Normalizer", np.zeros_like(x), norm=norm)
    assert_like_onnxruntime("Scaler", x, offset=listed(shape[-1]), scale=listed(shape[-1]))
    assert_like_onnxruntime("Scaler", x, offset=[0.5], scale=[2.0])


def test_labels_are_encoded_by_lists() -> None:
    texts = np.array([["a", "b"], ["c", "z"]], object)
    assert_like_onnxruntime("LabelEncoder", texts, classes_strings=["a", "b", "c"], default_int64=-7)
    assert_like_onnxruntime(
        "LabelEncoder", np.array([0, 2, 3]), classes_strings=["a", "b"], default_string="?"
    )
    for opset in (2, 4):
        keys = {"keys_strings": ["a", "b", "c"], "opset": opset}
        assert_like_onnxruntime("LabelEncoder", texts, values_int64s=[1, 2, 3], **keys)
        assert_like_onnxruntime("LabelEncoder", texts, values_floats=[0.5, 2, 3], default_float=0.25, **keys)
        assert_like_onnxruntime("LabelEncoder", texts, values_strings=["x", "y", "z"], **keys)
        assert_like_onnxruntime(
            "LabelEncoder",
            np.array([0.1, np.nan, 3], np.float32),
            keys_floats=[0.1, float("nan")],
            values_int64s=[5, 6],
            opset=opset,
        )


@pytest.mark.parametrize("x", [np.array([1, 2], np.int32), np.array(["a"], object)])
def test_labels_are_of_the_keys_type(x: np.ndarray) -> None:
    """A constant's type is not looked at before it is computed."""
    keys: dict[str, Any] = {"keys_int64s": [1]} if x.dtype == object else {"keys_strings": ["a"]}
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", values_int64s=[5], **keys)
    with pytest.raises(Exception, match=r"elements for keys that are (no )?texts"):
        create_kernel(node, {"ai.onnx.ml": 4})([x])


def test_a_map_becomes_a_row_in_the_order_of_the_vocabulary() -> None:
    fed = {"a": 3.5, "z": 1.0, "c": 5.0}
    kind = helper.make_map_type_proto(
        TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    )
    assert_like_onnxruntime("DictVectorizer", fed, kind=kind, string_vocabulary=["c", "b", "a"])


def test_a_row_from_a_map_has_the_type_that_the_model_declares() -> None:
    for element, dtype in ((TensorProto.INT64, np.int64), (TensorProto.DOUBLE, np.float64)):
        kind = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(element, []))
        node = helper.make_node(
            "DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["b", "a"]
        )
        out = helper.make_tensor_value_info("y", element, [1, 2])
        graph = helper.make_graph([node], "g", [onnx.ValueInfoProto(name="x", type=kind)], [out])
        imports = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 1)]
        session = ephost.InferenceSession(helper.make_model(graph, opset_imports=imports, ir_version=8))
        for fed, wanted in (({"a": 3}, [[0, 3]]), ({}, [[0, 0]])):
            (row,) = session.run(None, {"x": fed})
            assert (row.dtype, row.tolist()) == (dtype, wanted)


@pytest.mark.parametrize(("declared", "dtype"), [("float", np.float32), ("double", np.float64)])
def test_a_row_from_a_map_in_a_function_has_the_type_of_the_maps_values(declared: str, dtype: Any) -> None:
    """There nothing is declared."""
    text = f"""<ir_version: 10, opset_import: ["" : 20, "f" : 1, "ai.onnx.ml" : 3]>
      g (map(string, {declared}) m) => ({declared}[1,k] y) {{ y = f.row(m) }}
      <domain: "f", opset_import: ["" : 20, "ai.onnx.ml" : 3]>
      row (m) => (r) {{
        v = ai.onnx.ml.DictVectorizer<string_vocabulary = ["a", "b", "c"]>(m)
        r = Neg(v)
      }}"""
    session = ephost.InferenceSession(onnx.parser.parse_model(text))
    (row,) = session.run(None, {"m": {"a": 1.5, "c": -2}})
    assert (row.dtype, row.tolist()) == (dtype, [[-1.5, 0, 2]])
