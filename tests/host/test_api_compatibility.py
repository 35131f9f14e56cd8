"""Every public name of onnxruntime's inference API is here with the same signature, or listed with the
reason.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

onnxruntime = pytest.importorskip("onnxruntime")

import api_comparison  # noqa: E402
from api_comparison import Signature, compare, documented_signatures  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "api-compatibility.md"


@pytest.fixture(scope="module")
def rows() -> list[api_comparison.Row]:
    return [row for _, theirs, mine in api_comparison.pairs() for row in compare(theirs, mine)]


def test_no_name_is_missing_or_different_without_a_reason(rows: list[api_comparison.Row]) -> None:
    assert [row for row in rows if row.status != "same" and not row.note] == []


def test_every_reason_is_for_a_name_that_is_there(rows: list[api_comparison.Row]) -> None:
    names = {row.name for row in rows}
    unused = set(api_comparison.REASONS) - names - {"contextlib", "onnxruntime_validation"}
    assert unused == set()


def test_the_classes_that_programs_use_are_compared_member_by_member(rows: list[api_comparison.Row]) -> None:
    same = {row.name for row in rows if row.status == "same"}
    assert {
        "InferenceSession.run_async",
        "IOBinding.bind_output",
        "OrtValue.ortvalue_from_shape_and_type",
        "SessionOptions.add_provider",
        "SessionOptions.intra_op_num_threads",
        "RunOptions.terminate",
        "OrtMemoryInfo.create_v2",
        "OrtEpDevice.memory_info",
        "OrtExecutionProviderDevicePolicy.MIN_OVERALL_POWER",
        "InvalidArgument",
    } <= same


def test_the_page_is_the_table() -> None:
    page = PAGE.read_text()
    if f"onnxruntime {onnxruntime.__version__};" not in page:
        pytest.skip(f"the page was made from another onnxruntime than {onnxruntime.__version__}")
    assert page == api_comparison.table()


def test_a_missing_name_and_a_changed_signature_are_found() -> None:
    def module(**names: Any) -> ModuleType:
        made = ModuleType("made")
        vars(made).update(names)
        return made

    class Theirs:
        def run(self, names: Any, feed: Any, options: Any = None) -> None: ...

        def gone(self) -> None: ...

    class Mine:
        def run(self, feed: Any, names: Any, options: Any = None) -> None: ...

    found = compare(module(Kind=Theirs, call=lambda a, b=1: 0), module(Kind=Mine, call=lambda a, b: 0))
    assert {row.name: row.status for row in found} == {
        "Kind": "same",
        "Kind.gone": "missing",
        "Kind.run": "differs",
        "call": "differs",
    }


def test_native_signatures_are_read_from_docstrings() -> None:
    lines = [
        "bind(*args, **kwargs)",
        "Overloaded function.",
        "1. bind(self: A, arg0: dict[str, int]) -> None",
        "2. bind(self: A, name: str, size: int = 3) -> None",
    ]
    assert documented_signatures("bind", "\n\n".join(lines)) == [
        Signature((("", False),)),
        Signature((("name", False), ("size", True))),
    ]
