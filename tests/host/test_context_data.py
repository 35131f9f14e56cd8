"""The data of EPContext nodes by way of callbacks, in both hosts where both can.

The plugin is tests/plugins/context_plugin: what it "compiles" is a constant that it adds.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from ephost.errors import Fail, OnnxRuntimeException, RuntimeException
from onnx import TensorProto, helper, numpy_helper
from plugin_harness import ROOT, build_plugin

pytestmark = [
    pytest.mark.usefixtures("nothing_leaks"),
    pytest.mark.in_process("callbacks for the data of EPContext nodes"),
]
X = np.arange(4, dtype=np.float32)
W = np.array([10, 20, 30, 40], dtype=np.float32)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin, built."""
    return build_plugin(ROOT / "tests" / "plugins" / "context_plugin", tmp_path_factory.mktemp("plugin"))


@pytest.fixture(params=["ephost", "onnxruntime"])
def host(request: pytest.FixtureRequest, library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A host in which the plugin is registered, of version 31."""
    monkeypatch.setenv("EPHOST_CONTEXT_DATA", "31")
    module = importlib.import_module(request.param)
    if module is ephost or "context_plugin" not in module.get_available_providers():
        module.register_execution_provider_library("context", str(library))
    yield module
    if module is ephost:  # onnxruntime unloads a plugin under sessions that still wait to be collected
        module.unregister_execution_provider_library("context")


@pytest.fixture
def here(library: Path) -> Iterator[Any]:
    """ephost alone."""
    ephost.register_execution_provider_library("context", library)
    yield ephost
    ephost.unregister_execution_provider_library("context")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """y = x + w in a file."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"], name="only")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [numpy_helper.from_array(W, "w")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10),
        tmp_path / "model.onnx",
    )
    return tmp_path / "model.onnx"


def options(host: Any) -> Any:
    """Session options with the plugin."""
    made = host.SessionOptions()
    made.add_provider_for_devices([d for d in host.get_ep_devices() if d.ep_name == "context_plugin"], {})
    return made


def compile_model(host: Any, path: Path, write: Callable[..., Any], embed: bool = False) -> Path:
    """Compiles the model with a callback."""
    compiler = host.ModelCompiler(options(host), path, embed)
    compiler.set_ep_context_data_write_func(write)
    target = path.with_name("compiled.onnx")
    compiler.compile_to_file(target)
    return target


def run(host: Any, path: Path, read: Callable[..., Any] | None, most: int = 1000) -> list[float]:
    """What the compiled model makes of X."""
    made = options(host)
    if read is not None:
        made.set_ep_context_data_read_func(read, most)
    session = host.InferenceSession(str(path), made, enable_fallback=0)
    (found,) = session.run(None, {"x": X})
    if host is ephost:
        session.close()
    return found.tolist()


def test_a_function_takes_what_was_compiled_and_another_gives_it_back(host: Any, path: Path) -> None:
    stored: dict[str, bytes] = {}
    kept: list[Any] = []

    def write(name: str, data: Any) -> None:
        assert type(data).__name__ == "OrtEpContextData"
        assert data.read(4, 8) == W[1:3].tobytes() and data.read(16) == b"" == data.read(0, 0)
        stored[name] = data.read()
        assert len(stored[name]) == data.size == W.nbytes
        kept.append(data)

    def read(name: str, buffer: Any) -> None:
        assert (buffer.is_allocated, buffer.size, buffer.max_size) == (False, 0, 1000)
        buffer.allocate(len(stored[name]))
        assert (buffer.is_allocated, buffer.size) == (True, W.nbytes)
        buffer.write(stored[name][8:], 8)
        buffer.write(memoryview(stored[name])[:8])
        kept.append(buffer)

    compiled = compile_model(host, path, write)
    assert sorted(path.parent.iterdir()) == [compiled, path]  # the plugin wrote no file
    (node,) = onnx.load(compiled).graph.node
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    assert [attributes["ep_cache_context"].decode()] == list(stored)
    assert run(host, compiled, read) == (X + W).tolist()
    for ask in (kept[0].read, lambda: kept[1].allocate(1), lambda: kept[1].write(b"")):
        with pytest.raises(RuntimeError, match="valid only during the"):
            ask()


