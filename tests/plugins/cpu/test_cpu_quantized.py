"""Operators on quantised tensors, beside exact arithmetic in numpy and the reference implementation."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.plugins.cpu.conftest import Cpu, make_model

RNG = np.random.default_rng(7)
START = RNG.bit_generator.state  # where each of a test's many examples starts again


def _bytes(dtype: type, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def _quantized(values: np.ndarray, zero: np.ndarray, dtype: type) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.clip(np.rint(values) + zero.astype(np.int64), info.min, info.max).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
@pytest.mark.parametrize(
    ("shape", "axis", "block"),
    [
        ((3, 5), None, 0),
        ((5, 67), None, 0),
        ((3, 40, 7), 1, 0),
        ((6, 33), -1, 0),
        ((2, 8, 3), 1, 4),
        ((3, 10), 1, 4),
        ((4, 8), 1, 4),
    ],
)
def test_quantizing_and_dequantizing_by_tensor_axis_or_block(
    cpu_plugin: Cpu, dtype: type, shape: tuple[int, ...], axis: int | None, block: int
) -> None:
    scale_shape: tuple[int, ...] = ()
    if axis is not None and block:
        scale_shape = tuple(-(-d // block) if at == axis else d for at, d in enumerate(shape))
    elif axis is not None:
        scale_shape = (shape[axis],)
    scale = (RNG.random(scale_shape) * 0.5 + 0.01).astype(np.float32)
    zero = RNG.integers(0, 100, scale_shape).astype(dtype)
    attributes = {} if axis is None else {"axis": axis} | ({"block_size": block} if block else {})
    x = (RNG.standard_normal(shape) * 30).astype(np.float32)
    feeds = {"x": x, "s": scale, "z": zero}
    cpu_plugin.check(
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], **attributes), feeds, rtol=0, atol=0
    )
    feeds["x"] = _bytes(dtype, *shape)
    cpu_plugin.check(helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"], **attributes), feeds)


def test_quantizing_rounds_ties_to_even_and_saturates(cpu_plugin: Cpu) -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, 254.5, 255.5, 1e9, -1e9, np.inf, -np.inf], np.float32)
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    feeds = {"x": x, "s": np.float32(1), "z": np.uint8(0)}
    (found,) = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)
    assert found.tolist() == [0, 2, 2, 0, 254, 255, 255, 0, 255, 0]


@pytest.mark.parametrize("shape", [(1,), (7, 13), (3, 50000)])
def test_dynamic_quantization_finds_the_range(cpu_plugin: Cpu, shape: tuple[int, ...]) -> None:
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])
    x = (RNG.standard_normal(shape) * 3 + 1).astype(np.float32)
    cpu_plugin.check(node, {"x": x}, ("y", "s", "z"), atol=1)
    zeros = {"x": np.zeros(shape, np.float32)}
    y, _, z = cpu_plugin.run(make_model([node], zeros, ["y", "s", "z"]), zeros)
    assert z == 0
    assert not y.any()


def test_dynamic_quantization_finds_the_ends_of_the_range_wherever_they_are(cpu_plugin: Cpu) -> None:
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])
    zeros = {"x": np.zeros(77, np.float32)}
    session = cpu_plugin.session(make_model([node], zeros, ["y", "s", "z"]))
    for at in range(77):
        x = np.zeros(77, np.float32)
        x[at], x[(at + 40) % 77] = 6, -4
        y, scale, zero = session.run(None, {"x": x})
        assert scale == np.float32(10) / np.float32(255)
        assert (y[at], y[(at + 40) % 77], y[(at + 1) % 77], zero) == (255, 0, zero, 102)


@pytest.mark.parametrize("length", [2, 7, 33, 100])
@pytest.mark.parametrize("special", [[np.inf], [-np.inf], [np.inf, -np.inf]])
def test_dynamic_quantization_of_infinities_is_onnxruntimes(
    cpu_plugin: Cpu, special: list[float], length: int
) -> None:
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])
    x = np.linspace(-2, 1, length, dtype=np.float32)
    x[length // 2 - 1 :][: len(special)] = special
    cpu_plugin.check_beside_onnxruntime(node, {"x": x}, ("y", "s", "z"))
    y, scale, zero = cpu_plugin.run(make_model([node], {"x": x}, ["y", "s", "z"]), {"x": x})
    assert scale == np.inf
    assert zero == (255 if -np.inf in special else 0)
    assert not y[np.isinf(x)].any()  # Behind a zero point of 255 that is minus infinity.
    assert np.all(y[np.isfinite(x)] == zero)


@pytest.mark.parametrize("length", [3, 33, 100])
def test_what_is_not_a_number_becomes_the_least_byte(cpu_plugin: Cpu, length: int) -> None:
    x = np.linspace(-2, 1, length, dtype=np.float32)
    x[1:-1:2] = np.nan  # The range is that of the numbers; onnxruntime's may lack those around a NaN.
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])
    y, scale, zero = cpu_plugin.run(make_model([node], {"x": x}, ["y", "s", "z"]), {"x": x})
    assert (scale, zero) == (np.float32(3) / np.float32(255), 170)
    assert not y[np.isnan(x)].any()
    for of_type in (np.uint8, np.int8):
        feeds = {"x": x, "s": np.asarray(np.float32(0.5)), "z": np.asarray(of_type(7))}
        node = helper.make_node("QuantizeLinear", list(feeds), ["y"])
        cpu_plugin.check_beside_onnxruntime(node, feeds)


@given(
    m=st.integers(1, 60),
    k=st.integers(1, 70),
    n=st.integers(1, 40),
    a=st.sampled_from([np.uint8, np.int8]),
    b=st.sampled_from([np.uint8, np.int8]),
    rows=st.booleans(),
    columns=st.booleans(),
    constant=st.booleans(),
)
def test_integer_products_are_exact(
    cpu_plugin: Cpu, m: int, k: int, n: int, a: type, b: type, rows: bool, columns: bool, constant: bool
) -> None:
    RNG.bit_generator.state = START
    x, w = _bytes(a, m, k), _bytes(b, k, n)
    x_zero, w_zero = _bytes(a, m) if rows else _bytes(a, 1)[0], _bytes(b, n) if columns else _bytes(b, 1)[0]
    feeds = {"x": x, "w": w, "xz": np.asarray(x_zero), "wz": np.asarray(w_zero)}
    constants = {"w": feeds.pop("w"), "wz": feeds.pop("wz")} if constant else {}
    node = helper.make_node("MatMulInteger", ["x", "w", "xz", "wz"], ["y"])
    model = make_model([node], feeds, ["y"], constants)
    (found,) = cpu_plugin.run(model, feeds)
    left = x.astype(np.int64) - np.reshape(x_zero, (-1, 1)).astype(np.int64)
    assert np.array_equal(found, left @ (w.astype(np.int64) - np.asarray(w_zero).astype(np.int64)))


def test_products_of_the_largest_bytes_do_not_saturate(cpu_plugin: Cpu) -> None:
    x, w = np.full((2, 64), 255, np.uint8), np.full((64, 32), 127, np.int8)
    w[:, ::2] = -128
    (found,) = cpu_plugin.check(
        helper.make_node("MatMulInteger", ["x", "w"], ["y"]), {"x": x, "w": w}, rtol=0, atol=0
    )
    assert found[0, 0] == -255 * 128 * 64
    assert found[0, 1] == 255 * 127 * 64


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3, 4, 5), (2, 3, 5, 6)),
        ((3, 4, 5), (5, 6)),
        ((2, 1, 4, 5), (3, 5, 6)),
        ((5,), (5, 6)),
        ((4, 5), (5,)),
    ],
)
def test_integer_products_of_stacks(cpu_plugin: Cpu, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    feeds = {"x": _bytes(np.uint8, *a), "w": _bytes(np.int8, *b), "xz": np.uint8(7)}
    (found,) = cpu_plugin.run(
        make_model([helper.make_node("MatMulInteger", ["x", "w", "xz"], ["y"])], feeds, ["y"]), feeds
    )
    assert np.array_equal(found, (feeds["x"].astype(np.int64) - 7) @ feeds["w"].astype(np.int64))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("by_column", [False, True])
def test_quantized_matrix_product(cpu_plugin: Cpu, dtype: type, by_column: bool) -> None:
    a, b = _bytes(dtype, 5, 33), _bytes(dtype, 33, 20)
    scale = (RNG.random(20 if by_column else ()) * 0.01 + 0.01).astype(np.float32)
    zero = np.asarray(_bytes(dtype, 20) if by_column else _bytes(dtype, 1)[0])
    a_scale, a_zero, y_scale, y_zero = np.float32(0.02), dtype(3), np.float32(0.5), dtype(10)
    feeds = {
        "a": a,
        "as": a_scale,
        "az": a_zero,
        "b": b,
        "bs": scale,
        "bz": zero,
        "ys": y_scale,
        "yz": y_zero,
    }
    node = helper.make_node("QLinearMatMul", list(feeds), ["y"])
    (found,) = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)
    exact = (a.astype(np.int64) - 3) @ (b.astype(np.int64) - zero.astype(np.int64))
    expected = _quantized(exact * (np.float64(a_scale) * scale / y_scale), np.asarray(y_zero), dtype)
    assert found.dtype == dtype
    assert np.max(np.abs(found.astype(int) - expected.astype(int))) <= 1
    assert np.mean(found != expected) < 0.02


def _convolve(
    x: np.ndarray, w: np.ndarray, strides: int, pads: list[int], dilations: int, group: int
) -> np.ndarray:
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    n, _, height, width = x.shape
    outputs, inner, kh, kw = w.shape
    oh = (height - (kh - 1) * dilations - 1) // strides + 1
    ow = (width - (kw - 1) * dilations - 1) // strides + 1
    y = np.zeros((n, outputs, oh, ow), np.int64)
    each = outputs // group
    for o in range(outputs):
        for c in range(inner):
            for i in range(kh):
                for j in range(kw):
                    top, left = i * dilations, j * dilations
                    part = x[
                        :,
                        o // each * inner + c,
                        top : top + oh * strides : strides,
                        left : left + ow * strides : strides,
                    ]
                    y[:, o] += part[:, :oh, :ow] * w[o, c, i, j]
    return y


@given(
    batch=st.integers(1, 2),
    shape=st.sampled_from([(4, 6, 1), (3, 35, 1), (8, 8, 8), (41, 41, 41), (6, 4, 2), (1, 9, 1)]),
    size=st.tuples(st.integers(3, 24), st.integers(3, 24)),
    kernel=st.sampled_from([(1, 1), (3, 3), (1, 3), (2, 3)]),
    strides=st.integers(1, 2),
    dilations=st.integers(1, 2),
    pads=st.lists(st.integers(0, 2), min_size=4, max_size=4),
    x_type=st.sampled_from([np.uint8, np.int8]),
    by_channel=st.booleans(),
    constant=st.booleans(),
)
def test_integer_convolutions_are_exact(
    cpu_plugin: Cpu,
    batch: int,
    shape: tuple[int, int, int],
    size: tuple[int, int],
    kernel: tuple[int, int],
    strides: int,
    dilations: int,
    pads: list[int],
    x_type: type,
    by_channel: bool,
    constant: bool,
) -> None:
    RNG.bit_generator.state = START
    channels, outputs, group = shape
    if any(d + pads[at] + pads[at + 2] < (kernel[at] - 1) * dilations + 1 for at, d in enumerate(size)):
        return
    x, w = _bytes(x_type, batch, channels, *size), _bytes(np.int8, outputs, channels // group, *kernel)
    x_zero, w_zero = (
        np.asarray(_bytes(x_type, 1)[0]),
        np.asarray(_bytes(np.int8, outputs) if by_channel else np.int8(-3)),
    )
    feeds = {"x": x, "w": w, "xz": x_zero, "wz": w_zero}
    constants = {"w": feeds.pop("w"), "wz": feeds.pop("wz")} if constant else {}
    attributes = {"strides": [strides] * 2, "dilations": [dilations] * 2, "pads": pads, "group": group}
    node = helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], **attributes)
    (found,) = cpu_plugin.run(make_model([node], feeds, ["y"], constants), feeds)
    weights = w.astype(np.int64) - w_zero.reshape(-1, 1, 1, 1).astype(np.int64)
    expected = _convolve(
        x.astype(np.int64) - x_zero.astype(np.int64), weights, strides, pads, dilations, group
    )
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("channels", [7, 16, 20, 43, 80])
@pytest.mark.parametrize(("kernel", "dilations"), [((3, 3), 1), ((3, 3), 2), ((5, 5), 1), ((7, 2), 1)])
@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_convolutions_of_each_channel_on_its_own_are_exact(
    cpu_plugin: Cpu, channels: int, kernel: tuple[int, int], dilations: int, strides: int, dtype: type
) -> None:
    x, w = _bytes(dtype, 2, channels, 13, 15), _bytes(np.int8, channels, 1, *kernel)
    # Sums as large as they can be, of either sign, at some places.
    info = np.iinfo(dtype)
    x[0, :, :8] = info.max
    w[0], w[1] = 127, -128
    attributes = {
        "strides": [strides] * 2,
        "dilations": [dilations] * 2,
        "pads": [1, 0, 3, 2],
        "group": channels,
    }
    for zero, w_zero, threads in ((info.min, 0, 1), (info.min + 119, 0, 2), (info.max, 3, 2)):
        # Weights may be further from their zero point than a byte reaches.
        w_type = np.int8 if w_zero == 0 else np.uint8
        weights = w if w_zero == 0 else (w.astype(int) + 128).astype(np.uint8)
        exact = _convolve(
            x.astype(np.int64) - zero,
            weights.astype(np.int64) - w_zero,
            strides,
            [1, 0, 3, 2],
            dilations,
            channels,
        )
        feeds = {"x": x}
        constants = {"w": weights, "xz": dtype(zero), "wz": w_type(w_zero)}
        node = helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], **attributes)
        model = make_model([node], feeds, ["y"], constants)
        (found,) = cpu_plugin.run(model, feeds, intra_op_num_threads=threads)
        assert np.array_equal(found, exact)
        # Scales that are powers of two, so that what lies between two bytes is known.
        bias = RNG.integers(-9000, 9000, channels).astype(np.int32)
        scale = np.float32(2.0) ** -RNG.integers(6, 12, channels).astype(np.float32)
        constants |= {
            "xs": np.float32(1), "ws": scale, "wzs": np.full(channels, w_zero, w_type),
            "ys": np.float32(1), "yz": dtype(info.min + 100), "b": bias,
        }  # fmt: skip
        names = ["x", "xs", "xz", "w", "ws", "wzs", "ys", "yz", "b"]
        node = helper.make_node("QLinearConv", names, ["y"], **attributes)
        constants.pop("wz")
        model = make_model([node], feeds, ["y"], constants)
        (found,) = cpu_plugin.run(model, feeds, intra_op_num_threads=threads)
        scaled = (exact + bias.reshape(-1, 1, 1)) * scale.astype(np.float64).reshape(-1, 1, 1)
        assert np.array_equal(found, _quantized(scaled, np.asarray(constants["yz"]), dtype))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("by_channel", [False, True])
def test_quantized_convolution_with_bias(cpu_plugin: Cpu, dtype: type, by_channel: bool) -> None:
    x, w = _bytes(dtype, 2, 5, 9, 11), _bytes(np.int8, 7, 5, 3, 3)
    scale = (RNG.random(7 if by_channel else ()) * 0.01 + 0.001).astype(np.float32)
    bias = RNG.integers(-5000, 5000, 7).astype(np.int32)
    feeds = {
        "x": x, "xs": np.float32(0.02), "xz": dtype(5),
        "w": w, "ws": scale, "wz": np.zeros_like(scale, np.int8),
        "ys": np.float32(0.1), "yz": dtype(20), "b": bias,
    }  # fmt: skip
    node = helper.make_node("QLinearConv", list(feeds), ["y"], pads=[1, 1, 1, 1])
    constants = {name: feeds.pop(name) for name in ("w", "ws", "wz", "b")}
    (found,) = cpu_plugin.run(make_model([node], feeds, ["y"], constants), feeds)
    exact = _convolve(x.astype(np.int64) - 5, w.astype(np.int64), 1, [1] * 4, 1, 1) + bias.reshape(-1, 1, 1)
    factor = (np.float64(feeds["xs"]) * scale / feeds["ys"]).reshape(-1, 1, 1)
    expected = _quantized(exact * factor, np.asarray(feeds["yz"]), dtype)
    assert np.max(np.abs(found.astype(int) - expected.astype(int))) <= 1
    assert np.mean(found != expected) < 0.02


def test_products_with_floats_on_either_side(cpu_plugin: Cpu) -> None:
    x, w = RNG.standard_normal((6, 40)).astype(np.float32), _bytes(np.int8, 40, 20)
    scale, bias = (RNG.random(20) * 0.01).astype(np.float32), RNG.standard_normal(20).astype(np.float32)
    constants = {"w": w, "s": scale, "b": bias}
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]),
        helper.make_node(
            "MatMulIntegerToFloat", ["q", "w", "qs", "s", "qz", "", "b"], ["y"], domain="com.microsoft"
        ),
        helper.make_node("DynamicQuantizeMatMul", ["x", "w", "s", "", "b"], ["z"], domain="com.microsoft"),
    ]
    model = make_model(nodes, {"x": x}, ["y", "z"], constants)
    for value in model.graph.output:
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    one, two = cpu_plugin.run(model, {"x": x})
    exact = x @ (w * scale) + bias
    np.testing.assert_allclose(one, exact, atol=0.02 * np.abs(exact).max())
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("b_shape", [(2, 3, 45), (), (1,), (45,), (3, 1), (2, 1, 45)])
@pytest.mark.parametrize(("op", "function"), [("QLinearAdd", np.add), ("QLinearMul", np.multiply)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_elementwise_operators_on_bytes(
    cpu_plugin: Cpu, b_shape: tuple[int, ...], op: str, function: np.ufunc, dtype: type
) -> None:
    a, b = _bytes(dtype, 2, 3, 45), np.asarray(RNG.integers(0, 256, b_shape)).astype(np.uint8).view(dtype)
    feeds = {
        "a": a, "as": np.float32(0.11), "az": dtype(100),
        "b": b, "bs": np.float32(0.0471), "bz": dtype(3),
        "ys": np.float32(0.3), "yz": dtype(120),
    }  # fmt: skip
    model = make_model([helper.make_node(op, list(feeds), ["y"], domain="com.microsoft")], feeds, ["y"])
    model.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    (found,) = cpu_plugin.run(model, feeds)
    left, right = (a.astype(float) - 100) * 0.11, (b.astype(float) - 3) * 0.0471
    expected = _quantized(function(left, right) / 0.3, np.asarray(120), dtype)
    assert np.max(np.abs(found.astype(int) - expected.astype(int))) <= 1
    assert np.mean(found != expected) < 0.05


def _microsoft(
    op: str, feeds: dict[str, np.ndarray], constants: dict[str, np.ndarray], **attributes: object
) -> onnx.ModelProto:
    """A model of one of com.microsoft's operators: its inputs are the feeds, then the constants."""
    node = helper.make_node(op, [*feeds, *constants], ["y"], domain="com.microsoft", **attributes)
    model = make_model([node], feeds, ["y"], constants)
    dtype = next(iter(feeds.values())).dtype
    model.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(dtype)
    return model


