"""The comparison of a folder's models on both hosts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from tests.foreign.models import Outcome, compare, judged, main

_HEAD = '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 3] x) => (float[N, M] y)'
GOOD = _HEAD + "{ y = Softmax(x) }"
# Draws other numbers on each host.
DRAWN = _HEAD + "{ y = RandomNormalLike(x) }"
# Fits with no size that is tried.
NEVER = _HEAD + "<int64[2] s = {7, 11}> { y = Reshape(x, s) }"
UNKNOWN = _HEAD + "{ y = NoSuchOperator(x) }"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inner").mkdir()
    for name, text in {"good": GOOD, "inner/drawn": DRAWN, "never": NEVER, "unknown": UNKNOWN}.items():
        onnx.save(parser.parse_model(text), tmp_path / f"{name}.onnx")
    return tmp_path


def test_each_model_is_judged(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = compare(folder, 60)
    assert {name: verdict for name, (verdict, _) in found.items()} == {
        "good.onnx": "the same",
        "inner/drawn.onnx": "at fault",
        "never.onnx": "onnxruntime does not run it",
        "unknown.onnx": "onnxruntime does not open it",
    }
    assert "another answer" in found["inner/drawn.onnx"][1]
    assert main([str(folder), "--only", "good*"]) == 0
    assert capfd.readouterr().out == "the same: 1\n"
    assert main([str(folder), "--only", "inner/*"]) == 1


ONE = [np.ones(2, np.float32)]


@pytest.mark.parametrize(
    ("here", "there", "verdict"),
    [
        (Outcome("refused"), Outcome(runs=[ONE]), "at fault"),
        (Outcome("crashed: exit status -11"), Outcome("refused"), "at fault"),
        (Outcome("took longer than 40 s"), Outcome("took longer than 40 s"), "onnxruntime does not open it"),
        (Outcome(runs=["refused"]), Outcome(runs=[ONE]), "at fault"),
        (Outcome(runs=[ONE]), Outcome(runs=["refused"]), "onnxruntime does not run it"),
        (Outcome("refused"), Outcome(runs=["refused", None]), "onnxruntime does not run it"),
        (Outcome(runs=[None]), Outcome(runs=[None]), "onnxruntime does not run it"),
        (Outcome(runs=[[np.ones(2)]]), Outcome(runs=[ONE]), "at fault"),
        (Outcome(runs=[[np.array([1, np.nan], np.float32)]]), Outcome(runs=[ONE]), "at fault"),
        (Outcome(runs=[[np.array([1, 1.001], np.float32)]]), Outcome(runs=[ONE]), "the same"),
        (Outcome(runs=[[[{1: 2.0}]]]), Outcome(runs=[[[{1: 2.0}]]]), "the same"),
    ],
)
def test_a_verdict_is_about_what_onnxruntime_did(here: Outcome, there: Outcome, verdict: str) -> None:
    assert judged(here, there)[0] == verdict
