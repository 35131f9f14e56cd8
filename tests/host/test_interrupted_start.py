"""Ctrl-C while the command starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

# As if somebody pressed the keys when a module is looked for.
INTERRUPT = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""
SCRIPT = """
import sys
from ephost.cli import main
sys.exit(main())
"""
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")


def start(tmp_path: Path, module: str, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Starts a command that is interrupted when it imports a module."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT.format(module=module))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {**os.environ, "PYTHONPATH": path}
    # Tests that run in the background have been told to ignore it.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("module", ["ephost._bindings", "click", "ephost.cli.serve"])
@pytest.mark.parametrize("as_module", [False, True])
def test_no_traceback_is_printed(tmp_path: Path, module: str, as_module: bool) -> None:
    script = tmp_path / "ephost"
    script.write_text(SCRIPT)
    ended = start(tmp_path, module, ["-m", "ephost", "devices"] if as_module else [str(script), "devices"])
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


def test_a_program_that_imports_the_package_is_interrupted_as_ever(tmp_path: Path) -> None:
    program = "try:\n    import ephost\nexcept KeyboardInterrupt:\n    print('interrupted')"
    assert start(tmp_path, "ephost._bindings", ["-c", program]).stdout == "interrupted\n"


def test_ctrl_c_is_pythons_again_when_the_command_runs(tmp_path: Path) -> None:
    script = tmp_path / "ephost"
    script.write_text(
        "import signal\nfrom ephost.cli import main\n"
        "assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL\n"
        "try:\n    main(['devices'])\nexcept SystemExit:\n    pass\n"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    )
    assert start(tmp_path, "nothing", [str(script)]).stdout.endswith("True\n")