def _parameters(dtype: type) -> dict[str, np.ndarray]:
    low = np.iinfo(dtype).min
    return {"xs": np.float32(0.05), "xz": dtype(low + 77), "ys": np.float32(1 / 250), "yz": dtype(low + 3)}


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(
    ("shape", "axis", "opset"),
    [((3, 5, 7), 1, 13), ((2, 4, 300), 2, 13), ((1, 2, 16, 150), 2, 13), ((2, 3, 5), 1, 12), ((6,), 0, 13)],
)
@pytest.mark.parametrize("fusion", [0, 1])
def test_softmax_of_bytes(
    cpu_plugin: Cpu, dtype: type, shape: tuple[int, ...], axis: int, opset: int, fusion: int
) -> None:
    RNG.bit_generator.state = START
    feeds, constants = {"x": _bytes(dtype, *shape)}, _parameters(dtype)
    model = _microsoft("QLinearSoftmax", feeds, constants, axis=axis, opset=opset)
    (found,) = cpu_plugin.run(model, feeds, fusion=fusion)
    values = (feeds["x"].astype(float) - constants["xz"]) * np.float64(constants["xs"])
    rows = values if opset >= 13 else values.reshape(*shape[:axis], -1)
    powers = np.exp(rows - rows.max(axis=axis, keepdims=True))
    exact = (powers / powers.sum(axis=axis, keepdims=True)).reshape(shape)
    expected = _quantized(exact / np.float64(constants["ys"]), constants["yz"], dtype)
    assert np.max(np.abs(found.astype(int) - expected.astype(int))) <= 1
    assert np.mean(found != expected) < 0.02
    assert found.dtype == dtype


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("fusion", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_parts_of_bytes_are_joined(cpu_plugin: Cpu, dtype: type, fusion: int, axis: int) -> None:
    shapes = [(3, 4, 5)] * 3
    shapes[1] = tuple(7 if at == axis % 3 else d for at, d in enumerate(shapes[1]))
    low = np.iinfo(dtype).min
    output = {"ys": np.float32(0.05), "yz": dtype(low + 90)}
    scales = [(0.05, 90), (0.03, 100), (0.11, 7)]  # The first one is the output's.
    feeds = {f"x{i}": _bytes(dtype, *shape) for i, shape in enumerate(shapes)}
    constants, names, parts = dict(output), list(output), []
    for i, (scale, zero) in enumerate(scales):
        constants |= {f"s{i}": np.float32(scale), f"z{i}": dtype(low + zero)}
        names += [f"x{i}", f"s{i}", f"z{i}"]
        exact = (
            (feeds[f"x{i}"].astype(float) - (low + zero))
            * np.float64(np.float32(scale))
            / np.float64(output["ys"])
        )
        parts.append(_quantized(exact, output["yz"], dtype))
    node = helper.make_node("QLinearConcat", names, ["y"], domain="com.microsoft", axis=axis)
    model = make_model([node], feeds, ["y"], constants)
    model.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    (found,) = cpu_plugin.run(model, feeds, fusion=fusion)
    expected = np.concatenate(parts, axis)
    assert found.shape == expected.shape
    assert np.max(np.abs(found.astype(int) - expected.astype(int))) <= 1
    assert np.mean(found != expected) < 0.02


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("with_pads", [0, 1])
@pytest.mark.parametrize("channels", [3, 37])
def test_means_of_windows_of_bytes(cpu_plugin: Cpu, dtype: type, with_pads: int, channels: int) -> None:
    RNG.bit_generator.state = START
    feeds, constants = {"x": _bytes(dtype, 2, channels, 9, 8)}, _parameters(dtype)
    constants["ys"] = np.float32(0.0437)
    attributes = {
        "kernel_shape": [3, 2],
        "strides": [2, 1],
        "pads": [1, 0, 1, 1],
        "count_include_pad": with_pads,
    }
    model = _microsoft("QLinearAveragePool", feeds, constants, **attributes)
    (found,) = cpu_plugin.run(model, feeds, intra_op_num_threads=2)
    values = (feeds["x"].astype(float) - constants["xz"]) * np.float64(constants["xs"])
    padded = np.pad(values, ((0, 0), (0, 0), (1, 1), (0, 1)))
    inside = np.pad(np.ones((9, 8)), ((1, 1), (0, 1)))
    expected = np.zeros(found.shape)
    for i in range(found.shape[2]):
        for j in range(found.shape[3]):
            part = (slice(2 * i, 2 * i + 3), slice(j, j + 2))
            n = 6 if with_pads else inside[part].sum()
            expected[:, :, i, j] = padded[(slice(None), slice(None), *part)].sum((2, 3)) / n
    rounded = _quantized(expected / np.float64(constants["ys"]), constants["yz"], dtype)
    assert found.shape == (2, channels, 5, 8)
    assert np.max(np.abs(found.astype(int) - rounded.astype(int))) <= 1
    assert np.mean(found != rounded) < 0.02


def test_a_bias_near_the_ends_of_32_bits_wraps(cpu_plugin: Cpu) -> None:
    x = np.arange(2 * 3 * 5 * 5, dtype=np.uint8).reshape(2, 3, 5, 5)
    constants = {
        "s": np.array(0.1, np.float32),
        "t": np.array(1e6, np.float32),
        "z": np.array(3, np.uint8),
        "w": np.arange(4 * 3 * 3 * 3, dtype=np.uint8).reshape(4, 3, 3, 3),
        "b": np.array([2**31 - 1, -(2**31), 0, 5], np.int32),
    }
    node = helper.make_node("QLinearConv", ["x", "s", "z", "w", "s", "z", "t", "z", "b"], ["y"])
    cpu_plugin.check_beside_onnxruntime(node, {"x": x}, constants=constants)
