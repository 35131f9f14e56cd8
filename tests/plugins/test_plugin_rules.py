"""The layer `validate`: each rule is broken by a plugin, and no good plugin breaks one."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from ephost import layers
from ephost._bindings import lib
from ephost.cli import main
from ephost.layers import trace as traces
from plugin_harness import ROOT, build_plugin, python_path
from plugin_models import model, node

pytestmark = pytest.mark.skipif(not layers._LIBRARY.exists(), reason="this build has no layers")
SOURCE = ROOT / "tests" / "plugins" / "rule_breaker" / "rule_breaker.c"
MODES = dict(re.findall(r'MODE\((\w+), "(EPV-[A-Z]+-\d+)"\)', SOURCE.read_text()))
ENDS_THE_PROCESS = ("called_after_release",)
WITH_IT = {"too_many_devices": {"EPV-OWN-005"}, "ep_of_other_name": {"EPV-CTX-003"}}  # what follows from it
X = np.arange(12, dtype=np.float32).reshape(3, 4)
EP = "rule_breaker"


def around() -> onnx.ModelProto:
    """Two Adds with a Neg between them, which the first needs and the second reads."""
    nodes = [node("Add", "x x", "a"), node("Neg", "a", "n"), node("Add", "n a", "y")]
    return model(nodes, {"x": [3, 4]}, ["y"])


def compiled_by_another() -> onnx.ModelProto:
    """An EPContext node of another EP's."""
    made = onnx.helper.make_node(
        "EPContext", ["x"], ["y"], name="compiled", domain="com.microsoft", source="another", embed_mode=1
    )
    both = model([made], {"x": [3, 4]}, ["y"], infer=False)
    both.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return both


@pytest.fixture(scope="session")
def breaker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/plugins/rule_breaker."""
    return build_plugin(SOURCE.parent, tmp_path_factory.mktemp("rule_breaker"), "-pthread")


def run(library: Path, layer: layers.Validate | None, made: onnx.ModelProto) -> list[str]:
    """Two runs of a model on a plugin, as far as they go; gives the errors."""
    errors = []
    try:
        ephost.register_execution_provider_library("under_test", library, layers=[layer] if layer else [])
    except Exception as error:
        return [str(error)]
    try:
        options = ephost.SessionOptions()
        options.graph_optimization_level = ephost.GraphOptimizationLevel.ORT_DISABLE_ALL
        devices = [d for d in ephost.get_ep_devices() if d.registration_name == "under_test"]
        options.add_provider_for_devices(devices[:1], {})
        session = ephost.InferenceSession(made.SerializeToString(), options, enable_fallback=False)
        for _ in range(2):
            try:
                session.run(None, {"x": X.copy()})
            except Exception as error:
                errors.append(str(error))
        del session
    except Exception as error:
        errors.append(str(error))
    finally:
        ephost.unregister_execution_provider_library("under_test")
    return errors


@pytest.fixture
def broken(
    breaker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[layers.Finding]]:
    """Runs the plugin in a mode; gives the findings."""

    def find(mode: str, raises: bool = False) -> list[layers.Finding]:
        monkeypatch.setenv("RULE_BREAKER", mode)
        file = tmp_path / f"{mode}.jsonl"
        made = compiled_by_another() if mode == "claims_of_another_ep" else around()
        validate = layers.Validate(file, raises=raises, reads="reads_" in mode)
        find.errors = run(breaker, validate, made)  # type: ignore[attr-defined]
        return layers.read_findings(file)

    return find


def test_every_rule_is_broken_by_a_test() -> None:
    elsewhere = {"EPV-PHASE-004", "EPV-OWN-008"}  # an exception, and a library that stays
    assert set(MODES.values()) | elsewhere == set(layers.RULES)


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in ENDS_THE_PROCESS])
def test_a_broken_rule_is_found(mode: str, broken: Callable[..., list[layers.Finding]]) -> None:
    found = broken(mode)
    assert {each.rule for each in found} == {MODES[mode]} | WITH_IT.get(mode, set()), found
    for each in found:
        assert each.about is not None
        assert each.severity == each.about.severity
        assert each.message


@pytest.mark.in_process("the process that is named is the worker")
def test_a_finding_tells_where_and_what_became_of_the_handle(
    broken: Callable[..., list[layers.Finding]],
) -> None:
    first, *_ = broken("status_twice")
    assert first.message.startswith("OrtApi.ReleaseStatus releases the OrtStatus 0x")
    assert first.function == "OrtApi.ReleaseStatus"
    assert first.during == "OrtNodeComputeInfo.Compute"
    assert (first.session, first.ep, first.process) == (1, EP, os.getpid())
    assert first.thread == threading.get_native_id()
    assert first.handle is not None
    assert first.handle.type == "OrtStatus"
    made, released = first.handle.history
    assert (made.event, made.function) == ("made", "OrtApi.CreateStatus")
    assert (released.event, released.function) == ("released", "OrtApi.ReleaseStatus")
    assert made.at_ns <= released.at_ns <= first.at_ns
    assert released.during == "OrtNodeComputeInfo.Compute"


def test_findings_are_in_the_log(
    broken: Callable[..., list[layers.Finding]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        broken("writes_behind")
    (line,) = {record.message for record in caplog.records if "EPV-" in record.message}
    assert "EPV-BOUND-001: byte 1 behind output 0, which has 48 bytes, is written" in line


RAISED_BY = {  # what ends with the finding; "" where nothing can: the functions return no status
    "status_twice": "EPV-OWN-001",
    "info_after_release": "EPV-OWN-002",
    "keeps_context": "EPV-PHASE-001",
    "writes_behind": "EPV-BOUND-001",
    "asks_for_no_output": "EPV-OUT-001",
    "claims_null": "EPV-CLAIM-001",
    "no_compute_info": "EPV-ANS-002",
}


@pytest.mark.parametrize("mode", RAISED_BY)
def test_a_finding_is_raised_on_request(mode: str, broken: Callable[..., list[layers.Finding]]) -> None:
    assert broken(mode, raises=True)
    assert any(RAISED_BY[mode] in error for error in broken.errors)  # type: ignore[attr-defined]


def test_without_bounds_outputs_are_the_hosts_own(
    breaker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULE_BREAKER", "writes_nothing")
    file = tmp_path / "off.jsonl"
    run(breaker, layers.Validate(file, bounds=False), around())
    assert layers.read_findings(file) == []


def test_what_is_read_behind_an_input_is_told_where(broken: Callable[..., list[layers.Finding]]) -> None:
    found = broken("reads_behind")
    assert not broken.errors  # type: ignore[attr-defined]
    # Each Add reads the 17th float behind its second number; that of the first Add is its only input.
    assert [each.message for each in found] == [
        f"byte 65 behind input {index}, which has 48 bytes, is read or written" for index in (0, 1, 0, 1)
    ]


def test_faults_that_are_none_of_the_guards_end_the_process_as_before() -> None:
    program = """
