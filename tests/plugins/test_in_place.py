"""Kernels that may write an output over an input, in the CPU's memory."""

from __future__ import annotations

import numpy as np
import pytest
from plugin_harness import Tracer
from plugin_models import model, node

X = np.arange(6, dtype=np.float32).reshape(2, 3)
W = np.full((2, 3), 10, np.float32)
OPEN, RUN = ("open", {"model": "m.onnx"}), ("run", {"feeds": "x.npz"})
# Not over x, which is the caller's, nor over b, which is read again.
NODES = [
    node("Add", "x w", "a", name="caller"),
    node("Mul", "a w", "b", name="dead"),
    node("Add", "b w", "c", name="alive"),
    node("Mul", "c b", "d", name="next"),
    node("Add", "d d", "e", name="both"),
    node("Mul", "e w", "y", name="last"),
]
Y = (2 * 10 * ((X + W) * W + W) * ((X + W) * W)).tolist()


@pytest.mark.parametrize("dims", [[2, 3], ["n", 3]])
def test_what_nobody_reads_any_more_is_written_over(host: str, traced: Tracer, dims: list[int | str]) -> None:
    files = {"m.onnx": model(NODES, {"x": dims}, ["y"], {"w": W}), "x.npz": {"x": X}}
    *_, first, second = traced(host, ["register", OPEN, RUN, RUN], "in_place", files)
    for ran in (first, second):
        assert ran.value == [Y]
        over = [line.split("'")[1] for line in ran.only("Compute") if line.endswith(" in place")]
        assert over == ["dead", "next"], ran.lines


def test_a_binding_that_is_waited_for_synchronises_the_ep(host: str, traced: Tracer) -> None:
    files = {"m.onnx": model(NODES, {"x": [2, 3]}, ["y"], {"w": W}), "x.npz": {"x": X}}
    actions = ["register", OPEN, ("run_bound", {"feeds": "x.npz"})]
    actions += [("synchronize", {"outputs": outputs}) for outputs in (False, True)]
    *_, ran, inputs, outputs = traced(host, actions, "", files)
    assert ran.value == [Y]
    for waited in (inputs, outputs):
        assert not waited.error, waited.message
        assert waited.only("Sync") == ["Sync"]


def test_what_a_kernel_does_not_allow_is_not_done(host: str, traced: Tracer) -> None:
    files = {"m.onnx": model(NODES, {"x": [2, 3]}, ["y"], {"w": W}), "x.npz": {"x": X}}
    *_, ran = traced(host, ["register", OPEN, RUN], "", files)
    assert ran.value == [Y]
    assert [line for line in ran.only("Compute") if "in place" in line] == []
