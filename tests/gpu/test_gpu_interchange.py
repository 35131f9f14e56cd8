"""Arrays of other libraries on a real GPU, and their streams."""

from __future__ import annotations

from typing import Any

import ephost
import numpy as np
import pytest
from onnx import TensorProto, helper


def opened(gpus: list[ephost.OrtEpDevice], **options: str) -> ephost.InferenceSession:
    """A session that multiplies ``x`` by itself and adds it: two kernels."""
    nodes = [helper.make_node("MatMul", ["x", "x"], ["m"]), helper.make_node("Add", ["m", "x"], ["y"])]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "n"]) for name in "xy"]
    graph = helper.make_graph(nodes, "interchange", info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    settings = ephost.SessionOptions()
    settings.add_provider_for_devices(gpus[:1], options)
    settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return ephost.InferenceSession(model.SerializeToString(), settings, enable_fallback=0)


def run_on(session: ephost.InferenceSession, value: ephost.OrtValue, wait: bool = True) -> ephost.OrtValue:
    """A run on a value that is on the GPU; its output stays there."""
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value)
    out = ephost.OrtValue.ortvalue_from_numpy(np.zeros(value.shape(), np.float32), "gpu", 0, 0x10DE)
    binding.bind_ortvalue_output("y", out)
    options = ephost.RunOptions()
    if not wait:
        options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    session.run_with_iobinding(binding, options)
    return out


def check(x: np.ndarray, y: np.ndarray) -> None:
    np.testing.assert_allclose(y, x @ x + x, 1e-4, 1e-3)


def test_arrays_of_cupy_are_taken_and_given_without_a_copy(gpus: list[ephost.OrtEpDevice]) -> None:
    cupy: Any = pytest.importorskip("cupy")
    x = cupy.random.default_rng(0).standard_normal((64, 64), dtype=cupy.float32)
    cupy.cuda.get_current_stream().synchronize()
    for value in (ephost.OrtValue.from_dlpack(x), ephost.OrtValue.from_cuda_array_interface(x)):
        assert value.data_ptr() == x.data.ptr
        out = run_on(opened(gpus), value)
        for back in (cupy.from_dlpack(out), cupy.asarray(out)):
            assert back.data.ptr == out.data_ptr()
            check(cupy.asnumpy(x), cupy.asnumpy(back))


def test_tensors_of_torch_are_taken_and_given_without_a_copy(gpus: list[ephost.OrtEpDevice]) -> None:
    torch: Any = pytest.importorskip("torch")
    x = torch.randn(64, 64, device="cuda")
    torch.cuda.synchronize()
    value = ephost.OrtValue.from_dlpack(x)
    assert value.data_ptr() == x.data_ptr()
    back = torch.from_dlpack(run_on(opened(gpus), value))
    check(x.cpu().numpy(), back.cpu().numpy())


def test_work_goes_on_the_stream_that_it_is_told(gpus: list[ephost.OrtEpDevice]) -> None:
    """Before and after a run that nobody waits for, the stream has work of torch's that it depends on."""
    torch: Any = pytest.importorskip("torch")
    stream = torch.cuda.Stream()
    session = opened(gpus, user_compute_stream=str(stream.cuda_stream))
    x = torch.zeros(512, 512, device="cuda")
    value = ephost.OrtValue.from_dlpack(x)
    run_on(session, value)
    for _ in range(5):
        with torch.cuda.stream(stream):
            slow = torch.randn(4096, 4096, device="cuda")
            for _ in range(10):
                slow = (slow @ slow) * 1e-3
            x.copy_(torch.randn(512, 512, device="cuda") + slow[:512, :512].clamp(0, 0))
            out = run_on(session, value, wait=False)
            y = torch.from_dlpack(out) + 0
        stream.synchronize()
        check(x.cpu().numpy(), y.cpu().numpy())
