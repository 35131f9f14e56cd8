"""Models whose structure, fields or bytes were changed end in errors of the host, or in a result.

EPHOST_FUZZ_TRIES is how many cases are tried, 500 unless it says more or less.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.fuzz import models, processes
from tests.fuzz.comparison import differing
from tests.fuzz.differences import known_differences
from tests.fuzz.field_changes import FIELD_CHANGES
from tests.fuzz.graph_changes import GRAPH_CHANGES
from tests.fuzz.model_sources import Source, sources
from tests.fuzz.mutants import host_of, make_case
from tests.fuzz.wrapping import WRAPPING


@pytest.fixture(scope="module")
def found() -> dict[str, Source]:
    return sources()


def test_models_are_of_all_kinds(found: dict[str, Source]) -> None:
    groups = Counter(source.group for source in found.values())
    assert groups["standard"] > 1000 and groups["examples"] > 100 and groups["made"] > 20
    operators = {name for source in found.values() for name in models.operators_of(source.model)}
    assert {"If", "Loop", "Scan", "SequenceMap", "Optional", "ai.onnx.ml.ZipMap"} <= operators


def test_a_case_is_the_same_each_time(found: dict[str, Source]) -> None:
    names = models.drawn_names(found, 5, 60)
    assert names == models.drawn_names(found, 5, 60)
    assert len(set(names)) == 60
    tried = [(name.rpartition("/")[0], int(name.rpartition("/")[2])) for name in names]
    cases = [make_case(5, *name, found) for name in tried]
    assert [case.model for case in cases] == [make_case(5, *name, found).model for name in tried]
    assert [case.model for case in cases] != [make_case(6, *name, found).model for name in tried]
    assert {host_of(5, name) for name in names} == set(models.HOSTS)


def test_every_change_finds_something_to_do(found: dict[str, Source]) -> None:
    from random import Random

    from tests.fuzz.model_draft import Draft

    for _, change in [*GRAPH_CHANGES, *FIELD_CHANGES, *WRAPPING]:
        said = ""
        for at, source in enumerate(source for source in found.values() if source.group == "made"):
            draft = Draft(Random(at), onnx.load_from_string(source.model), dict(source.feeds), {})
            said = said or change(draft)
        assert said, change.__name__


@pytest.mark.timeout(3000)
def test_changed_models_end_in_errors_of_the_host(capfd: pytest.CaptureFixture[str]) -> None:
    tries = os.environ.get("EPHOST_FUZZ_TRIES", "500")
    assert models.main(["--cases", tries, "--seed", "1"]) == 0, capfd.readouterr().out[-8000:]
    total = capfd.readouterr().out.splitlines()[-1]
    assert "'ran': " in total and "'error': " in total, total


def test_models_of_a_folder_are_tried(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "inside" / "one.onnx"
    path.parent.mkdir()
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
    onnx.save(onnx.parser.parse_model(text), path)
    (tmp_path / "none.onnx").write_bytes(b"none")
    given = ["--from", str(tmp_path), "--only", "folder/*", "--cases", "20"]
    assert models.main(given) == 0
    assert "20 cases" in capfd.readouterr().out
    assert models.main([*given, "--case", "folder/inside/one.onnx/3"]) == 0
    assert "Neg" in capfd.readouterr().out


def test_what_differs_is_written_by_its_kind(found: dict[str, Source], tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    given = ["--cases", "60", "--seed", "3", "--compare", "--only", "made/*", "--folder", str(tmp_path)]
    assert models.main(given) == 0
    lines = (tmp_path / "summary").read_text().splitlines()
    kinds = {line.split()[1]: int(line.split()[0]) for line in lines if line}
    for kind, count in kinds.items():
        assert len((tmp_path / "groups" / kind / "cases").read_text().splitlines()) >= count
        assert (tmp_path / "groups" / kind / "1.onnx").exists()


def test_known_differences_are_read() -> None:
    for known in known_differences(models.KNOWN):
        assert len(known.reason) > 20 and known.operators
        assert known.differs or known.operators != ("*",), known.reason


def test_values_of_all_kinds_are_compared() -> None:
    one, two = np.array([1, 2], np.float32), np.array([1, 3], np.float32)
    assert differing([[one]], [[one.copy()]]) == ""
    assert differing([[[one]]], [[[two]]]).startswith("output 0[0] at (1,)")
    assert differing([[{"a": 1.0}]], [[{"b": 1.0}]]) == "output 0: other keys"
    assert differing([[None]], [[one]]) == "output 0: NoneType and ndarray"
    assert differing(["Fail: no"], [[one]]).startswith("only onnxruntime runs it")


def test_errors_that_name_nothing_are_told_apart() -> None:
    words = {"Relu", "y", "node_name"}
    assert models.names_nothing("Fail: something is wrong", words)
    assert not models.names_nothing("Fail: the node 'node_name' is wrong", words)
    assert not models.names_nothing("InvalidGraph: 'y' is defined twice", words)


def test_kinds_of_differences_have_no_names_in_them() -> None:
    one = "only ephost runs it: Fail: Node (a1) of 'x' has shape [1,2]"
    other = "only ephost runs it: Fail: Node (b) of 'y' has shape [3]"
    assert models.signature(one) == models.signature(other)


def test_a_fault_is_found_and_named(found: dict[str, Source], tmp_path: Path) -> None:
    lost = processes.Worker("models", "cpu", 1, tmp_path / "nowhere", tmp_path / "log")
    assert "FileNotFoundError" in lost.run("made/if/1")["fault"]
