"""Values on a device of an EP's own: uploads, copies, streams, and what goes wrong with them.

tests/plugins/device_plugin is such an EP. Its memory is of no use to anybody who does not copy, and it counts
what the host asks of it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from plugin_harness import build_plugin

from tests.host.conftest import ROOT, run_python

pytestmark = pytest.mark.in_process("memory of its device")

node = helper.make_node
HOSTS = ["ephost", "onnxruntime"]
Counts = dict[str, int]


@dataclass
class Result:
    outputs: dict[str, np.ndarray]
    counts: dict[str, Counts]
    groups: list[tuple[str, list[str]]]
    stage: str
    error: str
    message: str

    def during(self, call: int, name: str) -> int:
        """How far a count went in one call."""
        before = "opened" if call == 0 else f"call{call - 1}"
        return self.counts[f"call{call}"][name] - self.counts[before][name]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = ROOT / "tests" / "plugins" / "device_plugin"
    return build_plugin(source, tmp_path_factory.mktemp("device"), "-pthread")


@pytest.fixture
def use(library: Path, tmp_path: Path) -> Any:
    """Runs a model in a host: ``use(host, model, feeds, mode="streams")``."""

    def run(
        host: str,
        model: onnx.ModelProto,
        feeds: dict[str, np.ndarray],
        mode: str = "",
        eps: tuple[str, ...] = ("device",),
        calls: int = 2,
        sessions: int = 1,
        config: dict[str, str] | None = None,
    ) -> Result:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        onnx.save(model, folder / "model.onnx")
        np.savez(folder / "feeds.npz", **feeds)
        case = {"eps": eps, "calls": calls, "sessions": sessions, "config": config or {}}
        (folder / "case.json").write_text(json.dumps(case))
        script = ROOT / "tests" / "plugins" / "use_device.py"
        done = run_python(str(script), host, str(library), str(folder), DEVICE_PLUGIN=mode)
        assert done.returncode == 0, f"{host} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        told = json.loads((folder / "result.json").read_text())
        assert "unregister" not in told, told["unregister"]
        outputs = {}
        if (folder / "outputs.npz").exists():
            with np.load(folder / "outputs.npz") as held:
                outputs = dict(held)
        result = Result(
            outputs,
            told["counts"],
            [(ep, operators) for ep, operators in told.get("groups", [])],
            told["stage"],
            told.get("error", ""),
            told.get("message", ""),
        )
        nothing_is_left(result)
        return result

    return run


def nothing_is_left(result: Result) -> None:
    """Whatever happened: what the plugin made, the host has given back."""
    end = result.counts["unregistered"]
    made = ("allocators", "transfers", "kernels", "streams", "notifications", "eps")
    assert {name: end[name] - end[f"{name}_released"] for name in made} == dict.fromkeys(made, 0)
    assert end["blocks"] == end["blocks_freed"]


def model_of(
    nodes: list,
    inputs: list[str],
    outputs: list[str],
    weights: dict[str, Any] | None = None,
    dims: Any = (2, 3),
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(w, np.float32), name) for name, w in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


X = np.arange(6, dtype=np.float32).reshape(2, 3)
WEIGHT = np.full((2, 3), 10, np.float32)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("mode", ["", "streams"])
def test_a_chain_runs_on_the_device(host: str, mode: str, use: Any) -> None:
    """y = (x + w) * w + x, all on the device; t = x + w is an output on the way."""
    nodes = [node("Add", ["x", "w"], ["t"]), node("Mul", ["t", "w"], ["u"]), node("Add", ["u", "x"], ["y"])]
    result = use(host, model_of(nodes, ["x"], ["y", "t"], {"w": WEIGHT}), {"x": X}, mode)
    assert result.error == "", result.message
    assert result.outputs["y"].tolist() == ((X + 10) * 10 + X).tolist()
    assert result.outputs["t"].tolist() == (X + 10).tolist()
    assert sorted(op for ep, ops in result.groups for op in ops if ep == "device") == ["Add", "Add", "Mul"]
    assert result.during(1, "computed") == 3
    assert result.during(1, "uploaded") == 1  # x; the weight is there already
    assert result.during(1, "downloaded") == 2
    if mode:
        assert result.during(1, "queued") >= 6


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("mode", ["", "streams"])
def test_nodes_of_others_in_between_get_values_of_the_cpu(host: str, mode: str, use: Any) -> None:
    """Neg and Sum are nobody's: what they read comes down, what they give goes up again."""
    nodes = [
        node("Add", ["x", "w"], ["a"]),
        node("Neg", ["a"], ["n"]),
        node("Mul", ["n", "w"], ["m"]),
        node("Add", ["n", "x"], ["k"]),
        node("Sum", ["m", "k", "a", "x", "w"], ["s"]),
        node("Mul", ["s", "two"], ["y"]),
    ]
    weights = {"w": WEIGHT, "two": 2.0}
    result = use(host, model_of(nodes, ["x"], ["y"], weights), {"x": X}, mode)
    assert result.error == "", result.message
    n = -(X + 10)
    assert result.outputs["y"].tolist() == ((n * 10 + (n + X) + (X + 10) + X + 10) * 2).tolist()
    assert result.during(1, "computed") == 4
    if host == "ephost":  # a, m and k, y come down; x, n and s go up; each once, those of one step together
        assert (result.during(1, "downloaded"), result.during(1, "downloads")) == (4, 3)
        assert (result.during(1, "uploaded"), result.during(1, "uploads")) == (3, 3)


