"""Sparse tensors: what they hold, and how sessions take and give them. onnxruntime's are the measure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from ephost import OrtDevice, OrtSparseFormat, OrtValue, SparseTensor
from ephost.errors import InvalidArgument, InvalidGraph, NotImplemented
from onnx import TensorProto, helper

CPU = OrtDevice.make("cpu", 0)
DENSE = np.array([[0, 1, 0], [0, 0, 0], [2, 0, 3]], np.float32)
VALUES = np.array([1, 2, 3], np.float32)


def by_position(values: np.ndarray = VALUES) -> SparseTensor:
    return SparseTensor.sparse_coo_from_numpy([3, 3], values, np.array([1, 6, 8]), CPU)


def by_rows() -> SparseTensor:
    return SparseTensor.sparse_csr_from_numpy(
        [3, 3], VALUES, np.array([1, 0, 2]), np.array([0, 1, 1, 3]), CPU
    )


def by_blocks() -> SparseTensor:
    values, indices = DENSE.reshape(3, 1, 3)[[0, 2]], np.array([[0, 2], [0, 0]], np.int32)
    return SparseTensor.blocksparse_from_numpy([3, 3], values, indices, CPU)


def test_each_format_gives_back_what_it_was_made_of_read_only() -> None:
    positions, rows, blocks = by_position(), by_rows(), by_blocks()
    formats = [made.format() for made in (positions, rows, blocks)]
    assert formats == list(OrtSparseFormat)[1:]
    for made in (positions, rows):
        assert made.values().tolist() == [1, 2, 3] and not made.values().flags.writeable
        assert (made.dense_shape(), made.data_type(), made.device_name()) == (
            [3, 3],
            "sparse_tensor(float)",
            "cpu",
        )
    assert positions.as_coo_view().indices().tolist() == [1, 6, 8]
    assert rows.as_csrc_view().inner().tolist() == [1, 0, 2]
    assert rows.as_csrc_view().outer().tolist() == [0, 1, 1, 3]
    assert blocks.as_blocksparse_view().indices().tolist() == [[0, 2], [0, 0]]
    assert not positions.as_coo_view().indices().flags.writeable
    with pytest.raises(InvalidArgument, match="ORT_SPARSE_COO"):
        rows.as_coo_view()


def test_pairs_of_indices_are_rows_and_columns() -> None:
    made = SparseTensor.sparse_coo_from_numpy([3, 3], VALUES, np.array([0, 1, 2, 0, 2, 2]), CPU)
    assert made.as_coo_view().indices().tolist() == [[0, 1], [2, 0], [2, 2]]
    assert made._dense().tolist() == DENSE.tolist()


@pytest.mark.parametrize("made", [by_position(), by_rows(), by_blocks()], ids=["position", "rows", "blocks"])
def test_filled_in_they_are_the_same_tensor(made: SparseTensor) -> None:
    assert made._dense().tolist() == DENSE.tolist()


def test_text_has_empty_strings_between() -> None:
    made = by_position(np.array(["a", "b", "c"]))
    assert made.data_type() == "sparse_tensor(string)"
    assert made._dense().tolist() == [["", "a", ""], ["", "", ""], ["b", "", "c"]]


@pytest.mark.parametrize(
    ("shape", "indices"), [([3, 3], [1, 6, 9]), ([3, 3], [-1, 6, 8]), ([3, 3], [1, 6]), ([-3, 3], [1, 6, 8])]
)
def test_indices_that_do_not_fit_are_refused(shape: list[int], indices: list[int]) -> None:
    with pytest.raises(InvalidArgument):
        SparseTensor.sparse_coo_from_numpy(shape, VALUES, np.array(indices), CPU)


@pytest.mark.parametrize(
    ("inner", "outer"), [([1, 0, 3], [0, 1, 1, 3]), ([1, 0, 2], [0, 2, 1, 3]), ([1], [0, 1])]
)
def test_rows_that_do_not_fit_are_refused(inner: list[int], outer: list[int]) -> None:
    with pytest.raises(InvalidArgument):
        SparseTensor.sparse_csr_from_numpy([3, 3], VALUES, np.array(inner), np.array(outer), CPU)


def test_a_matrix_of_nothing_needs_no_rows() -> None:
    for outer in ([], [0, 0, 0, 0]):
        made = SparseTensor.sparse_csr_from_numpy(
            [3, 3], np.zeros(0, np.float32), np.zeros(0, np.int64), np.array(outer, np.int64), CPU
        )
        assert made.as_csrc_view().outer().tolist() == outer
        value = OrtValue.ort_value_from_sparse_tensor(made)
        assert value.as_sparse_tensor()._dense().tolist() == np.zeros((3, 3)).tolist()
    with pytest.raises(InvalidArgument, match=r"shape \[3, 3\] and 1 values has the indices \[1\] and \[0\]"):
        SparseTensor.sparse_csr_from_numpy(
            np.array([3, 3]), np.ones(1, np.float32), np.zeros(1, np.int64), np.zeros(0, np.int64), CPU
        )


def test_other_devices_are_refused() -> None:
    with pytest.raises(NotImplemented):
        by_position().to_cuda(OrtDevice.make("cuda", 0))


# ---- in sessions ----


def sparse_info(name: str) -> onnx.ValueInfoProto:
    return helper.make_sparse_tensor_value_info(name, TensorProto.FLOAT, [3, 3])


def opened(nodes: list, inputs: list, outputs: list) -> ephost.InferenceSession:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    return ephost.InferenceSession(
        helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    )


def product(**attributes: Any) -> ephost.InferenceSession:
    node = helper.make_node("SparseToDenseMatMul", ["a", "b"], ["y"], domain="com.microsoft", **attributes)
    b, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 3]) for name in "by")
    return opened([node], [sparse_info("a"), b], [y])


B = np.arange(9, dtype=np.float32).reshape(3, 3)


@pytest.mark.parametrize("made", [by_position(), by_rows()], ids=["position", "rows"])
def test_a_session_takes_a_sparse_tensor(made: SparseTensor) -> None:
    value = OrtValue.ort_value_from_sparse_tensor(made)
    assert (value.is_sparse_tensor(), value.is_tensor()) == (True, False)
    assert value.data_type() == "sparse_tensor(float)"
    assert value.as_sparse_tensor() is made
    session = product()
    assert session.get_inputs()[0].type == "sparse_tensor(float)"
    feed = {"a": value, "b": OrtValue.ortvalue_from_numpy(B)}
    assert session.run_with_ort_values(["y"], feed)[0].numpy().tolist() == (DENSE @ B).tolist()
    assert session.run(None, {"a": made, "b": B})[0].tolist() == (DENSE @ B).tolist()


def test_the_product_takes_its_attributes() -> None:
    result = product(alpha=0.5, transA=1, transB=1).run(None, {"a": by_position(), "b": B})[0]
    assert result.tolist() == (0.5 * DENSE.T @ B.T).tolist()


def test_what_is_not_of_the_sparse_type_is_refused_by_name() -> None:
    wrong = SparseTensor.sparse_coo_from_numpy([2, 2], VALUES, np.array([1, 2, 3]), CPU)
    for value, message in (
        (DENSE, "'a'"),
        (by_position(VALUES.astype(np.float64)), "double"),
        (wrong, "input: a"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            product().run(None, {"a": value, "b": B})
    with pytest.raises(InvalidArgument, match="no sparse tensor"):
        OrtValue.ortvalue_from_numpy(DENSE).as_sparse_tensor()


def test_what_a_sparse_tensor_of_strings_leaves_out_is_empty() -> None:
    values = helper.make_tensor("v", TensorProto.STRING, [1], [b"a"])
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [1])
    sparse = helper.make_sparse_tensor(values, indices, [3])
    constant = helper.make_node("Constant", [], ["y"], sparse_value=sparse)
    session = opened([constant], [], [helper.make_tensor_value_info("y", TensorProto.STRING, [3])])
    assert session.run(None, {})[0].tolist() == ["", "a", ""]


def test_an_output_that_is_declared_sparse_comes_as_one() -> None:
    values = helper.make_tensor("v", TensorProto.FLOAT, [3], VALUES)
    indices = helper.make_tensor("i", TensorProto.INT64, [3], [1, 6, 8])
    constant = helper.make_node(
        "Constant", [], ["y"], sparse_value=helper.make_sparse_tensor(values, indices, [3, 3])
    )
    double = helper.make_node("Constant", [], ["z"], value_float=2.0)
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT, [])
    session = opened([constant, double], [], [sparse_info("y"), z])
    sparse, dense = session.run(None, {})
    assert (sparse.values().tolist(), sparse.as_coo_view().indices().tolist()) == ([1, 2, 3], [1, 6, 8])
    assert dense.item() == 2
    made = session.run_with_ort_values(["z", "y"], {})
    assert made[1].as_sparse_tensor().dense_shape() == [3, 3]
    assert made[0].numpy().item() == 2


def test_an_output_that_is_declared_sparse_and_is_no_tensor_is_refused() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    session = opened([helper.make_node("SequenceConstruct", ["x"], ["y"])], [x], [sparse_info("y")])
    feed = np.ones(2, np.float32)
    with pytest.raises(InvalidGraph, match="'y' is declared a sparse tensor, and its node made a sequence"):
        session.run(None, {"x": feed})
    with pytest.raises(InvalidGraph, match="'y' is declared a sparse tensor, and its node made a sequence"):
        session.run_with_ort_values(None, {"x": OrtValue.ortvalue_from_numpy(feed)})


def test_a_profile_leaves_sparse_outputs_sparse(tmp_path: Path) -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([node], "graph", [sparse_info("x")], [sparse_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = ephost.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = ephost.InferenceSession(model.SerializeToString(), options)
    (result,) = session.run(None, {"x": by_position()})
    assert result.as_coo_view().indices().tolist() == [1, 6, 8]
    assert "model_run" in Path(session.end_profiling()).read_text()


def test_every_name_is_onnxruntimes() -> None:
    theirs = pytest.importorskip("onnxruntime").SparseTensor
    names = {name for name in dir(theirs) if not name.startswith("_")}
    assert {name for name in names if not hasattr(SparseTensor, name)} == set()
