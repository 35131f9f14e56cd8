"""A plugin EP for NVIDIA GPUs; its source is plugins/cuda.

The library needs nothing of NVIDIA's to load: without a driver or a GPU it offers no device, and
``ephost devices --ep cuda`` says why.
"""

from ephost.plugins import _library_in


def get_library_path() -> str:
    """Absolute path of the plugin library; FileNotFoundError when it was not built (no nvcc)."""
    return _library_in(
        __file__, "ephost_cuda", "It is built where CMake finds NVIDIA's nvcc and a C++ compiler."
    )


def get_ep_name() -> str:
    """The name of the execution provider, as ``OrtEpDevice.ep_name`` reports it."""
    return "cuda"


def get_ep_names() -> list[str]:
    """The names of all execution providers in the library: one."""
    return [get_ep_name()]
