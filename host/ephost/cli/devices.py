"""``ephost devices``: the hardware, and what plugins offer on it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import click

from ephost.cli.output import reports_failures, say, show, show_json
from ephost.cli.plugins import Plugin, plugin_option
from ephost.enums import OrtDeviceEpIncompatibilityReason
from ephost.environment import (
    OrtHardwareDevice,
    Registration,
    default_registration,
    get_hardware_devices,
    registrations,
)
from ephost.errors import OnnxRuntimeException
from ephost.logs import PLUGIN_PREFIX
from ephost.tables import Table

_WITHOUT_BUNDLED = (
    "Without the bundled CPU plugin: what no other plugin claims runs on the reference fallback."
)


@dataclass
class _Device:
    ep_name: str
    ep_vendor: str
    metadata: dict[str, str]
    options: dict[str, str]
    hardware: dict[str, Any]


@dataclass
class _Refusal:
    """Why an execution provider does not use a device, in its own words."""

    ep_name: str
    hardware: int  # an index
    reasons: list[str]
    error_code: int
    notes: str


@dataclass
class _Library:
    name: str
    path: str
    eps: list[str] = field(default_factory=list)
    devices: list[_Device] = field(default_factory=list)
    refusals: list[_Refusal] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)  # that the plugin logged
    error: str | None = None


class _Messages(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def _hardware(device: OrtHardwareDevice) -> dict[str, Any]:
    return {
        "type": device.type.name,
        "vendor": device.vendor,
        "vendor_id": device.vendor_id,
        "device_id": device.device_id,
        "metadata": dict(device.metadata),
    }


def _examine(plugin: Plugin) -> _Library:
    library = _Library(plugin.name, plugin.path)
    handler = _Messages()
    logger = logging.getLogger(PLUGIN_PREFIX + plugin.name)
    logger.addHandler(handler)
    try:
        plugin.register()
    except (OnnxRuntimeException, OSError) as error:
        library.error = f"{type(error).__name__}: {error}"
        return library
    finally:
        logger.removeHandler(handler)
        library.messages = handler.texts
    return _offers(library, registrations()[plugin.name])


def _offers(library: _Library, registration: Registration) -> _Library:
    library.eps = registration.ep_names
    library.devices = [
        _Device(d.ep_name, d.ep_vendor, dict(d.ep_metadata), dict(d.ep_options), _hardware(d.device))
        for d in registration.ep_devices
    ]
    library.refusals = _refusals(registration)
    return library


def _bundled() -> list[_Library]:
    """The CPU plugin, which every session has without asking."""
    registration = default_registration()
    if registration is None:
        return []
    return [_offers(_Library(registration.name, registration.path), registration)]


def _refusals(registration: Registration) -> list[_Refusal]:
    """What the execution providers say against the devices that they do not offer."""
    from ephost.compatibility import incompatibility  # with its first use: it imports onnx

    refusals = []
    offered = {(d.ep_name, d.device._pointer) for d in registration.ep_devices}
    for ep_name in dict.fromkeys(registration.ep_names):
        for factory in registration.factories_of(ep_name):
            for index, device in enumerate(get_hardware_devices()):
                if (ep_name, device._pointer) in offered:
                    continue
                try:
                    said = incompatibility(factory, device)
                except OnnxRuntimeException as error:
                    refusals.append(_Refusal(ep_name, index, [], 0, f"it cannot say why: {error}"))
                    continue
                mask = said["reasons_bitmask"]
                reasons = [r.name for r in OrtDeviceEpIncompatibilityReason if int(r) & 0xFFFFFFFF & mask]
                if reasons or said["notes"]:
                    refusals.append(
                        _Refusal(ep_name, index, reasons, said["error_code"], said["notes"] or "")
                    )
    return refusals


def _pairs(pairs: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in pairs.items()) or "-"


def _name(hardware: Mapping[str, Any]) -> str:
    return f"{hardware['type']} {hardware['vendor']}".rstrip()


def _hardware_table(hardware: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("Hardware", ("type", "vendor", "vendor id", "device id", "metadata"))
    for h in hardware:
        ids = (f"{h['vendor_id']:#06x}", f"{h['device_id']:#06x}")
        table.rows.append((h["type"], h["vendor"] or "-", *ids, _pairs(h["metadata"])))
    return table


def _reasons(
    library: _Library, ep_name: str, hardware: Sequence[Mapping[str, Any]], kinds: Collection[str] = ()
) -> str:
    """A line for each reason that the execution provider gave, with the devices that it is about.

    Where ``kinds`` names any types of hardware, only devices of those.
    """
    about: dict[str, list[str]] = {}
    for refusal in library.refusals:
        if refusal.ep_name == ep_name and (not kinds or hardware[refusal.hardware]["type"] in kinds):
            why = refusal.notes or "no words for it"
            reasons = ", ".join(reason.replace("_", " ").lower() for reason in refusal.reasons)
            which = _name(hardware[refusal.hardware])
            about.setdefault(f"{why} ({reasons})" if reasons else why, []).append(which)
    return "".join(f"\n  {', '.join(dict.fromkeys(names))}: {why}" for why, names in about.items())


def _library_parts(library: _Library, hardware: Sequence[Mapping[str, Any]]) -> list[Table | str]:
    title = f"{library.name} ({library.path})"
    if library.error is not None:
        return [f"{title}\n  could not be registered: {library.error}"]
    parts: list[Table | str] = []
    if library.devices:
        table = Table(title, ("EP", "vendor", "version", "device", "metadata", "options"))
        for device in library.devices:
            version = device.metadata.get("version", "-")
            shown = {k: v for k, v in device.metadata.items() if k not in ("version", "library_path")}
            where = (_name(device.hardware), _pairs(shown), _pairs(device.options))
            table.rows.append((device.ep_name, device.ep_vendor, version, *where))
        parts.append(table)
        for name in dict.fromkeys(device.ep_name for device in library.devices):
            offered = {device.hardware["type"] for device in library.devices if device.ep_name == name}
            if others := _reasons(library, name, hardware, offered):
                parts.append(f"  {name} does not offer{others}")
    silent = [name for name in library.eps if name not in {device.ep_name for device in library.devices}]
    for name in silent:
        asked = ", ".join(_name(h) for h in hardware) or "nothing: this machine has no known hardware"
        said = _reasons(library, name, hardware)
        said += "".join(f"\n  it logged: {message}" for message in library.messages)
        said = said or "\n  it gave no reason and logged nothing; --log verbose may show more"
        head = f"{title}\n" if not library.devices else ""
        parts.append(
            f"{head}  {name} offers no device: its GetSupportedDevices picked none of: {asked}{said}"
        )
    return parts


@click.command()
@plugin_option
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.pass_context
@reports_failures
def devices(ctx: click.Context, plugins: Sequence[Plugin], as_json: bool) -> None:
    """Show this machine's hardware and the devices that plugins offer.

    The bundled CPU plugin comes first. Exit code 1 when a library could not be registered; one that offers no
    device is shown with the reason.
    """
    hardware = [_hardware(device) for device in get_hardware_devices()]
    bundled = _bundled()
    libraries = [*bundled, *(_examine(plugin) for plugin in plugins)]
    if as_json:
        show_json({"hardware": hardware, "libraries": [asdict(library) for library in libraries]})
    else:
        show(
            [
                _hardware_table(hardware),
                *([] if bundled else [_WITHOUT_BUNDLED]),
                *(part for lib in libraries for part in _library_parts(lib, hardware)),
            ]
        )
    failed = [library for library in libraries if library.error is not None]
    for library in failed:
        say(f"Error: {library.name}: {library.error}", err=True)
    if failed:
        ctx.exit(1)