import ctypes, faulthandler, sys
import ephost, numpy as np
from ephost import layers
from ephost.plugins import sample_kernels
faulthandler.enable()
ephost.register_execution_provider_library(
    "k", sample_kernels.get_library_path(), layers=[layers.Validate(reads=True)])
options = ephost.SessionOptions()
options.add_provider_for_devices([d for d in ephost.get_ep_devices() if d.registration_name == "k"], {})
session = ephost.InferenceSession(sys.argv[1], options)
print(session.run(None, {"x": np.ones((3, 4), np.float32)})[0].sum(), flush=True)
ctypes.string_at(8)
"""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(around().SerializeToString())
        done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True)
    assert done.returncode == -signal.SIGSEGV
    assert done.stdout.strip() == "0.0"
    assert "Fatal Python error: Segmentation fault" in done.stderr


def test_many_of_one_kind_are_told_a_few_times(
    breaker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULE_BREAKER", "null_handle")
    file = tmp_path / "many.jsonl"
    for _ in range(2):
        run(breaker, layers.Validate(file), around())  # four times each
    assert len(layers.read_findings(file)) == 8
    chain = [node("Add", f"{'x' if i == 0 else f'a{i}'} x", f"a{i + 1}") for i in range(12)]
    file.unlink()
    run(breaker, layers.Validate(file), model(chain, {"x": [3, 4]}, ["a12"]))
    found = layers.read_findings(file)
    assert len(found) == 10
    assert found[-1].message.endswith("(more of these are not told)")


@pytest.mark.in_process("it is the worker that ends")
def test_a_struct_that_is_called_after_its_release_ends_the_process(breaker: Path, tmp_path: Path) -> None:
    file, wrapped = tmp_path / "end.jsonl", tmp_path / "libend.so"
    layers.wrap(breaker, wrapped, [layers.Validate(file)])
    code = f"import ephost as e; e.register_execution_provider_library('x', {str(wrapped)!r}); "
    done = subprocess.run(
        [sys.executable, "-c", code + "e.unregister_execution_provider_library('x')"],
        env={**os.environ, "PYTHONPATH": python_path(), "RULE_BREAKER": "called_after_release"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGABRT
    (found,) = layers.read_findings(file)
    assert found.rule == "EPV-OWN-007"
    assert b"OrtEpFactory.GetName is called on" in done.stderr


IN_HOST = """
import json, os, sys
import numpy as np, importlib
host = importlib.import_module(sys.argv[1])
host.set_default_logger_severity(4)
for name, library, made in json.loads(sys.stdin.read()):
    os.environ["RULE_BREAKER"] = name
    try:
        host.register_execution_provider_library(name, library)
    except Exception:
        continue
    try:
        options = host.SessionOptions()
        options.graph_optimization_level = host.GraphOptimizationLevel.ORT_DISABLE_ALL
        devices = [d for d in host.get_ep_devices() if d.ep_name == "rule_breaker"]
        options.add_provider_for_devices(devices[:1], {})
        session = host.InferenceSession(made, options, enable_fallback=False)
        for _ in range(2):
            try:
                session.run(None, {"x": np.arange(12, dtype=np.float32).reshape(3, 4)})
            except Exception:
                pass
        del session
    except Exception:
        pass
    host.unregister_execution_provider_library(name)
