"""Files on a full disk: nothing half-written stays, what was there before does, and errors name the file."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ephost
import numpy as np
import pytest
from click.testing import CliRunner
from ephost.cli import main
from ephost.layers import trace as traces
from ephost.plugins import sample_kernels
from ephost.saving import write_bytes, write_text, written
from onnx import TensorProto, helper, numpy_helper

resource = pytest.importorskip("resource")
WEIGHTS = np.arange(20_000, dtype=np.float32).reshape(100, 200)


def model() -> bytes:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, [2, 100])],
        [value("y", TensorProto.FLOAT, [2, 200])],
        [numpy_helper.from_array(WEIGHTS, "w")],
    )
    made = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    return made.SerializeToString()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder in which no file can be larger than 16 KiB, with what the test is to write over."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for name in ("out.onnx", "out.data", "out.html"):
        (tmp_path / name).write_text("before")
    resource.setrlimit(resource.RLIMIT_FSIZE, (16384, before[1]))
    yield tmp_path
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def optimized(folder: Path) -> None:
    options = ephost.SessionOptions()
    options.optimized_model_filepath = str(folder / "out.onnx")
    ephost.InferenceSession(model(), options)


def apart(folder: Path) -> None:
    options = ephost.SessionOptions()
    options.optimized_model_filepath = str(folder / "out.onnx")
    key = "session.optimized_model_external_initializers_file_name"
    options.add_session_config_entry(key, "out.data")
    ephost.InferenceSession(model(), options)


def compiled(folder: Path) -> None:
    ephost.ModelCompiler(ephost.SessionOptions(), model()).compile_to_file(str(folder / "out.onnx"))


def adapter(folder: Path) -> None:
    made = ephost.AdapterFormat()
    made.set_parameters({"w": ephost.OrtValue.ortvalue_from_numpy(WEIGHTS)})
    made.export_adapter(folder / "out.data")


def profile(folder: Path) -> None:
    options = ephost.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(folder / "out")
    session = ephost.InferenceSession(model(), options)
    for _ in range(200):
        session.run(None, {"x": np.zeros((2, 100), np.float32)})
    session.end_profiling()


@pytest.mark.parametrize("save", [optimized, apart, compiled, adapter, profile])
def test_what_cannot_be_written_leaves_what_was_there(save: Callable[[Path], None], small_disk: Path) -> None:
    with pytest.raises(OSError) as caught:
        save(small_disk)
    assert str(small_disk / "out") in str(caught.value)
    assert {path.name: path.read_text() for path in small_disk.iterdir()} == dict.fromkeys(
        ("out.onnx", "out.data", "out.html"), "before"
    )


@pytest.mark.parametrize(
    "command", [["explain", "MODEL", "--html"], ["check", "sample_kernels", "--only", "file", "--html"]]
)
def test_a_page_that_cannot_be_written_is_one_error(
    command: list[str], small_disk: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("model") / "m.onnx"
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Abs(x) }'
    from onnx import parser

    file.write_bytes(parser.parse_model(text).SerializeToString())
    words = [str(file) if word == "MODEL" else word for word in command]
    done = CliRunner().invoke(main, [*words, str(small_disk / "out.html")])
    assert done.exit_code == 1 and "out.html" in done.output
    assert "File too large (ulimit -f allows this process 16384 bytes): " in done.output
    assert (small_disk / "out.html").read_text() == "before"
    assert len(list(small_disk.iterdir())) == 3


def test_a_file_keeps_its_permissions_and_a_link_is_followed(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("before")
    file.chmod(0o640)
    link.symlink_to(file)
    write_text(link, "after \u00e9")
    assert file.read_text(encoding="utf-8") == "after \u00e9" and link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert {path.name for path in tmp_path.iterdir()} == {"file", "link"}


def test_what_is_no_plain_file_is_written_to(tmp_path: Path) -> None:
    write_bytes("/dev/null", b"nothing")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_folder_that_is_not_there_and_a_failure_inside_are_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write_text(tmp_path / "no" / "file", "x")
    assert str(caught.value).endswith(f"{tmp_path / 'no' / 'file'}'")
    with pytest.raises(ValueError), written(tmp_path / "file") as file:
        file.write(b"half")
        raise ValueError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.in_process("it is the worker that would end")
def test_a_trace_on_a_full_disk_drops_calls_and_counts_them(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("a small disk can only be mounted by root")
    program = (
        "import ephost, sys\n"
        "for at in range(3):\n"
        "    ephost.register_execution_provider_library('a', sys.argv[1], layers=['trace=' + sys.argv[2]])\n"
        "    ephost.unregister_execution_provider_library('a')\n"
    )
    try:
        file = disk / "a.trace"
        words = [sys.executable, "-c", program, sample_kernels.get_library_path(), str(file)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done
        read = traces.TraceFile(file)
        assert read.calls and read.dropped > 0 and "had no room" in read.loss
        (disk / "filler").write_bytes(b"0" * 8000)
        file.unlink()
        (disk / "more").write_bytes(b"0" * 30_000)
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "no room on the disk for the layer's trace" in done.stderr
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("save", [optimized, compiled])
def test_what_is_no_file_is_written_and_not_replaced(save: Callable[[Path], None], tmp_path: Path) -> None:
    pipe = tmp_path / "out.onnx"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_bytes)
        save(tmp_path)
        assert pipe.is_fifo(), "a device would be a file now"
        assert b"MatMul" in read.result(30)
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.parametrize("save", [optimized, compiled])
def test_a_link_stays_one(save: Callable[[Path], None], tmp_path: Path) -> None:
    link, target = tmp_path / "out.onnx", tmp_path / "target"
    link.symlink_to("target")
    save(tmp_path)
    assert link.is_symlink() and b"MatMul" in target.read_bytes()


def test_initializers_replace_no_folder_and_no_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "out.data")
    with pytest.raises(ephost.errors.InvalidArgument, match=r"out\.data is no file"):
        apart(tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "out.data"]


def test_an_error_without_a_number_has_its_words(tmp_path: Path) -> None:
    path = tmp_path / "y.npy"
    with pytest.raises(OSError, match=f"{path}: 4000000 requested and 3968 written"), written(path):
        raise OSError("4000000 requested and 3968 written")
    assert list(tmp_path.iterdir()) == []
