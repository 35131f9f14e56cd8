"""What a run may be fed, what it says about the rest, and that outputs belong to the caller.

The model ``add_and_relu`` runs on the fallback and on each sample plugin: what is fed is checked before
anybody sees it, and what comes out must not depend on who made it.
"""

from __future__ import annotations

import gc
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import ephost
import ml_dtypes
import numpy as np
import onnx
import pytest
from api_models import add_and_relu, model_bytes, tensor
from ephost import errors
from host_state import is_older, needs_newest_onnx
from onnx import TensorProto, helper, numpy_helper

pytestmark = pytest.mark.usefixtures("nothing_leaks")

ONES = np.ones((2, 3), np.float32)
node = helper.make_node
unshaped = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)


def on_numpy_2(case: Callable[[], tuple[Any, str]]) -> list[tuple[Any, str]]:
    """The case where numpy can make it: before, no array had more than 32 dimensions."""
    return [] if is_older("numpy", "2.0") else [case()]


def open_model(
    model: bytes, devices: list[ephost.OrtEpDevice] | None = None, *, optimized: bool = True
) -> ephost.InferenceSession:
    options = ephost.SessionOptions()
    if devices:
        options.add_provider_for_devices(devices, {})
    if not optimized:
        options.graph_optimization_level = ephost.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ephost.InferenceSession(model, options)


Open = Callable[..., ephost.InferenceSession]


@pytest.fixture(params=["fallback", "sample_kernels", "sample_compiler"])
def opened(request: pytest.FixtureRequest) -> Open:
    """Opens a model on the fallback alone, or on a sample plugin first."""
    devices = None if request.param == "fallback" else request.getfixturevalue(request.param)
    return lambda model, **how: open_model(model, devices, **how)


def echo(element_type: int, *dims: int | str) -> ephost.InferenceSession:
    """y = x, by a step that a run really makes."""
    inputs, outputs = ([tensor(name, *dims, element_type=element_type)] for name in "xy")
    graph = helper.make_graph([node("Identity", ["x"], ["y"])], "echo", inputs, outputs)
    newest = min(25, onnx.defs.onnx_opset_version())
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", newest)])
    return open_model(model.SerializeToString(), optimized=False)


# ---- names ----


@pytest.mark.parametrize(
    ("feed", "error", "message"),
    [
        ({}, ValueError, r"\['x', 'y'\].* missing .*\[\]"),
        ({"x": ONES}, ValueError, r"\['y'\].* missing .*\['x'\]"),
        ({"x": ONES, "Y": ONES}, ValueError, r"\['y'\].* missing .*\['x', 'Y'\]"),
        ({"x": ONES, "y": ONES, "q": ONES}, errors.InvalidArgument, r"name: q\. .*\['x', 'y'\]"),
        ({"x": ONES, "y": ONES, 3: ONES}, errors.InvalidArgument, "name: 3"),
        ({"x": ONES, "y": ONES, "s": ONES}, errors.InvalidArgument, "name: s"),  # an inner value
        ([("x", ONES)], TypeError, "dict of name to value"),
        (ONES, TypeError, "dict of name to value"),
        (None, TypeError, "dict of name to value"),
    ],
)
def test_names_that_do_not_fit_are_named(
    opened: Open, feed: Any, error: type[Exception], message: str
) -> None:
    session = opened(add_and_relu())
    with pytest.raises(error, match=message):
        session.run(None, feed)
    assert session.run(["s"], {"x": ONES, "y": ONES})[0].tolist() == (ONES + 1).tolist()


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (["q"], errors.InvalidArgument, r"output name: q\. .*\['z', 's'\]"),
        (["z", "x"], errors.InvalidArgument, "output name: x"),
        (["z", 3], errors.InvalidArgument, "output name: 3"),
        (["z", None], errors.InvalidArgument, "output name: None"),
        ([["z"]], errors.InvalidArgument, r"output name: \['z'\]"),
        ("z", TypeError, "not 'z'"),
        (3, TypeError, "not 3"),
    ],
)
def test_output_names_that_do_not_fit_are_named(
    opened: Open, names: Any, error: type[Exception], message: str
) -> None:
    session = opened(add_and_relu())
    with pytest.raises(error, match=message):
        session.run(names, {"x": ONES, "y": ONES})


