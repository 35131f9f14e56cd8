"""Cast from texts to numbers and back, beside onnxruntime: the standard says little of either."""

from __future__ import annotations

import ephost
import numpy as np
import pytest
from ephost.errors import Fail
from onnx import TensorProto, helper

NUMBERS = {
    "bool": [True, False],
    "int8": [-128, 7],
    "uint64": [0, 2**64 - 1],
    "float16": [1, 1 / 3, 60000, np.nan],
    "float32": [1, -0.0, 0.5, 1e10, 1e-7, 123456789, 0.1, np.nan, np.inf, -np.inf],
    "float64": [3, 1 / 3, 1e22, 1e-9, -np.inf],
}
WHOLE = [
    "1",
    "0",
    " 7",
    "+3",
    "-5",
    "1.9",
    "12abc",
    "1e2",
    "0x10",
    "300",
    "1_0",
    str(2**63 - 1),
    str(-(2**63)),
]
REAL = [
    "1.5",
    "-2.5e3",
    " .5",
    "5.",
    "NaN",
    "-inf",
    "INFINITY",
    "1e50",
    "-1e50",
    "1e-50",
    "0x1p3",
    "7 up",
    "1e",
]


def model_of(source: int, target: int) -> bytes:
    inputs, outputs = (
        [helper.make_tensor_value_info(name, kind, [None])] for name, kind in (("x", source), ("y", target))
    )
    node = helper.make_node("Cast", ["x"], ["y"], "cast", to=target)
    graph = helper.make_graph([node], "g", inputs, outputs)
    opsets = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def both(model: bytes, x: np.ndarray) -> list[np.ndarray]:
    onnxruntime = pytest.importorskip("onnxruntime")
    providers = ["CPUExecutionProvider"]
    return [
        host.InferenceSession(model, providers=providers).run(None, {"x": x})[0]
        for host in (ephost, onnxruntime)
    ]


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_written_as_onnxruntime_writes_them(name: str) -> None:
    x = np.array(NUMBERS[name], name)
    found, expected = both(model_of(helper.np_dtype_to_tensor_dtype(x.dtype), TensorProto.STRING), x)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["bool", "int8", "uint8", "int32", "int64", "uint64"])
def test_texts_are_read_as_whole_numbers(name: str) -> None:
    model = model_of(TensorProto.STRING, helper.np_dtype_to_tensor_dtype(np.dtype(name)))
    found, expected = both(model, np.array(WHOLE, object))
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_texts_are_read_as_floats(name: str) -> None:
    model = model_of(TensorProto.STRING, helper.np_dtype_to_tensor_dtype(np.dtype(name)))
    found, expected = both(model, np.array(REAL, object))
    np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        ("", TensorProto.FLOAT, "'' does not begin with a number"),
        ("true", TensorProto.BOOL, "'true' does not begin with a number"),
        ("-", TensorProto.INT32, "'-' does not begin with a number"),
        (str(2**63), TensorProto.INT8, "is a number beyond 64 bits"),
        (str(2**64), TensorProto.UINT8, "is a number beyond 64 bits"),
    ],
)
def test_what_is_no_number_is_refused_with_the_text(text: str, target: int, said: str) -> None:
    session = ephost.InferenceSession(model_of(TensorProto.STRING, target))
    with pytest.raises(Fail, match=f"'cast' \\(Cast\\).*{said}"):
        session.run(None, {"x": np.array([text], object)})
