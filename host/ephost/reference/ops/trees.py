"""Tree ensembles: regressors whose numbers are given as tensors, which the package's version overlooks, and
classifiers, of which the package has neither onnxruntime's two classes nor its precision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from .registry import OperatorNode, operator
from .scores import both_classes, transformed

_COMPARE: dict[str, np.ufunc] = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}
_REDUCE: dict[str, Any] = {"SUM": np.sum, "AVERAGE": np.sum, "MIN": np.min, "MAX": np.max}


@operator("TreeEnsembleRegressor", domain="ai.onnx.ml", since=3, until=5)
def tree_ensemble_regressor(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """x [N, features] gives [N, targets], computed in the type of the tensors. Without tensors, or with a
    transformation behind it, the package's.
    """
    given = node.attributes
    thresholds, weights = given.get("nodes_values_as_tensor"), given.get("target_weights_as_tensor")
    if thresholds is None or weights is None or given.get("post_transform", "NONE") not in ("NONE", b"NONE"):
        return (node.package(x)[0],)
    rows = zip(given["target_treeids"], given["target_nodeids"], given["target_ids"], weights, strict=True)
    found: dict[tuple[int, int], list[Any]] = {}
    for row, reached in enumerate(_weights_of_rows(given, x.astype(weights.dtype), thresholds, rows)):
        for target, weight in reached:
            found.setdefault((row, target), []).append(weight)
    kind = _text(given.get("aggregate_function", "SUM"))
    out = np.zeros((len(x), given.get("n_targets", 1)), weights.dtype)
    for (row, target), values in found.items():
        out[row, target] = _REDUCE[kind](values)
    if kind == "AVERAGE":
        out /= len(set(given["nodes_treeids"]))
    base = given.get("base_values_as_tensor")
    if base is None or not len(base):
        base = given.get("base_values")
    return (out + np.asarray(base, out.dtype) if base is not None and len(base) else out,)


# ---- classifiers ----


class _Score:
    """The sum of a class, which counts as 0 until a leaf has a weight for it."""

    __slots__ = ("has", "value")

    def __init__(self, value: Any, has: bool) -> None:
        self.value, self.has = value, has

    def add(self, weight: Any) -> None:
        self.value, self.has = self.value + weight, True


@operator("TreeEnsembleClassifier", domain="ai.onnx.ml", until=5)
def tree_ensemble_classifier(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x [N, features] gives labels [N] and scores [N, classes].

    What the standard leaves open of two classes, most of all where leaves name but one of them, is as in
    onnxruntime: the CPU plugin's engines/ensemble.cc has the same rules.
    """
    given = node.attributes
    thresholds, weights = _either(given, "nodes_values"), _either(given, "class_weights")
    kind = np.float64 if np.float64 in (x.dtype, thresholds.dtype, weights.dtype) else np.float32
    base, weights = _either(given, "base_values").astype(kind), weights.astype(kind)
    texts, numbers = given.get("classlabels_strings"), given.get("classlabels_int64s")
    labels = list(texts or numbers or [])
    rule = _Rule(given, weights, len(labels), None if texts else labels)
    if base.size not in (0, rule.classes) and not (rule.classes <= 2 and base.size <= 2):
        raise ValueError(f"{base.size} base values for {rule.classes} classes")
    features = x.reshape(-1, x.shape[-1]).astype(kind)
    rows = zip(given["class_treeids"], given["class_nodeids"], given["class_ids"], weights, strict=True)
    found: list[int] = []
    y = np.zeros((len(features), rule.classes), np.float32)
    for row, reached in enumerate(_weights_of_rows(given, features, thresholds.astype(kind), rows)):
        scores = [_Score(kind(0), False) for _ in range(rule.classes)]
        for target, weight in reached:
            scores[target].add(weight)
        label, written = rule.answer(scores, base)
        found.append(label)
        count = min(len(written), rule.classes)
        y[row, :count] = written[:count]
    if texts:
        return np.array([labels[min(at, len(labels) - 1)] for at in found], object), y
    return np.array(found, np.int64), y


