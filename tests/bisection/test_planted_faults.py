"""Faults of tests/plugins/faulty_plugin, planted in real models, are found where they are.

A search takes seconds, so that only every fourth fault is part of a usual run: EPHOST_SAMPLE=all tries them
all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import ephost
import onnx
import pytest
from ephost.bisection.targets import Library, Target
from searched_models import picture

pytestmark = [pytest.mark.resources, pytest.mark.usefixtures("cpu_plugin_as_default")]


@dataclass(frozen=True)
class Planted:
    """A fault, and where it is: the node that its name says, or what nodes have to be like."""

    fault: str
    model: str = "cls"
    symptom: str = "numbers"
    operator: str = ""  # of the nodes that have it, where it is in more than the one that is named
    fused: bool = False
    batch: int = 1
    special: tuple[float, ...] = ()
    needs: str = ""  # an attribute that the nodes must have

    @property
    def node(self) -> str:
        return self.fault.partition("@")[2]


NODES = {"cls": 330, "det": 672}  # how many of a model's nodes are taken: fewer, where that saves time

PLANTED = (
    Planted("scaled@Conv@9"),
    Planted("shifted@Add@5"),
    Planted("one_in_10000@p2o.Conv.0", "det"),
    Planted("last_channel@Conv@13"),
    Planted("tail@Conv@3"),
    Planted("negatives@Conv@16"),
    Planted("first_only@Conv@15"),
    Planted("swapped_rows@Mul@4"),
    Planted("nan_for_denormals@Conv@0", special=(1e-40, -2e-39, 3e-39)),
    Planted("nan_for_large@Div@4"),
    Planted("infinite@GlobalAveragePool@1"),
    Planted("zero@HardSigmoid@1"),
    Planted("rounded_to_bfloat16@Div@2"),
    Planted("unwritten@Conv@18"),
    Planted("batch_of_two@Conv@5", batch=2),
    Planted("conv_ignores_groups", operator="Conv", needs="group"),
    Planted("conv_strides_1x2", operator="Conv", needs="strides"),
    Planted("conv_ignores_bias", operator="Conv"),
    Planted("clip_ignores_max", operator="Clip"),
    Planted("hard_sigmoid_ignores_alpha", "det", operator="HardSigmoid", needs="alpha"),
    Planted("broadcast_of_channels", operator="Mul"),
    Planted("batch_norm_epsilon", "det", operator="BatchNormalization"),
    Planted("wide_channels", operator="Add"),
    Planted("pool_of_7", operator="GlobalAveragePool"),
    Planted("second_run@Mul@6"),
    Planted("third_run@Conv@6"),
    Planted("two_at_once@Conv@10"),
    Planted("drift", operator="Add"),
    Planted("fused_drops_last@Mul@4", fused=True),
    Planted("fused_scaled@Div@3", fused=True),
    Planted("fused_after_add", operator="Relu", fused=True),
    Planted("fused_conv_mul", operator="Mul", fused=True),
    Planted("fused_crash@Div@1", symptom="crash", fused=True),
    Planted("crash@Div@4", symptom="crash"),
    Planted("abort@Conv@1", symptom="crash"),
    Planted("divide_by_zero@Relu@6", symptom="crash"),
    Planted("exit@Clip@4", symptom="crash"),
    Planted("crash_of_large", symptom="crash", operator="Conv"),
    Planted("crash_compile@Conv@12", symptom="crash"),
    Planted("crash_second_run@Conv@9", symptom="crash"),
    Planted("hang@Clip@1", symptom="hang"),
    Planted("hang_compile@Conv@11", symptom="hang"),
    Planted("error@HardSigmoid@0", symptom="error"),
    Planted("error_compile@Conv@14", symptom="error"),
    Planted("error_shape@Conv@0"),
    Planted("error_second_run@Relu@5", symptom="error"),
    Planted("leak@Conv@2", symptom="leak"),
    Planted("leak_large@HardSigmoid@2", symptom="leak"),
)


def search(
    library: Path, planted: Planted, path: Path, probes: bool, shrink: bool = False
) -> ephost.Bisection:
    return ephost.bisect(
        path,
        Target("faulty", libraries=(Library("faulty", str(library)),)),
        inputs=[{"x": picture(planted.model, planted.batch, planted.special)}],
        timeout=15 if planted.symptom == "hang" else 60,
        probes=probes,
        shrink=shrink,
    )


@pytest.mark.sampled(4)
@pytest.mark.timeout(280)
@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.fault)
def test_a_planted_fault_is_found_where_it_is(
    planted: Planted,
    faulty_plugin: Path,
    real_part: Callable[[str, int], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", planted.fault)
    path = real_part(planted.model, NODES[planted.model])
    probes = planted.symptom == "leak" or planted.fault.startswith("two_at_once")
    result = search(faulty_plugin, planted, path, probes)
    assert result.faults, result.headline()
    kinds = {node.name: node for node in onnx.load(path).graph.node}
    for fault in result.faults:
        assert fault.symptom.kind == planted.symptom
        assert fault.fused == planted.fused, fault.headline()
        nodes = [kinds[name] for name in fault.nodes]
        if planted.fused:
            assert len(nodes) == 2, fault.headline()
        if planted.node:
            assert planted.node in fault.nodes
            assert planted.fused or len(nodes) == 1, fault.headline()
        else:
            assert any(node.op_type == planted.operator for node in nodes), fault.headline()
            assert planted.fused or all(node.op_type == planted.operator for node in nodes)
        for node in nodes if planted.needs else []:
            value = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}[planted.needs]
            assert value not in (1, [1, 1]) and (planted.needs != "alpha" or abs(value - 0.2) > 0.01)


@pytest.mark.parametrize("name", ["cls", "det"])
def test_nobody_is_accused_in_a_model_without_fault(
    name: str,
    faulty_plugin: Path,
    real_model: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("EPHOST_FAULT", raising=False)
    result = search(faulty_plugin, Planted("", name), real_model(name), probes=True)
    assert result.symptom is None and not result.faults, str(result)
    assert "no fault found" in result.headline()
