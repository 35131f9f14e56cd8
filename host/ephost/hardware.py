"""What this machine has, or the user says it has: CPU, GPUs and NPUs, as plugins are told of them.

Discovery reads ``/proc/cpuinfo`` and ``/sys/bus/pci`` on Linux, the registry's environment variables on
Windows, and ``sysctl`` on macOS. ``EPHOST_HARDWARE_DEVICES`` or :func:`set_hardware_devices` replace what it
finds, so that a plugin which takes only its own vendor's devices can be tried anywhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from ephost.errors import InvalidArgument
from ephost.reading import refuse_special
from ephost.records import Record, made_by, replaced

ENVIRONMENT_VARIABLE = "EPHOST_HARDWARE_DEVICES"
TYPES = {"CPU": 0, "GPU": 1, "NPU": 2}
VENDORS = {
    0x1002: "AMD",
    0x1022: "AMD",
    0x106B: "Apple",
    0x10DE: "NVIDIA",
    0x13B5: "ARM",
    0x1414: "Microsoft",
    0x14C0: "Qualcomm",
    0x17CB: "Qualcomm",
    0x1A03: "ASPEED",
    0x1AF4: "Red Hat",
    0x1D0F: "Amazon",
    0x8086: "Intel",
}
_CPU_VENDORS = {
    "GenuineIntel": (0x8086, "Intel"),
    "AuthenticAMD": (0x1022, "AMD"),
    "HygonGenuine": (0x1D94, "Hygon"),
    "0x41": (0x13B5, "ARM"),
    "0x51": (0x17CB, "Qualcomm"),
    "0x61": (0x106B, "Apple"),
    "0x4e": (0x10DE, "NVIDIA"),
    "0xc0": (0x1DEF, "Ampere"),
}


class HardwareDescription(Record, frozen=True):
    """One device: type (``CPU``, ``GPU`` or ``NPU``), PCI ids, vendor's name and free-form metadata."""

    type: str
    vendor: str = ""
    vendor_id: int = 0
    device_id: int = 0
    metadata: Mapping[str, str] = made_by(default_factory=dict)


def discover() -> list[HardwareDescription]:
    """The devices of this machine, the CPU first."""
    return [_cpu(), *_pci_devices("/sys/bus/pci/devices"), *_accel_devices("/sys/class/accel")]


def _cpu() -> HardwareDescription:
    if sys.platform == "win32":
        identifier = os.environ.get("PROCESSOR_IDENTIFIER", "")
        key = identifier.rsplit(", ", 1)[-1]
        name = identifier
    elif sys.platform == "darwin":
        name = _sysctl("machdep.cpu.brand_string")
        key = _sysctl("machdep.cpu.vendor") or ("0x61" if "Apple" in name else "")
    else:
        key, name = read_cpuinfo("/proc/cpuinfo")
    vendor_id, vendor = _CPU_VENDORS.get(key) or (0, key or _machine())
    return HardwareDescription("CPU", vendor, vendor_id, 0, {"Description": name} if name else {})


def _machine() -> str:
    import platform

    return platform.machine()


def _sysctl(name: str) -> str:
    import subprocess  # macOS alone needs it, and it takes a while to import

    try:
        result = subprocess.run(
            ["sysctl", "-n", name], capture_output=True, text=True, check=False, timeout=5
        )
    except OSError:
        return ""
    return result.stdout.strip()


def read_cpuinfo(path: str | os.PathLike[str]) -> tuple[str, str]:
    """(vendor key, model name) of the first processor in a file like /proc/cpuinfo; "" where it is silent."""
    vendor = name = ""
    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                key, value = key.strip(), value.strip()
                if key in ("vendor_id", "CPU implementer") and not vendor:
                    vendor = value
                elif key in ("model name", "Hardware") and not name:
                    name = value
                elif not line.strip() and vendor:
                    break
    except OSError:
        return "", ""
    return vendor, name


def _read_hex(*path: str) -> int | None:
    try:
        with open(os.path.join(*path), encoding="utf-8") as file:
            return int(file.read().strip(), 16)
    except (OSError, ValueError):
        return None


def _entries(*folder: str) -> list[str]:
    """The names in a folder, sorted; none where there is no such folder."""
    try:
        return sorted(os.listdir(os.path.join(*folder)))
    except OSError:
        return []


