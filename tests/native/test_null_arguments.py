"""No slot of these crashes on NULL: what returns a status refuses, the others give nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from native_objects import Refused, check, ffi, lib

TABLES = {
    "OrtApi": lib.ephost_api,
    "OrtEpApi": lib.ephost_ep_api,
    "OrtModelEditorApi": lib.ephost_model_editor_api,
}
FILES = (
    "key_values",
    "memory",
    "value",
    "value_strings",
    "value_containers",
    "type_info",
    "logger",
    "devices",
    "options",
)
NATIVE = Path(__file__).parents[2] / "host" / "native"


def slots() -> list[tuple[str, str]]:
    """The table and the member of each slot that the files implement."""
    found = []
    for name in FILES:
        source = (NATIVE / f"{name}.c").read_text(encoding="utf-8")
        slots_of_file = re.findall(r"ORT_API_CALL\s+SLOT\((\w+),\s+(\w+)\)", source)
        assert slots_of_file, f"{name}.c implements nothing"
        found += slots_of_file
    return found


@pytest.mark.parametrize(("table", "member"), slots())
def test_null_for_every_pointer_is_refused_or_ignored(table: str, member: str) -> None:
    function = getattr(TABLES[table], member)
    signature = ffi.typeof(function)
    result = function(*(ffi.NULL if argument.kind == "pointer" else 0 for argument in signature.args))
    if signature.result == ffi.typeof("OrtStatus*"):
        with pytest.raises(Refused) as refused:
            check(result)
        assert refused.value.code == lib.ORT_INVALID_ARGUMENT
    elif signature.result.kind == "pointer":
        assert result == ffi.NULL or ffi.string(result) == b""
    else:
        assert not result
