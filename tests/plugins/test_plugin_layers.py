"""host/layer and ephost.layers: every call of both sides is seen, in either host, and answers stay."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import ephost
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from ephost import layers
from ephost.cli import main
from ephost.layers import trace as traces
from onnx import helper
from plugin_harness import ROOT, Case, Runner, build_plugin, python_path
from plugin_models import model, node

RNG = np.random.default_rng(11)
X = RNG.uniform(0.5, 2, (3, 4)).astype(np.float32)
CASE = Case(
    model([node("Exp", "x", "a"), node("Add", "a x", "y")], {"x": [3, 4]}, ["y"]), [{"x": X}, {"x": -X}]
)
pytestmark = pytest.mark.skipif(not layers._LIBRARY.exists(), reason="this build has no layers")


@pytest.fixture
def traced(tmp_path: Path) -> Callable[..., traces.TraceFile]:
    """Runs cases on a wrapped plugin in a host; gives the trace."""

    def run(
        host: str, library: Path, ep: str, cases: Iterable[Case], layer: layers.Trace | None = None
    ) -> traces.TraceFile:
        file, stand_in = tmp_path / f"{host}-{ep}.trace", tmp_path / f"lib{host}{ep}.so"
        layer = layer or layers.Trace()
        layers.wrap(library, stand_in, [layers.Trace(file, layer.only, layer.graphs, layer.megabytes)])
        folders = [tmp_path / f"{host}-{ep}-plain", tmp_path / f"{host}-{ep}-wrapped"]
        for folder in folders:
            folder.mkdir()
        cases = list(cases)
        plain, _ = Runner(host, library, ep, folders[0]).run(cases)
        seen, _ = Runner(host, stand_in, ep, folders[1]).run(cases)
        for one, other in zip(plain, seen, strict=True):
            assert one.error == other.error, other.message
            assert one.groups == other.groups
            for before, after in zip(one.outputs, other.outputs, strict=True):
                np.testing.assert_equal(after, before)
        return traces.TraceFile(file)

    return run


def functions_of_headers() -> set[str]:
    """Every function pointer of every struct in the headers, as Struct.member."""
    found = set()
    for header in (ROOT / "include" / "ephost").glob("*.h"):
        text = re.sub(r"/\*.*?\*/", " ", header.read_text(), flags=re.S)
        for struct in re.finditer(r"^struct (\w+) \{(.*?)^\};", text, flags=re.S | re.M):
            for member in re.finditer(r"\(\s*ORT_API_CALL\s*\*\s*(\w+)\)\s*\(", struct[2]):
                found.add(f"{struct[1]}.{member[1]}")
    return found


def test_every_function_of_the_abi_is_wrapped(
    traced: Callable[..., traces.TraceFile], plugin_library: Callable[[str], Path]
) -> None:
    read = traced("ephost", plugin_library("sample_kernels"), "sample_kernels", [])
    wrapped = {function.name for function in read.functions}
    left = {name for name in functions_of_headers() - wrapped if ".Reserved" not in name}
    # No argument says whose these are. What is left out are an application's functions, and no plugin's.
    assert {name for name in left if not name.startswith("OrtThreadPoolCallbacksConfig.")} == {
        f"OrtCustomOp.{name}"
        for name in ("GetMayInplace", "ReleaseMayInplace", "GetAliasMap", "ReleaseAliasMap")
    }
    assert {"CreateEpFactories", "ReleaseEpFactory", "OrtKernelCreateFunc"} <= wrapped


def test_kernels_are_seen_with_their_session(
    host: str, traced: Callable[..., traces.TraceFile], plugin_library: Callable[[str], Path]
) -> None:
    read = traced(host, plugin_library("sample_kernels"), "sample_kernels", [CASE, CASE])
    assert len(read.eps) == 2
    computes = [call for call in read.calls if call.function.name == "OrtKernelImpl.Compute"]
    assert len(computes) == 8
    assert {call.session for call in computes} <= {0, 1, 2}
    outputs = [c for c in read.calls if c.function.name == "OrtApi.KernelContext_GetOutput"]
    assert all(c.parent is not None and c.parent.function.name == "OrtKernelImpl.Compute" for c in outputs)
    assert not read.unfinished
    assert read.dropped == 0


def test_enumerations_are_shown_by_name_and_are_numbers_to_programs(
    traced: Callable[..., traces.TraceFile], plugin_library: Callable[[str], Path]
) -> None:
    read = traced("ephost", plugin_library("sample_kernels"), "sample_kernels", [CASE])
    (call, *_) = (c for c in read.calls if c.function.name == "OrtEpApi.GetTensorDataType")
    assert "elem_type=ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT " in traces.call_line(call)
    assert call.arguments["elem_type"] == 1
    told = traces.as_json(read)["calls"][read.calls.index(call)]
    assert '"elem_type": 1' in json.dumps(told)
    (call, *_) = (c for c in read.calls if c.function.name == "OrtApi.GetTensorElementType")
    assert traces.call_line(call).endswith("*out=ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT")
    call.code, call.error = 2, "no"
    assert traces.call_line(call).endswith('-> error ORT_INVALID_ARGUMENT "no"')
    assert traces._named(1234, "OrtMemType") == 1234 and str(traces._named(-2, "OrtMemType")) == (
        "OrtMemTypeCPUInput"
    )
    assert str(traces._named(3, "OrtNewerThanThis")) == "3"


def test_every_argument_of_an_enumeration_is_known_as_one(
    traced: Callable[..., traces.TraceFile], plugin_library: Callable[[str], Path]
) -> None:
    read = traced("ephost", plugin_library("sample_kernels"), "sample_kernels", [])
    enums = {enum for function in read.functions for enum in function.enums.values()}
    assert {"ONNXTensorElementDataType", "OrtMemType", "OrtErrorCode", "OrtLoggingLevel"} <= enums
    assert all(traces._names(enum) for enum in enums)


def test_compiled_nodes_are_seen_from_compile_to_release(
    host: str, traced: Callable[..., traces.TraceFile], plugin_library: Callable[[str], Path]
) -> None:
    read = traced(host, plugin_library("sample_compiler"), "sample_compiler", [CASE])
    names = [call.function.name for call in read.calls]
    order = [
        "CreateEpFactories",
        "OrtEpFactory.GetSupportedDevices",
        "OrtEpFactory.CreateEp",
        "OrtEp.GetCapability",
        "OrtEp.Compile",
        "OrtNodeComputeInfo.CreateState",
        "OrtNodeComputeInfo.Compute",
        "OrtNodeComputeInfo.ReleaseState",
        "OrtEp.ReleaseNodeComputeInfos",
        "OrtEpFactory.ReleaseEp",
        "ReleaseEpFactory",
    ]
    at = 0
    for name in order:
        assert name in names[at:], name
        at = names.index(name, at)
    (compiled,) = (call for call in read.calls if call.function.name == "OrtEp.Compile")
    assert compiled.session == 1
    assert {c.session for c in read.calls if c.function.name == "OrtNodeComputeInfo.Compute"} == {1}
    asked = [c for c in read.calls if c.function.name == "OrtApi.Graph_GetNodes"]
    assert asked
    assert all(call.session == 1 for call in asked)


def test_memory_streams_and_transfers_of_a_device_are_seen(
    host: str,
    traced: Callable[..., traces.TraceFile],
    device_library: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DEVICE_PLUGIN", "streams")
    read = traced(host, device_library, "plugin_under_test", [CASE])
    structs = {call.function.name.partition(".")[0] for call in read.calls}
    assert {"OrtAllocator", "OrtDataTransferImpl", "OrtSyncStreamImpl"} <= structs
    made = sum(call.function.name == "OrtEpFactory.CreateAllocator" for call in read.calls)
    assert made == sum(call.function.name == "OrtEpFactory.ReleaseAllocator" for call in read.calls)


def test_graphs_and_options_are_written_out_on_request(
    host: str, traced: Callable[..., traces.TraceFile], plugin_library: Callable[[str], Path]
) -> None:
    case = Case(CASE.model, CASE.feeds, provider_options={"flavour": "blue"})
    chosen = layers.Trace(only=["OrtEp.*"], graphs=True)
    read = traced(host, plugin_library("sample_compiler"), "sample_compiler", [case], chosen)
    assert {call.function.name.partition(".")[0] for call in read.calls} == {"OrtEp"}
    text = "\n".join(note.text for note in read.notes)
    assert "Compile: graph" in text
    assert re.search(r"#\d+ \"[^\"]*\" Exp domain=\"\" since=13 ep=\"[^\"]*\" \(x\) -> \(a\)", text)
    assert "flavour: blue" in text


def test_a_full_trace_counts_what_has_no_room(
    traced: Callable[..., traces.TraceFile], plugin_library: Callable[[str], Path]
) -> None:
    chosen = layers.Trace(megabytes=1)
    many = Case(CASE.model, CASE.feeds * 300)
    read = traced("ephost", plugin_library("sample_kernels"), "sample_kernels", [many], chosen)
    assert read.dropped > 0
    assert os.path.getsize(read.path) <= 1 << 20
    assert "had no room" in "".join(part for part in traces.summary(read) if isinstance(part, str))


KILLED = """
import os, signal, sys, threading, time
import numpy as np, ephost
ephost.register_execution_provider_library("slow", sys.argv[1], layers=["trace=" + sys.argv[2]])
(device,) = [d for d in ephost.get_ep_devices() if d.ep_name == "sample_compiler"]
options = ephost.SessionOptions()
options.add_provider_for_devices([device], {})
session = ephost.InferenceSession(sys.argv[3], options)
session.run(None, {"x": np.ones((3, 4), np.float32)})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_trace_outlives_a_process_that_is_killed(
    plugin_library: Callable[[str], Path], tmp_path: Path
) -> None:
    file, saved = tmp_path / "killed.trace", tmp_path / "model.onnx"
    saved.write_bytes(CASE.model.SerializeToString())
    arguments = [str(plugin_library("sample_compiler")), str(file), str(saved)]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments],
        env={**os.environ, "PYTHONPATH": python_path()},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    read = traces.TraceFile(file)
    assert [c.function.name for c in read.calls if c.function.name.endswith(".Compute")] == [
        "OrtNodeComputeInfo.Compute"
    ]
    assert "ReleaseEpFactory" not in {call.function.name for call in read.calls}


