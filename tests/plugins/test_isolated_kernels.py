"""What plugins bring for single nodes works in a worker, or is refused with the node's name."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from ephost.errors import Fail
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


def looping() -> onnx.ModelProto:
    """y: where c, x + w doubled and added to x three times; else x * x."""
    return onnx.parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 17]>
    g (bool c, float[2, 3] x) => (float[2, 3] y)
    <int64 n = {3}, bool on = {1}, float[1] w = {10}>
    {
        [if] y = If (c) <
            then_branch = then () => (float[2, 3] t) {
                [shifted] s = Add (x, w)
                [loop] t = Loop (n, on, s) <body = around (int64 i, bool going, float[2, 3] v)
                    => (bool still, float[2, 3] next) {
                        still = Identity (going)
                        [double] d = Add (v, v)
                        [more] next = Add (d, x)
                    }>
            },
            else_branch = other () => (float[2, 3] e) { [square] e = Mul (x, x) }
        >
    }
    """)


@pytest.mark.parametrize("chosen", [True, False])
def test_nodes_with_bodies_are_the_plugins_as_in_one_process(
    traced: Tracer, monkeypatch: pytest.MonkeyPatch, chosen: bool
) -> None:
    files: Files = {"m.onnx": looping(), "x.npz": {"c": np.array(chosen), "x": X}}
    seen = []
    for isolated in ("0", "1"):
        monkeypatch.setenv("EPHOST_ISOLATED", isolated)
        _, opened, ran, closed = traced("ephost", ["register", OPEN, RUN, ("close", {})], "control", files)
        assert not opened.error, opened.message
        kinds = {
            ep: sorted(t for own, types in opened.value if own == ep for t in types) for ep, _ in opened.value
        }
        seen.append(
            (
                kinds,
                ran.value,
                ran.only("Compute"),
                sorted(opened.only("Create")),
                closed.only("Release of the helper"),
            )
        )
    assert seen[0] == seen[1]
    kinds, values, *_ = seen[1]
    assert kinds["trace"] == ["Add", "Add", "Add", "If", "Loop", "Mul"]
    expected = 8 * (X + 10) + 7 * X if chosen else X * X
    assert values == [expected.tolist()]


def test_a_kernel_of_the_plugins_own_for_a_node_with_bodies_is_refused_by_name(traced: Tracer) -> None:
    files: Files = {"m.onnx": looping(), "x.npz": {"c": np.array(True), "x": X}}
    _, opened, closed = traced("ephost", ["register", OPEN, "unregister"], "control own_bodies", files)
    assert opened.error == "NotImplemented"
    assert "by a kernel of its own" in opened.message and "'loop' (Loop)" in opened.message
    assert not closed.error


DOMAIN = "test.trace"


def wide(count: int) -> onnx.ModelProto:
    """y0 = y1 = ... = x + x."""
    names = [f"y{at}" for at in range(count)]
    return model([node("Add", "x x", name) for name in names], {"x": [4]}, names)


def test_runs_take_in_proportion_to_outputs(plugin_library: Callable[[str], Path]) -> None:
    """Of one group with all of them: thirty times as many took a thousand times as long."""
    quickest = {}
    ephost.register_execution_provider_library("wide", plugin_library("sample_kernels"))
    try:
        for count in (500, 16000):
            session = open_wide(wide(count))
            times = []
            for _ in range(5):
                start = time.perf_counter()
                outputs = session.run(None, {"x": np.full(4, 3, np.float32)})
                times.append(time.perf_counter() - start)
            assert len(outputs) == count
            assert all((output == 6).all() for output in outputs)
            quickest[count] = min(times)
            session.close()
    finally:
        ephost.unregister_execution_provider_library("wide")
    assert quickest[16000] < 250 * quickest[500]


def test_opening_takes_in_proportion_to_groups(plugin_library: Callable[[str], Path]) -> None:
    """A group for each node: sixteen times as many took more than a hundred times as long."""
    took = {}
    ephost.register_execution_provider_library("wide", plugin_library("sample_compiler"))
    try:
        for count in (250, 4000):
            made = wide(count)
            for each in made.graph.node:
                each.op_type = "Mul"
            start = time.perf_counter()
            session = open_wide(made)
            took[count] = time.perf_counter() - start
            outputs = session.run(None, {"x": np.full(4, 3, np.float32)})
            assert all((output == 9).all() for output in outputs)
            session.close()
    finally:
        ephost.unregister_execution_provider_library("wide")
    assert took[4000] < 50 * took[250]


