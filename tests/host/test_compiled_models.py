"""Models compiled ahead of time: what is written, what opens again, and what is said when it cannot.

The plugin, tests/plugins/context_plugin, adds a constant; compiled, the constant is in its EPContext data and
no more in the model.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ephost
import ephost.capi.onnxruntime_pybind11_state
import numpy as np
import onnx
import pytest
from ephost.errors import (
    EPFail,
    Fail,
    InvalidArgument,
    ModelRequiresCompilation,
    NotImplemented,
)
from ephost.model import context
from google.protobuf.message import EncodeError
from onnx import TensorProto, helper, numpy_helper
from plugin_harness import ROOT, build_plugin

pytestmark = pytest.mark.usefixtures("nothing_leaks")
X = np.arange(4, dtype=np.float32)
W = np.array([10, 20, 30, 40], dtype=np.float32)
LARGE = np.full(4, 2, dtype=np.float32)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a plugin writes beside a model without a path goes to the working directory."""
    monkeypatch.chdir(tmp_path)


def _float(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])


def example(**replaced: Any) -> onnx.ModelProto:
    """y = (x + w) * k + w, with the operator Mul for the host."""
    graph = {
        "nodes": [
            helper.make_node("Add", ["x", "w"], ["a"], name="first"),
            helper.make_node("Mul", ["a", "k"], ["b"], name="middle"),
            helper.make_node("Add", ["b", "w"], ["y"], name="last"),
        ],
        "name": "example",
        "inputs": [_float("x")],
        "outputs": [_float("y")],
        "initializer": [numpy_helper.from_array(W, "w"), numpy_helper.from_array(LARGE, "k")],
        **replaced,
    }
    model = helper.make_model(
        helper.make_graph(**graph), opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    )
    helper.set_model_props(model, {"author": "somebody"})
    return model


