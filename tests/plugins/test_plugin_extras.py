"""What else plugins may offer: profilers, devices of their own making, limits, imports of memory, reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plugin_harness import Files, Tracer
from plugin_models import model, node

SHAPE = [2, 3]
X = np.arange(6, dtype=np.float32).reshape(SHAPE)
NODES = [node("Mul", "x w", "a", name="mul"), node("Add", "a w", "y", name="cpu_add")]
FILES: Files = {"m.onnx": model(NODES, {"x": SHAPE}, ["y"], {"w": X}), "x.npz": {"x": X}}
RUN = ("run", {"feeds": "x.npz"})


def opened(name: str = "m.onnx", **more: Any) -> tuple[str, dict[str, Any]]:
    return ("open", {"model": name, **more})


# ---- profilers ----


@pytest.mark.in_process("its profiler hears of its own steps alone")
def test_profilers_hear_of_runs_and_steps(host: str, traced: Tracer, tmp_path: Path) -> None:
    profiled = opened(enable_profiling=True, profile_file_prefix=str(tmp_path / "profile"))
    actions = ["register", profiled, RUN, "profile", RUN, ("close", {}), "unregister"]
    _, session, ran, profile, after, closed, _ = traced(host, actions, "profile", FILES)
    assert session.only("CreateProfiler", "profiler: StartProf") == [
        "CreateProfiler",
        "profiler: StartProfiling with an offset",
    ]
    lines = [line for line in ran.lines if "SequentialExecutor" not in line]
    starts = lines.count("profiler: StartEvent")
    assert starts == (4 if host == "onnxruntime" else 3)  # onnxruntime counts its executor as well
    step = lines.index("profiler: StopEvent mul_kernel_time, category 1, op_name Mul, provider trace")
    assert lines[step - 2 : step] == ["profiler: StartEvent", "Compute 'mul'"]
    assert lines[-1] == "profiler: StopEvent model_run, category 0, op_name -, provider -"
    assert lines[0] == "profiler: StartEvent"
    of_the_host = [line for line in lines if "StopEvent" in line and "CPUExecutionProvider" in line]
    assert len(of_the_host) == 1
    assert profile.lines == ["profiler: EndProfiling, 0 event(s) open"]
    assert "from the trace plugin" in profile.value
    assert after.only("profiler") == []
    assert closed.lines.index("profiler: Release") < closed.lines.index("ReleaseEp")


def test_without_profiling_profilers_hear_nothing(host: str, traced: Tracer) -> None:
    _, session, ran = traced(host, ["register", opened(), RUN], "profile", FILES)
    assert session.only("profiler") == ran.only("profiler") == []


# ---- devices ----


def test_a_virtual_library_may_offer_devices_of_its_own(host: str, traced: Tracer) -> None:
    actions = [
        ("rename", {"name": "mine.virtual"}),
        "register",
        "hardware",
        opened(which=1),
        RUN,
        ("close", {}),
    ]
    _, registered, hardware, session, ran, _, done = traced(host, [*actions, "unregister"], "virtual", FILES)
    assert "allow_virtual_devices is 1" in registered.lines
    assert registered.value == ["trace CPU", "trace NPU"]
    assert hardware.value[1] == ["NPU", "nobody", {"is_virtual": "1"}]
    assert not session.error, session.message
    assert ran.value == [(X * X + X).tolist()]
    assert not done.error, done.message


def test_others_are_told_of_virtual_devices_only_while_one_is_registered(host: str, traced: Tracer) -> None:
    actions = [
        *("register", "unregister", ("rename", {"name": "a.virtual"}), "register", ("rename", {"name": "b"})),
        *("register", ("rename", {"name": "a.virtual"}), "unregister", ("rename", {"name": "b"})),
        *("unregister", "register"),
    ]
    results = traced(host, actions, "virtual", FILES)
    assert [done.only("allow")[0].split(" is ")[1] for done in results if done.only("allow")] == [
        "not set",
        "1",
        "1",
        "not set",
    ]


def test_a_plugin_says_why_it_does_not_fit_a_device(host: str, traced: Tracer) -> None:
    for mode, wanted in (("misfit", (1, "too old a driver", 42)), ("", (0, "", 0))):
        _, told = traced(host, ["register", "misfit"], mode)
        found = told.value
        assert (found["reasons_bitmask"], found["notes"] or "", found["error_code"]) == wanted


# ---- limits ----

SIDE = [512, 512]  # of a MiB
LARGE = np.ones(SIDE, np.float32)
CHAIN = [
    node("Mul", "x w", "a", name="one"),
    node("Mul", "a v", "b", name="two"),
    node("Add", "b w", "y", name="3"),
]
LIMITED: Files = {"m.onnx": model(CHAIN, {"x": SIDE}, ["y"], {"w": LARGE, "v": LARGE})}
SETTINGS = "session.resource_cuda_partitioning_settings"


def limited(text: str) -> tuple[str, dict[str, Any]]:
    return opened(config={SETTINGS: text})


def created(done: Any) -> int:
    return len(done.only("CreateKernel"))


@pytest.mark.parametrize(
    ("kilobytes", "nodes"),
    # (weight + output) * 1.5 for the first two, output * 1.5 for the last: its weight is there already
    [(3071, 0), (3072, 1), (6143, 1), (6144, 2), (7679, 2), (7680, 3)],
)
def test_claims_end_at_the_limit(host: str, kilobytes: int, nodes: int, traced: Tracer) -> None:
    _, session = traced(host, ["register", limited(f"{kilobytes},")], "resource=1 as_cuda", LIMITED)
    assert not session.error, session.message
    assert created(session) == nodes
    assert "GetAvailableResource" not in session.lines


def test_without_a_number_the_ep_is_asked(host: str, traced: Tracer) -> None:
    for have, nodes in ((3 << 20, 1), (100 << 20, 3)):
        _, session = traced(host, ["register", limited(",")], f"resource={have} as_cuda", LIMITED)
        assert "GetAvailableResource" in session.lines
        assert created(session) == nodes


def test_without_settings_nothing_is_limited(host: str, traced: Tracer) -> None:
    _, session = traced(host, ["register", opened()], "resource=1 as_cuda", LIMITED)
    assert created(session) == 3


def test_what_is_beyond_the_limit_is_explained(traced: Tracer) -> None:
    _, session, explained = traced("ephost", ["register", limited("3072,"), "refused"], "resource=1", LIMITED)
    assert created(session) == 1
    reason = "it is beyond the memory that the EP may plan for"
    assert explained.value == [["two", reason], ["3", reason]]


@pytest.mark.parametrize("text", ["1", "x,"])
def test_settings_of_another_form_are_refused(host: str, text: str, traced: Tracer) -> None:
    if host == "onnxruntime" and text == "x,":
        pytest.skip("onnxruntime takes letters for 0")
    _, session = traced(host, ["register", limited(text)], "resource=1 as_cuda", LIMITED)
    assert session.error == "InvalidArgument"


# ---- external memory ----


@pytest.mark.in_process("the library is called in this process")
def test_memory_is_imported_by_the_plugin(host: str, traced: Tracer) -> None:
    _, used, done = traced(host, ["register", "interop", "unregister"], "interop")
    assert used.lines == [
        "InitGraphicsInterop of API 1",
        "CreateExternalResourceImporterForDevice",
        "importer is there",
        "importer: CanImportMemory of 0",
        "memory can be imported",
        "importer: CanImportSemaphore",
        "semaphores cannot be imported",
        "importer: ImportMemory of 16 bytes",
        "importer: CreateTensorFromMemory at 8",
        "the tensor is in the memory",
        "importer: memory released",
        "semaphore: error 9",  # there is no function for it: NOT_IMPLEMENTED
        "importer: Release",
        "DeinitGraphicsInterop",
    ]
    assert not done.error


@pytest.mark.in_process("the library is called in this process")
def test_a_plugin_without_an_importer_has_none(host: str, traced: Tracer) -> None:
    _, used = traced(host, ["register", "interop"])
    assert "importer is NULL" in used.lines and not [line for line in used.lines if "error" in line]


@pytest.mark.in_process("the library is called in this process")
def test_a_plugin_without_interop_says_so(host: str, traced: Tracer) -> None:
    _, used = traced(host, ["register", "interop"], "no_interop")
    assert used.lines == ["init: error 9", "importer is NULL", "deinit: error 9"]
