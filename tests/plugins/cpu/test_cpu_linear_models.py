"""Linear models and support vector machines of ai.onnx.ml."""

import numpy as np
import onnx
import pytest
from ephost.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, assert_close, make_model

TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]


def ml_node(op: str, outputs: list[str], **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, ["x"], outputs, domain="ai.onnx.ml", **attributes)


def features(rng: np.random.Generator, rows: int, columns: int, dtype: str = "float32") -> np.ndarray:
    return (rng.standard_normal((rows, columns)) * (1 if dtype.startswith("float") else 5)).astype(dtype)


def floats(rng: np.random.Generator, *shape: int) -> list[float]:
    return rng.standard_normal(shape).astype(np.float32).ravel().tolist()


def labels(texts: bool, count: int) -> dict[str, object]:
    if texts:
        return {"classlabels_strings": [f"class {i}" for i in range(count)]}
    return {"classlabels_ints": [10 * i - 3 for i in range(count)]}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("rows", [0, 1, 37])
def test_linear_regressors(cpu_plugin: Cpu, transform: str, targets: int, rows: int) -> None:
    rng = np.random.default_rng(targets)
    for biased in (False, True):
        node = ml_node(
            "LinearRegressor",
            ["y"],
            coefficients=(rng.random(targets * 5) / 10).tolist(),
            targets=targets,
            post_transform=transform,
            **({"intercepts": (rng.random(targets) / 10).tolist()} if biased else {}),
        )
        x = rng.random((rows, 5)).astype(np.float32)
        cpu_plugin.check_beside_onnxruntime(node, {"x": x}, rtol=1e-4)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize(("scores", "classes"), [(1, 2), (2, 2), (3, 3), (40, 40)])
def test_linear_classifiers(cpu_plugin: Cpu, transform: str, texts: bool, scores: int, classes: int) -> None:
    if transform == "PROBIT" and scores == 1 and classes == 2:
        pytest.skip("onnxruntime writes one of the two scores")
    rng = np.random.default_rng(classes)
    node = ml_node(
        "LinearClassifier",
        ["label", "y"],
        coefficients=(rng.random(scores * 7) / 10 - (0 if transform == "PROBIT" else 0.05)).tolist(),
        intercepts=(rng.random(scores) / 10).tolist(),
        post_transform=transform,
        **labels(texts, classes),
    )
    for dtype in ("float32", "float64", "int64", "int32"):
        x = rng.random((29, 7)).astype(dtype) if transform == "PROBIT" else features(rng, 29, 7, dtype)
        cpu_plugin.check_beside_onnxruntime(node, {"x": x}, ["label", "y"], rtol=1e-4)


