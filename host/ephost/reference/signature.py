"""What the ONNX schema says of an operator: its default attributes and the element types of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ephost.records import Record

from ..message_helpers import numpy_dtype
from ..messages import AttributeProto, TensorProto
from ..onnx_schema import VARIADIC, default_of, onnx_schema
from .values import Value

_ELEMENT_TYPES = {
    f"tensor({TensorProto.DataType.Name(code).lower()})": code
    for code in TensorProto.DataType.values()
    if code != TensorProto.UNDEFINED
}


def _dtype_named(name: str) -> np.dtype | None:
    """The dtype of ``tensor(float)`` and the like; None for what is no such type."""
    return numpy_dtype(_ELEMENT_TYPES[name]) if name in _ELEMENT_TYPES else None


class Signature(Record, frozen=True):
    """One version of an operator, as its schema declares it."""

    defaults: Mapping[str, AttributeProto]
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
        constraint.type_param_str: _dtype_named(constraint.allowed_type_strs[0])
        for constraint in schema.type_constraints
        if len(constraint.allowed_type_strs) == 1
    }
    inputs = schema.inputs
    places: dict[str, list[int]] = {}
    for position, formal in enumerate(inputs):
        if formal.option.value != VARIADIC or formal.is_homogeneous:
            places.setdefault(formal.type_str, []).append(position)

    def rule(formal: Any) -> np.dtype | tuple[int, ...] | None:
        if formal.option.value == VARIADIC and not formal.is_homogeneous:
            return None
        name = formal.type_str
        if name in fixed or name in _ELEMENT_TYPES:
            return fixed.get(name) or _dtype_named(name)
        return tuple(places[name]) if name in places else None

    outputs = schema.outputs
    return Signature(
        defaults={
            name: default
            for name, attribute in schema.attributes.items()
            if (default := default_of(attribute)) is not None
        },
        required=tuple(name for name, attribute in schema.attributes.items() if attribute.required),
        since_version=schema.since_version,
        _inputs=tuple(formal.type_str for formal in inputs),
        _outputs=tuple(rule(formal) for formal in outputs),
        _variadic_output=bool(outputs) and outputs[-1].option.value == VARIADIC,
    )
