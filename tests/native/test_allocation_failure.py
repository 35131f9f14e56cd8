"""Every allocation may fail: the call then says so, leaves nothing behind, and works the next time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from native_objects import Refused, api, check, cpu_tensor, dims, editor, ep_api, ffi, lib, live_handles, out
from test_objects import Factory, new_pairs

FLOAT = lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT
STRING = lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING


def walk_failures(call: Callable[[], Any], release: Callable[[Any], None]) -> int:
    """Let each allocation of `call` fail once. Returns how many there are."""
    lib.ephost_trim_cpu_cache()
    before = live_handles()
    for count in range(200):
        lib.ephost_fail_allocation_after(count)
        try:
            result = call()
        except Refused:
            lib.ephost_fail_allocation_after(-1)
            assert live_handles() == before, f"allocation {count} leaves something behind"
            lib.ephost_trim_cpu_cache()
            continue
        lib.ephost_fail_allocation_after(-1)
        release(result)
        assert live_handles() == before
        return count
    raise AssertionError("the call never succeeds")


def long_shape() -> Any:
    return dims(1, 1, 1, 1, 1, 1, 2)


@pytest.fixture
def tensors() -> Any:
    """Two tensors, of strings and of numbers, of rank 1 and length 2."""
    values = [cpu_tensor((2,), STRING), cpu_tensor((2,))]
    check(api.FillStringTensorElement(values[0], b"text", 1))
    yield ffi.new("OrtValue*[]", values)
    for value in values:
        api.ReleaseValue(value)


@pytest.fixture
def nested_type() -> Any:
    """optional(sequence(map(int64, tensor(float)[n, 2])))."""
    names = [ffi.new("char[]", b"n"), ffi.new("char[]", b"")]
    place = ffi.new("OrtTypeInfo**")
    check(lib.ephost_type_tensor(FLOAT, True, dims(-1, 2), ffi.new("char*[]", names), 2, place))
    made = [place[0]]
    made.append(out("OrtTypeInfo*", editor.CreateMapTypeInfo, lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, made[-1]))
    made.append(out("OrtTypeInfo*", editor.CreateSequenceTypeInfo, made[-1]))
    made.append(out("OrtTypeInfo*", editor.CreateOptionalTypeInfo, made[-1]))
    check(lib.ephost_type_set_denotation(made[-1], b"THING"))
    yield made[-1]
    for info in made:
        api.ReleaseTypeInfo(info)


def test_tensors() -> None:
    allocator = lib.ephost_cpu_allocator()
    pinned = out("OrtMemoryInfo*", api.CreateMemoryInfo, b"CudaPinned", 0, 0, 0)
    data = ffi.new("float[2]")
    for element_type in (FLOAT, STRING):
        create = lambda: out("OrtValue*", api.CreateTensorAsOrtValue, allocator, long_shape(), 7, element_type)  # noqa: B023, E731
        assert walk_failures(create, api.ReleaseValue) == 4  # value, data, buffer, dimensions
    over = lambda: out("OrtValue*", api.CreateTensorWithDataAsOrtValue, pinned, data, 8, long_shape(), 7, FLOAT)  # noqa: E731
    assert walk_failures(over, api.ReleaseValue) == 4  # value, dimensions, memory info and its name
    api.ReleaseMemoryInfo(pinned)


def test_wrapped_tensors_stay_the_callers() -> None:
    released = []
    callback = ffi.callback("void(void*)")(released.append)
    lib.ephost_set_release_callback(callback)
    data, owner = ffi.new("float[2]"), ffi.cast("void*", 9)
    wrap = lambda: out("OrtValue*", lib.ephost_value_wrap, FLOAT, dims(2), 1, data, 8, ffi.NULL, owner)  # noqa: E731
    assert walk_failures(wrap, api.ReleaseValue) == 2
    assert released == [owner]  # for the one that succeeded
    lib.ephost_set_release_callback(ffi.NULL)


def test_strings(tensors: Any) -> None:
    offsets = ffi.new("size_t[]", [0, 2, 5])
    make = lambda: out("OrtValue*", lib.ephost_value_strings, b"abcde", offsets, dims(2), 1)  # noqa: E731
    assert walk_failures(make, api.ReleaseValue) == 5

    def fill() -> None:
        check(api.FillStringTensorElement(tensors[0], b"other", 1))

    assert walk_failures(fill, lambda _: None) == 1
    resize = lambda: out("char*", api.GetResizedStringTensorElementBuffer, tensors[0], 1, 900)  # noqa: E731
    assert walk_failures(resize, lambda _: None) == 1


def test_containers(tensors: Any) -> None:
    make = lambda: out("OrtValue*", api.CreateValue, tensors, 2, lib.ONNX_TYPE_MAP)  # noqa: E731
    assert walk_failures(make, api.ReleaseValue) == 4
    value = make()
    take = lambda: out("OrtValue*", api.GetValue, value, 0, lib.ephost_cpu_allocator())  # noqa: E731
    assert walk_failures(take, api.ReleaseValue) == 5
    share = lambda: out("OrtValue*", lib.ephost_value_share, value)  # noqa: E731
    assert walk_failures(share, api.ReleaseValue) == 4
    api.ReleaseValue(value)


def test_type_infos(nested_type: Any, tensors: Any) -> None:
    make = lambda: out("OrtTypeInfo*", editor.CreateOptionalTypeInfo, nested_type)  # noqa: E731
    assert walk_failures(make, api.ReleaseTypeInfo) > 10
    inner = out("const OrtOptionalTypeInfo*", api.CastTypeInfoToOptionalTypeInfo, nested_type)
    take = lambda: out("OrtTypeInfo*", api.GetOptionalContainedTypeInfo, inner)  # noqa: E731
    assert walk_failures(take, api.ReleaseTypeInfo) > 5
    value = out("OrtValue*", api.CreateValue, tensors, 2, lib.ONNX_TYPE_MAP)
    of_value = lambda: out("OrtTypeInfo*", api.GetTypeInfo, value)  # noqa: E731
    assert walk_failures(of_value, api.ReleaseTypeInfo) == 4
    api.ReleaseValue(value)


def test_a_tensor_info_that_cannot_grow_is_unchanged() -> None:
    info = out("OrtTensorTypeAndShapeInfo*", api.CreateTensorTypeAndShapeInfo)
    check(api.SetDimensions(info, dims(3, 4), 2))
    names = ffi.new("char*[]", [ffi.new("char[]", b"N"), ffi.new("char[]", b"M")])

    def set_names() -> None:
        check(api.SetSymbolicDimensions(info, names, 2))

    def grow() -> None:
        check(api.SetDimensions(info, long_shape(), 7))

    assert walk_failures(set_names, lambda _: None) == 3
    lib.ephost_fail_allocation_after(0)
    with pytest.raises(Refused):
        grow()
    seen = ffi.new("char*[2]")
    check(api.GetSymbolicDimensions(info, seen, 2))
    assert out("size_t", api.GetDimensionsCount, info) == 2 and ffi.string(seen[1]) == b"M"
    api.ReleaseTensorTypeAndShapeInfo(info)


def test_devices() -> None:
    metadata = new_pairs({"a": "1", "b": "2"})
    hardware = lambda: out("OrtHardwareDevice*", ep_api.CreateHardwareDevice, 0, 1, 2, b"Acme", metadata)  # noqa: E731
    assert walk_failures(hardware, ep_api.ReleaseHardwareDevice) == 9
    device = hardware()
    factory = Factory(23, GetName=b"AcmeEP", GetVendor=b"Acme", GetVersion=b"1")
    make = lambda: out("OrtEpDevice*", ep_api.CreateEpDevice, factory.handle, device, metadata, metadata)  # noqa: E731
    assert walk_failures(make, ep_api.ReleaseEpDevice) > 12
    ep_device = make()
    info = out("OrtMemoryInfo*", api.CreateMemoryInfo, b"Cuda", 0, 0, 0)
    lib.ephost_fail_allocation_after(1)
    with pytest.raises(Refused):
        check(ep_api.EpDevice_AddAllocatorInfo(ep_device, info))
    assert api.EpDevice_MemoryInfo(ep_device, 0) == ffi.NULL
    api.ReleaseMemoryInfo(info)
    ep_api.ReleaseEpDevice(ep_device)
    ep_api.ReleaseHardwareDevice(device)
    api.ReleaseKeyValuePairs(metadata)


def test_options_and_settings() -> None:
    run_options = lambda: out("OrtRunOptions*", api.CreateRunOptions)  # noqa: E731
    assert walk_failures(run_options, api.ReleaseRunOptions) == 3
    session_options = lambda: out("OrtSessionOptions*", api.CreateSessionOptions)  # noqa: E731
    assert walk_failures(session_options, api.ReleaseSessionOptions) == 2

    def set_environment() -> None:
        check(lib.ephost_env_config_set(b"key", b"value"))

    def unset_environment(_: Any) -> None:
        check(lib.ephost_env_config_set(b"key", ffi.NULL))

    assert walk_failures(set_environment, unset_environment) == 5
    stats = lambda: out("OrtKeyValuePairs*", api.AllocatorGetStats, lib.ephost_cpu_allocator())  # noqa: E731
    assert walk_failures(stats, api.ReleaseKeyValuePairs) > 15
    arena = lambda: out("OrtArenaCfg*", api.CreateArenaCfg, 1, 1, -1, -1)  # noqa: E731
    assert walk_failures(arena, api.ReleaseArenaCfg) > 5


def test_handles_without_a_status_are_null() -> None:
    place = ffi.new("OrtKeyValuePairs**")
    lib.ephost_fail_allocation_after(0)
    api.CreateKeyValuePairs(place)
    assert place[0] == ffi.NULL
    for count in range(2):
        lib.ephost_fail_allocation_after(count)
        assert lib.ephost_logger_new(b"name", 0) == ffi.NULL
