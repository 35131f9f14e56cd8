"""The memory of an isolated plugin's device: values and bindings in it, which stay in the worker.

tests/plugins/device_plugin has such a device: what is in its memory is garbage to who reads it without its
data transfer, and its kernels refuse all other memory. A trace in the worker counts what the plugin was
called for.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from ephost import OrtValue, environment
from ephost._bindings import lib
from ephost.devices import OrtDevice
from ephost.errors import EPFail, Fail, InvalidArgument, NotImplemented
from ephost.isolation import memory as remote
from ephost.layers.trace import TraceFile
from plugin_models import model, node

X = np.arange(6, dtype=np.float32).reshape(2, 3)
W = np.full((2, 3), 10, np.float32)
# s = x + w, p = s * x, both on the device.
MADE = model([node("Add", "x w", "s"), node("Mul", "s x", "p")], {"x": [2, 3]}, ["s", "p"], {"w": W})
S, P = X + 10, (X + 10) * X


@pytest.fixture(autouse=True)
def _unregistered() -> Iterator[None]:
    yield
    gc.collect()
    for name in ("apart", "other"):
        if name in environment.registrations():
            ephost.unregister_execution_provider_library(name)
    assert not remote._sources
    assert not remote._memories  # also those of which a worker's end left values


def device_of(name: str = "apart") -> ephost.OrtEpDevice:
    (device,) = [d for d in ephost.get_ep_devices() if d.registration_name == name]
    return device


def where(name: str = "apart") -> OrtDevice:
    info = device_of(name).memory_info(ephost.OrtDeviceMemoryType.DEFAULT)
    assert info is not None
    return OrtDevice(int(info.device_type), 0, info.device_vendor_id, info.device_id)


def register(library: Path, **settings: object) -> None:
    ephost.register_execution_provider_library("apart", library, isolated=settings or True)


def open_session(
    made: onnx.ModelProto = MADE, name: str = "apart", **entries: str
) -> ephost.InferenceSession:
    options = ephost.SessionOptions()
    for key, value in entries.items():
        options.add_session_config_entry(f"ephost.isolation.{key}", value)
    options.add_provider_for_devices([device_of(name)], {})
    return ephost.InferenceSession(made.SerializeToString(), options, enable_fallback=0)


def on_device(array: np.ndarray) -> OrtValue:
    return OrtValue.ortvalue_from_numpy(array, where())


def bound(session: ephost.InferenceSession, x: object, **outputs: object) -> list[OrtValue]:
    """The outputs of a run with x, each bound to a value or a device."""
    binding = session.io_binding()
    if isinstance(x, OrtValue):
        binding.bind_ortvalue_input("x", x)
    else:
        binding.bind_cpu_input("x", x)
    for name, target in outputs.items():
        if isinstance(target, OrtValue):
            binding.bind_ortvalue_output(name, target)
        else:
            binding._iobinding.bind_output(name, target)
    binding.synchronize_inputs()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    return list(binding.get_outputs())


@pytest.fixture
def calls(device_library: Path, tmp_path: Path) -> Callable[[], Counter[str]]:
    """Registers the plugin with a trace in its first worker; how often each function was called so far."""
    file = tmp_path / "apart.trace"
    ephost.register_execution_provider_library(
        "apart", device_library, isolated=True, layers=[f"trace={file}"]
    )

    def count() -> Counter[str]:
        return Counter(call.function.name for call in TraceFile(file).calls)

    return count


# ---- values ----


def test_a_value_is_made_on_the_device_and_comes_back(device_library: Path) -> None:
    register(device_library)
    value = on_device(X)
    assert (value.device_name(), value.memory_name(), value.shape()) == ("cuda", "make_believe", [2, 3])
    np.testing.assert_array_equal(value.numpy(), X)
    value.update_inplace(X + 1)
    np.testing.assert_array_equal(value.numpy(), X + 1)
    empty = OrtValue.ortvalue_from_numpy(np.empty((0, 3), np.int64), where())
    assert empty.numpy().shape == (0, 3)


@pytest.mark.parametrize("count", [1, 1000, 300_001])
def test_values_of_all_sizes_and_types_arrive_whole(device_library: Path, count: int) -> None:
    register(device_library)
    for dtype in (np.float32, np.int8, np.float64, np.bool_):
        array = (np.arange(count) % 251).astype(dtype)
        np.testing.assert_array_equal(on_device(array).numpy(), array)


def test_tensors_are_copied_between_any_two_places(device_library: Path) -> None:
    register(device_library)
    here, back = OrtValue.ortvalue_from_numpy(X), OrtValue.ortvalue_from_numpy(np.zeros_like(X))
    there, other = on_device(np.zeros_like(X)), on_device(np.zeros_like(X))
    ephost.copy_tensors([here, there, other], [there, other, back])
    np.testing.assert_array_equal(back.numpy(), X)
    with pytest.raises(InvalidArgument, match=r"shape \[2, 3\].*shape \[3, 2\]"):
        ephost.copy_tensors([OrtValue.ortvalue_from_numpy(X.reshape(3, 2))], [there])


def test_a_value_keeps_its_library_registered(device_library: Path) -> None:
    register(device_library)
    value = on_device(X)
    with pytest.raises(Fail, match="values or streams on its devices"):
        ephost.unregister_execution_provider_library("apart")
    np.testing.assert_array_equal(value.numpy(), X)


def test_every_block_is_freed_when_its_value_dies(calls: Callable[[], Counter[str]]) -> None:
    session = open_session()
    for _ in range(20):
        for value in bound(session, on_device(X), s=where(), p=where()):
            value.numpy()
    memory = session._opened.resources.assignments[0].remote
    del value
    gc.collect()
    assert not memory.is_used
    session.close()
    ephost.unregister_execution_provider_library("apart")
    counted = calls()
    assert counted["OrtAllocator.Alloc"] == counted["OrtAllocator.Free"] > 60, counted


@pytest.mark.threads
def test_threads_may_make_and_drop_values_at_once(device_library: Path) -> None:
    register(device_library)
    session, failed = open_session(), []

    def work(seed: int) -> None:
        try:
            for at in range(20):
                array = X + seed * 100 + at
                (p,) = bound(session, on_device(array), p=where())
                np.testing.assert_array_equal(p.numpy(), (array + 10) * array)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


# ---- runs ----


@pytest.mark.parametrize("mode", ["", "streams"])
def test_inputs_and_outputs_stay_on_the_device(
    device_library: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("DEVICE_PLUGIN", mode)
    register(device_library)
    session = open_session()
    assert [info.name for info in session.get_input_memory_infos()] == ["make_believe"]
    assert [info.name for info in session.get_output_memory_infos()] == ["make_believe"] * 2
    s, p = bound(session, on_device(X), s=where(), p=OrtDevice.make("cpu", 0))
    assert (s.device_name(), p.device_name()) == ("cuda", "cpu")
    np.testing.assert_array_equal(s.numpy(), S)
    np.testing.assert_array_equal(p.numpy(), P)
    (again,) = bound(session, s, p=where())  # what one run has made is the next one's input
    np.testing.assert_array_equal(again.numpy(), (S + 10) * S)
    np.testing.assert_array_equal(session.run(["p"], {"x": s})[0], (S + 10) * S)


def test_what_is_on_the_device_is_not_copied(calls: Callable[[], Counter[str]]) -> None:
    session, x, target = open_session(), on_device(X), on_device(X)
    before = calls()["OrtDataTransferImpl.CopyTensors"]
    for _ in range(3):
        bound(session, x, s=where(), p=target)
    assert calls()["OrtDataTransferImpl.CopyTensors"] == before
    np.testing.assert_array_equal(target.numpy(), P)
    assert calls()["OrtDataTransferImpl.CopyTensors"] == before + 1


def test_an_output_is_written_into_a_value_by_name_or_address(device_library: Path) -> None:
    register(device_library)
    session, target = open_session(), on_device(np.zeros_like(X))
    (p,) = bound(session, X, p=target)
    assert p.data_ptr() == target.data_ptr()
    np.testing.assert_array_equal(target.numpy(), P)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X + 1)
    native = binding._iobinding
    native.bind_output("p", where(), np.float32, (2, 3), target.data_ptr())
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(target.numpy(), (X + 11) * (X + 1))
    native.bind_input("x", where(), np.float32, (2, 3), target.data_ptr())
    native.bind_output("p", OrtDevice.make("cpu", 0))
    session.run_with_iobinding(binding)
    before = (X + 11) * (X + 1)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), (before + 10) * before)


def test_a_value_of_another_shape_than_an_output_is_refused(device_library: Path) -> None:
    register(device_library)
    target = on_device(np.zeros((3, 3), np.float32))
    with pytest.raises((EPFail, InvalidArgument), match="bound to it"):
        bound(open_session(), X, p=target)


def test_nodes_of_others_read_and_make_what_is_on_the_device(device_library: Path) -> None:
    """x is read by a worker and by the host; y is made by the host, and wanted on the device."""
    register(device_library)
    made = model(
        [node("Add", "x x", "s"), node("Neg", "x", "n"), node("Abs", "s", "y")],
        {"x": [2, 3]},
        ["s", "n", "y"],
    )
    session = open_session(made)
    s, n, y = bound(session, on_device(X), s=where(), n=where(), y=where())
    assert {value.device_name() for value in (s, n, y)} == {"cuda"}
    for value, expected in ((s, 2 * X), (n, -X), (y, 2 * X)):
        np.testing.assert_array_equal(value.numpy(), expected)


def test_values_of_another_worker_are_copied(device_library: Path) -> None:
    """A second session has a worker of its own: the same address could be another block there."""
    register(device_library)
    one, other = open_session(), open_session()
    x = on_device(X)
    (s,) = bound(one, x, s=where())
    target = on_device(np.zeros_like(X))
    (p,) = bound(other, s, p=target)
    np.testing.assert_array_equal(p.numpy(), (S + 10) * S)
    (q,) = bound(other, p, p=where())
    np.testing.assert_array_equal(q.numpy(), (p.numpy() + 10) * p.numpy())
    ephost.copy_tensors([q], [target])  # from one worker to the other
    np.testing.assert_array_equal(target.numpy(), q.numpy())


def test_results_outlive_their_session(device_library: Path) -> None:
    register(device_library)
    session = open_session()
    (p,) = bound(session, X, p=where())
    session.close()
    del session
    gc.collect()
    np.testing.assert_array_equal(p.numpy(), P)


def test_values_outlive_the_sessions_that_had_their_worker(device_library: Path) -> None:
    register(device_library)
    first, x = open_session(), on_device(X)
    second = open_session()
    second.close()
    first.close()
    del first, second
    gc.collect()
    np.testing.assert_array_equal(x.numpy(), X)
    np.testing.assert_array_equal(open_session().run(["p"], {"x": x})[0], P)


# ---- faults ----


def kill_worker() -> None:
    library = environment.registrations()["apart"].library
    os.kill(library.home().process.pid, signal.SIGKILL)


def test_a_value_of_a_worker_that_has_ended_says_what_ended_it(device_library: Path) -> None:
    register(device_library)
    session, x = open_session(), on_device(X)
    (p,) = bound(session, x, p=where())
    kill_worker()
    for value in (x, p, x):
        with pytest.raises(ephost.PluginCrashed) as caught:
            value.numpy()
        assert caught.value.signal == signal.SIGKILL
    with pytest.raises(ephost.PluginCrashed):
        session.run(None, {"x": x})
    fresh = on_device(X)  # a worker that is there
    np.testing.assert_array_equal(fresh.numpy(), X)
    np.testing.assert_array_equal(open_session().run(["p"], {"x": fresh})[0], P)
    with pytest.raises(ephost.PluginCrashed):
        open_session().run(None, {"x": x})


@pytest.mark.parametrize("function", ["CreateAllocator", "CreateDataTransfer", "Alloc", "CopyTensors"])
def test_a_fault_while_a_value_is_made_is_raised(
    device_library: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", f"segv:{function}")
    register(device_library)
    with pytest.raises(ephost.PluginCrashed) as caught:
        on_device(X)
    assert caught.value.last_call.endswith(function)
    monkeypatch.delenv("EPHOST_FAULT")
    np.testing.assert_array_equal(on_device(X).numpy(), X)


@pytest.mark.parametrize("function", ["CreateAllocator", "Alloc", "CopyTensors"])
def test_a_hang_while_a_value_is_made_ends_in_time(
    device_library: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    function: str,
) -> None:
    """The worker is ended first: who waits for the thread that hangs waits for longer than the limit."""
    monkeypatch.setenv("EPHOST_FAULT", f"hang:{function}")
    register(device_library, run_timeout_seconds=5.0)
    with pytest.raises(ephost.PluginTimedOut) as caught:
        on_device(X)
    assert caught.value.seconds == 5.0
    assert caught.value.last_call.endswith(function)
    assert "has not left its run" not in caplog.text
    monkeypatch.delenv("EPHOST_FAULT")
    np.testing.assert_array_equal(on_device(X).numpy(), X)


def test_a_fault_while_a_value_is_freed_is_the_next_ones_error(
    device_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "segv:Free")
    register(device_library)
    kept, dropped = on_device(X), on_device(X)
    del dropped
    gc.collect()
    with pytest.raises(ephost.PluginCrashed) as caught:
        kept.numpy()
    assert caught.value.last_call.endswith("Free")


def test_a_hang_while_a_value_is_freed_is_the_next_ones_error(
    device_library: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "hang:Free")
    register(device_library, run_timeout_seconds=5.0)
    kept, dropped = on_device(X), on_device(X)
    del dropped
    gc.collect()
    with pytest.raises(ephost.PluginTimedOut) as caught:
        kept.numpy()
    assert caught.value.seconds == 5.0
    assert caught.value.last_call.endswith("Free")
    assert "has not left its run" not in caplog.text
    monkeypatch.delenv("EPHOST_FAULT")
    np.testing.assert_array_equal(on_device(X).numpy(), X)


def test_a_device_that_is_full_says_so(device_library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE_PLUGIN", "full")
    register(device_library)
    with pytest.raises(Fail, match="no 24 bytes of make_believe memory"):
        on_device(X)


def test_copies_that_fail_say_why(device_library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE_PLUGIN", "copy_fails")
    register(device_library)
    with pytest.raises(ephost.errors.OnnxRuntimeException, match="CopyTensors"):
        on_device(X)


# ---- streams ----


@pytest.fixture
def streaming(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin makes streams."""
    monkeypatch.setenv("DEVICE_PLUGIN", "streams")


