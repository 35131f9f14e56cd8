"""Write down what onnx knows of ONNX's operators, for sessions that then need not ask it.

Run by CMake. onnx's compiled half takes longer to register its schemas than a small model takes to open, and
what nearly all models ask for are a few facts of a few operators. ``ephost.schema_table`` reads them.

A line for each version of each operator, up to the opset that every onnx knows with which ephost runs; those
of one operator follow each other, oldest first. Between fields are tabs, between the items of a list RECORD,
between their parts UNIT:

    domain, name, since_version, whether it is deprecated, has a function, has one that depends on its node,
    counts of inputs and of outputs (least, most), inputs, outputs (name, type, option, is_homogeneous),
    constraints (type parameter, types ...), attributes (name, type, required, default as an AttributeProto
    in hexadecimal digits)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx.defs

sys.path.insert(0, str(Path(__file__).parents[1] / "host" / "ephost"))
from schema_table import NEWEST, RECORD, UNIT


def list_of(items: Iterable[Iterable[object]]) -> str:
    """A field that is a list."""
    return RECORD.join(UNIT.join(map(str, parts)) for parts in items)


def formals(given: Any) -> str:
    """Inputs or outputs."""
    return list_of((f.name, f.type_str, f.option.value, int(f.is_homogeneous)) for f in given)


def line(schema: Any) -> str:
    """What is written of a schema."""
    fields = (
        schema.domain,
        schema.name,
        schema.since_version,
        int(schema.deprecated),
        int(schema.has_function),
        int(schema.has_context_dependent_function),
        list_of([(schema.min_input, schema.max_input, schema.min_output, schema.max_output)]),
        formals(schema.inputs),
        formals(schema.outputs),
        list_of((c.type_param_str, *c.allowed_type_strs) for c in schema.type_constraints),
        list_of(
            (name, a.type.value, int(a.required), a._default_value.hex())
            for name, a in schema.attributes.items()
        ),
    )
    return "\t".join(map(str, fields))


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description="Write down what onnx knows of ONNX's operators.")
    parser.add_argument("--out", type=Path, required=True, help="the file")
    out = parser.parse_args().out
    known = [
        schema
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.since_version <= NEWEST.get(schema.domain, 0)
    ]
    known.sort(key=lambda schema: (schema.domain, schema.name, schema.since_version))
    out.write_text("".join(f"\n{line(schema)}" for schema in known) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