def test_outputs_come_in_the_order_of_their_names(opened: Open) -> None:
    session = opened(add_and_relu())
    feed = {"x": -2 * ONES, "y": ONES}
    negative, zero = (-ONES).tolist(), (0 * ONES).tolist()
    assert [v.tolist() for v in session.run(["s", "z"], feed)] == [negative, zero]
    assert [v.tolist() for v in session.run(["s", "s", "z", "s"], feed)] == [
        negative,
        negative,
        zero,
        negative,
    ]
    assert [v.tolist() for v in session.run([], feed)] == [zero, negative]
    assert [v.tolist() for v in session.run(("s",), types.MappingProxyType(feed))] == [negative]


# ---- tensors ----


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.ones((2, 3)), r"'x'.*Actual: \(tensor\(double\)\) , expected: \(tensor\(float\)\)"),
        (np.ones((2, 3), np.float16), r"'x'.*tensor\(float16\)"),
        (np.ones((2, 3), ml_dtypes.bfloat16), r"'x'.*tensor\(bfloat16\)"),
        (np.ones((2, 3), np.int32), r"'x'.*tensor\(int32\)"),
        (np.ones((2, 3), bool), r"'x'.*tensor\(bool\)"),
        (np.ones((2, 3), complex), r"'x'.*complex128"),
        (np.full((2, 3), "a"), "'x'.*string"),
        (np.full((2, 3), "a", object), "'x'.*object"),
        (np.zeros((2, 3), "datetime64[s]"), "'x'.*datetime64"),
        (np.zeros((2, 3), [("a", "f4")]), "'x'.*'a', '<f4'"),
        (np.ones(3, np.float32), "rank for input: x Got: 1 Expected: 2"),
        (np.ones((2, 3, 1), np.float32), "rank for input: x Got: 3 Expected: 2"),
        (np.float32(1), "rank for input: x Got: 0 Expected: 2"),
        *on_numpy_2(lambda: (np.ones((1,) * 33, np.float32), "rank for input: x Got: 33")),
        (np.ones((3, 2), np.float32), r"input: x (.|\n)*index: 1 Got: 2 Expected: 3"),
        (np.ones((2, 0), np.float32), "index: 1 Got: 0 Expected: 3"),
        (None, r"'x'.*Actual: \(None\)"),
        (1.5, "rank for input: x Got: 0"),
        ("text", r"'x'.*Actual: \(str\)"),
        (b"12345678", r"'x'.*Actual: \(bytes\)"),
        ({}, r"'x'.*Actual: \(dict\)"),
        ({1, 2}, r"'x'.*Actual: \(set\)"),
        (object(), r"'x'.*Actual: \(object\)"),
        (ephost.RunOptions(), r"'x'.*Actual: \(RunOptions\)"),
        ([[1, 2, "three"]], "'x' takes .*three"),
        ([[1, 2], [3]], "'x' takes .*inhomogeneous"),
        ([], "rank for input: x Got: 1"),
        (ephost.OrtValue.ortvalue_from_numpy(np.ones((2, 3))), r"'x'.*tensor\(double\)"),
        (ephost.OrtValue.ortvalue_from_numpy(np.ones((2, 4), np.float32)), "index: 1 Got: 4 Expected: 3"),
        (ephost.OrtValue.ortvalue_from_numpy(np.ones(3, np.float32)), "rank for input: x Got: 1"),
    ],
    ids=lambda value: f"{type(value).__name__}" if not isinstance(value, str) else "",
)
def test_a_feed_that_does_not_fit_is_refused_by_name(opened: Open, value: Any, message: str) -> None:
    session = opened(add_and_relu())
    with pytest.raises(errors.InvalidArgument, match=message):
        session.run(None, {"x": value, "y": ONES})
    assert session.run(["s"], {"x": ONES, "y": ONES})[0].tolist() == (ONES + 1).tolist()


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _unaligned(array: np.ndarray) -> np.ndarray:
    raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
    raw[:] = np.frombuffer(array.tobytes(), np.uint8)
    return raw.view(array.dtype).reshape(array.shape)


