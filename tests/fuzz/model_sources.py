"""Valid models that the models' fuzzer starts from, each with what it is fed."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from tests.fuzz.cases import plain_model
from tests.fuzz.examples import ENOUGH, examples
from tests.fuzz.made_models import made_models
from tests.vendor.compare import node_cases, plain

LARGEST = 4 << 20  # bytes of a file that is taken from a folder: larger ones take time and find no more


@dataclasses.dataclass
class Source:
    """A model as bytes, what it is fed, and the files of its external data."""

    group: str
    model: bytes
    feeds: dict[str, Any]
    files: dict[str, bytes] = dataclasses.field(default_factory=dict)
    ort: bytes = b""  # the same in onnxruntime's own format


def sources(folder: Path | None = None) -> dict[str, Source]:
    """By name, in a fixed order: the standard's node tests, examples of other operators, models made by hand
    and those of a folder.
    """
    found = {**_standard(), **_examples(), **_made()}
    return found if folder is None else {**found, **_of_folder(folder)}


def _standard() -> dict[str, Source]:
    found = {}
    for name, case in sorted(node_cases().items()):
        if case.model is None or not case.data_sets or case.model.ByteSize() > ENOUGH * 4:
            continue
        inputs = [plain(value) for value in case.data_sets[0][0]]
        if sum(value.size for value in inputs if isinstance(value, np.ndarray)) > ENOUGH:
            continue
        feeds = dict(zip([i.name for i in case.model.graph.input], inputs, strict=False))
        found[name] = Source("standard", case.model.SerializeToString(), feeds)
    return found


def _examples() -> dict[str, Source]:
    """What the operators' fuzzer has beyond the standard's tests."""
    found = {}
    for operator, tried in examples().items():
        for at, example in enumerate(tried):
            if example.node.domain or example.version < 13:
                model, feeds = plain_model(example)
                found[f"{operator}#{at}"] = Source("examples", model.SerializeToString(), feeds)
    return found


def _made() -> dict[str, Source]:
    found = {}
    for name, (model, feeds, files) in made_models().items():
        content = model.SerializeToString()
        found[f"made/{name}"] = Source("made", content, feeds, files, b"" if files else _ort(content))
    return found


def _ort(model: bytes) -> bytes:
    """The model as onnxruntime writes it in its own format; nothing where there is no onnxruntime."""
    if importlib.util.find_spec("onnxruntime") is None:
        return b""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.save_model_format", "ORT")
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(Exception):
        options.optimized_model_filepath = str(Path(folder, "model.ort"))
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return Path(folder, "model.ort").read_bytes()
    return b""


def _of_folder(folder: Path) -> dict[str, Source]:
    """Models of files that are not too large; external data is not taken along."""
    found = {}
    for path in sorted(folder.rglob("*.onnx")):
        if path.stat().st_size > LARGEST:
            continue
        content = path.read_bytes()
        with contextlib.suppress(DecodeError):
            if onnx.load_from_string(content).graph.node:
                found[f"folder/{path.relative_to(folder)}"] = Source("folder", content, {})
    return found
