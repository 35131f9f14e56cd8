"""The search between hosts, versions, options and kinds of models, as a user types it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import ephost
import ml_dtypes
import numpy as np
import onnx
import pytest
from ephost.bisection import packing
from ephost.bisection.targets import Target
from onnx import TensorProto, helper, numpy_helper
from plugin_harness import python_path
from searched_models import chain_model, saved, target_of

pytestmark = [pytest.mark.usefixtures("cpu_plugin_as_default")]


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ephost", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": python_path(), "COLUMNS": "200"},
    )


def blamed(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    assert done.returncode == 1, done.stderr
    return [fault["nodes"] for fault in json.loads(done.stdout)["faults"]]


def test_a_plugin_is_compared_between_two_hosts(
    faulty_plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "scaled@n3")
    monkeypatch.setenv("EPHOST_FAULT_HOST", "onnxruntime")
    model = saved(tmp_path, chain_model(6))
    done = command(
        "bisect", model, "--ep", f"faulty={faulty_plugin}", "--host", "onnxruntime", "--against",
        f"ephost:faulty={faulty_plugin}", "--no-probes", "-o", tmp_path / "found", "--json",
    )  # fmt: skip
    assert blamed(done) == [["n3"]]
    assert json.loads(done.stdout)["faults"][0]["repro"]["hosts"] == ["onnxruntime"]


def test_a_plugin_is_compared_with_onnxruntimes_own_provider(
    faulty_plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "negatives@n2")
    model = saved(tmp_path, chain_model(6))
    done = command(
        "bisect", model, "--ep", faulty_plugin, "--against", "onnxruntime", "--no-probes", "--no-shrink",
        "-o", tmp_path / "found",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "against onnxruntime's CPU provider: 1 fault" in done.stdout
    assert "The first node whose results diverge: n2 (Add)" in done.stdout


@pytest.mark.parametrize("by", ["version", "option"])
def test_a_plugin_is_compared_with_itself(by: str, faulty_plugin: Path, tmp_path: Path) -> None:
    if by == "version":
        newer = Path(shutil.copy(faulty_plugin, tmp_path))
        Path(f"{newer}.fault").write_text("scaled@n3\n")
        pair = (target_of(newer), target_of(faulty_plugin))
    else:
        pair = (target_of(faulty_plugin, fault="scaled@n3"), target_of(faulty_plugin, other="1"))
    result = ephost.bisect(chain_model(6), pair[0], against=pair[1], probes=False, shrink=by == "option")
    assert [fault.nodes for fault in result.faults] == [("n3",)]
    told = ("fault=scaled@n3", "other=1") if by == "option" else (str(newer), str(faulty_plugin))
    assert (result.target, result.against) == (f"faulty ({told[0]})", f"faulty ({told[1]})")
    if by == "option":
        repro = result.faults[0].repro
        assert repro is not None and repro.left_options == ("fault=scaled@n3",)


def test_a_slow_node_is_found_and_shown_again(
    faulty_plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "slow@n4")
    output = tmp_path / "found"
    result = ephost.bisect(
        saved(tmp_path, chain_model(9)), target_of(faulty_plugin), symptom="slow", output=output
    )
    assert [fault.nodes for fault in result.faults] == [("n4",)]
    program = [sys.executable, str(output / "fault1" / "repro.py")]
    environment = {**os.environ, "PYTHONPATH": python_path()}
    for fault, status in (("slow@n4", 1), ("", 0)):
        done = subprocess.run(
            program, capture_output=True, text=True, timeout=60, env={**environment, "EPHOST_FAULT": fault},
            check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr


def many_things(folder: Path) -> Path:
    """Texts, open sizes, several outputs, an If, a Loop, a function and data in a file beside the model."""
    b = numpy_helper.from_array(np.linspace(-2, 3, 4096, dtype=np.float32), "b")
    constants = [
        b,
        numpy_helper.from_array(np.array(2, np.int64), "two"),
        numpy_helper.from_array(np.array(True), "true"),
        numpy_helper.from_array(np.array(1.0, np.float32), "one"),
    ]
    kind = helper.make_tensor_value_info
    then = helper.make_graph(
        [helper.make_node("Mul", ["a", "b"], ["r1"], name="product")], "then", [],
        [kind("r1", TensorProto.FLOAT, None)],
    )  # fmt: skip
    otherwise = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["r2"], name="sum")], "else", [],
        [kind("r2", TensorProto.FLOAT, None)],
    )  # fmt: skip
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["v", "b"], ["v1"], name="in_loop"),
            helper.make_node("Identity", ["c"], ["c2"], name="on"),
        ],
        "body",
        [
            kind("at", TensorProto.INT64, []),
            kind("c", TensorProto.BOOL, []),
            kind("v", TensorProto.FLOAT, None),
        ],
        [kind("c2", TensorProto.BOOL, []), kind("v1", TensorProto.FLOAT, None)],
    )  # fmt: skip
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    function = helper.make_function(
        "local", "Limited", ["p", "high"], ["q"],
        [helper.make_node("Clip", ["p", "", "high"], ["q"], name="clip")], versions[:1],
    )  # fmt: skip
    nodes = [
        helper.make_node("Concat", ["t", "t"], ["u"], axis=0, name="texts"),
        helper.make_node("Add", ["x", "b"], ["a"], name="first"),
        helper.make_node("If", ["true_input"], ["i"], then_branch=then, else_branch=otherwise, name="if"),
        helper.make_node("Loop", ["two", "true", "i"], ["l"], body=body, name="loop"),
        helper.make_node("Limited", ["l", "one"], ["y"], domain="local", name="limited"),
        helper.make_node("Neg", ["a"], ["z"], name="negative"),
    ]
    graph = helper.make_graph(
        nodes,
        "many",
        [
            kind("t", TensorProto.STRING, ["T"]),
            kind("x", TensorProto.FLOAT, ["N", 4096]),
            kind("true_input", TensorProto.BOOL, []),
        ],
        [
            kind("u", TensorProto.STRING, None),
            kind("y", TensorProto.FLOAT, None),
            kind("z", TensorProto.FLOAT, None),
        ],
        constants,
    )
    model = helper.make_model(graph, opset_imports=versions, ir_version=9, functions=[function])
    path = folder / "many.onnx"
    onnx.save(model, path, save_as_external_data=True, location="many.data", size_threshold=100)
    return path


@pytest.mark.parametrize(
    ("fault", "node", "operators"),
    [
        ("scaled@in_loop", "loop", ("Mul",)),
        ("shifted@sum", "if", ("Add",)),
        ("clip_ignores_max", "limited", ("Clip",)),
    ],
)
def test_a_fault_inside_of_a_body_is_found_in_a_model_with_many_things(
    fault: str,
    node: str,
    operators: tuple[str, ...],
    faulty_plugin: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", fault)
    monkeypatch.setattr(packing, "LIMIT", 5000)  # so that the model is too large for a message
    feed = {
        "t": np.array(["a", "b"], dtype=object),
        "x": np.linspace(-3, 4, 2 * 4096, dtype=np.float32).reshape(2, 4096),
        "true_input": np.array(False),
    }
    result = ephost.bisect(
        many_things(tmp_path), target_of(faulty_plugin), inputs=[feed], probes=False, output=tmp_path / "out"
    )
    assert [found.nodes for found in result.faults] == [(node,)], str(result)
    assert result.faults[0].ep_name == "faulty_plugin"
    repro = result.faults[0].repro
    assert repro is not None and repro.operators == operators
    assert "__given" not in (tmp_path / "out" / "result.json").read_text()
    assert not (tmp_path / "out" / "state" / "models").exists()


@pytest.mark.parametrize(
    ("dtype", "fault"), [(np.float16, ""), (np.float16, "negatives@n1"), (ml_dtypes.bfloat16, "")]
)
def test_tolerances_know_of_types_with_few_digits(
    dtype: type, fault: str, faulty_plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array((random.standard_normal((64, 64)) / 8).astype(dtype), f"w{at}")
        for at in range(3)
    ]
    nodes = [
        helper.make_node("MatMul", [f"v{at}", f"w{at}"], [f"v{at + 1}"], name=f"n{at}") for at in range(3)
    ]
    nodes.append(helper.make_node("Cast", ["v3"], ["y"], to=TensorProto.FLOAT, name="last"))
    x = helper.make_tensor_value_info("v0", element, ["N", 64])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 64])
    graph = helper.make_graph(nodes, "few digits", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    # The plugin rounds once, and the reference after each product: far more than float32 explains.
    monkeypatch.setenv("EPHOST_FAULT", fault)
    result = ephost.bisect(
        model, target_of(faulty_plugin), against="reference", probes=False, shrink=False, dimensions={"N": 4}
    )
    assert result.found == bool(fault), str(result)
    assert [found.nodes for found in result.faults] == ([("n1",)] if fault else [])


def interrupting(at: str) -> Callable[[str], None]:
    def told(text: str) -> None:
        if text.startswith(at):
            raise KeyboardInterrupt

    return told


def test_a_search_that_is_interrupted_often_comes_to_the_same_end(
    faulty_plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "scaled@n6")
    model, output = saved(tmp_path, chain_model(9)), tmp_path / "found"
    moments: Sequence[str] = (
        "running the whole", "computing the reference", "trying each node", "shrinking: sizes",
        "trying the red",
    )  # fmt: skip
    for at in moments:
        with pytest.raises(KeyboardInterrupt):
            ephost.bisect(
                model, target_of(faulty_plugin), output=output, resume=True, probes=False,
                told=interrupting(at),
            )  # fmt: skip
        assert (output / "index.html").exists()
    result = ephost.bisect(model, target_of(faulty_plugin), output=output, resume=True, probes=False)
    assert [fault.nodes for fault in result.faults] == [("n6",)]
    assert result.faults[0].repro is not None and result.faults[0].repro.operators == ("MatMul",)
    assert result.tries <= 2  # the rest was known


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_nothing_is_left_running_when_a_search_is_killed(
    faulty_plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "hang@n1")
    model = saved(tmp_path, chain_model(3))
    arguments = ["bisect", str(model), "--ep", f"faulty={faulty_plugin}", "-o", str(tmp_path / "found")]

    def workers(parent: int) -> list[str]:
        """Those of a search that have the plugin, by their numbers."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
                maps = path.with_name("maps").read_text()
            except OSError:
                continue
            if (
                b"ephost.bisection.worker" in words
                and str(parent).encode() in words
                and faulty_plugin.name in maps
            ):
                found.append(path.parent.name)
        return found

    def until(condition: Callable[[], bool]) -> bool:
        end = time.monotonic() + 60
        while time.monotonic() < end and not condition():
            time.sleep(0.05)
        return condition()

    with subprocess.Popen(
        [sys.executable, "-m", "ephost", *arguments], env={**os.environ, "PYTHONPATH": python_path()}
    ) as process:
        assert until(lambda: bool(workers(process.pid)))
        for worker in workers(process.pid):
            os.kill(int(worker), signal.SIGSTOP)  # as one that never comes back
        process.send_signal(signal.SIGKILL)
    assert until(lambda: not workers(process.pid))


