"""Writes the CPU plugin's signatures.inc: what each operator of the standard takes and gives.

usage: python tools/operator_signatures.py > plugins/cpu/operators/signatures.inc

A plugin gets graphs from a host, and has no schemas of its own to hold them against. Needs the onnx package,
and onnxruntime for the operators of its domain com.microsoft. Operators of that domain and of ai.onnx.ml are
named with it. A row is

    {"Gather", 13, "AB", {0x1fffe, 0xc0}},

the operator, the version since which the row holds, and a letter for each input. Equal letters stand for the
same element type; a small letter is an input that may be left out, and a '*' after the last one says that
there may be any number of it. Then, for each letter, the element types that it may stand for: a bit for each,
0 for any.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from onnx import defs

TYPES = {
    "float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "string": 8,
    "bool": 9, "float16": 10, "double": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15,
    "bfloat16": 16, "float8e4m3fn": 17, "float8e4m3fnuz": 18, "float8e5m2": 19, "float8e5m2fnuz": 20,
    "uint4": 21, "int4": 22, "float4e2m1": 23, "float8e8m0": 24, "uint2": 25, "int2": 26,
}  # fmt: skip

# Inputs that the standard wants and exporters leave out where nothing reads them, as hosts allow.
LEFT_OUT = {("Resize", 11): (1, 2)}


# Of com.microsoft: what the plugin has of those, of which kernels read scales and weights as what they take
# them for.
CONTRIB = {
    "DequantizeLinear", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "MatMulNBits", "QGemm", "QLinearAdd",
    "QLinearAveragePool", "QLinearConcat", "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearMul",
    "QLinearSigmoid", "QLinearSoftmax", "QuantizeLinear", "Tokenizer",
}  # fmt: skip


class _Formal:
    """An input of one of onnxruntime's schemas, in the terms of onnx's."""

    def __init__(self, formal: Any) -> None:
        self.type_str = formal.typeStr
        self.option = getattr(defs.OpSchema.FormalParameterOption, formal.option.name)
        self.is_homogeneous = formal.isHomogeneous


class _Schema:
    """One of onnxruntime's schemas, in the terms of onnx's."""

    domain = "com.microsoft"

    def __init__(self, schema: Any) -> None:
        self.name, self.since_version = f"com.microsoft.{schema.name}", schema.since_version
        self.inputs = [_Formal(formal) for formal in schema.inputs]
        self.type_constraints, self.min_input = schema.type_constraints, schema.min_input


def contrib_schemas() -> list[_Schema]:
    """Of the operators in CONTRIB."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    found = [s for s in state.get_all_operator_schema() if s.domain == "com.microsoft" and s.name in CONTRIB]
    return [_Schema(schema) for schema in found]


def name_of(schema: Any) -> str:
    """The operator's name, after its domain where that is not ONNX's own."""
    return f"ai.onnx.ml.{schema.name}" if schema.domain == "ai.onnx.ml" else str(schema.name)


def row(schema: Any) -> tuple[str, tuple[int, ...]]:
    """The letters of the operator's inputs, and the element types of each letter."""
    allowed = {c.type_param_str: list(c.allowed_type_strs) for c in schema.type_constraints}
    letters: dict[str, str] = {}
    masks: list[int] = []
    text = ""
    for at, formal in enumerate(schema.inputs):
        variadic = formal.option == defs.OpSchema.FormalParameterOption.Variadic
        free = variadic and not formal.is_homogeneous
        key = f"{formal.type_str} {at}" if free else formal.type_str
        if key not in letters:
            letters[key] = chr(ord("A") + len(letters))
            names = [
                re.fullmatch(r"tensor\((\w+)\)", t) for t in allowed.get(formal.type_str, [formal.type_str])
            ]
            masks.append(
                0 if free or None in names else sum(1 << TYPES[n[1]] for n in names if n and n[1] in TYPES)
            )
        optional = formal.option == defs.OpSchema.FormalParameterOption.Optional
        optional = optional or (variadic and schema.min_input <= at)
        optional = optional or at in LEFT_OUT.get((schema.name, schema.since_version), ())
        text += letters[key].lower() if optional else letters[key]
        text += "*" if variadic and not free else ""
    return text, tuple(masks)


def table() -> str:
    """The whole file."""
    lines = [
        "// Written by tools/operator_signatures.py, which says what the columns are.",
        "// clang-format off",
    ]
    last: tuple[str, tuple[str, tuple[int, ...]]] | None = None
    schemas: list[Any] = [s for s in defs.get_all_schemas_with_history() if s.domain in ("", "ai.onnx.ml")]
    schemas += contrib_schemas()
    for schema in sorted(schemas, key=lambda s: (name_of(s), s.since_version)):
        name, made = name_of(schema), row(schema)
        if last != (name, made):
            masks = ", ".join(f"{mask:#x}" for mask in made[1])
            lines.append(f'{{"{name}", {schema.since_version}, "{made[0]}", {{{masks}}}}},')
        last = (name, made)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
