"""Shared assets: folders that are named by what is in them, so that variants share them.

A folder's hash is that of a list with a line for each file, ``<sha256 of its bytes>  <path>``, in the order
of the paths' bytes: what ``sha256sum`` prints, and what onnxruntime computes. Folders without files, modes
and times do not count.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator

from ephost.packages.paths import check_portable, is_link

FOLDER = "shared_assets"
_CANONICAL = re.compile(r"sha256-[0-9a-f]{64}")
_BLOCK = 1 << 20


class Asset:
    """One shared asset of a package."""

    __slots__ = ("path", "pending", "source", "uri")

    def __init__(self, uri: str, path: str, source: str | None = None, *, pending: bool = False) -> None:
        """What is known of an asset.

        Args:
            uri: its name.
            path: where it lies.
            source: the path as it was given, where it is not in the package yet.
            pending: whether it is copied into the package when that is written.
        """
        self.uri, self.path, self.source, self.pending = uri, path, source, pending


def canonical_path(root: str, uri: str) -> str:
    """Where an asset lies in a package that does not say otherwise."""
    return os.path.join(root, FOLDER, uri.replace(":", "-"))


def find(root: str, *, portable: bool) -> Iterator[Asset]:
    """The assets that lie where they are looked for, in the order of their names.

    Raises:
        ValueError: a link is there, in the portable layout.
    """
    folder = os.path.join(root, FOLDER)
    if portable and is_link(folder):
        check_portable(folder, root)
    if not os.path.isdir(folder):
        return
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if not _CANONICAL.fullmatch(name):
            continue
        if portable:
            check_portable(path, root)
        if os.path.isdir(path):
            yield Asset(name.replace("-", ":", 1), path)


def directory_hash(folder: str) -> str:
    """The URI of a folder with what is in it now.

    Raises:
        FileNotFoundError: it is no folder.
        ValueError: there is something in it that is neither a file nor a folder; a link, for instance.
        OSError: it cannot be read.
    """
    lines = []
    for path, name in _files(folder):
        lines.append((os.fsencode(name), _file_hash(path).encode()))
    lines.sort()
    listing = b"".join(b"%s  %s\n" % (digest, name) for name, digest in lines)
    return f"sha256:{hashlib.sha256(listing).hexdigest()}"


def check_folder(folder: str) -> None:
    """Raise FileNotFoundError for what is no folder, OSError for no path at all."""
    if not folder:
        raise OSError("the path of a folder is empty")
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"'{folder}' is no folder")


def store(source: str, uri: str, root: str) -> None:
    """Copy a folder to where a package is looked for its asset: all of it, or nothing.

    Raises:
        RuntimeError: the folder is not, or not any more, what the URI says; or what lies there is not.
        FileNotFoundError, ValueError, OSError: as :func:`directory_hash`.
    """
    target = canonical_path(root, uri)
    if os.path.lexists(target):
        if (found := directory_hash(target)) != uri:
            raise RuntimeError(f"'{target}' is there, but has the hash {found}")
        return
    for _ in _files(source):  # nothing is copied of a folder with something odd in it
        pass
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(target), prefix=".copy-") as staging:
        copy = os.path.join(staging, "copy")
        shutil.copytree(source, copy, symlinks=True)
        if (found := directory_hash(copy)) != uri:
            raise RuntimeError(f"the shared asset {uri} has changed: '{source}' has the hash {found}")
        os.rename(copy, target)


def _files(folder: str) -> Iterator[tuple[str, str]]:
    """(path, name relative to the folder with slashes) of all files in a folder."""
    check_folder(folder)
    waiting = [(folder, "")]
    while waiting:
        path, prefix = waiting.pop()
        with os.scandir(path) as entries:
            for entry in entries:
                name = prefix + entry.name
                if is_link(entry.path):
                    raise ValueError(f"'{entry.path}' is a link, which no shared asset has")
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, name + "/"))
                elif entry.is_file(follow_symlinks=False):
                    yield entry.path, name
                else:
                    raise ValueError(f"'{entry.path}' is neither a file nor a folder")


def _file_hash(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