CRASHED = """
import sys, ephost
ephost.register_execution_provider_library("bad", sys.argv[1], layers=["trace=" + sys.argv[2]])
"""


@pytest.mark.in_process("it is the worker that ends")
def test_the_call_in_which_a_process_crashes_is_named(tmp_path: Path) -> None:
    library = build_plugin(ROOT / "tests" / "plugins" / "crashing_plugin", tmp_path)
    file = tmp_path / "crash.trace"
    done = subprocess.run(
        [sys.executable, "-c", CRASHED, str(library), str(file)],
        env={**os.environ, "PYTHONPATH": python_path()},
        check=False,
    )
    assert done.returncode == -signal.SIGABRT
    read = traces.TraceFile(file)
    assert [call.function.name for call in read.unfinished] == ["CreateEpFactories"]
    shown = CliRunner().invoke(main, ["trace", str(file)])
    assert shown.exit_code == 0, shown.output
    assert "Calls that did not return" in shown.output
    assert "the last words" in CliRunner().invoke(main, ["trace", str(file), "--calls"]).output


def test_a_constant_struct_stays_as_it_is(tmp_path: Path) -> None:
    library = build_plugin(ROOT / "tests" / "plugins" / "constant_plugin", tmp_path)
    file = tmp_path / "constant.trace"
    ephost.register_execution_provider_library("constant", library, layers=[layers.Trace(file)])
    ephost.unregister_execution_provider_library("constant")
    (note,) = traces.TraceFile(file).notes
    assert note.text.startswith("constant: OrtEpFactory 0x")


