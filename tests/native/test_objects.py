"""Status, key-value pairs, memory infos, type infos, loggers, devices, options, and the way to the tables."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ephost import logs
from native_objects import Refused, api, c_strings, check, dims, editor, ep_api, ffi, lib, out, path_text

FLOAT = lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT


def text(pointer: Any) -> str:
    return ffi.string(pointer).decode()


def pairs_of(pairs: Any) -> dict[str, str]:
    keys, values, count = ffi.new("char***"), ffi.new("char***"), ffi.new("size_t*")
    api.GetKeyValuePairs(
        pairs, ffi.cast("const char* const**", keys), ffi.cast("const char* const**", values), count
    )
    return {text(keys[0][i]): text(values[0][i]) for i in range(count[0])}


def new_pairs(entries: dict[str, str]) -> Any:
    place = ffi.new("OrtKeyValuePairs**")
    api.CreateKeyValuePairs(place)
    for key, value in entries.items():
        api.AddKeyValuePair(place[0], key.encode(), value.encode())
    return place[0]


# ---- tables


def test_every_version_up_to_the_served_one_gets_the_table_and_no_other_does() -> None:
    base = lib.ephost_api_base
    assert base.GetApi(1) == base.GetApi(32) != ffi.NULL
    assert base.GetApi(0) == ffi.NULL == base.GetApi(33)
    assert text(base.GetVersionString()).split(".")[:2] == ["1", "32"]
    assert text(api.GetBuildInfoString()).startswith("ephost ")
    assert api.GetTrainingApi(1) == ffi.NULL == api.GetExperimentalFunction(b"anything")
    assert api.GetEpApi().CreateEpDevice == ep_api.CreateEpDevice
    assert api.GetModelEditorApi().CreateMapTypeInfo == editor.CreateMapTypeInfo


# ---- status


def test_a_status_keeps_its_code_and_message() -> None:
    status = api.CreateStatus(lib.ORT_EP_FAIL, b"50% of %s")
    assert api.GetErrorCode(status) == lib.ORT_EP_FAIL
    assert text(api.GetErrorMessage(status)) == "50% of %s"
    api.ReleaseStatus(status)
    assert api.GetErrorCode(ffi.NULL) == lib.ORT_OK and text(api.GetErrorMessage(ffi.NULL)) == ""


def test_a_status_without_memory_is_still_a_status() -> None:
    lib.ephost_fail_allocation_after(0)
    status = api.CreateStatus(lib.ORT_EP_FAIL, b"never stored")
    assert "memory" in text(api.GetErrorMessage(status))
    api.ReleaseStatus(status)
    api.ReleaseStatus(status)  # shared, so releasing it twice is nothing


# ---- key-value pairs


def test_pairs_keep_order_replace_and_remove() -> None:
    pairs = new_pairs({f"key{i}": str(i) for i in range(20)})
    api.AddKeyValuePair(pairs, b"key3", b"three")
    api.RemoveKeyValuePair(pairs, b"key0")
    api.RemoveKeyValuePair(pairs, b"absent")
    assert list(pairs_of(pairs).items())[:3] == [("key1", "1"), ("key2", "2"), ("key3", "three")]
    assert len(pairs_of(pairs)) == 19
    assert text(api.GetKeyValue(pairs, b"key19")) == "19"
    assert api.GetKeyValue(pairs, b"key0") == ffi.NULL
    api.ReleaseKeyValuePairs(pairs)


def test_many_pairs_are_found_after_others_were_removed() -> None:
    expected = {f"key{i}": str(i) for i in range(1000)}
    pairs = new_pairs(expected)
    for i in range(0, 1000, 7):
        api.RemoveKeyValuePair(pairs, f"key{i}".encode())
        del expected[f"key{i}"]
    for i in range(0, 1000, 14):
        api.AddKeyValuePair(pairs, f"key{i}".encode(), b"again")
        expected[f"key{i}"] = "again"
    assert list(pairs_of(pairs).items()) == list(expected.items())
    for i in range(1001):
        found = api.GetKeyValue(pairs, f"key{i}".encode())
        assert (text(found) if found else None) == expected.get(f"key{i}")
    api.ReleaseKeyValuePairs(pairs)


@pytest.mark.resources
@pytest.mark.skipif(sys.platform == "win32", reason="Windows limits no process's time this way")
def test_the_time_for_many_pairs_does_not_grow_with_their_square() -> None:
    """Each new key was compared with all before it: minutes for so many, which now take a second."""
    program = """if True:
        import resource
        from ephost._bindings import api, ffi
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        place = ffi.new("OrtKeyValuePairs**")
        api.CreateKeyValuePairs(place)
        for i in range(300000):
            api.AddKeyValuePair(place[0], b"%d" % i, b"")
        assert api.GetKeyValue(place[0], b"299999")
    """
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_empty_key_or_a_missing_value_adds_nothing() -> None:
    pairs = new_pairs({"": "value"})
    api.AddKeyValuePair(pairs, b"key", ffi.NULL)
    api.AddKeyValuePair(pairs, ffi.NULL, b"value")
    assert pairs_of(pairs) == {}
    api.ReleaseKeyValuePairs(pairs)


# ---- memory infos


@pytest.mark.parametrize(
    ("name", "reported", "device_type", "memory_type", "vendor", "device_id"),
    [  # what onnxruntime 1.31 answers
        ("Cpu", "Cpu", 0, 0, 0, 0),
        ("Cuda", "Cuda", 1, 0, 0x10DE, 3),
        ("CudaPinned", "CudaPinned", 1, 5, 0x10DE, 3),
        ("DML", "DML", 1, 0, 0x1414, 3),
        ("OpenVINO_RT_NPU", "OpenVINO_RT_NPU", 3, 0, 0x8086, 3),
        ("QnnHtpShared", "QnnHtpShared", 0, 5, 0x5143, 3),
        ("WebGPU_Buffer", "WebGPU_Buf", 1, 0, 0, 3),
    ],
)
def test_a_known_name_says_the_device(
    name: str, reported: str, device_type: int, memory_type: int, vendor: int, device_id: int
) -> None:
    info = out("OrtMemoryInfo*", api.CreateMemoryInfo, name.encode(), lib.OrtArenaAllocator, 3, -1)
    kind = ffi.new("OrtMemoryInfoDeviceType*")
    api.MemoryInfoGetDeviceType(info, kind)
    assert text(out("const char*", api.MemoryInfoGetName, info)) == reported
    assert (kind[0], api.MemoryInfoGetDeviceMemType(info)) == (device_type, memory_type)
    assert (api.MemoryInfoGetVendorId(info), out("int", api.MemoryInfoGetId, info)) == (vendor, device_id)
    assert out("OrtMemType", api.MemoryInfoGetMemType, info) == -1
    assert out("OrtAllocatorType", api.MemoryInfoGetType, info) == lib.OrtArenaAllocator
    device = ep_api.MemoryInfo_GetMemoryDevice(info)
    assert ep_api.MemoryDevice_GetDeviceType(device) == device_type
    assert ep_api.MemoryDevice_GetMemoryType(device) == memory_type
    assert ep_api.MemoryDevice_GetVendorId(device) == vendor
    assert ep_api.MemoryDevice_GetDeviceId(device) == device_id
    api.ReleaseMemoryInfo(info)


def test_an_unknown_name_needs_the_newer_function() -> None:
    with pytest.raises(Refused, match="Quantum"):
        out("OrtMemoryInfo*", api.CreateMemoryInfo, b"Quantum", 0, 0, 0)
    info = out(
        "OrtMemoryInfo*", api.CreateMemoryInfo_V2, b"Quantum", 3, 7, 1, 0, 128, lib.OrtReadOnlyAllocator
    )
    assert text(out("const char*", api.MemoryInfoGetName, info)) == "Quantum"
    api.ReleaseMemoryInfo(info)
    for device_type, memory_type in ((4, 0), (0, 3)):
        with pytest.raises(Refused):
            out("OrtMemoryInfo*", api.CreateMemoryInfo_V2, b"x", device_type, 0, 0, memory_type, 0, 0)


@pytest.mark.parametrize(
    ("other", "same_device"),
    [
        ((b"a", 1, 2, 3, 0, 64, 0), True),
        ((b"b", 1, 2, 3, 0, 64, 0), True),
        ((b"a", 1, 2, 3, 0, 64, 1), True),
        ((b"a", 1, 2, 4, 0, 64, 0), False),
        ((b"a", 1, 9, 3, 0, 64, 0), False),
        ((b"a", 3, 2, 3, 0, 64, 0), False),
        ((b"a", 1, 2, 3, 5, 64, 0), False),
        ((b"a", 1, 2, 3, 0, 0, 0), False),
    ],
)
def test_infos_are_equal_when_everything_is_and_devices_when_their_part_is(
    other: tuple, same_device: bool
) -> None:
    first = (b"a", 1, 2, 3, 0, 64, 0)
    a, b = (out("OrtMemoryInfo*", api.CreateMemoryInfo_V2, *each) for each in (first, other))
    assert (out("int", api.CompareMemoryInfo, a, b) == 0) == (first == other)
    devices = ep_api.MemoryInfo_GetMemoryDevice(a), ep_api.MemoryInfo_GetMemoryDevice(b)
    assert ep_api.MemoryDevice_AreEqual(*devices) == same_device
    api.ReleaseMemoryInfo(a)
    api.ReleaseMemoryInfo(b)


def test_arena_settings_are_checked_by_name() -> None:
    keys = c_strings(b"max_mem", b"no_such_setting")
    values = ffi.new("size_t[]", [1, 2])
    config = out("OrtArenaCfg*", api.CreateArenaCfgV2, keys, values, 1)
    api.ReleaseArenaCfg(config)
    with pytest.raises(Refused, match="no_such_setting"):
        out("OrtArenaCfg*", api.CreateArenaCfgV2, keys, values, 2)
    api.ReleaseArenaCfg(out("OrtArenaCfg*", api.CreateArenaCfg, 0, -1, -1, -1))


# ---- type infos


def tensor_type(shape: list[int] | None, symbols: list[bytes] | None = None) -> Any:
    place = ffi.new("OrtTypeInfo**")
    check(
        lib.ephost_type_tensor(
            FLOAT,
            shape is not None,
            dims(*(shape or [])),
            c_strings(*symbols) if symbols else ffi.NULL,
            len(shape or []),
            place,
        )
    )
    return place[0]


def test_a_tensor_type_keeps_shape_symbols_and_denotation() -> None:
    info = tensor_type([-1, 3, -1, 1, 1, 1, 2], [b"batch", b"", b"width", b"", b"", b"", b""])
    check(lib.ephost_type_set_denotation(info, b"IMAGE"))
    tensor = out("const OrtTensorTypeAndShapeInfo*", api.CastTypeInfoToTensorInfo, info)
    given, names = ffi.new("int64_t[7]"), ffi.new("char*[7]")
    check(api.GetDimensions(tensor, given, 7))
    check(api.GetSymbolicDimensions(tensor, names, 7))
    assert list(given) == [-1, 3, -1, 1, 1, 1, 2]
    assert [text(name) for name in names] == ["batch", "", "width", "", "", "", ""]
    denotation, length = ffi.new("char**"), ffi.new("size_t*")
    check(api.GetDenotationFromTypeInfo(info, denotation, length))
    assert (text(denotation[0]), length[0]) == ("IMAGE", 5)
    with pytest.raises(Refused, match="unknown"):
        out("size_t", api.GetTensorShapeElementCount, tensor)
    assert out("const OrtMapTypeInfo*", api.CastTypeInfoToMapTypeInfo, info) == ffi.NULL
    assert out("const OrtSequenceTypeInfo*", api.CastTypeInfoToSequenceTypeInfo, info) == ffi.NULL
    assert out("const OrtOptionalTypeInfo*", api.CastTypeInfoToOptionalTypeInfo, info) == ffi.NULL
    api.ReleaseTypeInfo(info)


def test_no_shape_is_not_a_scalar() -> None:
    for shape, has_shape, count in ((None, False, 0), ([], True, 1)):
        info = tensor_type(shape)
        tensor = out("const OrtTensorTypeAndShapeInfo*", api.CastTypeInfoToTensorInfo, info)
        assert api.TensorTypeAndShape_HasShape(tensor) == has_shape
        assert out("size_t", api.GetTensorShapeElementCount, tensor) == count
        api.ReleaseTypeInfo(info)


def test_a_tensor_info_is_built_step_by_step() -> None:
    info = out("OrtTensorTypeAndShapeInfo*", api.CreateTensorTypeAndShapeInfo)
    assert not api.TensorTypeAndShape_HasShape(info)
    check(api.SetTensorElementType(info, FLOAT))
    check(api.SetDimensions(info, dims(*range(8)), 8))
    check(api.SetDimensions(info, dims(-1, 4), 2))
    names = c_strings(b"N", None)
    check(api.SetSymbolicDimensions(info, names, 2))
    seen = ffi.new("char*[2]")
    check(api.GetSymbolicDimensions(info, seen, 2))
    assert [text(name) for name in seen] == ["N", ""]
    for call in (
        lambda: api.SetSymbolicDimensions(info, names, 1),
        lambda: api.SetDimensions(info, dims(-2), 1),
        lambda: api.SetDimensions(info, ffi.NULL, 1),
        lambda: api.SetTensorElementType(info, 99),
    ):
        with pytest.raises(Refused):
            check(call())
    assert out("size_t", api.GetDimensionsCount, info) == 2
    check(api.SetDimensions(info, dims(1 << 40, 1 << 40), 2))
    check(api.GetSymbolicDimensions(info, seen, 2))
    assert text(seen[0]) == ""
    with pytest.raises(Refused, match="overflows"):
        out("size_t", api.GetTensorShapeElementCount, info)
    api.ReleaseTensorTypeAndShapeInfo(info)


def test_nested_types_are_copies_all_the_way_down() -> None:
    tensor = tensor_type([2, -1], [b"", b"n"])
    mapped = out("OrtTypeInfo*", editor.CreateMapTypeInfo, lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, tensor)
    sequence = out("OrtTypeInfo*", editor.CreateSequenceTypeInfo, mapped)
    optional = out("OrtTypeInfo*", editor.CreateOptionalTypeInfo, sequence)
    for info in (tensor, mapped, sequence):
        api.ReleaseTypeInfo(info)
    assert out("ONNXType", api.GetOnnxTypeFromTypeInfo, optional) == lib.ONNX_TYPE_OPTIONAL
    inner = out(
        "OrtTypeInfo*",
        api.GetOptionalContainedTypeInfo,
        out("const OrtOptionalTypeInfo*", api.CastTypeInfoToOptionalTypeInfo, optional),
    )
    element = out(
        "OrtTypeInfo*",
        api.GetSequenceElementType,
        out("const OrtSequenceTypeInfo*", api.CastTypeInfoToSequenceTypeInfo, inner),
    )
    kind = out("const OrtMapTypeInfo*", api.CastTypeInfoToMapTypeInfo, element)
    value = out("OrtTypeInfo*", api.GetMapValueType, kind)
    names = ffi.new("char*[2]")
    check(
        api.GetSymbolicDimensions(
            out("const OrtTensorTypeAndShapeInfo*", api.CastTypeInfoToTensorInfo, value), names, 2
        )
    )
    assert (
        out("ONNXTensorElementDataType", api.GetMapKeyType, kind) == lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64
    )
    assert text(names[1]) == "n"
    for info in (value, element, inner, optional):
        api.ReleaseTypeInfo(info)


def test_a_sparse_tensor_type_is_cast_to_a_tensor_info_too() -> None:
    tensor = tensor_type([4])
    shape = out("const OrtTensorTypeAndShapeInfo*", api.CastTypeInfoToTensorInfo, tensor)
    sparse = out("OrtTypeInfo*", editor.CreateSparseTensorTypeInfo, shape)
    api.ReleaseTypeInfo(tensor)
    assert out("ONNXType", api.GetOnnxTypeFromTypeInfo, sparse) == lib.ONNX_TYPE_SPARSETENSOR
    shape = out("const OrtTensorTypeAndShapeInfo*", api.CastTypeInfoToTensorInfo, sparse)
    assert out("size_t", api.GetTensorShapeElementCount, shape) == 4
    api.ReleaseTypeInfo(sparse)


# ---- loggers


@contextmanager
def log_callback(callback: Any) -> Iterator[None]:
    """Another one for a while than the one that other tests of this process listen through."""
    lib.ephost_set_log_callback(callback)
    try:
        yield
    finally:
        lib.ephost_set_log_callback(logs._on_log_callback)


@pytest.fixture
def logged() -> Iterator[list[tuple]]:
    """What came through the log callback."""
    messages: list[tuple] = []
    callback = ffi.callback("void(int, char*, char*, char*, int, char*)")(
        lambda level, logger, message, file, line, function: messages.append(
            (level, text(logger), text(message), text(file), line, text(function))
        )
    )
    with log_callback(callback):
        yield messages


def test_messages_below_the_loggers_level_are_dropped(logged: list[tuple]) -> None:
    logger = lib.ephost_logger_new(b"my_ep", lib.ORT_LOGGING_LEVEL_WARNING)
    assert out("OrtLoggingLevel", api.Logger_GetLoggingSeverityLevel, logger) == lib.ORT_LOGGING_LEVEL_WARNING
    check(api.Logger_LogMessage(logger, lib.ORT_LOGGING_LEVEL_INFO, b"quiet", path_text("a.cc"), 1, b"f"))
    check(
        api.Logger_LogMessage(
            logger, lib.ORT_LOGGING_LEVEL_WARNING, b"loud %s", path_text("a.cc"), 12, b"Compile"
        )
    )
    check(api.Logger_LogMessage(logger, lib.ORT_LOGGING_LEVEL_ERROR, b"bare", ffi.NULL, 0, ffi.NULL))
    assert logged == [
        (lib.ORT_LOGGING_LEVEL_WARNING, "my_ep", "loud %s", "a.cc", 12, "Compile"),
        (lib.ORT_LOGGING_LEVEL_ERROR, "my_ep", "bare", "", 0, ""),
    ]
    lib.ephost_logger_free(logger)


def test_a_refused_api_version_is_said(logged: list[tuple]) -> None:
    lib.ephost_api_base.GetApi(99)
    assert len(logged) == 1 and "version 99" in logged[0][2] and logged[0][1] == "ephost"
    lib.ephost_set_log_level(lib.ORT_LOGGING_LEVEL_ERROR)
    lib.ephost_api_base.GetApi(99)
    lib.ephost_set_log_level(lib.ORT_LOGGING_LEVEL_WARNING)
    assert len(logged) == 1


def test_logging_without_a_callback_is_safe(capfd: pytest.CaptureFixture[str]) -> None:
    logger = lib.ephost_logger_new(b"my_ep", lib.ORT_LOGGING_LEVEL_VERBOSE)
    with log_callback(ffi.NULL):
        check(api.Logger_LogMessage(logger, lib.ORT_LOGGING_LEVEL_WARNING, b"unheard", ffi.NULL, 0, ffi.NULL))
        check(api.Logger_LogMessage(logger, lib.ORT_LOGGING_LEVEL_ERROR, b"serious", ffi.NULL, 0, ffi.NULL))
    assert capfd.readouterr().err == "[my_ep] serious\n"
    lib.ephost_logger_free(logger)


# ---- devices


@pytest.fixture
def hardware() -> Iterator[Any]:
    """An NPU of the vendor "Acme" with one entry of metadata."""
    metadata = new_pairs({"PCI": "01:00"})
    device = out(
        "OrtHardwareDevice*",
        ep_api.CreateHardwareDevice,
        lib.OrtHardwareDeviceType_NPU,
        0xACE,
        7,
        b"Acme",
        metadata,
    )
    api.ReleaseKeyValuePairs(metadata)
    yield device
    ep_api.ReleaseHardwareDevice(device)


class Factory:
    """An OrtEpFactory of which only the getters work."""

    def __init__(self, version: int, **getters: bytes | None) -> None:
        self.kept: list[Any] = []
        self.handle = ffi.new("OrtEpFactory*", {"ort_version_supported": version})
        for member, answer in getters.items():
            string = ffi.new("char[]", answer) if answer is not None else ffi.NULL
            getter = ffi.callback("char*(OrtEpFactory*)")(lambda factory, string=string: string)
            self.kept += [string, getter]
            setattr(self.handle, member, getter)


@pytest.mark.parametrize("asked", [(True, True), (True, False), (False, True)])
def test_a_device_says_through_its_factory_how_much_memory_it_has(
    hardware: Any, asked: tuple[bool, bool]
) -> None:
    factory = Factory(32, GetName=b"AcmeEP", GetVendor=b"Acme")
    seen: list[Any] = []

    @ffi.callback("OrtStatus*(OrtEpFactory*, OrtEpDevice*, OrtDeviceMemoryType, uint64_t*, uint64_t*)")
    def capacity(this: Any, of: Any, kind: int, first: Any, second: Any) -> Any:
        seen.append((this, of, kind, first != ffi.NULL, second != ffi.NULL))
        for place, number in ((first, 1 << 40), (second, 7)):
            if place != ffi.NULL:
                place[0] = number
        return ffi.NULL

    factory.handle.GetDeviceMemoryCapacity = capacity
    assert factory.handle.GetDeviceMemoryCapacity == capacity
    device = out("OrtEpDevice*", ep_api.CreateEpDevice, factory.handle, hardware, ffi.NULL, ffi.NULL)
    numbers = [ffi.new("uint64_t*", 3), ffi.new("uint64_t*", 3)]
    places = [number if wanted else ffi.NULL for number, wanted in zip(numbers, asked, strict=True)]
    check(api.EpDevice_GetMemoryCapacity(device, lib.OrtDeviceMemoryType_HOST_ACCESSIBLE, *places))
    assert [number[0] for number in numbers] == [1 << 40 if asked[0] else 3, 7 if asked[1] else 3]
    assert seen == [(factory.handle, device, lib.OrtDeviceMemoryType_HOST_ACCESSIBLE, *asked)]
    with pytest.raises(Refused):
        check(api.EpDevice_GetMemoryCapacity(device, 0, ffi.NULL, ffi.NULL))
    factory.handle.ort_version_supported = 31  # whose memory ends before that member
    with pytest.raises(Refused, match="cannot say"):
        check(api.EpDevice_GetMemoryCapacity(device, 0, *numbers))
    ep_api.ReleaseEpDevice(device)


def test_a_hardware_device_tells_what_it_was_made_of(hardware: Any) -> None:
    assert api.HardwareDevice_Type(hardware) == lib.OrtHardwareDeviceType_NPU
    assert (api.HardwareDevice_VendorId(hardware), api.HardwareDevice_DeviceId(hardware)) == (0xACE, 7)
    assert text(api.HardwareDevice_Vendor(hardware)) == "Acme"
    assert pairs_of(api.HardwareDevice_Metadata(hardware)) == {"PCI": "01:00"}
    with pytest.raises(Refused):
        out("OrtHardwareDevice*", ep_api.CreateHardwareDevice, 3, 0, 0, ffi.NULL, ffi.NULL)


def test_an_ep_device_takes_its_names_and_version_from_the_factory(hardware: Any) -> None:
    factory = Factory(23, GetName=b"AcmeEP", GetVendor=b"Acme", GetVersion=b"1.2.3")
    options = new_pairs({"mode": "fast"})
    device = out("OrtEpDevice*", ep_api.CreateEpDevice, factory.handle, hardware, ffi.NULL, options)
    api.ReleaseKeyValuePairs(options)
    assert (text(api.EpDevice_EpName(device)), text(api.EpDevice_EpVendor(device))) == ("AcmeEP", "Acme")
    assert pairs_of(api.EpDevice_EpMetadata(device)) == {"version": "1.2.3"}
    assert pairs_of(api.EpDevice_EpOptions(device)) == {"mode": "fast"}
    assert api.EpDevice_Device(device) == hardware
    assert lib.ephost_ep_device_factory(device) == factory.handle
    ep_api.ReleaseEpDevice(device)


def test_a_version_in_the_metadata_is_refused_where_the_factory_says_one(hardware: Any) -> None:
    own = new_pairs({"version": "mine"})
    new = Factory(23, GetName=b"A", GetVendor=b"B", GetVersion=b"1.2.3")
    with pytest.raises(Refused, match='of A has the key "version"'):
        out("OrtEpDevice*", ep_api.CreateEpDevice, new.handle, hardware, own, ffi.NULL)
    old = Factory(22, GetName=b"A", GetVendor=b"B", GetVersion=b"1.2.3")  # has no such member yet
    for metadata, expected in ((own, {"version": "mine"}), (ffi.NULL, {})):
        device = out("OrtEpDevice*", ep_api.CreateEpDevice, old.handle, hardware, metadata, ffi.NULL)
        assert pairs_of(api.EpDevice_EpMetadata(device)) == expected
        ep_api.ReleaseEpDevice(device)
    api.ReleaseKeyValuePairs(own)


@pytest.mark.parametrize(
    ("getters", "missing"),
    [
        ({}, "GetName"),
        ({"GetName": None}, "GetName"),
        ({"GetName": b""}, "GetName"),
        ({"GetName": b"AcmeEP"}, "GetVendor"),
        ({"GetName": b"AcmeEP", "GetVendor": None}, "AcmeEP"),
    ],
)
def test_a_factory_that_does_not_name_itself_is_refused(hardware: Any, getters: dict, missing: str) -> None:
    factory = Factory(23, **getters)
    with pytest.raises(Refused, match=missing):
        out("OrtEpDevice*", ep_api.CreateEpDevice, factory.handle, hardware, ffi.NULL, ffi.NULL)


def test_an_ep_device_without_hardware_is_refused() -> None:
    factory = Factory(22, GetName=b"A", GetVendor=b"B")
    with pytest.raises(Refused, match="hardware_device"):
        out("OrtEpDevice*", ep_api.CreateEpDevice, factory.handle, ffi.NULL, ffi.NULL, ffi.NULL)


def test_each_kind_of_memory_has_its_place(hardware: Any) -> None:
    factory = Factory(22, GetName=b"A", GetVendor=b"B")
    device = out("OrtEpDevice*", ep_api.CreateEpDevice, factory.handle, hardware, ffi.NULL, ffi.NULL)
    assert api.EpDevice_MemoryInfo(device, lib.OrtDeviceMemoryType_DEFAULT) == ffi.NULL
    given = {}
    for name, memory_type, allocator_type in (
        ("first", 0, 0),
        ("main", 0, 0),
        ("host", 5, 0),
        ("weights", 0, 2),
    ):
        given[name] = out(
            "OrtMemoryInfo*",
            api.CreateMemoryInfo_V2,
            name.encode(),
            3,
            1,
            0,
            memory_type,
            0,
            allocator_type,
        )
        check(ep_api.EpDevice_AddAllocatorInfo(device, given[name]))
    found = [api.EpDevice_MemoryInfo(device, kind) for kind in (0, 5)] + [
        lib.ephost_ep_device_read_only_memory(device)
    ]
    # The very objects: a plugin may know them again by their addresses.
    assert found == [given["main"], given["host"], given["weights"]]
    ep_api.ReleaseEpDevice(device)
    for info in given.values():
        api.ReleaseMemoryInfo(info)


def test_incompatibility_details_are_what_the_plugin_set() -> None:
    details = lib.ephost_incompatibility_details_new()
    assert out("const char*", api.DeviceEpIncompatibilityDetails_GetNotes, details) == ffi.NULL
    for notes in (b"old driver", b"too old"):
        check(ep_api.DeviceEpIncompatibilityDetails_SetDetails(details, 5, -3, notes))
    assert out("uint32_t", api.DeviceEpIncompatibilityDetails_GetReasonsBitmask, details) == 5
    assert out("int32_t", api.DeviceEpIncompatibilityDetails_GetErrorCode, details) == -3
    assert text(out("const char*", api.DeviceEpIncompatibilityDetails_GetNotes, details)) == "too old"
    api.ReleaseDeviceEpIncompatibilityDetails(details)


# ---- options


def test_a_session_entry_is_asked_for_its_size_first() -> None:
    options = out("OrtSessionOptions*", api.CreateSessionOptions)
    check(api.AddSessionConfigEntry(options, b"key", b"abc"))
    size, room = ffi.new("size_t*"), ffi.new("char[]", b"______")
    check(api.GetSessionConfigEntry(options, b"key", ffi.NULL, size))
    assert size[0] == 4
    size[0] = 3
    with pytest.raises(Refused, match="too small") as refused:
        check(api.GetSessionConfigEntry(options, b"key", room, size))
    assert (refused.value.code, size[0], ffi.string(room)) == (lib.ORT_INVALID_ARGUMENT, 4, b"______")
    check(api.GetSessionConfigEntry(options, b"key", room, size))
    assert ffi.string(room) == b"abc"
    assert [out("int", api.HasSessionConfigEntry, options, key) for key in (b"key", b"other")] == [1, 0]
    with pytest.raises(Refused, match="other"):
        check(api.GetSessionConfigEntry(options, b"other", room, size))
    with pytest.raises(Refused, match="empty"):
        check(api.AddSessionConfigEntry(options, b"", b"x"))
    api.ReleaseSessionOptions(options)


def test_a_clone_has_its_own_entries() -> None:
    options = out("OrtSessionOptions*", api.CreateSessionOptions)
    assert out("int", api.GetMemPatternEnabled, options) == 1
    assert out("ExecutionMode", api.GetSessionExecutionMode, options) == lib.ORT_SEQUENTIAL
    check(api.AddSessionConfigEntry(options, b"key", b"old"))
    check(api.DisableMemPattern(options))
    check(api.SetSessionExecutionMode(options, lib.ORT_PARALLEL))
    model = ffi.new("char[8]")
    check(api.SessionOptionsSetWeightlessSourceModelBuffer(options, model, 8))
    clone = out("OrtSessionOptions*", api.CloneSessionOptions, options)
    check(api.AddSessionConfigEntry(options, b"key", b"new"))
    check(api.EnableMemPattern(options))
    api.ReleaseSessionOptions(options)
    entries = out("OrtKeyValuePairs*", api.GetSessionOptionsConfigEntries, clone)
    assert pairs_of(entries) == {"key": "old"}
    assert out("int", api.GetMemPatternEnabled, clone) == 0
    assert out("ExecutionMode", api.GetSessionExecutionMode, clone) == lib.ORT_PARALLEL
    data, length = ffi.new("const void**"), ffi.new("size_t*")
    check(ep_api.SessionOptionsGetWeightlessSourceModelBuffer(clone, data, length))
    assert (data[0], length[0]) == (model, 8)
    api.ReleaseKeyValuePairs(entries)
    api.ReleaseSessionOptions(clone)


def test_options_refuse_what_means_nothing() -> None:
    options = out("OrtSessionOptions*", api.CreateSessionOptions)
    for status in (
        api.SetSessionExecutionMode(options, 2),
        api.SessionOptionsSetWeightlessSourceModelBuffer(options, ffi.NULL, 8),
        api.SessionOptionsSetWeightlessSourceModelBuffer(options, ffi.new("char[1]"), 0),
    ):
        with pytest.raises(Refused):
            check(status)
    api.ReleaseSessionOptions(options)


def test_run_options_keep_what_is_set() -> None:
    options = out("OrtRunOptions*", api.CreateRunOptions)
    assert text(out("const char*", api.RunOptionsGetRunTag, options)) == ""
    assert out("int", api.RunOptionsGetRunLogSeverityLevel, options) == -1
    for tag in (b"first", b"second"):
        check(api.RunOptionsSetRunTag(options, tag))
    check(api.RunOptionsSetRunLogSeverityLevel(options, 3))
    check(api.RunOptionsSetRunLogVerbosityLevel(options, 4))
    check(api.AddRunConfigEntry(options, b"key", b"value"))
    assert text(out("const char*", api.RunOptionsGetRunTag, options)) == "second"
    assert out("int", api.RunOptionsGetRunLogSeverityLevel, options) == 3
    assert out("int", api.RunOptionsGetRunLogVerbosityLevel, options) == 4
    assert text(api.GetRunConfigEntry(options, b"key")) == "value"
    assert api.GetRunConfigEntry(options, b"other") == ffi.NULL
    api.ReleaseRunOptions(options)


def test_the_environments_settings_reach_a_plugin_as_a_copy() -> None:
    check(lib.ephost_env_config_set(b"ep.acme.trace", b"1"))
    entries = out("OrtKeyValuePairs*", ep_api.GetEnvConfigEntries)
    check(lib.ephost_env_config_set(b"ep.acme.trace", ffi.NULL))
    after = out("OrtKeyValuePairs*", ep_api.GetEnvConfigEntries)
    assert (pairs_of(entries), pairs_of(after)) == ({"ep.acme.trace": "1"}, {})
    api.ReleaseKeyValuePairs(entries)
    api.ReleaseKeyValuePairs(after)
