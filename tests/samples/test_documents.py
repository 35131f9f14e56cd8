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
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "licenses" / "README.md", *DOCS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_into_the_repository_leads_somewhere(page: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", page.read_text()) if "://" not in link]
    assert len(links) > 5 or page not in (ROOT / "README.md", ROOT / "docs" / "index.md")
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert [page.name for page in DOCS if page.name != "index.md" and f"({page.name})" not in index] == []


def test_the_page_on_architecture_names_every_module_and_every_source_of_the_c_half() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`(\w+)(?:/|\.c)?`", page))
    package = ROOT / "host" / "ephost"
    modules = {path.stem for path in package.glob("*.py")} | {
        path.parent.name for path in package.glob("*/*.py")
    }
    sources = {path.stem for path in (ROOT / "host" / "native").glob("*.c*")}
    assert sorted((modules - {"__main__"} | sources) - named) == []


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


def plain(text: str) -> list[str]:
    """Lines without what differs between machines: spaces, the processor's vendor, threads, and folders."""
    text = re.sub(r"CPU (?!- |\s)\S+ ", "CPU VENDOR ", re.sub(r"[ ]+", " ", text))
    text = re.sub(r"threads=\d+", "threads=N", text)
    return [line.strip() for line in re.sub(r"\S*/alexnet\.onnx", "alexnet.onnx", text).splitlines()]


def test_ephost_explain_in_the_readme_says_what_it_says(tmp_path: Path) -> None:
    if importlib.util.find_spec("nxrt_ep_cpu") is None:
        pytest.skip("nxrt_ep_cpu is not installed")
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    shutil.copy(light / "light_bvlc_alexnet.onnx", tmp_path / "alexnet.onnx")
    (block,) = re.findall(r"```\n(\$ ephost explain .*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    command, *shown = block.splitlines()
    done = subprocess.run(
        [sys.executable, "-m", "ephost", *command.split()[2:]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(ephost.__file__).parents[1]), "COLUMNS": "250"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = plain(done.stdout)
    at = 0
    for line in plain("\n".join(shown)):
        if line == "[...]":
            continue
        assert line in said[at:], f"{line!r} is not in what follows of\n{done.stdout}"
        at += said[at:].index(line) + 1


def test_the_first_session_of_the_guide_prints_what_it_says() -> None:
    blocks = re.findall(r"```(\w*)\n(.*?)```", (ROOT / "docs" / "getting-started.md").read_text(), re.DOTALL)
    at = next(at for at, (language, _) in enumerate(blocks) if language == "python")
    done = subprocess.run(
        [sys.executable, "-c", blocks[at][1]], capture_output=True, text=True, timeout=240, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == blocks[at + 1][1]


def test_the_model_package_of_the_page_runs_as_it_says(tmp_path: Path) -> None:
    blocks = re.findall(r"```(\w*)\n(.*?)```", (ROOT / "docs" / "model-packages.md").read_text(), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", blocks[0][1]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(ephost.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == blocks[1][1]


def test_the_readme_is_short_and_pages_on_how_things_work_are_no_diaries() -> None:
    lines = {str(page.relative_to(ROOT)): len(page.read_text().splitlines()) for page in PAGES}
    assert lines["README.md"] < 120
    assert lines["docs/cpu.md"] <= 150 and lines["docs/performance.md"] <= 150


def test_each_way_to_add_something_takes_at_most_15_lines() -> None:
    sections = re.split(r"^## ", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE)[1:]
    assert len(sections) == 6
    for section in sections:
        assert len(section.strip().splitlines()) - 1 <= 15, section.splitlines()[0]
