"""The devices that the plugin offers, on this machine and on made-up ones."""

from __future__ import annotations

from typing import Any

import ephost
from ephost.checking.registry import check
from ephost.checking.subject import Subject
from ephost.checking.verdicts import Failure
from ephost.tables import printable

_OURS = ("ephost",)


@check("devices.offered", 1)
def _offered(subject: Subject) -> None:
    """It offers a device of this machine: the one that was asked for, if one was."""
    offered = subject.register()
    if subject.given.device and not subject.choose(offered):
        there = ", ".join(f"{at}: {d.ep_name} on {d.device.type.name}" for at, d in enumerate(offered))
        raise Failure(f"it offers no device called {subject.given.device!r}; it offers {there or 'none'}")
    if not offered:
        raise Failure(
            "it offers no device here, so that hardly anything was checked: where that is no fault, "
            "EPHOST_HARDWARE_DEVICES makes up hardware, or [expected] in a --config says why"
        )


@check("devices.named", 1, needs="devices")
def _named(subject: Subject) -> None:
    """Each device has the names of its execution provider and its vendor."""
    for device in subject.devices:
        for what, text in (("execution provider", device.ep_name), ("vendor", device.ep_vendor)):
            if not text:
                raise Failure(f"a device has no name of its {what}")
            if printable(text) != text:
                raise Failure(f"the name of its {what} has control characters: {text!r}")


@check("devices.name-is-a-word", 5, needs="devices")
def _name_is_a_word(subject: Subject) -> None:
    """The execution provider's name is one word, as options' keys (ep.NAME.key) need it."""
    name = subject.ep_name
    if not name.isascii() or any(letter.isspace() or letter in ".,=:/" for letter in name):
        subject.warn(f"the name {name!r} is not one plain word")
    if name in ("CPUExecutionProvider", "CUDAExecutionProvider", "TensorrtExecutionProvider"):
        raise Failure(f"the name {name} is one of the host's own")


@check("devices.metadata-is-text", 3, needs="devices")
def _metadata_is_text(subject: Subject) -> None:
    """Names and values of each device's metadata are texts that can be shown."""
    for device in subject.devices:
        for key, value in {**device.ep_metadata, **device.ep_options}.items():
            if not key or printable(key) != key or printable(value) != value:
                raise Failure(f"the metadata {key!r}: {value!r} has no name, or control characters")


@check("devices.version", 4, needs="devices")
def _version(subject: Subject) -> None:
    """The metadata tell the plugin's version."""
    found = dict(subject.devices[0].ep_metadata).get("version", "")
    if not any(letter.isdigit() for letter in found):
        subject.warn(f"its version is {found!r}: GetVersion of the factory should tell one such as 1.2.3")


@check("devices.same-each-time", 3, needs="devices")
def _same_each_time(subject: Subject) -> None:
    """Asked again, the host lists the same devices in the same order."""
    subject.stage("listing devices")
    first = [(d.ep_name, d.device.type) for d in subject.devices]
    again = [(d.ep_name, d.device.type) for d in subject.host.get_ep_devices()]
    if again[-len(first) :] != first and first != [pair for pair in again if pair in first]:
        raise Failure(f"the devices are {first}, and then {again}")


def _on(subject: Subject, devices: list[dict[str, Any]]) -> list[Any]:
    """What it offers on made-up hardware."""
    ephost.set_hardware_devices(devices)
    offered = subject.register()
    subject.unregister()
    return offered


@check("devices.none", 3, hosts=_OURS)
def _none(subject: Subject) -> None:
    """On a machine of which the host lists no device it registers, and offers none or virtual ones."""
    _on(subject, [])


@check("devices.no-cpu", 4, hosts=_OURS)
def _no_cpu(subject: Subject) -> None:
    """It registers where the host lists a GPU of no known vendor, and no CPU."""
    _on(subject, [{"type": "GPU", "vendor": "Nobody", "vendor_id": 0xABCD, "device_id": 7}])


@check("devices.every-kind", 4, hosts=_OURS)
def _every_kind(subject: Subject) -> None:
    """It registers on a machine with CPUs, GPUs and NPUs of many vendors that are not there."""
    vendors = {"Intel": 0x8086, "AMD": 0x1002, "NVIDIA": 0x10DE, "Qualcomm": 0x5143, "Google": 0x1AE0}
    _on(
        subject,
        [
            {"type": kind, "vendor": vendor, "vendor_id": number, "device_id": 1}
            for kind in ("CPU", "GPU", "NPU")
            for vendor, number in vendors.items()
        ],
    )


@check("devices.fifty", 5, hosts=_OURS)
def _fifty(subject: Subject) -> None:
    """It registers on a machine with fifty equal devices, more than the host has room for."""
    kind = {"type": "CPU", "vendor": "Many", "vendor_id": 1}
    wanted: list[dict[str, Any]] = [{**kind, "device_id": at} for at in range(50)]
    try:
        _on(subject, wanted)
    except Exception as error:
        subject.warn(f"it does not register: {error}")


@check("devices.strange-metadata", 5, hosts=_OURS)
def _strange_metadata(subject: Subject) -> None:
    """It registers where a device's vendor and metadata are empty, long, or not ASCII."""
    odd = {"empty": "", "long": "y" * 5000, "n\u00e4me": "\u4e2d\u6587", "pci_bus_id": "no number"}
    _on(subject, [{"type": "CPU", "vendor": "", "vendor_id": 0, "device_id": 0, "metadata": odd}])
    _on(subject, [{"type": "GPU", "vendor": "\u4e2d" * 300, "vendor_id": 2**32 - 1, "device_id": 2**32 - 1}])
