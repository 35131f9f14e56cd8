"""What the libraries that people name offer: which of their devices a session takes."""

from __future__ import annotations

import platform
from collections.abc import Mapping

from ephost.environment import OrtEpDevice, get_ep_devices
from ephost.errors import Fail
from ephost.options import SessionOptions


def add_offered(
    options: SessionOptions,
    name: str,
    where: str,
    provider_options: Mapping[str, str],
    wanted: Mapping[str, str] | None = None,
) -> None:
    """Give a session every execution provider that a registered library offers, in order.

    Args:
        options: the session's.
        name: what the library is registered as.
        where: what it was named by, for messages.
        provider_options: for each of its execution providers.
        wanted: what a device must be to be taken, of the keys "type" (CPU, GPU, NPU), "vendor", "ep_name" and
            those of its metadata; None: anything.

    Raises:
        Fail: it offers no such device here.
    """
    offered = [device for device in get_ep_devices() if device.registration_name == name]
    chosen = [device for device in offered if _matches(device, wanted or {})]
    if not chosen:
        asked = f" of {dict(wanted)}" if wanted else ""
        there = ", ".join(map(_described, offered)) or "none: `ephost devices` shows what it was asked about"
        raise Fail(
            f"the library '{name}' ({where}) offers no device{asked} on {platform.node()}; it offers {there}"
        )
    for ep_name in dict.fromkeys(device.ep_name for device in chosen):
        devices = [device for device in chosen if device.ep_name == ep_name]
        options.add_provider_for_devices(devices, dict(provider_options))


def _matches(device: OrtEpDevice, wanted: Mapping[str, str]) -> bool:
    facts = {**device.ep_metadata, **device.device.metadata}
    facts |= {"type": device.device.type.name, "vendor": device.ep_vendor, "ep_name": device.ep_name}
    return all(facts.get(key) == value for key, value in wanted.items())


def _described(device: OrtEpDevice) -> str:
    return f"{device.ep_name} on a {device.device.type.name} of {device.device.vendor or 'nobody'}"