def test_a_library_named_from_here_is_found_by_both_hosts_and_by_the_program_for_its_vendor(
    faulty_plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(faulty_plugin, tmp_path / "libfaulty.so")
    monkeypatch.setenv("EPHOST_FAULT", "error@n1")
    monkeypatch.chdir(tmp_path)
    done = command(
        "bisect",
        saved(tmp_path, chain_model(3)),
        "--ep",
        "libfaulty.so",
        "--no-probes",
        "-o",
        "found",
        "--json",
    )
    assert blamed(done) == [["n1"]]
    (fault,) = json.loads(done.stdout)["faults"]
    assert fault["repro"]["hosts"] == ["ephost", "onnxruntime"]
    assert str(tmp_path / "libfaulty.so") in Path("found", "fault1", "repro.py").read_text()
    Path("libfaulty.so").rename("libother.so")  # the program's user has it elsewhere, and mended
    monkeypatch.delenv("EPHOST_FAULT")
    for host in fault["repro"]["hosts"]:
        words = [sys.executable, "found/fault1/repro.py", "--host", host, "--library", "libother.so"]
        made = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert made.returncode == 0 and "nothing wrong" in made.stdout, made.stdout + made.stderr


def test_a_layer_stands_before_the_plugin_in_every_try(
    faulty_plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "scaled@n1")
    monkeypatch.chdir(tmp_path)
    search = ("bisect", saved(tmp_path, chain_model(3)), "--no-probes", "--no-shrink", "--json")
    given = ("--ep", f"faulty={faulty_plugin}", "--layer", "trace")
    assert blamed(command(*search, *given)) == [["n1"]]
    assert list(tmp_path.glob("ephost-faulty-*.trace"))
    for refused, why in (
        ((*given, "--host", "onnxruntime"), "`ephost layer wrap` writes a library for onnxruntime"),
        ((), "Missing option '--ep'"),
    ):
        done = command(*search, *refused)
        assert done.returncode == 2 and why in done.stderr


def test_what_does_not_fit_is_refused_before_anything_runs(
    faulty_plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = chain_model(3, size=8)
    target = target_of(faulty_plugin)

    def refused(message: str, **given: object) -> None:
        with pytest.raises((ephost.errors.InvalidArgument, ephost.errors.Fail), match=message):
            ephost.bisect(model, target, **given)  # type: ignore[arg-type]

    refused("compared with itself", against=Target("the same", libraries=target.libraries))
    refused("no input of the model has a dimension 'batch'", dimensions={"batch": 2})
    wide, double = np.zeros((4, 9), np.float32), np.zeros((4, 8))
    refused(r"feed 1: the input 'x' has the shape \[4, 8\], and this one \[4, 9\]", inputs=[{"x": wide}])
    refused("'x' takes elements of float32, and these are of float64", inputs=[{"x": double}])
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1  # open, as some write it
    refused(r"the input 'x' has the shape \[\?, 8\], and this one \[4, 9\]", inputs=[{"x": wide}])
    np.savez(tmp_path / "other.npz", y=np.zeros(1))
    refused(r"other\.npz: the model has no input 'y'", inputs=[tmp_path / "other.npz"])
    (tmp_path / "text.npz").write_text("no arrays")
    refused(
        r"text\.npz is no file of arrays by name, as numpy\.savez writes$", inputs=[tmp_path / "text.npz"]
    )
    np.save(tmp_path / "one.npy", np.zeros(1))
    refused(r"one\.npy holds one array without a name", inputs=[tmp_path / "one.npy"])


def test_a_search_is_measured_in_runs_of_the_model(faulty_plugin: Path, tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    script = Path(__file__).parents[2] / "bench" / "bisection.py"
    done = subprocess.run(
        [
            sys.executable, str(script), "--rounds", "1", "--only", "10 nodes",
            "--plugin", str(faulty_plugin), "--json", str(path),
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(path.read_text())["rows"]
    assert 0 < row["one run"] < row["search"]
