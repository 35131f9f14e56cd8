"""Quantised models: what passes make of them, beside the same graph node by node."""

import json
from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.plugins.cpu.conftest import Cpu, make_model

RNG = np.random.default_rng(11)


def _operators(
    cpu_plugin: Cpu, model: onnx.ModelProto, feeds: dict[str, np.ndarray], folder: Path
) -> tuple[list[np.ndarray], list[str]]:
    """The outputs, and the operators that ran."""
    options = ephost.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "trace")
    options.graph_optimization_level = ephost.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices([cpu_plugin.device], {})
    session = ephost.InferenceSession(model.SerializeToString(), options)
    found = session.run(None, feeds)
    trace = json.loads(Path(session.end_profiling()).read_text())
    operators = [event["args"]["op_name"] for event in trace if event.get("cat") == "Kernel"]
    return found, [name for name in operators if name != "Reorder"]


def _close(
    cpu_plugin: Cpu, model: onnx.ModelProto, feeds: dict[str, np.ndarray], found: list[np.ndarray]
) -> None:
    """Within one step of the quantisation of what runs node by node, and nearly always the same."""
    expected = cpu_plugin.run(model, feeds, fusion=0)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        if a.dtype == np.float32:
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())
        else:
            assert np.max(np.abs(a.astype(int) - b.astype(int))) <= 1
            assert np.sum(a != b) <= max(1, 0.02 * a.size)


def _around(node: onnx.NodeProto, weights: list[str], output: bool = True) -> list[onnx.NodeProto]:
    """The node between dequantisation of its inputs and quantisation of its output."""
    nodes = []
    inputs = list(node.input)
    for name in inputs:
        attributes = {"axis": 0 if node.op_type != "MatMul" else 1} if name in weights else {}
        nodes.append(
            helper.make_node(
                "DequantizeLinear", [name, f"{name}_s", f"{name}_z"], [f"{name}_f"], **attributes
            )
        )
    node.input[:] = [f"{name}_f" for name in inputs]
    if output:
        node.output[0] = "y_f"
        nodes.append(node)
        nodes.append(helper.make_node("QuantizeLinear", ["y_f", "y_s", "y_z"], ["y"]))
    else:
        nodes.append(node)
    return nodes


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("float_bias", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_convolutions_between_quantisations_run_on_bytes(
    cpu_plugin: Cpu, tmp_path: Path, by_channel: bool, float_bias: bool, relu: bool
) -> None:
    w_scale = (RNG.random(6 if by_channel else ()) * 0.01 + 0.005).astype(np.float32)
    x_scale = np.float32(0.03)
    bias = RNG.integers(-3000, 3000, 6).astype(np.int32)
    constants = {
        "x_s": x_scale, "x_z": np.uint8(120),
        "w": RNG.integers(-127, 128, (6, 4, 3, 3)).astype(np.int8), "w_s": w_scale,
        "w_z": np.zeros_like(w_scale, np.int8),
        "b": bias, "b_s": (x_scale * w_scale).astype(np.float32), "b_z": np.zeros_like(w_scale, np.int32),
        "y_s": np.float32(0.08), "y_z": np.uint8(0 if relu else 100),
    }  # fmt: skip
    nodes = _around(helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1] * 4), ["w", "b"])
    if float_bias:
        constants["b_f"] = (bias * constants["b_s"]).astype(np.float32)
        nodes = [node for node in nodes if node.output[0] != "b_f"]
    if relu:
        nodes[-2].output[0] = "before"
        nodes.insert(-1, helper.make_node("Relu", ["before"], ["y_f"]))
    feeds = {"x": RNG.integers(0, 256, (2, 4, 9, 10)).astype(np.uint8)}
    model = make_model(nodes, feeds, ["y"], constants)
    found, operators = _operators(cpu_plugin, model, feeds, tmp_path)
    assert operators == ["QLinearConv"]
    _close(cpu_plugin, model, feeds, found)


