"""RegexFullMatch, as deterministic automata."""

import re

import ephost
import numpy as np
import pytest
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model

TEXTS = [
    "",
    "a",
    "b",
    "aa",
    "ab",
    "ba",
    "abab",
    "abc",
    "word15",
    "word5",
    "word51",
    "WORD5",
    "a\nb",
    "a.b",
    "a-b",
    "]",
    "^",
    "é",
    "aé",
    "ß\u20ac",
    "\u20ac",
    "\U0001f600",
    "\U0010ffff",
    "\u07ff\u0800",
    "\uffff",
    "me@example.org",
    "me@@x",
    "-17.50",
    "17",
    "2024-01-31",
    "x" * 40,
    "x" * 41,
    " \t\r\f",
    "\v",
    "foo.bar",
    "(a)",
    "a{2}",
    "\x00",
    "a\x00b",
    "\\",
]
# Where Python's expressions mean the same as RE2's.
PATTERNS = [
    "",
    "a",
    "a*",
    "a+",
    "a?b",
    "(ab)*",
    "(?:ab|ba)+",
    "a|",
    "|a|bc",
    "a.b",
    ".*",
    ".+",
    "..",
    "[abc]+",
    "[^a]+",
    "[^a-z]*",
    "[]a]*",
    "[a-]+b?",
    r"[\w.]+@[\w.]+",
    r"\d{4}-\d\d-\d{2}",
    "x{40}",
    "x{0,40}",
    "x{41,}",
    "a{0}b",
    "(a|b){2}",
    "(a*)*",
    "(a*b?)+",
    "(a|aa)+b",
    r"-?[0-9]+(\.[0-9]+)?",
    "word[0-9]*5",
    "[é-\u20ac]+",
    "[\U0001f600-\U0010ffff]",
    "[^\u20ac]",
    r"\D*",
    r"\W+",
    r"[\D]*",
    r"[^\d\W]+",
    r"\\",
    r"\.\-\[",
    r"\n",
    "^a$",
    "^$",
    "(^a|b$)*",
    "a^b",
    "a$b",
    "$^",
    r"\Aab",
    "(?P<name>a)b",
    "a*?",
    "a{1,2}?b",
    "[a-c-e]*",
    "((((a))))",
    "(|a)+b",
    "[+--]+",
    r"[\n\t]*",
    r"\ba.*",
    r".*\b",
    r"a\b.\bb",
    r"a\Ba*",
    r"(\bfoo|\Bx|.)*\b",
    r"^\b\w+\b$",
    r"\b^a",
    r"\x61+",
]


# What Python writes otherwise, or has not.
OF_RE2 = [
    *(f"[[:{name}:]]+" for name in ("alpha", "digit", "punct", "space", "xdigit", "word", "print", "cntrl")),
    "[[:^alpha:]x]*",
    r"\x{e9}",
    r"\B",
    r"a\x{e9}|\x{1F600}",
    r"\Qa.b\E",
    r"\Qa\E+b*",
    r"\Q(a)",
]


def run(cpu: Cpu, pattern: str, texts: list[str]) -> list[bool]:
    feeds = {"x": np.array(texts, object)}
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)
    (found,) = cpu.run(make_model([node], feeds, ["y"]), feeds)
    assert found.dtype == np.bool_
    return found.tolist()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_texts_match_as_in_python(cpu_plugin: Cpu, pattern: str) -> None:
    # Of letters and white space beyond ASCII's only Python knows; RE2 has \z for what is \Z there, and for $.
    python = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    expected = [python.fullmatch(text) is not None for text in TEXTS if text != "\v"]
    assert run(cpu_plugin, pattern, [text for text in TEXTS if text != "\v"]) == expected


@pytest.mark.parametrize("pattern", [*PATTERNS, r"\s*", r"\S+", r"[^\s]*", r"a\z", *OF_RE2])
def test_texts_match_as_in_onnxruntime(cpu_plugin: Cpu, pattern: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    feeds = {"x": np.array(TEXTS, object)}
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)
    model = make_model([node], feeds, ["y"]).SerializeToString()
    try:
        other = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        pytest.skip("RE2 does not take it")
    assert run(cpu_plugin, pattern, TEXTS) == other.run(None, feeds)[0].tolist()


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "(?i)a",
            r"\pL",
            r"a\1",
            "[[:letters:]]",
            r"\x{110000}",
            r"\x6",
            "a(",
            "a)",
            "[a",
            "*a",
            "a**",
            "a{",
            "a{2",
            "a{3,2}",
        ),
        *("a{1001}", "[b-a]", "a\\", "(?=a)", "(a{1000}){1000}", "(a|b)*a(a|b){20}", "(" * 300 + ")" * 300),
    ],
)
def test_other_expressions_are_not_taken(cpu_plugin: Cpu, pattern: str) -> None:
    with pytest.raises(ephost.capi.onnxruntime_pybind11_state.Fail, match="RegexFullMatch"):
        run(cpu_plugin, pattern, ["a"])
