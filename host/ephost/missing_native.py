"""Why the C half cannot be imported: most often it was built for another kind of Python."""

from __future__ import annotations

import sys
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

_FOLDER = Path(__file__).parent
_STABLE_ABI = ".abi3."  # in the name of a module for all Pythons with the GIL


def is_free_threaded() -> bool:
    """Whether this Python was built to do without the GIL."""
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def this_python() -> str:
    """The running interpreter as messages call it."""
    version = f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}"
    return f"{version} ({sysconfig.get_platform()}{', free-threaded' if is_free_threaded() else ''})"


def refuse_stable_abi() -> None:
    """On a Python without the GIL: look which module would be imported, before one for Pythons with the GIL
    is. 3.14 loads it, and fails or crashes somewhere in it.

    Raises:
        ImportError: it is one for Pythons with the GIL.
    """
    spec = find_spec("ephost._native")
    if spec is not None and spec.origin is not None and _STABLE_ABI in Path(spec.origin).name:
        raise ImportError(f"{spec.origin} is for Pythons with the GIL")


def explain_missing(error: ImportError, folder: Path = _FOLDER) -> ImportError:
    """The error to raise in place of one of importing ``ephost._native``: what is there, and what to do."""
    suffixes = [suffix for suffix in EXTENSION_SUFFIXES if not (is_free_threaded() and _STABLE_ABI in suffix)]
    there = sorted(path.name for path in folder.glob("_native.*") if path.suffix in (".so", ".pyd"))
    fitting = [name for name in there if name.removeprefix("_native") in suffixes]
    if fitting:
        text = f"ephost's C half, {folder / fitting[0]}, cannot be loaded: {error}"
    else:
        found = f"only {', '.join(there)}" if there else "none at all"
        text = (
            f"ephost has no C half for this Python, {this_python()}: of what it loads (_native with one of "
            f"{', '.join(suffixes)}) there is {found} in {folder}"
        )
        if is_free_threaded():
            text += (
                ". A wheel of ephost that is tagged abi3 is for Pythons with the GIL: use one of those, or "
                "build ephost for this one (pip install . in its sources)"
            )
    return ImportError(text, name="ephost._native", path=str(folder))