def test_a_relu_is_kept_where_bytes_below_zero_exist(cpu_plugin: Cpu, tmp_path: Path) -> None:
    constants = {
        "x_s": np.float32(0.03), "x_z": np.uint8(120),
        "w": RNG.integers(-127, 128, (6, 4, 3, 3)).astype(np.int8),
        "w_s": np.float32(0.01), "w_z": np.int8(0), "y_s": np.float32(0.08), "y_z": np.uint8(50),
    }  # fmt: skip
    nodes = _around(helper.make_node("Conv", ["x", "w"], ["y"]), [])
    nodes[-2].output[0] = "before"
    nodes.insert(-1, helper.make_node("Relu", ["before"], ["y_f"]))
    feeds = {"x": RNG.integers(0, 256, (1, 4, 6, 6)).astype(np.uint8)}
    model = make_model(nodes, feeds, ["y"], constants)
    (found,) = cpu_plugin.run(model, feeds)
    assert found.min() == 50
    _close(cpu_plugin, model, feeds, [found])


@pytest.mark.parametrize("output", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_matrix_products_between_quantisations_run_on_bytes(
    cpu_plugin: Cpu, tmp_path: Path, output: bool, constant: bool
) -> None:
    scale = (RNG.random(24 if constant else ()) * 0.01 + 0.001).astype(np.float32)
    constants = {
        "a_s": np.float32(0.02), "a_z": np.uint8(128), "b_s": scale, "b_z": np.zeros_like(scale, np.int8),
        "y_s": np.float32(0.1), "y_z": np.uint8(128),
    }  # fmt: skip
    b = RNG.integers(-127, 128, (40, 24)).astype(np.int8)
    feeds = {"a": RNG.integers(0, 256, (3, 7, 40)).astype(np.uint8)}
    (constants if constant else feeds)["b"] = b
    nodes = _around(helper.make_node("MatMul", ["a", "b"], ["y"]), ["b"] if constant else [], output)
    model = make_model(nodes, feeds, ["y"], constants)
    found, operators = _operators(cpu_plugin, model, feeds, tmp_path)
    assert operators == ["QLinearMatMul" if output else "MatMulIntegerToFloat"]
    _close(cpu_plugin, model, feeds, found)


@pytest.mark.parametrize("transposed", [0, 1])
def test_gemms_between_quantisations_run_on_bytes(cpu_plugin: Cpu, tmp_path: Path, transposed: int) -> None:
    b = RNG.integers(-127, 128, (24, 40) if transposed else (40, 24)).astype(np.int8)
    constants = {
        "a_s": np.float32(0.02), "a_z": np.int8(3), "b": b, "b_s": np.float32(0.01), "b_z": np.int8(0),
        "c_f": RNG.standard_normal(24).astype(np.float32), "y_s": np.float32(0.1), "y_z": np.int8(-5),
    }  # fmt: skip
    nodes = _around(helper.make_node("Gemm", ["a", "b"], ["y"], transB=transposed), [])
    nodes[-2].input.append("c_f")
    feeds = {"a": RNG.integers(-128, 128, (7, 40)).astype(np.int8)}
    model = make_model(nodes, feeds, ["y"], constants)
    found, operators = _operators(cpu_plugin, model, feeds, tmp_path)
    assert operators == ["QGemm"]
    _close(cpu_plugin, model, feeds, found)


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_sums_and_products_between_quantisations_run_on_bytes(
    cpu_plugin: Cpu, tmp_path: Path, op: str
) -> None:
    constants = {
        "a_s": np.float32(0.021), "a_z": np.uint8(128), "b_s": np.float32(0.013), "b_z": np.uint8(100),
        "y_s": np.float32(0.037), "y_z": np.uint8(128),
    }  # fmt: skip
    feeds = {name: RNG.integers(0, 256, (3, 40)).astype(np.uint8) for name in "ab"}
    model = make_model(_around(helper.make_node(op, ["a", "b"], ["y"]), []), feeds, ["y"], constants)
    found, operators = _operators(cpu_plugin, model, feeds, tmp_path)
    assert operators == [f"QLinear{op}"]
    _close(cpu_plugin, model, feeds, found)


@pytest.mark.parametrize("same", [False, True])
def test_movements_between_equal_quantisations_move_bytes(
    cpu_plugin: Cpu, tmp_path: Path, same: bool
) -> None:
    constants = {
        "x_s": np.float32(0.02), "x_z": np.uint8(9),
        "y_s": np.float32(0.02 if same else 0.03), "y_z": np.uint8(9),
    }  # fmt: skip
    nodes = _around(helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0]), [])
    feeds = {"x": RNG.integers(0, 256, (5, 8)).astype(np.uint8)}
    model = make_model(nodes, feeds, ["y"], constants)
    found, operators = _operators(cpu_plugin, model, feeds, tmp_path)
    assert ("DequantizeLinear" in operators) == (not same)
    _close(cpu_plugin, model, feeds, found)
    if same:
        np.testing.assert_array_equal(found[0], feeds["x"].T)


