"""Kernels compiled for several instruction sets."""

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = """
import json, logging, sys
import numpy as np, onnx
from onnx import helper
import ephost
logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(name)s: %(message)s")
ephost.set_default_logger_severity(1)
from ephost.plugins import cpu
ephost.register_execution_provider_library("Isa", cpu.get_library_path())
options = ephost.SessionOptions()
device = next(d for d in ephost.get_ep_devices() if d.ep_name == "Isa")
options.add_provider_for_devices([device], {})
options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
x = np.linspace(-6, 6, 1003, dtype=np.float32).reshape(17, 59)
nodes = [helper.make_node(op, ["x"], [op]) for op in ("Exp", "Tanh", "Erf", "Softplus", "Softmax")]
nodes += [helper.make_node(op, ["x"], [op], axis=1) for op in ("ArgMax", "ArgMin")]
nodes += [helper.make_node("ArgMax", ["x"], ["last"], axis=1, select_last_index=1)]
nodes += [helper.make_node(op, ["x", "axis"], [op]) for op in ("ReduceMax", "ReduceSum")]
nodes.append(helper.make_node("Cast", ["x"], ["half"], to=onnx.TensorProto.FLOAT16))
nodes.append(helper.make_node("Cast", ["half"], ["back"], to=onnx.TensorProto.FLOAT))
random = np.random.default_rng(0)
constants = {
    "scale": np.float32(0.05), "zero": np.uint8(120), "shape": np.int64([1, 59, 17, 1]),
    "w": random.integers(-127, 128, (59, 1, 3, 1)).astype(np.int8),
    "w_scale": random.random(59).astype(np.float32) / 99, "w_zero": np.zeros(59, np.int8),
    "step": np.float32(0.03), "axis": np.int64([1]),
}
# Products of matrices: of bytes, with the largest weights there are, of bytes that the sums of need more
# bits than that, and of four and of eight bits.
constants |= {
    "matrix": random.choice(np.int8([-128, -127, -1, 0, 3, 127, 127]), (59, 37)),
    "unsigned": random.integers(0, 256, (59, 37)).astype(np.uint8),
    "row_zeros": random.integers(0, 256, 37).astype(np.uint8),
    "codes4": random.integers(0, 256, (37, 4, 8)).astype(np.uint8),
    "codes8": random.integers(0, 256, (37, 4, 16)).astype(np.uint8),
    "code_scales": random.random((37, 4)).astype(np.float32) / 9,
}
for name, bits in (("four", 4), ("eight", 8)):
    nodes.append(helper.make_node("MatMulNBits", ["x", f"codes{bits}", "code_scales"], [name], K=59, N=37,
                                  domain="com.microsoft", bits=bits, block_size=16, accuracy_level=4))
nodes += [
    helper.make_node("MatMulInteger", ["bytes", "matrix", "zero"], ["signed_product"]),
    helper.make_node("MatMulInteger", ["bytes", "unsigned", "zero", "row_zeros"], ["unsigned_product"]),
    helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["bytes"]),
    helper.make_node("Reshape", ["bytes", "shape"], ["image"]),
    helper.make_node("QLinearConv", ["image", "scale", "zero", "w", "w_scale", "w_zero", "scale", "zero"],
                     ["filtered"], group=59, pads=[1, 0, 1, 0]),
    helper.make_node("MaxPool", ["filtered"], ["largest"], kernel_shape=[3, 1], pads=[1, 0, 1, 0]),
    helper.make_node("QLinearAdd", ["image", "scale", "zero", "largest", "step", "zero", "scale", "zero"],
                     ["sum"], domain="com.microsoft"),
    helper.make_node("Reshape", ["x", "plane"], ["pixels"]),
    helper.make_node("ConvTranspose", ["pixels", "taps"], ["enlarged"], strides=[2, 2]),
    helper.make_node("Resize", ["pixels", "none", "none", "sizes"], ["shrunk"], mode="linear", antialias=1),
]
constants |= {
    "plane": np.int64([1, 1, 17, 59]), "taps": random.random((1, 3, 3, 4)).astype(np.float32),
    "none": np.zeros(0, np.float32), "sizes": np.int64([1, 1, 4, 59]),
}
graph = helper.make_graph(
    nodes, "g", [helper.make_tensor_value_info("x", 1, x.shape)],
    [helper.make_tensor_value_info(name, 1, None)
     for name in ("Exp", "Tanh", "Erf", "Softplus", "Softmax", "back", "ReduceMax", "ReduceSum")]
    + [helper.make_tensor_value_info(name, 1, None) for name in ("enlarged", "shrunk", "four", "eight")]
    + [helper.make_tensor_value_info(name, 7, None) for name in ("ArgMax", "ArgMin", "last")]
    + [helper.make_tensor_value_info(name, 6, None) for name in ("signed_product", "unsigned_product")]
    + [helper.make_tensor_value_info("sum", 2, None)],
    [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()])
opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
session = ephost.InferenceSession(onnx.shape_inference.infer_shapes(model).SerializeToString(), options)
groups = session.get_provider_graph_assignment_info()
assert {group.ep_name for group in groups} == {"Isa"}
assert sum(len(group.get_nodes()) for group in groups) > 15
print(json.dumps([y.ravel().tolist() for y in session.run(None, {"x": x})]))
"""
# Places of outputs: of sums of a few numbers, which may cancel out; of float32 products whose elements are
# rounded to bytes first, some to the next one where the processor rounds a product and a sum at once; and of
# integers, which are exact.
SUMS, ROUNDED, EXACT = slice(7, 10), slice(10, 12), slice(12, None)


