"""The classification networks that the onnx package carries, against the outputs that come with them."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from node_runner import assert_same, run_model
from onnx import numpy_helper
from onnx.backend.test.runner import Runner

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.mark.parametrize("name", sorted(path.stem for path in LIGHT.glob("light_*.onnx")))
def test_a_light_model_gives_its_published_output(name: str) -> None:
    model = onnx.load(LIGHT / f"{name}.onnx")
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = [
        Runner.generate_dummy_data(value, seed=0, name=name, random=False)
        for value in model.graph.input
        if value.name not in stored
    ]
    expected = onnx.load_tensor(LIGHT / f"{name}_output_0.pb")
    assert_same([numpy_helper.to_array(expected)], run_model(model, inputs), rtol=2e-3, atol=1e-6)


def test_the_light_models_are_there() -> None:
    assert len(list(LIGHT.glob("light_*.onnx"))) >= 9
