"""LoRA adapters: files that onnxruntime wrote and reads, and runs that take their tensors."""

from __future__ import annotations

import gc
from pathlib import Path

import ephost
import ml_dtypes
import numpy as np
import pytest
from api_models import model_bytes, tensor
from ephost import adapters
from ephost.errors import Fail, InvalidArgument, NoSuchFile
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

TENSORS = {
    "w": np.array([10, 20, 30], np.float32),
    "a longer name": np.arange(24, dtype=np.int64).reshape(2, 3, 4),
    "half": np.full((3, 1), 0.5, np.float16),
}


def adapter(tensors: dict[str, np.ndarray], module: object = ephost) -> ephost.AdapterFormat:
    made = module.AdapterFormat()  # type: ignore[attr-defined]
    made.set_adapter_version(3)
    made.set_model_version(7)
    value = module.OrtValue.ortvalue_from_numpy  # type: ignore[attr-defined]
    made.set_parameters({name: value(array) for name, array in tensors.items()})
    return made


def check(read: ephost.AdapterFormat) -> None:
    assert (read.get_format_version(), read.get_adapter_version(), read.get_model_version()) == (1, 3, 7)
    found = read.get_parameters()
    assert set(found) == set(TENSORS)
    for name, array in TENSORS.items():
        back = found[name].numpy()
        assert (back.dtype, back.shape, back.tolist()) == (array.dtype, array.shape, array.tolist())


def test_an_adapter_reads_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    adapter(TENSORS).export_adapter(path)
    check(ephost.AdapterFormat.read_adapter(path))


def test_a_file_of_onnxruntime_is_read(tmp_path: Path) -> None:
    adapter(TENSORS, pytest.importorskip("onnxruntime")).export_adapter(str(tmp_path / "theirs"))
    check(ephost.AdapterFormat.read_adapter(tmp_path / "theirs"))


def test_onnxruntime_reads_our_file(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    adapter(TENSORS).export_adapter(tmp_path / "ours")
    check(onnxruntime.AdapterFormat.read_adapter(str(tmp_path / "ours")))


def test_tensors_that_onnxruntime_does_not_read_come_through(tmp_path: Path) -> None:
    arrays = {
        "bool": np.array([True, False]),
        "bfloat16": np.array([1, 2], ml_dtypes.bfloat16),
        "int4": np.array([1, -2, 3], ml_dtypes.int4),
        "scalar": np.array(2.5),
        "empty": np.zeros((0, 2), np.float16),
    }
    adapter(arrays).export_adapter(tmp_path / "file")
    back = ephost.AdapterFormat.read_adapter(tmp_path / "file").get_parameters()
    assert set(back) == set(arrays)
    for name, value in back.items():
        assert (value.shape(), value.numpy().tolist()) == ([*arrays[name].shape], arrays[name].tolist())


def test_what_no_adapter_has_is_refused_as_it_is_set() -> None:
    adapter = ephost.AdapterFormat()
    for setter in (adapter.set_adapter_version, adapter.set_model_version):
        with pytest.raises(TypeError, match="version is an int, not str"):
            setter("1")
        with pytest.raises(InvalidArgument, match="version is a number from"):
            setter(2**40)
    with pytest.raises(TypeError, match="'a' of an adapter is an OrtValue, not ndarray"):
        adapter.set_parameters({"a": np.ones(2)})
    with pytest.raises(TypeError, match="params is a Mapping, not NoneType"):
        adapter.set_parameters(None)


def test_tensors_keep_their_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    adapter({"w": np.arange(10000)}).export_adapter(path)
    array = ephost.AdapterFormat.read_adapter(path).get_parameters()["w"].numpy()
    path.unlink()
    gc.collect()
    assert array.tolist() == list(range(10000))


def test_what_is_no_adapter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSuchFile, match="nowhere"):
        ephost.LoraAdapter().Load(str(tmp_path / "nowhere"))
    with pytest.raises(Fail, match="cannot be read: Is a directory"):
        ephost.LoraAdapter().Load(str(tmp_path))
    path = tmp_path / "file"
    for content in (b"", b"x" * 100):
        path.write_bytes(content)
        with pytest.raises(InvalidArgument, match="identifier"):
            ephost.LoraAdapter().Load(str(path))
    adapter(TENSORS).export_adapter(path)
    content = path.read_bytes()
    path.write_bytes(content[:24] + bytes([2]) + content[25:])
    with pytest.raises(InvalidArgument, match="version 2 of the format"):
        ephost.AdapterFormat.read_adapter(path)
    with pytest.raises(InvalidArgument, match="'s' is"):
        text = ephost.OrtValue.from_python(np.array(["a"], object))
        strings = ephost.AdapterFormat()
        strings.set_parameters({"s": text})
        strings.export_adapter(path)


@settings(max_examples=6 * settings.default.max_examples)
@given(st.lists(st.tuples(st.integers(0, 10000), st.integers(0, 255)), max_size=4), st.integers(0, 2000))
def test_a_damaged_file_is_refused_or_read(tmp_path: Path, changes: list[tuple[int, int]], cut: int) -> None:
    whole = tmp_path / "whole"
    if not whole.exists():
        adapter(TENSORS).export_adapter(whole)
    content = bytearray(whole.read_bytes())
    for at, byte in changes:
        content[at % len(content)] = byte
    del content[max(len(content) - cut % len(content), 8) :]
    (tmp_path / "damaged").write_bytes(content)
    try:
        read = ephost.AdapterFormat.read_adapter(tmp_path / "damaged")
    except InvalidArgument:
        return
    for value in read.get_parameters().values():
        value.tensor_size_in_bytes()


