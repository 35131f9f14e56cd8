"""Small models made here, and model files of installed packages."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper


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


def package_models(package: str) -> dict[str, str]:
    """The ``.onnx`` files of a package, by stem; none when it is not installed. It is not imported."""
    spec = importlib.util.find_spec(package)
    roots = spec.submodule_search_locations if spec is not None else None
    files = sorted(file for root in roots or () for file in Path(root).rglob("*.onnx"))
    return {file.stem: str(file) for file in files}
