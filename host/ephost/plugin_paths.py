"""Plugin libraries as people name them: by a path, or by a package that has one.

Nothing here loads a library or what a host needs: commands ask before they begin, and so do programs whose
workers run in another host.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
from collections.abc import Sequence
from pathlib import Path

from ephost import plugins
from ephost.errors import InvalidArgument
from ephost.suggestions import did_you_mean

_BUNDLED = "ephost.plugins."
_SUFFIXES = {".so", ".dll", ".dylib"}


def is_path(where: str) -> bool:
    """Whether a text means a file, and not a package."""
    return os.path.isfile(where) or os.sep in where or Path(where).suffix in _SUFFIXES


def library_path(where: str, names: Sequence[str] = ()) -> str:
    """The path of a plugin library.

    Args:
        where: its path, or an installed Python package that has ``get_library_path()``, such as nxrt_ep_cpu
            or the bundled sample_kernels.
        names: what else might have been meant where it is neither.

    Raises:
        InvalidArgument: it is neither, or the package has no library.
    """
    if is_path(where):
        return where
    module, without = where.replace("-", "_"), []
    for candidate in (_BUNDLED + module, module) if "." not in module else (module,):
        try:
            if importlib.util.find_spec(candidate) is None:
                continue
            get_path = getattr(importlib.import_module(candidate), "get_library_path", None)
            if get_path is not None:
                return str(get_path())
            without.append(candidate)
        except (ImportError, FileNotFoundError, ValueError) as error:
            raise InvalidArgument(f"the package {where!r} gives no library: {error}") from None
    if without:
        raise InvalidArgument(
            f"the package {without[-1]!r} has no get_library_path(): give its library's path"
        )
    raise InvalidArgument(
        f"{where!r} is neither a file nor an installed Python package with get_library_path()"
        f"{did_you_mean(where, [*names, *_packages()])}"
    )


def _packages() -> list[str]:
    """What may have been meant: the bundled plugins, and installed packages by their names."""
    bundled = [module.name for module in pkgutil.iter_modules(plugins.__path__) if module.ispkg]
    return [*bundled, *(module.name for module in pkgutil.iter_modules() if module.ispkg)]