COUNT = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    "value",
    [
        COUNT[:, ::-1][:, ::-1].copy(order="F"),
        np.repeat(COUNT, 2, axis=1)[:, ::2],
        COUNT[::-1].copy()[::-1],
        COUNT.T.copy().T,
        COUNT.astype(">f4"),
        _read_only(COUNT.copy()),
        _unaligned(COUNT),
        np.ma.masked_array(COUNT, COUNT > 10),
        COUNT.tolist(),
        tuple(map(tuple, COUNT.tolist())),
        memoryview(COUNT),
        COUNT.view(np.matrix),
        ephost.OrtValue.ortvalue_from_numpy(COUNT),
        types.SimpleNamespace(__array__=None),
    ],
    ids=[
        "fortran",
        "strided",
        "reversed",
        "transposed",
        "swapped",
        "read-only",
        "unaligned",
        "masked",
        "lists",
        "tuples",
        "memoryview",
        "matrix",
        "ortvalue",
        "array-like",
    ],
)
def test_every_layout_of_the_same_numbers_gives_the_same(opened: Open, value: Any) -> None:
    if isinstance(value, types.SimpleNamespace):

        class ArrayLike:
            def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
                return COUNT

        value = ArrayLike()
    session = opened(add_and_relu())
    outputs = session.run(None, {"x": value, "y": ONES})
    assert [v.tolist() for v in outputs] == [(COUNT + 1).tolist()] * 2
    assert all(type(v) is np.ndarray for v in outputs)


def test_where_a_scalar_is_declared_any_shape_will_do(opened: Open) -> None:
    """As in onnxruntime: makers of models write no dimensions where they mean any."""
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [])
    z = helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [])
    session = opened(model_bytes([node("Relu", ["x"], ["z"])], [x], [z]))
    for shape in ((), (1,), (1, 1), (2, 3), (0,)):
        value = np.full(shape, 3, np.float32)
        (found,) = session.run(None, {"x": value})
        assert (found.shape, found.tolist()) == (shape, value.tolist())
        (found,) = session.run_with_ort_values(None, {"x": ephost.OrtValue.ortvalue_from_numpy(value)})
        assert found.numpy().tolist() == value.tolist()
    assert session.run(None, {"x": [3.0]})[0].tolist() == [3]
    assert session.get_inputs()[0].shape == []
    if not is_older("numpy", "2.0"):
        with pytest.raises(errors.InvalidArgument, match="Expected: at most 32"):
            session.run(None, {"x": np.ones((1,) * 33, np.float32)})


def test_empty_tensors_and_scalars_pass(opened: Open) -> None:
    session = opened(add_and_relu())
    empty = np.ones((0, 3), np.float32)
    assert [v.shape for v in session.run(None, {"x": empty, "y": empty})] == [(0, 3), (0, 3)]
    scalars = opened(model_bytes([node("Add", ["x", "y"], ["z"])], [tensor("x"), tensor("y")], [tensor("z")]))
    for two in (np.float32(2), np.array(2, np.float32), 2.0, 2):
        (three,) = scalars.run(None, {"x": two, "y": np.float32(1)})
        assert (three.shape, three.dtype, float(three)) == ((), np.float32, 3)