@pytest.mark.parametrize("host", HOSTS)
def test_weights_go_to_the_device_once(host: str, use: Any) -> None:
    nodes = [
        node("Add", ["x", "w"], ["a"]),
        node("Mul", ["a", "w"], ["b"]),
        node("Mul", ["b", "v"], ["y"]),
    ]
    model = model_of(nodes, ["x"], ["y"], {"w": WEIGHT, "v": 3.0})
    result = use(host, model, {"x": X}, calls=3, sessions=2)
    opened = result.counts["opened"]
    assert opened["uploaded"] == 4  # two weights of two sessions, though one is read twice
    assert [result.during(call, "uploaded") for call in range(3)] == [2, 2, 2]  # x, in two sessions
    assert result.outputs["y"].tolist() == ((X + 10) * 30).tolist()


@pytest.mark.parametrize("host", HOSTS)
def test_weights_lie_where_the_plugin_keeps_what_is_only_read(host: str, use: Any) -> None:
    nodes = [node("Add", ["x", "w"], ["a"]), node("Mul", ["a", "v"], ["y"])]
    model = model_of(nodes, ["x"], ["y"], {"w": WEIGHT, "v": 3.0})
    result = use(host, model, {"x": X}, "weight_memory")
    assert result.error == "", result.message
    assert result.outputs["y"].tolist() == ((X + 10) * 3).tolist()
    assert result.counts["opened"]["weights"] == 2
    assert result.counts["call1"]["weights"] == 2  # and nothing else does


@pytest.mark.parametrize("host", HOSTS)
def test_memory_for_weights_is_reserved_when_that_is_asked_for(host: str, use: Any) -> None:
    nodes = [node("Add", ["x", "w"], ["a"]), node("Mul", ["a", "v"], ["y"])]
    model = model_of(nodes, ["x"], ["y"], {"w": WEIGHT, "v": 3.0})
    asked = {"session.use_device_allocator_for_initializers": "1"}
    for config, reserved in ((asked, 2), ({}, 0)):
        result = use(host, model, {"x": X}, config=config)
        assert result.error == "", result.message
        assert result.outputs["y"].tolist() == ((X + 10) * 3).tolist()
        assert result.counts["unregistered"]["reserved"] == reserved


@pytest.mark.parametrize("mode", ["", "streams"])
def test_copies_of_one_step_are_made_in_one_call(mode: str, use: Any) -> None:
    nodes = [node("Add", ["x", "z"], ["a"])]
    result = use("ephost", model_of(nodes, ["x", "z"], ["a"]), {"x": X, "z": X}, mode)
    assert (result.during(1, "uploads"), result.during(1, "uploaded")) == (1, 2)
    many = [f"y{i}" for i in range(20)]
    nodes = [node("Add", ["x", "x"], [name]) for name in many]
    result = use("ephost", model_of(nodes, ["x"], many), {"x": X}, mode)
    assert (result.during(1, "uploads"), result.during(1, "uploaded")) == (1, 1)
    assert result.during(1, "downloaded") == 20
    assert result.during(1, "downloads") == 2  # sixteen at a time
    assert all(result.outputs[name].tolist() == (X + X).tolist() for name in many)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("mode", ["", " streams"])
