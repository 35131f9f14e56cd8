"""Entries of options: what onnxruntime refuses is refused, with a message that names the entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ephost
import numpy as np
import onnxruntime
import pytest
from ephost import config_values
from ephost.errors import InvalidArgument
from onnx import parser

MODEL = parser.parse_model(
    '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
).SerializeToString()
CPU = ["CPUExecutionProvider"]
KEYS = sorted(key for key in config_values._VALUES if not key.startswith("ephost."))
# Of these onnxruntime makes a number; no one writes them.
TEXTS = ("", "0", "1", "2", "-1", "x", "1.5", "4096", "4097", "99999999999999999999", "auto", "save", "Safe")
PROCESSORS = (
    "", "1", "foo", "1;2", "1;2;3", "1-2", "1,2", "1,2;1-2", "1;foo", " 1;2", "1;;2", ";1;2;", ";", ",", "0",
    "-1", "2-1", "1-", "1--2", "1-2-", "1-2-3", "1-2,3", "0-1", "1,0", "+1", "01", "999", "2147483648",
)  # fmt: skip
# It is taken only with what this build of onnxruntime cannot do with this model.
ELSEWHERE = {("optimization.minimal_build_optimizations", "save")}


def session_entry(api: Any, key: str, value: str) -> None:
    options = api.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry(key, value)
    api.InferenceSession(MODEL, options, providers=CPU)


def run_entry(api: Any, key: str, value: str) -> None:
    options = api.RunOptions()
    options.add_run_config_entry(key, value)
    api.InferenceSession(MODEL, providers=CPU).run(None, {"x": np.zeros(2, np.float32)}, options)


def refused(call: Callable[..., None], *arguments: Any) -> bool:
    try:
        call(*arguments)
    except Exception:
        return True
    return False


@pytest.mark.parametrize("key", KEYS)
def test_values_that_onnxruntime_refuses_are_refused(key: str, capfd: pytest.CaptureFixture[str]) -> None:
    for value in TEXTS:
        if (key, value) in ELSEWHERE:
            continue
        wrong = refused(session_entry, onnxruntime, key, value)
        assert refused(session_entry, ephost, key, value) == wrong, (value, wrong)


@pytest.mark.parametrize("value", [" 1", "1 ", "+1x", "- 1", "2147483647", "2147483648", "-2147483648"])
def test_a_number_that_more_follows_is_one_where_it_is_in_onnxruntime(
    value: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for key in ("session.dynamic_block_base", "session.graph_optimizations_loop_level"):
        wrong = refused(session_entry, onnxruntime, key, value)
        assert refused(session_entry, ephost, key, value) == wrong


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_processors_that_onnxruntime_refuses_are_refused(
    threads: int, capfd: pytest.CaptureFixture[str]
) -> None:
    def open_with(api: Any, value: str) -> None:
        options = api.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, threads
        options.add_session_config_entry("session.intra_op_thread_affinities", value)
        api.InferenceSession(MODEL, options, providers=CPU)

    for value in PROCESSORS:
        wrong = refused(open_with, onnxruntime, value)
        assert refused(open_with, ephost, value) == wrong, (value, wrong)


@pytest.mark.parametrize("value", ["", "0", "7", "-1", "x", "1.5", "99999999999999999999"])
def test_the_number_of_a_recording_is_one(value: str) -> None:
    wrong = refused(run_entry, onnxruntime, "gpu_graph_id", value)
    assert refused(run_entry, ephost, "gpu_graph_id", value) == wrong


def test_the_error_names_the_entry_and_what_it_can_be() -> None:
    for key, value, what in (
        ("ephost.enable_fallback", "x", "0 or 1"),
        ("session.gqa_value_layout", "x", "BNSH or BNHS"),
        ("session.external_data_loader.threads", "65", "a whole number from 0 to 64"),
        ("session.dynamic_block_base", "abc", "an int of 32 bits"),
    ):
        with pytest.raises(InvalidArgument, match=f"^the session entry {key} is {what}, not '{value}'$"):
            session_entry(ephost, key, value)


@pytest.mark.parametrize("add", [session_entry, run_entry])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("", "v"),
        ("k" * 1025, "v"),
        ("é" * 513, "v"),
        ("k" * 1024, "v" * 8192),
        ("k", "v" * 8193),
        ("k", "é" * 4097),
    ],
)
def test_entries_have_as_many_bytes_as_in_onnxruntime(add: Callable[..., None], key: str, value: str) -> None:
    assert refused(add, ephost, key, value) == refused(add, onnxruntime, key, value)


@pytest.mark.parametrize("options", [{"k": "\ud800"}, {"k" * 1025: "v"}, {"k": "v" * 8193}, {"": "v"}])
def test_options_of_a_provider_are_held_to_the_same(options: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match=r"^the options of CPUExecutionProvider: "):
        ephost.InferenceSession(MODEL, providers=[("CPUExecutionProvider", options)])