def test_the_same_conversation_twice_is_no_difference(
    plugin_library: Callable[[str], Path], tmp_path: Path
) -> None:
    library = str(plugin_library("sample_compiler"))
    for name in ("one", "other"):
        file = tmp_path / f"{name}.trace"
        ephost.register_execution_provider_library("twice", library, layers=[f"trace={file}"])
        ephost.unregister_execution_provider_library("twice")
    files = [str(tmp_path / "one.trace"), str(tmp_path / "other.trace")]
    same = CliRunner().invoke(main, ["trace", "diff", *files])
    assert same.exit_code == 0, same.output
    third = tmp_path / "third.trace"
    ephost.register_execution_provider_library("another", library, layers=[layers.Trace(third)])
    ephost.unregister_execution_provider_library("another")
    parts = CliRunner().invoke(main, ["trace", "diff", files[0], str(third)])
    assert parts.exit_code == 1
    assert 'registered_name="another"' in parts.output


def test_what_one_host_asks_more_is_all_that_parts_two_conversations(tmp_path: Path) -> None:
    said = {
        "one": ["*out=0x10", "this_ptr=0x20 node=0x30", "node=0x31 out=0x50", "info=0x60 max_factories=4"],
        "other": [
            "*out=0x11",
            "out=0x99",
            "this_ptr=0x21 node=0x32",
            "node=0x33 out=0x51",
            "info=0x61 max_factories=16",
        ],
    }
    functions = {"one": "ACEG", "other": "ABCEG"}
    traces_of = {
        name: SimpleNamespace(
            path=name,
            calls=[
                SimpleNamespace(function=SimpleNamespace(name=f"Api.{letter}"), depth=0, thread=1, text=text)
                for letter, text in zip(functions[name], texts, strict=True)
            ],
        )
        for name, texts in said.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traces, "call_line", lambda call: f"{call.function.name}({call.text})")
        counted, shown, _ = traces.difference(traces_of["one"], traces_of["other"])  # type: ignore[arg-type]
    assert counted == "the first 1 calls are the same"
    assert [line for line in str(shown).splitlines()[3:] if line[0] in "+-"] == ["+Api.B(out=#B1)"]


