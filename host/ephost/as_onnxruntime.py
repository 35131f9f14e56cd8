"""Other people's programs on ephost: ``import onnxruntime`` gives this package.

    python -m ephost.as_onnxruntime program.py args...
    python -m ephost.as_onnxruntime -m package args...

or, first thing in a program of one's own, ``ephost.install_as_onnxruntime()``. Nothing that is installed is
touched.

Where onnxruntime is installed too, its Python parts that need no more than its API (``tools``,
``quantization``, ``transformers``, ...) are found behind ephost's modules, and run on ephost. Processes that
such a program starts with the same interpreter import ephost as well, by a folder at the front of
``sys.path`` and PYTHONPATH.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ephost.about import ONNXRUNTIME_VERSION

_NAME = "onnxruntime"
# Submodules that exist here too, and those of them that are packages.
_SUBMODULES = (
    "capi",
    "capi._pybind_state",
    "capi.onnxruntime_inference_collection",
    "capi.onnxruntime_pybind11_state",
    "backend",
    "backend.backend",
    "backend.backend_rep",
)
_PACKAGES = ("capi", "backend")
# What every onnxruntime has besides: Python alone, which an installed one gives.
_THEIRS = ("datasets", "quantization", "tools", "transformers")
# A folder with a module `onnxruntime` that installs this: for processes that do not begin here.
STAND_IN = str(Path(__file__).parent / "stand_in")


class _Distribution(importlib.metadata.Distribution):
    """What ``importlib.metadata`` says of onnxruntime where it is not installed."""

    def read_text(self, filename: str) -> str | None:
        if filename in ("METADATA", "PKG-INFO"):
            return f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {ONNXRUNTIME_VERSION}\n"
        return None

    def locate_file(self, path: Any) -> Any:
        return Path(__file__).parent / path


class _Finder(importlib.metadata.DistributionFinder):
    """Finds onnxruntime and its submodules in ephost, before the installed package is looked for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == _NAME:
            return importlib.machinery.ModuleSpec(fullname, _Loader("ephost"), is_package=True)
        if not fullname.startswith(_NAME + "."):
            return None
        rest = fullname[len(_NAME) + 1 :]
        if rest in _SUBMODULES:
            return importlib.machinery.ModuleSpec(
                fullname, _Loader(f"ephost.{rest}"), is_package=rest in _PACKAGES
            )
        # Others are looked for in the installed package, whose folders the packages here have as their paths.
        if rest in _THEIRS and not _installed_folders():
            return importlib.machinery.ModuleSpec(fullname, _Missing())
        return None

    def find_distributions(self, context: Any = None) -> Any:
        if context is not None and context.name == _NAME and not _is_installed():
            yield _Distribution()


class _Loader(importlib.abc.Loader):
    """Gives the module of ephost itself, so that both names share their classes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        real = importlib.import_module(self._name)
        alias = _Alias(module.__name__, real)
        alias.__dict__.update(
            __spec__=module.__spec__, __package__=module.__package__, __file__=real.__file__
        )
        if hasattr(real, "__path__"):
            inside = module.__name__.split(".")[1:]
            alias.__dict__["__path__"] = [str(Path(f, *inside)) for f in _installed_folders()]
        sys.modules[module.__name__] = alias


class _Missing(importlib.abc.Loader):
    """For a part of onnxruntime that only an installed one has: the import says what to install."""

    def exec_module(self, module: ModuleType) -> None:
        raise ModuleNotFoundError(
            f"No module named {module.__name__!r}: ephost stands in for onnxruntime, and has only what runs "
            "models. This part is found where onnxruntime is installed as well (pip install onnxruntime)",
            name=module.__name__,
        )


class _Alias(ModuleType):
    """A module whose names are those of another."""

    def __init__(self, name: str, real: ModuleType) -> None:
        super().__init__(name, real.__doc__)
        self._real = real
        if name == _NAME:
            self.__version__ = ONNXRUNTIME_VERSION
        if hasattr(real, "__all__"):
            self.__all__ = real.__all__

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __dir__(self) -> list[str]:
        return dir(self._real)


def _is_installed() -> bool:
    # Asked of the path finder alone: all finders together would ask this module's again.
    context = importlib.metadata.DistributionFinder.Context(name=_NAME)
    return any(True for _ in importlib.metadata.MetadataPathFinder.find_distributions(context))


def _installed_folders() -> list[str]:
    """Where the package onnxruntime is that others installed; empty when there is none."""
    elsewhere = [entry for entry in sys.path if entry != STAND_IN]
    spec = importlib.machinery.PathFinder.find_spec(_NAME, elsewhere)
    if spec is None or spec.origin is None:  # a folder of the name is no onnxruntime
        return []
    return list(spec.submodule_search_locations or ())


_finder = _Finder()


def install_as_onnxruntime() -> None:
    """From now on ``import onnxruntime`` gives ephost in this process, and in those that it starts with this
    interpreter.

    Raises:
        RuntimeError: onnxruntime itself was imported before.
    """
    loaded = sys.modules.get(_NAME)
    if loaded is not None and not isinstance(loaded, _Alias):
        raise RuntimeError(
            "onnxruntime is imported already: call install_as_onnxruntime() before anything imports it"
        )
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    if STAND_IN not in sys.path:
        sys.path.insert(0, STAND_IN)  # which is what a process gets that multiprocessing starts
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if STAND_IN not in inherited:
        os.environ["PYTHONPATH"] = os.pathsep.join([STAND_IN, *filter(None, inherited)])
    importlib.import_module(_NAME)


def uninstall_as_onnxruntime() -> None:
    """Undo :func:`install_as_onnxruntime` for later imports."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    if STAND_IN in sys.path:
        sys.path.remove(STAND_IN)
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if STAND_IN in inherited:
        os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in inherited if entry != STAND_IN)
    for name, module in list(sys.modules.items()):
        if isinstance(module, _Alias):
            del sys.modules[name]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a program, or with ``-m`` a module, that imports onnxruntime."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or (given[0] == "-m" and len(given) < 2) or given[0] in ("-h", "--help"):
        print(__doc__)
        raise SystemExit(0 if given else 2)
    if given[0] != "-m" and not os.path.exists(given[0]):
        print(f"can't open file {given[0]!r}: there is none", file=sys.stderr)
        raise SystemExit(2)  # as Python itself
    install_as_onnxruntime()
    if given[0] == "-m":
        sys.argv = given[1:]
        runpy.run_module(given[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = given
        sys.path.insert(0, str(Path(given[0]).resolve().parent))
        runpy.run_path(given[0], run_name="__main__")


if __name__ == "__main__":
    # The module itself, not a second one that happens to be called __main__.
    importlib.import_module("ephost.as_onnxruntime").main()
