"""The command line given what makes no sense: one error that names it, and nothing half-written is left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import ephost
import pytest
from click.testing import CliRunner, Result
from ephost import environment
from ephost.cli import main
from ephost.cli.compile import _files as files_beside
from ephost.errors import InvalidArgument
from ephost.plugins import sample_kernels
from onnx import parser

MODEL = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
KERNELS = sample_kernels.get_library_path()
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="such files are POSIX's")


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> Iterator[None]:
    """Commands end with their process, which here is that of all tests."""
    before = set(environment._registrations)
    yield
    for name in set(environment._registrations) - before:
        ephost.unregister_execution_provider_library(name)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(parser.parse_model(MODEL).SerializeToString())
    return path


def failed(*arguments: str | Path, code: int) -> Result:
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == code, done.output
    return done


@pytest.mark.parametrize("command", ["run", "explain", "bisect", "compare", "check"])
def test_a_seed_below_zero_is_refused(command: str, model: Path) -> None:
    rest = {"compare": [model, "cpu", "reference"], "check": ["sample_kernels"]}.get(command, [model])
    assert "'--seed'" in failed(command, *rest, "--seed", "-1", code=2).output


@POSIX
@pytest.mark.timeout(30)
@pytest.mark.parametrize("command", [["run"], ["explain", "--profile"]])
def test_an_input_is_no_pipe_and_no_device(command: list[str], model: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.npy"
    os.mkfifo(pipe)
    for file, what in ((pipe, "pipe"), ("/dev/zero", "device")):
        done = failed(*command, model, "--input", f"x={file}", code=1)
        assert f"{file} is a {what}" in done.output


@pytest.mark.parametrize("arguments", [["n" * 300], ["acme", "FOLDER", "--vendor", "\udcff"]])
def test_a_project_that_cannot_be_written_leaves_nothing(arguments: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "project"
    words = [arguments[0], folder, *arguments[2:]]
    done = CliRunner().invoke(main, ["new", *map(str, words)])
    assert isinstance(done.exception, SystemExit) and done.exit_code in (1, 2)
    assert not folder.exists()
    folder.mkdir()
    assert CliRunner().invoke(main, ["new", *map(str, words)]).exit_code in (1, 2)
    assert not list(folder.iterdir())


def test_a_registration_name_is_unicode() -> None:
    for name in ("\udcff", "a\ud800"):
        with pytest.raises(InvalidArgument, match=r"the registration name .* UTF-8"):
            ephost.register_execution_provider_library(name, KERNELS)


@POSIX
def test_files_of_plugins_and_layers_have_any_name(model: Path, tmp_path: Path) -> None:
    odd = os.fsdecode(bytes(tmp_path) + b"/lib\xff.so")
    shutil.copyfile(KERNELS, odd)
    words = [sys.executable, "-m", "ephost", "devices", "--ep", odd]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "sample_kernels" in done.stdout
    if not (Path(ephost.__file__).parent / "layers" / "libephost_layer.so").exists():
        return
    assert CliRunner().invoke(main, ["layer", "wrap", odd, "-o", f"{odd}.so"]).exit_code == 0
    assert b"plugin = " + os.fsencode(odd) in Path(f"{odd}.so.layer").read_bytes()


@POSIX
def test_a_layer_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "lib.so").mkdir()
    done = failed("layer", "wrap", KERNELS, "-o", tmp_path / "lib.so", code=1)
    assert "lib.so" in done.output and "Is a directory" in done.output


@pytest.mark.parametrize("command", ["bisect", "compare", "check"])
@pytest.mark.parametrize("seconds", ["nan", "inf", "1e400", "-1", "0"])
def test_a_time_limit_is_a_number_above_zero(command: str, seconds: str, model: Path) -> None:
    rest = {"compare": [model, "cpu", "reference"], "check": ["sample_kernels"]}.get(command, [model])
    assert "'--timeout'" in failed(command, *rest, "--timeout", seconds, code=2).output


def test_numbers_of_a_search_are_checked_in_programs_too(model: Path) -> None:
    for wrong in ({"seed": -1}, {"timeout": float("nan")}, {"timeout": 0}, {"seed": 1.5}):
        (name,) = wrong
        with pytest.raises(InvalidArgument, match=rf"^the {name} is "):
            ephost.bisect(model, "sample_kernels", **wrong)
        with pytest.raises(InvalidArgument, match=rf"^the {name} is "):
            ephost.compare(model, "cpu", "reference", **wrong)


@pytest.mark.timeout(60)
def test_a_time_limit_beyond_what_the_system_takes_is_one(model: Path) -> None:
    words = ["compare", str(model), "cpu", "reference", "--count", "1", "--timeout", "1e30"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("size", ["99999999999999999999", "4611686018427387904"])
def test_a_value_that_is_too_large_is_named(size: str, model: Path) -> None:
    text = MODEL.replace("float[2]", "float[n]")
    model.write_bytes(parser.parse_model(text).SerializeToString())
    done = failed("compare", model, "cpu", "reference", "--dim", f"n={size}", code=1)
    assert "no value can be made up for the input 'x'" in done.output


@POSIX
@pytest.mark.timeout(30)
def test_files_of_arrays_are_no_pipes(model: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.npz"
    os.mkfifo(pipe)
    done = failed("compare", model, "cpu", "reference", "--input", pipe, code=1)
    assert f"the file of arrays {pipe} is a pipe" in done.output


@POSIX
def test_compiled_models_have_a_path(model: Path, tmp_path: Path) -> None:
    assert "the model's path is empty" in failed("compile", "", "--ep", "sample_compiler", code=1).output
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    assert files_beside(str(loop / "out.onnx")) == {}


@POSIX
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_may_be_closed(closed: str, model: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "ephost", "run", str(model), "--save", str(tmp_path / "saved")]
    done = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *words], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "saved" / "y.npy").exists()
