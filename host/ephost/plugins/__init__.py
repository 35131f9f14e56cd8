"""The plugin execution providers that ship with ephost, one small package for each.

Every package has ``get_library_path()``, ``get_ep_name()`` and ``get_ep_names()``, which is what vendors'
packages have too. Nothing here loads a library: that is for ``ephost.register_execution_provider_library``.
"""

import os
import sys

__all__ = ["cuda", "sample_compiler", "sample_kernels"]


def _library_in(package_file: str, name: str, condition: str = "") -> str:
    """Path of the shared library ``name`` beside a package's ``__init__.py``.

    Args:
        package_file: the package's ``__file__``.
        name: the library's name without prefix and suffix.
        condition: a sentence on what it takes to be built, for those that not every build has.

    Returns:
        The absolute path.

    Raises:
        FileNotFoundError: the library was not built.
    """
    prefix, suffix = {"win32": ("", ".dll"), "darwin": ("lib", ".dylib")}.get(sys.platform, ("lib", ".so"))
    folder = os.path.dirname(os.path.realpath(package_file))
    file = f"{prefix}{name}{suffix}"
    path = os.path.join(folder, file)
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"the plugin library {file} is not in {folder}: it was not built. "
            f"{condition + ' ' if condition else ''}In a source checkout, run "
            f"'cmake -S . -B build -G Ninja -DEPHOST_INPLACE=ON && ninja -C build'; "
            f"an installed ephost brings it along, so reinstall that one."
        )
    return path
