"""What the plugin does so that a process is no larger than it must be."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from ephost.plugins import cpu
from onnx import helper

from tests.plugins.cpu.conftest import WITH_ONEDNN, Cpu, make_model

# Runs a model, or loads a library, and prints where oneDNN's library is, if it is there, and KB of the pages
# of its code that are in the process.
PAGES = """
import ctypes, re, sys
if sys.argv[1].endswith(".onnx"):
    import ephost, numpy
    session = ephost.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    session.run(None, {x.name: numpy.ones(x.shape, numpy.float32) for x in session.get_inputs()})
else:
    ctypes.CDLL(sys.argv[1])
path, pages, code = "", 0, False
for line in open("/proc/self/smaps"):
    if head := re.match(r"[0-9a-f]+-[0-9a-f]+ (\\S+) \\S+ \\S+ \\S+ *(.*)", line):
        code = "x" in head[1] and "libdnnl" in head[2]
        path = head[2] if code else path
    elif code and line.startswith("Rss:"):
        pages += int(line.split()[1])
print(path)
print(pages)
"""


def pages(opened: Path | str) -> tuple[str, int]:
    """Where oneDNN's library is, and KB of its code in a process that has run or loaded this."""
    command = [sys.executable, "-c", PAGES, str(opened)]
    environment = {**os.environ, "EPHOST_CPU_PLUGIN": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    path, found = done.stdout.split("\n")[:2]
    return path, int(found)


@pytest.fixture
def pooled(tmp_path: Path) -> Path:
    """A model of an operator that oneDNN has kernels for."""
    x = np.ones((1, 8, 9, 9), np.float32)
    path = tmp_path / "lrn.onnx"
    path.write_bytes(
        make_model([helper.make_node("LRN", ["x"], ["y"], size=3)], {"x": x}, ["y"]).SerializeToString()
    )
    return path


linux_with_onednn = pytest.mark.skipif(
    sys.platform != "linux" or not WITH_ONEDNN, reason="reads /proc, and oneDNN is no part of every build"
)


@linux_with_onednn
def test_onednn_is_loaded_for_models_that_need_it_alone(pooled: Path, tmp_path: Path) -> None:
    small = tmp_path / "add.onnx"
    add = make_model([helper.make_node("Add", ["x", "x"], ["y"])], {"x": np.ones(3, np.float32)}, ["y"])
    small.write_bytes(add.SerializeToString())
    assert pages(small) == ("", 0)
    assert pages(pooled)[0]


GRAIN = """
import ctypes, re, sys

ctypes.CDLL(sys.argv[1])

def code():
    for line in open("/proc/self/smaps"):
        if head := re.match(r"([0-9a-f]+)-([0-9a-f]+) (\\S+) .*libdnnl", line):
            found = (int(head[1], 16), int(head[2], 16)) if "x" in head[3] else None
        elif line.startswith("Rss:") and found:
            return *found, int(line.split()[1])
        elif re.match(r"[0-9a-f]+-", line):
            found = None

start, end, _ = code()
libc = ctypes.CDLL(None)
assert libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), 4) == 0
for at in range(64):
    ctypes.string_at(start + (end - start) // 64 * at, 1)
print(code()[2] // 64)
"""


def grain(path: str) -> int:
    """KB of a library's code that come into a process for each byte of it that is touched, on average."""
    command = [sys.executable, "-c", GRAIN, path]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@linux_with_onednn
def test_code_that_only_constructors_ran_is_let_go_of(pooled: Path) -> None:
    path, left = pages(pooled)
    if (piece := grain(path)) > 80:  # otherwise 16 pages around it
        pytest.skip(f"the system maps {piece} KB of this file at once, as it has read it in large pieces")
    _, loaded = pages(path)
    assert left < loaded / 3, (left, loaded)


@linux_with_onednn
def test_a_plugin_whose_onednn_is_missing_says_so(pooled: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone" / "libcpu.so"
    alone.parent.mkdir()
    shutil.copy(cpu.get_library_path(), alone)
    program = """
import sys, ephost
ephost.register_execution_provider_library("copy", sys.argv[1])
devices = [device for device in ephost.get_ep_devices() if device.ep_name == "copy"]
options = ephost.SessionOptions()
options.add_provider_for_devices(devices, {})
try:
    ephost.InferenceSession(sys.argv[2], options)
except Exception as error:
    print(type(error).__name__, error)
"""
    command = [sys.executable, "-c", program, str(alone), str(pooled)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    missing = alone.with_name("libcpu_onednn.so")
    assert f"oneDNN, which this node runs on, cannot be loaded: {missing}" in said, said
    assert "LRN" in said


def tied(rows: int, columns: int) -> tuple[list[onnx.NodeProto], dict[str, np.ndarray]]:
    """A look-up in a table, and a product by the same table transposed, as language models end with."""
    table = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"]),
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Transpose", ["table"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["r", "turned"], ["y"]),
    ]
    return nodes, {"table": table}


# Opens a model a number of times, runs each session, and prints KB of memory for which large pages are asked,
# with all of them and when they are gone.
LARGE_PAGES = """
import sys
import ephost, numpy

def asked():
    total = size = 0
    for line in open("/proc/self/smaps"):
        if line.startswith("Size:"):
            size = int(line.split()[1])
        elif line.startswith("VmFlags:") and "hg" in line.split():
            total += size
    return total

sessions = [
    ephost.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"]) for _ in range(int(sys.argv[2]))
]
for session in sessions:
    session.run(None, {x.name: numpy.ones(x.shape, numpy.float32) for x in session.get_inputs()})
print(asked())
del session, sessions
print(asked())
"""


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="the system has no large pages"
)
@pytest.mark.resources
@pytest.mark.parametrize(("rows", "sessions", "asked"), [(2048, 1, 8192), (128, 1, 8192), (128, 20, 16384)])
def test_weights_lie_in_large_pages(tmp_path: Path, rows: int, sessions: int, asked: int) -> None:
    """Of 1,024 columns: large ones in pages of their own, small ones in 8 MiB that 16 of them share."""
    x = np.ones((1, rows), np.float32)
    path = tmp_path / "product.onnx"
    path.write_bytes(
        make_model(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            {"x": x},
            ["y"],
            {"w": np.ones((rows, 1024), np.float32)},
        ).SerializeToString()
    )
    # Memory that is given back leaves the process at once.
    environment = {**os.environ, "EPHOST_CPU_PLUGIN": "1", "MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
    command = [sys.executable, "-c", LARGE_PAGES, str(path), str(sessions)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert [int(line) for line in done.stdout.split()] == [asked, 0]


@pytest.mark.parametrize("fusion", [1, 0])
def test_products_by_large_transposed_constants(cpu_plugin: Any, fusion: int) -> None:
    nodes, constants = tied(700, 512)
    ids = np.array([[1, 699, 3], [0, 5, 5]])
    cpu_plugin.check(nodes, {"ids": ids}, constants=constants, fusion=fusion, atol=1e-3)
    # Another reader, or one that cannot take it transposed.
    nodes.append(helper.make_node("ReduceMax", ["turned"], ["m"], keepdims=0))
    cpu_plugin.check(nodes, {"ids": ids}, ("y", "m"), constants=constants, fusion=fusion, atol=1e-3)
    nodes[3:] = [helper.make_node("Add", ["turned", "r"], ["y"])]
    constants = {"table": np.resize(constants["table"], (600, 512))}
    nodes[0] = helper.make_node("Expand", ["ids", "shape"], ["x"])
    nodes[1] = helper.make_node("Cast", ["x"], ["r"], to=onnx.TensorProto.FLOAT)
    constants["shape"] = np.array([512, 600])
    cpu_plugin.check(nodes, {"ids": ids[:1, :1]}, constants=constants, fusion=fusion)


PEAK = """
import sys
import ephost
import numpy as np

def status(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key))

def run(path):
    session = ephost.InferenceSession(path)
    types = {"tensor(int64)": np.int64, "tensor(uint8)": np.uint8}
    session.run(None, {i.name: np.ones((1, *i.shape[1:]), types[i.type]) for i in session.get_inputs()})

run(sys.argv[1])
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
run(sys.argv[2])
print(status("VmHWM") - before)
"""


def saved(nodes: list[onnx.NodeProto], taken: Any, constants: dict[str, np.ndarray], path: Path) -> str:
    graph = helper.make_graph(
        nodes,
        "graph",
        [taken],
        [onnx.ValueInfoProto(name="y")],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return str(path)


def peak(paths: list[str]) -> int:
    """KB that opening and running the second model adds to a process that did so with the first."""
    command = [sys.executable, "-c", PEAK, *paths]
    environment = {**os.environ, "EPHOST_CPU_PLUGIN": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return int(done.stdout)


def growth(nodes: list[onnx.NodeProto], taken: Any, sizes: list[dict[str, np.ndarray]], folder: Path) -> int:
    """KB that opening and running a model with the larger constants add to a process that did so before."""
    return peak([saved(nodes, taken, constants, folder / f"{at}.onnx") for at, constants in enumerate(sizes)])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_weights_of_an_embedding_and_an_output_layer_are_never_there_three_times(tmp_path: Path) -> None:
    taken = helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, [1, 3])
    sizes = [tied(rows, 512)[1] for rows in (64, 16384)]
    times = growth(tied(1, 1)[0], taken, sizes, tmp_path) / (sizes[1]["table"].nbytes / 1024)
    assert 0.5 < times < 2.6


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("open_shape", [False, True])
def test_integer_weights_are_there_once_when_they_are_packed(tmp_path: Path, open_shape: bool) -> None:
    nodes = [helper.make_node("MatMulInteger", ["x", f"w{i}"], [f"p{i}"]) for i in range(6)]
    nodes.append(helper.make_node("Concat", [f"p{i}" for i in range(6)], ["y"], axis=0))
    rows: Any = "rows" if open_shape else 1
    taken = helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [rows, 2048])
    sizes = [{f"w{i}": np.full((2048, columns), i, np.int8) for i in range(6)} for columns in (8, 4096)]
    times = growth(nodes, taken, sizes, tmp_path) / (6 * 2048 * 4096 / 1024)
    # Besides, what the system maps of the file around each while it is packed.
    assert 0.5 < times < 1.9


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("inside", [False, True])
def test_weights_that_a_body_packs_are_there_once(tmp_path: Path, inside: bool) -> None:
    """In the graph around it they were kept beside the packed ones; its own were copied twice."""
    taken = helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [1, 2048])
    cases = []
    for columns in (8, 4096):
        weights = {f"w{i}": np.full((2048, columns), i, np.int8) for i in range(6)}
        tensors = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
        nodes = [helper.make_node("MatMulInteger", ["x", f"w{i}"], [f"p{i}"]) for i in range(6)]
        nodes.append(helper.make_node("Concat", [f"p{i}" for i in range(6)], ["b"], axis=0))
        made = [onnx.ValueInfoProto(name="b")]
        body = helper.make_graph(nodes, "body", [], made, tensors if inside else [])
        other = helper.make_graph([helper.make_node("Cast", ["x"], ["b"], to=6)], "other", [], made)
        condition = helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0)
        to_bool = helper.make_node("Cast", ["m"], ["c"], to=9)
        choice = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=other)
        cases.append(([condition, to_bool, choice], {} if inside else weights))
    paths = [
        saved(nodes, taken, constants, tmp_path / f"{at}.onnx") for at, (nodes, constants) in enumerate(cases)
    ]
    times = peak(paths) / (6 * 2048 * 4096 / 1024)
    assert 0.5 < times < 1.9


