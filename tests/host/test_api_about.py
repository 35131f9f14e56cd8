"""What the module says of the process, and sets for all of it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import ModuleType

import ephost
import numpy as np
import pytest
from ephost.devices import device_name
from ephost.errors import InvalidArgument, NotImplemented
from ephost.plugins import sample_compiler, sample_kernels
from onnx import parser

IDENTITY = parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { y = Identity (x) }'
).SerializeToString()

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


@pytest.fixture
def onnxruntime() -> ModuleType:
    return pytest.importorskip("onnxruntime")


def test_the_version_is_that_of_the_api_and_the_build_names_the_host() -> None:
    assert ephost.get_version_string() == "1.32.0"
    assert ephost.__version__ in ephost.get_build_info()
    assert "Build Info" in ephost.get_build_info()
    assert not ephost.has_collective_ops()


def test_the_version_stands_in_pyproject_alone() -> None:
    root = Path(__file__).resolve().parents[2]
    stated = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    assert ephost.__version__ == stated
    plugins = Path(ephost.__file__).parent / "plugins"
    said = {
        device.ep_metadata["version"]
        for device in ephost.get_ep_devices()
        if Path(device.ep_metadata["library_path"]).is_relative_to(plugins)
    }
    assert said <= {stated}
    sources = [root / "CMakeLists.txt"]
    for folder in ("host", "plugins", "cmake", "include", "tools"):
        for kind in ("py", "c", "h", "cc", "cu", "txt", "cmake"):
            sources += (root / folder).rglob(f"*.{kind}")
    assert [path for path in sources if f'"{stated}"' in path.read_text()] == []


@pytest.mark.parametrize("plugin", [sample_kernels, sample_compiler])
def test_the_bundled_samples_are_of_the_hosts_version(plugin: ModuleType) -> None:
    ephost.register_execution_provider_library("versioned", plugin.get_library_path())
    try:
        devices = [device for device in ephost.get_ep_devices() if device.ep_name == plugin.get_ep_name()]
        assert {device.ep_metadata["version"] for device in devices} == {ephost.__version__}
    finally:
        ephost.unregister_execution_provider_library("versioned")


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
        NotImplemented, match=r"OrtDevice\(type=1.*no registered execution provider has memory"
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


def test_devices_have_onnxruntimes_names(onnxruntime: ModuleType) -> None:
    """Of values bound to devices: onnxruntime knows GPUs by their vendors, and calls all others cuda."""
    a = np.zeros(4, np.float32)
    native = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    session = onnxruntime.InferenceSession(IDENTITY, providers=["CPUExecutionProvider"])
    for kind, vendor in [(0, 0), (2, 0), (3, 0), (3, 0x5143), (4, 0x1414)] + [
        (1, vendor) for vendor in (0, 0x10DE, 0x1002, 0x1414, 0x8086, 0x1234)
    ]:
        device = native.OrtDevice(kind, 0, vendor, 0)
        binding = session.io_binding()
        binding._iobinding.bind_output("y", device, np.float32, [4], a.ctypes.data)
        (value,) = binding._iobinding.get_outputs()
        assert device_name(kind, vendor) == value.device_name().lower(), (kind, vendor)


@pytest.mark.parametrize("arena", [True, False])
def test_the_cpus_memory_has_an_arena_where_the_options_say_so(arena: bool, onnxruntime: ModuleType) -> None:
    found = []
    for host in (ephost, onnxruntime):
        options = host.SessionOptions()
        options.enable_cpu_mem_arena = arena
        session = host.InferenceSession(IDENTITY, options, providers=["CPUExecutionProvider"])
        infos = [*session.get_input_memory_infos(), *session.get_output_memory_infos()]
        found.append([(info.name, info.allocator_type.name, info.mem_type.name) for info in infos])
    assert found[0] == found[1]