def test_a_kernel_that_may_writes_over_what_nobody_reads_any_more(host: str, mode: str, use: Any) -> None:
    """Not over x, which is read again, nor over t, which is an output."""
    nodes = [
        node("Add", ["x", "w"], ["a"]),
        node("Mul", ["a", "w"], ["b"]),
        node("Add", ["b", "x"], ["t"]),
        node("Mul", ["t", "w"], ["c"]),
        node("Add", ["c", "c"], ["d"]),
        node("Neg", ["d"], ["y"]),
    ]
    model = model_of(nodes, ["x"], ["y", "t"], {"w": WEIGHT})
    result = use(host, model, {"x": X}, f"in_place{mode}")
    assert result.error == "", result.message
    t = (X + 10) * 10 + X
    assert result.outputs["t"].tolist() == t.tolist()
    assert result.outputs["y"].tolist() == (-2 * t * 10).tolist()
    assert result.during(1, "computed") == 5
    # b over a, and t, of which an output is copied, over b; d has c twice
    assert result.during(1, "in_place") == (2 if host == "ephost" else 1)
    apart = use(host, model, {"x": X}, mode.strip())
    assert apart.during(1, "in_place") == 0
    if host == "ephost":
        assert result.during(1, "blocks") == apart.during(1, "blocks") - 2


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("mode", ["", "streams"])
@pytest.mark.parametrize("taken", [True, False])
def test_bodies_of_control_flow_run_on_the_device(host: str, mode: str, taken: bool, use: Any) -> None:
    """If(c) then a * w else a + x, with `a` made on the device outside and read in the bodies."""

    def body(op: str, other: str) -> onnx.GraphProto:
        out = helper.make_tensor_value_info("o", TensorProto.FLOAT, None)
        return helper.make_graph([node(op, ["a", other], ["o"], name=op)], f"{op}_body", [], [out])

    nodes = [
        node("Add", ["x", "w"], ["a"]),
        node("If", ["c"], ["r"], then_branch=body("Mul", "w"), else_branch=body("Add", "x")),
        node("Add", ["r", "w"], ["y"]),
    ]
    model = model_of(nodes, ["x"], ["y"], {"w": WEIGHT})
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    result = use(host, model, {"x": X, "c": np.array(taken)}, mode)
    assert result.error == "", result.message
    a = X + 10
    assert result.outputs["y"].tolist() == ((a * 10 if taken else a + X) + 10).tolist()
    assert result.during(1, "computed") == 3


def number(name: str, kind: int = TensorProto.FLOAT, dims: Any = (2, 3)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, dims)


def loop(trips: int, nodes: list, outputs: list[str], collected: int = 0) -> tuple[list, dict[str, Any]]:
    """A loop over `a`, made on the device, whose state `v` becomes `next`; it reads `a` as well."""
    names = ["next", *(f"seen{at}" for at in range(collected))]
    body = helper.make_graph(
        [node("Identity", ["going"], ["on"]), *nodes],
        "body",
        [number("i", TensorProto.INT64, []), number("going", TensorProto.BOOL, []), number("v")],
        [number("on", TensorProto.BOOL, []), *(number(name) for name in names)],
    )
    count = node("Constant", [], ["n"], value_int=trips)
    made = [node("Add", ["x", "x"], ["a"]), count, node("Loop", ["n", "", "a"], outputs, body=body)]
    return made, {"w": WEIGHT}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("mode", ["", "streams"])
