"""plugins/cuda under `ephost check`, on the make-believe driver and on a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from cuda_harness import HARDWARE, PLUGIN, no_gpu
from plugin_harness import python_path

pytestmark = [
    pytest.mark.skipif(not PLUGIN.exists(), reason="plugins/cuda is not built: there is no nvcc"),
    pytest.mark.in_process("each check isolates the plugin by itself"),
    pytest.mark.long,
    pytest.mark.timeout(900),
]


def wrong(tmp_path: Path, arguments: list[str], env: Mapping[str, str]) -> dict[str, str]:
    """What `ephost check` finds at its strictest level, by check."""
    report = tmp_path / "report.json"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "ephost",
            "check",
            str(PLUGIN),
            "--level",
            "10",
            *arguments,
            "--json",
            str(report),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": python_path(), **env},
    )
    assert report.exists(), done.stderr
    outcomes = json.loads(report.read_text())["checks"]
    assert sum(each["status"] == "pass" for each in outcomes) > 100, done.stdout
    return {
        each["check"]: each["message"]
        for each in outcomes
        if each["status"] not in ("pass", "skipped", "warning")
    }


# What takes long where kernels run thread by thread, and the memory of that driver itself.
SLOW = ("numbers.*-all", "numbers.SoftmaxCross*", "memory.*")


def test_the_make_believe_driver_shows_no_fault(fake_cuda: Path, tmp_path: Path) -> None:
    env = {
        "EPHOST_CUDA_LIBRARY": str(fake_cuda),
        "EPHOST_HARDWARE_DEVICES": json.dumps(HARDWARE[:2]),
        "EPHOST_CUBLASLT_LIBRARY": "/nowhere.so",
        "EPHOST_CUDNN_LIBRARY": "/nowhere.so",
    }
    left = [word for name in SLOW for word in ("--exclude", name)]
    assert wrong(tmp_path, ["--jobs", "1", "--timeout", "200", *left], env) == {}


@pytest.mark.gpu
def test_a_gpu_shows_no_fault(tmp_path: Path) -> None:
    if reason := no_gpu():
        pytest.skip(reason)
    assert wrong(tmp_path, ["--timeout", "60"], {}) == {}
