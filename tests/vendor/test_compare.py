"""The harness that compares hosts: what it counts as agreeing, and that a crash costs one case."""

from __future__ import annotations

import sys
from pathlib import Path

import compare
import ml_dtypes
import numpy as np
import pytest

FAKE_HOST = '''
"""A host that gives its inputs back, but dies, hangs or lies on the ops below."""
import os, time
import onnx

class SessionOptions:
    def add_session_config_entry(self, key, value): pass

class InferenceSession:
    def __init__(self, model, options):
        self.node = onnx.load_from_string(model).graph.node[0]
    def get_provider_graph_assignment_info(self):
        return []
    def run(self, names, feeds):
        if self.node.op_type == "Abs": os.abort()
        if self.node.op_type == "Ceil": time.sleep(60)
        if self.node.op_type == "Floor": raise ValueError("no floor")
        return list(feeds.values())
'''


def disagree(actual: object, expected: object) -> str:
    """What check_value finds wrong, or an empty text."""
    try:
        compare.check_value(actual, expected, 1e-3, 1e-7, "output 0")
    except compare.Difference as difference:
        return str(difference)
    return ""


def test_nan_agrees_with_nan_only() -> None:
    nan = np.array([1.0, np.nan], np.float32)
    assert disagree(nan, nan) == ""
    assert disagree(np.array([1.0, 0.0], np.float32), nan)


def test_values_agree_within_the_tolerance() -> None:
    want = np.array([100.0], np.float32)
    assert disagree(want + np.float32(0.05), want) == ""
    assert disagree(want + np.float32(0.5), want)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (np.zeros(2, np.float32), np.zeros((2, 1), np.float32)),
        (np.zeros(2, np.float64), np.zeros(2, np.float32)),
        (np.array(["a"], object), np.array(["b"], object)),
        (None, np.zeros(2, np.float32)),
        (np.zeros(2, np.float32), None),
        ([np.zeros(2)], [np.zeros(2), np.zeros(2)]),
        (np.zeros(2), [np.zeros(2)]),
        ([np.zeros(2)], np.zeros(2)),
        ({"a": np.zeros(2)}, {"b": np.zeros(2)}),
        (np.zeros(2, ml_dtypes.bfloat16), np.ones(2, ml_dtypes.bfloat16)),
        (np.zeros(2, ml_dtypes.int4), np.zeros(2, np.int8)),
    ],
)
def test_what_differs_in_shape_type_or_kind_is_found(actual: object, expected: object) -> None:
    assert disagree(actual, expected).startswith("output 0")
    assert disagree(expected, expected) == ""


@pytest.mark.parametrize("dtype", sorted(compare.ONNX_TYPE_OF, key=str), ids=str)
@pytest.mark.parametrize("count", [0, 1, 5, 8])
def test_packing_and_unpacking_give_the_elements_back(dtype: np.dtype, count: int) -> None:
    bits = compare.EXTENDED_TYPES[compare.ONNX_TYPE_OF[dtype]][1]
    elements = np.arange(count).astype(np.float32).astype(dtype)
    packed = compare._pack(elements, bits)
    assert len(packed) == (count * bits + 7) // 8
    again = compare._unpack(packed, count, bits, dtype)
    assert again.dtype == dtype
    np.testing.assert_array_equal(again.astype(np.float32), elements.astype(np.float32))


def test_int4_is_packed_with_the_first_element_in_the_low_half() -> None:
    assert compare._pack(np.array([1, -2, 3], ml_dtypes.int4), 4) == bytes([0xE1, 0x03])


def test_a_crash_or_a_hang_costs_one_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "echoing_host.py").write_text(FAKE_HOST)
    monkeypatch.syspath_prepend(tmp_path)
    patterns = [f"^test_{name}$" for name in ("abs", "ceil", "floor", "identity", "neg")]
    results = {r.name: r for r in compare.run_cases("echoing_host", None, patterns, timeout=10)}
    assert {name: result.status for name, result in results.items()} == {
        "test_abs": "crash",
        "test_ceil": "timeout",
        "test_floor": "error",
        "test_identity": "pass",
        "test_neg": "fail",
    }
    assert results["test_abs"].error.startswith("SIGABRT")
    assert results["test_floor"].error == "ValueError: no floor"
    assert "echoing_host" not in sys.modules


FALLING_HOST = '''
"""A host that drops its plugin when a run fails on it, and says so in one of two ways."""
import warnings
import onnx

class FallbackWarning(RuntimeWarning): pass

class Device: ep_name = "plugin"

class SessionOptions:
    def add_session_config_entry(self, key, value): pass
    def add_provider_for_devices(self, devices, options): pass

devices = []
def get_ep_devices(): return list(devices)
def register_execution_provider_library(name, path): devices.append(Device())

class InferenceSession:
    def __init__(self, model, options):
        self.node = onnx.load_from_string(model).graph.node[0]
        self.providers = ["plugin", "CPU"]
    def get_provider_graph_assignment_info(self): return []
    def get_providers(self): return self.providers
    def run(self, names, feeds):
        if self.node.op_type != "Identity":
            self.providers = ["CPU"]
        if self.node.op_type == "Neg":
            print("EP Error: it printed this")
        if self.node.op_type == "Floor":
            warnings.warn("it warned of this", FallbackWarning)
            raise ValueError("and failed")
        return [-feeds["x"] if self.node.op_type == "Neg" else feeds["x"]]
'''


def test_what_ran_without_the_plugin_since_it_failed_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "falling_host.py").write_text(FALLING_HOST)
    monkeypatch.syspath_prepend(tmp_path)
    patterns = [f"^test_{name}$" for name in ("floor", "identity", "neg")]
    plugin = compare.Plugin("plugin", "library", {})
    found = compare.run_cases("falling_host", plugin, patterns, timeout=60)
    assert {r.name: (r.status, r.fallback) for r in found} == {
        "test_floor": ("error", "it warned of this"),
        "test_identity": ("pass", ""),
        "test_neg": ("pass", "EP Error: it printed this"),
    }
    assert {r.name for r in found if r.seconds is not None} == {"test_identity"}
    text = compare.summary("here", found)
    assert "| 3 | 2 | 0 | 1 | 0 | 0 | 0 | 2 | 0 |" in text
    assert "- `test_neg`: pass without the plugin: EP Error: it printed this" in text
    there = [compare.Result("test_neg", "pass"), compare.Result("test_identity", "pass")]
    assert compare.regressions(found, there)["fallbacks"] == ["test_neg: EP Error: it printed this"]


def test_a_host_that_is_not_there_is_said() -> None:
    with pytest.raises(SystemExit, match="no_such_host"):
        compare.run_cases("no_such_host", None, ["^test_abs$"])


def test_losing_a_case_or_a_claim_is_a_regression() -> None:
    there = [
        compare.Result("a", "pass", claimed=1),
        compare.Result("b", "pass", claimed=2),
        compare.Result("c", "fail"),
        compare.Result("d", "pass"),
        compare.Result("only_there", "pass"),
    ]
    here = [
        compare.Result("a", "fail", "off by one", claimed=1),
        compare.Result("b", "pass", claimed=0),
        compare.Result("c", "crash"),
        compare.Result("d", "fail", random=True),
    ]
    found = compare.regressions(here, there)
    assert found["fails"] == ["a: fail: off by one"]
    assert found["unclaimed"] == ["b: 2 there, 0 here; pass"]