def test_what_is_embedded_goes_by_no_function(host: Any, path: Path) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("called")

    assert run(host, compile_model(host, path, never, embed=True), never) == (X + W).tolist()


def allocate_twice(_: str, buffer: Any) -> None:
    buffer.allocate(4)
    buffer.allocate(4)


def write_outside(_: str, buffer: Any) -> None:
    buffer.allocate(4)
    buffer.write(b"12", 3)


@pytest.mark.parametrize(
    ("read", "complaint"),
    [
        (lambda name, buffer: 1 / 0, "ZeroDivisionError"),
        (lambda name, buffer: None, "allocate"),
        (lambda name, buffer: buffer.allocate(1001), "maximum"),
        (lambda name, buffer: buffer.write(b"1"), "allocate"),
        (allocate_twice, "allocated"),
        (write_outside, "buffer"),
    ],
)
def test_what_a_reader_does_wrong_fails_the_session(
    host: Any, path: Path, read: Callable[..., Any], complaint: str
) -> None:
    stored = []
    compiled = compile_model(host, path, lambda name, data: stored.append(data.read()))
    with pytest.raises(Exception, match=f"(?s)read callback.*failed.*{complaint}"):
        run(host, compiled, read)


@pytest.mark.parametrize(
    "write",
    [lambda name, data: 1 / 0, lambda name, data: data.read(0, 17), lambda name, data: data.read(17)],
)
def test_what_a_writer_does_wrong_fails_the_compilation(
    host: Any, path: Path, write: Callable[..., Any]
) -> None:
    with pytest.raises(Exception, match=r"(?s)write callback.*failed"):
        compile_model(host, path, write)
    assert list(path.parent.iterdir()) == [path]


def test_functions_are_cleared_again(host: Any, path: Path) -> None:
    compiler = host.ModelCompiler(options(host), path)
    compiler.set_ep_context_data_write_func(lambda name, data: 1 / 0)
    compiler.clear_ep_context_data_write_func()
    compiler.compile_to_file(path.with_name("compiled.onnx"))
    made = options(host)
    made.set_ep_context_data_read_func(lambda name, buffer: 1 / 0, 10)
    made.clear_ep_context_data_read_func()
    session = host.InferenceSession(str(path.with_name("compiled.onnx")), made, enable_fallback=0)
    assert session.run(None, {"x": X})[0].tolist() == (X + W).tolist()
    if host is ephost:
        session.close()


@pytest.mark.parametrize(("flags", "reads", "writes"), [("0", 0, 0), ("1", 1, 0), ("2", 0, 1), ("3", 1, 1)])
def test_an_ep_that_does_not_say_that_it_calls_them_is_an_error(
    host: Any, path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, reads: int, writes: int
) -> None:
    host.ModelCompiler(options(host), path).compile_to_file(path.with_name("compiled.onnx"))
    monkeypatch.setenv("EPHOST_CONTEXT_DATA", flags)
    session = options(host)
    session.set_ep_context_data_read_func(lambda name, buffer: None, 10)
    compiler = host.ModelCompiler(options(host), path)
    compiler.set_ep_context_data_write_func(lambda name, data: None)
    for works, kind, act in (
        (reads, "read", lambda: host.InferenceSession(str(path.with_name("compiled.onnx")), session)),
        (writes, "write", lambda: compiler.compile_to_file(path.with_name("other.onnx"))),
    ):
        if works:
            act()
            continue
        with pytest.raises(Exception, match=f"context_plugin.* does not .*{kind} callback") as told:
            act()
        assert type(told.value).__name__ == "Fail"


