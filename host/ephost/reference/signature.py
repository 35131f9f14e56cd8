"""What the ONNX schema says of an operator: its default attributes and the element types of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx
from onnx import defs, helper

from ..onnx_schema import onnx_schema
from .values import Value

_VARIADIC = defs.OpSchema.FormalParameterOption.Variadic
_ELEMENT_TYPES = {
    f"tensor({onnx.TensorProto.DataType.Name(code).lower()})": np.dtype(helper.tensor_dtype_to_np_dtype(code))
    for code in onnx.TensorProto.DataType.values()
    if code != onnx.TensorProto.UNDEFINED
}


@dataclass(frozen=True)
class Signature:
    """One version of an operator, as its schema declares it."""

    defaults: Mapping[str, onnx.AttributeProto]
    """Attributes that a node may leave out, with their values."""
    required: tuple[str, ...]
    """Attributes that a node must have."""
    since_version: int
    _inputs: tuple[str, ...]
    _outputs: tuple[np.dtype | tuple[int, ...] | None, ...]
    _variadic_output: bool

    def output_dtype(self, index: int, inputs: Sequence[Value]) -> np.dtype | None:
        """The element type that output `index` must have, or None where attributes or a body decide it."""
        if index >= len(self._outputs):
            if not self._variadic_output:
                return None
            index = len(self._outputs) - 1
        rule = self._outputs[index]
        if not isinstance(rule, tuple):
            return rule
        for position in rule:
            value = inputs[position] if position < len(inputs) else None
            if isinstance(value, np.ndarray):
                return value.dtype
        return None


@cache
def signature_of(op_type: str, domain: str, version: int) -> Signature | None:
    """The signature in force at opset `version`, or None for an operator that onnx does not know."""
    schema = onnx_schema(op_type, domain, version)
    if schema is None:
        return None
    fixed = {
        constraint.type_param_str: _ELEMENT_TYPES.get(constraint.allowed_type_strs[0])
        for constraint in schema.type_constraints
        if len(constraint.allowed_type_strs) == 1
    }
    inputs = schema.inputs
    places: dict[str, list[int]] = {}
    for position, formal in enumerate(inputs):
        if formal.option != _VARIADIC or formal.is_homogeneous:
            places.setdefault(formal.type_str, []).append(position)

    def rule(formal: defs.OpSchema.FormalParameter) -> np.dtype | tuple[int, ...] | None:
        if formal.option == _VARIADIC and not formal.is_homogeneous:
            return None
        name = formal.type_str
        if name in fixed or name in _ELEMENT_TYPES:
            return fixed.get(name) or _ELEMENT_TYPES.get(name)
        return tuple(places[name]) if name in places else None

    outputs = schema.outputs
    return Signature(
        defaults={
            name: attribute.default_value
            for name, attribute in schema.attributes.items()
            if attribute.default_value.type != onnx.AttributeProto.UNDEFINED
        },
        required=tuple(name for name, attribute in schema.attributes.items() if attribute.required),
        since_version=schema.since_version,
        _inputs=tuple(formal.type_str for formal in inputs),
        _outputs=tuple(rule(formal) for formal in outputs),
        _variadic_output=bool(outputs) and outputs[-1].option == _VARIADIC,
    )
