"""What plugins bring for single nodes works in a worker, or is refused with the node's name."""

from __future__ import annotations

import numpy as np
import pytest
from plugin_harness import Files, Tracer
from plugin_models import model, node

SHAPE = [2, 3]
X = np.arange(6, dtype=np.float32).reshape(SHAPE)
W = np.full(SHAPE, 10, np.float32)
RESULT = [(X * W + W).tolist()]
NODES = [node("Mul", "x w", "a", name="mul"), node("Add", "a w", "y", name="add")]
FILES: Files = {"m.onnx": model(NODES, {"x": SHAPE}, ["y"], {"w": W}), "x.npz": {"x": X}}
OPEN, RUN = ("open", {"model": "m.onnx"}), ("run", {"feeds": "x.npz"})


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPHOST_ISOLATED", "1")


def test_kernels_pack_their_weights_and_miss_the_originals(traced: Tracer) -> None:
    _, opened, *runs = traced("ephost", ["register", OPEN, RUN, RUN], "pack share", FILES)
    assert [line.split()[0] for line in opened.only("CreateKernel", "PrePack", "Store", "SetShared")] == [
        *("CreateKernel", "CreateKernel"),
        *("PrePackWeight", "StoreWeightData", "SetSharedPrePackedWeight") * 2,
    ]
    for ran in runs:
        assert ran.only("Compute") == [
            f"Compute '{name}', its second input is gone" for name in ("mul", "add")
        ]
        assert ran.value == RESULT


def test_a_kernel_that_cannot_pack_fails_the_session_by_name(traced: Tracer) -> None:
    _, opened, closed = traced("ephost", ["register", OPEN, "unregister"], "pack_fails", FILES)
    assert opened.error == "EPFail" and "'mul' (Mul)" in opened.message
    assert not closed.error


def test_recorded_runs_are_refused_by_name(traced: Tracer) -> None:
    _, opened, closed = traced("ephost", ["register", OPEN, "unregister"], "capture=1", FILES)
    assert opened.error == "NotImplemented"
    assert "graph capture" in opened.message and "'mul' (Mul)" in opened.message
    assert not closed.error
