"""ONNX's operator schemas, as onnx has them."""

from __future__ import annotations

from functools import cache

from onnx import defs


@cache
def onnx_schema(op_type: str, domain: str, opset: int) -> defs.OpSchema | None:
    """The schema of an operator at an opset version, deprecated ones too; None where onnx knows none."""
    try:
        return defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return None
