"""Elementwise operators, reductions and products on elements of other types than float32."""

import math

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model

SIGNED = [np.int8, np.int16, np.int32, np.int64]
INTEGERS = [*SIGNED, np.uint8, np.uint16, np.uint32, np.uint64]
SIZES = [1, 7, 64, 1000, 1537]


def run(cpu_plugin: Cpu, op: str, *inputs: np.ndarray, **attributes: object) -> np.ndarray:
    names = [f"x{i}" for i in range(len(inputs))]
    feeds = dict(zip(names, inputs, strict=True))
    model = make_model([helper.make_node(op, names, ["y"], **attributes)], feeds, ["y"])
    return cpu_plugin.run(model, feeds)[0]


def ulps(got: np.ndarray, wanted: np.ndarray) -> float:
    """How many units in the last place they differ by at most; what is not finite is to be the same."""
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(got[~finite], wanted[~finite])
    return float(np.max(np.abs(got[finite] - wanted[finite]) / np.spacing(np.abs(wanted[finite])), initial=0))


DOUBLES = {
    "Exp": (np.exp, 800),
    "Tanh": (np.tanh, 30),
    "Sin": (np.sin, 1e5),
    "Cos": (np.cos, 1e5),
    "Sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 600),
    "Elu": (lambda x: np.where(x < 0, np.expm1(x), x), 60),
    "Sinh": (np.sinh, 700),
    "Log": (lambda x: np.log(np.abs(x)), 1e5),
}


@pytest.mark.parametrize("op", DOUBLES)
@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1, None])
def test_functions_of_float64_err_by_a_few_units_in_the_last_place(
    cpu_plugin: Cpu, op: str, scale: float | None
) -> None:
    function, largest = DOUBLES[op]
    x = np.random.default_rng(0).uniform(-1, 1, 20_000) * (scale or largest)
    if op == "Log":
        x = np.abs(x)
    with np.errstate(all="ignore"):
        assert ulps(run(cpu_plugin, op, x), function(x)) <= 4


@pytest.mark.parametrize("op", ["Sin", "Cos"])
@pytest.mark.parametrize("largest", [1e6, 1e15, 1e300])
def test_large_angles_of_float64_are_the_librarys(cpu_plugin: Cpu, op: str, largest: float) -> None:
    x = np.random.default_rng(0).uniform(-largest, largest, 3000)
    assert ulps(run(cpu_plugin, op, x), getattr(np, op.lower())(x)) <= 2


@pytest.mark.parametrize("op", ["Exp", "Tanh", "Sigmoid", "Elu", "Sin", "Cos", "Softplus"])
def test_the_ends_of_float64(cpu_plugin: Cpu, op: str) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e308, -1e308, 5e-324, -5e-324, 709.7, -745.0, -708.5])
    wanted = {
        "Exp": np.exp,
        "Tanh": np.tanh,
        "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "Elu": lambda x: np.where(x < 0, np.expm1(x), x),
        "Sin": np.sin,
        "Cos": np.cos,
        "Softplus": lambda x: np.logaddexp(x, 0),
    }[op]
    with np.errstate(all="ignore"):
        expected = wanted(x)
    got = run(cpu_plugin, op, x)
    np.testing.assert_allclose(got, expected, rtol=1e-15, atol=1e-323)
    if op in ("Tanh", "Sin", "Elu"):
        assert np.signbit(got[1])


def test_softmax_of_float64_is_as_exact_as_its_elements(cpu_plugin: Cpu) -> None:
    x = np.random.default_rng(0).normal(size=(5, 1300)) * 20
    shifted = x - x.max(axis=1, keepdims=True)
    sums = np.array([[math.fsum(row)] for row in np.exp(shifted)])
    np.testing.assert_allclose(run(cpu_plugin, "Softmax", x), np.exp(shifted) / sums, rtol=3e-15, atol=1e-323)
    np.testing.assert_allclose(
        run(cpu_plugin, "LogSoftmax", x), shifted - np.log(sums), rtol=3e-15, atol=1e-15
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [5, 1000])
def test_remainders_are_exact(cpu_plugin: Cpu, dtype: type, size: int) -> None:
    """Small quotients, of which some are next to an integer, and such as have more digits than a number."""
    random = np.random.default_rng(0)
    y = np.exp(random.normal(size=size) * 4).astype(dtype) * random.choice([-1, 1], size).astype(dtype)
    near = (y * random.integers(-99, 99, size)).astype(dtype)
    for x in (
        (random.normal(size=size) * 50).astype(dtype),
        near,
        np.nextafter(near, dtype(0)),
        np.nextafter(near, dtype(np.inf)),
        (near * dtype(3e7)).astype(dtype),
        near * dtype(1e20),
        (y * dtype(1e-3)).astype(dtype),
        np.zeros(size, dtype) * y,
    ):
        got, wanted = run(cpu_plugin, "Mod", x, y, fmod=1), np.fmod(x, y)
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


