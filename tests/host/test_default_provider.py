"""The bundled CPU plugin behind every session: in programs of its own, as this process goes without it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from ephost.errors import Fail
from ephost.plugins import cpu, sample_kernels
from host_state import needs_newest_onnx
from onnx import TensorProto, helper, numpy_helper

pytestmark = pytest.mark.usefixtures("cpu_plugin_as_default")

PROGRAM = """
import json, sys
import numpy as np, onnx, ephost
from onnx.parser import parse_model
model = parse_model('''<ir_version: 9, opset_import: ["" : 20]>
  g (float[n, 3] x) => (float[n, 3] y, bool[n, 3] z) {
    a = Relu (x)  s = Shape (a)  y = Reshape (a, s)
    t = Cast <to = 8> (a)  z = RegexFullMatch <pattern = "(?i)[1-9]"> (t)
  }''')
options = ephost.SessionOptions()
options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
for entry in sys.argv[1:]:
    options.add_session_config_entry(*entry.split("=", 1))
options.intra_op_num_threads = 1
session = ephost.InferenceSession(model.SerializeToString(), options)
y, z = session.run(None, {"x": np.array([[-1, 2, 3]], np.float32)})
print(json.dumps({
    "y": y.tolist(), "z": z.tolist(), "providers": session.get_providers(),
    "options": session.get_provider_options(), "available": ephost.get_available_providers(),
    "devices": [(d.ep_name, d.device.type.name) for d in ephost.get_ep_devices()],
    "groups": [
        [n.op_type for n in part.get_nodes()] for part in session.get_provider_graph_assignment_info()
    ],
}))
"""


def run(*config: str, **environment: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *config],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return {"stderr": done.stderr, **json.loads(done.stdout)}


@pytest.mark.parametrize("host", ["ephost", "onnxruntime"])
def test_the_cpus_device_comes_first_as_in_onnxruntime(host: str) -> None:
    program = """
import sys, importlib
host = importlib.import_module(sys.argv[1])
host.register_execution_provider_library("sample", sys.argv[2])
print([device.ep_name for device in host.get_ep_devices()])
"""
    done = subprocess.run(
        [sys.executable, "-c", program, host, sample_kernels.get_library_path()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "['CPUExecutionProvider', 'sample_kernels']", done.stderr


def test_every_session_has_the_cpu_plugin_and_then_the_reference_fallback() -> None:
    found = run()
    assert found["providers"] == found["available"] == ["CPUExecutionProvider"]
    assert found["devices"] == [["CPUExecutionProvider", "CPU"]]
    assert found["options"] == {"CPUExecutionProvider": {"intra_op_num_threads": "1"}}
    assert found["y"] == [[0, 2, 3]]
    assert found["z"] == [[False, True, True]]
    groups = found["groups"]
    assert isinstance(groups, list)
    assert ["Relu"] in groups and ["Reshape"] in groups  # of the host's own each node by itself
    assert ["RegexFullMatch"] in groups  # nobody's but the fallback's


def test_the_environment_can_do_without_it() -> None:
    found = run(EPHOST_CPU_PLUGIN="0")
    assert found["providers"] == found["available"] == ["CPUExecutionProvider"]
    assert found["devices"] == []
    groups = found["groups"]
    assert isinstance(groups, list)
    assert all(len(group) == 1 for group in groups)
    assert found["y"] == [[0, 2, 3]]


def test_its_name_is_the_hosts_own() -> None:
    with pytest.raises(Fail, match="the host's own"):
        ephost.register_execution_provider_library("CPUExecutionProvider", cpu.get_library_path())


def test_explain_tells_what_the_plugin_says_of_a_node_that_it_does_not_claim() -> None:
    program = PROGRAM[: PROGRAM.index("y, z = session")] + "print(ephost.explain(session))"
    done = subprocess.run(
        [sys.executable, "-c", program, "ephost.record_refusals=1"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "it did not claim the node; it says: not taken: RegexFullMatch" in " ".join(done.stdout.split())


SUITE = """
import ephost.backend
from backend_suite import count
found = count(ephost.backend, ["OnnxBackendNodeModelTest"], "test_flexattention")
outcome = found["OnnxBackendNodeModelTest"]
print(len(outcome), [name for name, text in outcome.items() if text != "passed"])
"""


@needs_newest_onnx
def test_a_node_whose_outputs_have_no_known_type_is_left_to_the_reference_fallback() -> None:
    # Inference knows nothing of the tensors that FlexAttention gives its bodies; the plugin claims any Shape.
    done = subprocess.run(
        [sys.executable, "-c", SUITE],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])},
        timeout=120,
        check=False,
    )
    number, failed = done.stdout.strip().split(" ", 1)
    assert (int(number) > 10, failed) == (True, "[]"), done.stderr


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor: one thread in any case")
@pytest.mark.parametrize("providers", ["None", "['CPUExecutionProvider']"])
def test_it_uses_the_sessions_number_of_threads(providers: str) -> None:
    program = """
