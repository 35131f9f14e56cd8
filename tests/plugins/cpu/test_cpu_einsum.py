"""Einsum: products of matrices become MatMul, everything else is multiplied two by two."""

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


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8, np.float16])
@pytest.mark.parametrize("seed", range(30))
def test_any_equation(cpu_plugin: Cpu, seed: int, dtype: type) -> None:
    """Of one to four inputs, with labels that come twice, are of length 1, or stand alone."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(list("abcdef"))[: rng.integers(1, 6)]
    most = [1, 2, 3, 9, 40] if len(labels) < 4 else [1, 2, 3, 7]
    length = {label: int(rng.choice(most)) for label in labels}
    terms = ["".join(rng.choice(labels, rng.integers(0, 4))) for _ in range(rng.integers(1, 5))]
    used = sorted(set("".join(terms)))
    output = "".join(rng.permutation(used)[: rng.integers(0, min(len(used), 4) + 1)])
    feeds = {}
    for n, term in enumerate(terms):
        alone = {label: 1 if rng.random() < 0.1 else length[label] for label in term}
        shape = [alone[label] for label in term]
        feeds[f"x{n}"] = np.asarray(rng.integers(-3, 4, size=shape)).astype(dtype)
    equation = ",".join(terms) + "->" + output
    node = helper.make_node("Einsum", list(feeds), ["y"], equation=equation)
    (y,) = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)
    exact = np.einsum(equation, *[x.astype(np.float64) for x in feeds.values()], optimize=True)
    if np.issubdtype(dtype, np.integer):  # What does not fit wraps around.
        exact = exact.astype(np.int64)
    with np.errstate(over="ignore"):
        expected = exact.astype(dtype)
    assert y.shape == expected.shape, equation
    tolerance = {"rtol": 1e-5, "atol": 1e-4} if dtype is not np.float16 else {"rtol": 1e-3, "atol": 1e-2}
    np.testing.assert_allclose(y, expected, **tolerance, err_msg=equation)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,j->i", [(300, 200), (200,)]),
        ("i,ij->j", [(200,), (200, 300)]),
        ("i,ij->j", [(200,), (200, 256)]),
        ("bij,bkj->bki", [(3, 70, 90), (3, 5, 90)]),
        ("ij,jk,kl->il", [(90, 40), (40, 300), (300, 70)]),
        ("bhwc,wc->bhw", [(8, 16, 20, 33), (20, 33)]),
        ("ijk,jkl->il", [(90, 9, 11), (9, 11, 270)]),
        ("kji,jkl->li", [(9, 11, 90), (11, 9, 270)]),
        ("abij,abkj->abik", [(3, 4, 60, 20), (3, 4, 17, 20)]),
        ("aij,bij->ab", [(7, 100, 30), (9, 100, 30)]),
        ("ij->ji", [(120, 130)]),
        ("ij->j", [(400, 130)]),
        ("ij->", [(400, 130)]),
    ],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_large_sums(cpu_plugin: Cpu, equation: str, shapes: list[tuple[int, ...]], threads: int) -> None:
    rng = np.random.default_rng(1)
    feeds = {f"x{n}": rng.normal(size=shape).astype(np.float32) for n, shape in enumerate(shapes)}
    node = helper.make_node("Einsum", list(feeds), ["y"], equation=equation)
    model = make_model([node], feeds, ["y"])
    (y,) = cpu_plugin.run(model, feeds, intra_op_num_threads=threads, fusion=0)
    expected = np.einsum(equation, *[x.astype(np.float64) for x in feeds.values()], optimize=True)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize(
    ("equation", "said"),
    [
        ("a,b,ac,bd->cd", "no memory for 640"),
        ("a,b,c,d,ae,bf,cg,dh->efgh", "cannot be|of more elements than memory has"),
    ],
)
def test_what_no_memory_holds_on_the_way_is_refused(cpu_plugin: Cpu, equation: str, said: str) -> None:
    terms = equation.split("->")[0].split(",")
    feeds = {f"x{n}": np.zeros((400_000, *[2] * (len(term) - 1)), np.float32) for n, term in enumerate(terms)}
    node = helper.make_node("Einsum", list(feeds), ["y"], equation=equation)
    with pytest.raises(Exception, match=said):
        cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)


def test_sums_of_nothing_are_zero(cpu_plugin: Cpu) -> None:
    feeds = {"a": np.ones((3, 0), np.float32), "b": np.ones((0, 2), np.float32)}
    node = helper.make_node("Einsum", list(feeds), ["y"], equation="ij,jk->ki")
    (y,) = cpu_plugin.run(make_model([node], feeds, ["y"]), feeds)
    np.testing.assert_array_equal(y, np.zeros((2, 3)))


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
