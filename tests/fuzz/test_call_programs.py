"""Programs of calls of the Python API end in errors that name the argument, or in a result.

EPHOST_FUZZ_TRIES is how many programs are tried, 500 unless it says more or less.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import ephost
import pytest

from tests.fuzz import calls
from tests.fuzz.differences import known_differences
from tests.fuzz.performing import FAULT, GAVE, LEFT_OUT, RAISED, UNTOLD, perform
from tests.fuzz.programs import Program, Ref, Step, make_case


@pytest.mark.timeout(1500)
def test_calls_end_in_errors_that_name_the_argument(capfd: pytest.CaptureFixture[str]) -> None:
    tries = os.environ.get("EPHOST_FUZZ_TRIES", "500")
    assert calls.main(["--cases", tries, "--seed", "1"]) == 0, capfd.readouterr().out[-8000:]
    assert f"{tries} programs" in capfd.readouterr().out


def test_a_program_is_the_same_each_time() -> None:
    programs = [make_case(5, "calls", at) for at in range(50)]
    assert [made.changes for made in programs] == [make_case(5, "calls", at).changes for at in range(50)]
    assert len({str(made.changes) for made in programs}) == 50
    assert programs[0].changes != make_case(6, "calls", 0).changes


def test_most_calls_of_programs_make_sense() -> None:
    counts = Counter[str]()
    names = set()
    for at in range(200):
        program = make_case(2, "calls", at)
        outcomes = perform(ephost, program, (Exception,))
        counts.update(how for how, _ in outcomes)
        names.update(step.name for step, (how, _) in zip(program.steps, outcomes, strict=True) if how == GAVE)
    assert counts[GAVE] > 2 * counts[RAISED] > 0 and counts[LEFT_OUT] < counts[GAVE] / 4
    assert {"run", "run_with_ort_values", "run_with_iobinding", "get_outputs", "numpy"} <= names


def test_what_is_no_error_of_the_host_is_a_fault() -> None:
    step = Step("call", "", "get_ep_devices", (1,))
    assert perform(ephost, Program((step,)), (ephost.errors.OnnxRuntimeException,))[0][0] == FAULT
    assert perform(ephost, Program((step,)), (TypeError,))[0][0] == RAISED
    gone = Step("get", Ref(0), "name")
    assert perform(ephost, Program((step, gone)), (TypeError,))[1][0] == LEFT_OUT
    untold = perform(ephost, Program((Step("call", "OrtDevice", "make", (1, [])),)), (Exception,), UNTOLD)
    assert untold[0][0] == RAISED
    missing = perform(ephost, Program((Step("get", "", "nope"),)), (TypeError,))
    assert missing[0] == (RAISED, "AttributeError: module 'ephost' has no attribute 'nope'")


def test_the_first_difference_counts() -> None:
    program = Program(tuple(Step("get", "", name) for name in "abc"))
    ours = [(GAVE, "1"), (RAISED, "TypeError: no"), (GAVE, "3")]
    assert calls.first_difference(program, ours, ours) == (-1, "")
    assert calls.first_difference(program, ours, [(GAVE, "1"), (RAISED, "Fail: what"), (LEFT_OUT, "")])[0] < 0
    at, said = calls.first_difference(program, ours, [(GAVE, "1"), (GAVE, "2"), (GAVE, "4")])
    assert at == 1 and said == "ephost raised TypeError: no; onnxruntime gave 2"


def test_known_differences_of_calls_are_read() -> None:
    for known in known_differences(calls.KNOWN):
        assert known.operators and known.reason
        assert known.differs or known.changed, known.reason


def test_what_onnxruntime_does_otherwise_is_known_or_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    assert calls.main(["--cases", "40", "--seed", "3", "--compare", "--folder", str(tmp_path)]) == 0
    told = capfd.readouterr().out
    assert "OrtValues are made of strings" in told
    assert calls.main(["--case", "calls/7", "--seed", "3", "--compare"]) == 0
    assert "onnxruntime {" in capfd.readouterr().out
    assert (tmp_path / "differences").exists()
