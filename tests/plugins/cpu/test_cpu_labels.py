"""LabelEncoder and CategoryMapper."""

import itertools

import ephost
import numpy as np
import onnx
import pytest
from ephost.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, assert_close, make_model

NAMES = ["", "a", "bb", "é", "a long one that no short string holds", "a b"]
KINDS: dict[str, list[object]] = {
    "strings": [*NAMES],
    "int64s": [5, -1, 0, 1 << 40, 7, -(1 << 50)],
    "floats": [0.5, -0.0, 3.0, 1e30, -7.25, 2.0],
}
DTYPES = {"strings": object, "int64s": np.int64, "floats": np.float32}


def ml_node(op: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, ["x"], ["y"], domain="ai.onnx.ml", **attributes)


def elements(kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Keys, and some that are none."""
    others = {"strings": ["b", "\U0001f600"], "int64s": [6, 1 << 62], "floats": [0.25, 0.0]}[kind]
    pool = np.array([*KINDS[kind], *others], DTYPES[kind])
    return np.array(pool[np.random.default_rng(0).integers(0, len(pool), shape)], DTYPES[kind])


@pytest.mark.parametrize(("keys", "values"), list(itertools.product(KINDS, KINDS)))
@pytest.mark.parametrize("ml", [2, 3, 4])
@pytest.mark.parametrize("shape", [(), (0, 3), (9,), (40, 5)])
def test_each_pair_of_types(cpu_plugin: Cpu, keys: str, values: str, ml: int, shape: tuple[int, ...]) -> None:
    defaults = {"default_string": "nobody", "default_int64": 99, "default_float": 1.5}
    if ml < 4 and (keys, values) in (("floats", "floats"), ("int64s", "int64s"), ("strings", "strings")):
        defaults = {}
    for more in ({}, defaults):
        lists = {f"keys_{keys}": KINDS[keys], f"values_{values}": KINDS[values][::-1]}
        node = ml_node("LabelEncoder", **lists, **more)
        cpu_plugin.check_beside_onnxruntime(node, {"x": elements(keys, shape)}, ml=ml)


@pytest.mark.parametrize("ml", [2, 4])
def test_not_a_number_is_a_key_since_the_fourth_opset(cpu_plugin: Cpu, ml: int) -> None:
    node = ml_node("LabelEncoder", keys_floats=[1.0, float("nan"), 2.0], values_int64s=[10, 20, 30])
    x = np.array([1, np.nan, -np.nan, 2, 3], np.float32)
    cpu_plugin.check_beside_onnxruntime(node, {"x": x}, ml=ml)


@pytest.mark.parametrize("ml", [2, 4])
def test_of_equal_keys_one_counts(cpu_plugin: Cpu, ml: int) -> None:
    for keys in ({"keys_int64s": [1, 2, 1]}, {"keys_strings": ["a", "b", "a"]}):
        x = np.array([1, 2]) if "keys_int64s" in keys else np.array(["a", "b"], object)
        cpu_plugin.check_beside_onnxruntime(
            ml_node("LabelEncoder", **keys, values_int64s=[5, 6, 7]), {"x": x}, ml=ml
        )


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        (np.float64, np.float64),
        (np.int64, np.int64),
        (np.float32, np.float32),
        (object, np.int16),
        (object, np.int64),
        (np.int64, object),
    ],
)
def test_lists_as_tensors(cpu_plugin: Cpu, keys: type, values: type) -> None:
    def listed(dtype: type) -> np.ndarray:
        return np.array(["a", "b", "ccc"], object) if dtype is object else np.array([3, 1, 2], dtype)

    def tensor(array: np.ndarray, name: str) -> onnx.TensorProto:
        return onnx.numpy_helper.from_array(array, name)

    node = ml_node(
        "LabelEncoder",
        keys_tensor=tensor(listed(keys), "k"),
        values_tensor=tensor(listed(values), "v"),
        default_tensor=tensor(listed(values)[:1], "d"),
    )
    x = np.array(["a", "ccc", "no"], object) if keys is object else np.array([1, 2, 9], keys)
    cpu_plugin.check_beside_onnxruntime(node, {"x": x})


@pytest.mark.parametrize("shape", [(7,), (3, 4), (0,)])
def test_names_and_their_places(cpu_plugin: Cpu, shape: tuple[int, ...]) -> None:
    names = elements("strings", shape)
    places = np.random.default_rng(0).integers(-2, 9, shape)
    for more in ({}, {"default_string": "nobody", "default_int64": 77}):
        first = ml_node("LabelEncoder", classes_strings=NAMES, **more)
        mapper = ml_node("CategoryMapper", cats_strings=NAMES, cats_int64s=[3, 1, 4, -1, 5, 9], **more)
        for x in (names, places):
            cpu_plugin.check_beside_onnxruntime(first, {"x": x}, ml=1)
            cpu_plugin.check_beside_onnxruntime(mapper, {"x": x})


def test_many_keys_are_found(cpu_plugin: Cpu) -> None:
    rng = np.random.default_rng(0)
    keys = rng.permutation(20000)
    texts = [f"key {key}" for key in keys]
    lists = [
        ({"keys_int64s": (keys * 4096).tolist()}, keys * 4096),
        ({"keys_strings": texts}, np.array(texts, object)),
    ]
    for attributes, x in lists:
        node = ml_node("LabelEncoder", **attributes, values_int64s=list(range(20000)))
        model = make_model([node], {"x": x}, ["y"])
        (y,) = cpu_plugin.run(model, {"x": x})
        assert_close(y, np.arange(20000), None, None, "y")


def test_a_text_with_a_zero_byte_in_a_list_is_left_to_the_host() -> None:
    node = ml_node("LabelEncoder", keys_strings=[b"A\0A\0", b"B"], values_int64s=[7, 8], default_int64=-1)
    x = np.array([b"A\0A\0", b"B", b"A"], object)
    session = ephost.InferenceSession(make_model([node], {"x": x}, ["y"]).SerializeToString())
    assert session.run(None, {"x": x})[0].tolist() == [7, 8, -1]


def test_a_default_may_have_a_zero_byte(cpu_plugin: Cpu) -> None:
    node = ml_node("CategoryMapper", cats_strings=["a", "b"], cats_int64s=[1, 2], default_string=b"a\0b")
    cpu_plugin.check_beside_onnxruntime(node, {"x": np.array([1, 2, 3])})


def tensor_of(*values: float) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array(values, np.float32), "t")


@pytest.mark.parametrize(
    ("op", "attributes", "words"),
    [
        (
            "LabelEncoder",
            {"keys_floats": [1.0, 2.0], "values_int64s": [1]},
            "keys 2 and the number of values 1",
        ),
        ("LabelEncoder", {"keys_floats": [1.0]}, "values_int64s"),
        ("LabelEncoder", {"values_floats": [1.0]}, "keys_int64s"),
        (
            "LabelEncoder",
            {"keys_floats": [1.0], "keys_int64s": [1], "values_int64s": [1]},
            "One and only one",
        ),
        (
            "LabelEncoder",
            {"keys_floats": [1.0], "values_int64s": [1], "default_tensor": tensor_of(1.0)},
            "default tensor type",
        ),
        (
            "LabelEncoder",
            {"keys_floats": [1.0], "values_floats": [1.0], "default_tensor": tensor_of(1.0, 2.0)},
            "default tensor",
        ),
        ("CategoryMapper", {"cats_strings": ["a", "b"], "cats_int64s": [1]}, "same length"),
    ],
)
def test_attributes_that_do_not_fit_are_named_when_the_session_opens(
    cpu_plugin: Cpu, op: str, attributes: dict[str, object], words: str
) -> None:
    node = helper.make_node(op, ["x"], ["y"], "faulty", domain="ai.onnx.ml", **attributes)
    dtype = np.int64 if op == "CategoryMapper" else np.float32
    model = make_model([node], {"x": np.zeros(2, dtype)}, ["y"], open_shapes=True)
    with pytest.raises((Fail, InvalidArgument, InvalidGraph), match="faulty") as caught:
        cpu_plugin.session(model)
    assert words in str(caught.value)
