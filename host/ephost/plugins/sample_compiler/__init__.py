"""A plugin EP that compiles groups of elementwise operators; its source is plugins/sample_compiler."""

from ephost.plugins import _library_in


def get_library_path() -> str:
    """Absolute path of the plugin library; FileNotFoundError when it was not built."""
    return _library_in(__file__, "sample_compiler")


def get_ep_name() -> str:
    """The name of the execution provider, as ``OrtEpDevice.ep_name`` reports it."""
    return "sample_compiler"


def get_ep_names() -> list[str]:
    """The names of all execution providers in the library: one."""
    return [get_ep_name()]
