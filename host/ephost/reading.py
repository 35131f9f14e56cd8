"""Files that are read, and what may be wrong with their paths."""

from __future__ import annotations

import os
import stat

from ephost.errors import Fail, NoSuchFile

_LONGEST_SHOWN, _SHOWN = 1000, 200  # characters


def refuse_special(path: str | os.PathLike[str], what: str) -> None:
    """Raise NoSuchFile where a path has a NUL, and Fail where it is that of a pipe, since to open it is to
    wait for its other end, maybe for ever, or of a device, which may have no end. A pipe that has no name of
    its own, as a shell's ``/dev/stdin`` or ``<(...)``, is read.

    Args:
        path: of what is to be read.
        what: it is, in the message.
    """
    if "\0" in (name := os.fsdecode(path)):
        raise NoSuchFile(f"{what} {shown(name)!r} has a NUL in its name, as no file has")
    try:
        mode = os.stat(path).st_mode
        is_pipe = stat.S_ISFIFO(mode) and os.path.exists(os.path.realpath(path))
    except (OSError, ValueError):
        return  # whoever opens it says why that fails
    if is_pipe:
        raise Fail(f"{what} {os.fspath(path)} is a pipe")
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise Fail(f"{what} {os.fspath(path)} is a device")


def shown(path: str) -> str:
    """A path in an error, cut where it is longer than a path that any file has is likely to be."""
    return path if len(path) <= _LONGEST_SHOWN else f"{path[:_SHOWN]}... ({len(path)} characters)"
