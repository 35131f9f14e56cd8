"""What is no plugin for this machine is refused with a reason, and nothing of it stays."""

from __future__ import annotations

import os
import platform
import re
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import ephost
import numpy as np
import pytest
from ephost import errors
from ephost import library as library_module
from ephost._bindings import lib
from ephost.plugins import sample_compiler, sample_kernels
from host_state import adds_model, is_mapped
from library_bytes import with_machine

pytestmark = pytest.mark.usefixtures("nothing_leaks")
ON_WINDOWS = sys.platform == "win32"
MISSING, DRIVER, ELSEWHERE = (
    ("ephost_test_notthere.dll", "nvcuda.dll", "kernel32.dll")
    if ON_WINDOWS
    else ("libephost_test_notthere.so.1", "libcuda.so.1", "libc.so.6")
)
FORMAT = "PE" if ON_WINDOWS else "ELF"
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler called cc")


def register(path: object, name: str = "wrong") -> None:
    ephost.register_execution_provider_library(name, path)  # type: ignore[arg-type]


@pytest.fixture
def own_plugin(tmp_path: Path) -> str:
    """A plugin's library that nobody else in this process has opened, as onnxruntime does in other tests."""
    return str(shutil.copy(sample_compiler.get_library_path(), tmp_path))


def test_a_path_where_nothing_is(tmp_path: Path) -> None:
    with pytest.raises(errors.NoSuchFile, match=r"[/\\]not_here\.so does not exist"):
        register(tmp_path / "not_here.so")


def test_a_link_to_nothing(tmp_path: Path) -> None:
    try:
        (tmp_path / "dangling.so").symlink_to(tmp_path / "nowhere")
    except OSError as error:
        pytest.skip(f"this system makes no links for this user: {error}")
    with pytest.raises(errors.Fail, match=r"[/\\]dangling\.so does not exist"):  # as in onnxruntime
        register(tmp_path / "dangling.so")


def test_a_relative_path_is_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(sample_compiler.get_library_path(), tmp_path / "libhere.so")
    monkeypatch.chdir(tmp_path)
    register("libhere.so", "here")
    (device,) = ephost.get_ep_devices()
    assert device.ep_metadata["library_path"] == str(tmp_path / "libhere.so")
    ephost.unregister_execution_provider_library("here")
    with pytest.raises(errors.NoSuchFile, match=re.escape(str(tmp_path))):
        register(ELSEWHERE)  # where the loader would find it


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


@pytest.mark.skipif(ON_WINDOWS, reason="pipes with names are POSIX's")
@pytest.mark.timeout(30)
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "libpipe.so"
    os.mkfifo(pipe)
    for open_it in (
        lambda: ephost.register_execution_provider_library("pipe", str(pipe)),
        lambda: ephost.SessionOptions().register_custom_ops_library(str(pipe)),
    ):
        with pytest.raises(errors.Fail, match=r"libpipe\.so is a pipe or device"):
            open_it()


def test_a_library_that_may_not_be_read(tmp_path: Path) -> None:
    file = tmp_path / "libsecret.so"
    shutil.copy(sample_compiler.get_library_path(), file)
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(errors.Fail, match=r"libsecret\.so cannot be read: .*Permission denied"):
        register(file)


@pytest.mark.parametrize("machine", ["aarch64", "riscv64", "machine 9999"])
def test_a_library_for_another_processor(tmp_path: Path, machine: str) -> None:
    if machine == platform.machine():
        pytest.skip("that is this one")
    file = tmp_path / "libother.so"
    file.write_bytes(with_machine(Path(sample_compiler.get_library_path()).read_bytes(), machine))
    said = rf"libother\.so is {FORMAT} for {machine}; this process runs {FORMAT} for"
    with pytest.raises(errors.Fail, match=said):
        register(file)


def test_a_library_that_is_cut_short_anywhere(tmp_path: Path) -> None:
    content = Path(sample_compiler.get_library_path()).read_bytes()
    for length in (20, 63, 64, 65, 300, 3000, 5000, len(content) // 2):
        file = tmp_path / f"libshort{length}.so"
        file.write_bytes(content[:length])
        with pytest.raises(errors.Fail, match=rf"libshort{length}\.so is cut short: it has {length} of"):
            register(file)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every file is looked at more closely")
def test_a_sound_library_needs_no_closer_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_sound(content: bytes) -> bool:
        file = tmp_path / "libsome.so"
        file.write_bytes(content)
        return bool(lib.ephost_library_is_sound(os.fsencode(file)))

    whole = Path(sample_compiler.get_library_path()).read_bytes()
    assert is_sound(whole)
    at, size, number = (*struct.unpack_from("<Q", whole, 32), *struct.unpack_from("<HH", whole, 54))
    segments = [struct.unpack_from("<IIQQQQ", whole, at + i * size) for i in range(number)]
    end = max(offset + length for kind, _, offset, _, _, length in segments if kind == 1)
    assert is_sound(whole[:end]) and not is_sound(whole[: end - 1])
    for length in (0, 4, 63, 64, at + size * number - 1):
        assert not is_sound(whole[:length])
    changes = [("<H", 18, 9999), ("<B", 4, 1), ("<B", 5, 2), ("<H", 54, size - 1), ("<H", 56, 0xFFFF)]
    changes += [("<Q", 32, 1 << 63), ("<Q", at + 8, (1 << 64) - 1), ("<Q", at + 32, (1 << 64) - 1)]
    for layout, place, value in changes:
        content = bytearray(whole)
        struct.pack_into("<I", content, at, 1)  # the first segment is one that is mapped
        struct.pack_into(layout, content, place, value)
        assert not is_sound(bytes(content)), (layout, place)
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "", "nothing"):
        assert not lib.ephost_library_is_sound(os.fsencode(tmp_path / name))
    monkeypatch.setattr(library_module, "check_path", pytest.fail)
    register(sample_compiler.get_library_path(), "sound")
    ephost.unregister_execution_provider_library("sound")


