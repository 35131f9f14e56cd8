"""Packages as the tests make them, what is in a folder, and the hosts."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

HOSTS = ["ephost", "onnxruntime"]
CPU = "CPUExecutionProvider"
X = np.ones(4, np.float32)
ADDED, MULTIPLIED = [1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 2.0, 3.0]


def load_host(name: str) -> Any:
    """A host that has model packages."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    host = importlib.import_module(name)
    if not hasattr(host, "ModelPackage"):
        pytest.skip(f"{name} {host.__version__} has no model packages")
    return host


def model(operator: str) -> onnx.ModelProto:
    """y = x + w or x * w."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "y")]
    weights = numpy_helper.from_array(np.arange(4, dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weights]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write_json(path: Path, value: Any) -> None:
    """A JSON file, or one with just this text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def write_manifest(root: Path, components: dict[str, Any] | None = None, **fields: Any) -> None:
    """The manifest of a package."""
    write_json(root / "manifest.json", {"schema_version": "1.0", "components": components or {}, **fields})


def variant(ep: str | None = CPU, operator: str = "add", **fields: Any) -> dict[str, Any]:
    """The object of a variant with a model ``<operator>.onnx``."""
    info = {"model_file": f"{operator}.onnx"}
    for field in ("session_options", "provider_options"):
        if field in fields:
            info[field] = fields.pop(field)
    return {**({} if ep is None else {"ep": ep}), **fields, "executor_info": {"ort": info}}


def write_package(root: Path, variants: dict[str, dict[str, Any]], **fields: Any) -> None:
    """A package with one component, ``c``, and a folder with both models for each variant."""
    write_manifest(root, {"c": {"variants": variants}}, **fields)
    for name in variants:
        (root / name).mkdir(parents=True, exist_ok=True)
        for operator in ("Add", "Mul"):
            onnx.save(model(operator), root / name / f"{operator.lower()}.onnx")


def write_source(folder: Path, extra: str = "") -> None:
    """A folder that becomes a shared asset."""
    (folder / "sub").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "weights.bin").write_bytes(b"weights" + extra.encode())
    (folder / "sub" / "é").write_bytes(b"")


def tree(folder: Path) -> dict[str, bytes | None]:
    """What is in a folder: the bytes of files, None for folders; links are their targets."""
    found: dict[str, bytes | None] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = b"-> " + os.fsencode(os.readlink(path))
        else:
            found[name] = None if path.is_dir() else path.read_bytes()
    return found


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the kind of error that it raises."""
    try:
        return call()
    except (ValueError, OSError, RuntimeError) as error:
        kinds = (ValueError, FileNotFoundError, OSError, RuntimeError)
        return next(kind.__name__ for kind in kinds if isinstance(error, kind))
