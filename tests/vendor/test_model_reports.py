"""What the tools that run whole models on vendors' plugins make of what they saw."""

from __future__ import annotations

from pathlib import Path

import compiled_models
import numpy as np
import onnx
import pytest
import real_models
from vendors import VENDORS, variables_of


def test_a_time_limit_is_named_with_the_step_that_it_met(tmp_path: Path, monkeypatch) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text(f"import time\nprint('{real_models.STEP}opening', flush=True)\ntime.sleep(60)\n")
    monkeypatch.setattr(real_models, "__file__", str(tmp_path / "real_models.py"))
    reason, _ = real_models.script("slow.py", [], [], 2)
    assert reason in ("not done in 2 s: opening was not over", "not done in 2 s: it had not begun")
    slow.write_text("import sys\nprint('one')\nsys.exit('two')\n")
    assert real_models.script("slow.py", [], [], 60) == ("ended with 1: two", "one\n")
    slow.write_text("import sys\nprint(sys.argv[1])\n")
    assert real_models.script("slow.py", ["given"], [], 60) == ("", "given\n")


def test_a_process_with_several_vendors_is_told_of_the_hardware_of_each() -> None:
    told = variables_of([VENDORS["webgpu"], VENDORS["openvino"]])["EPHOST_HARDWARE_DEVICES"]
    assert told.count('"CPU"') == 1, "the CPU without a name stands for the one with a name"
    assert "Intel" in told and "Google" in told
    assert "EPHOST_HARDWARE_DEVICES" not in variables_of([VENDORS["nxrt"]])


def test_light_networks_get_weights_that_nobody_can_replace_and_that_matter(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = real_models.prepare("light_squeezenet", real_models.models()["light_squeezenet"], tmp_path)
    graph = onnx.load(path).graph
    stored = {tensor.name for tensor in graph.initializer}
    assert stored == {name for node in graph.node for name in node.input} & stored
    assert not stored & {value.name for value in graph.input}
    assert not any(node.op_type == "ConstantOfShape" for node in graph.node)
    assert all(np.ptp(onnx.numpy_helper.to_array(tensor)) > 0 for tensor in graph.initializer)


def row(host: str, reason: str = "") -> compiled_models.Row:
    return compiled_models.Row(
        "model", "qnn", host, reason, nodes=3, context_nodes=2, open=0.4, open_compiled=0.1
    )


def test_what_only_onnxruntime_can_compile_is_lost() -> None:
    assert compiled_models.lost([row("onnxruntime"), row("ephost", "open the model: no")]) == [
        "model on qnn: open the model: no"
    ]
    assert compiled_models.lost([row("onnxruntime", "no"), row("ephost", "no")]) == []
    assert compiled_models.lost([row("onnxruntime"), row("ephost")]) == []


def test_the_report_of_compiled_models_has_times_or_a_reason() -> None:
    text = compiled_models.markdown([row("ephost"), row("onnxruntime", "a|b")])
    assert "| model | qnn | ephost | 2 of 3 | 400 ms | 100 ms | 4.0 |" in text
    assert "| model | qnn | onnxruntime | a\\|b | | | |" in text


def test_what_fails_alone_is_not_asked_in_company(tmp_path: Path, monkeypatch) -> None:
    asked = []

    def compare(row: real_models.Row, *_: object) -> real_models.Row:
        asked.append(row.vendors)
        row.reason = "ended with 1" if row.vendors == ["qnn"] else ""
        row.claimed = dict.fromkeys(row.vendors, 1)
        return row

    monkeypatch.setattr(real_models, "compare", compare)
    monkeypatch.setattr(real_models, "models", lambda: {"one": tmp_path / "one.onnx"})
    monkeypatch.setattr(type(VENDORS["nxrt"]), "missing", lambda *_: "")
    command = [str(tmp_path), "--orders", "2", *(f"--vendor={name}" for name in ("nxrt", "qnn", "webgpu"))]
    assert real_models.main(command) == 0
    assert asked == [["nxrt"], ["qnn"], ["webgpu"], ["nxrt", "webgpu"], ["webgpu", "nxrt"]]


def test_a_fault_that_is_known_is_the_plugins_and_others_are_not(tmp_path: Path, monkeypatch) -> None:
    def compare(row: real_models.Row, *_: object) -> None:
        row.wrong, row.distance = True, 0.5

    monkeypatch.setattr(real_models, "_compare", compare)
    known = real_models.compare(real_models.Row("light_shufflenet", ["webgpu"]), tmp_path, tmp_path, 1)
    assert not known.wrong
    assert known.reason.startswith("the plugin's own fault (grouped Conv") and known.reason.endswith(
        "5.0e-01 off"
    )
    for row in (real_models.Row("light_shufflenet", ["nxrt"]), real_models.Row("cls", ["webgpu"])):
        assert real_models.compare(row, tmp_path, tmp_path, 1).wrong
