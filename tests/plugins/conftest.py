"""Fixtures for the bundled plugins."""

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from cuda_harness import build_fake_driver, build_fake_library, build_spy, no_gpu, toolkit
from plugin_harness import ROOT, Runner, Tracer, build_plugin

HOSTS = ["onnxruntime", "ephost"]


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> str:
    """The module name of a host; all of them have onnxruntime's Python API."""
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


@pytest.fixture(scope="session")
def plugin_library(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives the library of a bundled plugin: the one in its package, else a fresh build."""
    built: dict[str, Path] = {}

    def find(name: str) -> Path:
        if name not in built:
            try:
                package = importlib.import_module(f"ephost.plugins.{name}")
                built[name] = Path(package.get_library_path())
            except (ModuleNotFoundError, FileNotFoundError):
                built[name] = build_plugin(ROOT / "plugins" / name, tmp_path_factory.mktemp(name))
        return built[name]

    return find


@pytest.fixture
def runner(host: str, plugin_library: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Runner]:
    """Makes a Runner for a bundled plugin by its name, which is its EP's name too."""
    return lambda name: Runner(host, plugin_library(name), name, tmp_path)


@pytest.fixture(scope="session")
def trace_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/plugins/trace_plugin, built once."""
    source = ROOT / "tests" / "plugins" / "trace_plugin"
    return build_plugin(source, tmp_path_factory.mktemp("trace_plugin"), "-pthread")


@pytest.fixture
def traced(trace_library: Path, tmp_path: Path) -> Tracer:
    """Runs actions on trace_plugin: ``traced(host, actions, mode, files)``."""
    return Tracer(trace_library, tmp_path)


@pytest.fixture(scope="session")
def bad_plugin(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Builds tests/plugins/bad_plugin with extra compiler flags, once for each set of them."""
    built: dict[Sequence[str], Path] = {}

    def build(*flags: str) -> Path:
        if flags not in built:
            source = ROOT / "tests" / "plugins" / "bad_plugin"
            built[flags] = build_plugin(source, tmp_path_factory.mktemp("bad_plugin"), *flags)
        return built[flags]

    return build


@pytest.fixture
def bad(bad_plugin: Callable[..., Path]) -> Path:
    """tests/plugins/bad_plugin as it is, whose faults EPHOST_FAULT chooses."""
    return bad_plugin()


@pytest.fixture(scope="session")
def device_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/plugins/device_plugin, built once."""
    source = ROOT / "tests" / "plugins" / "device_plugin"
    return build_plugin(source, tmp_path_factory.mktemp("device_plugin"), "-pthread")


@pytest.fixture(scope="session")
def fake_cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of a make-believe CUDA driver, in which our kernels run on the CPU."""
    if toolkit() is None:
        pytest.skip("there is no nvcc, so no CUDA headers to build the make-believe driver with")
    return build_fake_driver(tmp_path_factory.mktemp("fake_cuda"))


@pytest.fixture(scope="session")
def fake_cublaslt(fake_cuda: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of a make-believe cuBLASLt, on that driver."""
    return build_fake_library("cublaslt", tmp_path_factory.mktemp("fake_cublaslt"), fake_cuda)


@pytest.fixture(scope="session")
def fake_cudnn(tmp_path_factory: pytest.TempPathFactory, fake_cuda: Path) -> Path:
    """The library of a make-believe cuDNN, on that driver."""
    return build_fake_library("cudnn", tmp_path_factory.mktemp("fake_cudnn"), fake_cuda)


@pytest.fixture(scope="session")
def spy_cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that counts what is asked of the driver of a GPU."""
    if reason := no_gpu():
        pytest.skip(reason)
    if toolkit() is None:
        pytest.skip("there is no nvcc, so no CUDA headers to build spy_cuda with")
    return build_spy(tmp_path_factory.mktemp("spy_cuda"))
