"""onnx's compiled half: schemas, shape inference and the parser of its text, without the rest of onnx.

To import onnx is to import protobuf's classes and much else, which takes several times as long as this
extension. It takes and gives bytes, so that a session needs no more of onnx. A later ``import onnx`` gets the
same module: two would not know each other's classes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from threading import Lock
from types import ModuleType
from typing import Any

from ephost.schema_table import NEWEST_IR

_NAME = "onnx.onnx_cpp2py_export"
# By the newest opset of a release what version of the model format that release knows.
_IR_VERSIONS = {24: 12, 25: 13}
_lock = Lock()
_loaded: Any = None


class _Finder:
    """Finds the extension for whoever imports onnx: what is loaded already."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the import system asks for each module."""
        if name != _NAME or path is None:
            return None
        with _lock:
            module = _load(path)
        if module is None:
            return None
        with suppress(ValueError):  # it has done its work, if not another thread's, too
            sys.meta_path.remove(self)
        loader: Any = _Loader(module)
        return ModuleSpec(name, loader, origin=module.__file__)


class _Loader:
    """Gives the extension, which is loaded already."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module as it is."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to be done but to say where it came from."""
        module.__spec__ = self._spec


def _load(path: Sequence[str]) -> Any:
    """The extension in onnx's folder; None if it is not there."""
    global _loaded
    if _loaded is None:
        spec = PathFinder.find_spec(_NAME, path)
        if spec is None or spec.loader is None:
            return None
        with _libraries_beside(path[0]):
            module = module_from_spec(spec)
        spec.loader.exec_module(module)
        _loaded = module
    return _loaded


def _libraries_beside(package: str) -> AbstractContextManager[Any]:
    """Has Windows look for libraries where wheels have a package's.

    The tool delvewheel puts them into a folder beside it, which the package's own import tells Windows of.
    """
    folder = f"{os.path.abspath(package)}.libs"
    if sys.platform == "win32" and os.path.isdir(folder):
        return os.add_dll_directory(folder)
    return nullcontext()


def extension() -> Any:
    """The module ``onnx.onnx_cpp2py_export``."""
    global _loaded
    if _loaded is not None:
        return _loaded
    finder = _Finder()
    # First the finder: whoever begins to import onnx after the next line finds the extension by it.
    sys.meta_path.insert(0, finder)
    if "onnx" not in sys.modules:
        package = PathFinder.find_spec("onnx")
        if package is not None and package.submodule_search_locations:
            # It may need what only onnx's own import brings about.
            with _lock, suppress(ImportError):
                if _load(package.submodule_search_locations) is not None:
                    return _loaded
    # onnx is being imported, or lies where only its own import finds the extension, or what that needs.
    with suppress(ValueError):
        sys.meta_path.remove(finder)
    import onnx.onnx_cpp2py_export

    _loaded = onnx.onnx_cpp2py_export
    return _loaded


@cache
def newest_ir_version(asked: int) -> int:
    """The newest version of the model format that onnx knows, or any not below ``asked`` that it knows.

    Only onnx's messages say it.
    """
    if asked <= NEWEST_IR:
        return asked
    opset = extension().defs.schema_version_map()[""][1]
    if asked <= max((known for since, known in _IR_VERSIONS.items() if since <= opset), default=0):
        return asked
    import onnx

    return int(onnx.IR_VERSION)


def version() -> str:
    """onnx's version, for messages."""
    import onnx

    return str(onnx.__version__)
