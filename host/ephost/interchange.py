"""Tensors of others: of other libraries on devices by DLPack, and what the CUDA array interface says; arrays
whose bytes are in another order than the machine's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ephost import environment
from ephost._bindings import all_dtypes, call
from ephost.devices import OrtDevice, cpu_device
from ephost.enums import OrtDeviceMemoryType, OrtDeviceVendorId
from ephost.errors import InvalidArgument, NotImplemented

# DLPack's types of device. An extension is a device whose meaning only those know who exchange its tensors.
CPU, CUDA, CUDA_HOST, ROCM, ROCM_HOST, EXTENSION, CUDA_MANAGED = 1, 2, 3, 10, 11, 12, 13
REACHABLE = {CPU, CUDA_HOST, ROCM_HOST}  # by the CPU
_GPU = 1
_OF_VENDOR = {int(OrtDeviceVendorId.NVIDIA): (CUDA, CUDA_HOST), int(OrtDeviceVendorId.AMD): (ROCM, ROCM_HOST)}


class Taken(NamedTuple):
    """A contiguous tensor of somebody else's."""

    device: OrtDevice
    address: int
    element_type: int  # the ABI's number
    shape: tuple[int, ...]
    owner: Any  # keeps the memory
    is_read_only: bool


def dlpack_device(device: OrtDevice) -> tuple[int, int]:
    """What DLPack calls a device: its type and number."""
    if device._is_cpu():
        return CPU, 0
    kind, memory_type, vendor, number = device._values
    on_device, on_host = _OF_VENDOR.get(vendor, (EXTENSION, CPU)) if kind == _GPU else (EXTENSION, CPU)
    if memory_type == OrtDeviceMemoryType.HOST_ACCESSIBLE:
        return on_host, 0 if on_host == CPU else number
    return on_device, number


def device_of(kind: int, number: int) -> OrtDevice:
    """The device that DLPack calls so.

    Raises:
        NotImplemented: no registered execution provider has memory on it, or it is not clear which one.
    """
    if kind in REACHABLE:
        return cpu_device()
    wanted = (CUDA if kind == CUDA_MANAGED else kind, number)
    found = {d: None for d in environment.memory_devices() if dlpack_device(OrtDevice(*d)) == wanted}
    if not found or (kind == EXTENSION and len(found) > 1):
        raise NotImplemented(
            f"from_dlpack of memory on DLPack's device {(kind, number)} is not implemented: "
            + (
                f"it may be any of {list(found)}"
                if found
                else "no registered execution provider has such memory"
            )
        )
    return OrtDevice(*next(iter(found)))


def give(value: Any, where: tuple[int, int], versioned: bool) -> Any:
    """A DLPack capsule of an OrtValue.

    Args:
        value: a tensor.
        where: what DLPack calls its device.
        versioned: whether the consumer knows version 1, which can say that a tensor is read-only.

    Raises:
        BufferError: it is over an array that is read-only, and the consumer does not know version 1.
        NotImplemented: DLPack has no type for its elements.
    """
    if value._is_read_only and not versioned:
        raise BufferError(
            f"{value!r} is over an array that is read-only, which DLPack before version 1 cannot say: ask "
            "for version 1 (max_version=(1, 0)), or take a copy"
        )
    try:
        return call.dlpack_export(value._address, value, *where, versioned, value._is_read_only)
    except BufferError:
        raise NotImplemented(f"{value.data_type()} has no DLPack form: take numpy()") from None


def take(data: Any) -> Taken:
    """The tensor of a DLPack capsule, or of an object with ``__dlpack__``, which is asked for one.

    Raises:
        BufferError: it is not contiguous, or ONNX has no type for its elements.
        NotImplemented: as :func:`device_of`.
    """
    capsule = data
    if not is_capsule(data):
        device = device_of(*map(int, data.__dlpack_device__()))  # before the producer is troubled
        try:
            capsule = data.__dlpack__(max_version=(1, 1))
        except TypeError:  # a producer that is older than versions
            capsule = data.__dlpack__()
    else:
        device = device_of(*call.dlpack_device(data))
    is_read_only = call.dlpack_is_read_only(capsule)
    address, element_type, shape, owner = call.dlpack_take(capsule)
    return Taken(device, address, element_type, shape, (owner, data), is_read_only)


def is_capsule(data: Any) -> bool:
    """Whether it is a raw capsule."""
    return type(data).__name__ == "PyCapsule"


def cuda_array(data: Any, device_id: int) -> Taken:
    """The array of an object with ``__cuda_array_interface__``.

    Raises:
        InvalidArgument: it is masked, not contiguous, or ONNX has no type for its elements.
    """
    described = data.__cuda_array_interface__
    dtype, shape = np.dtype(described["typestr"]), tuple(described["shape"])
    element_type = next((number for number, known in all_dtypes().items() if known == dtype), 0)
    strides = described.get("strides")
    contiguous = (
        strides is None
        or 0 in shape
        or all(
            size == 1 or given == wanted
            for size, given, wanted in zip(shape, strides, _strides(shape, dtype.itemsize), strict=True)
        )
    )
    if described.get("mask") is not None or not contiguous or not element_type:
        raise InvalidArgument(
            f"there is no tensor over a CUDA array of {dtype}, shape {shape}, strides {strides}"
            + (" and a mask" if described.get("mask") is not None else "")
        )
    device = OrtDevice(_GPU, 0, int(OrtDeviceVendorId.NVIDIA), device_id)
    address, is_read_only = described["data"]
    return Taken(device, int(address), element_type, shape, data, bool(is_read_only))


def _strides(shape: tuple[int, ...], itemsize: int) -> list[int]:
    strides = [itemsize] * len(shape)
    for at in range(len(shape) - 1, 0, -1):
        strides[at - 1] = strides[at] * shape[at]
    return strides


def in_native_order(value: Any) -> Any:
    """An array with its bytes in the machine's order, or those of a list or dict; itself where they are."""
    if isinstance(value, np.ndarray):
        return value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))
    if isinstance(value, (list, tuple)):
        return [in_native_order(item) for item in value]
    if isinstance(value, dict):
        return {key: in_native_order(item) for key, item in value.items()}
    return value
