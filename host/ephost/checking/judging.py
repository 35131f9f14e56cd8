"""Whether outputs are the reference's, up to rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ephost.bisection.measuring import PRECISIONS, Measure, Tolerance, compare, tolerance
from ephost.checking.verdicts import Failure

_TERMS = 1024  # numbers that are summed for a result, where nobody counted them
_FEW = 16  # the same for 16 bits, in which an error of one side is no rounding
_DEPTH = 4
_ONE_SIDED = 0.8  # of the error goes one way: that is no rounding either
_ENOUGH = 24  # elements that are needed to see it


def measure(name: str, got: Any, want: Any, op_types: Sequence[str], floor: float = 0.0) -> Measure:
    """How far a value is from the reference's, for who computes in float32."""
    return compare(name, got, want, _allowed(want, op_types, PRECISIONS[0].roundoff, _TERMS, _DEPTH), floor)


def precision_of(got: Any, want: Any, op_types: Sequence[str], floor: float = 0.0) -> str:
    """The precision of 16 bits that explains a value: ``bfloat16``, ...; "" where none does."""
    for precision in PRECISIONS[1:]:
        found = compare("", got, want, _allowed(want, op_types, precision.roundoff, _FEW, 1), floor)
        if found.ratio <= 1:
            return "" if found.elements >= _ENOUGH and abs(found.bias) > _ONE_SIDED else precision.name
    return ""


def _allowed(want: Any, op_types: Sequence[str], roundoff: float, terms: int, depth: int) -> Tolerance:
    dtype = want.dtype if isinstance(want, np.ndarray) else np.dtype(np.float32)
    return tolerance(op_types, dtype, terms, roundoff, depth)


def require_equal(
    got: Sequence[Any], want: Sequence[Any], what: str, op_types: Sequence[str], floor: float = 0.0
) -> list[str]:
    """Compare outputs with the reference's; gives the precisions below float32 that were needed.

    Raises:
        Failure: they are further off than rounding explains, in 16 bits even.
    """
    if len(got) != len(want):
        raise Failure(f"{what}: {len(got)} outputs where {len(want)} are due")
    low: list[str] = []
    for at, (mine, theirs) in enumerate(zip(got, want, strict=True)):
        found = measure(f"output {at}", mine, theirs, op_types, floor)
        if found.ratio <= 1:
            continue
        if found.kind == "numbers" and (name := precision_of(mine, theirs, op_types, floor)):
            low.append(name)
            continue
        raise Failure(f"{what}: {describe(found)}", **found.to_dict())
    return low


def describe(found: Measure) -> str:
    """What is wrong with a value, in words."""
    if found.kind == "type":
        return f"{found.name} has the element type {found.got}, not {found.expected}"
    if found.kind == "shape":
        return f"{found.name} has the shape {found.got}, not {found.expected}"
    where = f"[{', '.join(map(str, found.where))}]" if found.where else ""
    text = f"{found.name}{where} is {found.got}, not {found.expected}"
    if found.elements > 1:
        text += f" ({found.wrong} of {found.elements} elements are off"
        text += f", by up to {found.relative:.2g} of the largest)" if math.isfinite(found.ratio) else ")"
    return text
