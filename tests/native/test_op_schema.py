"""Operator schemas as plugins ask for them."""

from __future__ import annotations

import ephost.schemas  # noqa: F401 - sets the callback
import onnx
import pytest
from ephost._bindings import NULL, check, ep_api, ffi, text
from ephost.errors import InvalidArgument


@pytest.fixture
def schema():
    made = []

    def get(name: str, version: int, domain: str = ""):
        out = ffi.new("OrtOpSchema**")
        check(ep_api.GetOpSchema(name.encode(), version, domain.encode(), out))
        made.append(out[0])
        return out[0]

    yield get
    for pointer in made:
        ep_api.ReleaseOpSchema(pointer)


def _text(function, *arguments) -> str:
    out = ffi.new("char**")
    check(function(*arguments, out))
    return text(out[0])


def _count(function, *arguments) -> int:
    out = ffi.new("size_t*")
    check(function(*arguments, out))
    return int(out[0])


@pytest.mark.parametrize(("version", "since"), [(6, 6), (7, 7), (12, 7), (13, 13), (21, 14)])
def test_the_schema_is_the_one_that_holds_at_the_version(schema, version, since):
    out = ffi.new("int*")
    check(ep_api.OpSchema_GetSinceVersion(schema("Add", version), out))
    assert out[0] == since


def test_formals_and_constraints_are_those_of_onnx(schema):
    pointer = schema("Where", 16)
    expected = onnx.defs.get_schema("Where", 16, "")
    assert _count(ep_api.OpSchema_GetNumInputs, pointer) == len(expected.inputs)
    names = [_text(ep_api.OpSchema_GetInputName, pointer, i) for i in range(len(expected.inputs))]
    assert names == [f.name for f in expected.inputs]
    assert _text(ep_api.OpSchema_GetOutputName, pointer, 0) == "output"
    found = {}
    for at in range(_count(ep_api.OpSchema_GetTypeConstraintCount, pointer)):
        out = ffi.new("OrtOpSchemaTypeConstraint**")
        check(ep_api.OpSchema_GetTypeConstraint(pointer, at, out))
        types, count = ffi.new("char***"), ffi.new("size_t*")
        check(ep_api.OpSchemaTypeConstraint_GetAllowedTypes(out[0], types, count))
        indices, index_count = ffi.new("size_t**"), ffi.new("size_t*")
        check(ep_api.OpSchemaTypeConstraint_GetInputIndices(out[0], indices, index_count))
        name = _text(ep_api.OpSchemaTypeConstraint_GetTypeParamName, out[0])
        kinds = [text(types[0][i]) for i in range(count[0])]
        found[name] = (kinds, [indices[0][i] for i in range(index_count[0])])
    assert {k: v[0] for k, v in found.items()} == {
        c.type_param_str: list(c.allowed_type_strs) for c in expected.type_constraints
    }
    assert (found["B"][1], found["T"][1]) == ([0], [1, 2])


def test_an_input_of_a_fixed_type_has_no_constraint(schema):
    pointer = schema("Reshape", 21)
    out = ffi.new("OrtOpSchemaTypeConstraint**")
    check(ep_api.OpSchema_GetInputTypeConstraint(pointer, 1, out))
    assert out[0] == NULL
    check(ep_api.OpSchema_GetInputTypeConstraint(pointer, 0, out))
    assert out[0] != NULL


def test_an_unknown_operator_has_no_schema_and_is_no_error(schema):
    assert schema("NoSuchOperator", 21) == NULL
    assert schema("Add", 21, "com.example") == NULL


def test_an_index_beyond_the_end_is_refused_with_the_number(schema):
    out = ffi.new("char**")
    with pytest.raises(InvalidArgument, match="has 2 inputs; number 5"):
        check(ep_api.OpSchema_GetInputName(schema("Add", 14), 5, out))