@pytest.mark.resources
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("open_shape", [False, True])
def test_matrices_of_halves_are_not_all_there_in_two_forms(tmp_path: Path, open_shape: bool) -> None:
    """In 16 bits, in 32 and packed: 5 times. Each goes as the next is made, one matrix after the other."""
    size, count = 1024, 24
    nodes = [helper.make_node("Cast", ["ids"], ["h"], to=onnx.TensorProto.FLOAT16)]
    nodes.append(helper.make_node("MatMul", ["h", "first"], ["p0"]))
    nodes += [helper.make_node("MatMul", [f"p{i}", f"w{i}"], [f"p{i + 1}"]) for i in range(count)]
    nodes.append(helper.make_node("ReduceMax", [f"p{count}"], ["y"]))
    taken = helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["rows" if open_shape else 1, 3])
    sizes = [
        {"first": np.ones((3, n), np.float16)} | {f"w{i}": np.eye(n, dtype=np.float16) for i in range(count)}
        for n in (8, size)
    ]
    times = growth(nodes, taken, sizes, tmp_path) / (count * size * size * 2 / 1024)
    assert 2 < times < 4, times


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.resources
def test_choosing_bytes_takes_no_list_of_their_places(tmp_path: Path) -> None:
    """Eight bytes for each that was chosen."""
    nodes = [
        helper.make_node("Cast", ["x"], ["c2"], to=onnx.TensorProto.BOOL),
        helper.make_node("Squeeze", ["c2"], ["c"]),
        helper.make_node("Compress", ["x", "c"], ["y"], axis=1),
    ]
    x = [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [1, n]) for n in (100, 32 << 20)]
    paths = [saved(nodes, each, {}, tmp_path / f"{at}.onnx") for at, each in enumerate(x)]
    assert peak(paths) < 200 << 10  # of which the input, the condition and the output are 96 MB


