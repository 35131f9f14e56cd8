"""Linear models and support vector machines of ai.onnx.ml.

The package's operators compute in the input's element type, integers too. They know neither string labels of
two classes nor most post transforms; their coupling of pairwise probabilities departs from the method that
it cites. What the specification leaves open (the score of the other class of two) is as in onnxruntime.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .registry import OperatorNode, operator
from .scores import both_classes, logistic, transformed

_ML = "ai.onnx.ml"


def _rows(x: np.ndarray) -> np.ndarray:
    """The features as float32 [N, C]; one row of them may come without the first axis."""
    if x.ndim not in (1, 2):
        raise ValueError(f"features have 1 or 2 dimensions, not {x.ndim}")
    return x.reshape(-1, x.shape[-1]).astype(np.float32)


def _numbers(node: OperatorNode, name: str) -> np.ndarray:
    return np.asarray(node.attributes.get(name) or [], np.float32)


# ---- linear models ----


@operator("LinearRegressor", domain=_ML)
def linear_regressor(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """x [N, C] times coefficients [targets, C], plus intercepts [targets] when there are as many."""
    rows, targets = _rows(x), node.attributes.get("targets", 1)
    scores = rows @ _numbers(node, "coefficients")[: targets * rows.shape[1]].reshape(targets, -1).T
    intercepts = _numbers(node, "intercepts")
    if intercepts.size == targets:
        scores = scores + intercepts
    return (transformed(scores, node.attributes.get("post_transform", "NONE")),)


@operator("LinearClassifier", domain=_ML)
def linear_classifier(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The label of the largest score of each row, and the scores; one score tells two classes apart."""
    labels, intercepts = _labels(node), _numbers(node, "intercepts")
    rows, transform = _rows(x), node.attributes.get("post_transform", "NONE")
    count = max(intercepts.size, 1)
    scores = rows @ _numbers(node, "coefficients")[: count * rows.shape[1]].reshape(count, -1).T
    scores = scores + intercepts if intercepts.size else scores
    if count > 1:
        return labels[scores.argmax(1)], transformed(scores, transform)
    if labels.size != 2:
        return (scores[:, 0] > 0).astype(np.int64), transformed(scores, transform)
    return labels[(scores[:, 0] > 0).astype(int)], both_classes(scores, transform, mirrored=False)


def _labels(node: OperatorNode) -> np.ndarray:
    texts = node.attributes.get("classlabels_strings")
    return (
        np.array(texts, object)
        if texts
        else np.array(node.attributes.get("classlabels_ints") or [], np.int64)
    )


# ---- support vector machines ----


def _kernel(node: OperatorNode, kind: str, rows: np.ndarray, vectors: np.ndarray) -> Any:
    """The kernel function of each row with each vector: [N, vectors]."""
    gamma, bias, degree = node.attributes.get("kernel_params") or (0.0, 0.0, 0.0)
    if kind == "RBF":
        return np.stack(
            [np.exp(-np.float32(gamma) * ((vectors - row) ** 2).sum(1)) for row in rows] or [rows[:, :0]]
        )
    products = rows @ vectors.T
    if kind == "LINEAR":
        return products
    products = products * np.float32(gamma) + np.float32(bias)
    return np.tanh(products) if kind == "SIGMOID" else products ** np.float32(degree)


@operator("SVMRegressor", domain=_ML)
def svm_regressor(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray]:
    """One value for each row; with ``one_class``, 1 where it is above 0 and -1 elsewhere."""
    rows, count = _rows(x), node.attributes.get("n_supports", 0)
    coefficients, rho = _numbers(node, "coefficients"), _numbers(node, "rho")[0]
    if count:
        kind = node.attributes.get("kernel_type", "LINEAR")
        rows = _kernel(node, kind, rows, _numbers(node, "support_vectors").reshape(count, -1))
        coefficients = coefficients[:count]
    values = (rows @ coefficients + rho).reshape(-1, 1)
    return (np.where(values > 0, 1, -1).astype(np.float32) if node.attributes.get("one_class") else values,)