def test_the_rank_goes_up_to_32_and_no_further(opened: Open) -> None:
    output = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    session = opened(model_bytes([node("Relu", ["x"], ["z"])], [unshaped], [output]))
    for rank in () if is_older("numpy", "2.0") else (33, 64):
        array = np.full((1,) * rank, 5, np.float32)
        with pytest.raises(errors.InvalidArgument, match=f"for input: x Got: {rank} Expected: at most 32"):
            session.run(None, {"x": array})
        with pytest.raises(errors.InvalidArgument, match=f"rank {rank}"):
            ephost.OrtValue.ortvalue_from_numpy(array)
        with pytest.raises(errors.InvalidArgument, match=f"rank {rank}"):
            ephost.OrtValue.ortvalue_from_numpy(np.full((1,) * rank, "a", object))
    echoed = echo(TensorProto.FLOAT, *([1] * 32)).run(None, {"x": np.ones((1,) * 32, np.float32)})
    assert echoed[0].shape == (1,) * 32


@pytest.mark.parametrize(
    ("element_type", "dtype"),
    [
        (TensorProto.BOOL, np.bool_),
        (TensorProto.UINT8, np.uint8),
        (TensorProto.FLOAT16, np.float16),
        (TensorProto.DOUBLE, np.float64),
        (TensorProto.INT64, np.int64),
        (TensorProto.UINT64, np.uint64),
        (TensorProto.COMPLEX64, np.complex64),
        (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
        (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
        (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2),
        (TensorProto.INT4, ml_dtypes.int4),
        (TensorProto.UINT4, ml_dtypes.uint4),
        pytest.param(25, ml_dtypes.uint2, marks=needs_newest_onnx),  # TensorProto.UINT2
        pytest.param(26, ml_dtypes.int2, marks=needs_newest_onnx),
    ],
)
def test_every_element_type_comes_back_as_it_went_in(element_type: int, dtype: Any) -> None:
    session = echo(element_type, "n")
    for count in (0, 1, 3, 5):  # odd counts: the last byte of a packed type is not full
        numbers = np.array([0, 1, 1, 0, 1][:count]).astype(dtype)
        (out,) = session.run(None, {"x": numbers})
        assert out.dtype == np.dtype(dtype)
        assert out.tolist() == numbers.tolist()
        value = ephost.OrtValue.ortvalue_from_numpy(numbers)
        assert session.run(None, {"x": value})[0].tolist() == numbers.tolist()
    if np.dtype(dtype) != np.dtype(np.float32):
        with pytest.raises(errors.InvalidArgument, match=r"'x'.*tensor\(float\)"):
            session.run(None, {"x": np.ones(1, np.float32)})


def test_signs_survive_the_packing_of_int4() -> None:
    numbers = np.array([-8, 7, -1, 0, 3]).astype(ml_dtypes.int4)
    assert echo(TensorProto.INT4, "n").run(None, {"x": numbers})[0].astype(int).tolist() == [-8, 7, -1, 0, 3]


@pytest.mark.parametrize(
    "value",
    [
        np.array(["a", "bé", ""], object),
        np.array(["a", "bé", ""]),
        np.array([b"a", "bé".encode(), b""], object),
        ["a", "bé", ""],
        # numpy 2 has a type of its own for texts.
        np.array(["a", "bé", ""], object if is_older("numpy", "2.0") else np.dtypes.StringDType()),
        np.array(["a", "x", "bé", "x", "", "x"], object)[::2],
    ],
    ids=["objects", "unicode", "bytes", "list", "StringDType", "strided"],
)
def test_strings_come_back_as_str(value: Any) -> None:
    assert echo(TensorProto.STRING, "n").run(None, {"x": value})[0].tolist() == ["a", "bé", ""]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([1, 2]), r"'x'.*tensor\(int64\).*tensor\(string\)"),
        (np.array(["a", {}], object), "'x' .*element 1 is dict"),
        (["a", slice(3)], "'x' .*element 1 is slice"),
        (None, "'x'.*None"),
        *on_numpy_2(lambda: (np.full((1,) * 40, "a", object), "rank for input: x Got: 40")),
    ],
)
def test_what_is_no_string_is_refused_by_name(value: Any, message: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=message):
        echo(TensorProto.STRING, "n").run(None, {"x": value})


