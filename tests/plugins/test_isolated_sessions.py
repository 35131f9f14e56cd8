"""Sessions on isolated plugins do what they do on the same plugin in this process."""

from __future__ import annotations

import gc
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from ephost import environment
from ephost.errors import InvalidArgument
from ephost.explanation import explain
from ephost.isolation import profiler
from ephost.layers.trace import TraceFile
from ephost.plugins import cpu, sample_compiler, sample_kernels
from plugin_harness import ROOT
from plugin_models import model, node

NAMES = ("here", "apart", "other")
RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def _unregistered() -> Iterator[None]:
    yield
    gc.collect()
    for name in NAMES:
        if name in environment.registrations():
            ephost.unregister_execution_provider_library(name)


def open_session(name: str, made: onnx.ModelProto, **entries: str) -> ephost.InferenceSession:
    options = ephost.SessionOptions()
    for key, value in entries.items():
        options.add_session_config_entry(key.replace("__", "."), value)
    options.add_provider_for_devices([d for d in ephost.get_ep_devices() if d.registration_name == name], {})
    return ephost.InferenceSession(made.SerializeToString(), options, enable_fallback=0)


def both(
    library: str | Path, made: onnx.ModelProto
) -> tuple[ephost.InferenceSession, ephost.InferenceSession]:
    """The model on the plugin in this process, and in a worker."""
    ephost.register_execution_provider_library("here", library, isolated=False)
    ephost.register_execution_provider_library("apart", library, isolated=True)
    return open_session("here", made), open_session("apart", made)


def claimed(session: ephost.InferenceSession) -> list[list[str]]:
    """The operators that the plugin has, by group."""
    assignment = session._resources.assignments[0]
    groups = [sorted(n.op_type for n in group.nodes) for group in assignment.groups]
    return [*groups, *[[kernel.node.op_type] for kernel in assignment.kernels]]


def _all(groups: list[list[str]]) -> list[str]:
    return sorted(op_type for group in groups for op_type in group)


