"""Normalisations, factors and shifts for each channel go into the weights before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ephost.model.graph import Node
from ephost.model.rules.matching import (
    FLOATS,
    Rewriting,
    Rule,
    data_of,
    dims_of,
    element_type_of,
    has_one_output,
    input_at,
)


def _channels(node: Node) -> int | None:
    """How many channels a Conv or ConvTranspose with constant weights makes; None where the weights are not
    known, or do not go with its groups.
    """
    weight = data_of(input_at(node, 1))
    if weight is None or weight.ndim < 3 or element_type_of(input_at(node, 1)) not in FLOATS:
        return None
    if node.op_type == "Conv":
        return int(weight.shape[0])
    groups = node.attribute("group", 1)
    return int(weight.shape[1]) * groups if groups > 0 and weight.shape[0] % groups == 0 else None


def _over_weights(node: Node, factor: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """A factor for each channel that the node makes, in the shape in which weights are multiplied by it."""
    kernel = [1] * (weight.ndim - 2)
    if node.op_type == "Conv":
        return factor.reshape(-1, 1, *kernel)
    # Transposed: each channel that is read has the weights of those that its group makes.
    groups = node.attribute("group", 1)
    inputs = weight.shape[0] // groups
    return np.repeat(factor.reshape(groups, -1), inputs, axis=0).reshape(*weight.shape[:2], *kernel)


def _scale_conv(
    r: Rewriting, node: Node, factor: np.ndarray | None, shift: np.ndarray | None, reader: Node
) -> bool:
    """Let a Conv or ConvTranspose do what its only reader does: a factor and a shift for each channel."""
    source, old_weight, old_bias = node.inputs[0], input_at(node, 1), input_at(node, 2)
    weight, bias, channels = data_of(old_weight), data_of(old_bias), _channels(node)
    if old_weight is None or weight is None or channels is None:
        return False
    if old_bias is not None and (bias is None or bias.shape != (channels,)):
        return False
    kind = element_type_of(old_weight)
    new_weight = old_weight
    new_bias = None if bias is None else _wide(bias)
    if factor is not None:
        scaled = _wide(weight) * _over_weights(node, _wide(factor), weight)
        new_weight = r.constant(old_weight.name, scaled.astype(weight.dtype, copy=False), kind)
        new_bias = None if new_bias is None else new_bias * _wide(factor)
    if shift is not None:
        new_bias = _wide(shift) if new_bias is None else new_bias + _wide(shift)
    made = old_bias
    if new_bias is not None:
        name = old_bias.name if old_bias is not None else f"{old_weight.name}_bias"
        made = r.constant(name, new_bias.astype(weight.dtype, copy=False), kind)
    r.take_output(node, reader)
    r.set_inputs(node, [source, new_weight] if made is None else [source, new_weight, made])
    return True


def _wide(data: np.ndarray) -> Any:
    """Numbers as they are computed with: in float32, or float64 where they are that."""
    return data if data.dtype == np.float64 else data.astype(np.float32, copy=False)


_WITH_TRAINING_MODE = 14  # the opset since which an attribute of BatchNormalization says whether it trains


def _normalisation(node: Node) -> tuple[np.ndarray, np.ndarray] | None:
    """The factor and shift of a batch normalisation in inference, for each channel."""
    if node.since_version < 7 or not has_one_output(node):
        return None
    if node.attribute("training_mode", 0) or node.attribute("spatial", 1) != 1:
        return None
    if node.since_version < _WITH_TRAINING_MODE and any(value is not None for value in node.outputs[1:]):
        return None  # Having them is what says that it trains.
    parts = [data_of(input_at(node, at)) for at in range(1, 5)]
    if any(part is None or part.ndim != 1 for part in parts):
        return None
    scale, shift, mean, variance = (_wide(part) for part in parts if part is not None)
    factor = scale / np.sqrt(variance + variance.dtype.type(node.attribute("epsilon", 1e-5)))
    if not np.isfinite(factor).all():
        return None
    return factor, shift - mean * factor


def _per_channel(data: np.ndarray | None, channels: int, rank: int) -> np.ndarray | None:
    """What is broadcast along all axes but the channels', as one number for each channel."""
    if data is None or data.ndim > rank:
        return None
    dims = (1,) * (rank - data.ndim) + data.shape
    if any(d != 1 for at, d in enumerate(dims) if at != 1) or dims[1] not in (1, channels):
        return None
    return np.broadcast_to(data.reshape(-1), (channels,))


