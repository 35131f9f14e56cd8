"""The wheel: one for all CPythons, with all that an application and a plugin's author need."""

from __future__ import annotations

import fcntl
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
VERSIONS = [(3, 11), (3, 12), (3, 13), (3, 14), (3, 15)]
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

RUN_ON_CPU = """
import numpy, ephost
from onnx import TensorProto, helper

w = helper.make_tensor("w", TensorProto.FLOAT, [16, 8, 1, 1], numpy.ones(128))
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, channels, 5, 5])
        for name, channels in (("x", 8), ("y", 16)))
graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"])], "one", [x], [y], [w])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
session = ephost.InferenceSession(model.SerializeToString())
assert not ephost.explain(session).fallback
(made,) = session.run(None, {"x": numpy.ones([1, 8, 5, 5], numpy.float32)})
assert made.shape == (1, 16, 5, 5) and (made == 8).all()
print([device.ep_name for device in ephost.get_ep_devices()])
mapped = {line.split()[-1] for line in open("/proc/self/maps")}
print(*sorted(path for path in mapped if "libdnnl" in path or "gomp" in path), sep="\\n")
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


linux_x86_64 = pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.platform != "linux", reason="there is no oneDNN for it"
)
OUR_LIBRARIES = {"_native.abi3.so"} | {
    f"lib{name}.so" for name in ("cpu", "cpu_onednn", "sample_kernels", "sample_compiler")
}

# The wheel is built from nothing, with all plugins: minutes, on few processors.
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, built as an installer builds it: once for all processes of a run."""
    if not (Path(sys.prefix) / ".installed").exists():
        pytest.skip("this is not the virtual environment that `make develop` makes")
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # of this run's processes
    folder = shared / "wheel"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list((folder / "dist").glob("*.whl")):
            build_wheel(folder)
    (found,) = (folder / "dist").iterdir()
    return found


def build_wheel(folder: Path) -> None:
    """Makes `dist` in the folder, and the wheel in it."""
    # One architecture of GPUs in place of all: CUDA's compiler takes minutes for those.
    arguments = ["--config-settings=cmake.define.EPHOST_CUDA_ARCHITECTURES=90"]
    # Emptied, and as deep as the build of `make develop`: paths relative to the sources are the same there,
    # and a compiler's cache that knows them so has nearly everything.
    build = ROOT / "build" / "wheel-tests"
    shutil.rmtree(build, ignore_errors=True)
    arguments.append(f"--config-settings=build-dir={build}")
    variables = (f"VENV={sys.prefix}", f"DIST={folder / 'dist'}", f"WHEEL_ARGS={' '.join(arguments)}")
    run("make", "-C", ROOT, "wheel", *variables, cwd=folder)


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
    assert re.fullmatch(r"ephost-[0-9.]+-cp311-abi3-[\w.]+\.whl", wheel.name)


@linux_x86_64
def test_the_wheel_says_which_linux_it_needs_and_auditwheel_agrees(wheel: Path) -> None:
    (tag,) = re.findall(r"abi3-(manylinux_2_\d+_x86_64)\.whl", wheel.name)
    said = run(sys.executable, "-m", "auditwheel", "show", wheel, cwd=wheel.parent)
    assert f'platform tag: "{tag}"' in " ".join(said.split())


@linux_x86_64
def test_the_wheel_brings_the_licences_of_all_that_travels_in_it(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    libraries = {Path(name).name for name in archive.namelist() if ".so" in name}
    theirs = {name for name in libraries if "ephost" not in name and name not in OUR_LIBRARIES}
    assert {re.split(r"[-.]", name)[0] for name in theirs} == {"libdnnl", "libgomp"}
    texts = {
        Path(name).name: archive.read(name) for name in archive.namelist() if ".dist-info/licenses/" in name
    }
    assert texts.keys() >= {"LICENSE", "libgomp-LICENSE.txt"}
    for name in ("LICENSE", "THIRD-PARTY-PROGRAMS"):
        installed = Path(sys.prefix) / "share" / "doc" / "onednn" / name
        assert texts[f"oneDNN-{name}.txt"] == installed.read_bytes(), f"licenses/ has another oneDNN's {name}"


@linux_x86_64
def test_the_wheel_s_metadata_has_no_addresses(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    headers = archive.read(name).decode().split("\n\n")[0]
    assert "Classifier: Typing :: Typed" in headers and "License-Expression: MIT" in headers
    assert "://" not in headers


def test_the_wheel_has_headers_cmake_files_types_and_plugins(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    headers = {f"ephost/include/ephost/{path.name}" for path in (ROOT / "include" / "ephost").glob("*.h")}
    assert headers and headers <= names
    for name in ("ephostConfig.cmake", "ephostConfigVersion.cmake", "plugin.map", "plugin.def"):
        assert f"ephost/cmake/{name}" in names
    for name in ("sample_kernels", "sample_compiler"):
        assert f"ephost/plugins/{name}/lib{name}.so" in names
    template = ROOT / "host" / "ephost" / "vendor_project" / "template"
    parts = {path.relative_to(template).as_posix() for path in template.rglob("*") if path.is_file()}
    parts = {part for part in parts if "__pycache__" not in part}
    assert {"CMakeLists.txt", "dot_gitignore", "src/plugin.cc"} <= parts
    assert {f"ephost/vendor_project/template/{part}" for part in parts} <= names
    assert {"ephost/py.typed", "ephost/_native.pyi", "ephost/_native.abi3.so"} <= names


@pytest.mark.sampled(3)
@every_version
def test_an_installed_wheel_runs_a_model_on_a_sample_plugin(environment: Path, tmp_path: Path) -> None:
    cmake_files = Path(run(environment, "-I", "-c", USE_IT, cwd=tmp_path).strip())
    assert (cmake_files / "ephostConfig.cmake").is_file()


@pytest.mark.skipif(CMAKE is None, reason="needs cmake (pip install cmake)")
@pytest.mark.sampled(3)
@every_version
@linux_x86_64
def test_an_installed_wheel_runs_a_model_on_the_cpu_plugin_and_needs_no_openmp_of_the_system(
    environment: Path, tmp_path: Path
) -> None:
    said = run(environment, "-I", "-c", RUN_ON_CPU, cwd=tmp_path).splitlines()
    assert said[0] == "['CPUExecutionProvider']"
    libraries = [Path(line) for line in said[1:]]
    assert {path.name.split("-")[0] for path in libraries} == {"libdnnl.so.3", "libgomp"}
    assert all(path.is_relative_to(environment.parents[1]) for path in libraries)


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
