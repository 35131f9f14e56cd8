"""Small models made here, and model files of installed packages."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def adds(folder: Path, name: str, *, nodes: int = 1, shape: Sequence[int] = (1,), inputs: int = 2) -> str:
    """A small model of the inputs ``x0``, ``x1``, ...

    Of two inputs: so many Adds, one after the other. Of one: a Neg. Of more: a Sum.
    """
    names = [f"x{i}" for i in range(inputs)]
    made = []
    if inputs != 2:
        made.append(helper.make_node("Neg" if inputs == 1 else "Sum", names, ["y"], name="node"))
    else:
        last = names[0]
        for at in range(nodes):
            output = "y" if at == nodes - 1 else f"v{at}"
            made.append(helper.make_node("Add", [last, names[1]], [output], name=f"add{at}"))
            last = output
    graph = helper.make_graph(
        made,
        name,
        [helper.make_tensor_value_info(each, TensorProto.FLOAT, shape) for each in names],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    path = str(folder / f"{name}.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def calls(folder: Path, count: int) -> str:
    """A chain of calls of one function of three nodes."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]
    body = [
        helper.make_node(op, [a], [b])
        for op, a, b in (("Relu", "a", "t"), ("Neg", "t", "u"), ("Abs", "u", "b"))
    ]
    function = helper.make_function("f", "F", ["a"], ["b"], body, opsets[:1])
    names = _chain(count)
    nodes = [helper.make_node("F", [a], [b], domain="f") for a, b in pairwise(names)]
    return _saved(folder, "calls", nodes, functions=[function], opsets=opsets)


def ifs(folder: Path, count: int) -> str:
    """A chain of Ifs, with one node in each branch."""
    nodes = []
    for a, b in pairwise(_chain(count)):
        branches = {}
        for branch, op in (("then_branch", "Neg"), ("else_branch", "Abs")):
            made = f"{branch}_{b}"
            output = helper.make_tensor_value_info(made, TensorProto.FLOAT, [1])
            branches[branch] = helper.make_graph([helper.make_node(op, [a], [made])], made, [], [output])
        nodes.append(helper.make_node("If", ["c"], [b], **branches))
    return _saved(folder, "ifs", nodes, [helper.make_tensor_value_info("c", TensorProto.BOOL, [])])


def files(folder: Path, count: int) -> str:
    """A chain of Adds of constants, each in a file of its own."""
    nodes, constants = [], []
    for at, (a, b) in enumerate(pairwise(_chain(count))):
        nodes.append(helper.make_node("Add", [a, f"w{at}"], [b]))
        constants.append(numpy_helper.from_array(np.full(1024, at, np.float32), f"w{at}"))
    (folder / "files").mkdir()
    return _saved(folder / "files", "files", nodes, shape=(1024,), constants=constants, apart=True)


def forest(folder: Path, trees: int, depth: int) -> str:
    """A regressor of full trees on 16 features."""
    inner, count = 2**depth - 1, 2 ** (depth + 1) - 1
    random = np.random.default_rng(0)
    ids = np.tile(np.arange(count), trees)
    tree_ids, is_leaf = np.repeat(np.arange(trees), count), ids >= inner
    ends = np.flatnonzero(is_leaf)
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=tree_ids.tolist(),
        nodes_nodeids=ids.tolist(),
        nodes_featureids=random.integers(0, 16, len(ids)).tolist(),
        nodes_values=random.normal(size=len(ids)).tolist(),
        nodes_modes=["LEAF" if leaf else "BRANCH_LEQ" for leaf in is_leaf],
        nodes_truenodeids=np.where(is_leaf, 0, 2 * ids + 1).tolist(),
        nodes_falsenodeids=np.where(is_leaf, 0, 2 * ids + 2).tolist(),
        target_treeids=tree_ids[ends].tolist(),
        target_nodeids=ids[ends].tolist(),
        target_ids=[0] * len(ends),
        target_weights=random.normal(size=len(ends)).tolist(),
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    return _saved(folder, "forest", [node], shape=(1, 16), result=(1, 1), opsets=opsets)


def _chain(count: int) -> list[str]:
    return ["x", *(f"v{at}" for at in range(1, count)), "y"]


def _saved(
    folder: Path,
    name: str,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto] = (),
    *,
    shape: Sequence[int] = (1,),
    result: Sequence[int] | None = None,
    constants: Sequence[TensorProto] = (),
    functions: Sequence[onnx.FunctionProto] = (),
    opsets: Sequence[onnx.OperatorSetIdProto] = (),
    apart: bool = False,
) -> str:
    """The path of a model of x and these inputs, and y; ``apart``: with a file for each constant."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape if result is None else result)
    graph = helper.make_graph(nodes, name, [x, *inputs], [y], constants)
    model = helper.make_model(
        graph,
        functions=functions,
        opset_imports=opsets or [helper.make_opsetid("", 21)],
        ir_version=10,
    )
    path = str(folder / f"{name}.onnx")
    if apart:
        onnx.save(model, path, save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=0)
    else:
        onnx.save(model, path)
    return path


def package_models(package: str) -> dict[str, str]:
    """The ``.onnx`` files of a package, by stem; none when it is not installed. It is not imported."""
    spec = importlib.util.find_spec(package)
    roots = spec.submodule_search_locations if spec is not None else None
    files = sorted(file for root in roots or () for file in Path(root).rglob("*.onnx"))
    return {file.stem: str(file) for file in files}
