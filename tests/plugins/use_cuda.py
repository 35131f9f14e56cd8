"""What programs on plugins/cuda share: see cuda_harness.run_with."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Sequence
from typing import Any

import ephost
import numpy as np
import onnx
from ephost.errors import OnnxRuntimeException
from ephost.plugins import cuda
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

__all__ = [
    "OnnxRuntimeException",
    "ReferenceEvaluator",
    "TensorProto",
    "check",
    "closed",
    "counts",
    "device_count",
    "ephost",
    "fake",
    "fakes",
    "gc",
    "helper",
    "launches",
    "model_of",
    "node",
    "np",
    "numpy_helper",
    "on_gpu",
    "onnx",
    "opened",
    "session_on",
    "why_none",
]

if os.path.exists(os.environ.get("EPHOST_CUDA_LIBRARY", "")):
    _driver = ctypes.CDLL(os.environ["EPHOST_CUDA_LIBRARY"])
    _driver.cuda_report.restype = ctypes.c_char_p


# Whether the driver is the make-believe one.
fakes = "libfake_cuda" in os.environ.get("EPHOST_CUDA_LIBRARY", "")


def fake(text: str) -> None:
    """Changes how the make-believe driver behaves: see fake_cuda.cc."""
    _driver.fake_cuda_set(text.encode())


def counts() -> dict[str, int]:
    """What exists on the driver, and how often each of its functions was called."""
    pairs = (word.split("=") for word in _driver.cuda_report().decode().split())
    return {name: int(number) for name, number in pairs if name != "launch"}


def launches() -> list[str]:
    """The kernels that were launched, in order."""
    words = _driver.cuda_report().decode().split()
    return [word.removeprefix("launch=") for word in words if word.startswith("launch=")]


def opened() -> list[ephost.OrtEpDevice]:
    """Registers the plugin and gives its devices."""
    ephost.register_execution_provider_library("cuda", cuda.get_library_path())
    return [device for device in ephost.get_ep_devices() if device.ep_name == "cuda"]


def why_none() -> str:
    """What the plugin says of devices that it does not offer."""
    ask = ephost.get_hardware_device_ep_incompatibility_details
    notes = (ask("cuda", hardware)["notes"] for hardware in ephost.get_hardware_devices())
    return "; ".join(sorted({note for note in notes if note}))


def closed() -> dict[str, int]:
    """Unregisters the plugin and gives what then still exists on the driver: nothing, if all is well."""
    gc.collect()
    ephost.unregister_execution_provider_library("cuda")
    kinds = ("blocks", "streams", "events", "pinned", "contexts")
    return {kind: counts()[kind] for kind in kinds if counts()[kind]}


def device_count() -> int:
    """How many devices the plugin offers."""
    return sum(device.ep_name == "cuda" for device in ephost.get_ep_devices())


def on_gpu(array: np.ndarray, number: int = 0) -> ephost.OrtValue:
    """A copy of an array in a GPU's memory."""
    return ephost.OrtValue.ortvalue_from_numpy(array, "gpu", number, 0x10DE)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, tuple[int, Sequence[Any]]],
    outputs: Sequence[str],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 22,
) -> bytes:
    """A model; inputs have an element type and a shape, outputs what shape inference finds."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=False)
    types = {info.name: info.type for info in inferred.graph.output}
    for output in model.graph.output:
        output.type.CopyFrom(types[output.name])
    return model.SerializeToString()


def session_on(
    devices: Sequence[ephost.OrtEpDevice], model: bytes, only_gpu: bool = True, **options: str
) -> ephost.InferenceSession:
    """A session on the devices, in which nothing may run elsewhere unless ``only_gpu`` is False."""
    settings = ephost.SessionOptions()
    for device in devices:
        settings.add_provider_for_devices([device], options)
    if only_gpu:
        settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    settings.graph_optimization_level = ephost.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ephost.InferenceSession(model, settings, enable_fallback=0)


node = helper.make_node


def check(
    nodes: Sequence[onnx.NodeProto] | onnx.NodeProto,
    feeds: dict[str, np.ndarray],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 22,
    tolerance: float = 1e-5,
    open_shapes: bool = False,
    by_cpu: bool = False,
    **options: str,
) -> list[np.ndarray]:
    """Runs nodes on the first GPU and on the reference implementation, and compares all their outputs.

    ``by_cpu``: the CPU plugin takes the latter's place (``EPHOST_CPU_PLUGIN`` is 1), where that is wrong or
    rounds in a way of its own.
    """
    listed = [nodes] if isinstance(nodes, onnx.NodeProto) else list(nodes)
    used = {name for n in listed for name in n.input}
    outputs = [name for n in listed for name in n.output if name and name not in used]
    inputs = {
        name: (
            helper.np_dtype_to_tensor_dtype(array.dtype),
            [f"{name}{i}" for i in range(array.ndim)] if open_shapes else array.shape,
        )
        for name, array in feeds.items()
    }
    model = model_of(listed, inputs, outputs, weights, opset)
    devices = [device for device in ephost.get_ep_devices() if device.ep_name == "cuda"]
    session = session_on((devices or opened())[:1], model, **options)
    assert {group.ep_name for group in session.get_provider_graph_assignment_info()} == {"cuda"}
    got = session.run(None, feeds)
    wide = {k: v.astype(np.float32) if v.dtype == np.float16 else v for k, v in feeds.items()}
    if wide is not feeds and any(v.dtype == np.float16 for v in feeds.values()):
        cast = {k: v.astype(np.float32) if v.dtype == np.float16 else v for k, v in (weights or {}).items()}
        types = {
            name: (helper.np_dtype_to_tensor_dtype(wide[name].dtype), s) for name, (_, s) in inputs.items()
        }
        model = model_of(listed, types, outputs, cast, opset)
    if by_cpu:
        expected = ephost.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, wide)
    else:
        expected = ReferenceEvaluator(onnx.load_from_string(model)).run(None, wide)
    for name, a, b in zip(outputs, got, expected, strict=True):
        assert a.shape == b.shape, (name, a.shape, b.shape)
        np.testing.assert_allclose(
            a.astype(np.float64), b.astype(np.float64), tolerance, tolerance, err_msg=name
        )
    return got
