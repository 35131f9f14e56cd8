"""What onnxruntime's Python module has under this name."""

from __future__ import annotations

from ephost.adapters import AdapterFormat
from ephost.compiler import ModelCompiler
from ephost.devices import OrtDevice, get_ort_device_type
from ephost.enums import OrtDeviceVendorId
from ephost.io_binding import IOBinding
from ephost.running import Session
from ephost.selection import check_and_normalize_provider_args
from ephost.session import InferenceSession
from ephost.sparse import SparseTensor
from ephost.values import OrtValue, copy_tensors

__all__ = [
    "AdapterFormat",
    "IOBinding",
    "InferenceSession",
    "ModelCompiler",
    "OrtDevice",
    "OrtDeviceVendorId",
    "OrtValue",
    "Session",
    "SparseTensor",
    "check_and_normalize_provider_args",
    "copy_tensors",
    "get_ort_device_type",
]
