# ruff: noqa: E501 - programs in strings, which the formatter does not wrap
"""The operators of plugins/cuda: their kernels run by the make-believe driver on the CPU, and on a GPU where there is
one.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
from cuda_harness import PLUGIN, run_on_fake, run_with

Run = Callable[..., str]
pytestmark = [
    pytest.mark.skipif(not PLUGIN.exists(), reason="plugins/cuda is not built: there is no nvcc"),
    pytest.mark.in_process("the make-believe driver is asked in this process"),
]

PRELUDE = """
rng = np.random.default_rng(7)
def real(*dims, dtype=np.float32):
    return rng.standard_normal(dims).astype(dtype)
"""


WITHOUT_LIBRARIES = {"EPHOST_CUBLASLT_LIBRARY": "/nowhere.so", "EPHOST_CUDNN_LIBRARY": "/nowhere.so"}


@pytest.fixture
def run_on_fake_driver(fake_cuda: Path) -> Run:
    """Runs a program that must not fail; gives what it printed. NVIDIA's libraries are not there."""

    def program(text: str, machine: str = "", **env: str) -> str:
        done = run_on_fake(fake_cuda, PRELUDE + text, machine, **{**WITHOUT_LIBRARIES, **env})
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return program


@pytest.fixture(params=["fake", pytest.param("gpu", marks=pytest.mark.gpu)])
def run(request: pytest.FixtureRequest) -> Run:
    """The same on the make-believe driver, and on a GPU."""
    if request.param == "fake":
        made: Run = request.getfixturevalue("run_on_fake_driver")
        return made
    spy = request.getfixturevalue("spy_cuda")

    def program(text: str, **env: str) -> str:
        done = run_with(PRELUDE + text, **{"EPHOST_CUDA_LIBRARY": str(spy), **WITHOUT_LIBRARIES, **env})
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return program


def test_unary_operators_are_right(run: Run) -> None:
    run("""
for op in ("Abs Neg Exp Sigmoid Tanh Relu LeakyRelu Elu Selu HardSigmoid HardSwish Softplus Softsign Erf Floor "
           "Ceil Round Sign Sin Cos Mish Gelu").split():
    check(node(op, ["x"], ["y"]), {"x": real(3, 5, 7)})
for op in ("Log", "Sqrt", "Reciprocal"):
    check(node(op, ["x"], ["y"]), {"x": np.abs(real(64)) + 0.1})
check(node("LeakyRelu", ["x"], ["y"], alpha=0.3), {"x": real(9)})
check(node("Celu", ["x"], ["y"], alpha=1.5), {"x": real(90)})
check(node("ThresholdedRelu", ["x"], ["y"], alpha=0.4), {"x": real(90)})
check(node("Shrink", ["x"], ["y"], bias=0.1, lambd=0.3), {"x": real(90)})
check(node("Swish", ["x"], ["y"], alpha=1.2), {"x": real(90)}, opset=24)
check(node("Gelu", ["x"], ["y"], approximate="tanh"), {"x": real(9)})
check(node("Clip", ["x", "low", "high"], ["y"]), {"x": real(90)}, {"low": np.float32(-.5), "high": np.float32(.25)})
special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
for op in ("Relu", "Abs", "Sigmoid", "Tanh", "Sign", "HardSigmoid", "HardSwish"):
    check(node(op, ["x"], ["y"]), {"x": special})
slopes = np.array([np.inf, np.nan, 0.5, np.inf, np.inf], np.float32)
check(node("PRelu", ["x", "s"], ["y"]), {"x": special, "s": slopes})
""")


def test_binary_operators_broadcast(run: Run) -> None:
    run("""
shapes = [((4, 6), (4, 6)), ((4, 6), ()), ((), (4, 6)), ((4, 6), (6,)), ((4, 1), (6,)), ((2, 3, 4, 8), (3, 1, 1)),
          ((3, 1, 5), (1, 4, 1)), ((2, 1, 3, 1, 5), (4, 1, 2, 1)), ((1,), (1, 1)), ((0, 3), (3,)), ((3, 8), (1, 8))]
for a, b in shapes:
    for op in ("Add", "Sub", "Mul", "Div"):
        check(node(op, ["a", "b"], ["y"]), {"a": real(*a), "b": real(*b) + 3})
for op in ("Max", "Min", "PRelu"):
    check(node(op, ["a", "b"], ["y"]), {"a": real(4, 8), "b": real(8)})
for exponent in (1.0, 2.0, 0.5, 3.0):
    check(node("Pow", ["a", "b"], ["y"]), {"a": np.abs(real(20))}, {"b": np.float32(exponent)})
check(node("Pow", ["a", "b"], ["y"]), {"a": np.abs(real(3, 4)) + 0.1, "b": real(4)})
for op in ("Add", "Sub", "Mul", "Div"):
    check(node(op, ["a", "b"], ["y"]), {"a": real(33) + 5}, {"b": np.float32(1.5)})
    check(node(op, ["b", "a"], ["y"]), {"a": real(33) + 5}, {"b": np.float32(1.5)})
    check(node(op, ["a", "a"], ["y"]), {"a": real(33) + 5})
""")


def test_every_vector_width_and_tail_is_right(run: Run) -> None:
    run("""
for dtype, tolerance in ((np.float32, 1e-6), (np.float16, 2e-3)):
    for n in (1, 3, 4, 7, 8, 9, 255, 256, 1023, 1024, 1025, 4099):
        check(node("Add", ["a", "b"], ["y"]), {"a": real(n, dtype=dtype), "b": real(n, dtype=dtype)},
              tolerance=tolerance)
assert {"chain_flat_f32", "chain_flat_f16", "chain_any_f32", "chain_any_f16"} == set(launches())
for n in (4, 12, 13, 16, 20):
    check(node("Add", ["a", "b"], ["y"]), {"a": real(5, 3, n, dtype=np.float16), "b": real(3, 1, dtype=np.float16)},
          tolerance=2e-3)
assert "chain_four_f16" in launches()
check(node("Add", ["a", "b"], ["y"]), {"a": real(5, 3, 16), "b": real(3, 1)})
check(node("Add", ["a", "b"], ["y"]), {"a": real(5, 3, 16), "b": real(5, 1, 16)})
assert launches()[-2:] == ["chain_wide_f32"] * 2
""")


