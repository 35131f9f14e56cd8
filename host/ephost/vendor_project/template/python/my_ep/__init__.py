"""The execution provider my_ep: where its library is, and what it is called.

An application hands the path to ``register_execution_provider_library`` of onnxruntime or ephost, and then
chooses among ``get_ep_devices()`` those of this name.
"""

from __future__ import annotations

import sys
from pathlib import Path

_NAMES = {"win32": "my_ep.dll", "darwin": "libmy_ep.dylib"}


def get_library_path() -> str:
    """Absolute path of the plugin library.

    Raises:
        FileNotFoundError: it is not there, because the package was not built.
    """
    name = _NAMES.get(sys.platform, "libmy_ep.so")
    for folder in __path__:  # after `pip install -e` the library is not beside this file
        path = Path(folder).resolve() / name
        if path.is_file():
            return str(path)
    raise FileNotFoundError(f"my_ep was not built: there is no {name} in {' or '.join(__path__)}")


def get_ep_name() -> str:
    """The execution provider's name, as ``OrtEpDevice.ep_name`` has it."""
    return "my_ep"


def get_ep_names() -> list[str]:
    """The names of all execution providers in the library: one."""
    return [get_ep_name()]
