"""``ephost new``: what it refuses; and what it writes builds, passes its tests and keeps to the rules."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from ephost.errors import InvalidArgument
from ephost.vendor_project import write_project
from onnx import parser

ROOT = Path(__file__).resolve().parents[2]
NAME, VENDOR = "acme_npu", "Acme & Sons"


def ephost(*arguments: str | Path, folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run ``ephost`` in a folder."""
    done = subprocess.run(
        [sys.executable, "-m", "ephost", *map(str, arguments)], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as the command writes it."""
    folder = tmp_path_factory.mktemp("new")
    said = ephost("new", NAME, "--vendor", VENDOR, folder=folder).stdout
    assert f"ephost check {NAME}" in said and "src/plugin.cc" in said
    return folder / NAME


def test_its_files_have_the_name_and_nothing_of_the_template_s(written: Path) -> None:
    files = {str(path.relative_to(written)) for path in written.rglob("*") if path.is_file()}
    assert {
        "CMakeLists.txt",
        "README.md",
        ".gitignore",
        ".github/workflows/check.yml",
        f"python/{NAME}/__init__.py",
        f"tests/test_{NAME}.py",
    } <= files
    for name in files:
        text = (written / name).read_text(encoding="utf-8")
        assert not re.search(r"my.ep\b|My Company|0\.0\.0|dot_", name + text), name
    assert f'kVendor[] = "{VENDOR}"' in (written / "src" / "host.h").read_text(encoding="utf-8")
    project = tomllib.loads((written / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["name"] == "acme-npu"
    assert any(re.fullmatch(r"ephost>=[\d.]+", needed) for needed in project["build-system"]["requires"])


def test_git_ignores_none_of_its_files(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    files = write_project("fine", tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    done = subprocess.run(
        ["git", "-C", tmp_path, "check-ignore", *files, tmp_path / "check.xml"],
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [str(tmp_path / "check.xml")]


def test_its_library_is_found_where_pip_puts_that_of_an_editable_package(
    written: Path, tmp_path: Path
) -> None:
    program = f"""import {NAME}
try:
    {NAME}.get_library_path()
except FileNotFoundError as error:
    print(error)
{NAME}.__path__.insert(0, {str(tmp_path)!r})
print({NAME}.get_library_path())"""
    library = tmp_path / f"lib{NAME}.so"
    library.write_bytes(b"")
    done = subprocess.run(
        [sys.executable, "-Bc", program], cwd=written / "python", capture_output=True, text=True, check=True
    )
    folder = written / "python" / NAME
    assert done.stdout.splitlines() == [
        f"{NAME} was not built: there is no {library.name} in {folder}",
        str(library),
    ]


def test_its_sources_are_written_as_ours_are(written: Path) -> None:
    for path in written.rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert text.endswith("\n") and not re.search(r"[ \t]\n|\t", text), path


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("My-EP", "did you mean 'my_ep'"),
        ("1st", "a letter first"),
        ("", "a letter first"),
        ("ep_", "did you mean 'ep'"),
        ("größe", "lower-case letters"),
        ("class", "keyword of Python"),
        ("json", "module of Python's own"),
        ("sample_kernels", "comes with ephost"),
        ("install", "means something else"),
        ("onnxruntime", "means something else"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_in_words(name: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(says)):
        write_project(name, tmp_path / "there")
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("vendor", ['"', "a\nb", "back\\slash", " "])
def test_a_vendor_that_no_source_can_hold_is_refused(vendor: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no name of a vendor"):
        write_project("fine", tmp_path / "there", vendor)


def test_a_folder_that_has_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("mine")
    said = ephost("new", "taken", folder=tmp_path, code=2).stderr
    assert "taken exists, and is not empty: it has 'mine.txt'" in " ".join(said.split())
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["mine.txt"]
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="no folder"):
        write_project("fine", tmp_path / "file")


def test_an_empty_folder_is_written_to_and_the_files_are_told(tmp_path: Path) -> None:
    files = write_project("fine", tmp_path)
    assert files == sorted(path for path in tmp_path.rglob("*") if path.is_file())


@dataclass
class Installed:
    """A virtual environment in which the project was installed by pip."""

    python: Path
    project: Path

    def run(self, *command: str | Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a module of the environment in the project's folder."""
        return subprocess.run(
            [self.python, "-m", *command],
            cwd=self.project,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=_plain(),
        )


def _plain() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "EPHOST"))}


@pytest.fixture(scope="module")
def installed(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The project, built and installed as its users do, with nothing from the network."""
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler")
    pytest.importorskip("scikit_build_core")
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=300)
    python = folder / "bin" / "python"
    # What this environment has, with what its own .pth files say: an editable ephost is one of them.
    theirs = sysconfig.get_path("purelib")
    purelib = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    Path(purelib, "theirs.pth").write_text(f"import site; site.addsitedir({theirs!r})\n{ROOT / 'host'}\n")
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--no-index", "--no-deps", str(written)],
        capture_output=True,
        text=True,
        timeout=900,
        env={**_plain(), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Installed(python, written)


@pytest.mark.timeout(1800)
def test_it_builds_and_its_own_tests_pass_in_both_hosts(installed: Installed) -> None:
    done = installed.run("pytest", "-q", "-p", "no:cacheprovider", timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b\d+ passed", done.stdout) and "failed" not in done.stdout


def test_why_it_leaves_a_node_is_in_an_explanation(installed: Installed) -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) {
          [first] sum = Add(x, x)  [second] y = Softmax(sum)
        }"""
    )
    path = installed.project / "left.onnx"
    path.write_bytes(model.SerializeToString())
    done = installed.run("ephost", "explain", path, "--ep", NAME)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"it says: {NAME}: node 'second' (Softmax) is not taken: its operator" in done.stdout


@pytest.mark.timeout(1800)
def test_it_passes_level_5_with_nothing_to_complain_of(installed: Installed) -> None:
    report = installed.project / "check.json"
    done = installed.run(
        "ephost", "check", NAME, "--jobs", "2", "--timeout", "200", "--json", report, timeout=1500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = {made["check"]: made for made in json.loads(report.read_text())["checks"]}
    assert {made["status"] for made in outcomes.values()} <= {"pass", "skipped"}
    # It is used, and not skipped over.
    for check in ("sessions.run", "rules.EPV-OWN", "numbers.Add", "threads.runs-at-once"):
        assert outcomes[check]["status"] == "pass", outcomes[check]
