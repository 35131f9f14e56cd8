"""A vendor's project, to begin with: ``ephost new``.

``template`` is a project that builds as it stands, but for names. Files and folders whose names begin with
``dot_`` there begin with a dot where they are written.
"""

from __future__ import annotations

import keyword
import os
import pkgutil
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from ephost import __version__, plugins
from ephost.errors import InvalidArgument

_TEMPLATE = Path(__file__).parent / "template"
_IDENTIFIER = re.compile(r"[a-z](?:[a-z0-9_]*[a-z0-9])?")
_VENDOR = re.compile(r"[^\x00-\x1f\x7f\"\\\ud800-\udfff]+")
# Packages that its users have, and CMake's own targets and folders of the project.
_TAKEN = {
    *("ephost", "numpy", "onnx", "onnxruntime", "pytest", "src", "tests"),
    *("all", "clean", "edit_cache", "help", "install", "package", "rebuild_cache"),
}


def write_project(name: str, folder: str | os.PathLike[str], vendor: str = "") -> list[Path]:
    """Write the project of a plugin: C++ with CMake, a Python package, tests, a file for CI.

    Args:
        name: of the Python package, the library and the execution provider.
        folder: where to; made if it is not there, and else empty.
        vendor: what the plugin calls its maker; the name if it is empty.

    Returns:
        The files, below the folder, sorted.

    Raises:
        InvalidArgument: the name or the vendor cannot be used, or the folder is not empty.
        OSError: it cannot be written.
    """
    _check_name(name)
    vendor = vendor or name
    if not _VENDOR.fullmatch(vendor) or not vendor.strip():
        raise InvalidArgument(
            f"{vendor!r} is no name of a vendor: one line of characters, without quotes and backslashes"
        )
    target = Path(folder)
    if target.exists() or target.is_symlink():
        if not target.is_dir():
            raise InvalidArgument(f"{target} exists, and is no folder")
        if there := sorted(path.name for path in target.iterdir()):
            raise InvalidArgument(f"the folder {target} exists, and is not empty: it has {there[0]!r}")
    words = {
        "my_ep": name,
        "my-ep": name.replace("_", "-"),
        "My Company": vendor,
        "ephost>=0.0.0": f"ephost>={__version__}",
    }
    is_new = not target.exists()
    written = []
    try:
        for source in _files(_TEMPLATE):
            made = target / Path(*(_renamed(part, name) for part in source.relative_to(_TEMPLATE).parts))
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_text(_replaced(source.read_text(encoding="utf-8"), words), encoding="utf-8")
            written.append(made)
    except BaseException:
        _empty(target, is_new)
        raise
    return sorted(written)


def _empty(folder: Path, remove: bool) -> None:
    """Take away what a folder has that was empty or not there, so that it can be tried again."""
    for path in [folder] if remove else folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name == "__pycache__":  # an installer compiles the Python files
            continue
        if path.is_dir():
            yield from _files(path)
        else:
            yield path


def _renamed(part: str, name: str) -> str:
    dotted = f".{part.removeprefix('dot_')}" if part.startswith("dot_") else part
    return dotted.replace("my_ep", name)


def _replaced(text: str, words: dict[str, str]) -> str:
    pattern = re.compile("|".join(map(re.escape, words)))
    return pattern.sub(lambda found: words[found[0]], text)


def _check_name(name: str) -> None:
    if not _IDENTIFIER.fullmatch(name):
        better = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        hint = f"; did you mean {better!r}?" if _IDENTIFIER.fullmatch(better) else ""
        raise InvalidArgument(
            f"{name!r} is no name for a plugin: it is a Python package's, so lower-case letters, digits and "
            f"underscores, with a letter first and none of the underscores last{hint}"
        )
    if keyword.iskeyword(name):
        raise InvalidArgument(f"{name!r} is a keyword of Python, and no package can be called so")
    if name in sys.stdlib_module_names:
        raise InvalidArgument(f"{name!r} is a module of Python's own: choose another name")
    if name in {module.name for module in pkgutil.iter_modules(plugins.__path__)}:
        raise InvalidArgument(f"{name!r} is a plugin that comes with ephost: choose another name")
    if name in _TAKEN:
        raise InvalidArgument(f"{name!r} means something else in such a project: choose another name")
