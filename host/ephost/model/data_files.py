"""The files in which a model's external data lies: where they may be, and what is in them."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

import numpy as np

from ephost.errors import InvalidData, NoSuchData

if TYPE_CHECKING:
    from mmap import mmap

# A smaller file is read: to map it, and to end that, takes longer. A model may have one for each tensor.
_SMALLEST_MAPPED = 1 << 16


def mapped(file: IO[bytes]) -> mmap:
    """A file's content, mapped."""
    import mmap  # what small models without external data do without

    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class DataFiles:
    """Files in and below some folders, each looked for, and mapped or read, once."""

    def __init__(self, folders: Sequence[str]) -> None:
        """Nothing is looked at yet. The first folder that has a file counts."""
        self._folders = folders
        self._roots: list[str] = []  # the folders, links followed
        self._inside: dict[str, list[str]] = {}  # by the folder of a location: where that is, see _plain
        self._paths: dict[str, str] = {}  # by location
        self._content: dict[str, np.ndarray] = {}  # by path
        self._ids: dict[str, tuple[int, int]] = {}

    def path(self, location: str, what: str) -> str:
        """The real path of a file; ``what`` is what error messages call its data.

        Raises:
            InvalidData: it is outside of all folders, links followed, or it is no plain file.
            NoSuchData: there is none.
        """
        path = self._paths.get(location)
        if path is None:
            self._roots = self._roots or list(dict.fromkeys(map(os.path.realpath, self._folders)))
            path = self._paths[location] = self._plain(location) or _path_of_data(location, self._roots, what)
        return path

    def _plain(self, location: str) -> str | None:
        """The real path of what is plainly a file in one of the folders; None where links, other names of the
        same file, or what is wrong have to be looked at. A model may have a file for each tensor, and to
        follow a path from the root of the file system on is to ask for each of its parts.
        """
        folder, name = os.path.split(location)
        if os.name != "posix" or name in ("", ".", "..") or os.path.isabs(folder):
            return None
        inside = self._inside.get(folder)
        if inside is None:
            real = [os.path.realpath(os.path.join(root, folder)) for root in self._roots]
            is_inside = all(any(_holds(root, path) for root in self._roots) for path in real)
            inside = self._inside[folder] = real if is_inside else []
        for real_folder in inside:
            path = os.path.join(real_folder, name)
            try:
                about = os.lstat(path)
            except OSError:
                continue
            return path if stat.S_ISREG(about.st_mode) else None
        return None

    def content(self, path: str) -> np.ndarray:
        """The bytes of a file, mapped where it is not small; never written to.

        Raises:
            OSError: it cannot be opened.
        """
        found = self._content.get(path)
        if found is None:
            with open(path, "rb", buffering=0) as file:
                about = os.fstat(file.fileno())
                data: bytes | mmap
                if about.st_size < _SMALLEST_MAPPED:
                    data = file.read(_SMALLEST_MAPPED)
                else:
                    data = mapped(file)
                    self._ids[path] = about.st_dev, about.st_ino
            found = self._content[path] = np.frombuffer(data, dtype=np.uint8)
        return found

    def file_id(self, path: str) -> tuple[int, int] | None:
        """Device and number of a file that was mapped."""
        return self._ids.get(path)


def _holds(root: str, path: str) -> bool:
    return os.path.commonpath([root, path]) == root


def _path_of_data(location: str, roots: Sequence[str], what: str) -> str:
    paths = [os.path.realpath(os.path.join(root, location)) for root in roots]
    inside = [path for path in paths if any(_holds(root, path) for root in roots)]
    found = next((path for path in paths if os.path.exists(path)), None)
    if os.path.isabs(location) or not inside or (found is not None and found not in inside):
        raise InvalidData(f"{what} is in '{location}', outside the model's folder {' and '.join(roots)}")
    if found is None:
        raise NoSuchData(f"{what} should be in {inside[0]}, which does not exist")
    if not os.path.isfile(found):
        kind = "a folder" if os.path.isdir(found) else "a pipe or device"
        raise InvalidData(f"{what} should be in {found}, which is {kind}: only a plain file can be mapped")
    return found
