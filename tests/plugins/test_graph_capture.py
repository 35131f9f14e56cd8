"""EPs that record a run and replay it: what the host asks, when it repeats runs, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from plugin_harness import Files, Tracer
from plugin_models import model, node

pytestmark = pytest.mark.in_process("recorded runs")

SHAPE = [2, 3]
X = np.arange(6, dtype=np.float32).reshape(SHAPE)
W = np.full(SHAPE, 10, np.float32)
RESULT = [(X * W + W).tolist()]
NODES = [node("Mul", "x w", "a", name="mul"), node("Add", "a w", "y", name="add")]
FILES: Files = {"m.onnx": model(NODES, {"x": SHAPE}, ["y"], {"w": W}), "x.npz": {"x": X}}
OPEN = ("open", {"model": "m.onnx"})
RUN = ("run", {"feeds": "x.npz"})
ONCE = ["OnRunStart, graph 0", "Compute 'mul'", "Compute 'add'", "OnRunEnd, graph 0, synchronised"]
PROTOCOL = ("OnRun", "Compute", "IsGraphCaptured", "Replay", "Sync")


def run(**config: str) -> tuple[str, dict]:
    return ("run", {"feeds": "x.npz", "config": config})


def test_a_recorded_run_is_replayed(host: str, traced: Tracer) -> None:
    _, _, first, second = traced(host, ["register", OPEN, RUN, RUN], "capture=1", FILES)
    assert first.only(*PROTOCOL) == ["IsGraphCaptured 0: no", *ONCE, "IsGraphCaptured 0: yes"]
    assert first.value == RESULT
    assert second.only(*PROTOCOL) == [
        "IsGraphCaptured 0: yes",
        "ReplayGraph 0",
        "Sync",
        "IsGraphCaptured 0: yes",
    ]
    assert second.value == []  # what was recorded writes where the recorded run's outputs were


def test_the_run_is_repeated_until_it_is_recorded(host: str, traced: Tracer) -> None:
    _, _, first, second = traced(host, ["register", OPEN, RUN, RUN], "capture=3", FILES)
    again = ["IsGraphCaptured 0: no", *ONCE, "IsGraphCaptured 0: no"]
    assert first.only(*PROTOCOL) == [*again * 2, *again[:-1], "IsGraphCaptured 0: yes"]
    assert first.value == RESULT
    assert second.only("Replay") == ["ReplayGraph 0"]


def test_an_ep_that_never_records_fails_the_run(host: str, traced: Tracer) -> None:
    _, _, ran = traced(host, ["register", OPEN, RUN], "capture=99", FILES)
    assert ran.error == "Fail"
    assert len(ran.only("OnRunStart")) == 8


def test_runs_are_recorded_by_number(host: str, traced: Tracer) -> None:
    three = run(gpu_graph_id="3")
    *_, first, second, third = traced(host, ["register", OPEN, RUN, three, three], "capture=1", FILES)
    assert first.only("Compute", "Replay") == ["Compute 'mul'", "Compute 'add'"]
    assert second.only("Compute", "OnRunStart", "Replay")[0] == "OnRunStart, graph 3"
    assert second.value == RESULT
    assert third.only("Compute", "Replay") == ["ReplayGraph 3"]


def test_minus_one_runs_without_recording(host: str, traced: Tracer) -> None:
    *_, skipped, again = traced(
        host, ["register", OPEN, run(gpu_graph_id="-1"), run(gpu_graph_id="-1")], "capture=1", FILES
    )
    for ran in (skipped, again):
        assert ran.only("Compute", "Replay") == ["Compute 'mul'", "Compute 'add'"]
        assert ran.value == RESULT


def test_a_number_that_is_none_is_refused(host: str, traced: Tracer) -> None:
    _, _, ran = traced(host, ["register", OPEN, run(gpu_graph_id="one")], "capture=1", FILES)
    assert ran.error == "InvalidArgument"
    assert ran.only("Compute") == []


def test_a_failing_replay_fails_the_run(host: str, traced: Tracer) -> None:
    *_, ran = traced(host, ["register", OPEN, RUN, RUN], "capture=1 replay_fails", FILES)
    assert ran.error == "EPFail" and "the tape is torn" in ran.message
    assert ran.only("Sync") == []


def test_without_synchronisation_a_replay_is_not_waited_for(host: str, traced: Tracer) -> None:
    loose = run(disable_synchronize_execution_providers="1")
    *_, ran = traced(host, ["register", OPEN, RUN, loose], "capture=1", FILES)
    assert ran.only("Replay", "Sync") == ["ReplayGraph 0"]


def test_an_ep_that_cannot_replay_runs_each_time(host: str, traced: Tracer) -> None:
    *_, first, second = traced(host, ["register", OPEN, RUN, RUN], "capture=1 no_replay", FILES)
    assert first.value == second.value == RESULT
    assert second.only("IsGraphCaptured", "Compute") == ["Compute 'mul'", "Compute 'add'"]


def test_a_released_graph_is_recorded_anew(host: str, traced: Tracer) -> None:
    drop = ("release_captured", {"number": 0})
    *_, dropped, ran = traced(host, ["register", OPEN, RUN, drop, RUN], "capture=1", FILES)
    assert dropped.lines == ["ReleaseCapturedGraph 0"]
    assert ran.only("Compute", "Replay")[0] == "Compute 'mul'"


def test_bound_outputs_keep_their_values_through_a_replay(host: str, traced: Tracer) -> None:
    bound = ("run_bound", {"feeds": "x.npz"})
    again = ("run_bound", {"feeds": "x.npz", "keep": True})
    *_, first, second = traced(host, ["register", OPEN, bound, again], "capture=1", FILES)
    assert second.only("Compute", "Replay") == ["ReplayGraph 0"]
    assert first.value == second.value == RESULT


HALF = model(
    [node("Mul", "x w", "a", name="mul"), node("Add", "a w", "y", name="cpu")], {"x": SHAPE}, ["y"], {"w": W}
)


def test_nodes_on_others_forbid_recording(host: str, traced: Tracer) -> None:
    _, opened = traced(host, ["register", OPEN], "capture=1", {"m.onnx": HALF})
    assert opened.error == "Fail" and "not" in opened.message and "assigned to" in opened.message


def test_an_ep_may_leave_shapes_to_the_cpu(host: str, traced: Tracer) -> None:
    files = {**FILES, "m.onnx": HALF}
    _, opened, ran = traced(host, ["register", OPEN, RUN], "capture=1 shapes_on_cpu", files)
    assert not opened.error, opened.message
    assert ran.value == RESULT
    assert ran.only("IsGraphCaptured")[-1] == "IsGraphCaptured 0: yes"


@pytest.mark.parametrize("mode", ["capture=1", "capture=1 shapes_on_cpu"])
def test_control_flow_forbids_recording(host: str, mode: str, traced: Tracer) -> None:
    import onnx
    from onnx import TensorProto, helper

    bodies = [
        helper.make_graph(
            [helper.make_node(op, ["x", "x"], [op])],
            op,
            [],
            [helper.make_tensor_value_info(op, TensorProto.FLOAT, SHAPE)],
        )
        for op in ("Add", "Mul")
    ]
    choice = helper.make_node("If", ["c"], ["y"], then_branch=bodies[0], else_branch=bodies[1])
    graph = helper.make_graph(
        [choice],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert isinstance(made, onnx.ModelProto)
    _, opened = traced(host, ["register", OPEN], mode, {"m.onnx": made})
    assert opened.error == "Fail" and "control flow" in opened.message