EXPECTED = (X + W) * LARGE + W


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin, built."""
    return build_plugin(ROOT / "tests" / "plugins" / "context_plugin", tmp_path_factory.mktemp("plugin"))


@pytest.fixture
def devices(library: Path) -> Iterator[list[ephost.OrtEpDevice]]:
    """The devices of the plugin while it is registered."""
    ephost.register_execution_provider_library("context", library)
    yield [d for d in ephost.get_ep_devices() if d.registration_name == "context"]
    ephost.unregister_execution_provider_library("context")


Options = Callable[..., ephost.SessionOptions]


@pytest.fixture
def options(devices: list[ephost.OrtEpDevice]) -> Options:
    """Makes session options with the plugin and entries."""

    def make(**entries: str) -> ephost.SessionOptions:
        made = ephost.SessionOptions()
        made.add_provider_for_devices(devices[:1], {})
        for key, value in entries.items():
            made.add_session_config_entry(key.replace("__", "."), value)
        return made

    return make


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The example's file."""
    onnx.save(example(), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def run(model: Any, options: ephost.SessionOptions | None = None) -> np.ndarray:
    """What a model makes of X."""
    session = ephost.InferenceSession(model, options)
    (found,) = session.run(None, {"x": X})
    session.close()
    return np.asarray(found)


@pytest.mark.parametrize("embed", [True, False])
def test_a_compiled_model_has_the_compiled_code_in_place_of_its_nodes(
    path: Path, options: Options, embed: bool
) -> None:
    ephost.ModelCompiler(options(), path, embed).compile_to_file(path.with_name("out.onnx"))
    compiled = onnx.load(path.with_name("out.onnx"))
    assert [(n.op_type, n.domain) for n in compiled.graph.node] == [
        ("EPContext", "com.microsoft"),
        ("Mul", ""),
        ("EPContext", "com.microsoft"),
    ]
    assert [i.name for i in compiled.graph.initializer] == ["k"]
    assert {o.domain: o.version for o in compiled.opset_import} == {"": 21, "com.microsoft": 1}
    assert {v.name for v in compiled.graph.value_info} == {"a", "b"}
    first = {a.name: helper.get_attribute_value(a) for a in compiled.graph.node[0].attribute}
    data = first["ep_cache_context"]
    if not embed:
        data = path.with_name(data.decode()).read_bytes()
    assert (first["source"], first["embed_mode"], first["main_context"]) == (b"context_plugin", embed, 1)
    assert data == W.tobytes()
    assert {p.key: p.value for p in compiled.metadata_props} == {
        "author": "somebody",
        "ep_compatibility_info.context_plugin": "constants v1",
    }
    assert run(path.with_name("out.onnx"), options()).tolist() == EXPECTED.tolist()


def test_it_opens_in_a_process_that_never_saw_the_original(
    path: Path, options: Options, library: Path
) -> None:
    compiled = path.with_name("out.onnx")
    ephost.ModelCompiler(options(), path).compile_to_file(compiled)
    path.unlink()
    code = f"""
import ephost, numpy
ephost.register_execution_provider_library("context", {str(library)!r})
options = ephost.SessionOptions()
options.add_provider_for_devices(ephost.get_ep_devices()[:1], {{}})
options.add_session_config_entry("session.disable_model_compile", "1")
session = ephost.InferenceSession({str(compiled)!r}, options)
print(session.run(None, {{"x": numpy.arange(4, dtype=numpy.float32)}})[0].tolist())
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stdout.strip(), done.returncode) == (str(EXPECTED.tolist()), 0), done.stderr


def test_the_session_that_asks_for_a_compiled_model_runs_as_well(path: Path, options: Options) -> None:
    entries = {"ep__context_enable": "1", "ep__context_embed_mode": "1"}
    assert run(path, options(**entries)).tolist() == EXPECTED.tolist()
    written = path.with_name("model_ctx.onnx")
    assert run(written, options(session__disable_model_compile="1")).tolist() == EXPECTED.tolist()
    with pytest.raises(Fail, match=r"model_ctx\.onnx exists already"):
        run(path, options(**entries))
    elsewhere = str(path.with_name("other.onnx"))
    assert run(path.read_bytes(), options(**entries, ep__context_file_path=elsewhere)).tolist() == (
        EXPECTED.tolist()
    )
    assert run(elsewhere, options()).tolist() == EXPECTED.tolist()
    with pytest.raises(InvalidArgument, match=r"ep\.context_file_path is not set"):
        run(path.read_bytes(), options(**entries))


def test_a_model_is_compiled_to_bytes_to_a_stream_and_from_bytes(path: Path, options: Options) -> None:
    compiler = ephost.ModelCompiler(options(), path.read_bytes(), embed_compiled_data_into_model=True)
    data = compiler.compile_to_bytes()
    parts: list[bytes] = []
    compiler.compile_to_stream(parts.append)
    assert onnx.load_from_string(b"".join(parts)) == onnx.load_from_string(data)
    assert run(data, options()).tolist() == EXPECTED.tolist()
    with pytest.raises(InvalidArgument, match="from bytes"):
        compiler.compile_to_file()

    def refuse(_: bytes) -> None:
        raise OSError("the disk is full")

    with pytest.raises(Fail, match="OSError: the disk is full") as raised:
        compiler.compile_to_stream(refuse)
    assert isinstance(raised.value.__cause__, OSError)


def test_the_default_file_is_beside_the_model_and_may_be_replaced(path: Path, options: Options) -> None:
    for _ in range(2):
        ephost.ModelCompiler(options(), path, True).compile_to_file()
    written = path.with_name("model_ctx.onnx")
    assert run(written, options()).tolist() == EXPECTED.tolist()
    flags = ephost.OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS
    with pytest.raises(Fail, match="exists already"):
        ephost.ModelCompiler(options(), path, True, flags=flags).compile_to_file()
    for wrong, complaint in ((path.parent, "a folder"), (path.parent / "no" / "a.onnx", "no folder")):
        with pytest.raises(InvalidArgument, match=complaint):
            ephost.ModelCompiler(options(), path).compile_to_file(wrong)


@pytest.mark.in_process("its process has the environment of when it was registered")
def test_a_failed_compilation_leaves_what_was_there(
    path: Path, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = path.with_name("out.onnx")
    target.write_bytes(b"before")
    monkeypatch.setenv("EPHOST_CONTEXT", "foreign_input")
    before = sorted(path.parent.iterdir())
    with pytest.raises(EPFail):
        ephost.ModelCompiler(options(), path, True).compile_to_file(target)
    assert (target.read_bytes(), sorted(path.parent.iterdir())) == (b"before", before)

    def no_place(name: str, *_: Any) -> None:
        raise LookupError(name)

    monkeypatch.delenv("EPHOST_CONTEXT")
    compiler = ephost.ModelCompiler(options(), path, True, get_initializer_location_func=no_place)
    with pytest.raises(LookupError, match="k"):
        compiler.compile_to_file(target)
    assert (target.read_bytes(), sorted(path.parent.iterdir())) == (b"before", before)


def test_without_compiled_nodes_the_model_stays_or_a_flag_refuses(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = path.with_name("out.onnx")
    ephost.ModelCompiler(ephost.SessionOptions(), path).compile_to_file(target)
    assert "Unable to compile any nodes" in caplog.text
    assert [n.op_type for n in onnx.load(target).graph.node] == ["Add", "Mul", "Add"]
    assert run(target).tolist() == EXPECTED.tolist()
    flags = ephost.OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED
    with pytest.raises(Fail, match="Unable to compile any nodes"):
        ephost.ModelCompiler(ephost.SessionOptions(), path, flags=flags).compile_to_file(target)


@pytest.mark.in_process("its process has the environment of when it was registered")
def test_what_is_compiled_and_cannot_be_stored_is_an_error(
    path: Path, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in onnxruntime, whatever the flags say: the model would be as slow to open as before."""
    monkeypatch.setenv("EPHOST_CONTEXT", "nothing")
    target = path.with_name("out.onnx")
    complaint = "context_plugin.*no EPContext node from Compile for the group of .*'first'.*cannot be stored"
    with pytest.raises(Fail, match=complaint):
        ephost.ModelCompiler(options(), path).compile_to_file(target)
    with pytest.raises(Fail, match=complaint):
        ephost.InferenceSession(path, options(ep__context_enable="1", ep__context_file_path=str(target)))
    assert not target.exists()
    assert run(path, options()).tolist() == EXPECTED.tolist()  # who does not want it stored is not troubled


def test_a_session_that_compiles_nothing_writes_no_compiled_model(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = ephost.SessionOptions()
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ep.context_file_path", str(path.with_name("out.onnx")))
    assert run(path, options).tolist() == EXPECTED.tolist()
    assert "no compiled model is written" in caplog.text
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.in_process("its process has the environment of when it was registered")
@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("other_operator", r"com\.microsoft\.Code, not an EPContext"),
        ("foreign_input", "reads 'nobody'"),
        ("other_output", r"the outputs \['other'\], not \['a'\]"),
    ],
)
def test_a_node_that_does_not_fit_in_its_place_is_the_plugins_fault(
    path: Path, options: Options, monkeypatch: pytest.MonkeyPatch, fault: str, complaint: str
) -> None:
    monkeypatch.setenv("EPHOST_CONTEXT", fault)
    with pytest.raises(EPFail, match=f"context_plugin.*'first'.*{complaint}"):
        ephost.ModelCompiler(options(), path, True).compile_to_bytes()