KERNELS = {"LINEAR": [0.3, 0.2, 3.0], "POLY": [0.3, 0.2, 3.0], "RBF": [0.2, 0, 0], "SIGMOID": [0.1, 0.2, 0]}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("supports", [0, 13])
def test_machines_for_regression(cpu_plugin: Cpu, kernel: str, one_class: int, supports: int) -> None:
    rng = np.random.default_rng(one_class)
    node = ml_node(
        "SVMRegressor",
        ["y"],
        coefficients=floats(rng, supports or 6),
        kernel_params=KERNELS[kernel],
        kernel_type=kernel if supports else "LINEAR",
        n_supports=supports,
        one_class=one_class,
        rho=[0.25],
        **({"support_vectors": floats(rng, supports, 6)} if supports else {}),
    )
    for rows in (1, 2, 100):
        cpu_plugin.check_beside_onnxruntime(node, {"x": features(rng, rows, 6)}, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("probabilities", [False, True])
def test_machines_with_vectors_vote(
    cpu_plugin: Cpu, kernel: str, texts: bool, classes: int, probabilities: bool
) -> None:
    rng = np.random.default_rng(classes)
    sizes = [int(n) for n in rng.integers(1, 9, classes)]
    pairs = classes * (classes - 1) // 2
    node = ml_node(
        "SVMClassifier",
        ["label", "y"],
        coefficients=floats(rng, (classes - 1) * sum(sizes)),
        kernel_params=KERNELS[kernel],
        kernel_type=kernel,
        rho=floats(rng, pairs),
        support_vectors=floats(rng, sum(sizes), 4),
        vectors_per_class=sizes,
        **labels(texts, classes),
        **({"prob_a": floats(rng, pairs), "prob_b": floats(rng, pairs)} if probabilities else {}),
    )
    for dtype in ("float32", "float64", "int64", "int32"):
        x = features(rng, 50, 4, dtype)
        cpu_plugin.check_beside_onnxruntime(node, {"x": x}, ["label", "y"], rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("probabilities", [False, True])
def test_transforms_of_votes(cpu_plugin: Cpu, transform: str, classes: int, probabilities: bool) -> None:
    rng = np.random.default_rng(classes)
    pairs = classes * (classes - 1) // 2
    node = ml_node(
        "SVMClassifier",
        ["label", "y"],
        coefficients=floats(rng, (classes - 1) * 4 * classes),
        kernel_params=KERNELS["RBF"],
        kernel_type="RBF",
        post_transform=transform,
        rho=floats(rng, pairs),
        support_vectors=floats(rng, 4 * classes, 4),
        vectors_per_class=[4] * classes,
        **labels(False, classes),
        **({"prob_a": floats(rng, pairs), "prob_b": floats(rng, pairs)} if probabilities else {}),
    )
    cpu_plugin.check_beside_onnxruntime(
        node, {"x": features(rng, 50, 4)}, ["label", "y"], rtol=2e-3, atol=1e-4
    )


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("classes", [1, 2, 3])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_machines_without_vectors_take_the_largest_score(
    cpu_plugin: Cpu, texts: bool, classes: int, positive: bool, transform: str
) -> None:
    rng = np.random.default_rng(classes)
    coefficients = np.array(floats(rng, classes * 4))
    for biases in ([0.1], [0.1, 0.2, 0.3]):
        node = ml_node(
            "SVMClassifier",
            ["label", "y"],
            coefficients=(np.abs(coefficients) if positive else coefficients).tolist(),
            kernel_params=KERNELS["LINEAR"],
            kernel_type="LINEAR",
            post_transform=transform,
            rho=biases,
            **labels(texts, classes),
        )
        x = features(rng, 60, 4)
        cpu_plugin.check_beside_onnxruntime(node, {"x": x}, ["label", "y"], rtol=1e-4, atol=1e-5)


def test_radial_functions_of_features_far_from_the_middle_are_exact(cpu_plugin: Cpu) -> None:
    rng = np.random.default_rng(0)
    vectors = (rng.standard_normal((40, 8)) * 300 + 1000).astype(np.float32)
    x = np.concatenate([vectors[:20] + 0.1, vectors[20:]]).astype(np.float32)
    node = ml_node(
        "SVMRegressor",
        ["y"],
        coefficients=floats(rng, 40),
        kernel_params=[0.5, 0, 0],
        kernel_type="RBF",
        n_supports=40,
        rho=[0.0],
        support_vectors=vectors.ravel().tolist(),
    )
    cpu_plugin.check_beside_onnxruntime(node, {"x": x}, rtol=1e-5, atol=1e-6)


def test_a_machine_gives_the_same_on_one_thread_and_on_many(cpu_plugin: Cpu) -> None:
    rng = np.random.default_rng(0)
    node = ml_node(
        "SVMRegressor",
        ["y"],
        coefficients=floats(rng, 300),
        kernel_params=[0.05, 0, 0],
        kernel_type="RBF",
        n_supports=300,
        rho=[0.1],
        support_vectors=floats(rng, 300, 20),
    )
    feeds = {"x": features(rng, 700, 20)}
    model = make_model([node], feeds, ["y"])
    (expected,) = cpu_plugin.run(model, feeds, intra_op_num_threads=1)
    for threads in (2, 3):
        (found,) = cpu_plugin.run(model, feeds, intra_op_num_threads=threads)
        assert_close(found, expected, 1e-5, None, "y")


CLASSIFIER = {
    "coefficients": [1.0] * 12,
    "rho": [0.0] * 3,
    "support_vectors": [1.0] * 12,
    "vectors_per_class": [2, 2, 2],
    "classlabels_ints": [0, 1, 2],
}


@pytest.mark.parametrize(
    ("op", "attributes", "words"),
    [
        ("LinearRegressor", {"coefficients": []}, "no coefficients"),
        ("LinearRegressor", {"coefficients": [1.0, 2.0, 3.0], "targets": 2}, "3 coefficients for 2 targets"),
        ("LinearRegressor", {"coefficients": [1.0], "targets": -1}, "targets"),
        ("LinearRegressor", {"coefficients": [1.0], "targets": 1 << 62}, "targets"),
        ("LinearRegressor", {"coefficients": [1.0], "post_transform": "CUBE"}, "CUBE"),
        ("LinearClassifier", {"coefficients": [1.0]}, "labels"),
        (
            "LinearClassifier",
            {"coefficients": [1.0] * 6, "intercepts": [1.0] * 3, "classlabels_ints": [0, 1]},
            "2 labels",
        ),
        ("SVMRegressor", {"coefficients": [1.0], "rho": [0.0], "n_supports": -4}, "n_supports is -4"),
        ("SVMRegressor", {"coefficients": [1.0], "rho": [0.0], "n_supports": 1 << 61}, "support vectors"),
        ("SVMRegressor", {"coefficients": [1.0], "n_supports": 1, "support_vectors": [1.0]}, "rho"),
        (
            "SVMRegressor",
            {"coefficients": [1.0] * 2, "rho": [0.0], "n_supports": 2, "support_vectors": [1.0] * 3},
            "3 numbers in 2 support vectors",
        ),
        ("SVMRegressor", {"coefficients": [1.0], "rho": [0.0], "kernel_params": [1.0]}, "kernel_params"),
        ("SVMRegressor", {"coefficients": [1.0], "rho": [0.0], "kernel_type": "BOX"}, "BOX"),
        ("SVMClassifier", CLASSIFIER | {"vectors_per_class": [1 << 62, 1 << 62, 4]}, "vectors of a class"),
        ("SVMClassifier", CLASSIFIER | {"vectors_per_class": [7, -7, 6]}, "-7 vectors of a class"),
        ("SVMClassifier", CLASSIFIER | {"vectors_per_class": [3, 3]}, "2 entries for 3 labels of classes"),
        ("SVMClassifier", CLASSIFIER | {"rho": [0.0]}, "rho"),
        ("SVMClassifier", CLASSIFIER | {"coefficients": [1.0] * 11}, "coefficients"),
        ("SVMClassifier", CLASSIFIER | {"prob_a": [1.0] * 3}, "prob_b"),
        ("SVMClassifier", CLASSIFIER | {"prob_a": [1.0], "prob_b": [1.0]}, "prob_a"),
    ],
)
def test_attributes_that_do_not_fit_are_named_when_the_session_opens(
    cpu_plugin: Cpu, op: str, attributes: dict[str, object], words: str
) -> None:
    outputs = ["label", "y"] if op.endswith("Classifier") else ["y"]
    node = helper.make_node(op, ["x"], outputs, "faulty", domain="ai.onnx.ml")
    for name, value in attributes.items():
        kind = onnx.AttributeProto.FLOATS if value == [] else None
        node.attribute.append(helper.make_attribute(name, value, attr_type=kind))
    model = make_model([node], {"x": np.zeros((2, 2), np.float32)}, outputs, open_shapes=True)
    with pytest.raises((Fail, InvalidArgument, InvalidGraph), match="faulty") as caught:
        cpu_plugin.session(model)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("LinearClassifier", {"coefficients": [0.5, -1.0], "intercepts": [0.1]}),
        ("LinearClassifier", {"coefficients": [0.5, -1.0, 1.0, 0.5], "intercepts": [0.1, 0.2]}),
        (
            "SVMClassifier",
            {
                "coefficients": [0.5, -0.5],
                "kernel_params": [0.5, 0.0, 3.0],
                "kernel_type": "RBF",
                "rho": [0.1],
                "support_vectors": [0.1, 0.2, 0.3, 0.4],
                "vectors_per_class": [1, 1],
            },
        ),
    ],
)
def test_labels_and_scores_may_be_left_out(cpu_plugin: Cpu, op: str, attributes: dict[str, object]) -> None:
    x = features(np.random.default_rng(0), 40, 2)
    runs = []
    for outputs in (["label", "y"], ["", "y"], ["label", ""]):
        node = ml_node(op, outputs, classlabels_ints=[3, 4], **attributes)
        named = [name for name in outputs if name]
        runs.append(
            dict(zip(named, cpu_plugin.run(make_model([node], {"x": x}, named), {"x": x}), strict=True))
        )
    for run in runs[1:]:
        for name, found in run.items():
            assert_close(found, runs[0][name], None, None, name)