def needing(compiled: Callable[..., Path], folder: Path, name: str) -> Path:
    """A library that needs another one of that name, which is there while it is compiled."""
    soname = () if ON_WINDOWS else (f"-Wl,-soname,{name}",)
    needed = compiled("int there(void) { return 1; }", folder / name, *soname)
    text = "int there(void); int f(void) { return there(); }"
    library = compiled(text, folder / "libplugin.so", str(needed))
    needed.unlink()
    return library


@needs_compiler
@pytest.mark.parametrize("missing", [MISSING, DRIVER])
def test_a_library_that_it_needs_is_named(
    tmp_path: Path, missing: str, compiled: Callable[..., Path]
) -> None:
    if missing == DRIVER and shutil.which("nvidia-smi"):
        pytest.skip("this machine has a GPU's driver")
    library = needing(compiled, tmp_path, missing)
    with pytest.raises(errors.Fail) as caught:
        register(library)
    assert f"{library} needs {missing}, which is not on this machine" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not is_mapped(library)


@needs_compiler
@pytest.mark.skipif(ON_WINDOWS, reason="a library of Windows says of which other one each function is")
def test_a_symbol_that_nobody_has_is_named(tmp_path: Path, compiled: Callable[..., Path]) -> None:
    text = "int nobody_has_it(void); int f(void) { return nobody_has_it(); }"
    library = compiled(text, tmp_path / "libplugin.so")
    with pytest.raises(errors.Fail, match=r"libplugin\.so needs nobody_has_it, which is in no library"):
        register(library)


@needs_compiler
@pytest.mark.skipif(not ON_WINDOWS, reason="elsewhere a plugin says itself where its neighbours are")
def test_windows_finds_what_lies_beside_a_plugin(
    tmp_path: Path,
    compiled: Callable[..., Path],
    bad_plugin: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = compiled("int first(void) { return 1; }", tmp_path / "first.dll")
    text = "int first(void); int second(void) { return first(); }"
    second = compiled(text, tmp_path / "second.dll", str(first))
    source = bad_plugin().parent / "asks.c"
    source.write_text(
        "int second(void); __attribute__((constructor)) static void ask(void) { (void)second(); }"
    )
    plugin = shutil.copy(bad_plugin(str(source), str(second)), tmp_path / "plugin.dll")
    register(plugin, "neighbours")
    assert is_mapped(plugin) and is_mapped(second) and is_mapped(first)
    ephost.unregister_execution_provider_library("neighbours")
    assert not is_mapped(plugin) and not is_mapped(second) and not is_mapped(first)
    first.unlink()
    with pytest.raises(
        errors.Fail, match=r"needs second\.dll, which needs first\.dll, which is not on this machine"
    ):
        register(plugin, "neighbours")


@needs_compiler
@pytest.mark.parametrize("missing", ["CreateEpFactories", "ReleaseEpFactory"])
def test_a_library_without_one_of_the_two_symbols(bad_plugin: Callable[..., Path], missing: str) -> None:
    library = bad_plugin(f"-D{missing}=Other")
    with pytest.raises(
        errors.Fail, match=rf"{re.escape(str(library))} has no symbol {missing}: it is no plugin"
    ):
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
    other = shutil.copy(sample_kernels.get_library_path(), tmp_path)  # not opened elsewhere either
    with pytest.raises(
        errors.Fail, match=r"already registered under compiler \(.*sample_compiler\.(so|dll)\)"
    ):
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


def test_a_library_in_use_stays_until_its_session_is_gone(own_plugin: str) -> None:
    register(own_plugin, "used")
    options = ephost.SessionOptions()
    options.add_provider_for_devices(ephost.get_ep_devices(), {})
    session = ephost.InferenceSession(adds_model().SerializeToString(), options)
    with pytest.raises(errors.Fail, match=r"'used' is in use by 1 session\(s\) \(.*adds.*\)"):
        ephost.unregister_execution_provider_library("used")
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], -x)
    session.close()
    ephost.unregister_execution_provider_library("used")
    assert not is_mapped(own_plugin)


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
def test_one_library_under_two_names_is_two_registrations_and_closes_with_the_last(own_plugin: str) -> None:
    register(own_plugin, "a")
    register(own_plugin, "b")
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
    assert is_mapped(own_plugin)
    assert [d.registration_name for d in ephost.get_ep_devices()] == ["b"]
    ephost.unregister_execution_provider_library("b")
    assert not is_mapped(own_plugin)


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