def test_remainders_of_what_is_not_finite_and_by_nothing(cpu_plugin: Cpu) -> None:
    values = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 5e-324, 1e308])
    x, y = (side.ravel() for side in np.meshgrid(values, values))
    for dtype in (np.float32, np.float64):
        with np.errstate(all="ignore"):
            a, b = x.astype(dtype), y.astype(dtype)
            for at in range(len(a)):  # Each by itself, so that no neighbour decides how it is computed.
                np.testing.assert_array_equal(run(cpu_plugin, "Mod", a[at : at + 1], b[at : at + 1], fmod=1),
                                              np.fmod(a[at : at + 1], b[at : at + 1]))  # fmt: skip
            np.testing.assert_array_equal(run(cpu_plugin, "Mod", a, b, fmod=1), np.fmod(a, b))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -1, 4])
def test_powers_of_one_fed_exponent(cpu_plugin: Cpu, dtype: type, exponent: float) -> None:
    if np.issubdtype(dtype, np.integer) and exponent in (0.5, -1):
        pytest.skip("no exponent of integers")
    x = (np.random.default_rng(0).normal(size=1500) * 4).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        if exponent == 0.5:
            x = np.abs(x)
        x[:4] = [0.0, -0.0, np.inf, -np.inf]
    for y in (np.array(exponent, dtype), np.full(1500, exponent, dtype)):
        with np.errstate(all="ignore"):
            wanted = np.power(x.astype(np.float64), exponent).astype(dtype)
        if exponent == 0.5:
            wanted[:4] = [0, 0, np.inf, np.inf]
        got = run(cpu_plugin, "Pow", x, y)
        np.testing.assert_allclose(got, wanted, rtol={2: 1e-3, 4: 1e-6}.get(np.dtype(dtype).itemsize, 1e-14))
        if np.issubdtype(dtype, np.floating):
            np.testing.assert_array_equal(np.signbit(got[:4]), np.signbit(wanted[:4]))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_quotients_of_integers_are_cut_off(cpu_plugin: Cpu, dtype: type) -> None:
    limits = np.iinfo(dtype)
    ends = [limits.min, limits.min + 1, limits.max, limits.max - 1, limits.max // 2, 0, 1, 2, 3, 7]
    ends += [-1, -2, -7] if limits.min < 0 else []
    divisors = [end for end in ends if end != 0]
    x, y = (side.ravel() for side in np.meshgrid(np.array(ends, dtype), np.array(divisors, dtype)))
    random = np.random.default_rng(0)
    more = random.integers(limits.min, limits.max, 2000, dtype, endpoint=True)
    by = random.integers(1, min(1000, limits.max), 2000, dtype)
    whole = (more // by) * by
    x = np.concatenate([x, more, whole, whole - (whole > limits.min).astype(dtype)])
    y = np.concatenate([y, by, by, by])
    pairs = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    cut_off = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]
    wrapped = [(each - limits.min) % 2**limits.bits + limits.min for each in cut_off]
    np.testing.assert_array_equal(run(cpu_plugin, "Div", x, y), np.array(wrapped, dtype))
    rests = np.array([a - q * b for (a, b), q in zip(pairs, cut_off, strict=True)], dtype)
    np.testing.assert_array_equal(run(cpu_plugin, "Mod", x, y, fmod=1), rests)
    floors = np.array([a % b for a, b in pairs], dtype)
    np.testing.assert_array_equal(run(cpu_plugin, "Mod", x, y), floors)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float64])
@pytest.mark.parametrize("size", SIZES)
def test_extremes_of_rows_of_any_length(cpu_plugin: Cpu, dtype: type, size: int) -> None:
    random = np.random.default_rng(size)
    x = (random.normal(size=(3, size)) * 1000).astype(np.int64).astype(dtype)
    axes = np.array([1])
    np.testing.assert_array_equal(run(cpu_plugin, "ReduceMax", x, axes, keepdims=0), x.max(axis=1))
    np.testing.assert_array_equal(run(cpu_plugin, "ReduceMin", x, axes, keepdims=0), x.min(axis=1))
    np.testing.assert_array_equal(run(cpu_plugin, "ReduceMax", x, np.array([0]), keepdims=0), x.max(axis=0))
    if dtype is np.float64:
        x[1, size // 2] = np.nan
        np.testing.assert_array_equal(run(cpu_plugin, "ReduceMax", x, axes, keepdims=0), x.max(axis=1))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64, np.float64])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 5), (4, 8), (5, 17), (33, 40), (7, 65)])
