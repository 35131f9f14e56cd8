"""SessionOptions and RunOptions: names, defaults and types as onnxruntime's; what each field does."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from api_models import add_and_relu, model_bytes, tensor
from ephost import options as options_module
from ephost.errors import Fail, InvalidArgument, ModelLoadCanceled, RuntimeException
from onnx import TensorProto, helper, numpy_helper

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


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("intra_op_num_threads", np.int64(3), 3),
        ("intra_op_num_threads", np.uint8(2), 2),
        ("enable_profiling", np.True_, True),
        ("enable_profiling", 1, True),
        ("enable_mem_pattern", 0, False),
        ("graph_optimization_level", np.int32(1), ephost.GraphOptimizationLevel.ORT_ENABLE_BASIC),
    ],
)
def test_numbers_of_numpy_and_0_and_1_are_values(name: str, value: object, kept: object) -> None:
    options = ephost.SessionOptions()
    setattr(options, name, value)
    assert getattr(options, name) == kept and type(getattr(options, name)) is type(kept)


@pytest.mark.parametrize(
    ("name", "value"),
    [("intra_op_num_threads", 1.5), ("intra_op_num_threads", 2**31), ("enable_profiling", "1")],
)
def test_numbers_that_are_no_such_value_are_refused(name: str, value: object) -> None:
    kind = "a bool" if name == "enable_profiling" else "an int of 32 bits"
    with pytest.raises(TypeError, match=f"{name} is {kind}, not {value!r}"):
        setattr(ephost.SessionOptions(), name, value)


def test_a_dimension_may_be_a_number_of_numpy() -> None:
    options = ephost.SessionOptions()
    options.add_free_dimension_override_by_name("N", np.int64(7))
    assert ephost.InferenceSession(add_and_relu(), options).get_inputs()[0].shape == [7, 3]


@pytest.mark.parametrize("smallest", ["64", "100000"])
def test_the_large_weights_of_the_optimized_model_may_have_a_file(tmp_path: Path, smallest: str) -> None:
    weights = np.arange(300, dtype=np.float32).reshape(100, 3)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["y"])]
    constants = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(X[0], "b")]
    model = model_bytes(nodes, [tensor("x", 2, 100)], [tensor("y", 2, 3)], constants)
    feed = {"x": np.ones((2, 100), np.float32)}
    options = ephost.SessionOptions()
    path = tmp_path / "written.onnx"
    options.optimized_model_filepath = path
    key = "session.optimized_model_external_initializers_"
    options.add_session_config_entry(key + "file_name", "weights.bin")
    options.add_session_config_entry(key + "min_size_in_bytes", smallest)
    expected = ephost.InferenceSession(model, options).run(None, feed)[0]
    assert sorted(p.name for p in tmp_path.iterdir()) == (
        ["weights.bin", "written.onnx"] if smallest == "64" else ["written.onnx"]
    )
    onnx.checker.check_model(path)
    for _ in range(2):  # the second time into the file that it reads
        assert ephost.InferenceSession(path, options).run(None, feed)[0].tolist() == expected.tolist()
    if smallest == "64":
        assert (tmp_path / "weights.bin").stat().st_size == weights.nbytes


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("../w.bin", "1", "not in the folder"),
        ("no/w.bin", "1", "no folder"),
        ("w.bin", "few", "few"),
        ("written.onnx", "1", "the optimized model itself"),
    ],
)
def test_a_file_for_weights_that_cannot_be_is_refused(
    tmp_path: Path, name: str, size: str, message: str
) -> None:
    options = ephost.SessionOptions()
    options.optimized_model_filepath = tmp_path / "written.onnx"
    key = "session.optimized_model_external_initializers_"
    options.add_session_config_entry(key + "file_name", name)
    options.add_session_config_entry(key + "min_size_in_bytes", size)
    with pytest.raises(InvalidArgument, match=message):
        ephost.InferenceSession(add_and_relu(), options)
    assert not list(tmp_path.iterdir())


def test_weights_of_bodies_stay_in_the_optimized_model(tmp_path: Path) -> None:
    weights = np.arange(300, dtype=np.float32)
    bodies = []
    for name in ("then", "else"):
        node = helper.make_node("Add", ["x", f"w_{name}"], [name], name=name)
        held = numpy_helper.from_array(weights, f"w_{name}")
        bodies.append(helper.make_graph([node], name, [], [tensor(name, 300)], [held]))
    branch = helper.make_node("If", ["c"], ["m"], then_branch=bodies[0], else_branch=bodies[1])
    last = helper.make_node("Mul", ["m", "k"], ["y"])
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    factor = numpy_helper.from_array(np.full(300, 2, np.float32), "k")
    model = model_bytes([branch, last], [tensor("x", 300), condition], [tensor("y", 300)], [factor])
    options = ephost.SessionOptions()
    options.optimized_model_filepath = path = tmp_path / "written.onnx"
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights.bin")
    ephost.InferenceSession(model, options)
    assert (tmp_path / "weights.bin").stat().st_size == weights.nbytes
    feed = {"x": np.zeros(300, np.float32), "c": np.array(True)}
    assert ephost.InferenceSession(path).run(None, feed)[0].tolist() == (2 * weights).tolist()


@pytest.mark.parametrize("apart", [False, True])
def test_a_name_that_is_not_utf8_is_an_error_of_writing(tmp_path: Path, apart: bool) -> None:
    node = helper.make_node("Neg", ["x"], ["out"])
    model = model_bytes([node], [tensor("x", 2)], [tensor("out", 2)]).replace(b"out", b"o\xfft")
    options = ephost.SessionOptions()
    options.optimized_model_filepath = tmp_path / "written.onnx"
    if apart:
        key = "session.optimized_model_external_initializers_file_name"
        options.add_session_config_entry(key, "weights.bin")
    with pytest.raises(Fail, match="not UTF-8"):
        ephost.InferenceSession(model, options)
    assert not list(tmp_path.iterdir())


def test_a_model_brings_options_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = '{"session_options": {"intra_op_num_threads": 3, "execution_mode": 1, "unheard_of": 1}}'
    model, given = add_and_relu(ort_config=wanted), ephost.SessionOptions()
    opened = ephost.InferenceSession(model, given, read_config_from_model=1)
    assert opened.get_session_options().intra_op_num_threads == 3
    assert opened.get_session_options().execution_mode == ephost.ExecutionMode.ORT_PARALLEL
    assert given.intra_op_num_threads == 0
    assert ephost.InferenceSession(model).get_session_options().intra_op_num_threads == 0
    monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", "1")
    assert ephost.InferenceSession(model).get_session_options().intra_op_num_threads == 3
    with pytest.raises(InvalidArgument, match="ort_config"):
        ephost.InferenceSession(add_and_relu(ort_config='{"session_options": {"execution_mode": "x"}}'))


def test_an_unknown_argument_of_a_session_is_warned_about_at_the_callers_line() -> None:
    with pytest.warns(UserWarning, match="no argument 'colour'") as warned:
        ephost.InferenceSession(add_and_relu(), colour="red")
    assert warned[0].filename == __file__


def test_an_unknown_provider_is_warned_about_at_the_callers_line() -> None:
    with pytest.warns(UserWarning, match="Specified provider 'nobody'") as warned:
        ephost.InferenceSession(add_and_relu(), providers=["nobody"])
    assert warned[0].filename == __file__


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


def test_a_written_model_lists_the_types_that_the_model_lists(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("Exp", ["a"], ["b"]),
        helper.make_node("Sin", ["b"], ["y"]),
    ]
    model = onnx.load_from_string(model_bytes(nodes, [tensor("x", "N", 3)], [tensor("y", "N", 3)], []))
    model.graph.value_info.append(tensor("b", "N", 3))
    options = ephost.SessionOptions()
    options.optimized_model_filepath = tmp_path / "written.onnx"
    ephost.InferenceSession(model.SerializeToString(), options)
    written = onnx.load(options.optimized_model_filepath)
    assert [info.name for info in written.graph.value_info] == ["b"]


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


@pytest.mark.parametrize(
    ("path", "format_"), [("model.ort", ""), ("model.onnx", "ORT"), ("missing/model.onnx", "ONNX")]
)
def test_a_model_that_cannot_be_written_is_an_error(tmp_path: Path, path: str, format_: str) -> None:
    options = ephost.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / path)
    options.add_session_config_entry("session.save_model_format", format_)
    with pytest.raises(InvalidArgument, match=Path(path).name):
        ephost.InferenceSession(add_and_relu(), options)
    assert not list(tmp_path.iterdir())


def test_the_format_counts_more_than_the_name_of_the_file(tmp_path: Path) -> None:
    options = ephost.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "model.ort")
    options.add_session_config_entry("session.save_model_format", "ONNX")
    ephost.InferenceSession(add_and_relu(), options)
    onnx.checker.check_model(onnx.load(options.optimized_model_filepath))


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


def test_a_file_in_memory_is_found_under_another_spelling_of_its_path(tmp_path: Path) -> None:
    model = onnx.load(external_model(tmp_path), load_external_data=False)
    data = np.array([7, 8, 9], np.float32).tobytes()
    for given, location in [("weights.bin", "./weights.bin"), ("a/../weights.bin", "weights.bin")]:
        model.graph.initializer[0].external_data[0].value = location
        onnx.save(model, tmp_path / "model.onnx")
        options = ephost.SessionOptions()
        options.add_external_initializers_from_files_in_memory([given], [data], [len(data)])
        session = ephost.InferenceSession(tmp_path / "model.onnx", options)
        assert session.run(None, {"x": np.ones(3, np.float32)})[0].tolist() == [7, 8, 9]
    with pytest.raises(InvalidArgument, match=r"'w\.bin' is given twice"):
        options.add_external_initializers_from_files_in_memory(["w.bin"] * 2, [data] * 2, [len(data)] * 2)


def test_a_sparse_initializer_is_replaced_too() -> None:
    values = numpy_helper.from_array(np.array([5], np.float32), "w")
    indices = numpy_helper.from_array(np.array([2], np.int64), "w_indices")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy")
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"])]
    sparse = helper.make_sparse_tensor(values, indices, [3])
    model = helper.make_model(
        helper.make_graph(nodes, "sparse", [x], [y], sparse_initializer=[sparse]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    ).SerializeToString()
    options = ephost.SessionOptions()
    options.add_initializer("w", ephost.OrtValue.ortvalue_from_numpy(np.array([4, 5, 6], np.float32)))
    session = ephost.InferenceSession(model, options)
    assert session.run(None, {"x": np.ones(3, np.float32)})[0].tolist() == [4, 5, 6]
    options = ephost.SessionOptions()
    options.add_initializer("w", ephost.OrtValue.ortvalue_from_numpy(np.zeros(1, np.float32)))
    with pytest.raises(InvalidArgument, match=r"'w'.*\[3\].*\[1\]"):
        ephost.InferenceSession(model, options)


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


def test_an_external_initializer_that_a_model_lacks_is_refused(tmp_path: Path) -> None:
    value = ephost.OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32))
    options = ephost.SessionOptions()
    with pytest.raises(InvalidArgument, match="'w' was given before"):
        options.add_external_initializers(["w", "w"], [value, value])
    options.add_external_initializers(["w1"], [value])
    with pytest.raises(Fail, match=r"model.onnx has no initializer 'w1'"):
        ephost.InferenceSession(external_model(tmp_path), options)


def test_a_dimension_that_is_to_have_two_sizes_is_refused() -> None:
    model = onnx.load_from_string(add_and_relu())
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    options = ephost.SessionOptions()
    options.add_free_dimension_override_by_name("N", 2)
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 2)
    ephost.InferenceSession(model, options)
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 3)
    with pytest.raises(InvalidArgument, match="'N' is to be 2 by its name, and 3 by its denotation"):
        ephost.InferenceSession(model, options)


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


FIELDS: list[tuple[str, list[Any]]] = [
    ("intra_op_num_threads", [np.int64(2), True, 1.5, "1", None, 2**40]),
    ("enable_mem_pattern", [np.bool_(False), np.int64(1), 0, 1, 2, 1.0, None, "x", []]),
    ("profile_file_prefix", ["x", b"x", 3, None]),
    ("graph_optimization_level", ["all", 1.5, None]),
    ("terminate", [np.bool_(False), 0, 1, None, "x"]),
    ("only_execute_path_to_fetches", [np.bool_(True), 0, None, "x"]),
    ("logid", ["x", b"x", 3]),
]


@pytest.mark.parametrize(("name", "values"), FIELDS)
def test_fields_take_what_they_take_in_onnxruntime(name: str, values: list[Any]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    kind = "SessionOptions" if hasattr(ephost.SessionOptions, name) and name != "logid" else "RunOptions"
    for value in values:
        found = []
        for host in (ephost, onnxruntime):
            options = getattr(host, kind)()
            try:
                setattr(options, name, value)
            except TypeError:
                found.append("TypeError")
            else:
                found.append(repr(getattr(options, name)))
        assert found[0] == found[1], value


def test_numbers_of_enumerators_pass_for_them_and_others_do_not() -> None:
    options = ephost.SessionOptions()
    options.graph_optimization_level = np.int64(99)
    assert options.graph_optimization_level is ephost.GraphOptimizationLevel.ORT_ENABLE_ALL
    with pytest.raises(TypeError, match="GraphOptimizationLevel, not 7"):
        options.graph_optimization_level = 7


@pytest.mark.parametrize(("given", "expected"), [(None, 2**63 - 1), (0, 0), (7, 7)])
def test_a_model_without_a_version_has_onnxruntimes_number_for_none(
    given: int | None, expected: int, tmp_path: Path
) -> None:
    proto = onnx.ModelProto.FromString(add_and_relu())
    proto.ClearField("model_version")
    if given is not None:
        proto.model_version = given
    options = ephost.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    session = ephost.InferenceSession(proto.SerializeToString(), options)
    assert session.get_modelmeta().version == expected
    saved = onnx.load(options.optimized_model_filepath)
    assert saved.HasField("model_version") == (given is not None) and saved.model_version == (given or 0)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("", "1", "has an empty key, or a NUL"),
        ("a\0b", "1", "has an empty key, or a NUL"),
        ("a", "1\0", "has an empty key, or a NUL"),
        ("a", "\udcff", "is nothing that UTF-8 has"),
        ("\udcff", "1", "is nothing that UTF-8 has"),
        ("k" * 1025, "1", r"k'?\.\.\. \(1027 characters\) is longer than 1024"),
    ],
)
def test_entries_that_no_plugin_could_be_told_are_refused(key: str, value: str, says: str) -> None:
    options, run_options = ephost.SessionOptions(), ephost.RunOptions()
    for add in (options.add_session_config_entry, run_options.add_run_config_entry):
        with pytest.raises(InvalidArgument, match=says) as caught:
            add(key, value)
        assert len(str(caught.value)) < 300
    with pytest.raises(InvalidArgument, match=says):
        options.add_provider("CPUExecutionProvider", {key: value})


def test_copies_of_options_change_by_themselves() -> None:
    options = ephost.SessionOptions()
    options.intra_op_num_threads = 3
    options.add_session_config_entry("a.b", "1")
    options.add_free_dimension_override_by_name("n", 4)
    made = copy.copy(options)
    assert fields(made) == fields(options)
    made.intra_op_num_threads = 5
    made.add_session_config_entry("a.b", "2")
    made.add_initializer("w", ephost.OrtValue.ortvalue_from_numpy(X))
    made.add_free_dimension_override_by_name("n", 5)
    assert options.intra_op_num_threads == 3
    assert options.get_session_config_entry("a.b") == "1"
    options.add_initializer("w", ephost.OrtValue.ortvalue_from_numpy(X))  # was not given before
    assert options._free_dimensions == {"n": 4}

    run_options = ephost.RunOptions()
    run_options.logid = "one"
    run_options.add_run_config_entry("a.b", "1")
    again = copy.copy(run_options)
    again.logid = "two"
    again.terminate = True
    again.add_run_config_entry("c.d", "2")
    assert (run_options.logid, again.logid) == ("one", "two")
    assert again.get_run_config_entry("a.b") == "1"
    with pytest.raises(RuntimeException):
        run_options.get_run_config_entry("c.d")
    session = ephost.InferenceSession(add_and_relu())
    session.run(None, {"x": X, "y": X}, run_options)  # is not terminated
