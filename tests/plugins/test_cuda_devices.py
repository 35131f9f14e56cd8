"""plugins/cuda without a GPU: what it says where it cannot run, and its memory, copies and streams on the
make-believe driver of tests/plugins/fake_cuda. None of this ran on a GPU.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cuda_harness import PLUGIN, gpu, run_on_fake
from plugin_harness import ROOT

Run = Callable[..., str]
pytestmark = [
    pytest.mark.skipif(not PLUGIN.exists(), reason="plugins/cuda is not built: there is no nvcc"),
    pytest.mark.in_process("the make-believe driver is asked in this process, and values are on its device"),
]


@pytest.fixture
def run(fake_cuda: Path) -> Run:
    """Runs a program that must not fail; gives what it printed."""

    def program(text: str, machine: str = "", **env: str) -> str:
        done = run_on_fake(fake_cuda, text, machine, **env)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return program


def devices_command(fake_cuda: Path, machine: str, **env: str) -> str:
    program = (
        "import sys; from ephost.cli import main\nsys.argv = ['ephost', 'devices', '--ep', 'cuda']\nmain()"
    )
    done = run_on_fake(fake_cuda, program, machine, **env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("host", ["ephost", "onnxruntime"])
def test_it_registers_where_there_is_no_driver(host: str, tmp_path: Path) -> None:
    pytest.importorskip(host)
    program = (
        f"import {host} as host\n"
        f"host.register_execution_provider_library('cuda', {str(PLUGIN)!r})\n"
        "assert not [d for d in host.get_ep_devices() if d.ep_name == 'cuda']\n"
        "host.unregister_execution_provider_library('cuda')\n"
    )
    env = {"EPHOST_CUDA_LIBRARY": str(tmp_path / "absent.so"), "PYTHONPATH": str(ROOT / "host")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


def test_it_is_linked_to_nothing_of_nvidias() -> None:
    linked = subprocess.run(["ldd", str(PLUGIN)], capture_output=True, text=True).stdout
    assert "libc.so" in linked
    assert not any(name in linked for name in ("libcuda.", "libcudart", "libcublas", "libcudnn", "libnvrtc"))


REASONS = {
    "version=12040": ("too old: it is for CUDA 12.4, and 13.0 or newer is needed", "driver incompatible"),
    "init=100": ("the NVIDIA driver shows no device", "device incompatible"),
    "devices=0": ("the NVIDIA driver shows no device", "device incompatible"),
    "init=803": ("cannot be initialised: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "driver incompatible"),
    "capability=61": ("compute capability 6.1, and 7.5 or higher is needed", "device incompatible"),
}


@pytest.mark.parametrize("machine", REASONS)
def test_the_devices_command_says_why_there_is_none(machine: str, fake_cuda: Path) -> None:
    said = devices_command(fake_cuda, machine)
    assert "cuda offers no device" in said
    line = next(line for line in said.splitlines() if line.strip().startswith("GPU NVIDIA:"))
    assert all(text in line for text in REASONS[machine]), line


def test_the_devices_command_names_a_driver_that_is_missing(fake_cuda: Path) -> None:
    said = devices_command(fake_cuda, "", EPHOST_CUDA_LIBRARY="/nowhere/libcuda.so.1")
    assert "there is no NVIDIA driver: /nowhere/libcuda.so.1: cannot open" in said
    assert "missing dependency" in said
    shown = devices_command(fake_cuda, "init=100", CUDA_VISIBLE_DEVICES="7")
    assert "CUDA_VISIBLE_DEVICES is '7'" in shown


def test_a_gpu_that_is_too_old_is_refused_beside_one_that_is_not(fake_cuda: Path) -> None:
    said = devices_command(fake_cuda, "devices=2 capability=90,61")
    assert "name=Fake GPU A" in said and "name=Fake GPU B" not in said
    assert "cuda does not offer\n  GPU NVIDIA: GPU 1 (Fake GPU B) has compute capability 6.1" in said


def test_devices_are_matched_by_their_place_on_the_bus(run: Run, fake_cuda: Path) -> None:
    program = "print([(d.ep_metadata['name'], d.device.metadata['pci_bus_id']) for d in opened()])"
    reordered = [gpu("0000:1B:00.0"), gpu("00000000:1a:00.0"), gpu("0000:65:00.0")]
    done = run_on_fake(fake_cuda, program, "devices=2", [{"type": "CPU"}, *reordered])
    assert done.stdout.strip() == str([("Fake GPU B", "0000:1B:00.0"), ("Fake GPU A", "00000000:1a:00.0")])


def test_metadata_describe_the_gpu(run: Run) -> None:
    said = run("print(dict(opened()[0].ep_metadata))", "memory=512M capability=120")
    for entry in (
        "'compute_capability': '12.0'",
        f"'memory': '{512 << 20}'",
        "'pci_bus_id': '0000:1a:00.0'",
        "'cuda_driver_version': '13.",
        "'uuid': 'GPU-01010101-0101",
    ):
        assert entry in said, said


def test_listing_devices_makes_no_context(run: Run) -> None:
    run("opened(); assert counts()['contexts'] == 0")


def test_values_go_there_and_back_and_leave_nothing(run: Run) -> None:
    run("""
