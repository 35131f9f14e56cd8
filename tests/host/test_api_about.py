"""What the module says of the process, and sets for all of it."""

from __future__ import annotations

import ephost
import pytest
from ephost.errors import InvalidArgument, NotImplemented
from ephost.plugins import sample_kernels

CPU = ephost.OrtMemoryInfo("Cpu", ephost.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ephost.OrtMemType.DEFAULT)
GPU = ephost.OrtMemoryInfo.create_v2(
    "Gpu",
    ephost.OrtMemoryInfoDeviceType.GPU,
    0x10DE,
    0,
    ephost.OrtDeviceMemoryType.DEFAULT,
    0,
    ephost.OrtAllocatorType.ORT_DEVICE_ALLOCATOR,
)


def test_the_version_is_that_of_the_api_and_the_build_names_the_host() -> None:
    assert ephost.get_version_string() == "1.31.1"
    assert ephost.__version__ in ephost.get_build_info()
    assert not ephost.has_collective_ops()


def test_the_device_is_the_best_kind_that_a_plugin_offers(monkeypatch: pytest.MonkeyPatch) -> None:
    from ephost import about

    class Kind:
        def __init__(self, name: str) -> None:
            self.device = type("Hardware", (), {"type": ephost.OrtHardwareDeviceType[name]})

    assert ephost.get_device() == "CPU"
    for kinds, device in ((["CPU"], "CPU"), (["CPU", "NPU"], "NPU"), (["NPU", "GPU"], "GPU")):
        monkeypatch.setattr(about, "get_ep_devices", lambda kinds=kinds: [Kind(kind) for kind in kinds])
        assert ephost.get_device() == device


def test_the_debug_information_names_versions_and_plugins(capsys: pytest.CaptureFixture) -> None:
    ephost.register_execution_provider_library("about", sample_kernels.get_library_path())
    try:
        ephost.print_debug_info()
    finally:
        ephost.unregister_execution_provider_library("about")
    said = capsys.readouterr().out
    assert f"ephost version: {ephost.__version__}" in said
    assert sample_kernels.get_library_path() in said


def test_all_providers_are_those_that_are_available() -> None:
    assert ephost.get_all_providers() == ephost.get_available_providers() == ["CPUExecutionProvider"]


def test_an_arena_is_for_the_cpus_memory_alone() -> None:
    arena = ephost.OrtArenaCfg({"max_mem": 64 << 20})
    ephost.create_and_register_allocator(CPU, arena)
    ephost.create_and_register_allocator_v2("CPUExecutionProvider", CPU, {}, None)
    with pytest.raises(NotImplemented, match="Gpu"):
        ephost.create_and_register_allocator(GPU, arena)
    with pytest.raises(
        NotImplemented, match=r"no registered execution provider has memory.*OrtDevice\(type=1"
    ):
        ephost.OrtValue.ortvalue_from_shape_and_type([1], 1, memory_info=GPU)


@pytest.mark.parametrize("wrong", [{"max_memory": 1}, {"max_mem": 1, "chunk": 2}])
def test_an_arena_says_which_option_it_does_not_know(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument, match=r"Invalid OrtArenaCfg option: (max_memory|chunk)"):
        ephost.OrtArenaCfg(wrong)


def test_verbosity_is_no_negative_number() -> None:
    ephost.set_default_logger_verbosity(2)
    ephost.set_default_logger_verbosity(0)
    with pytest.raises(InvalidArgument, match="-1"):
        ephost.set_default_logger_verbosity(-1)


def test_an_ep_device_names_its_memory_or_none() -> None:
    ephost.register_execution_provider_library("about", sample_kernels.get_library_path())
    try:
        (device,) = ephost.get_ep_devices()
        assert device.device.type is ephost.OrtHardwareDeviceType.CPU
        assert device.memory_info(ephost.OrtDeviceMemoryType.HOST_ACCESSIBLE) is None
        with pytest.raises(
            InvalidArgument, match="sample_kernels has no memory of its own, and so no stream"
        ):
            device.create_sync_stream()
    finally:
        ephost.unregister_execution_provider_library("about")
