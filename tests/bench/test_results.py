"""What README.md and docs/ say in numbers is what bench/results says."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import make_documents  # noqa: E402
from documents import tables  # noqa: E402
from harness import machine, results  # noqa: E402

FILES = sorted(results.FOLDER.glob("*/*.json"))
needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_of_results_says_where_when_and_of_what_it_is(path: Path) -> None:
    found = results.read(path)
    assert found.rows and found.commit != "unknown" and not found.commit.endswith("+")
    assert found.machine["instruction_sets"] and found.machine["cores"]
    assert found.command and found.date >= "2026-11-21" and found.versions["onnxruntime"]
    assert found.note or found.origin == "measured"


def test_the_documents_say_what_the_results_say() -> None:
    stale = make_documents.stale(make_documents.documents(results.all_results()))
    assert [path.name for path in stale] == [], "run `make results`"


@needs_matplotlib
def test_the_plots_are_those_of_the_results() -> None:
    stale = make_documents.stale(make_documents.plots(results.all_results()))
    assert [path.name for path in stale] == [], "run `make results`"


@needs_matplotlib
def test_plots_are_of_a_size_that_a_diff_can_show() -> None:
    for path in (ROOT / "docs").glob("*.svg"):
        assert len(path.read_text().splitlines()) < 1000 and path.stat().st_size < 60_000, path.name


def test_a_number_that_was_changed_by_hand_is_found() -> None:
    found = results.all_results()
    text = make_documents.filled("<!-- results: calls -->\n<!-- end -->", found, "page")
    assert "onnxruntime" in text
    assert make_documents.filled(text, found, "page") == text
    changed = text.replace(" us |", " ms |")
    assert make_documents.filled(changed, found, "page") == text != changed


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<!-- results: weather -->\n<!-- end -->", "no results called 'weather'"),
        ("<!-- results: calls -->", "has no end"),
        ("<!-- end -->", "no beginning"),
    ],
)
def test_a_mark_that_means_nothing_is_an_error_with_the_page_s_name(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^page.md: .*{reason}"):
        make_documents.filled(text, results.all_results(), "page.md")


def test_results_of_another_machine_are_refused_where_they_do_not_belong(tmp_path: Path) -> None:
    copy = tmp_path / "another-machine" / FILES[0].name
    copy.parent.mkdir()
    copy.write_text(FILES[0].read_text())
    with pytest.raises(ValueError, match="belong to"):
        results.read(copy)


def test_a_file_is_written_whole_and_read_as_it_was(tmp_path: Path) -> None:
    begun = results.begin("calls")
    begun.rows = [{"name": "one", "onnxruntime": 2.0, "ephost": 1.0}, {"name": "two", "left_out": "why"}]
    path = tmp_path / machine.folder_name(begun.machine) / "calls.json"
    begun.write(path)
    assert vars(results.read(path)) == vars(begun)
    assert [file.name for file in path.parent.iterdir()] == ["calls.json"]
    assert len(json.loads(path.read_text())["rows"]) == 2


@pytest.mark.parametrize(
    ("described", "name"),
    [
        (("AMD EPYC", ["avx2", "avx512"], 2), "amd-epyc-avx512-2-cores"),
        (
            ("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", ["avx2"], 8),
            "intel-xeon-platinum-8481c-avx2-8-cores",
        ),
        (("AMD Ryzen 9 7950X 16-Core Processor", [], 16), "amd-ryzen-9-7950x-baseline-16-cores"),
    ],
)
def test_a_folder_is_named_by_processor_vectors_and_cores(described: Any, name: str) -> None:
    processor, sets, cores = described
    told = {"processor": processor, "instruction_sets": sets, "cores": cores}
    assert machine.folder_name(told) == name
    assert machine.folder_name({**told, "lowered_to": "x86-64-v3"}) == name + "-as-x86-64-v3"


def test_generations_of_processors_under_one_name_have_folders_and_captions_of_their_own() -> None:
    begun = results.begin("calls")
    begun.machine |= {"processor": "AMD EPYC", "instruction_sets": ["avx2", "avx512"], "cores": 2}
    names, captions = set(), set()
    for family in ([25, 17], [26, 2]):
        begun.machine["family"] = family
        names.add(machine.folder_name(begun.machine))
        captions.add(tables.machine(begun))
    assert names == {"amd-epyc-25-17-avx512-2-cores", "amd-epyc-26-2-avx512-2-cores"}
    assert captions == {
        "AMD EPYC of family 25, model 17 (AVX-512), 2 cores",
        "AMD EPYC of family 26, model 2 (AVX-512), 2 cores",
    }


def test_ratios_come_from_pairs_or_as_they_were_written_down() -> None:
    assert tables.ratio({"run": [2.0, 1.0]}, "run") == 0.5
    assert tables.ratio({"run_ratio": 0.7}, "run") == 0.7
    assert math.isnan(tables.ratio({}, "run"))
    assert tables.mean([{"run": [1.0, 0.5]}, {"run": [1.0, 2.0]}, {}], "run") == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1.234e-6, "1.23 us"),
        (12.34e-6, "12.3 us"),
        (412.7e-6, "413 us"),
        (0.0523, "52.3 ms"),
        (437.0, "437 s"),
    ],
)
def test_times_have_three_digits(value: float, said: str) -> None:
    assert tables.seconds(value) == said
