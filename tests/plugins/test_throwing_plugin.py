"""C++ exceptions that leave a plugin's functions: an error of the host, and nothing else is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from ephost._bindings import lib
from plugin_harness import ROOT, build_plugin, python_path
from plugin_models import model, node

pytestmark = pytest.mark.skipif(
    not lib.ephost_catches_exceptions(), reason="the C half was built without a C++ compiler"
)
X = np.arange(6, dtype=np.float32).reshape(2, 3)
SOURCE = ROOT / "tests" / "plugins" / "throwing_plugin"


@pytest.fixture(scope="module")
def throwing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_plugin(SOURCE, tmp_path_factory.mktemp("throwing_plugin"))


@dataclass
class Use:
    """throwing_plugin around another plugin, used in a process of its own."""

    folder: Path
    around: Path
    library: Path

    def __call__(
        self, function: str, what: str = "", host: str = "ephost", threads: int = 1, env: str = ""
    ) -> list[dict[str, Any]]:
        """What came of it while a function throws, and after that."""
        made = model([node("Add", "x x", "a"), node("Mul", "a x", "y")], {"x": [2, 3]}, ["y"])
        onnx.save(made, self.folder / "model.onnx")
        script = str(Path(__file__).with_name("throw_in_host.py"))
        done = subprocess.run(
            [sys.executable, script, host, str(self.library), str(self.folder), function, str(threads)],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
            env={
                **os.environ,
                "PYTHONPATH": python_path(),
                "THROW_AROUND": str(self.around),
                "THROW_WHAT": what,
                "DEVICE_PLUGIN": env,
            },
        )
        assert done.returncode == 0, f"{host} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        first, then = json.loads(done.stdout.splitlines()[-1])
        assert then["stage"] == "end", then
        for outputs in then["outputs"]:
            np.testing.assert_array_equal(outputs, (X + X) * X)
        return [first, then]


@pytest.fixture
def compiler(throwing: Path, plugin_library: Callable[[str], Path], tmp_path: Path) -> Use:
    return Use(tmp_path, plugin_library("sample_compiler"), throwing)


@pytest.fixture
def device(throwing: Path, device_library: Path, tmp_path: Path) -> Use:
    return Use(tmp_path, device_library, throwing)


# Where onnxruntime gives an error too; what the others throw ends its process.
ERRORS_IN_BOTH = ("CreateEpFactories", "OrtEpFactory::GetSupportedDevices", "OrtNodeComputeInfo::CreateState")
ERRORS_IN_BOTH += ("OrtNodeComputeInfo::Compute",)
STAGES = {
    "CreateEpFactories": "register",
    "OrtEpFactory::GetSupportedDevices": "register",
    "OrtEpFactory::CreateEp": "open",
    "OrtEp::GetCapability": "open",
    "OrtEp::Compile": "open",
    "OrtNodeComputeInfo::CreateState": "open",
    "OrtNodeComputeInfo::Compute": "run",
}


@pytest.mark.parametrize("function", STAGES)
def test_what_a_function_throws_is_an_error_at_the_same_stage_in_both_hosts(
    compiler: Use, host: str, function: str
) -> None:
    if host == "onnxruntime" and function not in ERRORS_IN_BOTH:
        pytest.skip("ends onnxruntime's process")
    first, _ = compiler(function, host=host)
    assert first["stage"] == STAGES[function], first
    assert "no more cheese" in first["message"]
    if host == "ephost":
        assert first["error"] == "RuntimeException"
        assert f"{function} threw std::runtime_error: no more cheese" in first["message"]


@pytest.mark.parametrize(
    ("function", "stage"),
    [
        ("OrtEpFactory::GetName", "register"),
        ("OrtEpFactory::GetVendor", "register"),
        ("OrtEpFactory::GetVersion", "register"),
        ("OrtEp::OnRunStart", "run"),
        ("OrtEp::OnRunEnd", "run"),
    ],
)
def test_so_is_what_the_others_throw(compiler: Use, function: str, stage: str) -> None:
    first, _ = compiler(function)
    if "stage" in first and first["stage"] == "end":
        pytest.skip(f"sample_compiler has no {function}")
    assert first["stage"] == stage, first
    assert f"{function} threw std::runtime_error: no more cheese" in first["message"]
    assert "throwing" in first["message"] or "sample_compiler" in first["message"]


@pytest.mark.parametrize(
    "function",
    ["OrtNodeComputeInfo::ReleaseState", "OrtEp::ReleaseNodeComputeInfos", "OrtEpFactory::ReleaseEp"],
)
def test_what_a_release_throws_is_logged(compiler: Use, function: str) -> None:
    first, _ = compiler(function)
    assert first["stage"] == "end", first
    assert any(f"{function} threw std::runtime_error: no more cheese" in line for line in first["logged"])


def test_what_releasing_a_factory_throws_is_logged(compiler: Use) -> None:
    first, _ = compiler("ReleaseEpFactory")
    assert first["stage"] == "end", first
    assert any("ReleaseEpFactory threw std::runtime_error" in line for line in first["logged"])


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("number", "threw an exception of type int"),
        ("text", "threw char const*: just text"),
        ("bytes", "NotUtf8: \\xff\\xfe is no text"),
        ("deep", "Deep: from below"),
        ("hidden", "threw an exception of type "),
        ("again", "threw std::invalid_argument: the second time"),
    ],
)
def test_the_error_tells_what_was_thrown(compiler: Use, what: str, said: str) -> None:
    first, _ = compiler("OrtNodeComputeInfo::Compute", what)
    assert said in first["message"]


@pytest.mark.parametrize("flags", [("-static-libstdc++", "-Wl,--exclude-libs,ALL")])
def test_a_plugin_with_a_cpp_runtime_inside_is_caught_as_well(
    throwing: Path, compiler: Use, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    compiler.library = build_plugin(SOURCE, tmp_path, *flags)
    first, _ = compiler("OrtEp::Compile")
    assert "OrtEp::Compile threw " in first["message"]
    assert "no more cheese" in first["message"]


def test_runs_on_many_threads_fail_each_for_itself(compiler: Use) -> None:
    first, _ = compiler("OrtNodeComputeInfo::Compute", threads=4)
    assert first["stage"] == "run"
    assert "OrtNodeComputeInfo::Compute threw std::runtime_error: no more cheese" in first["message"]


def test_a_part_of_a_parallel_loop_that_throws_fails_the_loop(compiler: Use) -> None:
    first, _ = compiler("ParallelFor", threads=4)
    assert first["stage"] == "run"
    assert "KernelContext_ParallelFor threw std::runtime_error: no more cheese" in first["message"]


@pytest.mark.parametrize(
    ("function", "stage"),
    [
        ("OrtEp::GetKernelRegistry", "open"),
        ("OrtEpFactory::CreateAllocator", "open"),
        ("OrtEpFactory::CreateDataTransfer", "open"),
        ("OrtEpFactory::IsStreamAware", "open"),
        ("OrtEpFactory::CreateSyncStreamForDevice", "run"),
        ("OrtAllocator::Alloc", "run"),
        ("OrtDataTransferImpl::CanCopy", "open"),
        ("OrtDataTransferImpl::CopyTensors", "run"),
        ("OrtSyncStreamImpl::CreateNotification", "run"),
        ("OrtSyncStreamImpl::Flush", "run"),
        ("OrtSyncStreamImpl::OnSessionRunEnd", "run"),
        ("OrtSyncNotificationImpl::Activate", "run"),
        ("OrtSyncNotificationImpl::WaitOnHost", "run"),
    ],
)
def test_functions_of_memory_and_streams_are_caught(device: Use, function: str, stage: str) -> None:
    first, _ = device(function, env="streams")
    assert first["stage"] == stage, first
    assert f"{function} threw std::runtime_error: no more cheese" in first["message"]


@pytest.mark.parametrize(
    "function",
    [
        "OrtEpFactory::ReleaseAllocator",
        "OrtAllocator::Free",
        "OrtDataTransferImpl::Release",
        "OrtSyncStreamImpl::Release",
        "OrtSyncNotificationImpl::Release",
    ],
)
def test_what_their_releases_throw_is_logged(device: Use, function: str) -> None:
    first, _ = device(function, env="streams")
    assert first["stage"] == "end", first
    assert any(f"{function} threw std::runtime_error: no more cheese" in line for line in first["logged"])


def test_a_static_constructor_that_throws_is_an_error_and_its_library_goes(tmp_path: Path) -> None:
    library = build_plugin(SOURCE, tmp_path, "-DTHROW_STATIC")
    program = """
import os, sys
import ephost
for _ in range(2):
    try:
        ephost.register_execution_provider_library("throwing", sys.argv[1])
    except ephost.errors.Fail as error:
        print(error)
print("unmapped" if sys.argv[1] not in open("/proc/self/maps").read() else "still mapped", flush=True)
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(library)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "PYTHONPATH": python_path()},
    )
    assert done.returncode == 0, done.stderr
    *errors, memory = done.stdout.splitlines()
    said = (
        "cannot be loaded: its static constructors threw std::runtime_error: no more cheese; other threads of"
    )
    assert [said in error for error in errors] == [True, True]
    assert memory == "unmapped"


def test_the_c_half_asks_for_no_cpp_runtime() -> None:
    from ephost import _native

    listed = subprocess.run(
        ["readelf", "--dynamic", "--dyn-syms", _native.__file__], capture_output=True, text=True, check=True
    ).stdout
    assert "libstdc++" not in listed and "libc++" not in listed
    assert "__gxx_personality_v0" not in listed and "__cxa_begin_catch" not in listed
