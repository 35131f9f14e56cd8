"""What is different between what two hosts made of one case."""

from __future__ import annotations

from typing import Any

import numpy as np


def differing(ours: list[Any], theirs: list[Any]) -> str:
    """What is different between what two hosts made of one case, or "".

    Each has an element for each run: a list of outputs, or an error's text.
    """
    for mine, other in zip(ours, theirs, strict=False):
        if isinstance(mine, str) or isinstance(other, str):
            if isinstance(mine, str) != isinstance(other, str):
                which = "only onnxruntime runs it" if isinstance(mine, str) else "only ephost runs it"
                return f"{which}: {mine if isinstance(mine, str) else other}"
            continue
        if len(mine) != len(other):
            return f"outputs: {len(mine)} and {len(other)}"
        for at, (a, b) in enumerate(zip(mine, other, strict=True)):
            if said := _value(a, b):
                return f"output {at}{said}"
    return ""


def _value(a: Any, b: Any) -> str:
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return f": {len(a)} and {len(b)} elements"
        return next(
            (f"[{at}]{said}" for at, pair in enumerate(zip(a, b, strict=True)) if (said := _value(*pair))), ""
        )
    if isinstance(a, dict) and isinstance(b, dict):
        if a.keys() != b.keys():
            return ": other keys"
        return next((f"[{key!r}]{said}" for key in a if (said := _value(a[key], b[key]))), "")
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return _tensor(a, b)
    if type(a) is not type(b):
        return f": {type(a).__name__} and {type(b).__name__}"
    return "" if a is None else _tensor(np.asarray(a), np.asarray(b))


def _tensor(a: np.ndarray, b: np.ndarray) -> str:
    if a.shape != b.shape or (a.dtype != b.dtype and {a.dtype.kind, b.dtype.kind} - set("OU")):
        return f": {a.dtype} {a.shape} and {b.dtype} {b.shape}"
    if a.dtype.kind in "OU":
        return ": texts" if a.tolist() != b.tolist() else ""
    with np.errstate(all="ignore"):
        kind = complex if a.dtype.kind == "c" else np.float64
        x, y = a.astype(kind), b.astype(kind)
        near = {2: 1e-2, 4: 1e-3}.get(a.dtype.itemsize, 1e-5) if a.dtype.kind in "fVc" else 0
        # A byte that was rounded the other way.
        room = 1 if a.dtype.itemsize == 1 and a.dtype.kind in "iu" else near
        close = np.isclose(x, y, near, room, equal_nan=True)
    if close.all():
        return ""
    where = tuple(int(i) for i in np.argwhere(~close)[0])
    return f" at {where}: {a[where]} and {b[where]} ({np.sum(~close)} of {a.size})"