@pytest.mark.resources
@pytest.mark.skipif(sys.platform == "win32", reason="Windows limits no process's addresses this way")
def test_a_stack_that_is_declared_larger_than_memory_costs_none_before_it_is_there(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    for a, b in (([2**31, 3, 4, 8], [3, 8, 16]), ([2**31, 3, 4, 1], [3, 1, 1])):
        kind = onnx.TensorProto.FLOAT if a[-1] == 8 else onnx.TensorProto.INT32
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["a", "b"], ["y"])],
            "g",
            [value("a", kind, a), value("b", kind, b)],
            [onnx.ValueInfoProto(name="y")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        path = tmp_path / f"{kind}.onnx"
        path.write_bytes(model.SerializeToString())
        # A table of 2^31 * 3 rows would not fit.
        code = (
            "import ephost, resource\n"
            "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
            f"ephost.InferenceSession({str(path)!r})\n"
        )
        made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr


def table(path: Path, external: str | None, offset: int = 0, rows: int = 8192) -> np.ndarray:
    """Writes a model that takes rows of a table, in its own file or from this byte on in another."""
    rng = np.random.default_rng(0)
    values = np.tile(rng.standard_normal((64, 1024), dtype=np.float32), (rows // 64, 1))
    tensor = onnx.numpy_helper.from_array(values, "table")
    if external is not None:
        (path.parent / external).write_bytes(bytes(offset) + tensor.raw_data)
        onnx.external_data_helper.set_external_data(tensor, external, offset, values.nbytes)
        tensor.ClearField("raw_data")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 1024])],
        [tensor],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return values


