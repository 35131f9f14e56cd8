"""com.microsoft's MatMulNBits: weights of two, four and eight bits, beside numpy and onnxruntime."""

import ephost
import ml_dtypes
import numpy as np
import pytest
from ephost.errors import InvalidArgument
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import NodeProto, helper

from tests.plugins.cpu.conftest import Cpu, make_model


def some(*shape: int, seed: int = 0, dtype: object = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def packed(values: np.ndarray, bits: int) -> np.ndarray:
    """Numbers [..., count] in bytes, the first of a byte in its lowest bits."""
    some_bytes = 8 // bits
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % some_bytes)])
    parts = padded.reshape(*values.shape[:-1], -1, some_bytes) << (np.arange(some_bytes) * bits)
    return parts.sum(-1).astype(np.uint8)


def weights(
    n: int, k: int, block: int, zeros: str, *, bits: int = 4, dtype: object = np.float32
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Constants of a MatMulNBits and the matrix [k, n] that they stand for."""
    random = np.random.default_rng(n + k + block)
    blocks = -(-k // block)
    values = random.integers(0, 1 << bits, size=(n, blocks, block))
    scales = random.uniform(0.05, 0.2, size=(n, blocks)).astype(dtype)
    points = random.integers(0, 1 << bits, size=(n, blocks))
    constants = {"w": packed(values, bits), "s": scales.reshape(-1)}
    if zeros == "bytes":
        constants["z"] = packed(points, bits).reshape(-1)
    elif zeros == "floats":
        constants["z"] = points.astype(dtype).reshape(-1)
    else:
        points = np.full_like(points, 1 << (bits - 1))
    matrix = (values - points[:, :, None]) * scales.astype(np.float64)[:, :, None]
    return constants, matrix.reshape(n, -1)[:, :k].T


def product(constants: dict[str, np.ndarray], k: int, n: int, block: int, **attributes: int) -> NodeProto:
    names = ["x", "w", "s", *(name if name in constants else "" for name in "zgb")]
    attributes = {"bits": 4, **attributes}
    return helper.make_node(
        "MatMulNBits", names, ["y"], domain="com.microsoft", K=k, N=n, block_size=block, **attributes
    )


def rounded_to_bytes(x: np.ndarray, block: int) -> np.ndarray:
    """Each block of each row as multiples of a 127th of its largest element."""
    blocks = -(-x.shape[-1] // block)
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, blocks * block - x.shape[-1])])
    parts = padded.reshape(*x.shape[:-1], blocks, block)
    most = np.abs(parts).max(-1, keepdims=True)
    factor = np.divide(np.float32(127), most, out=np.zeros_like(most), where=most > 0)
    values = np.round(parts * factor).astype(np.float64) * (most / np.float32(127))
    return values.reshape(padded.shape)[..., : x.shape[-1]]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_weights_of_few_bits_are_multiplied(cpu_plugin: Cpu, data: st.DataObject) -> None:
    draw = data.draw
    rows, n = draw(st.sampled_from([1, 2, 5, 9, 40])), draw(st.sampled_from([1, 7, 16, 33, 130]))
    block, bits = draw(st.sampled_from([16, 32, 64, 256])), draw(st.sampled_from([2, 4, 8]))
    k = block * draw(st.sampled_from([1, 2, 5, 9])) - draw(st.sampled_from([0, 0, 3]))
    constants, matrix = weights(n, k, block, draw(st.sampled_from(["", "bytes", "floats"])), bits=bits)
    x, bias = some(2, rows, k), np.zeros(n, np.float32)
    if draw(st.booleans()):
        bias = constants["b"] = some(n, seed=5)
    node = product(constants, k, n, block, bits=bits)
    for open_shapes in (False, True):
        model = make_model([node], {"x": x}, ["y"], constants, open_shapes=open_shapes)
        y = cpu_plugin.run(model, {"x": x})[0]
        expected = x.astype(np.float64) @ matrix + bias
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_weights_may_come_with_the_run(cpu_plugin: Cpu, data: st.DataObject) -> None:
    draw = data.draw
    rows, n, k, block = draw(st.sampled_from([1, 9])), draw(st.sampled_from([7, 33])), 93, 32
    bits, dtype = draw(st.sampled_from([2, 4, 8])), draw(st.sampled_from([np.float32, np.float16]))
    constants, matrix = weights(
        n, k, block, draw(st.sampled_from(["", "bytes", "floats"])), bits=bits, dtype=dtype
    )
    fed = draw(st.sets(st.sampled_from(sorted(constants)), min_size=1))
    feeds = {"x": some(rows, k, dtype=dtype), **{name: constants[name] for name in fed}}
    kept = {name: value for name, value in constants.items() if name not in fed}
    node = product(constants, k, n, block, bits=bits)
    for open_shapes in (False, True):
        session = cpu_plugin.session(make_model([node], feeds, ["y"], kept, open_shapes=open_shapes))
        expected = feeds["x"].astype(np.float64) @ matrix
        tolerance = (1e-2 if dtype == np.float16 else 1e-5) * np.abs(expected).max()
        for _ in range(2):
            y = session.run(None, feeds)[0]
            np.testing.assert_allclose(y, expected, rtol=1e-2, atol=tolerance)


@pytest.mark.parametrize(("name", "said"), [("w", "weights"), ("s", "scales"), ("z", "zero points")])
def test_weights_of_a_run_have_the_sizes_that_the_node_names(cpu_plugin: Cpu, name: str, said: str) -> None:
    constants, _ = weights(7, 64, 32, "bytes")
    feeds = {"x": some(2, 64), **constants}
    model = make_model([product(constants, 64, 7, 32)], feeds, ["y"], open_shapes=True)
    with pytest.raises(InvalidArgument, match=f"{said} that do not have the sizes it names"):
        cpu_plugin.run(model, {**feeds, name: feeds[name][:-1]})


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_accuracy_level_four_rounds_inputs_to_bytes_by_block(cpu_plugin: Cpu, data: st.DataObject) -> None:
    draw = data.draw
    rows, n = draw(st.sampled_from([1, 2, 3, 4, 7, 40])), draw(st.sampled_from([1, 7, 16, 33, 130]))
    block, bits = draw(st.sampled_from([16, 32, 64, 256])), draw(st.sampled_from([2, 4, 8]))
    k = block * draw(st.sampled_from([1, 2, 5, 9])) - draw(st.sampled_from([0, 0, 3, 8]))
    constants, matrix = weights(n, k, block, draw(st.sampled_from(["", "bytes", "floats"])), bits=bits)
    x, bias = some(rows, k), np.zeros(n, np.float32)
    if draw(st.booleans()):
        bias = constants["b"] = some(n, seed=5)
    node = product(constants, k, n, block, bits=bits, accuracy_level=4)
    y = cpu_plugin.run(make_model([node], {"x": x}, ["y"], constants), {"x": x})[0]
    expected = rounded_to_bytes(x, block) @ matrix + bias
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("bits", [4, 8])
def test_the_largest_codes_and_inputs_do_not_saturate(cpu_plugin: Cpu, bits: int) -> None:
    k, n, block = 256, 16, 128
    constants = {
        "w": np.full((n, k // block, block * bits // 8), 255, np.uint8),
        "s": np.ones(n * k // block, np.float32),
        "z": np.zeros(n * k // block, np.float32),
    }
    for sign in (1, -1):
        x = np.full((5, k), sign, np.float32)
        node = product(constants, k, n, block, bits=bits, accuracy_level=4)
        y = cpu_plugin.run(make_model([node], {"x": x}, ["y"], constants), {"x": x})[0]
        np.testing.assert_allclose(y, np.full((5, n), sign * k * ((1 << bits) - 1)), rtol=1e-5)


def test_what_is_not_finite_spoils_its_own_row_alone(cpu_plugin: Cpu) -> None:
    constants, matrix = weights(20, 64, 32, "")
    x = some(3, 64)
    x[1, 40] = np.nan
    node = product(constants, 64, 20, 32, accuracy_level=4)
    y = cpu_plugin.run(make_model([node], {"x": x}, ["y"], constants), {"x": x})[0]
    assert np.isnan(y[1]).all()
    x[1] = 0
    np.testing.assert_allclose(y[::2], (rounded_to_bytes(x, 32) @ matrix)[::2], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 20])
@pytest.mark.parametrize(("bits", "level"), [(4, 0), (4, 4), (8, 0), (8, 4)])
def test_weights_of_few_bits_agree_with_onnxruntime(
    cpu_plugin: Cpu, rows: int, bits: int, level: int
) -> None:
    constants, _ = weights(48, 128, 32, "bytes", bits=bits)
    node = product(constants, 128, 48, 32, bits=bits, accuracy_level=level)
    tolerance = (
        1e-4 if level == 0 else 2e-3 * (1 << bits)
    )  # Of sums of which each has an error of half a step.
    cpu_plugin.check_beside_onnxruntime(
        node, {"x": some(rows, 128)}, constants=constants, rtol=1e-4, atol=tolerance
    )


@pytest.mark.parametrize("groups", ["as they lie", "shuffled", "uneven"])
@pytest.mark.parametrize("zeros", ["none", "bytes", "floats"])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(("rows", "k"), [(1, 96), (17, 75)])
def test_rows_of_weights_may_be_in_groups_of_any_order(
    cpu_plugin: Cpu, groups: str, zeros: str, bits: int, rows: int, k: int
) -> None:
    """onnxruntime refuses this of other than four bits, and passes over zero points that are bytes."""
    random = np.random.default_rng(k)
    n, block = 19, 16
    blocks = -(-k // block)
    values = random.integers(0, 1 << bits, size=(n, blocks * block))
    scales = random.uniform(0.05, 0.2, size=(n, blocks)).astype(np.float32)
    points = random.integers(0, 1 << bits, size=(n, blocks))
    order = np.arange(k) // block
    if groups == "shuffled":
        order = random.permutation(order)
    elif groups == "uneven":
        order = random.choice([0, blocks - 1, 2], size=k, p=[0.7, 0.2, 0.1])
    constants = {"w": packed(values.reshape(n, blocks, block), bits), "s": scales.reshape(-1)}
    if zeros == "bytes":
        constants["z"] = packed(points, bits).reshape(-1)
    elif zeros == "floats":
        constants["z"] = points.astype(np.float32).reshape(-1)
    else:
        points[:] = 1 << (bits - 1)
    constants["g"] = order.astype(np.int32)
    matrix = ((values[:, :k] - points[:, order]) * scales.astype(np.float64)[:, order]).T
    node = product(constants, k, n, block, bits=bits)
    x = some(rows, k)
    got = cpu_plugin.run(make_model([node], {"x": x}, ["y"], constants), {"x": x})[0]
    np.testing.assert_allclose(got, x @ matrix, rtol=1e-4, atol=2e-4 * (1 << bits) / 4)
    if bits == 4 and zeros == "none":
        cpu_plugin.check_beside_onnxruntime(node, {"x": x}, constants=constants, rtol=1e-4, atol=1e-3)


def test_an_order_of_groups_is_a_constant_of_groups_that_are_there(cpu_plugin: Cpu) -> None:
    constants, _ = weights(8, 64, 16, "none")
    node = product({**constants, "g": np.zeros(64)}, 64, 8, 16)
    feeds = {"x": some(2, 64), "g": np.zeros(64, np.int32)}
    with pytest.raises(ephost.errors.OnnxRuntimeException, match="claimed by no execution provider"):
        cpu_plugin.run(make_model([node], feeds, ["y"], constants), feeds)
    for group in (4, -1):
        constants["g"] = np.full(64, group, np.int32)
        x = {"x": feeds["x"]}
        with pytest.raises(ephost.errors.OnnxRuntimeException, match=f"in group {group} of 4"):
            cpu_plugin.run(make_model([node], x, ["y"], constants), x)


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_weights_of_four_bits_are_multiplied_with_halves(cpu_plugin: Cpu, dtype: type, level: int) -> None:
    constants, matrix = weights(24, 96, 32, "bytes", dtype=dtype)
    node = product(constants, 96, 24, 32, accuracy_level=level)
    x = some(3, 96, dtype=dtype)
    y = cpu_plugin.run(make_model([node], {"x": x}, ["y"], constants), {"x": x})[0]
    assert y.dtype == dtype
    expected = x.astype(np.float64) @ matrix
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=1e-2, atol=0.02 * np.abs(expected).max())


def test_sizes_that_the_constants_do_not_have_are_not_claimed(cpu_plugin: Cpu) -> None:
    constants, _ = weights(48, 128, 32, "bytes")
    x = some(1, 128)
    for wrong in (
        {"k": 1 << 40},
        {"n": 1 << 40},
        {"n": 47},
        {"block": 1 << 40},
        {"block": 64},
        {"block": 24},
        {"bits": 3},
    ):
        sizes = {"k": 128, "n": 48, "block": 32, "bits": 4} | wrong
        node = product(constants, sizes["k"], sizes["n"], sizes["block"], bits=sizes["bits"])
        with pytest.raises(ephost.errors.OnnxRuntimeException, match="MatMulNBits"):
            cpu_plugin.session(make_model([node], {"x": x}, ["y"], constants))