def test_bfloat16_is_taken(run: Run) -> None:
    run("""
import ml_dtypes
a, b = real(40, dtype=ml_dtypes.bfloat16), real(40, dtype=ml_dtypes.bfloat16)
model = model_of([node("Mul", ["a", "b"], ["c"]), node("Softmax", ["c"], ["y"])],
                 {n: (TensorProto.BFLOAT16, [40]) for n in "ab"}, ["y"])
session = session_on(opened()[:1], model)
values = {n: ephost.OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(np.uint16), TensorProto.BFLOAT16)
          for n, x in (("a", a), ("b", b))}
got = session.run_with_ort_values(None, values)[0].numpy().view(ml_dtypes.bfloat16).astype(np.float32)
product = (a.astype(np.float32) * b.astype(np.float32)).astype(ml_dtypes.bfloat16).astype(np.float32)
want = np.exp(product - product.max())
np.testing.assert_allclose(got, want / want.sum(), 1e-2, 1e-3)
assert launches() == ["chain_flat_bf16", "softmax_short_bf16"]
""")


def test_a_chain_of_elementwise_operators_is_one_kernel(run: Run) -> None:
    run("""
nodes = [node("Sigmoid", ["x"], ["s"]), node("Mul", ["x", "s"], ["m"]), node("Add", ["m", "b"], ["a"]),
         node("Relu", ["a"], ["r"]), node("Mul", ["r", "two"], ["t"]), node("Sub", ["z", "t"], ["y"])]
check(nodes, {"x": real(6, 32), "z": real(6, 32)}, {"b": real(32), "two": np.float32(2)})
assert launches() == ["chain_wide_f32"], launches()
""")


def test_a_chain_that_is_too_long_is_cut(run: Run) -> None:
    run("""
nodes = [node("Tanh", [f"v{i}"], [f"v{i + 1}"]) for i in range(40)]
check(nodes, {"v0": real(64)}, tolerance=1e-4)
assert 2 < len(launches()) < 6
nodes = [node("Add", [f"v{i}", f"w{i}"], [f"v{i + 1}"]) for i in range(12)]
check(nodes, {"v0": real(64), **{f"w{i}": real(64) for i in range(12)}}, tolerance=1e-4)
nodes = [node("Add", ["x", "y"], ["a"]), node("Mul", ["a", "a"], ["b"]), node("Mul", ["b", "x"], ["c"]),
         node("Add", ["c", "a"], ["d"]), node("Mul", ["d", "d"], ["e"])]
check(nodes, {"x": real(9), "y": real(9)}, tolerance=1e-4)
""")


def test_shapes_are_computed_on_the_host(run: Run) -> None:
    run("""
nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]),
         node("Unsqueeze", ["n", "axes"], ["u"]), node("Mul", ["u", "two"], ["m"]),
         node("Concat", ["m", "rest"], ["t"], axis=0), node("Reshape", ["x", "t"], ["r"]), node("Relu", ["r"], ["y"])]
weights = {"zero": np.int64(0), "axes": np.array([0]), "two": np.array([2]), "rest": np.array([-1])}
for n in (3, 5):
    check(nodes, {"x": real(n, 8)}, weights, open_shapes=True)
assert set(launches()) == {"chain_flat_f32"}
""")


def test_a_shape_that_only_the_run_knows_is_read_back(run: Run) -> None:
    run("""
model = model_of([node("Reshape", ["x", "s"], ["r"]), node("Relu", ["r"], ["y"])],
                 {"x": (TensorProto.FLOAT, ["n"]), "s": (TensorProto.INT64, [2])}, ["y"])
session = session_on(opened()[:1], model)
for shape in ([3, 4], [6, 2], [3, 4]):
    x = real(12)
    assert np.array_equal(session.run(None, {"x": x, "s": np.array(shape)})[0], np.maximum(x, 0).reshape(shape))
""")


def test_a_bound_that_follows_from_an_input_is_read_back(run: Run) -> None:
    run("""
nodes = [node("Unsqueeze", ["e", "zero"], ["end"]), node("Add", ["end", "one"], ["next"]),
         node("Slice", ["x", "zero", "next", "zero"], ["s"]), node("Relu", ["s"], ["y"])]
model = model_of(nodes, {"x": (TensorProto.FLOAT, [6, 2]), "e": (TensorProto.INT64, [])}, ["y"],
                 {"zero": np.array([0]), "one": np.array([1])})
session = session_on(opened()[:1], model, only_gpu=False)
for end in (2, 4, 2):
    x = real(6, 2)
    assert np.array_equal(session.run(None, {"x": x, "e": np.array(end)})[0], np.maximum(x[:end + 1], 0))
""")


def test_a_shape_that_is_computed_on_the_device_is_left(run: Run) -> None:
    run("""
model = model_of([node("Floor", ["f"], ["g"]), node("Cast", ["g"], ["s"], to=TensorProto.INT64),
                  node("Reshape", ["x", "s"], ["r"]), node("Relu", ["r"], ["y"])],
                 {"x": (TensorProto.FLOAT, [12]), "f": (TensorProto.FLOAT, [2])}, ["y"])
session = session_on(opened()[:1], model, only_gpu=False)
x = real(12)
got = session.run(None, {"x": x, "f": np.array([3.5, 4.5], np.float32)})[0]
assert np.array_equal(got, np.maximum(x, 0).reshape(3, 4))
taken = [n.op_type for g in session.get_provider_graph_assignment_info() if g.ep_name == "cuda" for n in g.get_nodes()]
assert sorted(taken) == ["Cast", "Floor", "Relu"], taken
""")


def test_operators_that_move_elements_are_right(run: Run) -> None:
    run("""
import itertools
x = real(2, 3, 4, 5)
for perm in itertools.permutations(range(4)):
    check(node("Transpose", ["x"], ["y"], perm=perm), {"x": x})
check(node("Transpose", ["x"], ["y"]), {"x": real(7, 9)})
for dims in ((33, 65), (64, 32), (100, 8)):
    for dtype in (np.float32, np.float16):
        check(node("Transpose", ["x"], ["y"], perm=[0, 2, 1]), {"x": real(3, *dims, dtype=dtype)}, tolerance=1e-3)
check(node("Transpose", ["x"], ["y"], perm=[1, 0]), {"x": real(130, 198, dtype=np.float16)}, tolerance=1e-3)
assert {"transpose_u32", "transpose_u16", "transpose_pairs_u16"} <= set(launches())
check(node("Concat", ["a", "b", "c"], ["y"], axis=1), {"a": real(2, 3, 4), "b": real(2, 1, 4), "c": real(2, 5, 4)})
check(node("Concat", ["a", "b"], ["y"], axis=-1), {"a": real(2, 3), "b": real(2, 0)})
check(node("Split", ["x", "parts"], ["a", "b"], axis=1), {"x": real(3, 7, 2)}, {"parts": np.array([3, 4])})
check(node("Split", ["x"], ["a", "b", "c"], axis=0, num_outputs=3), {"x": real(7, 2)})
for starts, ends, axes, steps in (([1], [3], [0], [1]), ([-2], [100], [1], [1]), ([5], [-100], [1], [-2]),
                                  ([0, 1], [4, 6], [0, 1], [2, 3]), ([3], [3], [0], [1]), ([-1], [-9], [0], [-1]),
                                  ([1], [6], [1], [2**63 - 1]), ([-1], [-9], [0], [-(2**63)])):
    lists = dict(zip("seat", map(np.array, (starts, ends, axes, steps))))
    check(node("Slice", ["x", *"seat"], ["y"]), {"x": real(4, 6, 8)}, lists)
lists = dict(zip("seat", map(np.array, ([-1], [-9], [1], [-1]))))
check(node("Slice", ["x", *"seat"], ["y"]), {"x": real(4, 0, 8)}, lists)
for index in (np.array([2, 0, -1]), np.array([[1], [0]]), np.array(1), np.array([1, 1], np.int32)):
    for axis in (0, 1, -1):
        check(node("Gather", ["x", "i"], ["y"], axis=axis), {"x": real(3, 4, 8), "i": index})
check(node("Gather", ["x", "i"], ["y"]), {"x": real(9, 3, dtype=np.float16), "i": np.array([8, 0])}, tolerance=1e-3)
check(node("Expand", ["x", "s"], ["y"]), {"x": real(3, 1)}, {"s": np.array([2, 1, 4])})
check(node("Squeeze", ["x"], ["y"]), {"x": real(1, 3, 1)})
check(node("Unsqueeze", ["x", "a"], ["y"]), {"x": real(3, 4)}, {"a": np.array([0, -1])})
check(node("Flatten", ["x"], ["y"], axis=2), {"x": real(2, 3, 4)})
check([node("Identity", ["x"], ["a"]), node("Relu", ["x"], ["b"])], {"x": real(5)})
""")


