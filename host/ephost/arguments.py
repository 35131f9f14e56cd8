"""Arguments of callers that have to be of a type: what else is given is an error that names the argument."""

from __future__ import annotations

import operator
from typing import Any, TypeVar

from ephost.errors import InvalidArgument

_T = TypeVar("_T")
_INT32 = 2**31 - 1


def of_type(what: str, value: Any, kind: type[_T]) -> _T:
    """The value, which is of a type.

    Raises:
        TypeError: it is of another.
    """
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(f"{what} is {article} {kind.__name__}, not {type(value).__name__}")
    return value


def integer(what: str, value: Any, least: int = -_INT32 - 1, most: int = _INT32) -> int:
    """An integer, Python's, numpy's or an enumerator.

    Raises:
        TypeError: it is none.
        InvalidArgument: it is too small or too large.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is an int, not {type(value).__name__}") from None
    if not least <= number <= most:
        raise InvalidArgument(f"{what} is a number from {least} to {most}, not {number:.9g}")
    return number


def characters(what: str, value: Any) -> bytes:
    """A text in UTF-8, as the ABI takes it.

    Raises:
        TypeError: it is no str.
        InvalidArgument: it has a NUL, or what UTF-8 has no bytes for.
    """
    text = of_type(what, value, str)
    try:
        made = text.encode()
    except UnicodeEncodeError:
        made = b"\0"
    if b"\0" in made:
        raise InvalidArgument(f"{what} is {text!r:.100}, which UTF-8 has no text for, or has a NUL")
    return made
