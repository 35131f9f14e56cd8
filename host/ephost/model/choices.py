"""Attributes for which ONNX has a few values, and gives no other a meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ephost.messages import TensorProto

Choices = frozenset[bytes] | frozenset[int]


def _texts(*values: str) -> frozenset[bytes]:
    return frozenset(value.encode() for value in values)


def _of(operators: str, attribute: str, choices: Choices) -> Iterable[tuple[tuple[str, str], Choices]]:
    return (((operator, attribute), choices) for operator in operators.split())


_FLAG = frozenset((0, 1))
_ELEMENTS = frozenset(TensorProto.DataType.values()) - {0}
_PADS = _texts("", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
_DIRECTIONS = _texts("forward", "reverse", "bidirectional")
_REDUCTIONS = _texts("none", "add", "mul", "max", "min")
_LOSSES = _texts("none", "sum", "mean")
_KERNELS = _texts("LINEAR", "POLY", "RBF", "SIGMOID")
_TRANSFORMS = _texts("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_COORDINATES = _texts(
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"),
    *("tf_half_pixel_for_nn", "tf_crop_and_resize"),
)
_ONNX = dict(
    (
        *_of("AveragePool Conv ConvInteger ConvTranspose LpPool MaxPool QLinearConv", "auto_pad", _PADS),
        *_of("BitShift", "direction", _texts("LEFT", "RIGHT")),
        *_of("CumProd CumSum", "exclusive", _FLAG),
        *_of("CumProd CumSum", "reverse", _FLAG),
        *_of("DepthToSpace SpaceToDepth", "mode", _texts("DCR", "CRD")),
        *_of("GRU LSTM RNN", "direction", _DIRECTIONS),
        *_of("Gelu", "approximate", _texts("none", "tanh")),
        *_of("GridSample", "mode", _texts("linear", "bilinear", "nearest", "cubic", "bicubic")),
        *_of("GridSample", "padding_mode", _texts("zeros", "border", "reflection")),
        *_of("LpNormalization", "p", frozenset((1, 2))),
        *_of("MaxPool", "storage_order", _FLAG),
        *_of("Mod", "fmod", _FLAG),
        *_of("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", "reduction", _LOSSES),
        *_of("NonMaxSuppression", "center_point_box", _FLAG),
        *_of("Pad", "mode", _texts("constant", "reflect", "edge", "wrap")),
        # 0 is the scale's own; else float32, float16 and bfloat16, in which a division can be.
        *_of("QuantizeLinear", "precision", frozenset((0, 1, 10, 16))),
        *_of("Resize", "mode", _texts("nearest", "linear", "cubic")),
        *_of("Resize", "coordinate_transformation_mode", _COORDINATES),
        *_of("RoiAlign", "mode", _texts("avg", "max")),
        *_of("RotaryEmbedding", "interleaved", _FLAG),
        *_of("ScatterElements ScatterND", "reduction", _REDUCTIONS),
        *_of("BitCast", "to", _ELEMENTS),
        *_of("EyeLike SequenceEmpty", "dtype", _ELEMENTS),
        *_of("Attention", "softmax_precision", _ELEMENTS),
        *_of("StringNormalizer", "case_change_action", _texts("LOWER", "UPPER", "NONE")),
        *_of("TfIdfVectorizer", "mode", _texts("TF", "IDF", "TFIDF")),
        *_of("Upsample", "mode", _texts("nearest", "linear", "bilinear")),
    )
)
_ML = dict(
    (
        *_of("CastMap", "cast_to", _texts("TO_FLOAT", "TO_STRING", "TO_INT64")),
        *_of("CastMap", "map_form", _texts("DENSE", "SPARSE")),
        *_of("Normalizer", "norm", _texts("MAX", "L1", "L2")),
        *_of("SVMClassifier SVMRegressor", "kernel_type", _KERNELS),
        *_of("LinearClassifier LinearRegressor", "post_transform", _TRANSFORMS),
        *_of("SVMClassifier SVMRegressor", "post_transform", _TRANSFORMS),
        *_of("TreeEnsembleClassifier TreeEnsembleRegressor", "post_transform", _TRANSFORMS),
        *_of("TreeEnsembleRegressor", "aggregate_function", _texts("AVERAGE", "SUM", "MIN", "MAX")),
    )
)
_MICROSOFT = dict(
    (
        *_of("GatherBlockQuantized", "bits", frozenset((2, 4, 8))),
        *_of("MatMulBnb4", "quant_type", _FLAG),
        *_of("RotaryEmbedding", "interleaved", _FLAG),
    )
)
# By domain, then by operator and attribute.
CHOICES: Mapping[str, Mapping[tuple[str, str], Choices]] = {
    "": _ONNX,
    "ai.onnx.ml": _ML,
    "com.microsoft": _MICROSOFT,
}