def test_a_tensor_that_finds_no_room_names_the_setting(plugin_library: Callable[[str], Path]) -> None:
    library = plugin_library("sample_kernels")
    ephost.register_execution_provider_library("wide", library, isolated={"shared_bytes": 1 << 20})
    try:
        session = open_wide(model([node("Add", "x x", "y")], {"x": ["n"]}, ["y"]))
        for count in (1 << 18, 1 << 17, 1 << 19):  # does not fit, fits but for its output, is more than all
            with pytest.raises(Fail, match=rf"{count * 4} bytes find no room.*shared_bytes"):
                session.run(None, {"x": np.ones(count, np.float32)})
            np.testing.assert_array_equal(session.run(None, {"x": np.ones(3, np.float32)})[0], [2, 2, 2])
        session.close()
    finally:
        ephost.unregister_execution_provider_library("wide")


def open_wide(made: onnx.ModelProto) -> ephost.InferenceSession:
    options = ephost.SessionOptions()
    devices = [device for device in ephost.get_ep_devices() if device.registration_name == "wide"]
    options.add_provider_for_devices(devices, {})
    return ephost.InferenceSession(made.SerializeToString(), options, enable_fallback=0)


def blended(nodes: str, *, then: str = "") -> onnx.ModelProto:
    return onnx.parser.parse_model(f"""
    <ir_version: 8, opset_import: ["" : 17, "{DOMAIN}" : 3]>
    g (float[n, 3] x) => (float[a, b] y) {{ {nodes} {then} }}
    """)


def test_operators_that_a_plugin_brings_for_its_ep_run_in_the_worker(traced: Tracer) -> None:
    files = {"m.onnx": blended(f"a = {DOMAIN}.Twice (x)  y = Add (a, a)"), "x.npz": {"x": X}}
    _, opened, shapes, ran, closed = traced(
        "ephost", ["register", OPEN, "shapes", RUN, ("close", {})], "custom_ops", files
    )
    assert sorted(t for ep, types in opened.value if ep == "trace" for t in types) == ["Add", "Twice"]
    assert opened.only("Twice") == ["Twice: InferOutputShapeFn", "Twice: CreateKernel for ''"]
    assert shapes.value == [["y", "tensor(float)", ["a", 3]]]
    assert ran.only("Twice", "Compute") == ["Twice: KernelCompute", "Compute ''"]
    assert ran.value == [(4 * X).tolist()]
    assert closed.only("Twice") == ["Twice: KernelDestroy"]


def test_operators_that_a_plugin_brings_for_the_host_run_in_the_worker(traced: Tracer) -> None:
    made = blended(f"a = {DOMAIN}.Blend <weight: float = 0.5> (x, x, x)", then="y = Erf (a)")
    actions = ["register", OPEN, "shapes", RUN, ("close", {})]
    _, opened, shapes, ran, closed = traced(
        "ephost", actions, "custom_ops", {"m.onnx": made, "x.npz": {"x": X}}
    )
    assert not opened.error, opened.message
    assert shapes.value == [["y", "tensor(float)", ["a", 3]]]
    assert ran.only("Blend") == ["Blend: KernelComputeV2 with 3 inputs and 1 outputs"]
    np.testing.assert_allclose(ran.value[0], [[math.erf(each) for each in row] for row in 1.5 * X], rtol=1e-6)
    assert closed.only("Blend") == ["Blend: KernelDestroy"]


def test_such_an_operator_may_take_and_give_strings(traced: Tracer) -> None:
    made = onnx.parser.parse_model(f"""
    <ir_version: 8, opset_import: ["" : 17, "{DOMAIN}" : 3]>
    g (string[n] x) => (string[n] y) {{ y, lengths = {DOMAIN}.Shout (x) }}
    """)
    files = {"m.onnx": made, "x.npz": {"x": np.array(["hush", ""])}}
    _, opened, ran, closed = traced("ephost", ["register", OPEN, RUN, ("close", {})], "custom_ops", files)
    assert not opened.error, opened.message
    assert ran.value == [["hush!", "!"]]
    assert not closed.error
