"""Without the extra: nothing but the command's work needs it, and the command says what it lacks."""

import subprocess
import sys
from pathlib import Path

import pytest

NEEDED = ("starlette", "uvicorn", "grpc", "prometheus_client")


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def test_neither_the_package_nor_its_commands_import_what_the_server_stands_on() -> None:
    code = f"import sys, ephost, ephost.cli, ephost.session; print([n for n in {NEEDED} if n in sys.modules])"
    done = run(code)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_the_command_names_what_is_not_installed_and_the_extra(tmp_path: Path) -> None:
    for name in NEEDED:
        code = f"import sys; sys.modules[{name!r}] = None; from ephost.cli import main; main()"
        done = run(code, "serve", str(tmp_path))
        assert done.returncode == 1
        assert f"{name} is not installed: pip install 'ephost[serve]'" in done.stderr


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    for name in NEEDED:
        pytest.importorskip(name, reason="the extra ephost[serve] is not installed")
    done = run("from ephost.cli import main; main()", "serve", str(tmp_path / "models"))
    assert done.returncode == 1 and f"there is no folder {tmp_path / 'models'}" in done.stderr
    assert "Traceback" not in done.stderr
