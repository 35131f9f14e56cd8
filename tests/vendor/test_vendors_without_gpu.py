"""Plugins for NVIDIA's GPUs on a machine without one say what is missing, and do no harm.

Their packages are large and are installed by hand: ``pip install --no-deps nxrt-ep-cuda
onnxruntime-ep-nv-tensorrt-rtx-cu13``.
"""

from __future__ import annotations

import ctypes.util
import importlib.util
from pathlib import Path

import ephost
import pytest


def library_or_skip(module: str, name: str) -> str:
    """The plugin's library, where the package is installed and there is no driver."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{module} is not installed")
    if ctypes.util.find_library("cuda"):
        pytest.skip("there is a CUDA driver on this machine")
    return str(Path(spec.submodule_search_locations[0]) / name)


@pytest.mark.parametrize(
    ("module", "library"),
    [
        ("nxrt_ep_cuda", "libonnx_runtime_ep_cuda_plugin.so"),
        ("onnxruntime_ep_nv_tensorrt_rtx", "libonnxruntime_providers_nv_tensorrt_rtx.so"),
    ],
)
def test_without_a_driver_the_error_names_it(module: str, library: str) -> None:
    path = library_or_skip(module, library)
    before = [device.ep_name for device in ephost.get_ep_devices()]
    for _ in range(2):  # a failure leaves nothing behind that a second attempt would meet
        with pytest.raises(ephost.errors.Fail, match=r"libcuda\.so\.1") as failure:
            ephost.register_execution_provider_library("gpu", path)
        assert path in str(failure.value)
    assert [device.ep_name for device in ephost.get_ep_devices()] == before