# ---- runs ----


@pytest.fixture
def session() -> ephost.InferenceSession:
    default = numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w")
    inputs = [tensor("x", 3), tensor("w", 3)]
    node = helper.make_node("Add", ["x", "w"], ["y"])
    return ephost.InferenceSession(model_bytes([node], inputs, [tensor("y", 3)], [default]))


def options(path: Path, *tensors: dict[str, np.ndarray]) -> ephost.RunOptions:
    made = ephost.RunOptions()
    for each in tensors:
        adapter(each).export_adapter(path / "file")
        active = ephost.LoraAdapter()
        active.Load(str(path / "file"))
        made.add_active_adapter(active)
        (path / "file").unlink()
    return made


def test_a_run_takes_what_its_adapters_have(session: ephost.InferenceSession, tmp_path: Path) -> None:
    feed = {"x": np.zeros(3, np.float32)}
    w = {"w": TENSORS["w"]}
    for given_, tensors, expected in (
        (feed, (w,), [10, 20, 30]),
        ({**feed, "w": np.full(3, 5, np.float32)}, (w,), [10, 20, 30]),
        (feed, (w, {"w": np.zeros(3, np.float32)}), [10, 20, 30]),
    ):
        assert session.run(None, given_, options(tmp_path, *tensors))[0].tolist() == expected
        assert session.run(None, feed)[0].tolist() == [1, 2, 3]
    chosen = options(tmp_path, w)
    values = {"x": ephost.OrtValue.ortvalue_from_numpy(feed["x"])}
    assert session.run_with_ort_values(None, values, chosen)[0].numpy().tolist() == [10, 20, 30]
    binding = session.io_binding()
    binding.bind_cpu_input("x", feed["x"])
    binding.bind_output("y")
    for now, expected in ((chosen, [10, 20, 30]), (None, [1, 2, 3]), (chosen, [10, 20, 30])):
        session.run_with_iobinding(binding, now)
        assert binding.copy_outputs_to_cpu()[0].tolist() == expected


def test_an_adapter_that_does_not_fit_the_model_is_refused(
    session: ephost.InferenceSession, tmp_path: Path
) -> None:
    feed = {"x": np.zeros(3, np.float32)}
    for tensors, why in (
        ({"q": TENSORS["w"]}, "q"),
        ({"w": TENSORS["w"][:2]}, "Got: 2 Expected: 3"),
        ({"w": np.zeros(3)}, "double"),
    ):
        with pytest.raises((InvalidArgument, ValueError), match=why):
            session.run(None, feed, options(tmp_path, tensors))
    with pytest.raises(TypeError, match="LoraAdapter"):
        ephost.RunOptions().add_active_adapter("adapter")


def test_a_default_without_elements_gives_way_to_an_adapters_tensor(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["m"]),
        helper.make_node("MatMul", ["m", "b"], ["y"]),
    ]
    inputs = [tensor("x", 2, 4), tensor("a", 4, "rank"), tensor("b", "rank", 4)]
    defaults = [
        numpy_helper.from_array(np.zeros(shape, np.float32), name)
        for name, shape in (("a", (4, 0)), ("b", (0, 4)))
    ]
    session = ephost.InferenceSession(model_bytes(nodes, inputs, [tensor("y", 2, 4)], defaults))
    shapes = {value.name: value.shape for value in session.get_overridable_initializers()}
    assert shapes == {"a": [4, "rank"], "b": ["rank", 4]}
    x = np.ones((2, 4), np.float32)
    assert session.run(None, {"x": x})[0].tolist() == np.zeros((2, 4)).tolist()
    weights = {"a": np.full((4, 3), 2, np.float32), "b": np.full((3, 4), 0.5, np.float32)}
    adapter(weights).export_adapter(tmp_path / "file")
    options, loaded = ephost.RunOptions(), ephost.LoraAdapter()
    loaded.Load(str(tmp_path / "file"))
    options.add_active_adapter(loaded)
    expected = (x @ weights["a"] @ weights["b"]).tolist()
    assert session.run(None, {"x": x}, options)[0].tolist() == expected


def test_what_is_no_value_is_no_parameter() -> None:
    made = adapter(TENSORS)
    with pytest.raises(TypeError, match="the parameter 'w' of an adapter is an OrtValue, not int"):
        made.set_parameters({"w": 3})  # type: ignore[dict-item]
    assert set(made.get_parameters()) == set(TENSORS)


@pytest.mark.parametrize(
    ("limit", "value", "name"), [("_LAST_TABLE", 300, "half"), ("_LONGEST", 100, "a longer name")]
)
def test_what_is_more_than_a_file_can_hold_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, name: str
) -> None:
    monkeypatch.setattr(adapters, limit, value)
    with pytest.raises(InvalidArgument, match=f"the parameter '{name}'"):
        adapter(TENSORS).export_adapter(tmp_path / "a.onnx_adapter")
    assert list(tmp_path.iterdir()) == []
