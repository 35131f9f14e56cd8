"""A session needs onnx's compiled half alone, and that is one and the same for whoever imports onnx."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from ephost import onnx_library
from onnx import parser

_OPEN = """
import sys, threading
import numpy as np
import ephost
def run():
    session = ephost.InferenceSession(sys.argv[1])
    assert session.run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [-2.0, -2.0]
"""
_IS_ONE = """
import onnx.onnx_cpp2py_export.defs as defs
from onnx import defs as public
from ephost.onnx_library import extension
assert extension() is onnx.onnx_cpp2py_export is sys.modules["onnx.onnx_cpp2py_export"]
assert extension().defs is defs and isinstance(extension().defs.get_schema("Neg", 13, ""), public.OpSchema)
onnx.checker.check_model(onnx.shape_inference.infer_shapes(onnx.load(sys.argv[1])))
assert not [finder for finder in sys.meta_path if type(finder).__module__.startswith("ephost")]
"""


def _process(path: Path, program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def model(tmp_path: Path) -> Path:
    text = """<ir_version: 10, opset_import: ["" : 21]>
        g (float[2] x) => (float[2] y) <float[1] two = {2}> { t = Neg(x) \n y = Mul(t, two) }"""
    path = tmp_path / "model.onnx"
    path.write_bytes(parser.parse_model(text).SerializeToString())
    return path


def test_a_session_imports_neither_onnx_nor_protobuf(model: Path) -> None:
    found = "[name for name in sys.modules if name == 'onnx' or name.startswith('google')]"
    _process(model, f"{_OPEN}run()\nassert not {found}, {found}")


def test_onnx_finds_the_extension_that_a_session_has_loaded(model: Path) -> None:
    _process(model, f"{_OPEN}run()\nimport onnx\n{_IS_ONE}run()")


def test_a_session_finds_the_extension_that_onnx_has_loaded(model: Path) -> None:
    _process(model, f"import onnx\n{_OPEN}run()\n{_IS_ONE}")


def test_onnx_is_imported_where_the_extension_cannot_be_loaded_without_it(model: Path) -> None:
    # as on Windows, where the package's import says where the extension's libraries are
    _process(
        model,
        f"""{_OPEN}
from ephost import onnx_library
load = onnx_library._load
def needs_onnx(path):
    if "onnx" not in sys.modules:
        raise ImportError("DLL load failed")
    return load(path)
onnx_library._load = needs_onnx
run()
import onnx
{_IS_ONE}""",
    )


@pytest.mark.threads
def test_sessions_and_imports_at_once_load_one_extension(model: Path) -> None:
    _process(
        model,
        f"""{_OPEN}
def load():
    import onnx.helper
threads = [threading.Thread(target=work) for work in (run, load, run, load)]
for thread in threads: thread.start()
for thread in threads: thread.join()
import onnx
{_IS_ONE}""",
    )


def test_versions_are_those_of_the_installed_onnx() -> None:
    assert onnx_library.version() == onnx.__version__
    for asked in range(1, 40):
        known = onnx_library.newest_ir_version(asked)
        assert (asked <= known) == (asked <= onnx.IR_VERSION)
