"""OrtValue, OrtDevice and OrtMemoryInfo, beside onnxruntime's where it is installed."""

from __future__ import annotations

import ctypes
import gc
import re
import weakref
from pathlib import Path

import ephost
import ml_dtypes
import numpy as np
import onnx
import pytest
from api_models import model_bytes, tensor
from ephost import InferenceSession
from ephost.capi.onnxruntime_pybind11_state import OrtValueVector
from ephost.devices import OrtDevice, cpu_device
from ephost.errors import InvalidArgument, NotImplemented
from ephost.values import OrtValue, copy_tensors, over_memory
from host_state import needs_newest_onnx, needs_numpy_2
from onnx import helper

FLOATS = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_tensor_shares_the_arrays_memory_and_describes_it() -> None:
    value = OrtValue.ortvalue_from_numpy(FLOATS)
    assert value.data_ptr() == FLOATS.ctypes.data
    assert np.shares_memory(value.numpy(), FLOATS)
    described = (value.shape(), value.data_type(), value.element_type(), value.tensor_size_in_bytes())
    assert described == ([2, 3], "tensor(float)", 1, 24)
    assert (value.device_name(), value.has_value(), value.is_tensor()) == ("cpu", True, True)


def test_what_a_tensor_says_of_itself_is_what_onnxruntimes_says() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    for dtype in (np.float32, np.float64, np.float16, np.int8, np.uint8, np.int64, np.uint32, np.bool_):
        array = np.zeros((2, 1), dtype)
        said = []
        for kind in (OrtValue, onnxruntime.OrtValue):
            value = kind.ortvalue_from_numpy(array)
            said.append(
                (value.shape(), value.data_type(), value.element_type(), value.tensor_size_in_bytes(),
                 value.device_name(), value.is_tensor(), value.is_tensor_sequence(), value.is_sparse_tensor())
            )  # fmt: skip
        assert said[0] == said[1]


def test_arrays_in_the_other_order_of_bytes_keep_their_elements() -> None:
    swapped = FLOATS.astype(FLOATS.dtype.newbyteorder("S"))
    assert OrtValue.ortvalue_from_numpy(swapped).numpy().tolist() == FLOATS.tolist()
    assert OrtValue.from_python(swapped).numpy().tolist() == FLOATS.tolist()
    (item,) = OrtValue.from_python([swapped]).numpy()
    assert item.tolist() == FLOATS.tolist()
    value = OrtValue.ortvalue_from_numpy(np.zeros((2, 3), np.float32))
    value.update_inplace(swapped)
    assert value.numpy().tolist() == FLOATS.tolist()
    bits = FLOATS.astype(ml_dtypes.bfloat16).view(np.uint16)
    bits = bits.astype(bits.dtype.newbyteorder("S"))
    value = OrtValue.ortvalue_from_numpy_with_onnx_type(bits, onnx.TensorProto.BFLOAT16)
    assert value.numpy().astype(np.float32).tolist() == FLOATS.tolist()


def test_the_array_lives_as_long_as_its_value() -> None:
    array = np.ones(4, np.float32)
    gone = weakref.ref(array)
    value = OrtValue.ortvalue_from_numpy(array)
    del array
    gc.collect()
    assert gone() is not None
    del value
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        (np.array(["a", "bc"], dtype=object), "tensor(string)"),
        ([np.zeros(2, np.int64), np.ones(3, np.int64)], "seq(tensor(int64))"),
        ({1: 0.5, 2: 0.25}, "map(int64,tensor(double))"),
        ({"a": 3}, "map(string,tensor(int64))"),
        (np.zeros(3, ml_dtypes.bfloat16), "tensor(bfloat16)"),
        (np.array([1, -8, 7], ml_dtypes.int4), "tensor(int4)"),
    ],
)
def test_every_kind_of_value_comes_back_as_it_went_in(value: object, data_type: str) -> None:
    made = OrtValue.from_python(value)
    assert made.data_type() == data_type
    back = made.numpy()
    if isinstance(value, dict):
        assert back == value
    elif isinstance(value, list):
        assert made.is_tensor_sequence()
        assert [item.tolist() for item in back] == [item.tolist() for item in value]
    else:
        assert back.dtype == value.dtype
        assert back.tolist() == value.tolist()


