"""The attributes with an underscore that programs read from a session, as onnxruntime's has them."""

from __future__ import annotations

from pathlib import Path

import ephost
import numpy as np
import pytest
from api_models import add_and_relu
from ephost.capi.onnxruntime_pybind11_state import OrtValueVector, RunOptions, SessionIOBinding

FEED = {"x": np.ones((1, 3), np.float32), "y": np.ones((1, 3), np.float32)}


@pytest.fixture
def session() -> ephost.InferenceSession:
    return ephost.InferenceSession(add_and_relu())


def test_where_a_model_came_from_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(add_and_relu())
    opened = ephost.InferenceSession(path)
    assert (opened._model_path, opened._model_bytes) == (str(path), None)
    opened = ephost.InferenceSession(add_and_relu())
    assert (opened._model_path, opened._model_bytes) == (None, add_and_relu())


def test_the_native_session_takes_its_arguments_in_onnxruntimes_order(
    session: ephost.InferenceSession,
) -> None:
    native = session._sess
    values = {name: ephost.OrtValue.ortvalue_from_numpy(array) for name, array in FEED.items()}
    made = native.run_with_ort_values(values, ["s"], RunOptions())
    assert isinstance(made, OrtValueVector)
    assert made[0].numpy().tolist() == [[2, 2, 2]]
    assert native.run(["s"], FEED, None)[0].tolist() == [[2, 2, 2]]
    fetches = OrtValueVector()
    native.run_with_ortvaluevector(RunOptions(), list(values), list(values.values()), ["s"], fetches, [])
    assert fetches[0].numpy().tolist() == [[2, 2, 2]]
    binding = SessionIOBinding(native)
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("s", ephost.OrtDevice.make("cpu", 0))
    native.run_with_iobinding(binding, None)
    assert binding.get_outputs()[0].numpy().tolist() == [[2, 2, 2]]


def test_what_is_kept_beside_it_is_what_the_methods_give(session: ephost.InferenceSession) -> None:
    for holder in (session, session._sess):
        names = "inputs_meta", "outputs_meta", "overridable_initializers", "model_meta"
        prefix = "_" if holder is session else ""
        found = [getattr(holder, prefix + name) for name in names]
        assert found == [
            session.get_inputs(),
            session.get_outputs(),
            session.get_overridable_initializers(),
            session.get_modelmeta(),
        ]
        assert len({*found[0], *session.get_inputs(), found[3], session.get_modelmeta()}) == 1 + len(found[0])
    assert session._providers == session.get_providers()
    assert session._provider_options == session.get_provider_options()
    assert session._sess_options is session.get_session_options()
    assert session._enable_fallback is True
    assert session._sess.get_providers() == session.get_providers()


def test_every_name_of_the_native_session_is_there(session: ephost.InferenceSession) -> None:
    native = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state").InferenceSession
    unknown = {"_pybind11_conduit_v1_", "initialize_session", "webgpu_context_id"}
    names = {name for name in dir(native) if not name.startswith("__")} - unknown
    assert {name for name in names if not hasattr(session._sess, name)} == set()
