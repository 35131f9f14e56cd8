"""The operators that constant folding meets: against onnxruntime, in the versions that differ."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import Any

import numpy as np
import onnx
import pytest
from ephost.reference import NodeError, create_kernel
from ephost.reference.ops import registry
from onnx import helper

I64 = np.int64
INTS = np.array([[-7, 7, 0, 5], [9, -3, 2, -8]])
OTHERS = np.array([2, -2, 3, 4])
FLOATS = np.array([[-1.5, 0.5, 2.5, -0.0], [3.25, 1e6, -2.5, 0.1]], np.float32)
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def i64(*values: int) -> np.ndarray:
    return np.array(values, I64)


Case = tuple[str, int, list[Any], dict[str, Any]]


def _axes_named_twice(op_type: str) -> list[Case]:
    as_attributes: Case = (op_type, 11, [X], {"axes": [1, -2], "keepdims": 0})
    return [
        (op_type, 18, [X, i64(1, -2, 1)], {"keepdims": 0}),
        (op_type, 18, [X, i64(-2, 0, 1)], {}),
        as_attributes,
    ]


CASES: list[Case] = [
    ("Add", 14, [INTS, OTHERS], {}),
    ("Add", 7, [FLOATS, FLOATS[0]], {}),
    ("Sub", 14, [OTHERS, INTS], {}),
    ("Mul", 13, [INTS, OTHERS.reshape(1, 4)], {}),
    ("Div", 14, [INTS, OTHERS], {}),
    ("Div", 14, [INTS.astype(np.int32), OTHERS.astype(np.int32)], {}),
    ("Div", 14, [np.array([9, 200], np.uint8), np.array([2, 7], np.uint8)], {}),
    ("Div", 7, [FLOATS, FLOATS[1]], {}),
    ("Mod", 13, [INTS, OTHERS], {}),
    ("Mod", 10, [INTS, OTHERS], {"fmod": 1}),
    ("Mod", 13, [FLOATS, FLOATS[1]], {"fmod": 1}),
    ("Pow", 13, [FLOATS, i64(2, 3, 0, 1)], {}),
    ("Pow", 7, [np.abs(FLOATS), FLOATS[0]], {}),
    ("Max", 13, [INTS, OTHERS, i64(1, 2, 3, 4)], {}),
    ("Min", 8, [FLOATS, np.array([np.nan, 1, 0, 0], np.float32)], {}),
    ("Sum", 13, [FLOATS, FLOATS[0], FLOATS[:, :1]], {}),
    ("Equal", 13, [INTS, INTS[::-1].copy()], {}),
    ("Equal", 19, [np.array(["a", "b"], object), np.array(["b"], object)], {}),
    ("Greater", 13, [INTS, OTHERS], {}),
    ("GreaterOrEqual", 16, [FLOATS, FLOATS[0]], {}),
    ("Less", 9, [INTS, OTHERS], {}),
    ("LessOrEqual", 12, [FLOATS, FLOATS[0]], {}),
    ("And", 7, [INTS > 0, OTHERS > 0], {}),
    ("Or", 7, [INTS > 0, OTHERS > 0], {}),
    ("Xor", 7, [INTS > 0, OTHERS > 0], {}),
    ("Not", 1, [INTS > 0], {}),
    ("Abs", 13, [INTS], {}),
    ("Neg", 13, [INTS], {}),
    ("Sign", 13, [INTS], {}),
    *((op_type, 13, [FLOATS], {}) for op_type in ("Ceil", "Floor", "Exp", "Neg", "Abs", "Reciprocal")),
    ("Round", 11, [FLOATS], {}),
    ("Sin", 7, [FLOATS], {}),
    ("Cos", 7, [FLOATS], {}),
    ("Sqrt", 13, [FLOATS], {}),
    ("Log", 13, [FLOATS], {}),
    ("Where", 9, [INTS > 0, INTS, OTHERS], {}),
    ("Where", 16, [i64(1, 0) > 0, np.array(["a"], object), np.array(["b", "c"], object)], {}),
    *(("Cast", 13, [FLOATS[0]], {"to": to}) for to in (1, 6, 7, 9, 10, 11, 16)),
    ("Cast", 9, [INTS], {"to": onnx.TensorProto.UINT8}),
    ("Cast", 13, [INTS > 0], {"to": onnx.TensorProto.DOUBLE}),
    ("Cast", 13, [INTS], {"to": onnx.TensorProto.STRING}),
    ("Cast", 13, [np.array(["7", "-3"], object)], {"to": onnx.TensorProto.INT64}),
    ("Shape", 13, [X], {}),
    ("Shape", 15, [X], {"start": -2}),
    ("Shape", 15, [X], {"start": 1, "end": -1}),
    ("Shape", 15, [X], {"start": 2, "end": 1}),
    ("Shape", 15, [X], {"start": -9, "end": 9}),
    ("Size", 13, [X], {}),
    ("ConstantOfShape", 9, [i64(2, 3)], {}),
    ("ConstantOfShape", 9, [i64(2, 0)], {"value": np.array([7], np.int32)}),
    ("ConstantOfShape", 20, [np.zeros(0, I64)], {"value": np.array([True])}),
    ("Range", 11, [np.array(3), np.array(-4), np.array(-2)], {}),
    ("Range", 11, [np.array(v, np.float32) for v in (0.5, 2.0, 0.3)], {}),
    ("Range", 11, [np.array(5), np.array(1), np.array(1)], {}),
    ("Gather", 11, [X, i64(1, -1)], {"axis": 1}),
    ("Gather", 13, [X, np.array(-2)], {"axis": 2}),
    ("Gather", 13, [i64(4, 5, 6), np.array([[0, 2]], np.int32)], {}),
    ("Concat", 4, [X, X[:, :1]], {"axis": 1}),
    ("Concat", 13, [i64(1), i64(), i64(2, 3)], {"axis": -1}),
    ("Slice", 9, [X], {"starts": [0, -2], "ends": [9, -1], "axes": [1, 2]}),
    ("Slice", 1, [X], {"starts": [1, 1], "ends": [2, 9223372036854775807]}),
    ("Slice", 10, [X, i64(-1), i64(-(2**63)), i64(2), i64(-2)], {}),
    ("Slice", 13, [X, i64(3, 0), i64(-9, 2), i64(-1, 1), i64(-1, 1)], {}),
    ("Slice", 13, [X, i64(0), i64(1)], {}),
    ("Slice", 13, [X, i64(0, 2), i64(2, 1), None, i64(1, -1)], {}),
    ("Unsqueeze", 11, [X], {"axes": [0, -1]}),
    ("Unsqueeze", 1, [X], {"axes": [3, 1]}),
    ("Unsqueeze", 13, [X, i64(-1, 0)], {}),
    ("Squeeze", 13, [X[:1, :, :1], i64(-1)], {}),
    ("Squeeze", 13, [X[:1, :, :1]], {}),
    ("Squeeze", 11, [X[:1, :, :1]], {"axes": [0]}),
    ("Reshape", 5, [X, i64(0, -1)], {}),
    ("Reshape", 14, [X, i64(4, 0, 2)], {}),
    ("Reshape", 14, [X[:0], i64(3, 0)], {"allowzero": 1}),
    ("Flatten", 13, [X], {}),
    ("Flatten", 13, [X], {"axis": 0}),
    ("Flatten", 11, [X], {"axis": -1}),
    ("Flatten", 13, [X[:, :0]], {"axis": 2}),
    ("Transpose", 13, [X], {}),
    ("Transpose", 1, [X], {"perm": [1, 2, 0]}),
    ("Expand", 8, [X[:, :1], i64(1, 5, 1)], {}),
    ("Expand", 13, [i64(1, 2), i64(3, 1)], {}),
    ("Tile", 6, [INTS, i64(2, 3)], {}),
    ("Tile", 13, [INTS, i64(0, 1)], {}),
    ("NonZero", 13, [INTS], {}),
    ("Trilu", 14, [X], {}),
    ("Trilu", 14, [X, np.array(-1)], {"upper": 0}),
    ("ReduceSum", 11, [INTS], {"axes": [-1]}),
    ("ReduceSum", 13, [X, i64(0, 2)], {"keepdims": 0}),
    ("ReduceSum", 13, [X], {"noop_with_empty_axes": 1}),
    ("ReduceSum", 13, [X, i64()], {}),
    ("ReduceProd", 11, [INTS], {"keepdims": 0}),
    ("ReduceProd", 18, [X, i64(1)], {}),
    ("ReduceMean", 18, [X, i64(-1, 0)], {}),
    ("ReduceMean", 13, [X], {"axes": [1], "keepdims": 0}),
    ("ReduceMax", 13, [INTS], {"axes": [0]}),
    ("ReduceMax", 18, [X, i64(1, 2)], {"keepdims": 0}),
    ("ReduceMin", 12, [INTS], {}),
    ("ReduceMin", 18, [INTS, i64(1)], {}),
    *(
        case
        for kind in ("Sum", "Prod", "Mean", "Max", "Min", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
        for case in _axes_named_twice(f"Reduce{kind}")
    ),
    *((f"Reduce{kind}", 18, [INTS, i64(1)], {}) for kind in ("L1", "SumSquare")),
    ("Split", 18, [X, i64(3)], {"axis": 1}),
    ("MaxPool", 12, [X], {"kernel_shape": [6], "strides": [3]}),
    ("MaxPool", 12, [X], {"kernel_shape": [7], "strides": [3], "ceil_mode": 1}),
    ("MaxPool", 12, [X], {"kernel_shape": [9], "strides": [3]}),
    ("AveragePool", 19, [X], {"kernel_shape": [6], "strides": [3], "pads": [1, 0], "count_include_pad": 1}),
    ("LpPool", 18, [X], {"kernel_shape": [3], "dilations": [2], "strides": [2]}),
]


def _node(op_type: str, inputs: list[Any], attributes: dict[str, Any]) -> onnx.NodeProto:
    known = {
        key: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for key, value in attributes.items()
    }
    names = ["" if value is None else f"x{at}" for at, value in enumerate(inputs)]
    return helper.make_node(op_type, names, ["y"], **known)


def _ours(op_type: str, opset: int, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    return create_kernel(_node(op_type, inputs, attributes), {"": opset})(inputs)[0]


@pytest.mark.parametrize(
    ("op_type", "opset", "inputs", "attributes"),
    CASES,
    ids=[f"{at}-{op_type}-{opset}" for at, (op_type, opset, _, _) in enumerate(CASES)],
)
def test_it_gives_what_onnxruntime_gives(
    op_type: str, opset: int, inputs: list[Any], attributes: dict[str, Any]
) -> None:
    ort = pytest.importorskip("onnxruntime")
    there = {f"x{at}": value for at, value in enumerate(inputs) if value is not None}
    graph = helper.make_graph(
        [_node(op_type, inputs, attributes)],
        "g",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in there.items()
        ],
        [onnx.ValueInfoProto(name="y")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    got = _ours(op_type, opset, inputs, attributes)
    if got.dtype.name == "bfloat16":  # which onnxruntime has no arrays for
        want = inputs[0].astype(got.dtype)
    else:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        want = session.run(None, there)[0]
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if got.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)
    else:
        assert got.tolist() == want.tolist()


@pytest.mark.parametrize(
    ("op_type", "extreme", "dtype"),
    [
        ("ReduceMax", -np.inf, np.float32),
        ("ReduceMin", np.inf, np.float16),
        ("ReduceMax", np.iinfo(np.int32).min, np.int32),
        ("ReduceMin", 255, np.uint8),
        ("ReduceMax", False, np.bool_),
    ],
)
def test_the_extreme_of_nothing_is_that_of_the_type(op_type: str, extreme: Any, dtype: Any) -> None:
    found = _ours(op_type, 20, [np.zeros((2, 0), dtype), i64(1)], {"keepdims": 0})
    assert found.dtype == dtype
    assert found.tolist() == [extreme, extreme]


@pytest.mark.parametrize(
    ("op_type", "inputs"),
    [
        ("Add", [INTS, FLOATS]),
        ("Gather", [X, i64(2)]),
        ("Tile", [INTS, i64(2)]),
        ("Reshape", [X, i64(7, -1)]),
        ("Reshape", [X, i64(1, 1, 1, 0)]),
        ("Expand", [X, i64(2, 2, 4)]),
        ("Slice", [X, i64(0), i64(1), i64(0), i64(0)]),
        ("Slice", [X, i64(0, 0), i64(1), i64(0), i64(1)]),
        ("Unsqueeze", [X, i64(0, 0)]),
        ("Squeeze", [X, i64(0)]),
        ("ReduceSum", [X, i64(-5)]),
        ("Split", [X, i64(1)]),
        ("Split", [X, i64(3)]),
        ("Split", [X, i64(-1, 3)]),
    ],
)
def test_inputs_that_do_not_fit_are_an_error(op_type: str, inputs: list[Any]) -> None:
    with pytest.raises(NodeError, match=op_type):
        _ours(op_type, 13, inputs, {})


@pytest.mark.parametrize("name", sorted(registry.DECLARED))
def test_each_module_declares_what_the_table_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = f"{registry.__package__}.{name}"
    monkeypatch.setattr(registry, "_OPERATORS", {})
    before = sys.modules.pop(module, None)
    try:
        import_module(module)
    finally:
        # What it declared is forgotten with the test: so whoever wants it next imports it once more.
        sys.modules.pop(module, None)
        if before is not None:
            sys.modules[module] = before
    declared = {op_type for _, op_type in registry._OPERATORS}
    assert declared == set(registry.DECLARED[name])


@pytest.mark.parametrize(
    ("opset", "sizes", "attributes"),
    [(2, None, {"split": [2, 3]}), (13, [2, 5], {}), (13, [6], {}), (18, [-1, 7], {})],
)
def test_sizes_of_parts_that_do_not_add_up(
    opset: int, sizes: list[int] | None, attributes: dict[str, Any]
) -> None:
    inputs = [np.arange(6.0), *([] if sizes is None else [i64(*sizes)])]
    node = helper.make_node("Split", ["x", "sizes"][: len(inputs)], ["y", "z"], **attributes)
    with pytest.raises(NodeError, match="6 elements in 2 parts cannot have the sizes"):
        create_kernel(node, {"": opset})(inputs)


def test_a_kernel_beyond_the_image_by_two_strides() -> None:
    with pytest.raises(NodeError, match="a kernel that spans 6 does not fit on 4 elements"):
        _ours("MaxPool", 12, [X], {"kernel_shape": [6]})


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 2)])
def test_the_shape_of_a_constant_may_be_a_matrix(shape: tuple[int, ...]) -> None:
    wanted = np.arange(3, 3 + int(np.prod(shape)))
    assert _ours("ConstantOfShape", 9, [wanted.reshape(shape)], {}).shape == tuple(wanted)


def test_folding_does_not_import_the_packages_operators() -> None:
    code = """
import sys
from ephost.reference import create_kernel
from onnx import helper
import numpy as np

kernel = create_kernel(helper.make_node("Gather", ["x", "i"], ["y"], axis=1), {"": 17})
assert kernel([np.ones((2, 3)), np.array(1)])[0].shape == (2,)
print([name for name in ("onnx.reference", "numpy.random") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
