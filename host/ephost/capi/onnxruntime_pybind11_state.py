"""What onnxruntime's native module has under this name: errors, enumerations, options, values, functions."""

from __future__ import annotations

from ephost._bindings import call
from ephost.about import (
    create_and_register_allocator,
    create_and_register_allocator_v2,
    disable_telemetry_events,
    enable_telemetry_events,
    get_all_providers,
    get_build_info,
    get_device,
    get_version_string,
    has_collective_ops,
    set_default_logger_verbosity,
    set_seed,
)
from ephost.adapters import LoraAdapter
from ephost.capi.blockwise import (
    quantize_matmul_2bits,
    quantize_matmul_4bits,
    quantize_matmul_8bits,
    quantize_matmul_bnb4,
    quantize_qdq_matmul_2bits,
    quantize_qdq_matmul_4bits,
)
from ephost.compatibility import (
    get_compatibility_info_from_model,
    get_compatibility_info_from_model_bytes,
    get_hardware_device_ep_incompatibility_details,
    get_model_compatibility_for_ep_devices,
)
from ephost.compiler import ModelCompiler, OrtExternalInitializerInfo
from ephost.context_data import OrtEpContextData, OrtEpContextDataBuffer
from ephost.devices import OrtArenaCfg, OrtDevice, OrtMemoryInfo, OrtSyncStream
from ephost.enums import (
    ArenaExtendStrategy,
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    ModelPackageWriteMode,
    OrtAllocatorType,
    OrtCompileApiFlags,
    OrtCompiledModelCompatibility,
    OrtDeviceEpIncompatibilityReason,
    OrtDeviceMemoryType,
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
    register_execution_provider_library,
    set_default_logger_severity,
    set_global_thread_pool_sizes,
    unregister_execution_provider_library,
)
from ephost.errors import (
    DeviceReset,
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoadCanceled,
    ModelLoaded,
    ModelRequiresCompilation,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,
    RuntimeException,
)
from ephost.io_binding import SessionIOBinding
from ephost.log_callback import set_default_logger_callback
from ephost.options import RunOptions, SessionOptions
from ephost.packages.authoring import ModelPackage
from ephost.packages.contexts import ModelPackageComponentContext, ModelPackageContext, ModelPackageOptions
from ephost.session import InferenceSession, ModelMetadata, NodeArg, OrtEpAssignedNode, OrtEpAssignedSubgraph
from ephost.sparse import SparseBlockSparseView, SparseCooView, SparseCsrView, SparseTensor
from ephost.value_vectors import OrtValueVector
from ephost.values import OrtValue, copy_tensors

kNextPowerOfTwo = ArenaExtendStrategy.kNextPowerOfTwo  # noqa: N816 - onnxruntime's name
kSameAsRequested = ArenaExtendStrategy.kSameAsRequested  # noqa: N816


def get_default_session_options() -> SessionOptions:
    """New options, as a session has them that is given none."""
    return SessionOptions()


def is_dlpack_uint8_tensor(capsule: object) -> bool:
    """Whether a DLPack capsule holds bytes, or booleans written as bytes. It can be taken afterwards."""
    found: bool = call.dlpack_is_uint8(capsule)
    return found


__all__ = [
    "ArenaExtendStrategy",
    "DeviceReset",
    "EPFail",
    "EngineError",
    "ExecutionMode",
    "ExecutionOrder",
    "Fail",
    "GraphOptimizationLevel",
    "InferenceSession",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "LoraAdapter",
    "ModelCompiler",
    "ModelLoadCanceled",
    "ModelLoaded",
    "ModelMetadata",
    "ModelPackage",
    "ModelPackageComponentContext",
    "ModelPackageContext",
    "ModelPackageOptions",
    "ModelPackageWriteMode",
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NodeArg",
    "NotFound",
    "NotImplemented",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtCompileApiFlags",
    "OrtCompiledModelCompatibility",
    "OrtDevice",
    "OrtDeviceEpIncompatibilityReason",
    "OrtDeviceMemoryType",
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
    "OrtValueVector",
    "RunOptions",
    "RuntimeException",
    "SessionIOBinding",
    "SessionOptions",
    "SparseBlockSparseView",
    "SparseCooView",
    "SparseCsrView",
    "SparseTensor",
    "copy_tensors",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_compatibility_info_from_model",
    "get_compatibility_info_from_model_bytes",
    "get_default_session_options",
    "get_device",
    "get_ep_devices",
    "get_hardware_device_ep_incompatibility_details",
    "get_hardware_devices",
    "get_model_compatibility_for_ep_devices",
    "get_version_string",
    "has_collective_ops",
    "is_dlpack_uint8_tensor",
    "kNextPowerOfTwo",
    "kSameAsRequested",
    "quantize_matmul_2bits",
    "quantize_matmul_4bits",
    "quantize_matmul_8bits",
    "quantize_matmul_bnb4",
    "quantize_qdq_matmul_2bits",
    "quantize_qdq_matmul_4bits",
    "register_execution_provider_library",
    "set_default_logger_callback",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
    "unregister_execution_provider_library",
]
