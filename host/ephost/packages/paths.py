"""Where the paths in a package lead, and that they stay in it.

A package's layout is ``portable``, in which every path is relative and stays below the package's folder, or
``installed``, in which paths lead anywhere.
"""

from __future__ import annotations

import os
import re
import stat

from ephost.packages.json_text import check_unicode
from ephost.reading import shown
from ephost.records import Record

_ASSET = re.compile(r"(sha256:[0-9a-f]{64})(?:/(.*))?", re.DOTALL)
_SEPARATORS = re.compile(r"[\\/]" if os.name == "nt" else "/")


class Bounds(Record, frozen=True):
    """How far paths may lead."""

    root: str | None  # the package's folder, without links in its path; None: it has none yet
    portable: bool  # by its layout
    external: bool = False  # whoever opened it lets components and variants lie elsewhere all the same

    @property
    def confined(self) -> bool:
        """Whether the paths of components and variants have to stay in the package."""
        return self.portable and not self.external


def split_asset(reference: str) -> tuple[str, str] | None:
    """A reference to something in a shared asset as (the asset's URI, the path in it); None: it is a path."""
    found = _ASSET.fullmatch(reference)
    return (found[1], found[2] or "") if found else None


def is_asset(uri: str) -> bool:
    """Whether a text is the URI of a shared asset: ``sha256:`` and 64 lowercase hexadecimal digits."""
    found = split_asset(uri)
    return found is not None and found[0] == uri


def is_within(path: str, folder: str) -> bool:
    """Whether a path is a folder's or leads below it; both without links and dots."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def resolve(reference: str, base: str, bounds: Bounds, *, must_exist: bool = False) -> str:
    """The path that a reference means.

    Args:
        reference: a path, as a package has it.
        base: the folder that a relative one begins at.
        bounds: how far it may lead.
        must_exist: whether nothing there is an error.

    Returns:
        An absolute path without links or dots; of a package that has no folder yet a relative one may be
        relative still.

    Raises:
        ValueError: it is empty, or is absolute, has ``..`` or leads out of the package by a link where it
            may not.
        FileNotFoundError: nothing is there.
    """
    check_reference(reference)
    if bounds.confined:
        check_relative(reference)
    joined = os.path.join(base, reference)
    if must_exist and not os.path.exists(joined):
        raise FileNotFoundError(f"the path '{shown(reference)}' leads to '{shown(joined)}', where nothing is")
    if bounds.root is None and bounds.confined:
        return os.path.normpath(joined)
    path = os.path.realpath(joined)
    if bounds.confined and not is_within(path, bounds.root or ""):
        raise ValueError(
            f"the path '{shown(reference)}' leads out of '{shown(bounds.root or '')}', to '{shown(path)}'"
        )
    return path


def check_reference(reference: str) -> None:
    """Raise ValueError for a text that is no path at all."""
    if not reference:
        raise ValueError("a path in a package is empty")
    if "\0" in reference:
        raise ValueError(f"the path {shown(reference)!r} has a NUL")
    check_unicode(reference, f"the path {shown(reference)!r}")


def check_relative(reference: str) -> None:
    """Raise ValueError for a path that does not lead downwards."""
    drive = os.path.splitdrive(reference)[0]
    if drive or os.path.isabs(reference) or _SEPARATORS.match(reference):
        raise ValueError(
            f"the path '{shown(reference)}' is absolute, which the portable layout does not allow"
        )
    if ".." in _SEPARATORS.split(reference):
        raise ValueError(f"the path '{shown(reference)}' has '..', which the portable layout does not allow")


def check_portable(path: str, root: str) -> None:
    """Raise ValueError unless a path leads below a folder, and over no link; OSError as :func:`is_link`."""
    path = os.path.abspath(path)
    if path == root or not is_within(path, root):
        raise ValueError(
            f"the path '{shown(path)}' leads out of '{shown(root)}', which the portable layout does not allow"
        )
    upto = root
    for part in path[len(root.rstrip(os.sep)) + 1 :].split(os.sep):
        upto = os.path.join(upto, part)
        if is_link(upto):
            raise ValueError(f"'{shown(upto)}' is a link, which the portable layout does not allow here")


def is_link(path: str) -> bool:
    """Whether something is a symbolic link, or a junction of Windows'; False for what is not there.

    Raises:
        OSError: it cannot be looked at; its name is too long, for instance.
    """
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    junction = getattr(status, "st_reparse_tag", 0) == getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", None)
    return stat.S_ISLNK(status.st_mode) or junction


def as_posix(path: str) -> str:
    """A path as packages write them, with slashes."""
    return path.replace(os.sep, "/")
