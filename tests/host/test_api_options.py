"""SessionOptions and RunOptions: names, defaults and types as onnxruntime's; what each field does."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from api_models import add_and_relu, model_bytes, tensor
from ephost import options as options_module
from ephost.errors import InvalidArgument, ModelLoadCanceled, NotImplemented, RuntimeException
from onnx import TensorProto, helper

X = np.ones((2, 3), np.float32)


def fields(options: Any) -> dict[str, Any]:
    found = {}
    for name in dir(options):
        if not name.startswith("_") and not callable(value := getattr(options, name)):
            found[name] = int(value) if hasattr(value, "name") else value
    return found


def test_fields_and_defaults_are_onnxruntimes() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    assert fields(ephost.SessionOptions()) == fields(onnxruntime.SessionOptions())
    ours = fields(ephost.RunOptions())
    assert ours.pop("sync_stream") is None  # of the C API alone there
    assert ours == fields(onnxruntime.RunOptions())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable_profiling", "yes"),
        ("intra_op_num_threads", 1.5),
        ("logid", 3),
        ("execution_mode", "parallel"),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=name):
        setattr(ephost.SessionOptions(), name, value)


def test_a_field_that_does_not_exist_cannot_be_set() -> None:
    for options in (ephost.SessionOptions(), ephost.RunOptions()):
        with pytest.raises(AttributeError):
            options.graph_optimisation_level = 1


def test_a_field_without_effect_says_so_once(caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    monkeypatch.setattr(options_module, "_said", set())
    options = ephost.SessionOptions()
    options.enable_mem_pattern = False
    options.inter_op_num_threads = 0  # the default
    with caplog.at_level(logging.INFO, "ephost.options"):
        for _ in range(2):
            ephost.InferenceSession(add_and_relu(), options)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "enable_mem_pattern = False has no effect" in said[0]


def test_the_folded_model_is_written_and_runs_the_same(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Constant", [], ["two"], value_float=2.0),
        helper.make_node("Mul", ["two", "w"], ["w2"]),
        helper.make_node("Mul", ["x", "w2"], ["y"], name="keep"),
    ]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [3], [1, 2, 3])
    model = model_bytes(nodes, [tensor("x", "N", 3)], [tensor("y", "N", 3)], [weight], author="me")
    options = ephost.SessionOptions()
    options.optimized_model_filepath = tmp_path / "folded.onnx"
    expected = ephost.InferenceSession(model, options).run(None, {"x": X})[0]
    written = onnx.load(options.optimized_model_filepath)
    onnx.checker.check_model(written)
    assert [node.name for node in written.graph.node] == ["keep"]
    again = ephost.InferenceSession(options.optimized_model_filepath)
    assert again.run(None, {"x": X})[0].tolist() == expected.tolist() == [[2, 4, 6]] * 2
    assert again.get_modelmeta().custom_metadata_map == {"author": "me"}


def test_a_model_with_bodies_is_written_whole(tmp_path: Path) -> None:
    def body(name: str, op: str) -> onnx.GraphProto:
        return helper.make_graph([helper.make_node(op, ["x"], [name])], name, [], [tensor(name, 2)])

    node = helper.make_node("If", ["c"], ["y"], then_branch=body("t", "Neg"), else_branch=body("e", "Abs"))
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    options = ephost.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "if.onnx")
    ephost.InferenceSession(model_bytes([node], [condition, tensor("x", 2)], [tensor("y", 2)]), options)
    session = ephost.InferenceSession(options.optimized_model_filepath)
    x = np.array([1, -2], np.float32)
    assert session.run(None, {"c": np.array(True), "x": x})[0].tolist() == [-1, 2]
    assert session.run(None, {"c": np.array(False), "x": x})[0].tolist() == [1, 2]


@pytest.mark.parametrize("path", ["model.ort", "missing/model.onnx"])
def test_a_model_that_cannot_be_written_is_an_error(tmp_path: Path, path: str) -> None:
    options = ephost.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / path)
    with pytest.raises(InvalidArgument, match=Path(path).name):
        ephost.InferenceSession(add_and_relu(), options)


def external_model(tmp_path: Path) -> str:
    weight = onnx.numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w")  # as raw bytes
    model = onnx.load_from_string(
        model_bytes(
            [helper.make_node("Mul", ["x", "w"], ["y"])], [tensor("x", 3)], [tensor("y", 3)], [weight]
        )
    )
    path = str(tmp_path / "model.onnx")
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def test_given_initializers_replace_the_models_files_unread(tmp_path: Path) -> None:
    path = external_model(tmp_path)
    data = (tmp_path / "weights.bin").read_bytes()
    (tmp_path / "weights.bin").unlink()
    options = ephost.SessionOptions()
    options.add_initializer("w", ephost.OrtValue.ortvalue_from_numpy(np.array([4, 5, 6], np.float32)))
    x = np.ones(3, np.float32)
    assert ephost.InferenceSession(path, options).run(None, {"x": x})[0].tolist() == [4, 5, 6]
    options = ephost.SessionOptions()
    options.add_external_initializers_from_files_in_memory(["weights.bin"], [data], [len(data)])
    assert ephost.InferenceSession(path, options).run(None, {"x": x})[0].tolist() == [1, 2, 3]
    with pytest.raises(InvalidArgument, match="not 1000"):
        options.add_external_initializers_from_files_in_memory(["weights.bin"], [data], [1000])


def test_an_initializer_of_another_shape_is_refused(tmp_path: Path) -> None:
    options = ephost.SessionOptions()
    value = ephost.OrtValue.ortvalue_from_numpy(np.zeros(4, np.float32))
    options.add_initializer("w", value)
    with pytest.raises(InvalidArgument, match=r"'w'.*\[3\].*\[4\]"):
        ephost.InferenceSession(external_model(tmp_path), options)
    with pytest.raises(InvalidArgument, match="given before"):
        options.add_initializer("w", value)
    with pytest.raises(TypeError, match="OrtValue"):
        options.add_initializer("v", np.zeros(3))


def test_opening_can_be_cancelled() -> None:
    options = ephost.SessionOptions()
    options.set_load_cancellation_flag(True)
    with pytest.raises(ModelLoadCanceled):
        ephost.InferenceSession(add_and_relu(), options)
    options.set_load_cancellation_flag(False)
    ephost.InferenceSession(add_and_relu(), options)


def test_config_entries_are_kept_by_key() -> None:
    for options in (ephost.SessionOptions(), ephost.RunOptions()):
        add = getattr(options, "add_session_config_entry", None) or options.add_run_config_entry
        get = getattr(options, "get_session_config_entry", None) or options.get_run_config_entry
        add("key", "value")
        assert get("key") == "value"
        with pytest.raises(RuntimeException, match="other"):
            get("other")


def test_what_belongs_to_onnxruntime_is_refused_by_name() -> None:
    options = ephost.SessionOptions()
    for call in (
        lambda: options.set_ep_context_data_read_func(print, 10),
        lambda: ephost.ModelCompiler(options, b"model").set_ep_context_data_write_func(print),
    ):
        with pytest.raises(NotImplemented, match="not implemented"):
            call()


def test_sessions_share_the_global_pool_when_told_to() -> None:
    options = ephost.SessionOptions()
    options.use_per_session_threads = False
    for _ in range(2):  # the pool outlives its sessions
        session = ephost.InferenceSession(add_and_relu(), options)
        assert session.run(["z"], {"x": X, "y": X})[0].tolist() == [[2] * 3] * 2
        session.close()
    with pytest.raises(ephost.errors.Fail, match="already been created"):
        ephost.set_global_thread_pool_sizes(2)


def test_a_seed_makes_random_operators_repeatable() -> None:
    model = model_bytes([helper.make_node("RandomNormal", [], ["y"], shape=[4])], [], [tensor("y", 4)])
    drawn = []
    for seed in (5, 5, 6):
        ephost.set_seed(seed)
        drawn.append(ephost.InferenceSession(model).run(None, {})[0].tolist())
    assert drawn[0] == drawn[1] != drawn[2]
