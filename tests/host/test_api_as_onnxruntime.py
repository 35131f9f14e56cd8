"""ephost in the place of onnxruntime, for programs that import it. Each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ephost
import pytest
from api_models import add_and_relu

HOST = Path(ephost.__file__).parents[1]


def python(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(HOST)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


INSTALL = "import ephost; ephost.install_as_onnxruntime(); "


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("import onnxruntime as ort; print(ort.InferenceSession is ephost.InferenceSession)", "True"),
        (
            "import onnxruntime; print(onnxruntime.__version__, onnxruntime.get_version_string())",
            "1.32.0 1.32.0",
        ),
        (
            "from onnxruntime import InferenceSession, SessionOptions; print(SessionOptions.__module__)",
            "ephost.options",
        ),
        (
            "from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument as E; "
            "print(E is ephost.errors.InvalidArgument)",
            "True",
        ),
        (
            "import onnxruntime.capi._pybind_state as C; print(C.RunOptions is ephost.RunOptions)",
            "True",
        ),
        (
            "from onnxruntime.capi.onnxruntime_inference_collection import OrtValue; "
            "print(OrtValue is ephost.OrtValue)",
            "True",
        ),
        ("import onnxruntime.backend as b; print(b.supports_device('CPU'))", "True"),
        (
            "import onnxruntime; print('InferenceSession' in dir(onnxruntime), 'nope' in dir(onnxruntime))",
            "True False",
        ),
        ("from onnxruntime import *; print(InferenceSession.__name__)", "InferenceSession"),
        ("import importlib.util as u; print(u.find_spec('onnxruntime') is not None)", "True"),
    ],
)
def test_imports_of_onnxruntime_give_ephost(program: str, printed: str) -> None:
    assert python("-c", INSTALL + program) == printed


def test_python_parts_of_an_installed_onnxruntime_are_found_behind_ours() -> None:
    pytest.importorskip("onnxruntime")
    program = (
        "import onnxruntime.quantization.calibrate as c, onnxruntime.tools, onnxruntime.transformers; "
        "import onnxruntime.capi.onnxruntime_validation; "
        "print(c.onnxruntime.InferenceSession is ephost.InferenceSession)"
    )
    assert python("-c", INSTALL + program) == "True"


def test_a_part_that_only_an_installed_onnxruntime_has_says_what_to_install() -> None:
    program = (
        f"import sys; sys.path[:] = [{str(HOST)!r}]\n"
        "try:\n    import onnxruntime.quantization\n"
        "except ModuleNotFoundError as error:\n    print(error, error.name, sep='|')"
    )
    message, name = python("-c", INSTALL + program).split("|")
    assert "pip install onnxruntime" in message
    assert name == "onnxruntime.quantization"


@pytest.mark.parametrize("name", ["onnxruntime.training", "onnxruntime.nothing", "onnxruntime.capi.nothing"])
def test_what_no_onnxruntime_has_is_not_found(name: str) -> None:
    assert python("-c", INSTALL + f"import importlib.util as u; print(u.find_spec({name!r}))") == "None"


CHILDREN = """
import multiprocessing, subprocess, sys
import onnxruntime

CHILD = "import onnxruntime, sys; print(onnxruntime.InferenceSession.__module__)"

def host(queue):
    import onnxruntime
    queue.put(onnxruntime.InferenceSession.__module__)

if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=host, args=(queue,))
        process.start()
        print(queue.get(timeout=100))
        process.join()
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    print(done.stdout.strip())
"""


def test_processes_that_a_program_starts_are_on_ephost_too(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(CHILDREN)
    assert python("-m", "ephost.as_onnxruntime", str(program)).split() == ["ephost.session"] * 3


def test_an_interpreter_without_ephost_gets_its_own_onnxruntime(tmp_path: Path) -> None:
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime" / "__init__.py").write_text("NAME = 'its own'\n")
    program = (
        "import sys; sys.meta_path.insert(0, type('No', (), {'find_spec': staticmethod(lambda name, *_: "
        "(_ for _ in ()).throw(ImportError(name)) if name.startswith('ephost') else None)})); "
        f"sys.path[:0] = [{str(HOST / 'ephost' / 'stand_in')!r}, {str(tmp_path)!r}]; "
        "import onnxruntime; print(onnxruntime.NAME)"
    )
    assert python("-c", program) == "its own"


def test_a_version_is_found_where_onnxruntime_is_not_installed() -> None:
    program = (
        "import sys, importlib.metadata as m; "
        "without = [path for path in sys.path if not path.endswith('-packages')]; "
        f"sys.path[:] = [{str(HOST)!r}, *without]; print(m.version('onnxruntime'))"
    )
    assert python("-c", INSTALL + program) == "1.32.0"


def test_the_version_that_is_installed_stays() -> None:
    metadata = pytest.importorskip("onnxruntime")
    program = (
        "import importlib.metadata as m; "
        "print(len(list(m.distributions(name='onnxruntime'))), m.version('onnxruntime'))"
    )
    assert python("-c", INSTALL + program) == f"1 {metadata.__version__}"


def test_other_packages_are_found_as_before() -> None:
    program = "import importlib.metadata as m, numpy; print(m.version('numpy') == numpy.__version__)"
    assert python("-c", INSTALL + program) == "True"


def test_installing_after_onnxruntime_is_an_error() -> None:
    pytest.importorskip("onnxruntime")
    program = (
        "import onnxruntime, ephost\n"
        "try:\n    ephost.install_as_onnxruntime()\nexcept RuntimeError as error:\n    print(error)"
    )
    assert "imported already" in python("-c", program)


def test_uninstalling_gives_the_name_back() -> None:
    program = (
        "from ephost.as_onnxruntime import STAND_IN, uninstall_as_onnxruntime; "
        "import os, sys, onnxruntime.capi; uninstall_as_onnxruntime(); "
        "print([name for name in sys.modules if name.startswith('onnxruntime')], "
        "STAND_IN in sys.path, STAND_IN in os.environ['PYTHONPATH'])"
    )
    assert python("-c", INSTALL + program) == "[] False False"


def test_a_program_that_was_started_so_may_install_it_again(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import ephost, onnxruntime\nprint(ephost.install_as_onnxruntime())\n")
    assert python("-m", "ephost.as_onnxruntime", str(program)) == "None"


def test_a_program_and_a_module_run_with_their_arguments(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(add_and_relu())
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    (tmp_path / "program.py").write_text(
        "import sys, numpy as np, onnxruntime as ort\n"
        "from beside import NAME\n"
        "session = ort.InferenceSession(sys.argv[1], providers=ort.get_available_providers())\n"
        "x = np.ones((1, 3), np.float32)\n"
        "print(__name__, NAME, type(session).__module__, session.run(['z'], {'x': x, 'y': x})[0].tolist())\n"
    )
    expected = "__main__ beside ephost.session [[2.0, 2.0, 2.0]]"
    model = str(tmp_path / "model.onnx")
    assert python("-m", "ephost.as_onnxruntime", str(tmp_path / "program.py"), model) == expected
    module = (
        "-c",
        (
            f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from ephost.as_onnxruntime import main; "
            f"main(['-m', 'program', {model!r}])"
        ),
    )
    assert python(*module) == expected


def test_a_program_that_is_not_there_is_one_line() -> None:
    command = [sys.executable, "-m", "ephost.as_onnxruntime", "no_such_program.py"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(HOST)}, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "can't open file 'no_such_program.py': there is none\n"