def check_equal(here: ephost.InferenceSession, apart: ephost.InferenceSession, feed: dict) -> None:
    for expected, found in zip(here.run(None, feed), apart.run(None, feed), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def chain(dims: list[int | str]) -> onnx.ModelProto:
    """Operators that the samples know, around one (Erf) that they leave to others."""
    nodes = [
        node("Mul", "x c", "a"),
        node("Add", "a x", "b"),
        node("Erf", "b", "e"),
        node("Relu", "e", "f"),
        node("Add", "f b", "y"),
    ]
    return model(nodes, {"x": dims}, ["y", "b"], {"c": np.float32([2, 3, 4])})


@pytest.mark.parametrize("library", [sample_compiler, sample_kernels], ids=lambda m: m.__name__)
@pytest.mark.parametrize("dims", [[4, 3], ["n", 3]], ids=["static", "open"])
def test_results_and_claims_are_the_same(library: object, dims: list[int | str]) -> None:
    here, apart = both(library.get_library_path(), chain(dims))  # type: ignore[attr-defined]
    assert _all(claimed(here)) == _all(claimed(apart)) != []
    for rows in (4, 4, 4) if dims[0] == 4 else (1, 7, 0, 300, 2):
        check_equal(here, apart, {"x": RNG.standard_normal((rows, 3)).astype(np.float32)})


def test_single_nodes_run_whole_in_as_few_groups_as_can_be() -> None:
    _, apart = both(sample_kernels.get_library_path(), chain([4, 3]))
    assert claimed(apart) == [["Add", "Mul"], ["Add", "Relu"]]


def test_a_device_of_the_plugins_own_is_used_in_the_worker(device_library: Path) -> None:
    made = model([node("Mul", "x x2", "a"), node("Add", "a x2", "y")], {"x": [5, 2], "x2": [5, 2]}, ["y"])
    here, apart = both(device_library, made)
    assert claimed(apart) == [["Add", "Mul"]]
    feed = {name: RNG.standard_normal((5, 2)).astype(np.float32) for name in ("x", "x2")}
    check_equal(here, apart, feed)
    devices = [d for d in ephost.get_ep_devices() if d.registration_name == "apart"]
    infos = [d.memory_info(ephost.OrtDeviceMemoryType.DEFAULT) for d in devices]
    assert [info and info.name for info in infos] == ["make_believe"]


def test_large_weights_and_values_arrive_whole() -> None:
    weights = RNG.standard_normal((512, 600)).astype(np.float32)
    made = model([node("Add", "x c", "a"), node("Mul", "a a", "y")], {"x": [512, 600]}, ["y"], {"c": weights})
    here, apart = both(sample_compiler.get_library_path(), made)
    check_equal(here, apart, {"x": RNG.standard_normal((512, 600)).astype(np.float32)})


def test_outputs_lie_in_shared_memory_and_outlive_the_session() -> None:
    made = model([node("Add", "x x2", "y")], {"x": [64, 1024], "x2": [64, 1024]}, ["y"])
    ephost.register_execution_provider_library("apart", sample_compiler.get_library_path(), isolated=True)
    session = open_session("apart", made)
    x = RNG.standard_normal((64, 1024)).astype(np.float32)
    (result,) = session.run(None, {"x": x, "x2": x})
    with open("/proc/self/maps", encoding="ascii") as maps:
        shared = [
            tuple(int(edge, 16) for edge in line.split()[0].split("-"))
            for line in maps
            if "ephost-tensors" in line
        ]
    assert any(start <= result.ctypes.data < end for start, end in shared)
    session.close()
    del session
    gc.collect()
    ephost.unregister_execution_provider_library("apart")
    np.testing.assert_array_equal(result, x + x)


def test_outputs_may_be_bound_to_memory_of_the_callers() -> None:
    made = model([node("Add", "x x2", "y")], {"x": [3, 4], "x2": [3, 4]}, ["y"])
    _, apart = both(sample_compiler.get_library_path(), made)
    x, out = RNG.standard_normal((3, 4)).astype(np.float32), np.zeros((3, 4), np.float32)
    binding = apart.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_cpu_input("x2", x)
    binding.bind_output("y", "cpu", 0, np.float32, out.shape, out.ctypes.data)
    apart.run_with_iobinding(binding)
    np.testing.assert_array_equal(out, x + x)


def test_why_a_node_was_left_is_told_as_in_one_process() -> None:
    here, apart = both(sample_kernels.get_library_path(), chain([4, 3]))
    expected, found = explain(here), explain(apart)
    assert [e.reasons for e in found.fallback] == [e.reasons for e in expected.fallback] != []
    assert found.fallback[0].reasons[0].reason == "its registry has no kernel for Erf"
    assert found.providers[0].registered_kernels == expected.providers[0].registered_kernels


@pytest.mark.threads
def test_several_threads_run_at_once() -> None:
    here, apart = both(sample_compiler.get_library_path(), chain(["n", 3]))
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(25):
                check_equal(here, apart, {"x": rng.standard_normal((seed + 1, 3)).astype(np.float32)})
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_plugin_gets_what_it_claims_of_bodies(bad: Path) -> None:
    body = onnx.helper.make_graph(
        [node("Add", "x x", "z")],
        "body",
        [],
        [onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [2])],
    )
    made = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node("If", ["c"], ["y"], name="if", then_branch=body, else_branch=body)],
            "g",
            [
                onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2]),
                onnx.helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
            ],
            [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 17)],
        ir_version=8,
    )
    here, apart = both(bad, made)
    assert all(not assignment.refused for assignment in apart._resources.assignments)
    check_equal(here, apart, {"x": np.float32([1, 2]), "c": np.array(True)})