def _pci_devices(root: str) -> list[HardwareDescription]:
    """Display controllers (class 03) are GPUs, processing accelerators (class 12) are NPUs."""
    found = []
    for entry in _entries(root):
        pci_class, vendor_id, device_id = (_read_hex(root, entry, f) for f in ("class", "vendor", "device"))
        if pci_class is None or vendor_id is None or device_id is None:
            continue
        kind = {0x03: "GPU", 0x12: "NPU"}.get(pci_class >> 16)
        if kind is None:
            continue
        metadata = {"pci_bus_id": entry}
        if kind == "GPU":
            # Integrated GPUs sit on the root bus; discrete ones behind a bridge.
            metadata["Discrete"] = "0" if entry.split(":")[1] == "00" else "1"
        cards = [name for name in _entries(root, entry, "drm") if name.startswith("card")]
        if cards:
            metadata["card_idx"] = cards[0].removeprefix("card")
        found.append(HardwareDescription(kind, VENDORS.get(vendor_id, ""), vendor_id, device_id, metadata))
    return found


def _accel_devices(root: str) -> list[HardwareDescription]:
    """Compute accelerators of the kernel's accel class that the PCI classes do not show as such."""
    found = []
    for entry in _entries(root):
        device = os.path.join(root, entry, "device")
        pci_class = _read_hex(device, "class")
        if pci_class is not None and pci_class >> 16 == 0x12:
            continue  # found through PCI
        vendor_id, device_id = _read_hex(device, "vendor") or 0, _read_hex(device, "device") or 0
        found.append(
            HardwareDescription("NPU", VENDORS.get(vendor_id, ""), vendor_id, device_id, {"accel": entry})
        )
    return found


def from_environment() -> list[HardwareDescription] | None:
    """What the environment variable says, or None when it is not set.

    Raises:
        InvalidArgument: its text is no valid description of devices.
        Fail: it names a pipe or a device.
    """
    text = os.environ.get(ENVIRONMENT_VARIABLE, "").strip()
    if not text:
        return None
    where = ENVIRONMENT_VARIABLE
    if not text.startswith("["):
        where = f"{ENVIRONMENT_VARIABLE} ({text})"
        try:
            refuse_special(text, f"the file of {ENVIRONMENT_VARIABLE}")
            with open(text, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"{where} names a file that cannot be read: {error}") from error
    import json

    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{where} is no valid JSON: {error}") from error
    return parse(entries, where)


def parse(entries: Any, where: str = "set_hardware_devices") -> list[HardwareDescription]:
    """Check a list of dicts and fill in what is missing from the real device of that type.

    Raises:
        InvalidArgument: naming the entry and what is wrong with it.
    """
    if not isinstance(entries, Iterable) or isinstance(entries, (str, bytes, Mapping)):
        raise InvalidArgument(f"{where}: a list of devices is wanted, not {type(entries).__name__}")
    real: dict[str, HardwareDescription] = {}
    for description in discover():
        real.setdefault(description.type, description)
    return [_parse_entry(entry, f"{where}[{index}]", real) for index, entry in enumerate(entries)]


def _is_text(value: object) -> bool:
    """Whether it is a text as plugins get them: UTF-8 that ends with a NUL."""
    return isinstance(value, str) and "\0" not in value and value == value.encode("utf-8", "ignore").decode()


def _parse_entry(entry: Any, where: str, real: Mapping[str, HardwareDescription]) -> HardwareDescription:
    if isinstance(entry, HardwareDescription):
        return entry
    if not isinstance(entry, Mapping):
        raise InvalidArgument(f"{where}: a device is an object, not {type(entry).__name__}")
    if unknown := set(entry) - {"type", "vendor", "vendor_id", "device_id", "metadata"}:
        raise InvalidArgument(f"{where}: unknown field {sorted(unknown)[0]!r}")
    kind = entry.get("type")
    if kind not in TYPES:
        raise InvalidArgument(f"{where}.type: {kind!r} is none of {', '.join(TYPES)}")
    device = real.get(kind, HardwareDescription(kind))
    for name in ("vendor_id", "device_id"):
        if name in entry:
            number = entry[name]
            if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= 0xFFFFFFFF:
                raise InvalidArgument(f"{where}.{name}: {number!r} is no number from 0 to 4294967295")
            fields: dict[str, Any] = {name: number}
            device = replaced(device, **fields)
    if "vendor" in entry:
        if not _is_text(entry["vendor"]):
            raise InvalidArgument(f"{where}.vendor: {entry['vendor']!r} is no text")
        device = replaced(device, vendor=entry["vendor"])
    elif "vendor_id" in entry:
        device = replaced(device, vendor=VENDORS.get(device.vendor_id, ""))
    if "metadata" in entry:
        metadata = entry["metadata"]
        if not isinstance(metadata, Mapping) or not all(
            _is_text(k) and _is_text(v) for k, v in metadata.items()
        ):
            raise InvalidArgument(f"{where}.metadata: an object of texts is wanted")
        device = replaced(device, metadata=dict(metadata))
    return device
