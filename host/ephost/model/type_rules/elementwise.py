"""Operators that go element by element, and others that keep their input's shape."""

from __future__ import annotations

from ephost.messages import TensorProto
from ephost.model.graph import Node, tensor_type
from ephost.model.type_rules.registry import (
    Knowledge,
    Made,
    Types,
    Unsure,
    axis_of,
    broadcast,
    dims_of,
    given,
    joined,
    rule,
    same,
)

_BOOL, _FLOAT = TensorProto.BOOL, TensorProto.FLOAT


def _keeps(node: Node, types: Types, known: Knowledge) -> Made:
    return [given(types, 0)]


rule("Clip", since=6)(_keeps)
rule("Celu", "CumSum", "Gelu", "HardSwish", "Mish", "Shrink", "Swish")(_keeps)
rule("LRN", "MeanVarianceNormalization")(_keeps)
rule("GroupNormalization", "InstanceNormalization", since=6)(_keeps)
rule("Scatter", "ScatterElements", "ScatterND")(_keeps)
rule("RMSNormalization")(_keeps)


@rule("Hardmax", "LogSoftmax", "LpNormalization", "Softmax", of_first=True)
def _along_axis(node: Node, types: Types, known: Knowledge) -> Made:
    newer = node.since_version >= 13 or node.op_type == "LpNormalization"
    axis_of(node.attribute("axis", -1 if newer else 1), len(dims_of(types, 0)))
    return [given(types, 0)]


@rule("ReverseSequence", "Trilu", of_first=True)
def _of_matrices(node: Node, types: Types, known: Knowledge) -> Made:
    if len(dims_of(types, 0)) < 2:
        raise Unsure
    return [given(types, 0)]


@rule("BatchNormalization", since=7, of_first=True)
def _batch_normalization(node: Node, types: Types, known: Knowledge) -> Made:
    dims = dims_of(types, 0)
    channels = dims[1] if len(dims) > 1 else None
    if node.attribute("training_mode", 0) or len(types) != 5:
        raise Unsure
    for at in range(1, 5):
        of_channels = dims_of(types, at)
        if len(of_channels) != 1:
            raise Unsure
        joined(channels, of_channels[0])
    return [given(types, 0)]


@rule("LayerNormalization")
def _layer_normalization(node: Node, types: Types, known: Knowledge) -> Made:
    dims = dims_of(types, 0)
    axis = axis_of(node.attribute("axis", -1), len(dims))
    left = dims[:axis] + (1,) * (len(dims) - axis)
    statistics = tensor_type(node.attribute("stash_type", _FLOAT), left)
    # Before opset 17, where it is onnxruntime's, the input may be of another type than scale and result.
    return [tensor_type(given(types, 1).element_type, dims), statistics, statistics]


@rule("Dropout", since=7)
def _dropout(node: Node, types: Types, known: Knowledge) -> Made:
    kind = given(types, 0)
    if any(more is not None and more.dims != () for more in types[1:]):
        raise Unsure
    return [kind, tensor_type(_BOOL if node.since_version >= 10 else kind.element_type, kind.dims)]


@rule("IsInf", "IsNaN")
def _tests(node: Node, types: Types, known: Knowledge) -> Made:
    return [tensor_type(_BOOL, dims_of(types, 0))]


@rule("Cast", since=6)
def _cast(node: Node, types: Types, known: Knowledge) -> Made:
    to = node.attribute("to")
    if to not in TensorProto.DataType.values() or to == TensorProto.UNDEFINED:
        raise Unsure
    return [tensor_type(to, given(types, 0).dims)]


@rule("CastLike")
def _cast_like(node: Node, types: Types, known: Knowledge) -> Made:
    return [tensor_type(given(types, 1).element_type, dims_of(types, 0))]


@rule("Pow", since=7, of_first=True)
def _pow(node: Node, types: Types, known: Knowledge) -> Made:
    return [same(given(types, 0), broadcast([dims_of(types, 0), dims_of(types, 1)]))]


@rule("PRelu", since=7)
def _prelu(node: Node, types: Types, known: Knowledge) -> Made:
    dims = dims_of(types, 0)
    if len(dims_of(types, 1)) > len(dims):
        raise Unsure
    return [given(types, 0)]


@rule("Equal", "Greater", "Less", since=7)
@rule("GreaterOrEqual", "LessOrEqual")
def _compares(node: Node, types: Types, known: Knowledge) -> Made:
    if given(types, 0).element_type != given(types, 1).element_type:
        raise Unsure
    dims = [given(types, at).dims for at in range(2)]
    shapes = [shape for shape in dims if shape is not None]
    return [tensor_type(_BOOL, broadcast(shapes) if len(shapes) == 2 else None)]


@rule("Where")
def _where(node: Node, types: Types, known: Knowledge) -> Made:
    kind = given(types, 1)
    if kind.element_type != given(types, 2).element_type:
        raise Unsure
    return [same(kind, broadcast([dims_of(types, at) for at in range(3)]))]


@rule("QuantizeLinear")
def _quantize(node: Node, types: Types, known: Knowledge) -> Made:
    zero = types[2] if len(types) > 2 else None
    element = node.attribute("output_dtype", 0)
    if zero is not None and element not in (0, zero.element_type):
        raise Unsure
    element = element or (TensorProto.UINT8 if zero is None else zero.element_type)
    return [tensor_type(element, dims_of(types, 0))]


@rule("DequantizeLinear")
def _dequantize(node: Node, types: Types, known: Knowledge) -> Made:
    if node.attribute("output_dtype", 0):
        raise Unsure
    element = given(types, 1).element_type if node.since_version >= 19 else _FLOAT
    return [tensor_type(element, dims_of(types, 0))]


@rule("DynamicQuantizeLinear")
def _dynamic_quantize(node: Node, types: Types, known: Knowledge) -> Made:
    made = tensor_type(TensorProto.UINT8, dims_of(types, 0))
    return [made, tensor_type(_FLOAT, ()), tensor_type(TensorProto.UINT8, ())]