def test_rows_of_a_quantised_table_are_taken_before_they_are_dequantised(
    cpu_plugin: Cpu, tmp_path: Path
) -> None:
    table = RNG.integers(0, 256, (100, 16)).astype(np.uint8)
    constants = {"t": table, "t_s": np.float32(0.1), "t_z": np.uint8(128)}
    nodes = [
        helper.make_node("DequantizeLinear", ["t", "t_s", "t_z"], ["f"]),
        helper.make_node("Gather", ["f", "i"], ["y"]),
    ]
    feeds = {"i": np.array([[3, 99], [0, 7]], np.int64)}
    model = make_model(nodes, feeds, ["y"], constants)
    found, operators = _operators(cpu_plugin, model, feeds, tmp_path)
    assert operators == ["Gather", "DequantizeLinear"]
    _close(cpu_plugin, model, feeds, found)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("by_column", [False, True])
def test_dynamic_quantisation_is_one_product(
    cpu_plugin: Cpu, tmp_path: Path, bias: bool, by_column: bool
) -> None:
    scale = (RNG.random(24 if by_column else ()) * 0.01 + 0.001).astype(np.float32)
    constants = {
        "b": RNG.integers(-127, 128, (40, 24)).astype(np.int8),
        "b_s": scale, "b_z": np.zeros_like(scale, np.int8),
        "bias": RNG.standard_normal(24).astype(np.float32),
    }  # fmt: skip
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["a", "a_s", "a_z"]),
        helper.make_node("MatMulInteger", ["a", "b", "a_z", "b_z"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["a_s", "b_s"], ["s"]),
        helper.make_node("Mul", ["f", "s"], ["m" if bias else "y"]),
    ]
    if bias:
        nodes.append(helper.make_node("Add", ["bias", "m"], ["y"]))
    feeds = {"x": RNG.standard_normal((3, 7, 40)).astype(np.float32)}
    model = make_model(nodes, feeds, ["y"], constants)
    found, operators = _operators(cpu_plugin, model, feeds, tmp_path)
    assert operators == ["DynamicQuantizeLinear", "MatMulIntegerToFloat"]
    _close(cpu_plugin, model, feeds, found)


def test_weights_for_float_kernels_are_dequantised_once(cpu_plugin: Cpu, tmp_path: Path) -> None:
    constants = {
        "w": RNG.integers(0, 256, (40, 24)).astype(np.uint8), "w_s": np.float32(0.01), "w_z": np.uint8(128)
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "w_s", "w_z"], ["f"]),
        helper.make_node("MatMul", ["x", "f"], ["y"]),
    ]
    feeds = {"x": RNG.standard_normal((7, 40)).astype(np.float32)}
    model = make_model(nodes, feeds, ["y"], constants)
    found, operators = _operators(cpu_plugin, model, feeds, tmp_path)
    assert operators == ["MatMul"]
    _close(cpu_plugin, model, feeds, found)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("Sigmoid", {}),
        ("Tanh", {}),
        ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
        ("HardSwish", {}),
        ("LeakyRelu", {"alpha": 0.2}),
        ("Relu", {}),
        ("Elu", {"alpha": 0.7}),
        ("Softplus", {}),
        ("Sqrt", {}),
        ("Abs", {}),
    ],
)
def test_functions_between_quantisations_are_tables(
    cpu_plugin: Cpu, tmp_path: Path, op: str, attributes: dict[str, float], dtype: type
) -> None:
    low = np.iinfo(dtype).min
    constants = {
        "x_s": np.float32(0.03), "x_z": dtype(low if op == "Sqrt" else low + 120),
        "y_s": np.float32(0.02), "y_z": dtype(low + 90),
    }  # fmt: skip
    nodes = _around(helper.make_node(op, ["x"], ["y"], **attributes), [])
    # All bytes there are, and a rest that does not fill a vector.
    feeds = {"x": np.concatenate([np.arange(256), np.arange(13)]).astype(np.uint8).view(dtype)}
    model = make_model(nodes, feeds, ["y"], constants)
    found, operators = _operators(cpu_plugin, model, feeds, tmp_path)
    assert operators == ["LookUp"]
    _close(cpu_plugin, model, feeds, found)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("other", ["function", "constant first", "constant last", "both functions"])
