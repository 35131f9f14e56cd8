"""Fourier transforms and filters of spectra."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model


def some(*shape: int, seed: int = 0, dtype: object = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_transform_along_any_axis_agrees(cpu_plugin: Cpu, data: st.DataObject) -> None:
    draw = data.draw
    # Small factors, a large one, and lengths that are done as convolutions.
    length = draw(st.sampled_from([1, 2, 3, 8, 12, 30, 49, 61, 67, 100, 134, 256]))
    rank = draw(st.integers(1, 3))
    axis = draw(st.integers(0, rank - 1))
    shape = [2, 3, 4][:rank]
    shape[axis] = length
    inverse, onesided = draw(st.booleans()), draw(st.booleans())
    kinds = [2] if inverse else [1] if onesided else [1, 2]
    x = some(*shape, draw(st.sampled_from(kinds)), dtype=draw(st.sampled_from([np.float32, np.float64])))
    names, constants = ["x", "", "a"], {"a": np.array(axis - draw(st.sampled_from([0, rank + 1])))}
    if draw(st.booleans()):
        names[1] = "n"
        constants["n"] = np.array(max(1, length + draw(st.integers(-3, 3))))
    elif inverse and onesided and length == 1:
        return  # Of no length.
    attributes = {"inverse": int(inverse), "onesided": int(onesided)}
    node = helper.make_node("DFT", names, ["y"], **attributes)
    cpu_plugin.check(node, {"x": x}, constants=constants, opset=20, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("length", [10, 64, 67])
def test_what_must_be_real_in_a_real_signals_spectrum_is_exactly(cpu_plugin: Cpu, length: int) -> None:
    x = some(3, length, 1)
    model = make_model([helper.make_node("DFT", ["x"], ["y"])], {"x": x}, ["y"], opset=20)
    y = cpu_plugin.run(model, {"x": x})[0]
    assert (y[:, 0, 1] == 0).all()
    assert length % 2 or (y[:, length // 2, 1] == 0).all()


@pytest.mark.parametrize("length", [97, 1009, 4096, 4099])
def test_long_transforms_are_as_exact_as_their_type(cpu_plugin: Cpu, length: int) -> None:
    x = some(1, length, 2, dtype=np.float64)
    model = make_model([helper.make_node("DFT", ["x"], ["y"])], {"x": x}, ["y"], opset=20)
    y = cpu_plugin.run(model, {"x": x})[0]
    expected = np.fft.fft(x[..., 0] + 1j * x[..., 1])
    np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], expected, atol=1e-10)


@pytest.mark.parametrize("opset", [17, 20])
def test_the_axis_is_an_attribute_before_opset_20(cpu_plugin: Cpu, opset: int) -> None:
    x = some(2, 6, 5, 1)
    names, more = (["x", "", "a"], {}) if opset == 20 else (["x"], {"axis": 2})
    constants = {"a": np.array(2)} if opset == 20 else {}
    cpu_plugin.check(
        helper.make_node("DFT", names, ["y"], **more), {"x": x}, constants=constants, opset=opset,
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize("sizes", [(50, 3, 8), (400, 160, 400), (33, 7, 11)])
def test_frames_of_a_signal_are_transformed(
    cpu_plugin: Cpu, onesided: int, window: bool, sizes: tuple[int, int, int]
) -> None:
    length, step, frame = sizes
    x = some(2, length, 1)
    constants = {"s": np.array(step), "n": np.array(frame)}
    names = ["x", "s", "", "n"]
    if window:
        constants["w"] = np.hanning(frame).astype(np.float32)
        names[2] = "w"
    node = helper.make_node("STFT", names, ["y"], onesided=onesided)
    cpu_plugin.check(node, {"x": x}, constants=constants, opset=17, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("open_shapes", [False, True])
def test_a_real_signal_needs_no_dimension_that_says_so(
    cpu_plugin: Cpu, onesided: int, open_shapes: bool
) -> None:
    feeds = {"x": some(2, 33)}
    constants = {"s": np.array(7), "n": np.array(11), "w": np.hanning(11).astype(np.float32)}
    node = helper.make_node("STFT", ["x", "s", "w", "n"], ["y"], onesided=onesided)
    found = []
    for x in (feeds["x"], feeds["x"][..., None]):
        model = make_model([node], {"x": x}, ["y"], constants, opset=17, open_shapes=open_shapes)
        found.append(cpu_plugin.run(model, {"x": x})[0])
    assert found[0].shape == (2, 4, 6 if onesided else 11, 2)
    np.testing.assert_array_equal(*found)


def test_mel_weights_agree(cpu_plugin: Cpu) -> None:
    values = {
        "bins": np.array(20),
        "length": np.array(256),
        "rate": np.array(16000),
        "low": np.array(50, np.float32),
        "high": np.array(7600, np.float32),
    }
    node = helper.make_node("MelWeightMatrix", list(values), ["m"])
    after = helper.make_node("MatMul", ["x", "m"], ["y"])
    cpu_plugin.check([node, after], {"x": some(3, 129)}, constants=values, opset=17)


def test_a_frequency_beyond_the_spectrum_is_refused(cpu_plugin: Cpu) -> None:
    values = {
        "bins": np.array(4),
        "length": np.array(16),
        "rate": np.array(8000),
        "low": np.array(0, np.float32),
        "high": np.array(9000, np.float32),
    }
    graph = helper.make_graph(
        [helper.make_node("MelWeightMatrix", list(values), ["y"])],
        "graph",
        [helper.make_tensor_value_info("high", onnx.TensorProto.FLOAT, [])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [9, 4])],
        [onnx.numpy_helper.from_array(value, name) for name, value in values.items() if name != "high"],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = cpu_plugin.session(model)
    with pytest.raises(Exception, match="a frequency that the spectrum does not have"):
        session.run(None, {"high": values["high"]})


@pytest.mark.parametrize("size", [1, 2, 511, 512, 513, 20000])
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("operator", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_long_windows_are_as_exact_as_short_ones(
    cpu_plugin: Cpu, operator: str, periodic: int, size: int
) -> None:
    node = helper.make_node(operator, ["n"], ["y"], output_datatype=11, periodic=periodic)
    feeds = {"n": np.array(size)}
    (y,) = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)
    with np.errstate(invalid="ignore"):
        angles = 2 * np.pi * np.arange(size) / np.float64(size if periodic else size - 1)
    a0, a1, a2 = {
        "HannWindow": (0.5, 0.5, 0.0),
        "HammingWindow": (25 / 46, 1 - 25 / 46, 0.0),
        "BlackmanWindow": (0.42, 0.5, 0.08),
    }[operator]
    expected = a0 - a1 * np.cos(angles) + a2 * np.cos(2 * angles)
    np.testing.assert_allclose(y, expected, rtol=0, atol=2e-15)
