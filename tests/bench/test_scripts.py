"""The benchmarks run, beside onnxruntime and beside another checkout. How long things take is not tested."""

from __future__ import annotations

import importlib.util
import json
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.usefixtures("cpu_plugin_as_default"),
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("onnxruntime", "nxrt_ep_cpu")),
        reason="onnxruntime or nxrt_ep_cpu is not installed",
    ),
]

ROOT = Path(__file__).parents[2]
CONVERTERS = ("sklearn", "skl2onnx", "onnxmltools", "lightgbm", "xgboost")
BESIDE_ITSELF = ("--against", str(ROOT))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    script, *rest = arguments
    command = [sys.executable, str(ROOT / "bench" / script), *rest]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ("calls.py", "--rounds", "1", "--only", "one node"),
        ("calls.py", "--rounds", "1", "--only", "sample_kernels", *BESIDE_ITSELF),
        ("io_binding.py", "--rounds", "1", "--only", "4 bound"),
        ("opening.py", "--rounds", "1", "--only", "one node,registering"),
        ("opening.py", "--rounds", "1", "--only", "one node,registering", *BESIDE_ITSELF),
        ("imports.py", "--rounds", "1"),
        ("operators.py", "--rounds", "1", "--only", "Sin,column"),
        ("shapes.py", "--rounds", "1", "--only", "rec,filters_16"),
        ("operators.py", "--rounds", "1", "--only", "Sin", "--busy"),
        pytest.param(
            ("classical.py", "--rounds", "1", "--only", "decision tree"),
            marks=pytest.mark.skipif(
                any(importlib.util.find_spec(name) is None for name in CONVERTERS),
                reason="not all of scikit-learn, its converter, LightGBM and XGBoost are installed",
            ),
        ),
        pytest.param(
            ("limits.py", "--rounds", "1", "--only", "Integer,1 x,7 x 7"),
            marks=pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler"),
        ),
        ("cpu.py", "--seconds", "0", "--quick", "--only", "light_squeezenet"),
        ("cpu.py", "--seconds", "0", "--quick", "--only", "light_squeezenet", *BESIDE_ITSELF),
    ],
    ids=lambda arguments: arguments[0] + (" against" if BESIDE_ITSELF[0] in arguments else ""),
)
def test_a_benchmark_measures_both_sides(arguments: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    done = run(*arguments, "--json", str(path))
    assert done.returncode == 0, done.stderr
    names = ("before", "after") if BESIDE_ITSELF[0] in arguments else ("onnxruntime", "ephost")
    assert all(name in done.stdout for name in names)
    for row in json.loads(path.read_text())["rows"]:
        assert "failure" not in row
        pair = row["run"] if "run" in row else [row[name] for name in names]
        assert len(pair) == 2 and min(pair) > 0


@pytest.mark.skipif(shutil.which("perf") is None, reason="there is no perf")
def test_shares_of_a_time_make_all_of_it() -> None:
    done = run("shares.py", "--seconds", "1", "--only", "one node on the CPU")
    if "perf has no samples" in done.stderr:
        pytest.skip("the system does not let perf look at processes")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    found = [int(share) for share in re.findall(r"(\d+)%", line)]
    assert len(found) == 5 and 97 <= sum(found) <= 103, line
    assert found[0] > 30, line  # the interpreter's


def test_what_onednn_is_worth_is_a_comparison_of_its_own() -> None:
    done = run("cpu.py", "--without-onednn", "--scaling")
    assert done.returncode == 2
    assert "--without-onednn is a comparison of its own" in done.stderr


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("grpc", "uvicorn", "rapidocr_onnxruntime")),
    reason="the extra ephost[serve] or rapidocr_onnxruntime is not installed",
)
def test_the_model_server_is_measured_with_batches_without_and_on_onnxruntime(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    done = run("serving.py", "--seconds", "0.3", "--rounds", "1", "--json", str(path))
    assert done.returncode == 0, done.stderr
    rows = {row.pop("name"): row for row in json.loads(path.read_text())["rows"]}
    for variant in ("batches", "no batches", "onnxruntime, batches"):
        assert rows[f"16 clients, {variant}"]["requests_per_second"] > 0
    assert rows["one client, batches"]["milliseconds"] > rows["one client, session.run"]["milliseconds"] > 0


def test_a_part_of_a_comparison_is_not_kept() -> None:
    done = run("calls.py", "--save", "--only", "one node")
    assert done.returncode == 2 and "whole comparison" in done.stderr


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    done = run("calls.py", "--against", str(tmp_path))
    assert done.returncode == 1 and f"{tmp_path} is no checkout" in done.stderr


def test_another_checkout_is_what_its_side_imports(tmp_path: Path) -> None:
    package = tmp_path / "host" / "ephost"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    code = (
        "import subprocess, sys; from harness.sides import sides; from pathlib import Path;"
        "told = [subprocess.check_output([sys.executable, '-c', 'import ephost; print(ephost.__file__)'],"
        " env=side.environment(), text=True) for side in sides(Path(sys.argv[1]))]; print(*told, sep='')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT / "bench",
    )
    assert done.stdout.split() == [
        str(package / "__init__.py"),
        str(ROOT / "host" / "ephost" / "__init__.py"),
    ]


@pytest.mark.skipif(
    not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    reason="there is no Chromium",
)
def test_frames_of_a_page_are_measured_in_a_browser(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    arguments = ("--nodes", "300", "--frames", "4", "--photographs", str(tmp_path), "--json", str(figures))
    done = run("pages.py", *arguments)
    assert done.returncode == 0, done.stderr
    rows = json.loads(figures.read_text())["rows"]
    assert len(rows) == 5 and all(row["frames"] == 4 and row["median_ms"] > 0 for row in rows)
    assert len(list(tmp_path.glob("*.png"))) == 6


LOWERED = """
import os, sys
sys.path.insert(0, sys.argv[1])
os.environ["EPHOST_CPU_ISA"] = sys.argv[2]
from harness import lowered
lowered.lower("onnxruntime")
import numpy as np, onnxruntime
from onnx import parser
header = '<ir_version: 8, opset_import: ["": 17]>'
model = parser.parse_model(header + 'g (float[9, 9] x) => (float[9, 9] y) { y = MatMul (x, x) }')
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
assert np.allclose(session.run(None, {"x": np.eye(9, dtype=np.float32)})[0], np.eye(9))
print(lowered.answered())
"""


@pytest.mark.skipif(
    platform.machine() != "x86_64"
    or not sys.platform.startswith("linux")
    or shutil.which("objdump") is None
    or shutil.which("cc") is None,
    reason="CPUID instructions are of x86-64; objdump finds them, a compiler makes what takes their place",
)
@pytest.mark.parametrize(("isa", "hidden"), [("x86-64-v3", True), ("x86-64-v4-vnni", False)])
def test_instruction_sets_are_hidden_from_onnxruntime(isa: str, hidden: bool) -> None:
    command = [sys.executable, "-c", LOWERED, str(ROOT / "bench"), isa]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    assert (int(ended.stdout) > 0) == hidden


def test_what_is_unknown_is_not_hidden() -> None:
    command = [sys.executable, "-c", LOWERED, str(ROOT / "bench"), "x86-64-v9"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode != 0
    assert "EPHOST_CPU_ISA=x86-64-v9" in ended.stderr