@operator("SVMClassifier", domain=_ML)
def svm_classifier(node: OperatorNode, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The label of each row, and its scores: of each class where there are probabilities or no support
    vectors, else of each pair of classes.
    """
    labels, transform = _labels(node), node.attributes.get("post_transform", "NONE")
    rows, sizes = _rows(x), node.attributes.get("vectors_per_class") or []
    if not sum(sizes):
        coefficients = _numbers(node, "coefficients").reshape(labels.size, -1)
        scores = rows @ coefficients.T + _numbers(node, "rho")[0]
        return labels[_chosen(node, scores)], transformed(scores, transform)
    pairs = _pair_scores(node, rows, sizes)
    votes = np.zeros((len(rows), labels.size), np.int64)
    for at, (first, second) in enumerate(_pairs(labels.size)):
        votes[:, first] += pairs[:, at] > 0
        votes[:, second] += ~(pairs[:, at] > 0)
    chosen = labels[votes.argmax(1)]
    slopes, offsets = _numbers(node, "prob_a"), _numbers(node, "prob_b")
    if slopes.size:
        one_to_one = 1 - logistic(pairs * slopes[: pairs.shape[1]] + offsets[: pairs.shape[1]])
        return chosen, transformed(_coupled(np.clip(one_to_one, 1e-7, 1 - 1e-7), labels.size), transform)
    if labels.size == 2:
        return chosen, both_classes(pairs, transform, mirrored=transform == "NONE")
    return chosen, transformed(pairs, transform)


def _chosen(node: OperatorNode, scores: np.ndarray) -> Any:
    """The class of each row of a machine without support vectors."""
    best = scores.argmax(1)
    if scores.shape[1] != 2 or node.attributes.get("prob_a"):
        return best
    limit = _numbers(node, "coefficients").min() >= 0
    most = scores.max(1)
    return np.where(most >= 0.5 if limit else most > 0, 1, best)


def _pairs(classes: int) -> list[tuple[int, int]]:
    return [(first, second) for first in range(classes) for second in range(first + 1, classes)]


def _pair_scores(node: OperatorNode, rows: np.ndarray, sizes: list[int]) -> np.ndarray:
    """For each row and each pair of classes, above 0 where the first one is the likelier: [N, pairs]."""
    count = sum(sizes)
    kind = node.attributes.get("kernel_type", "LINEAR")
    values = _kernel(node, kind, rows, _numbers(node, "support_vectors").reshape(count, -1)).astype(
        np.float64
    )
    coefficients = _numbers(node, "coefficients")[: (len(sizes) - 1) * count].reshape(-1, count)
    ends = np.cumsum(sizes)
    vectors = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    scores = [
        values[:, vectors[first]] @ coefficients[second - 1, vectors[first]]
        + values[:, vectors[second]] @ coefficients[first, vectors[second]]
        for first, second in _pairs(len(sizes))
    ]
    rho = _numbers(node, "rho")[: len(scores)]
    return (np.stack(scores, 1) + rho).astype(np.float32) if scores else np.zeros((len(rows), 0), np.float32)


def _coupled(pairs: np.ndarray, classes: int) -> np.ndarray:
    """Probabilities of the classes [N, classes] from those of pairs [N, pairs]: algorithm 2 of Wu, Lin and
    Weng, Probability Estimates for Multi-class Classification by Pairwise Coupling (2004).
    """
    first, second = (np.array(side) for side in zip(*_pairs(classes), strict=True))
    r = np.zeros((len(pairs), classes, classes), np.float32)
    r[:, first, second] = pairs
    r[:, second, first] = 1 - pairs
    q = -r.transpose(0, 2, 1) * r
    diagonal = np.arange(classes)
    q[:, diagonal, diagonal] = (r**2).sum(1)
    found = np.full((len(pairs), classes), 1 / classes, np.float32)
    for row, p in zip(q, found, strict=True):
        for _ in range(100):
            qp = row @ p
            pqp = p @ qp
            if np.abs(qp - pqp).max() < 0.005 / classes:
                break
            for at in range(classes):
                step = (pqp - qp[at]) / row[at, at]
                p[at] += step
                pqp = (pqp + step * (step * row[at, at] + 2 * qp[at])) / (1 + step) ** 2
                qp = (qp + step * row[at]) / (1 + step)
                p /= 1 + step
    return found