def test_functions_of_one_byte_are_one_table(
    cpu_plugin: Cpu, tmp_path: Path, other: str, dtype: type
) -> None:
    """As x * sigmoid(x) is, or x + 3."""
    low = np.iinfo(dtype).min
    constants = {
        "x_s": np.float32(0.03), "x_z": dtype(low + 120), "s_s": np.float32(1 / 256), "s_z": dtype(low),
        "t_s": np.float32(1 / 128), "t_z": dtype(low + 128), "y_s": np.float32(0.02), "y_z": dtype(low + 20),
        "three": dtype(low + 220),
    }  # fmt: skip
    nodes = [helper.make_node("DequantizeLinear", ["x", "x_s", "x_z"], ["x_f"])]
    for name, op in (("s", "Sigmoid"), ("t", "Tanh")):
        nodes += [
            helper.make_node(op, ["x_f"], [f"{name}_f"]),
            helper.make_node("QuantizeLinear", [f"{name}_f", f"{name}_s", f"{name}_z"], [name]),
            helper.make_node("DequantizeLinear", [name, f"{name}_s", f"{name}_z"], [f"{name}_again"]),
        ]
    nodes.append(helper.make_node("DequantizeLinear", ["three", "x_s", "x_z"], ["three_f"]))
    op, left, right = {
        "function": ("Mul", "x_f", "s_again"),
        "constant first": ("Add", "three_f", "s_again"),
        "constant last": ("Mul", "x_f", "three_f"),
        "both functions": ("Mul", "s_again", "t_again"),
    }[other]
    nodes.append(helper.make_node(op, [left, right], ["y_f"]))
    nodes.append(helper.make_node("QuantizeLinear", ["y_f", "y_s", "y_z"], ["y"]))
    feeds = {"x": np.arange(256).astype(np.uint8).reshape(2, 2, 64, 1).view(dtype)}
    model = make_model(nodes, feeds, ["y"], constants)
    found, operators = _operators(cpu_plugin, model, feeds, tmp_path)
    assert operators == ["LookUp"]
    assert len(np.unique(found[0])) > 20
    _close(cpu_plugin, model, feeds, found)


@pytest.mark.parametrize(("opset", "attributes"), [(21, {}), (21, {"axis": 1}), (11, {})])
def test_softmax_between_quantisations_runs_on_bytes(
    cpu_plugin: Cpu, tmp_path: Path, opset: int, attributes: dict[str, int]
) -> None:
    constants = {
        "x_s": np.float32(0.03), "x_z": np.uint8(120), "y_s": np.float32(1 / 256), "y_z": np.uint8(0),
    }  # fmt: skip
    nodes = _around(helper.make_node("Softmax", ["x"], ["y"], **attributes), [])
    feeds = {"x": RNG.integers(0, 256, (2, 9, 12)).astype(np.uint8)}
    model = make_model(nodes, feeds, ["y"], constants, opset)
    found, operators = _operators(cpu_plugin, model, feeds, tmp_path)
    assert operators == ["QLinearSoftmax"]
    _close(cpu_plugin, model, feeds, found)


def test_a_change_of_scale_is_a_table(cpu_plugin: Cpu, tmp_path: Path) -> None:
    constants = {
        "x_s": np.float32(0.03), "x_z": np.uint8(120), "y_s": np.float32(0.05), "y_z": np.uint8(7),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "x_s", "x_z"], ["f"]),
        helper.make_node("QuantizeLinear", ["f", "y_s", "y_z"], ["y"]),
    ]
    feeds = {"x": np.arange(256).astype(np.uint8)}
    model = make_model(nodes, feeds, ["y"], constants)
    found, operators = _operators(cpu_plugin, model, feeds, tmp_path)
    assert operators == ["LookUp"]
    _close(cpu_plugin, model, feeds, found)


