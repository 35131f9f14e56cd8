"""A run that is told to stop ends, also inside of one compiled group."""

import asyncio
import os
import subprocess
import sys
import threading
from typing import Any

import ephost
import numpy as np
import pytest
from ephost import errors
from onnx import helper, parser

from tests.plugins.cpu.conftest import Cpu, make_model

# Longer than anything but a run that nothing stops.
FOREVER = 120.0

ENDLESS = """
<ir_version: 10, opset_import: ["" : 21]>
g (int64 most, float[n] x) => (float[m] y) {
  y, other = Loop (most, "", x, x) <
    body = b (int64 i, bool c, float[n] s, float[n] t) => (bool more, float[n] next, float[n] second) {
      more = Identity (c)
      next = BODY (t)
      second = BODY (s)
    }
  >
}
"""


def _end_of(session: ephost.InferenceSession, feeds: dict[str, np.ndarray]) -> str:
    """The error of a run that is told to stop once it is under way; "" if it ends well."""
    options = ephost.RunOptions()
    ends: list[str] = []

    def run() -> None:
        try:
            session.run(None, feeds, options)
            ends.append("")
        except errors.Fail as error:
            ends.append(str(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(0.3)
    options.terminate = True
    thread.join(FOREVER)
    assert not thread.is_alive(), "the run goes on"
    return ends[0]


@pytest.mark.parametrize("body", ["Relu", "Identity"])
def test_a_loop_without_end_stops(cpu_plugin: Cpu, body: str) -> None:
    model = parser.parse_model(ENDLESS.replace("BODY", body))
    session = cpu_plugin.session(model)
    feeds = {"most": np.array(2**62), "x": np.ones(4, np.float32)}
    assert "terminated through its RunOptions" in _end_of(session, feeds)
    again = session.run(None, {"most": np.array(3), "x": np.ones(4, np.float32)})
    np.testing.assert_array_equal(again[0], np.ones(4, np.float32))


def test_a_scan_over_a_long_sequence_stops(cpu_plugin: Cpu) -> None:
    model = parser.parse_model("""
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[n] start, float[k] x) => (float[n] y) {
      y = Scan <num_scan_inputs = 1, body = b (float[n] s, float e) => (float[n] next) {
        next = Add (s, e)
      }> (start, x)
    }
    """)
    session = cpu_plugin.session(model)
    feeds = {"start": np.zeros(1 << 14, np.float32), "x": np.broadcast_to(np.float32(1), (1 << 24,)).copy()}
    assert "terminated through its RunOptions" in _end_of(session, feeds)


def test_a_group_of_many_operators_stops_between_them(cpu_plugin: Cpu) -> None:
    """Products enough for minutes, in one group."""
    count, side = 2000, 1024
    nodes = [helper.make_node("MatMul", [f"v{i}", "w"], [f"v{i + 1}"]) for i in range(count)]
    feeds = {"v0": np.ones((side, side), np.float32)}
    weights = {"w": np.full((side, side), 1 / side, np.float32)}
    session = cpu_plugin.session(make_model(nodes, feeds, [f"v{count}"], weights))
    assert "terminated through its RunOptions" in _end_of(session, feeds)


def test_a_long_operator_stops_between_the_parts_of_its_work(cpu_plugin: Cpu) -> None:
    """A convolution of float64, which plain loops do."""
    nodes = [helper.make_node("Conv", ["image", "w"], ["y"])]
    feeds = {"image": np.ones((1, 64, 256, 256)), "w": np.ones((64, 64, 3, 3))}
    session = cpu_plugin.session(make_model(nodes, feeds, ["y"]), intra_op_num_threads=2)
    assert "terminated through its RunOptions" in _end_of(session, feeds)


def test_a_cancelled_task_leaves_no_run_behind(cpu_plugin: Cpu) -> None:
    model = parser.parse_model(ENDLESS.replace("BODY", "Relu"))
    ended = threading.Event()

    class Watched(ephost.InferenceSession):
        def run(self, *args: Any, **kwargs: Any) -> list[Any]:
            try:
                return super().run(*args, **kwargs)
            finally:
                ended.set()

    options = ephost.SessionOptions()
    options.add_provider_for_devices([cpu_plugin.device], {})
    session = Watched(model.SerializeToString(), options)
    feeds = {"most": np.array(2**62), "x": np.ones(4, np.float32)}

    async def main() -> None:
        task = asyncio.ensure_future(session.run_asyncio(None, feeds))
        await asyncio.sleep(0.3)
        assert not ended.is_set()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ended.wait(FOREVER), "the run goes on"


def test_a_run_that_is_stopped_leaves_others_alone(cpu_plugin: Cpu) -> None:
    model = parser.parse_model(ENDLESS.replace("BODY", "Relu"))
    session = cpu_plugin.session(model)
    x = np.ones(4, np.float32)
    found: list[np.ndarray] = []
    stop = threading.Event()

    def others() -> None:
        while not stop.is_set():
            found.append(session.run(None, {"most": np.array(50), "x": x})[0])

    thread = threading.Thread(target=others)
    thread.start()
    try:
        assert "terminated" in _end_of(session, {"most": np.array(2**62), "x": x})
    finally:
        stop.set()
        thread.join()
    assert found
    for each in found:
        np.testing.assert_array_equal(each, x)


INTERRUPTED = """
import os, signal, sys, threading, time
import ephost, numpy as np
from onnx import parser
signal.signal(signal.SIGINT, signal.default_int_handler)
session = ephost.InferenceSession(parser.parse_model(sys.argv[1]).SerializeToString())
feeds = {"most": np.array(2**62), "x": np.ones(4, np.float32)}
if sys.argv[2] == "binding":
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)
    binding.bind_output("y")
for round in range(2):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        if sys.argv[2] == "binding":
            session.run_with_iobinding(binding)
        else:
            session.run(None, feeds, ephost.RunOptions() if sys.argv[2] == "options" else None)
        print("it ended")
    except KeyboardInterrupt:
        print("interrupted")
(y,) = session.run(None, {**feeds, "most": np.array(3)})
print(y.tolist())

class Late(Exception):
    pass

def handler(number, frame):
    raise Late("it takes too long")

signal.signal(signal.SIGINT, lambda number, frame: handled.append(number))
handled = []
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
options = ephost.RunOptions()
threading.Timer(0.6, setattr, (options, "terminate", True)).start()
try:
    session.run(None, feeds, options)
except ephost.capi.onnxruntime_pybind11_state.Fail as error:
    print(len(handled), "terminated" in str(error))
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    session.run(None, feeds)
except Late as late:
    print(late)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to send to oneself")
@pytest.mark.parametrize("isolated", ["0", "1"])
@pytest.mark.parametrize("how", ["plain", "options", "binding"])
def test_ctrl_c_ends_a_run_inside_of_a_compiled_group(how: str, isolated: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, ENDLESS.replace("BODY", "Relu"), how],
        capture_output=True,
        text=True,
        env={**os.environ, "EPHOST_CPU_PLUGIN": "1", "EPHOST_ISOLATED": isolated},
        timeout=FOREVER,
    )
    assert done.returncode == 0, done.stderr
    expected = ["interrupted", "interrupted", "[1.0, 1.0, 1.0, 1.0]", "1 True", "it takes too long"]
    assert done.stdout.splitlines() == expected