devices = opened()
for dtype in (np.float32, np.float16, np.int64, np.bool_):
    x = (np.arange(1003) % 7).astype(dtype).reshape(17, 59)
    value = on_gpu(x)
    assert np.array_equal(value.numpy(), x)
empty = on_gpu(np.zeros((0, 3), np.float32))
assert empty.numpy().shape == (0, 3)
del value, empty, devices
assert closed() == {}, closed()
""")


def test_a_value_on_a_gpu_cannot_be_read_by_accident(fake_cuda: Path) -> None:
    program = """
import ctypes
opened()
value = on_gpu(np.ones(4, np.float32))
ctypes.cast(value.data_ptr(), ctypes.POINTER(ctypes.c_float))[0]
"""
    assert run_on_fake(fake_cuda, program).returncode == -11  # SIGSEGV


def test_copies_between_gpus_are_ordered(run: Run) -> None:
    run(
        """
devices = opened()
x = np.arange(100, dtype=np.float32)
there = on_gpu(x, 1)
here = on_gpu(np.zeros_like(x), 0)
ephost.copy_tensors([there], [here])
assert np.array_equal(here.numpy(), x)
back = on_gpu(np.zeros_like(x), 1)
stream = devices[1].create_sync_stream()
ephost.copy_tensors([here], [back], stream)
assert np.array_equal(back.numpy(), x)
del there, here, back, stream, devices
assert closed() == {}
""",
        "devices=2",
    )


def test_a_copy_on_a_stream_waits_for_nobody(run: Run) -> None:
    run("""
devices = opened()
x = np.arange(256, dtype=np.float32)
source, target = on_gpu(x), on_gpu(np.zeros_like(x))
stream = devices[0].create_sync_stream()
before = counts()["cuStreamSynchronize"]
ephost.copy_tensors([source], [target], stream)
assert counts()["cuStreamSynchronize"] == before
assert np.array_equal(target.numpy(), x)  # which comes after what is on the stream
""")


def test_a_loop_stays_on_the_gpu(run: Run) -> None:
    """Its state, and what it captures; its condition, which the host reads, does not go there."""
    run("""