def test_an_answer_of_unknown_bits_is_an_error(
    host: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_CONTEXT_DATA", "4")
    with pytest.raises(Exception, match=r"context_plugin.*unknown .*4"):
        compile_model(host, path, lambda name, data: None)


def test_arguments_are_held_to_what_onnxruntime_takes(host: Any, path: Path) -> None:
    made, compiler = host.SessionOptions(), host.ModelCompiler(options(host), path)
    for size, error in ((0, RuntimeError), (2**64 - 1, RuntimeError), (-1, TypeError), ("a", TypeError)):
        with pytest.raises(error):
            made.set_ep_context_data_read_func(print, size)
    for ask in (lambda f: made.set_ep_context_data_read_func(f, 1), compiler.set_ep_context_data_write_func):
        with pytest.raises(RuntimeError, match="must not be None"):
            ask(None)
        with pytest.raises(TypeError):
            ask(3)
    for kind in (host.OrtEpContextData, host.OrtEpContextDataBuffer):
        with pytest.raises(TypeError):
            kind()


def test_plugins_of_version_30_find_the_functions_by_their_experimental_names(
    here: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnxruntime 1.31 has them no more; such a plugin is taken at its deed, not at its word."""
    monkeypatch.setenv("EPHOST_CONTEXT_DATA", "experimental")
    stored: dict[str, bytes] = {}

    def read(name: str, buffer: Any) -> None:
        buffer.allocate(len(stored[name]))
        buffer.write(stored[name])

    compiled = compile_model(here, path, lambda name, data: stored.update({name: data.read()}))
    assert run(here, compiled, read) == (X + W).tolist()


def test_an_older_plugin_that_never_asked_for_them_is_an_error(here: Any, path: Path) -> None:
    with pytest.raises(Fail, match=r"context_plugin .*does not call the write callback"):
        compile_model(here, path, lambda name, data: None)
    here.ModelCompiler(options(here), path).compile_to_file(path.with_name("compiled.onnx"))
    with pytest.raises(Fail, match="does not call the read callback"):
        run(here, path.with_name("compiled.onnx"), lambda name, buffer: None)
    assert run(here, path, lambda name, buffer: None) == (X + W).tolist()  # nothing is to be read


def test_an_error_of_the_callbacks_own_keeps_its_class(
    here: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_CONTEXT_DATA", "31")

    def fail(kind: type[OnnxRuntimeException]) -> None:
        raise kind("the key is gone")

    for kind in (ephost.errors.NoSuchFile, RuntimeException):
        with pytest.raises(kind, match=r"write callback .*the key is gone"):
            compile_model(here, path, lambda name, data, kind=kind: fail(kind))


def test_a_model_that_is_compiled_to_bytes_has_its_data_where_it_is_said(
    host: Any, path: Path, tmp_path: Path
) -> None:
    if not hasattr(host.ModelCompiler, "set_ep_context_binary_information"):
        pytest.skip("onnxruntime has it from 1.32 on")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    compiler = host.ModelCompiler(options(host), str(path), False)
    compiler.set_ep_context_binary_information(f"{elsewhere}/", "model.onnx")
    compiled = compiler.compile_to_bytes()
    (node,) = onnx.load_from_string(compiled).graph.node
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    assert [file.name for file in elsewhere.iterdir()] == [attributes["ep_cache_context"].decode()]
    # A model that goes to a file has its data beside it all the same.
    compiler.compile_to_file(str(tmp_path / "compiled.onnx"))
    assert attributes["ep_cache_context"].decode() in {file.name for file in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("directory", "name"), [("", "model"), ("somewhere/", ""), ("somewhere/else", "model")]
)
def test_a_directory_for_compiled_data_is_one(host: Any, path: Path, directory: str, name: str) -> None:
    if not hasattr(host.ModelCompiler, "set_ep_context_binary_information"):
        pytest.skip("onnxruntime has it from 1.32 on")
    compiler = host.ModelCompiler(options(host), str(path), False)
    with pytest.raises(Exception, match=r"empty|director") as raised:
        compiler.set_ep_context_binary_information(directory, name)
    assert type(raised.value).__name__ == "InvalidArgument"


@pytest.mark.parametrize(("directory", "name"), [("a\0b/", "model.onnx"), ("folder/", "a\0b")])
def test_a_nul_in_where_a_plugin_is_to_put_its_files_is_refused(directory: str, name: str) -> None:
    compiler = ephost.ModelCompiler(ephost.SessionOptions(), b"model")
    with pytest.raises(ephost.errors.InvalidArgument, match=r"a\\x00b.*has a NUL"):
        compiler.set_ep_context_binary_information(directory, name)