"""
# What onnxruntime does not survive in spite of the layer, or never gets to.
NOT_IN_ONNXRUNTIME = {
    *ENDS_THE_PROCESS,
    "claims_null",  # it reads the NULL
    "device_twice",  # it releases both
    "factory_without_create_ep",  # it calls members without a look
    "info_without_compute",
    "keeps_graph",  # which is gone, and is asked all the same
    "leaves_statuses",  # it does not refuse an index, so there are none
    "null_refused",
    "too_many_devices",
}


def test_the_rules_hold_in_onnxruntime(breaker: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    paths = {"": tmp_path / "around.onnx", "claims_of_another_ep": tmp_path / "context.onnx"}
    onnx.save(around(), paths[""])
    onnx.save(compiled_by_another(), paths["claims_of_another_ep"])
    wanted = []
    for mode in MODES:
        if mode in NOT_IN_ONNXRUNTIME:
            continue
        library = tmp_path / f"lib{mode}.so"
        validate = layers.Validate(tmp_path / f"{mode}.jsonl", reads="reads_" in mode)
        layers.wrap(breaker, library, [validate])
        wanted.append((mode, str(library), str(paths.get(mode, paths[""]))))
    done = subprocess.run(
        [sys.executable, "-c", IN_HOST, "onnxruntime"],
        input=json.dumps(wanted),
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = {
        mode: {each.rule for each in layers.read_findings(tmp_path / f"{mode}.jsonl")} for mode, *_ in wanted
    }
    expected = {mode: {MODES[mode]} | WITH_IT.get(mode, set()) for mode, *_ in wanted}
    assert found == expected


@pytest.mark.in_process("the library is kept in this process")
def test_what_a_plugin_keeps_that_stays_is_no_error(
    breaker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULE_BREAKER", "leaves_info")
    library, file = tmp_path / "libstays.so", tmp_path / "stays.jsonl"
    shutil.copyfile(breaker, library)
    ctypes.CDLL(str(library))  # never closed
    run(library, layers.Validate(file), around())
    (found,) = layers.read_findings(file)
    assert (found.rule, found.severity) == ("EPV-OWN-008", "info")
    assert found.message.startswith("4 OrtMemoryInfo made by OrtApi.CreateCpuMemoryInfo")


def test_both_layers_at_once(breaker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULE_BREAKER", "writes_behind")
    trace, file = tmp_path / "both.trace", tmp_path / "both.jsonl"
    wrapped = tmp_path / "libboth.so"
    arguments = ["layer", "wrap", str(breaker), "-o", str(wrapped), "--trace", str(trace), "--validate"]
    made = CliRunner().invoke(main, [*arguments, "--findings", str(file)])
    assert made.exit_code == 0, made.output
    run(wrapped, None, around())
    assert {each.rule for each in layers.read_findings(file)} == {"EPV-BOUND-001"}
    names = {call.function.name for call in traces.TraceFile(trace).calls}
    assert "OrtApi.KernelContext_GetOutput" in names
    shown = CliRunner().invoke(main, ["layer", "findings", str(file)])
    assert shown.exit_code == 1
    assert "EPV-BOUND-001" in shown.output


def test_what_is_said_of_findings_alone_is_refused(breaker: Path, tmp_path: Path) -> None:
    arguments = ["layer", "wrap", str(breaker), "-o", str(tmp_path / "x.so")]
    assert CliRunner().invoke(main, [*arguments, "--raise"]).exit_code == 2
    assert CliRunner().invoke(main, [*arguments, "--validate", "--graphs"]).exit_code == 2


def test_the_page_has_every_rule() -> None:
    page = (ROOT / "docs" / "rules.md").read_text()
    done = subprocess.run([sys.executable, "tools/rules.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, "run python tools/rules.py"
    groups = {name.rpartition("-")[0] for name in layers.RULES}
    assert groups <= set(re.findall(r"EPV-[A-Z]+(?=[,)])", page))
    listed = CliRunner().invoke(main, ["layer", "rules", "--json"])
    assert [rule["name"] for rule in json.loads(listed.output)] == list(layers.RULES)
    assert "EPV-OWN-001" in CliRunner().invoke(main, ["layer", "rules"]).output


@pytest.mark.skipif(not lib.ephost_catches_exceptions(), reason="the C half was built without a C++ compiler")
def test_an_exception_that_leaves_a_function_is_found(
    breaker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = build_plugin(ROOT / "tests" / "plugins" / "throwing_plugin", tmp_path)
    file = tmp_path / "thrown.jsonl"
    for name, value in (
        ("THROW_AROUND", str(breaker)),
        ("THROW_AT", "OrtNodeComputeInfo::Compute"),
        ("RULE_BREAKER", ""),
    ):
        monkeypatch.setenv(name, value)
    errors = run(library, layers.Validate(file), around())
    assert all("no more cheese" in error for error in errors), errors
    found = layers.read_findings(file)
    assert {each.rule for each in found} == {"EPV-PHASE-004"}
    assert {each.function for each in found} == {"OrtNodeComputeInfo.Compute"}


def test_a_value_that_is_lent_again_for_a_copy_may_be_used(device_library: Path, tmp_path: Path) -> None:
    """Of each run, the input's copy on the device may lie where the one of the run before did."""
    nodes = [node("Add", "x x", "a"), node("Mul", "a a", "y")]
    made = model(nodes, {"x": X.shape}, ["y"])
    file = tmp_path / "copied.jsonl"
    assert run(device_library, layers.Validate(file), made) == []
    assert layers.read_findings(file) == []