def test_paddings_of_every_mode_are_right(run: Run) -> None:
    run("""
x = real(2, 3, 4, 5)
for mode in ("constant", "edge", "reflect", "wrap"):
    for pads in ([0, 0, 1, 2, 0, 0, 2, 1], [1, 0, 0, 3, 0, 2, 3, 0]):
        if mode == "reflect":
            pads = [min(p, 1) for p in pads]
        check(node("Pad", ["x", "p"], ["y"], mode=mode), {"x": x}, {"p": np.array(pads)}, opset=19)
model = model_of([node("Pad", ["x", "p", "v"], ["y"])], {"x": (TensorProto.FLOAT, [2, 3, 4, 5])}, ["y"],
                 {"p": np.array([0, -1, 0, 1, 0, 0, -2, 0]), "v": np.float32(2.5)})
devices = [device for device in ephost.get_ep_devices() if device.ep_name == "cuda"]
cut = np.pad(x[:, 1:, :2], ((0, 0), (0, 0), (0, 0), (1, 0)), constant_values=2.5)
assert np.array_equal(session_on(devices[:1], model).run(None, {"x": x})[0], cut)
check(node("Pad", ["x", "p", "v"], ["y"]), {"x": real(3, 4, dtype=np.float16)},
      {"p": np.array([1, 0, 0, 1]), "v": np.float16(-1)}, tolerance=1e-3)
check(node("Pad", ["x", "p", "", "a"], ["y"]), {"x": x}, {"p": np.array([1, 2]), "a": np.array([-1])}, opset=19)
check(node("Pad", ["x"], ["y"], pads=[1, 1, 0, 2], value=3.0), {"x": real(2, 3)}, opset=10)
check(node("Pad", ["x", "p"], ["y"]), {"x": np.arange(6).reshape(2, 3)}, {"p": np.array([1, 0, 0, 1])})
assert "pad_u64" in launches() and "pad_u16" in launches()
""")


def test_images_are_resized_rightly(run: Run) -> None:
    run(
        """
from functools import partial
check = partial(check, by_cpu=True)
x = real(1, 2, 4, 5)
none = np.array([], np.float32)
wheres = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
for where in wheres:
    for scales in ([1, 1, 2, 2], [1, 1, 1.5, 0.6], [1, 1, 0.5, 3]):
        for how in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
            check(node("Resize", ["x", "", "s"], ["y"], coordinate_transformation_mode=where, nearest_mode=how), {"x": x},
                  {"s": np.array(scales, np.float32)}, opset=13)
        check(node("Resize", ["x", "", "s"], ["y"], coordinate_transformation_mode=where, mode="linear"), {"x": x},
              {"s": np.array(scales, np.float32)}, opset=13)
    check(node("Resize", ["x", "", "", "z"], ["y"], coordinate_transformation_mode=where, mode="linear"), {"x": x},
          {"z": np.array([1, 2, 7, 3])}, opset=13)
    check(node("Resize", ["x", "", "", "z"], ["y"], coordinate_transformation_mode=where), {"x": x},
          {"z": np.array([1, 2, 1, 9])}, opset=13)
check(node("Resize", ["x", "", "s"], ["y"]), {"x": real(1, 1, 3, 3, dtype=np.float16)},
      {"s": np.array([1, 1, 2, 2], np.float32)}, tolerance=1e-3)
""",
        EPHOST_CPU_PLUGIN="1",
    )


def test_transposed_convolutions_and_lrn_are_right(run: Run) -> None:
    run(
        """
def back(x, w, bias=False, **attributes):
    names = ["x", "w"] + ["b"] * bias
    out = w[1] * attributes.get("group", 1)
    check(node("ConvTranspose", names, ["y"], **attributes), {"x": real(*x)},
          {"w": real(*w), **({"b": real(out)} if bias else {})}, tolerance=1e-4, by_cpu=True)
back((2, 3, 4, 5), (3, 2, 2, 2), True, strides=[2, 2])
back((1, 3, 4, 5), (3, 2, 3, 3), strides=[2, 1], pads=[1, 0, 1, 1], output_padding=[1, 0])
back((1, 4, 3, 3), (4, 2, 3, 2), True, group=2, dilations=[2, 1])
nodes = [node("ConvTranspose", ["x", "w", "b"], ["c"], strides=[2, 2]), node("Add", ["c", "d"], ["a"]),
         node("BatchNormalization", ["a", "s", "b", "m", "v"], ["n"]), node("Add", ["n", "z"], ["t"]), node("Relu", ["t"], ["y"])]
check(nodes, {"x": real(1, 3, 4, 5), "z": real(1, 2, 8, 10)},
      {"w": real(3, 2, 2, 2), "b": real(2), "d": real(2, 1, 1), "s": real(2), "m": real(2), "v": np.abs(real(2)) + 1},
      tolerance=1e-4)
for size in (1, 3, 4, 5):
    check(node("LRN", ["x"], ["y"], size=size, alpha=0.02, beta=0.6, bias=1.5), {"x": real(2, 7, 3, 3)}, tolerance=1e-4,
          by_cpu=True)
check([node("LRN", ["x"], ["a"], size=5), node("Relu", ["a"], ["y"])], {"x": real(1, 3, 2, 4)}, tolerance=1e-4)
""",
        EPHOST_CPU_PLUGIN="1",
    )


