"""Arrays of other libraries on NVIDIA's GPUs: the memory of plugins/cuda on the make-believe driver.

None of this ran on a GPU.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from cuda_harness import PLUGIN, run_on_fake

pytestmark = [
    pytest.mark.skipif(not PLUGIN.exists(), reason="plugins/cuda is not built: there is no nvcc"),
    pytest.mark.in_process("values on its device"),
]

FOREIGN = """
class Foreign:
    def __init__(self, array, number):
        self.value = on_gpu(array, number)
class ByCudaArray(Foreign):
    @property
    def __cuda_array_interface__(self): return self.value.__cuda_array_interface__
class ByDlpack(Foreign):
    def __dlpack__(self, **how): return self.value.__dlpack__(**how)
    def __dlpack_device__(self): return self.value.__dlpack_device__()

X = np.arange(6, dtype=np.float32)
devices = opened()
"""


def run(fake_cuda: Path, program: str) -> None:
    done = run_on_fake(fake_cuda, FOREIGN + program, "devices=2")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_values_on_a_gpu_are_cuda_arrays_and_back(fake_cuda: Path) -> None:
    run(
        fake_cuda,
        """
value = on_gpu(X, 1)
assert value.__dlpack_device__() == (2, 1)
assert value.__cuda_array_interface__["data"] == (value.data_ptr(), False)
back = [
    ephost.OrtValue.from_dlpack(ByDlpack(X, 1)),
    ephost.OrtValue.from_cuda_array_interface(ByCudaArray(X, 1), 1),
    ephost.OrtValue.from_dlpack(value.to_dlpack()),
]
for each in back:
    assert each.device_name() == "cuda" and each.numpy().tolist() == X.tolist()
assert back[2].data_ptr() == value.data_ptr()
del value, back, each
assert not closed(), closed()
""",
    )


def test_pinned_memory_is_the_cpus_too(fake_cuda: Path) -> None:
    run(
        fake_cuda,
        """
info = devices[0].memory_info(ephost.OrtDeviceMemoryType.HOST_ACCESSIBLE)
value = ephost.OrtValue.ortvalue_from_shape_and_type([6], np.float32, memory_info=info)
assert value.__dlpack_device__() == (3, 0)  # CUDA's memory of the host
array = value.numpy()
array[...] = X
assert np.from_dlpack(value).ctypes.data == array.ctypes.data == value.data_ptr()
there = on_gpu(np.zeros(6, np.float32))
ephost.copy_tensors([value], [there])
assert there.numpy().tolist() == X.tolist()
del value, array, there
assert not closed(), closed()
""",
    )