def test_what_a_table_has_in_columns_of_text_is_fed_as_its_text() -> None:
    value = np.array(["a", None, float("nan"), 3, np.float32(0.5), True, 0], object)
    value[6] = ["b", "c"]
    texts = ["a", "None", "nan", "3", "0.5", "True", "['b', 'c']"]
    assert echo(TensorProto.STRING, "n").run(None, {"x": value})[0].tolist() == texts
    assert value[1] is None


def test_raw_bytes_are_text_to_their_end() -> None:
    value = np.array([b"must", b"a\0b\0"], np.void)
    assert echo(TensorProto.STRING, "n").run(None, {"x": value})[0].tolist() == ["must", "a\0b\0"]


# ---- sequences, optionals, maps ----

FLOATS = helper.make_tensor_type_proto(TensorProto.FLOAT, None)


def length_of_sequence(kind: onnx.TypeProto) -> ephost.InferenceSession:
    nodes = [node("SequenceLength", ["x"], ["n"])]
    return open_model(
        model_bytes(nodes, [helper.make_value_info("x", kind)], [tensor("n", element_type=TensorProto.INT64)])
    )


def test_a_sequence_takes_a_list_of_its_tensors() -> None:
    session = length_of_sequence(helper.make_sequence_type_proto(FLOATS))
    for value in ([], [ONES], (ONES, ONES[0]), [[1.0, 2.0], ONES]):
        assert session.run(None, {"x": value})[0] == len(value)
        assert session.run(None, {"x": ephost.OrtValue.from_python([ONES] * len(value))})[0] == len(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (ONES, r"'x'.*Actual: \(tensor\(float\)\) , expected: \(seq\(tensor\(float\)\)\)"),
        (None, "'x'.*None"),
        ("ab", "'x'.*str"),
        ([ONES, ONES.astype(int)], r"'x\[1\]'.*tensor\(int64\)"),
        ([None], r"'x\[0\]'.*None"),
        *on_numpy_2(lambda: ([np.ones((1,) * 40, np.float32)], r"x\[0\] Got: 40")),
        (ephost.OrtValue.ortvalue_from_numpy(ONES), r"'x'.*tensor\(float\)"),
        (ephost.OrtValue.from_python([ONES.astype(int)]), r"'x'.*seq\(tensor\(int64\)\)"),
    ],
)
def test_what_is_no_such_sequence_is_refused_by_name(value: Any, message: str) -> None:
    session = length_of_sequence(helper.make_sequence_type_proto(FLOATS))
    with pytest.raises(errors.InvalidArgument, match=message):
        session.run(None, {"x": value})


def test_an_optional_takes_its_value_or_none() -> None:
    kind = helper.make_optional_type_proto(FLOATS)
    nodes = [node("OptionalHasElement", ["x"], ["has"])]
    outputs = [tensor("has", element_type=TensorProto.BOOL)]
    session = open_model(model_bytes(nodes, [helper.make_value_info("x", kind)], outputs))
    assert [bool(session.run(None, {"x": value})[0]) for value in (None, ONES, [1.0])] == [False, True, True]
    assert not session.run(None, {})[0], "it is left out"
    binding = session.io_binding()
    binding.bind_output("has")
    session.run_with_iobinding(binding)
    assert not binding.copy_outputs_to_cpu()[0]
    with pytest.raises(errors.InvalidArgument, match="Invalid input name: z"):
        session.run(None, {"z": ONES})
    with pytest.raises(errors.InvalidArgument, match=r"'x'.*tensor\(double\)"):
        session.run(None, {"x": np.ones(3)})
    with pytest.raises(errors.InvalidArgument, match=r"'x'.*dict"):
        session.run(None, {"x": {}})


