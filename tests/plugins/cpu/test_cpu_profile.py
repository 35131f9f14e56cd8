"""The plugin's profiler: its steps in the trace of whichever host runs it."""

import json
from pathlib import Path

import ephost
import numpy as np
import pytest
from ephost.plugins import cpu
from onnx import helper

from tests.plugins.cpu.conftest import FORM_OF_FED_BYTES, Cpu, make_model


def _options(host, device, folder: Path):  # type: ignore[no-untyped-def]
    options = host.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / host.__name__)
    options.graph_optimization_level = host.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_provider_for_devices([device], {"fusion": "0"})
    return options


def test_each_step_of_a_fused_node_is_an_event_inside_of_the_hosts_event(
    cpu_plugin: Cpu, tmp_path: Path
) -> None:
    x = np.linspace(-1, 1, 1 << 20, dtype=np.float32)
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["y"], name="second"),
    ]
    model = make_model(nodes, {"x": x}, ["y"])
    session = ephost.InferenceSession(
        model.SerializeToString(), _options(ephost, cpu_plugin.device, tmp_path)
    )
    for _ in range(3):
        session.run(None, {"x": x})
    trace = json.loads(Path(session.end_profiling()).read_text())
    steps = [event for event in trace if event.get("cat") == "Kernel"]
    assert sorted(event["name"] for event in steps) == ["Relu 'first'"] * 3 + ["Relu 'second'"] * 3
    assert {event["args"]["op_name"] for event in steps} == {"Relu"}
    fused = [event for event in trace if event.get("cat") == "Node" and event["dur"] > 0]
    assert len(fused) == 3
    # The plugin's clock is behind the host's by the time that the call took which told it the host's: on a
    # busy machine that is some milliseconds, but the same ones for all events.
    steps.sort(key=lambda event: event["ts"])
    pairs = [(steps[at], fused[at // 2]) for at in range(6)]
    least = max(outer["ts"] - event["ts"] for event, outer in pairs)
    most = min(outer["ts"] + outer["dur"] - event["ts"] - event["dur"] for event, outer in pairs)
    assert least <= most + 100
    assert most >= -100 and least <= 1_000_000


def test_nothing_is_recorded_after_the_profile_has_ended(cpu_plugin: Cpu, tmp_path: Path) -> None:
    x = np.ones(4, np.float32)
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": x}, ["y"])
    session = ephost.InferenceSession(
        model.SerializeToString(), _options(ephost, cpu_plugin.device, tmp_path)
    )
    session.run(None, {"x": x})
    path = Path(session.end_profiling())
    before = path.read_text()
    session.run(None, {"x": x})
    assert path.read_text() == before
    assert sum(event.get("cat") == "Kernel" for event in json.loads(before)) == 1


def test_onnxruntime_gets_the_same_events(tmp_path: Path) -> None:
    name = "CpuProfiledInOnnxRuntime"
    x = np.ones((3, 4), np.float32)
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["y"], name="second"),
    ]
    model = make_model(nodes, {"x": x}, ["y"])
    onnxruntime = pytest.importorskip("onnxruntime")
    onnxruntime.register_execution_provider_library(name, cpu.get_library_path())
    device = next(device for device in onnxruntime.get_ep_devices() if device.ep_name == name)
    session = onnxruntime.InferenceSession(model.SerializeToString(), _options(onnxruntime, device, tmp_path))
    session.run(None, {"x": x})
    trace = json.loads(Path(session.end_profiling()).read_text())
    assert [event["name"] for event in trace if event.get("cat") == "Kernel"] == [
        "Relu 'first'",
        "Relu 'second'",
    ]
    del session, device
    onnxruntime.unregister_execution_provider_library(name)


def test_steps_say_which_implementation_computes_them(cpu_plugin: Cpu, tmp_path: Path) -> None:
    fed = {
        "x": np.ones((40, 30), np.uint8),
        "w": np.ones((30, 20), np.int8),
        "a": np.ones((40, 30), np.float32),
        "b": np.ones((30, 20), np.float32),
        "image": np.ones((1, 32, 6, 5), np.uint8),
    }
    constants = {"small": np.ones((30, 20), np.int8), "taps": np.ones((32, 1, 3, 3), np.int8)}
    nodes = [
        helper.make_node("MatMulInteger", ["x", "small"], ["constant"], name="constant"),
        helper.make_node("MatMulInteger", ["x", "w"], ["known in the run"], name="known in the run"),
        helper.make_node("MatMul", ["a", "b"], ["floats"], name="floats"),
        helper.make_node(
            "ConvInteger", ["image", "taps"], ["channels alone"], name="channels alone", group=32
        ),
    ]
    model = make_model(nodes, fed, [node.name for node in nodes], constants)
    session = ephost.InferenceSession(
        model.SerializeToString(), _options(ephost, cpu_plugin.device, tmp_path)
    )
    session.run(None, fed)
    trace = json.loads(Path(session.end_profiling()).read_text())
    steps = [event for event in trace if event.get("cat") == "Kernel" and "method" in event["args"]]
    assert {event["name"].split("'")[1]: event["args"]["method"] for event in steps} == {
        "constant": "bytes",
        "known in the run": FORM_OF_FED_BYTES,
        "floats": "packed in the run",
        "channels alone": "lines",
    }


def test_an_event_is_a_line_whatever_its_node_is_called(cpu_plugin: Cpu, tmp_path: Path) -> None:
    x = np.ones(4, np.float32)
    name = 'a}, {"b'
    model = make_model([helper.make_node("Relu", ["x"], ["y"], name=name)], {"x": x}, ["y"])
    session = ephost.InferenceSession(
        model.SerializeToString(), _options(ephost, cpu_plugin.device, tmp_path)
    )
    session.run(None, {"x": x})
    text = Path(session.end_profiling()).read_text()
    lines = text.splitlines()[1:-1]
    assert [json.loads(line.removesuffix(",")) for line in lines] == json.loads(text)
    assert any(name in json.loads(line.removesuffix(","))["name"] for line in lines)
