"""The arrays that a search for a fault leaves behind."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from ephost.bisection.judging import Mode
from ephost.bisection.locating import turned
from ephost.bisection.repro import write_arrays
from ephost.bisection.shrinking import Case
from onnx import parser


def test_arrays_have_any_names_and_types(tmp_path: Path) -> None:
    path = tmp_path / "inputs.npz"
    arrays = {
        "file": np.arange(3.0, dtype=np.float32),
        "allow_pickle": np.array([[1], [2]]),
        "a/b": np.array(5, np.int8),
        "words": np.array(["a", "b"], object),
        "short": np.array([1, 2], ml_dtypes.bfloat16),
    }
    write_arrays(path, arrays)
    with np.load(path, allow_pickle=False) as found:
        assert sorted(found) == ["a/b", "allow_pickle", "file", "short|bfloat16", "words|text"]
        for name in ("file", "allow_pickle", "a/b"):
            np.testing.assert_array_equal(found[name], arrays[name])
        assert found["words|text"].tolist() == ["a", "b"]
        assert found["short|bfloat16"].dtype == np.uint16


def test_scalars_stay_scalars(tmp_path: Path) -> None:
    path = tmp_path / "inputs.npz"
    write_arrays(path, {"one": np.array(1, ml_dtypes.bfloat16)})
    with np.load(path, allow_pickle=False) as found:
        assert found["one|bfloat16"].shape == ()

    feed = {"x": np.array(2, np.float32)}
    assert turned(feed)["x"].shape == ()

    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]> g (float x) => (float y)
        <float w = {3}> { y = Add(x, w) }""")
    case = Case(model, feed, Mode(), None)  # type: ignore[arg-type]
    smaller = case.with_arrays({"w": np.array(1, np.float32)})
    assert onnx.numpy_helper.to_array(smaller.model.graph.initializer[0]).shape == ()
