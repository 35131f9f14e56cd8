"""The wheel: one for all CPythons, with all that an application and a plugin's author need."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = [(3, 11), (3, 12), (3, 13)]
CMAKE = shutil.which("cmake") or shutil.which("cmake", path=str(Path(sys.executable).parent))

USE_IT = """
import sys
import numpy, onnx
from onnx import TensorProto, helper
import ephost
from ephost.plugins import sample_kernels

assert ephost.__file__.startswith(sys.prefix), ephost.__file__
ephost.register_execution_provider_library("kernels", sample_kernels.get_library_path())
options = ephost.SessionOptions()
options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
devices = [d for d in ephost.get_ep_devices() if d.registration_name != "CPUExecutionProvider"]
options.add_provider_for_devices(devices, {})
tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "abc"]
graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["c"])], "one", tensors[:2], tensors[2:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
session = ephost.InferenceSession(model.SerializeToString(), options)
a = numpy.arange(3, dtype=numpy.float32)
assert session.run(None, {"a": a, "b": a})[0].tolist() == [0, 2, 4]
assert [s.ep_name for s in session.get_provider_graph_assignment_info()] == ["sample_kernels"]
del session
ephost.unregister_execution_provider_library("kernels")
print(ephost.get_cmake_dir())
"""

REGISTER_IT = """
import sys, ephost
try:
    ephost.register_execution_provider_library("tiny", sys.argv[1])
except ephost.errors.OnnxRuntimeException as error:
    print(type(error).__name__, error)
"""


def interpreter(version: tuple[int, int]) -> str | None:
    """A CPython of this version: this one, one on the path, or one that pyenv has."""
    if sys.version_info[:2] == version:
        return sys.executable
    name = f"python{version[0]}.{version[1]}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = sorted(pyenv.glob(f"{version[0]}.{version[1]}.*/bin/python"))
    return str(candidates[-1]) if candidates else shutil.which(name)


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints. It sees nothing of the environment that this test runs in."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "EPHOST"))}
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=cwd, env=environment
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


# The wheel is built from nothing, with all plugins: minutes, on few processors.
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, built as an installer builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    run(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "dist"),
        # One architecture of GPUs in place of all: CUDA's compiler takes minutes for those.
        "--config-settings=cmake.define.EPHOST_CUDA_ARCHITECTURES=90",
        *(f"--config-settings=build-dir={folder / 'build'}", ROOT),
        cwd=folder,
    )
    (found,) = (folder / "dist").iterdir()
    return found


@pytest.fixture(scope="module")
def environment(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The Python of a fresh virtual environment in which the wheel and what it asks for are installed."""
    version = request.param
    base = interpreter(version)
    if base is None:
        pytest.skip(f"there is no CPython {version[0]}.{version[1]} on this machine")
    folder = tmp_path_factory.mktemp("environment")
    run(base, "-m", "venv", folder, cwd=folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    return python


every_version = pytest.mark.parametrize(
    "environment", VERSIONS, indirect=True, ids=[f"{major}.{minor}" for major, minor in VERSIONS]
)


def test_there_is_one_wheel_for_all_versions_of_python(wheel: Path) -> None:
    assert re.fullmatch(r"ephost-[0-9.]+-cp311-abi3-\w+\.whl", wheel.name)


def test_the_wheel_has_headers_cmake_files_types_and_plugins(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    headers = {f"ephost/include/ephost/{path.name}" for path in (ROOT / "include" / "ephost").glob("*.h")}
    assert headers and headers <= names
    for name in ("ephostConfig.cmake", "ephostConfigVersion.cmake", "plugin.map", "plugin.def"):
        assert f"ephost/cmake/{name}" in names
    for name in ("sample_kernels", "sample_compiler"):
        assert f"ephost/plugins/{name}/lib{name}.so" in names
    assert {"ephost/py.typed", "ephost/_native.pyi", "ephost/_native.abi3.so"} <= names


@every_version
def test_an_installed_wheel_runs_a_model_on_a_sample_plugin(environment: Path, tmp_path: Path) -> None:
    cmake_files = Path(run(environment, "-I", "-c", USE_IT, cwd=tmp_path).strip())
    assert (cmake_files / "ephostConfig.cmake").is_file()


@pytest.mark.skipif(CMAKE is None, reason="needs cmake (pip install cmake)")
@every_version
@pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.platform != "linux", reason="there is no oneDNN for it"
)
def test_an_installed_wheel_brings_the_cpu_plugin_and_what_it_needs(
    environment: Path, tmp_path: Path
) -> None:
    program = "import ephost; print([device.ep_name for device in ephost.get_ep_devices()])"
    assert run(environment, "-I", "-c", program, cwd=tmp_path).strip() == "['CPUExecutionProvider']"


@pytest.mark.parametrize("environment", [sys.version_info[:2]], indirect=True, ids=["this version"])
def test_a_plugin_is_built_against_an_installed_wheel(environment: Path, tmp_path: Path) -> None:
    where = run(environment, "-I", "-c", "import ephost; print(ephost.get_cmake_dir())", cwd=tmp_path)
    project = ROOT / "tests" / "include" / "project"
    run(str(CMAKE), "-S", project, "-B", "build", f"-Dephost_DIR={where.strip()}", cwd=tmp_path)
    run(str(CMAKE), "--build", "build", cwd=tmp_path)
    said = run(environment, "-I", "-c", REGISTER_IT, tmp_path / "build" / "libtiny.so", cwd=tmp_path)
    # The plugin refuses with this number, which its C++ half knows.
    assert said.startswith("Fail") and "42" in said


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF symbols")
def test_the_extension_keeps_to_the_limited_api(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extract("ephost/_native.abi3.so", tmp_path)
    symbols = run("nm", "-D", "--undefined-only", "ephost/_native.abi3.so", cwd=tmp_path)
    names = {line.split()[-1] for line in symbols.splitlines()}
    assert "PyModule_Create2" in names
    assert not {name for name in names if name.startswith("_Py") and name not in ALLOWED}, sorted(names)


# Names with an underscore that the stable ABI has all the same: macros of the limited API expand to them.
ALLOWED = {
    *("_Py_Dealloc", "_Py_NoneStruct", "_Py_TrueStruct", "_Py_FalseStruct", "_Py_NotImplementedStruct"),
    *("_Py_EllipsisObject", "_PyObject_GC_New"),
    *(
        "_Py_BuildValue_SizeT",
        "_PyArg_ParseTuple_SizeT",
        "_PyObject_CallFunction_SizeT",
        "_PyObject_CallMethod_SizeT",
    ),
}
