"""What a node of com.microsoft leaves out of its attributes has the value that onnxruntime gives it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.fuzz.examples import CONTRIB
from tests.plugins.cpu.conftest import Cpu, make_model
from tests.plugins.cpu.test_cpu_untyped_contrib import MISSING, OUTPUTS, WITH_WEIGHTS

RUN = [(kind, *rest) for kind, *rest in CONTRIB if kind not in MISSING]


def defaults(kind: str) -> list[onnx.AttributeProto]:
    """The attributes of an operator that have one, each with it, as the installed onnxruntime has them."""
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    (schema,) = (s for s in state.get_all_operator_schema() if (s.domain, s.name) == ("com.microsoft", kind))
    found = []
    for name, attribute in schema.attributes.items():
        default = onnx.AttributeProto.FromString(attribute._default_value)
        if default.type != onnx.AttributeProto.UNDEFINED:
            default.name = name
            found.append(default)
    return found


@pytest.mark.parametrize("at", range(len(RUN)), ids=[f"{kind}-{at}" for at, (kind, *_) in enumerate(RUN)])
def test_what_is_left_out_is_as_if_it_were_given(cpu_plugin: Cpu, at: int) -> None:
    kind, attributes, inputs = RUN[at]
    names = ["" if value is None else f"i{i}" for i, value in enumerate(inputs)]
    outputs = [f"o{i}" for i in range(OUTPUTS.get(kind, 1))]
    values = {name: np.asarray(value) for name, value in zip(names, inputs, strict=True) if name}
    constants = {name: value for name, value in values.items() if kind in WITH_WEIGHTS and name != "i0"}
    feeds = {name: value for name, value in values.items() if name not in constants}

    def made(extra: list[onnx.AttributeProto]) -> list[np.ndarray]:
        node = onnx.helper.make_node(kind, names, outputs, domain="com.microsoft", **attributes)
        node.attribute.extend(extra)
        return cpu_plugin.run(make_model([node], feeds, outputs, constants), feeds)

    expected = made([])
    for default in defaults(kind):
        if default.name not in attributes:
            for a, b in zip(made([default]), expected, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=default.name)
