"""The runner itself, on a checkout that the tests make: whatever a test does, each host gets its outcome."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

import pytest

from tests.foreign.__main__ import run_suite
from tests.foreign.compare import compare, write_report
from tests.foreign.running import Outcome, run_file
from tests.foreign.suites import Difference, Suite, load_differences, load_suites

pytest.importorskip("onnxruntime")

PASSED, FAILED = Outcome("passed"), Outcome("failed", "what it said")
ROWDY = """
    import os, sys, time, unittest
    import onnxruntime

    ON_EPHOST = onnxruntime.InferenceSession.__module__.startswith("ephost")

    class Rowdy(unittest.TestCase):
        def test_a_passes(self):
            self.assertTrue(os.path.exists("beside.txt"))

        def test_b_ends_its_process(self):
            os.abort()

        def test_c_never_ends(self):
            time.sleep(600)

        def test_d_passes_on_onnxruntime(self):
            self.assertFalse(ON_EPHOST)

        def test_e_passes_on_ephost(self):
            self.assertTrue(ON_EPHOST)

        def test_f_is_skipped(self):
            self.skipTest("no")

        def test_g_fails_in_a_part(self):
            with self.subTest("part"):
                self.fail("a part failed")

        def test_h_passes_after_all_that(self):
            with open("beside.txt", "a") as file:
                file.write("changed")
"""
EXPECTED = {
    "test_a_passes": "passed",
    "test_b_ends_its_process": "crashed",
    "test_c_never_ends": "timed out",
    "test_f_is_skipped": "skipped",
    "test_g_fails_in_a_part": "failed",
    "test_h_passes_after_all_that": "passed",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    made = tmp_path / "checkout"
    (made / "t").mkdir(parents=True)
    (made / "t" / "test_rowdy.py").write_text(textwrap.dedent(ROWDY))
    (made / "t" / "test_broken.py").write_text("import a_module_that_nobody_has\n")
    (made / "t" / "test_elsewhere.py").write_text("def test_hardware():\n    assert False\n")
    (made / "t" / "beside.txt").write_text("as it was")
    return made


def suite(**changed: object) -> Suite:
    about = {"left_out": {"*_elsewhere.py": "needs hardware"}, "limit": 5.0, "working_directory": "t"}
    return Suite("made up", "here", ["t/test_*.py"], ["t"], **{**about, **changed})  # type: ignore[arg-type]


@pytest.mark.timeout(600)
def test_each_host_gets_the_outcome_of_each_test(checkout: Path, tmp_path: Path) -> None:
    there, here = run_suite(suite(), checkout, tmp_path, sys.executable).values()
    for outcomes, own in ((there, "test_d_passes_on_onnxruntime"), (here, "test_e_passes_on_ephost")):
        found = {name.partition("::Rowdy::")[2]: o.status for name, o in outcomes.items() if "::" in name}
        assert {name: found[name] for name in EXPECTED} == EXPECTED
        assert [name for name in found if name not in EXPECTED and found[name] == "passed"] == [own]
        assert outcomes["test_broken.py"].status == "failed"
        assert "a_module_that_nobody_has" in outcomes["test_broken.py"].text
        assert "test_elsewhere.py" not in "".join(outcomes)
    assert (checkout / "t" / "beside.txt").read_text() == "as it was"
    assert compare(there, here, ()).worse == ["test_rowdy.py::Rowdy::test_d_passes_on_onnxruntime"]


def test_a_test_runs_alone_when_only_that_is_asked_for(checkout: Path) -> None:
    name = "test_rowdy.py::Rowdy::test_a_passes"
    found = run_file(
        "onnxruntime",
        checkout / "t" / "test_rowdy.py",
        python=sys.executable,
        directory=checkout / "t",
        limit=60,
        variables={},
        only=[name],
    )
    assert found == {name: PASSED}


def test_a_suite_has_files_arguments_and_variables_of_its_own(checkout: Path, tmp_path: Path) -> None:
    (checkout / "build").mkdir()
    (checkout / "build" / "plugin.so").write_text("built")
    (checkout / "build" / "object.o").write_text("large")
    (checkout / "own").mkdir()
    (checkout / "own" / "module_of_the_suite.py").write_text("")
    (checkout / "t" / "conftest.py").write_text(
        "def pytest_addoption(parser): parser.addoption('--plugin')\n"
    )
    (checkout / "t" / "test_plugin.py").write_text(
        "import module_of_the_suite, os\n"
        "def test_it(pytestconfig):\n"
        "    path = pytestconfig.getoption('plugin')\n"
        "    assert open(path).read() == 'built' and os.listdir(os.path.dirname(path)) == ['plugin.so']\n"
    )
    own = Suite(
        "own",
        "here",
        ["t/test_plugin.py"],
        ["t", "own", "build/plugin.so"],
        working_directory="t",
        variables={"PYTHONPATH": "{checkout}/own"},
        arguments=["--plugin", "{checkout}/build/plugin.so"],
    )
    for outcomes in run_suite(own, checkout, tmp_path, sys.executable).values():
        assert outcomes == {"test_plugin.py::test_it": PASSED}


def test_outcomes_are_told_apart_by_who_passes() -> None:
    known = [Difference("s", "f.py::*known", "it is so"), Difference("s", "f.py::both", "no longer so")]
    there = {"f.py::both": PASSED, "f.py::new": PASSED, "f.py::known": PASSED, "f.py::gone": PASSED}
    here = {"f.py::both": PASSED, "f.py::new": FAILED, "f.py::known": FAILED, "f.py::more": PASSED}
    found = compare({**there, "f.py::none": FAILED}, {**here, "f.py::none": FAILED}, known)
    assert (found.both, found.better, found.neither) == (["f.py::both"], ["f.py::more"], ["f.py::none"])
    assert (found.worse, found.known) == (["f.py::gone", "f.py::new"], {"f.py::known": "it is so"})
    assert found.mended == ["f.py::both"]
    assert not found.as_expected
    assert compare(there, there, ()).as_expected


def test_the_report_says_what_a_test_that_passes_only_there_said(tmp_path: Path) -> None:
    there, here = {"f.py::one": PASSED}, {"f.py::one": FAILED}
    write_report(suite(), there, here, compare(there, here, ()), tmp_path)
    assert "what it said" in (tmp_path / "report.md").read_text()
    written = json.loads((tmp_path / "report.json").read_text())
    assert written["tests"]["f.py::one"]["onnxruntime"]["status"] == "passed"


def test_the_lists_are_of_suites_that_there_are_and_have_reasons() -> None:
    suites = load_suites()
    assert all(made.tests and made.folders and made.source for made in suites.values())
    for difference in load_differences():
        assert difference.suite in suites


def test_a_difference_without_a_reason_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    path.write_text('[[difference]]\nsuite = "s"\ntest = "t"\nreason = " "\n')
    with pytest.raises(ValueError, match="has no reason"):
        load_differences(path)
