"""The interposing library stays out of the way and writes down both sides of the conversation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")
nxrt_ep_cpu = pytest.importorskip("nxrt_ep_cpu")

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
import numpy as np, onnxruntime as ort
from onnx import helper, TensorProto
ort.register_execution_provider_library("between", sys.argv[1])
devices = [d for d in ort.get_ep_devices() if d.ep_name == "cpu_ep"]
options = ort.SessionOptions()
options.add_provider_for_devices(devices, {"Colour": "blue"})
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"], name="negate")], "tiny", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
session = ort.InferenceSession(model.SerializeToString(), options)
print(session.run(None, {"x": np.array([1, -2], np.float32)})[0].tolist())
del session, options, devices
ort.unregister_execution_provider_library("between")
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interposer, built from this tree."""
    path = tmp_path_factory.mktemp("interpose") / "libinterpose.so"
    subprocess.run([sys.executable, str(ROOT / "bench/interpose/build.py"), str(path)], check=True)
    return path


def run(library: Path, log: Path, **settings: str) -> str:
    """Run PROGRAM through the interposer; returns the log."""
    environment = {
        **os.environ,
        "EPHOST_INTERPOSE_LIBRARY": nxrt_ep_cpu.get_library_path(),
        "EPHOST_INTERPOSE_LOG": str(log),
        **settings,
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(library)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[-1.0, 2.0]\n"
    return log.read_text()


def test_calls_of_both_sides_are_logged_in_order(library: Path, tmp_path: Path) -> None:
    log = run(library, tmp_path / "log")
    order = [
        '> CreateEpFactories registered_name="between"',
        "OrtApiBase.GetApi version=29 -> a table",
        "> OrtEpFactory.GetSupportedDevices",
        "OrtEpApi.CreateEpDevice",
        "> OrtEpFactory.CreateEp ",
        "OrtEpApi.CreateKernelRegistry",
        "> OrtEp.GetCapability",
        "OrtApi.Node_GetOperatorType",
        "OrtEpApi.EpGraphSupportInfo_Add",
        "< OrtEp.GetCapability -> ok",
        "> OrtEpFactory.ReleaseEp",
        "ReleaseEpFactory",
    ]
    at = 0
    for line in order:
        at = log.find(line, at)
        assert at >= 0, line


def test_only_the_chosen_functions_are_logged(library: Path, tmp_path: Path) -> None:
    log = run(library, tmp_path / "log", EPHOST_INTERPOSE_ONLY="OrtEp.*")
    functions = set(re.findall(r"\b(Ort\w+)\.\w+", log))
    assert functions == {"OrtEp", "OrtApiBase"}


def test_graphs_and_options_are_written_out(library: Path, tmp_path: Path) -> None:
    log = run(library, tmp_path / "log", EPHOST_INTERPOSE_ONLY="OrtEp.Compile", EPHOST_INTERPOSE_GRAPHS="1")
    assert 'GetCapability: graph "tiny"' in log
    assert '#0 "negate" Neg domain="" since=13 ep="" (x) -> (y)' in log
    assert "ep.cpu_ep.Colour: blue" in log


def test_a_missing_plugin_is_an_error_that_names_it(library: Path, tmp_path: Path) -> None:
    missing = str(tmp_path / "none.so")
    environment = {**os.environ, "EPHOST_INTERPOSE_LIBRARY": missing}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(library)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert missing in done.stderr
