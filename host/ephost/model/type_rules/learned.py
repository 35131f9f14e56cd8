"""Operators of ai.onnx.ml: rows of features, labels and scores."""

from __future__ import annotations

from collections.abc import Sequence

from ephost.message_helpers import tensor_type_proto
from ephost.messages import ElementTypeProto, MapTypeProto, TensorProto, TypeProto
from ephost.model.graph import Dim, Node, tensor_type
from ephost.model.type_rules.registry import (
    ML_DOMAIN,
    Knowledge,
    Made,
    Types,
    Unsure,
    dims_of,
    given,
    product,
    rule,
    same,
)

_FLOAT, _INT64, _STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


def _named(*names: str) -> list[str]:
    return [f"{ML_DOMAIN}.{name}" for name in names]


def _rows(types: Types) -> Dim:
    """How many rows of features there are; a vector of features is one row."""
    dims = dims_of(types, 0)
    if len(dims) not in (1, 2):
        raise Unsure
    return dims[0] if len(dims) == 2 else 1


def _length(node: Node, *names: str) -> int:
    """How many elements the first of these attributes has that has any."""
    return next((len(found) for name in names if (found := node.attribute(name))), 0)


@rule(*_named("Normalizer", "Scaler"))
def _scaled(node: Node, types: Types, known: Knowledge) -> Made:
    return [tensor_type(_FLOAT, dims_of(types, 0))]


@rule(*_named("Binarizer", "Imputer"))
def _kept(node: Node, types: Types, known: Knowledge) -> Made:
    return [given(types, 0)]


def _scores(types: Types, width: int) -> Made:
    if not 0 < width < 1 << 31:
        raise Unsure
    return [tensor_type(_FLOAT, (_rows(types), width))]


@rule(*_named("LinearRegressor", "SVMRegressor", "TreeEnsembleRegressor"))
def _regressor(node: Node, types: Types, known: Knowledge) -> Made:
    name = {"LinearRegressor": "targets", "TreeEnsembleRegressor": "n_targets"}.get(node.op_type)
    return _scores(types, 1 if name is None else node.attribute(name, 1))


@rule(*_named("FeatureVectorizer"))
def _features(node: Node, types: Types, known: Knowledge) -> Made:
    if len(dims := dims_of(types, 0)) > 2:  # all but the first are a row
        types = [same(given(types, 0), dims[:2]), *types[1:]]
    return _scores(types, sum(node.attribute("inputdimensions") or ()))


@rule(*_named("TreeEnsemble"))
def _trees(node: Node, types: Types, known: Knowledge) -> Made:
    return [same(given(types, 0), (_rows(types), node.attribute("n_targets", 1)))]


def _classified(node: Node, types: Types, labels: Sequence[str], width: int) -> Made:
    if not 0 < width < 1 << 31:
        raise Unsure
    rows = _rows(types)
    kind = _STRING if node.attribute(labels[0]) else _INT64
    return [tensor_type(kind, (rows,)), tensor_type(_FLOAT, (rows, width))]


@rule(*_named("LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"))
def _classifier(node: Node, types: Types, known: Knowledge) -> Made:
    trees = node.op_type == "TreeEnsembleClassifier"
    labels = ("classlabels_strings", "classlabels_int64s" if trees else "classlabels_ints")
    classes = _length(node, *labels)
    if node.op_type == "SVMClassifier":
        # The scores of pairs of classes, where nothing couples them.
        vectors = any(node.attribute("vectors_per_class") or ())
        if vectors and not _length(node, "prob_a") and classes > 2:
            return _classified(node, types, labels, classes * (classes - 1) // 2)
    return _classified(node, types, labels, classes)


@rule(*_named("LabelEncoder"))
def _encoded_labels(node: Node, types: Types, known: Knowledge) -> Made:
    if node.since_version < 2:
        element = _INT64 if given(types, 0).element_type == _STRING else _STRING
        return [tensor_type(element, dims_of(types, 0))]
    lists = {"strings": _STRING, "int64s": _INT64, "floats": _FLOAT}
    keys, values = (
        [(kind, len(found)) for name, kind in lists.items() if (found := node.attribute(f"{role}_{name}"))]
        for role in ("keys", "values")
    )
    if len(keys) != 1 or len(values) != 1 or keys[0] != (given(types, 0).element_type, values[0][1]):
        raise Unsure
    if any(node.attribute(f"{role}_tensor") is not None for role in ("keys", "values", "default")):
        raise Unsure
    return [tensor_type(values[0][0], dims_of(types, 0))]


@rule(*_named("CategoryMapper"))
def _categories(node: Node, types: Types, known: Knowledge) -> Made:
    if _length(node, "cats_int64s") != _length(node, "cats_strings"):
        raise Unsure
    element = _INT64 if given(types, 0).element_type == _STRING else _STRING
    return [tensor_type(element, dims_of(types, 0))]


@rule(*_named("OneHotEncoder"))
def _one_hot(node: Node, types: Types, known: Knowledge) -> Made:
    categories = _length(node, "cats_int64s", "cats_strings")
    if not categories:
        raise Unsure
    return [tensor_type(_FLOAT, (*dims_of(types, 0), categories))]


@rule(*_named("ArrayFeatureExtractor"))
def _extracted(node: Node, types: Types, known: Knowledge) -> Made:
    dims = dims_of(types, 0)
    if not dims:
        raise Unsure
    return [same(given(types, 0), (*(dims[:-1] or (1,)), product(dims_of(types, 1))))]


@rule(*_named("ZipMap"))
def _zipped(node: Node, types: Types, known: Knowledge) -> Made:
    strings, numbers = (node.attribute(f"classlabels_{kind}") for kind in ("strings", "int64s"))
    if bool(strings) == bool(numbers):
        raise Unsure
    score = tensor_type_proto(_FLOAT, ())
    row = TypeProto(map_type=MapTypeProto(key_type=_STRING if strings else _INT64, value_type=score))
    return [TypeProto(sequence_type=ElementTypeProto(elem_type=row))]