from onnx import parser
model = parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
g (int64 n, float[8,8] x) => (float[8,8] y) {
  a = Tanh (x)
  y = Loop (n, "", a) <body = b (int64 i, bool going, float[8,8] v) => (bool on, float[8,8] next) {
    on = Identity (going) m = Mul (v, a) next = Tanh (m) }> }''')
options = ephost.SessionOptions()
options.add_provider_for_devices(opened()[:1], {})
session = ephost.InferenceSession(model.SerializeToString(), options)
x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
a = expected = np.tanh(x)
for _ in range(6):
    expected = np.tanh(expected * a)
for _ in range(2):
    before = counts()
    (y,) = session.run(None, {"n": np.array(6), "x": x})
    after = counts()
    np.testing.assert_allclose(y, expected, rtol=1e-5)
copied = [after[name] - before.get(name, 0) for name in after if "Memcpy" in name]
assert sum(copied) == 2, copied
assert [copy.values for copy in ephost.explain(session).copies] == [("x",), ("y",)]
""")


def test_memory_that_work_uses_is_freed_after_that_work(run: Run) -> None:
    run("""
devices = opened()
x = np.arange(256, dtype=np.float32)
stream = devices[0].create_sync_stream()
target = on_gpu(np.zeros_like(x))
for _ in range(20):
    source = on_gpu(x + 1)
    ephost.copy_tensors([source], [target], stream)
    del source  # the copy is still queued
assert np.array_equal(target.numpy(), x + 1)
del target, stream, devices
assert closed() == {}
""")


def test_a_full_device_is_an_error_that_tells_the_state_of_the_pool(run: Run) -> None:
    said = run(
        """
import logging, sys
logging.basicConfig(format="%(message)s", stream=sys.stdout, force=True)
opened()
held = on_gpu(np.zeros(700_000, np.uint8))
try:
    on_gpu(np.zeros(600_000, np.uint8))
    raise SystemExit("it had room")
except OnnxRuntimeException as error:
    print(error)
assert np.array_equal(held.numpy(), np.zeros(700_000, np.uint8))
del held
assert on_gpu(np.ones(600_000, np.uint8)).numpy().all()  # there is room again
""",
        "memory=1M",
    )
    assert "GPU 0 (Fake GPU A) has no room for 586 KiB: 684 KiB in use, 684 KiB at the most" in said, said
    assert "the device has 340 KiB of 1.0 MiB free" in said, said
    assert "no 600000 bytes of ephost_cuda memory (Limit=1048576, InUse=700416" in said, said


@pytest.mark.parametrize("code", [700, 719])
def test_after_a_device_was_lost_every_call_fails_and_says_so(code: int, run: Run) -> None:
    said = run(f"""
devices = opened()
value = on_gpu(np.ones(4, np.float32))
fake("lose={code}")
for _ in range(2):
    try:
        value.numpy()
        raise SystemExit("it worked")
    except OnnxRuntimeException as error:
        print(error)
try:
    devices[0].create_sync_stream()
    raise SystemExit("it worked")
except OnnxRuntimeException as error:
    print(error)
del value, devices
gc.collect()
ephost.unregister_execution_provider_library("cuda")
""")
    assert said.count("GPU 0 (Fake GPU A) was lost: cannot ") == 2, said


FAILING = ["cuDevicePrimaryCtxRetain", "cuStreamCreate", "cuLibraryLoadData", "cuMemPoolCreate"]


@pytest.mark.parametrize("function", [*FAILING, "cuMemcpyHtoDAsync_v2", "cuMemAllocFromPoolAsync"])
def test_a_call_of_the_driver_that_fails_is_an_error(function: str, run: Run) -> None:
    run(f"""
import logging
logging.disable()
opened()
fake("fail={function}:1")
try:
    on_gpu(np.ones(4, np.float32))
    raise SystemExit("it worked")
except OnnxRuntimeException as error:
    print(error)
gc.collect()
ephost.unregister_execution_provider_library("cuda")
""")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"memory_limit": "much"}, "memory_limit is a number of bytes"),
        ({"cudnn_conv_algo_search": "quick"}, "cudnn_conv_algo_search is EXHAUSTIVE or HEURISTIC"),
        ({"use_tf32": "yes"}, "use_tf32 is 0 or 1"),
        ({"user_compute_stream": "0x10"}, "user_compute_stream is the address"),
        ({"colour": "green"}, "colour"),
    ],
)
def test_an_option_that_is_wrong_is_refused_by_name(options: dict[str, str], text: str, run: Run) -> None:
    said = run(f"""
model = model_of([helper.make_node("Relu", ["x"], ["y"])], {{"x": (TensorProto.FLOAT, [2])}}, ["y"])
try:
    session_on(opened(), model, only_gpu=False, **{options!r})
    raise SystemExit("it was taken")
except Exception as error:
    print(error)
""")
    assert text in said, said
