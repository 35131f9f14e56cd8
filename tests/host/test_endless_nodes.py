"""Nodes on the fallback whose operators go round for ever end when the run is told to, and at Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import ephost
import numpy as np
import pytest
from ephost.errors import Fail
from onnx import helper, parser

SOON = 60.0  # seconds that nothing but an endless run takes

ENDLESS = """
<ir_version: 10, opset_import: ["" : 21]>
g (int64 most, float[n] x) => (float[m] y) {
  y = Loop (most, "", x) <
    body = b (int64 i, bool c, float[n] s) => (bool more, float[n] next) {
      more = Identity (c)
      next = Neg (s)
    }
  >
}
"""
FEEDS = {"most": np.array(2**62), "x": np.ones(2, np.float32)}


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> ephost.InferenceSession:
    monkeypatch.setenv("EPHOST_CPU_PLUGIN", "0")
    return ephost.InferenceSession(parser.parse_model(ENDLESS).SerializeToString())


@pytest.fixture
def handler_of_python() -> Iterator[None]:
    """The one that raises KeyboardInterrupt: a program that a shell starts in the background has none."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_it_ends_when_the_run_is_told_to(endless: ephost.InferenceSession) -> None:
    options = ephost.RunOptions()
    timer = threading.Timer(0.3, setattr, (options, "terminate", True))
    timer.start()
    with pytest.raises(Fail, match="terminated through its RunOptions"):
        endless.run(None, FEEDS, options)
    # Nothing of it is left for what comes later.
    timer.join()
    assert sum(range(100_000)) == 4999950000
    (y,) = endless.run(None, {**FEEDS, "most": np.array(3)})
    np.testing.assert_array_equal(y, -FEEDS["x"])


PROFILED = """
import sys, threading
import ephost, numpy as np
session, options = ephost.InferenceSession(sys.argv[1]), ephost.RunOptions()
timer = threading.Timer(0.3, setattr, (options, "terminate", True))
timer.start()
try:
    session.run(None, {"most": np.array(2**62), "x": np.ones(2, np.float32)}, options)
except ephost.capi.onnxruntime_pybind11_state.Fail:
    timer.join()
calls = []
sys.setprofile(lambda *event: calls.append(event[1]))
(lambda: None)()
sys.setprofile(None)
print(calls[0])
"""


def test_a_profiler_works_after_that(tmp_path: Path) -> None:
    """CPython 3.11 goes in a circle under a profiler when an exception from outside was called off."""
    model = tmp_path / "endless.onnx"
    model.write_bytes(parser.parse_model(ENDLESS).SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", PROFILED, str(model)],
        env={**os.environ, "EPHOST_CPU_PLUGIN": "0"},
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    assert done.stdout == "call\n", done.stderr


def test_only_the_runs_with_these_options_end(endless: ephost.InferenceSession) -> None:
    stopped, other, ends = ephost.RunOptions(), ephost.RunOptions(), []

    def run(name: str, options: ephost.RunOptions) -> None:
        with pytest.raises(Fail, match="terminated"):
            endless.run(None, FEEDS, options)
        ends.append(name)

    threads = [threading.Thread(target=run, args=each) for each in (("one", stopped), ("other", other))]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    stopped.terminate = True
    threads[0].join(SOON)
    assert ends == ["one"]
    other.terminate = True
    threads[1].join(SOON)
    assert ends == ["one", "other"]


@pytest.mark.usefixtures("handler_of_python")
def test_ctrl_c_ends_it_and_is_no_error_of_the_model(endless: ephost.InferenceSession) -> None:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        endless.run(None, FEEDS)
    (y,) = endless.run(None, {**FEEDS, "most": np.array(2)})
    np.testing.assert_array_equal(y, FEEDS["x"])


def test_what_others_read_as_a_type_has_it() -> None:
    """onnx's operator gives float32 where the standard says float64, which a compiled group then read."""
    node = helper.make_node(
        "Adam", list("rtxgvh"), ["X", "V", "H"], domain="ai.onnx.preview.training", alpha=0.9, beta=0.9
    )
    after = helper.make_node("Neg", ["X"], ["y"])
    one = [np.array([value], np.float64) for value in (1.0, -1.0, 2.0, 0.5)]
    feeds = dict(zip("rtxgvh", [np.array(0.1), np.array(0), *one], strict=True))
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in feeds.items()
    ]
    made = helper.make_graph(
        [node, after], "g", inputs, [helper.make_tensor_value_info("y", helper.TensorProto.DOUBLE, [1])]
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.preview.training", 1)]
    session = ephost.InferenceSession(
        helper.make_model(made, opset_imports=imports, ir_version=10).SerializeToString()
    )
    (y,) = session.run(None, feeds)
    v, h = 0.9 * 2.0 + 0.1 * -1.0, 0.9 * 0.5 + 0.1 * 1.0
    np.testing.assert_allclose(y, -(1.0 - 0.1 * v / (np.sqrt(h) + 1e-6)), 1e-5)