def test_none_makes_an_empty_optional() -> None:
    value = OrtValue.from_python(None)
    assert not value.has_value()
    assert value.numpy() is None


@needs_newest_onnx
def test_element_types_are_numbered_as_onnx_numbers_them() -> None:
    for name in ("FLOAT", "BFLOAT16", "FLOAT8E8M0", "UINT2", "INT2", "STRING"):
        number = getattr(onnx.TensorProto, name)
        assert OrtValue.ortvalue_from_shape_and_type([2], number).element_type() == number


def test_bytes_can_be_read_as_a_type_that_numpy_lacks() -> None:
    value = OrtValue.ortvalue_from_numpy_with_onnx_type(
        np.array([0x3F80], np.uint16), onnx.TensorProto.BFLOAT16
    )
    assert value.data_type() == "tensor(bfloat16)"
    assert value.numpy().astype(np.float32).tolist() == [1.0]
    scalar = np.array(0x3F80, np.uint16)
    value = OrtValue.ortvalue_from_numpy_with_onnx_type(scalar, onnx.TensorProto.BFLOAT16)
    assert value.shape() == []
    with pytest.raises(InvalidArgument, match="1 bytes an element"):
        OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(1, np.uint8), onnx.TensorProto.BFLOAT16)


def test_update_inplace_writes_where_the_value_is() -> None:
    array = FLOATS.copy()
    value = OrtValue.ortvalue_from_numpy(array)
    value.update_inplace(np.full((3, 2), 7, np.float32).T)  # not contiguous
    assert array.tolist() == [[7] * 3] * 2
    value.update_inplace(OrtValue.ortvalue_from_numpy(FLOATS))
    assert array.tolist() == FLOATS.tolist()
    value.update_inplace(
        np.arange(6, 0, -1, dtype=np.float32)
    )  # as many elements: onnxruntime looks no further
    assert array.tolist() == [[6, 5, 4], [3, 2, 1]]
    with pytest.raises(InvalidArgument, match=r"shape \[2, 3\].*shape \[2, 2\]"):
        value.update_inplace(np.zeros((2, 2), np.float32))
    with pytest.raises(InvalidArgument, match="double"):
        value.update_inplace(np.zeros((2, 3)))
    with pytest.raises(TypeError):
        value.update_inplace([1, 2])


def test_a_value_over_a_read_only_array_is_never_written_to(tmp_path: Path) -> None:
    zeros, ones = np.zeros(2, np.float32), np.ones(2, np.float32)
    zeros.tofile(tmp_path / "zeros")
    content = zeros.tobytes()
    session = InferenceSession(
        model_bytes([helper.make_node("Neg", ["x"], ["y"])], [tensor("x", 2)], [tensor("y", 2)])
    )
    for array in (np.frombuffer(content, np.float32), np.memmap(tmp_path / "zeros", np.float32, "r")):
        made = OrtValue.ortvalue_from_numpy(array)
        for value in (made, OrtValue(made), OrtValue.from_python(array)):
            assert value.data_ptr() == array.ctypes.data
            assert not value.numpy().flags.writeable
            with pytest.raises(InvalidArgument, match="read-only"):
                value.update_inplace(ones)
            with pytest.raises(InvalidArgument, match="read-only"):
                copy_tensors([OrtValue.ortvalue_from_numpy(ones)], [value])
            with pytest.raises(InvalidArgument, match="read-only"):
                session.io_binding().bind_ortvalue_output("y", value)
            fed = OrtValue.ortvalue_from_numpy(ones)
            with pytest.raises(InvalidArgument, match="read-only"):
                session.run_with_ortvaluevector(None, ["x"], [fed], ["y"], [value], [])
            assert session.run(None, {"x": value})[0].tolist() == [0, 0]
    assert content == zeros.tobytes()


