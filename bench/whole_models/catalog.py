"""Which models there are, and what their inputs look like."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from harness.models import package_models

Inputs = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Model:
    """A model file, and what its inputs look like: where nothing is said, ``dimensions`` fill open shapes."""

    name: str
    path: str
    inputs: Inputs = field(default_factory=dict)
    dimensions: tuple[int, ...] = ()


def all_models(folder: Path | None) -> list[Model]:
    """The models that are there: those of installed packages, and those of a folder."""
    found = [Model(name, path) for name, path in package_models("onnx").items() if name.startswith("light_")]
    shapes = {"det": (1, 3, 320, 320), "rec": (1, 3, 48, 320), "cls": (1, 3, 48, 192)}
    for name, path in package_models("rapidocr_onnxruntime").items():
        short = next(key for key in shapes if f"_{key}_" in name)
        found.append(Model(f"rapidocr_{short}", path, dimensions=shapes[short]))
    for path in package_models("magika").values():
        found.append(Model("magika", path, dimensions=(1, 2048)))
    return found + (models_of(folder) if folder else [])


def models_of(folder: Path) -> list[Model]:
    """The models of a folder, beside each of which is a description of its inputs."""
    found = []
    for described in sorted(folder.glob("*.json")):
        inputs = json.loads(described.read_text())
        found.append(Model(described.stem, str(described.with_suffix(".onnx")), inputs))
    return found


def feed_for(session: Any, inputs: Inputs, dimensions: Sequence[int]) -> dict[str, np.ndarray]:
    """Random inputs of a session, the same on either side."""
    random = np.random.default_rng(0)
    types = {"float": "float32", "double": "float64"}
    feed = {}
    for value in session.get_inputs():
        told = inputs.get(value.name, {})
        shape = told.get("shape")
        if shape is None:
            shape = [d if isinstance(d, int) else dimensions[at] for at, d in enumerate(value.shape)]
        name = value.type.removeprefix("tensor(").removesuffix(")")
        dtype = np.dtype(types.get(name, name))
        if told.get("ones"):
            feed[value.name] = np.ones(shape, dtype)
        elif "value" in told:
            feed[value.name] = np.full(shape, told["value"], dtype)
        elif dtype.kind == "f":
            feed[value.name] = random.standard_normal(shape).astype(dtype)
        else:
            feed[value.name] = random.integers(0, told.get("high") or 256, shape).astype(dtype)
    return feed