@pytest.mark.usefixtures("streaming")
def test_streams_are_the_plugins_own_and_what_is_copied_on_them_is_there(
    calls: Callable[[], Counter[str]],
) -> None:
    stream, other = device_of().create_sync_stream(), device_of().create_sync_stream()
    assert stream.get_handle() != other.get_handle()
    value, back = on_device(np.zeros_like(X)), OrtValue.ortvalue_from_numpy(np.zeros_like(X))
    ephost.copy_tensors([OrtValue.ortvalue_from_numpy(X)], [value], stream)
    ephost.copy_tensors([value], [back], stream)
    np.testing.assert_array_equal(back.numpy(), X)
    with pytest.raises(Fail, match="values or streams on its devices"):
        ephost.unregister_execution_provider_library("apart")
    stream.synchronize()
    counted = calls()
    assert counted["OrtEpFactory.CreateSyncStreamForDevice"] == 2
    assert counted["OrtSyncNotificationImpl.WaitOnHost"] == 1
    assert counted["OrtSyncStreamImpl.Release"] == 0
    del stream, other, value
    gc.collect()
    assert calls()["OrtSyncStreamImpl.Release"] == 2


@pytest.mark.usefixtures("streaming")
def test_a_run_on_a_stream_is_done_when_it_returns(device_library: Path) -> None:
    register(device_library)
    session, options = open_session(), ephost.RunOptions()
    options.sync_stream = device_of().create_sync_stream()
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", on_device(X))
    binding._iobinding.bind_output("s", where())
    binding._iobinding.bind_output("p", where())
    session.run_with_iobinding(binding, options)
    for value, expected in zip(binding.get_outputs(), (S, P), strict=True):
        np.testing.assert_array_equal(value.numpy(), expected)
    np.testing.assert_array_equal(session.run(["p"], {"x": X}, options)[0], P)


