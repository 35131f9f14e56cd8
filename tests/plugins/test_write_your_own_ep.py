"""docs/write-your-own-ep.md: its ten minutes, done as it says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from plugin_harness import ROOT, python_path

PAGE = (ROOT / "docs" / "write-your-own-ep.md").read_text()


def blocks(language: str) -> list[str]:
    """The page's code blocks in one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def run(command: list[str], folder: Path) -> str:
    """Runs a command and returns what it printed."""
    env = {**os.environ, "PYTHONPATH": python_path()}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_the_first_run_works_as_written(host: str, tmp_path: Path) -> None:
    for folder in ("cmake", "include", "plugins"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)  # which says the version
    copy, build = blocks("sh")
    run(["sh", "-ec", copy], tmp_path)
    source = tmp_path / "my_ep" / "my_ep" / "sample_kernels.c"
    renamed, count = re.subn(r"static const char kEpName\[\] = .*\n", blocks("c")[0], source.read_text())
    assert count == 1
    source.write_text(renamed)
    (tmp_path / "my_ep" / "CMakeLists.txt").write_text(blocks("cmake")[0])
    run(["sh", "-ec", build], tmp_path)
    (program,) = blocks("python")
    printed = run(
        [sys.executable, "-c", program.replace("import onnxruntime as", f"import {host} as")], tmp_path
    )
    assert printed.splitlines() == ["my_ep ['sum']", "[[2. 2. 2. 2.]", " [2. 2. 2. 2.]]"]


def test_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert links
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