def test_a_wrapped_library_is_registered_again(plugin_library: Callable[[str], Path], tmp_path: Path) -> None:
    wrapped, file = tmp_path / "libagain.so", tmp_path / "again.trace"
    layers.wrap(plugin_library("sample_kernels"), wrapped, [layers.Trace(file)])
    counts = []
    for _ in range(2):
        ephost.register_execution_provider_library("again", wrapped)
        ephost.unregister_execution_provider_library("again")
        counts.append(len(traces.TraceFile(file).calls))
        assert os.path.getsize(file) < 1 << 20
        file.unlink()
    assert counts[0] == counts[1] > 0


def test_the_path_of_a_device_is_the_plugins_own(
    plugin_library: Callable[[str], Path], tmp_path: Path
) -> None:
    library = str(plugin_library("sample_kernels"))
    ephost.register_execution_provider_library("own", library, layers=[f"trace={tmp_path / 'own.trace'}"])
    try:
        (device,) = [d for d in ephost.get_ep_devices() if d.registration_name == "own"]
        assert device.ep_metadata["library_path"] == library
    finally:
        ephost.unregister_execution_provider_library("own")


def test_layers_come_from_the_environment(
    plugin_library: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "environment.trace"
    monkeypatch.setenv("EPHOST_LAYERS", f"trace={file}")
    ephost.register_execution_provider_library("environment", str(plugin_library("sample_kernels")))
    ephost.unregister_execution_provider_library("environment")
    assert traces.TraceFile(file).calls


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (["trce"], "there is no layer 'trce' (did you mean 'trace'?); there is: trace, validate"),
        (["trace="], "the layer 'trace=' names no file"),
        (["trace", "trace"], "asked for more than once"),
        (["validate", "validate=raise"], "asked for more than once"),
        (["validate="], "the layer 'validate=' names no file"),
        ("trace", "a list"),
        ([layers.Trace(only=["a,b"])], "has no comma"),
        ([layers.Trace(megabytes=0)], "not 0"),
    ],
)
def test_wrong_layers_are_named(wanted: object, said: str, plugin_library: Callable[[str], Path]) -> None:
    with pytest.raises(ephost.capi.onnxruntime_pybind11_state.InvalidArgument, match=re.escape(said)):
        ephost.register_execution_provider_library(
            "wrong", str(plugin_library("sample_kernels")), layers=wanted
        )
    assert "wrong" not in {device.registration_name for device in ephost.get_ep_devices()}


