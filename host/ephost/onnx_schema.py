"""ONNX's operator schemas, as onnx has them."""

from __future__ import annotations

from functools import cache
from typing import Any

from ephost.messages import AttributeProto
from ephost.onnx_library import extension

# Of the options of a formal parameter: their numbers, which are onnx's.
SINGLE, VARIADIC = 0, 2


@cache
def onnx_schema(op_type: str, domain: str, opset: int) -> Any:
    """The schema of an operator at an opset version, deprecated ones too; None where onnx knows none."""
    defs = extension().defs
    try:
        return defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return None


@cache
def newest_opset() -> int:
    """The newest opset of ONNX's own domain that onnx knows."""
    return int(extension().defs.schema_version_map()[""][1])


def default_of(attribute: Any) -> AttributeProto | None:
    """What holds where a node leaves an attribute out; None where the schema has nothing for it."""
    found = AttributeProto.FromString(attribute._default_value)
    return found if found.name else None
