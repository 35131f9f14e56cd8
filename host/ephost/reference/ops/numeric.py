"""Arithmetic, comparisons and logic, element by element.

The package has these too. They are here because constant folding meets them in most exported models, and to
import the package's operators costs a process more memory and time than opening many a model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from ephost.records import replaced

from ...message_helpers import element_type_of, numpy_dtype
from ...messages import TensorProto
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


_STRING = 8
_POWER_OF_TWO = 24  # float8e8m0
# What a text may begin with to be read as a number; what follows is passed over, as onnxruntime does.
_INTEGER = re.compile(r"\s*([+-]?[0-9]+)", re.ASCII)
_REAL = re.compile(
    r"\s*([+-]?(?:0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?[0-9]+)?|"
    r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan))",
    re.ASCII | re.IGNORECASE,
)


@operator("Cast", until=6)
def cast_by_name(node: OperatorNode, x: np.ndarray) -> tuple[Any, ...]:
    """In its first version the type has a name."""
    to = node.attributes["to"]
    name = to.decode() if isinstance(to, bytes) else str(to)
    plain = next((_PLAIN[n] for n in _PLAIN if TensorProto.DataType.Name(n) == name), None)
    if plain is None:
        raise ValueError(f"a Cast to '{name}'")
    return (x.astype(plain),)


@operator("Cast", since=6)
def cast(node: OperatorNode, x: np.ndarray) -> tuple[Any, ...]:
    """Types that numpy does not have are left to the package. Numbers are written and read as onnxruntime
    does, where the standard says little.
    """
    to = _PLAIN.get(node.attributes["to"])
    if node.attributes["to"] == _POWER_OF_TWO and x.dtype.kind not in "OUS":
        return (_powers_of_two(node, x.astype(np.float32)),)
    if node.attributes["to"] == _STRING and x.dtype.kind == "V":
        x = x.astype(np.float32)
    if x.dtype.kind in "OUS" and to is not None:
        return (_numbers_in(x, np.dtype(to)),)
    if node.attributes["to"] == _STRING and x.dtype.kind in "biuf":
        written = np.empty(x.shape, object)
        written.ravel()[:] = [_text_of(value) for value in x.ravel().tolist()]
        return (written,)
    if to is None or x.dtype.kind not in "biuf":
        return node.package(x)
    return (x.astype(to),)


@operator("CastLike")
def cast_like(node: OperatorNode, x: np.ndarray, like: np.ndarray) -> tuple[Any, ...]:
    """A Cast to the type of `like`, of which nothing else counts."""
    attributes = {**node.attributes, "to": element_type_of(like.dtype)}
    return cast(replaced(node, attributes=attributes, package=lambda x: node.package(x, like)), x)


def _powers_of_two(node: OperatorNode, x: np.ndarray) -> np.ndarray:
    """float32 as float8e8m0, whose codes are exponents. Negative numbers, of which the standard says nothing,
    are too small for it, as in onnxruntime.
    """
    mode, saturates = node.attributes.get("round_mode", "up"), node.attributes.get("saturate", 1)
    if mode not in ("up", "down", "nearest"):
        raise ValueError(f"round_mode {mode!r} is none of up, down and nearest")
    fraction, exponent = np.frexp(np.where(np.isfinite(x) & (x > 0), x, 1))
    goes_up = {"up": fraction > 0.5, "down": np.False_, "nearest": fraction >= 0.75}[mode]
    codes = exponent + 126 + goes_up
    if saturates:
        codes = np.where(x == np.inf, 254, np.where(x > 0, np.clip(codes, 0, 254), 0))
    else:
        codes = np.where((x >= 2.0**-127) & (x <= 2.0**127), codes, 255)
    codes = np.where(np.isnan(x), 255, codes).astype(np.uint8)
    return codes.view(numpy_dtype(_POWER_OF_TWO))


def _text_of(value: float) -> str:
    if not isinstance(value, float):
        return str(int(value))
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    return f"{value:.8g}"


def _numbers_in(texts: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Integers that the type cannot hold wrap around.

    Raises:
        ValueError: a text does not begin with a number, or with one beyond 64 bits.
    """
    pattern = _REAL if dtype.kind == "f" else _INTEGER
    lowest = -(1 << 63) if dtype.kind == "i" else 1 - (1 << 64)
    highest = (1 << 63) - 1 if dtype.kind == "i" else (1 << 64) - 1
    numbers: list[float] = []
    for text in texts.ravel().tolist():
        found = pattern.match(text)
        if found is None:
            raise ValueError(f"'{text}' does not begin with a number")
        word = found[1]
        if pattern is _REAL:
            numbers.append(float.fromhex(word) if "x" in word.lower() else float(word))
        elif lowest <= int(word) <= highest:
            numbers.append(int(word) & ((1 << 64) - 1))
        else:
            raise ValueError(f"'{text}' is a number beyond 64 bits")
    with np.errstate(over="ignore"):
        if dtype.kind == "f":
            wide = np.array(numbers, np.float64).reshape(texts.shape)
            return (wide if dtype.itemsize == 8 else wide.astype(np.float32)).astype(dtype)
        return np.array(numbers, np.uint64).reshape(texts.shape).astype(dtype)
