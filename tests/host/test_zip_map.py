"""ZipMap, which the host runs itself: plugins have no memory for maps."""

from __future__ import annotations

from typing import Any

import ephost
import numpy as np
import pytest
from ephost import errors
from onnx import TensorProto, helper

SCORES = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, np.nan]], np.float32)


def zip_model(*, rank: int = 2, made: bool = False, **labels: Any) -> bytes:
    """ZipMap of an input, or with ``made`` of what another node makes of it."""
    nodes = [helper.make_node("ZipMap", ["y" if made else "x"], ["z"], "zip", domain="ai.onnx.ml", **labels)]
    if made:
        nodes.insert(0, helper.make_node("Neg", ["x"], ["y"]))
    kind = helper.make_sequence_type_proto(
        helper.make_map_type_proto(
            TensorProto.STRING if "classlabels_strings" in labels else TensorProto.INT64,
            helper.make_tensor_type_proto(TensorProto.FLOAT, []),
        )
    )
    shape = ["n", "c"][-rank:]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_value_info("z", kind)],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    content: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    return content


def open_model(content: bytes) -> ephost.InferenceSession:
    options = ephost.SessionOptions()
    return ephost.InferenceSession(content, options)


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("labels", [{"classlabels_strings": ["grün", ""]}, {"classlabels_int64s": [7, -1]}])
@pytest.mark.parametrize("x", [SCORES, SCORES[:1], SCORES[:0], SCORES[0]])
def test_rows_become_the_dicts_that_onnxruntime_makes(labels: Any, x: np.ndarray, made: bool) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    content = zip_model(rank=x.ndim, made=made, **labels)
    (ours,) = open_model(content).run(None, {"x": x})
    theirs = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    assert repr(ours) == repr(theirs)
    assert all(type(value) is float for row in ours for value in row.values())


def test_the_last_of_equal_labels_counts() -> None:
    (ours,) = open_model(zip_model(classlabels_strings=["a", "a"])).run(None, {"x": SCORES[:1]})
    assert ours == [{"a": 0.75}]


def test_what_a_run_gave_does_not_change_with_the_next() -> None:
    session = open_model(zip_model(made=True, classlabels_int64s=[0, 1]))
    first = session.run(None, {"x": SCORES[:2]})[0]
    session.run(None, {"x": SCORES[:2] * 5})
    assert first == [{0: -0.25, 1: -0.75}, {0: -1.0, 1: -0.0}]


def test_maps_that_stay_native_are_taken_again() -> None:
    session = open_model(zip_model(classlabels_int64s=[3, 4]))
    (value,) = session.run_with_ort_values(None, {"x": ephost.OrtValue.ortvalue_from_numpy(SCORES[:2])})
    assert (value.is_tensor(), value.is_tensor_sequence()) == (False, False)
    assert value.data_type() == "seq(map(int64,tensor(float)))"
    with pytest.raises(errors.InvalidArgument, match="a sequence of maps has no element type"):
        value.element_type()
    assert value.numpy() == [{3: 0.25, 4: 0.75}, {3: 1.0, 4: 0.0}]


def test_labels_that_do_not_fit_are_counted() -> None:
    session = open_model(zip_model(classlabels_strings=["a", "b", "c"]))
    with pytest.raises(errors.InvalidArgument, match=r"the host failed in node 'zip' .*3 class labels.* 2"):
        session.run(None, {"x": SCORES})


def test_a_model_without_labels_is_refused() -> None:
    session = open_model(zip_model())
    with pytest.raises(Exception, match="0 class labels"):
        session.run(None, {"x": SCORES})
