"""Whether compiled models, and hardware, fit what is registered: questions that plugins answer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ephost._bindings import api, check, ffi, lib, member, text
from ephost.enums import OrtCompiledModelCompatibility
from ephost.environment import OrtEpDevice, OrtHardwareDevice, registrations
from ephost.errors import InvalidArgument
from ephost.messages import ModelProto
from ephost.model.context import ask_compatibility
from ephost.model.load import parse
from ephost.model.partition import COMPATIBILITY_PREFIX
from ephost.providers import DEFAULT_PROVIDER


def get_model_compatibility_for_ep_devices(
    ep_devices: Sequence[OrtEpDevice], compatibility_info: str
) -> OrtCompiledModelCompatibility:
    """Whether a compiled model would run on devices, and how well.

    Args:
        ep_devices: devices of one execution provider.
        compatibility_info: what the model's metadata says, see :func:`get_compatibility_info_from_model`.

    Returns:
        EP_NOT_APPLICABLE when the plugin has no say, or does not know such information.

    Raises:
        InvalidArgument: no device, devices of several execution providers, or one whose library is gone.
    """
    devices = list(ep_devices)
    if not isinstance(compatibility_info, str):
        raise TypeError(f"the information of a model is a str, not {type(compatibility_info).__name__}")
    if not devices:
        raise InvalidArgument("there is no device to ask about")
    for device in devices:
        if not isinstance(device, OrtEpDevice):
            raise TypeError(f"devices are OrtEpDevices, not {type(device).__name__}")
        if not device.is_registered:
            raise InvalidArgument(f"the library of the device of {device.ep_name} is not registered any more")
        if device._factory != devices[0]._factory:
            raise InvalidArgument(
                f"the devices are of several execution providers: {devices[0].ep_name}, {device.ep_name}"
            )
    validate = member("OrtEpFactory", devices[0]._factory, "ValidateCompiledModelCompatibilityInfo")
    return ask_compatibility(validate, devices, compatibility_info)


def get_compatibility_info_from_model(model_path: str | os.PathLike[str], ep_type: str) -> str | None:
    """What a model's file says of the devices that an execution provider compiled it for.

    Args:
        model_path: the model's file.
        ep_type: the execution provider's name.

    Returns:
        The text to give to :func:`get_model_compatibility_for_ep_devices`; None when there is none.

    Raises:
        NoSuchFile, InvalidProtobuf, InvalidArgument: it is missing or no model.
    """
    return _info_of(parse(os.fspath(model_path))[0], ep_type)


def get_compatibility_info_from_model_bytes(
    model_data: bytes | bytearray | memoryview, ep_type: str
) -> str | None:
    """As :func:`get_compatibility_info_from_model`, of a model in memory."""
    return _info_of(parse(bytes(model_data))[0], ep_type)


def _info_of(proto: ModelProto, ep_name: str) -> str | None:
    key = COMPATIBILITY_PREFIX + ep_name
    return next((entry.value for entry in proto.metadata_props if entry.key == key), None)


def get_hardware_device_ep_incompatibility_details(ep_name: str, hw: OrtHardwareDevice) -> dict[str, Any]:
    """Why an execution provider cannot use a device.

    Args:
        ep_name: the execution provider's name.
        hw: from :func:`ephost.get_hardware_devices`, or the ``device`` of an OrtEpDevice.

    Returns:
        ``reasons_bitmask`` (``OrtDeviceEpIncompatibilityReason``; 0: nothing is known against it), ``notes``
        (None: there are none) and ``error_code`` (the plugin's own). Of the host's own CPU execution provider
        nothing is ever known, as in onnxruntime.

    Raises:
        InvalidArgument: no registered library has such an execution provider. One that offers no device is
            asked too.
    """
    if ep_name == DEFAULT_PROVIDER:
        return {"reasons_bitmask": 0, "notes": None, "error_code": 0}
    factory = next((f for r in registrations().values() for f in r.factories_of(ep_name)), None)
    if factory is None:
        raise InvalidArgument(f"No valid factory found for execution provider '{ep_name}'.")
    return incompatibility(factory, hw)


def incompatibility(factory: Any, hw: OrtHardwareDevice) -> dict[str, Any]:
    """What an ``OrtEpFactory*`` says against a device: see
    :func:`get_hardware_device_ep_incompatibility_details`.
    """
    ask = member("OrtEpFactory", factory, "GetHardwareDeviceIncompatibilityDetails")
    details = lib.ephost_incompatibility_details_new()
    if not details:
        raise MemoryError("no memory for the details of an incompatibility")
    try:
        if ask is not None:
            check(ask(factory, hw._pointer, details))
        reasons, notes, code = ffi.new("uint32_t*"), ffi.new("char**"), ffi.new("int32_t*")
        check(api.DeviceEpIncompatibilityDetails_GetReasonsBitmask(details, reasons))
        check(api.DeviceEpIncompatibilityDetails_GetNotes(details, notes))
        check(api.DeviceEpIncompatibilityDetails_GetErrorCode(details, code))
        return {
            "reasons_bitmask": int(reasons[0]),
            "notes": text(notes[0]) or None,
            "error_code": int(code[0]),
        }
    finally:
        api.ReleaseDeviceEpIncompatibilityDetails(details)
