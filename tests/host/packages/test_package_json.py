"""The JSON of packages: what is read, and that it is written as onnxruntime writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ephost.packages.json_text import MAX_DEPTH, compact, parse, parse_object, pretty
from hypothesis import given
from hypothesis import strategies as st
from package_folders import load_host

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.integers(-(10**12), 10**12).map(lambda number: number / 8)  # floats with few digits
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('aé\n"/\x1f', max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_what_is_written_reads_as_what_it_was(value: Any) -> None:
    assert parse(compact(value), "it") == value
    assert parse(pretty(value).encode(), "it") == value
    assert pretty(value).endswith("\n")


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"b":[1,2.5,{"c":null}],"a":2}',
        "[1e5,1E-7,1e100,-0.0,-0,0.1,1e14,1e15,1e16,123456789012345.5,9007199254740993.0,5e-324,0.0001,1e-5]",
        "[18446744073709551615,18446744073709551616,-9223372036854775808,-9223372036854775809]",
        '"\\u00e9\\u007f\\u001f\\b\\f\\n\\r\\t/\\/\\"\\\\\\ud83d\\ude00\\u2028"',
        " [ ] ",
        "[{},[],[[]],true,false]",
        "\ufeffnull",
    ],
)
def test_it_is_written_as_onnxruntime_writes_it(text: str) -> None:
    theirs = load_host("onnxruntime").ModelPackage()
    theirs.set_additional_metadata_json("manifest", json=text)
    assert compact(parse(text, "it")) == theirs.get_info()["additional_metadata_json"]
    theirs.commit("theirs")
    value = {"schema_version": "1.0", "layout": "portable", "components": {}}
    written = Path("theirs/manifest.json").read_bytes().decode()
    assert pretty({**value, "additional_metadata": parse(text, "it")}) == written


@given(VALUES)
def test_any_value_is_written_as_onnxruntime_writes_it(value: Any) -> None:
    theirs = load_host("onnxruntime").ModelPackage()
    theirs.set_additional_metadata_json("manifest", json=json.dumps(value))
    assert compact(value) == theirs.get_info()["additional_metadata_json"]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "{",
            '{"a":1,}',
            "[1] x",
            "/* */ 1",
            "NaN",
            "Infinity",
            "1e400",
            '"\\ud800"',
            "'a'",
            "01",
            "+1",
        ),
        *("1" * 5000, b'"\xff"', '"a\nb"', "\ufeff\ufeff1"),
        pytest.param("[" * 100_000 + "]" * 100_000, id="deep"),
        pytest.param("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), id="too deep"),
        pytest.param('{"a":' * 5000 + "1" + "}" * 5000, id="deep objects"),
    ],
)
def test_what_is_no_json_is_an_error_that_says_whose(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"^the text "):
        parse(text, "the text")


def test_what_is_no_object_is_an_error() -> None:
    assert parse_object('{"a": 1}', "it") == {"a": 1}
    for text, kind in [
        ("[]", "an array"),
        ("1", "a number"),
        ("true", "a boolean"),
        ('""', "a string"),
        ("null", "null"),
    ]:
        with pytest.raises(ValueError, match=f"it is a JSON object, not {kind}"):
            parse_object(text, "it")


def test_nesting_up_to_the_limit_is_read() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert compact(parse(text, "it")) == text
