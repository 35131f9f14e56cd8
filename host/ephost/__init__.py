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

from ephost.collector import RestingCollector
from ephost.interrupted_start import end_quietly

end_quietly()
with RestingCollector():
    from ephost._bindings import VERSION as _VERSION
    from ephost.devices import OrtArenaCfg, OrtDevice, OrtMemoryInfo, OrtSyncStream
    from ephost.enums import (
        ExecutionMode,
        ExecutionOrder,
        GraphOptimizationLevel,
        ModelPackageWriteMode,
        OrtAllocatorType,
        OrtCompileApiFlags,
        OrtDeviceMemoryType,
        OrtDeviceVendorId,
        OrtExecutionProviderDevicePolicy,
        OrtHardwareDeviceType,
        OrtMemoryInfoDeviceType,
        OrtMemType,
        OrtSparseFormat,
    )
    from ephost.environment import (
        OrtEpDevice,
        OrtHardwareDevice,
        get_available_providers,
        get_ep_devices,
        get_hardware_devices,
        register_execution_provider_factory,
        register_execution_provider_library,
        set_default_logger_severity,
        set_global_thread_pool_sizes,
        set_hardware_devices,
        unregister_execution_provider_library,
    )
    from ephost.errors import FallbackWarning, PluginCrashed, PluginExited, PluginFault, PluginTimedOut
    from ephost.options import RunOptions, SessionOptions

if TYPE_CHECKING:
    from ephost.about import (
        create_and_register_allocator,
        create_and_register_allocator_v2,
        cuda_version,
        disable_telemetry_events,
        enable_telemetry_events,
        get_all_providers,
        get_build_info,
        get_device,
        get_version_string,
        has_collective_ops,
        package_name,
        preload_dlls,
        print_debug_info,
        set_default_logger_verbosity,
        set_seed,
        version,
    )
    from ephost.adapters import AdapterFormat, LoraAdapter
    from ephost.as_onnxruntime import install_as_onnxruntime
    from ephost.bisection.bisecting import Bisection, bisect
    from ephost.bisection.comparing import compare
    from ephost.compatibility import (
        get_compatibility_info_from_model,
        get_compatibility_info_from_model_bytes,
        get_hardware_device_ep_incompatibility_details,
        get_model_compatibility_for_ep_devices,
    )
    from ephost.compiler import ModelCompiler, OrtExternalInitializerInfo
    from ephost.context_data import OrtEpContextData, OrtEpContextDataBuffer
    from ephost.coverage import abi_coverage
    from ephost.explanation import Explanation, explain
    from ephost.io_binding import IOBinding, SessionIOBinding
    from ephost.log_callback import set_default_logger_callback
    from ephost.model.prepack import PrepackedWeightsContainer
    from ephost.packages.authoring import ModelPackage
    from ephost.packages.contexts import (
        ModelPackageComponentContext,
        ModelPackageContext,
        ModelPackageOptions,
    )
    from ephost.progress import OpeningProgress
    from ephost.selection import is_available, provider_options, set_default_providers
    from ephost.session import (
        InferenceSession,
        ModelMetadata,
        NodeArg,
        OrtEpAssignedNode,
        OrtEpAssignedSubgraph,
    )
    from ephost.sparse import SparseTensor
    from ephost.values import OrtValue, copy_tensors

__version__ = _VERSION
# Where onnxruntime keeps why its native module cannot be imported.
import_capi_exception: Exception | None = None