def outputs(isa: str | None, most: str | None = None, before: str = "", **variables: str) -> list[np.ndarray]:
    """What the script prints with an instruction set asked for.

    `most`: the best one that is to be taken. A plugin that is built without it takes the best lower one.
    """
    environment = {key: value for key, value in os.environ.items() if key != "EPHOST_CPU_ISA"} | variables
    if isa is not None:
        environment["EPHOST_CPU_ISA"] = isa
    run = subprocess.run(
        [sys.executable, "-c", before + SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    said = re.search(
        r"^ephost\.plugin\.Isa: kernels are those for (\S+) \(built for (.+)\)$", run.stderr, re.MULTILINE
    )
    assert said is not None, run.stderr
    taken, built = said[1], said[2].split(", ")
    assert most is None or taken == (most if most in built else [name for name in built if name < most][-1])
    return [np.float32(values) for values in json.loads(run.stdout.splitlines()[-1])]


@pytest.fixture(scope="module")
def best() -> list[np.ndarray]:
    return outputs(None)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="one instruction set only")
@pytest.mark.parametrize("isa", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_a_lower_instruction_set_can_be_asked_for_and_agrees_with_the_best(
    isa: str, best: list[np.ndarray]
) -> None:
    cpuinfo = Path("/proc/cpuinfo")
    flags = cpuinfo.read_text() if cpuinfo.exists() else ""
    needs = {"x86-64-v3": (" fma ", " avx2 "), "x86-64-v4": (" avx512vl ", " avx512bw ")}.get(isa, ())
    lower = outputs(isa, most=isa if all(flag in flags for flag in needs) else None)
    for a, b in zip(best[: SUMS.start], lower[: SUMS.start], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-7)
    for a, b in zip(best[SUMS], lower[SUMS], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=5e-6)
    for a, b in zip(best[ROUNDED], lower[ROUNDED], strict=True):
        np.testing.assert_allclose(a, b, atol=2)  # a byte is up to 1.3
    for a, b in zip(best[EXACT], lower[EXACT], strict=True):
        assert np.array_equal(a, b)
    assert len(np.unique(best[-1])) > 100
    if isa == "x86-64" and " fma " in flags and " avx2 " in flags:
        # Products and sums in one rounding, or two: some last bits differ, so both sets were really used.
        assert any((a != b).any() for a, b in zip(best, lower, strict=True))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="one instruction set only")
def test_a_name_that_is_no_instruction_sets_is_said_and_the_best_one_taken(best: list[np.ndarray]) -> None:
    environment = os.environ | {"EPHOST_CPU_ISA": "x86-64-v9"}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    assert "EPHOST_CPU_ISA: 'x86-64-v9' is no instruction set that is known here" in run.stderr
    found = [np.float32(values) for values in json.loads(run.stdout.splitlines()[-1])]
    for a, b in zip(found, best, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="one instruction set only")
def test_a_program_can_ask_for_one_before_it_registers_the_plugin() -> None:
    asked = outputs(None, before="import os\nos.environ['EPHOST_CPU_ISA'] = 'x86-64'\n")
    lowest = outputs("x86-64")
    for a, b in zip(asked, lowest, strict=True):
        np.testing.assert_array_equal(a, b)


def same_bits(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


@pytest.mark.skipif(platform.machine() != "aarch64", reason="instruction sets of aarch64")
@pytest.mark.parametrize("isa", ["armv8-a", "armv8.2-a+dotprod"])
def test_a_lower_instruction_set_of_aarch64_gives_the_same_bits(isa: str, best: list[np.ndarray]) -> None:
    is_there = isa == "armv8-a" or os.environ.get("QEMU_CPU") == "max"
    same_bits(outputs(isa, most=isa if is_there else None), best)


@pytest.mark.skipif("QEMU_CPU" not in os.environ, reason="not under qemu, which can be any processor")
@pytest.mark.parametrize(
    ("processor", "isa"),
    [("cortex-a53", "armv8-a"), ("neoverse-n1", "armv8.2-a+dotprod"), ("max", "armv8.2-a+dotprod+i8mm")],
)
def test_a_processor_gets_the_best_instruction_set_that_it_has_and_the_same_bits(
    processor: str, isa: str, best: list[np.ndarray]
) -> None:
    """cortex-a53 has neither dotprod nor i8mm, and ends a process that uses them; neoverse-n1 has dotprod."""
    same_bits(outputs(None, most=isa, QEMU_CPU=processor), best)