def test_a_plugin_that_is_missing_or_wrong_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.so"
    with pytest.raises(Exception, match=re.escape(str(missing))):
        ephost.register_execution_provider_library("missing", missing, layers=["trace"])
    result = CliRunner().invoke(main, ["layer", "wrap", str(missing), "-o", str(tmp_path / "x.so")])
    assert result.exit_code == 1
    assert str(missing) in result.output
    nothing = tmp_path / "libnothing.so"
    (tmp_path / "nothing.c").write_text("int nothing;\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(tmp_path / "nothing.c"), "-o", str(nothing)], check=True)
    with pytest.raises(Exception, match="has no symbol CreateEpFactories"):
        ephost.register_execution_provider_library(
            "nothing", nothing, layers=[f"trace={tmp_path / 'nothing.trace'}"]
        )


def test_a_layer_is_never_written_over_the_plugin(
    plugin_library: Callable[[str], Path], tmp_path: Path
) -> None:
    library, link = tmp_path / "libown.so", tmp_path / "liblink.so"
    library.write_bytes(plugin_library("sample_kernels").read_bytes())
    link.symlink_to(library)
    before = library.read_bytes()
    wrapped = tmp_path / "libwrapped.so"
    for words in (
        [library, "-o", library],
        [library, "-o", link],
        [link, "-o", library],
        [library, "-o", wrapped, "--trace", link],
        [library, "-o", wrapped, "--trace", wrapped],
        [library, "-o", wrapped, "--validate", "--findings", f"{wrapped}.layer"],
    ):
        done = CliRunner().invoke(main, ["layer", "wrap", *map(str, words)])
        assert done.exit_code == 1 and "would be written over" in done.output
        assert library.read_bytes() == before and link.is_symlink() and not wrapped.exists()
    with pytest.raises(Exception, match="trace would be written over the plugin"):
        ephost.register_execution_provider_library("own", library, layers=[f"trace={link}"])
    assert library.read_bytes() == before


def test_each_of_several_libraries_has_a_trace_of_its_own(
    plugin_library: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"one": "sample_kernels", "a/b": "sample_compiler", "a_b": "sample_compiler"}
    try:
        for name, plugin in names.items():
            path = plugin_library(plugin)
            ephost.register_execution_provider_library(name, path, layers=["trace=all.trace"])
    finally:
        for name in list(ephost.environment.registrations()):
            ephost.unregister_execution_provider_library(name)
    for file in ("all.trace", "all-a_b.trace", "all-a_b-a_b.trace"):
        made = [call.function.name for call in traces.TraceFile(tmp_path / file).calls]
        assert made[0] == "CreateEpFactories" and made.count("OrtEpFactory.GetSupportedDevices") == 1
    assert f"the trace of 'a/b' goes to {tmp_path / 'all-a_b.trace'}" in caplog.text
    # One that is registered alone has the file that was named, and "/" is no part of a file's name.
    for asked, files in (("trace=all.trace", "all.trace"), ("trace", "ephost-a_b-*.trace")):
        ephost.register_execution_provider_library("a/b", plugin_library("sample_kernels"), layers=[asked])
        ephost.unregister_execution_provider_library("a/b")
        (file,) = tmp_path.glob(files)
        assert traces.TraceFile(file).calls


def test_what_a_trace_is_told_as(plugin_library: Callable[[str], Path], tmp_path: Path) -> None:
    library, file = str(plugin_library("sample_kernels")), tmp_path / "told.trace"
    wrapped = tmp_path / "libtold.so"
    made = CliRunner().invoke(main, ["layer", "wrap", library, "-o", str(wrapped), "--trace", str(file)])
    assert made.exit_code == 0, made.output
    ephost.register_execution_provider_library("told", wrapped)
    ephost.unregister_execution_provider_library("told")
    told = json.loads(CliRunner().invoke(main, ["trace", str(file), "--json"]).output)
    assert told["version"] == 1
    assert told["calls"][0]["function"] == "CreateEpFactories"
    assert told["calls"][1]["parent"] == 0
    timeline = tmp_path / "timeline.json"
    assert CliRunner().invoke(main, ["trace", str(file), "--chrome", str(timeline)]).exit_code == 0
    events = json.loads(timeline.read_text())["traceEvents"]
    assert len(events) == len(told["calls"])
    assert {event["cat"] for event in events} == {"host", "plugin"}
    page = tmp_path / "page.html"
    assert CliRunner().invoke(main, ["trace", str(file), "--html", str(page)]).exit_code == 0
    assert "OrtEpFactory.GetSupportedDevices" in page.read_text()


def test_no_trace_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"something else, and long enough for a header of sixty-four bytes in all")
    for path, said in ((other, "is no trace"), (tmp_path / "none", "does not exist")):
        result = CliRunner().invoke(main, ["trace", str(path)])
        assert result.exit_code == 1
        assert said in result.output
    cut = tmp_path / "cut"
    cut.write_bytes(b"EPHTRACE")
    assert "is no trace" in CliRunner().invoke(main, ["trace", str(cut)]).output


