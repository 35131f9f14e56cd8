"""What a caller may rely on of one kernel: element types, threads, errors, random numbers."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from ephost.reference import NodeError, create_kernel
from onnx import TensorProto, helper

OPSET = {"": 22, "ai.onnx.ml": 3}


def run(op_type: str, inputs: list[Any], outputs: int = 1, opset: int = 22, **attributes: Any) -> list[Any]:
    names = [f"x{index}" if value is not None else "" for index, value in enumerate(inputs)]
    node = helper.make_node(op_type, names, [f"y{index}" for index in range(outputs)], "n", **attributes)
    return create_kernel(node, {"": opset})(inputs)


@pytest.mark.parametrize(
    "dtype",
    ["float16", "float32", "float64", ml_dtypes.bfloat16, "int8", "uint8", "int32", "int64", "uint64"],
)
def test_a_result_without_dimensions_is_an_array_of_the_inputs_type(dtype: Any) -> None:
    (total,) = run("Add", [np.array(1, dtype), np.array(2, dtype)])
    assert isinstance(total, np.ndarray)
    assert (total.shape, total.dtype, float(total)) == ((), np.dtype(dtype), 3.0)


def test_fixed_result_types_hold() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert run("ArgMax", [x])[0].dtype == np.int64
    assert run("Shape", [x])[0].dtype == np.int64
    assert run("Greater", [x, x])[0].dtype == np.bool_
    assert [value.dtype for value in run("TopK", [x, np.array([2])], 2)] == [np.float32, np.int64]
    assert [value.dtype for value in run("Dropout", [x], 2)] == [np.float32, np.bool_]


def test_a_result_follows_the_input_that_the_schema_ties_it_to() -> None:
    x = np.ones((2, 2), np.float16)
    assert run("Where", [np.array(True), x, x])[0].dtype == np.float16
    assert run("CastLike", [x, np.ones(1, np.int8)])[0].dtype == np.int8
    assert run("ReduceMean", [x])[0].dtype == np.float16
    assert run("Resize", [x[None, None], None, np.array([1, 1, 2, 2], np.float32)])[0].dtype == np.float16


@pytest.mark.parametrize(
    ("code", "dtype"),
    [
        (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
        (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
        (TensorProto.FLOAT8E5M2FNUZ, ml_dtypes.float8_e5m2fnuz),
        (TensorProto.INT4, ml_dtypes.int4),
        (TensorProto.UINT4, ml_dtypes.uint4),
        (TensorProto.FLOAT4E2M1, ml_dtypes.float4_e2m1fn),
    ],
)
def test_narrow_types_go_in_and_out_unpacked(code: int, dtype: Any) -> None:
    opset = 23
    (narrow,) = run("Cast", [np.array([0, 1, 2, 3], np.float32)], opset=opset, to=code)
    assert (narrow.dtype, narrow.shape) == (np.dtype(dtype), (4,))
    (wide,) = run("Cast", [narrow], opset=opset, to=TensorProto.FLOAT)
    assert wide.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "text", [np.array(["a", "bc"]), np.array([b"a", b"bc"]), np.array(["a", "bc"], object)]
)
def test_strings_of_any_numpy_kind_come_out_as_str_objects(text: np.ndarray) -> None:
    (joined,) = run("StringConcat", [text, text])
    assert joined.dtype == object
    assert joined.tolist() == ["aa", "bcbc"]


def test_an_absent_optional_input_is_none() -> None:
    (clipped,) = run("Clip", [np.array([-1.0, 5.0]), None, np.array(2.0)])
    assert clipped.tolist() == [-1.0, 2.0]


def test_an_optional_is_its_value_or_none() -> None:
    (full,) = run("Optional", [np.array([1.0])])
    assert full.tolist() == [1.0]
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [1])
    assert run("Optional", [], type=kind) == [None]
    assert bool(run("OptionalHasElement", [full])[0])
    assert not run("OptionalHasElement", [None])[0]
    assert run("Identity", [None]) == [None]


def test_the_other_name_of_onnx_own_domain_works() -> None:
    node = helper.make_node("Relu", ["x"], ["y"], domain="ai.onnx")
    assert create_kernel(node, {"ai.onnx": 22})([np.array([-1.0, 1.0])])[0].tolist() == [0, 1]


def test_an_unknown_operator_is_named_when_the_kernel_is_made() -> None:
    node = helper.make_node("Frobnicate", ["x"], ["y"], "fro", domain="acme")
    with pytest.raises(NotImplementedError, match=r"node 'fro' \(acme::Frobnicate, opset 3\)"):
        create_kernel(node, {"": 22, "acme": 3})
    with pytest.raises(NotImplementedError, match="acme::Frobnicate, opset unknown"):
        create_kernel(node, {"": 22})


def test_an_unknown_operator_inside_a_body_is_named_with_the_nodes_around_it() -> None:
    inner = helper.make_node("Frobnicate", ["x"], ["y"], "fro")
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    body = helper.make_graph([inner], "body", [], [output])
    node = helper.make_node("If", ["c"], ["z"], "choice", then_branch=body, else_branch=body)
    with pytest.raises(NotImplementedError, match=r"node 'choice' \(If.*node 'fro' \(Frobnicate"):
        create_kernel(node, OPSET)


def test_a_failing_run_names_the_node_and_keeps_the_cause() -> None:
    node = helper.make_node("MatMul", ["a", "b"], ["y"], "product")
    with pytest.raises(NodeError, match=r"node 'product' \(MatMul, opset 22\)") as caught:
        create_kernel(node, OPSET)([np.ones((2, 3)), np.ones((2, 3))])
    assert caught.value.__cause__ is not None


def test_a_missing_required_attribute_is_an_error_that_names_the_node() -> None:
    with pytest.raises(NodeError, match="node 'cat'"):
        create_kernel(helper.make_node("Concat", ["a"], ["y"], "cat"), OPSET)


def test_defaults_are_those_of_the_models_opset() -> None:
    x = np.zeros((2, 3, 4), np.float32)
    assert np.allclose(run("Softmax", [x], opset=11)[0], 1 / 12)
    assert np.allclose(run("Softmax", [x], opset=13)[0], 1 / 4)


# An operator of the onnx package's that keeps what it works with in attributes of its own.
TREE: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [1, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [1.5, -2.0],
    "n_targets": 1,
}


def test_many_threads_may_call_one_kernel() -> None:
    rng = np.random.default_rng(0)
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **TREE)
    convolution = helper.make_node("Conv", ["x", "w"], ["y"])
    weights = rng.random((5, 3, 3, 3)).astype(np.float32)
    machine, layer = create_kernel(node, OPSET), create_kernel(convolution, OPSET)
    jobs: list[tuple[Any, list[np.ndarray]]] = []
    for _ in range(40):
        jobs.append((machine, [rng.random((7, 3)).astype(np.float32)]))
        jobs.append((layer, [rng.random((1, 3, 9, 9)).astype(np.float32), weights]))
    alone = [kernel(inputs)[0] for kernel, inputs in jobs]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda job: job[0](job[1])[0], jobs * 5))
    for index, result in enumerate(together):
        np.testing.assert_array_equal(result, alone[index % len(jobs)])


def test_a_call_leaves_the_package_operator_as_it_was() -> None:
    grams = {"ngram_counts": [0], "ngram_indexes": [0, 1], "pool_int64s": [2, 3]}
    lengths = {"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0}
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], mode="TF", **grams, **lengths)
    kernel = create_kernel(node, OPSET)
    (prototype,) = (
        cell.cell_contents
        for cell in kernel._run.__closure__ or ()
        if hasattr(cell.cell_contents, "onnx_node")
    )
    before = dict(vars(prototype))
    kernel([np.array([[2, 3, 2]])])
    assert vars(prototype) == before


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("RandomNormal", [], {"shape": [50]}),
        ("RandomUniform", [], {"shape": [50]}),
        ("RandomNormalLike", [np.zeros(50, np.float32)], {}),
        ("RandomUniformLike", [np.zeros(50, np.float32)], {}),
        ("Bernoulli", [np.full(50, 0.5, np.float32)], {}),
        ("Multinomial", [np.zeros((1, 9), np.float32)], {"sample_size": 50}),
        ("Dropout", [np.ones(50, np.float32), np.array(0.5, np.float32), np.array(True)], {}),
    ],
)
def test_a_seed_repeats_the_numbers_and_without_one_they_are_fresh(
    op_type: str, inputs: list[Any], attributes: dict[str, Any]
) -> None:
    names = [f"x{index}" for index in range(len(inputs))]
    seed: dict[str, Any] = {"seed": 7 if op_type == "Dropout" else 7.0}
    seeded = create_kernel(helper.make_node(op_type, names, ["y"], **attributes, **seed), OPSET)
    free = create_kernel(helper.make_node(op_type, names, ["y"], **attributes), OPSET)
    np.testing.assert_array_equal(seeded(inputs)[0], seeded(inputs)[0])
    assert not np.array_equal(free(inputs)[0], free(inputs)[0])


def test_random_numbers_have_the_asked_for_moments_and_types() -> None:
    (normal,) = run(
        "RandomNormal", [], shape=[20000], mean=3.0, scale=2.0, dtype=TensorProto.DOUBLE, seed=1.0
    )
    assert normal.dtype == np.float64
    assert abs(normal.mean() - 3) < 0.1
    assert abs(normal.std() - 2) < 0.1
    (uniform,) = run("RandomUniform", [], shape=[20000], low=-1.0, high=1.0, seed=1.0)
    assert uniform.dtype == np.float32
    assert -1 <= uniform.min() < -0.99
    assert 0.99 < uniform.max() <= 1
    logits = np.log(np.array([[0.1, 0.2, 0.7]], np.float32))
    (classes,) = run("Multinomial", [logits], sample_size=20000, dtype=TensorProto.INT64, seed=1.0)
    assert classes.dtype == np.int64
    assert np.allclose(np.bincount(classes[0]) / 20000, [0.1, 0.2, 0.7], atol=0.02)
    node = helper.make_node("RandomNormal", [], ["y"])
    node.attribute.append(helper.make_attribute("shape", [], attr_type=onnx.AttributeProto.INTS))
    (scalar,) = create_kernel(node, OPSET)([])
    assert scalar.shape == ()


def test_dropout_in_training_mode_drops_the_default_half_and_scales_the_rest() -> None:
    y, mask = run("Dropout", [np.ones(20000, np.float32), None, np.array(True)], 2)
    assert abs(mask.mean() - 0.5) < 0.02
    np.testing.assert_array_equal(y, np.where(mask, 2, 0))


def test_importing_the_fallback_does_not_import_the_reference_operators() -> None:
    code = "import sys, ephost.reference; sys.exit('onnx.reference' in sys.modules)"
    path = ":".join(entry for entry in sys.path if entry)
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}, check=False).returncode == 0


def test_a_sparse_constant_is_dense() -> None:
    values = helper.make_tensor("v", TensorProto.FLOAT, [2], [5.0, 6.0])
    indices = helper.make_tensor("i", TensorProto.INT64, [2, 2], [0, 1, 1, 0])
    sparse = onnx.SparseTensorProto(values=values, indices=indices, dims=[2, 2])
    assert run("Constant", [], sparse_value=sparse)[0].tolist() == [[0, 5], [6, 0]]
