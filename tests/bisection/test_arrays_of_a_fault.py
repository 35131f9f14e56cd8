"""The arrays that a search for a fault leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from ephost.bisection.judging import Mode, Symptom, digest
from ephost.bisection.locating import turned
from ephost.bisection.repro import write_arrays, write_repro
from ephost.bisection.shrinking import Case
from ephost.bisection.targets import Target
from ephost.bisection.worker import same_value
from ephost.errors import Fail
from onnx import TensorProto, helper, parser


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


def a_case_of_sequences() -> Case:
    words, numbers = (
        helper.make_tensor_sequence_value_info(name, kind, None)
        for name, kind in (("words|in", TensorProto.STRING), ("numbers", TensorProto.FLOAT))
    )
    maybe = helper.make_value_info(
        "maybe", helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    )
    scores = helper.make_tensor_value_info("a|b", TensorProto.FLOAT, [2, 2])
    classes = helper.make_map_type_proto(
        TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    )
    outputs = [
        helper.make_tensor_sequence_value_info("more", TensorProto.FLOAT, None),
        helper.make_tensor_sequence_value_info("same", TensorProto.STRING, None),
        helper.make_tensor_value_info("there", TensorProto.BOOL, []),
        helper.make_value_info("labelled", helper.make_sequence_type_proto(classes)),
    ]
    nodes = [
        helper.make_node("SequenceInsert", ["numbers", "a|b"], ["more"]),
        helper.make_node("Identity", ["words|in"], ["same"]),
        helper.make_node("OptionalHasElement", ["maybe"], ["there"]),
        helper.make_node("ZipMap", ["a|b"], ["labelled"], domain="ai.onnx.ml", classlabels_int64s=[7, 9]),
    ]
    graph = helper.make_graph(nodes, "g", [words, numbers, maybe, scores], outputs)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    feed = {
        "words|in": [np.array(["a", "bc"], object), np.array(["d"], object)],
        "numbers": [np.ones(2, np.float32), np.zeros((1, 3), np.float32)],
        "maybe": None,
        "a|b": np.eye(2, dtype=np.float32),
    }
    return Case(helper.make_model(graph, opset_imports=imports, ir_version=8), feed, Mode(), Target("none"))


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(folder / "repro.py")]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)


def test_the_program_feeds_and_compares_sequences_maps_and_nothing(tmp_path: Path) -> None:
    case = a_case_of_sequences()
    feed = case.feed
    expected: dict[str, Any] = {
        "more": [*feed["numbers"], feed["a|b"]],
        "same": feed["words|in"],
        "there": np.array(False),
        "labelled": [{7: 1.0, 9: 0.0}, {7: 0.0, 9: 1.0}],
    }
    symptom = Symptom("numbers")
    write_repro(tmp_path, case, symptom, "", ("ephost",), [feed], [expected], {}, None)
    done = run(tmp_path)
    assert done.returncode == 0 and "nothing wrong" in done.stdout, done.stdout + done.stderr
    for name, other, words in (
        ("more", feed["numbers"], "more has 3 elements, not 2"),
        ("more", [*feed["numbers"], 2 * feed["a|b"]], "more[2][0, 0] is 1.0, not 2.0; 2 of 4 are wrong"),
        ("labelled", [{7: 1.0, 9: 0.0}, {7: 0.5, 9: 1.0}], "labelled[1] is {7: 0.0, 9: 1.0}, not {7: 0.5"),
    ):
        write_repro(tmp_path, case, symptom, "", ("ephost",), [feed], [{**expected, name: other}], {}, None)
        done = run(tmp_path)
        assert done.returncode == 1 and f"WRONG: {words}" in done.stdout, done.stdout + done.stderr


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(Fail, match="the value 's' cannot be written for a vendor: it is of object"):
        write_arrays(tmp_path / "inputs.npz", {"s": object()})


def test_sequences_that_differ_in_the_middle_of_a_large_array_are_not_the_same() -> None:
    first, second = (np.zeros(5000, np.float32) for _ in range(2))
    second[2500] = 1
    assert repr([first]) == repr([second])
    assert digest({"s": [first]}) != digest({"s": [second]})
    assert digest({"s": [first]}) == digest({"s": [first.copy()]})
    assert not same_value([first], [second]) and same_value([first], [first.copy()])
    assert not same_value([first], [first, first])