def test_a_device_without_streams_says_so(device_library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE_PLUGIN", "streamless")
    register(device_library)
    with pytest.raises(NotImplemented, match="makes no streams"):
        device_of().create_sync_stream()


@pytest.mark.usefixtures("streaming")
@pytest.mark.parametrize("kind", ["segv", "hang"])
@pytest.mark.parametrize("function", ["CreateSyncStreamForDevice", "CreateNotification", "WaitOnHost"])
def test_a_fault_of_a_stream_is_raised(
    device_library: Path, monkeypatch: pytest.MonkeyPatch, kind: str, function: str
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", f"{kind}:{function}")
    register(device_library, run_timeout_seconds=5.0 if kind == "hang" else 0.0)
    expected = ephost.PluginTimedOut if kind == "hang" else ephost.PluginCrashed
    with pytest.raises(expected) as caught:
        device_of().create_sync_stream().synchronize()
    assert caught.value.last_call.endswith(function)
    monkeypatch.delenv("EPHOST_FAULT")
    device_of().create_sync_stream().synchronize()


@pytest.mark.usefixtures("streaming")
def test_a_fault_while_a_stream_is_released_is_logged(
    device_library: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "segv:ReleaseStream")
    register(device_library)
    device_of().create_sync_stream()
    gc.collect()
    assert "cannot release a stream" in caplog.text


# ---- what is refused ----


def test_memory_that_others_would_read_is_refused(device_library: Path) -> None:
    register(device_library)
    value = on_device(X)
    with pytest.raises(NotImplemented, match=r"__dlpack__.*isolated"):
        value.to_dlpack()
    assert not hasattr(value, "__cuda_array_interface__")
    binding = open_session().io_binding()
    with pytest.raises(NotImplemented, match="0x1234000 is in no memory"):
        binding._iobinding.bind_input("x", where(), np.float32, (2, 3), 0x1234000)
    assert not lib.ephost_remote_knows(environment.ffi.cast("void*", 0x1234000))


def test_options_for_an_allocator_are_refused_by_name(device_library: Path) -> None:
    register(device_library)
    info = device_of().memory_info(ephost.OrtDeviceMemoryType.DEFAULT)
    with pytest.raises(NotImplemented, match=r"CreateAllocator: .*options"):
        ephost.create_and_register_allocator_v2(device_of().ep_name, info, {"size": "1"}, None)