class _Rule:
    """What becomes of the sums of a row's classes; `labels` is None where they are strings, which are found
    by place.
    """

    def __init__(
        self, given: Mapping[str, Any], weights: np.ndarray, classes: int, labels: list[int] | None
    ) -> None:
        self.classes = classes
        self._labels = labels
        self._transform = _text(given.get("post_transform") or "NONE")
        self._one_class = classes == 2 and len(set(given["class_ids"])) == 1
        self._all_positive = not (weights < 0).any()

    def answer(self, scores: list[_Score], base: np.ndarray) -> tuple[int, list[Any]]:
        """The label, or its place, and the scores."""
        if self.classes > 2:
            for score, value in zip(scores, base, strict=False):
                score.add(value)
            known = [at for at, score in enumerate(scores) if score.has]
            best = max(known, key=lambda at: scores[at].value, default=0)
            return self._label(best), self._written(scores, None)
        mirrored: bool | None = None
        if self.classes == 1:
            scores[0].has = True
            if base.size == 2:
                total = scores[0].value + base[1]
                scores = [_Score(-total, True), _Score(total, True)]
            elif base.size:
                scores[0].add(base[0])
        else:
            zero, one = scores
            if base.size == 2 and one.has:  # The first base value does not count.
                one.value = base[1] + zero.value
                zero.value = -one.value
            elif base.size == 2:
                one.value, zero.value = one.value + base[1], zero.value + base[0]
            else:
                if base.size:
                    zero.value += base[0]
                else:
                    mirrored = True
                scores = scores if one.has else [zero]
        decides = scores[-1] if scores[-1].has else scores[0]
        weight = decides.value if decides.has else 0
        if not self._one_class:
            return int(weight > 0), self._written(scores, mirrored)  # Whatever the labels are.
        label = self._label(int(weight > (0.5 if self._all_positive else 0)))
        return label, self._written(scores, not self._all_positive)

    def _label(self, place: int) -> int:
        return place if self._labels is None else self._labels[place]

    def _written(self, scores: list[_Score], mirrored: bool | None) -> list[Any]:
        """The scores after the transformation; of a single one those of both classes, unless `mirrored` is
        None.
        """
        values = np.array([[score.value if score.has else 0 for score in scores]], np.float32)
        if len(scores) > 1 or mirrored is None or self._transform == "PROBIT":
            return list(transformed(values, self._transform)[0])
        return list(both_classes(values, self._transform, mirrored)[0])


# ---- trees ----


def _either(given: Mapping[str, Any], name: str) -> np.ndarray:
    """Numbers that may be a tensor or a list."""
    tensor = given.get(f"{name}_as_tensor")
    if tensor is not None and len(tensor):
        return np.asarray(tensor)
    return np.asarray(given.get(name) or [], np.float32)


def _weights_of_rows(
    given: Mapping[str, Any],
    x: np.ndarray,
    thresholds: np.ndarray,
    weights: Iterable[tuple[int, int, int, Any]],
) -> Iterator[list[tuple[int, Any]]]:
    """For each row the targets and weights of the leaves that it reaches, tree by tree. `weights` has trees,
    nodes, targets and weights.
    """
    places = {
        key: at for at, key in enumerate(zip(given["nodes_treeids"], given["nodes_nodeids"], strict=True))
    }
    leaves: dict[int, list[tuple[int, Any]]] = {}
    for tree, number, target, weight in weights:
        leaves.setdefault(places[tree, number], []).append((target, weight))
    trees = list(dict.fromkeys(given["nodes_treeids"]))
    roots = [list(given["nodes_treeids"]).index(tree) for tree in trees]
    modes = [_text(mode) for mode in given["nodes_modes"]]
    tracks = given.get("nodes_missing_value_tracks_true") or [0] * len(modes)
    for features in x:
        reached: list[tuple[int, Any]] = []
        for tree, root in zip(trees, roots, strict=True):
            at, steps = root, 0
            while (mode := modes[at]) != "LEAF":
                value = features[given["nodes_featureids"][at]]
                goes = bool(tracks[at] and np.isnan(value)) or bool(_COMPARE[mode](value, thresholds[at]))
                at = places[tree, given["nodes_truenodeids" if goes else "nodes_falsenodeids"][at]]
                if (steps := steps + 1) > len(modes):
                    raise ValueError(f"the nodes of tree {tree} go round in a circle")
            reached += leaves.get(at, ())
        yield reached


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
