"""Arguments as the classes of packages take them."""

from __future__ import annotations

import os
from typing import Any

from ephost.packages.json_text import check_unicode


def as_text(name: str, value: Any) -> str:
    """A text, or bytes that are one.

    Raises:
        TypeError: something else.
        ValueError: it is no Unicode, or has a NUL.
    """
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"{name} is a str, not {value!r:.80}")
    try:
        made = value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is no Unicode: {error}") from None
    check_unicode(made, name)
    if "\0" in made:
        raise ValueError(f"{name} has a NUL: {made!r:.80}")
    return made


def as_path(name: str, value: Any) -> str:
    """As :func:`as_text`, or a path."""
    return as_text(name, os.fspath(value) if isinstance(value, os.PathLike) else value)
