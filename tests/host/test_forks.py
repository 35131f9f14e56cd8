"""Children that a process forks while its other threads are at work: no lock is left taken in them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")

FORKS = """
import os, signal, sys, threading
import numpy as np
import ephost
from ephost._bindings import api
from onnx import parser

MODEL = parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
    g (float[2] x) => (float[2] y) { y = Neg(x) }''').SerializeToString()
session = ephost.InferenceSession(MODEL)
x = np.ones(2, np.float32)
ends = False

def stops():
    options = ephost.RunOptions()
    while not ends:
        api.RunOptionsUnsetTerminate(options._pointer)

def runs():
    while not ends:
        session.run(None, {"x": x})

threads = [threading.Thread(target=each) for each in (stops, stops, stops, runs)]
for thread in threads:
    thread.start()
options = ephost.RunOptions()
hung = 0
for _ in range(250):
    if (child := os.fork()) == 0:
        signal.alarm(10)
        api.RunOptionsUnsetTerminate(options._pointer)
        os._exit(0 if session.run(None, {"x": x})[0].tolist() == [-1, -1] else 1)
    hung += os.waitpid(child, 0)[1] != 0
    if hung:
        break
ends = True
for thread in threads:
    thread.join()
sys.exit(hung)
"""


def test_a_child_waits_for_no_thread_of_its_parent() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