@pytest.mark.parametrize("trips", [0, 1, 7])
def test_the_state_of_a_loop_stays_on_the_device(host: str, mode: str, trips: int, use: Any) -> None:
    """What a body captures, too: x goes up and y comes down, however often the loop goes round."""
    nodes, weights = loop(
        trips, [node("Add", ["v", "a"], ["t"]), node("Mul", ["t", "half"], ["next"])], ["b"]
    )
    nodes.append(node("Add", ["b", "w"], ["y"]))
    model = model_of(nodes, ["x"], ["y"], {**weights, "half": 0.5})
    result = use(host, model, {"x": X}, mode)
    assert result.error == "", result.message
    expected = X + X
    for _ in range(trips):
        expected = (expected + X + X) / 2
    assert result.outputs["y"].tolist() == (expected + 10).tolist()
    assert result.during(1, "computed") == 2 + 2 * trips
    if host == "ephost":  # onnxruntime 1.32 copies the state each time
        assert (result.during(1, "uploaded"), result.during(1, "downloaded")) == (1, 1)


@pytest.mark.parametrize("mode", ["", "streams"])
def test_what_a_loop_collects_comes_down_each_time(mode: str, use: Any) -> None:
    nodes, weights = loop(
        5, [node("Add", ["v", "w"], ["next"]), node("Mul", ["v", "a"], ["seen0"])], ["y", "z"], 1
    )
    result = use("ephost", model_of(nodes, ["x"], ["y", "z"], weights), {"x": X}, mode)
    assert result.error == "", result.message
    states = [2 * X + 10 * at for at in range(6)]
    assert result.outputs["y"].tolist() == states[5].tolist()
    assert result.outputs["z"].tolist() == [(state * 2 * X).tolist() for state in states[:5]]
    assert (result.during(1, "uploaded"), result.during(1, "downloaded")) == (1, 6)


@pytest.mark.parametrize("mode", ["", "streams"])
def test_a_state_that_the_cpu_reads_too_goes_up_and_down(mode: str, use: Any) -> None:
    """Neg is nobody's: what it reads comes down, what it gives goes up."""
    nodes, weights = loop(3, [node("Neg", ["v"], ["m"]), node("Add", ["m", "a"], ["next"])], ["y"])
    result = use("ephost", model_of(nodes, ["x"], ["y"], weights), {"x": X}, mode)
    assert result.error == "", result.message
    expected = 2 * X
    for _ in range(3):
        expected = 2 * X - expected
    assert result.outputs["y"].tolist() == expected.tolist()


@pytest.mark.parametrize("mode", ["", "streams"])
@pytest.mark.parametrize("taken", [True, False])
def test_what_branches_read_and_make_stays_on_the_device(mode: str, taken: bool, use: Any) -> None:
    def body(op: str, other: str) -> Any:
        return helper.make_graph([node(op, ["a", other], ["r"])], op, [], [number("r")])

    nodes = [
        node("Add", ["x", "w"], ["a"]),
        node("If", ["c"], ["b"], then_branch=body("Mul", "w"), else_branch=body("Add", "a")),
        node("Add", ["b", "a"], ["y"]),
    ]
    model = model_of(nodes, ["x"], ["y"], {"w": WEIGHT})
    model.graph.input.append(number("c", TensorProto.BOOL, []))
    result = use("ephost", model, {"x": X, "c": np.array(taken)}, mode)
    assert result.error == "", result.message
    a = X + 10
    assert result.outputs["y"].tolist() == ((a * 10 if taken else a + a) + a).tolist()
    assert (result.during(1, "uploaded"), result.during(1, "downloaded")) == (1, 1)


