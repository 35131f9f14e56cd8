"""Cases of the models' fuzzer: a source with a few changes of its structure, its fields or its bytes."""

from __future__ import annotations

import zlib
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

from tests.fuzz.cases import Case
from tests.fuzz.field_changes import FIELD_CHANGES
from tests.fuzz.graph_changes import GRAPH_CHANGES
from tests.fuzz.model_draft import Draft
from tests.fuzz.model_sources import Source
from tests.fuzz.wrapping import WRAPPING, join

LARGEST_FEED = 1 << 16  # elements


def make_case(seed: int, source: str, number: int, made_of: dict[str, Source]) -> Case:
    """The case of this name; the same each time for the same seed and sources."""
    name = f"{source}/{number}"
    random = Random(f"{seed} {name}")
    origin = made_of[source]
    if origin.ort and random.random() < 0.15:
        return _of_ort_format(name, random, origin)
    model = onnx.load_from_string(origin.model)
    draft = Draft(random, model, dict(origin.feeds), dict(origin.files))
    # Harmless ones first: what is hostile then meets them.
    for _ in range(random.choice([0, 0, 0, 1, 1, 2, 3])):
        if random.random() < 0.6:
            draft.apply(WRAPPING)
        else:
            other = made_of[random.choice(sorted(made_of))]
            if said := join(draft, onnx.load_from_string(other.model), other.feeds):
                draft.files.update(other.files)
                draft.changes.append(said)
    for _ in range(random.choice([0, 0, 0, 1, 1, 1, 1, 2, 3, 5])):
        draft.apply(random.choice([GRAPH_CHANGES, FIELD_CHANGES]))
    feeds = [{i.name: value for i in model.graph.input if (value := _fed(draft, i)) is not None}]
    content = model.SerializeToString()
    if random.random() < 0.12:
        content = _bytes(random, content, draft.changes)
    return Case(name, content, feeds, random.random() < 0.6, draft.changes, draft.files)


def host_of(seed: int, name: str) -> str:
    """Where a case is tried: mostly on the CPU plugin."""
    drawn = zlib.crc32(f"{seed} {name}".encode()) % 10
    return {6: "reference", 7: "reference", 8: "sample_compiler", 9: "sample_kernels"}.get(drawn, "cpu")


def _of_ort_format(name: str, random: Random, origin: Source) -> Case:
    changes = ["in onnxruntime's own format"]
    content = origin.ort if random.random() < 0.1 else _bytes(random, origin.ort, changes)
    return Case(name, content, [dict(origin.feeds)], True, changes)


def _bytes(random: Random, content: bytes, changes: list[str]) -> bytes:
    """A few bytes of a file are others, missing or more."""
    data = bytearray(content)
    for _ in range(random.choice([1, 1, 1, 2, 3, 8])):
        if not data:
            break
        at = random.randrange(len(data))
        match random.randrange(7):
            case 0 | 1:
                data[at] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
            case 2:
                data[at] ^= 1 << random.randrange(8)
            case 3:
                del data[at : at + random.randint(1, 8)]
            case 4:
                data[at:at] = random.randbytes(random.randint(1, 8))
            case 5:
                data[at : at + 4] = random.choice(
                    [b"\xff\xff\xff\xff", b"\0\0\0\x80", b"\xff\xff\xff\x7f", b"\0\0\0\0"]
                )
            case _:
                other = random.randrange(len(data))
                data[at : at + 8] = data[other : other + 8]
    if random.random() < 0.1:
        del data[random.randrange(len(data) + 1) :]
    changes.append("other bytes")
    return bytes(data)


def _fed(draft: Draft, info: onnx.ValueInfoProto) -> Any:
    """What an input is fed: the source's value, unless the type that is declared now asks for another."""
    weights = {t.name for t in draft.model.graph.initializer}
    if info.name in weights and draft.random.random() < 0.8:
        return None
    value = draft.feeds.get(info.name)
    kind = info.type.WhichOneof("value")
    if isinstance(value, np.ndarray) and kind == "tensor_type":
        wanted = _dtype(info.type.tensor_type.elem_type)
        if (
            wanted is not None
            and wanted != value.dtype
            and value.dtype.kind not in "OUS"
            and wanted.kind not in "OUS"
        ):
            with np.errstate(all="ignore"):
                value = value.astype(wanted)
        fits = (
            not info.type.tensor_type.HasField("shape") or len(info.type.tensor_type.shape.dim) == value.ndim
        )
        return value if fits or draft.random.random() < 0.5 else _drawn(draft, info.type)
    return value if value is not None else _drawn(draft, info.type)


def _drawn(draft: Draft, kind: onnx.TypeProto) -> Any:
    """A value of a type, small and harmless; None for a type that cannot be."""
    match kind.WhichOneof("value"):
        case "sequence_type":
            held = [_drawn(draft, kind.sequence_type.elem_type) for _ in range(draft.random.randrange(4))]
            return [each for each in held if each is not None]
        case "optional_type":
            return _drawn(draft, kind.optional_type.elem_type)
        case "map_type":
            keys: list[Any] = ["a", "b"] if kind.map_type.key_type == onnx.TensorProto.STRING else [1, 2]
            return dict(zip(keys, (0.5, -1.0), strict=True))
        case "tensor_type":
            dtype = _dtype(kind.tensor_type.elem_type)
            if dtype is None:
                return None
            dims = []
            for dim in kind.tensor_type.shape.dim:
                known = dim.HasField("dim_value") and 0 <= dim.dim_value <= 64
                dims.append(dim.dim_value if known else draft.random.choice([1, 2, 3, 3, 4]))
            if len(dims) > 32 or np.prod(dims, dtype=np.float64) > LARGEST_FEED:
                return None
            return draft.array(dims, dtype)
    return None


def _dtype(kind: int) -> np.dtype | None:
    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind))
    except (KeyError, TypeError):
        return None
    return None if dtype.kind == "V" and not hasattr(ml_dtypes, dtype.name) else dtype