REFUSED = {
    "an order that is none": 'node("Transpose", ["x"], ["y"], perm=[2, 0]), {"x": (2, 3, 4)}',
    "an order that names an axis twice": 'node("Transpose", ["x"], ["y"], perm=[0, 0]), {"x": (2, 3)}',
    "parts that do not fit": 'node("Concat", ["x", "z"], ["y"], axis=1), {"x": (2, 7, 2), "z": (2, 3, 3)}',
    "parts of other ranks": 'node("Concat", ["x", "z"], ["y"], axis=1), {"x": (2, 3), "z": (2, 3, 3)}',
    "a bias of another size": 'node("Conv", ["x", "w", "b"], ["y"]), {"x": (1, 1, 5, 5), "w": (2, 1, 3, 3), "b": (17,)}',
    "a window that is not the weights'": 'node("ConvTranspose", ["x", "w"], ["y"], kernel_shape=[3, 4]), {"x": (1, 1, 5, 5), "w": (1, 2, 3, 3)}',
    "less than nothing around": 'node("ConvTranspose", ["x", "w"], ["y"], output_padding=[-1, 0]), {"x": (1, 1, 5, 5), "w": (1, 2, 3, 3)}',
    "an axis that a scalar has not": 'node("Squeeze", ["x"], ["y"], axes=[0]), {"x": ()}',
    "an axis cut twice": 'node("Slice", ["x"], ["y"], starts=[0, 0], ends=[1, 2], axes=[0, 0]), {"x": (3, 3)}',
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused_before_anything_is_read(what: str, run_on_fake_driver: Run) -> None:
    """Of tensors whose ranks the model leaves open, but for weights."""
    run_on_fake_driver(f"""
def model(made, dims):
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims[n] if n == "w" else None) for n in dims]
    graph = helper.make_graph([made], "g", infos, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    opset = 9 if made.op_type in ("Squeeze", "Slice") else 17
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString(), dims
made, dims = model({REFUSED[what]})
session = session_on(opened()[:1], made, only_gpu=False)
try:
    session.run(None, {{name: real(*shape) for name, shape in dims.items()}})
    raise SystemExit("it ran")
except OnnxRuntimeException as error:
    print(error)
assert not [name for name in launches() if name != "chain_flat_f32"], launches()
""")


def test_a_scale_that_is_broadcast_is_left(run_on_fake_driver: Run) -> None:
    run_on_fake_driver("""
nodes = [node("LayerNormalization", ["x", "s"], ["n"]), node("Relu", ["n"], ["y"])]
model = model_of(nodes, {"x": (TensorProto.FLOAT, [3, 8]), "s": (TensorProto.FLOAT, [3, 1])}, ["y"])
session = session_on(opened()[:1], model, only_gpu=False)
x, s = real(3, 8), real(3, 1)
rows = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
np.testing.assert_allclose(session.run(None, {"x": x, "s": s})[0], np.maximum(rows * s, 0), 1e-4, 1e-5)
""")


def test_scalars_are_rows_of_one(run: Run) -> None:
    run("""
x = np.float32(2.5)
devices = opened()
for op in ("Softmax", "LogSoftmax", "ReduceMax", "ReduceSum", "ReduceMean"):
    made = node(op, ["x"], ["y"])
    graph = helper.make_graph([made], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    got = session_on(devices[:1], model.SerializeToString()).run(None, {"x": np.array(x)})[0]
    assert got.shape == () and got == {"Softmax": 1, "LogSoftmax": 0}.get(op, 2.5), (op, got)
""")


def test_sums_and_means_of_any_number_are_one_kernel(run: Run) -> None:
    run("""
for op in ("Sum", "Mean"):
    check(node(op, ["a"], ["y"]), {"a": real(3, 8)})
    check(node(op, ["a", "b", "c"], ["y"]), {"a": real(3, 8), "b": real(8), "c": real(3, 1)})
    check(node(op, ["a", "a"], ["y"]), {"a": real(3, 8)})
before = len(launches())
nodes = [node("Relu", ["a"], ["r"]), node("Sum", ["r", "b", "c", "a"], ["s"]), node("Relu", ["s"], ["y"])]
check(nodes, {"a": real(4, 8), "b": real(4, 8), "c": real(4, 8)})
assert len(launches()) - before == 2, launches()[before:]
""")


def test_casts_keep_what_the_target_can_hold(run: Run) -> None:
    run("""
values = np.array([0, 1, -1, 2.5, -2.5, 100, 65504, np.inf], np.float32)
for target in (TensorProto.FLOAT16, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL):
    feed = values if target == TensorProto.FLOAT16 else values[:-1]
    check(node("Cast", ["x"], ["y"], to=target), {"x": feed})
for source in (np.int32, np.uint8, np.int8, np.bool_):
    x = np.array([0, 1, 5, 127]).astype(source)
    check(node("Cast", ["x"], ["y"], to=TensorProto.FLOAT), {"x": x})
    check(node("Cast", ["x"], ["y"], to=TensorProto.INT64), {"x": x})
""")


def test_rows_of_every_length_are_right(run: Run) -> None:
    run("""
for columns, rows in ((1, 3), (5, 20), (31, 3), (256, 9), (1000, 3), (1025, 3), (2048, 3), (4097, 3), (5120, 2)):
    x = real(rows, columns) * 4
    check(node("Softmax", ["x"], ["y"]), {"x": x})
    check(node("LogSoftmax", ["x"], ["y"]), {"x": x}, tolerance=1e-4)
    check(node("LayerNormalization", ["x", "s", "b"], ["y"]), {"x": x}, {"s": real(columns), "b": real(columns)},
          tolerance=1e-4)
    check(node("ReduceSum", ["x"], ["y"]), {"x": x}, tolerance=1e-3)
for columns in (8, 1000, 1025, 2048, 4104):
    x, s, b = (real(*dims, dtype=np.float16) for dims in ((9, columns), (columns,), (columns,)))
    check(node("Softmax", ["x"], ["y"]), {"x": x}, tolerance=2e-3)
    check(node("LayerNormalization", ["x", "s", "b"], ["y"]), {"x": x}, {"s": s, "b": b}, tolerance=1e-2)
    check(node("ReduceMax", ["x", "a"], ["y"]), {"x": x}, {"a": np.array([1])}, tolerance=2e-3)
assert {f"{kind}_{length}_f32" for kind in ("softmax", "norm") for length in ("short", "middle", "long")} <= set(
    launches())
check(node("Softmax", ["x"], ["y"], axis=1), {"x": real(2, 5, 7)})
x = real(2, 5, 7)
model = model_of([node("Softmax", ["x"], ["y"], axis=1)], {"x": (TensorProto.FLOAT, x.shape)}, ["y"], opset=11)
rows = np.exp(x.reshape(2, 35))  # before opset 13, all from the axis on is one row
devices = [device for device in ephost.get_ep_devices() if device.ep_name == "cuda"]
got = session_on(devices[:1], model).run(None, {"x": x})[0]
np.testing.assert_allclose(got.reshape(2, 35), rows / rows.sum(1, keepdims=True), 1e-5)
check(node("Softmax", ["x"], ["y"]), {"x": np.array([[1e4, -1e4, 1e4]], np.float32)})
check(node("LayerNormalization", ["x", "s"], ["y"], axis=1), {"x": real(2, 5, 7)}, {"s": real(5, 7)}, tolerance=1e-4)
check(node("InstanceNormalization", ["x", "s", "b"], ["y"]), {"x": real(2, 3, 4, 5)}, {"s": real(3), "b": real(3)},
      tolerance=1e-4)
check(node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2), {"x": real(2, 6, 4, 5)},
      {"s": real(6), "b": real(6)}, tolerance=1e-4)
check(node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"]), {"x": real(2, 3, 4, 5)},
      {"s": real(3), "b": real(3), "m": real(3), "v": np.abs(real(3)) + 1}, tolerance=1e-4)
""")


def test_reductions_over_any_axes_are_right(run: Run) -> None:
    run("""
import itertools
x = real(3, 4, 5, 6)
for size in range(1, 5):
    for axes in itertools.combinations(range(4), size):
        check(node("ReduceMean", ["x", "a"], ["y"]), {"x": x}, {"a": np.array(axes)}, tolerance=1e-4)
for op in "Sum Max Min Prod L1 L2 SumSquare LogSumExp".split():
    for axes, keep in (([1], 0), ([-1], 1), ([0, 2], 0)):
        check(node(f"Reduce{op}", ["x", "a"], ["y"], keepdims=keep), {"x": x}, {"a": np.array(axes)}, tolerance=1e-3)
for op in "Sum Mean Max Min Prod L1 L2 SumSquare LogSumExp".split():
    for axes in ([1], [1, 2], [0, 1]):
        check(node(f"Reduce{op}", ["x", "a"], ["y"]), {"x": real(2, 0, 3)}, {"a": np.array(axes)})
check(node("ReduceMax", ["x"], ["y"], axes=[1]), {"x": x}, opset=13)
check(node("ReduceSum", ["x"], ["y"], noop_with_empty_axes=1), {"x": x})
""")


def test_products_are_right_without_cublaslt(run: Run) -> None:
    run("""
for a, b in (((3, 4), (4, 5)), ((70, 33), (33, 66)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((4,), (4, 5)),
             ((3, 4), (4,)), ((4,), (4,)), ((2, 1, 3, 4), (1, 5, 4, 2)), ((5, 1, 3, 4), (1, 6, 4, 2)), ((0, 4), (4, 2))):
    check(node("MatMul", ["a", "b"], ["y"]), {"a": real(*a), "b": real(*b)}, tolerance=1e-4)
    check(node("MatMul", ["a", "b"], ["y"]), {"a": real(*a)}, {"b": real(*b)}, tolerance=1e-4)
check(node("MatMul", ["a", "b"], ["y"]), {"a": real(5, 16, dtype=np.float16), "b": real(16, 3, dtype=np.float16)},
      tolerance=1e-2)
for ta in (0, 1):
    for tb in (0, 1):
        for c in ((5,), (3, 1), (3, 5), (1,), ()):
            check(node("Gemm", ["a", "b", "c"], ["y"], transA=ta, transB=tb, alpha=0.5, beta=2.0),
                  {"a": real(*((4, 3) if ta else (3, 4))), "b": real(*((5, 4) if tb else (4, 5)))}, {"c": real(*c)},
                  tolerance=1e-4)
assert set(launches()) <= {"matmul_f32", "matmul_f16"}
nodes = [node("Transpose", ["k"], ["t"], perm=[0, 2, 1]), node("MatMul", ["q", "t"], ["m"]),
         node("Div", ["m", "eight"], ["d"]), node("Softmax", ["d"], ["p"]), node("MatMul", ["p", "v"], ["y"])]
check(nodes, {"q": real(2, 5, 8), "k": real(2, 6, 8), "v": real(2, 6, 8)}, {"eight": np.float32(8)}, tolerance=1e-4)
nodes = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["a"]), node("Gelu", ["a"], ["g"]),
         node("Add", ["g", "r"], ["y"])]
check(nodes, {"x": real(2, 3, 8), "r": real(2, 3, 16)}, {"w": real(8, 16), "b": real(16)}, tolerance=1e-4)
""")


def test_products_on_cublaslt_have_the_right_layouts(run_on_fake_driver: Run, fake_cublaslt: Path) -> None:
    said = run_on_fake_driver(
        """
for a, b in (((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((4,), (4, 5)), ((3, 4), (4,)),
             ((2, 3, 4), (1, 4, 5)), ((1, 3, 4), (6, 4, 5)), ((2, 5, 3, 4), (2, 5, 4, 2))):
    for dtype, tolerance in ((np.float32, 1e-4), (np.float16, 1e-2)):
        check(node("MatMul", ["a", "b"], ["y"]), {"a": real(*a, dtype=dtype), "b": real(*b, dtype=dtype)},
              tolerance=tolerance)
for ta in (0, 1):
    for tb in (0, 1):
        feeds = {"a": real(*((4, 3) if ta else (3, 4))), "b": real(*((5, 4) if tb else (4, 5)))}
        check(node("Gemm", ["a", "b"], ["y"], transA=ta, transB=tb, alpha=0.5), feeds, tolerance=1e-4)
        check(node("Gemm", ["a", "b", "c"], ["y"], transA=ta, transB=tb), feeds, {"c": real(5)}, tolerance=1e-4)
nodes = [node("Transpose", ["k"], ["t"], perm=[0, 2, 1]), node("MatMul", ["q", "t"], ["m"]), node("Softmax", ["m"], ["y"])]
check(nodes, {"q": real(2, 5, 8), "k": real(2, 6, 8)}, tolerance=1e-4)
nodes = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["a"]), node("Relu", ["a"], ["y"])]
check(nodes, {"x": real(2, 3, 8)}, {"w": real(8, 16), "b": real(16)}, tolerance=1e-4)
assert set(launches()) == {"cublasLtMatmul", "softmax_short_f32", "chain_flat_f32"}, set(launches())
check(node("MatMul", ["a", "b"], ["y"]), {"a": real(2, 3), "b": real(3, 5000)}, tolerance=1e-4)
assert launches()[-1] == "matmul_f32"  # where cuBLASLt has no algorithm
check(node("MatMul", ["a", "b"], ["y"]), {"a": real(2, 1, 3, 4), "b": real(1, 5, 4, 2)}, tolerance=1e-4)
assert launches()[-1] == "matmul_f32"  # batches with two distances
""",
        EPHOST_CUBLASLT_LIBRARY=str(fake_cublaslt),
    )
    assert said == ""


def test_without_nvidias_libraries_a_session_says_that_it_is_slow(run: Run) -> None:
    said = run("""
import logging, sys
logging.basicConfig(format="%(message)s", stream=sys.stdout, force=True)
check([node("MatMul", ["x", "w"], ["m"]), node("MatMul", ["m", "w"], ["y"])], {"x": real(4, 4)}, {"w": real(4, 4)})
""")
    assert said.count("products of matrices run on a slow kernel: /nowhere.so: cannot open") == 1, said


def test_convolutions_and_pools_are_right_without_cudnn(run: Run) -> None:
    run("""
def conv(x, w, bias=False, **attributes):
    inputs = ["x", "w"] + ["b"] * bias
    check(node("Conv", inputs, ["y"], **attributes), {"x": real(*x)},
          {"w": real(*w), **({"b": real(w[0])} if bias else {})}, tolerance=1e-4)
conv((2, 3, 8, 9), (4, 3, 3, 3))
conv((2, 3, 8, 9), (4, 3, 3, 3), True, pads=[1, 1, 1, 1], strides=[2, 2])
conv((1, 4, 8, 8), (4, 1, 3, 3), group=4, pads=[1, 1, 1, 1])
conv((1, 4, 9, 8), (6, 2, 3, 2), group=2, dilations=[2, 1])
conv((1, 2, 7, 7), (3, 2, 2, 2), auto_pad="SAME_UPPER", strides=[2, 2])
conv((1, 2, 7, 7), (3, 2, 2, 2), auto_pad="SAME_LOWER")
conv((1, 2, 7, 7), (3, 2, 3, 3), pads=[0, 1, 2, 0])
conv((2, 3, 11), (4, 3, 3), True, strides=[2])
x = {"x": real(2, 3, 9, 8)}
check(node("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]), x)
check(node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1), x)
check(node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 2]), x)
for kernel, stride, out in ((2, 2, 1), (2, 1, 0), (4, 2, 0)):  # of one pixel, as onnxruntime rounds
    model = model_of([node("MaxPool", ["x"], ["y"], kernel_shape=[kernel] * 2, strides=[stride] * 2)],
                     {"x": (TensorProto.FLOAT, [1, 1, "a", "b"])}, ["y"])
    devices = [device for device in ephost.get_ep_devices() if device.ep_name == "cuda"]
    assert session_on(devices[:1], model).run(None, {"x": real(1, 1, 1, 1)})[0].shape == (1, 1, out, out)
check(node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]), x)
check(node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1), x)
check(node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_UPPER"), x)
check(node("MaxPool", ["x"], ["y"], kernel_shape=[3]), {"x": real(2, 3, 9)})
check(node("GlobalAveragePool", ["x"], ["y"]), x, tolerance=1e-4)
check(node("GlobalMaxPool", ["x"], ["y"]), x)
nodes = [node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
         node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]), node("Relu", ["n"], ["y"])]
check(nodes, x, {"w": real(4, 3, 3, 3), "s": real(4), "b": real(4), "m": real(4), "v": np.abs(real(4)) + 1},
      tolerance=1e-4)
assert launches()[-2:] == ["conv_f32", "chain_flat_f32"]  # the normalisation is in the weights
""")


CONVOLUTIONS = """
search = {"cudnn_conv_algo_search": "HEURISTIC"}
def conv(x, w, bias=False, dtype=np.float32, **attributes):
    inputs = ["x", "w"] + ["b"] * bias
    nodes = [node("Conv", inputs, ["c"], **attributes), node("Relu", ["c"], ["y"])]
    check(nodes, {"x": real(*x, dtype=dtype)},
          {"w": real(*w, dtype=dtype), **({"b": real(w[0], dtype=dtype)} if bias else {})},
          tolerance=1e-4 if dtype == np.float32 else 3e-2, **search)
for bias in (False, True):
    conv((2, 3, 8, 9), (4, 3, 3, 3), bias)
    conv((2, 3, 8, 9), (4, 3, 3, 3), bias, pads=[1, 1, 1, 1], strides=[2, 2])
    conv((1, 4, 8, 8), (4, 1, 3, 3), bias, group=4, pads=[1, 1, 1, 1])
    conv((1, 4, 9, 8), (6, 2, 3, 2), bias, group=2)
    conv((1, 2, 7, 7), (3, 2, 2, 2), bias, auto_pad="SAME_UPPER", strides=[2, 2])
    conv((1, 2, 7, 7), (3, 2, 3, 3), bias, pads=[0, 1, 2, 0])
    conv((2, 3, 11), (4, 3, 3), bias, strides=[2])
    conv((0, 3, 8, 8), (4, 3, 3, 3), bias)
"""


def test_convolutions_on_cudnn_are_described_rightly(run_on_fake_driver: Run, fake_cudnn: Path) -> None:
    run_on_fake_driver(
        CONVOLUTIONS
        + """
assert set(launches()) == {"cudnn_exact", "chain_flat_f32", "chain_wide_f32", "chain_any_f32"}, set(launches())
conv((1, 2, 9, 9), (4, 2, 3, 3), True, dilations=[2, 1])
assert launches()[-2:] == ["conv_f32", "chain_flat_f32"], launches()  # where cuDNN has no kernel
conv((2, 3, 8, 9), (4, 3, 3, 3), True, np.float16, pads=[1, 1, 1, 1])
assert launches()[-2:] == ["cudnn_rounding", "chain_wide_f16"], launches()  # tensor cores lose nothing of float16
check(node("Conv", ["x", "w"], ["y"]), {"x": real(1, 2, 5, 5)}, {"w": real(2, 2, 3, 3)}, use_tf32="1", tolerance=1e-4,
      **search)
assert launches()[-1] == "cudnn_rounding", launches()
nodes = [node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), node("Add", ["c", "z"], ["a"]), node("Relu", ["a"], ["y"])]
before = len(launches())
check(nodes, {"x": real(1, 4, 4, 4), "z": real(1, 4, 4, 4)}, {"w": real(4, 4, 3, 3), "b": real(4)}, tolerance=1e-4,
      **search)
assert launches()[before:] == ["cudnn_exact", "chain_wide_f32"], launches()[before:]  # bias, sum and Relu in one pass
""",
        EPHOST_CUDNN_LIBRARY=str(fake_cudnn),
    )


def test_of_cudnns_kernels_the_quickest_is_taken_once_for_a_size(
    run_on_fake_driver: Run, fake_cudnn: Path
) -> None:
    run_on_fake_driver(
        """
devices = opened()
weights = {"w": real(4, 2, 3, 3), "v": real(4, 2, 3, 3)}
nodes = [node("Conv", ["x", "w"], ["a"]), node("Conv", ["x", "v"], ["b"])]
model = model_of(nodes, {"x": (TensorProto.FLOAT, ["n", 2, 6, 6])}, ["a", "b"], weights)
session = session_on(devices[:1], model)
reference = ReferenceEvaluator(onnx.load_from_string(model))
for n, tried in ((1, True), (1, False), (4, True), (5, False)):
    before = len(launches())
    x = real(n, 2, 6, 6)
    for got, expected in zip(session.run(None, {"x": x}), reference.run(None, {"x": x})):
        np.testing.assert_allclose(got, expected, 1e-4, 1e-5)
    assert (len(launches()) - before > 2) is tried, (n, launches()[before:])
del session, devices
assert closed() == {}, closed()
""",
        EPHOST_CUDNN_LIBRARY=str(fake_cudnn),
    )


def test_an_unaligned_input_is_convolved_without_cudnn(run_on_fake_driver: Run, fake_cudnn: Path) -> None:
    run_on_fake_driver(
        """
nodes = [node("Conv", ["x", "w", "b"], ["y"])]
model = model_of(nodes, {"x": (TensorProto.FLOAT, [1, 1, 4, 4])}, ["y"], {"w": real(2, 1, 3, 3), "b": real(2)})
session = session_on(opened()[:1], model, cudnn_conv_algo_search="HEURISTIC")
x = real(17)
held = on_gpu(x)
class Moved:
    __cuda_array_interface__ = {**held.__cuda_array_interface__, "shape": (1, 1, 4, 4),
                                "data": (held.data_ptr() + 4, False)}
binding = session.io_binding()
binding.bind_ortvalue_input("x", ephost.OrtValue.from_cuda_array_interface(Moved()))
out = on_gpu(np.zeros((1, 2, 2, 2), np.float32))
binding.bind_ortvalue_output("y", out)
session.run_with_iobinding(binding)
expected = session.run(None, {"x": x[1:].reshape(1, 1, 4, 4)})[0]
np.testing.assert_allclose(out.numpy(), expected, 1e-5, 1e-6)
assert [name for name in launches() if name.startswith(("conv", "cudnn"))] == ["conv_f32", "cudnn_exact"], launches()
""",
        EPHOST_CUDNN_LIBRARY=str(fake_cudnn),
    )


@pytest.mark.gpu
def test_convolutions_and_products_on_a_gpus_libraries_are_right(spy_cuda: Path) -> None:
    program = (
        CONVOLUTIONS
        + """
search = {}
for dtype in (np.float16, np.float32):
    conv((2, 64, 17, 19), (32, 64, 3, 3), True, dtype, pads=[1, 1, 1, 1])
    conv((2, 32, 14, 14), (64, 32, 1, 1), True, dtype)
assert not [name for name in launches() if name.startswith("conv")], launches()
for a, b in (((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((4,), (4, 5)), ((70, 33), (33, 66))):
    check(node("MatMul", ["a", "b"], ["y"]), {"a": real(*a), "b": real(*b)}, tolerance=1e-4)
    check(node("MatMul", ["a", "b"], ["y"]), {"a": real(*a)}, {"b": real(*b)}, tolerance=1e-4)
"""
    )
    done = run_with(PRELUDE + program, EPHOST_CUDA_LIBRARY=str(spy_cuda))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_a_node_that_is_left_alone_is_told_with_the_reason(run: Run) -> None:
    said = run("""
import logging, sys
logging.basicConfig(format="%(message)s", stream=sys.stdout, level=logging.DEBUG, force=True)
ephost.set_default_logger_severity(1)
devices = opened()
model = model_of([node("CumSum", ["x", "a"], ["c"], name="sums"), node("Relu", ["c"], ["y"])],
                 {"x": (TensorProto.FLOAT, [4])}, ["y"], {"a": np.int64(0)})
session = session_on(devices[:1], model, only_gpu=False)
assert session.run(None, {"x": np.array([1, 2, -9, 4], np.float32)})[0].tolist() == [1, 3, 0, 0]
assert launches() == ["chain_flat_f32"]
""")
    assert "not taken: CumSum 'sums': there is no kernel for it" in said


def test_a_run_waits_once_at_its_end_and_frees_what_it_took(run: Run) -> None:
    run("""
devices = opened()
nodes = [node("Softmax", ["x"], ["a"]), node("Transpose", ["a"], ["b"]), node("ReduceMax", ["b"], ["y"])]
model = model_of(nodes, {"x": (TensorProto.FLOAT, ["n", 16])}, ["y"])
session = session_on(devices[:1], model)
x = real(16, 16)
session.run(None, {"x": x})
before = counts()
for _ in range(3):
    session.run(None, {"x": x})
after = counts()
assert after["cuEventSynchronize"] - before["cuEventSynchronize"] == 3  # for the output that the CPU reads
for name in ("cuMemAllocFromPoolAsync", "cuMemFreeAsync"):
    assert after[name] - before[name] == 3 * 3  # x, y, and what lies between
del session, devices
assert closed() == {}, closed()
""")


RECORDED = """
nodes = [node("Softmax", ["x"], ["a"]), node("Transpose", ["a"], ["b"]), node("MatMul", ["b", "x"], ["c"]),
         node("Relu", ["c"], ["d"]), node("ReduceMax", ["d"], ["e"], axes=[1]), node("Sub", ["d", "e"], ["y"])]
model = model_of(nodes, {"x": (TensorProto.FLOAT, ["n", 16])}, ["y"], opset=13)
def expected(x):
    a = np.exp(x - x.max(1, keepdims=True))
    d = np.maximum((a / a.sum(1, keepdims=True)).T @ x, 0)
    return d - d.max(1, keepdims=True)
def runner(session, rows=8):
    given, out = on_gpu(np.zeros((rows, 16), np.float32)), on_gpu(np.zeros((16, 16), np.float32))
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", given)
    binding.bind_ortvalue_output("y", out)
    def run():
        x = real(rows, 16)
        ephost.copy_tensors([ephost.OrtValue.ortvalue_from_numpy(x)], [given])
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(out.numpy(), expected(x), 1e-4, 1e-5)
    return run
"""


def test_a_run_that_repeats_is_recorded(run: Run) -> None:
    run(
        RECORDED
        + """
session = session_on(opened()[:1], model)
work, other = runner(session), runner(session, 12)
for _ in range(5):
    work()
if fakes:
    assert counts()["cuStreamBeginCapture_v2"] == 1 and counts()["cuGraphLaunch"] == 4, counts()
for _ in range(4):
    other(), work()
for each in [runner(session) for _ in range(7)]:  # more than are kept
    each(), each(), each()
work(), work()
for _ in range(4):
    x = real(8, 16)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], expected(x), 1e-4, 1e-5)
"""
    )


def test_what_cannot_be_recorded_runs_all_the_same(run_on_fake_driver: Run) -> None:
    run_on_fake_driver(
        RECORDED
        + """
devices = opened()
for options in ({"enable_cuda_graph": "0"}, {"synchronize_each_step": "1"}):
    work = runner(session_on(devices[:1], model, **options))
    work(), work(), work()
    assert "cuStreamBeginCapture_v2" not in counts(), options
for function in ("cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuLaunchKernel"):
    work = runner(session_on(devices[:1], model))
    work()
    recorded = counts().get("cuGraphLaunch", 0)
    fake(f"fail={function}:1")
    work()  # nothing is lost with what the recording began
    fake(f"fail={function}:0")
    work(), work()
    assert counts().get("cuGraphLaunch", 0) == recorded, function
del work, devices
assert closed() == {}, closed()
"""
    )


THREADS = """
from concurrent.futures import ThreadPoolExecutor
session = session_on(opened()[:1], model)
def work(i):
    local = np.random.default_rng(i)
    for _ in range(15):
        x = local.standard_normal((8, 16)).astype(np.float32)
        np.testing.assert_allclose(session.run(None, {"x": x})[0], expected(x), 1e-4, 1e-5)
over = False
def others(i):  # whose copies and frees go by the device's own streams, which follow all others
    kept = []
    while not over:
        kept.append(on_gpu(np.full(64, i, np.float32)))
        assert (kept[-1].numpy() == i).all()
        if len(kept) > 5:
            kept.clear()
with ThreadPoolExecutor(6) as pool:
    noise = [pool.submit(others, i) for i in range(2)]
    try:
        for done in [pool.submit(work, i) for i in range(8)]:
            done.result()
    finally:
        over = True
    for each in noise:
        each.result()
"""


def test_recorded_runs_of_threads_keep_apart(run: Run) -> None:
    run(RECORDED + THREADS)


def test_threads_leave_a_stream_that_is_recorded_alone(run_on_fake_driver: Run) -> None:
    run_on_fake_driver(RECORDED + THREADS, "slow_recording=1")


def test_a_real_model_agrees_with_the_cpu(run: Run) -> None:
    """The classifier of rapidocr: 179 nodes, all of them taken."""
    folder = importlib.util.find_spec("rapidocr_onnxruntime")
    if folder is None or folder.origin is None:
        pytest.skip("rapidocr_onnxruntime, whose model this is, is not installed")
    model = Path(folder.origin).parent / "models" / "ch_ppocr_mobile_v2.0_cls_infer.onnx"
    run(f"""
options = ephost.SessionOptions()
options.add_provider_for_devices(opened()[:1], {{}})
options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
session = ephost.InferenceSession({str(model)!r}, options)
feeds = {{"x": real(1, 3, 48, 192)}}
got = session.run(None, feeds)[0]
expected = ephost.InferenceSession({str(model)!r}, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
np.testing.assert_allclose(got, expected, 1e-4, 1e-5)
""")


def test_a_limit_of_memory_holds_and_leaves_the_session_usable(run: Run) -> None:
    said = run("""
devices = opened()
nodes = [node("Softmax", ["x"], ["a"]), node("Transpose", ["a"], ["b"], perm=[1, 0]), node("Softmax", ["b"], ["y"])]
model = model_of(nodes, {"x": (TensorProto.FLOAT, ["n", 256])}, ["y"])
session = session_on(devices[:1], model, memory_limit="256K")
small, large = real(16, 256), real(200, 256)
expected = session.run(None, {"x": small})[0]
for _ in range(2):
    try:
        session.run(None, {"x": large})
        raise SystemExit("there was room")
    except OnnxRuntimeException as error:
        print(error)
    assert np.array_equal(session.run(None, {"x": small})[0], expected)
""")
    assert said.count("Limit=262144") == 2 or said.count("of at most 256 KiB") == 2, said


def test_an_error_names_its_step_when_each_step_is_waited_for(run_on_fake_driver: Run) -> None:
    said = run_on_fake_driver("""
devices = opened()
nodes = [node("Softmax", ["x"], ["a"], name="first"), node("ReduceMax", ["a"], ["y"], name="second")]
model = model_of(nodes, {"x": (TensorProto.FLOAT, [4, 8])}, ["y"])
session = session_on(devices[:1], model, synchronize_each_step="1")
fake("fault=softmax_short_f32:700")
for _ in range(2):
    try:
        session.run(None, {"x": real(4, 8)})
        raise SystemExit("it worked")
    except OnnxRuntimeException as error:
        print(error)
del session, devices
gc.collect()
ephost.unregister_execution_provider_library("cuda")
""")
    first, second = said.strip().splitlines()
    assert "Softmax 'first'" in first and "CUDA_ERROR_ILLEGAL_ADDRESS" in first, said
    assert "GPU 0 (Fake GPU A) was lost: cannot finish: CUDA_ERROR_ILLEGAL_ADDRESS" in second, said


@pytest.mark.parametrize("function", ["cuLaunchKernel", "cuMemAllocFromPoolAsync", "cuEventRecord"])
def test_a_call_of_the_driver_that_fails_in_a_run_is_an_error_of_that_run(
    function: str, run_on_fake_driver: Run
) -> None:
    run_on_fake_driver(f"""
devices = opened()
nodes = [node("Softmax", ["x"], ["a"]), node("ReduceMax", ["a"], ["y"])]
session = session_on(devices[:1], model_of(nodes, {{"x": (TensorProto.FLOAT, [4, 8])}}, ["y"]))
x = real(4, 8)
expected = session.run(None, {{"x": x}})[0]
failed = 0
for skip in range(6):
    fake(f"fail={function}:1:{{skip}}")
    try:
        got = session.run(None, {{"x": x}})[0]
        assert np.array_equal(got, expected)
    except OnnxRuntimeException:
        failed += 1
    fake("fail={function}:0")
assert failed > 0
assert np.array_equal(session.run(None, {{"x": x}})[0], expected)
""")


def test_sessions_on_two_gpus_and_threads_keep_apart(run_on_fake_driver: Run) -> None:
    run_on_fake_driver(
        """
from concurrent.futures import ThreadPoolExecutor
devices = opened()
model = model_of([node("Softmax", ["x"], ["y"])], {"x": (TensorProto.FLOAT, ["n", 8])}, ["y"])
sessions = [session_on([device], model) for device in devices]
def work(i):
    x = np.full((i % 5 + 1, 8), i, np.float32)
    return np.allclose(sessions[i % 2].run(None, {"x": x})[0], 1 / 8)
with ThreadPoolExecutor(4) as pool:
    assert all(pool.map(work, range(40)))
del sessions, devices
assert closed() == {}, closed()
""",
        "devices=2",
    )
