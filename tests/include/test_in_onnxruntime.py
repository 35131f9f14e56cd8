"""A plugin compiled against these headers, loaded by onnxruntime."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import abi_tables
import pytest

PROGRAM = """
import sys
import onnxruntime as ort
ort.register_execution_provider_library("some name", sys.argv[1])
assert not [device for device in ort.get_ep_devices() if device.ep_name == "introspect_ep"]
ort.unregister_execution_provider_library("some name")
"""


@pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="needs onnxruntime")
@pytest.mark.parametrize(
    "compiler", [["cc", "-std=c11"], ["c++", "-std=c++17", "-x", "c++"]], ids=["c", "c++"]
)
def test_onnxruntime_has_its_functions_where_the_headers_say(compiler: list[str], tmp_path: Path):
    library = tmp_path / "libintrospect.so"
    source = str(abi_tables.HERE / "introspect_plugin.c")
    flags = [
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Wconversion",
        "-Werror",
        "-shared",
        "-fPIC",
        f"-I{abi_tables.INCLUDE}",
    ]
    subprocess.run([*compiler, *flags, source, "-o", str(library)], check=True)

    command = [sys.executable, "-c", PROGRAM, str(library)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "create some name",
        "status 11 a message",
        "pair value",
        "experimental 0",
        "tables 1 1 1",
        "schema 3 C",
        "event 7 v",
        "cpus 1",
        "release 1",
    ]
