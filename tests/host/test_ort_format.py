"""Models in ONNX Runtime's own format, as onnxruntime writes them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from ephost.errors import Fail, InvalidProtobuf, NotImplemented, OnnxRuntimeException
from ephost.model.load import load
from host_state import needs_newest_onnx
from onnx import TensorProto, helper, numpy_helper, parser

Write = Callable[[onnx.ModelProto], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a model as onnxruntime does, nothing of it optimized."""

    onnxruntime = pytest.importorskip("onnxruntime")

    def written(model: onnx.ModelProto) -> Path:
        path = tmp_path / "model.ort"
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.optimized_model_filepath = str(path)
        options.add_session_config_entry("session.save_model_format", "ORT")
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return path

    return written


def network() -> onnx.ModelProto:
    """Weights that are larger and smaller than what is copied, dimensions of all kinds, metadata."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first", pads=[1] * 4),
        helper.make_node("LeakyRelu", ["a"], ["b"], alpha=0.25),
        helper.make_node("Resize", ["b", "", "scales"], ["c"], mode="linear"),
        helper.make_node("GlobalAveragePool", ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("Gemm", ["e", "v"], ["y"], transB=1),
    ]
    weights = {
        "w": rng.standard_normal((64, 3, 3, 3)),
        "v": rng.standard_normal((6000, 64)),
        "scales": np.array([1, 1, 2, 2]),
    }
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, None, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 6000])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
        doc_string="what the graph is",
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="the tests"
    )
    model.doc_string, model.model_version, model.domain = "what it is", 7, "a.domain"
    helper.set_model_props(model, {"key": "value", "ключ": "значение"})
    return model


BRANCHES = """<ir_version: 8, opset_import: ["" : 17]>
    g (bool c, float[N] x) => (float[M] z) <float[2] w = {1, 2}> {
      y = If(c) <then_branch = t () => (float[N] a) { a = Mul(x, w) },
                 else_branch = e () => (float[K] b) { b0 = Concat<axis = 0>(w, x)  b = Neg(b0) }>
      z = Abs(y)
    }"""
WORDS = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 2]>
    g (string[N] x) => (int64[N] y, string[2, N] twice) {
      y = ai.onnx.ml.LabelEncoder<keys_strings = ["a", "ä", ""], values_int64s = [1, -2, 3]>(x)
      axes = Constant<value_ints = [0]>()
      row = Unsqueeze(x, axes)
      twice = Concat<axis = 0>(row, row)
    }"""