def test_products_of_numbers_of_any_shape(cpu_plugin: Cpu, dtype: type, m: int, n: int) -> None:
    random = np.random.default_rng(0)
    make = random.normal if dtype is np.float64 else lambda size: random.integers(0, 2**31 - 1, size)
    a, b = make(size=(2, m, 19)).astype(dtype), make(size=(19, n)).astype(dtype)
    with np.errstate(over="ignore"):
        wanted = a @ b
    got = run(cpu_plugin, "MatMul", a, b)
    if dtype is np.float64:
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-13)
        turned = np.ascontiguousarray(a[0].T), np.ascontiguousarray(b.T)
        gemm = run(cpu_plugin, "Gemm", *turned, transA=1, transB=1)
        np.testing.assert_allclose(gemm, wanted[0], rtol=1e-12, atol=1e-13)
    else:
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", [np.uint16, np.int16, np.uint8, np.int8])
@pytest.mark.parametrize("each", [False, True])
def test_quantizing_rounds_to_even_and_limits(cpu_plugin: Cpu, dtype: type, each: bool) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(4, 5002)) * 1e4
    x[:, -2:] = [1e30, -1e30]
    x[:, :500] = np.round(x[:, :500] / 10) + 0.5
    x = x.astype(np.float32)
    shape = x.shape[1] if each else ()
    scale = np.exp(random.normal(size=shape)).astype(np.float32) if each else np.float32(1)
    zero = random.integers(3, 90, shape).astype(dtype) if each else np.array(7, dtype)
    limits = np.iinfo(dtype)
    wanted = np.clip(np.rint(x / scale) + zero.astype(np.float32), limits.min, limits.max).astype(dtype)
    names = {"x": x, "scale": np.asarray(scale), "zero": np.asarray(zero)}
    node = helper.make_node("QuantizeLinear", list(names), ["y"], axis=1)
    got = cpu_plugin.run(make_model([node], names, ["y"]), names)[0]
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("to", [*INTEGERS, np.float32, np.float64, np.bool_])
@pytest.mark.parametrize("of", [*INTEGERS, np.float32, np.float64])
def test_casts_keep_what_fits(cpu_plugin: Cpu, of: type, to: type) -> None:
    x = np.random.default_rng(0).integers(0, 120, 1003).astype(of)
    if np.issubdtype(of, np.floating):
        x += of(0.75)
    got = run(cpu_plugin, "Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))
    np.testing.assert_array_equal(got, x.astype(to))


@pytest.mark.parametrize("kept", [np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_casts_of_numbers_beyond_31_bits(cpu_plugin: Cpu, real: type, kept: type) -> None:
    limits, random = np.iinfo(kept), np.random.default_rng(0)
    whole = random.integers(limits.min, limits.max, 3000, kept)
    whole[:1024] >>= kept(limits.bits // 2)  # what is computed at once has large numbers, small ones, or both
    whole[2048::97] //= kept(1 << 20)
    ends = [limits.min, limits.max, 2**31 - 1, 0, 1, *([-(2**31), -1] if limits.min < 0 else [])]
    whole[-len(ends) :] = ends
    type_of = helper.np_dtype_to_tensor_dtype
    got = run(cpu_plugin, "Cast", whole, to=type_of(np.dtype(real)))
    np.testing.assert_array_equal(got, whole.astype(real))
    x = got[(got >= limits.min) & (got < real(2.0**limits.bits) + real(limits.min))]
    x += (np.abs(x) < 1e6).astype(real) * real(0.75) * np.sign(x)
    wanted = np.array([int(each) for each in x], kept)
    np.testing.assert_array_equal(run(cpu_plugin, "Cast", x, to=type_of(np.dtype(kept))), wanted)


def test_norms_along_axes_that_are_not_neighbours(cpu_plugin: Cpu) -> None:
    for dtype in (np.float32, np.float64, np.float16):
        x = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(dtype)
        for axes in ([0, 2, 3], [1, 3], [0, 2], [1], [0, 1, 2, 3]):
            got = run(cpu_plugin, "MeanVarianceNormalization", x, axes=axes)
            wide = x.astype(np.float64)
            centred = wide - wide.mean(axis=tuple(axes), keepdims=True)
            wanted = centred / (wide.std(axis=tuple(axes), keepdims=True) + 1e-9)
            np.testing.assert_allclose(got, wanted, rtol=0, atol=3e-3 if dtype is np.float16 else 1e-5)
        for p in (1, 2):
            got = run(cpu_plugin, "LpNormalization", x, axis=-1, p=p)
            wide = x.astype(np.float64)
            wanted = wide / np.linalg.norm(wide, ord=p, axis=-1, keepdims=True)
            np.testing.assert_allclose(got, wanted, rtol=2e-3 if dtype is np.float16 else 1e-6)


def test_a_bool_that_is_no_1_is_true(cpu_plugin: Cpu) -> None:
    x = np.array([0, 1, 2, 255], np.uint8).view(np.bool_)
    got = run(cpu_plugin, "Cast", x, to=onnx.TensorProto.BOOL)
    assert got.astype(bool).tolist() == [False, True, True, True]
