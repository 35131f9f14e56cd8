"""Weights that kernels lay out anew: offered, lent, shared between sessions, and the originals freed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from plugin_harness import Files, Tracer
from plugin_models import model, node

SHAPE = [2, 3]
X = np.arange(6, dtype=np.float32).reshape(SHAPE)
W, V = np.full(SHAPE, 10, np.float32), np.full(SHAPE, 3, np.float32)
RESULT = (X * W + V).tolist()
PACKING = ("PrePackWeight", "StoreWeightData", "SetShared")


def mul_add() -> onnx.ModelProto:
    nodes = [node("Mul", "x w", "a", name="mul"), node("Add", "a v", "y", name="add")]
    return model(nodes, {"x": SHAPE}, ["y"], {"w": W, "v": V})


FILES: Files = {"m.onnx": mul_add(), "x.npz": {"x": X}, "weights.npz": {"w": W, "v": V}}
OPEN = ("open", {"model": "m.onnx"})
RUN = ("run", {"feeds": "x.npz"})


def test_every_constant_input_is_offered_after_all_kernels_are_made(host: str, traced: Tracer) -> None:
    _, opened, ran = traced(host, ["register", OPEN, RUN], "", FILES)
    assert opened.only("CreateKernel", *PACKING) == [
        "CreateKernel 'mul'",
        "CreateKernel 'add'",
        "PrePackWeight 'mul' input 1, a cache",
        "PrePackWeight 'add' input 1, a cache",
    ]
    assert ran.only("Compute") == ["Compute 'mul'", "Compute 'add'"]
    assert ran.value == [RESULT]


def test_packed_inputs_are_missing_afterwards(host: str, traced: Tracer) -> None:
    *_, first, second = traced(host, ["register", OPEN, RUN, RUN], "pack", FILES)
    for ran in (first, second):
        assert ran.only("Compute") == [
            f"Compute '{name}', its second input is gone" for name in ("mul", "add")
        ]
        assert ran.value == [RESULT]


def test_a_weight_that_a_node_of_the_host_reads_too_stays(host: str, traced: Tracer) -> None:
    nodes = [node("Mul", "x w", "a", name="mul"), node("Add", "a w", "y", name="cpu")]
    files = {"m.onnx": model(nodes, {"x": SHAPE}, ["y"], {"w": W}), "x.npz": {"x": X}}
    _, _, ran = traced(host, ["register", OPEN, RUN], "pack", files)
    assert ran.only("Compute") == ["Compute 'mul'"]
    assert ran.value == [(X * W + W).tolist()]


def test_a_weight_that_is_an_output_stays(host: str, traced: Tracer) -> None:
    made = mul_add()
    made.graph.output.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, SHAPE))
    _, _, ran = traced(host, ["register", OPEN, RUN], "pack", {**FILES, "m.onnx": made})
    assert ran.value == [RESULT, W.tolist()]


def test_what_a_run_may_replace_is_not_packed(host: str, traced: Tracer) -> None:
    made = mul_add()
    made.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, SHAPE))
    _, opened, ran = traced(host, ["register", OPEN, RUN], "pack", {**FILES, "m.onnx": made})
    assert opened.only(*PACKING) == ["PrePackWeight 'add' input 1, a cache"]
    assert ran.value == [RESULT]


def test_stored_weights_are_lent_back(host: str, traced: Tracer) -> None:
    _, opened, ran = traced(host, ["register", OPEN, RUN], "pack share", FILES)
    assert opened.only(*PACKING) == [
        line
        for name in ("mul", "add")
        for line in (
            f"PrePackWeight '{name}' input 1, a cache",
            f"StoreWeightData '{name}'",
            f"SetSharedPrePackedWeight '{name}' input 1, 1 buffer(s) of 24 bytes",
        )
    ]
    assert ran.value == [RESULT]


def test_nothing_is_offered_when_packing_is_disabled(host: str, traced: Tracer) -> None:
    off = ("open", {"model": "m.onnx", "config": {"session.disable_prepacking": "1"}})
    _, opened, ran = traced(host, ["register", off, RUN], "pack", FILES)
    assert opened.only(*PACKING) == []
    assert ran.value == [RESULT]


@pytest.mark.parametrize(
    ("mode", "error"),
    [("pack_fails", "EPFail"), ("pack share share_fails", "EPFail"), ("pack share no_lender", "Fail")],
)
def test_failing_to_pack_fails_the_session(host: str, mode: str, error: str, traced: Tracer) -> None:
    _, opened, closed = traced(host, ["register", OPEN, "unregister"], mode, FILES)
    assert opened.error == error
    assert opened.only("Release", "ReleaseEp")[-1] == "ReleaseEp"
    assert not closed.error
    if host == "ephost":
        assert "the kernel of" in opened.message and "'mul' (Mul)" in opened.message


@pytest.mark.in_process("packed weights are shared inside of a process")
def test_sessions_with_a_container_share_equal_weights(traced: Tracer) -> None:
    shared = ("open", {"model": "m.onnx", "shared": True})
    actions = [
        *("register", shared, shared, "packed_weights", RUN, ("run", {"feeds": "x.npz", "at": 1})),
        *(("close", {"at": 0}), ("run", {"feeds": "x.npz", "at": 1}), "drop_container"),
        *(("run", {"feeds": "x.npz", "at": 1}), ("close", {"at": 1}), "unregister"),
    ]
    results = traced("ephost", actions, "pack share", FILES)
    # 'w' and 'v' once, although two sessions have packed each of them
    assert results[3].value == [2, 48, 1]
    assert [done.value for done in results if done.only("Compute")] == [[RESULT]] * 4
    assert not [done.message for done in results if done.error]


@pytest.mark.in_process("packed weights are shared inside of a process")
def test_without_a_container_nothing_is_shared(traced: Tracer) -> None:
    results = traced("ephost", ["register", OPEN, OPEN, "packed_weights"], "pack share", FILES)
    assert results[3].value == [0, 0, 2]


@pytest.mark.in_process("packed weights are shared inside of a process")
def test_a_container_tells_weights_apart(traced: Tracer) -> None:
    other = model(
        [node("Mul", "x w", "a", name="mul"), node("Add", "a v", "y", name="add")],
        {"x": SHAPE},
        ["y"],
        {"w": W, "v": V + 1},
    )
    actions = ["register", *(("open", {"model": m, "shared": True}) for m in ("m.onnx", "other.onnx"))]
    actions += ["packed_weights", RUN, ("run", {"feeds": "x.npz", "at": 1})]
    results = traced("ephost", actions, "pack share", {**FILES, "other.onnx": other})
    assert results[3].value[0] == 3
    assert [results[4].value, results[5].value] == [[RESULT], [(X * W + V + 1).tolist()]]
