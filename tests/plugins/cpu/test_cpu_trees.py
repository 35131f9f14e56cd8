"""ai.onnx.ml's tree ensembles beside onnxruntime, which adds up in the order of the trees with one thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.plugins.cpu.conftest import Cpu

onnxruntime = pytest.importorskip("onnxruntime")

NAMES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
MEMBER = 6
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
TYPES = {
    np.float32: TensorProto.FLOAT,
    np.float64: TensorProto.DOUBLE,
    np.int32: TensorProto.INT32,
    np.int64: TensorProto.INT64,
    np.float16: TensorProto.FLOAT16,
}
FEATURES = 5


class Grown:
    """Random trees: for each node its mode, feature, threshold, missing track, and children.

    A child is a pair: a place among the nodes or among the leaves, and whether it is a leaf.
    """

    def __init__(self, seed: int, trees: int, modes: tuple[int, ...], depth: int = 4, missing: bool = True):
        self.random = np.random.default_rng(seed)
        self.allowed, self.has_missing = modes, missing
        self.modes: list[int] = []
        self.features: list[int] = []
        self.splits: list[float] = []
        self.missing: list[int] = []
        self.children: list[list[tuple[int, bool]]] = []
        self.members: list[list[float]] = []
        self.leaves = 0
        self.roots = [self.node(depth) for _ in range(trees)]

    def node(self, depth: int) -> int:
        at = len(self.modes)
        mode = int(self.random.choice(self.allowed))
        self.modes.append(mode)
        self.features.append(int(self.random.integers(FEATURES)))
        # Thresholds that inputs hit, too.
        self.splits.append(float(self.random.integers(-4, 5)) / 2)
        self.missing.append(int(self.random.integers(2)) if self.has_missing else 0)
        count = int(self.random.integers(1, 6))
        self.members.append([float(each) for each in self.random.choice(9, count, replace=False) - 2])
        self.children.append([])
        for _ in range(2):
            leaf = depth == 1 or (depth < 3 and self.random.random() < 0.3)
            if leaf:
                self.children[at].append((self.leaves, True))
                self.leaves += 1
            else:
                self.children[at].append((self.node(depth - 1), False))
        return at

    def inputs(self, rows: int, dtype: Any, nan: bool = True) -> np.ndarray:
        x = np.asarray(self.random.integers(-6, 7, size=(rows, FEATURES)) / 2)
        if np.issubdtype(dtype, np.floating):
            x += self.random.choice([0, 0.25], size=x.shape)
            if nan:
                x[self.random.random(x.shape) < 0.1] = np.nan
        return x.astype(dtype)


def as_lists(grown: Grown, weights: str, per_leaf: list[list[tuple[int, float]]]) -> dict[str, Any]:
    """Attributes of versions 1 and 3; ``per_leaf`` has targets and weights of each leaf."""
    found: dict[str, list[Any]] = {
        name: []
        for name in (
            "nodes_treeids",
            "nodes_nodeids",
            "nodes_featureids",
            "nodes_modes",
            "nodes_values",
            "nodes_truenodeids",
            "nodes_falsenodeids",
            "nodes_missing_value_tracks_true",
            f"{weights}_treeids",
            f"{weights}_nodeids",
            f"{weights}_ids",
            f"{weights}_weights",
        )
    }

    def put(tree: int, child: tuple[int, bool], numbers: Iterator[int]) -> int:
        at, leaf = child
        number = next(numbers)
        row = len(found["nodes_modes"])
        for name, value in (
            ("treeids", tree),
            ("nodeids", number),
            ("featureids", 0 if leaf else grown.features[at]),
            ("modes", "LEAF" if leaf else NAMES[grown.modes[at]]),
            ("values", 0.0 if leaf else grown.splits[at]),
            ("truenodeids", 0),
            ("falsenodeids", 0),
            ("missing_value_tracks_true", 0 if leaf else grown.missing[at]),
        ):
            found[f"nodes_{name}"].append(value)
        if leaf:
            for target, weight in per_leaf[at]:
                found[f"{weights}_treeids"].append(tree)
                found[f"{weights}_nodeids"].append(number)
                found[f"{weights}_ids"].append(target)
                found[f"{weights}_weights"].append(weight)
        else:
            found["nodes_truenodeids"][row] = put(tree, grown.children[at][0], numbers)
            found["nodes_falsenodeids"][row] = put(tree, grown.children[at][1], numbers)
        return number

    for tree, root in enumerate(grown.roots):
        put(tree, (root, False), iter(range(1 << 30)))
    return found


def with_tensors(attributes: dict[str, Any], dtype: Any = np.float64) -> dict[str, Any]:
    """The same with numbers as tensors."""
    found = dict(attributes)
    for name in ("nodes_values", "target_weights", "class_weights", "base_values"):
        if name in found:
            found[f"{name}_as_tensor"] = onnx.numpy_helper.from_array(np.array(found.pop(name), dtype))
    return found


def as_arrays(grown: Grown, targets: list[int], weights: list[float], dtype: Any) -> dict[str, Any]:
    """Attributes of version 5."""
    tensor = onnx.numpy_helper.from_array
    children = np.array(grown.children, dtype=np.int64).reshape(-1, 2, 2)
    members = [
        [*values, np.nan] for mode, values in zip(grown.modes, grown.members, strict=True) if mode == MEMBER
    ]
    found: dict[str, Any] = {
        "tree_roots": grown.roots,
        "nodes_modes": tensor(np.array(grown.modes, np.uint8)),
        "nodes_featureids": grown.features,
        "nodes_splits": tensor(np.array(grown.splits, dtype)),
        "nodes_missing_value_tracks_true": grown.missing,
        "nodes_truenodeids": children[:, 0, 0].tolist(),
        "nodes_trueleafs": children[:, 0, 1].tolist(),
        "nodes_falsenodeids": children[:, 1, 0].tolist(),
        "nodes_falseleafs": children[:, 1, 1].tolist(),
        "leaf_targetids": targets,
        "leaf_weights": tensor(np.array(weights, dtype)),
    }
    if members:
        found["membership_values"] = tensor(np.array([each for some in members for each in some], dtype))
    return found


def model_of(
    operator: str,
    attributes: dict[str, Any],
    x: Any,
    outputs: int = 1,
    version: int = 3,
    columns: int | None = FEATURES,
    labels: int = TensorProto.INT64,
) -> onnx.ModelProto:
    """A model of one node, of open rows."""
    names = ["label", "y"][-outputs:]
    node = helper.make_node(operator, ["x"], names, name="trees", domain="ai.onnx.ml", **attributes)
    result = TYPES[x] if version == 5 else TensorProto.FLOAT
    kinds = {"label": (labels, ["n"]), "y": (result, ["n", None])}
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", TYPES[x], ["n", columns])],
        [helper.make_tensor_value_info(name, *kinds[name]) for name in names],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def of_onnxruntime(model: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, {"x": x})


def check(cpu_plugin: Cpu, model: onnx.ModelProto, *inputs: np.ndarray) -> None:
    """The CPU plugin's answer is onnxruntime's, to the last digit."""
    session = cpu_plugin.session(model)
    for x in inputs:
        expected = of_onnxruntime(model, x)
        found = session.run(None, {"x": x})
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


def weights_of(
    grown: Grown, targets: int, style: str, *, positive: bool = False
) -> list[list[tuple[int, float]]]:
    """Targets and weights of each leaf: of one target, of all, of some, or of the first or the last."""
    found = []
    for _ in range(grown.leaves):
        some = {
            "one": [int(grown.random.integers(targets))],
            "all": list(range(targets)),
            "some": grown.random.choice(
                targets, grown.random.integers(1, targets + 1), replace=False
            ).tolist(),
            "first": [0],
            "last": [targets - 1],
        }[style]
        values = grown.random.normal(size=len(some)).astype(np.float32)
        values = abs(values) / len(grown.roots) if positive else values
        found.append([(target, float(value)) for target, value in zip(some, values, strict=True)])
    return found


def regressor(grown: Grown, targets: int, style: str = "one", **attributes: Any) -> dict[str, Any]:
    return as_lists(grown, "target", weights_of(grown, targets, style)) | {"n_targets": targets} | attributes


def classifier(
    grown: Grown, classes: int, style: str = "one", positive: bool = False, **attributes: Any
) -> dict[str, Any]:
    labels = (
        {} if "classlabels_strings" in attributes else {"classlabels_int64s": [7, 3, 20, 11, 5][:classes]}
    )
    weights = weights_of(grown, classes, style, positive=positive)
    return as_lists(grown, "class", weights) | labels | attributes


def ensemble(grown: Grown, targets: int, dtype: Any, **attributes: Any) -> dict[str, Any]:
    ids = grown.random.integers(targets, size=grown.leaves).tolist()
    weights = grown.random.normal(size=grown.leaves).astype(np.float32).tolist()
    return as_arrays(grown, ids, weights, dtype) | {"n_targets": targets} | attributes


def base_values(grown: Grown, count: int) -> list[float]:
    return [float(value) for value in grown.random.normal(size=count).astype(np.float32)]


MODES = [*((mode,) for mode in range(6)), tuple(range(6))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("modes", MODES)
def test_every_mode_takes_the_way_that_onnxruntime_takes(
    cpu_plugin: Cpu, modes: tuple[int, ...], missing: bool, dtype: Any
) -> None:
    grown = Grown(1, 12, modes, depth=5, missing=missing)
    model = model_of("TreeEnsembleRegressor", regressor(grown, 1), dtype)
    check(cpu_plugin, model, *(grown.inputs(rows, dtype) for rows in (1, 2, 6, 7, 16, 33, 200)))


@pytest.mark.parametrize("gap", [1, 3])
@pytest.mark.parametrize("shuffled", [False, True])
def test_nodes_of_a_tree_may_lie_and_be_numbered_as_they_like(
    cpu_plugin: Cpu, shuffled: bool, gap: int
) -> None:
    """But for its root, which is its first."""
    grown = Grown(3, 7, (0, 2), depth=4)
    attributes = regressor(grown, 2, "some")
    trees = np.array(attributes["nodes_treeids"])
    order = np.arange(len(trees))
    if shuffled:
        for tree in range(7):
            (places,) = np.nonzero(trees == tree)
            order[places[1:]] = grown.random.permutation(places[1:])
    for name, values in attributes.items():
        if name.startswith("nodes_"):
            attributes[name] = [values[i] for i in order]
        if name.endswith("nodeids"):
            attributes[name] = [gap * i + 5 * (gap - 1) for i in attributes[name]]
    model = model_of("TreeEnsembleRegressor", attributes, np.float32)
    check(cpu_plugin, model, grown.inputs(1, np.float32), grown.inputs(40, np.float32))


@pytest.mark.parametrize("style", ["one", "all", "some", "last"])
@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_aggregates_and_transformations_of_a_regressor_are_onnxruntimes(
    cpu_plugin: Cpu, transform: str, aggregate: str, style: str
) -> None:
    for seed, (targets, based) in enumerate([(1, False), (1, True), (2, False), (3, True), (5, False)]):
        grown = Grown(seed, 9, (0,), depth=3)
        attributes = regressor(grown, targets, style, aggregate_function=aggregate, post_transform=transform)
        if based:
            attributes["base_values"] = base_values(grown, targets)
        model = model_of("TreeEnsembleRegressor", attributes, np.float32)
        check(cpu_plugin, model, grown.inputs(1, np.float32), grown.inputs(40, np.float32))


@pytest.mark.parametrize("style", ["one", "all", "some", "first", "last"])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_labels_and_scores_of_a_classifier_are_onnxruntimes(
    cpu_plugin: Cpu, transform: str, positive: bool, style: str
) -> None:
    cases = [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0), (3, 3), (5, 5)]
    for seed, (classes, based) in enumerate(cases):
        # A negative class whose score nobody gives is memory that onnxruntime leaves as it finds it.
        if classes == 2 and (transform == "PROBIT" or (based == 1 and style in ("one", "some"))):
            continue
        grown = Grown(seed, 9, (1,), depth=3)
        attributes = classifier(grown, classes, style, positive, post_transform=transform)
        if based:
            attributes["base_values"] = base_values(grown, based)
        model = model_of("TreeEnsembleClassifier", attributes, np.float32, outputs=2)
        check(cpu_plugin, model, grown.inputs(1, np.float32), grown.inputs(40, np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("version", [1, 3])
def test_a_classifier_takes_every_type_of_numbers(cpu_plugin: Cpu, version: int, dtype: Any) -> None:
    grown = Grown(5, 9, (0, 4), depth=4)
    attributes = classifier(grown, 3, "some")
    check(
        cpu_plugin,
        model_of("TreeEnsembleClassifier", attributes, dtype, outputs=2, version=version),
        grown.inputs(1, dtype),
        grown.inputs(50, dtype),
    )
    if version == 3 and dtype == np.float64:
        model = model_of("TreeEnsembleClassifier", with_tensors(attributes), dtype, outputs=2)
        check(cpu_plugin, model, grown.inputs(50, dtype))


@pytest.mark.parametrize("classes", [1, 2, 3])
@pytest.mark.parametrize("style", ["first", "last", "all"])
def test_labels_may_be_strings(cpu_plugin: Cpu, style: str, classes: int) -> None:
    grown = Grown(4, 9, (0,), depth=4)
    names = ["no", "\u00e4, longer than what fits into a pointer", ""][:classes]
    attributes = classifier(grown, classes, style, classlabels_strings=names)
    model = model_of("TreeEnsembleClassifier", attributes, np.float32, outputs=2, labels=TensorProto.STRING)
    session = cpu_plugin.session(model)
    for rows in (0, 1, 40):
        x = grown.inputs(rows, np.float32)
        label, scores = session.run(None, {"x": x})
        assert label.shape == (rows,)
        if classes == 1:  # onnxruntime reads behind the only name.
            assert set(label) <= {"no"}
        elif rows:
            expected, expected_scores = of_onnxruntime(model, x)
            assert label.tolist() == expected.tolist()
            np.testing.assert_array_equal(scores, expected_scores)
    del model.graph.output[1]
    model.graph.node[0].output[1] = ""
    assert cpu_plugin.session(model).run(None, {"x": x})[0].tolist() == label.tolist()


def test_numbers_given_as_tensors_keep_their_precision(cpu_plugin: Cpu) -> None:
    grown = Grown(6, 20, (0,), depth=4)
    grown.splits = [value + 1e-12 for value in grown.splits]
    model = model_of("TreeEnsembleRegressor", with_tensors(regressor(grown, 2, "all")), np.float64)
    x = np.round(grown.inputs(60, np.float64, nan=False) * 2) / 2
    x[::2] += 1e-12
    check(cpu_plugin, model, x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("aggregate", range(4))
@pytest.mark.parametrize("transform", range(5))
def test_a_tree_ensemble_of_version_5_is_onnxruntimes(
    cpu_plugin: Cpu, transform: int, aggregate: int, dtype: Any
) -> None:
    for seed, (targets, modes) in enumerate([(1, (0,)), (2, (0, 1, 2, 3, 4, 5)), (6, (3,)), (3, (0, 6))]):
        grown = Grown(seed, 3 if targets == 6 else 9, modes, depth=2 if targets == 6 else 4)
        attributes = ensemble(grown, targets, dtype, aggregate_function=aggregate, post_transform=transform)
        check(
            cpu_plugin,
            model_of("TreeEnsemble", attributes, dtype, version=5),
            grown.inputs(1, dtype),
            grown.inputs(40, dtype),
        )


def test_a_tree_ensemble_of_float16_is_that_of_float32_rounded(cpu_plugin: Cpu) -> None:
    # onnxruntime has no such kernel, and does not open the model.
    grown = Grown(8, 6, (0, 6), depth=4)
    attributes = ensemble(grown, 2, np.float16)
    x = grown.inputs(30, np.float16)
    found = cpu_plugin.session(model_of("TreeEnsemble", attributes, np.float16, version=5)).run(
        None, {"x": x}
    )[0]
    wide = {
        key: onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(value).astype(np.float32))
        if isinstance(value, onnx.TensorProto) and value.data_type == TensorProto.FLOAT16
        else value
        for key, value in attributes.items()
    }
    model = model_of("TreeEnsemble", wide, np.float32, version=5)
    expected = of_onnxruntime(model, x.astype(np.float32))[0]
    np.testing.assert_array_equal(found, expected.astype(np.float16))


def chain(sets: list[list[float]], missing: list[int] | None = None) -> dict[str, Any]:
    """A tree that asks for one set after the other; its leaves are 1, 2, ..."""
    tensor, n = onnx.numpy_helper.from_array, len(sets)
    members = np.array([each for some in sets for each in (*some, np.nan)], np.float32)
    return {
        "tree_roots": [0],
        "n_targets": 1,
        "nodes_modes": tensor(np.full(n, MEMBER, np.uint8)),
        "nodes_featureids": [0] * n,
        "nodes_splits": tensor(np.zeros(n, np.float32)),
        "nodes_missing_value_tracks_true": missing or [0] * n,
        "nodes_truenodeids": list(range(n)),
        "nodes_trueleafs": [1] * n,
        "nodes_falsenodeids": list(range(1, n + 1)),
        "nodes_falseleafs": [0] * (n - 1) + [1],
        "leaf_targetids": [0] * (n + 1),
        "leaf_weights": tensor(np.arange(1, n + 2).astype(np.float32)),
        "membership_values": tensor(members),
    }


@pytest.mark.parametrize(
    "sets",
    [
        [[1, 3]],
        [[-1, 2]],
        [[0.5, 1]],
        [[2, 64]],
        [[1, 2], [2, 3]],
        [list(range(40))],
        [list(range(-5, 35)), [1.5]],
        [[1000000, 3], [2]],
    ],
)
def test_members_are_found_as_onnxruntime_finds_them(cpu_plugin: Cpu, sets: list[list[float]]) -> None:
    special = [63, 64, 65, 1000000, np.nan, np.inf, -np.inf, 3e38]
    x = np.array([*np.arange(-6, 45, 0.25), *special], np.float32)[:, None]
    for missing in (0, 1):
        attributes = chain(sets, [missing] * len(sets))
        check(cpu_plugin, model_of("TreeEnsemble", attributes, np.float32, version=5, columns=1), x)


def equals(values: list[float], leaf: float = 5.0) -> dict[str, Any]:
    """A chain of comparisons for equality that all lead to one leaf, as exporters write a set."""
    n = len(values)
    return {
        "n_targets": 1,
        "nodes_treeids": [0] * (n + 2),
        "nodes_nodeids": list(range(n + 2)),
        "nodes_featureids": [0] * (n + 2),
        "nodes_modes": ["BRANCH_EQ"] * n + ["LEAF"] * 2,
        "nodes_values": [*values, 0.0, 0.0],
        "nodes_truenodeids": [n] * n + [0, 0],
        "nodes_falsenodeids": [*range(1, n), n + 1, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [n, n + 1],
        "target_ids": [0, 0],
        "target_weights": [leaf, 1.0],
    }


def test_comparisons_for_equality_that_lead_to_one_place_are_a_set(cpu_plugin: Cpu) -> None:
    x = np.arange(-3, 30, 0.5, dtype=np.float32)[:, None]
    check(cpu_plugin, model_of("TreeEnsembleRegressor", equals([1, 4, 2, 9]), np.float32, columns=1), x)
    # onnxruntime loses members from 31 on.
    session = cpu_plugin.session(
        model_of("TreeEnsembleRegressor", equals([31, 40, 2000]), np.float32, columns=1)
    )
    x = np.array([[31], [40], [41], [2000], [1]], np.float32)
    assert session.run(None, {"x": x})[0].ravel().tolist() == [5, 5, 1, 5, 1]


def test_long_chains_are_neither_slow_to_open_nor_too_deep(cpu_plugin: Cpu) -> None:
    values = [float(value) for value in range(20000)]
    session = cpu_plugin.session(model_of("TreeEnsembleRegressor", equals(values), np.float32, columns=1))
    x = np.array([[19999], [20000], [0], [0.5]], np.float32)
    assert session.run(None, {"x": x})[0].ravel().tolist() == [5, 1, 5, 1]
    deep = equals(values) | {"nodes_modes": ["BRANCH_LT"] * 20000 + ["LEAF"] * 2}
    session = cpu_plugin.session(model_of("TreeEnsembleRegressor", deep, np.float32, columns=1))
    assert session.run(None, {"x": x})[0].ravel().tolist() == [1, 1, 5, 5]


def test_nodes_that_many_paths_share_are_kept_once(cpu_plugin: Cpu) -> None:
    n = 60  # Two ways from each node to the next: 2^60 paths.
    attributes = equals([0.0] * n) | {
        "nodes_modes": ["BRANCH_LEQ"] * n + ["LEAF"] * 2,
        "nodes_truenodeids": [*range(1, n), n, 0, 0],
        "nodes_falsenodeids": [*range(1, n), n + 1, 0, 0],
    }
    session = cpu_plugin.session(model_of("TreeEnsembleRegressor", attributes, np.float32, columns=1))
    x = np.array([[1], [-1]] * 10, np.float32)
    assert session.run(None, {"x": x})[0].ravel().tolist() == [1, 5] * 10


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("depth", [1, 5, 6, 7])  # As many leaves as an element has bits, and more.
def test_few_rows_reach_the_leaves_that_one_reaches(
    cpu_plugin: Cpu, depth: int, mode: int, dtype: Any
) -> None:
    grown = Grown(depth, 37, (mode,), depth=depth)
    model = model_of("TreeEnsembleRegressor", regressor(grown, 2), dtype)
    session = cpu_plugin.session(model)
    for rows in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33):
        x = grown.inputs(rows, dtype)
        found = session.run(None, {"x": x})[0]
        np.testing.assert_array_equal(found, of_onnxruntime(model, x)[0])
        np.testing.assert_array_equal(
            found, np.concatenate([session.run(None, {"x": x[r : r + 1]})[0] for r in range(rows)])
        )


def test_large_trees_and_many_columns_have_room(cpu_plugin: Cpu) -> None:
    random = np.random.default_rng(3)
    n = 40000
    attributes = equals([0.0] * n) | {
        "nodes_modes": ["BRANCH_LEQ"] * n + ["LEAF"] * 2,
        "nodes_featureids": random.integers(5000, size=n + 2).tolist(),
        "nodes_values": random.normal(size=n + 2).tolist(),
        "nodes_truenodeids": [n] * n + [0, 0],
    }
    model = model_of("TreeEnsembleRegressor", attributes, np.float32, columns=5000)
    x = np.full((20, 5000), 100, np.float32)
    x[3, 7], x[4, 4999] = -100, -100
    session = cpu_plugin.session(model)
    assert session.run(None, {"x": x})[0].ravel().tolist() == [1, 1, 1, 5, 5] + [1] * 15


def test_one_row_is_the_same_on_several_threads(cpu_plugin: Cpu) -> None:
    grown = Grown(11, 4000, (0,), depth=4)
    model = model_of("TreeEnsembleRegressor", regressor(grown, 3), np.float32)
    x = grown.inputs(1, np.float32)
    np.testing.assert_array_equal(
        cpu_plugin.session(model, intra_op_num_threads=3).run(None, {"x": x})[0], of_onnxruntime(model, x)[0]
    )


def test_a_vector_is_one_row_and_no_rows_give_none(cpu_plugin: Cpu) -> None:
    grown = Grown(12, 3, (0,), depth=3)
    model = model_of("TreeEnsembleClassifier", classifier(grown, 3), np.float32, outputs=2)
    label, scores = cpu_plugin.session(model).run(None, {"x": np.zeros((0, FEATURES), np.float32)})
    assert label.shape == (0,) and scores.shape == (0, 3)
    x = grown.inputs(1, np.float32)
    expected = cpu_plugin.session(model).run(None, {"x": x})
    del model.graph.input[0].type.tensor_type.shape.dim[0]
    for one, other in zip(cpu_plugin.session(model).run(None, {"x": x[0]}), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_nobody_asks_for_is_left_out(cpu_plugin: Cpu) -> None:
    grown = Grown(13, 3, (0,), depth=3)
    model = model_of("TreeEnsembleClassifier", classifier(grown, 3), np.float32, outputs=2)
    x = grown.inputs(20, np.float32)
    label, scores = cpu_plugin.session(model).run(None, {"x": x})
    for keep, expected in ((0, label), (1, scores)):
        part = onnx.ModelProto()
        part.CopyFrom(model)
        del part.graph.output[1 - keep]
        part.graph.node[0].output[1 - keep] = ""
        np.testing.assert_array_equal(cpu_plugin.session(part).run(None, {"x": x})[0], expected)


GOOD = equals([0.0, 1.0])
BAD = {
    "a child that is not there": (
        {"nodes_truenodeids": [2, 9, 0, 0]},
        "node 9 of tree 0, which is not there",
    ),
    "a cycle": ({"nodes_falsenodeids": [1, 0, 0, 0]}, "comes back to a node"),
    "a node that is its own child": ({"nodes_truenodeids": [0, 2, 0, 0]}, "comes back to a node"),
    "a node twice": ({"nodes_nodeids": [0, 1, 1, 3]}, "node 1 of tree 0 twice"),
    "lists of different lengths": (
        {"nodes_values": [1.0]},
        "'nodes_modes' has 4 elements and 'nodes_values' has 1",
    ),
    "a target that is not there": (
        {"target_ids": [0, 1]},
        "'target_ids' has 1 at 1, and there are 1 targets",
    ),
    "a target below zero": ({"target_ids": [0, -1]}, "'target_ids' has -1 at 1"),
    "a billion targets": ({"n_targets": 1000000000}, "more than can be"),
    "no targets": ({"n_targets": 0}, "'n_targets' is 0"),
    "a weight of no node": ({"target_nodeids": [2, 8]}, "node 8 of tree 0, which is not there"),
    "a column below zero": ({"nodes_featureids": [-1, 0, 0, 0]}, "'nodes_featureids' has -1"),
    "a column beyond the input": ({"nodes_featureids": [1000000000, 0, 0, 0]}, "column 1000000000"),
    "a mode that is none": ({"nodes_modes": ["BRANCH_X", "LEAF", "LEAF", "LEAF"]}, "called 'BRANCH_X'"),
    "base values of other targets": ({"base_values": [1.0, 2.0]}, "2 base values for 1 targets"),
    "an aggregate that is none": ({"aggregate_function": "MEDIAN"}, "is 'MEDIAN'"),
    "a transformation that is none": ({"post_transform": "TANH"}, "is 'TANH'"),
}


@pytest.mark.parametrize("what", BAD)
def test_attributes_that_make_no_trees_are_an_error_at_opening(cpu_plugin: Cpu, what: str) -> None:
    change, message = BAD[what]
    model = model_of("TreeEnsembleRegressor", GOOD | change, np.float32, columns=1)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    with pytest.raises(Exception, match=message) as caught:
        cpu_plugin.session(model)
    assert "trees" in str(caught.value)


BAD_5 = {
    "a child that is not there": (
        {"nodes_truenodeids": [7, 1]},
        "'nodes_truenodeids' has 7 at 0, and there are 3",
    ),
    "a cycle": ({"nodes_falsenodeids": [1, 0], "nodes_falseleafs": [0, 0]}, "comes back to a node"),
    "a root that is not there": ({"tree_roots": [2]}, "'tree_roots' has 2 at 0, and there are 2 nodes"),
    "a root below zero": ({"tree_roots": [-1]}, "'tree_roots' has -1"),
    "sets that are missing": (
        {"membership_values": onnx.numpy_helper.from_array(np.array([1], np.float32))},
        "fewer sets",
    ),
    "an aggregate that is none": ({"aggregate_function": 4}, "aggregate has the number 4"),
    "a transformation that is none": ({"post_transform": -1}, "transformation has the number -1"),
    "lists of different lengths": ({"nodes_trueleafs": [1]}, "nodes_trueleafs"),
    "a target that is not there": ({"leaf_targetids": [0, 1, 0]}, "'leaf_targetids' has 1 at 1"),
    "splits of another type": (
        {"nodes_splits": onnx.numpy_helper.from_array(np.array([1, 2], np.float64))},
        "'nodes_splits'.* type",
    ),
}


@pytest.mark.parametrize("what", BAD_5)
def test_arrays_that_make_no_trees_are_an_error_at_opening(cpu_plugin: Cpu, what: str) -> None:
    change, message = BAD_5[what]
    model = model_of("TreeEnsemble", chain([[1], [2, 3]]) | change, np.float32, version=5, columns=1)
    with pytest.raises(Exception, match=message):
        cpu_plugin.session(model)


def test_a_column_that_rows_lack_is_an_error(cpu_plugin: Cpu) -> None:
    attributes = GOOD | {"nodes_featureids": [6, 0, 0, 0]}
    session = cpu_plugin.session(model_of("TreeEnsembleRegressor", attributes, np.float32, columns=None))
    with pytest.raises(
        ephost.capi.onnxruntime_pybind11_state.InvalidArgument, match="column 6 of an input with 3"
    ):
        session.run(None, {"x": np.zeros((2, 3), np.float32)})


def converted(monkeypatch: pytest.MonkeyPatch, model: Any, x: np.ndarray) -> onnx.ModelProto:
    """A fitted model, by skl2onnx, which gives numpy's numbers to protobuf, which takes Python's."""
    container = pytest.importorskip("skl2onnx.common._container")
    make_node = container.make_node

    def of_plain_numbers(*parts: Any, **attributes: Any) -> Any:
        for key, value in attributes.items():
            if isinstance(value, list) and value and isinstance(value[0], int | np.integer | np.bool_):
                attributes[key] = [int(each) for each in value]
        return make_node(*parts, **attributes)

    monkeypatch.setattr(container, "make_node", of_plain_numbers)
    options = {id(model): {"zipmap": False}} if hasattr(model, "classes_") else None
    opsets = {"": 18, "ai.onnx.ml": 3}
    return pytest.importorskip("skl2onnx").to_onnx(model, x[:1], options=options, target_opset=opsets)


def data() -> tuple[np.ndarray, np.ndarray]:
    """Rows, some of whose elements are missing, and what is to be learnt of them."""
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 6)).astype(np.float32)
    return x, x[:, 0] * x[:, 1] + x[:, 2]


def check_learnt(cpu_plugin: Cpu, model: onnx.ModelProto, x: np.ndarray) -> None:
    """All of the model is the plugin's, and gives what onnxruntime gives."""
    session = cpu_plugin.session(model)
    name = model.graph.input[0].name
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    other = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    for rows in (1, 5, 300):
        pairs = zip(session.run(None, {name: x[:rows]}), other.run(None, {name: x[:rows]}), strict=True)
        for found, expected in pairs:
            assert found.dtype == expected.dtype
            if found.dtype.kind == "f":
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
            else:
                assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "kind",
    [
        "DecisionTreeClassifier",
        "DecisionTreeRegressor",
        "ExtraTreesClassifier",
        "ExtraTreesRegressor",
        "GradientBoostingClassifier",
        "GradientBoostingRegressor",
        "HistGradientBoostingClassifier",
        "HistGradientBoostingRegressor",
        "IsolationForest",
        "RandomForestClassifier",
        "RandomForestRegressor",
    ],
)
def test_models_of_scikit_learn_answer_as_in_onnxruntime(
    cpu_plugin: Cpu, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    ensemble = pytest.importorskip("sklearn.ensemble")
    tree = pytest.importorskip("sklearn.tree")
    x, y = data()
    make = getattr(ensemble, kind, None) or getattr(tree, kind)
    if kind.startswith("Hist"):
        x[::7, 1] = np.nan
    targets: list[Any] = [y, np.stack([y, -2 * y], 1)]
    if kind.startswith(("Gradient", "Hist", "Isolation")):
        targets = [y]
    if kind.endswith("Classifier"):
        several = np.digitize(y, [-0.5, 0.5])
        targets = [several, y > 0, np.array(["low", "middle", "high"])[several]]
    for target in targets:
        few = {} if "Tree" in kind and "Extra" not in kind else {"n_estimators": 12}
        few = {"max_iter": 12} if kind.startswith("Hist") else few
        check_learnt(cpu_plugin, converted(monkeypatch, make(random_state=0, **few).fit(x, target), x), x)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_boosted_trees_answer_as_in_onnxruntime(cpu_plugin: Cpu, library: str, classes: int) -> None:
    onnxmltools = pytest.importorskip("onnxmltools")
    types = pytest.importorskip("onnxmltools.convert.common.data_types")
    boosting = pytest.importorskip(library)
    x, y = data()
    x[::7, 1] = np.nan
    x[:, 5] = np.random.default_rng(1).integers(8, size=len(x))
    kind = {"lightgbm": "LGBM", "xgboost": "XGB"}[library] + ("Classifier" if classes else "Regressor")
    silent = {"verbose": -1} if library == "lightgbm" else {}
    model = getattr(boosting, kind)(n_estimators=10, random_state=0, **silent)
    fitted = {"categorical_feature": [5]} if library == "lightgbm" else {}
    model.fit(x, {0: y, 2: (y > 0).astype(int), 3: np.digitize(y, [-0.5, 0.5])}[classes], **fitted)
    convert = getattr(onnxmltools, f"convert_{library}")
    zipmap = {"zipmap": False} if library == "lightgbm" else {}
    made = convert(model, initial_types=[("x", types.FloatTensorType([None, 6]))], target_opset=15, **zipmap)
    check_learnt(cpu_plugin, made, x)
