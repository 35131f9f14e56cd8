"""Arguments of callers that have to be of a type: what else is given is an error that names the argument."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

from ephost.errors import InvalidArgument

_T = TypeVar("_T")
_INT32 = 2**31 - 1


def short(value: object) -> str:
    """A value in an error, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:80]}... ({len(text)} characters)"


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


def boolean(what: str, value: Any) -> bool:
    """A boolean, as onnxruntime takes them: numbers of Python and numpy too, and None for False.

    Raises:
        TypeError: something else.
    """
    if not (value is None or isinstance(value, (int, float, np.generic))) or isinstance(value, np.flexible):
        raise TypeError(f"{what} is a bool, not {short(value)}")
    return bool(value)


def several(what: str, value: Any) -> list[Any]:
    """The elements of a list, or of anything else that has some but a text.

    Raises:
        TypeError: it is none.
    """
    is_single = isinstance(value, (str, bytes)) or getattr(value, "ndim", 1) == 0
    if is_single or not isinstance(value, Iterable):
        raise TypeError(f"{what} are a list, not {short(value)}")
    return list(value)


def dimensions(what: str, value: Any) -> list[int]:
    """The dimensions of a shape, of any size.

    Raises:
        TypeError: it is no list of integers.
    """
    try:
        return [operator.index(each) for each in several(what, value)]
    except TypeError:
        raise TypeError(f"{what} are a list of ints, not {short(value)}") from None


def element_dtype(what: str, value: Any) -> np.dtype[Any]:
    """The dtype that a numpy dtype, or the number of an ``onnx.TensorProto.DataType``, stands for; that of
    objects for strings.

    Raises:
        TypeError: it is neither.
        InvalidArgument: no type has that number.
    """
    if isinstance(value, (int, np.integer)):
        from ephost.message_helpers import numpy_dtype  # not for programs without a model

        try:
            return numpy_dtype(int(value))
        except ValueError:
            raise InvalidArgument(f"{what} {value} is no number of an ONNX type") from None
    try:
        if value is not None:  # numpy's float64
            dtype: np.dtype[Any] = np.dtype(value)
            return dtype
    except (TypeError, ValueError):
        pass
    raise TypeError(f"{what} is a numpy dtype or an onnx.TensorProto.DataType, not {short(value)}")


def file_path(what: str, value: Any) -> str:
    """A path as text.

    Raises:
        TypeError: it is none.
        InvalidArgument: the file system's encoding has no bytes for it.
    """
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{what} is a path, not {short(value)}")
    path = str(os.fsdecode(value))  # numpy's texts are str, too
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise InvalidArgument(f"{what} is {short(path)}, which cannot be encoded") from None
    return path


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
