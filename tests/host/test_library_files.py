"""What is no plugin for this machine is refused with a reason, and nothing of it stays."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import ephost
import numpy as np
import pytest
from ephost import errors
from ephost.plugins import sample_compiler, sample_kernels
from host_state import adds_model, is_mapped

pytestmark = pytest.mark.usefixtures("nothing_leaks")
MISSING = "libephost_test_notthere.so.1"


def register(path: object, name: str = "wrong") -> None:
    ephost.register_execution_provider_library(name, path)  # type: ignore[arg-type]


def link(tmp_path: Path, source: str, *flags: str, name: str = "libplugin.so") -> Path:
    """Compiles a shared library from C text."""
    (tmp_path / "plugin.c").write_text(source)
    library = tmp_path / name
    subprocess.run(
        [
            "cc",
            "-shared",
            "-fPIC",
            "-Wl,--no-as-needed",
            str(tmp_path / "plugin.c"),
            "-o",
            str(library),
            *flags,
        ],
        check=True,
    )
    return library


def test_a_path_where_nothing_is(tmp_path: Path) -> None:
    with pytest.raises(errors.NoSuchFile, match=r"/not_here\.so does not exist"):
        register(tmp_path / "not_here.so")
    with pytest.raises(errors.Fail, match=r"/dangling\.so does not exist"):  # as in onnxruntime
        (tmp_path / "dangling.so").symlink_to(tmp_path / "nowhere")
        register(tmp_path / "dangling.so")


def test_a_relative_path_is_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(sample_compiler.get_library_path(), tmp_path / "libhere.so")
    monkeypatch.chdir(tmp_path)
    register("libhere.so", "here")
    (device,) = ephost.get_ep_devices()
    assert device.ep_metadata["library_path"] == str(tmp_path / "libhere.so")
    ephost.unregister_execution_provider_library("here")
    with pytest.raises(errors.NoSuchFile, match=str(tmp_path)):
        register("libc.so.6")  # which the loader would find elsewhere


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"#!/bin/sh\necho no plugin\n", "is no shared library: its first bytes are b'#!/bin/s'"),
        (b"\x7fELF", "is no shared library"),
        (b"MZ" + bytes(62), "is PE for"),
    ],
)
def test_a_file_that_is_no_shared_library(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "libtext.so"
    file.write_bytes(content)
    with pytest.raises(errors.Fail, match=r"libtext\.so") as caught:
        register(file)
    assert reason in str(caught.value)


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(errors.Fail, match="is a folder"):
        register(tmp_path)


def test_a_library_that_may_not_be_read(tmp_path: Path) -> None:
    file = tmp_path / "libsecret.so"
    shutil.copy(sample_compiler.get_library_path(), file)
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(errors.Fail, match=r"libsecret\.so cannot be read: .*Permission denied"):
        register(file)


@pytest.mark.parametrize(("machine", "name"), [(183, "aarch64"), (243, "riscv64"), (9999, "machine 9999")])
def test_a_library_for_another_processor(tmp_path: Path, machine: int, name: str) -> None:
    file = tmp_path / "libother.so"
    content = bytearray(Path(sample_compiler.get_library_path()).read_bytes())
    struct.pack_into("<H", content, 18, machine)
    file.write_bytes(content)
    with pytest.raises(errors.Fail, match=rf"libother\.so is ELF for {name}; this process runs ELF for"):
        register(file)


def test_a_library_that_is_cut_short_anywhere(tmp_path: Path) -> None:
    content = Path(sample_compiler.get_library_path()).read_bytes()
    for length in (20, 63, 64, 65, 300, 3000, 5000, len(content) // 2):
        file = tmp_path / f"libshort{length}.so"
        file.write_bytes(content[:length])
        with pytest.raises(errors.Fail, match=rf"libshort{length}\.so is cut short: it has {length} of"):
            register(file)


@pytest.mark.parametrize("missing", [MISSING, "libcuda.so.1"])
def test_a_library_that_it_needs_is_named(tmp_path: Path, missing: str) -> None:
    if missing == "libcuda.so.1" and shutil.which("nvidia-smi"):
        pytest.skip("this machine has a GPU's driver")
    link(tmp_path, "int there(void) { return 1; }", f"-Wl,-soname,{missing}", name=missing)
    library = link(
        tmp_path, "int there(void); int f(void) { return there(); }", f"-L{tmp_path}", f"-l:{missing}"
    )
    (tmp_path / missing).unlink()
    with pytest.raises(errors.Fail) as caught:
        register(library)
    assert f"{library} needs {missing}, which is not on this machine" in str(caught.value)
    assert not is_mapped(library)


def test_a_symbol_that_nobody_has_is_named(tmp_path: Path) -> None:
    library = link(tmp_path, "int nobody_has_it(void); int f(void) { return nobody_has_it(); }")
    with pytest.raises(errors.Fail, match=r"libplugin\.so cannot be loaded: .*nobody_has_it"):
        register(library)


@pytest.mark.parametrize("missing", ["CreateEpFactories", "ReleaseEpFactory"])
def test_a_library_without_one_of_the_two_symbols(bad_plugin: Callable[..., Path], missing: str) -> None:
    library = bad_plugin(f"-D{missing}=Other")
    with pytest.raises(errors.Fail, match=rf"{library} has no symbol {missing}: it is no plugin"):
        register(library)
    assert not is_mapped(library)


def test_names_and_paths_that_are_none() -> None:
    path = sample_compiler.get_library_path()
    with pytest.raises(TypeError, match="registration name is a str, not int"):
        ephost.register_execution_provider_library(3, path)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgument, match="NUL"):
        register(path, "a\0b")
    with pytest.raises(errors.InvalidArgument, match="path of the plugin library is empty"):
        register("")
    with pytest.raises(TypeError):
        register(3)


@pytest.mark.parametrize("path", ["a\0b.so", b"\xff\xfe.so", "\udcff.so"])
def test_paths_that_no_file_can_have(path: object) -> None:
    with pytest.raises((errors.OnnxRuntimeException, ValueError, TypeError)):
        register(path)


def test_a_name_that_is_taken_stays_with_its_library(sample_compiler: list, tmp_path: Path) -> None:
    other = shutil.copy(
        sample_kernels.get_library_path(), tmp_path
    )  # which no other test of this process opened
    with pytest.raises(errors.Fail, match=r"already registered under compiler \(.*libsample_compiler\.so\)"):
        register(other, "compiler")
    assert [d.ep_name for d in ephost.get_ep_devices()] == ["sample_compiler"]
    assert not is_mapped(other)
    with pytest.raises(errors.Fail, match="already registered under CPUExecutionProvider"):
        register(sample_kernels.get_library_path(), "CPUExecutionProvider")


def test_unregistering_what_is_not_there_names_what_is(sample_compiler: list) -> None:
    with pytest.raises(
        errors.Fail, match=r"library: other was not registered\. Registered libraries: compiler"
    ):
        ephost.unregister_execution_provider_library("other")


def test_a_library_in_use_stays_until_its_session_is_gone() -> None:
    path = sample_compiler.get_library_path()
    register(path, "used")
    options = ephost.SessionOptions()
    options.add_provider_for_devices(ephost.get_ep_devices(), {})
    session = ephost.InferenceSession(adds_model().SerializeToString(), options)
    with pytest.raises(errors.Fail, match=r"'used' is in use by 1 session\(s\) \(.*adds.*\)"):
        ephost.unregister_execution_provider_library("used")
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], -x)
    session.close()
    ephost.unregister_execution_provider_library("used")
    assert not is_mapped(path)


def test_devices_of_a_library_that_is_gone_are_refused() -> None:
    register(sample_compiler.get_library_path(), "gone")
    devices = ephost.get_ep_devices()
    options = ephost.SessionOptions()
    options.add_provider_for_devices(devices, {})
    ephost.unregister_execution_provider_library("gone")
    with pytest.raises(errors.InvalidArgument, match="'gone'"):
        ephost.SessionOptions().add_provider_for_devices(devices, {})
    with pytest.raises(errors.InvalidArgument, match=r"'gone' .*is not registered any more"):
        ephost.InferenceSession(adds_model().SerializeToString(), options)


@pytest.mark.in_process("the library is in the worker alone")
def test_one_library_under_two_names_is_two_registrations_and_closes_with_the_last() -> None:
    path = sample_compiler.get_library_path()
    register(path, "a")
    register(path, "b")
    assert [d.registration_name for d in ephost.get_ep_devices()] == ["a", "b"]
    x = np.array([3, 4], np.float32)
    for name in ("a", "b"):
        options = ephost.SessionOptions()
        options.add_provider_for_devices(
            [d for d in ephost.get_ep_devices() if d.registration_name == name], {}
        )
        session = ephost.InferenceSession(adds_model().SerializeToString(), options)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], -x)
        session.close()
    with pytest.raises(errors.InvalidArgument, match="same execution provider"):
        ephost.SessionOptions().add_provider_for_devices(ephost.get_ep_devices(), {})
    ephost.unregister_execution_provider_library("a")
    assert is_mapped(path)
    assert [d.registration_name for d in ephost.get_ep_devices()] == ["b"]
    ephost.unregister_execution_provider_library("b")
    assert not is_mapped(path)


def test_a_failed_registration_leaves_the_name_free(tmp_path: Path) -> None:
    with pytest.raises(errors.NoSuchFile):
        register(tmp_path / "not_here.so", "again")
    register(sample_compiler.get_library_path(), "again")
    ephost.unregister_execution_provider_library("again")


@pytest.mark.skipif(sys.platform != "linux", reason="looks symbols up as Linux' loader does")
@pytest.mark.in_process("the library is in the worker alone")
def test_plugins_find_this_process_own_cpp_runtime_first(python: Callable) -> None:
    # A plugin may bring another C++ runtime for everybody; the next one must not be bound to that.
    program = """
import ctypes, sys
import numpy, ephost
import ephost.plugins.sample_kernels as sample
own = ctypes.CDLL("libstdc++.so.6")
def there():
    return hasattr(ctypes.CDLL(None), "__dynamic_cast")
before = there()
ephost.register_execution_provider_library("s", sample.get_library_path())
print(before, there())
"""
    done = python("-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True"]