def test_errors_of_the_plugin_stay_what_they_are(bad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = model([node("Add", "x x2", "y")], {"x": [2], "x2": [2]}, ["y"])
    monkeypatch.setenv("EPHOST_BAD", "compute_fails")
    here, apart = both(bad, made)
    said = []
    for session in (here, apart):
        with pytest.raises(ephost.errors.EPFail) as caught:
            session.run(None, {"x": np.zeros(2, np.float32), "x2": np.zeros(2, np.float32)})
        assert type(caught.value) is ephost.errors.EPFail
        said.append(str(caught.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("mode", ["compute_no_output", "compute_two_shapes", "compute_output_range"])
def test_outputs_that_break_a_rule_are_refused_in_the_same_words(
    bad: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    made = model([node("Add", "x x2", "y")], {"x": [2], "x2": [2]}, ["y"])
    monkeypatch.setenv("EPHOST_BAD", mode)
    said = []
    for session in both(bad, made):
        with pytest.raises(ephost.errors.OnnxRuntimeException) as caught:
            session.run(None, {"x": np.zeros(2, np.float32), "x2": np.zeros(2, np.float32)})
        said.append(f"{type(caught.value).__name__}: {caught.value}")
    assert said[0] == said[1]


def test_the_plugin_is_shown_the_options_of_the_run(bad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPHOST_BAD", "run_options_told")
    made = model([node("Add", "x x2", "y")], {"x": [2], "x2": [2]}, ["y"])
    options = ephost.RunOptions()
    options.logid, options.log_severity_level, options.log_verbosity_level = "one of eight", 1, 3
    options.add_run_config_entry("some.entry", "a value that is longer than a word")
    options.add_run_config_entry("another", "")
    said = []
    for session in both(bad, made):
        for given in (None, options):
            with pytest.raises(ephost.errors.EPFail) as caught:
                session.run(None, {"x": np.zeros(2, np.float32), "x2": np.zeros(2, np.float32)}, given)
            said.append(str(caught.value).partition("tag ")[2])
    assert said[1] == (
        "'one of eight', severity 1, verbosity 3, entry 'a value that is longer than a word', stopped 0"
    )
    assert said[2:] == said[:2]


def test_a_run_can_be_stopped_inside_of_a_group() -> None:
    """The bundled CPU plugin looks at the options of its run while it computes."""
    made = onnx.parser.parse_model("""
    <ir_version: 10, opset_import: ["" : 21]>
    g (int64 most, float[n] x) => (float[m] y) {
      y = Loop (most, "", x) <body = b (int64 i, bool c, float[n] s) => (bool more, float[n] next) {
        more = Identity (c)
        next = Relu (s)
      }>
    }
    """)
    ephost.register_execution_provider_library("apart", cpu.get_library_path(), isolated=True)
    session = open_session("apart", made)
    assert claimed(session) == [["Loop"]]
    x = np.ones(4, np.float32)
    options, ends = ephost.RunOptions(), []

    def run() -> None:
        with pytest.raises(ephost.errors.Fail) as caught:
            session.run(None, {"most": np.array(2**62), "x": x}, options)
        ends.append(str(caught.value))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    options.terminate = True
    thread.join(60)
    assert "terminated through its RunOptions" in ends[0]
    options.terminate = False  # and the same options serve again
    np.testing.assert_array_equal(session.run(None, {"most": np.array(3), "x": x}, options)[0], x)


@pytest.mark.parametrize("library", [sample_compiler, sample_kernels], ids=lambda m: m.__name__)
def test_a_profile_has_the_nodes_that_kernels_run(library: object, tmp_path: Path) -> None:
    """A group that the plugin compiled is one step of the host; kernels are many of the worker's."""
    path = library.get_library_path()  # type: ignore[attr-defined]
    ephost.register_execution_provider_library("apart", path, isolated=True)
    options = ephost.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    options.add_provider_for_devices(
        [d for d in ephost.get_ep_devices() if d.registration_name == "apart"], {}
    )
    session = ephost.InferenceSession(chain([4, 3]).SerializeToString(), options, enable_fallback=0)
    for _ in range(2):
        session.run(None, {"x": np.ones((4, 3), np.float32)})
    events = json.loads(Path(session.end_profiling()).read_text())
    (worker,) = {e["pid"] for e in events if e["pid"] != os.getpid()} or {0}
    told = [e for e in events if e["pid"] == worker]
    assert sorted(e["args"]["op_name"] for e in told) == (
        sorted(2 * ["Mul", "Add", "Relu", "Add"]) if library is sample_kernels else []
    )
    around = [e for e in events if e["cat"] == "Session" and e["name"] == "model_run"]
    assert all(any(r["ts"] <= e["ts"] <= r["ts"] + r["dur"] for r in around) for e in told)


def test_a_worker_that_is_slow_to_start_its_profile_has_the_same_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How late the call that starts the profile comes through makes no event earlier or later."""
    start = profiler.Profiler.start

    def late(made: profiler.Profiler) -> None:
        time.sleep(0.5)
        start(made)

    monkeypatch.setattr(profiler.Profiler, "start", late)
    test_a_profile_has_the_nodes_that_kernels_run(sample_kernels, tmp_path)


def test_layers_stand_between_plugin_and_worker(bad: Path, tmp_path: Path) -> None:
    made = model([node("Add", "x x2", "y")], {"x": [2], "x2": [2]}, ["y"])
    feed = {"x": np.float32([1, 2]), "x2": np.float32([3, 4])}
    file = tmp_path / "calls.trace"
    ephost.register_execution_provider_library("apart", bad, isolated=True, layers=[f"trace={file}"])
    first, second = open_session("apart", made), open_session("apart", made)
    for session in (first, second):
        np.testing.assert_array_equal(session.run(None, feed)[0], feed["x"] + feed["x2"])
    first.close()
    second.close()
    ephost.unregister_execution_provider_library("apart")
    found = sorted(tmp_path.glob("*.trace"))
    assert len(found) == 2  # each worker has its own
    assert file in found
    for each in found:
        called = [call.function.name for call in TraceFile(each).calls]
        assert called.count("OrtNodeComputeInfo.Compute") == 1


@pytest.mark.parametrize("extra", [-1, 0, 1], ids=lambda n: f"{n:+}")
def test_large_tensors_are_copied_whole_by_several_threads(extra: int) -> None:
    length = 3 * (1 << 18) + extra  # three MiB, in pieces of a quarter
    made = model([node("Relu", "x", "y")], {"x": [length]}, ["y"])
    ephost.register_execution_provider_library("apart", sample_compiler.get_library_path(), isolated=True)
    options = ephost.SessionOptions()
    options.intra_op_num_threads = 3
    options.add_provider_for_devices(
        [d for d in ephost.get_ep_devices() if d.registration_name == "apart"], {}
    )
    session = ephost.InferenceSession(made.SerializeToString(), options, enable_fallback=0)
    x, y = RNG.standard_normal(length).astype(np.float32), np.zeros(length, np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_ortvalue_output("y", ephost.OrtValue.ortvalue_from_numpy(y))
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], np.maximum(x, 0))
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.maximum(x, 0))


@pytest.mark.parametrize("length", [4095, 4096, 4097, 27653])
@pytest.mark.parametrize("begin", [0, 1], ids=["aligned", "anywhere"])
def test_tensors_that_are_stored_past_the_caches_arrive_whole(length: int, begin: int) -> None:
    made = model([node("Relu", "x", "y")], {"x": [length]}, ["y"])
    here, apart = both(sample_compiler.get_library_path(), made)
    for _ in range(3):  # the memory is that of the run before
        x = RNG.standard_normal(length + begin).astype(np.float32)[begin:]
        check_equal(here, apart, {"x": x})


STRINGS = """
<ir_version: 10, opset_import: ["" : 21]>
g (string[n] words, float[n] x) => (string[n] y, float[n] z, string[n] w) {
  y = StringConcat (words, words)
  z = Relu (x)
  w = Identity (words)
}
"""


@pytest.mark.parametrize(
    "words",
    [["a", "b\0c", "", "grün"], [], [f"{i}" * (i % 7) for i in range(20000)], ["x" * (1 << 20)]],
    ids=["few", "none", "many", "long"],
)
def test_strings_go_to_the_worker_and_come_back(words: list[str]) -> None:
    here, apart = both(cpu.get_library_path(), onnx.parser.parse_model(STRINGS))
    assert _all(claimed(here)) == _all(claimed(apart)) == ["Identity", "Relu", "StringConcat"]
    feed = {"words": np.array(words, object), "x": np.arange(len(words), dtype=np.float32)}
    for _ in range(2):
        check_equal(here, apart, feed)


def test_strings_may_be_bound() -> None:
    _, apart = both(cpu.get_library_path(), onnx.parser.parse_model(STRINGS))
    binding = apart.io_binding()
    binding.bind_ortvalue_input("words", ephost.OrtValue.ortvalue_from_numpy(np.array(["a", "bc"], object)))
    binding.bind_cpu_input("x", np.float32([1, 2]))
    for name in "yzw":
        binding.bind_output(name)
    apart.run_with_iobinding(binding)
    y, _, w = binding.copy_outputs_to_cpu()
    assert (y.tolist(), w.tolist()) == (["aa", "bcbc"], ["a", "bc"])


def test_messages_of_the_plugin_arrive(
    bad: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("EPHOST_BAD", "logs")
    with caplog.at_level(logging.WARNING, "ephost.plugin.apart"):
        ephost.register_execution_provider_library("apart", bad, isolated=True)
        open_session("apart", model([node("Add", "x x2", "y")], {"x": [2], "x2": [2]}, ["y"]))
    assert {"CreateEpFactories", "CreateEp", "GetCapability", "Compile"} <= {
        r.message for r in caplog.records
    }


def test_one_library_may_be_in_several_workers_and_here(bad: Path) -> None:
    made = model([node("Add", "x x2", "y")], {"x": [2], "x2": [2]}, ["y"])
    here, apart = both(bad, made)
    ephost.register_execution_provider_library("other", bad, isolated=True)
    other = open_session("other", made)
    feed = {"x": np.float32([1, 2]), "x2": np.float32([3, 4])}
    check_equal(here, apart, feed)
    check_equal(here, other, feed)


def test_a_worker_is_used_again_when_its_session_has_ended(bad: Path) -> None:
    made = model([node("Add", "x x2", "y")], {"x": [2], "x2": [2]}, ["y"])
    ephost.register_execution_provider_library("apart", bad, isolated=True)
    pids = set()
    for _ in range(3):
        session = open_session("apart", made)
        pids.add(environment.registrations()["apart"].library._spare is None)
        session.close()
    assert pids == {True}  # each took the one that waited


def test_the_worker_gets_the_environment_that_is_said(bad: Path) -> None:
    isolated = {"environment": {**os.environ, "EPHOST_BAD": "factories_fail"}}
    with pytest.raises(ephost.errors.EPFail, match="CreateEpFactories fails"):
        ephost.register_execution_provider_library("apart", bad, isolated=isolated)
    ephost.register_execution_provider_library("apart", bad, isolated=True)


@pytest.mark.resources
def test_a_worker_without_memory_is_an_error() -> None:
    isolated = {"memory_limit_bytes": 1 << 20}
    library = sample_compiler.get_library_path()
    with pytest.raises(ephost.errors.OnnxRuntimeException):
        ephost.register_execution_provider_library("apart", library, isolated=isolated)
    ephost.register_execution_provider_library("apart", library, isolated={"memory_limit_bytes": 1 << 32})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"restarts": "never"}, "did you mean 'restart'"),
        ({"restart": "sometimes"}, "one of never, on_demand, always"),
        ({"run_timeout_seconds": -1}, "a number from 0 on"),
        ({"run_timeout_seconds": "1"}, "a number from 0 on"),
        ({"register_timeout_seconds": 1e12}, "at most 1000000 seconds, or 0 for no limit"),
        ({"run_timeout_seconds": float("inf")}, "at most 1000000 seconds, or 0 for no limit"),
        ({"shared_bytes": 1.5}, "a whole number below"),
        ({"shared_bytes": 0}, "at least 65536, not 0"),
        ({"memory_limit_bytes": 2**70}, "a whole number below"),
        ({"environment": {"A": 1}}, "'A': 1 is not"),
        ({"environment": {"A\0": "b"}}, "texts, which"),
        ({"environment": "A=b"}, "a dict of variables"),
    ],
)
def test_settings_that_cannot_be_are_refused(bad: Path, settings: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        ephost.register_execution_provider_library("apart", bad, isolated=settings)


def test_entries_that_are_no_seconds_are_refused(bad: Path) -> None:
    made = model([node("Add", "x x2", "y")], {"x": [2], "x2": [2]}, ["y"])
    ephost.register_execution_provider_library("apart", bad, isolated=True)
    with pytest.raises(InvalidArgument, match="number of seconds"):
        open_session("apart", made, ephost__isolation__run_timeout_seconds="soon")


@pytest.mark.parametrize("way", ["environment", "option"])
def test_programs_and_commands_can_be_told_from_outside(bad: Path, tmp_path: Path, way: str) -> None:
    onnx.save(
        model([node("Add", "x x2", "y")], {"x": [2], "x2": [2]}, ["y"]), str(path := tmp_path / "m.onnx")
    )
    command = [sys.executable, "-m", "ephost", "run", str(path), "--ep", f"bad={bad}", "--json"]
    told = {**os.environ, "EPHOST_FAULT": "exit:Compute", "PYTHONPATH": str(ROOT / "host")}
    if way == "environment":
        told["EPHOST_ISOLATED"] = "1"
    else:
        command.append("--isolated")
    done = subprocess.run(command, env=told, capture_output=True, text=True, check=False)
    assert done.returncode not in (0, 7), done.stdout
    assert "ended its process with the exit code 7" in done.stderr


def test_a_command_shows_where_an_isolated_plugin_crashed(bad: Path, tmp_path: Path) -> None:
    onnx.save(
        model([node("Add", "x x2", "y")], {"x": [2], "x2": [2]}, ["y"]), str(path := tmp_path / "m.onnx")
    )
    command = [sys.executable, "-m", "ephost", "run", str(path), "--ep", f"bad={bad}", "--isolated"]
    told = {**os.environ, "EPHOST_FAULT": "segv:Compute", "PYTHONPATH": str(ROOT / "host")}
    done = subprocess.run(command, env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    first, *lines = done.stderr.splitlines()
    assert first.startswith("Error: PluginCrashed: ") and "SIGSEGV" in first
    assert any(line.startswith(f"  {bad}(") for line in lines), done.stderr


CRASHES = int(os.environ.get("EPHOST_SOAK_ROUNDS", "20"))


@pytest.mark.resources
@pytest.mark.timeout(300 + 3 * CRASHES)
def test_many_crashes_and_runs_leave_nothing_behind(bad: Path) -> None:
    """A thousand of the one and a hundred thousand of the other with EPHOST_SOAK_ROUNDS=1000."""
    crashes = CRASHES
    script = Path(__file__).with_name("isolated_soak.py")
    command = [sys.executable, str(script), str(bad), str(crashes), str(100 * crashes)]
    path = os.pathsep.join([str(ROOT / "host"), str(script.parent)])
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for what, counts in told.items():
        before, after = counts["before"], counts["after"]
        for kind in ("descriptors", "threads", "children", "handles"):
            assert after[kind] == before[kind], (what, kind, counts)
        # One for each of many: what is left behind each time. Fewer are the C library's own.
        assert after["mappings"] - before["mappings"] <= crashes // 100, (what, counts)
        for kind in ("memory", "workers"):  # KiB; what Python's own allocator keeps comes in steps
            assert after[kind] - before[kind] <= 1024 + crashes, (what, kind, counts)
