"""The report on vendors' plugins: a few cases on one of them, and what it says of losses."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import compare
import pytest
import report
from vendors import VENDORS

HOST = Path(__file__).parents[2] / "host"
FEW = "^test_(add|relu|matmul_2d|softmax_axis_1|if|reshape_reordered_all_dims)$"


@pytest.fixture(autouse=True)
def finds_ephost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes of the report have to find the ephost that is tested here."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HOST), os.environ.get("PYTHONPATH", "")]))


def test_a_few_cases_pass_and_are_reported(tmp_path: Path) -> None:
    """On one plugin; all of them, and all cases, take a quarter of an hour: for that, run the report."""
    vendor = "nxrt"
    if reason := VENDORS[vendor].missing():
        pytest.skip(reason)
    status = report.main([str(tmp_path), "--vendor", vendor, "--only", FEW])
    told = json.loads((tmp_path / "report.json").read_text())
    mine = next(entry for entry in told["entries"] if entry["host"] == "ephost")
    assert status == 0, (tmp_path / "report.md").read_text()
    assert (mine["cases"], mine["passed"], mine["crashed"]) == (6, 6, 0)
    assert mine["claimed"] >= 3
    assert (
        f"| {vendor} | ephost | 6 | 6 | {mine['claimed']} | 0 | 0 | " in (tmp_path / "report.md").read_text()
    )


def written(folder: Path, host: str, *results: compare.Result) -> report.Entry:
    cases = [asdict(result) for result in results]
    (folder / f"{host}_nxrt.json").write_text(json.dumps({"cases": cases}))
    return report.Entry("nxrt", host, len(cases))


def test_what_onnxruntime_does_better_is_listed(tmp_path: Path) -> None:
    entries = [
        written(
            tmp_path,
            "ephost",
            compare.Result("a", "fail", "wrong\nat length", 1),
            compare.Result("b", "pass"),
        ),
        written(
            tmp_path, "onnxruntime", compare.Result("a", "pass", "", 1), compare.Result("b", "pass", "", 2)
        ),
    ]
    report.add_comparison(entries, tmp_path)
    text = report.markdown(entries)
    assert "1 cases that pass in onnxruntime, not in ephost\n\n- a: fail: wrong\n" in text
    assert "1 cases that are claimed in onnxruntime, not in ephost\n\n- b: 2 there" in text


def test_what_ran_without_a_plugin_that_failed_is_told_apart(tmp_path: Path) -> None:
    entries = [
        written(
            tmp_path,
            "ephost",
            compare.Result("a", "pass", claimed=1, fallback="it failed"),
            compare.Result("b", "pass", claimed=1, fallback="it failed"),
        ),
        written(
            tmp_path,
            "onnxruntime",
            compare.Result("a", "pass", claimed=1),
            compare.Result("b", "pass", claimed=1, fallback="there, too"),
        ),
    ]
    report.add_comparison(entries, tmp_path)
    text = report.markdown(entries)
    assert "1 cases that pass on the plugin in onnxruntime, only without it in ephost\n\n- a: it" in text
    entries[0].fallbacks = ["a: pass: it failed", "b: pass: it failed"]
    text = report.markdown(entries)
    assert "| nxrt | ephost | 2 | 0 | 0 | 2 | 0 |" in text
    assert "## nxrt in ephost: 2 cases that ran without it, since it failed\n\n- a: pass: it" in text


def test_who_is_faster_is_said_of_cases_that_the_plugin_ran_in_both(tmp_path: Path) -> None:
    entries = [
        written(
            tmp_path,
            "ephost",
            compare.Result("a", "pass", claimed=1, seconds=1.0),
            compare.Result("b", "pass", claimed=1, seconds=1.0),
            compare.Result("c", "pass", claimed=1, seconds=6.0),
            compare.Result("d", "pass", claimed=0, seconds=9.0),
        ),
        written(
            tmp_path,
            "onnxruntime",
            *(compare.Result(name, "pass", claimed=1, seconds=2.0) for name in "abd"),
            compare.Result("c", "pass", claimed=1, seconds=1.0),
        ),
    ]
    report.add_comparison(entries, tmp_path)
    assert (entries[0].ratio, entries[0].faster, entries[0].slower) == (0.5, 2, 1)
    text = report.markdown(entries, every=4)
    assert "one of 4 cases" in text
    assert "| 0.50 of onnxruntime's, 2 faster, 1 slower |" in text


def test_a_crash_is_said_to_be_the_plugins_with_its_case(tmp_path: Path) -> None:
    crashed = report.Entry("nxrt", "ephost", 2, 1, 1, 1, crashes=["test_abs: crash: SIGSEGV: it said this"])
    text = report.markdown([crashed])
    assert "## nxrt in ephost: 1 cases that end the process" in text
    assert "- test_abs: crash: SIGSEGV: it said this" in text


def test_a_run_that_does_not_come_to_its_end_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report.sys, "executable", "/bin/false")
    assert report.main([str(tmp_path), "--vendor", "none", "--only", "^test_add$"]) == 2
    assert "| none | ephost | it ended with 1 | | | | | |" in (tmp_path / "report.md").read_text()


def test_a_plugin_that_is_not_here_is_listed_with_the_reason(tmp_path: Path) -> None:
    absent = report.Entry("qnn", "ephost", reason="onnxruntime_qnn is not installed")
    assert "| qnn | ephost | onnxruntime_qnn is not installed | | | | | |" in report.markdown([absent])
