"""The CPU plugin on single nodes and small graphs, beside the reference implementation and onnxruntime."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from ephost.plugins import cpu
from onnx import helper
from onnx.reference import ReferenceEvaluator

NAME = "CpuUnderTest"


# Whether the plugin is built with oneDNN; what takes a convolution that no special method fits.
WITH_ONEDNN = Path(cpu.get_library_path()).with_name("libcpu_onednn.so").exists()
GENERAL_METHOD = "onednn" if WITH_ONEDNN else "matrices"


def has_vnni() -> bool:
    """Whether the plugin takes AVX-512 VNNI's instructions."""
    cpuinfo = Path("/proc/cpuinfo")
    best = os.environ.get("EPHOST_CPU_ISA", "") in ("", "x86-64-v4-vnni")
    return best and cpuinfo.exists() and " avx512_vnni" in cpuinfo.read_text()


# How products of bytes are multiplied of which both factors come with the run: as bytes where the instruction
# holds all sums.
FORM_OF_FED_BYTES = "bytes" if has_vnni() or platform.machine() == "aarch64" else "16-bit"


def make_model(
    nodes: Sequence[onnx.NodeProto],
    feeds: dict[str, np.ndarray],
    outputs: Sequence[str],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 21,
    open_shapes: bool = False,
    ml: int = 4,
) -> onnx.ModelProto:
    """A model of these nodes; inputs have the feeds' types, and their shapes unless those are left open.

    `ml` is the opset of ai.onnx.ml.
    """
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [
            helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(value.dtype),
                [f"{name}{i}" for i in range(value.ndim)] if open_shapes else value.shape,
            )
            for name, value in feeds.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [onnx.numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    opsets = [
        helper.make_opsetid("", opset),
        helper.make_opsetid("com.microsoft", 1),
        helper.make_opsetid("ai.onnx.ml", ml),
    ]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


def assert_close(
    found: np.ndarray, expected: np.ndarray, rtol: float | None, atol: float | None, name: str
) -> None:
    """Equal in type, in shape, and in value within the tolerances, as numpy's `assert_allclose` takes them.

    What is not floating-point must be exactly equal unless a tolerance is given. For the rest `rtol` is 1e-5
    unless it is given, and `atol` a millionth (eight units in the last place) of the largest element, or of
    one: where larger numbers cancelled, what is left is as far off as they were rounded, however small.
    """
    assert found.dtype == expected.dtype, name
    assert found.shape == expected.shape, name
    if expected.dtype == object or (not _is_floating(expected.dtype) and rtol is None and atol is None):
        np.testing.assert_array_equal(found, expected, err_msg=name)
        return
    a, b = found.astype(np.float64), expected.astype(np.float64)
    if atol is None:
        atol = 1e-6 * np.abs(b, where=np.isfinite(b), out=np.zeros_like(b)).max(initial=1)
    np.testing.assert_allclose(a, b, rtol=1e-5 if rtol is None else rtol, atol=atol, err_msg=name)


def _is_floating(dtype: np.dtype) -> bool:
    return np.issubdtype(dtype, np.floating) or dtype.name.startswith(("bfloat", "float"))


class Cpu:
    """Runs models on the CPU plugin alone: a node that it does not take is an error."""

    def __init__(self, device: ephost.OrtEpDevice):
        self.device = device

    def session(self, model: onnx.ModelProto | Path, **options: object) -> ephost.InferenceSession:
        session_options = ephost.SessionOptions()
        session_options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        session_options.graph_optimization_level = ephost.GraphOptimizationLevel.ORT_DISABLE_ALL
        session_options.add_provider_for_devices([self.device], {k: str(v) for k, v in options.items()})
        given = model if isinstance(model, Path) else model.SerializeToString()
        return ephost.InferenceSession(given, session_options)

    def run(
        self, model: onnx.ModelProto, feeds: dict[str, np.ndarray], **options: object
    ) -> list[np.ndarray]:
        return self.session(model, **options).run(None, feeds)

    def check_beside_onnxruntime(
        self,
        nodes: Sequence[onnx.NodeProto] | onnx.NodeProto,
        feeds: dict[str, np.ndarray],
        outputs: Sequence[str] = ("y",),
        constants: dict[str, np.ndarray] | None = None,
        opset: int = 21,
        rtol: float | None = None,
        atol: float | None = None,
        ml: int = 4,
        **options: object,
    ) -> None:
        """Like `check`, for what the reference implementation gets wrong or takes too long for."""
        onnxruntime = pytest.importorskip("onnxruntime")
        listed = [nodes] if isinstance(nodes, onnx.NodeProto) else list(nodes)
        for open_shapes in (False, True):
            model = make_model(listed, feeds, outputs, constants, opset, open_shapes, ml)
            other = onnxruntime.InferenceSession(
                model.SerializeToString(), providers=["CPUExecutionProvider"]
            )
            expected = other.run(None, feeds)
            for name, a, b in zip(outputs, self.run(model, feeds, **options), expected, strict=True):
                assert_close(a, b, rtol, atol, name)

    def check(
        self,
        nodes: Sequence[onnx.NodeProto] | onnx.NodeProto,
        feeds: dict[str, np.ndarray],
        outputs: Sequence[str] = ("y",),
        constants: dict[str, np.ndarray] | None = None,
        opset: int = 21,
        rtol: float | None = None,
        atol: float | None = None,
        **options: object,
    ) -> list[np.ndarray]:
        """Compares with the reference implementation, with given and with open shapes; returns outputs.

        `assert_close` says what the tolerances are.
        """
        listed = [nodes] if isinstance(nodes, onnx.NodeProto) else list(nodes)
        for open_shapes in (False, True):
            model = make_model(listed, feeds, outputs, constants, opset, open_shapes)
            expected = ReferenceEvaluator(model).run(None, feeds)
            found = self.run(model, feeds, **options)
            for name, a, b in zip(outputs, found, expected, strict=True):
                assert_close(a, b, rtol, atol, name)
        return found


def traced(
    cpu: Cpu, model: onnx.ModelProto, feeds: dict[str, np.ndarray], folder: Path
) -> list[dict[str, str]]:
    """What the trace of a run tells of each operator that it executes: ``op_name``, ``method``, ..."""
    options = ephost.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "steps")
    options.graph_optimization_level = ephost.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_provider_for_devices([cpu.device], {})
    session = ephost.InferenceSession(model.SerializeToString(), options)
    session.run(None, feeds)
    trace = json.loads(Path(session.end_profiling()).read_text())
    return [event["args"] for event in trace if event.get("cat") == "Kernel"]


