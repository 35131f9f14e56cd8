"""Cast between texts and numbers in the plugin: as tests/host/test_text_casts.py has it of the fallback."""

from __future__ import annotations

import numpy as np
import pytest
from ephost.errors import InvalidArgument
from onnx import TensorProto, helper

from tests.host.test_text_casts import NUMBERS, REAL, WHOLE
from tests.plugins.cpu.conftest import Cpu, make_model

MANY = 5000  # are done by several threads


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_written(cpu_plugin: Cpu, name: str) -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING)
    cpu_plugin.check_beside_onnxruntime(node, {"x": np.array(NUMBERS[name], name)}, opset=13)
    many = np.arange(MANY).astype(name) if name != "float32" else np.random.default_rng(0).random(MANY, name)
    cpu_plugin.check_beside_onnxruntime(node, {"x": many.reshape(50, 100)}, opset=13)


@pytest.mark.parametrize("name", ["bool", "int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_texts_are_read_as_whole_numbers(cpu_plugin: Cpu, name: str) -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=helper.np_dtype_to_tensor_dtype(np.dtype(name)))
    for texts in (np.array(WHOLE, object), np.arange(MANY).astype(str).astype(object)):
        cpu_plugin.check_beside_onnxruntime(node, {"x": texts}, opset=13)


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_texts_are_read_as_floats(cpu_plugin: Cpu, name: str) -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=helper.np_dtype_to_tensor_dtype(np.dtype(name)))
    numbers = np.random.default_rng(0).standard_normal(MANY) * 10.0 ** np.linspace(-300, 300, MANY)
    more = ["0x", "0xz", "-0", "infinit", "nano", "-0x1.8p-1", "\t\n1"]
    for texts in ([*REAL, *more], map(repr, numbers.tolist())):
        feeds = {"x": np.array(list(texts), object)}
        cpu_plugin.check_beside_onnxruntime(node, feeds, opset=13, rtol=0, atol=0)


def test_what_no_float_can_hold_is_infinite_or_zero(cpu_plugin: Cpu) -> None:
    """onnxruntime refuses it."""
    feeds = {"x": np.array(["1e-400", "-2e5000", "3e-5000", "1e400", "4e-320"], object)}
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.DOUBLE)
    found = cpu_plugin.run(make_model([node], feeds, ["y"], opset=13), feeds)[0]
    assert found.tolist() == [0, -np.inf, 0, np.inf, 4e-320]


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        ("", TensorProto.FLOAT, "'' does not begin with a number"),
        ("+-1", TensorProto.FLOAT, "does not begin with a number"),
        ("word", TensorProto.DOUBLE, "'word' does not begin with a number"),
        ("true", TensorProto.BOOL, "'true' does not begin with a number"),
        (" - 1", TensorProto.INT32, "does not begin with a number"),
        (str(2**63), TensorProto.INT8, "is a number beyond 64 bits"),
        (str(-(2**63) - 1), TensorProto.INT64, "is a number beyond 64 bits"),
        (str(2**64), TensorProto.UINT8, "is a number beyond 64 bits"),
    ],
)
def test_what_is_no_number_is_refused_with_the_text(
    cpu_plugin: Cpu, text: str, target: int, said: str
) -> None:
    feeds = {"x": np.array(["1", text], object)}
    model = make_model([helper.make_node("Cast", ["x"], ["y"], "cast", to=target)], feeds, ["y"], opset=13)
    with pytest.raises(InvalidArgument, match=f"'cast'.*{said}"):
        cpu_plugin.run(model, feeds)