@needs_numpy_2
def test_dlpack_says_that_a_value_is_read_only() -> None:
    array = np.frombuffer(bytes(8), np.float32)
    value = OrtValue.ortvalue_from_numpy(array)
    out = np.from_dlpack(value)
    assert np.shares_memory(out, array) and not out.flags.writeable
    again = OrtValue.from_dlpack(value)
    with pytest.raises(InvalidArgument, match="read-only"):
        again.update_inplace(np.ones(2, np.float32))
    for without_version in (value.to_dlpack, value.__dlpack__):
        with pytest.raises(BufferError, match=r"shape=\[2\].*read-only"):
            without_version()
    assert np.from_dlpack(OrtValue.from_dlpack(value.__dlpack__(copy=True))).flags.writeable


@needs_numpy_2
def test_a_capsule_says_whether_its_tensor_is_read_only() -> None:
    array = np.frombuffer(bytes(8), np.float32)
    bfloats = OrtValue.ortvalue_from_numpy(np.frombuffer(bytes(4), ml_dtypes.bfloat16))
    for capsule in (
        array.__dlpack__(max_version=(1, 0)),
        OrtValue.ortvalue_from_numpy(array).__dlpack__(max_version=(1, 0)),
        bfloats.__dlpack__(max_version=(1, 0)),  # numpy has no such type
        bfloats,
    ):
        value = OrtValue.from_dlpack(capsule)
        with pytest.raises(InvalidArgument, match="read-only"):
            value.update_inplace(np.ones(2, value.numpy().dtype))
    for version in (None, (1, 0)):
        value = OrtValue.from_dlpack(np.zeros(2, np.float32).__dlpack__(max_version=version))
        value.update_inplace(np.ones(2, np.float32))
        assert value.numpy().tolist() == [1, 1]


def test_what_is_copied_of_a_read_only_array_is_written_to() -> None:
    array = np.frombuffer(bytes(16), np.float32)
    for copied in (array[::2], array[:2].astype(">f4")):
        copied.flags.writeable = False
        value = OrtValue.ortvalue_from_numpy(copied)
        value.update_inplace(np.ones(2, np.float32))
        assert value.numpy().tolist() == [1, 1] and value.numpy().flags.writeable


def test_copy_tensors_copies_pairwise() -> None:
    target = np.zeros_like(FLOATS)
    ephost.copy_tensors([OrtValue.ortvalue_from_numpy(FLOATS)], [OrtValue.ortvalue_from_numpy(target)])
    assert target.tolist() == FLOATS.tolist()
    with pytest.raises(InvalidArgument, match="1 sources and 0 destinations"):
        ephost.copy_tensors([OrtValue.ortvalue_from_numpy(FLOATS)], [])


def test_numpy_takes_a_value_for_an_array() -> None:
    value = OrtValue.ortvalue_from_numpy(FLOATS)
    assert np.shares_memory(np.asarray(value), FLOATS)
    assert np.asarray(value, dtype=np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(value, copy=True), FLOATS)


@needs_numpy_2
def test_dlpack_goes_both_ways_without_a_copy() -> None:
    value = OrtValue.ortvalue_from_numpy(FLOATS.copy())
    out = np.from_dlpack(value)
    assert out.ctypes.data == value.data_ptr()
    assert value.__dlpack_device__() == (1, 0)
    for source in (out, value, value.to_dlpack()):
        back = OrtValue.from_dlpack(source)
        assert back.data_ptr() == value.data_ptr()
        assert back.numpy().tolist() == FLOATS.tolist()
    assert OrtValue.from_dlpack(np.array([True, False])).data_type() == "tensor(bool)"