def map_session() -> ephost.InferenceSession:
    kind = onnx.TypeProto()
    kind.map_type.key_type = TensorProto.STRING
    kind.map_type.value_type.tensor_type.elem_type = TensorProto.INT64
    vectorizer = node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b", "c"])
    graph = helper.make_graph(
        [vectorizer],
        "g",
        [helper.make_value_info("x", kind)],
        [tensor("y", 1, 3, element_type=TensorProto.INT64)],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    return open_model(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())


def test_a_map_takes_a_dict_of_its_types() -> None:
    session = map_session()
    (out,) = session.run(None, {"x": {"c": 3, "a": np.int64(1)}})
    assert (out.dtype, out.ravel().tolist()) == (np.int64, [1, 0, 3])
    (out,) = session.run(None, {"x": {"b": np.array(7)}})
    assert out.ravel().tolist() == [0, 7, 0]
    for value, message in [
        ({1: 2}, "Unexpected key type .*int.*'x'"),
        ({"a": "b"}, r"x\['a'\] is str, not int64"),
        ({"a": np.array([1])}, r"x\['a'\] is .*, not int64"),
        ([("a", 1)], "'x'.*list"),
        (None, "'x'.*None"),
    ]:
        with pytest.raises(errors.InvalidArgument, match=message):
            session.run(None, {"x": value})


# ---- who owns what ----


@pytest.mark.parametrize("rows", [2, 4000], ids=["small", "large"])
def test_writing_into_outputs_changes_nothing_else(opened: Open, rows: int) -> None:
    """Outputs that are an input, an initializer, an inner value or a view of one, all written to."""
    weight = np.full((rows, 3), 7, np.float32)
    nodes = [
        node("Add", ["x", "w"], ["s"]),
        node("Relu", ["s"], ["r"]),
        node("Reshape", ["r", "shape"], ["v"]),
        node("Identity", ["x"], ["i"]),
        node("Identity", ["w"], ["j"]),
        node("Constant", [], ["c"], value=numpy_helper.from_array(weight)),
    ]
    dims = {"s": (rows, 3), "r": (rows, 3), "v": (3 * rows,), "i": (rows, 3), "j": (rows, 3), "c": (rows, 3)}
    outputs = [tensor(name, *shape) for name, shape in dims.items()]
    initializers = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.array([-1]), "shape")]
    graph = [tensor("x", rows, 3)]
    # An input and an initializer as they are:
    outputs += [tensor("x", rows, 3), tensor("w", rows, 3)]
    for optimized in (True, False):
        session = opened(model_bytes(nodes, graph, outputs, initializers), optimized=optimized)
        x = np.full((rows, 3), 2, np.float32)
        wanted = [9.0, 9.0, 9.0, 2.0, 7.0, 7.0, 2.0, 7.0]
        for _ in range(3):
            results = session.run(None, {"x": x})
            assert [float(v.min()) for v in results] == wanted
            for at, result in enumerate(results):
                result[...] = -100 - at
            assert [float(v.max()) for v in results] == [-100.0 - at for at in range(len(results))]
            assert x.min() == x.max() == 2
        again, twice = session.run(["s", "s"], {"x": x})
        again[...] = 0
        assert twice.min() == 9


def test_feeds_may_change_or_go_once_the_run_is_over(opened: Open) -> None:
    outputs = [tensor(name, "N", 3) for name in ("z", "x", "s")]
    nodes = [node("Add", ["x", "y"], ["s"]), node("Relu", ["s"], ["z"])]
    session = opened(model_bytes(nodes, [tensor("x", "N", 3), tensor("y", "N", 3)], outputs))
    for rows in (2, 4000):
        x, y = np.full((rows, 3), 1, np.float32), np.full((rows, 3), 2, np.float32)
        feeds = [{"x": x, "y": y}, {"x": ephost.OrtValue.ortvalue_from_numpy(x), "y": y}]
        kept = [session.run(None, feed) for feed in feeds]
        x[...] = y[...] = -1
        del x, y, feeds
        gc.collect()
        for z, echoed, s in kept:
            assert (z.min(), z.max(), echoed.min(), echoed.max(), s.min(), s.max()) == (3, 3, 1, 1, 3, 3)


