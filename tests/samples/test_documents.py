"""What README.md and docs/ show is so: links lead somewhere, and the README's program prints what it says."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import ephost
import onnx
import pytest

pytestmark = pytest.mark.usefixtures("cpu_plugin_as_default")

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_into_the_repository_leads_somewhere(page: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", page.read_text()) if "://" not in link]
    assert len(links) > 5 or page.name not in ("README.md", "index.md")
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert [
        page.name for page in PAGES[1:] if page.name != "index.md" and f"({page.name})" not in index
    ] == []


def test_the_program_in_the_readme_prints_what_the_readme_says(tmp_path: Path) -> None:
    if importlib.util.find_spec("nxrt_ep_cpu") is None:
        pytest.skip("nxrt_ep_cpu is not installed")
    blocks = re.findall(r"```(\w*)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    at = next(at for at, (language, _) in enumerate(blocks) if language == "python")
    program, expected = blocks[at][1], blocks[at + 1][1]
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    shutil.copy(light / "light_bvlc_alexnet.onnx", tmp_path / "alexnet.onnx")
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(ephost.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.replace(str(tmp_path), "/models") == expected
