"""What the headers say, against the tables of the published ABI."""

import re

import abi_tables
import pytest

EXPECTED = abi_tables.expected_structs()
DECLARED = abi_tables.declared_structs()


def test_every_struct_of_the_abi_is_declared_and_no_other():
    assert sorted(DECLARED) == sorted(EXPECTED)


@pytest.mark.parametrize("struct", EXPECTED)
def test_members_have_the_published_names_order_signatures_and_versions(struct):
    assert DECLARED[struct] == EXPECTED[struct]


def test_the_tables_cover_what_the_newest_known_host_has():
    newest = {
        "OrtApi": 429,
        "OrtEpApi": 78,
        "OrtCompileApi": 19,
        "OrtModelEditorApi": 20,
        "OrtInteropApi": 13,
    }
    assert {struct: len(EXPECTED[struct]) for struct in newest} == newest


def test_enumerators_have_the_published_values():
    declared = {}
    for enum, body, name in re.findall(r"typedef enum (\w+) \{(.*?)\} (\w+);", abi_tables.all_text(), re.S):
        assert enum == name
        for constant, value in re.findall(r"(\w+) = ([^,]+),", body):
            number = eval(value, {"__builtins__": {}})
            declared[enum, constant] = number
    expected = {(row["enum"], row["constant"]): int(row["value"]) for row in abi_tables.rows("abi_enums.tsv")}
    unsigned = ("OrtDeviceEpIncompatibilityReason", "OrtDeviceEpIncompatibility_UNKNOWN")
    assert declared[unsigned] % 2**32 == expected[unsigned]  # the same bit; an int in C
    assert declared | {unsigned: expected[unsigned]} == expected


def test_types_are_the_published_ones():
    text = abi_tables.all_text()
    opaque = set(re.findall(r"^typedef struct (\w+) \1;", text, re.M))
    functions = {
        name: abi_tables.normal(declaration)
        for declaration, name in re.findall(
            r"^(typedef [^;{]*?\((?:ORT_API_CALL)?\* ?(\w+)\)\([^;]*\));", text, re.M
        )
    }
    for row in abi_tables.rows("abi_types.tsv"):
        if not row["declaration"]:
            assert row["name"] in opaque
        elif "(*" in row["declaration"]:
            assert functions.pop(row["name"]) == abi_tables.normal(row["declaration"])
        else:
            assert abi_tables.normal(row["declaration"]) + ";" in abi_tables.normal(text)
    assert functions == {}, "function types that the table does not have"


def test_config_keys_are_the_published_strings():
    declared = re.findall(r'^#define (k\w+)(?: |\s*\\\n\s*)"([^"]*)"$', abi_tables.all_text(), re.M)
    assert dict(declared) == {row["constant"]: row["key"] for row in abi_tables.rows("abi_config_keys.tsv")}
    assert len(declared) == len(dict(declared))


def test_every_declaration_stands_under_a_comment():
    """In each paragraph of a struct, and before each type, a comment comes first."""
    for header in abi_tables.HEADERS:
        text = header.read_text(encoding="utf-8")
        for struct, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", text, re.S | re.M):
            assert re.search(rf"\*/\nstruct {struct} \{{", text), f"{struct} has no comment"
            for paragraph in re.split(r"\n\s*\n", body.strip("\n")):
                first = re.sub(r"^\s*EPHOST_SINCE\(\d+\)\s*", "", paragraph).lstrip()
                assert not first or first.startswith("/*"), f"{struct}: no comment above\n{paragraph}"
        for paragraph in re.split(r"\n\s*\n", text):
            if paragraph.startswith("typedef"):
                pytest.fail(f"{header.name}: no comment above\n{paragraph}")


def test_hosts_do_not_see_the_plugins_entry_points():
    assert not re.search(r"plugin\.h", abi_tables.text_of(abi_tables.INCLUDE / "ephost" / "ephost.h"))
    others = [path for path in abi_tables.HEADERS if path.name != "plugin.h"]
    assert not any(
        re.search(r"\b(CreateEpFactories|ReleaseEpFactory)\b", abi_tables.text_of(path)) for path in others
    )