def test_parts_of_different_scales_are_joined_as_bytes(cpu_plugin: Cpu, tmp_path: Path) -> None:
    constants = {
        "a_s": np.float32(0.03), "a_z": np.uint8(120), "b_s": np.float32(0.05), "b_z": np.uint8(7),
        "y_s": np.float32(0.05), "y_z": np.uint8(7),
    }  # fmt: skip
    nodes = _around(helper.make_node("Concat", ["a", "b"], ["y"], axis=1), [])
    feeds = {name: RNG.integers(0, 256, (2, 5, 7)).astype(np.uint8) for name in "ab"}
    model = make_model(nodes, feeds, ["y"], constants)
    found, operators = _operators(cpu_plugin, model, feeds, tmp_path)
    assert operators == ["LookUp", "Concat"]
    _close(cpu_plugin, model, feeds, found)
    np.testing.assert_array_equal(found[0][:, 5:], feeds["b"])


@pytest.mark.parametrize(
    ("op", "attributes", "operands"),
    [
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, {}),
        ("Slice", {}, {"starts": [0, 3], "ends": [9, 18], "axes": [2, 1], "steps": [2, 3]}),
        ("Resize", {"mode": "nearest"}, {"": None, "scales": np.array([1, 1, 2, 2], np.float32)}),
        ("GlobalAveragePool", {}, {}),
        ("ReduceMean", {"keepdims": 1}, {"axes": [2, -1]}),
        # Of three, so that none lies between two bytes.
        ("AveragePool", {"kernel_shape": [3, 1], "pads": [1, 0, 1, 0], "count_include_pad": 1}, {}),
        # By channel, as squeezing and exciting does.
        ("Mul", {}, {"c": np.arange(-20, 22, 2).reshape(1, 21, 1, 1)}),
        ("Add", {}, {"c": np.arange(2 * 21 * 11).reshape(2, 21, 1, 11) % 41 - 20}),
    ],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_a_network_of_bytes_keeps_its_channels_last(
    cpu_plugin: Cpu,
    tmp_path: Path,
    op: str,
    attributes: dict[str, object],
    operands: dict[str, object],
    dtype: type,
) -> None:
    """Between two convolutions, one of all channels and one of each: the layout changes at the ends alone."""
    scale, zero = np.float32(0.05), dtype(np.iinfo(dtype).min + 100)
    constants: dict[str, np.ndarray] = {"s": scale, "z": zero}
    for name, shape in {"v": (21, 5, 3, 3), "w": (6 if op == "Slice" else 21, 1, 3, 3)}.items():
        constants[name] = RNG.integers(-60, 60, shape).astype(np.int8)
        constants[f"{name}_s"] = np.float32(0.004)
        constants[f"{name}_z"] = np.int8(0)
    constants |= {k: np.array(v) for k, v in operands.items() if k}
    if "c" in constants:
        constants["c"] = (constants["c"] + zero).astype(dtype)
    group = 5 if op == "Slice" else 21
    constants["w"] = constants["w"][:group]
    nodes = []

    def quantised(node: onnx.NodeProto, inputs: list[str]) -> None:
        """The node with its inputs dequantised and its output quantised."""
        for i, name in enumerate(inputs):
            own = [f"{name}_s", f"{name}_z"] if f"{name}_s" in constants else ["s", "z"]
            node.input[i] = f"{node.output[0]}_{name}"
            nodes.append(helper.make_node("DequantizeLinear", [name, *own], [node.input[i]]))
        out = node.output[0]
        node.output[0] = f"{out}_f"
        nodes.append(node)
        nodes.append(helper.make_node("QuantizeLinear", [f"{out}_f", "s", "z"], [out]))

    quantised(helper.make_node("Conv", ["x", "v"], ["a"], pads=[1] * 4), ["x", "v"])
    between = ["a", "c"] if "c" in operands else ["a"]
    quantised(helper.make_node(op, ["a", *operands], ["b"], **attributes), between)
    quantised(helper.make_node("Conv", ["b", "w"], ["y"], pads=[1] * 4, group=group), ["b", "w"])
    feeds = {"x": RNG.integers(0, 256, (2, 5, 12, 11)).astype(np.uint8).view(dtype)}
    model = make_model(nodes, feeds, ["y"], constants)
    found, operators = _operators(cpu_plugin, model, feeds, tmp_path)
    middle = {
        "GlobalAveragePool": "QLinearGlobalAveragePool", "ReduceMean": "QLinearGlobalAveragePool",
        "AveragePool": "QLinearAveragePool", "Mul": "QLinearMul", "Add": "QLinearAdd",
    }.get(op, op)  # fmt: skip
    assert operators == ["QLinearConv", middle, "QLinearConv"]
    _close(cpu_plugin, model, feeds, found)
