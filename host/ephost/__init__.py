"""ephost: a Python host for ONNX Runtime's plugin execution providers, with onnxruntime's names.

import ephost as ort

ort.register_execution_provider_library("vendor", "libvendor_ep.so")
options = ort.SessionOptions()
options.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == "VendorEP"], {})
session = ort.InferenceSession("model.onnx", options)
outputs = session.run(None, {"x": array})
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ephost.environment import (
    OrtEpDevice,
    OrtHardwareDevice,
    get_available_providers,
    get_ep_devices,
    get_hardware_devices,
    register_execution_provider_library,
    set_default_logger_severity,
    set_hardware_devices,
    unregister_execution_provider_library,
)
from ephost.options import ExecutionMode, GraphOptimizationLevel, RunOptions, SessionOptions

if TYPE_CHECKING:
    from ephost.coverage import abi_coverage
    from ephost.explanation import Explanation, explain
    from ephost.session import (
        InferenceSession,
        ModelMetadata,
        NodeArg,
        OrtEpAssignedNode,
        OrtEpAssignedSubgraph,
    )
    from ephost.values import OrtValue

__version__ = "0.1.0"

# Imported when first asked for: most of it needs onnx, which takes longer to import than all the rest.
_LAZY = {
    "Explanation": "ephost.explanation",
    "abi_coverage": "ephost.coverage",
    "InferenceSession": "ephost.session",
    "ModelMetadata": "ephost.session",
    "NodeArg": "ephost.session",
    "OrtEpAssignedNode": "ephost.session",
    "OrtEpAssignedSubgraph": "ephost.session",
    "OrtValue": "ephost.values",
    "explain": "ephost.explanation",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = globals()[name] = getattr(import_module(_LAZY[name]), name)
        return value
    raise AttributeError(f"module 'ephost' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def _installed_or_source(name: str) -> str:
    installed = os.path.join(_PACKAGE, name)
    if os.path.isdir(installed):
        return installed
    return os.path.normpath(os.path.join(_PACKAGE, "..", "..", name))


def get_include() -> str:
    """The folder to compile plugins with: it holds ``ephost/ephost.h`` and ``ephost/plugin.h``."""
    return _installed_or_source("include")


def get_cmake_dir() -> str:
    """The folder for ``find_package(ephost)``: what ``ephost_DIR`` is set to."""
    return _installed_or_source("cmake")


__all__ = [
    "ExecutionMode",
    "Explanation",
    "GraphOptimizationLevel",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtEpAssignedNode",
    "OrtEpAssignedSubgraph",
    "OrtEpDevice",
    "OrtHardwareDevice",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "abi_coverage",
    "explain",
    "get_available_providers",
    "get_cmake_dir",
    "get_ep_devices",
    "get_hardware_devices",
    "get_include",
    "register_execution_provider_library",
    "set_default_logger_severity",
    "set_hardware_devices",
    "unregister_execution_provider_library",
]