class BFloat16s:
    """A tensor of a library whose bfloat16 numpy does not know."""

    def __init__(self, bits: np.ndarray, strides: tuple[int, ...] | None = None) -> None:
        self._value = OrtValue.from_python(bits.view(ml_dtypes.bfloat16))
        self._strides = strides

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self) -> object:  # as before there were versions
        capsule = self._value.to_dlpack()
        if self._strides is not None:
            get = ctypes.pythonapi.PyCapsule_GetPointer
            get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            self._c_strides = (ctypes.c_int64 * len(self._strides))(*self._strides)
            at_strides = get(capsule, b"dltensor") + 8 + 8 + 4 + 4 + 8
            ctypes.c_void_p.from_address(at_strides).value = ctypes.addressof(self._c_strides)
        return capsule


def test_asking_for_the_type_of_a_capsule_leaves_it_to_be_taken() -> None:
    from ephost.capi.onnxruntime_pybind11_state import is_dlpack_uint8_tensor

    for array, is_bytes in ((np.arange(3, dtype=np.uint8), True), (np.arange(3.0), False)):
        capsule = OrtValue.ortvalue_from_numpy(array).to_dlpack()
        assert is_dlpack_uint8_tensor(capsule) is is_bytes
        assert OrtValue.from_dlpack(capsule).numpy().tolist() == array.tolist()
    with pytest.raises(TypeError):
        is_dlpack_uint8_tensor(capsule)


def test_dlpack_carries_types_that_numpy_lacks() -> None:
    bits = np.array([[0x3F80, 0x4000]], np.uint16)
    source = BFloat16s(bits)
    value = OrtValue.from_dlpack(source)
    assert (value.data_type(), value.shape()) == ("tensor(bfloat16)", [1, 2])
    assert value.numpy().astype(np.float32).tolist() == [[1, 2]]
    assert np.shares_memory(value.numpy().view(np.uint16), bits)


@needs_numpy_2
def test_what_dlpack_hands_over_lives_until_the_last_user_is_gone() -> None:
    array = np.arange(6, dtype=np.float32)
    alive = weakref.ref(array)
    value = OrtValue.ortvalue_from_numpy(array)
    del array
    unused, used, versioned = value.to_dlpack(), value.to_dlpack(), value.__dlpack__(max_version=(1, 0))
    del value
    gc.collect()
    there = [OrtValue.from_dlpack(used), np.from_dlpack(OrtValue.from_dlpack(versioned))]
    view = there[0].numpy()
    del used, versioned, there[0]
    gc.collect()
    assert view.tolist() == there[0].tolist() == list(range(6))
    there[0][0] = 7  # a tensor of a version says that it may be written
    assert view[0] == 7
    del view, there
    gc.collect()
    assert alive() is not None  # the capsule that nobody took
    del unused
    gc.collect()
    assert alive() is None


@needs_numpy_2
def test_dlpack_copies_when_it_is_asked_to() -> None:
    value = OrtValue.ortvalue_from_numpy(FLOATS.copy())
    assert not np.shares_memory(np.from_dlpack(value, copy=True), value.numpy())
    with pytest.raises(BufferError, match=r"not on \(2, 0\)"):
        value.__dlpack__(dl_device=(2, 0))
    assert not hasattr(value, "__cuda_array_interface__")


def test_dlpack_refuses_what_it_cannot_carry() -> None:
    class OnDevice:
        def __dlpack__(self, **_: object) -> None:
            raise AssertionError

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 1

    with pytest.raises(NotImplemented, match=r"\(2, 1\)"):
        OrtValue.from_dlpack(OnDevice())
    with pytest.raises(TypeError, match="__dlpack__"):
        OrtValue.from_dlpack([1])
    for unknown in (np.zeros(2, ml_dtypes.int4), np.array(["a"], object)):
        with pytest.raises(NotImplemented, match="no DLPack form"):
            OrtValue.from_python(unknown).to_dlpack()
    with pytest.raises(NotImplemented, match="contiguous"):
        OrtValue.from_dlpack(BFloat16s(np.ones((2, 2), np.uint16), strides=(1, 2)))
    capsule = OrtValue.ortvalue_from_numpy(FLOATS).to_dlpack()
    OrtValue.from_dlpack(capsule)
    with pytest.raises(TypeError, match="taken before"):
        OrtValue.from_dlpack(capsule)
    with pytest.raises(InvalidArgument, match="sequence"):
        OrtValue.from_python([np.zeros(2)]).to_dlpack()


