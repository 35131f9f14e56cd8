"""Values that a program puts on an EP's device itself, and what runs make of them.

tests/plugins/device_plugin is such an EP: its memory is garbage to the CPU, and its kernels refuse any other.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import ephost
import ephost.interchange
import numpy as np
import pytest
from api_models import add_and_relu, model_bytes, tensor
from ephost._bindings import ep_api, lib
from ephost.capi.onnxruntime_pybind11_state import OrtValueVector
from ephost.devices import OrtDevice
from ephost.errors import EPFail, Fail, InvalidArgument, NotImplemented, OnnxRuntimeException
from host_state import is_older
from onnx import helper, numpy_helper
from plugin_harness import build_plugin

from tests.host.conftest import ROOT

pytestmark = pytest.mark.in_process("values on its device")

X = np.array([[1, -5, 2], [0, 1, -1]], np.float32)
Y = np.full((2, 3), 2, np.float32)
OrtValue = ephost.OrtValue


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = ROOT / "tests" / "plugins" / "device_plugin"
    return build_plugin(source, tmp_path_factory.mktemp("device_values"), "-pthread")


@pytest.fixture
def counts(library: Path) -> Iterator[Callable[[], dict[str, int]]]:
    """Registers the plugin as ``device``; what it counted since."""
    tell = ctypes.CDLL(str(library)).device_plugin_counts
    tell.restype = ctypes.c_char_p

    def now() -> dict[str, int]:
        return {name: int(number) for name, number in (e.split("=") for e in tell().decode().split())}

    before = now()
    ephost.register_execution_provider_library("device", str(library))
    yield lambda: {name: number - before[name] for name, number in now().items()}
    gc.collect()
    ephost.unregister_execution_provider_library("device")
    after = {name: number - before[name] for name, number in now().items()}
    for made, released in (("allocators", "allocators_released"), ("transfers", "transfers_released")):
        assert after[made] == after[released]
    assert after["blocks"] == after["blocks_freed"]
    assert after["streams"] == after["streams_released"]


def number() -> int:
    """Which of its devices the plugin means: another one each time that it is registered."""
    info = ephost.get_ep_devices()[0].memory_info(ephost.OrtDeviceMemoryType.DEFAULT)
    return info.device_id


def raw(value: ephost.OrtValue) -> bytes:
    return ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())


def inverted(array: np.ndarray) -> bytes:
    return bytes(~byte & 0xFF for byte in array.tobytes())


def add_and_multiply() -> ephost.InferenceSession:
    """s = x + y, p = s * y: both on the device."""
    nodes = [helper.make_node("Add", ["x", "y"], ["s"]), helper.make_node("Mul", ["s", "y"], ["p"])]
    floats = [tensor(name, 2, 3) for name in "xysp"]
    session = ephost.InferenceSession(model_bytes(nodes, floats[:2], floats[2:]), providers=["device"])
    assert session.get_providers()[0] == "device"
    return session


# ---- values ----


def test_a_value_made_on_a_device_is_there_and_comes_back(counts: Callable[[], dict[str, int]]) -> None:
    value = OrtValue.ortvalue_from_numpy(X, "gpu", number())
    assert (value.device_name(), value.memory_name()) == ("cuda", "make_believe")  # as in onnxruntime
    assert raw(value) == inverted(X)
    assert value.numpy().tolist() == X.tolist()
    assert np.asarray(value).tolist() == X.tolist()
    assert counts()["uploads"] == 1


def test_a_value_is_made_on_a_device_by_its_memory_info(counts: Callable[[], dict[str, int]]) -> None:
    (device,) = ephost.get_ep_devices()
    info = device.memory_info(ephost.OrtDeviceMemoryType.DEFAULT)
    for kind in (np.float32, 1):
        value = OrtValue.ortvalue_from_shape_and_type([2, 3], kind, memory_info=info)
        value.update_inplace(X)
        assert (raw(value), value.shape(), value.element_type()) == (inverted(X), [2, 3], 1)
    empty = OrtValue.ortvalue_from_numpy(
        np.empty((0, 3), np.int64), "gpu", info.device_id, info.device_vendor_id
    )
    assert empty.numpy().shape == (0, 3)


def test_a_memory_info_outlives_its_plugin(library: Path) -> None:
    ephost.register_execution_provider_library("gone", str(library))
    (device,) = ephost.get_ep_devices()
    info = device.memory_info(ephost.OrtDeviceMemoryType.DEFAULT)
    ephost.unregister_execution_provider_library("gone")
    assert info.name == "make_believe"
    with pytest.raises(InvalidArgument, match="not registered any more"):
        device.memory_info(ephost.OrtDeviceMemoryType.DEFAULT)


@pytest.mark.usefixtures("counts")
def test_tensors_are_copied_between_any_two_places() -> None:
    here = OrtValue.ortvalue_from_numpy(X)
    there, other = (OrtValue.ortvalue_from_numpy(Y, "gpu", number()) for _ in range(2))
    back = OrtValue.ortvalue_from_numpy(np.zeros_like(X))
    ephost.copy_tensors([here], [there])
    ephost.copy_tensors([there], [other])
    ephost.copy_tensors([other], [back])
    assert (raw(there), raw(other)) == (inverted(X), inverted(X))
    assert back.numpy().tolist() == X.tolist()
    with pytest.raises(InvalidArgument, match=r"shape \[2, 3\].*shape \[3, 2\]"):
        ephost.copy_tensors([OrtValue.ortvalue_from_numpy(X.reshape(3, 2))], [there])


@pytest.mark.usefixtures("counts")
def test_what_a_device_cannot_hold_is_refused() -> None:
    with pytest.raises(NotImplemented, match="id=333"):
        OrtValue.ortvalue_from_numpy(X, "gpu", 333)
    with pytest.raises(NotImplemented, match="vendor=0x10de"):
        OrtValue.ortvalue_from_numpy(X, "cuda")
    with pytest.raises(InvalidArgument, match="strings"):
        OrtValue.ortvalue_from_numpy(np.array(["a"], dtype=object), "gpu", number())


def test_a_library_stays_registered_while_a_value_is_on_its_device(
    counts: Callable[[], dict[str, int]],
) -> None:
    value = OrtValue.ortvalue_from_numpy(X, "gpu", number())
    again = OrtValue(value)
    del value
    with pytest.raises(Fail, match="values or streams on its devices"):
        ephost.unregister_execution_provider_library("device")
    assert again.numpy().tolist() == X.tolist()
    assert counts()["blocks"] - counts()["blocks_freed"] == 1


def test_copies_on_a_stream_are_done_when_it_was_waited_for(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVICE_PLUGIN", "streams")
    ephost.register_execution_provider_library("device", str(library))
    stream = ephost.get_ep_devices()[0].create_sync_stream()
    assert isinstance(stream.get_handle(), int)
    value = OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32, "gpu", number())
    ephost.copy_tensors([OrtValue.ortvalue_from_numpy(X)], [value], stream)
    with pytest.raises(Fail, match="streams on its devices"):
        ephost.unregister_execution_provider_library("device")
    del value, stream
    ephost.unregister_execution_provider_library("device")


def test_a_stream_knows_nothing_of_another_one_that_it_did_not_wait_for(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plugin's arena asks this before it gives one stream what another one has freed."""
    monkeypatch.setenv("DEVICE_PLUGIN", "streams")
    ephost.register_execution_provider_library("device", str(library))
    producer, consumer = (ephost.get_ep_devices()[0].create_sync_stream() for _ in range(2))
    before = ep_api.SyncStream_GetSyncId(producer._pointer)
    producer.synchronize()
    assert ep_api.SyncStream_GetSyncId(producer._pointer) > before
    for streams in ((producer, consumer), (consumer, producer)):
        assert ep_api.GetSyncIdForLastWaitOnSyncStream(*(stream._pointer for stream in streams)) == 0
    del producer, consumer, streams
    ephost.unregister_execution_provider_library("device")


