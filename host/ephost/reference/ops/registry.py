"""Finds an own operator by domain, type and opset version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from ephost.records import Record

DECLARED = {
    "boxes": ("NonMaxSuppression",),
    "cached_attention": ("DecoderMaskedMultiHeadAttention", "MultiHeadAttention"),
    "contrib": (
        *("QuantizeLinear", "DequantizeLinear", "QLinearWhere", "MatMulBnb4", "GatherBlockQuantized"),
        "QEmbedLayerNormalization",
    ),
    "convolution": ("Conv", "ConvTranspose", "Col2Im", "ConvTransposeWithDynamicPads"),
    "engram": (
        *("BranchwiseRMSNorm", "EngramGate", "HyperConnectionPostMix", "HyperConnectionPreMix"),
        *("NGramHashMapping", "VarlenNGramHashMapping"),
    ),
    "elementwise": ("Softmax", "LogSoftmax", "Hardmax", "Erf", "Softsign"),
    "linear_models": ("LinearClassifier", "LinearRegressor", "SVMClassifier", "SVMRegressor"),
    "losses": ("NegativeLogLikelihoodLoss",),
    "machine_learning": (
        *("CastMap", "CategoryMapper", "DictVectorizer", "LabelEncoder", "Normalizer", "Scaler", "ZipMap"),
    ),
    "movement": (
        *("Shape", "Size", "ConstantOfShape", "Range", "Gather", "Concat", "Slice", "Unsqueeze", "Squeeze"),
        *("Reshape", "Flatten", "Transpose", "Expand", "Tile", "NonZero", "Trilu"),
        *("Compress", "Unique", "Split"),
    ),
    "normalization": ("BatchNormalization", "LRN", "LpNormalization"),
    "numeric": (
        *("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Max", "Min", "Sum", "And", "Or", "Xor", "Not", "Equal"),
        *("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Where", "Cast", "Abs", "Ceil", "Cos", "Exp"),
        *("Floor", "Log", "Neg", "Reciprocal", "Round", "Sign", "Sin", "Sqrt", "CastLike"),
    ),
    "on_trial": ("Affine", "Crop", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh"),
    "packed_rows": ("GatherPacked",),
    "packed_tokens": ("GatedDeltaNet", "VarlenCausalConvWithState"),
    "pooling": ("MaxPool", "AveragePool", "LpPool", "GlobalLpPool", "GlobalMaxPool", "MaxRoiPool"),
    "quantization": ("DequantizeLinear",),
    "random": (
        *("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli"),
        *("Multinomial", "Dropout"),
    ),
    "rare": (*("WordConvEmbedding", "BifurcationDetector", "MaxpoolWithMask", "SparseAttention"),),
    "recurrent": ("RNN", "GRU", "LSTM", "AttnLSTM"),
    "reductions": (
        *("ReduceLogSumExp", "ReduceSum", "ReduceProd", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1"),
        *("ReduceL2", "ReduceLogSum", "ReduceSumSquare"),
    ),
    "routing": ("MoEGroupRouter",),
    "sampling": ("GridSample",),
    "scatter": ("GatherElements", "Scatter"),
    "sequences": ("Optional", "Identity", "SequenceInsert", "SplitToSequence"),
    "sparse": ("SparseToDenseMatMul",),
    "trees": ("TreeEnsembleRegressor", "TreeEnsembleClassifier"),
    "shapes": ("Constant", "Squeeze", "OneHot", "Pad", "Upsample", "Resize"),
}
"""The operators that each module declares: it is imported when the first of them is looked for."""


class OperatorNode(Record, frozen=True):
    """What an operator needs to know of its node."""

    version: int
    """The opset version of its domain."""
    attributes: Mapping[str, Any]
    """By name, with the defaults of that version for those that the node leaves out."""
    wanted: tuple[bool, ...]
    """Which outputs somebody reads, one entry per output that the node names."""
    package: Callable[..., tuple[Any, ...]]
    """The onnx package's implementation of the node, for inputs that the own one leaves to it."""

    def wants(self, output: int) -> bool:
        """Whether somebody reads that output."""
        return output < len(self.wanted) and self.wanted[output]


Operator = Callable[..., tuple[Any, ...]]
_OPERATORS: dict[tuple[str, str], list[tuple[int, int, tuple[int, ...], Operator]]] = {}


def operator(
    op_type: str, *, domain: str = "", since: int = 1, until: int = 2**31, having: tuple[int, ...] = ()
) -> Callable[[Operator], Operator]:
    """Declares the decorated function as the implementation of `op_type` for opsets `since` <= version <
    `until`; where `having` is not empty, for nodes that have one of these inputs.
    """

    def declare(function: Operator) -> Operator:
        _OPERATORS.setdefault((domain, op_type), []).append((since, until, having, function))
        return function

    return declare


def find_operator(domain: str, op_type: str, version: int, inputs: Sequence[str]) -> Operator | None:
    """The own implementation for that opset version of a node with these inputs, or None."""
    for name in _modules().get(op_type, ()):
        import_module(f".{name}", __package__)
    for since, until, having, function in _OPERATORS.get((domain, op_type), ()):
        is_form = not having or any(at < len(inputs) and inputs[at] for at in having)
        if since <= version < until and is_form:
            return function
    return None


@cache
def _modules() -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, op_types in DECLARED.items():
        for op_type in op_types:
            found.setdefault(op_type, []).append(name)
    return found