def test_without_its_plugin_the_error_says_who_compiled(path: Path, options: Options) -> None:
    data = ephost.ModelCompiler(options(), path, True).compile_to_bytes()
    name = onnx.load_from_string(data).graph.node[0].name
    with pytest.raises(NotImplemented, match=f"'context_plugin' compiled.*partition '{name}'.*Register"):
        run(data)


def test_what_was_compiled_is_compiled_again_into_itself(path: Path, options: Options) -> None:
    data = ephost.ModelCompiler(options(), path, True).compile_to_bytes()
    again = ephost.ModelCompiler(options(), data, True).compile_to_bytes()
    assert onnx.load_from_string(again) == onnx.load_from_string(data)


def test_compiling_can_be_forbidden(path: Path, options: Options) -> None:
    forbidden = options(session__disable_model_compile="1")
    with pytest.raises(ModelRequiresCompilation, match=r"context_plugin.*the node 'first'"):
        run(path, forbidden)
    # ... but not to whom it is the task.
    data = ephost.ModelCompiler(forbidden, path, True).compile_to_bytes()
    assert run(data, forbidden).tolist() == EXPECTED.tolist()


@pytest.mark.usefixtures("cpu_plugin_as_default")
def test_the_cpu_plugin_of_the_host_is_not_forbidden_to_compile(
    path: Path, options: Options, library: Path
) -> None:
    compiled = path.with_name("out.onnx")
    ephost.ModelCompiler(options(), path).compile_to_file(compiled)
    code = f"""
import ephost, numpy
ephost.register_execution_provider_library("context", {str(library)!r})
options = ephost.SessionOptions()
options.add_session_config_entry("session.disable_model_compile", "1")
x = numpy.arange(4, dtype=numpy.float32)
for path in ({str(path)!r}, {str(compiled)!r}):
    session = ephost.InferenceSession(path, options)
    print(session.get_providers()[-1], session.run(None, {{"x": x}})[0].tolist())
    options.add_provider("context_plugin", {{}})
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout.splitlines() == [f"CPUExecutionProvider {EXPECTED.tolist()}"] * 2, done.stderr


@pytest.mark.parametrize(
    ("model", "initializers", "message"),
    [
        ("a\0b.onnx", None, r"the compiled model.*a\\x00b\.onnx.*NUL"),
        ("out.onnx", "a\0b", r"the initializers.*a\\x00b.*NUL"),
        ("out.onnx", "out.onnx", r"the initializers.*out\.onnx.*the compiled model itself"),
        ("out.onnx", "./x/../out.onnx", r"the initializers.*out\.onnx.*the compiled model itself"),
        ("out.onnx", "none/w", r"the initializers.*none/w'.*there is no folder"),
        ("out.onnx", "folder", r"the initializers.*folder'.*that is a folder"),
        ("out.onnx", "../w", r"the initializers.*own folder"),
        (None, "none/w", r"the initializers.*none/w'.*there is no folder"),
    ],
)
def test_paths_that_cannot_be_are_refused_before_anything_is_written(
    path: Path, options: Options, model: str | None, initializers: str | None, message: str
) -> None:
    for name in ("folder", "x"):
        (path.parent / name).mkdir()
    before = sorted(path.parent.iterdir())
    compiler = ephost.ModelCompiler(
        options(),
        path,
        external_initializers_file_path=initializers,
        external_initializers_size_threshold=0,
    )
    with pytest.raises(InvalidArgument, match=message):
        if model is None:
            compiler.compile_to_bytes()
        else:
            compiler.compile_to_file(model)
    assert sorted(path.parent.iterdir()) == before


def test_a_name_that_is_too_long_is_told_without_that_of_a_part(path: Path, options: Options) -> None:
    name = "x" * 300
    with pytest.raises(OSError, match="too long") as raised:
        ephost.ModelCompiler(options(), path, True).compile_to_file(name)
    assert (raised.value.filename, raised.value.filename2) == (name, None)


def test_options_of_a_compiler_are_its_own(path: Path, options: Options) -> None:
    given = options()
    compiler = ephost.ModelCompiler(given, path, True)
    given.add_session_config_entry("ep.context_embed_mode", "0")
    data = compiler.compile_to_bytes()
    assert onnx.load_from_string(data).graph.node[0].attribute[0].s == W.tobytes()
    with pytest.raises(ephost.errors.RuntimeException, match=r"ep\.context_enable"):
        given.get_session_config_entry("ep.context_enable")


def test_large_initializers_go_to_a_file(path: Path, options: Options) -> None:
    target = path.with_name("out.onnx")
    compiler = ephost.ModelCompiler(options(), path, True, "weights.bin", LARGE.nbytes)
    compiler.compile_to_file(target)  # not more than the threshold
    assert not path.with_name("weights.bin").exists()
    ephost.ModelCompiler(options(), path, True, "weights.bin", LARGE.nbytes - 1).compile_to_file(target)
    assert path.with_name("weights.bin").read_bytes() == LARGE.tobytes()
    (k,) = onnx.load(target, load_external_data=False).graph.initializer
    assert {e.key: e.value for e in k.external_data} == {
        "location": "weights.bin",
        "offset": "0",
        "length": "16",
    }
    assert run(target, options()).tolist() == EXPECTED.tolist()
    with pytest.raises(InvalidArgument, match="its own folder"):
        ephost.ModelCompiler(options(), path, True, "../weights.bin", 0).compile_to_file(target)
    entry = "ep__context_model_external_initializers_file_name"
    elsewhere = path.with_name("third.onnx")
    asked = options(
        ep__context_enable="1",
        ep__context_embed_mode="1",
        ep__context_file_path=str(elsewhere),
        **{entry: "third.bin"},
    )
    assert run(path, asked).tolist() == EXPECTED.tolist()
    assert path.with_name("third.bin").read_bytes() == LARGE.tobytes()
    assert run(elsewhere, options()).tolist() == EXPECTED.tolist()


def test_a_function_places_initializers(path: Path, options: Options) -> None:
    seen: list[tuple[str, list[float], Any]] = []

    def place(name: str, value: ephost.OrtValue, lies: Any) -> ephost.OrtExternalInitializerInfo:
        seen.append((name, value.numpy().tolist(), lies))
        path.with_name("own.bin").write_bytes(b"....." + value.numpy().tobytes())
        return ephost.OrtExternalInitializerInfo("own.bin", 5, value.tensor_size_in_bytes())

    target = path.with_name("out.onnx")
    ephost.ModelCompiler(options(), path, True, get_initializer_location_func=place).compile_to_file(target)
    assert seen == [("k", LARGE.tolist(), None)]
    assert run(target, options()).tolist() == EXPECTED.tolist()
    ephost.ModelCompiler(
        options(), target, True, get_initializer_location_func=lambda name, value, lies: lies and None
    ).compile_to_file(path.with_name("inside.onnx"))
    assert onnx.load(path.with_name("inside.onnx")).graph.initializer[0].raw_data == LARGE.tobytes()
    with pytest.raises(TypeError, match="OrtExternalInitializerInfo or None"):
        ephost.ModelCompiler(
            options(), path, get_initializer_location_func=lambda *_: "k.bin"
        ).compile_to_bytes()


def test_an_initializer_that_protobuf_cannot_hold_is_told_as_too_large(
    path: Path, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> None:
        raise EncodeError("Failed to serialize proto")  # as of more than 2 GiB

    monkeypatch.setattr(context, "initializer_proto", fail)
    with pytest.raises(Fail, match=r"too large for one file \(.*out\.onnx\)"):
        ephost.ModelCompiler(options(), path, True).compile_to_file(path.with_name("out.onnx"))
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_function_may_leave_initializers_where_the_model_has_them(
    path: Path, options: Options, tmp_path: Path
) -> None:
    (tmp_path / "weights").mkdir()
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights/all", size_threshold=0)
    seen = []

    def stay(name: str, value: ephost.OrtValue, lies: Any) -> ephost.OrtExternalInitializerInfo:
        seen.append((name, lies.filepath, lies.byte_size))
        return lies

    target = path.with_name("out.onnx")
    source = str(path)
    for given in (source, path.read_bytes(), path.name):
        ephost.ModelCompiler(options(), given, True, get_initializer_location_func=stay).compile_to_file(
            target
        )
        assert run(target, options()).tolist() == EXPECTED.tolist()
    assert seen == [("k", "weights/all", LARGE.nbytes)] * 3


def test_defaults_of_inputs_stay_and_initializers_of_old_models_are_no_inputs(options: Options) -> None:
    defaulted = example(inputs=[_float("x"), _float("k")])
    data = ephost.ModelCompiler(options(), defaulted.SerializeToString(), True).compile_to_bytes()
    session = ephost.InferenceSession(data, options())
    assert [v.name for v in session.get_overridable_initializers()] == ["k"]
    assert session.run(None, {"x": X, "k": X})[0].tolist() == ((X + W) * X + W).tolist()
    session.close()
    old = example(inputs=[_float("x"), _float("w"), _float("k")])
    old.ir_version = 3
    data = ephost.ModelCompiler(options(), old.SerializeToString(), True).compile_to_bytes()
    compiled = onnx.load_from_string(data)
    assert ([v.name for v in compiled.graph.input], compiled.ir_version) == (["x"], 4)
    assert run(data, options()).tolist() == EXPECTED.tolist()


def test_code_in_bodies_and_functions_is_compiled_too(options: Options) -> None:
    def body(name: str, operator: str) -> onnx.GraphProto:
        return helper.make_graph(
            [helper.make_node(operator, ["x", "w"], [name], name=name)], name, [], [_float(name)]
        )

    function = helper.make_function(
        "own",
        "Shift",
        ["v", "c"],
        ["s"],
        [helper.make_node("Sub", ["v", "c"], ["s"])],
        [helper.make_opsetid("", 21)],
    )
    model = example(
        nodes=[
            helper.make_node(
                "If", ["c"], ["b"], then_branch=body("p", "Add"), else_branch=body("q", "Mul"), name="if"
            ),
            helper.make_node("Shift", ["b", "k"], ["y"], domain="own"),
        ],
        inputs=[_float("x"), helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
    )
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("own", 1))
    data = ephost.ModelCompiler(options(), model.SerializeToString(), True).compile_to_bytes()
    compiled = onnx.load_from_string(data)
    branches = {a.name: a.g for a in compiled.graph.node[0].attribute}
    assert [n.op_type for n in branches["then_branch"].node] == ["EPContext"]
    assert [n.op_type for n in branches["else_branch"].node] == ["Mul"]
    assert {i.name for i in compiled.graph.initializer} == {"k", "w"}
    assert [f.name for f in compiled.functions] == ["Shift"]
    session = ephost.InferenceSession(data, options())
    for which, expected in ((True, X + W - LARGE), (False, X * W - LARGE)):
        (found,) = session.run(None, {"x": X, "c": np.array(which)})
        assert found.tolist() == expected.tolist()
    session.close()


def test_a_plugin_refuses_what_was_compiled_for_another_device(
    path: Path, options: Options, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    data = ephost.ModelCompiler(options(), path, True).compile_to_bytes()
    strict = options(session__fail_on_suboptimal_compiled_model="1")
    monkeypatch.setenv("EPHOST_CONTEXT_ANSWER", "2")
    assert run(data, options()).tolist() == EXPECTED.tolist()
    assert "prefers that it be compiled again" in caplog.text
    with pytest.raises(ModelRequiresCompilation, match=r"context_plugin.*constants v1.*prefers"):
        run(data, strict)
    monkeypatch.setenv("EPHOST_CONTEXT_ANSWER", "3")
    with pytest.raises(ModelRequiresCompilation, match=r"context_plugin \('constants v1'\).*cannot run"):
        run(data, options())
    monkeypatch.setenv("EPHOST_CONTEXT_ANSWER", "7")
    with pytest.raises(EPFail, match="answers 7"):
        run(data, options())
    for fine in "01":
        monkeypatch.setenv("EPHOST_CONTEXT_ANSWER", fine)
        assert run(data, strict).tolist() == EXPECTED.tolist()


@pytest.mark.in_process("its process has the environment of when it was registered")
def test_compatibility_can_be_asked_before_opening(
    path: Path, options: Options, devices: list[ephost.OrtEpDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = path.with_name("out.onnx")
    ephost.ModelCompiler(options(), path, True).compile_to_file(target)
    info = ephost.get_compatibility_info_from_model(target, "context_plugin")
    assert info == "constants v1"
    assert ephost.get_compatibility_info_from_model_bytes(target.read_bytes(), "other") is None
    kinds = ephost.capi.onnxruntime_pybind11_state.OrtCompiledModelCompatibility
    ask = ephost.get_model_compatibility_for_ep_devices
    assert ask(devices[:1], info) == kinds.EP_SUPPORTED_OPTIMAL
    assert ask(devices[:1], "something else") == kinds.EP_NOT_APPLICABLE
    monkeypatch.setenv("EPHOST_CONTEXT_ANSWER", "3")
    assert ask(devices[:1], info) == kinds.EP_UNSUPPORTED
    with pytest.raises(InvalidArgument, match="no device"):
        ask([], info)


def test_a_device_may_be_asked_about(devices: list[ephost.OrtEpDevice]) -> None:
    ask = ephost.get_hardware_device_ep_incompatibility_details
    details = ask("context_plugin", devices[0].device)
    assert details == {"reasons_bitmask": 0, "notes": None, "error_code": 0}
    assert ask("CPUExecutionProvider", devices[0].device) == details
    with pytest.raises(InvalidArgument, match="nobody"):
        ask("nobody", devices[0].device)


def test_bad_arguments_are_refused_at_once(path: Path, options: Options) -> None:
    with pytest.raises(InvalidArgument, match="does not exist"):
        ephost.ModelCompiler(options(), path.with_name("absent.onnx"))
    with pytest.raises(ValueError, match="empty"):
        ephost.ModelCompiler(options(), b"")
    with pytest.raises(TypeError, match="Unable to load"):
        ephost.ModelCompiler(options(), 5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="both"):
        ephost.ModelCompiler(options(), path, False, "w", get_initializer_location_func=lambda *_: None)


def test_large_weights_that_a_model_computes_are_constants_for_plugins(options: Options) -> None:
    size = 3 << 20
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in "xy"]
    two = numpy_helper.from_array(np.array([2], np.float32))
    model = example(
        nodes=[
            helper.make_node("ConstantOfShape", ["size"], ["v"], value=two),
            helper.make_node("Add", ["x", "v"], ["y"], name="add"),
        ],
        inputs=kinds[:1],
        outputs=kinds[1:],
        initializer=[numpy_helper.from_array(np.array([size]), "size")],
    )
    session = ephost.InferenceSession(
        model.SerializeToString(), options(session__disable_cpu_ep_fallback="1")
    )
    (found,) = session.run(None, {"x": np.ones(size, np.float32)})
    assert (found == 3).all()
    session.close()


# ---- without weights ----


@pytest.mark.in_process("compiled models without weights")
def test_an_ep_that_can_leaves_weights_out_of_what_it_compiles(
    path: Path, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_CONTEXT_WEIGHTLESS", "2")
    written = path.with_name("out.onnx")
    made = options(ep__enable_weightless="1", ep__context_model_external_initializers_file_name="out.data")
    ephost.ModelCompiler(
        made, path, external_initializers_file_path="out.data", external_initializers_size_threshold=0
    ).compile_to_file(written)
    graph = onnx.load(written, load_external_data=False).graph
    assert [list(node.input) for node in graph.node] == [["x", "w"], ["a", "k"], ["b", "w"]]
    assert {i.name: i.external_data[0].value for i in graph.initializer} == {"w": "out.data", "k": "out.data"}
    assert sorted(file.name for file in path.parent.iterdir()) == ["model.onnx", "out.data", "out.onnx"]
    path.unlink()
    assert run(written, options()).tolist() == EXPECTED.tolist()


@pytest.mark.in_process("compiled models without weights")
def test_a_session_may_ask_for_it_without_compiling_ahead(
    path: Path, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_CONTEXT_WEIGHTLESS", "1")
    assert run(path, options(ep__enable_weightless="1")).tolist() == EXPECTED.tolist()


@pytest.mark.in_process("compiled models without weights")
@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (None, NotImplemented, r"ep\.enable_weightless is set.*context_plugin.* GetWeightlessSupport"),
        ("0", EPFail, r"ep\.enable_weightless is set.*context_plugin.* does not compile without weights"),
    ],
)
def test_an_ep_that_cannot_is_named(
    path: Path,
    options: Options,
    monkeypatch: pytest.MonkeyPatch,
    answer: str | None,
    error: type[Exception],
    message: str,
) -> None:
    if answer is not None:
        monkeypatch.setenv("EPHOST_CONTEXT_WEIGHTLESS", answer)
    with pytest.raises(error, match=message):
        ephost.InferenceSession(path, options(ep__enable_weightless="1"))
    assert run(path, options(ep__enable_weightless="0")).tolist() == EXPECTED.tolist()


@pytest.mark.in_process("compiled models without weights")
def test_an_ep_too_old_to_be_asked_does_as_it_likes(
    path: Path, options: Options, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("EPHOST_CONTEXT_WEIGHTLESS", "old")
    with caplog.at_level("INFO", "ephost.partition"):
        assert run(path, options(ep__enable_weightless="1")).tolist() == EXPECTED.tolist()
    assert "cannot be asked whether it compiles without weights" in caplog.text