def steps_of(cpu: Cpu, model: onnx.ModelProto, feeds: dict[str, np.ndarray], folder: Path) -> list[str]:
    """The operators that one run executes."""
    return [args["op_name"] for args in traced(cpu, model, feeds, folder)]


GROWTH = """
import json
import sys

import ephost
import numpy as np
import psutil
from ephost.plugins import cpu

given = json.loads(sys.argv[1])
ephost.register_execution_provider_library("cpu", cpu.get_library_path())
options = ephost.SessionOptions()
options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
device = next(device for device in ephost.get_ep_devices() if device.ep_name == "cpu")
options.add_provider_for_devices([device], given["options"])
session = ephost.InferenceSession(given["model"], options)
random = np.random.default_rng(0)
fills = {"ones": lambda shape: np.ones(shape, np.float32), "random": random.standard_normal}


def resident():
    return psutil.Process().memory_info().rss


before = resident()
for at, shape in enumerate(given["shapes"]):
    if at == given["warm"]:
        before = resident()
    session.run(None, {"x": fills[given["fill"]](shape).astype(np.float32)})
print(resident() - before)
"""


def growth_of_runs(
    model: onnx.ModelProto,
    shapes: Sequence[Sequence[int]],
    folder: Path,
    warm: int = 0,
    fill: str = "ones",
    **options: object,
) -> int:
    """Bytes by which a process of its own grows in runs with these shapes of `x`, those before `warm` apart.

    In a process that ran other tests it is chance whether memory that they left is taken again. `fill` is
    ones or random; `options` are the plugin's.
    """
    onnx.save(model, folder / "model.onnx")
    given = {
        "model": str(folder / "model.onnx"),
        "shapes": [list(shape) for shape in shapes],
        "warm": warm,
        "fill": fill,
        "options": {key: str(value) for key, value in options.items()},
    }
    command = [sys.executable, "-c", GROWTH, json.dumps(given)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout)


@pytest.fixture(scope="module")
def cpu_plugin() -> Iterator[Cpu]:
    """The plugin, registered under a name of the tests' own."""
    ephost.register_execution_provider_library(NAME, cpu.get_library_path())
    yield Cpu(next(device for device in ephost.get_ep_devices() if device.ep_name == NAME))
    ephost.unregister_execution_provider_library(NAME)
