"""JSON as model packages have it: read strictly, written byte for byte as onnxruntime writes it.

An object keeps the order of its keys; of a key that is there twice the last value counts. Integers beyond 64
bits become floats.
"""

from __future__ import annotations

import json
import math
from typing import Any

MAX_DEPTH = 200  # what is nested deeper is no package's


def parse(text: str | bytes, what: str) -> Any:
    """The value that a JSON text stands for.

    Args:
        text: with or without a byte order mark; bytes are UTF-8.
        what: whose text it is, for errors.

    Raises:
        ValueError: it is no JSON, has a number that no float holds or half of a surrogate pair, or is nested
            too deep.
    """
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(
            decoded.removeprefix("\ufeff"),
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_refuse_constant,
        )
    except RecursionError:
        raise ValueError(f"{what} is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise ValueError(f"{what} is no JSON: {error}") from None
    _check(value, what)
    return value


def parse_object(text: str | bytes, what: str) -> dict[str, Any]:
    """As :func:`parse`, of a text that has to be an object's.

    Raises:
        ValueError: as there, or it is something else.
    """
    return as_object(parse(text, what), what)


def as_object(value: Any, what: str) -> dict[str, Any]:
    """The value itself, if it is an object.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{what} is a JSON object, not {_kind(value)}")
    return value


def as_text(value: Any, what: str) -> str:
    """The value itself, if it is a string.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(value, str):
        raise ValueError(f"{what} is a string, not {_kind(value)}")
    return value


def compact(value: Any) -> str:
    """The text of a value, without spaces."""
    parts: list[str] = []
    _write(value, parts, None)
    return "".join(parts)


def pretty(value: Any) -> str:
    """The text of a value as files have it: two spaces a level, a line break at the end."""
    parts: list[str] = []
    _write(value, parts, "\n")
    return "".join([*parts, "\n"])


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return kinds.get(type(value), "a number")


def _integer(digits: str) -> int | float:
    if len(digits) <= 20 and -(2**63) <= (value := int(digits)) < 2**64:
        return value
    return _float(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"no float is as large as {digits[:40]}")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


def _check(value: Any, what: str) -> None:
    """Raise ValueError for values nested too deep, and for text that is no Unicode."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(f"{what} is nested deeper than {MAX_DEPTH} levels")
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.keys()
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, str):
                check_unicode(item, what)
        level = below


def check_unicode(text: str, what: str) -> None:
    """Raise ValueError for a text that UTF-8 cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} has text that is no Unicode: {error.reason}") from None


def _write(value: Any, parts: list[str], line: str | None) -> None:
    """Append the text of a value; ``line`` is what begins a line of its level, None for no lines."""
    if isinstance(value, (dict, list)):
        opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
        if not value:
            parts.append(opening + closing)
            return
        inner = None if line is None else line + "  "
        between = opening
        for item in value:
            parts.append(between if inner is None else between + inner)
            if isinstance(value, dict):
                parts += (json.dumps(item, ensure_ascii=False), ":" if inner is None else ": ")
                _write(value[item], parts, inner)
            else:
                _write(item, parts, inner)
            between = ","
        parts.append(closing if line is None else line + closing)
    elif isinstance(value, float):
        parts.append(_float_text(value))
    else:
        parts.append(json.dumps(value, ensure_ascii=False))


def _float_text(value: float) -> str:
    """Python's text of a float, but for those with 16 digits before the point: theirs has an exponent."""
    text = repr(value)
    if "e" in text or not abs(value) >= 1e15:
        return text
    sign, digits = ("-", text[1:]) if value < 0 else ("", text)
    digits = digits.replace(".", "").rstrip("0")
    return f"{sign}{digits[0]}{'.' if len(digits) > 1 else ''}{digits[1:]}e+15"
