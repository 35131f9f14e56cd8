"""The search for faults: what it says, how it stops and goes on, and what it leaves for a vendor."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from ephost.bisection.judging import Memory
from ephost.bisection.measuring import Tolerance, compare, tolerance
from ephost.bisection.processes import Trial, Worker
from ephost.bisection.targets import Library, Target
from ephost.cli import main
from ephost.errors import Fail
from plugin_harness import build_plugin, is_mapped, python_path
from searched_models import chain_model, saved, target_of

pytestmark = [pytest.mark.usefixtures("cpu_plugin_as_default")]


def run_repro(folder: Path, host: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(folder / "repro.py"), "--host", host],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": python_path()},
    )


def test_a_fault_is_reduced_to_what_a_vendor_can_run(
    faulty_plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "scaled@n18")
    output = tmp_path / "found"
    result = ephost.bisect(
        saved(tmp_path, chain_model(30)),
        target_of(faulty_plugin, needless="1"),
        output=output,
        probes=False,
        everything=True,
    )
    assert [fault.nodes for fault in result.faults] == [("n18",)]
    assert result.first == "n18 (MatMul)"
    repro = result.faults[0].repro
    assert repro is not None and repro.folder == output / "fault1"
    assert repro.operators == ("MatMul",)
    assert repro.hosts == ("ephost", "onnxruntime")
    assert repro.left_options == ()
    sizes = [list(t.dims) for t in onnx.load(repro.folder / "repro.onnx").graph.initializer]
    assert all(np.prod(size) <= 2 for size in sizes), sizes
    for host in repro.hosts:
        done = run_repro(repro.folder, host)
        assert done.returncode == 1 and "WRONG" in done.stdout, done.stdout + done.stderr
    monkeypatch.delenv("EPHOST_FAULT")
    done = run_repro(repro.folder, "ephost")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((output / "result.json").read_text())
    assert told["faults"][0]["nodes"] == ["n18"]


def test_all_faults_are_told_apart(
    faulty_plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "matmul_of_odd_sizes")
    model = saved(tmp_path, chain_model(9, rows=3))
    result = ephost.bisect(model, target_of(faulty_plugin), probes=False, everything=True, shrink=False)
    assert [fault.nodes for fault in result.faults] == [("n0", "n3", "n6")]


def test_a_long_model_takes_few_runs(
    faulty_plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "scaled@n771")
    result = ephost.bisect(
        saved(tmp_path, chain_model(1000, 16)), target_of(faulty_plugin), probes=False, shrink=False
    )
    assert [fault.nodes for fault in result.faults] == [("n771",)]
    assert result.first == "n771 (MatMul)"
    assert result.whole_runs <= 20


def test_values_beyond_the_memory_are_looked_at_in_pieces(
    faulty_plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "shifted@n12")
    result = ephost.bisect(
        saved(tmp_path, chain_model(30)), target_of(faulty_plugin), probes=False, shrink=False, memory=4000
    )
    assert [fault.nodes for fault in result.faults] == [("n12",)]
    assert any("larger than the memory" in note for note in result.notes)


def test_an_interrupted_search_goes_on_where_it_was(
    faulty_plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "crash@n200")
    model, output = saved(tmp_path, chain_model(300, 8)), tmp_path / "found"
    # A shell that puts this in the background lets it ignore Ctrl-C.
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from ephost.cli import main; main()"
    )
    arguments = ["bisect", str(model), "--ep", f"faulty={faulty_plugin}", "-o", str(output)]
    environment = {**os.environ, "PYTHONPATH": python_path()}
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        state = output / "state" / "judged.jsonl"
        until = time.monotonic() + 120
        while time.monotonic() < until and not (state.exists() and len(state.read_text().splitlines()) >= 6):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "--resume goes on there" in said
    known = len(state.read_text().splitlines())
    assert known >= 6
    result = ephost.bisect(model, target_of(faulty_plugin), output=output, resume=True, shrink=False)
    assert [fault.nodes for fault in result.faults] == [("n200",)]
    whole = ephost.bisect(model, target_of(faulty_plugin), shrink=False)
    assert result.tries <= whole.tries - 4


def test_an_interrupt_in_whose_place_a_library_puts_another_error_is_one(
    faulty_plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replaced(*args: Any) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise TypeError("expected str, bytes or os.PathLike object, not BufferedReader")

    model, output = saved(tmp_path, chain_model(4)), tmp_path / "found"
    monkeypatch.setattr("ephost.bisection.searching.Search.recognise", replaced)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            ephost.bisect(model, target_of(faulty_plugin), output=output)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        done = CliRunner().invoke(
            main, ["bisect", str(model), "--ep", f"faulty={faulty_plugin}", "-o", str(output)]
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.exit_code == 1 and "--resume goes on there" in done.output


def test_a_folder_has_what_its_last_search_found(
    faulty_plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, output = saved(tmp_path, chain_model(4)), tmp_path / "found"
    monkeypatch.setenv("EPHOST_FAULT", "scaled@n2")
    assert ephost.bisect(model, target_of(faulty_plugin), output=output, probes=False).found
    (output / "fault1" / "inputs2.npz").write_bytes(b"of a search with two feeds")
    (output / "fault2").mkdir()
    (output / "fault2" / "notes").write_text("the user's own")
    assert ephost.bisect(model, target_of(faulty_plugin), output=output, probes=False).found
    assert not (output / "fault1" / "inputs2.npz").exists()
    monkeypatch.delenv("EPHOST_FAULT")
    assert not ephost.bisect(model, target_of(faulty_plugin), output=output, probes=False).found
    assert not (output / "fault1").exists()
    assert [path.name for path in (output / "fault2").iterdir()] == ["notes"]


@pytest.mark.skipif(sys.platform == "win32", reason="locks are POSIX's")
def test_two_searches_do_not_share_a_folder(faulty_plugin: Path, tmp_path: Path) -> None:
    model, output = saved(tmp_path, chain_model(4)), tmp_path / "found"
    (output / "state").mkdir(parents=True)
    memory = Memory(output / "state" / "judged.jsonl", resume=False)
    memory.keep("key", 1)
    for resume in (False, True):
        with pytest.raises(Fail, match=f"another search is at work in {output}"):
            ephost.bisect(model, target_of(faulty_plugin), output=output, resume=resume)
    assert memory.path is not None and memory.path.read_text() == '["key", 1]\n'
    assert not (output / "result.json").exists()
    memory.close()
    assert not ephost.bisect(model, target_of(faulty_plugin), output=output, probes=False).found


@pytest.mark.parametrize("number", [0, 99])
def test_elements_of_no_type_are_refused_by_name(number: int, tmp_path: Path) -> None:
    given, weight = chain_model(2), chain_model(2)
    given.graph.input[0].type.tensor_type.elem_type = number
    weight.graph.initializer[0].data_type = number
    for model, who in (
        (given, f"input '{given.graph.input[0].name}'"),
        (weight, f"initializer '{weight.graph.initializer[0].name}'"),
    ):
        with pytest.raises(Fail, match=f"the {who} has elements of the type {number}: there is none"):
            ephost.bisect(model, Target("none"), against="reference")


def test_a_process_may_end_by_any_signal() -> None:
    with Worker(Target("none")) as worker:
        assert worker.attempt(Trial(b"", []), 60).status == "error"
        assert worker._process is not None
        worker._process.send_signal(signal.SIGRTMIN + 5 if hasattr(signal, "SIGRTMIN") else signal.SIGTERM)
        verdict = worker.attempt(Trial(b"", []), 60)
    assert verdict.status == "crash" and verdict.message.startswith(("signal 39", "SIG"))


def test_what_was_found_is_told_where_it_cannot_be_written(
    faulty_plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "scaled@n3")
    (tmp_path / "found" / "index.html").mkdir(parents=True)
    (tmp_path / "found" / "fault1").write_bytes(b"")
    words = [saved(tmp_path, chain_model(6)), "--ep", faulty_plugin, "-o", tmp_path / "found", "--no-probes"]
    told = CliRunner().invoke(main, ["bisect", *map(str, words)])
    assert told.exit_code == 1
    assert "1 fault" in told.stdout
    said = " ".join(told.stdout.split())
    for name, why in (("index.html", "Is a directory"), ("fault1", "File exists")):
        assert f"{tmp_path / 'found' / name} cannot be written: {why}" in said
    assert json.loads((tmp_path / "found" / "result.json").read_text())["faults"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is full")
def test_a_state_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "judged.jsonl", resume=False)
    assert memory._file is not None
    memory._file.close()
    memory._file = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115
    with pytest.raises(Fail, match=r"cannot be written to .*judged\.jsonl: No space left"):
        memory.keep("key", "value")
    memory.close()


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="a process' end is heard of on Linux")
def test_a_crash_is_one_where_the_plugin_leaves_a_process_which_is_ended(tmp_path: Path) -> None:
    library = build_plugin(Path(__file__).parents[1] / "plugins" / "bad_plugin", tmp_path)
    sample = "m (float[2] x) => (float[2] y) { y = Add(x, x) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {sample}').SerializeToString()
    environment = {"EPHOST_FAULT": "orphan:Compute"}
    target = Target("bad", libraries=(Library("bad", str(library), {}),), environment=environment)
    with Worker(target) as worker:
        verdict = worker.attempt(Trial(model, [{"x": np.ones(2, np.float32)}]), 20)
    assert (verdict.status, verdict.stage) == ("crash", "run 1") and verdict.message.startswith("SIGKILL")
    until = time.monotonic() + 60
    while is_mapped(library):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_what_is_not_there_is_said(faulty_plugin: Path, tmp_path: Path) -> None:
    model = saved(tmp_path, chain_model(3))
    with pytest.raises(ephost.errors.InvalidArgument, match="did you mean 'crash'"):
        ephost.bisect(model, target_of(faulty_plugin), symptom="crush")
    with pytest.raises(ephost.errors.Fail, match="what shows is nothing wrong"):
        ephost.bisect(model, target_of(faulty_plugin), symptom="crash", probes=False)
    with pytest.raises(ephost.errors.InvalidArgument, match="no input 'y'"):
        ephost.bisect(model, target_of(faulty_plugin), inputs=[{"y": np.zeros(1)}])
    with pytest.raises(ephost.errors.Fail, match="cannot be used"):
        ephost.bisect(model, Target("none", libraries=(Library("none", str(model)),)))


def test_tolerances_follow_type_and_operator() -> None:
    single, double = np.dtype(np.float32), np.dtype(np.float64)
    moved = tolerance({"Transpose"}, single, 1, 2**-24)
    summed = tolerance({"MatMul"}, single, 1024, 2**-24)
    assert (moved.relative, moved.scaled) == (0, 0)
    assert summed.scaled > tolerance({"MatMul"}, single, 16, 2**-24).scaled
    assert tolerance({"Add"}, double, 1, 2**-24).relative < 1e-14
    assert tolerance({"Add"}, single, 1, 2**-24).relative < tolerance({"Tanh"}, single, 1, 2**-24).relative
    assert tolerance({"QuantizeLinear"}, np.dtype(np.uint8), 1, 2**-24).steps == 1


def test_what_is_not_finite_is_told_apart() -> None:
    want = np.array([1.0, np.nan, np.inf, 2.0], np.float32)
    loose = Tolerance(1.0, 1.0, 0, "anything goes")
    assert compare("v", want.copy(), want, loose).kind == "right"
    for place, value in ((0, np.nan), (1, 1.0), (2, -np.inf), (3, np.inf)):
        got = want.copy()
        got[place] = value
        measure = compare("v", got, want, loose)
        assert (measure.kind, measure.where, measure.wrong) == ("not finite", (place,), 1)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit of open files to set")
def test_values_of_many_nodes_do_not_take_an_open_file_each(faulty_plugin: Path, tmp_path: Path) -> None:
    model = saved(tmp_path, chain_model(150, size=4))
    command = (
        f"ulimit -n 100; exec {sys.executable} -m ephost bisect {model} --ep {faulty_plugin} --no-probes"
    )
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": python_path(),
            "EPHOST_CPU_PLUGIN": "1",
            "EPHOST_FAULT": "scaled@n18",
        },
    )
    assert "n18" in done.stdout, done.stdout + done.stderr
