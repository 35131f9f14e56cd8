"""The standard's backend test-suite, counted by group.

python tests/host/backend_suite.py ephost.backend
python tests/host/backend_suite.py onnxruntime.backend
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import unittest
import warnings
from collections.abc import Iterable
from typing import Any

import onnx.backend.base
import onnx.backend.test


def suites(backend: Any) -> dict[str, type[unittest.TestCase]]:
    """The suite's groups of model tests for a backend (a module or class)."""
    suite = onnx.backend.test.BackendTest(backend, __name__)
    kinds = "ModelTest", "Converted", "Operator"
    return {name: case for name, case in suite.test_cases.items() if any(kind in name for kind in kinds)}


def count(backend: Any, groups: Iterable[str] | None = None, names: str = "") -> dict[str, dict[str, str]]:
    """For each group the outcome of each of its tests on the CPU: passed, skipped, or the error."""
    outcome: dict[str, dict[str, str]] = {}
    for group, case in suites(backend).items():
        if groups is not None and group not in groups:
            continue
        found = outcome[group] = {}
        loader = unittest.TestLoader()
        for name in loader.getTestCaseNames(case):
            if not name.endswith("_cpu") or names not in name:
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


def main() -> None:
    """Print a line for each group; with a second argument write all outcomes there."""
    os.environ.setdefault(
        "ALLOW_RELEASED_ONNX_OPSET_ONLY", "0"
    )  # onnxruntime.backend skips new opsets otherwise
    outcome = count(importlib.import_module(sys.argv[1]))
    for group, found in outcome.items():
        passed = sum(text == "passed" for text in found.values())
        skipped = sum(text == "skipped" for text in found.values())
        print(f"{group}: {passed} of {len(found)} passed, {skipped} skipped")
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w") as file:
            json.dump(outcome, file, indent=1)


if __name__ == "__main__":
    main()
