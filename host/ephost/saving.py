"""Files that are written whole or not at all: a disk that is full leaves what was there before."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO


@contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file that takes the place of the one of that path once all is written; a pipe or device is written.

    Raises:
        OSError: it cannot be written; the error names the file.
    """
    name = os.fspath(path)
    if "\0" in os.fsdecode(name):
        raise OSError(errno.EINVAL, "no file has a NUL in its name", name)
    try:
        with _opened(os.path.realpath(name)) as file:
            yield file
    except OSError as error:
        if error.filename is not None and not _is_part(error.filename):
            raise
        if error.errno is None:  # numpy's, of a file that cannot take all of an array
            raise OSError(f"{name}: {error}") from None
        raise type(error)(error.errno, reason(error), name) from None


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file of that content, or raise as :func:`written`."""
    with written(path) as file:
        file.write(data)


def write_text(path: str | os.PathLike[str], text: str, errors: str = "strict") -> None:
    """Write a file of that text, or raise as :func:`written`."""
    write_bytes(path, text.encode("utf-8", errors))


def reason(error: OSError) -> str:
    """What the system says of an error; of a file that is too large also which limit it has met."""
    said = error.strerror or str(error)
    if error.errno != errno.EFBIG or sys.platform == "win32":
        return said
    import resource  # not on every system

    most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    limit = "" if most == resource.RLIM_INFINITY else f" (ulimit -f allows this process {most} bytes)"
    return said + limit


def is_special(path: str) -> bool:
    """Whether something has that path that is no file, as a device, and must not be replaced by one."""
    return os.path.exists(path) and not os.path.isfile(path)


_PART = ".part"


def _is_part(name: object) -> bool:
    return isinstance(name, str) and os.path.basename(name).startswith(".") and name.endswith(_PART)


@contextmanager
def _opened(target: str) -> Iterator[IO[bytes]]:
    folder, base = os.path.split(target)
    there = os.stat(target) if os.path.exists(target) else None
    part = os.path.join(folder, f".{base[:64]}.{os.urandom(6).hex()}{_PART}")
    file: IO[bytes] | None = None
    if not is_special(target):
        with suppress(PermissionError):  # in the folder: the file itself may be one that can be written
            file = open(part, "xb")  # noqa: SIM115 - closed below
    if file is None:
        with open(target, "wb") as itself:
            yield itself
        return
    try:
        with file:
            yield file
        if there is not None:
            os.chmod(part, stat.S_IMODE(there.st_mode))
        os.replace(part, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
