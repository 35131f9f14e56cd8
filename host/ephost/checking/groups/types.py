"""Element types: what the plugin takes of each is right, to the last bit where nothing is computed."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto

from ephost.checking.models import make, node
from ephost.checking.registry import HOSTS, Check, add
from ephost.checking.subject import Subject, reference
from ephost.checking.verdicts import Skip

_DTYPES: dict[str, Any] = {
    "float32": (TensorProto.FLOAT, np.float32), "float64": (TensorProto.DOUBLE, np.float64),
    "float16": (TensorProto.FLOAT16, np.float16), "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    "int8": (TensorProto.INT8, np.int8), "int16": (TensorProto.INT16, np.int16),
    "int32": (TensorProto.INT32, np.int32), "int64": (TensorProto.INT64, np.int64),
    "uint8": (TensorProto.UINT8, np.uint8), "uint16": (TensorProto.UINT16, np.uint16),
    "uint32": (TensorProto.UINT32, np.uint32), "uint64": (TensorProto.UINT64, np.uint64),
    "bool": (TensorProto.BOOL, np.bool_),
}  # fmt: skip
_MOVED = ("Identity", "Reshape", "Transpose", "Concat", "Gather", "Slice")
_COMPUTED = ("Add", "Mul", "Sub", "Neg", "Abs", "Relu", "Max", "Min")


def _values(dtype: Any) -> np.ndarray[Any, Any]:
    kind = np.dtype(dtype)
    if kind.kind == "b":
        made: np.ndarray[Any, Any] = np.arange(32).reshape(4, 8) % 3 == 0
        return made
    if kind.kind in "iu":
        info = np.iinfo(kind)
        values = np.arange(32, dtype=np.int64).reshape(4, 8) % 11
        made = values.astype(kind)
        made[0, :4] = [info.min, info.max, info.min + 1, info.max - 1]
        return made
    return (np.linspace(-2, 2, 32).reshape(4, 8)).astype(kind)


def _model(op: str, kind: int) -> bytes:
    shape = {"x": (kind, (4, 8))}
    constants: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    names = "x"
    match op:
        case "Reshape":
            names, constants = "x s", {"s": np.array([8, 4])}
        case "Transpose":
            attributes = {"perm": [1, 0]}
        case "Concat":
            names, attributes = "x x", {"axis": 0}
        case "Gather":
            names, constants = "x s", {"s": np.array([3, 0, -1])}
        case "Slice":
            names, constants = "x b e", {"b": np.array([1, 2]), "e": np.array([4, 7])}
        case "Add" | "Mul" | "Sub" | "Max" | "Min":
            names = "x x"
    return make([node(op, names, "y", **attributes)], shape, {"y": (kind, None)}, constants)


def _hosts(name: str) -> tuple[str, ...]:
    """Where programs in Python can give and get arrays of a type: not of bfloat16 in onnxruntime."""
    return ("ephost",) if name == "bfloat16" else HOSTS


def _type(name: str, what: str, ops: tuple[str, ...], level: int) -> None:
    kind, dtype = _DTYPES[name]

    def right(subject: Subject) -> None:
        feeds, taken = {"x": _values(dtype)}, []
        for op in ops:
            model = _model(op, kind)
            try:
                want = reference(model, feeds)
                alone = subject.host.InferenceSession(model)
                if subject.given.host == "ephost":
                    del alone
            except Exception:
                continue  # the standard has no such operator of this type, or the host does not
            session = subject.open(model)
            if not subject.claimed(session):
                continue
            taken.append(op)
            subject.stage(f"running {op} of {name}")
            got = list(session.run(None, feeds))
            subject.require_equal(got, want, f"{op} of {name}", [op])
        if not taken:
            raise Skip(f"the plugin takes none of {', '.join(ops)} of {name}")
        subject.numbers["taken"] = taken

    text = f"Operators that {what} {name} give the right values."
    add(Check(f"types.{name}-{what}", text, level, right, "devices", _hosts(name)))


for _name in _DTYPES:
    _type(_name, "move", _MOVED, 3)
    if _name != "bool":
        _type(_name, "compute", _COMPUTED, 3)


def _cast(source: str) -> None:
    kind, dtype = _DTYPES[source]

    def casts(subject: Subject) -> None:
        values = np.array([[0, 1, 2, 3, 5, 7, 100, 120]]).astype(dtype)
        taken = []
        for target, (number, _) in _DTYPES.items():
            if subject.given.host not in _hosts(target):
                continue
            model = make([node("Cast", "x", "y", to=number)], {"x": (kind, (1, 8))}, {"y": (number, (1, 8))})
            session = subject.open(model)
            if subject.claimed(session):
                taken.append(target)
                subject.stage(f"running Cast from {source} to {target}")
                got = list(session.run(None, {"x": values}))
                subject.require_equal(got, reference(model, {"x": values}), f"Cast to {target}", ["Cast"])
        if not taken:
            raise Skip(f"the plugin takes no Cast of {source}")
        subject.numbers["taken"] = taken

    text = f"Cast from {source} to each type is right."
    add(Check(f"types.{source}-cast", text, 4, casts, "devices", _hosts(source)))


for _name in _DTYPES:
    _cast(_name)
