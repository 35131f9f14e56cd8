"""Large tensors of a serialised model stay where they are, and every model means the same as before."""

from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from ephost.errors import OnnxRuntimeException
from ephost.model.load import load
from ephost.model.wire import INSIDE, without_large_tensors
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper


def make_model(sizes: list[int]) -> onnx.ModelProto:
    random = np.random.default_rng(0)
    weights = [random.normal(size=size).astype(np.float32) for size in sizes]
    nodes = [helper.make_node("Mul", [f"v{i}", f"w{i}"], [f"v{i + 1}"]) for i in range(len(sizes))]
    graph = helper.make_graph(
        [helper.make_node("ReduceSum", ["x"], ["v0"], keepdims=0), *nodes],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info(f"v{len(sizes)}", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, f"w{i}") for i, weight in enumerate(weights)],
        doc_string="with a text behind the tensors",
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, {"key": "value"})
    return model


def restored(data: bytes) -> onnx.ModelProto:
    model = onnx.ModelProto()
    model.ParseFromString(without_large_tensors(memoryview(data)) or data)
    for tensor in model.graph.initializer:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if entries.get("location") == INSIDE:
            begin = int(entries["offset"])
            del tensor.external_data[:]
            tensor.ClearField("data_location")
            tensor.raw_data = data[begin : begin + int(entries["length"])]
    return model


@given(st.lists(st.sampled_from([1, 3, 1000, 1024, 1025, 40_000]), max_size=6))
def test_what_is_cut_out_and_the_rest_make_the_model(sizes: list[int]) -> None:
    model = make_model(sizes)
    data = model.SerializeToString()
    assert restored(data) == model
    small = without_large_tensors(memoryview(data))
    assert (small is None) == (max(sizes, default=0) * 4 < 4096)
    assert small is None or len(small) < len(data)


@given(st.integers(0, 400), st.integers(0, 255))
@settings(max_examples=4 * settings.default.max_examples)
def test_a_damaged_message_is_left_to_the_parser(at: int, value: int) -> None:
    data = bytearray(make_model([1025, 2000]).SerializeToString())
    data[at] = value
    without_large_tensors(memoryview(bytes(data)))  # no exception
    without_large_tensors(memoryview(bytes(data[: at * 30])))


@pytest.mark.parametrize("source", ["file", "bytes"])
def test_a_large_model_opens_from_its_own_bytes(tmp_path: Path, source: str) -> None:
    model = make_model([300_000, 1, 300_000])
    path = tmp_path / "large.onnx"
    path.write_bytes(model.SerializeToString())
    session = ephost.InferenceSession(path if source == "file" else path.read_bytes())
    (found,) = session.run(None, {"x": np.array([0.5, 0.5], np.float32)})
    expected = 1.0
    for tensor in model.graph.initializer:
        expected = expected * numpy_helper.to_array(tensor)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    loaded = load(path if source == "file" else path.read_bytes())
    for tensor in model.graph.initializer:
        array = loaded.graph.values[tensor.name].initializer
        assert array is not None
        np.testing.assert_array_equal(array, numpy_helper.to_array(tensor))
        assert array.size < 1024 or not array.flags.owndata


def test_a_file_cannot_name_the_bytes_of_another(tmp_path: Path) -> None:
    model = make_model([8])
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", INSIDE), ("offset", "0"), ("length", "32")):
        tensor.external_data.add(key=key, value=value)
    with pytest.raises(OnnxRuntimeException, match="no path"):
        load(model.SerializeToString())