SCORES = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 2]>
    g (float[N, 2] x) => (seq(map(string, float)) y) {
      y = ai.onnx.ml.ZipMap<classlabels_strings = ["no", "yes"]>(x)
    }"""
HALVES = """<ir_version: 8, opset_import: ["" : 17]>
    g (float16[2] x) => (float16[2] y, double[2] wide) {
      y = Neg(x)
      wide = Cast<to = 11>(y)
    }"""
CASES = {
    "network": (network, {"x": np.random.default_rng(1).standard_normal((2, 3, 5, 8)).astype(np.float32)}),
    "a branch": (BRANCHES, {"c": np.array(True), "x": np.array([3, -4], np.float32)}),
    "the other": (BRANCHES, {"c": np.array(False), "x": np.array([3, -4], np.float32)}),
    "words": (WORDS, {"x": np.array(["ä", "a", "", "b"], object)}),
    "scores": (SCORES, {"x": np.array([[0.25, 0.75], [1, 0]], np.float32)}),
    "halves": (HALVES, {"x": np.array([0.5, -2], np.float16)}),
}


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize(  # onnx's Resize of before takes minutes
    "case", [pytest.param(name, marks=needs_newest_onnx if name == "network" else ()) for name in CASES]
)
def test_it_is_the_model_that_was_written(write: Write, case: str, as_bytes: bool) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    made, feeds = CASES[case]
    path = write(parser.parse_model(made) if isinstance(made, str) else made())
    source = path.read_bytes() if as_bytes else str(path)
    sessions = [
        host.InferenceSession(source, providers=["CPUExecutionProvider"]) for host in (ephost, onnxruntime)
    ]
    ours, theirs = [
        [
            [(value.name, value.type, value.shape) for value in values]
            for values in (session.get_inputs(), session.get_outputs())
        ]
        for session in sessions
    ]
    assert ours == theirs
    about, expected = [session.get_modelmeta() for session in sessions]
    for name in (
        "producer_name",
        "domain",
        "description",
        "graph_description",
        "version",
        "custom_metadata_map",
    ):
        assert getattr(about, name) == getattr(expected, name)
    for found, wanted in zip(*[session.run(None, feeds) for session in sessions], strict=True):
        if isinstance(wanted, list):
            assert found == wanted
        elif wanted.dtype == object:
            assert found.tolist() == wanted.tolist()
        else:
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_sparse_initializer(write: Write) -> None:
    sparse = onnx.SparseTensorProto(
        values=numpy_helper.from_array(np.array([5], np.float32), "w"),
        indices=numpy_helper.from_array(np.array([1])),
        dims=[2],
    )
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, [2])],
        [value("y", TensorProto.FLOAT, [2])],
        sparse_initializer=[sparse],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ephost.InferenceSession(str(write(model)))
    assert session.run(None, {"x": np.array([1, 2], np.float32)})[0].tolist() == [1, 7]


def test_another_version_is_refused(write: Write) -> None:
    data = bytearray(write(parser.parse_model(HALVES)).read_bytes())
    at = data.index(b"\x01\x00\x00\x006\x00")  # the text "6"
    data[at + 4 : at + 5] = b"9"
    with pytest.raises(NotImplemented, match="the buffer is of version '9' of ONNX Runtime's format"):
        ephost.InferenceSession(bytes(data))


@pytest.mark.parametrize("length", [8, 9, 40, 200])
def test_a_file_that_is_cut_short_is_named(write: Write, length: int) -> None:
    path = write(parser.parse_model(BRANCHES))
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(InvalidProtobuf, match=r"model.ort is a model in ONNX Runtime's format, and cut"):
        ephost.InferenceSession(str(path))


def test_whatever_a_file_points_to_is_read_or_refused(write: Write) -> None:
    """Quickly: tables that contain each other, or overlap, are not followed for ever."""
    whole = write(parser.parse_model(BRANCHES)).read_bytes()
    dice = random.Random(0)
    numbers = [0, 1, 4, 8, len(whole), 2**31 - 1, 2**32 - 1]
    outcomes = set()
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(dice.choice([1, 1, 2, 6])):
            at = dice.randrange(8, len(whole) - 8)
            source = dice.randrange(8, len(whole) - 8)
            number = dice.choice(numbers).to_bytes(4, "little")
            data[at : at + 4] = dice.choice(
                [number, whole[source : source + 4], bytes([dice.randrange(256)] * 4)]
            )
        try:
            load(bytes(data))
            outcomes.add("read")
        except OnnxRuntimeException as error:
            outcomes.add(type(error).__name__)
    assert {"read", "InvalidProtobuf"} <= outcomes


def test_a_model_is_in_the_format_that_it_is_said_to_be_in(write: Write, tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "model.onnx")
    ort_format, onnxs = str(write(network())), str(tmp_path / "model.onnx")

    def opened(path: str, wanted: str) -> ephost.InferenceSession:
        options = ephost.SessionOptions()
        options.add_session_config_entry("session.load_model_format", wanted)
        return ephost.InferenceSession(path, options)

    for path, wanted in ((ort_format, "ORT"), (onnxs, "ONNX"), (onnxs, ""), (ort_format, "")):
        opened(path, wanted)
    with pytest.raises(Fail, match=r"model\.onnx is no model in ONNX Runtime's format, .*load_model_format"):
        opened(onnxs, "ORT")
    with pytest.raises(InvalidProtobuf, match=r"model\.ort is no ONNX model"):
        opened(ort_format, "ONNX")
