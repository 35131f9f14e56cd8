"""Leaving the interpreter ends with exit code 0, whatever is still alive; and says nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

PRELUDE = """
import sys, threading, atexit, gc
before_the_host = []  # what is to be called at exit when the host's own functions have been
atexit.register(lambda: [each() for each in before_the_host])
import numpy as np, onnx
from onnx import helper, TensorProto
from host_state import adds_model
import ephost
from ephost.plugins import sample_compiler, sample_kernels

def libraries():
    ephost.register_execution_provider_library("compiler", sample_compiler.get_library_path())
    ephost.register_execution_provider_library("kernels", sample_kernels.get_library_path())

def session(name, model=None):
    options = ephost.SessionOptions()
    if name:
        options.add_provider_for_devices([d for d in ephost.get_ep_devices() if d.registration_name == name],
        {})
    return ephost.InferenceSession((model or adds_model()).SerializeToString(), options)

X = np.ones(2, np.float32)

def slow_model(operator):
    '''A chain of MatMuls that takes a while, on a plugin or on the fallback.'''
    names = ["x"] + [f"v{i}" for i in range(30)]
    nodes = [helper.make_node(operator, [a, a], [b]) for a, b in zip(names, names[1:])]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [300, 300])
    graph = helper.make_graph(nodes, "slow", [value("x")], [value(names[-1])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
"""
CASES = {
    "nothing but the import": "",
    "libraries registered": "libraries()",
    "devices held": "libraries(); devices = ephost.get_ep_devices()",
    "sessions alive": "libraries(); alive = [session(n) for n in ('compiler', 'kernels', None)]",
    "a session that ran, outputs held": """
libraries(); s = session("kernels"); held = s.run(None, {"x": X})
""",
    "OrtValues held": """
libraries(); s = session("compiler")
held = s.run_with_ort_values(None, {"x": ephost.OrtValue.ortvalue_from_numpy(X)})
""",
    "a session in a reference circle": """
libraries()
class Holder: pass
gc.disable(); h = Holder(); h.h = h; h.s = session("kernels"); h.s.run(None, {"x": X}); del h
""",
    "a session in another module's globals": """
libraries(); import types; m = sys.modules["kept"] = types.ModuleType("kept"); m.s = session("compiler")
""",
    "an exception that holds the frames of a run": """
libraries(); s = session("kernels")
def work():
    local = session("compiler")
    local.run(None, {"x": np.ones(3, np.float32)})
try:
    work()
except Exception as error:
    kept = error
assert kept.__traceback__ is not None
""",
    "an exception that holds the frames of a failed opening": """
libraries()
try:
    session("kernels", onnx.ModelProto())
except Exception as error:
    kept = error
""",
    "sys.exit in the middle": "libraries(); s = session('kernels'); s.run(None, {'x': X}); sys.exit(0)",
    "a session that is used at exit": """
libraries(); s = session("kernels")
def last():
    try:
        s.run(None, {"x": X})
    except Exception:
        pass
atexit.register(last)
""",
    "sessions that are used at exit when the host has left": """
def last():
    assert session(None).run(None, {"x": X})[0].tolist() == expected
    go_on.clear(); worker.join(60)
    assert not worker.is_alive() and not failed
expected = session(None).run(None, {"x": X})[0].tolist()
before_the_host.append(last)
go_on, failed, s = threading.Event(), [], session(None)
def work():
    try:
        while go_on.is_set():
            s.run(None, {"x": X})
    except Exception as error:
        failed.append(error)
        raise
go_on.set(); worker = threading.Thread(target=work, daemon=True); worker.start()
""",
    "a session that is deleted at exit": """
libraries(); alive = [session("kernels")]; atexit.register(alive.clear)
""",
    "a library unregistered at exit": """
libraries(); atexit.register(ephost.unregister_execution_provider_library, "kernels")
""",
    "a thread that made a session and ended": """
libraries(); alive = []
t = threading.Thread(target=lambda: alive.append(session("kernels"))); t.start(); t.join()
alive[0].run(None, {"x": X})
""",
    "thread pools alive": """
libraries(); o = ephost.SessionOptions(); o.intra_op_num_threads = 4
o.add_provider_for_devices([d for d in ephost.get_ep_devices() if d.registration_name == "kernels"], {})
s = ephost.InferenceSession(adds_model().SerializeToString(), o); s.run(None, {"x": X})
""",
    "the log's callback replaced and messages under way": """
import logging; logging.basicConfig(level=logging.DEBUG, filename="/dev/null")
ephost.set_default_logger_severity(0); libraries(); s = session("kernels"); s.run(None, {"x": X})
""",
    **{
        f"a thread in the middle of a run on {where}": f"""
libraries(); s = session({name!r}, slow_model("MatMul"))
big = np.full((300, 300), 1e-3, np.float32); begun = threading.Semaphore(0)
class Feed:
    def __array__(self, *args, **options):  # a run reads it, and goes on with what takes long
        begun.release()
        return big
def forever():
    while True:
        s.run(None, {{"x": Feed()}})
for _ in range(3):
    threading.Thread(target=forever, daemon=True).start()
for _ in range(6):  # three runs have begun, and some have ended
    begun.acquire()
"""
        for where, name in (("a plugin", "kernels"), ("the fallback", None))
    },
}


@pytest.mark.parametrize("alive", CASES)
def test_leaving_is_clean_with(python: Callable, alive: str) -> None:
    done = python("-c", PRELUDE + CASES[alive] + "\nprint('reached')", timeout=250)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("" if alive.startswith("sys.exit") else "reached\n")
