"""What is written down of onnx's schemas is what the installed onnx says, as far as both know it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import onnx.defs
import pytest
from ephost import schema_table
from ephost.onnx_schema import default_of, onnx_schema
from host_state import needs_newest_onnx


def known() -> Iterator[Any]:
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.since_version <= schema_table.NEWEST.get(schema.domain, 0):
            yield schema


def formals(given: Any) -> list[tuple[object, ...]]:
    return [(f.name, f.type_str, f.option.value, f.is_homogeneous) for f in given]


def facts(schema: Any) -> dict[str, Any]:
    """What the host asks of a schema."""
    members = (
        "domain name since_version deprecated has_function has_context_dependent_function "
        "min_input max_input min_output max_output"
    )
    return {
        **{name: getattr(schema, name) for name in members.split()},
        "inputs": formals(schema.inputs),
        "outputs": formals(schema.outputs),
        "constraints": [(c.type_param_str, sorted(c.allowed_type_strs)) for c in schema.type_constraints],
        "attributes": {
            name: (a.name, a.type.value, a.required, default_of(a)) for name, a in schema.attributes.items()
        },
    }


@needs_newest_onnx
def test_the_table_says_what_onnx_says() -> None:
    seen = 0
    for schema in known():
        found = onnx_schema(schema.name, schema.domain, schema.since_version)
        assert isinstance(found, schema_table.TableSchema)
        assert facts(found) == facts(schema)
        seen += 1
    assert seen > 500


def test_an_operator_means_what_it_meant_last() -> None:
    assert onnx_schema("Add", "", 23).since_version == 14
    assert onnx_schema("Add", "", 13).since_version == 13
    assert onnx_schema("Upsample", "", 23).deprecated
    assert onnx_schema("Trilu", "", 13) is None  # it came with 14
    assert onnx_schema("NoSuchOperator", "", 23) is None


def test_what_is_not_in_the_table_is_asked_of_onnx() -> None:
    newest = onnx.defs.onnx_opset_version()
    if newest > schema_table.NEWEST[""]:
        assert not isinstance(onnx_schema("Add", "", newest), schema_table.TableSchema)
    softmax = onnx_schema("LayerNormalization", "", 17)
    assert isinstance(softmax, schema_table.TableSchema)
    assert softmax.context_dependent_function_opset_versions
    with pytest.raises(AttributeError):
        _ = softmax.no_such_member


def test_a_session_on_kernels_of_our_own_needs_no_onnx() -> None:
    script = (
        "import sys, ephost, numpy as np\n"
        "model = bytes.fromhex(sys.argv[1])\n"
        "session = ephost.InferenceSession(model)\n"
        "print(session.run(None, {'x': np.ones(2, np.float32)})[0].tolist())\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('onnx', 'google')])\n"
    )
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "x"], ["y"])], "g", [value("x", 1, [2])], [value("y", 1, [2])]
    )
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    command = [sys.executable, "-c", script, made.SerializeToString().hex()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[2.0, 2.0]", "[]"]


REGISTERED = """
import onnx.defs
from onnx.defs import OpSchema
parameter, halves = OpSchema.FormalParameter, [("T", ["tensor(float16)"], "")]
onnx.defs.register_schema(OpSchema("Gelu", "com.microsoft", 1, inputs=[parameter("x", "T")],
                                   outputs=[parameter("y", "T")], type_constraints=halves))
import ephost, numpy, onnx.parser
model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'
                                'g (float[3] x) => (float[3] y) { y = com.microsoft.Gelu (x) }')
print(ephost.InferenceSession(model.SerializeToString()).run(None, {"x": numpy.ones(3, numpy.float32)}))
"""


def test_what_a_program_registers_with_onnx_does_not_change_an_operator() -> None:
    with_plugin = os.environ | {"EPHOST_CPU_PLUGIN": "1"}
    subprocess.run([sys.executable, "-c", REGISTERED], check=True, env=with_plugin)