def test_a_file_that_is_none_of_the_layers_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text("{}\n")
    with pytest.raises(ephost.capi.onnxruntime_pybind11_state.InvalidArgument, match="is no finding"):
        layers.read_findings(file)
    with pytest.raises(ephost.capi.onnxruntime_pybind11_state.NoSuchFile, match=r"none\.jsonl"):
        layers.read_findings(tmp_path / "none.jsonl")


@pytest.mark.parametrize("name", ["sample_compiler", "sample_kernels", "cpu"])
def test_a_good_plugin_breaks_no_rule(
    name: str, plugin_library: Callable[[str], Path], tmp_path: Path
) -> None:
    file = tmp_path / "good.jsonl"
    assert run(plugin_library(name), layers.Validate(file, reads=True), around()) == []
    assert layers.read_findings(file) == []


def test_without_a_mode_no_rule_is_broken(broken: Callable[..., list[layers.Finding]]) -> None:
    assert broken("") == []
    assert broken.errors == []  # type: ignore[attr-defined]


def run_in_threads(made: onnx.ModelProto) -> None:
    """Two sessions of the library "threads", each in several threads."""
    devices = [d for d in ephost.get_ep_devices() if d.registration_name == "threads"]
    sessions = []
    for _ in range(2):
        options = ephost.SessionOptions()
        options.add_provider_for_devices(devices[:1], {})
        sessions.append(ephost.InferenceSession(made.SerializeToString(), options, enable_fallback=False))
    with ThreadPoolExecutor(4) as pool:
        results = pool.map(lambda at: sessions[at % 2].run(None, {"x": X + at})[0], range(200))
        for at, result in enumerate(results):
            np.testing.assert_array_equal(result, 3 * (X + at))


@pytest.mark.parametrize("name", ["sample_compiler", "sample_kernels"])
def test_threads_that_run_at_once_break_no_rule(
    name: str, plugin_library: Callable[[str], Path], tmp_path: Path
) -> None:
    file = tmp_path / "threads.jsonl"
    made = model([node("Add", "x x", "a"), node("Add", "a x", "y")], {"x": [3, 4]}, ["y"])
    ephost.register_execution_provider_library(
        "threads", plugin_library(name), layers=[layers.Validate(file, reads=True)]
    )
    try:
        run_in_threads(made)
    finally:
        ephost.unregister_execution_provider_library("threads")
    assert layers.read_findings(file) == []
