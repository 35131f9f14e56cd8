"""Operators of ai.onnx.ml that prepare features."""

import numpy as np
import onnx
import pytest
from ephost.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, assert_close, make_model

DTYPES = ["float32", "float64", "int64", "int32"]


def ml_node(op: str, inputs: tuple[str, ...] = ("x",), **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, list(inputs), ["y"], domain="ai.onnx.ml", **attributes)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    return (rng.standard_normal(shape) * 4).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5,), (0, 5), (1, 5), (300, 5), (2, 5, 3)])
def test_scalers(cpu_plugin: Cpu, dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    for many in (1, 5):
        node = ml_node("Scaler", offset=rng.random(many).tolist(), scale=rng.random(many).tolist())
        cpu_plugin.check_beside_onnxruntime(node, {"x": numbers(rng, shape, dtype)})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
@pytest.mark.parametrize("shape", [(5,), (0, 5), (1, 5), (300, 5), (3, 1)])
def test_normalizers(cpu_plugin: Cpu, dtype: str, norm: str, shape: tuple[int, ...]) -> None:
    x = numbers(np.random.default_rng(0), shape, dtype)
    if len(shape) == 2 and shape[0] > 2:
        x[1] = 0
        x[2] = -np.abs(x[2])
    cpu_plugin.check_beside_onnxruntime(ml_node("Normalizer", norm=norm), {"x": x})


@pytest.mark.parametrize("shape", [(4,), (1, 4), (50, 4), (2, 4, 3)])
def test_imputers(cpu_plugin: Cpu, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = np.round(numbers(rng, shape))
    x[rng.random(shape) < 0.3] = np.nan
    for values in ([7.5], [1.5, 2.5, 3.5, 4.5]):
        for replaced in (float("nan"), 1.0, 0.0):
            node = ml_node("Imputer", imputed_value_floats=values, replaced_value_float=replaced)
            cpu_plugin.check_beside_onnxruntime(node, {"x": x})
        whole = numbers(rng, shape, "int64")
        node = ml_node("Imputer", imputed_value_int64s=[int(v) for v in values], replaced_value_int64=1)
        cpu_plugin.check_beside_onnxruntime(node, {"x": whole})


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_imputers_of_types_that_onnxruntime_has_no_kernel_for(cpu_plugin: Cpu, dtype: str) -> None:
    x = np.array([[1, 0, 3], [0, 2, 0]], dtype)
    whole = dtype.startswith("int")
    suffix = "int64" if whole else "float"
    values = {f"imputed_value_{suffix}s": [7, 8, 9], f"replaced_value_{suffix}": 0}
    if not whole:
        values = {f"imputed_value_{suffix}s": [7.0, 8.0, 9.0], f"replaced_value_{suffix}": 0.0}
    model = make_model([ml_node("Imputer", **values)], {"x": x}, ["y"])
    (y,) = cpu_plugin.run(model, {"x": x})
    assert_close(y, np.array([[1, 8, 3], [7, 2, 9]], dtype), None, None, "y")


def test_binarizers(cpu_plugin: Cpu) -> None:
    x = np.array([[-1, 0, 0.5], [-np.inf, np.inf, 0.25]], np.float32)
    for threshold in (0.0, 0.25, -3.0):
        cpu_plugin.check_beside_onnxruntime(ml_node("Binarizer", threshold=threshold), {"x": x})
    for dtype in DTYPES:
        x = np.arange(4).astype(dtype)
        (y,) = cpu_plugin.run(make_model([ml_node("Binarizer", threshold=1.0)], {"x": x}, ["y"]), {"x": x})
        assert_close(y, np.array([0, 0, 1, 1], dtype), None, None, "y")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "object"])
@pytest.mark.parametrize("shape", [(6,), (0,), (3, 2), (40, 1), (2, 2, 2)])
def test_one_hot_encoders(cpu_plugin: Cpu, dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 7, shape)
    if dtype == "object":
        names = np.array(["", "a", "bb", "ccc", "é", "a b", "\U0001f600"], object)
        node = ml_node("OneHotEncoder", cats_strings=["a", "\U0001f600", "", "é", "nobody"])
        cpu_plugin.check_beside_onnxruntime(node, {"x": names[x].reshape(shape)})
    else:
        node = ml_node("OneHotEncoder", cats_int64s=[3, 1, 0, 99, 6])
        more = 0.75 if dtype.startswith("float") else 0
        cpu_plugin.check_beside_onnxruntime(node, {"x": x.astype(dtype) + np.array(more, dtype)})


def test_an_element_in_no_category_is_refused_without_zeros(cpu_plugin: Cpu) -> None:
    node = ml_node("OneHotEncoder", cats_int64s=[3, 1], zeros=0)
    cpu_plugin.check_beside_onnxruntime(node, {"x": np.array([1, 3, 3])})
    model = make_model([node], {"x": np.array([1, 2])}, ["y"])
    with pytest.raises(InvalidArgument, match="in no category"):
        cpu_plugin.run(model, {"x": np.array([1, 2])})


@pytest.mark.parametrize("dtype", [*DTYPES, "object"])
@pytest.mark.parametrize("shape", [(5,), (1, 5), (40, 5), (2, 3, 5)])
def test_features_by_their_places(cpu_plugin: Cpu, dtype: str, shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape)).reshape(shape).astype("U" if dtype == "object" else dtype).astype(dtype)
    for places in ([[3]], [4, 0, 0, 2]):
        node = ml_node("ArrayFeatureExtractor", ("x", "i"))
        cpu_plugin.check_beside_onnxruntime(node, {"x": x}, constants={"i": np.array(places)})
        cpu_plugin.check_beside_onnxruntime(node, {"x": x, "i": np.array(places)})