@pytest.mark.parametrize("way", ["argument", "environment"])
def test_an_isolated_library_has_its_layer_in_its_process(
    plugin_library: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    library, file = str(plugin_library("sample_kernels")), tmp_path / "isolated.trace"
    layer = f"trace={file}"
    if way == "environment":
        monkeypatch.setenv("EPHOST_LAYERS", layer)
    asked = [layer] if way == "argument" else None
    ephost.register_execution_provider_library("both", library, isolated=True, layers=asked)
    ephost.unregister_execution_provider_library("both")
    read = traces.TraceFile(file)
    assert read.calls
    assert read.process != os.getpid()


def test_kernels_for_control_flow_stay_the_hosts(trace_library: Path, tmp_path: Path, host: str) -> None:
    (tmp_path / host).mkdir()
    wrapped = tmp_path / "libcontrol.so"
    layers.wrap(trace_library, wrapped, [layers.Trace(tmp_path / "control.trace")])
    branch = helper.make_graph(
        [node("Add", "x x", "inner", name="then")],
        "branch",
        [],
        [helper.make_tensor_value_info("inner", onnx.TensorProto.FLOAT, [2])],
    )
    made = helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], name="if", then_branch=branch, else_branch=branch)],
        "g",
        [
            helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2]),
        ],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])],
    )
    saved = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"c": np.array(True), "x": np.array([1, 2], np.float32)}
    case = Case(saved, [feeds])
    (outcome,), _ = Runner(host, wrapped, "trace", tmp_path / host).run([case], {"TRACE_PLUGIN": "control"})
    assert outcome.error is None, outcome.message
    np.testing.assert_array_equal(outcome.outputs[0]["y"], [2, 4])
    names = [c.function.name for c in traces.TraceFile(tmp_path / "control.trace").calls]
    assert "OrtEpApi.CreateIfKernel" in names
