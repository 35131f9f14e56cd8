"""The command line given what makes no sense: one error that names it, and nothing half-written is left."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import ephost
import pytest
from click.testing import CliRunner, Result
from ephost.cli import main
from ephost.errors import InvalidArgument
from ephost.plugins import sample_kernels
from onnx import parser

MODEL = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
KERNELS = sample_kernels.get_library_path()
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="such files are POSIX's")


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
    assert "'--seed'" in failed(command, *rest, "--seed", "-1", code=2).stderr


@POSIX
@pytest.mark.timeout(30)
@pytest.mark.parametrize("command", [["run"], ["explain", "--profile"]])
def test_an_input_is_no_pipe_and_no_device(command: list[str], model: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.npy"
    os.mkfifo(pipe)
    for file, what in ((pipe, "pipe"), ("/dev/zero", "device")):
        done = failed(*command, model, "--input", f"x={file}", code=1)
        assert f"the file of values {file} is a {what}" in done.stderr


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
    done = CliRunner().invoke(main, ["devices", "--ep", odd])
    assert done.exit_code == 0 and "sample_kernels" in done.stdout
    if not (Path(ephost.__file__).parent / "layers" / "libephost_layer.so").exists():
        return
    done = CliRunner().invoke(main, ["layer", "wrap", odd, "-o", f"{odd}.so"])
    assert done.exit_code == 0
    assert b"plugin = " + os.fsencode(odd) in Path(f"{odd}.so.layer").read_bytes()


@POSIX
def test_a_layer_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "lib.so").mkdir()
    done = failed("layer", "wrap", KERNELS, "-o", tmp_path / "lib.so", code=1)
    assert "lib.so" in done.stderr and "Is a directory" in done.stderr
