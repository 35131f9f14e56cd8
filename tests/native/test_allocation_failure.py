"""Every allocation may fail: the call then says so, leaves nothing behind, and works the next time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from native_objects import (
    Refused,
    api,
    c_strings,
    check,
    cpu_tensor,
    dims,
    editor,
    ep_api,
    ffi,
    lib,
    live_handles,
    out,
)
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
    place = ffi.new("OrtTypeInfo**")
    check(lib.ephost_type_tensor(FLOAT, True, dims(-1, 2), c_strings(b"n", b""), 2, place))
    made = [place[0]]
    made.append(
        out("OrtTypeInfo*", editor.CreateMapTypeInfo, lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, made[-1])
    )
    made.append(out("OrtTypeInfo*", editor.CreateSequenceTypeInfo, made[-1]))
    made.append(out("OrtTypeInfo*", editor.CreateOptionalTypeInfo, made[-1]))
    check(lib.ephost_type_set_denotation(made[-1], b"THING"))
    yield made[-1]
    for info in made:
        api.ReleaseTypeInfo(info)


@pytest.mark.parametrize("element_type", [FLOAT, STRING])
def test_new_tensors(element_type: int) -> None:
    def create() -> Any:
        allocator = lib.ephost_cpu_allocator()
        return out("OrtValue*", api.CreateTensorAsOrtValue, allocator, long_shape(), 7, element_type)

    assert walk_failures(create, api.ReleaseValue) == 4  # value, data, buffer, dimensions


def test_tensors_over_the_callers_data() -> None:
    pinned = out("OrtMemoryInfo*", api.CreateMemoryInfo, b"CudaPinned", 0, 0, 0)
    data = ffi.new("float[2]")

    def create() -> Any:
        return out("OrtValue*", api.CreateTensorWithDataAsOrtValue, pinned, data, 8, long_shape(), 7, FLOAT)

    assert walk_failures(create, api.ReleaseValue) == 4  # value, dimensions, memory info and its name
    api.ReleaseMemoryInfo(pinned)


def test_wrapped_tensors_stay_the_callers() -> None:
    released = []
    callback = ffi.callback("void(void*)")(released.append)
    lib.ephost_set_release_callback(callback)
    data, owner = ffi.new("float[2]"), ffi.cast("void*", 9)

    def wrap() -> Any:
        return out("OrtValue*", lib.ephost_value_wrap, FLOAT, dims(2), 1, data, 8, ffi.NULL, owner)

    assert walk_failures(wrap, api.ReleaseValue) == 2
    assert released == [owner]  # for the one that succeeded
    lib.ephost_set_release_callback(ffi.NULL)


def test_strings(tensors: Any) -> None:
    offsets = ffi.new("size_t[]", [0, 2, 5])

    def make() -> Any:
        return out("OrtValue*", lib.ephost_value_strings, b"abcde", offsets, dims(2), 1)

    assert walk_failures(make, api.ReleaseValue) == 4  # value, elements, buffer, texts

    def fill() -> None:
        check(api.FillStringTensorElement(tensors[0], b"a text of some length", 1))

    assert walk_failures(fill, lambda _: None) == 1

    def fill_short() -> None:
        check(api.FillStringTensorElement(tensors[0], b"other", 1))

    assert walk_failures(fill_short, lambda _: None) == 0  # it lies in its element

    def resize() -> Any:
        return out("char*", api.GetResizedStringTensorElementBuffer, tensors[0], 1, 900)

    assert walk_failures(resize, lambda _: None) == 1


def test_zip_map(tensors: Any) -> None:
    def make() -> Any:
        return out("EphostHostKernel*", lib.ephost_zip_map_new, tensors[0])

    assert walk_failures(make, lib.ephost_host_kernel_free) > 2


def test_containers(tensors: Any) -> None:
    def make() -> Any:
        return out("OrtValue*", api.CreateValue, tensors, 2, lib.ONNX_TYPE_MAP)

    assert walk_failures(make, api.ReleaseValue) == 4
    value = make()

    def take() -> Any:
        return out("OrtValue*", api.GetValue, value, 0, lib.ephost_cpu_allocator())

    assert walk_failures(take, api.ReleaseValue) == 3  # value, elements, buffer; its texts are short

    def share() -> Any:
        return out("OrtValue*", lib.ephost_value_share, value)

    assert walk_failures(share, api.ReleaseValue) == 1  # the items are shared
    api.ReleaseValue(value)


def test_type_infos(nested_type: Any, tensors: Any) -> None:
    def make() -> Any:
        return out("OrtTypeInfo*", editor.CreateOptionalTypeInfo, nested_type)

    assert walk_failures(make, api.ReleaseTypeInfo) > 10
    inner = out("const OrtOptionalTypeInfo*", api.CastTypeInfoToOptionalTypeInfo, nested_type)

    def take() -> Any:
        return out("OrtTypeInfo*", api.GetOptionalContainedTypeInfo, inner)

    assert walk_failures(take, api.ReleaseTypeInfo) > 5
    value = out("OrtValue*", api.CreateValue, tensors, 2, lib.ONNX_TYPE_MAP)

    def of_value() -> Any:
        return out("OrtTypeInfo*", api.GetTypeInfo, value)

    assert walk_failures(of_value, api.ReleaseTypeInfo) == 4
    api.ReleaseValue(value)


def test_a_tensor_info_that_cannot_grow_is_unchanged() -> None:
    info = out("OrtTensorTypeAndShapeInfo*", api.CreateTensorTypeAndShapeInfo)
    check(api.SetDimensions(info, dims(3, 4), 2))
    names = c_strings(b"N", b"M")

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

    def hardware() -> Any:
        return out("OrtHardwareDevice*", ep_api.CreateHardwareDevice, 0, 1, 2, b"Acme", metadata)

    assert walk_failures(hardware, ep_api.ReleaseHardwareDevice) == 9
    device = hardware()
    factory = Factory(23, GetName=b"AcmeEP", GetVendor=b"Acme", GetVersion=b"1")

    def make() -> Any:
        return out("OrtEpDevice*", ep_api.CreateEpDevice, factory.handle, device, metadata, metadata)

    assert walk_failures(make, ep_api.ReleaseEpDevice) > 12
    ep_api.ReleaseHardwareDevice(device)
    api.ReleaseKeyValuePairs(metadata)


def test_options_and_settings() -> None:
    def run_options() -> Any:
        return out("OrtRunOptions*", api.CreateRunOptions)

    assert walk_failures(run_options, api.ReleaseRunOptions) == 3

    def session_options() -> Any:
        return out("OrtSessionOptions*", api.CreateSessionOptions)

    assert walk_failures(session_options, api.ReleaseSessionOptions) == 2

    def set_environment() -> None:
        check(lib.ephost_env_config_set(b"key", b"value"))

    def unset_environment(_: Any) -> None:
        check(lib.ephost_env_config_set(b"key", ffi.NULL))

    assert walk_failures(set_environment, unset_environment) == 5

    def stats() -> Any:
        return out("OrtKeyValuePairs*", api.AllocatorGetStats, lib.ephost_cpu_allocator())

    assert walk_failures(stats, api.ReleaseKeyValuePairs) > 15

    def arena() -> Any:
        return out("OrtArenaCfg*", api.CreateArenaCfg, 1, 1, -1, -1)

    assert walk_failures(arena, api.ReleaseArenaCfg) > 5


def test_handles_without_a_status_are_null() -> None:
    place = ffi.new("OrtKeyValuePairs**")
    lib.ephost_fail_allocation_after(0)
    api.CreateKeyValuePairs(place)
    assert place[0] == ffi.NULL
    for count in range(2):
        lib.ephost_fail_allocation_after(count)
        assert lib.ephost_logger_new(b"name", 0) == ffi.NULL
