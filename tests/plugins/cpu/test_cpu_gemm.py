"""MatMul and Gemm on the CPU plugin."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model


def random(*shape: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype)


SHAPES = [
    ((5, 7), (7, 9)),
    ((1, 64), (64, 33)),
    ((130, 70), (70, 50)),
    ((2, 5, 7), (7, 9)),
    ((2, 3, 5, 7), (2, 3, 7, 4)),
    ((2, 3, 5, 7), (3, 7, 4)),
    ((2, 1, 5, 7), (1, 3, 7, 4)),
    ((7,), (7, 4)),
    ((3, 5, 7), (7,)),
    ((7,), (7,)),
    ((7,), (2, 7, 4)),
    ((0, 7), (7, 4)),
    ((3, 0), (0, 4)),
]


@pytest.mark.parametrize(("a", "b"), SHAPES)
@pytest.mark.parametrize("constant", [True, False])
def test_products_of_matrices(
    cpu_plugin: Cpu, a: tuple[int, ...], b: tuple[int, ...], constant: bool
) -> None:
    feeds, right = {"a": random(*a)}, {"b": random(*b, seed=1)}
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    if constant:
        cpu_plugin.check(node, feeds, constants=right, rtol=1e-4, atol=1e-4)
    else:
        cpu_plugin.check(node, feeds | right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("k", [1, 7, 64, 300])
@pytest.mark.parametrize(
    ("a", "b"), [((40,), (1,)), ((3, 40), (3,)), ((3, 40), (1,)), ((2, 1, 5), (3,)), ((2, 3, 13), (3,))]
)
def test_products_by_a_column_that_is_fed(
    cpu_plugin: Cpu, a: tuple[int, ...], b: tuple[int, ...], k: int
) -> None:
    x, z = random(*a, k), random(*(b if len(a) > 1 else ()), k, 1)
    residual = random(*np.matmul(x, z).shape, seed=1)
    nodes = [
        helper.make_node("MatMul", ["x", "z"], ["p"]),
        helper.make_node("Add", ["p", "r"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    cpu_plugin.check(nodes, {"x": x, "z": z, "r": residual}, rtol=1e-4, atol=1e-4)
    column = z.reshape(-1)[:k]
    cpu_plugin.check(
        helper.make_node("MatMul", ["x", "z"], ["y"]), {"x": x, "z": column}, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64, np.uint32, np.uint64, np.float16])
def test_products_of_other_types(cpu_plugin: Cpu, dtype: type) -> None:
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    rng = np.random.default_rng(0)
    feeds = {"a": rng.integers(0, 9, (2, 3, 4)).astype(dtype), "b": rng.integers(0, 9, (4, 5)).astype(dtype)}
    cpu_plugin.check(node, feeds)


@given(data=st.data())
def test_broadcast_stacks(cpu_plugin: Cpu, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, 3))
    batch = data.draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    thin = [[size if data.draw(st.booleans()) else 1 for size in batch] for _ in range(2)]
    cut = [data.draw(st.integers(0, rank)) for _ in range(2)]
    m, n, k = (data.draw(st.integers(1, 20)) for _ in range(3))
    a, b = random(*thin[0][cut[0] :], m, k), random(*thin[1][cut[1] :], k, n, seed=1)
    cpu_plugin.check(helper.make_node("MatMul", ["a", "b"], ["y"]), {"a": a, "b": b}, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("c", [None, (9,), (1, 9), (5, 1), (5, 9), (1,), ()])
@pytest.mark.parametrize(
    "attributes", [{}, {"transA": 1}, {"transB": 1}, {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}]
)
def test_general_products(cpu_plugin: Cpu, c: tuple[int, ...] | None, attributes: dict[str, Any]) -> None:
    a = random(*((7, 5) if attributes.get("transA") else (5, 7)))
    b = random(*((9, 7) if attributes.get("transB") else (7, 9)), seed=1)
    node = helper.make_node("Gemm", ["a", "b"] + (["c"] if c is not None else []), ["y"], **attributes)
    constants = {"b": b} | ({"c": np.asarray(random(*c, seed=2))} if c is not None else {})
    cpu_plugin.check(node, {"a": a}, constants=constants, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64])
def test_general_products_of_other_types(cpu_plugin: Cpu, dtype: type) -> None:
    node = helper.make_node("Gemm", ["a", "b", "c"], ["y"], alpha=2.0, beta=3.0)
    feeds = {"a": random(3, 4, dtype=dtype), "b": random(4, 5, dtype=dtype), "c": random(5, dtype=dtype)}
    cpu_plugin.check(node, feeds)


def test_matrices_that_do_not_fit_are_refused_in_words(cpu_plugin: Cpu) -> None:
    node = helper.make_node("MatMul", ["a", "b"], ["y"], name="odd one")
    feeds = {"a": random(3, 4), "b": random(5, 6)}
    model = make_model([node], feeds, ["y"], open_shapes=True)
    with pytest.raises(Exception, match="odd one"):
        cpu_plugin.run(model, feeds)


@given(data=st.data())
def test_products_of_any_size(cpu_plugin: Cpu, data: st.DataObject) -> None:
    """Sizes around those at which work is cut into blocks, for constants and inputs, transposed or not."""
    m = data.draw(st.sampled_from([1, 2, 3, 4, 7, 11, 12, 50, 191, 192, 200]))
    n = data.draw(st.sampled_from([1, 7, 15, 16, 17, 40, 255, 256, 257, 300, 530]))
    k = data.draw(st.sampled_from([1, 2, 5, 16, 64, 383, 384, 385, 800]))
    stacks = data.draw(st.sampled_from([[], [3]]))
    transposed = [data.draw(st.booleans()) for _ in range(2)]
    shapes = [[*stacks, m, k], [*stacks, k, n]]
    perm = [*range(len(stacks)), len(stacks) + 1, len(stacks)]
    nodes, feeds, names = [], {}, []
    for name, shape, turned in zip("ab", shapes, transposed, strict=True):
        if turned:
            nodes.append(helper.make_node("Transpose", [name], [f"{name}t"], perm=perm))
            shape = [*stacks, shape[-1], shape[-2]]
        names.append(f"{name}t" if turned else name)
        feeds[name] = random(*shape, seed=len(names))
    nodes.append(helper.make_node("MatMul", names, ["p"]))
    nodes += [
        helper.make_node("Add", ["p", "c"], ["s"]),
        helper.make_node("LeakyRelu", ["s"], ["y"], alpha=0.5),
    ]
    constants = {"c": random(n, seed=3)}
    if data.draw(st.booleans()):
        constants["b"] = feeds.pop("b")
    threads = data.draw(st.integers(1, 3))
    model = make_model(nodes, feeds, ["y"], constants)
    given = feeds | constants
    a, b = (np.swapaxes(given[x], -1, -2) if t else given[x] for x, t in zip("ab", transposed, strict=True))
    s = a.astype(np.float64) @ b + given["c"]
    found = cpu_plugin.run(model, feeds, intra_op_num_threads=threads)[0]
    np.testing.assert_allclose(found, np.where(s < 0, s / 2, s), rtol=1e-4, atol=1e-5 * 9 * k)