def test_devices_other_than_the_cpu_are_refused_by_name() -> None:
    with pytest.raises(NotImplemented, match=r"type=1.*0x10de, id=1"):
        OrtValue.ortvalue_from_numpy(FLOATS, "cuda", 1)
    with pytest.raises(NotImplemented, match="type=3"):
        OrtValue.ortvalue_from_shape_and_type([1], np.float32, "npu")
    with pytest.raises(InvalidArgument, match="toaster"):
        OrtValue.ortvalue_from_numpy(FLOATS, "toaster")


def test_memory_of_others_makes_a_tensor_and_null_does_not() -> None:
    value = over_memory(FLOATS.ctypes.data, np.float32, [3, 2], cpu_device())
    assert value.data_ptr() == FLOATS.ctypes.data
    with pytest.raises(InvalidArgument, match="address 0"):
        over_memory(0, np.float32, [1], cpu_device())


@pytest.mark.parametrize("shape", [[2**40, 2**40], [0, 2**62, 2**62]])
def test_a_shape_that_no_array_has_is_refused(shape: list[int]) -> None:
    for element_type in (np.float32, onnx.TensorProto.STRING):
        with pytest.raises(InvalidArgument, match=re.escape(str(shape))):
            OrtValue.ortvalue_from_shape_and_type(shape, element_type)


def test_what_is_no_tensor_has_no_shape_size_or_address() -> None:
    sequence = OrtValue.from_python([np.zeros(2)])
    for ask in (sequence.shape, sequence.data_ptr, sequence.tensor_size_in_bytes):
        with pytest.raises(InvalidArgument, match="sequence"):
            ask()
    with pytest.raises(InvalidArgument, match="strings"):
        OrtValue.from_python(np.array(["a"], object)).data_ptr()


def test_a_vector_of_values_has_the_native_vectors_methods() -> None:
    vector = OrtValueVector()
    vector.push_back(OrtValue.ortvalue_from_numpy(np.array([True])))
    vector.push_back(OrtValue.ortvalue_from_numpy(FLOATS).to_dlpack())
    vector.push_back_batch([FLOATS], [FLOATS.ctypes.data], [np.float32], [[6]], [OrtDevice(0, 0, 0)])
    assert vector.bool_tensor_indices() == [0]
    assert [vector.element_type_at(at) for at in range(3)] == [9, 1, 1]
    assert [array.size for array in vector.to_dlpacks(lambda c: OrtValue.from_dlpack(c).numpy())] == [1, 6, 6]


def test_devices_and_memory_infos_read_back_as_onnxruntimes_do() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    said = []
    for module in (ephost, onnxruntime):
        device = module.OrtDevice.make("cuda", 2)
        info = module.OrtMemoryInfo(
            "Cpu", module.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, module.OrtMemType.CPU_INPUT
        )
        arena = module.OrtArenaCfg({"max_mem": 1024, "arena_extend_strategy": 1})
        second = module.OrtMemoryInfo.create_v2(
            "Gpu",
            module.OrtMemoryInfoDeviceType.GPU,
            0x10DE,
            3,
            module.OrtDeviceMemoryType.HOST_ACCESSIBLE,
            256,
            module.OrtAllocatorType.ORT_DEVICE_ALLOCATOR,
        )
        said.append(
            [
                (
                    device.device_type(),
                    device.device_id(),
                    device.device_vendor_id(),
                    device.device_mem_type(),
                ),
                (
                    info.name,
                    info.device_id,
                    info.mem_type.name,
                    info.allocator_type.name,
                    info.device_mem_type.name,
                ),
                (second.name, second.device_id, second.device_vendor_id, second.device_mem_type.name),
                (arena.max_mem, arena.arena_extend_strategy, arena.initial_chunk_size_bytes),
            ]
        )
    assert said[0] == said[1]