@pytest.mark.parametrize("mode", ["", "streams"])
def test_loops_in_loops_and_scans_stay_on_the_device(mode: str, use: Any) -> None:
    inner = helper.make_graph(
        [node("Identity", ["go"], ["more"]), node("Add", ["u", "a"], ["sum"])],
        "inner",
        [number("j", TensorProto.INT64, []), number("go", TensorProto.BOOL, []), number("u")],
        [number("more", TensorProto.BOOL, []), number("sum")],
    )
    nodes, weights = loop(3, [node("Loop", ["two", "", "v"], ["next"], body=inner)], ["b"])
    scan = helper.make_graph(
        [node("Add", ["s", "b"], ["t"]), node("Mul", ["t", "t"], ["q"])],
        "scan",
        [number("s"), number("p", dims=[3])],
        [number("t"), number("q")],
    )
    nodes.insert(0, node("Constant", [], ["two"], value_int=2))
    nodes.append(node("Scan", ["a", "x"], ["last", "z"], body=scan, num_scan_inputs=1))
    result = use("ephost", model_of(nodes, ["x"], ["last", "z"], weights), {"x": X}, mode)
    assert result.error == "", result.message
    a, b = 2 * X, 2 * X * 7
    assert result.outputs["last"].tolist() == (a + 2 * b).tolist()
    assert result.outputs["z"].tolist() == [((a + b) ** 2).tolist(), ((a + 2 * b) ** 2).tolist()]
    # x up; `last` and what the scan collects down
    assert (result.during(1, "uploaded"), result.during(1, "downloaded")) == (1, 3)


def test_two_devices_exchange_values_by_way_of_the_cpu(use: Any) -> None:
    """Here only: onnxruntime 1.31 gives what is in one device's memory to the other's kernel as it is."""
    nodes = [
        node("Add", ["x", "w"], ["a"], name="one:a"),
        node("Mul", ["a", "w"], ["b"], name="two:b"),
        node("Add", ["b", "a"], ["y"], name="one:c"),
    ]
    model = model_of(nodes, ["x"], ["y"], {"w": WEIGHT})
    result = use("ephost", model, {"x": X}, eps=("one", "two"))
    assert result.error == "", result.message
    assert result.outputs["y"].tolist() == ((X + 10) * 10 + X + 10).tolist()
    assert sorted((ep, op) for ep, ops in result.groups for op in ops if op in ("Add", "Mul")) == [
        ("one", "Add"),
        ("one", "Add"),
        ("two", "Mul"),
    ]
    assert result.counts["opened"]["uploaded"] == 2  # the weight, to each
    assert result.during(1, "uploaded") == 3  # x, a and b
    assert result.during(1, "downloaded") == 3  # a, b and y


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("mode", ["", "streams"])
def test_empty_tensors_need_no_copy(host: str, mode: str, use: Any) -> None:
    nodes = [node("Add", ["x", "x"], ["a"]), node("Mul", ["a", "x"], ["y"])]
    model = model_of(nodes, ["x"], ["y"], dims=("n", 3))
    result = use(host, model, {"x": np.zeros((0, 3), np.float32)}, mode)
    assert result.error == "", result.message
    assert result.outputs["y"].shape == (0, 3)


@pytest.mark.parametrize("mode", ["", "streams", "in_place"])
def test_texts_stay_where_the_cpu_has_them(mode: str, use: Any) -> None:
    """onnxruntime uploads them, and so has no session of such a model."""
    weight = helper.make_tensor("w", TensorProto.STRING, [2], [b"left", b"right"])
    nodes = [
        node("StringConcat", ["x", "w"], ["a"], name="first"),
        node("StringConcat", ["a", "a"], ["y"], name="second"),
        node("Add", ["n", "n"], ["m"], name="numbers"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.STRING, [2]),
            helper.make_tensor_value_info("n", TensorProto.FLOAT, [2]),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.STRING, [2]),
            helper.make_tensor_value_info("m", TensorProto.FLOAT, [2]),
        ],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    feeds = {"x": np.array(["from ", "to "]), "n": np.ones(2, np.float32)}
    result = use("ephost", model, feeds, mode, calls=20)
    assert result.error == "", result.message
    assert sorted(op for name, ops in result.groups for op in ops if name == "device") == [
        "Add",
        "StringConcat",
        "StringConcat",
    ]
    assert result.outputs["y"].tolist() == ["from left" * 2, "to right" * 2]
    assert result.outputs["m"].tolist() == [2, 2]
    assert result.counts["call19"]["uploaded"] == 20, "only the numbers"
    nothing_is_left(result)