# Imported when first asked for: most of it needs onnx, which takes longer to import than all the rest.
_LAZY = {
    "AdapterFormat": "ephost.adapters",
    "Bisection": "ephost.bisection.bisecting",
    "Explanation": "ephost.explanation",
    "IOBinding": "ephost.io_binding",
    "InferenceSession": "ephost.session",
    "LoraAdapter": "ephost.adapters",
    "ModelCompiler": "ephost.compiler",
    "ModelMetadata": "ephost.session",
    "ModelPackage": "ephost.packages.authoring",
    "ModelPackageComponentContext": "ephost.packages.contexts",
    "ModelPackageContext": "ephost.packages.contexts",
    "ModelPackageOptions": "ephost.packages.contexts",
    "NodeArg": "ephost.session",
    "OrtEpAssignedNode": "ephost.session",
    "OrtEpAssignedSubgraph": "ephost.session",
    "OrtEpContextData": "ephost.context_data",
    "OrtEpContextDataBuffer": "ephost.context_data",
    "OpeningProgress": "ephost.progress",
    "OrtExternalInitializerInfo": "ephost.compiler",
    "OrtValue": "ephost.values",
    "PrepackedWeightsContainer": "ephost.model.prepack",
    "SessionIOBinding": "ephost.io_binding",
    "SparseTensor": "ephost.sparse",
    "abi_coverage": "ephost.coverage",
    "bisect": "ephost.bisection.bisecting",
    "compare": "ephost.bisection.comparing",
    "copy_tensors": "ephost.values",
    "create_and_register_allocator": "ephost.about",
    "create_and_register_allocator_v2": "ephost.about",
    "cuda_version": "ephost.about",
    "disable_telemetry_events": "ephost.about",
    "enable_telemetry_events": "ephost.about",
    "explain": "ephost.explanation",
    "get_all_providers": "ephost.about",
    "get_build_info": "ephost.about",
    "get_compatibility_info_from_model": "ephost.compatibility",
    "get_compatibility_info_from_model_bytes": "ephost.compatibility",
    "get_device": "ephost.about",
    "get_hardware_device_ep_incompatibility_details": "ephost.compatibility",
    "get_model_compatibility_for_ep_devices": "ephost.compatibility",
    "get_version_string": "ephost.about",
    "has_collective_ops": "ephost.about",
    "install_as_onnxruntime": "ephost.as_onnxruntime",
    "is_available": "ephost.selection",
    "package_name": "ephost.about",
    "preload_dlls": "ephost.about",
    "print_debug_info": "ephost.about",
    "provider_options": "ephost.selection",
    "set_default_logger_callback": "ephost.log_callback",
    "set_default_logger_verbosity": "ephost.about",
    "set_default_providers": "ephost.selection",
    "set_seed": "ephost.about",
    "version": "ephost.about",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        with RestingCollector():
            value = globals()[name] = getattr(import_module(_LAZY[name]), name)
        return value
    if name == "capi":  # An attribute of onnxruntime as soon as that is imported.
        return import_module("ephost.capi.onnxruntime_pybind11_state") and import_module("ephost.capi")
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
    "AdapterFormat",
    "Bisection",
    "ExecutionMode",
    "ExecutionOrder",
    "Explanation",
    "FallbackWarning",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "LoraAdapter",
    "ModelCompiler",
    "ModelMetadata",
    "ModelPackage",
    "ModelPackageComponentContext",
    "ModelPackageContext",
    "ModelPackageOptions",
    "ModelPackageWriteMode",
    "NodeArg",
    "OpeningProgress",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtCompileApiFlags",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtDeviceVendorId",
    "OrtEpAssignedNode",
    "OrtEpAssignedSubgraph",
    "OrtEpContextData",
    "OrtEpContextDataBuffer",
    "OrtEpDevice",
    "OrtExecutionProviderDevicePolicy",
    "OrtExternalInitializerInfo",
    "OrtHardwareDevice",
    "OrtHardwareDeviceType",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtMemoryInfoDeviceType",
    "OrtSparseFormat",
    "OrtSyncStream",
    "OrtValue",
    "PluginCrashed",
    "PluginExited",
    "PluginFault",
    "PluginTimedOut",
    "PrepackedWeightsContainer",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "SparseTensor",
    "abi_coverage",
    "bisect",
    "compare",
    "copy_tensors",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "cuda_version",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "explain",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_cmake_dir",
    "get_compatibility_info_from_model",
    "get_compatibility_info_from_model_bytes",
    "get_device",
    "get_ep_devices",
    "get_hardware_device_ep_incompatibility_details",
    "get_hardware_devices",
    "get_include",
    "get_model_compatibility_for_ep_devices",
    "get_version_string",
    "has_collective_ops",
    "install_as_onnxruntime",
    "is_available",
    "package_name",
    "preload_dlls",
    "print_debug_info",
    "provider_options",
    "register_execution_provider_factory",
    "register_execution_provider_library",
    "set_default_logger_callback",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_default_providers",
    "set_global_thread_pool_sizes",
    "set_hardware_devices",
    "set_seed",
    "unregister_execution_provider_library",
    "version",
]
