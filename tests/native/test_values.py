"""OrtValue: tensors, strings, sequences, maps."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from native_objects import (
    Refused,
    api,
    c_strings,
    check,
    cpu_tensor,
    dims,
    ep_api,
    ffi,
    lib,
    out,
    read_strings,
    string_tensor,
    view,
)

FLOAT = lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT
INT64 = lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64
INT4 = lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4
STRING = lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING


def array_of(value: object) -> np.ndarray:
    seen = view(value)
    return np.frombuffer(ffi.buffer(seen.data, seen.nbytes), np.float32).reshape(
        [seen.dims[i] for i in range(seen.rank)]
    )


def test_a_new_tensor_is_aligned_cpu_memory_of_its_shape() -> None:
    value = cpu_tensor((2, 3))
    seen = view(value)
    assert (seen.type, seen.element_type, seen.rank) == (lib.ONNX_TYPE_TENSOR, FLOAT, 2)
    assert [seen.dims[0], seen.dims[1], seen.element_count, seen.nbytes] == [2, 3, 6, 24]
    assert int(ffi.cast("uintptr_t", seen.data)) % 64 == 0
    assert out("void*", api.GetTensorMutableData, value) == seen.data
    assert out("const void*", api.GetTensorData, value) == seen.data
    assert out("size_t", api.GetTensorSizeInBytes, value) == 24
    assert ffi.string(out("const char*", api.MemoryInfoGetName, seen.memory_info)) == b"Cpu"
    assert ep_api.Value_GetMemoryDevice(value) == ep_api.MemoryInfo_GetMemoryDevice(seen.memory_info)
    api.ReleaseValue(value)


@pytest.mark.parametrize("rank", [0, 1, 6, 7, 12])
def test_dimensions_are_kept_at_every_rank(rank: int) -> None:
    value = cpu_tensor(tuple(range(1, rank + 1)) if rank < 8 else (1,) * (rank - 1) + (5,))
    element_type, shape, count = (
        ffi.new("ONNXTensorElementDataType*"),
        ffi.new("const int64_t**"),
        ffi.new("size_t*"),
    )
    check(api.GetTensorElementTypeAndShapeDataReference(value, element_type, shape, count))
    given = [shape[0][i] for i in range(count[0])]
    info = out("OrtTensorTypeAndShapeInfo*", api.GetTensorTypeAndShape, value)
    copied = ffi.new("int64_t[]", rank + 1)
    copied[rank] = -7
    check(api.GetDimensions(info, copied, rank + 1))
    assert count[0] == rank == out("size_t", api.GetDimensionsCount, info)
    assert given == list(copied)[:rank] and copied[rank] == -7
    assert out("size_t", api.GetTensorShapeElementCount, info) == view(value).element_count == np.prod(given)
    api.ReleaseTensorTypeAndShapeInfo(info)
    api.ReleaseValue(value)


@pytest.mark.parametrize("shape", [(-1, 2), (1 << 40, 1 << 40), (1 << 62, 2), (1 << 61,), (-(1 << 63),)])
@pytest.mark.parametrize("element_type", [FLOAT, STRING])
def test_a_shape_that_cannot_be_is_refused(shape: tuple[int, ...], element_type: int) -> None:
    with pytest.raises(Refused) as refused:
        cpu_tensor(shape, element_type)
    assert refused.value.code == lib.ORT_INVALID_ARGUMENT


def test_a_zero_dimension_makes_any_shape_empty() -> None:
    value = cpu_tensor((1 << 62, 0, 1 << 62))
    assert (view(value).element_count, view(value).nbytes) == (0, 0)
    api.ReleaseValue(value)


@pytest.mark.parametrize(("count", "nbytes"), [(0, 0), (1, 1), (3, 2), (4, 2)])
def test_four_bit_elements_are_packed(count: int, nbytes: int) -> None:
    value = cpu_tensor((count,), INT4)
    assert out("size_t", api.GetTensorSizeInBytes, value) == nbytes
    with pytest.raises(Refused):
        out("void*", api.TensorAt, value, dims(0), 1)
    api.ReleaseValue(value)


def test_no_element_type_is_refused() -> None:
    for element_type in (0, 27, 1000):
        with pytest.raises(Refused, match="element type"):
            cpu_tensor((1,), element_type)


def test_an_element_is_found_by_its_location() -> None:
    value = cpu_tensor((2, 3))
    array_of(value)[:] = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert ffi.cast("float*", out("void*", api.TensorAt, value, dims(1, 2), 2))[0] == 5
    for location in ((2, 0), (0, -1)):
        with pytest.raises(Refused, match="outside dimension"):
            out("void*", api.TensorAt, value, dims(*location), 2)
    with pytest.raises(Refused):
        out("void*", api.TensorAt, value, dims(0), 1)
    api.ReleaseValue(value)


def test_a_tensor_over_the_callers_data_keeps_a_copy_of_the_memory_info() -> None:
    gpu = out("OrtMemoryInfo*", api.CreateMemoryInfo_V2, b"Pinned", 1, 0x10DE, 3, 5, 64, 0)
    data = ffi.new("float[4]")
    value = out("OrtValue*", api.CreateTensorWithDataAsOrtValue, gpu, data, 16, dims(2, 2), 2, FLOAT)
    api.ReleaseMemoryInfo(gpu)
    info = out("const OrtMemoryInfo*", api.GetTensorMemoryInfo, value)
    assert ffi.string(out("const char*", api.MemoryInfoGetName, info)) == b"Pinned"
    assert ep_api.MemoryDevice_GetDeviceId(ep_api.Value_GetMemoryDevice(value)) == 3
    assert view(value).data == data
    api.ReleaseValue(value)


def test_data_shorter_than_the_shape_is_refused() -> None:
    cpu = out("OrtMemoryInfo*", api.CreateCpuMemoryInfo, 0, 0)
    data = ffi.new("float[4]")
    with pytest.raises(Refused, match="16 bytes"):
        out("OrtValue*", api.CreateTensorWithDataAsOrtValue, cpu, data, 15, dims(2, 2), 2, FLOAT)
    with pytest.raises(Refused, match="NULL"):
        out("OrtValue*", api.CreateTensorWithDataAsOrtValue, cpu, ffi.NULL, 16, dims(2, 2), 2, FLOAT)
    with pytest.raises(Refused, match="strings"):
        out("OrtValue*", api.CreateTensorWithDataAsOrtValue, cpu, data, 16, dims(1), 1, STRING)
    api.ReleaseMemoryInfo(cpu)


def test_the_deleter_frees_the_data_with_the_last_sharer() -> None:
    freed = []
    free = ffi.callback("void(OrtAllocator*, void*)")(lambda allocator, block: freed.append(block))
    info = ffi.callback("OrtMemoryInfo*(OrtAllocator*)")(
        lambda allocator: lib.ephost_cpu_allocator().Info(allocator)
    )
    deleter = ffi.new("OrtAllocator*", {"version": 22, "Free": free, "Info": info})
    data = ffi.new("float[2]")
    with pytest.raises(Refused):
        out("OrtValue*", api.CreateTensorWithDataAndDeleterAsOrtValue, deleter, data, 7, dims(2), 1, FLOAT)
    assert freed == []
    value = out(
        "OrtValue*", api.CreateTensorWithDataAndDeleterAsOrtValue, deleter, data, 8, dims(2), 1, FLOAT
    )
    shared = out("OrtValue*", lib.ephost_value_share, value)
    api.ReleaseValue(value)
    assert freed == [] and view(shared).data == data
    api.ReleaseValue(shared)
    assert freed == [data]


@pytest.fixture
def released() -> list[int]:
    """The owners that C has released, in order."""
    owners: list[int] = []
    callback = ffi.callback("void(void*)")(lambda owner: owners.append(int(ffi.cast("uintptr_t", owner))))
    lib.ephost_set_release_callback(callback)
    yield owners
    lib.ephost_set_release_callback(ffi.NULL)


def wrap(array: np.ndarray, owner: int) -> object:
    data = ffi.cast("void*", array.ctypes.data)
    return out(
        "OrtValue*",
        lib.ephost_value_wrap,
        FLOAT,
        dims(*array.shape),
        array.ndim,
        data,
        array.nbytes,
        ffi.NULL,
        ffi.cast("void*", owner),
    )


def test_a_wrapped_array_is_not_copied_and_its_owner_is_told_once(released: list[int]) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    value = wrap(array, 42)
    assert int(ffi.cast("uintptr_t", view(value).data)) == array.ctypes.data
    shared = out("OrtValue*", lib.ephost_value_share, value)
    api.ReleaseValue(value)
    assert released == []
    np.testing.assert_array_equal(array_of(shared), array)
    api.ReleaseValue(shared)
    assert released == [42]


def test_a_refused_array_is_not_released(released: list[int]) -> None:
    array = np.zeros(3, np.float32)
    data = ffi.cast("void*", array.ctypes.data)
    with pytest.raises(Refused):
        out("OrtValue*", lib.ephost_value_wrap, FLOAT, dims(4), 1, data, 12, ffi.NULL, ffi.cast("void*", 7))
    assert released == []


def test_borrowed_data_is_not_shared() -> None:
    array = np.zeros(3, np.float32)
    value = wrap(array, 0)
    with pytest.raises(Refused, match="borrows"):
        out("OrtValue*", lib.ephost_value_share, value)
    api.ReleaseValue(value)


def test_strings_keep_nuls_and_any_length() -> None:
    texts = [b"", b"a\0b", "grün".encode(), b"x" * 5000]
    value = string_tensor(texts)
    assert read_strings(value) == texts
    assert [out("size_t", api.GetStringTensorElementLength, value, i) for i in range(4)] == [0, 3, 5, 5000]
    room = ffi.new("char[3]", b"___")
    check(api.GetStringTensorElement(value, 3, 1, room))
    assert bytes(ffi.buffer(room)) == b"a\0b"
    with pytest.raises(Refused, match="bytes for a text of 3"):
        check(api.GetStringTensorElement(value, 2, 1, room))
    with pytest.raises(Refused, match="no element 4"):
        check(api.GetStringTensorElement(value, 3, 4, room))
    api.ReleaseValue(value)


def test_texts_that_were_made_together_are_replaced_alone() -> None:
    value = string_tensor([b"one", b"two", b"three"])
    check(api.FillStringTensorElement(value, b"eins", 0))
    buffer = out("char*", api.GetResizedStringTensorElementBuffer, value, 2, 5)
    assert bytes(ffi.buffer(buffer, 6)) == b"three\0"
    buffer = out("char*", api.GetResizedStringTensorElementBuffer, value, 2, 4)
    assert bytes(ffi.buffer(buffer, 5)) == b"thre\0"
    buffer = out("char*", api.GetResizedStringTensorElementBuffer, value, 1, 5)
    assert bytes(ffi.buffer(buffer, 6)) == b"two\0\0\0"
    ffi.memmove(buffer, b"zwei!", 5)
    copy = out("OrtValue*", lib.ephost_value_share, value)
    api.ReleaseValue(value)
    assert read_strings(copy) == [b"eins", b"zwei!", b"thre"]
    api.ReleaseValue(copy)


def test_strings_are_filled_all_or_one_at_a_time() -> None:
    value = cpu_tensor((3,), STRING)
    assert read_strings(value) == [b"", b"", b""]
    check(api.FillStringTensor(value, c_strings(b"one", b"two", b"three"), 3))
    check(api.FillStringTensorElement(value, b"zwei", 1))
    buffer = out("char*", api.GetResizedStringTensorElementBuffer, value, 2, 5)
    assert bytes(ffi.buffer(buffer, 6)) == b"three\0"
    buffer = out("char*", api.GetResizedStringTensorElementBuffer, value, 2, 7)
    ffi.memmove(buffer, b"dre\0ier", 7)
    assert read_strings(value) == [b"one", b"zwei", b"dre\0ier"]
    with pytest.raises(Refused, match="2 texts for a tensor of 3"):
        check(api.FillStringTensor(value, c_strings(b"a", b"b"), 2))
    with pytest.raises(Refused):
        check(api.FillStringTensor(value, c_strings(b"one", b"two", None), 3))
    with pytest.raises(Refused, match="no element 3"):
        check(api.FillStringTensorElement(value, b"x", 3))
    assert read_strings(value)[0] == b"one"
    api.ReleaseValue(value)


def test_a_text_keeps_its_beginning_however_its_length_changes() -> None:
    value = string_tensor([b"abcdefgh", b"x"])
    kept = b"abcdefgh"
    for length in (14, 15, 40, 14, 16, 3, 0, 15, 2, 14, 13, 100, 99, 15, 14):
        buffer = out("char*", api.GetResizedStringTensorElementBuffer, value, 0, length)
        kept = kept[:length].ljust(length, b"\0")
        assert bytes(ffi.buffer(buffer, length + 1)) == kept + b"\0"
        kept = bytes(range(65, 65 + min(length, 60))).ljust(length, b"z")
        ffi.memmove(buffer, kept, length)
        assert read_strings(value) == [kept, b"x"]
        check(api.FillStringTensorElement(value, b"n" * (length + 1), 0))
        assert read_strings(value) == [b"n" * (length + 1), b"x"]
        kept = b"n" * (length + 1)
    api.ReleaseValue(value)


def test_string_content_needs_room_for_all() -> None:
    value = string_tensor([b"ab", b"c"])
    packed, offsets = ffi.new("char[3]"), ffi.new("size_t[2]")
    for nbytes, count in ((2, 2), (3, 1)):
        with pytest.raises(Refused, match="3 bytes in 2 texts"):
            check(api.GetStringTensorContent(value, packed, nbytes, offsets, count))
    api.ReleaseValue(value)


def test_strings_have_no_bytes_to_take_hold_of() -> None:
    value = string_tensor([b"ab", b"c"])
    for kind, slot in (
        ("void*", api.GetTensorMutableData),
        ("const void*", api.GetTensorData),
        ("size_t", api.GetTensorSizeInBytes),
    ):
        with pytest.raises(Refused, match=r"strings has no bytes.*GetStringTensorElement"):
            out(kind, slot, value)
    api.ReleaseValue(value)


def test_string_slots_refuse_numbers() -> None:
    value = cpu_tensor((2,))
    for call in (
        lambda: out("size_t", api.GetStringTensorDataLength, value),
        lambda: out("size_t", api.GetStringTensorElementLength, value, 0),
        lambda: check(api.FillStringTensorElement(value, b"x", 0)),
        lambda: out("char*", api.GetResizedStringTensorElementBuffer, value, 0, 1),
    ):
        with pytest.raises(Refused, match="no tensor of strings"):
            call()
    api.ReleaseValue(value)


def test_descending_offsets_are_refused() -> None:
    with pytest.raises(Refused, match="offset 2"):
        out("OrtValue*", lib.ephost_value_strings, b"abc", ffi.new("size_t[]", [0, 2, 1]), dims(2), 1)


def test_a_sequence_outlives_the_values_it_was_made_of() -> None:
    items = [cpu_tensor((2,)), cpu_tensor((3,))]
    array_of(items[1])[:] = [1, 2, 3]
    sequence = out("OrtValue*", api.CreateValue, ffi.new("OrtValue*[]", items), 2, lib.ONNX_TYPE_SEQUENCE)
    for item in items:
        api.ReleaseValue(item)
    assert out("size_t", api.GetValueCount, sequence) == 2
    copy = out("OrtValue*", api.GetValue, sequence, 1, lib.ephost_cpu_allocator())
    array_of(copy)[:] = 0  # of the caller's own copy
    np.testing.assert_array_equal(array_of(lib.ephost_value_item(sequence, 1)), [1, 2, 3])
    assert lib.ephost_value_item(sequence, 2) == ffi.NULL
    for index in (-1, 2):
        with pytest.raises(Refused, match="no item"):
            out("OrtValue*", api.GetValue, sequence, index, lib.ephost_cpu_allocator())
    api.ReleaseValue(copy)
    api.ReleaseValue(sequence)


def test_zip_map_takes_a_row_of_labels_alone() -> None:
    labels = string_tensor([b"a", b"b"])
    kernel = out("EphostHostKernel*", lib.ephost_zip_map_new, labels)
    api.ReleaseValue(labels)
    lib.ephost_host_kernel_free(kernel)
    matrix = cpu_tensor((1, 2))
    with pytest.raises(Refused):
        out("EphostHostKernel*", lib.ephost_zip_map_new, matrix)
    api.ReleaseValue(matrix)


def test_a_sequence_copies_what_it_cannot_share() -> None:
    array = np.ones(2, np.float32)
    item = wrap(array, 0)
    sequence = out("OrtValue*", lib.ephost_value_sequence, ffi.new("OrtValue*[]", [item]), 1, FLOAT)
    array[:] = 7
    np.testing.assert_array_equal(array_of(lib.ephost_value_item(sequence, 0)), [1, 1])
    api.ReleaseValue(item)
    api.ReleaseValue(sequence)


def test_a_sequence_of_mixed_types_is_refused() -> None:
    items = [cpu_tensor((1,)), cpu_tensor((1,), INT64)]
    with pytest.raises(Refused, match="element 1"):
        out("OrtValue*", api.CreateValue, ffi.new("OrtValue*[]", items), 2, lib.ONNX_TYPE_SEQUENCE)
    with pytest.raises(Refused):
        out("OrtValue*", api.CreateValue, ffi.new("OrtValue*[]", items), 0, lib.ONNX_TYPE_SEQUENCE)
    for item in items:
        api.ReleaseValue(item)


def test_an_empty_sequence_knows_its_element_type() -> None:
    sequence = out("OrtValue*", lib.ephost_value_sequence, ffi.NULL, 0, INT64)
    info = out("OrtTypeInfo*", api.GetTypeInfo, sequence)
    element = out(
        "OrtTypeInfo*",
        api.GetSequenceElementType,
        out("const OrtSequenceTypeInfo*", api.CastTypeInfoToSequenceTypeInfo, info),
    )
    tensor = out("const OrtTensorTypeAndShapeInfo*", api.CastTypeInfoToTensorInfo, element)
    assert out("ONNXTensorElementDataType", api.GetTensorElementType, tensor) == INT64
    assert out("size_t", api.GetValueCount, sequence) == 0
    for release, handle in (
        (api.ReleaseTypeInfo, element),
        (api.ReleaseTypeInfo, info),
        (api.ReleaseValue, sequence),
    ):
        release(handle)


def test_a_map_gives_its_keys_and_values_back() -> None:
    keys, values = string_tensor([b"a", b"b\0c"]), cpu_tensor((2,))
    array_of(values)[:] = [3, 4]
    result = out("OrtValue*", api.CreateValue, ffi.new("OrtValue*[]", [keys, values]), 2, lib.ONNX_TYPE_MAP)
    api.ReleaseValue(keys)
    api.ReleaseValue(values)
    assert out("ONNXType", api.GetValueType, result) == lib.ONNX_TYPE_MAP
    assert out("size_t", api.GetValueCount, result) == 2
    copies = [out("OrtValue*", api.GetValue, result, i, lib.ephost_cpu_allocator()) for i in range(2)]
    assert read_strings(copies[0]) == [b"a", b"b\0c"]
    np.testing.assert_array_equal(array_of(copies[1]), [3, 4])
    info = out("OrtTypeInfo*", api.GetTypeInfo, result)
    kind = out("const OrtMapTypeInfo*", api.CastTypeInfoToMapTypeInfo, info)
    assert out("ONNXTensorElementDataType", api.GetMapKeyType, kind) == STRING
    api.ReleaseTypeInfo(info)
    for value in (*copies, result):
        api.ReleaseValue(value)


def test_a_map_needs_two_lists_of_one_length_and_keys_that_can_be_keys() -> None:
    floats, strings, three = cpu_tensor((2,)), string_tensor([b"a", b"b"]), cpu_tensor((3,))
    for items in ([floats, floats], [strings, three], [strings, floats, floats], [strings]):
        with pytest.raises(Refused):
            out("OrtValue*", api.CreateValue, ffi.new("OrtValue*[]", items), len(items), lib.ONNX_TYPE_MAP)
    for value in (floats, strings, three):
        api.ReleaseValue(value)


def test_an_empty_optional_has_no_value() -> None:
    empty, full = out("OrtValue*", lib.ephost_value_empty_optional, FLOAT), cpu_tensor((1,))
    assert out("int", api.HasValue, empty) == 0 and out("int", api.HasValue, full) == 1
    assert out("int", api.IsTensor, empty) == 0 and out("int", api.IsTensor, full) == 1
    assert out("ONNXType", api.GetValueType, empty) == lib.ONNX_TYPE_OPTIONAL
    with pytest.raises(Refused, match="no tensor"):
        out("void*", api.GetTensorMutableData, empty)
    api.ReleaseValue(empty)
    api.ReleaseValue(full)


def test_what_is_no_tensor_has_no_tensor_parts() -> None:
    sequence = out("OrtValue*", lib.ephost_value_sequence, ffi.NULL, 0, FLOAT)
    for ctype, call in (
        ("void*", api.GetTensorMutableData),
        ("const void*", api.GetTensorData),
        ("size_t", api.GetTensorSizeInBytes),
        ("OrtTensorTypeAndShapeInfo*", api.GetTensorTypeAndShape),
        ("const OrtMemoryInfo*", api.GetTensorMemoryInfo),
    ):
        for value in (sequence, ffi.NULL):
            with pytest.raises(Refused) as refused:
                out(ctype, call, value)
            assert refused.value.code == lib.ORT_INVALID_ARGUMENT
    assert ep_api.Value_GetMemoryDevice(sequence) == ffi.NULL == ep_api.Value_GetMemoryDevice(ffi.NULL)
    api.ReleaseValue(sequence)


@pytest.mark.parametrize("way", ["into", "out of"])
def test_types_of_ml_dtypes_are_known_when_the_first_is_met(way: str) -> None:
    program = """
import sys, numpy as np, ml_dtypes
from ephost._bindings import address, api, call, check, ffi, lib
ones = np.ones(4, ml_dtypes.bfloat16)
if sys.argv[1] == "into":
    value = ffi.cast("OrtValue*", call.value_from_object(ones))
else:
    allocator, made = ffi.new("OrtAllocator**"), ffi.new("OrtValue**")
    check(api.GetAllocatorWithDefaultOptions(allocator))
    bfloat16 = lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16
    check(api.CreateTensorAsOrtValue(allocator[0], [4], 1, bfloat16, made))
    value = made[0]
assert call.value_to_object(address(value)).dtype == ones.dtype
api.ReleaseValue(value)
"""
    subprocess.run([sys.executable, "-c", program, way], check=True)