NAMED = r"the execution provider device \(device\)"


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("no_release", "has CreateAllocator, but no ReleaseAllocator"),
        ("no_free", "gave an allocator without Free from CreateAllocator"),
        ("null_info", "cannot make a value on its device: .*the allocator's Info gives NULL"),
        ("full", "cannot make a value on its device: .*no 24 bytes"),
    ],
)
def test_an_allocator_that_cannot_be_used_is_an_error_that_names_its_plugin(
    library: Path, monkeypatch: pytest.MonkeyPatch, mode: str, said: str
) -> None:
    monkeypatch.setenv("DEVICE_PLUGIN", mode)
    ephost.register_execution_provider_library("device", str(library))
    with pytest.raises(OnnxRuntimeException, match=f"^{NAMED} {said}"):
        OrtValue.ortvalue_from_numpy(X, "gpu", number())
    ephost.unregister_execution_provider_library("device")


def test_an_error_of_a_stream_names_its_plugin_and_is_of_no_later_run(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVICE_PLUGIN", "streams null_notification no_handle")
    ephost.register_execution_provider_library("device", str(library))
    stream = ephost.get_ep_devices()[0].create_sync_stream()
    with pytest.raises(EPFail, match=f"^{NAMED} failed to wait for a stream: CreateNotification"):
        stream.synchronize()
    with pytest.raises(EPFail, match=f"^{NAMED} failed to give a stream's handle: .*GetHandle is NULL"):
        stream.get_handle()
    assert not lib.ephost_take_thrown()
    del stream
    ephost.unregister_execution_provider_library("device")


# ---- memory of others ----


class Foreign:
    """A tensor of another library on the device, which that library describes by DLPack, by CUDA's array
    interface, or both."""

    def __init__(self, value: ephost.OrtValue) -> None:
        self.value = value


class ByDlpack(Foreign):
    def __dlpack__(self, **how: object) -> object:
        return self.value.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.value.__dlpack_device__()


class ByCudaArray(Foreign):
    def __init__(self, value: ephost.OrtValue, **changes: object) -> None:
        super().__init__(value)
        self.changes = changes

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {**self.value.__cuda_array_interface__, **self.changes}


def test_dlpack_carries_what_is_on_a_device(counts: Callable[[], dict[str, int]]) -> None:
    value = OrtValue.ortvalue_from_numpy(X, "gpu", number())
    assert value.__dlpack_device__() == (12, number())  # an extension: only NVIDIA and AMD have a type there
    assert not hasattr(value, "__cuda_array_interface__")
    for source in (ByDlpack(value), value.to_dlpack()):
        back = OrtValue.from_dlpack(source)
        assert (back.data_ptr(), back.device_name(), back.shape()) == (value.data_ptr(), "cuda", [2, 3])
    del value, source
    gc.collect()
    assert back.numpy().tolist() == X.tolist()
    with pytest.raises(Fail, match="values or streams on its devices"):
        ephost.unregister_execution_provider_library("device")
    if not is_older("numpy", "2.1"):
        assert np.from_dlpack(back, device="cpu").tolist() == X.tolist()
    other = OrtValue.from_dlpack(back.__dlpack__(copy=True))
    assert other.data_ptr() != back.data_ptr()
    assert raw(other) == inverted(X)
    with pytest.raises(NotImplemented, match=r"\(12, 99\).*no registered"):
        ephost.interchange.device_of(12, 99)
    del back, other
    gc.collect()
    assert counts()["blocks"] == counts()["blocks_freed"]


def test_an_nvidia_gpus_memory_has_the_cuda_array_interface(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVICE_PLUGIN", "nvidia")
    ephost.register_execution_provider_library("device", str(library))
    value = OrtValue.ortvalue_from_numpy(X, "cuda", number())
    assert value.__dlpack_device__() == (2, number())
    described = value.__cuda_array_interface__
    assert described["data"] == (value.data_ptr(), False)
    assert (described["shape"], described["typestr"], described["version"]) == ((2, 3), "<f4", 3)
    back = OrtValue.from_cuda_array_interface(ByCudaArray(value, strides=(12, 4)), number())
    assert (back.data_ptr(), back.shape(), back.numpy().tolist()) == (value.data_ptr(), [2, 3], X.tolist())
    for changes in ({"strides": (4, 8)}, {"mask": "one"}, {"typestr": "<M8[s]"}):
        with pytest.raises(InvalidArgument, match="no tensor over a CUDA array"):
            OrtValue.from_cuda_array_interface(ByCudaArray(value, **changes), number())
    with pytest.raises(NotImplemented, match="id=77"):
        OrtValue.from_cuda_array_interface(ByCudaArray(value), 77)
    assert not hasattr(OrtValue.ortvalue_from_numpy(X), "__cuda_array_interface__")
    del value, back
    gc.collect()
    ephost.unregister_execution_provider_library("device")


def test_a_feed_of_another_library_on_the_device_is_read_there(counts: Callable[[], dict[str, int]]) -> None:
    session = add_and_multiply()
    x, y = (ByDlpack(OrtValue.ortvalue_from_numpy(array, "gpu", number())) for array in (X, Y))
    before = counts()
    s, p = session.run(None, {"x": x, "y": y})
    assert (s.tolist(), p.tolist()) == ((X + Y).tolist(), ((X + Y) * Y).tolist())
    assert counts()["uploaded"] == before["uploaded"]
    assert counts()["downloaded"] == before["downloaded"] + 2  # the results
    without = ephost.InferenceSession(add_and_relu())
    assert without.run(["z"], {"x": x, "y": Y})[0].tolist() == np.maximum(X + Y, 0).tolist()
    short = ByDlpack(OrtValue.ortvalue_from_numpy(X[:1], "gpu", number()))
    with pytest.raises(InvalidArgument, match="index: 0 Got: 1 Expected: 2"):
        session.run(None, {"x": short, "y": y})
    del x, y, short
    gc.collect()
    assert counts()["blocks"] == counts()["blocks_freed"]


def test_addresses_on_the_device_are_bound_as_they_are(counts: Callable[[], dict[str, int]]) -> None:
    session = add_and_multiply()
    x, y, p = (OrtValue.ortvalue_from_numpy(array, "gpu", number()) for array in (X, Y, np.zeros_like(X)))
    binding = session.io_binding()
    for name, value in (("x", x), ("y", y)):
        binding.bind_input(name, "gpu", number(), np.float32, [2, 3], value.data_ptr())
    binding.bind_output("p", "gpu", number(), np.float32, [2, 3], p.data_ptr())
    before = counts()
    session.run_with_iobinding(binding)
    after = counts()
    assert (after["uploaded"], after["downloaded"]) == (before["uploaded"], before["downloaded"])
    assert raw(p) == inverted((X + Y) * Y)
    with pytest.raises(NotImplemented, match="id=333"):
        binding.bind_input("x", "gpu", 333, np.float32, [2, 3], x.data_ptr())
    vector = OrtValueVector()
    vector.push_back_batch([x], [x.data_ptr()], [np.float32], [[2, 3]], [OrtDevice.make("gpu", number())])
    assert vector[0].numpy().tolist() == X.tolist()


# ---- memory that the CPU reaches, and allocators ----


def test_memory_that_the_cpu_reaches_is_read_and_written_in_place(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVICE_PLUGIN", "host_memory")
    ephost.register_execution_provider_library("device", str(library))
    (device,) = ephost.get_ep_devices()
    info = device.memory_info(ephost.OrtDeviceMemoryType.HOST_ACCESSIBLE)
    assert (info.name, info.device_mem_type) == (
        "make_believe_host",
        ephost.OrtDeviceMemoryType.HOST_ACCESSIBLE,
    )
    value = OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32, memory_info=info)
    assert (value.memory_name(), value.__dlpack_device__()) == ("make_believe_host", (1, 0))
    array = value.numpy()
    array[...] = X
    assert value.data_ptr() == array.ctypes.data
    assert np.from_dlpack(value).ctypes.data == array.ctypes.data
    there = OrtValue.ortvalue_from_numpy(Y, "gpu", number())
    ephost.copy_tensors([value], [there])
    assert raw(there) == inverted(X)
    value.update_inplace(Y)
    assert array.tolist() == Y.tolist()
    session = add_and_multiply()
    assert session.run(["s"], {"x": value, "y": Y})[0].tolist() == (Y + Y).tolist()
    binding = session.io_binding()
    for name in "xy":
        binding.bind_ortvalue_input(name, there)
    out = OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32, memory_info=info)
    binding.bind_ortvalue_output("s", out)
    session.run_with_iobinding(binding)
    assert out.numpy().tolist() == (X + X).tolist()
    del value, there, session, binding, out
    gc.collect()
    with pytest.raises(Fail, match="values or streams on its devices"):
        ephost.unregister_execution_provider_library("device")  # the array has the memory
    assert array.tolist() == Y.tolist()
    del array
    gc.collect()
    ephost.unregister_execution_provider_library("device")


def test_an_arena_for_a_device_reaches_its_allocator(
    library: Path, counts: Callable[[], dict[str, int]]
) -> None:
    told = ctypes.CDLL(str(library)).device_plugin_allocator_options
    told.restype = ctypes.c_char_p
    (device,) = ephost.get_ep_devices()
    info = device.memory_info(ephost.OrtDeviceMemoryType.DEFAULT)
    value = OrtValue.ortvalue_from_numpy(X, "gpu", number())
    arena = ephost.OrtArenaCfg({"max_mem": 1 << 20, "arena_extend_strategy": 1})
    with pytest.raises(Fail, match="in use"):
        ephost.create_and_register_allocator(info, arena)
    del value
    ephost.create_and_register_allocator_v2("device", info, {"mine": "yes"}, arena)
    assert told().decode().split() == ["arena.max_mem=1048576", "arena.extend_strategy=1", "mine=yes"]
    assert OrtValue.ortvalue_from_numpy(X, "gpu", number()).numpy().tolist() == X.tolist()
    assert counts()["allocators"] - counts()["allocators_released"] == 1
    with pytest.raises(NotImplemented, match="'else' has no memory"):
        ephost.create_and_register_allocator_v2("else", info, {}, arena)


def test_a_run_on_a_given_stream_is_done_when_that_was_waited_for(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVICE_PLUGIN", "streams")
    ephost.register_execution_provider_library("device", str(library))
    # One node: to free a value between two would make the device do what is queued.
    floats = [tensor(name, 2, 3) for name in "xyp"]
    node = helper.make_node("Add", ["x", "y"], ["p"])
    session = ephost.InferenceSession(model_bytes([node], floats[:2], floats[2:]), providers=["device"])
    stream, options = ephost.get_ep_devices()[0].create_sync_stream(), ephost.RunOptions()
    assert options.sync_stream is None
    options.sync_stream = stream
    assert options.sync_stream is stream
    x, y, p = (OrtValue.ortvalue_from_numpy(array, "gpu", number()) for array in (X, Y, np.zeros_like(X)))
    binding = session.io_binding()
    for name, value in (("x", x), ("y", y)):
        binding.bind_ortvalue_input(name, value)
    binding.bind_ortvalue_output("p", p)
    session.run_with_iobinding(binding, options)
    assert raw(p) == inverted(np.zeros_like(X))  # it is queued
    stream.synchronize()
    assert raw(p) == inverted(X + Y)
    # Results on the CPU are there when the run ends, and what it read there is the caller's again.
    assert session.run(["p"], {"x": x, "y": y}, options)[0].tolist() == (X + Y).tolist()
    fed = X * 2
    binding.bind_cpu_input("x", fed)
    session.run_with_iobinding(binding, options)
    assert raw(p) == inverted(2 * X + Y)
    options.sync_stream = None
    binding.bind_ortvalue_input("x", x)
    session.run_with_iobinding(binding, options)
    assert raw(p) == inverted(X + Y)
    with pytest.raises(TypeError, match="OrtSyncStream or None"):
        options.sync_stream = 3
    del session, binding, value, x, y, p, stream, options
    gc.collect()
    ephost.unregister_execution_provider_library("device")


# ---- runs ----


def test_feeds_that_are_on_the_device_are_not_uploaded_again(counts: Callable[[], dict[str, int]]) -> None:
    session = add_and_multiply()
    assert [info.name for info in session.get_input_memory_infos()] == ["make_believe"] * 2
    assert [info.name for info in session.get_output_memory_infos()] == ["make_believe"] * 2
    x, y = (OrtValue.ortvalue_from_numpy(array, "gpu", number()) for array in (X, Y))
    for feed, uploads in (({"x": x, "y": y}, 0), ({"x": x, "y": Y}, 1), ({"x": X, "y": Y}, 2)) * 2:
        before = counts()["uploaded"]
        s, p = session.run(None, feed)
        assert (s.tolist(), p.tolist()) == ((X + Y).tolist(), ((X + Y) * Y).tolist())
        assert counts()["uploaded"] - before == uploads


def test_an_output_bound_to_the_device_stays_there(counts: Callable[[], dict[str, int]]) -> None:
    session = add_and_multiply()
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", OrtValue.ortvalue_from_numpy(X, "gpu", number()))
    binding.bind_ortvalue_input("y", OrtValue.ortvalue_from_numpy(Y, "gpu", number()))
    binding.bind_output("p", "gpu", number())
    before = counts()
    session.run_with_iobinding(binding)
    (p,) = binding.get_outputs()
    assert (counts()["uploaded"], counts()["downloaded"]) == (before["uploaded"], before["downloaded"])
    assert raw(p) == inverted((X + Y) * Y)
    assert binding.copy_outputs_to_cpu()[0].tolist() == ((X + Y) * Y).tolist()
    binding.bind_output("s")  # one here, one there
    session.run_with_iobinding(binding)
    assert [value.device_name() for value in binding.get_outputs()] == ["cuda", "cpu"]
    assert [value.numpy().tolist() for value in binding.get_outputs()] == [
        ((X + Y) * Y).tolist(),
        (X + Y).tolist(),
    ]


def test_an_output_is_written_into_a_value_on_the_device(counts: Callable[[], dict[str, int]]) -> None:
    session = add_and_multiply()
    target = OrtValue.ortvalue_from_numpy(X, "gpu", number())
    feed, pointer = (
        {"x": OrtValue.ortvalue_from_numpy(X), "y": OrtValue.ortvalue_from_numpy(Y)},
        target.data_ptr(),
    )
    binding = session.io_binding()
    for name, value in feed.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_ortvalue_output("p", target)
    before = counts()
    session.run_with_iobinding(binding)
    assert counts()["downloaded"] == before["downloaded"]
    assert (raw(target), target.data_ptr()) == (inverted((X + Y) * Y), pointer)
    fetches, devices = OrtValueVector(), [OrtDevice.make("gpu", number()), OrtDevice.make("cpu", 0)]
    session.run_with_ortvaluevector(
        None,
        list(feed),
        list(feed.values()),
        ["s", "p"],
        fetches,
        devices,
    )
    assert [value.device_name() for value in fetches] == ["cuda", "cpu"]
    assert fetches[0].numpy().tolist() == (X + Y).tolist()


def test_results_on_a_device_outlive_their_session(counts: Callable[[], dict[str, int]]) -> None:
    session = add_and_multiply()
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_cpu_input("y", Y)
    binding.bind_output("p", "gpu", number())
    session.run_with_iobinding(binding)
    (p,) = binding.get_outputs()
    session.close()
    del session, binding
    gc.collect()
    assert counts()["eps_released"] == 0
    assert p.numpy().tolist() == ((X + Y) * Y).tolist()
    del p
    gc.collect()
    assert counts()["eps_released"] == counts()["eps"] == 1


@pytest.mark.usefixtures("counts")
def test_values_on_a_device_reach_nodes_on_the_cpu_and_results_of_those_the_device() -> None:
    session = ephost.InferenceSession(add_and_relu(), providers=["device"])  # Relu is left to the fallback
    x, y = (OrtValue.ortvalue_from_numpy(array, "gpu", number()) for array in (X, Y))
    assert session.run(["z"], {"x": x, "y": y})[0].tolist() == np.maximum(X + Y, 0).tolist()
    without = ephost.InferenceSession(add_and_relu())
    assert without.run(["z"], {"x": x, "y": Y})[0].tolist() == np.maximum(X + Y, 0).tolist()
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_input("y", y)
    binding.bind_output("z", "gpu", number())
    session.run_with_iobinding(binding)
    assert raw(binding.get_outputs()[0]) == inverted(np.maximum(X + Y, 0))


@pytest.mark.usefixtures("counts")
def test_an_input_that_the_device_and_the_cpu_read_may_be_given_on_the_device() -> None:
    nodes = [helper.make_node("Add", ["x", "y"], ["s"]), helper.make_node("Neg", ["x"], ["n"])]
    floats = [tensor(name, 2, 3) for name in "xysn"]
    session = ephost.InferenceSession(model_bytes(nodes, floats[:2], floats[2:]), providers=["device"])
    x = OrtValue.ortvalue_from_numpy(X, "gpu", number())
    for _ in range(2):
        s, n = session.run(None, {"x": x, "y": Y})
        assert (s.tolist(), n.tolist()) == ((X + Y).tolist(), (-X).tolist())


@pytest.mark.usefixtures("counts")
def test_a_default_that_a_run_replaces_is_replaced_on_the_device_too() -> None:
    default = numpy_helper.from_array(Y, "y")
    floats = [tensor(name, 2, 3) for name in "xys"]
    model = model_bytes([helper.make_node("Add", ["x", "y"], ["s"])], floats[:2], floats[2:], [default])
    session = ephost.InferenceSession(model, providers=["device"])
    for given, expected in (({}, X + Y), ({"y": X}, X + X), ({}, X + Y)):
        assert session.run(None, {"x": X, **given})[0].tolist() == expected.tolist()
