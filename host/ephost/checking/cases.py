"""The standard's node cases, by operator: ``python -m ephost.checking.cases FOLDER`` writes them to files.

To make them takes seconds, so it is done once for all checks, and each reads its operator's file.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """A model of one node, and what it gives for some inputs."""

    name: str
    model: bytes
    sets: tuple[tuple[list[Any], list[Any]], ...]
    relative: float
    absolute: float


def write_cases(folder: str, operators: Collection[str] = ()) -> None:
    """Write a file for each operator; with ``operators`` of these only."""
    found: dict[str, list[Case]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        tests = load_model_tests(kind="node")
    for test in tests:
        model = test.model
        if model is None or test.data_sets is None or len(model.graph.node) != 1:
            continue
        operator = model.graph.node[0].op_type
        if operators and operator not in operators:
            continue
        sets = tuple((list(map(_plain, given)), list(map(_plain, due))) for given, due in test.data_sets)
        made = Case(test.name, model.SerializeToString(), sets, test.rtol, test.atol)
        found.setdefault(operator, []).append(made)
    for operator, cases in found.items():
        rows = [tuple(vars(case).values()) for case in cases]  # this module may be called __main__
        Path(folder, f"{operator}.pickle").write_bytes(pickle.dumps(rows))


def read_cases(folder: str, operator: str) -> list[Case]:
    """The cases of an operator; none where the standard has none."""
    path = Path(folder, f"{operator}.pickle")
    if not folder or not path.exists():
        return []
    return [Case(*row) for row in pickle.loads(path.read_bytes())]


def _plain(value: Any) -> Any:
    """A message as an array."""
    from onnx import TensorProto, numpy_helper

    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, np.generic):  # what numpy makes of an array without dimensions
        return np.asarray(value)
    return [_plain(each) for each in value] if isinstance(value, list) else value


if __name__ == "__main__":
    write_cases(sys.argv[1])
