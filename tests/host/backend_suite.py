"""The standard's backend test-suite, counted by group.

python tests/host/backend_suite.py ephost.backend
python tests/host/backend_suite.py onnxruntime.backend
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import itertools
import json
import os
import pickle
import unittest
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx
import onnx.backend.base
import onnx.backend.test
from onnx.backend.test import runner


def suites(backend: Any) -> dict[str, type[unittest.TestCase]]:
    """The suite's groups of model tests for a backend (a module or class)."""
    suite = onnx.backend.test.BackendTest(backend, __name__)
    kinds = "ModelTest", "Converted", "Operator"
    return {name: case for name, case in suite.test_cases.items() if any(kind in name for kind in kinds)}


def count(
    backend: Any, groups: Iterable[str] | None = None, names: str = "", part: int = 0, parts: int = 1
) -> dict[str, dict[str, str]]:
    """For each group the outcome of each of its tests on the CPU: passed, skipped, or the error."""
    outcome: dict[str, dict[str, str]] = {}
    numbers = itertools.count()
    for group, case in suites(backend).items():
        if groups is not None and group not in groups:
            continue
        found = outcome[group] = {}
        loader = unittest.TestLoader()
        for name in loader.getTestCaseNames(case):
            if not name.endswith("_cpu") or names not in name or next(numbers) % parts != part:
                continue
            result = unittest.TestResult()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                case(name).run(result)
            failed = result.errors + result.failures
            found[name] = (
                failed[0][1].splitlines()[-1] if failed else "skipped" if result.skipped else "passed"
            )
    return outcome


def in_brief(tests: list[Any]) -> list[Any]:
    """Of single operators' tests those that bring an operator or an element type of it; else a fifth."""
    if any(test.model is None for test in tests):
        return sorted(tests, key=lambda test: str(test.name))[::5]
    seen: set[tuple[str, str, int]] = set()
    kept = []
    for test in tests:
        graph = test.model.graph
        types = [value.type.tensor_type.elem_type for value in graph.input[:1]]
        brought = {(node.domain, node.op_type, *types) for node in graph.node}
        if brought - seen:
            kept.append(test)
        seen |= brought
    return kept


def exchange_tests(path: Path | None, brief: bool) -> None:
    """Take single operators' tests from a file, which is written if it is not there; fewer tests if `brief`.

    onnx computes their inputs and outputs by numpy as it is imported, and numpy's last bits differ between
    processors: what is 0 on one is 2e-7 on another, and these tests allow 1e-7. Emulated it takes long, too.
    """
    load = vars(runner)["load_model_tests"]

    def made(*args: Any, **named: Any) -> list[Any]:
        tests: list[Any] = load(*args, **named)
        return in_brief(tests) if brief else tests

    def loaded(*args: Any, **named: Any) -> list[Any]:
        if path is None or named.get("kind") != "node":
            return made(*args, **named)
        if not path.exists():
            as_bytes = [
                dataclasses.replace(test, model=test.model.SerializeToString())
                for test in made(*args, **named)
            ]
            path.write_bytes(pickle.dumps(as_bytes))
        tests = pickle.loads(path.read_bytes())
        return [dataclasses.replace(test, model=onnx.load_from_string(test.model)) for test in tests]

    vars(runner)["load_model_tests"] = loaded


def main() -> None:
    """Print a line for each group, and write all outcomes where that is asked for."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("backend", help="the module: ephost.backend, onnxruntime.backend")
    parser.add_argument("outcomes", nargs="?", type=Path, help="a file for each test's outcome, as JSON")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), metavar=("I", "N"), help="of N parts")
    parser.add_argument("--names", default="", help="only tests with this in their names")
    parser.add_argument("--tests", type=Path, help="a file of the nodes' tests, written if not there")
    parser.add_argument("--brief", action="store_true", help="some tests of each operator, and of the models")
    chosen = parser.parse_args()
    exchange_tests(chosen.tests, chosen.brief)
    os.environ.setdefault(
        "ALLOW_RELEASED_ONNX_OPSET_ONLY", "0"
    )  # onnxruntime.backend skips new opsets otherwise
    part, parts = chosen.part
    outcome = count(importlib.import_module(chosen.backend), names=chosen.names, part=part, parts=parts)
    for group, found in outcome.items():
        passed = sum(text == "passed" for text in found.values())
        skipped = sum(text == "skipped" for text in found.values())
        print(f"{group}: {passed} of {len(found)} passed, {skipped} skipped")
    if chosen.outcomes is not None:
        chosen.outcomes.write_text(json.dumps(outcome, indent=1))


if __name__ == "__main__":
    main()
