"""The CPU plugin: compiles whole graphs for the processor; its source is plugins/cpu.

ephost registers it as ``CPUExecutionProvider`` when it is first needed. In onnxruntime, which has an
execution provider of that name, register it under :func:`get_ep_name`.
"""

from ephost.plugins import _library_in


def get_library_path() -> str:
    """Absolute path of the plugin library; FileNotFoundError when it was not built."""
    return _library_in(__file__, "cpu")


def get_ep_name() -> str:
    """The name to register the library under in other hosts: it is the execution provider's name, too."""
    return "EphostCPUExecutionProvider"


def get_ep_names() -> list[str]:
    """The names of all execution providers in the library: one."""
    return [get_ep_name()]
