"""All vendors' plugins in one process, in several orders of priority: the answers stay right."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import real_models
from vendors import VENDORS


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_all_plugins_at_once_give_right_answers(turn: int, tmp_path: Path) -> None:
    # WebGPU on a CPU takes seconds for what others leave it: it comes last.
    here = [name for name in VENDORS if name != "webgpu" and not VENDORS[name].missing()]
    if len(here) < 2 or importlib.util.find_spec("onnxruntime") is None:
        pytest.skip("two plugins are not installed, or onnxruntime is not")
    models = real_models.models()
    if "cls" not in models:
        pytest.skip("rapidocr-onnxruntime is not installed")
    order = real_models.orders(here, 2 * len(here))[turn]
    if not VENDORS["webgpu"].missing():
        order = [*order, "webgpu"]
    row = real_models.compare(real_models.Row("cls", order), models["cls"], tmp_path, 250)
    assert not row.reason
    assert not row.wrong, row
    assert row.distance <= row.allowed


def test_each_order_begins_with_another_vendor() -> None:
    made = real_models.orders(["a", "b", "c"], 6)
    assert made[:3] == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]
    assert len({tuple(order) for order in made}) == 6


def test_another_shape_or_what_is_not_finite_is_infinitely_far() -> None:
    ones = np.ones(3, np.float32)
    assert real_models.distance(ones, ones) == 0
    assert real_models.distance(ones[:2], ones) == float("inf")
    assert real_models.distance(ones * np.nan, ones) == float("inf")