def test_a_stream_is_waited_for_before_the_cpu_reads(use: Any) -> None:
    nodes = [node("Add", ["x", "w"], ["a"]), node("Neg", ["a"], ["n"]), node("Mul", ["n", "w"], ["y"])]
    result = use("ephost", model_of(nodes, ["x"], ["y"], {"w": WEIGHT}), {"x": X}, "streams")
    assert result.outputs["y"].tolist() == (-(X + 10) * 10).tolist()
    assert result.during(1, "waited") == 2  # for a and for y
    assert result.during(1, "notifications") == result.during(1, "notifications_released") == 2
    assert result.during(1, "streams") == 0  # the first call's is used again


@pytest.mark.parametrize("host", HOSTS)
def test_an_allocator_that_takes_streams_is_told_which(host: str, use: Any) -> None:
    nodes = [node("Add", ["x", "w"], ["a"]), node("Neg", ["a"], ["n"]), node("Mul", ["n", "w"], ["y"])]
    model = model_of(nodes, ["x"], ["y"], {"w": WEIGHT})
    result = use(host, model, {"x": X}, "streams alloc_on_stream")
    assert result.error == "", result.message
    assert result.outputs["y"].tolist() == (-(X + 10) * 10).tolist()
    # For x, a, n and y; onnxruntime has one of them where another one was.
    assert result.during(1, "on_stream") == result.during(1, "blocks") == (4 if host == "ephost" else 3)
    assert result.counts["opened"]["on_stream"] == 0  # the weight is for all runs
    without = use(host, model, {"x": X}, "alloc_on_stream")
    assert without.counts["unregistered"]["on_stream"] == 0


BROKEN = {
    "no_allocator": ("open", "gives no allocator"),
    "null_allocator": ("open", "gives no allocator"),
    "allocator_fails": ("open", "CreateAllocator: .*on holiday"),
    "weight_memory null_weights": ("open", "gives no allocator for what is only read"),
    "null_transfer": ("open", "gives no data transfer"),
    "cannot_copy": ("open", "cannot copy to and from the CPU"),
    "copy_fails": ("open", "the initializer 'w'.*the cable is out"),
    "full": ("open", "the initializer 'w'"),
}


@pytest.mark.parametrize(("mode", "stage", "text"), [(m, *e) for m, e in BROKEN.items()], ids=list(BROKEN))
def test_a_device_that_does_not_work_is_an_error_that_names_it(
    mode: str, stage: str, text: str, use: Any
) -> None:
    nodes = [node("Add", ["x", "w"], ["y"])]
    result = use("ephost", model_of(nodes, ["x"], ["y"], {"w": WEIGHT}), {"x": X}, mode)
    assert result.stage == stage, (result.stage, result.message)
    assert re.search(text, result.message), result.message
    assert "device" in result.message


@pytest.mark.parametrize(("mode", "text"), [("copy_fails", "the cable is out"), ("full", "memory|allocat")])
def test_a_device_that_fails_in_a_run_is_an_error_of_that_run(mode: str, text: str, use: Any) -> None:
    result = use("ephost", model_of([node("Add", ["x", "x"], ["y"])], ["x"], ["y"]), {"x": X}, mode)
    assert result.stage == "run", (result.stage, result.message)
    assert re.search(text, result.message), result.message
    assert "device" in result.message


def test_copies_that_no_run_makes_are_not_told_of(library: Path) -> None:
    """Of the state, and of what a loop captures, which stay on the device."""
    nodes, weights = loop(
        3, [node("Add", ["v", "a"], ["next"]), node("Mul", ["v", "v"], ["seen0"])], ["y", "z"], 1
    )
    content = model_of(nodes, ["x"], ["y", "z"], weights).SerializeToString()
    script = f"""
import ephost
ephost.register_execution_provider_library("device", {str(library)!r})
options = ephost.SessionOptions()
devices = [d for d in ephost.get_ep_devices() if d.registration_name == "device"]
options.add_provider_for_devices(devices, {{}})
session = ephost.InferenceSession({content!r}, options)
print([(copy.way, copy.values) for copy in ephost.explain(session).copies])
"""
    done = run_python("-c", script)
    assert done.returncode == 0, done.stderr
    up, down = "CPU to device", "device to CPU"
    assert done.stdout.strip() == str([(up, ("x",)), (down, ("y",)), (down, ("seen0",))])