import os, sys
import numpy as np, ephost
from onnx.parser import parse_model
model = parse_model('''<ir_version: 8, opset_import: ["" : 17]>
  g (float[n] x) => (float[n] y) { y = Relu (x) }''')
options = ephost.SessionOptions()
options.intra_op_num_threads = int(sys.argv[1])
session = ephost.InferenceSession(model.SerializeToString(), options, eval(sys.argv[2]))
session.run(None, {"x": np.ones(1, np.float32)})
before = len(os.listdir("/proc/self/task"))
session.run(None, {"x": np.ones(1 << 22, np.float32)})
print(len(os.listdir("/proc/self/task")) - before)
"""
    for threads in (1, 2):
        done = subprocess.run(
            [sys.executable, "-c", program, str(threads), providers],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) == threads - 1


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is read in /proc")
def test_weights_of_a_file_are_in_memory_once(tmp_path: Path) -> None:
    side, layers = 2048, 6  # 16 MiB a layer
    weights = np.random.default_rng(0).normal(size=(side, side)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", [f"v{i}", f"w{i}"], [f"v{i + 1}"]) for i in range(layers)],
        "graph",
        [helper.make_tensor_value_info("v0", TensorProto.FLOAT, [1, side])],
        [helper.make_tensor_value_info(f"v{layers}", TensorProto.FLOAT, [1, side])],
        [numpy_helper.from_array(weights + i, f"w{i}") for i in range(layers)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = tmp_path / "layers.onnx"
    path.write_bytes(model.SerializeToString())
    program = """
import sys, ephost
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) << 10
ephost.InferenceSession(sys.argv[2])
before = peak()
session = ephost.InferenceSession(sys.argv[1])
print(peak() - before)
"""
    small = tmp_path / "small.onnx"
    small.write_bytes(
        helper.make_model(
            helper.make_graph(
                [graph.node[0]],
                "small",
                graph.input,
                [onnx.ValueInfoProto(name="v1")],
                [numpy_helper.from_array(weights[:, :8].copy(), "w0")],
            ),
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=9,
        ).SerializeToString()
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), str(small)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 1.4 * weights.nbytes * layers


OPENS_AND_RUNS = """
import sys

import ephost
import numpy as np
from onnx import parser

model = parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
g (float[n, 6] x) => (float[2, m] y)
<int64[1] two = {2}, int64[1] last = {-1}, int64[1] rows = {6}, int64 axis = {0}, int64 one = {1}>
{
    weights = ConstantOfShape <value = float[1] {0.5}> (rows)
    length = Gather <axis = 0> (rows, axis)
    less = Sub (length, one)
    more = Unsqueeze (less, axis)
    numbers = Cast <to = 1> (more)
    scaled = Mul (weights, numbers)
    z = Mul (x, scaled)
    shape = Concat <axis = 0> (two, last)
    y = Reshape (z, shape)
}''')
session = ephost.InferenceSession(model.SerializeToString())
y, = session.run(None, {"x": np.ones((4, 6), np.float32)})
assert y.shape == (2, 12) and (y == 2.5).all()
unwanted = ["asyncio", "concurrent.futures", "hashlib", "numpy.random", "onnx.reference", "ssl"]
print([name for name in unwanted if name in sys.modules])
"""


@needs_newest_onnx
@pytest.mark.parametrize("plugin", ["1", "0"])
def test_opening_and_running_import_nothing_that_they_do_not_need(plugin: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OPENS_AND_RUNS],
        capture_output=True,
        text=True,
        env={**os.environ, "EPHOST_CPU_PLUGIN": plugin},
        check=True,
    )
    assert done.stdout.strip() == "[]", done.stdout


FREES = """
import ephost
import numpy as np
from onnx import helper, numpy_helper, parser

model = parser.parse_model('<ir_version: 10, opset_import: ["" : 21]> '
    'g (float[1, 64] x) => (float[1, 64] y, float[64, 64] z) '
    '{ t = MatMul (x, w)  y = Add (t, b)  z = Identity (kept) }')
arrays = {"w": np.full((64, 64), 0.5), "b": np.ones(64), "kept": np.full((64, 64), 2)}
for name, array in arrays.items():
    model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
session = ephost.InferenceSession(model.SerializeToString())
nodes = [node for assignment in session._resources.assignments for node in assignment.nodes]
print([value.name for node in nodes for value in node.inputs if value.initializer is not None])
y, z = session.run(None, {"x": np.ones((1, 64), np.float32)})
assert (y == 33).all() and (z == 2).all()
"""


def test_weights_that_the_plugin_has_copied_are_freed() -> None:
    done = subprocess.run([sys.executable, "-c", FREES], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", done.stdout


PROFILED = """
import json, sys
import numpy as np, onnx, ephost
from onnx import helper
nodes = [helper.make_node("Shape", ["x"], ["y"], name="shape")] if sys.argv[2] == "shape" else [
    helper.make_node("CumSum", ["x", "axis"], ["a"], name="sums"),
    helper.make_node("Shape", ["a"], ["s"], name="shape"),
    helper.make_node("Softmax", ["a"], ["b"], name="weights"),
    helper.make_node("Reshape", ["b", "s"], ["y"], name="reshape"),
]
x, y = helper.make_tensor_value_info("x", 1, ["n", 3]), onnx.ValueInfoProto(name="y")
graph = helper.make_graph(nodes, "g", [x], [y], [helper.make_tensor("axis", 7, [], [1])])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
options = ephost.SessionOptions()
options.enable_profiling, options.profile_file_prefix = True, sys.argv[1]
session = ephost.InferenceSession(model.SerializeToString(), options)
for _ in range(2):
    session.run(None, {"x": np.ones((2, 3), np.float32)})
print(session.end_profiling())
"""


def profiled(model: str, folder: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", PROFILED, str(folder / "profile"), model],
        capture_output=True,
        text=True,
        env={**os.environ, "EPHOST_CPU_PLUGIN": "1"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    events: list[dict[str, Any]] = json.loads(Path(done.stdout.strip()).read_text())
    return events


def test_a_profile_has_each_node_of_a_compiled_group(tmp_path: Path) -> None:
    events = profiled("sums", tmp_path)
    nodes = [e for e in events if e["cat"] == "Node" and e["name"] != "reshape_kernel_time"]
    assert [(e["name"], e["args"]["op_name"]) for e in nodes] == [
        ("sums_kernel_time", "CumSum"),
        ("weights_kernel_time", "Softmax"),
    ] * 2
    assert {e["args"]["provider"] for e in nodes} == {"CPUExecutionProvider"}
    # One thread opened the session and ran it: readers of profiles show what it did in one row.
    assert len({e["tid"] for e in events}) == 1
    groups = [e for e in events if e["cat"] == "Group"]
    assert len(groups) == 2
    assert "sums" in groups[0]["args"]["nodes"]


def test_a_group_that_only_makes_shapes_is_no_node_of_a_profile(tmp_path: Path) -> None:
    events = profiled("shape", tmp_path)
    assert [e["args"]["nodes"] for e in events if e["cat"] == "Group"] == [["shape"]] * 2
    assert [e for e in events if e["cat"] == "Node"] == []


CLASH = """
import sys, importlib
import numpy as np
from onnx import parser
host = importlib.import_module(sys.argv[1])
from {module} import Fail, InvalidArgument, RuntimeException
head = '<ir_version: 8, opset_import: ["": 17]> g '
for text, feeds, kind in (
    ("(float[n] x, float[m] z) => (float[k] y) {{ y = Add(x, z) }}", {{"x": (2,), "z": (3,)}}, Fail),
    ("(float[a, b] x, float[c, d] z) => (float[e, f] y) {{ y = Gemm(x, z) }}", {{"x": (2, 3), "z": (4, 5)}},
     InvalidArgument),
):
    model = parser.parse_model(head + text).SerializeToString()
    session = host.InferenceSession(model, providers=["CPUExecutionProvider"])
    try:
        session.run(None, {{name: np.zeros(shape, np.float32) for name, shape in feeds.items()}})
    except kind as error:
        print(type(error).__name__, isinstance(error, (RuntimeException, kind)))
"""


@pytest.mark.parametrize("host", ["ephost", "onnxruntime"])
@pytest.mark.parametrize("plugin", ["0", "1"])
def test_shapes_that_clash_are_caught_as_what_onnxruntime_raises(host: str, plugin: str) -> None:
    module = "ephost.errors" if host == "ephost" else "onnxruntime.capi.onnxruntime_pybind11_state"
    done = subprocess.run(
        [sys.executable, "-c", CLASH.format(module=module), host],
        env={**os.environ, "EPHOST_CPU_PLUGIN": plugin},
        capture_output=True,
        text=True,
        timeout=120,
    )
    names = ["NodeFailed"] * 2 if host == "ephost" else ["Fail", "InvalidArgument"]
    assert done.stdout.split() == [names[0], "True", names[1], "True"], done.stderr
