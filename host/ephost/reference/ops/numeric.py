"""Arithmetic, comparisons and logic, element by element.

The package has these too. They are here because constant folding meets them in most exported models, and to
import the package's operators costs a process more memory and time than opening many a model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from .registry import OperatorNode, operator


def _same_types(*values: np.ndarray) -> None:
    types = {value.dtype for value in values}
    if len(types) > 1:
        raise TypeError(f"the inputs have different element types: {', '.join(sorted(map(str, types)))}")


def _binary(function: Callable[..., Any], node: OperatorNode, a: np.ndarray, b: np.ndarray) -> tuple[Any]:
    _same_types(a, b)
    return (function(a, b),)


# Before opset 7 the second input was laid along the first from an attribute on: that is left to the package.
for _op_type, _function in {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
}.items():
    operator(_op_type, since=7)(partial(_binary, _function))


def _no_zero_divides(a: np.ndarray, b: np.ndarray) -> None:
    # numpy would give zeros. A zero that nothing is divided by does no harm.
    if not b.all() and 0 not in np.broadcast_shapes(a.shape, b.shape):
        raise ZeroDivisionError("integers are divided by zero")


@operator("Div", since=7)
def div(node: OperatorNode, a: np.ndarray, b: np.ndarray) -> tuple[Any]:
    """Quotients of integers lose their fraction: -7 / 2 is -3."""
    _same_types(a, b)
    if a.dtype.kind not in "iu":
        return (np.divide(a, b),)
    _no_zero_divides(a, b)
    whole, rest = np.divmod(a, b)
    return (whole + ((rest != 0) & ((a < 0) ^ (b < 0))).astype(a.dtype),)


@operator("Mod", since=10)
def mod(node: OperatorNode, a: np.ndarray, b: np.ndarray) -> tuple[Any]:
    """With the sign of the divisor (before opset 28 for integers); of the dividend where `fmod` is set."""
    _same_types(a, b)
    fmod = node.attributes.get("fmod", 0)
    if a.dtype.kind in "iu":
        _no_zero_divides(a, b)
    elif not fmod and node.version < 28:
        raise ValueError("before opset 28 fmod has to be 1 for floating-point numbers")
    return (np.fmod(a, b) if fmod else np.mod(a, b),)


@operator("Pow", since=7)
def power(node: OperatorNode, a: np.ndarray, b: np.ndarray) -> tuple[Any]:
    """The exponent may have a type of its own; the result has that of the base."""
    return (np.asarray(np.power(a, b)).astype(a.dtype),)


def _variadic(function: Callable[..., Any], node: OperatorNode, *values: np.ndarray) -> tuple[Any]:
    _same_types(*values)
    return (reduce(function, values),)


for _op_type, _function in {"Max": np.maximum, "Min": np.minimum, "Sum": np.add}.items():
    operator(_op_type)(partial(_variadic, _function))


def _unary(function: Callable[..., Any], node: OperatorNode, x: np.ndarray) -> tuple[Any]:
    return (function(x),)


for _op_type, _function_of_one in {
    "Abs": np.abs,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Exp": np.exp,
    "Floor": np.floor,
    "Log": np.log,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Reciprocal": np.reciprocal,
    "Round": np.rint,
    "Sign": np.sign,
    "Sin": np.sin,
    "Sqrt": np.sqrt,
}.items():
    operator(_op_type)(partial(_unary, _function_of_one))


@operator("Where")
def where(node: OperatorNode, condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[Any]:
    """x where the condition holds, y elsewhere."""
    _same_types(x, y)
    return (np.where(condition, x, y),)


# Types whose values numpy converts as the standard demands: bool, integers and floats of 8 to 64 bits.
_PLAIN = {1: "f4", 2: "u1", 3: "i1", 4: "u2", 5: "i2", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8"} | {
    12: "u4",
    13: "u8",
}


@operator("Cast", since=6)
def cast(node: OperatorNode, x: np.ndarray) -> tuple[Any, ...]:
    """Strings, and types that numpy does not have, are left to the package."""
    to = _PLAIN.get(node.attributes["to"])
    if to is None or x.dtype.kind not in "biuf":
        return node.package(x)
    return (x.astype(to),)
