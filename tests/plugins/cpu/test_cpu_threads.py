"""The plugin's threads: one pool for its own kernels and oneDNN's, which nobody's scheduling can stop."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model

SEED = np.random.default_rng(7)
IMAGES = SEED.normal(size=(2, 16, 40, 40)).astype(np.float32)
WEIGHTS = SEED.normal(size=(32, 16, 3, 3)).astype(np.float32)
MATRIX = SEED.normal(size=(1600, 200)).astype(np.float32)


def network() -> onnx.ModelProto:
    """Convolution and pooling of oneDNN, matrix products, softmax and sums of the plugin's own."""
    return make_model(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            helper.make_node("Flatten", ["p"], ["f"], axis=2),
            helper.make_node("MatMul", ["f", "m"], ["t"]),
            helper.make_node("Softmax", ["t"], ["s"]),
            helper.make_node("Mul", ["s", "t"], ["y"]),
        ],
        {"x": IMAGES},
        ["y"],
        {"w": WEIGHTS, "m": MATRIX},
    )


def run_alone(program: str, path: Path) -> str:
    """What a program of its own prints; it has the plugin as default, and `path` as its argument."""
    environment = {**os.environ}
    environment.pop("EPHOST_CPU_PLUGIN", None)
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "network.onnx"
    onnx.save(network(), path)
    return path


@pytest.mark.threads
def test_results_do_not_depend_on_the_number_of_threads(cpu_plugin: Cpu) -> None:
    model = network()
    (alone,) = cpu_plugin.run(model, {"x": IMAGES}, intra_op_num_threads=1)
    for threads in (2, 3, 5, 16):
        session = cpu_plugin.session(model, intra_op_num_threads=threads)
        for _ in range(5):
            np.testing.assert_allclose(session.run(None, {"x": IMAGES})[0], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.threads
def test_runs_of_many_threads_do_not_wait_for_each_others_workers(cpu_plugin: Cpu) -> None:
    model = network()
    sessions = [cpu_plugin.session(model, intra_op_num_threads=threads) for threads in (2, 4)]
    (expected,) = sessions[0].run(None, {"x": IMAGES})
    wrong: list[object] = []

    def work(session: ephost.InferenceSession) -> None:
        try:
            for _ in range(10):
                np.testing.assert_allclose(
                    session.run(None, {"x": IMAGES})[0], expected, rtol=1e-5, atol=1e-5
                )
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(sessions[i % 2],), daemon=True) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
        assert not thread.is_alive(), "a run does not come to its end"
    assert not wrong


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux which threads there are")
def test_onednn_has_the_plugins_threads_and_no_others(saved: Path) -> None:
    program = """
import sys, pathlib, time, numpy as np, ephost
def threads():
    return sorted(p.read_text().strip() for p in pathlib.Path("/proc/self/task").glob("*/comm"))
def settled():  # A new thread has its parent's name until it gives itself its own.
    until = time.monotonic() + 100
    while (found := threads()).count("ephost-cpu") < 2 and time.monotonic() < until:
        time.sleep(0.01)
    return found
x = np.ones((2, 16, 40, 40), np.float32)
options = ephost.SessionOptions()
options.intra_op_num_threads = 3
session = ephost.InferenceSession(sys.argv[1], options)
assert session.get_providers()[0] == "CPUExecutionProvider"
session.run(None, {"x": x})
first = settled()
for _ in range(3):
    ephost.InferenceSession(sys.argv[1], options).run(None, {"x": x})
time.sleep(0.1)
assert settled().count("ephost-cpu") == first.count("ephost-cpu"), threads()
print(first.count("ephost-cpu"), len([name for name in first if name.startswith("python")]))
"""
    workers, others = run_alone(program, saved).split()
    assert int(workers) == 2
    assert int(others) <= 1 + 2  # The program's own, and those of the session's pool, whose name is Python's.


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no process")
def test_a_forked_process_runs_on_threads_of_its_own(saved: Path) -> None:
    program = """
import os, sys, numpy as np, ephost
x = np.ones((2, 16, 40, 40), np.float32)
options = ephost.SessionOptions()
options.intra_op_num_threads = 3
session = ephost.InferenceSession(sys.argv[1], options)
(expected,) = session.run(None, {"x": x})
child = os.fork()
if child == 0:
    (found,) = session.run(None, {"x": x})
    os._exit(0 if np.allclose(found, expected) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_alone(program, saved).strip() == "0"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no process")
def test_a_process_forked_while_other_threads_run_a_session_runs_it(tmp_path: Path) -> None:
    """A child has the locks that other threads held, but not the threads that would give them back."""
    model = make_model([helper.make_node("Sqrt", ["x"], ["y"])], {"x": np.ones(3, np.float32)}, ["y"])
    onnx.save(model, tmp_path / "small.onnx")
    program = """
import os, sys, threading, time, numpy as np, ephost
sys.setswitchinterval(1e-5)
options = ephost.SessionOptions()
options.intra_op_num_threads = 1
session = ephost.InferenceSession(sys.argv[1], options)
feeds = {"x": np.full(3, 4, np.float32)}
def work():
    while True:
        session.run(None, feeds)
for _ in range(8):
    threading.Thread(target=work, daemon=True).start()
for _ in range(200):
    child = os.fork()
    if child == 0:
        os._exit(0 if session.run(None, feeds)[0].tolist() == [2, 2, 2] else 1)
    until = time.monotonic() + 30
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < until:
        time.sleep(0.0005)
    if ended[0] == 0:
        os.kill(child, 9)
        print("hangs", flush=True)
        os._exit(0)
    if ended[1]:
        print("fails", flush=True)
        os._exit(0)
print("runs", flush=True)
os._exit(0)
"""
    assert run_alone(program, tmp_path / "small.onnx").strip() == "runs"


@pytest.mark.parametrize("spinning", ["0", "1"])
@pytest.mark.skipif(
    sys.platform != "linux" or not Path("/proc/self/schedstat").exists(),
    reason="asks Linux what threads have used",
)
def test_threads_without_work_cost_nothing(saved: Path, spinning: str) -> None:
    """What workers have used stops growing: one that spins does not stop, however busy the machine."""
    program = f"""
import pathlib, sys, time, numpy as np, ephost
def used():
    tasks = pathlib.Path("/proc/self/task").iterdir()
    return {{task.name: int((task / "schedstat").read_text().split()[0])
            for task in tasks if "ephost-cpu" in (task / "comm").read_text()}}
x = np.ones((2, 16, 40, 40), np.float32)
options = ephost.SessionOptions()
options.intra_op_num_threads = 4
options.add_session_config_entry("session.intra_op.allow_spinning", "{spinning}")
session = ephost.InferenceSession(sys.argv[1], options)
for _ in range(3):
    session.run(None, {{"x": x}})
before = None
while before != (now := used()) or len(now) < 3:  # new threads have no name of their own yet
    before = now
    time.sleep(0.3)
"""
    run_alone(program, saved)
