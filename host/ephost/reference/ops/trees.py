"""Tree ensembles whose numbers are given as tensors, which the package's version overlooks."""

from __future__ import annotations

from typing import Any

import numpy as np

from .registry import OperatorNode, operator

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
    places = {
        key: at for at, key in enumerate(zip(given["nodes_treeids"], given["nodes_nodeids"], strict=True))
    }
    leaves: dict[int, list[tuple[int, Any]]] = {}
    rows = zip(given["target_treeids"], given["target_nodeids"], given["target_ids"], weights, strict=True)
    for tree, number, target, weight in rows:
        leaves.setdefault(places[tree, number], []).append((target, weight))
    trees = list(dict.fromkeys(given["nodes_treeids"]))
    roots = [list(given["nodes_treeids"]).index(tree) for tree in trees]
    found: dict[tuple[int, int], list[Any]] = {}
    for row, features in enumerate(x.astype(weights.dtype)):
        for tree, root in zip(trees, roots, strict=True):
            at = root
            while (mode := _text(given["nodes_modes"][at])) != "LEAF":
                value = features[given["nodes_featureids"][at]]
                missing = bool(np.isnan(value)) and bool(
                    (given.get("nodes_missing_value_tracks_true") or [0])[at]
                )
                goes = missing or bool(_COMPARE[mode](value, thresholds[at]))
                at = places[tree, given["nodes_truenodeids" if goes else "nodes_falsenodeids"][at]]
            for target, weight in leaves.get(at, ()):
                found.setdefault((row, target), []).append(weight)
    kind = _text(given.get("aggregate_function", "SUM"))
    out = np.zeros((len(x), given.get("n_targets", 1)), weights.dtype)
    for (row, target), values in found.items():
        out[row, target] = _REDUCE[kind](values)
    if kind == "AVERAGE":
        out /= len(trees)
    base = given.get("base_values_as_tensor")
    if base is None or not len(base):
        base = given.get("base_values")
    return (out + np.asarray(base, out.dtype) if base is not None and len(base) else out,)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