def _fuse_conv_bn(r: Rewriting, node: Node) -> bool:
    reader = r.only_reader(node.outputs[0])
    if reader is None or reader.op_type != "BatchNormalization" or reader.inputs[0] is not node.outputs[0]:
        return False
    found = _normalisation(reader)
    if found is None or found[0].shape != (_channels(node),):
        return False
    return _scale_conv(r, node, found[0], found[1], reader)


def _operand(r: Rewriting, node: Node, op_type: str) -> tuple[Node, np.ndarray | None] | None:
    """The only reader of a node's output, an operator of two, and its other, constant, operand."""
    out = node.outputs[0]
    reader = r.only_reader(out)
    if reader is None or reader.op_type != op_type or len(reader.inputs) != 2 or reader.since_version < 7:
        return None
    other = reader.inputs[1 if reader.inputs[0] is out else 0]
    return reader, data_of(other)


def _fuse_conv_scale(op_type: str) -> Callable[[Rewriting, Node], bool]:
    def apply(r: Rewriting, node: Node) -> bool:
        found = _operand(r, node, op_type)
        weight = data_of(input_at(node, 1))
        if found is None or weight is None:
            return False
        numbers = _per_channel(found[1], weight.shape[0], weight.ndim)
        if numbers is None:
            return False
        factor, shift = (numbers, None) if op_type == "Mul" else (None, numbers)
        return _scale_conv(r, node, factor, shift, found[0])

    return apply


def _fuse_bn_scale(op_type: str) -> Callable[[Rewriting, Node], bool]:
    """A factor or shift for each channel behind a batch normalisation goes into that one's own."""

    def apply(r: Rewriting, node: Node) -> bool:
        found = _operand(r, node, op_type)
        dims = dims_of(node.inputs[0])
        if found is None or dims is None or len(dims) < 2 or _normalisation(node) is None:
            return False
        scale, shift = input_at(node, 1), input_at(node, 2)
        own_scale, own_shift = data_of(scale), data_of(shift)
        assert scale is not None and shift is not None and own_scale is not None and own_shift is not None
        numbers = _per_channel(found[1], own_scale.size, len(dims))
        if numbers is None:
            return False
        if op_type == "Mul":
            scale = r.constant(
                scale.name, (own_scale * numbers).astype(own_scale.dtype), element_type_of(scale)
            )
            made = (own_shift * numbers).astype(own_shift.dtype)
        else:
            made = (own_shift + numbers).astype(own_shift.dtype)
        shift = r.constant(shift.name, made, element_type_of(shift))
        inputs = [node.inputs[0], scale, shift, *node.inputs[3:]]
        r.take_output(node, found[0])
        r.set_inputs(node, inputs)
        return True

    return apply


def _fuse_matmul_bn(r: Rewriting, node: Node) -> bool:
    """MatMul of rows with a matrix, normalised: one Gemm."""
    reader = r.only_reader(node.outputs[0])
    if reader is None or reader.op_type != "BatchNormalization" or reader.inputs[0] is not node.outputs[0]:
        return False
    matrix, rows = data_of(input_at(node, 1)), dims_of(node.inputs[0])
    found = _normalisation(reader)
    if found is None or matrix is None or matrix.ndim != 2 or rows is None or len(rows) != 2:
        return False
    if matrix.shape[1:] != found[0].shape or element_type_of(node.inputs[1]) not in FLOATS:
        return False
    old = node.inputs[1]
    assert old is not None
    kind = element_type_of(old)
    wide = matrix.astype(found[0].dtype) * found[0]
    weight = r.constant(old.name, wide.astype(matrix.dtype), kind)
    bias = r.constant(f"{old.name}_bias", found[1].astype(matrix.dtype), kind)
    source = node.inputs[0]
    r.take_output(node, reader)
    r.retype(node, "Gemm")
    r.set_inputs(node, [source, weight, bias])
    return True


RULES = {
    "BatchNormalization": (
        Rule("BatchNormalizationMulFusion", _fuse_bn_scale("Mul"), ("Mul",)),
        Rule("BatchNormalizationAddFusion", _fuse_bn_scale("Add"), ("Add",)),
    ),
    "Conv": (
        Rule("ConvBNFusion", _fuse_conv_bn, ("BatchNormalization",)),
        Rule("ConvMulFusion", _fuse_conv_scale("Mul"), ("Mul",)),
        Rule("ConvAddFusion", _fuse_conv_scale("Add"), ("Add",)),
    ),
    "ConvTranspose": (Rule("ConvBNFusion", _fuse_conv_bn, ("BatchNormalization",)),),
    "MatMul": (Rule("MatmulBNFusion", _fuse_matmul_bn, ("BatchNormalization",)),),
}