ANONYMOUS = """
import sys
import ephost
import numpy as np

def anonymous():
    lines = open("/proc/self/status")
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

def sessions(path):
    made = [ephost.InferenceSession(path) for _ in range(3)]
    for session in made:
        assert session.run(None, {"ids": np.array([0, 63])})[0].shape == (2, 1024)
    return made

sessions(sys.argv[1])
before = anonymous()
kept = sessions(sys.argv[2])
print(anonymous() - before)
"""


@pytest.mark.resources
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_table_in_a_file_of_its_own_stays_there(tmp_path: Path) -> None:
    """32 MiB in each of three sessions, which need two rows."""
    table(tmp_path / "small.onnx", "small.bin", rows=64)
    table(tmp_path / "large.onnx", "large.bin", 4)
    done = subprocess.run(
        [sys.executable, "-c", ANONYMOUS, str(tmp_path / "small.onnx"), str(tmp_path / "large.onnx")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "EPHOST_CPU_PLUGIN": "1"},
    )
    assert int(done.stdout) < 8 << 10


@pytest.mark.parametrize("offset", [0, 4, 2])
def test_a_table_that_stays_in_its_file_is_read_there(cpu_plugin: Cpu, tmp_path: Path, offset: int) -> None:
    """Also where no number begins at a multiple of its size."""
    values = table(tmp_path / "m.onnx", "m.bin", offset, rows=512)
    session = cpu_plugin.session(tmp_path / "m.onnx")
    (found,) = session.run(None, {"ids": np.array([511, 3])})
    np.testing.assert_array_equal(found, values[[511, 3]])


def test_a_model_may_be_written_anew_while_it_is_open(cpu_plugin: Cpu, tmp_path: Path) -> None:
    values = table(tmp_path / "m.onnx", None, rows=512)
    session = cpu_plugin.session(tmp_path / "m.onnx")
    (tmp_path / "m.onnx").write_bytes(b"")
    (found,) = session.run(None, {"ids": np.array([511, 3])})
    np.testing.assert_array_equal(found, values[[511, 3]])
