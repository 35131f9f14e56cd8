"""Whatever is claimed and whatever bodies bring, a session computes what the model says."""

from __future__ import annotations

from collections.abc import Iterator

import ephost
import numpy as np
import onnx
import pytest
from ephost.model.load import load
from generated_graphs import SHAPE, models
from graphs import evaluate
from hypothesis import given, settings
from hypothesis import strategies as st

SAMPLES = ["sample_kernels", "sample_compiler"]


@pytest.fixture(scope="module", autouse=True)
def samples() -> Iterator[None]:
    from ephost.plugins import sample_compiler, sample_kernels

    for name, package in (("kernels", sample_kernels), ("compiler", sample_compiler)):
        ephost.register_execution_provider_library(name, package.get_library_path())
    yield
    for name in ("kernels", "compiler"):
        ephost.unregister_execution_provider_library(name)


@settings(max_examples=settings.default.max_examples * 6)
@given(
    model=models(),
    providers=st.lists(st.sampled_from(SAMPLES), min_size=1, max_size=2, unique=True),
    condition=st.booleans(),
)
def test_sessions_compute_what_models_say(
    model: onnx.ModelProto, providers: list[str], condition: bool
) -> None:
    feeds = {
        "x": np.linspace(-2, 3, 6, dtype=np.float32).reshape(SHAPE),
        "condition": np.array(condition),
    }
    wanted = evaluate(load(model.SerializeToString()), **feeds)
    session = ephost.InferenceSession(model.SerializeToString(), providers=providers, enable_fallback=0)
    for name, got, expected in zip(session.get_outputs(), session.run(None, feeds), wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6, err_msg=name.name)
