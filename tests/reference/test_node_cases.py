"""The ONNX standard's own node tests, each model run node by node on reference kernels."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from node_runner import as_value, assert_same, run_model
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

CHUNKS = 24
RANDOM = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
"""Operators whose test data cannot be reproduced: they were drawn from numpy's global generator, seed or not.
"""


@cache
def _cases() -> list[TestCase]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_model_tests(kind="node")


def _draws(case: TestCase) -> bool:
    return any(node.op_type in RANDOM for node in case.model.graph.node)


def test_the_standard_has_the_cases_that_this_file_counts() -> None:
    assert len(_cases()) >= 1884
    assert sum(map(_draws, _cases())) <= 6


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_node_case_that_is_not_random_gives_the_expected_outputs(chunk: int) -> None:
    failures = []
    for case in _cases()[chunk::CHUNKS]:
        if _draws(case):
            continue
        try:
            for inputs, outputs in case.data_sets:
                actual = run_model(case.model, [as_value(item) for item in inputs])
                assert_same([as_value(item) for item in outputs], actual, case.rtol, case.atol)
        except Exception as error:
            failures.append(f"{case.name}: {type(error).__name__}: {error}")
    assert not failures, "\n\n".join(failures)


def test_random_node_cases_have_the_expected_type_shape_and_distribution() -> None:
    for case in filter(_draws, _cases()):
        (inputs, outputs), *_ = case.data_sets
        probabilities = as_value(inputs[0])
        (actual,) = run_model(case.model, [probabilities])
        expected = as_value(outputs[0])
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), case.name
        count = 20_000
        tiled = np.broadcast_to(probabilities, (count, *probabilities.shape)).copy()
        (draws,) = run_model(case.model, [tiled])
        assert set(np.unique(draws)) == {0, 1}, case.name
        if not any(node.op_type == "Bernoulli" for node in case.model.graph.node):
            # The standard's function body of Bernoulli asks whether the drawn number is greater: it draws 1 -
            # p.
            probabilities = 1 - probabilities
        deviation = np.sqrt(probabilities * (1 - probabilities) / count)
        distance = np.abs(draws.astype(np.float64).mean(axis=0) - probabilities)
        assert (distance <= 5 * deviation + 1e-9).all(), case.name