def test_rows_of_other_features_than_the_model_has_are_refused(cpu_plugin: Cpu) -> None:
    node = ml_node("LinearRegressor", ["y"], coefficients=[1.0, 2.0, 3.0])
    x = np.zeros((2, 4), np.float32)
    with pytest.raises(InvalidArgument, match="4 features for 3 coefficients"):
        cpu_plugin.run(make_model([node], {"x": x}, ["y"]), {"x": x})


def test_rows_of_fewer_features_take_the_first_coefficients(cpu_plugin: Cpu) -> None:
    node = ml_node("LinearRegressor", ["y"], coefficients=[1.0, 2.0, 3.0, 4.0], targets=2)
    x = np.array([[10.0]], np.float32)
    (y,) = cpu_plugin.run(make_model([node], {"x": x}, ["y"]), {"x": x})
    assert y.tolist() == [[10.0, 20.0]]


def test_a_pipeline_of_scikit_learn(cpu_plugin: Cpu) -> None:
    pytest.importorskip("sklearn")
    skl2onnx = pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, SVR, OneClassSVM

    rng = np.random.default_rng(0)
    x = rng.standard_normal((120, 6)).astype(np.float32)
    names = np.array(["red", "green", "blue"])[(x[:, 0] * 2).astype(int).clip(-1, 1) + 1]
    pairs = [
        (LogisticRegression(), names),
        (LogisticRegression(), x[:, 0] > 0),
        (LinearRegression(), x[:, :2]),
        (SVC(), names),
        (SVC(probability=True, random_state=0), names),
        (SVC(kernel="poly"), (x[:, 0] > 0).astype(np.int64)),
        (SVR(), x[:, 0]),
        (OneClassSVM(), None),
    ]
    for estimator, target in pairs:
        pipeline = make_pipeline(StandardScaler(), estimator).fit(x, target)
        options = {"zipmap": False} if hasattr(estimator, "classes_") else None
        model = skl2onnx.to_onnx(
            pipeline, x[:1], options=options and {id(pipeline): options}, target_opset=18
        )
        other = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for a, b in zip(cpu_plugin.run(model, {"X": x}), other.run(None, {"X": x}), strict=True):
            assert_close(a, b, 1e-3, 1e-4, type(estimator).__name__)


@pytest.mark.parametrize("columns", [1, 20, 63, 64, 200])
@pytest.mark.parametrize("rows", [1, 7, 8, 100])
def test_a_single_target_of_few_or_many_features(cpu_plugin: Cpu, rows: int, columns: int) -> None:
    rng = np.random.default_rng(columns)
    x, weights, start = features(rng, rows, columns), floats(rng, columns), floats(rng, 1)
    node = ml_node("LinearRegressor", ["y"], coefficients=weights, intercepts=start)
    (found,) = cpu_plugin.run(make_model([node], {"x": x}, ["y"]), {"x": x})
    expected = x.astype(np.float64) @ np.array(weights)[:, None] + start
    assert_close(found, expected.astype(np.float32), 1e-5, 1e-5, "y")