@pytest.mark.parametrize("place", [5, -1, 1 << 62])
def test_a_place_beyond_the_features_is_refused(cpu_plugin: Cpu, place: int) -> None:
    feeds = {"x": np.zeros((2, 5), np.float32), "i": np.array([place])}
    model = make_model([ml_node("ArrayFeatureExtractor", ("x", "i"))], feeds, ["y"])
    with pytest.raises(InvalidArgument, match=f"index {place} of 5 features"):
        cpu_plugin.run(model, feeds)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 30])
def test_vectors_of_features(cpu_plugin: Cpu, dtype: str, rows: int) -> None:
    rng = np.random.default_rng(0)
    feeds = {f"x{i}": numbers(rng, (rows, width), dtype) for i, width in enumerate((3, 1, 4))}
    for widths in ([3, 1, 4], [2, 1, 4], [3, 1, 6], [0, 1, 1]):
        node = ml_node("FeatureVectorizer", tuple(feeds), inputdimensions=widths)
        cpu_plugin.check_beside_onnxruntime(node, feeds)


@pytest.mark.parametrize("shape", [(4,), (2, 4), (1, 1, 4), (2, 3, 4), (2, 3, 2, 2)])
def test_features_of_any_rank_are_rows_of_vectors(cpu_plugin: Cpu, shape: tuple[int, ...]) -> None:
    feeds = {name: numbers(np.random.default_rng(0), shape, "float32") for name in ("a", "b")}
    width = int(np.prod(shape[1:])) if len(shape) > 1 else shape[0]
    node = ml_node("FeatureVectorizer", tuple(feeds), inputdimensions=[width, width])
    cpu_plugin.check_beside_onnxruntime(node, feeds)


@pytest.mark.parametrize("shape", [(2, 4), (2, 3), (1, 1, 4), (2, 3, 4), (1,)])
def test_an_imputer_without_one_value_for_each_feature_takes_the_first(
    cpu_plugin: Cpu, shape: tuple[int, ...]
) -> None:
    node = ml_node("Imputer", imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=0.0)
    cpu_plugin.check_beside_onnxruntime(node, {"x": np.zeros(shape, np.float32)})


@pytest.mark.parametrize(
    ("op", "attributes", "words"),
    [
        ("Scaler", {"offset": [1.0, 2.0], "scale": [1.0]}, "offset has 2 entries and scale 1"),
        ("Scaler", {}, "0 offsets and 0 scales"),
        ("Normalizer", {"norm": "L3"}, "L3"),
        ("Imputer", {}, "imputed_value_floats"),
        ("Imputer", {"imputed_value_floats": [1.0], "imputed_value_int64s": [1]}, "imputed_value_floats"),
        ("Imputer", {"imputed_value_int64s": [1]}, "not of its input's type"),
        ("OneHotEncoder", {}, "cats_"),
        ("OneHotEncoder", {"cats_int64s": [1], "cats_strings": ["a"]}, "cats_"),
        ("FeatureVectorizer", {"inputdimensions": [1, 2]}, "2 entries for 1 inputs"),
        ("FeatureVectorizer", {"inputdimensions": [-3]}, "-3 features"),
        ("FeatureVectorizer", {"inputdimensions": [1 << 62]}, "features"),
    ],
)
def test_attributes_that_do_not_fit_are_named_when_the_session_opens(
    cpu_plugin: Cpu, op: str, attributes: dict[str, object], words: str
) -> None:
    node = helper.make_node(op, ["x"], ["y"], "faulty", domain="ai.onnx.ml", **attributes)
    model = make_model([node], {"x": np.zeros((2, 2), np.float32)}, ["y"], open_shapes=True)
    with pytest.raises((Fail, InvalidArgument, InvalidGraph), match="faulty") as caught:
        cpu_plugin.session(model)
    assert words in str(caught.value)


def test_a_pipeline_of_scikit_learn(cpu_plugin: Cpu) -> None:
    pytest.importorskip("sklearn")
    skl2onnx = pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer, OneHotEncoder, StandardScaler

    rng = np.random.default_rng(0)
    wide = rng.standard_normal((60, 3)).astype(np.float32)
    wide[rng.random(wide.shape) < 0.1] = np.nan
    names = rng.choice(["red", "green", "blue"], (60, 2)).astype(object)
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler(), Normalizer()), [0, 1, 2]),
            ("names", OneHotEncoder(handle_unknown="ignore"), [3, 4]),
        ]
    ).fit(np.concatenate([wide.astype(object), names], 1))
    types = skl2onnx.common.data_types
    model = skl2onnx.convert_sklearn(
        columns,
        initial_types=[
            ("numbers", types.FloatTensorType([None, 3])),
            ("names", types.StringTensorType([None, 2])),
        ],
        target_opset=18,
    )
    names[5, 0] = "violet"
    feeds = {"numbers": wide, "names": names}
    other = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for a, b in zip(cpu_plugin.run(model, feeds), other.run(None, feeds), strict=True):
        assert_close(a, b, 1e-5, None, "columns")
