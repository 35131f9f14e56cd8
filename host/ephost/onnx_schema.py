"""ONNX's operator schemas, as onnx has them."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from ephost import schema_table
from ephost.messages import AttributeProto
from ephost.onnx_library import extension

# Of the options of a formal parameter: their numbers, which are onnx's.
SINGLE, VARIADIC = 0, 2


def onnx_schema(op_type: str, domain: str, opset: int) -> Any:
    """The schema of an operator at an opset version, deprecated ones too; None where onnx knows none."""
    if schema_table.has(domain, opset):
        return _written(op_type, domain, opset)
    if domain == "com.microsoft":
        return None  # whatever a program has told onnx of operators that it defines elsewhere
    if domain and not domain.startswith("ai.onnx") and "onnx" not in sys.modules:
        return None  # nobody can have told onnx of it
    return _ask(op_type, domain, opset)


@cache
def _written(op_type: str, domain: str, opset: int) -> schema_table.TableSchema | None:
    return schema_table.find(op_type, domain, opset, _ask)


@cache
def _ask(op_type: str, domain: str, opset: int) -> Any:
    defs = extension().defs
    try:
        return defs.get_schema(op_type, opset, domain)
    except (defs.SchemaError, TypeError):  # the latter where a name is not UTF-8
        return None


@cache
def newest_opset(domain: str = "") -> int:
    """The newest opset of one of ONNX's domains that onnx knows."""
    return int(extension().defs.schema_version_map()[domain][1])


def default_of(attribute: Any) -> AttributeProto | None:
    """What holds where a node leaves an attribute out; None where the schema has nothing for it."""
    found = AttributeProto.FromString(attribute._default_value)
    return found if found.name else None
