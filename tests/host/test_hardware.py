"""What a machine has, read from trees of files; what the user says it has; and that plugins see that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ephost
import pytest
from ephost import environment, hardware
from ephost.errors import InvalidArgument
from ephost.hardware import HardwareDescription
from ephost.plugins import sample_kernels

# ---- the CPU ----

INTEL = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model name\t: Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz

processor\t: 1
vendor_id\t: SecondOne
model name\t: another
"""
ARM = """processor\t: 0
BogoMIPS\t: 243.75
CPU implementer\t: 0x41
CPU architecture: 8
"""
RASPBERRY = "processor\t: 0\nHardware\t: BCM2835\nCPU implementer\t: 0x41\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (INTEL, ("GenuineIntel", "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz")),
        (ARM, ("0x41", "")),
        (RASPBERRY, ("0x41", "BCM2835")),
        ("vendor_id: AuthenticAMD", ("AuthenticAMD", "")),
        ("", ("", "")),
        ("no colon here\n\x00\xff", ("", "")),
    ],
)
def test_the_first_processor_says_who_made_it(text: str, found: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(text, encoding="latin-1")
    assert hardware.read_cpuinfo(file) == found


def test_a_machine_without_cpuinfo_says_nothing(tmp_path: Path) -> None:
    assert hardware.read_cpuinfo(tmp_path / "nothing") == ("", "")


def test_this_machine_has_a_cpu_first() -> None:
    found = hardware.discover()
    assert found[0].type == "CPU"
    assert [device.type for device in found].count("CPU") == 1
    assert found[0].vendor


# ---- PCI and accelerators ----


def pci(root: Path, name: str, **files: str) -> Path:
    entry = root / name
    entry.mkdir(parents=True)
    for file, text in files.items():
        (entry / file.rstrip("_")).write_text(text + "\n")
    return entry


def test_display_controllers_are_gpus_and_accelerators_npus(tmp_path: Path) -> None:
    pci(tmp_path, "0000:00:02.0", class_="0x030000", vendor="0x8086", device="0x46a6")
    nvidia = pci(tmp_path, "0000:01:00.0", class_="0x030200", vendor="0x10de", device="0x2684")
    (nvidia / "drm" / "card1").mkdir(parents=True)
    (nvidia / "drm" / "renderD128").mkdir()
    pci(tmp_path, "0000:02:00.0", class_="0x120000", vendor="0x1022", device="0x1502")
    pci(tmp_path, "0000:03:00.0", class_="0x020000", vendor="0x8086", device="0x15f3")  # a network card
    pci(tmp_path, "0000:04:00.0", class_="0x030000", vendor="0x9999", device="0x0001")
    assert hardware._pci_devices(tmp_path) == [
        HardwareDescription("GPU", "Intel", 0x8086, 0x46A6, {"pci_bus_id": "0000:00:02.0", "Discrete": "0"}),
        HardwareDescription(
            "GPU",
            "NVIDIA",
            0x10DE,
            0x2684,
            {"pci_bus_id": "0000:01:00.0", "Discrete": "1", "card_idx": "1"},
        ),
        HardwareDescription("NPU", "AMD", 0x1022, 0x1502, {"pci_bus_id": "0000:02:00.0"}),
        HardwareDescription("GPU", "", 0x9999, 1, {"pci_bus_id": "0000:04:00.0", "Discrete": "1"}),
    ]


def test_entries_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    pci(tmp_path, "0000:00:01.0", class_="0x030000", vendor="0x8086")  # no device
    pci(tmp_path, "0000:00:02.0", class_="garbage", vendor="0x8086", device="0x1")
    pci(tmp_path, "0000:00:03.0", class_="", vendor="", device="")
    assert hardware._pci_devices(tmp_path) == []
    assert hardware._pci_devices(tmp_path / "nothing") == []
    assert hardware._accel_devices(tmp_path / "nothing") == []


def test_an_accelerator_is_found_once(tmp_path: Path) -> None:
    """The kernel's accel class shows devices of PCI's class for accelerators again."""
    pci(tmp_path / "accel0", "device", class_="0x120000", vendor="0x8086", device="0x7d1d")
    pci(tmp_path / "accel1", "device", class_="0x048000", vendor="0x1da3", device="0x1020")
    assert hardware._accel_devices(tmp_path) == [
        HardwareDescription("NPU", "", 0x1DA3, 0x1020, {"accel": "accel1"})
    ]


# ---- what the user says ----

GPU = {"type": "GPU", "vendor": "Acme", "vendor_id": 0x1234, "device_id": 7, "metadata": {"speed": "fast"}}
DESCRIBED = HardwareDescription("GPU", "Acme", 0x1234, 7, {"speed": "fast"})


def test_the_environment_may_have_the_text_or_name_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(hardware.ENVIRONMENT_VARIABLE, raising=False)
    assert hardware.from_environment() is None
    monkeypatch.setenv(hardware.ENVIRONMENT_VARIABLE, "  ")
    assert hardware.from_environment() is None
    monkeypatch.setenv(hardware.ENVIRONMENT_VARIABLE, json.dumps([GPU]))
    assert hardware.from_environment() == [DESCRIBED]
    file = tmp_path / "devices.json"
    file.write_text(json.dumps([GPU, {"type": "CPU"}]))
    monkeypatch.setenv(hardware.ENVIRONMENT_VARIABLE, str(file))
    assert hardware.from_environment() == [DESCRIBED, hardware.discover()[0]]


def test_what_is_left_out_comes_from_the_real_device() -> None:
    real = hardware.discover()[0]
    (found,) = hardware.parse([{"type": "CPU", "device_id": 9}])
    assert found == HardwareDescription("CPU", real.vendor, real.vendor_id, 9, real.metadata)
    (found,) = hardware.parse([{"type": "CPU", "vendor_id": 0x8086}])
    assert (found.vendor, found.vendor_id) == ("Intel", 0x8086)  # not the real one's name with this number


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{]", "EPHOST_HARDWARE_DEVICES is no valid JSON"),
        ('[{"type": "TPU"}]', r"DEVICES\[0\]\.type: 'TPU' is none of CPU, GPU, NPU"),
        ("[{}]", r"DEVICES\[0\]\.type: None"),
        ('[{"type": "CPU"}, 3]', r"DEVICES\[1\]: a device is an object, not int"),
        ('[{"type": "CPU", "vendor_id": -1}]', r"DEVICES\[0\]\.vendor_id: -1"),
        ('[{"type": "CPU", "device_id": 4294967296}]', r"DEVICES\[0\]\.device_id: 4294967296"),
        ('[{"type": "CPU", "vendor_id": true}]', r"vendor_id: True"),
        ('[{"type": "CPU", "vendor_id": "0x8086"}]', r"vendor_id: '0x8086'"),
        ('[{"type": "CPU", "vendor": 3}]', r"vendor: 3 is no text"),
        ('[{"type": "CPU", "metadata": {"a": 1}}]', r"metadata: an object of texts"),
        ('[{"type": "CPU", "colour": "red"}]', r"unknown field 'colour'"),
        ("/no/such/file.json", r"\(/no/such/file.json\) names a file that cannot be read"),
        ('{"type": "CPU"}', "cannot be read"),
    ],
)
def test_what_makes_no_device_is_named(text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(hardware.ENVIRONMENT_VARIABLE, text)
    with pytest.raises(InvalidArgument, match=message):
        hardware.from_environment()


@pytest.mark.parametrize("entries", ["CPU", b"CPU", {"type": "CPU"}, 3, None])
def test_a_list_of_devices_is_wanted(entries: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"a list of devices is wanted"):
        hardware.parse(entries)


@pytest.fixture
def restored() -> Iterator[None]:
    """The devices that the other tests have."""
    yield
    ephost.set_hardware_devices(None)


@pytest.mark.usefixtures("restored")
def test_set_devices_are_those_that_are_read_back() -> None:
    ephost.set_hardware_devices([{"type": "CPU"}, GPU])
    cpu, gpu = ephost.get_hardware_devices()
    assert cpu.type == ephost.OrtHardwareDeviceType.CPU
    assert (gpu.type, gpu.vendor, gpu.vendor_id, gpu.device_id, gpu.metadata) == (
        ephost.OrtHardwareDeviceType.GPU,
        "Acme",
        0x1234,
        7,
        {"speed": "fast"},
    )
    with pytest.raises(InvalidArgument, match=r"\[1\]\.type"):
        ephost.set_hardware_devices([GPU, {"type": "TPU"}])
    assert len(ephost.get_hardware_devices()) == 2  # as before
    ephost.set_hardware_devices(None)
    assert [d.type.name for d in ephost.get_hardware_devices()] == [d.type for d in hardware.discover()]


@pytest.mark.usefixtures("restored")
def test_a_plugin_sees_what_the_user_named() -> None:
    from ephost.plugins import sample_kernels

    ephost.set_hardware_devices([GPU, {"type": "CPU", "vendor": "Made up", "vendor_id": 5, "device_id": 6}])
    ephost.register_execution_provider_library("kernels", sample_kernels.get_library_path())
    try:
        (found,) = [d for d in ephost.get_ep_devices() if d.registration_name == "kernels"]
        device = found.device
        assert (device.type, device.vendor, device.vendor_id, device.device_id) == (
            ephost.OrtHardwareDeviceType.CPU,
            "Made up",
            5,
            6,
        )
    finally:
        ephost.unregister_execution_provider_library("kernels")
    ephost.set_hardware_devices([GPU])
    ephost.register_execution_provider_library("kernels", sample_kernels.get_library_path())
    try:
        assert [d for d in ephost.get_ep_devices() if d.registration_name == "kernels"] == []
    finally:
        ephost.unregister_execution_provider_library("kernels")


def test_a_device_says_what_it_was_when_its_library_is_gone() -> None:
    ephost.register_execution_provider_library("goes", sample_kernels.get_library_path())
    (asked, other) = (found_of("goes") for _ in range(2))
    before = asked.ep_vendor, asked.ep_metadata, asked.ep_options, repr(asked.device), repr(asked)
    assert other is asked
    ephost.unregister_execution_provider_library("goes")
    ephost.register_execution_provider_library("goes", sample_kernels.get_library_path())
    late = found_of("goes")  # asked for nothing before it goes
    ephost.unregister_execution_provider_library("goes")
    for device in (asked, late):
        assert not device.is_registered
        told = device.ep_vendor, device.ep_metadata, device.ep_options, repr(device.device), repr(device)
        assert told == before
    assert before[1]["library_path"] == sample_kernels.get_library_path()


def test_devices_that_nobody_holds_are_not_asked_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(environment, "_Description", lambda pointer: asked.append(pointer))
    ephost.register_execution_provider_library("goes", sample_kernels.get_library_path())
    ephost.unregister_execution_provider_library("goes")
    assert not asked


def found_of(name: str) -> ephost.OrtEpDevice:
    """The only device of a registered library."""
    (found,) = (device for device in ephost.get_ep_devices() if device.registration_name == name)
    return found
