"""Einsum: products of matrices become MatMul, everything else is summed term by term."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model, steps_of

SIZES = {"a": 2, "b": 3, "c": 4, "i": 5, "j": 6, "k": 7}


@pytest.mark.parametrize("fusion", [0, 1])
@pytest.mark.parametrize(
    "equation",
    [
        "ij,jk->ik",
        "aicj,bcj->acib",
        "ai,ibc->abc",
        "abij,akj->baik",
        "abk,ckj->jabc",
        "ij,kj->ki",
        "aibj,akbj->abik",
        "abik,akbj->aibj",
        "aij,jk",
        "ai,aj->aij",
        "abij,abjk->abik",
        "ij->ji",
        "ij->",
        "ij->i",
        "i,i->",
        "i,i->i",
        "ii->i",
        "ii->",
        "i,j->ij",
        "ij,jk,kc->ic",
        "aibj,abj->ai",
        " a b , b c -> a c ",
    ],
)
def test_equations(cpu_plugin: Cpu, equation: str, fusion: int) -> None:
    terms = equation.replace(" ", "").split("->")[0].split(",")
    rng = np.random.default_rng(0)
    feeds = {
        f"x{n}": rng.normal(size=[SIZES[c] for c in term]).astype(np.float32) for n, term in enumerate(terms)
    }
    node = helper.make_node("Einsum", list(feeds), ["y"], equation=equation)
    cpu_plugin.check(node, feeds, rtol=1e-4, atol=1e-5, fusion=fusion)


@pytest.mark.parametrize("equation", ["...ij,...jk->...ik", "...ij,jk->...ik", "...i->...", "i...,i...->..."])
def test_dimensions_that_have_no_labels(cpu_plugin: Cpu, equation: str) -> None:
    rng = np.random.default_rng(0)
    shapes = {
        "...ij,...jk->...ik": [(2, 3, 5, 6), (2, 3, 6, 7)],
        "...ij,jk->...ik": [(2, 3, 5, 6), (6, 7)],
        "...i->...": [(2, 3, 5)],
        "i...,i...->...": [(5, 2, 3), (5, 2, 3)],
    }[equation]
    feeds = {f"x{n}": rng.normal(size=shape).astype(np.float32) for n, shape in enumerate(shapes)}
    node = helper.make_node("Einsum", list(feeds), ["y"], equation=equation)
    cpu_plugin.check(node, feeds, rtol=1e-4, atol=1e-5)


def test_a_label_of_length_one_is_broadcast(cpu_plugin: Cpu) -> None:
    feeds = {"a": np.ones((3, 1), np.float32), "b": np.arange(8, dtype=np.float32).reshape(4, 2)}
    node = helper.make_node("Einsum", list(feeds), ["y"], equation="ij,jk->ik")
    (y,) = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)
    np.testing.assert_array_equal(y, np.tile(feeds["b"].sum(axis=0), (3, 1)))


@pytest.mark.parametrize("equation", ["aicj,bcj->acib", "ai,ibc->abc", "abij,akj->baik"])
def test_several_rows_or_columns_are_stacks_of_matrices(
    cpu_plugin: Cpu, equation: str, tmp_path: Path
) -> None:
    terms = equation.split("->")[0].split(",")
    feeds = {f"x{n}": np.ones([SIZES[c] for c in term], np.float32) for n, term in enumerate(terms)}
    model = make_model([helper.make_node("Einsum", list(feeds), ["y"], equation=equation)], feeds, ["y"])
    steps = steps_of(cpu_plugin, model, feeds, tmp_path)
    assert "MatMul" in steps
    assert "Einsum" not in steps


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 5, 5), (0, 3, 3), (2, 0, 0)])
def test_matrices_are_inverted(cpu_plugin: Cpu, dtype: type, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).standard_normal(shape)  # Below: pivots that are not on the diagonal.
    x = (x[..., ::-1, :] + 4 * np.eye(shape[-1])[::-1]).astype(dtype)
    node = helper.make_node("Inverse", ["x"], ["y"], domain="com.microsoft")
    for open_shapes in (False, True):
        model = make_model([node], {"x": x}, ["y"], open_shapes=open_shapes)
        model.graph.output[0].CopyFrom(
            helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(x.dtype), None)
        )
        (y,) = cpu_plugin.run(model, {"x": x})
        assert (y.dtype, y.shape) == (x.dtype, x.shape)
        expected = np.linalg.inv(x.astype(np.float64))
        np.testing.assert_allclose(y, expected, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps)