def test_a_run_holds_no_reference_to_its_feeds_afterwards(opened: Open) -> None:
    class Counted(np.ndarray):
        gone = 0

        def __del__(self) -> None:
            Counted.gone += 1

    session = opened(add_and_relu())
    x = ONES.copy().view(Counted)
    outputs = session.run(None, {"x": x, "y": ONES})
    del x
    gc.collect()
    assert Counted.gone == 1
    assert outputs[0].min() == 2
    bad = np.ones((2, 4), np.float32).view(Counted)
    with pytest.raises(errors.InvalidArgument):
        session.run(None, {"x": ONES, "y": bad})
    del bad
    gc.collect()
    assert Counted.gone == 2


def test_a_failing_feed_lets_go_of_those_before_it(opened: Open) -> None:
    session = opened(add_and_relu())
    x = np.ones((4000, 3), np.float32)
    before = sys.getrefcount(x)
    for _ in range(10):
        with pytest.raises(errors.InvalidArgument):
            session.run(None, {"x": x, "y": "no"})
        with pytest.raises(errors.InvalidArgument):
            session.run(["nope"], {"x": x, "y": x})
        with pytest.raises(ValueError, match="missing"):
            session.run(None, {"x": x})
    assert sys.getrefcount(x) == before


@pytest.mark.threads
def test_another_thread_may_change_the_feed_while_a_run_lasts(opened: Open) -> None:
    """The dict's values are replaced all the time; each run sees one array or the other, whole."""
    session = opened(add_and_relu())
    feed: dict[str, Any] = {"x": np.ones((3000, 3), np.float32), "y": np.zeros((3000, 3), np.float32)}
    stop = threading.Event()

    def change() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            fresh = np.full((3000, 3), turn % 2 + 1, np.float32)
            feed["x"] = fresh if turn % 3 else fresh[::-1].T.copy().T  # now and then one to be converted

    other = threading.Thread(target=change)
    other.start()
    try:
        seen = set()
        for _ in range(400):
            s = session.run(["s"], feed)[0]
            assert s.min() == s.max()
            seen.add(float(s[0, 0]))
        assert seen <= {1.0, 2.0}
    finally:
        stop.set()
        other.join()


def test_a_feed_that_changes_the_dict_while_it_is_converted_is_held(opened: Open) -> None:
    """The conversion of one feed throws the last reference to it out of the dict."""
    session = opened(add_and_relu())
    feed: dict[str, Any] = {}

    class Leaving:
        def __init__(self) -> None:
            self.data = np.full((2, 3), 4, np.float32)

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            feed["x"] = None
            gc.collect()
            return self.data

    feed.update(x=Leaving(), y=ONES)
    assert session.run(["s"], feed)[0].tolist() == (5 * ONES).tolist()


def test_none_leaves_an_input_to_its_default(opened: Open) -> None:
    weight = numpy_helper.from_array(np.full((2, 3), 4, np.float32), "w")
    inputs = [tensor("x", 2, 3), tensor("w", 2, 3)]
    session = opened(model_bytes([node("Add", ["x", "w"], ["y"])], inputs, [tensor("y", 2, 3)], [weight]))
    (y,) = session.run(None, {"x": ONES, "w": None})
    assert (y == 5).all()
    (y,) = session.run(None, {"x": ONES, "w": ONES})
    assert (y == 2).all()
    with pytest.raises(errors.InvalidArgument, match="'x'"):
        session.run(None, {"x": None, "w": ONES})
    with pytest.raises(errors.InvalidArgument, match="input name: v"):
        session.run(None, {"x": ONES, "v": None})
